//! Sixteen blocks of Poly1305 at a time, in two vectors of eight: each lane sums its own blocks by powers of r^16, and at the end every
//! lane is multiplied by the power for its place.
//!
//! A product takes 18 multiplications and some 20 carries, and 11 instructions take a block's bytes to limbs: 25 cycles for 128 bytes, or
//! 0.2 a byte, where two such instructions start in a cycle.

use super::field::{ABOVE, BEYOND, LIMB_BITS, LIMB_MASK, LIMBS, Number, TOP_BITS, TOP_MASK, reduce};
use crate::u64x8::{LANES, U64x8};
use crate::wipe::overwrite;

/// Bytes of a block.
const BLOCK_SIZE: usize = 16;
/// Blocks that a step takes.
const BLOCKS: usize = 2 * LANES;
/// Bytes of them.
pub(super) const STEP_SIZE: usize = BLOCKS * BLOCK_SIZE;
/// The place among eight blocks of each lane's block, as interleaving the halves of registers puts them.
const PLACES: [usize; LANES] = [0, 4, 1, 5, 2, 6, 3, 7];

/// r to the powers that lanes are multiplied by. Wiped on drop.
#[repr(C, align(64))]
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
    pub(super) fn new(r: &Number) -> Self {
        let mut powers: [Number; BLOCKS] = [const { Number::zero() }; BLOCKS];
        powers[0] = r.clone();
        for i in 1..BLOCKS {
            powers[i] = powers[i - 1].multiply(r);
        }
        // Block i of sixteen is multiplied by r^(16 - i).
        let of = |first: usize, limb: usize| PLACES.map(|place| powers[BLOCKS - 1 - first - place].0[limb]);
        let lanes = [0, LANES].map(|first| [0, 1, 2].map(|limb| of(first, limb)));
        Self { lanes, step: powers[BLOCKS - 1].0 }
    }
}

/// Factors, and the second and third limb times what 2^132 is worth.
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
}

/// The sum so far with `bytes`, whose length is a multiple of [`STEP_SIZE`] and not zero.
#[inline(always)]
pub(super) fn update<V: U64x8>(cpu: V::Cpu, powers: &Powers, sum: &Number, bytes: &[u8]) -> Number {
    let mut steps = bytes.as_chunks::<STEP_SIZE>().0.iter();
    let [mut front, mut back] = blocks::<V>(cpu, steps.next().expect("a step at least"));
    // The first block's lane is the first.
    front = add(front, sum.0.map(|limb| V::from_lanes(cpu, &[limb, 0, 0, 0, 0, 0, 0, 0])));
    let factor = Factor::new(cpu, powers.step.map(|limb| V::splat(cpu, limb)));
    for step in steps {
        let [next_front, next_back] = blocks::<V>(cpu, step);
        front = add(multiply(cpu, front, &factor), next_front);
        back = add(multiply(cpu, back, &factor), next_back);
    }
    let [front_powers, back_powers] =
        powers.lanes.each_ref().map(|limbs| Factor::new(cpu, limbs.each_ref().map(|lanes| V::from_lanes(cpu, lanes))));
    let all = add(multiply(cpu, front, &front_powers), multiply(cpu, back, &back_powers));
    reduce(all.map(|limb| limb.to_lanes().into_iter().map(u128::from).sum()))
}

#[inline(always)]
fn add<V: U64x8>(left: [V; LIMBS], right: [V; LIMBS]) -> [V; LIMBS] {
    [left[0].add(right[0]), left[1].add(right[1]), left[2].add(right[2])]
}

/// The limbs of sixteen blocks, with the 1 above each.
#[inline(always)]
fn blocks<V: U64x8>(cpu: V::Cpu, bytes: &[u8; STEP_SIZE]) -> [[V; LIMBS]; 2] {
    let registers = bytes.as_chunks::<64>().0;
    let load = |i: usize| V::from_lanes(cpu, &std::array::from_fn(|lane| word(&registers[i], lane)));
    [limbs(cpu, load(0), load(1)), limbs(cpu, load(2), load(3))]
}

#[inline(always)]
fn word(bytes: &[u8; 64], i: usize) -> u64 {
    u64::from_le_bytes(bytes.as_chunks().0[i])
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
    // Loops, as closures for arrays would not be inlined into a function with features of its own.
    for i in 0..LIMBS {
        let [x, y, z] = columns[i];
        low[i] = low[i].add_product_low(a0, x).add_product_low(a1, y).add_product_low(a2, z);
        high[i] = high[i].add_product_high(a0, x).add_product_high(a1, y).add_product_high(a2, z);
    }
    // Upper parts are worth 2^52: eight bits above a limb, ten above the highest.
    let mask = V::splat(cpu, LIMB_MASK);
    let to_middle = low[0].shift_right(LIMB_BITS).add(high[0].shift_left(52 - LIMB_BITS));
    let middle = low[1].add(to_middle);
    let to_top = middle.shift_right(LIMB_BITS).add(high[1].shift_left(52 - LIMB_BITS));
    let top = low[2].add(to_top);
    let to_low = top.shift_right(TOP_BITS).add(high[2].shift_left(52 - TOP_BITS));
    let bottom = low[0].and(mask).add(to_low).add(to_low.shift_left(2));
    [bottom.and(mask), middle.and(mask).add(bottom.shift_right(LIMB_BITS)), top.and(V::splat(cpu, TOP_MASK))]
}
