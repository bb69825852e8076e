//! The field of secp256k1, eight elements side by side, as plain numbers: p is 2^256 − 2^32 − 977, so what is above 2^260 is folded by five
//! limbs' products with a small number, and what is then above 2^256 by one.

use super::super::secp256k1::{FOLD, Secp256k1};
use super::super::words::Words;
use super::field::{Columns, Constants, Element, Field, LIMBS, WideCurve, carry};
use super::point::double_limbs;
use crate::u64x8::U64x8;

/// The bits of the highest limb that are above 2^256.
const TOP: u32 = 48;

impl WideCurve for Secp256k1 {
    /// 2^260 and 2^256 modulo p, and the mask of the highest limb's bits below 2^256.
    const CONSTANTS: [u64; 3] = [FOLD << 4, FOLD, (1 << TOP) - 1];
    const MONTGOMERY: Option<Words> = None;

    #[inline(always)]
    fn reduce<V: U64x8>(constants: &Constants<V>, columns: Columns<V>, addend: &Element<V>) -> Element<V> {
        let [fold_260, fold_256, below_256] = constants.curve;
        let [.., h0, h1, h2, h3, h4] = columns;
        let high = carry(constants, [h0, h1, h2, h3, h4]);
        let mut sums = *addend;
        for i in 0..LIMBS {
            sums[i] = sums[i].add(columns[i]).add_product_low(high[i], fold_260);
        }
        for i in 0..LIMBS - 1 {
            sums[i + 1] = sums[i + 1].add_product_high(high[i], fold_260);
        }
        let above = constants.zero().add_product_high(high[LIMBS - 1], fold_260);
        // Below 2^42: above 2^260 there are less than 2^37, and a column is below 2^60.
        let top = sums[LIMBS - 1].shift_right(TOP).add(above.shift_left(4));
        sums[LIMBS - 1] = sums[LIMBS - 1].and(below_256);
        sums[0] = sums[0].add_product_low(top, fold_256);
        sums[1] = sums[1].add_product_high(top, fold_256);
        carry(constants, sums)
    }

    #[inline(always)]
    fn reduce_tightly<V: U64x8>(constants: &Constants<V>, columns: Columns<V>, addend: &Element<V>) -> Element<V> {
        Self::reduce(constants, columns, addend)
    }

    /// a = 0, so the slope is 3·X². At most 3.001, and 2.001.
    #[inline(always)]
    fn slope_and_z<V: U64x8>(
        field: &Field<Self, V>,
        [x, y, z]: [&Element<V>; 3],
        _: &Element<V>,
    ) -> (Element<V>, Element<V>) {
        let square = field.square(x);
        let slope = field.carry(field.add(&square, &double_limbs(field, &square)));
        (slope, field.carry(double_limbs(field, &field.multiply(y, z))))
    }

    /// (p + 1)/4 is (2^223 − 1)·2^31 + (2^22 − 1)·2^8 + 3·2^2.
    #[inline(always)]
    fn square_root<V: U64x8>(field: &Field<Self, V>, a: &Element<V>) -> Element<V> {
        // ones_n is the power of 2^n − 1.
        let ones_2 = longer(field, a, 1, a);
        let ones_3 = longer(field, &ones_2, 1, a);
        let ones_6 = longer(field, &ones_3, 3, &ones_3);
        let ones_9 = longer(field, &ones_6, 3, &ones_3);
        let ones_11 = longer(field, &ones_9, 2, &ones_2);
        let ones_22 = longer(field, &ones_11, 11, &ones_11);
        let ones_44 = longer(field, &ones_22, 22, &ones_22);
        let ones_88 = longer(field, &ones_44, 44, &ones_44);
        let ones_176 = longer(field, &ones_88, 88, &ones_88);
        let ones_220 = longer(field, &ones_176, 44, &ones_44);
        let ones_223 = longer(field, &ones_220, 3, &ones_3);
        let power = longer(field, &longer(field, &ones_223, 23, &ones_22), 6, &ones_2);
        field.square_times(&power, 2)
    }
}

/// The power of 2^`by`, times another: a function and no closure, which would be compiled without the CPU's features.
#[inline(always)]
fn longer<V: U64x8>(field: &Field<Secp256k1, V>, power: &Element<V>, by: usize, other: &Element<V>) -> Element<V> {
    field.multiply(&field.square_times(power, by), other)
}
