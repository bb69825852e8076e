//! The steps of `ssse3` on 256-bit registers: 24 bytes, half of them in each half of the register.
//!
//! ```text
//! encode: load bytes 0 to 15 and 8 to 23 into the halves, so that neither reads beyond the step
//!         spread, separate and translate as `ssse3` does, in both halves at once
//! decode: classify, translate and merge as `ssse3` does; each half then has 12 bytes in its first three words
//!         move the six words together and store 16 + 8 bytes
//! ```

use std::arch::x86_64::*;

use leafseal_lanes_macros::compiled_for;

use super::NONCE_TEXT_SIZE;
use super::frame::{SymmetricFrame, TextFrame};
use super::ssse3::{self, CLASSES, EXCLUDED, PACK, ROWS, SHIFTS, SPREAD};
use super::steps::{self, Base64Steps, NonceText, entries};
use crate::cpu::{Avx2, entry};
use crate::gcm::NONCE_SIZE;

/// The steps.
pub(super) struct Avx2Steps;

entries!(entry, Avx2, Avx2Steps);

/// The upper half has its bytes four places up, so that both can be loaded without a byte beyond a step.
const SPREAD_BOTH: [u8; 32] = {
    let mut both = [0; 32];
    let mut i = 0;
    while i < 16 {
        both[i] = SPREAD[i];
        both[16 + i] = SPREAD[i] + 4;
        i += 1;
    }
    both
};

#[inline]
#[compiled_for(Avx2)]
fn both(block: &[u8; 16]) -> __m256i {
    // SAFETY: a block is as long as the unaligned load.
    unsafe { _mm256_broadcastsi128_si256(_mm_loadu_si128(block.as_ptr().cast())) }
}

/// Encodes a step.
///
/// # Safety
/// - `bytes` must be readable for 24 bytes.
/// - `out` must be writable for 32 bytes.
#[inline]
#[compiled_for(Avx2)]
unsafe fn encode_block(bytes: *const u8, out: *mut u8) {
    // SAFETY: the loads read bytes 0 to 15 and 8 to 23 of 24; the table is as long as its load.
    let (bytes, spread) = unsafe {
        let front = _mm_loadu_si128(bytes.cast());
        let bytes = _mm256_inserti128_si256::<1>(_mm256_castsi128_si256(front), _mm_loadu_si128(bytes.add(8).cast()));
        (bytes, _mm256_loadu_si256(SPREAD_BOTH.as_ptr().cast()))
    };
    let spread = _mm256_shuffle_epi8(bytes, spread);
    let even = _mm256_and_si256(spread, _mm256_set1_epi32(0x0fc0_fc00));
    let odd = _mm256_and_si256(spread, _mm256_set1_epi32(0x003f_03f0));
    let even = _mm256_mulhi_epu16(even, _mm256_set1_epi32(0x0400_0040));
    let values = _mm256_or_si256(even, _mm256_mullo_epi16(odd, _mm256_set1_epi32(0x0100_0010)));
    let is_first = _mm256_cmpgt_epi8(_mm256_set1_epi8(26), values);
    let rows = _mm256_subs_epu8(values, _mm256_set1_epi8(51));
    let rows = _mm256_or_si256(rows, _mm256_and_si256(is_first, _mm256_set1_epi8(13)));
    let text = _mm256_add_epi8(values, _mm256_shuffle_epi8(both(&ROWS), rows));
    // SAFETY: `out` is writable for the 32 bytes of the store.
    unsafe { _mm256_storeu_si256(out.cast(), text) }
}

/// Decodes a step. Returns whether it is base64.
///
/// # Safety
/// - `text` must be readable for 32 bytes.
/// - `out` must be writable for 24 bytes.
#[inline]
#[compiled_for(Avx2)]
unsafe fn decode_block(text: *const u8, out: *mut u8) -> bool {
    // SAFETY: `text` is readable for the 32 bytes of the load.
    let text = unsafe { _mm256_loadu_si256(text.cast()) };
    let upper = _mm256_and_si256(_mm256_srli_epi32::<4>(text), _mm256_set1_epi8(15));
    let lower = _mm256_and_si256(text, _mm256_set1_epi8(15));
    let excluded = _mm256_shuffle_epi8(both(&EXCLUDED), lower);
    let faults = _mm256_and_si256(_mm256_shuffle_epi8(both(&CLASSES), upper), excluded);
    let is_slash = _mm256_cmpeq_epi8(text, _mm256_set1_epi8(b'/' as i8));
    let shifts = _mm256_shuffle_epi8(both(&SHIFTS), _mm256_add_epi8(upper, is_slash));
    let values = _mm256_add_epi8(text, shifts);
    let pairs = _mm256_maddubs_epi16(values, _mm256_set1_epi32(0x0140_0140));
    let words = _mm256_madd_epi16(pairs, _mm256_set1_epi32(0x0001_1000));
    let packed = _mm256_shuffle_epi8(words, both(&PACK));
    // Three words of each half.
    let bytes = _mm256_permutevar8x32_epi32(packed, _mm256_setr_epi32(0, 1, 2, 4, 5, 6, 3, 7));
    // SAFETY: the stores write 16 bytes and 8 more, for which `out` is writable.
    unsafe {
        _mm_storeu_si128(out.cast(), _mm256_castsi256_si128(bytes));
        _mm_storel_epi64(out.add(16).cast(), _mm256_extracti128_si256::<1>(bytes));
    }
    _mm256_testz_si256(faults, faults) != 0
}

impl Base64Steps for Avx2Steps {
    type Cpu = Avx2;
    const BYTES: usize = 24;

    // SAFETY: the trait states what the caller must guarantee.
    #[inline(always)]
    unsafe fn encode_step(_: Avx2, bytes: *const u8, out: *mut u8) {
        // SAFETY: a step is 24 bytes and 32 characters; the token proves the features.
        unsafe { encode_block(bytes, out) }
    }

    // SAFETY: the trait states what the caller must guarantee.
    #[inline(always)]
    unsafe fn encode_short(cpu: Avx2, bytes: *const u8, size: usize, out: *mut u8) {
        // SAFETY: `bytes` is readable for `size` bytes, and `out` writable for their text.
        unsafe { steps::encode_to::<ssse3::Ssse3Steps>(cpu.into(), std::slice::from_raw_parts(bytes, size), out) }
    }

    #[inline(always)]
    fn encode_nonce(cpu: Avx2, nonce: &[u8; NONCE_SIZE], out: &mut NonceText) {
        ssse3::Ssse3Steps::encode_nonce(cpu.into(), nonce, out);
    }

    #[inline(always)]
    fn decode_nonce(cpu: Avx2, text: &[u8; NONCE_TEXT_SIZE], out: &mut [u8; NONCE_SIZE]) -> bool {
        ssse3::Ssse3Steps::decode_nonce(cpu.into(), text, out)
    }

    // SAFETY: the trait states what the caller must guarantee.
    #[inline(always)]
    unsafe fn decode_step(_: Avx2, text: *const u8, out: *mut u8) -> bool {
        // SAFETY: a step is 32 characters and 24 bytes; the token proves the features.
        unsafe { decode_block(text, out) }
    }

    // SAFETY: the trait states what the caller must guarantee.
    #[inline(always)]
    unsafe fn decode_short(cpu: Avx2, text: *const u8, size: usize, out: *mut u8) -> bool {
        // SAFETY: `text` is readable for `size` bytes, which have a decoded size, and `out` is writable for it.
        unsafe { steps::decode_to::<ssse3::Ssse3Steps>(cpu.into(), std::slice::from_raw_parts(text, size), out) }
    }
}
