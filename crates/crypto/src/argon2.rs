//! Argon2id (RFC 9106), which makes a key of a passphrase, slowly and with much memory, so that guesses are costly.

use argon2::{Algorithm, Argon2, Params, Version};

use crate::{Secret, wipe_dead_stack};

/// The costs of one guess. The default is the second recommendation of RFC 9106, section 4.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Argon2Cost {
    /// KiB of memory, at least 8 a lane.
    pub memory_kib: u32,
    /// Passes over it, at least 1.
    pub passes: u32,
    /// Lanes, at least 1.
    pub lanes: u32,
}

impl Default for Argon2Cost {
    fn default() -> Self {
        Self { memory_kib: 64 * 1024, passes: 3, lanes: 4 }
    }
}

/// A key of a passphrase. Time and memory depend on the costs; they show the length of the passphrase, not its content.
///
/// # Panics
/// With costs below the least, a salt below 8 bytes, or a passphrase of 2^32 bytes.
pub fn argon2id(passphrase: &[u8], salt: &[u8], cost: Argon2Cost) -> Secret<32> {
    let Argon2Cost { memory_kib, passes, lanes } = cost;
    let params = Params::new(memory_kib, passes, lanes, Some(32)).expect("costs above the least");
    let mut key = Secret::zeroed();
    let argon2 = Argon2::new(Algorithm::Argon2id, Version::V0x13, params);
    argon2.hash_password_into(passphrase, salt, key.expose_mut()).expect("a salt of 8 bytes or more");
    // The first hash takes the passphrase in blocks on the stack.
    wipe_dead_stack();
    key
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of the test suite of the reference implementation: version 0x13, 2^8 KiB, t = 2, p = 1.
    #[test]
    fn keys_are_those_of_the_reference_implementation() {
        let cost = Argon2Cost { memory_kib: 256, passes: 2, lanes: 1 };
        let expected = "9dfeb910e80bad0311fee20f9c0e2b12c17987b4cac90c2ef54d5b3021c68bfe";
        assert_eq!(hex::encode(argon2id(b"password", b"somesalt", cost).expose()), expected);
    }
}
