//! VAES and VPCLMULQDQ on 256-bit registers: two lanes. An operation is one instruction. Reading loads each lane's block with the
//! instructions of `aesni` and joins both; writing takes them apart.

use std::arch::x86_64::*;

use super::aesni::{LAST_ROTATED, Lane, from_halves, load, load_short, nonce_block, reverse, store_short};
use super::key::GcmKeyParts;
use super::prefixes::{self, XaesKeyParts, run_prefixes};
use super::run::run;
use super::short;
use super::vector::{Block, LANES_MAX, POLYVAL_REST, Vector, entries};
use super::{OpenItem, SealItem, XaesNonce, XaesOpenItem, XaesSealItem};
use crate::cpu::{AesNi, Vaes256};

/// Two blocks.
#[derive(Clone, Copy)]
pub(super) struct Lanes(__m256i);

/// Runs intrinsics that need only the features of a token.
macro_rules! with_token {
    ($intrinsics:expr) => {
        // SAFETY: a `Lanes` or the token in reach was only made on a CPU that has these instructions.
        unsafe { $intrinsics }
    };
}

entries!(Vaes256, Lanes);

impl Vector for Lanes {
    type Cpu = Vaes256;
    type Single = Lane;
    type SingleCpu = AesNi;
    const LANES: usize = 2;

    #[inline(always)]
    fn zero(_: Vaes256) -> Self {
        Self(with_token!(_mm256_setzero_si256()))
    }

    #[inline(always)]
    fn broadcast(_: Vaes256, block: &Block) -> Self {
        Self(with_token!(_mm256_broadcastsi128_si256(load(block))))
    }

    #[inline(always)]
    fn from_halves(_: Vaes256, halves: [[u64; 2]; LANES_MAX]) -> Self {
        Self(with_token!(_mm256_set_m128i(from_halves(halves[1]), from_halves(halves[0]))))
    }

    #[inline(always)]
    fn gather_nonces(_: Vaes256, [first, second, ..]: [&[u8; 12]; LANES_MAX]) -> Self {
        Self(with_token!(_mm256_set_m128i(nonce_block(second), nonce_block(first))))
    }

    #[inline(always)]
    fn load(_: Vaes256, blocks: &[Block]) -> Self {
        let blocks: &[Block; 2] = blocks.first_chunk().expect("a whole vector");
        // SAFETY: the array is as long as the unaligned load.
        Self(unsafe { _mm256_loadu_si256(blocks.as_ptr().cast()) })
    }

    #[inline(always)]
    fn store(self, blocks: &mut [Block]) {
        let blocks: &mut [Block; 2] = blocks.first_chunk_mut().expect("room for a whole vector");
        // SAFETY: the array is as long as the unaligned store.
        unsafe { _mm256_storeu_si256(blocks.as_mut_ptr().cast(), self.0) }
    }

    // SAFETY: the trait states what the caller must guarantee.
    #[inline(always)]
    unsafe fn gather(_: Vaes256, [first, second, ..]: [*const u8; LANES_MAX]) -> Self {
        // SAFETY: each pointer is readable for a block.
        Self(unsafe { _mm256_loadu2_m128i(second.cast(), first.cast()) })
    }

    // SAFETY: the trait states what the caller must guarantee.
    #[inline(always)]
    unsafe fn gather_short(_: Vaes256, [first, second, ..]: [*const u8; LANES_MAX], sizes: [usize; LANES_MAX]) -> Self {
        // SAFETY: each pointer is readable for as many bytes as its size, from 1 to 16.
        Self(unsafe { _mm256_set_m128i(load_short(second, sizes[1]), load_short(first, sizes[0])) })
    }

    // SAFETY: the trait states what the caller must guarantee.
    #[inline(always)]
    unsafe fn scatter(self, [first, second, ..]: [*mut u8; LANES_MAX]) {
        // SAFETY: each pointer is writable for a block.
        unsafe { _mm256_storeu2_m128i(second.cast(), first.cast(), self.0) }
    }

    // SAFETY: the trait states what the caller must guarantee.
    #[inline(always)]
    unsafe fn scatter_short(self, [first, second, ..]: [*mut u8; LANES_MAX], sizes: [usize; LANES_MAX]) {
        // SAFETY: each pointer is writable for as many bytes as its size, from 1 to 16.
        unsafe {
            store_short(_mm256_castsi256_si128(self.0), first, sizes[0]);
            store_short(_mm256_extracti128_si256::<1>(self.0), second, sizes[1]);
        }
    }

    #[inline(always)]
    fn zero_lanes(self) -> u8 {
        let equal = with_token!(_mm256_cmpeq_epi64(self.0, _mm256_setzero_si256()));
        let halves = with_token!(_mm256_movemask_pd(_mm256_castsi256_pd(equal))) as u8;
        u8::from(halves & 0b11 == 0b11) | u8::from(halves >> 2 == 0b11) << 1
    }

    #[inline(always)]
    fn keep_short(self, [first, second, ..]: [usize; LANES_MAX]) -> Self {
        Self(with_token!(_mm256_and_si256(
            self.0,
            _mm256_set_m128i(load(short::mask(second)), load(short::mask(first)))
        )))
    }

    #[inline(always)]
    fn xor(self, other: Self) -> Self {
        Self(with_token!(_mm256_xor_si256(self.0, other.0)))
    }

    #[inline(always)]
    fn add_bytes(self, other: Self) -> Self {
        Self(with_token!(_mm256_add_epi8(self.0, other.0)))
    }

    #[inline(always)]
    fn aes_round(self, key: Self) -> Self {
        Self(with_token!(_mm256_aesenc_epi128(self.0, key.0)))
    }

    #[inline(always)]
    fn aes_last_round(self, key: Self) -> Self {
        Self(with_token!(_mm256_aesenclast_epi128(self.0, key.0)))
    }

    #[inline(always)]
    fn reverse_bytes(self) -> Self {
        Self(with_token!(_mm256_shuffle_epi8(self.0, _mm256_broadcastsi128_si256(reverse()))))
    }

    #[inline(always)]
    fn swap_halves(self) -> Self {
        Self(with_token!(_mm256_shuffle_epi32::<0x4e>(self.0)))
    }

    #[inline(always)]
    fn move_up(self) -> Self {
        Self(with_token!(_mm256_slli_si256::<4>(self.0)))
    }

    #[inline(always)]
    fn move_down(self) -> Self {
        Self(with_token!(_mm256_srli_si256::<4>(self.0)))
    }

    #[inline(always)]
    fn running_sum(self) -> Self {
        let pairs = self.xor(self.move_up());
        pairs.xor(Self(with_token!(_mm256_slli_si256::<8>(pairs.0))))
    }

    #[inline(always)]
    fn last_word(self) -> Self {
        Self(with_token!(_mm256_shuffle_epi32::<0xff>(self.0)))
    }

    #[inline(always)]
    fn last_word_rotated(self) -> Self {
        Self(with_token!(_mm256_shuffle_epi8(self.0, _mm256_set1_epi32(LAST_ROTATED))))
    }

    #[inline(always)]
    fn double(self, cpu: Vaes256) -> Self {
        with_token!({
            let carries = _mm256_slli_si256::<8>(_mm256_srli_epi64::<63>(self.0));
            let leaves = _mm256_shuffle_epi32::<0xff>(_mm256_srai_epi32::<31>(self.0));
            let rest = _mm256_and_si256(leaves, Self::broadcast(cpu, &POLYVAL_REST).0);
            Self(_mm256_xor_si256(_mm256_or_si256(_mm256_add_epi64(self.0, self.0), carries), rest))
        })
    }

    #[inline(always)]
    fn multiply_low(self, other: Self) -> Self {
        Self(with_token!(_mm256_clmulepi64_epi128::<0x00>(self.0, other.0)))
    }

    #[inline(always)]
    fn multiply_high(self, other: Self) -> Self {
        Self(with_token!(_mm256_clmulepi64_epi128::<0x11>(self.0, other.0)))
    }
}
