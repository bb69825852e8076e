//! Points, eight side by side, and the formulas for them. Bounds are those of P-256; on secp256k1 all are 1.0001.

use super::field::{WideCurve, WideElement, WideField};
use crate::u64x8::U64x8;

/// A point that is not infinity, x at most 1.0001 and y at most 2.
#[derive(Clone, Copy)]
pub(super) struct Affine<V> {
    pub(super) x: WideElement<V>,
    pub(super) y: WideElement<V>,
}

/// A point as (X/Z², Y/Z³), not infinity. X is at most 1.0001; Y at most 2.5 and Z at most 1.4 after an addition, 3.4 and 1.0001 after a
/// doubling. On secp256k1 Z is at most 2.001.
#[derive(Clone, Copy)]
pub(in crate::ec) struct Jacobian<V> {
    pub(super) x: WideElement<V>,
    pub(super) y: WideElement<V>,
    pub(super) z: WideElement<V>,
}

/// The sum of two points of which neither is the other or its negative: 8 products and 3 squares, of which two products share a reduction
/// (<https://hyperelliptic.org/EFD/g1p/auto-shortw-jacobian.html#addition-madd>).
#[inline(always)]
pub(super) fn add<C: WideCurve, V: U64x8>(field: &WideField<C, V>, a: &Jacobian<V>, b: &Affine<V>) -> Jacobian<V> {
    // At most 1.13, and 1.1.
    let z_square = field.square(&a.z);
    let z_cube = field.multiply(&a.z, &z_square);
    // At most 3.1: 1.13/16 + 1 + 2; and 5.2.
    let width = field.multiply_add(&b.x, &z_square, &field.negate::<2, 1>(&a.x));
    let height = field.multiply_add(&b.y, &z_cube, &field.negate::<4, 1>(&a.y));
    // At most 1.3: 1.4·3.1/16 + 1.
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
    // At most 2.5: (5.2·3.2 + 3.4·2)/16 + 1.
    let y = field.multiply_both([&height, &step], [&a.y, &negative_cube]);
    Jacobian { x, y, z }
}

/// Twice the point. No point of a group of odd order has y = 0, so the result is not infinity
/// (<https://hyperelliptic.org/EFD/g1p/auto-shortw-jacobian-3.html#doubling-dbl-2001-b>, with the curve's slope).
#[inline(always)]
pub(super) fn double<C: WideCurve, V: U64x8>(field: &WideField<C, V>, a: &Jacobian<V>) -> Jacobian<V> {
    // At most 1.73 and 1.12.
    let gamma = field.square(&a.y);
    let beta = field.multiply(&a.x, &gamma);
    // At most 2.3 (3.001 on secp256k1).
    let (alpha, z) = C::slope_and_z(field, [&a.x, &a.y, &a.z], &gamma);
    let beta_4 = double_limbs(field, &double_limbs(field, &beta));
    let x = field.square_add_tightly(&alpha, &field.negate::<9, 8>(&double_limbs(field, &beta_4)));
    // At most 6.5 and 14.
    let step = field.carry(field.add(&beta_4, &field.negate::<2, 1>(&x)));
    let gamma_8 = double_limbs(field, &double_limbs(field, &double_limbs(field, &gamma)));
    let negative_gamma_8 = field.carry(field.negate::<14, 8>(&gamma_8));
    // At most 3.4: (2.2·6.5 + 1.73·14)/16 + 1.
    let y = field.multiply_both([&alpha, &step], [&gamma, &negative_gamma_8]);
    Jacobian { x, y, z }
}

/// Twice each limb: an addend.
#[inline(always)]
pub(super) fn double_limbs<C: WideCurve, V: U64x8>(field: &WideField<C, V>, a: &WideElement<V>) -> WideElement<V> {
    field.add(a, a)
}

/// The affine points, from the inverses of their Z.
#[inline(always)]
pub(super) fn to_affine<C: WideCurve, V: U64x8>(
    field: &WideField<C, V>,
    a: &Jacobian<V>,
    inverse: &WideElement<V>,
) -> Affine<V> {
    let square = field.square(inverse);
    Affine { x: field.multiply(&a.x, &square), y: field.multiply(&a.y, &field.multiply(&square, inverse)) }
}
