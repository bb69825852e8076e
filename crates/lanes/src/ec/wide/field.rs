//! Elements of a field, eight side by side: five limbs of 52 bits each, the lowest first.
//!
//! ```text
//! product:  columns[i + j]     += lower 52 bits of a[i] · b[j]
//!           columns[i + j + 1] += upper 52 bits of a[i] · b[j]         50 instructions
//! square:   products of different limbs once, doubled, then the squares of the limbs; 30 instructions
//! reduce:   by the curve, from ten columns to five, plus an addend
//! carry:    limb[i + 1] += limb[i] >> 52
//! ```
//!
//! A value need not be below the prime p. Comments give bounds as multiples of p: a value of at most α·p is "below α". Every value is
//! below 2^260, or 16, so that it fits the limbs. Products and squares are columns of 2^(52·i) first; a curve reduces columns,
//! and may add something to the result at no cost.

use super::super::curve::PrimeCurve;
use super::super::words::{Words, add, mask, select, subtract};
use crate::u64x8::{LANES, LIMB_BITS, LIMB_MASK, U64x8};

/// Limbs of an element.
pub(super) const LIMBS: usize = 5;

/// The element of each lane; each limb is below 2^52.
pub(in crate::ec) type WideElement<V> = [V; LIMBS];

/// A sum of products before its reduction.
pub(in crate::ec) type Columns<V> = [V; 2 * LIMBS];

/// The numbers that a field's reduction needs, in registers.
pub(in crate::ec) struct Constants<V> {
    pub(super) mask: V,
    pub(super) curve: [V; 3],
}

/// The differences between the curves.
pub(in crate::ec) trait WideCurve: PrimeCurve {
    /// The numbers of [`Constants`].
    const CONSTANTS: [u64; 3];
    /// For elements in Montgomery form, 2^520 modulo p: the factor that makes an element of a number.
    const MONTGOMERY: Option<Words>;

    /// The sum of a reduced product and `addend`, whose limbs are below 2^60. The factors' bounds α and β give at most
    /// α·β/16 + 1 and the addend on P-256, and 1.0001 on secp256k1.
    fn reduce<V: U64x8>(constants: &Constants<V>, columns: Columns<V>, addend: &WideElement<V>) -> WideElement<V>;
    /// As `reduce`, to at most 1.0001 on both curves. The sum of the product and the addend is at most 2^8.
    fn reduce_tightly<V: U64x8>(
        constants: &Constants<V>,
        columns: Columns<V>,
        addend: &WideElement<V>,
    ) -> WideElement<V>;
    /// For the doubling of a point (X/Z², Y/Z³): 3·X² + a·Z⁴, and twice Y·Z; `gamma` is Y².
    fn slope_and_z<V: U64x8>(
        field: &WideField<Self, V>,
        point: [&WideElement<V>; 3],
        gamma: &WideElement<V>,
    ) -> (WideElement<V>, WideElement<V>)
    where
        Self: Sized;
    /// A square root, where there is one: the power of (p + 1)/4, as both primes are 3 modulo 4.
    fn square_root<V: U64x8>(field: &WideField<Self, V>, a: &WideElement<V>) -> WideElement<V>
    where
        Self: Sized;
}

/// The arithmetic of a field on a CPU.
pub(in crate::ec) struct WideField<C, V: U64x8> {
    pub(super) cpu: V::Cpu,
    constants: Constants<V>,
    curve: std::marker::PhantomData<C>,
}

impl<C: WideCurve, V: U64x8> WideField<C, V> {
    #[inline(always)]
    pub(super) fn new(cpu: V::Cpu) -> Self {
        let [a, b, c] = C::CONSTANTS;
        let curve = [V::splat(cpu, a), V::splat(cpu, b), V::splat(cpu, c)];
        Self { cpu, constants: Constants { mask: V::splat(cpu, LIMB_MASK), curve }, curve: std::marker::PhantomData }
    }

    #[inline(always)]
    pub(super) fn zero(&self) -> WideElement<V> {
        [V::splat(self.cpu, 0); LIMBS]
    }

    /// The same number in every lane.
    #[inline(always)]
    pub(super) fn splat(&self, number: &Words) -> WideElement<V> {
        let limbs = limbs(number);
        let mut element = self.zero();
        for i in 0..LIMBS {
            element[i] = V::splat(self.cpu, limbs[i]);
        }
        element
    }

    #[inline(always)]
    pub(super) fn multiply(&self, a: &WideElement<V>, b: &WideElement<V>) -> WideElement<V> {
        C::reduce(&self.constants, add_product([self.constants.zero(); 2 * LIMBS], a, b), &self.zero())
    }

    #[inline(always)]
    pub(super) fn square(&self, a: &WideElement<V>) -> WideElement<V> {
        C::reduce(&self.constants, square(self.constants.zero(), a), &self.zero())
    }

    /// The power of 2^`times`.
    #[inline(always)]
    pub(super) fn square_times(&self, a: &WideElement<V>, times: usize) -> WideElement<V> {
        let mut power = *a;
        for _ in 0..times {
            power = self.square(&power);
        }
        power
    }

    /// a·b + `addend`.
    #[inline(always)]
    pub(super) fn multiply_add(
        &self,
        a: &WideElement<V>,
        b: &WideElement<V>,
        addend: &WideElement<V>,
    ) -> WideElement<V> {
        C::reduce(&self.constants, add_product([self.constants.zero(); 2 * LIMBS], a, b), addend)
    }

    /// a² + `addend`, at most 1.0001.
    #[inline(always)]
    pub(super) fn square_add_tightly(&self, a: &WideElement<V>, addend: &WideElement<V>) -> WideElement<V> {
        C::reduce_tightly(&self.constants, square(self.constants.zero(), a), addend)
    }

    /// a·b + c·d, reduced once.
    #[inline(always)]
    pub(super) fn multiply_both(&self, [a, b]: [&WideElement<V>; 2], [c, d]: [&WideElement<V>; 2]) -> WideElement<V> {
        let columns = add_product([self.constants.zero(); 2 * LIMBS], a, b);
        C::reduce(&self.constants, add_product(columns, c, d), &self.zero())
    }

    /// Sums of limbs: no element yet, but an addend.
    #[inline(always)]
    pub(super) fn add(&self, a: &WideElement<V>, b: &WideElement<V>) -> WideElement<V> {
        let mut sum = *a;
        for i in 0..LIMBS {
            sum[i] = sum[i].add(b[i]);
        }
        sum
    }

    /// `MULTIPLE` times p minus a, as an addend. The limbs of a are sums of at most `SUMMANDS` elements', and a is at most `MULTIPLE`.
    #[inline(always)]
    pub(super) fn negate<const MULTIPLE: u64, const SUMMANDS: u64>(&self, a: &WideElement<V>) -> WideElement<V> {
        let multiple = const { multiple(&C::PRIME, MULTIPLE, SUMMANDS) };
        let mut negative = self.zero();
        for i in 0..LIMBS {
            negative[i] = V::splat(self.cpu, multiple[i]).sub(a[i]);
        }
        negative
    }

    /// An element from sums of limbs.
    #[inline(always)]
    pub(super) fn carry(&self, sums: WideElement<V>) -> WideElement<V> {
        carry(&self.constants, sums)
    }

    /// The elements of numbers below 2^256.
    #[inline(always)]
    pub(super) fn to_element(&self, number: &WideElement<V>) -> WideElement<V> {
        match C::MONTGOMERY {
            Some(factor) => self.multiply(number, &self.splat(&factor)),
            None => *number,
        }
    }

    /// The numbers of an element: below the prime, in each lane.
    #[inline(always)]
    pub(super) fn to_numbers(&self, a: &WideElement<V>) -> [Words; LANES] {
        let number = match C::MONTGOMERY {
            // At most p: the product with 1 adds nothing to the bound of the reduction.
            Some(_) => self.multiply(a, &self.splat(&[1, 0, 0, 0])),
            None => *a,
        };
        let stored = number.map(V::to_lanes);
        std::array::from_fn(|i| {
            below_prime::<C>(&[stored[0][i], stored[1][i], stored[2][i], stored[3][i], stored[4][i]])
        })
    }

    /// `other` in the chosen lanes.
    #[inline(always)]
    pub(super) fn blend(&self, a: &WideElement<V>, mask: V::Mask, other: &WideElement<V>) -> WideElement<V> {
        let mut blended = *a;
        for i in 0..LIMBS {
            blended[i] = blended[i].blend(mask, other[i]);
        }
        blended
    }

    #[inline(always)]
    pub(super) fn rotate_lanes<const COUNT: i32>(&self, a: &WideElement<V>) -> WideElement<V> {
        let mut rotated = *a;
        for limb in &mut rotated {
            *limb = limb.rotate_lanes::<COUNT>();
        }
        rotated
    }
}

impl<V: U64x8> Constants<V> {
    #[inline(always)]
    pub(super) fn zero(&self) -> V {
        self.mask.xor(self.mask)
    }
}

/// Adds the columns of a product: at most nine parts below 2^52 each.
#[inline(always)]
fn add_product<V: U64x8>(mut columns: Columns<V>, a: &WideElement<V>, b: &WideElement<V>) -> Columns<V> {
    for i in 0..LIMBS {
        for j in 0..LIMBS {
            columns[i + j] = columns[i + j].add_product_low(a[j], b[i]);
        }
        for j in 0..LIMBS {
            columns[i + j + 1] = columns[i + j + 1].add_product_high(a[j], b[i]);
        }
    }
    columns
}

/// The columns of a square: products of different limbs once, doubled, and the squares of the limbs. The limbs themselves cannot be
/// doubled, because only 52 bits of a factor count.
#[inline(always)]
fn square<V: U64x8>(zero: V, a: &WideElement<V>) -> Columns<V> {
    let mut columns = [zero; 2 * LIMBS];
    for i in 0..LIMBS {
        for j in i + 1..LIMBS {
            columns[i + j] = columns[i + j].add_product_low(a[i], a[j]);
            columns[i + j + 1] = columns[i + j + 1].add_product_high(a[i], a[j]);
        }
    }
    for column in &mut columns {
        *column = column.add(*column);
    }
    for i in 0..LIMBS {
        columns[2 * i] = columns[2 * i].add_product_low(a[i], a[i]);
        columns[2 * i + 1] = columns[2 * i + 1].add_product_high(a[i], a[i]);
    }
    columns
}

/// Adds the excess of each limb over 52 bits to the next one. The highest keeps its excess.
#[inline(always)]
pub(super) fn carry<V: U64x8>(constants: &Constants<V>, mut sums: WideElement<V>) -> WideElement<V> {
    for i in 0..LIMBS - 1 {
        sums[i + 1] = sums[i + 1].add(sums[i].shift_right(LIMB_BITS));
        sums[i] = sums[i].and(constants.mask);
    }
    sums
}

/// As [`carry`] for limbs that may be negative, of a number that is not.
#[inline(always)]
pub(super) fn carry_signed<V: U64x8>(constants: &Constants<V>, mut sums: WideElement<V>) -> WideElement<V> {
    for i in 0..LIMBS - 1 {
        sums[i + 1] = sums[i + 1].add(sums[i].shift_right_signed::<LIMB_BITS>());
        sums[i] = sums[i].and(constants.mask);
    }
    sums
}

/// The limbs of a number.
pub(super) const fn limbs(number: &Words) -> [u64; LIMBS] {
    let [a, b, c, d] = *number;
    [
        a & LIMB_MASK,
        (a >> 52 | b << 12) & LIMB_MASK,
        (b >> 40 | c << 24) & LIMB_MASK,
        (c >> 28 | d << 36) & LIMB_MASK,
        d >> 16,
    ]
}

/// The number of these limbs, which are below 2^52, modulo 2^256.
pub(super) const fn words(limbs: &[u64; LIMBS]) -> Words {
    let [a, b, c, d, e] = *limbs;
    [a | b << 52, b >> 12 | c << 40, c >> 24 | d << 28, d >> 36 | e << 16]
}

/// A multiple of a prime with limbs of which each but the highest is at least `summands`·(2^52 − 1), so that a number of that many
/// summands can be taken from it limb by limb.
const fn multiple(prime: &Words, factor: u64, summands: u64) -> [u64; LIMBS] {
    let mut sums = limbs(prime);
    let mut i = 0;
    while i < LIMBS {
        sums[i] *= factor;
        if i > 0 {
            sums[i] += sums[i - 1] >> LIMB_BITS;
            sums[i - 1] &= LIMB_MASK;
        }
        i += 1;
    }
    let mut i = 0;
    while i < LIMBS - 1 {
        // Each limb but the highest lends to the one below and borrows from the one above.
        sums[i] = sums[i] + (summands << LIMB_BITS) - if i > 0 { summands } else { 0 };
        i += 1;
    }
    sums[LIMBS - 1] -= summands;
    sums
}

/// Takes the number of each lane to four vectors of words.
#[inline(always)]
pub(super) fn transpose<V: U64x8>(cpu: V::Cpu, numbers: [&Words; LANES]) -> [V; 4] {
    let mut words = [V::splat(cpu, 0); 4];
    for i in 0..4 {
        let mut lanes = [0; LANES];
        for (lane, number) in lanes.iter_mut().zip(numbers) {
            *lane = number[i];
        }
        words[i] = V::from_lanes(cpu, &lanes);
    }
    words
}

/// The number below the prime, of limbs that are at most 2^256 + 2^254 together. Constant time.
fn below_prime<C: PrimeCurve>(limbs: &[u64; LIMBS]) -> Words {
    // 2^256 minus the prime, which equals 2^256 modulo the prime.
    let (rest, _) = subtract([0; 4], C::PRIME);
    let (folded, _) = add(words(limbs), select(mask(limbs[LIMBS - 1] >> 48 != 0), [0; 4], rest));
    let (reduced, borrow) = subtract(folded, C::PRIME);
    select(mask(borrow), reduced, folded)
}

#[cfg(test)]
mod tests {
    use rand::rngs::StdRng;
    use rand::{RngExt, SeedableRng};

    use super::super::super::element::{ElementField as _, FieldElement as Single};
    use super::super::super::p256::P256;
    use super::super::super::portable::Portable;
    use super::super::super::secp256k1::Secp256k1;
    use super::*;
    use crate::u64x8::{Model, ModelCpu};

    /// Limbs with edges next to random ones: any number below 2^260.
    fn element(rng: &mut StdRng, is_edge: bool) -> [[u64; LANES]; LIMBS] {
        const EDGES: [u64; 7] = [0, 1, LIMB_MASK, LIMB_MASK - 1, 1 << 48, (1 << 48) - 1, 0xffff_fffe_ffff];
        let mut limb =
            || if is_edge { EDGES[rng.random_range(0..EDGES.len())] } else { rng.random_range(0..=LIMB_MASK) };
        std::array::from_fn(|_| std::array::from_fn(|_| limb()))
    }

    /// The element of a lane's limbs in the field's other implementation, which is compared with fiat-crypto.
    fn single<C: WideCurve>(limbs: [u64; LIMBS]) -> Single<C, Portable> {
        let number = |number: Words| Single::<C, Portable>::from_number(Portable, &number);
        let [low, top] = [words(&limbs), [limbs[LIMBS - 1] >> 48, 0, 0, 0]];
        let (reduced, borrow) = subtract(low, C::PRIME);
        let two_256 = number(subtract([0; 4], C::PRIME).0);
        let value = number(select(mask(borrow), reduced, low)) + number(top) * two_256;
        match C::MONTGOMERY {
            // The factor is the square of 2^260, and 2^260 is the element of one.
            Some(square) => {
                value * number(square).invert() * (0..260).fold(number([1, 0, 0, 0]), |power, _| power + power)
            }
            None => value,
        }
    }

    /// Every operation on random elements and on edges, as large as limbs can be, against the same on single numbers.
    fn agrees<C: WideCurve, V: U64x8>(cpu: V::Cpu, rounds: usize) {
        let field = WideField::<C, V>::new(cpu);
        let mut rng = StdRng::seed_from_u64(1);
        for round in 0..rounds {
            let mut inputs: [[[u64; LANES]; LIMBS]; 4] = std::array::from_fn(|_| element(&mut rng, round % 2 == 0));
            // Below 8 and below 16: the product is below 9.
            inputs[0][LIMBS - 1] = inputs[0][LIMBS - 1].map(|limb| limb >> 1);
            // Numbers below 2^256, where less than the largest is allowed.
            let small = inputs.map(|input| {
                let [a, b, c, d, e] = input;
                [a, b, c, d, e.map(|limb| limb & ((1 << 48) - 1))]
            });
            let wide = |input: &[[u64; LANES]; LIMBS]| input.map(|limb| V::from_lanes(cpu, &limb));
            let [a, b] = [&inputs[0], &inputs[1]].map(wide);
            let [x, y, z, w] = small.each_ref().map(wide);
            // Numbers come out of products alone.
            let one = field.to_element(&field.splat(&[1, 0, 0, 0]));
            let results = [
                field.multiply(&a, &b),
                field.square(&a),
                field.multiply_add(&x, &y, &field.negate::<3, 1>(&z)),
                field.square_add_tightly(&x, &field.add(&field.negate::<4, 3>(&z), &w)),
                field.multiply_both([&x, &y], [&z, &w]),
                field.carry(field.add(&x, &field.negate::<2, 1>(&y))),
                field.to_element(&x),
                field.rotate_lanes::<4>(&a),
            ];
            let stored = results.map(|result| result.map(V::to_lanes));
            let numbers = results.map(|result| field.to_numbers(&field.multiply(&result, &one)));
            for i in 0..LANES {
                let lane = |input: &[[u64; LANES]; LIMBS], i: usize| single::<C>(input.map(|limb| limb[i]));
                let [a, b, other] = [lane(&inputs[0], i), lane(&inputs[1], i), lane(&inputs[0], (i + 4) % LANES)];
                let [x, y, z, w] = small.each_ref().map(|input| lane(input, i));
                let from_number = match C::MONTGOMERY {
                    // The element of the number that the limbs of x form.
                    Some(square) => x * Single::from_number(Portable, &root::<C>(&square)),
                    None => x,
                };
                let expected =
                    [a * b, a.square(), x * y - z, x.square() - z + w, x * y + z * w, x - y, from_number, other];
                for (operation, expected) in expected.into_iter().enumerate() {
                    let limbs = stored[operation].map(|limb| limb[i]);
                    assert!(limbs.iter().all(|limb| *limb <= LIMB_MASK), "operation {operation}: {limbs:x?}");
                    assert_eq!(numbers[operation][i], expected.to_number(), "operation {operation} of {inputs:x?}");
                }
                let tight = stored[3].map(|limb| limb[i]);
                assert!(tight[LIMBS - 1] <= (1 << 48) + (1 << 25), "{tight:x?}");
            }
        }
    }

    /// 2^260 modulo the prime, from its square's definition.
    fn root<C: WideCurve>(_: &Words) -> Words {
        let one = Single::<C, Portable>::from_number(Portable, &[1, 0, 0, 0]);
        (0..260).fold(one, |power, _| power + power).to_number()
    }

    #[test]
    fn the_model_agrees_with_single_elements() {
        agrees::<P256, Model>(ModelCpu, 1_000);
        agrees::<Secp256k1, Model>(ModelCpu, 1_000);
    }

    #[test]
    #[cfg(target_arch = "x86_64")]
    fn the_instructions_agree_with_single_elements() {
        use crate::u64x8::Avx512;
        if let Some(cpu) = crate::cpu::Ifma::detect() {
            agrees::<P256, Avx512<_>>(cpu, 1_000);
            agrees::<Secp256k1, Avx512<_>>(cpu, 1_000);
        }
        if let Some(cpu) = crate::cpu::Avx512F::detect() {
            agrees::<P256, Avx512<_>>(cpu, 1_000);
            agrees::<Secp256k1, Avx512<_>>(cpu, 1_000);
        }
    }
}
