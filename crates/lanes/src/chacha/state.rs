//! The state of a block of ChaCha20 before its rounds (RFC 8439, 2.3).

use super::{KEY_SIZE, NONCE_SIZE};
use crate::wipe::overwrite;

/// Words of a state.
pub(super) const WORDS: usize = 16;
/// The word that counts blocks.
pub(super) const COUNTER: usize = 12;
/// Two rounds each: of the columns, and of the diagonals.
pub(super) const DOUBLE_ROUNDS: usize = 10;

/// "expand 32-byte k".
const CONSTANTS: [u32; 4] = [0x6170_7865, 0x3320_646e, 0x7962_2d32, 0x6b20_6574];

/// The words of a block before the rounds. Wiped on drop.
pub(super) struct ChachaState(pub(super) [u32; WORDS]);

impl Drop for ChachaState {
    fn drop(&mut self) {
        overwrite(&mut self.0, 0);
    }
}

/// The state of a block (RFC 8439, 2.3).
pub(super) fn state(key: &[u8; KEY_SIZE], nonce: &[u8; NONCE_SIZE], counter: u32) -> ChachaState {
    let mut state = ChachaState([0; WORDS]);
    state.0[..4].copy_from_slice(&CONSTANTS);
    let counter = [counter.to_le_bytes()];
    let words = key.as_chunks().0.iter().chain(&counter).chain(nonce.as_chunks().0);
    state.0[4..].iter_mut().zip(words).for_each(|(word, bytes)| *word = u32::from_le_bytes(*bytes));
    state
}
