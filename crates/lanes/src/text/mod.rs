//! Base64 (RFC 4648, section 4: the standard alphabet) without padding, and the text of sealed values around it, written once to where it
//! belongs. Decoding is strict: no other character, no length that no bytes have, no bits set that no byte has.
//!
//! Timing depends on lengths and on whether a text is base64, but on no character: the encoded bytes are public anyway.
//! `docs/lanes-text.md` explains the steps from a table to this.
#![cfg_attr(not(any(target_arch = "x86_64", target_arch = "aarch64")), allow(dead_code))]

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod blocks;
mod frame;
mod known_answers;
#[cfg(target_arch = "aarch64")]
mod neon;
mod portable;
#[cfg(target_arch = "x86_64")]
mod ssse3;
mod steps;
mod tables;
#[cfg(target_arch = "x86_64")]
mod vbmi;

#[cfg(target_arch = "aarch64")]
use crate::cpu::Neon;
#[cfg(target_arch = "x86_64")]
use crate::cpu::{Avx2, Ssse3, Vbmi};
use crate::gcm::NONCE_SIZE;
pub use frame::{HEAD_SIZE_MAX, MIDDLE_SIZE_MAX, SEALED_SIZE_MIN, SymmetricFrame, TextFrame};

/// Characters of a nonce in base64.
pub const NONCE_TEXT_SIZE: usize = NONCE_SIZE / 3 * 4;

/// The instructions that text goes through. Holds the proof that this CPU has them.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub enum Kernel {
    /// Any CPU.
    Portable,
    /// Shuffles of 128-bit registers: 12 bytes a step.
    #[cfg(target_arch = "x86_64")]
    Ssse3(Ssse3),
    /// The same on 256-bit registers: 24 bytes a step.
    #[cfg(target_arch = "x86_64")]
    Avx2(Avx2),
    /// AVX-512 VBMI, whose shuffles hold the whole alphabet: 48 bytes a step.
    #[cfg(target_arch = "x86_64")]
    Vbmi(Vbmi),
    /// NEON, whose table look-ups hold the whole alphabet: 12 bytes a step.
    #[cfg(target_arch = "aarch64")]
    Neon(Neon),
}

/// Calls a function of a kernel's file with its token.
macro_rules! dispatch {
    ($kernel:expr, $function:ident($($argument:expr),*)) => {
        match $kernel {
            Kernel::Portable => portable::$function(portable::AnyCpu, $($argument),*),
            #[cfg(target_arch = "x86_64")]
            Kernel::Ssse3(cpu) => ssse3::$function(cpu, $($argument),*),
            #[cfg(target_arch = "x86_64")]
            Kernel::Avx2(cpu) => avx2::$function(cpu, $($argument),*),
            #[cfg(target_arch = "x86_64")]
            Kernel::Vbmi(cpu) => vbmi::$function(cpu, $($argument),*),
            #[cfg(target_arch = "aarch64")]
            Kernel::Neon(cpu) => neon::$function(cpu, $($argument),*),
        }
    };
}

impl Kernel {
    /// Names of all kernels, whatever the CPU and the architecture.
    pub const NAMES: [&'static str; 5] = ["vbmi", "avx2", "ssse3", "neon", "portable"];

    /// Those that this CPU can run, the fastest first.
    pub fn detect() -> Vec<Self> {
        #[cfg(target_arch = "x86_64")]
        let all = [
            Vbmi::detect().map(Self::Vbmi),
            Avx2::detect().map(Self::Avx2),
            Ssse3::detect().map(Self::Ssse3),
            Some(Self::Portable),
        ];
        #[cfg(target_arch = "aarch64")]
        let all = [Neon::detect().map(Self::Neon), Some(Self::Portable)];
        #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
        let all = [Some(Self::Portable)];
        all.into_iter().flatten().collect()
    }

    /// One of [`Kernel::NAMES`].
    pub fn name(self) -> &'static str {
        match self {
            Self::Portable => "portable",
            #[cfg(target_arch = "x86_64")]
            Self::Ssse3(_) => "ssse3",
            #[cfg(target_arch = "x86_64")]
            Self::Avx2(_) => "avx2",
            #[cfg(target_arch = "x86_64")]
            Self::Vbmi(_) => "vbmi",
            #[cfg(target_arch = "aarch64")]
            Self::Neon(_) => "neon",
        }
    }

    /// Whether the kernel computes the known answers on this CPU: a compiler, a hypervisor or a CPU may be faulty. Takes microseconds.
    pub fn is_right(self) -> bool {
        known_answers::are_given(self)
    }

    /// Writes the base64 of `bytes`.
    ///
    /// # Panics
    /// When `out` has not exactly [`encoded_size`] bytes.
    #[inline]
    pub fn encode(self, bytes: &[u8], out: &mut [u8]) {
        dispatch!(self, encode(bytes, out));
    }

    /// Decodes `text`. Returns whether it is base64; if not, the content of `out` is meaningless.
    ///
    /// # Panics
    /// When `out` has not exactly [`decoded_size`] bytes, or no bytes give a text of this length.
    #[must_use]
    #[inline]
    pub fn decode(self, text: &[u8], out: &mut [u8]) -> bool {
        dispatch!(self, decode(text, out))
    }

    /// [`Kernel::decode`] for a nonce.
    #[must_use]
    #[inline]
    pub fn decode_nonce(self, text: &[u8; NONCE_TEXT_SIZE], out: &mut [u8; NONCE_SIZE]) -> bool {
        dispatch!(self, decode_nonce(text, out))
    }

    /// Appends the text of a sealed value.
    ///
    /// # Panics
    /// When `sealed` has fewer than [`SEALED_SIZE_MIN`] bytes.
    #[inline]
    pub fn append(self, frame: &TextFrame, nonce: &[u8; NONCE_SIZE], sealed: &[u8], out: &mut Vec<u8>) {
        dispatch!(self, append(frame, nonce, sealed, out));
    }

    /// [`Kernel::append`] for the second half of a nonce of 24 bytes, whose first half is at the end of the head.
    ///
    /// # Panics
    /// When `sealed` has fewer than [`SEALED_SIZE_MIN`] bytes.
    #[inline]
    pub fn append_symmetric(self, frame: &SymmetricFrame, nonce: &[u8; NONCE_SIZE], sealed: &[u8], out: &mut Vec<u8>) {
        dispatch!(self, append_symmetric(frame, nonce, sealed, out));
    }
}

/// Characters of base64 for `size` bytes.
#[inline]
pub const fn encoded_size(size: usize) -> usize {
    (4 * size).div_ceil(3)
}

/// Bytes that `length` characters of base64 hold; `None` where no number of bytes gives that length.
#[inline]
pub const fn decoded_size(length: usize) -> Option<usize> {
    if length % 4 == 1 { None } else { Some(length * 3 / 4) }
}
