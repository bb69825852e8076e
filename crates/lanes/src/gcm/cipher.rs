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

/// Encrypts in place.
#[inline(always)]
pub(super) fn encrypt<V: Vector>(cpu: V::Cpu, round_keys: &[Block], vectors: &mut [V]) {
    let mut rest = vectors;
    while rest.len() > 2 * WIDTH {
        let (part, after) = rest.split_at_mut(WIDTH);
        rounds::<V, WIDTH>(cpu, round_keys, part);
        rest = after;
    }
    if rest.len() > WIDTH {
        // Two parts of similar size, so that the last one is not a single vector.
        let (part, after) = rest.split_at_mut(rest.len() / 2);
        some_rounds(cpu, round_keys, part);
        rest = after;
    }
    some_rounds(cpu, round_keys, rest);
}

#[inline(always)]
fn some_rounds<V: Vector>(cpu: V::Cpu, round_keys: &[Block], part: &mut [V]) {
    match part.len() {
        1 => rounds::<V, 1>(cpu, round_keys, part),
        2 => rounds::<V, 2>(cpu, round_keys, part),
        3 => rounds::<V, 3>(cpu, round_keys, part),
        4 => rounds::<V, 4>(cpu, round_keys, part),
        5 => rounds::<V, 5>(cpu, round_keys, part),
        6 => rounds::<V, 6>(cpu, round_keys, part),
        7 => rounds::<V, 7>(cpu, round_keys, part),
        _ => rounds::<V, WIDTH>(cpu, round_keys, part),
    }
}

#[inline(always)]
fn rounds<V: Vector, const COUNT: usize>(cpu: V::Cpu, round_keys: &[Block], vectors: &mut [V]) {
    let [first, middle @ .., last] = round_keys else { unreachable!("a schedule has more than two keys") };
    let vectors: &mut [V; COUNT] = vectors.first_chunk_mut().expect("the number that was counted");
    let mut states = *vectors;
    let key = V::broadcast(cpu, first);
    for state in &mut states {
        *state = state.xor(key);
    }
    for key in middle {
        let key = V::broadcast(cpu, key);
        for state in &mut states {
            *state = state.aes_round(key);
        }
    }
    let key = V::broadcast(cpu, last);
    for state in &mut states {
        *state = state.aes_last_round(key);
    }
    *vectors = states;
}
