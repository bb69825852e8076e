//! The operations on a 512-bit register, with the products of VPMADD52 or, on CPUs without it, of the multiplication of doubles.
//!
//! ```text
//! by VPMADD52:  low and high are one instruction each
//! by doubles:   a, b = the lower 52 bits of each factor as doubles (exact)
//!               high = fma(a, b, 2^104), rounded toward zero: 2^104 plus the product without its lower 52 bits
//!               low  = fma(a, b, (2^104 + 2^52) − high): 2^52 plus the lower 52 bits, which is exact
//!               sum += the fraction bits of high, or of low
//! look up:      VPERMI2Q in both halves of the table by the lower four bits of the index, then a blend by its fifth bit
//! ```

use std::arch::x86_64::*;
use std::marker::PhantomData;

use super::{LANES, LIMB_MASK, SelectionTable, U64x8};
use crate::cpu::{Avx512F, Ifma};

/// Eight numbers in a register, multiplied by the instructions of a token.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Avx512<M>(__m512i, PhantomData<M>);

/// A token of instructions for products of 52-bit numbers.
pub(crate) trait Multiplier: Copy {
    /// The sum with the lower 52 bits of a product of the factors' lower 52 bits.
    fn add_low(sum: __m512i, a: __m512i, b: __m512i) -> __m512i;
    /// The sum with the upper 52 bits of such a product.
    fn add_high(sum: __m512i, a: __m512i, b: __m512i) -> __m512i;
}

/// Runs intrinsics that need only the features of a token.
macro_rules! with_token {
    ($intrinsics:expr) => {
        // SAFETY: an `Avx512` or the token in reach was only made on a CPU that has these instructions.
        unsafe { $intrinsics }
    };
}

impl Multiplier for Ifma {
    #[inline(always)]
    fn add_low(sum: __m512i, a: __m512i, b: __m512i) -> __m512i {
        with_token!(_mm512_madd52lo_epu64(sum, a, b))
    }

    #[inline(always)]
    fn add_high(sum: __m512i, a: __m512i, b: __m512i) -> __m512i {
        with_token!(_mm512_madd52hi_epu64(sum, a, b))
    }
}

/// 2^52 and 2^104 as doubles: their last bits are worth 1 and 2^52.
const TWO_52: i64 = 0x4330_0000_0000_0000;
const TWO_104: i64 = 0x4670_0000_0000_0000;
const TOWARD_ZERO: i32 = _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC;

/// The lower 52 bits as a double: as the fraction of 2^52, which is then subtracted. Zero or at least 1, so that no operation here meets a
/// subnormal number, for which some CPUs take longer.
#[inline(always)]
fn to_double(number: __m512i) -> __m512d {
    with_token!({
        let two_52 = _mm512_set1_epi64(TWO_52);
        let fraction = _mm512_and_si512(number, _mm512_set1_epi64(LIMB_MASK.cast_signed()));
        _mm512_sub_pd(_mm512_castsi512_pd(_mm512_or_si512(fraction, two_52)), _mm512_castsi512_pd(two_52))
    })
}

/// 2^104 plus the product without its lower 52 bits: the sum is rounded toward zero, whatever the thread's mode.
#[inline(always)]
fn product_high(a: __m512d, b: __m512d) -> __m512d {
    with_token!(_mm512_fmadd_round_pd::<TOWARD_ZERO>(a, b, _mm512_castsi512_pd(_mm512_set1_epi64(TWO_104))))
}

/// By VFMADD, whose product is exact before it is rounded.
impl Multiplier for Avx512F {
    #[inline(always)]
    fn add_low(sum: __m512i, a: __m512i, b: __m512i) -> __m512i {
        let (a, b) = (to_double(a), to_double(b));
        let high = product_high(a, b);
        with_token!({
            let two_52 = _mm512_set1_epi64(TWO_52);
            // 2^104 + 2^52 is a double, and so are its difference from the upper part and 2^52 plus the lower one: nothing is rounded.
            let both = _mm512_castsi512_pd(_mm512_set1_epi64(TWO_104 + 1));
            let low = _mm512_fmadd_round_pd::<TOWARD_ZERO>(a, b, _mm512_sub_pd(both, high));
            _mm512_add_epi64(sum, _mm512_sub_epi64(_mm512_castpd_si512(low), two_52))
        })
    }

    #[inline(always)]
    fn add_high(sum: __m512i, a: __m512i, b: __m512i) -> __m512i {
        let high = product_high(to_double(a), to_double(b));
        with_token!({
            let high = _mm512_sub_epi64(_mm512_castpd_si512(high), _mm512_set1_epi64(TWO_104));
            _mm512_add_epi64(sum, high)
        })
    }
}

impl<M: Multiplier> Avx512<M> {
    #[inline(always)]
    fn new(register: __m512i) -> Self {
        Self(register, PhantomData)
    }
}

impl<M: Multiplier> U64x8 for Avx512<M> {
    type Cpu = M;
    type Mask = __mmask8;

    #[inline(always)]
    fn splat(_: M, number: u64) -> Self {
        Self::new(with_token!(_mm512_set1_epi64(number.cast_signed())))
    }

    #[inline(always)]
    fn from_lanes(_: M, lanes: &[u64; LANES]) -> Self {
        // SAFETY: the array is as long as the unaligned load.
        Self::new(unsafe { _mm512_loadu_epi64(lanes.as_ptr().cast()) })
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
        Self::new(with_token!(_mm512_add_epi64(self.0, other.0)))
    }

    #[inline(always)]
    fn sub(self, other: Self) -> Self {
        Self::new(with_token!(_mm512_sub_epi64(self.0, other.0)))
    }

    #[inline(always)]
    fn and(self, other: Self) -> Self {
        Self::new(with_token!(_mm512_and_si512(self.0, other.0)))
    }

    #[inline(always)]
    fn or(self, other: Self) -> Self {
        Self::new(with_token!(_mm512_or_si512(self.0, other.0)))
    }

    #[inline(always)]
    fn xor(self, other: Self) -> Self {
        Self::new(with_token!(_mm512_xor_si512(self.0, other.0)))
    }

    #[inline(always)]
    fn shift_left(self, bits: u32) -> Self {
        Self::new(with_token!(_mm512_sll_epi64(self.0, _mm_cvtsi32_si128(bits.cast_signed()))))
    }

    #[inline(always)]
    fn shift_right(self, bits: u32) -> Self {
        Self::new(with_token!(_mm512_srl_epi64(self.0, _mm_cvtsi32_si128(bits.cast_signed()))))
    }

    #[inline(always)]
    fn shift_right_signed<const BITS: u32>(self) -> Self {
        Self::new(with_token!(_mm512_srai_epi64::<BITS>(self.0)))
    }

    #[inline(always)]
    fn add_product_low(self, a: Self, b: Self) -> Self {
        Self::new(M::add_low(self.0, a.0, b.0))
    }

    #[inline(always)]
    fn add_product_high(self, a: Self, b: Self) -> Self {
        Self::new(M::add_high(self.0, a.0, b.0))
    }

    #[inline(always)]
    fn rotate_lanes<const COUNT: i32>(self) -> Self {
        Self::new(with_token!(_mm512_alignr_epi64::<COUNT>(self.0, self.0)))
    }

    #[inline(always)]
    fn interleave_low(self, other: Self) -> Self {
        Self::new(with_token!(_mm512_unpacklo_epi64(self.0, other.0)))
    }

    #[inline(always)]
    fn interleave_high(self, other: Self) -> Self {
        Self::new(with_token!(_mm512_unpackhi_epi64(self.0, other.0)))
    }

    #[inline(always)]
    fn has_no_bits(self, bits: Self) -> __mmask8 {
        with_token!(_mm512_testn_epi64_mask(self.0, bits.0))
    }

    #[inline(always)]
    fn mask(_: M, lanes: u8) -> __mmask8 {
        lanes
    }

    #[inline(always)]
    fn blend(self, mask: __mmask8, other: Self) -> Self {
        Self::new(with_token!(_mm512_mask_blend_epi64(mask, self.0, other.0)))
    }

    #[inline(always)]
    fn look_up(self, table: &SelectionTable) -> Self {
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
            Self::new(_mm512_mask_blend_epi64(is_high, low, high))
        })
    }
}
