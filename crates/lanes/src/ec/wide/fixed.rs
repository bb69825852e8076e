//! Products of scalars and fixed points, eight in a vector, up to two vectors in a group.
//!
//! ```text
//! sum = entry(highest window)
//! for each window below, from the highest:
//!   sum = sum + entry(window)                        for one vector, then for the other, so that neither waits
//! invert all Z together: products across vectors, then across lanes; one inversion; back
//! x, y = X / Z², ± Y / Z³
//!
//! entry(window):
//!   bits = the digit's bits of each lane's scalar
//!   index, sign = the upper half of the values upwards, or the lower half downwards
//!   x, y = the table's limbs at index                look-ups in registers; a mixed vector reads both tables and blends
//!   y = −y where the sign is negative
//! ```

use super::super::element::FieldElement;
use super::super::path::InstructionPath;
use super::super::scalar::{WINDOWS, window_entries};
use super::super::words::{Words, write_bytes};
use super::super::{CurveScalar, ProductPoint};
use super::field::{LIMBS, WideCurve, WideElement, WideField, transpose};
use super::point::{Affine, Jacobian, add};
use super::table::Window;
use crate::u64x8::{LANES, U64x8};
use crate::wipe::overwrite;

/// Vectors that are added to side by side, so that neither waits for its own latency.
const WIDTH: usize = 2;

/// The products of a vector: one with each of up to eight scalars, or with each of up to four for two points.
struct Assignment<'a> {
    /// The table of the lower four lanes and that of the upper ones.
    tables: [&'a [Window; WINDOWS]; 2],
    /// Whether they are two.
    is_mixed: bool,
    /// The scalar of each lane; idle lanes repeat one.
    scalars: [usize; LANES],
    /// Where each lane's product goes, and how many lanes have one.
    out: [usize; LANES],
    used: u8,
}

/// The intermediate values of two vectors. Wiped on drop.
struct WideGroup<V: U64x8> {
    digits: [[V; 4]; WIDTH],
    sums: [Jacobian<V>; WIDTH],
    zero: V,
}

impl<V: U64x8> Drop for WideGroup<V> {
    fn drop(&mut self) {
        let zero = [self.zero; LIMBS];
        overwrite(&mut self.digits, [self.zero; 4]);
        overwrite(&mut self.sums, Jacobian { x: zero, y: zero, z: zero });
    }
}

/// The products of each scalar with the point of each table, in this order: as `walk::multiply`. `single` inverts.
#[inline(always)]
pub(in crate::ec) fn multiply<C: WideCurve, V: U64x8, P: InstructionPath>(
    cpu: V::Cpu,
    single: P,
    tables: &[&[Window; WINDOWS]],
    scalars: &[CurveScalar],
    out: &mut [ProductPoint],
) {
    let field = WideField::<C, V>::new(cpu);
    let mut vectors = assign(tables, scalars.len());
    loop {
        match (vectors.next(), vectors.next()) {
            (Some(first), Some(second)) => multiply_group(&field, single, [first, second], scalars, out),
            (Some(last), None) => return multiply_group(&field, single, [last], scalars, out),
            (None, _) => return,
        }
    }
}

/// Distributes the products over vectors, eight scalars at a time. Where few are left, two points share a vector.
fn assign<'a>(tables: &'a [&'a [Window; WINDOWS]], count: usize) -> impl Iterator<Item = Assignment<'a>> {
    let chunks = (0..count).step_by(LANES).map(move |first| (first, LANES.min(count - first)));
    chunks.flat_map(move |(first, length)| {
        let points = if 2 * length <= LANES { 2 } else { 1 };
        (0..tables.len()).step_by(points).map(move |table| {
            let other = if points == 2 && table + 1 < tables.len() { table + 1 } else { table };
            let mut assignment = Assignment {
                tables: [tables[table], tables[other]],
                is_mixed: other != table,
                scalars: [first; LANES],
                out: [0; LANES],
                used: 0,
            };
            let mut place = |lane: usize, scalar: usize, table: usize| {
                assignment.scalars[lane] = scalar;
                assignment.out[lane] = scalar * tables.len() + table;
                assignment.used |= 1 << lane;
            };
            for i in 0..length {
                place(i, first + i, table);
                if other != table {
                    place(LANES / 2 + i, first + i, other);
                }
            }
            assignment
        })
    })
}

#[inline(always)]
fn multiply_group<C: WideCurve, V: U64x8, P: InstructionPath, const N: usize>(
    field: &WideField<C, V>,
    single: P,
    vectors: [Assignment<'_>; N],
    scalars: &[CurveScalar],
    out: &mut [ProductPoint],
) {
    let zero = field.zero();
    let empty = Jacobian { x: zero, y: zero, z: zero };
    let mut group = WideGroup { digits: [[zero[0]; 4]; WIDTH], sums: [empty; WIDTH], zero: zero[0] };
    for (i, vector) in vectors.iter().enumerate() {
        let lanes: [&Words; LANES] = std::array::from_fn(|lane| scalars[vector.scalars[lane]].odd.words());
        group.digits[i] = transpose(field.cpu, lanes);
        let point = entry(field, vector, &group.digits[i], WINDOWS - 1);
        group.sums[i] = Jacobian { x: point.x, y: point.y, z: field.to_element(&field.splat(&[1, 0, 0, 0])) };
    }
    for window in (0..WINDOWS - 1).rev() {
        for (i, vector) in vectors.iter().enumerate() {
            let point = entry(field, vector, &group.digits[i], window);
            group.sums[i] = add(field, &group.sums[i], &point);
        }
    }
    finish(field, single, &vectors, &group, scalars, out);
}

/// The entries that the lanes' scalars select in a window, with their signs.
#[inline(always)]
fn entry<C: WideCurve, V: U64x8>(
    field: &WideField<C, V>,
    vector: &Assignment<'_>,
    words: &[V; 4],
    window: usize,
) -> Affine<V> {
    let cpu = field.cpu;
    let digit = super::super::scalar::digit_place(window);
    let high = words.get(digit.word + 1).map_or(field.zero()[0], |word| word.shift_left(64 - digit.shift));
    let entries = window_entries(window) as u64;
    let bits = words[digit.word].shift_right(digit.shift).xor(high).and(V::splat(cpu, (1 << digit.bits) - 1));
    // The upper half of the values are the positive digits, upwards from 1; the lower half the negative ones, downwards.
    let (index, is_negative) = if window + 1 == WINDOWS {
        (bits, V::mask(cpu, 0))
    } else {
        let is_negative = bits.has_no_bits(V::splat(cpu, entries));
        let flipped = bits.blend(is_negative, bits.xor(V::splat(cpu, !0)));
        (flipped.and(V::splat(cpu, entries - 1)), is_negative)
    };
    let mut point = Affine { x: field.zero(), y: field.zero() };
    for i in 0..LIMBS {
        point.x[i] = index.look_up(&vector.tables[0][window].0[i]);
        point.y[i] = index.look_up(&vector.tables[0][window].0[LIMBS + i]);
    }
    if vector.is_mixed {
        let upper = V::mask(cpu, 0xf0);
        for i in 0..LIMBS {
            point.x[i] = point.x[i].blend(upper, index.look_up(&vector.tables[1][window].0[i]));
            point.y[i] = point.y[i].blend(upper, index.look_up(&vector.tables[1][window].0[LIMBS + i]));
        }
    }
    let negative = field.carry(field.negate::<2, 1>(&point.y));
    point.y = field.blend(&point.y, is_negative, &negative);
    point
}

/// From the sums to affine points.
#[inline(always)]
fn finish<C: WideCurve, V: U64x8, P: InstructionPath, const N: usize>(
    field: &WideField<C, V>,
    single: P,
    vectors: &[Assignment<'_>; N],
    group: &WideGroup<V>,
    scalars: &[CurveScalar],
    out: &mut [ProductPoint],
) {
    let mut z = [field.zero(); N];
    for (z, sum) in z.iter_mut().zip(&group.sums) {
        *z = sum.z;
    }
    invert(field, single, &mut z);
    for i in 0..N {
        let sum = &group.sums[i];
        let square = field.square(&z[i]);
        let x = field.to_numbers(&field.multiply(&sum.x, &square));
        let y = field.to_numbers(&field.multiply(&sum.y, &field.multiply(&square, &z[i])));
        for lane in (0..LANES).filter(|lane| vectors[i].used >> lane & 1 == 1) {
            let point = &mut out[vectors[i].out[lane]];
            let negative = scalars[vectors[i].scalars[lane]].odd.negative();
            let y = FieldElement::<C, P>::from_number(single, &y[lane]).negate_by(negative).to_number();
            write_bytes(&x[lane], &mut point.x);
            write_bytes(&y, &mut point.y);
        }
    }
}

/// Inverts every lane, none of which may be zero, with one inversion (Montgomery's trick): first across the vectors, then across the lanes.
#[inline(always)]
pub(super) fn invert<C: WideCurve, V: U64x8, P: InstructionPath, const N: usize>(
    field: &WideField<C, V>,
    single: P,
    elements: &mut [WideElement<V>; N],
) {
    let mut products = *elements;
    for i in 1..N {
        products[i] = field.multiply(&products[i - 1], &elements[i]);
    }
    // A product of both halves, of all four quarters, of all eight lanes.
    let all = products[N - 1];
    let all_4 = field.rotate_lanes::<4>(&all);
    let halves = field.multiply(&all, &all_4);
    let halves_2 = field.rotate_lanes::<2>(&halves);
    let quarters = field.multiply(&halves, &halves_2);
    let quarters_1 = field.rotate_lanes::<1>(&quarters);
    let [whole, ..] = field.to_numbers(&field.multiply(&quarters, &quarters_1));
    let inverse = FieldElement::<C, P>::from_number(single, &whole).invert().to_number();
    let mut inverse = field.to_element(&field.splat(&inverse));
    for other in [&quarters_1, &halves_2, &all_4] {
        inverse = field.multiply(&inverse, other);
    }
    for i in (1..N).rev() {
        let next = field.multiply(&inverse, &elements[i]);
        elements[i] = field.multiply(&inverse, &products[i - 1]);
        inverse = next;
    }
    elements[0] = inverse;
}
