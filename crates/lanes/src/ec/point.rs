//! Points: affine ones in tables, Jacobian ones in between. A Jacobian point (X : Y : Z) is (X/Z², Y/Z³).

use super::curve::PrimeCurve;
use super::element::{ElementField, FieldElement};
use super::entry::TableEntry;
use super::path::InstructionPath;
use super::words::Words;

/// A point other than infinity.
#[derive(Debug, Clone, Copy)]
pub(super) struct Affine<F> {
    pub(super) x: F,
    pub(super) y: F,
}

/// A point other than infinity: Z is not zero.
#[derive(Debug, Clone, Copy)]
pub(super) struct Jacobian<F> {
    pub(super) x: F,
    pub(super) y: F,
    pub(super) z: F,
}

impl<C: PrimeCurve, P: InstructionPath> Affine<FieldElement<C, P>> {
    /// The point with these coordinates, if they are below the prime and it is on the curve. Not constant time: points are public.
    pub(super) fn from_numbers(path: P, x: &Words, y: &Words) -> Option<Self> {
        let below = |number: &Words| number.iter().rev().lt(C::PRIME.iter().rev());
        if !below(x) || !below(y) {
            return None;
        }
        let element = |number: &Words| FieldElement::<C, P>::from_number(path, number);
        let point = Self { x: element(x), y: element(y) };
        let right = (point.x.square() + element(&C::A)) * point.x + element(&C::B);
        (point.y.square().to_number() == right.to_number()).then_some(point)
    }

    /// The point of a table's entry.
    #[inline(always)]
    pub(super) fn from_entry(path: P, entry: &TableEntry) -> Self {
        let [x0, x1, x2, x3, y0, y1, y2, y3] = entry.0;
        Self { x: FieldElement::new(path, [x0, x1, x2, x3]), y: FieldElement::new(path, [y0, y1, y2, y3]) }
    }

    /// The entry that [`Affine::from_entry`] reads.
    pub(super) fn to_entry(self) -> TableEntry {
        let ([x0, x1, x2, x3], [y0, y1, y2, y3]) = (self.x.words(), self.y.words());
        TableEntry([x0, x1, x2, x3, y0, y1, y2, y3])
    }
}

impl<F: ElementField> Jacobian<F> {
    /// The point, from the inverse of its Z.
    #[inline(always)]
    pub(super) fn to_affine(self, inverse: F) -> Affine<F> {
        let square = inverse.square();
        Affine { x: self.x * square, y: self.y * square * inverse }
    }

    /// The sum with another point that is neither this one nor its negative: 8 products and 3 squares
    /// (<https://hyperelliptic.org/EFD/g1p/auto-shortw-jacobian.html#addition-madd>).
    #[inline(always)]
    pub(super) fn add(self, other: Affine<F>) -> Self {
        let z_square = self.z.square();
        let width = other.x * z_square - self.x;
        let height = other.y * (self.z * z_square) - self.y;
        let width_square = width.square();
        let width_cube = width * width_square;
        let x_scaled = self.x * width_square;
        let x = height.square() - width_cube - x_scaled.double();
        let y = height * (x_scaled - x) - self.y * width_cube;
        Self { x, y, z: self.z * width }
    }

    /// Twice the point. No point of a group of odd order has y = 0, so the result is not infinity.
    #[inline(always)]
    pub(super) fn double(self, a: F) -> Self {
        let y_square = self.y.square();
        let x_scaled = (self.x * y_square).double().double();
        let x_square = self.x.square();
        let slope = x_square.double() + x_square + a * self.z.square().square();
        let x = slope.square() - x_scaled.double();
        let y = slope * (x_scaled - x) - y_square.square().double().double().double();
        Self { x, y, z: (self.y * self.z).double() }
    }
}
