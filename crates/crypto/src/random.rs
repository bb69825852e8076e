//! Random generators that a copy of the process does not repeat.
//!
//! A fork, a restored checkpoint and a cloned virtual machine continue the same memory twice, and with it the state of each generator in
//! it. Forks can be detected ([`crate::ProcessMark`]), restored memory cannot. So no generator keeps a state beyond one operation: the
//! kernel, which is not copied or gets a new seed with the copy, makes each draw or the seed of each operation.
//!
//! The primitives of this crate take a generator as a parameter. `cargo xtask tidy` refuses generators from elsewhere.

use rand::rngs::{StdRng, SysRng};
use rand::{CryptoRng, SeedableRng};
use rand_core::UnwrapErr;

/// The kernel's generator: a system call of about 0.5 µs for each draw. It has no state, so it can be kept.
///
/// # Panics
/// A draw panics if the kernel has no random numbers, which it has from early boot on.
pub fn system_random() -> impl CryptoRng + Send + 'static {
    UnwrapErr(SysRng)
}

/// A generator for the draws of one operation: ChaCha, seeded by the kernel now. Drop it with the operation.
///
/// # Panics
/// As [`system_random`].
pub fn fresh_random() -> impl CryptoRng + Send + 'static {
    StdRng::from_rng(&mut system_random())
}
