//! The field of P-256, eight elements side by side, in Montgomery form with the factor 2^260.
//!
//! p + 1 is 2^256 − 2^224 + 2^192 + 2^96, so the multiple of p that clears a column is the column's own lowest 52 bits, and p + 1 has three
//! limbs that are not zero:
//!
//! ```text
//! columns 5 to 9 += addend
//! for i in 0 .. 5:
//!   m = lowest 52 bits of columns[i]
//!   columns[i + 1] += columns[i] >> 52               m − m · 1 is zero, and the rest moves up
//!   columns[i + 1 ..] += m · (p + 1)                 six multiply-adds; a general prime needs ten, and one for m
//! result = carry(columns 5 to 9)
//! ```

use super::super::p256::P256;
use super::super::words::{Words, from_hex};
use super::field::{Columns, Constants, LIMBS, WideCurve, WideElement, WideField, carry, carry_signed};
use crate::u64x8::{LIMB_BITS, U64x8};

/// The bits of the highest limb that are above 2^256.
const TOP: u32 = 48;

impl WideCurve for P256 {
    /// Limbs 1, 3 and 4 of p + 1.
    const CONSTANTS: [u64; 3] = [1 << 44, 1 << 36, (1 << 48) - (1 << 16)];
    /// 2^520 modulo p.
    const MONTGOMERY: Option<Words> =
        Some(from_hex("000004fffffffdfffffffffffffffefffffffbffffffff000000000000000300"));

    #[inline(always)]
    fn reduce<V: U64x8>(constants: &Constants<V>, columns: Columns<V>, addend: &WideElement<V>) -> WideElement<V> {
        carry(constants, montgomery(constants, columns, addend))
    }

    /// 2^256 is 2^224 − 2^192 − 2^96 + 1 modulo p. The bits above it are folded before the limbs are carried, so the carry into the highest
    /// limb stays: less than 2^12 of its units.
    #[inline(always)]
    fn reduce_tightly<V: U64x8>(
        constants: &Constants<V>,
        columns: Columns<V>,
        addend: &WideElement<V>,
    ) -> WideElement<V> {
        let [a, b, c, d, e] = montgomery(constants, columns, addend);
        let top = e.shift_right(TOP);
        let e = e.xor(top.shift_left(TOP)).add(top.shift_left(16));
        let sums = [a.add(top), b.sub(top.shift_left(44)), c, d.sub(top.shift_left(36)), e];
        carry_signed(constants, sums)
    }

    /// a = −3, so the slope is 3·(X − Z²)·(X + Z²). At most 2.3, and 1.0001.
    #[inline(always)]
    fn slope_and_z<V: U64x8>(
        field: &WideField<Self, V>,
        [x, y, z]: [&WideElement<V>; 3],
        gamma: &WideElement<V>,
    ) -> (WideElement<V>, WideElement<V>) {
        let delta = field.square(z);
        let sum = field.add(x, &delta);
        let difference = field.carry(field.add(x, &field.negate::<2, 1>(&delta)));
        let slope = field.multiply(&difference, &field.carry(field.add(&sum, &field.add(&sum, &sum))));
        let y_plus_z = field.carry(field.add(y, z));
        let z = field.square_add_tightly(&y_plus_z, &field.negate::<4, 2>(&field.add(gamma, &delta)));
        (slope, z)
    }

    /// (p + 1)/4 is ((2^32 − 1)·2^128 + 2^96 + 1)·2^94.
    #[inline(always)]
    fn square_root<V: U64x8>(field: &WideField<Self, V>, a: &WideElement<V>) -> WideElement<V> {
        // The power of 2^n − 1, for n doubling up to 32.
        let mut ones = *a;
        for n in [1, 2, 4, 8, 16] {
            ones = field.multiply(&field.square_times(&ones, n), &ones);
        }
        let power = field.multiply(&field.square_times(&ones, 32), a);
        let power = field.multiply(&field.square_times(&power, 96), a);
        field.square_times(&power, 94)
    }
}

/// Montgomery's reduction, limb by limb: the sums of the limbs of the result.
#[inline(always)]
fn montgomery<V: U64x8>(constants: &Constants<V>, mut columns: Columns<V>, addend: &WideElement<V>) -> WideElement<V> {
    let [p1, p3, p4] = constants.curve;
    for i in 0..LIMBS {
        columns[LIMBS + i] = columns[LIMBS + i].add(addend[i]);
    }
    for i in 0..LIMBS {
        // Only the lowest 52 bits count as a factor. Minus one times the multiple clears them, and the rest moves up.
        let multiple = columns[i];
        let above = multiple.shift_right(LIMB_BITS);
        columns[i + 1] = columns[i + 1].add(above).add_product_low(multiple, p1);
        columns[i + 2] = columns[i + 2].add_product_high(multiple, p1);
        columns[i + 3] = columns[i + 3].add_product_low(multiple, p3);
        columns[i + 4] = columns[i + 4].add_product_high(multiple, p3).add_product_low(multiple, p4);
        columns[i + 5] = columns[i + 5].add_product_high(multiple, p4);
    }
    let [.., a, b, c, d, e] = columns;
    [a, b, c, d, e]
}
