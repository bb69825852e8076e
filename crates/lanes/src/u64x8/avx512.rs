//! The operations on a 512-bit register.

use std::arch::x86_64::*;

use super::{LANES, Table, U64x8};
use crate::cpu::Ifma;

/// Eight numbers in a register.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Avx512(__m512i);

/// Runs intrinsics that need only the features of a token.
macro_rules! with_token {
    ($intrinsics:expr) => {
        // SAFETY: an `Avx512` or the token in reach was only made on a CPU that has these instructions.
        unsafe { $intrinsics }
    };
}

impl U64x8 for Avx512 {
    type Cpu = Ifma;
    type Mask = __mmask8;

    #[inline(always)]
    fn splat(_: Ifma, number: u64) -> Self {
        Self(with_token!(_mm512_set1_epi64(number.cast_signed())))
    }

    #[inline(always)]
    fn from_lanes(_: Ifma, lanes: &[u64; LANES]) -> Self {
        // SAFETY: the array is as long as the unaligned load.
        Self(unsafe { _mm512_loadu_epi64(lanes.as_ptr().cast()) })
    }

    #[inline(always)]
    fn to_lanes(self) -> [u64; LANES] {
        let mut lanes = [0; LANES];
        // SAFETY: the array is as long as the unaligned store.
        unsafe { _mm512_storeu_epi64(lanes.as_mut_ptr().cast(), self.0) }
        lanes
    }

    #[inline(always)]
    fn add(self, other: Self) -> Self {
        Self(with_token!(_mm512_add_epi64(self.0, other.0)))
    }

    #[inline(always)]
    fn sub(self, other: Self) -> Self {
        Self(with_token!(_mm512_sub_epi64(self.0, other.0)))
    }

    #[inline(always)]
    fn and(self, other: Self) -> Self {
        Self(with_token!(_mm512_and_si512(self.0, other.0)))
    }

    #[inline(always)]
    fn xor(self, other: Self) -> Self {
        Self(with_token!(_mm512_xor_si512(self.0, other.0)))
    }

    #[inline(always)]
    fn shift_left(self, bits: u32) -> Self {
        Self(with_token!(_mm512_sll_epi64(self.0, _mm_cvtsi32_si128(bits.cast_signed()))))
    }

    #[inline(always)]
    fn shift_right(self, bits: u32) -> Self {
        Self(with_token!(_mm512_srl_epi64(self.0, _mm_cvtsi32_si128(bits.cast_signed()))))
    }

    #[inline(always)]
    fn shift_right_signed<const BITS: u32>(self) -> Self {
        Self(with_token!(_mm512_srai_epi64::<BITS>(self.0)))
    }

    #[inline(always)]
    fn add_product_low(self, a: Self, b: Self) -> Self {
        Self(with_token!(_mm512_madd52lo_epu64(self.0, a.0, b.0)))
    }

    #[inline(always)]
    fn add_product_high(self, a: Self, b: Self) -> Self {
        Self(with_token!(_mm512_madd52hi_epu64(self.0, a.0, b.0)))
    }

    #[inline(always)]
    fn rotate_lanes<const COUNT: i32>(self) -> Self {
        Self(with_token!(_mm512_alignr_epi64::<COUNT>(self.0, self.0)))
    }

    #[inline(always)]
    fn has_no_bits(self, bits: Self) -> __mmask8 {
        with_token!(_mm512_testn_epi64_mask(self.0, bits.0))
    }

    #[inline(always)]
    fn mask(_: Ifma, lanes: u8) -> __mmask8 {
        lanes
    }

    #[inline(always)]
    fn blend(self, mask: __mmask8, other: Self) -> Self {
        Self(with_token!(_mm512_mask_blend_epi64(mask, self.0, other.0)))
    }

    #[inline(always)]
    fn look_up(self, table: &Table) -> Self {
        // SAFETY: the table is aligned and as long as four registers.
        let [a, b, c, d] = unsafe {
            let start: *const __m512i = table.0.as_ptr().cast();
            [
                _mm512_load_si512(start),
                _mm512_load_si512(start.add(1)),
                _mm512_load_si512(start.add(2)),
                _mm512_load_si512(start.add(3)),
            ]
        };
        // VPERMI2Q reads the lower four bits of an index; the fifth decides between its two results.
        with_token!({
            let is_high = _mm512_test_epi64_mask(self.0, _mm512_set1_epi64(16));
            let (low, high) = (_mm512_permutex2var_epi64(a, self.0, b), _mm512_permutex2var_epi64(c, self.0, d));
            Self(_mm512_mask_blend_epi64(is_high, low, high))
        })
    }
}
