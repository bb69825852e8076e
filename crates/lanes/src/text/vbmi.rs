//! AVX-512 VBMI: a shuffle selects from 64 bytes, which is the alphabet, or from 128, its reverse. A step has 48 bytes. Masks exclude the
//! bytes that a shorter step lacks, so that no length needs a loop over bytes.
//!
//! ```text
//! encode: spread       words of bytes b a c b, for each three bytes a b c
//!         separate     VPMULTISHIFTQB takes eight bits from any place: the six bits of each value, and two others
//!         translate    character = alphabet[value], a shuffle, which ignores the two others
//! decode: translate    value = reverse[character], a shuffle; a character above 127, or the value of an invalid one, has a top bit
//!         merge        a·2^6 + b in 16 bits, then ·2^12 in 32 (two multiply-adds)
//!         pack         three bytes of each word
//! ```

use std::arch::x86_64::*;

use leafseal_lanes_macros::compiled_for;

use super::frame::{SymmetricFrame, TextFrame};
use super::ssse3;
use super::steps::{self, Base64Steps, NonceText, entries};
use super::tables::{ALPHABET, VALUES};
use super::{NONCE_TEXT_SIZE, decoded_size, encoded_size};
use crate::cpu::{Vbmi, entry};
use crate::gcm::NONCE_SIZE;

/// The steps.
pub(super) struct VbmiSteps;

entries!(entry, Vbmi, VbmiSteps);

const STEP: usize = 48;

/// The second and first, then the third and second byte of every three.
const SPREAD: [u8; 64] = {
    let mut spread = [0; 64];
    let mut word = 0;
    while word < 16 {
        let first = 3 * word as u8;
        spread[4 * word] = first + 1;
        spread[4 * word + 1] = first;
        spread[4 * word + 2] = first + 2;
        spread[4 * word + 3] = first + 1;
        word += 1;
    }
    spread
};

/// The three lesser bytes of every word in reverse.
const PACK: [u8; 64] = {
    let mut pack = [0; 64];
    let mut i = 0;
    while i < STEP {
        pack[i] = (i / 3 * 4 + 2 - i % 3) as u8;
        i += 1;
    }
    pack
};

/// The first bit of each value in a spread word, and the same for the other word of a 64-bit lane.
const PLACES: i64 = 0x3036_242a_1016_040a;

#[inline]
#[compiled_for(Vbmi)]
fn load(table: &[u8; 64]) -> __m512i {
    // SAFETY: the table is as long as the unaligned load.
    unsafe { _mm512_loadu_si512(table.as_ptr().cast()) }
}

/// A mask of the first `size` bytes.
#[inline]
#[compiled_for(Vbmi)]
fn front(size: usize) -> u64 {
    _bzhi_u64(u64::MAX, size as u32)
}

/// Encodes the first 48 bytes as 64 characters.
#[inline]
#[compiled_for(Vbmi)]
fn encode_block(bytes: __m512i) -> __m512i {
    let spread = _mm512_permutexvar_epi8(load(&SPREAD), bytes);
    let values = _mm512_multishift_epi64_epi8(_mm512_set1_epi64(PLACES), spread);
    // A shuffle uses only six bits.
    _mm512_permutexvar_epi8(values, load(&ALPHABET))
}

/// Decodes 64 characters to 48 bytes. Returns whether all are base64.
#[inline]
#[compiled_for(Vbmi)]
fn decode_block(text: __m512i) -> (__m512i, bool) {
    let (low, high) = VALUES.split_at(64);
    let (low, high) = (low.first_chunk().expect("64 bytes"), high.first_chunk().expect("64 bytes"));
    let values = _mm512_permutex2var_epi8(load(low), text, load(high));
    // A shuffle uses seven bits, so the top bit of a character is tested together with that of its value.
    let is_right = _mm512_movepi8_mask(_mm512_or_si512(text, values)) == 0;
    let pairs = _mm512_maddubs_epi16(values, _mm512_set1_epi32(0x0140_0140));
    let words = _mm512_madd_epi16(pairs, _mm512_set1_epi32(0x0001_1000));
    (_mm512_permutexvar_epi8(load(&PACK), words), is_right)
}

/// Encodes a nonce as 16 characters.
#[inline]
#[compiled_for(Vbmi)]
fn nonce_block(nonce: &[u8; NONCE_SIZE]) -> __m128i {
    let (front, back) = nonce.split_at(8);
    let front = i64::from_le_bytes(front.try_into().expect("8 bytes"));
    let back = i32::from_le_bytes(back.try_into().expect("4 bytes"));
    let bytes = _mm_insert_epi32::<2>(_mm_cvtsi64_si128(front), back);
    let spread = _mm_shuffle_epi8(bytes, _mm512_castsi512_si128(load(&SPREAD)));
    let values = _mm_multishift_epi64_epi8(_mm_set1_epi64x(PLACES), spread);
    _mm512_castsi512_si128(_mm512_permutexvar_epi8(_mm512_castsi128_si512(values), load(&ALPHABET)))
}

/// Encodes up to a step.
///
/// # Safety
/// - `size` must be at most 48.
/// - `bytes` must be readable for `size` bytes.
/// - `out` must be writable for [`encoded_size`]`(size)` bytes.
#[inline]
#[compiled_for(Vbmi)]
unsafe fn encode_masked(bytes: *const u8, size: usize, out: *mut u8) {
    // SAFETY: the masks limit the load to `size` bytes and the store to their text.
    unsafe {
        let bytes = _mm512_maskz_loadu_epi8(front(size), bytes.cast());
        _mm512_mask_storeu_epi8(out.cast(), front(encoded_size(size)), encode_block(bytes));
    }
}

/// Decodes up to a step. Returns whether it is base64.
///
/// # Safety
/// - `size` must be at most 64 and have a [`decoded_size`].
/// - `text` must be readable for `size` bytes.
/// - `out` must be writable for [`decoded_size`]`(size)` bytes.
#[inline]
#[compiled_for(Vbmi)]
unsafe fn decode_masked(text: *const u8, size: usize, out: *mut u8) -> bool {
    // `A` has the value zero.
    let zeros = _mm512_set1_epi8(b'A' as i8);
    // SAFETY: the mask limits the load to `size` bytes.
    let (bytes, is_right) = decode_block(unsafe { _mm512_mask_loadu_epi8(zeros, front(size), text.cast()) });
    let kept = front(decoded_size(size).unwrap_or(0));
    // SAFETY: the mask limits the store to the decoded size.
    unsafe { _mm512_mask_storeu_epi8(out.cast(), kept, bytes) }
    // The bits after the last byte must be zero. Beyond 48 bytes the shuffle repeats its first one.
    is_right && _mm512_test_epi8_mask(bytes, bytes) & !kept & front(STEP) == 0
}

impl Base64Steps for VbmiSteps {
    type Cpu = Vbmi;
    const BYTES: usize = STEP;

    // SAFETY: the trait states what the caller must guarantee.
    #[inline(always)]
    unsafe fn encode_step(_: Vbmi, bytes: *const u8, out: *mut u8) {
        // SAFETY: the mask limits the load to the 48 bytes of a step, the store writes its 64 characters, and the token proves the
        // features.
        unsafe {
            let bytes = _mm512_maskz_loadu_epi8((1 << STEP) - 1, bytes.cast());
            _mm512_storeu_si512(out.cast(), encode_block(bytes));
        }
    }

    // SAFETY: the trait states what the caller must guarantee.
    #[inline(always)]
    unsafe fn encode_short(_: Vbmi, bytes: *const u8, size: usize, out: *mut u8) {
        // SAFETY: the obligations are the same, for less than a step; the token proves the features.
        unsafe { encode_masked(bytes, size, out) }
    }

    #[inline(always)]
    fn encode_nonce(_: Vbmi, nonce: &[u8; NONCE_SIZE], out: &mut NonceText) {
        // SAFETY: the text is as long as the store; the token proves the features.
        unsafe { _mm_storeu_si128(out.as_mut_ptr().cast(), nonce_block(nonce)) }
    }

    #[inline(always)]
    fn decode_nonce(cpu: Vbmi, text: &[u8; NONCE_TEXT_SIZE], out: &mut [u8; NONCE_SIZE]) -> bool {
        ssse3::Ssse3Steps::decode_nonce(cpu.into(), text, out)
    }

    // SAFETY: the trait states what the caller must guarantee.
    #[inline(always)]
    unsafe fn decode_step(_: Vbmi, text: *const u8, out: *mut u8) -> bool {
        // SAFETY: the load reads the 64 characters of a step, the mask limits the store to its 48 bytes, and the token proves the features.
        unsafe {
            let (bytes, is_right) = decode_block(_mm512_loadu_si512(text.cast()));
            _mm512_mask_storeu_epi8(out.cast(), (1 << STEP) - 1, bytes);
            is_right
        }
    }

    // SAFETY: the trait states what the caller must guarantee.
    #[inline(always)]
    unsafe fn decode_short(_: Vbmi, text: *const u8, size: usize, out: *mut u8) -> bool {
        // SAFETY: the obligations are the same, for less than a step; the token proves the features.
        unsafe { decode_masked(text, size, out) }
    }
}
