//! Products of one secret scalar and up to eight public points, which are given compressed.
//!
//! ```text
//! y = square root of x³ + a·x + b, with the given parity       lanes without a point take the generator
//! table = 1, 3, 5, … 31 times the point of each lane           additions of twice the point, then one inversion
//! sum = table[digit of the highest window]
//! for each window below, from the highest:
//!   five times:  sum = 2 · sum
//!   sum = sum + table[digit]                                   reads the whole table; all lanes have the same digit
//! x = X / Z²                                                   one inversion for all lanes
//! ```
//!
//! The digits are odd and signed as those of fixed points, in windows of five bits, so that no addition is exceptional: the proof at
//! `scalar` holds for points of the same order, with the lowest window of five bits.

use super::super::path::InstructionPath;
use super::super::scalar::{Odd, UNIFORM_WINDOWS};
use super::super::words::{Words, from_bytes, mask, write_bytes};
use super::super::{Agreement, COMPRESSED_SIZE, ProductPoint};
use super::field::{LIMBS, WideCurve, WideElement, WideField, limbs};
use super::fixed::invert;
use super::point::{Affine, Jacobian, add, double, to_affine};
use crate::u64x8::{LANES, U64x8};
use crate::wipe::overwrite;

/// Odd multiples of each point: 1 to 31.
const ENTRIES: usize = 16;

/// The sum of a walk. Wiped on drop.
struct Sum<V: U64x8> {
    point: Jacobian<V>,
    zero: V,
}

impl<V: U64x8> Drop for Sum<V> {
    fn drop(&mut self) {
        let zero = [self.zero; LIMBS];
        overwrite(std::slice::from_mut(&mut self.point), Jacobian { x: zero, y: zero, z: zero });
    }
}

/// The product of the scalar with each point, up to eight; `None` where the bytes are not a point. `single` inverts. Constant time in
/// the scalar.
#[inline(always)]
pub(in crate::ec) fn agree<C: WideCurve, V: U64x8, P: InstructionPath>(
    cpu: V::Cpu,
    single: P,
    scalar: &Odd,
    points: &[[u8; COMPRESSED_SIZE]],
    out: &mut [Option<Agreement>],
) {
    let field = WideField::<C, V>::new(cpu);
    let (affine, decompressed) = decompress(&field, points);
    let table = odd_multiples(&field, single, &affine);
    let one = field.to_element(&field.splat(&[1, 0, 0, 0]));
    let first = select(&field, &table, scalar, UNIFORM_WINDOWS - 1);
    let mut sum = Sum { point: Jacobian { x: first.x, y: first.y, z: one }, zero: field.zero()[0] };
    for window in (0..UNIFORM_WINDOWS - 1).rev() {
        for _ in 0..5 {
            sum.point = double(&field, &sum.point);
        }
        let entry = select(&field, &table, scalar, window);
        sum.point = add(&field, &sum.point, &entry);
    }
    let mut inverse = [sum.point.z];
    invert(&field, single, &mut inverse);
    let shared = field.to_numbers(&field.multiply(&sum.point.x, &field.square(&inverse[0])));
    overwrite(&mut inverse, field.zero());
    for (((out, point), [x, y]), mut shared) in out.iter_mut().zip(points).zip(&decompressed).zip(shared) {
        *out = y.map(|y| {
            let mut agreement = Agreement { point: ProductPoint::default(), shared: Default::default() };
            write_bytes(&x.expect("known with y"), &mut agreement.point.x);
            write_bytes(&y, &mut agreement.point.y);
            debug_assert_eq!(agreement.point.x, point[1..]);
            write_bytes(&shared, &mut agreement.shared);
            agreement
        });
        overwrite(&mut shared, 0);
    }
}

/// The points, and their coordinates. Lanes without a point have the generator and no coordinates. Not constant time: points are public.
#[inline(always)]
fn decompress<C: WideCurve, V: U64x8>(
    field: &WideField<C, V>,
    points: &[[u8; COMPRESSED_SIZE]],
) -> (Affine<V>, [[Option<Words>; 2]; LANES]) {
    let mut numbers = [C::GENERATOR[0]; LANES];
    let mut is_number = [false; LANES];
    for ((number, is_number), point) in numbers.iter_mut().zip(&mut is_number).zip(points) {
        let x = from_bytes(point.last_chunk().expect("32 of 33 bytes"));
        if matches!(point[0], 2 | 3) && x.iter().rev().lt(C::PRIME.iter().rev()) {
            (*number, *is_number) = (x, true);
        }
    }
    let x = field.to_element(&from_lanes(field, &numbers));
    // Not by `map`: a closure that is not inlined loses the target's features.
    let (a, b) = (field.to_element(&field.splat(&C::A)), field.to_element(&field.splat(&C::B)));
    let square = field.square(&x);
    // x·(x² + a) + b, at most 3.
    let right = field.multiply_add(&x, &field.carry(field.add(&square, &a)), &b);
    let root = C::square_root(field, &right);
    let (squares, rights) = (field.to_numbers(&field.square(&root)), field.to_numbers(&right));
    let roots = field.to_numbers(&root);
    let mut known = [[None; 2]; LANES];
    let mut ys = [C::GENERATOR[1]; LANES];
    for i in 0..LANES.min(points.len()) {
        if !is_number[i] || squares[i] != rights[i] {
            numbers[i] = C::GENERATOR[0];
            continue;
        }
        let parity = u64::from(points[i][0] & 1);
        // Neither curve has a point with y = 0, so that the other root differs in parity.
        ys[i] = if roots[i][0] & 1 == parity { roots[i] } else { super::super::words::subtract(C::PRIME, roots[i]).0 };
        known[i] = [Some(numbers[i]), Some(ys[i])];
    }
    let (x, y) = (field.to_element(&from_lanes(field, &numbers)), field.to_element(&from_lanes(field, &ys)));
    (Affine { x, y }, known)
}

#[inline(always)]
fn from_lanes<C: WideCurve, V: U64x8>(field: &WideField<C, V>, numbers: &[Words; LANES]) -> WideElement<V> {
    let mut element = field.zero();
    for (i, limb) in element.iter_mut().enumerate() {
        let mut lanes = [0; LANES];
        for (lane, number) in lanes.iter_mut().zip(numbers) {
            *lane = limbs(number)[i];
        }
        *limb = V::from_lanes(field.cpu, &lanes);
    }
    element
}

/// 1, 3, … 31 times the points. No exceptional addition: the sums are of different small multiples of one point.
///
/// Additions do not depend on the coefficients of the curve. They are therefore made on the isomorphic curve, (x·Z², y·Z³) for (x, y), on
/// which twice the point, (X/Z², Y/Z³), is (X, Y): that saves the inverse of Z.
#[inline(always)]
fn odd_multiples<C: WideCurve, V: U64x8, P: InstructionPath>(
    field: &WideField<C, V>,
    single: P,
    point: &Affine<V>,
) -> [Affine<V>; ENTRIES] {
    let one = field.to_element(&field.splat(&[1, 0, 0, 0]));
    let start = Jacobian { x: point.x, y: point.y, z: one };
    let Jacobian { x, y, z } = double(field, &start);
    // From at most 3.4 to 1.3.
    let twice = Affine { x, y: field.multiply(&y, &one) };
    let square = field.square(&z);
    let start = Jacobian {
        x: field.multiply(&point.x, &square),
        y: field.multiply(&point.y, &field.multiply(&square, &z)),
        z: one,
    };
    let mut multiples = [start; ENTRIES];
    for i in 1..ENTRIES {
        multiples[i] = add(field, &multiples[i - 1], &twice);
    }
    let mut inverses = [one; ENTRIES];
    for i in 1..ENTRIES {
        inverses[i] = field.multiply(&multiples[i].z, &z);
    }
    invert(field, single, &mut inverses);
    let mut table = [*point; ENTRIES];
    for i in 1..ENTRIES {
        table[i] = to_affine(field, &multiples[i], &inverses[i]);
    }
    table
}

/// The multiple that the scalar's digit names, in every lane. Reads all entries.
#[inline(always)]
fn select<C: WideCurve, V: U64x8>(
    field: &WideField<C, V>,
    table: &[Affine<V>; ENTRIES],
    scalar: &Odd,
    window: usize,
) -> Affine<V> {
    let digit = scalar.uniform_digit(window);
    let mut point = table[0];
    for (i, entry) in (0..).zip(table) {
        let is_it = V::mask(field.cpu, mask(i == digit.index) as u8);
        point.x = field.blend(&point.x, is_it, &entry.x);
        point.y = field.blend(&point.y, is_it, &entry.y);
    }
    let negative = field.carry(field.negate::<2, 1>(&point.y));
    point.y = field.blend(&point.y, V::mask(field.cpu, digit.negative as u8), &negative);
    point
}
