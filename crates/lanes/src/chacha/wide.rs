//! Sixteen blocks of Poly1305 at a time, in two vectors of eight. Its definition is a product for each block, and each needs the one
//! before:
//!
//! ```text
//! sum = (sum + block) · r
//! ```
//!
//! Here lane i has every sixteenth block, so that sixteen sums do not depend on each other:
//!
//! ```text
//! lanes = blocks 1 to 16, and the sum so far added to lane 1
//! for each further 256 bytes:  lanes = lanes · r^16 + blocks
//! sum = lane 1 · r^16 + lane 2 · r^15 + … + lane 16 · r
//! ```
//!
//! A number has limbs of 44, 44 and 42 bits; 2^132, the first power beyond them, is 20 modulo 2^130 − 5, so a limb that would be beyond is
//! multiplied by 20 beforehand. A product takes 18 multiplications and some 20 carries, and 11 instructions split eight blocks into limbs:
//! 25 cycles for 128 bytes, or 0.2 per byte, where two such instructions start in a cycle.

use super::field::{ABOVE, BEYOND, LIMB_BITS, LIMB_MASK, LIMBS, Poly1305Number, TOP_BITS, TOP_MASK, reduce};
use crate::u64x8::{LANES, U64x8};
use crate::wipe::overwrite;

/// Bytes of a block.
const BLOCK_SIZE: usize = 16;
/// Blocks of a step.
const BLOCKS: usize = 2 * LANES;
/// Bytes of a step.
pub(super) const STEP_SIZE: usize = BLOCKS * BLOCK_SIZE;
/// The index among eight blocks of each lane's block, which follows from interleaving the halves of two registers.
const PLACES: [usize; LANES] = [0, 4, 1, 5, 2, 6, 3, 7];

/// The powers of r by which lanes are multiplied. Wiped on drop.
pub(super) struct Powers {
    /// Limb by limb: the powers of the first eight blocks' lanes, and of the others'.
    lanes: [[[u64; LANES]; LIMBS]; 2],
    /// r^16.
    step: [u64; LIMBS],
}

impl Drop for Powers {
    fn drop(&mut self) {
        overwrite(&mut self.lanes, [[0; LANES]; LIMBS]);
        overwrite(&mut self.step, 0);
    }
}

impl Powers {
    pub(super) fn new(r: &Poly1305Number) -> Self {
        let mut powers: [Poly1305Number; BLOCKS] = [const { Poly1305Number::zero() }; BLOCKS];
        powers[0] = r.clone();
        // Products of halves depend on fewer others than products with r.
        for exponent in 2..=BLOCKS {
            let half = exponent / 2;
            powers[exponent - 1] = powers[half - 1].multiply(&powers[exponent - half - 1]);
        }
        // Block i of sixteen is multiplied by r^(16 - i).
        let of = |first: usize, limb: usize| PLACES.map(|place| powers[BLOCKS - 1 - first - place].0[limb]);
        let lanes = [0, LANES].map(|first| [0, 1, 2].map(|limb| of(first, limb)));
        Self { lanes, step: powers[BLOCKS - 1].0 }
    }
}

/// A factor in each lane: its limbs, and the second and third of them times [`BEYOND`].
struct Factor<V> {
    limbs: [V; LIMBS],
    beyond: [V; 2],
}

impl<V: U64x8> Factor<V> {
    #[inline(always)]
    fn new(cpu: V::Cpu, limbs: [V; LIMBS]) -> Self {
        let (zero, beyond) = (V::splat(cpu, 0), V::splat(cpu, BEYOND));
        // Limbs have at most 46 bits, so that the product has 51.
        Self { limbs, beyond: [zero.add_product_low(limbs[1], beyond), zero.add_product_low(limbs[2], beyond)] }
    }

    #[inline(always)]
    fn of_lanes(cpu: V::Cpu, [low, middle, top]: &[[u64; LANES]; LIMBS]) -> Self {
        Self::new(cpu, [V::from_lanes(cpu, low), V::from_lanes(cpu, middle), V::from_lanes(cpu, top)])
    }
}

/// Continues the sum with `bytes`, whose length must be a multiple of [`STEP_SIZE`] and not zero.
///
/// Written with loops, here and below: closures over arrays would not be inlined into a function with CPU features.
#[inline(always)]
pub(super) fn update<V: U64x8>(cpu: V::Cpu, powers: &Powers, sum: &Poly1305Number, bytes: &[u8]) -> Poly1305Number {
    let mut steps = bytes.as_chunks::<STEP_SIZE>().0.iter();
    let [mut front, mut back] = blocks::<V>(cpu, steps.next().expect("a step at least"));
    let (mut before, mut step_limbs) = ([V::splat(cpu, 0); LIMBS], [V::splat(cpu, 0); LIMBS]);
    for i in 0..LIMBS {
        // The first block's lane is the first.
        before[i] = V::from_lanes(cpu, &[sum.0[i], 0, 0, 0, 0, 0, 0, 0]);
        step_limbs[i] = V::splat(cpu, powers.step[i]);
    }
    front = add(front, before);
    let factor = Factor::new(cpu, step_limbs);
    for step in steps {
        let [next_front, next_back] = blocks::<V>(cpu, step);
        front = add(multiply(cpu, front, &factor), next_front);
        back = add(multiply(cpu, back, &factor), next_back);
    }
    let [front_powers, back_powers] = &powers.lanes;
    let front = multiply(cpu, front, &Factor::of_lanes(cpu, front_powers));
    let all = add(front, multiply(cpu, back, &Factor::of_lanes(cpu, back_powers)));
    let mut sums = [0; LIMBS];
    for (sum, limb) in sums.iter_mut().zip(all) {
        for lane in limb.to_lanes() {
            *sum = u128::wrapping_add(*sum, u128::from(lane));
        }
    }
    reduce(sums)
}

#[inline(always)]
fn add<V: U64x8>(left: [V; LIMBS], right: [V; LIMBS]) -> [V; LIMBS] {
    [left[0].add(right[0]), left[1].add(right[1]), left[2].add(right[2])]
}

/// The limbs of sixteen blocks, with the 1 above each.
#[inline(always)]
fn blocks<V: U64x8>(cpu: V::Cpu, bytes: &[u8; STEP_SIZE]) -> [[V; LIMBS]; 2] {
    let [a, b, c, d]: &[[u8; 64]; 4] = bytes.as_chunks().0.try_into().expect("four registers");
    [limbs(cpu, load(cpu, a), load(cpu, b)), limbs(cpu, load(cpu, c), load(cpu, d))]
}

#[inline(always)]
fn load<V: U64x8>(cpu: V::Cpu, bytes: &[u8; 64]) -> V {
    let mut lanes = [0; LANES];
    for (lane, bytes) in lanes.iter_mut().zip(bytes.as_chunks().0) {
        *lane = u64::from_le_bytes(*bytes);
    }
    V::from_lanes(cpu, &lanes)
}

#[inline(always)]
fn limbs<V: U64x8>(cpu: V::Cpu, front: V, back: V) -> [V; LIMBS] {
    let (low, high) = (front.interleave_low(back), front.interleave_high(back));
    let mask = V::splat(cpu, LIMB_MASK);
    let middle = low.shift_right(LIMB_BITS).or(high.shift_left(64 - LIMB_BITS));
    [low.and(mask), middle.and(mask), high.shift_right(2 * LIMB_BITS - 64).or(V::splat(cpu, ABOVE))]
}

/// Products of limbs of at most 47 bits with those of a factor.
#[inline(always)]
fn multiply<V: U64x8>(cpu: V::Cpu, [a0, a1, a2]: [V; LIMBS], factor: &Factor<V>) -> [V; LIMBS] {
    let ([r0, r1, r2], [s1, s2]) = (factor.limbs, factor.beyond);
    let columns = [[r0, s2, s1], [r1, r0, s2], [r2, r1, r0]];
    let zero = V::splat(cpu, 0);
    let (mut low, mut high) = ([zero; LIMBS], [zero; LIMBS]);
    for i in 0..LIMBS {
        let [x, y, z] = columns[i];
        low[i] = low[i].add_product_low(a0, x).add_product_low(a1, y).add_product_low(a2, z);
        high[i] = high[i].add_product_high(a0, x).add_product_high(a1, y).add_product_high(a2, z);
    }
    // An upper part counts 2^52: eight bits above a limb, ten above the highest.
    let mask = V::splat(cpu, LIMB_MASK);
    let to_middle = low[0].shift_right(LIMB_BITS).add(high[0].shift_left(52 - LIMB_BITS));
    let middle = low[1].add(to_middle);
    let to_top = middle.shift_right(LIMB_BITS).add(high[1].shift_left(52 - LIMB_BITS));
    let top = low[2].add(to_top);
    let to_low = top.shift_right(TOP_BITS).add(high[2].shift_left(52 - TOP_BITS));
    let bottom = low[0].and(mask).add(to_low).add(to_low.shift_left(2));
    [bottom.and(mask), middle.and(mask).add(bottom.shift_right(LIMB_BITS)), top.and(V::splat(cpu, TOP_MASK))]
}
