//! The SHA extensions. SHA256RNDS2 computes two rounds, SHA256MSG1 and SHA256MSG2 the schedule's next four words.
//!
//! ```text
//! for each block of both messages, x and y:
//!   words = the block's sixteen words, big-endian
//!   sixteen times, for x and y in turn, so that one runs while the other waits for its result:
//!     four rounds with the next four words and constants      (two SHA256RNDS2, which exchange the halves of the state)
//!     replace these words by those of sixteen rounds later    (not in the last four steps)
//!   state += the state before the block
//! ```

use std::arch::x86_64::*;

use leafseal_lanes_macros::compiled_for;

use super::{BLOCK_SIZE, CONSTANTS, ROUNDS, Sha256Words};
use crate::cpu::entry;

/// Words of a register.
const WORDS: usize = 4;

/// The schedule's last sixteen words, and the state as the instructions take it: words a, b, e, f and c, d, g, h, the last first.
#[derive(Clone, Copy)]
struct ShaLane {
    abef: __m128i,
    cdgh: __m128i,
    words: [__m128i; 4],
}

entry! {
    /// Both slices must have the same length.
    pub(super) fn compress_pair(_cpu: ShaNi, states: [&mut Sha256Words; 2], blocks: [&[[u8; BLOCK_SIZE]]; 2]) {
        compress_blocks(states, blocks);
    }
}

#[inline]
#[compiled_for(ShaNi)]
fn compress_blocks([front, back]: [&mut Sha256Words; 2], [front_blocks, back_blocks]: [&[[u8; BLOCK_SIZE]]; 2]) {
    let (mut x, mut y) = (load(front), load(back));
    for (x_block, y_block) in front_blocks.iter().zip(back_blocks) {
        let (x_before, y_before) = (x, y);
        x.words = schedule(x_block);
        y.words = schedule(y_block);
        for first in (0..ROUNDS).step_by(4 * WORDS) {
            let is_last = first + 4 * WORDS == ROUNDS;
            rounds::<0>(&mut x, &mut y, first, is_last);
            rounds::<1>(&mut x, &mut y, first, is_last);
            rounds::<2>(&mut x, &mut y, first, is_last);
            rounds::<3>(&mut x, &mut y, first, is_last);
        }
        x.abef = _mm_add_epi32(x.abef, x_before.abef);
        x.cdgh = _mm_add_epi32(x.cdgh, x_before.cdgh);
        y.abef = _mm_add_epi32(y.abef, y_before.abef);
        y.cdgh = _mm_add_epi32(y.cdgh, y_before.cdgh);
    }
    store(&x, front);
    store(&y, back);
}

/// Four rounds of both, with the words at `I`, which are replaced by those of sixteen rounds later.
#[inline]
#[compiled_for(ShaNi)]
fn rounds<const I: usize>(x: &mut ShaLane, y: &mut ShaLane, first: usize, is_last: bool) {
    let constants: &[u32; WORDS] = CONSTANTS[first + I * WORDS..].first_chunk().expect("four constants");
    // SAFETY: the array is as long as the unaligned load.
    let constants = unsafe { _mm_loadu_si128(constants.as_ptr().cast()) };
    let (x_sum, y_sum) = (_mm_add_epi32(x.words[I], constants), _mm_add_epi32(y.words[I], constants));
    x.cdgh = _mm_sha256rnds2_epu32(x.cdgh, x.abef, x_sum);
    y.cdgh = _mm_sha256rnds2_epu32(y.cdgh, y.abef, y_sum);
    x.abef = _mm_sha256rnds2_epu32(x.abef, x.cdgh, _mm_shuffle_epi32::<0x0e>(x_sum));
    y.abef = _mm_sha256rnds2_epu32(y.abef, y.cdgh, _mm_shuffle_epi32::<0x0e>(y_sum));
    if !is_last {
        x.words[I] = next_words::<I>(x);
        y.words[I] = next_words::<I>(y);
    }
}

/// Words t to t + 3, where those at `I` are t - 16 to t - 13.
#[inline]
#[compiled_for(ShaNi)]
fn next_words<const I: usize>(lane: &ShaLane) -> __m128i {
    let [w16, w12, w8, w4] = [lane.words[I], lane.words[(I + 1) % 4], lane.words[(I + 2) % 4], lane.words[(I + 3) % 4]];
    let w7 = _mm_alignr_epi8::<4>(w4, w8);
    _mm_sha256msg2_epu32(_mm_add_epi32(_mm_sha256msg1_epu32(w16, w12), w7), w4)
}

/// The first sixteen words.
#[inline]
#[compiled_for(ShaNi)]
fn schedule(block: &[u8; BLOCK_SIZE]) -> [__m128i; 4] {
    let big_endian = _mm_set_epi64x(0x0c0d_0e0f_0809_0a0b, 0x0405_0607_0001_0203);
    let mut words = [big_endian; 4];
    for (word, bytes) in words.iter_mut().zip(block.as_chunks::<16>().0) {
        // SAFETY: the array is as long as the unaligned load.
        *word = _mm_shuffle_epi8(unsafe { _mm_loadu_si128(bytes.as_ptr().cast()) }, big_endian);
    }
    words
}

#[inline]
#[compiled_for(ShaNi)]
fn load(state: &Sha256Words) -> ShaLane {
    let [a, b, c, d, e, f, g, h] = state.map(u32::cast_signed);
    let abef = _mm_setr_epi32(f, e, b, a);
    ShaLane { abef, cdgh: _mm_setr_epi32(h, g, d, c), words: [abef; 4] }
}

#[inline]
#[compiled_for(ShaNi)]
fn store(lane: &ShaLane, state: &mut Sha256Words) {
    let (mut abef, mut cdgh) = ([0; WORDS], [0; WORDS]);
    // SAFETY: the arrays are as long as the unaligned stores.
    unsafe {
        _mm_storeu_si128(abef.as_mut_ptr().cast(), lane.abef);
        _mm_storeu_si128(cdgh.as_mut_ptr().cast(), lane.cdgh);
    }
    let ([f, e, b, a], [h, g, d, c]) = (abef, cdgh);
    *state = [a, b, c, d, e, f, g, h];
}
