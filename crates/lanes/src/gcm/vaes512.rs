//! VAES and VPCLMULQDQ on 512-bit registers: four lanes. An operation is one instruction. Reading loads each lane's block and joins all
//! four with three inserts; writing takes them apart with three extracts. Masks limit loads and stores to the bytes of a message's end.

use std::arch::x86_64::*;

use leafseal_lanes_macros::compiled_for;

use super::aesni::{LAST_ROTATED, Lane, from_halves, load, nonce_block, reverse};
use super::key::GcmKeyParts;
use super::prefixes::{self, XaesKeyParts, run_prefixes};
use super::run::run;
use super::vector::{BLOCK_SIZE, Block, LANES_MAX, POLYVAL_REST, Vector, entries};
use super::{OpenItem, SealItem, XaesNonce, XaesOpenItem, XaesSealItem};
use crate::cpu::{AesNi, Vaes512};

/// Four blocks.
#[derive(Clone, Copy)]
pub(super) struct Lanes(__m512i);

/// Runs intrinsics that need only the features of a token.
macro_rules! with_token {
    ($intrinsics:expr) => {
        // SAFETY: a `Lanes` or the token in reach was only made on a CPU that has these instructions.
        unsafe { $intrinsics }
    };
}

entries!(Vaes512, Lanes);

impl Vector for Lanes {
    type Cpu = Vaes512;
    type Single = Lane;
    type SingleCpu = AesNi;
    const LANES: usize = 4;

    #[inline(always)]
    fn zero(_: Vaes512) -> Self {
        Self(with_token!(_mm512_setzero_si512()))
    }

    #[inline(always)]
    fn broadcast(_: Vaes512, block: &Block) -> Self {
        Self(with_token!(_mm512_broadcast_i32x4(load(block))))
    }

    #[inline(always)]
    fn from_halves(_: Vaes512, halves: [[u64; 2]; LANES_MAX]) -> Self {
        Self(with_token!(join([
            from_halves(halves[0]),
            from_halves(halves[1]),
            from_halves(halves[2]),
            from_halves(halves[3])
        ])))
    }

    #[inline(always)]
    fn gather_nonces(_: Vaes512, [a, b, c, d]: [&[u8; 12]; LANES_MAX]) -> Self {
        Self(with_token!(join([nonce_block(a), nonce_block(b), nonce_block(c), nonce_block(d)])))
    }

    #[inline(always)]
    fn load(_: Vaes512, blocks: &[Block]) -> Self {
        let blocks: &[Block; 4] = blocks.first_chunk().expect("a whole vector");
        // SAFETY: the array is as long as the unaligned load.
        Self(unsafe { _mm512_loadu_si512(blocks.as_ptr().cast()) })
    }

    #[inline(always)]
    fn store(self, blocks: &mut [Block]) {
        let blocks: &mut [Block; 4] = blocks.first_chunk_mut().expect("room for a whole vector");
        // SAFETY: the array is as long as the unaligned store.
        unsafe { _mm512_storeu_si512(blocks.as_mut_ptr().cast(), self.0) }
    }

    // SAFETY: the trait states what the caller must guarantee.
    #[inline(always)]
    unsafe fn gather(_: Vaes512, [a, b, c, d]: [*const u8; LANES_MAX]) -> Self {
        // SAFETY: each pointer is readable for a block.
        Self(unsafe {
            join([
                _mm_loadu_si128(a.cast()),
                _mm_loadu_si128(b.cast()),
                _mm_loadu_si128(c.cast()),
                _mm_loadu_si128(d.cast()),
            ])
        })
    }

    // SAFETY: the trait states what the caller must guarantee.
    #[inline(always)]
    unsafe fn gather_short(_: Vaes512, [a, b, c, d]: [*const u8; LANES_MAX], sizes: [usize; LANES_MAX]) -> Self {
        // SAFETY: each pointer is readable for as many bytes as its size, from 1 to 16.
        Self(unsafe {
            join([load_short(a, sizes[0]), load_short(b, sizes[1]), load_short(c, sizes[2]), load_short(d, sizes[3])])
        })
    }

    // SAFETY: the trait states what the caller must guarantee.
    #[inline(always)]
    unsafe fn scatter(self, [a, b, c, d]: [*mut u8; LANES_MAX]) {
        // SAFETY: each pointer is writable for a block.
        unsafe {
            _mm_storeu_si128(a.cast(), _mm512_castsi512_si128(self.0));
            _mm_storeu_si128(b.cast(), _mm512_extracti32x4_epi32::<1>(self.0));
            _mm_storeu_si128(c.cast(), _mm512_extracti32x4_epi32::<2>(self.0));
            _mm_storeu_si128(d.cast(), _mm512_extracti32x4_epi32::<3>(self.0));
        }
    }

    // SAFETY: the trait states what the caller must guarantee.
    #[inline(always)]
    unsafe fn scatter_short(self, [a, b, c, d]: [*mut u8; LANES_MAX], sizes: [usize; LANES_MAX]) {
        // SAFETY: the masks limit each store to as many bytes as its size, for which its pointer is writable.
        unsafe {
            _mm_mask_storeu_epi8(a.cast(), front(sizes[0]) as __mmask16, _mm512_castsi512_si128(self.0));
            _mm_mask_storeu_epi8(b.cast(), front(sizes[1]) as __mmask16, _mm512_extracti32x4_epi32::<1>(self.0));
            _mm_mask_storeu_epi8(c.cast(), front(sizes[2]) as __mmask16, _mm512_extracti32x4_epi32::<2>(self.0));
            _mm_mask_storeu_epi8(d.cast(), front(sizes[3]) as __mmask16, _mm512_extracti32x4_epi32::<3>(self.0));
        }
    }

    #[inline(always)]
    fn zero_lanes(self) -> u8 {
        let halves = with_token!(_mm512_testn_epi64_mask(self.0, self.0));
        // Both halves of a lane.
        let both = halves & halves >> 1;
        both & 1 | both >> 1 & 2 | both >> 2 & 4 | both >> 3 & 8
    }

    #[inline(always)]
    fn keep_short(self, [a, b, c, d]: [usize; LANES_MAX]) -> Self {
        Self(with_token!({
            let mask = front(a) | front(b) << BLOCK_SIZE | front(c) << (2 * BLOCK_SIZE) | front(d) << (3 * BLOCK_SIZE);
            _mm512_maskz_mov_epi8(mask, self.0)
        }))
    }

    #[inline(always)]
    fn xor(self, other: Self) -> Self {
        Self(with_token!(_mm512_xor_si512(self.0, other.0)))
    }

    #[inline(always)]
    fn add_bytes(self, other: Self) -> Self {
        Self(with_token!(_mm512_add_epi8(self.0, other.0)))
    }

    #[inline(always)]
    fn aes_round(self, key: Self) -> Self {
        Self(with_token!(_mm512_aesenc_epi128(self.0, key.0)))
    }

    #[inline(always)]
    fn aes_last_round(self, key: Self) -> Self {
        Self(with_token!(_mm512_aesenclast_epi128(self.0, key.0)))
    }

    #[inline(always)]
    fn reverse_bytes(self) -> Self {
        Self(with_token!(_mm512_shuffle_epi8(self.0, _mm512_broadcast_i32x4(reverse()))))
    }

    #[inline(always)]
    fn swap_halves(self) -> Self {
        Self(with_token!(_mm512_shuffle_epi32::<0x4e>(self.0)))
    }

    #[inline(always)]
    fn move_up(self) -> Self {
        Self(with_token!(_mm512_bslli_epi128::<4>(self.0)))
    }

    #[inline(always)]
    fn move_down(self) -> Self {
        Self(with_token!(_mm512_bsrli_epi128::<4>(self.0)))
    }

    #[inline(always)]
    fn running_sum(self) -> Self {
        let pairs = self.xor(self.move_up());
        pairs.xor(Self(with_token!(_mm512_bslli_epi128::<8>(pairs.0))))
    }

    #[inline(always)]
    fn last_word(self) -> Self {
        Self(with_token!(_mm512_shuffle_epi32::<0xff>(self.0)))
    }

    #[inline(always)]
    fn last_word_rotated(self) -> Self {
        Self(with_token!(_mm512_shuffle_epi8(self.0, _mm512_set1_epi32(LAST_ROTATED))))
    }

    #[inline(always)]
    fn double(self, cpu: Vaes512) -> Self {
        with_token!({
            let carries = _mm512_bslli_epi128::<8>(_mm512_srli_epi64::<63>(self.0));
            let leaves = _mm512_shuffle_epi32::<0xff>(_mm512_srai_epi32::<31>(self.0));
            let rest = _mm512_and_si512(leaves, Self::broadcast(cpu, &POLYVAL_REST).0);
            Self(_mm512_xor_si512(_mm512_or_si512(_mm512_add_epi64(self.0, self.0), carries), rest))
        })
    }

    #[inline(always)]
    fn multiply_low(self, other: Self) -> Self {
        Self(with_token!(_mm512_clmulepi64_epi128::<0x00>(self.0, other.0)))
    }

    #[inline(always)]
    fn multiply_high(self, other: Self) -> Self {
        Self(with_token!(_mm512_clmulepi64_epi128::<0x11>(self.0, other.0)))
    }
}

/// Four blocks side by side.
#[inline]
#[compiled_for(Vaes512)]
fn join([a, b, c, d]: [__m128i; LANES_MAX]) -> __m512i {
    let half = _mm512_inserti32x4::<1>(_mm512_zextsi128_si512(a), b);
    _mm512_inserti32x4::<3>(_mm512_inserti32x4::<2>(half, c), d)
}

/// Reads the first bytes of a block; the others are zeros.
///
/// # Safety
/// - `size` must be at most 16.
/// - `bytes` must be readable for `size` bytes.
#[inline]
#[compiled_for(Vaes512)]
unsafe fn load_short(bytes: *const u8, size: usize) -> __m128i {
    // SAFETY: the mask limits the load to the first `size` bytes.
    unsafe { _mm_maskz_loadu_epi8(front(size) as __mmask16, bytes.cast()) }
}

/// A mask of the first `size` bytes.
#[inline]
#[compiled_for(Vaes512)]
fn front(size: usize) -> __mmask64 {
    _bzhi_u64(!0, size as u32)
}
