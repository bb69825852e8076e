//! The key schedule of AES (FIPS 197, 5.2) on vectors, each lane with a key of its own. A round key is a block:
//!
//! ```text
//! AES-128:  key[i] = running sum of key[i − 1] ⊕ SubWord(RotWord(last word of key[i − 1])) ⊕ constant, in every word
//! AES-256:  key[i] = running sum of key[i − 2] ⊕ SubWord(RotWord(last word of key[i − 1])) ⊕ constant    for even i
//!           key[i] = running sum of key[i − 2] ⊕ SubWord(last word of key[i − 1])                        for odd i
//! ```
//!
//! Running sum: word j is the sum of words 0 to j. `SubWord` is the last round of AES on four equal words, so that no table is read, and
//! its shift of rows moves nothing.

use super::vector::{BLOCK_SIZE, Block, Vector};

/// The constant of each round (FIPS 197, table 5), in every word.
const CONSTANTS: [Block; 10] = {
    const VALUES: [u8; 10] = [0x01, 0x02, 0x04, 0x08, 0x10, 0x20, 0x40, 0x80, 0x1b, 0x36];
    let mut blocks = [[0; BLOCK_SIZE]; 10];
    let mut i = 0;
    while i < 4 * 10 {
        blocks[i / 4][i % 4 * 4] = VALUES[i / 4];
        i += 1;
    }
    blocks
};

/// Constants that AES-256 uses.
const CONSTANTS_256: usize = 7;

/// Passes the 11 round keys of AES-128 to `each`, in order, with their numbers.
#[inline(always)]
pub(super) fn expand_128<V: Vector>(cpu: V::Cpu, mut key: V, mut each: impl FnMut(usize, V)) {
    each(0, key);
    for (i, constant) in CONSTANTS.iter().enumerate() {
        key = key.running_sum().xor(key.last_word_rotated().aes_last_round(V::broadcast(cpu, constant)));
        each(i + 1, key);
    }
}

/// Passes the 15 round keys of AES-256 to `each`, in order, with their numbers, for `N` vectors of keys at once: a step takes as long as
/// a round of AES, and those of the vectors do not wait for each other.
#[inline(always)]
pub(super) fn expand_256<V: Vector, const N: usize>(
    cpu: V::Cpu,
    [mut even, mut odd]: [[V; N]; 2],
    mut each: impl FnMut(usize, &[V; N]),
) {
    each(0, &even);
    each(1, &odd);
    let (constants, last) = CONSTANTS[..CONSTANTS_256].split_at(CONSTANTS_256 - 1);
    for (pair, constant) in (1..).zip(constants) {
        next_even(cpu, &mut even, &odd, constant);
        each(2 * pair, &even);
        for i in 0..N {
            odd[i] = odd[i].running_sum().xor(even[i].last_word().aes_last_round(V::zero(cpu)));
        }
        each(2 * pair + 1, &odd);
    }
    next_even(cpu, &mut even, &odd, &last[0]);
    each(2 * CONSTANTS_256, &even);
}

/// Encrypts `C` blocks of each lane under a key of AES-256 of its own, for `N` vectors of keys: each round follows the step of the schedule
/// that gives its key, so that the AES of blocks fills the time that the schedule takes. No round key is stored.
#[inline(always)]
pub(super) fn encrypt_256<V: Vector, const N: usize, const C: usize>(
    cpu: V::Cpu,
    [mut even, mut odd]: [[V; N]; 2],
    states: &mut [[V; C]; N],
) {
    for (states, (even, odd)) in states.iter_mut().zip(even.iter().zip(&odd)) {
        for state in states {
            *state = state.xor(*even).aes_round(*odd);
        }
    }
    let (constants, last) = CONSTANTS[..CONSTANTS_256].split_at(CONSTANTS_256 - 1);
    for constant in constants {
        next_even(cpu, &mut even, &odd, constant);
        all_rounds(states, &even);
        for i in 0..N {
            odd[i] = odd[i].running_sum().xor(even[i].last_word().aes_last_round(V::zero(cpu)));
        }
        all_rounds(states, &odd);
    }
    next_even(cpu, &mut even, &odd, &last[0]);
    for (states, key) in states.iter_mut().zip(&even) {
        for state in states {
            *state = state.aes_last_round(*key);
        }
    }
}

#[inline(always)]
fn all_rounds<V: Vector, const N: usize, const C: usize>(states: &mut [[V; C]; N], keys: &[V; N]) {
    for (states, key) in states.iter_mut().zip(keys) {
        for state in states {
            *state = state.aes_round(*key);
        }
    }
}

#[inline(always)]
fn next_even<V: Vector, const N: usize>(cpu: V::Cpu, even: &mut [V; N], odd: &[V; N], constant: &Block) {
    let constant = V::broadcast(cpu, constant);
    for i in 0..N {
        even[i] = even[i].running_sum().xor(odd[i].last_word_rotated().aes_last_round(constant));
    }
}
