//! An expanded key: the round keys of AES (FIPS 197, 5.2) and the powers of the hash key.
//!
//! ```text
//! round keys:  the schedule of FIPS 197; `SubWord` is the last round of AES on four equal columns, so no table is read
//! powers:      H = 2 · reverse(AES(0)) in POLYVAL's field
//!              H² = H · H; H³, H⁴ = (H, H²) · H²; then from n to 2n powers: (H, …, H^n) · H^n, a vector at a time
//!              folded[i] = the sum of the halves of power i, in both halves: Karatsuba's factor
//! ```

use super::BLOCKS_MAX;
use super::cipher::encrypt;
use super::product::Product;
use super::vector::{BLOCK_SIZE, Block, LANES_MAX, Vector};
use crate::wipe::wipe;

/// Powers of the hash key: at least one more than the blocks of the longest message.
pub(super) const POWERS: usize = (BLOCKS_MAX + 1).next_multiple_of(LANES_MAX);

/// Rounds of AES-256, the most there are.
const ROUNDS_MAX: usize = 14;

/// The expanded key. It belongs on the heap, so that moves leave no copy behind.
#[repr(C, align(64))]
pub(super) struct GcmKeyParts {
    round_keys: [Block; ROUNDS_MAX + 1],
    /// The hash key and its powers, in the form that `product` describes.
    powers: [Block; POWERS],
    /// The sum of a power's halves, in both halves: Karatsuba's factor for the middle.
    folded: [Block; POWERS],
    rounds: usize,
}

impl GcmKeyParts {
    pub(super) fn zero() -> Self {
        Self {
            round_keys: [[0; BLOCK_SIZE]; ROUNDS_MAX + 1],
            powers: [[0; BLOCK_SIZE]; POWERS],
            folded: [[0; BLOCK_SIZE]; POWERS],
            rounds: 0,
        }
    }

    /// Expands a key of 16 or 32 bytes.
    #[inline(always)]
    pub(super) fn fill<V: Vector>(&mut self, cpu: V::Cpu, key: &[u8]) {
        self.rounds = key.len() / 4 + 6;
        schedule::<V::Single>(cpu.into(), key, &mut self.round_keys[..=self.rounds]);
        self.fill_powers::<V>(cpu);
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

    /// Doubles the number of powers until all are known. The products of one doubling do not depend on each other.
    #[inline(always)]
    fn fill_powers<V: Vector>(&mut self, cpu: V::Cpu) {
        let mut zero = [V::Single::zero(cpu.into())];
        encrypt(cpu.into(), self.round_keys(), &mut zero);
        zero[0].store(&mut self.powers);
        let hash_key = double(u128::from_be_bytes(self.powers[0])).to_le_bytes();
        self.set_powers(0, V::Single::broadcast(cpu.into(), &hash_key));
        self.double_powers::<V::Single>(cpu.into(), 1);
        self.double_powers::<V::Single>(cpu.into(), 2);
        let mut known = LANES_MAX;
        while known < POWERS {
            self.double_powers::<V>(cpu, known);
            known *= 2;
        }
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
        wipe(self.powers.as_flattened_mut());
        wipe(self.folded.as_flattened_mut());
    }
}

/// Times x, in POLYVAL's field (RFC 8452, 3). Constant time.
fn double(bits: u128) -> u128 {
    const REST: u128 = 0xc2 << 120 | 1;
    bits << 1 ^ REST & (bits >> 127).wrapping_neg()
}

/// The key schedule of FIPS 197, 5.2.
#[inline(always)]
fn schedule<V: Vector>(cpu: V::Cpu, key: &[u8], round_keys: &mut [Block]) {
    let key_words = key.len() / 4;
    let (words, _) = round_keys.as_flattened_mut().as_chunks_mut::<4>();
    words.as_flattened_mut()[..key.len()].copy_from_slice(key);
    let mut constant: u32 = 1;
    for i in key_words..words.len() {
        let mut word = u32::from_le_bytes(words[i - 1]);
        if i.is_multiple_of(key_words) {
            word = substitute::<V>(cpu, word).rotate_right(8) ^ constant;
            constant = constant << 1 ^ if constant & 0x80 == 0 { 0 } else { 0x11b };
        } else if key_words > 6 && i % key_words == 4 {
            word = substitute::<V>(cpu, word);
        }
        words[i] = (u32::from_le_bytes(words[i - key_words]) ^ word).to_le_bytes();
    }
}

/// `SubWord`, without a table: the last round of AES substitutes bytes, and its shift of rows moves nothing where all columns are equal.
#[inline(always)]
fn substitute<V: Vector>(cpu: V::Cpu, word: u32) -> u32 {
    let pair = u64::from(word) << 32 | u64::from(word);
    let mut block = [[0; BLOCK_SIZE]];
    V::from_halves(cpu, [[pair; 2]; LANES_MAX]).aes_last_round(V::zero(cpu)).store(&mut block);
    let word = u32::from_le_bytes(*block[0].first_chunk().expect("4 bytes"));
    wipe(&mut block[0]);
    word
}
