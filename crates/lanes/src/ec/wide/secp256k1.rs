//! The field of secp256k1, eight elements side by side, as plain numbers. p is 2^256 − c for the small number c = 2^32 + 977:
//!
//! ```text
//! high = carry(columns 5 to 9)
//! sums = addend + columns 0 to 4 + high · 16c        2^260 is 16c modulo p
//! top = the bits of sums above 2^256
//! sums += top · c                                    2^256 is c modulo p
//! result = carry(sums)
//! ```

use super::super::secp256k1::{FOLD, Secp256k1};
use super::super::words::Words;
use super::field::{Columns, Constants, LIMBS, WideCurve, WideElement, WideField, carry};
use super::point::double_limbs;
use crate::u64x8::U64x8;

/// The bits of the highest limb that are above 2^256.
const TOP: u32 = 48;

impl WideCurve for Secp256k1 {
    /// 2^260 and 2^256 modulo p, and the mask of the highest limb's bits below 2^256.
    const CONSTANTS: [u64; 3] = [FOLD << 4, FOLD, (1 << TOP) - 1];
    const MONTGOMERY: Option<Words> = None;

    #[inline(always)]
    fn reduce<V: U64x8>(constants: &Constants<V>, columns: Columns<V>, addend: &WideElement<V>) -> WideElement<V> {
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
    fn reduce_tightly<V: U64x8>(
        constants: &Constants<V>,
        columns: Columns<V>,
        addend: &WideElement<V>,
    ) -> WideElement<V> {
        Self::reduce(constants, columns, addend)
    }

    /// a = 0, so the slope is 3·X². At most 3.001, and 2.001.
    #[inline(always)]
    fn slope_and_z<V: U64x8>(
        field: &WideField<Self, V>,
        [x, y, z]: [&WideElement<V>; 3],
        _: &WideElement<V>,
    ) -> (WideElement<V>, WideElement<V>) {
        let square = field.square(x);
        let slope = field.carry(field.add(&square, &double_limbs(field, &square)));
        (slope, field.carry(double_limbs(field, &field.multiply(y, z))))
    }

    /// (p + 1)/4 is (2^223 − 1)·2^31 + (2^22 − 1)·2^8 + 3·2^2.
    #[inline(always)]
    fn square_root<V: U64x8>(field: &WideField<Self, V>, a: &WideElement<V>) -> WideElement<V> {
        let mut powers = [*a; CHAIN.len() + 1];
        // A loop, and no call for each step: the products are then compiled once.
        for (i, (power, times, other)) in CHAIN.into_iter().enumerate() {
            powers[i + 1] = field.multiply(&field.square_times(&powers[power], times), &powers[other]);
        }
        field.square_times(&powers[CHAIN.len()], 2)
    }
}

/// The steps of the root's power. Step i makes power i + 1 of the power with the first index, squared as often, times the power with the
/// other index; power 0 is the number itself. A comment `n` marks the power of 2^n − 1.
const CHAIN: [(usize, usize, usize); 13] = [
    (0, 1, 0),   // 2
    (1, 1, 0),   // 3
    (2, 3, 2),   // 6
    (3, 3, 2),   // 9
    (4, 2, 1),   // 11
    (5, 11, 5),  // 22
    (6, 22, 6),  // 44
    (7, 44, 7),  // 88
    (8, 88, 8),  // 176
    (9, 44, 7),  // 220
    (10, 3, 2),  // 223
    (11, 23, 6), // (2^223 − 1)·2^23 + 2^22 − 1
    (12, 6, 1),  // the one before, times 2^6, + 3
];
