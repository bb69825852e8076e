//! BoringSSL's Ed25519 (RFC 8032).

use boring_sys as bssl;

use super::wiped::wipe;
use crate::types::ed25519::{PUBLIC_KEY_SIZE, SEED_SIZE, SIGNATURE_SIZE};

/// Seed and public key, as BoringSSL keeps a private key.
const PRIVATE_KEY_SIZE: usize = SEED_SIZE + PUBLIC_KEY_SIZE;

/// The private key of a seed, wiped on drop, and its public key.
struct SeedKeys([u8; PRIVATE_KEY_SIZE], [u8; PUBLIC_KEY_SIZE]);

impl SeedKeys {
    fn of_seed(seed: &[u8; SEED_SIZE]) -> Self {
        let mut pair = Self([0; PRIVATE_KEY_SIZE], [0; PUBLIC_KEY_SIZE]);
        // SAFETY: reads 32 bytes of the seed, writes 32 of the public and 64 of the private key, which the arrays have.
        unsafe { bssl::ED25519_keypair_from_seed(pair.1.as_mut_ptr(), pair.0.as_mut_ptr(), seed.as_ptr()) };
        pair
    }
}

impl Drop for SeedKeys {
    fn drop(&mut self) {
        wipe(&mut self.0);
    }
}

pub(crate) fn public_key(seed: &[u8; SEED_SIZE]) -> [u8; PUBLIC_KEY_SIZE] {
    SeedKeys::of_seed(seed).1
}

pub(crate) fn sign(seed: &[u8; SEED_SIZE], message: &[u8]) -> [u8; SIGNATURE_SIZE] {
    let (pair, mut signature) = (SeedKeys::of_seed(seed), [0; SIGNATURE_SIZE]);
    // SAFETY: reads the message by its length and 64 bytes of the private key, and writes the 64 bytes of a signature.
    let done = unsafe { bssl::ED25519_sign(signature.as_mut_ptr(), message.as_ptr(), message.len(), pair.0.as_ptr()) };
    assert_eq!(done, 1, "signing fails only without memory");
    signature
}

pub(crate) fn verify(public: &[u8; PUBLIC_KEY_SIZE], message: &[u8], signature: &[u8; SIGNATURE_SIZE]) -> bool {
    // SAFETY: reads the message by its length, the 64 bytes of the signature and the 32 of the key.
    unsafe { bssl::ED25519_verify(message.as_ptr(), message.len(), signature.as_ptr(), public.as_ptr()) == 1 }
}
