//! AES-NI and PCLMULQDQ on 128-bit registers: one lane. An operation is one instruction; reading and writing are loads and stores.

use std::arch::x86_64::*;

use leafseal_lanes_macros::compiled_for;

use super::key::GcmKeyParts;
use super::prefixes::{self, XaesKeyParts, run_prefixes};
use super::run::run;
use super::short;
use super::vector::{Block, LANES_MAX, POLYVAL_REST, Vector, entries};
use super::{OpenItem, SealItem, XaesNonce, XaesOpenItem, XaesSealItem};
use crate::cpu::AesNi;

/// One block.
#[derive(Clone, Copy)]
pub(super) struct Lane(__m128i);

/// The places of the last word's bytes, rotated down by one, for a shuffle of bytes.
pub(super) const LAST_ROTATED: i32 = i32::from_le_bytes([13, 14, 15, 12]);

entries!(AesNi, Lane);

/// Runs intrinsics that need only the features of a token.
macro_rules! with_token {
    ($intrinsics:expr) => {
        // SAFETY: a `Lane` or the token in reach was only made on a CPU that has these instructions.
        unsafe { $intrinsics }
    };
}

impl Vector for Lane {
    type Cpu = AesNi;
    type Single = Self;
    type SingleCpu = AesNi;
    const LANES: usize = 1;

    #[inline(always)]
    fn zero(_: AesNi) -> Self {
        Self(with_token!(_mm_setzero_si128()))
    }

    #[inline(always)]
    fn broadcast(_: AesNi, block: &Block) -> Self {
        Self(with_token!(load(block)))
    }

    #[inline(always)]
    fn from_halves(_: AesNi, [only, ..]: [[u64; 2]; LANES_MAX]) -> Self {
        Self(with_token!(from_halves(only)))
    }

    #[inline(always)]
    fn gather_nonces(_: AesNi, [only, ..]: [&[u8; 12]; LANES_MAX]) -> Self {
        Self(with_token!(nonce_block(only)))
    }

    #[inline(always)]
    fn load(_: AesNi, blocks: &[Block]) -> Self {
        Self(with_token!(load(&blocks[0])))
    }

    #[inline(always)]
    fn store(self, blocks: &mut [Block]) {
        // SAFETY: a block is as long as the unaligned store.
        unsafe { _mm_storeu_si128(blocks[0].as_mut_ptr().cast(), self.0) }
    }

    // SAFETY: the trait states what the caller must guarantee.
    #[inline(always)]
    unsafe fn gather(_: AesNi, [only, ..]: [*const u8; LANES_MAX]) -> Self {
        // SAFETY: the pointer is readable for a block.
        Self(unsafe { _mm_loadu_si128(only.cast()) })
    }

    // SAFETY: the trait states what the caller must guarantee.
    #[inline(always)]
    unsafe fn gather_short(_: AesNi, [only, ..]: [*const u8; LANES_MAX], [size, ..]: [usize; LANES_MAX]) -> Self {
        // SAFETY: the pointer is readable for as many bytes as the size, from 1 to 16.
        Self(unsafe { load_short(only, size) })
    }

    // SAFETY: the trait states what the caller must guarantee.
    #[inline(always)]
    unsafe fn scatter(self, [only, ..]: [*mut u8; LANES_MAX]) {
        // SAFETY: the pointer is writable for a block.
        unsafe { _mm_storeu_si128(only.cast(), self.0) }
    }

    // SAFETY: the trait states what the caller must guarantee.
    #[inline(always)]
    unsafe fn scatter_short(self, [only, ..]: [*mut u8; LANES_MAX], [size, ..]: [usize; LANES_MAX]) {
        // SAFETY: the pointer is writable for as many bytes as the size, from 1 to 16.
        unsafe { store_short(self.0, only, size) }
    }

    #[inline(always)]
    fn keep_short(self, [size, ..]: [usize; LANES_MAX]) -> Self {
        Self(with_token!(_mm_and_si128(self.0, load(short::mask(size)))))
    }

    #[inline(always)]
    fn xor(self, other: Self) -> Self {
        Self(with_token!(_mm_xor_si128(self.0, other.0)))
    }

    #[inline(always)]
    fn add_bytes(self, other: Self) -> Self {
        Self(with_token!(_mm_add_epi8(self.0, other.0)))
    }

    #[inline(always)]
    fn aes_round(self, key: Self) -> Self {
        Self(with_token!(_mm_aesenc_si128(self.0, key.0)))
    }

    #[inline(always)]
    fn aes_last_round(self, key: Self) -> Self {
        Self(with_token!(_mm_aesenclast_si128(self.0, key.0)))
    }

    #[inline(always)]
    fn reverse_bytes(self) -> Self {
        Self(with_token!(_mm_shuffle_epi8(self.0, reverse())))
    }

    #[inline(always)]
    fn swap_halves(self) -> Self {
        Self(with_token!(_mm_shuffle_epi32::<0x4e>(self.0)))
    }

    #[inline(always)]
    fn move_up(self) -> Self {
        Self(with_token!(_mm_slli_si128::<4>(self.0)))
    }

    #[inline(always)]
    fn move_down(self) -> Self {
        Self(with_token!(_mm_srli_si128::<4>(self.0)))
    }

    #[inline(always)]
    fn running_sum(self) -> Self {
        let pairs = self.xor(self.move_up());
        pairs.xor(Self(with_token!(_mm_slli_si128::<8>(pairs.0))))
    }

    #[inline(always)]
    fn last_word(self) -> Self {
        Self(with_token!(_mm_shuffle_epi32::<0xff>(self.0)))
    }

    #[inline(always)]
    fn last_word_rotated(self) -> Self {
        Self(with_token!(_mm_shuffle_epi8(self.0, _mm_set1_epi32(LAST_ROTATED))))
    }

    #[inline(always)]
    fn double(self, cpu: AesNi) -> Self {
        with_token!({
            let carries = _mm_slli_si128::<8>(_mm_srli_epi64::<63>(self.0));
            let leaves = Self(_mm_shuffle_epi32::<0xff>(_mm_srai_epi32::<31>(self.0)));
            let rest = _mm_and_si128(leaves.0, Self::broadcast(cpu, &POLYVAL_REST).0);
            Self(_mm_xor_si128(_mm_or_si128(_mm_add_epi64(self.0, self.0), carries), rest))
        })
    }

    #[inline(always)]
    fn multiply_low(self, other: Self) -> Self {
        Self(with_token!(_mm_clmulepi64_si128::<0x00>(self.0, other.0)))
    }

    #[inline(always)]
    fn multiply_high(self, other: Self) -> Self {
        Self(with_token!(_mm_clmulepi64_si128::<0x11>(self.0, other.0)))
    }

    #[inline(always)]
    fn zero_lanes(self) -> u8 {
        with_token!(_mm_testz_si128(self.0, self.0)) as u8
    }
}

#[inline]
#[compiled_for(AesNi)]
pub(super) fn load(block: &Block) -> __m128i {
    // SAFETY: a block is as long as the unaligned load.
    unsafe { _mm_loadu_si128(block.as_ptr().cast()) }
}

/// The order that reverses the bytes of a block.
#[inline]
#[compiled_for(AesNi)]
pub(super) fn reverse() -> __m128i {
    _mm_set_epi8(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15)
}

#[inline]
#[compiled_for(AesNi)]
pub(super) fn from_halves([low, high]: [u64; 2]) -> __m128i {
    _mm_set_epi64x(high as i64, low as i64)
}

/// The nonce followed by zeros, without a detour through memory: a store of 12 bytes delays a load of 16.
#[inline]
#[compiled_for(AesNi)]
pub(super) fn nonce_block(nonce: &[u8; 12]) -> __m128i {
    let (front, back) = nonce.split_at(8);
    let front = i64::from_le_bytes(front.try_into().expect("8 bytes"));
    let back = i32::from_le_bytes(back.try_into().expect("4 bytes"));
    _mm_insert_epi32::<2>(_mm_cvtsi64_si128(front), back)
}

/// Reads the first bytes of a block; the others are zeros.
///
/// # Safety
/// - `size` must be from 1 to 16.
/// - `bytes` must be readable for `size` bytes.
#[inline]
#[compiled_for(AesNi)]
pub(super) unsafe fn load_short(bytes: *const u8, size: usize) -> __m128i {
    // SAFETY: the same obligations.
    from_halves(unsafe { short::load(bytes, size) })
}

/// Writes the first bytes of a block.
///
/// # Safety
/// - `size` must be from 1 to 16.
/// - `out` must be writable for `size` bytes.
#[inline]
#[compiled_for(AesNi)]
pub(super) unsafe fn store_short(block: __m128i, out: *mut u8, size: usize) {
    let halves = [_mm_cvtsi128_si64(block) as u64, _mm_extract_epi64::<1>(block) as u64];
    // SAFETY: the same obligations.
    unsafe { short::store(halves, out, size) }
}
