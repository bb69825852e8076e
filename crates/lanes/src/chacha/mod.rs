//! ChaCha20 and Poly1305 (RFC 8439) for long messages: sixteen blocks side by side in 512-bit registers.
//!
//! The libraries that fit this project compute eight blocks of ChaCha20 at a time, with AVX2; `docs/lanes-chacha.md` has the gain of the
//! wider registers. `avx512` and `wide` describe the steps. Messages shorter than [`SIZE_MIN`] are left to a library. The caller combines
//! both to the AEAD.
//!
//! Timing depends only on lengths. Key streams and keys that were stored are wiped.

#[cfg(target_arch = "x86_64")]
mod avx512;
#[cfg(all(test, feature = "valgrind", target_arch = "x86_64"))]
mod constant_time;
mod field;
mod known_answers;
mod poly1305;
#[cfg(any(test, feature = "model"))]
mod portable;
mod state;
mod wide;

use crate::cpu::kernel;

pub use poly1305::{Poly1305, TAG_SIZE};

/// Bytes of a key, of ChaCha20 as of Poly1305.
pub const KEY_SIZE: usize = 32;
/// Bytes of ChaCha20's nonce.
pub const NONCE_SIZE: usize = 12;
/// Bytes of a block of the key stream.
pub const BLOCK_SIZE: usize = 64;
/// Shortest text, in bytes, for which these kernels take less time than a library.
pub const SIZE_MIN: usize = 1536;

kernel!(
    /// AVX-512 with IFMA.
    Ifma = "ifma",
    /// ChaCha20 by its definition, and the source of `Ifma` for Poly1305 without its instructions. Slow: for tests on any CPU, and never
    /// detected.
    Model
);

impl Kernel {
    /// Whether the kernel computes the known answers on this CPU. Takes microseconds.
    pub fn is_right(self) -> bool {
        known_answers::are_given(self)
    }

    /// ChaCha20 (RFC 8439, 2.4) of `input` to `output`, from block `counter`, which wraps after 2^32 − 1 without a carry.
    ///
    /// # Panics
    /// When the texts differ in length.
    pub fn chacha20(
        self,
        key: &[u8; KEY_SIZE],
        nonce: &[u8; NONCE_SIZE],
        counter: u32,
        input: &[u8],
        output: &mut [u8],
    ) {
        assert_eq!(input.len(), output.len(), "texts of one length");
        // SAFETY: both texts have that size, as asserted, and do not overlap, as one is borrowed mutably.
        unsafe { self.apply(key, nonce, counter, input.as_ptr(), output.as_mut_ptr(), input.len()) }
    }

    /// As [`Kernel::chacha20`], in place.
    pub fn chacha20_in_place(self, key: &[u8; KEY_SIZE], nonce: &[u8; NONCE_SIZE], counter: u32, text: &mut [u8]) {
        let (start, size) = (text.as_mut_ptr(), text.len());
        // SAFETY: the text is readable and writable for its size; input and output are equal.
        unsafe { self.apply(key, nonce, counter, start, start, size) }
    }

    /// Combines `size` bytes with the key stream.
    ///
    /// # Safety
    /// - `input` must be readable and `output` writable for `size` bytes.
    /// - They must be equal or not overlap.
    unsafe fn apply(
        self,
        key: &[u8; KEY_SIZE],
        nonce: &[u8; NONCE_SIZE],
        counter: u32,
        input: *const u8,
        output: *mut u8,
        size: usize,
    ) {
        let state = state::state(key, nonce, counter);
        match self {
            #[cfg(target_arch = "x86_64")]
            // SAFETY: the same obligations.
            Self::Ifma(cpu) => unsafe { avx512::apply(cpu, state, input, output, size) },
            #[cfg(any(test, feature = "model"))]
            // SAFETY: the same obligations.
            Self::Model => unsafe { portable::apply(state, input, output, size) },
        }
    }
}
