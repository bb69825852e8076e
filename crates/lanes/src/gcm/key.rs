//! An expanded key: the round keys of AES (FIPS 197, 5.2) and the powers of the hash key.
//!
//! ```text
//! round keys:  `schedule`
//! powers:      H = 2 · reverse(AES(0)) in POLYVAL's field
//!              H² = H · H; H³, H⁴ = (H, H²) · H²; then from n to 2n powers: (H, …, H^n) · H^n, a vector at a time
//!              folded[i] = the sum of the halves of power i, in both halves: Karatsuba's factor
//! ```

use super::BLOCKS_MAX;
use super::cipher::encrypt;
use super::product::Product;
use super::schedule::{expand_128, expand_256};
use super::vector::{BLOCK_SIZE, Block, LANES_MAX, Vector};
use crate::wipe::wipe;

/// Powers of the hash key: at least one more than the blocks of the longest message.
pub(super) const POWERS: usize = (BLOCKS_MAX + 1).next_multiple_of(LANES_MAX);

/// Rounds of AES-128.
const ROUNDS_128: usize = 10;
/// Rounds of AES-256, the most there are.
pub(super) const ROUNDS_MAX: usize = 14;

/// The expanded key. It belongs on the heap, so that moves leave no copy behind.
#[repr(C, align(64))]
pub(super) struct GcmKeyParts {
    round_keys: [Block; ROUNDS_MAX + 1],
    /// The hash key and its powers, in the form that `product` describes.
    powers: [Block; POWERS],
    /// The sum of a power's halves, in both halves: Karatsuba's factor for the middle.
    folded: [Block; POWERS],
    rounds: usize,
    /// Powers that are known.
    known: usize,
}

impl GcmKeyParts {
    pub(super) fn zero() -> Self {
        Self {
            round_keys: [[0; BLOCK_SIZE]; ROUNDS_MAX + 1],
            powers: [[0; BLOCK_SIZE]; POWERS],
            folded: [[0; BLOCK_SIZE]; POWERS],
            rounds: 0,
            known: 0,
        }
    }

    /// Expands a key of 16 or 32 bytes.
    #[inline(always)]
    pub(super) fn fill<V: Vector>(&mut self, cpu: V::Cpu, key: &[u8]) {
        let (halves, _) = key.as_chunks();
        let load = |half: &Block| V::Single::broadcast(cpu.into(), half);
        match halves {
            [whole] => {
                expand_128(cpu.into(), load(whole), |i, key| key.store(&mut self.round_keys[i..]));
                self.rounds = ROUNDS_128;
                self.fill_powers::<V>(cpu, POWERS);
            }
            [first, second] => self.fill_256::<V>(cpu, [load(first), load(second)], POWERS),
            _ => unreachable!("a key of AES-128 or AES-256"),
        }
    }

    /// Expands a key of AES-256, for messages that need only so many powers.
    #[inline(always)]
    pub(super) fn fill_256<V: Vector>(&mut self, cpu: V::Cpu, [first, second]: [V::Single; 2], powers: usize) {
        expand_256(cpu.into(), [[first], [second]], |i, [key]| key.store(&mut self.round_keys[i..]));
        self.rounds = ROUNDS_MAX;
        self.fill_powers::<V>(cpu, powers);
    }

    /// The round keys in the order of their use: 11 or 15.
    #[inline(always)]
    pub(super) fn round_keys(&self) -> &[Block] {
        &self.round_keys[..=self.rounds]
    }

    /// A power in every lane, and its folded halves.
    #[inline(always)]
    pub(super) fn power<V: Vector>(&self, cpu: V::Cpu, exponent: usize) -> (V, V) {
        (V::broadcast(cpu, &self.powers[exponent - 1]), V::broadcast(cpu, &self.folded[exponent - 1]))
    }

    /// The powers from `exponent` downwards, and their folded halves.
    #[inline(always)]
    pub(super) fn powers_down(&self, exponent: usize) -> impl Iterator<Item = (&Block, &Block)> {
        self.powers[..exponent].iter().zip(&self.folded[..exponent]).rev()
    }

    /// Powers that are known: at least one.
    #[inline(always)]
    pub(super) fn known(&self) -> usize {
        self.known
    }

    /// Doubles the number of powers until `count` are known. The products of one doubling do not depend on each other.
    #[inline(always)]
    fn fill_powers<V: Vector>(&mut self, cpu: V::Cpu, count: usize) {
        let mut zero = [V::Single::zero(cpu.into())];
        encrypt(cpu.into(), self.round_keys(), &mut zero);
        self.set_powers(0, zero[0].reverse_bytes().double(cpu.into()));
        self.double_powers::<V::Single>(cpu.into(), 1);
        self.double_powers::<V::Single>(cpu.into(), 2);
        let mut known = LANES_MAX;
        while known < count {
            self.double_powers::<V>(cpu, known);
            known *= 2;
        }
        self.known = known.min(POWERS);
    }

    /// Computes as many powers again as are `known`, at most up to [`POWERS`].
    #[inline(always)]
    fn double_powers<V: Vector>(&mut self, cpu: V::Cpu, known: usize) {
        let factor = self.power::<V>(cpu, known);
        for i in (0..known.min(POWERS - known)).step_by(V::LANES) {
            let powers = V::load(cpu, &self.powers[i..]);
            self.set_powers(known + i, Product::zero(cpu).add(powers, factor).reduce(cpu));
        }
    }

    #[inline(always)]
    fn set_powers<V: Vector>(&mut self, place: usize, powers: V) {
        powers.store(&mut self.powers[place..]);
        powers.xor(powers.swap_halves()).store(&mut self.folded[place..]);
    }
}

impl Drop for GcmKeyParts {
    fn drop(&mut self) {
        wipe(self.round_keys.as_flattened_mut());
        wipe(self.powers[..self.known].as_flattened_mut());
        wipe(self.folded[..self.known].as_flattened_mut());
    }
}
