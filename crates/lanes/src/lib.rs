//! Kernels for many small values, or many blocks of a long one, side by side, and CPU detection. A kernel has one file per instruction
//! set, all with the same functions; a token ([`cpu`]) proves that the CPU has the instructions. Each file begins with the steps of its
//! kernel. Nothing here selects a kernel: the caller does.
//!
//! Deliberately absent: the environment, randomness, anything that a library does as fast.
#![allow(unsafe_code)]
// Without the model, no kernel of these CPUs uses the arithmetic that has one.
#![cfg_attr(
    not(any(target_arch = "x86_64", test, feature = "model")),
    allow(clippy::never_loop, dead_code, unreachable_code, unused_imports, unused_variables)
)]

pub mod chacha;
pub mod cpu;
pub mod ec;
pub mod gcm;
pub mod rsa;
pub mod sha256;
mod short;
pub mod text;
mod u64x8;
#[cfg(all(test, feature = "valgrind", target_arch = "x86_64"))]
mod valgrind;
mod wipe;

pub use cpu::cpu_features;
