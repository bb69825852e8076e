//! Points, eight side by side, and the formulas for them. Bounds are those of P-256; on secp256k1 all are 1.0001.

use super::field::{Element, Field, WideCurve};
use crate::u64x8::U64x8;

/// A point that is not infinity, x and y at most 1.
#[derive(Clone, Copy)]
pub(super) struct Affine<V> {
    pub(super) x: Element<V>,
    pub(super) y: Element<V>,
}

/// A point as (X/Z², Y/Z³), not infinity. X is at most 1.0001, Y at most 3 and Z at most 2.
#[derive(Clone, Copy)]
pub(super) struct Jacobian<V> {
    pub(super) x: Element<V>,
    pub(super) y: Element<V>,
    pub(super) z: Element<V>,
}

/// The sum of two points of which neither is the other or its negative: 8 products and 3 squares, of which two products share a reduction
/// (<https://hyperelliptic.org/EFD/g1p/auto-shortw-jacobian.html#addition-madd>). The other's y may be up to 2.
#[inline(always)]
pub(super) fn add<C: WideCurve, V: U64x8>(field: &Field<C, V>, a: &Jacobian<V>, b: &Affine<V>) -> Jacobian<V> {
    // At most 1.25, and 1.16.
    let z_square = field.square(&a.z);
    let z_cube = field.multiply(&a.z, &z_square);
    // At most 3.1: 1.25/16 + 1 + 2; and 4.2.
    let width = field.multiply_add(&b.x, &z_square, &field.negate::<2, 1>(&a.x));
    let height = field.multiply_add(&b.y, &z_cube, &field.negate::<3, 1>(&a.y));
    // At most 1.4: 2·3.1/16 + 1.
    let z = field.multiply(&a.z, &width);
    // At most 1.61, 1.32 and 1.11.
    let width_square = field.square(&width);
    let width_cube = field.multiply(&width, &width_square);
    let x_scaled = field.multiply(&a.x, &width_square);
    let subtrahend = field.add(&field.add(&x_scaled, &x_scaled), &width_cube);
    let x = field.square_add_tightly(&height, &field.negate::<4, 3>(&subtrahend));
    // At most 3.2 and 2.
    let step = field.carry(field.add(&x_scaled, &field.negate::<2, 1>(&x)));
    let negative_cube = field.carry(field.negate::<2, 1>(&width_cube));
    // At most 2.3: (4.2·3.2 + 3·2)/16 + 1.
    let y = field.multiply_both([&height, &step], [&a.y, &negative_cube]);
    Jacobian { x, y, z }
}
