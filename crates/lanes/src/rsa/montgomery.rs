//! Montgomery's multiplication for numbers of several hundred to some thousand bits, eight side by side, each with its own modulus.
//!
//! A number is blocks of five limbs of 52 bits, and R is 2 to the power of their bits, which are 16 to 64 more than a modulus has. So
//! factors need not be below the modulus N: with factors of at most α·N and β·N, the result is at most (α·β/2^16 + 1)·N.
//!
//! ```text
//! product of a and b, of n blocks each; q are the blocks of the multiple of N that is added:
//!   carried = 0
//!   for column in 0 .. 2n − 1:
//!     sums = carried + Σ a[i] · b[column − i] + Σ q[i] · N[column − i]        ten columns of limbs
//!     if column < n:  q[column] = the factor that clears the lower five columns of sums with N[0]; add q[column] · N[0]
//!     else:           result[column − n] = the lower five columns as limbs
//!     carried = the upper five columns
//!   result[n − 1] = carried
//! ```
//!
//! The sums of a column of blocks stay in registers. A square adds the products of different blocks, and of different limbs, once and
//! doubles them. The number of blocks is not a constant of the types, because code for each length is not faster.

use super::words;
use crate::u64x8::{LANES, LIMB_BITS, LIMB_MASK, U64x8};
use crate::wipe::overwrite;

/// Limbs of a block.
pub(super) const BLOCK: usize = 5;
/// Bits of a block.
pub(super) const BLOCK_BITS: usize = BLOCK * LIMB_BITS as usize;

/// Five limbs in each lane.
pub(super) type Block<V> = [V; BLOCK];

/// A number in each lane; each limb is below 2^52, except the highest.
pub(super) type LaneNumber<V> = Vec<Block<V>>;

/// A word of each lane, in memory.
#[derive(Debug, Clone, Copy)]
#[repr(C, align(64))]
pub(super) struct Lanes(pub(super) [u64; LANES]);

/// A number of each lane, in memory. Wiped on drop.
#[derive(Debug)]
pub(super) struct StoredNumber(Vec<[Lanes; BLOCK]>);

impl StoredNumber {
    /// From words.
    pub(super) fn new(numbers: [&[u64]; LANES], blocks: usize) -> Self {
        let limb = |i: usize| Lanes(numbers.map(|number| words::limb(number, i)));
        Self((0..blocks).map(|block| std::array::from_fn(|i| limb(block * BLOCK + i))).collect())
    }

    #[inline(always)]
    pub(super) fn of<V: U64x8>(number: &LaneNumber<V>) -> Self {
        let mut stored = vec![[Lanes([0; LANES]); BLOCK]; number.len()];
        for (stored, limb) in stored.as_flattened_mut().iter_mut().zip(number.as_flattened()) {
            stored.0 = limb.to_lanes();
        }
        Self(stored)
    }

    #[inline(always)]
    pub(super) fn load<V: U64x8>(&self, cpu: V::Cpu) -> LaneNumber<V> {
        let mut number = vec![[V::splat(cpu, 0); BLOCK]; self.0.len()];
        for (limb, stored) in number.as_flattened_mut().iter_mut().zip(self.0.as_flattened()) {
            *limb = V::from_lanes(cpu, &stored.0);
        }
        number
    }

    #[cfg(all(test, feature = "valgrind", target_arch = "x86_64"))]
    pub(super) fn hide(&mut self) {
        crate::valgrind::hide(&mut self.0[..]);
    }

    /// The lowest `count` words of a lane.
    pub(super) fn words(&self, lane: usize, count: usize) -> Vec<u64> {
        words::from_limbs(self.0.as_flattened().iter().map(|limb| limb.0[lane]), count)
    }
}

impl Drop for StoredNumber {
    fn drop(&mut self) {
        overwrite(&mut self.0, [Lanes([0; LANES]); BLOCK]);
    }
}

/// The odd modulus of each lane, in memory.
#[derive(Debug)]
pub(super) struct StoredModulus {
    number: StoredNumber,
    /// −1/N modulo 2^52.
    inverse: Lanes,
}

impl StoredModulus {
    pub(super) fn new(moduli: [&[u64]; LANES], blocks: usize) -> Self {
        let inverse = Lanes(moduli.map(|modulus| words::negative_inverse(modulus[0])));
        Self { number: StoredNumber::new(moduli, blocks), inverse }
    }

    #[cfg(all(test, feature = "valgrind", target_arch = "x86_64"))]
    pub(super) fn hide(&mut self) {
        self.number.hide();
        crate::valgrind::hide(&mut self.inverse);
    }
}

impl Drop for StoredModulus {
    fn drop(&mut self) {
        overwrite(&mut self.inverse.0, 0);
    }
}

/// The odd modulus of each lane. Wiped on drop.
pub(super) struct Modulus<V: U64x8> {
    cpu: V::Cpu,
    number: LaneNumber<V>,
    inverse: V,
    mask: V,
    /// The multiple of the modulus that a product has added.
    multiple: LaneNumber<V>,
}

impl<V: U64x8> Drop for Modulus<V> {
    #[inline(always)]
    fn drop(&mut self) {
        let zero = self.mask.xor(self.mask);
        overwrite(&mut self.number, [zero; BLOCK]);
        overwrite(&mut self.multiple, [zero; BLOCK]);
        overwrite(std::slice::from_mut(&mut self.inverse), zero);
    }
}

/// Sums of products of two blocks, those of the lower and of the upper halves of limbs' products apart: so that a multiplication seldom
/// waits for the one before.
#[derive(Clone, Copy)]
struct Sums<V> {
    low: [V; 2 * BLOCK - 1],
    high: [V; 2 * BLOCK - 1],
}

impl<V: U64x8> Sums<V> {
    #[inline(always)]
    fn new(zero: V) -> Self {
        Self { low: [zero; 2 * BLOCK - 1], high: [zero; 2 * BLOCK - 1] }
    }

    #[inline(always)]
    fn add_product_of_limbs(&mut self, column: usize, a: V, b: V) {
        self.low[column] = self.low[column].add_product_low(a, b);
        self.high[column] = self.high[column].add_product_high(a, b);
    }

    #[inline(always)]
    fn add_product(&mut self, a: &Block<V>, b: &Block<V>) {
        for (i, b) in b.iter().enumerate() {
            for (j, a) in a.iter().enumerate() {
                self.add_product_of_limbs(i + j, *a, *b);
            }
        }
    }

    /// Adds a column of a square: products of different limbs once, doubled, and squares of limbs.
    #[inline(always)]
    fn add_column_of_square(&mut self, a: &[Block<V>], column: usize, first: usize) {
        for i in first..column.div_ceil(2) {
            self.add_product(&a[i], &a[column - i]);
        }
        let middle = &a[column / 2];
        if column.is_multiple_of(2) {
            for i in 0..BLOCK {
                for j in i + 1..BLOCK {
                    self.add_product_of_limbs(i + j, middle[i], middle[j]);
                }
            }
        }
        for i in 0..2 * BLOCK - 1 {
            self.low[i] = self.low[i].add(self.low[i]);
            self.high[i] = self.high[i].add(self.high[i]);
        }
        if column.is_multiple_of(2) {
            for (i, limb) in middle.iter().enumerate() {
                self.add_product_of_limbs(2 * i, *limb, *limb);
            }
        }
    }

    /// The columns, with the carry of the columns before. With 16 blocks, a column is 320 halves of products: below 2^61.
    #[inline(always)]
    fn columns(&self, carried: &Block<V>) -> [V; 2 * BLOCK] {
        let mut columns = [carried[0]; 2 * BLOCK];
        columns[0] = self.low[0].add(carried[0]);
        for i in 1..2 * BLOCK - 1 {
            columns[i] = self.low[i].add(self.high[i - 1]);
            if i < BLOCK {
                columns[i] = columns[i].add(carried[i]);
            }
        }
        columns[2 * BLOCK - 1] = self.high[2 * BLOCK - 2];
        columns
    }
}

impl<V: U64x8> Modulus<V> {
    #[inline(always)]
    pub(super) fn load(cpu: V::Cpu, stored: &StoredModulus) -> Self {
        let number = stored.number.load(cpu);
        Self {
            cpu,
            inverse: V::from_lanes(cpu, &stored.inverse.0),
            mask: V::splat(cpu, LIMB_MASK),
            multiple: vec![[V::splat(cpu, 0); BLOCK]; number.len()],
            number,
        }
    }

    #[inline(always)]
    pub(super) fn zero(&self) -> LaneNumber<V> {
        vec![[V::splat(self.cpu, 0); BLOCK]; self.number.len()]
    }

    #[inline(always)]
    pub(super) fn one(&self) -> LaneNumber<V> {
        let mut one = self.zero();
        one[0][0] = V::splat(self.cpu, 1);
        one
    }

    /// Sets `product` to a·b/R.
    #[inline(always)]
    pub(super) fn multiply(&mut self, a: &LaneNumber<V>, b: &LaneNumber<V>, product: &mut LaneNumber<V>) {
        self.reduced_product::<false>(a, b, product);
    }

    /// Sets `product` to a²/R.
    #[inline(always)]
    pub(super) fn square(&mut self, a: &LaneNumber<V>, product: &mut LaneNumber<V>) {
        self.reduced_product::<true>(a, a, product);
    }

    /// A product by the steps above. Without closures, which would not be compiled for the CPU's features.
    #[inline(always)]
    fn reduced_product<const IS_SQUARE: bool>(
        &mut self,
        a: &LaneNumber<V>,
        b: &LaneNumber<V>,
        product: &mut LaneNumber<V>,
    ) {
        let zero = V::splat(self.cpu, 0);
        let blocks = self.number.len();
        let mut carried = [zero; BLOCK];
        for column in 0..2 * blocks - 1 {
            // The blocks of a factor whose products with a block of the other belong to this column.
            let (first, end) = ((column + 1).saturating_sub(blocks), blocks.min(column + 1));
            let mut sums = Sums::new(zero);
            if IS_SQUARE {
                sums.add_column_of_square(a, column, first);
            } else {
                for i in first..end {
                    sums.add_product(&a[i], &b[column - i]);
                }
            }
            for i in first..end.min(column) {
                sums.add_product(&self.multiple[i], &self.number[column - i]);
            }
            let mut columns = sums.columns(&carried);
            if column < blocks {
                self.multiple[column] = self.clear_lowest(&mut columns);
            } else {
                product[column - blocks] = self.carry(&mut columns);
            }
            carried.copy_from_slice(&columns[BLOCK..]);
        }
        for i in 0..BLOCK - 1 {
            carried[i + 1] = carried[i + 1].add(carried[i].shift_right(LIMB_BITS));
            carried[i] = carried[i].and(self.mask);
        }
        product[blocks - 1] = carried;
    }

    /// Adds a multiple of the modulus' lowest block to five columns so that they are multiples of 2^260. Returns the factor.
    #[inline(always)]
    fn clear_lowest(&self, columns: &mut [V; 2 * BLOCK]) -> Block<V> {
        let zero = V::splat(self.cpu, 0);
        let lowest = &self.number[0];
        let mut factor = [zero; BLOCK];
        for i in 0..BLOCK {
            factor[i] = zero.add_product_low(columns[i], self.inverse);
            for j in 0..BLOCK {
                columns[i + j] = columns[i + j].add_product_low(factor[i], lowest[j]);
                columns[i + j + 1] = columns[i + j + 1].add_product_high(factor[i], lowest[j]);
            }
            columns[i + 1] = columns[i + 1].add(columns[i].shift_right(LIMB_BITS));
        }
        factor
    }

    /// The lowest five columns as limbs; the excess is added to the sixth.
    #[inline(always)]
    fn carry(&self, columns: &mut [V; 2 * BLOCK]) -> Block<V> {
        let mut block = [columns[0]; BLOCK];
        for i in 0..BLOCK {
            columns[i + 1] = columns[i + 1].add(columns[i].shift_right(LIMB_BITS));
            block[i] = columns[i].and(self.mask);
        }
        block
    }

    /// Makes limbs below 2^52 of sums of limbs, which may be negative where the number is not.
    #[inline(always)]
    pub(super) fn normalise(&self, sum: &mut LaneNumber<V>) {
        let mut above = V::splat(self.cpu, 0);
        for limb in sum.as_flattened_mut() {
            *limb = limb.add(above);
            above = limb.shift_right_signed::<LIMB_BITS>();
            *limb = limb.and(self.mask);
        }
    }
}
