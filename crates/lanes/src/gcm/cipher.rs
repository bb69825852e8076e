//! AES (FIPS 197) over many blocks at once, with enough vectors in flight to hide the latency of a round.
//!
//! ```text
//! for each part of at most 8 vectors:
//!   state = vector ⊕ key[0]
//!   for each key but the first and the last:  state = round(state, key), for all vectors before the next key
//!   vector = last round(state, last key)
//! ```

use super::vector::{Block, Vector};

/// Vectors in flight: a round takes four cycles and two begin in each.
const WIDTH: usize = 8;

/// A round key in memory.
pub(super) trait RoundKey<V: Vector> {
    /// The key of each lane of a vector; `which` is the number of the vector.
    fn get(&self, cpu: V::Cpu, which: usize) -> V;
}

/// The same for all lanes.
impl<V: Vector> RoundKey<V> for Block {
    #[inline(always)]
    fn get(&self, cpu: V::Cpu, _: usize) -> V {
        V::broadcast(cpu, self)
    }
}

/// One of each lane's own, for `N` vectors.
impl<V: Vector, const N: usize> RoundKey<V> for [V; N] {
    #[inline(always)]
    fn get(&self, _: V::Cpu, which: usize) -> V {
        self[which]
    }
}

/// Encrypts in place with keys that all lanes have.
#[inline(always)]
pub(super) fn encrypt<V: Vector>(cpu: V::Cpu, round_keys: &[Block], vectors: &mut [V]) {
    encrypt_with(cpu, round_keys, 0, vectors);
}

/// Encrypts in place.
#[inline(always)]
pub(super) fn encrypt_with<V: Vector, K: RoundKey<V>>(cpu: V::Cpu, round_keys: &[K], which: usize, vectors: &mut [V]) {
    let mut rest = vectors;
    while rest.len() > 2 * WIDTH {
        let (part, after) = rest.split_at_mut(WIDTH);
        rounds::<V, K, WIDTH>(cpu, round_keys, which, part);
        rest = after;
    }
    if rest.len() > WIDTH {
        // Two parts of similar size, so that the last one is not a single vector.
        let (part, after) = rest.split_at_mut(rest.len() / 2);
        some_rounds(cpu, round_keys, which, part);
        rest = after;
    }
    some_rounds(cpu, round_keys, which, rest);
}

#[inline(always)]
fn some_rounds<V: Vector, K: RoundKey<V>>(cpu: V::Cpu, round_keys: &[K], which: usize, part: &mut [V]) {
    match part.len() {
        1 => rounds::<V, K, 1>(cpu, round_keys, which, part),
        2 => rounds::<V, K, 2>(cpu, round_keys, which, part),
        3 => rounds::<V, K, 3>(cpu, round_keys, which, part),
        4 => rounds::<V, K, 4>(cpu, round_keys, which, part),
        5 => rounds::<V, K, 5>(cpu, round_keys, which, part),
        6 => rounds::<V, K, 6>(cpu, round_keys, which, part),
        7 => rounds::<V, K, 7>(cpu, round_keys, which, part),
        _ => rounds::<V, K, WIDTH>(cpu, round_keys, which, part),
    }
}

#[inline(always)]
fn rounds<V: Vector, K: RoundKey<V>, const COUNT: usize>(
    cpu: V::Cpu,
    round_keys: &[K],
    which: usize,
    vectors: &mut [V],
) {
    let [first, middle @ .., last] = round_keys else { unreachable!("a schedule has more than two keys") };
    let vectors: &mut [V; COUNT] = vectors.first_chunk_mut().expect("the number that was counted");
    let mut states = *vectors;
    let key = first.get(cpu, which);
    for state in &mut states {
        *state = state.xor(key);
    }
    for key in middle {
        let key = key.get(cpu, which);
        for state in &mut states {
            *state = state.aes_round(key);
        }
    }
    let key = last.get(cpu, which);
    for state in &mut states {
        *state = state.aes_last_round(key);
    }
    *vectors = states;
}
