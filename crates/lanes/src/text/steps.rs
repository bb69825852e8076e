//! The operations that the algorithm needs of an instruction set, and the loops over it.
//!
//! ```text
//! encode(bytes):                            decode(text):
//!   for each whole step of bytes:             right = true
//!     write encode_step(step)                 for each whole step of text:
//!   if bytes are left:                          right &= decode_step(step)
//!     write encode_short(rest)                if characters are left:
//!                                               right &= decode_short(rest)
//! ```
//!
//! Everything is inlined into functions that [`entries`] compiles for the CPU: calls would pass registers through memory.

use std::mem::MaybeUninit;

use super::{NONCE_TEXT_SIZE, decoded_size, encoded_size};
use crate::gcm::NONCE_SIZE;

/// Room for the text of a nonce, in which nothing needs to be written yet: the spare capacity of a buffer.
pub(super) type NonceText = [MaybeUninit<u8>; NONCE_TEXT_SIZE];

/// Steps of base64. Each function documents exactly which bytes its pointers read and write.
pub(super) trait Base64Steps {
    /// The token that proves the instructions.
    type Cpu: Copy;
    /// Bytes that a whole step encodes.
    const BYTES: usize;
    /// Characters of a whole step.
    const CHARACTERS: usize = Self::BYTES / 3 * 4;

    /// Encodes a whole step.
    ///
    /// # Safety
    /// - `bytes` must be readable for [`Steps::BYTES`] bytes.
    /// - `out` must be writable for [`Steps::CHARACTERS`] bytes, none of which `bytes` has.
    unsafe fn encode_step(cpu: Self::Cpu, bytes: *const u8, out: *mut u8);
    /// Encodes fewer bytes than a step has.
    ///
    /// # Safety
    /// - `size` must be at least 1 and less than [`Steps::BYTES`].
    /// - `bytes` must be readable for `size` bytes.
    /// - `out` must be writable for [`encoded_size`]`(size)` bytes, none of which `bytes` has.
    unsafe fn encode_short(cpu: Self::Cpu, bytes: *const u8, size: usize, out: *mut u8);
    /// Encodes a nonce; writes all of `out`.
    fn encode_nonce(cpu: Self::Cpu, nonce: &[u8; NONCE_SIZE], out: &mut NonceText);
    /// Decodes a nonce. Returns whether it is base64.
    fn decode_nonce(cpu: Self::Cpu, text: &[u8; NONCE_TEXT_SIZE], out: &mut [u8; NONCE_SIZE]) -> bool;
    /// Decodes a whole step. Returns whether it is base64.
    ///
    /// # Safety
    /// - `text` must be readable for [`Steps::CHARACTERS`] bytes.
    /// - `out` must be writable for [`Steps::BYTES`] bytes, none of which `text` has.
    unsafe fn decode_step(cpu: Self::Cpu, text: *const u8, out: *mut u8) -> bool;
    /// Decodes fewer characters than a step has. Returns whether they are base64.
    ///
    /// # Safety
    /// - `size` must be at least 1, less than [`Steps::CHARACTERS`], and have a [`decoded_size`].
    /// - `text` must be readable for `size` bytes.
    /// - `out` must be writable for [`decoded_size`]`(size)` bytes, none of which `text` has.
    unsafe fn decode_short(cpu: Self::Cpu, text: *const u8, size: usize, out: *mut u8) -> bool;
}

/// Writes the base64 of `bytes` to `out`.
///
/// # Safety
/// - `out` must be writable for [`encoded_size`]`(bytes.len())` bytes.
#[inline(always)]
pub(super) unsafe fn encode_to<S: Base64Steps>(cpu: S::Cpu, bytes: &[u8], mut out: *mut u8) {
    let steps = bytes.chunks_exact(S::BYTES);
    let rest = steps.remainder();
    for step in steps {
        // SAFETY: a chunk has the bytes of a step. The steps so far and this one have no more characters than all of the text, for which
        // `out` is writable.
        unsafe {
            S::encode_step(cpu, step.as_ptr(), out);
            out = out.add(S::CHARACTERS);
        }
    }
    if !rest.is_empty() {
        // SAFETY: the remainder is not empty and shorter than a step; after the whole steps, the text of the remainder is left of `out`.
        unsafe { S::encode_short(cpu, rest.as_ptr(), rest.len(), out) }
    }
}

#[inline(always)]
pub(super) fn encode<S: Base64Steps>(cpu: S::Cpu, bytes: &[u8], out: &mut [u8]) {
    assert_eq!(out.len(), encoded_size(bytes.len()), "room for exactly this text");
    // SAFETY: `out` has exactly the size of the text, as asserted above.
    unsafe { encode_to::<S>(cpu, bytes, out.as_mut_ptr()) }
}

/// Writes the bytes of `text` to `out`. Returns whether it is base64.
///
/// # Safety
/// - `text.len()` must have a [`decoded_size`].
/// - `out` must be writable for that many bytes.
#[inline(always)]
pub(super) unsafe fn decode_to<S: Base64Steps>(cpu: S::Cpu, text: &[u8], mut out: *mut u8) -> bool {
    let steps = text.chunks_exact(S::CHARACTERS);
    let rest = steps.remainder();
    let mut is_right = true;
    for step in steps {
        // SAFETY: a chunk has the characters of a step. The steps so far and this one have no more bytes than all of the text, for which
        // `out` is writable.
        unsafe {
            is_right &= S::decode_step(cpu, step.as_ptr(), out);
            out = out.add(S::BYTES);
        }
    }
    if !rest.is_empty() {
        // SAFETY: the remainder is not empty and shorter than a step. It has a decoded size, as the whole text has one and whole steps are
        // groups of four characters; that many bytes are left of `out`.
        is_right &= unsafe { S::decode_short(cpu, rest.as_ptr(), rest.len(), out) };
    }
    is_right
}

#[inline(always)]
pub(super) fn decode<S: Base64Steps>(cpu: S::Cpu, text: &[u8], out: &mut [u8]) -> bool {
    assert_eq!(Some(out.len()), decoded_size(text.len()), "room for exactly these bytes");
    // SAFETY: the text has a decoded size, and `out` exactly that, as asserted above.
    unsafe { decode_to::<S>(cpu, text, out.as_mut_ptr()) }
}

/// The functions that each set of instructions has, compiled for it by a macro of the file that expands this.
macro_rules! entries {
    ($compile:ident, $cpu:ident, $steps:ty) => {
        $compile! {
            #[inline]
            pub(super) fn encode(cpu: $cpu, bytes: &[u8], out: &mut [u8]) {
                steps::encode::<$steps>(cpu, bytes, out);
            }
        }

        $compile! {
            #[inline]
            pub(super) fn decode(cpu: $cpu, text: &[u8], out: &mut [u8]) -> bool {
                steps::decode::<$steps>(cpu, text, out)
            }
        }

        $compile! {
            #[inline]
            pub(super) fn decode_nonce(cpu: $cpu, text: &[u8; NONCE_TEXT_SIZE], out: &mut [u8; NONCE_SIZE]) -> bool {
                <$steps>::decode_nonce(cpu, text, out)
            }
        }

        $compile! {
            #[inline]
            pub(super) fn append(cpu: $cpu, frame: &TextFrame, nonce: &[u8; NONCE_SIZE], sealed: &[u8], out: &mut Vec<u8>) {
                frame.append::<$steps>(cpu, nonce, sealed, out);
            }
        }

        $compile! {
            #[inline]
            pub(super) fn append_symmetric(
                cpu: $cpu,
                frame: &SymmetricFrame,
                nonce: &[u8; NONCE_SIZE],
                sealed: &[u8],
                out: &mut Vec<u8>,
            ) {
                frame.append::<$steps>(cpu, nonce, sealed, out);
            }
        }
    };
}

pub(super) use entries;
