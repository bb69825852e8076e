//! The field of Poly1305: numbers modulo 2^130 − 5 in limbs of 44, 44 and 42 bits, as VPMADD52 takes them. Nothing here overflows; the
//! operations wrap, because a check would branch on secrets.

use crate::wipe::overwrite;

/// Limbs of a number.
pub(super) const LIMBS: usize = 3;
/// Bits of the lower two.
pub(super) const LIMB_BITS: u32 = 44;
/// Bits of the highest.
pub(super) const TOP_BITS: u32 = 42;
pub(super) const LIMB_MASK: u64 = (1 << LIMB_BITS) - 1;
pub(super) const TOP_MASK: u64 = (1 << TOP_BITS) - 1;
/// 2^132, the first power beyond the limbs, modulo 2^130 − 5: four times 5.
pub(super) const BEYOND: u64 = 20;
/// The 1 above a block of 16 bytes.
pub(super) const ABOVE: u64 = 1 << (128 - 2 * LIMB_BITS);

/// A number below about 2^131. Wiped on drop.
#[derive(Clone)]
pub(super) struct Poly1305Number(pub(super) [u64; LIMBS]);

impl Drop for Poly1305Number {
    fn drop(&mut self) {
        overwrite(&mut self.0, 0);
    }
}

impl Poly1305Number {
    pub(super) const fn zero() -> Self {
        Self([0; LIMBS])
    }

    /// A number of 128 bits, below `top` times 2^88.
    #[inline]
    pub(super) fn new(bytes: &[u8; 16], top: u64) -> Self {
        let number = u128::from_le_bytes(*bytes);
        let limb = |i: u32| (number >> (i * LIMB_BITS)) as u64;
        Self([limb(0) & LIMB_MASK, limb(1) & LIMB_MASK, limb(2) | top])
    }

    /// The sum, without carries: each limb has a bit more.
    #[inline]
    pub(super) fn add(&mut self, other: &Self) {
        self.0.iter_mut().zip(other.0).for_each(|(limb, other)| *limb = limb.wrapping_add(other));
    }

    /// The product. Limbs have at most 50 bits before, and at most two more than those of a number after.
    #[inline]
    pub(super) fn multiply(&self, other: &Self) -> Self {
        let (left, [b0, b1, b2]) = (self.0, other.0);
        let (c1, c2) = (b1.wrapping_mul(BEYOND), b2.wrapping_mul(BEYOND));
        reduce([column(left, [b0, c2, c1]), column(left, [b1, b0, c2]), column(left, [b2, b1, b0])])
    }

    /// The number itself, modulo 2^128: all carries, and one subtraction of 2^130 − 5 where it is not below.
    pub(super) fn low_128(&self) -> u128 {
        let Self([h0, h1, h2]) = &reduce(reduce(self.0.map(u128::from)).0.map(u128::from));
        let plus_5 = h0.wrapping_add(5);
        let h1_plus = h1.wrapping_add(plus_5 >> LIMB_BITS);
        let h2_plus = h2.wrapping_add(h1_plus >> LIMB_BITS);
        // All ones where the sum has 2^130.
        let is_beyond = (h2_plus >> TOP_BITS).wrapping_neg();
        let choose = |limb: u64, plus: u64| limb & !is_beyond | plus & is_beyond;
        let limbs = [choose(*h0, plus_5 & LIMB_MASK), choose(*h1, h1_plus & LIMB_MASK), choose(*h2, h2_plus)];
        u128::from(limbs[0]) | u128::from(limbs[1]) << LIMB_BITS | u128::from(limbs[2]) << (2 * LIMB_BITS)
    }
}

/// A sum of three products.
#[inline]
fn column([a0, a1, a2]: [u64; LIMBS], [b0, b1, b2]: [u64; LIMBS]) -> u128 {
    let product = |a: u64, b: u64| u128::from(a).wrapping_mul(u128::from(b));
    product(a0, b0).wrapping_add(product(a1, b1)).wrapping_add(product(a2, b2))
}

/// Carries between limbs, and from the highest to the lowest.
#[inline]
pub(super) fn reduce([d0, d1, d2]: [u128; LIMBS]) -> Poly1305Number {
    let d1 = d1.wrapping_add(d0 >> LIMB_BITS);
    let d2 = d2.wrapping_add(d1 >> LIMB_BITS);
    let low = u128::from(d0 as u64 & LIMB_MASK).wrapping_add((d2 >> TOP_BITS).wrapping_mul(5));
    let middle = (d1 as u64 & LIMB_MASK).wrapping_add((low >> LIMB_BITS) as u64);
    Poly1305Number([low as u64 & LIMB_MASK, middle, d2 as u64 & TOP_MASK])
}
