//! The operations on any CPU, one lane after the other. Not inlined: a walk of inlined ones would be a megabyte of code that only tests
//! run.

use super::{LANES, LIMB_BITS, LIMB_MASK, SelectionTable, TABLE_LENGTH, U64x8};
use crate::ec::mask;

/// Needs nothing of the CPU.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ModelCpu;

/// Eight numbers.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Model([u64; LANES]);

impl Model {
    #[inline(never)]
    fn each(self, other: Self, operation: impl Fn(u64, u64) -> u64) -> Self {
        Self(std::array::from_fn(|i| operation(self.0[i], other.0[i])))
    }

    #[inline(never)]
    fn add_part(self, a: Self, b: Self, part: impl Fn(u128) -> u128) -> Self {
        let product = a.each(b, |a, b| part(u128::from(a & LIMB_MASK) * u128::from(b & LIMB_MASK)) as u64 & LIMB_MASK);
        self.add(product)
    }
}

impl U64x8 for Model {
    type Cpu = ModelCpu;
    /// All ones for a chosen lane.
    type Mask = [u64; LANES];

    #[inline(never)]
    fn splat(_: ModelCpu, number: u64) -> Self {
        Self([number; LANES])
    }

    #[inline(never)]
    fn from_lanes(_: ModelCpu, lanes: &[u64; LANES]) -> Self {
        Self(*lanes)
    }

    #[inline(never)]
    fn to_lanes(self) -> [u64; LANES] {
        self.0
    }

    #[inline(never)]
    fn add(self, other: Self) -> Self {
        self.each(other, u64::wrapping_add)
    }

    #[inline(never)]
    fn sub(self, other: Self) -> Self {
        self.each(other, u64::wrapping_sub)
    }

    #[inline(never)]
    fn and(self, other: Self) -> Self {
        self.each(other, |a, b| a & b)
    }

    #[inline(never)]
    fn or(self, other: Self) -> Self {
        self.each(other, |a, b| a | b)
    }

    #[inline(never)]
    fn xor(self, other: Self) -> Self {
        self.each(other, |a, b| a ^ b)
    }

    #[inline(never)]
    fn shift_left(self, bits: u32) -> Self {
        self.each(self, |a, _| a.checked_shl(bits).unwrap_or(0))
    }

    #[inline(never)]
    fn shift_right(self, bits: u32) -> Self {
        self.each(self, |a, _| a.checked_shr(bits).unwrap_or(0))
    }

    #[inline(never)]
    fn shift_right_signed<const BITS: u32>(self) -> Self {
        self.each(self, |a, _| (a.cast_signed() >> BITS).cast_unsigned())
    }

    #[inline(never)]
    fn add_product_low(self, a: Self, b: Self) -> Self {
        self.add_part(a, b, |product| product)
    }

    #[inline(never)]
    fn add_product_high(self, a: Self, b: Self) -> Self {
        self.add_part(a, b, |product| product >> LIMB_BITS)
    }

    #[inline(never)]
    fn rotate_lanes<const COUNT: i32>(self) -> Self {
        Self(std::array::from_fn(|i| self.0[(i + COUNT as usize) % LANES]))
    }

    #[inline(never)]
    fn interleave_low(self, other: Self) -> Self {
        Self(std::array::from_fn(|i| [self, other][i % 2].0[i / 2 * 2]))
    }

    #[inline(never)]
    fn interleave_high(self, other: Self) -> Self {
        Self(std::array::from_fn(|i| [self, other][i % 2].0[i / 2 * 2 + 1]))
    }

    #[inline(never)]
    fn has_no_bits(self, bits: Self) -> [u64; LANES] {
        std::array::from_fn(|i| mask(self.0[i] & bits.0[i] == 0))
    }

    #[inline(never)]
    fn mask(_: ModelCpu, lanes: u8) -> [u64; LANES] {
        std::array::from_fn(|i| mask(lanes >> i & 1 == 1))
    }

    #[inline(never)]
    fn blend(self, mask: [u64; LANES], other: Self) -> Self {
        Self(std::array::from_fn(|i| self.0[i] ^ mask[i] & (self.0[i] ^ other.0[i])))
    }

    #[inline(never)]
    fn look_up(self, table: &SelectionTable) -> Self {
        let mut found = [0; LANES];
        for i in 0..TABLE_LENGTH {
            for (found, index) in found.iter_mut().zip(self.0) {
                *found |= table.0[i] & mask(i as u64 == index);
            }
        }
        Self(found)
    }
}
