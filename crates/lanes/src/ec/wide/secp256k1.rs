//! The field of secp256k1, eight elements side by side, as plain numbers: p is 2^256 − 2^32 − 977, so what is above 2^260 is folded by five
//! limbs' products with a small number, and what is then above 2^256 by one.

use super::super::secp256k1::{FOLD, Secp256k1};
use super::super::words::Words;
use super::field::{Columns, Constants, Element, LIMBS, WideCurve, carry};
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
}
