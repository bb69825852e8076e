//! NEON: a look-up selects from 64 bytes, which is the alphabet, and two of them from its reverse. A step has 12 bytes, of which each three
//! are a 32-bit word.
//!
//! ```text
//! encode: spread       the three bytes of each word in reverse, and a zero
//!         separate     each six bits of a word to a byte, by shifts and masks
//!         translate    character = alphabet[value]
//! decode: translate    value = reverse[character], in two halves; a character above 127, or the value of an invalid one, has a top bit
//!         merge        the six bits of each byte into 24 bits of the word
//!         pack         three bytes of each word
//! ```

use std::arch::aarch64::*;

use leafseal_lanes_macros::compiled_for;

use super::blocks::block_steps;
use super::frame::{SymmetricFrame, TextFrame};
use super::steps::{self, Base64Steps, NonceText, entries};
use super::tables::{ALPHABET, NONE, VALUES};
use super::{NONCE_TEXT_SIZE, decoded_size, encoded_size};
use crate::cpu::{Neon, entry};
use crate::gcm::NONCE_SIZE;
use crate::short;

/// The steps.
pub(super) struct NeonSteps;

entries!(entry, Neon, NeonSteps);

/// Every three bytes in reverse, and a zero.
const SPREAD: [u8; 16] = [2, 1, 0, 255, 5, 4, 3, 255, 8, 7, 6, 255, 11, 10, 9, 255];
/// The three lesser bytes of every word in reverse, and four zeros.
const PACK: [u8; 16] = [2, 1, 0, 6, 5, 4, 10, 9, 8, 14, 13, 12, 255, 255, 255, 255];

/// Runs intrinsics that need only the features of a token.
macro_rules! with_token {
    ($intrinsics:expr) => {
        // SAFETY: the token in reach was only made on a CPU that has these instructions.
        unsafe { $intrinsics }
    };
}

#[inline]
#[compiled_for(Neon)]
fn load(block: &[u8; 16]) -> uint8x16_t {
    // SAFETY: a block is as long as the load.
    unsafe { vld1q_u8(block.as_ptr()) }
}

#[inline]
#[compiled_for(Neon)]
fn store(block: uint8x16_t, out: &mut NonceText) {
    // SAFETY: the text is as long as the store.
    unsafe { vst1q_u8(out.as_mut_ptr().cast(), block) }
}

#[inline]
#[compiled_for(Neon)]
fn table(bytes: &[u8; 64]) -> uint8x16x4_t {
    // SAFETY: the table is as long as the four loads.
    unsafe { vld1q_u8_x4(bytes.as_ptr()) }
}

#[inline]
#[compiled_for(Neon)]
fn from_halves([low, high]: [u64; 2]) -> uint8x16_t {
    vreinterpretq_u8_u64(vcombine_u64(vcreate_u64(low), vcreate_u64(high)))
}

#[inline]
#[compiled_for(Neon)]
fn halves(block: uint8x16_t) -> [u64; 2] {
    let block = vreinterpretq_u64_u8(block);
    [vgetq_lane_u64::<0>(block), vgetq_lane_u64::<1>(block)]
}

/// Encodes the first 12 bytes as 16 characters.
#[inline]
#[compiled_for(Neon)]
fn encode_block(bytes: uint8x16_t) -> uint8x16_t {
    let words = vreinterpretq_u32_u8(vqtbl1q_u8(bytes, load(&SPREAD)));
    let six = |bits, place: u32| vandq_u32(bits, vdupq_n_u32(63 << place));
    let values = vorrq_u32(
        vorrq_u32(vshrq_n_u32::<18>(words), six(vshrq_n_u32::<4>(words), 8)),
        vorrq_u32(six(vshlq_n_u32::<10>(words), 16), six(vshlq_n_u32::<24>(words), 24)),
    );
    vqtbl4q_u8(table(&ALPHABET), vreinterpretq_u8_u32(values))
}

/// Decodes 16 characters to 12 bytes and 4 zeros. Returns whether all are base64.
#[inline]
#[compiled_for(Neon)]
fn decode_block(text: uint8x16_t) -> (uint8x16_t, bool) {
    let (low, high) = VALUES.split_at(64);
    let (low, high) = (low.first_chunk().expect("64 bytes"), high.first_chunk().expect("64 bytes"));
    // Beyond its table the first look-up returns zero, and the second leaves the value of the first.
    let values = vqtbx4q_u8(vqtbl4q_u8(table(low), text), table(high), vsubq_u8(text, vdupq_n_u8(64)));
    let is_right = vmaxvq_u8(vorrq_u8(text, values)) < NONE;
    let values = vreinterpretq_u32_u8(values);
    let six = |bits, place: u32| vandq_u32(bits, vdupq_n_u32(63 << place));
    let words = vorrq_u32(
        vorrq_u32(six(vshlq_n_u32::<18>(values), 18), six(vshlq_n_u32::<4>(values), 12)),
        vorrq_u32(six(vshrq_n_u32::<10>(values), 6), vshrq_n_u32::<24>(values)),
    );
    (vqtbl1q_u8(vreinterpretq_u8_u32(words), load(&PACK)), is_right)
}

block_steps!(Neon, NeonSteps);
