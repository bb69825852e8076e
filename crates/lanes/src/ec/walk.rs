//! Products of scalars and fixed points, up to [`GROUP_POINTS_MAX`] in a group.
//!
//! ```text
//! for each window, from the highest:
//!   for each two products of the group, side by side, so that neither waits for the other:
//!     entry = table[window][digit]             reads the whole window
//!     entry.y = −entry.y where the digit is negative
//!     sum = sum + entry                        the highest window begins the sum
//! invert all Z with one inversion
//! x, y = X / Z², ± Y / Z³                      the sign of an even scalar
//! ```

use super::curve::PrimeCurve;
use super::element::{ElementField, FieldElement, SideBySide, invert_all};
use super::entry::TableEntry;
use super::path::InstructionPath;
use super::point::{Affine, Jacobian};
use super::scalar::WINDOWS;
use super::table::{ENTRIES, window};
use super::words::write_bytes;
use super::{CurveScalar, GROUP_POINTS_MAX, ProductPoint};
use crate::wipe::overwrite;

/// Sums that are added to side by side.
const WIDTH: usize = 2;

/// The intermediate values of a group. Wiped on drop.
struct WalkGroup<F: ElementField> {
    sums: [Jacobian<F>; GROUP_POINTS_MAX],
    inverses: [F; GROUP_POINTS_MAX],
    products: [F; GROUP_POINTS_MAX],
    zero: F,
}

impl<F: ElementField> WalkGroup<F> {
    #[inline(always)]
    fn new(zero: F) -> Self {
        let sum = Jacobian { x: zero, y: zero, z: zero };
        Self {
            sums: [sum; GROUP_POINTS_MAX],
            inverses: [zero; GROUP_POINTS_MAX],
            products: [zero; GROUP_POINTS_MAX],
            zero,
        }
    }
}

impl<F: ElementField> Drop for WalkGroup<F> {
    fn drop(&mut self) {
        overwrite(&mut self.sums, Jacobian { x: self.zero, y: self.zero, z: self.zero });
        overwrite(&mut self.inverses, self.zero);
        overwrite(&mut self.products, self.zero);
    }
}

/// The products of each scalar with the point of each table, in this order.
#[inline(always)]
pub(super) fn multiply<C: PrimeCurve, P: InstructionPath>(
    path: P,
    tables: &[&[TableEntry; ENTRIES]],
    scalars: &[CurveScalar],
    out: &mut [ProductPoint],
) {
    let group_scalars = GROUP_POINTS_MAX / tables.len();
    let mut group = WalkGroup::new(FieldElement::<C, P>::new(path, [0; 4]));
    for (scalars, out) in scalars.chunks(group_scalars).zip(out.chunks_mut(group_scalars * tables.len())) {
        let sums = &mut group.sums[..out.len()];
        for window in (0..WINDOWS).rev() {
            let (chunks, rest) = sums.as_chunks_mut::<WIDTH>();
            let rest_start = chunks.len() * WIDTH;
            for (i, chunk) in chunks.iter_mut().enumerate() {
                add_digits(path, tables, scalars, window, i * WIDTH, chunk);
            }
            for (i, sum) in rest.iter_mut().enumerate() {
                add_digits(path, tables, scalars, window, rest_start + i, std::array::from_mut(sum));
            }
        }
        finish(&mut group, tables.len(), scalars, out);
    }
}

/// Adds a window's entries to some sums, of which the first is that of product `first`. The highest window begins them.
#[inline(always)]
fn add_digits<C: PrimeCurve, P: InstructionPath, const N: usize>(
    path: P,
    tables: &[&[TableEntry; ENTRIES]],
    scalars: &[CurveScalar],
    window_index: usize,
    first: usize,
    sums: &mut [Jacobian<FieldElement<C, P>>; N],
) {
    let points: [Affine<FieldElement<C, P>>; N] = std::array::from_fn(|i| {
        let (scalar, table) = (&scalars[(first + i) / tables.len()], tables[(first + i) % tables.len()]);
        let digit = scalar.odd.digit(window_index);
        let entry = path.pick(window(table, window_index), digit.index);
        let point = Affine::<FieldElement<C, P>>::from_entry(path, &entry);
        Affine { x: point.x, y: point.y.negate_by(digit.negative) }
    });
    if window_index + 1 == WINDOWS {
        *sums = points.map(|point| Jacobian { x: point.x, y: point.y, z: FieldElement::one(path) });
        return;
    }
    let side_by_side = Jacobian {
        x: SideBySide(sums.map(|sum| sum.x)),
        y: SideBySide(sums.map(|sum| sum.y)),
        z: SideBySide(sums.map(|sum| sum.z)),
    };
    let points = Affine { x: SideBySide(points.map(|point| point.x)), y: SideBySide(points.map(|point| point.y)) };
    let Jacobian { x, y, z } = side_by_side.add(points);
    *sums = std::array::from_fn(|i| Jacobian { x: x.0[i], y: y.0[i], z: z.0[i] });
}

/// From the sums to affine points.
#[inline(always)]
fn finish<C: PrimeCurve, P: InstructionPath>(
    group: &mut WalkGroup<FieldElement<C, P>>,
    table_count: usize,
    scalars: &[CurveScalar],
    out: &mut [ProductPoint],
) {
    let count = out.len();
    for (inverse, sum) in group.inverses.iter_mut().zip(&group.sums[..count]) {
        *inverse = sum.z;
    }
    invert_all(&mut group.inverses[..count], &mut group.products);
    for (i, out) in out.iter_mut().enumerate() {
        let point = group.sums[i].to_affine(group.inverses[i]);
        write_bytes(&point.x.to_number(), &mut out.x);
        write_bytes(&point.y.negate_by(scalars[i / table_count].odd.negative()).to_number(), &mut out.y);
    }
}
