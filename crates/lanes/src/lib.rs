//! Kernels for many small values side by side, and what the CPU can do. A kernel is one file for each set of instructions, all with
//! the same functions; a token ([`cpu`]) says that the CPU has them. Nothing here chooses by itself: whoever calls passes the path.
//!
//! Deliberately absent: the environment, randomness, anything that a library does as fast.
#![warn(missing_docs)]

pub mod cpu;
pub mod ec;
pub mod gcm;
mod short;
pub mod text;
#[cfg(all(test, feature = "valgrind", target_arch = "x86_64"))]
mod valgrind;
mod wipe;

pub use cpu::cpu_features;
