//! Shuffles of 128-bit registers. A step has 12 bytes, of which each three are a 32-bit word of four characters.
//!
//! A shuffle looks up 16 bytes, and the alphabet has 64. But it has five rows without gaps (`A-Z`, `a-z`, `0-9`, `+`, `/`), in each of
//! which the difference between a character and its value is the same.
//!
//! ```text
//! encode: spread       words of bytes b a c b, for each three bytes a b c: the bits of two values are in each half
//!         separate     two multiplications by powers of two shift the values of each half into bytes
//!         translate    row from value (0 for a-z, 1 to 10 for digits, 11, 12, 13 for A-Z); character = value + difference[row]
//! decode: classify     by the upper four bits of a character; it is invalid if its lower four bits exclude the class
//!         translate    value = character + difference[upper bits]; `/` is distinguished from `+` by comparison
//!         merge        a·2^6 + b in 16 bits, then ·2^12 in 32 (two multiply-adds), then three bytes of each word
//! ```

use std::arch::x86_64::*;

use leafseal_lanes_macros::compiled_for;

use super::blocks::block_steps;
use super::frame::{SymmetricFrame, TextFrame};
use super::steps::{self, Base64Steps, NonceText, entries};
use super::tables::{ALPHABET, VALUES, shift};
use super::{NONCE_TEXT_SIZE, decoded_size, encoded_size};
use crate::cpu::{Ssse3, entry};
use crate::gcm::NONCE_SIZE;
use crate::short;

/// The steps.
pub(super) struct Ssse3Steps;

entries!(entry, Ssse3, Ssse3Steps);

/// Runs intrinsics that need only the features of a token.
macro_rules! with_token {
    ($intrinsics:expr) => {
        // SAFETY: the token in reach was only made on a CPU that has these instructions.
        unsafe { $intrinsics }
    };
}

/// The second and first, then the third and second byte of every three: both halves of a word then have the bits of two values.
pub(super) const SPREAD: [u8; 16] = [1, 0, 2, 1, 4, 3, 5, 4, 7, 6, 8, 7, 10, 9, 11, 10];
/// The three lesser bytes of every word in reverse.
pub(super) const PACK: [u8; 16] = [2, 1, 0, 6, 5, 4, 10, 9, 8, 14, 13, 12, 128, 128, 128, 128];

/// The difference between characters and values by the row of a value: 0 for `a-z`, 1 to 10 for the digits, 11 and 12 for the last
/// two, 13 for `A-Z`.
pub(super) const ROWS: [u8; 16] = {
    let mut rows = [0; 16];
    let mut value = 0;
    while value < ALPHABET.len() {
        let row = if value < 26 { 13 } else { (value as u8).saturating_sub(51) };
        rows[row as usize] = shift(ALPHABET[value]).wrapping_neg();
        value += 1;
    }
    rows
};

/// The class of a character by its upper four bits, as a bit: in one class, the same lower four bits make a character of base64. The class
/// 16 has none.
pub(super) const CLASSES: [u8; 16] = {
    let mut classes = [16; 16];
    (classes[2], classes[3], classes[4], classes[5], classes[6], classes[7]) = (1, 2, 4, 8, 4, 8);
    classes
};

/// The classes that the lower four bits of a character exclude.
pub(super) const EXCLUDED: [u8; 16] = {
    let mut excluded = [16; 16];
    let mut character = 0;
    while character < VALUES.len() {
        if VALUES[character] >= 64 {
            excluded[character & 15] |= CLASSES[character >> 4];
        }
        character += 1;
    }
    excluded
};

/// The difference between values and characters by the upper four bits of a character. `/`, whose row differs from that of `+`, has
/// index 1.
pub(super) const SHIFTS: [u8; 16] = {
    let mut shifts = [0; 16];
    shifts[1] = shift(b'/');
    shifts[2] = shift(b'+');
    shifts[3] = shift(b'0');
    (shifts[4], shifts[5]) = (shift(b'A'), shift(b'P'));
    (shifts[6], shifts[7]) = (shift(b'a'), shift(b'p'));
    shifts
};

#[inline]
#[compiled_for(Ssse3)]
fn load(block: &[u8; 16]) -> __m128i {
    // SAFETY: a block is as long as the unaligned load.
    unsafe { _mm_loadu_si128(block.as_ptr().cast()) }
}

#[inline]
#[compiled_for(Ssse3)]
fn store(block: __m128i, out: &mut NonceText) {
    // SAFETY: the text is as long as the unaligned store.
    unsafe { _mm_storeu_si128(out.as_mut_ptr().cast(), block) }
}

#[inline]
#[compiled_for(Ssse3)]
fn from_halves([low, high]: [u64; 2]) -> __m128i {
    _mm_set_epi64x(high as i64, low as i64)
}

#[inline]
#[compiled_for(Ssse3)]
fn halves(block: __m128i) -> [u64; 2] {
    [_mm_cvtsi128_si64(block) as u64, _mm_extract_epi64::<1>(block) as u64]
}

/// Encodes the first 12 bytes as 16 characters.
#[inline]
#[compiled_for(Ssse3)]
fn encode_block(bytes: __m128i) -> __m128i {
    let spread = _mm_shuffle_epi8(bytes, load(&SPREAD));
    // A product with a power of two is a shift; each half has its own.
    let even = _mm_mulhi_epu16(_mm_and_si128(spread, _mm_set1_epi32(0x0fc0_fc00)), _mm_set1_epi32(0x0400_0040));
    let odd = _mm_mullo_epi16(_mm_and_si128(spread, _mm_set1_epi32(0x003f_03f0)), _mm_set1_epi32(0x0100_0010));
    let values = _mm_or_si128(even, odd);
    let is_first = _mm_cmpgt_epi8(_mm_set1_epi8(26), values);
    let rows = _mm_or_si128(_mm_subs_epu8(values, _mm_set1_epi8(51)), _mm_and_si128(is_first, _mm_set1_epi8(13)));
    _mm_add_epi8(values, _mm_shuffle_epi8(load(&ROWS), rows))
}

/// Decodes 16 characters to 12 bytes and 4 zeros. Returns whether all are base64.
#[inline]
#[compiled_for(Ssse3)]
fn decode_block(text: __m128i) -> (__m128i, bool) {
    // The upper four bits alone: a shuffle returns zero where the top bit of an index is set.
    let upper = _mm_and_si128(_mm_srli_epi32::<4>(text), _mm_set1_epi8(15));
    let lower = _mm_and_si128(text, _mm_set1_epi8(15));
    let faults = _mm_and_si128(_mm_shuffle_epi8(load(&CLASSES), upper), _mm_shuffle_epi8(load(&EXCLUDED), lower));
    let is_slash = _mm_cmpeq_epi8(text, _mm_set1_epi8(b'/' as i8));
    let shifts = _mm_shuffle_epi8(load(&SHIFTS), _mm_add_epi8(upper, is_slash));
    let values = _mm_add_epi8(text, shifts);
    let pairs = _mm_maddubs_epi16(values, _mm_set1_epi32(0x0140_0140));
    let words = _mm_madd_epi16(pairs, _mm_set1_epi32(0x0001_1000));
    (_mm_shuffle_epi8(words, load(&PACK)), _mm_testz_si128(faults, faults) != 0)
}

block_steps!(Ssse3, Ssse3Steps);
