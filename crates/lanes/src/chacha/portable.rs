//! ChaCha20 by its definition (RFC 8439, 2.3): the reference for tests of the wide form.

use super::BLOCK_SIZE;
use super::state::{COUNTER, ChachaState, DOUBLE_ROUNDS, WORDS};
use crate::wipe::overwrite;

/// Combines `size` bytes with the key stream.
///
/// # Safety
/// - `input` must be readable and `output` writable for `size` bytes.
/// - They must be equal or not overlap.
pub(super) unsafe fn apply(mut state: ChachaState, input: *const u8, output: *mut u8, size: usize) {
    for start in (0..size).step_by(BLOCK_SIZE) {
        let mut stream = block(&state.0);
        for (i, mask) in stream.iter().enumerate().take(size - start) {
            // SAFETY: `start + i` is below `size`; each byte is read before it is written.
            unsafe { *output.add(start + i) = *input.add(start + i) ^ mask };
        }
        overwrite(&mut stream, 0);
        state.0[COUNTER] = state.0[COUNTER].wrapping_add(1);
    }
}

/// A block of the key stream.
fn block(state: &[u32; WORDS]) -> [u8; BLOCK_SIZE] {
    let mut words = *state;
    for _ in 0..DOUBLE_ROUNDS {
        for column in 0..4 {
            quarter_round(&mut words, [0, 1, 2, 3].map(|row| 4 * row + column));
        }
        for column in 0..4 {
            quarter_round(&mut words, [0, 1, 2, 3].map(|row| 4 * row + (column + row) % 4));
        }
    }
    let mut stream = [0; BLOCK_SIZE];
    for (bytes, (word, initial)) in stream.as_chunks_mut().0.iter_mut().zip(words.iter().zip(state)) {
        *bytes = word.wrapping_add(*initial).to_le_bytes();
    }
    overwrite(&mut words, 0);
    stream
}

/// RFC 8439, 2.1.
fn quarter_round(words: &mut [u32; WORDS], [a, b, c, d]: [usize; 4]) {
    for (to, by, turned, bits) in [(a, b, d, 16), (c, d, b, 12), (a, b, d, 8), (c, d, b, 7)] {
        words[to] = words[to].wrapping_add(words[by]);
        words[turned] = (words[turned] ^ words[to]).rotate_left(bits);
    }
}
