//! The AES and PMULL instructions of the ARMv8 cryptographic extension: one lane. AESE adds its key first and mixes no columns, so a round
//! is AESE with a key of zeros, AESMC, and an exclusive or with the round's key.

use std::arch::aarch64::*;

use leafseal_lanes_macros::compiled_for;

use super::key::GcmKeyParts;
use super::prefixes::{self, XaesKeyParts, run_prefixes};
use super::run::run;
use super::short;
use super::vector::{Block, LANES_MAX, POLYVAL_REST, Vector, entries};
use super::{OpenItem, SealItem, XaesNonce, XaesOpenItem, XaesSealItem};
use crate::cpu::Armv8;

/// One block.
#[derive(Clone, Copy)]
pub(super) struct Lane(uint8x16_t);

entries!(Armv8, Lane);

/// Runs intrinsics that need only the features of a token.
macro_rules! with_token {
    ($intrinsics:expr) => {
        // SAFETY: a `Lane` or the token in reach was only made on a CPU that has these instructions.
        unsafe { $intrinsics }
    };
}

impl Vector for Lane {
    type Cpu = Armv8;
    type Single = Self;
    type SingleCpu = Armv8;
    const LANES: usize = 1;

    #[inline(always)]
    fn zero(_: Armv8) -> Self {
        Self(with_token!(vdupq_n_u8(0)))
    }

    #[inline(always)]
    fn broadcast(_: Armv8, block: &Block) -> Self {
        // SAFETY: a block is as long as the load; the token proves the instruction.
        Self(unsafe { vld1q_u8(block.as_ptr()) })
    }

    #[inline(always)]
    fn from_halves(_: Armv8, [only, ..]: [[u64; 2]; LANES_MAX]) -> Self {
        Self(with_token!(from_halves(only)))
    }

    #[inline(always)]
    fn gather_nonces(_: Armv8, [only, ..]: [&[u8; 12]; LANES_MAX]) -> Self {
        let (front, back) = only.split_at(8);
        let front = u64::from_le_bytes(front.try_into().expect("8 bytes"));
        let back = u32::from_le_bytes(back.try_into().expect("4 bytes"));
        Self(with_token!(from_halves([front, u64::from(back)])))
    }

    #[inline(always)]
    fn load(cpu: Armv8, blocks: &[Block]) -> Self {
        Self::broadcast(cpu, &blocks[0])
    }

    #[inline(always)]
    fn store(self, blocks: &mut [Block]) {
        // SAFETY: a block is as long as the store.
        unsafe { vst1q_u8(blocks[0].as_mut_ptr(), self.0) }
    }

    // SAFETY: the trait states what the caller must guarantee.
    #[inline(always)]
    unsafe fn gather(_: Armv8, [only, ..]: [*const u8; LANES_MAX]) -> Self {
        // SAFETY: the pointer is readable for a block.
        Self(unsafe { vld1q_u8(only) })
    }

    // SAFETY: the trait states what the caller must guarantee.
    #[inline(always)]
    unsafe fn gather_short(_: Armv8, [only, ..]: [*const u8; LANES_MAX], [size, ..]: [usize; LANES_MAX]) -> Self {
        // SAFETY: the pointer is readable for as many bytes as the size, from 1 to 16.
        Self(unsafe { from_halves(short::load(only, size)) })
    }

    // SAFETY: the trait states what the caller must guarantee.
    #[inline(always)]
    unsafe fn scatter(self, [only, ..]: [*mut u8; LANES_MAX]) {
        // SAFETY: the pointer is writable for a block.
        unsafe { vst1q_u8(only, self.0) }
    }

    // SAFETY: the trait states what the caller must guarantee.
    #[inline(always)]
    unsafe fn scatter_short(self, [only, ..]: [*mut u8; LANES_MAX], [size, ..]: [usize; LANES_MAX]) {
        // SAFETY: the pointer is writable for as many bytes as the size, from 1 to 16.
        unsafe { short::store(halves(self.0), only, size) }
    }

    #[inline(always)]
    fn keep_short(self, [size, ..]: [usize; LANES_MAX]) -> Self {
        // SAFETY: a mask is as long as the load.
        Self(unsafe { vandq_u8(self.0, vld1q_u8(short::mask(size).as_ptr())) })
    }

    #[inline(always)]
    fn xor(self, other: Self) -> Self {
        Self(with_token!(veorq_u8(self.0, other.0)))
    }

    #[inline(always)]
    fn add_bytes(self, other: Self) -> Self {
        Self(with_token!(vaddq_u8(self.0, other.0)))
    }

    #[inline(always)]
    fn aes_round(self, key: Self) -> Self {
        Self(with_token!(aes_round(self.0, key.0)))
    }

    #[inline(always)]
    fn aes_last_round(self, key: Self) -> Self {
        Self(with_token!(aes_last_round(self.0, key.0)))
    }

    #[inline(always)]
    fn reverse_bytes(self) -> Self {
        let halves = Self(with_token!(vrev64q_u8(self.0)));
        halves.swap_halves()
    }

    #[inline(always)]
    fn swap_halves(self) -> Self {
        Self(with_token!(vextq_u8::<8>(self.0, self.0)))
    }

    #[inline(always)]
    fn move_up(self) -> Self {
        Self(with_token!(vextq_u8::<12>(vdupq_n_u8(0), self.0)))
    }

    #[inline(always)]
    fn move_down(self) -> Self {
        Self(with_token!(vextq_u8::<4>(self.0, vdupq_n_u8(0))))
    }

    #[inline(always)]
    fn running_sum(self) -> Self {
        let pairs = self.xor(self.move_up());
        pairs.xor(Self(with_token!(vextq_u8::<8>(vdupq_n_u8(0), pairs.0))))
    }

    #[inline(always)]
    fn last_word(self) -> Self {
        Self(with_token!(vreinterpretq_u8_u32(vdupq_laneq_u32::<3>(vreinterpretq_u32_u8(self.0)))))
    }

    #[inline(always)]
    fn last_word_rotated(self) -> Self {
        with_token!({
            let word = vreinterpretq_u32_u8(self.last_word().0);
            Self(vreinterpretq_u8_u32(vsliq_n_u32::<24>(vshrq_n_u32::<8>(word), word)))
        })
    }

    #[inline(always)]
    fn double(self, cpu: Armv8) -> Self {
        with_token!({
            let (halves, words) = (vreinterpretq_u64_u8(self.0), vreinterpretq_s32_u8(self.0));
            let carries = vextq_u8::<8>(vdupq_n_u8(0), vreinterpretq_u8_u64(vshrq_n_u64::<63>(halves)));
            let leaves = vreinterpretq_u8_s32(vdupq_laneq_s32::<3>(vshrq_n_s32::<31>(words)));
            let rest = vandq_u8(leaves, Self::broadcast(cpu, &POLYVAL_REST).0);
            Self(veorq_u8(vorrq_u8(vreinterpretq_u8_u64(vaddq_u64(halves, halves)), carries), rest))
        })
    }

    #[inline(always)]
    fn multiply_low(self, other: Self) -> Self {
        Self(with_token!(multiply(halves(self.0)[0], halves(other.0)[0])))
    }

    #[inline(always)]
    fn multiply_high(self, other: Self) -> Self {
        Self(with_token!(multiply(halves(self.0)[1], halves(other.0)[1])))
    }

    #[inline(always)]
    fn zero_lanes(self) -> u8 {
        let [low, high] = with_token!(halves(self.0));
        u8::from(low | high == 0)
    }
}

#[inline]
#[compiled_for(Armv8)]
fn from_halves([low, high]: [u64; 2]) -> uint8x16_t {
    vreinterpretq_u8_u64(vcombine_u64(vcreate_u64(low), vcreate_u64(high)))
}

#[inline]
#[compiled_for(Armv8)]
fn halves(block: uint8x16_t) -> [u64; 2] {
    let block = vreinterpretq_u64_u8(block);
    [vgetq_lane_u64::<0>(block), vgetq_lane_u64::<1>(block)]
}

#[inline]
#[compiled_for(Armv8)]
fn multiply(left: u64, right: u64) -> uint8x16_t {
    vreinterpretq_u8_p128(vmull_p64(left, right))
}

/// AESE adds a key before it substitutes and shifts: zero here, as a round of [`Vector`] adds its key at the end.
#[inline]
#[compiled_for(Armv8)]
fn aes_round(state: uint8x16_t, key: uint8x16_t) -> uint8x16_t {
    veorq_u8(vaesmcq_u8(vaeseq_u8(state, vdupq_n_u8(0))), key)
}

#[inline]
#[compiled_for(Armv8)]
fn aes_last_round(state: uint8x16_t, key: uint8x16_t) -> uint8x16_t {
    veorq_u8(vaeseq_u8(state, vdupq_n_u8(0)), key)
}
