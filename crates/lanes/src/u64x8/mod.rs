//! Eight numbers of 64 bits side by side, with the multiplication of AVX-512 IFMA, or that of doubles in its place. Arithmetic on large
//! numbers is written once over this trait: [`Avx512`] compiles it to instructions, [`Model`] runs it on any CPU, for tests and for checks
//! of constant time.
//!
//! A value can only be made with the token of its CPU, so that its methods are safe to call. All are inlined into functions that are
//! compiled for the CPU (`cpu::entry`).
//!
//! Timing: every operation of [`Avx512`] is an addition, a logical operation, a shift, a permutation within registers, a blend, VPMADD52 or
//! VFMADD on normal numbers, none of which branches or forms an address from its operands (`docs/lanes-ifma.md`: what CPU vendors
//! guarantee).

#[cfg(target_arch = "x86_64")]
mod avx512;
#[cfg(any(test, feature = "model"))]
mod model;

#[cfg(target_arch = "x86_64")]
pub(crate) use avx512::Avx512;
#[cfg(any(test, feature = "model"))]
pub(crate) use model::{Model, ModelCpu};

/// Numbers in a vector.
pub(crate) const LANES: usize = 8;
/// Bits of a factor of VPMADD52.
pub(crate) const LIMB_BITS: u32 = 52;
/// The largest factor.
pub(crate) const LIMB_MASK: u64 = (1 << LIMB_BITS) - 1;

/// Numbers that a look-up selects from.
pub(crate) const TABLE_LENGTH: usize = 32;

/// The numbers that a look-up selects from, in four registers.
#[derive(Debug, Clone, Copy)]
#[repr(C, align(64))]
pub(crate) struct SelectionTable(pub(crate) [u64; TABLE_LENGTH]);

/// A number in each of eight lanes. All operations are constant time in the numbers.
pub(crate) trait U64x8: Copy {
    /// The token that proves the instructions.
    type Cpu: Copy;
    /// A choice for each lane.
    type Mask: Copy;

    /// The same number in every lane.
    fn splat(cpu: Self::Cpu, number: u64) -> Self;
    /// The number of each lane.
    fn from_lanes(cpu: Self::Cpu, lanes: &[u64; LANES]) -> Self;
    /// The reverse of [`U64x8::from_lanes`].
    fn to_lanes(self) -> [u64; LANES];

    /// Sums modulo 2^64.
    fn add(self, other: Self) -> Self;
    /// Differences modulo 2^64.
    fn sub(self, other: Self) -> Self;
    /// Bits that both have.
    fn and(self, other: Self) -> Self;
    /// Bits that either has.
    fn or(self, other: Self) -> Self;
    /// Bits that one of both has.
    fn xor(self, other: Self) -> Self;
    /// A shift to the left by a public number of bits, 64 or more of which leave nothing.
    fn shift_left(self, bits: u32) -> Self;
    /// A shift to the right, as [`U64x8::shift_left`].
    fn shift_right(self, bits: u32) -> Self;
    /// A shift to the right that copies the sign.
    fn shift_right_signed<const BITS: u32>(self) -> Self;
    /// The sum with the lower 52 bits of a product, of which each factor is the lower 52 bits of a lane.
    fn add_product_low(self, a: Self, b: Self) -> Self;
    /// The sum with the upper 52 bits of such a product.
    fn add_product_high(self, a: Self, b: Self) -> Self;
    /// Lane i is that of lane i + `COUNT`, modulo eight.
    fn rotate_lanes<const COUNT: i32>(self) -> Self;

    /// The even lanes of both: lane 2i is that of the first, and lane 2i + 1 is lane 2i of the other.
    fn interleave_low(self, other: Self) -> Self;
    /// The odd lanes of both: lane 2i is lane 2i + 1 of the first, and lane 2i + 1 is that of the other.
    fn interleave_high(self, other: Self) -> Self;

    /// Chooses the lanes that have none of these bits.
    fn has_no_bits(self, bits: Self) -> Self::Mask;
    /// Chooses lane i by bit i of a number.
    fn mask(cpu: Self::Cpu, lanes: u8) -> Self::Mask;
    /// `other` in the chosen lanes, itself in the rest.
    fn blend(self, mask: Self::Mask, other: Self) -> Self;
    /// The number of the table with the index that each lane has; indexes are below [`TABLE_LENGTH`]. Reads all numbers.
    fn look_up(self, table: &SelectionTable) -> Self;
}

#[cfg(test)]
mod tests {
    use rand::rngs::StdRng;
    use rand::{RngExt, SeedableRng};

    use super::*;

    /// Results of every operation, for comparison of two implementations.
    fn results<V: U64x8>(
        cpu: V::Cpu,
        [a, b, c]: &[[u64; LANES]; 3],
        table: &SelectionTable,
        public: u8,
    ) -> Vec<[u64; LANES]> {
        let [x, y, z] = [a, b, c].map(|lanes| V::from_lanes(cpu, lanes));
        let mut all = vec![
            V::splat(cpu, a[0]),
            x.add(y),
            x.sub(y),
            x.and(y),
            x.xor(y),
            x.shift_right_signed::<52>(),
            x.add_product_low(y, z),
            x.add_product_high(y, z),
            x.rotate_lanes::<1>(),
            x.rotate_lanes::<2>(),
            x.rotate_lanes::<4>(),
            x.blend(y.has_no_bits(z), y),
            x.blend(y.has_no_bits(V::splat(cpu, 1 << 63 | 1)), y),
            x.blend(V::mask(cpu, public), y),
            x.and(V::splat(cpu, TABLE_LENGTH as u64 - 1)).look_up(table),
            x.or(y),
            x.interleave_low(y),
            x.interleave_high(y),
        ];
        all.extend([0, 1, 16, 44, 52, 63, 64, 65].map(|bits| x.shift_left(bits)));
        all.extend([0, 1, 16, 44, 52, 63, 64, 65].map(|bits| x.shift_right(bits)));
        all.into_iter().map(V::to_lanes).collect()
    }

    /// The operations by their definitions, on one lane.
    fn by_definition([a, b, c]: [u64; 3]) -> [u64; 5] {
        let product = u128::from(b & LIMB_MASK) * u128::from(c & LIMB_MASK);
        let low = (product as u64) & LIMB_MASK;
        let high = (product >> LIMB_BITS) as u64;
        [
            a.wrapping_add(b),
            a.wrapping_sub(b),
            (a.cast_signed() >> 52).cast_unsigned(),
            a.wrapping_add(low),
            a.wrapping_add(high),
        ]
    }

    fn inputs() -> impl Iterator<Item = ([[u64; LANES]; 3], SelectionTable, u8)> {
        const EDGES: [u64; 8] = [0, 1, !0, LIMB_MASK, LIMB_MASK + 1, 1 << 63, 1 << 51, !LIMB_MASK];
        let mut rng = StdRng::seed_from_u64(1);
        (0..20_000).map(move |round| {
            let mut number = || if round % 2 == 0 { EDGES[rng.random_range(0..EDGES.len())] } else { rng.random() };
            let lanes = std::array::from_fn(|_| std::array::from_fn(|_| number()));
            let table = SelectionTable(std::array::from_fn(|_| number()));
            (lanes, table, rng.random())
        })
    }

    #[test]
    fn the_model_is_the_definition() {
        for (lanes, table, _) in inputs() {
            let results = results::<Model>(ModelCpu, &lanes, &table, 0);
            for i in 0..LANES {
                let lane = lanes.map(|lanes| lanes[i]);
                let found = [1, 2, 5, 6, 7].map(|operation: usize| results[operation][i]);
                assert_eq!(found, by_definition(lane), "{lane:x?}");
                assert_eq!(results[14][i], table.0[lane[0] as usize % TABLE_LENGTH]);
                assert_eq!(results[8][i], lanes[0][(i + 1) % LANES]);
                assert_eq!(results[15][i], lane[0] | lane[1]);
                let of_both = |odd: usize| lanes[i % 2][i / 2 * 2 + odd];
                assert_eq!([results[16][i], results[17][i]], [of_both(0), of_both(1)]);
            }
        }
    }

    #[test]
    #[cfg(target_arch = "x86_64")]
    fn the_instructions_equal_the_model() {
        let (ifma, fma) = (crate::cpu::Ifma::detect(), crate::cpu::Avx512F::detect());
        for (lanes, table, public) in inputs() {
            let expected = results::<Model>(ModelCpu, &lanes, &table, public);
            for found in [
                ifma.map(|cpu| results::<Avx512<_>>(cpu, &lanes, &table, public)),
                fma.map(|cpu| results::<Avx512<_>>(cpu, &lanes, &table, public)),
            ] {
                assert!(found.is_none_or(|found| found == expected), "{lanes:x?}");
            }
        }
    }
}
