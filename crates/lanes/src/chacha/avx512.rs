//! Sixteen blocks of ChaCha20 at a time: register i has word i of every block.
//!
//! ```text
//! initial = the state in every lane, with counters n, n + 1, … n + 15
//! for each 1,024 bytes of text:
//!   words = initial
//!   ten times:
//!     round of columns:    4 quarter rounds side by side, each of 4 steps: row a += row b; row d = (row d ⊕ row a) rotated
//!     round of diagonals:  the same with row i taken from column + i
//!   words += initial
//!   blocks = transpose(words)         within lanes of four words, then lanes between registers
//!   output = input ⊕ blocks
//!   counters += 16
//! for the rest: the same through a buffer, which is wiped
//! ```
//!
//! The rounds are 960 instructions for 1,024 bytes, the transposition 64, and at most two instructions start in a cycle: 0.53 cycles per
//! byte.

use std::arch::x86_64::*;

use leafseal_lanes_macros::compiled_for;

use super::BLOCK_SIZE;
use super::state::{COUNTER, ChachaState, DOUBLE_ROUNDS, WORDS};
use crate::cpu::{Ifma, entry};
use crate::wipe::wipe;

/// Blocks in a register.
const BLOCKS: usize = 16;
/// Bytes of all of them.
const GROUP_SIZE: usize = BLOCKS * BLOCK_SIZE;

/// Runs intrinsics that need only the features of a token.
macro_rules! with_token {
    ($intrinsics:expr) => {
        // SAFETY: the token in reach was only made on a CPU that has these instructions.
        unsafe { $intrinsics }
    };
}

entry! {
    /// Combines `size` bytes with the key stream.
    ///
    /// # Safety
    /// - `input` must be readable and `output` writable for `size` bytes.
    /// - They must be equal or not overlap.
    pub(super) unsafe fn apply(cpu: Ifma, state: ChachaState, input: *const u8, output: *mut u8, size: usize) {
        // SAFETY: the same obligations.
        unsafe { apply_groups(cpu, state, input, output, size) }
    }
}

/// Combines all text with the key stream.
///
/// # Safety
/// - As for [`apply`].
#[inline]
#[compiled_for(Ifma)]
unsafe fn apply_groups(cpu: Ifma, state: ChachaState, input: *const u8, output: *mut u8, size: usize) {
    let whole = size / GROUP_SIZE * GROUP_SIZE;
    let mut initial = initial(cpu, &state);
    for start in (0..whole).step_by(GROUP_SIZE) {
        for (i, block) in blocks(cpu, initial).into_iter().enumerate() {
            let place = start + i * BLOCK_SIZE;
            // SAFETY: the block ends within a whole group, and so within `size` bytes.
            unsafe { apply_block(block, input.add(place), output.add(place)) };
        }
        initial[COUNTER] = _mm512_add_epi32(initial[COUNTER], _mm512_set1_epi32(BLOCKS as i32));
    }
    if whole < size {
        // SAFETY: `size - whole` bytes follow the groups.
        unsafe { apply_rest(cpu, initial, input.add(whole), output.add(whole), size - whole) };
    }
}

/// Combines the last bytes, fewer than sixteen blocks.
///
/// # Safety
/// - As for [`apply`].
/// - `size` must be at most [`GROUP_SIZE`].
#[compiled_for(Ifma)]
unsafe fn apply_rest(cpu: Ifma, initial: [__m512i; WORDS], input: *const u8, output: *mut u8, size: usize) {
    let mut stream = [0; GROUP_SIZE];
    for (i, block) in blocks(cpu, initial).into_iter().enumerate() {
        // SAFETY: the buffer has room for all blocks.
        unsafe { _mm512_storeu_si512(stream.as_mut_ptr().add(i * BLOCK_SIZE).cast(), block) };
    }
    let (blocks, _) = stream[..size].as_chunks::<BLOCK_SIZE>();
    for (i, block) in blocks.iter().enumerate() {
        // SAFETY: the array is as long as the load, and the block ends within `size` bytes.
        unsafe {
            let block = _mm512_loadu_si512(block.as_ptr().cast());
            apply_block(block, input.add(i * BLOCK_SIZE), output.add(i * BLOCK_SIZE));
        }
    }
    for (i, mask) in stream[..size].iter().enumerate().skip(blocks.len() * BLOCK_SIZE) {
        // SAFETY: `i` is below `size`; each byte is read before it is written.
        unsafe { *output.add(i) = *input.add(i) ^ mask };
    }
    wipe(&mut stream);
}

/// Combines a block of text with a block of the key stream.
///
/// # Safety
/// - `input` must be readable and `output` writable for a block.
/// - They may overlap: the text is read before it is written.
#[inline]
#[compiled_for(Ifma)]
unsafe fn apply_block(block: __m512i, input: *const u8, output: *mut u8) {
    // SAFETY: load and store are a block each.
    unsafe {
        let text = _mm512_loadu_si512(input.cast());
        _mm512_storeu_si512(output.cast(), _mm512_xor_si512(block, text));
    }
}

/// Sixteen states, whose counters are in order.
#[inline(always)]
fn initial(_: Ifma, state: &ChachaState) -> [__m512i; WORDS] {
    let mut initial = [with_token!(_mm512_setzero_si512()); WORDS];
    for (words, word) in initial.iter_mut().zip(state.0) {
        *words = with_token!(_mm512_set1_epi32(word.cast_signed()));
    }
    let numbers = with_token!(_mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15));
    initial[COUNTER] = with_token!(_mm512_add_epi32(initial[COUNTER], numbers));
    initial
}

/// The key stream's blocks from these states, in order.
#[inline(always)]
fn blocks(cpu: Ifma, initial: [__m512i; WORDS]) -> [__m512i; BLOCKS] {
    let mut words = initial;
    for _ in 0..DOUBLE_ROUNDS {
        words = round::<0>(cpu, words);
        words = round::<1>(cpu, words);
    }
    for (word, initial) in words.iter_mut().zip(initial) {
        *word = with_token!(_mm512_add_epi32(*word, initial));
    }
    to_blocks(cpu, words)
}

/// Four quarter rounds side by side: of the columns, or with each row shifted by one more, of the diagonals.
#[inline(always)]
fn round<const SHIFT: usize>(cpu: Ifma, words: [__m512i; WORDS]) -> [__m512i; WORDS] {
    let words = step::<SHIFT, 16, 0, 1, 3>(cpu, words);
    let words = step::<SHIFT, 12, 2, 3, 1>(cpu, words);
    let words = step::<SHIFT, 8, 0, 1, 3>(cpu, words);
    step::<SHIFT, 7, 2, 3, 1>(cpu, words)
}

/// A quarter of each quarter round: adds row `BY` to row `TO`, combines row `TURNED` with the sum, and rotates it by `BITS`.
#[inline(always)]
fn step<const SHIFT: usize, const BITS: i32, const TO: usize, const BY: usize, const TURNED: usize>(
    _: Ifma,
    mut words: [__m512i; WORDS],
) -> [__m512i; WORDS] {
    for column in 0..4 {
        let (to, by) = (place::<SHIFT, TO>(column), place::<SHIFT, BY>(column));
        words[to] = with_token!(_mm512_add_epi32(words[to], words[by]));
    }
    for column in 0..4 {
        let (to, turned) = (place::<SHIFT, TO>(column), place::<SHIFT, TURNED>(column));
        words[turned] = with_token!(_mm512_rol_epi32::<BITS>(_mm512_xor_si512(words[turned], words[to])));
    }
    words
}

/// The word of a row in a column, or in a diagonal.
#[inline(always)]
const fn place<const SHIFT: usize, const ROW: usize>(column: usize) -> usize {
    4 * ROW + (column + SHIFT * ROW) % 4
}

/// From word i of all blocks to all words of block i.
#[inline(always)]
fn to_blocks(cpu: Ifma, words: [__m512i; WORDS]) -> [__m512i; BLOCKS] {
    // Quarter q of a block is its words 4q to 4q + 3: lane k of quarters[q][j] is that of block 4k + j.
    let mut quarters = [[words[0]; 4]; 4];
    for (quarter, rows) in quarters.iter_mut().zip(words.as_chunks().0) {
        *quarter = transposed(cpu, *rows);
    }
    let mut blocks = [words[0]; BLOCKS];
    for j in 0..4 {
        let (a, b, c, d) = (quarters[0][j], quarters[1][j], quarters[2][j], quarters[3][j]);
        with_token!({
            let (front_low, front_high) = (_mm512_shuffle_i32x4::<0x44>(a, b), _mm512_shuffle_i32x4::<0xee>(a, b));
            let (back_low, back_high) = (_mm512_shuffle_i32x4::<0x44>(c, d), _mm512_shuffle_i32x4::<0xee>(c, d));
            blocks[j] = _mm512_shuffle_i32x4::<0x88>(front_low, back_low);
            blocks[4 + j] = _mm512_shuffle_i32x4::<0xdd>(front_low, back_low);
            blocks[8 + j] = _mm512_shuffle_i32x4::<0x88>(front_high, back_high);
            blocks[12 + j] = _mm512_shuffle_i32x4::<0xdd>(front_high, back_high);
        });
    }
    blocks
}

/// Transposes four words in each lane of 128 bits.
#[inline(always)]
fn transposed(_: Ifma, [a, b, c, d]: [__m512i; 4]) -> [__m512i; 4] {
    with_token!({
        let (ab_low, ab_high) = (_mm512_unpacklo_epi32(a, b), _mm512_unpackhi_epi32(a, b));
        let (cd_low, cd_high) = (_mm512_unpacklo_epi32(c, d), _mm512_unpackhi_epi32(c, d));
        [
            _mm512_unpacklo_epi64(ab_low, cd_low),
            _mm512_unpackhi_epi64(ab_low, cd_low),
            _mm512_unpacklo_epi64(ab_high, cd_high),
            _mm512_unpackhi_epi64(ab_high, cd_high),
        ]
    })
}
