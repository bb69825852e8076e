//! Hybrid public key encryption (RFC 9180, base mode) to X-Wing keys (draft-connolly-cfrg-xwing-kem: X25519 and ML-KEM-768), with
//! HKDF-SHA-256 and AES-256-GCM. What is sealed stays secret while either of the two holds, so also from quantum computers.
//!
//! Base mode proves nothing about the sender: anyone who has the public key can seal.

use zeroize::Zeroizing;

use crate::types::hpke::TAG_SIZE;
pub use crate::types::hpke::{ENCAPSULATED_SIZE, PUBLIC_KEY_SIZE, SEED_SIZE};
use crate::{CryptoRng, DecryptFailed, Secret, ffi};

/// Bytes that sealing adds.
pub const OVERHEAD_SIZE: usize = ENCAPSULATED_SIZE + TAG_SIZE;

/// Not a public key of X-Wing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not an X-Wing public key")]
pub struct InvalidHpkePublicKey;

/// A private key, wiped on drop.
#[derive(Debug, Clone)]
pub struct HpkePrivateKey(Secret<SEED_SIZE>);

/// A public key; that it is one shows when something is sealed to it.
#[derive(Clone, PartialEq, Eq)]
pub struct HpkePublicKey(Box<[u8; PUBLIC_KEY_SIZE]>);

impl std::fmt::Debug for HpkePublicKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("HpkePublicKey(…)")
    }
}

impl HpkePrivateKey {
    /// A new key.
    pub fn generate(rng: &mut dyn CryptoRng) -> Self {
        Self(Secret::random(rng))
    }

    /// The key of a seed: every seed has one.
    pub fn from_seed(seed: Secret<SEED_SIZE>) -> Self {
        Self(seed)
    }

    /// The seed.
    pub fn seed(&self) -> &Secret<SEED_SIZE> {
        &self.0
    }

    /// The public half.
    pub fn public_key(&self) -> HpkePublicKey {
        HpkePublicKey(Box::new(ffi::hpke::public_key(self.0.expose())))
    }

    /// Opens what [`HpkePublicKey::seal`] returned for the same `info` and `aad`.
    ///
    /// # Errors
    /// [`DecryptFailed`] for anything else.
    pub fn open(&self, info: &[u8], aad: &[u8], sealed: &[u8]) -> Result<Zeroizing<Vec<u8>>, DecryptFailed> {
        ffi::hpke::open(self.0.expose(), info, aad, sealed).ok_or(DecryptFailed)
    }
}

impl HpkePublicKey {
    /// Takes the bytes of a key.
    ///
    /// # Errors
    /// [`InvalidHpkePublicKey`] unless there are [`PUBLIC_KEY_SIZE`].
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, InvalidHpkePublicKey> {
        let bytes: &[u8; PUBLIC_KEY_SIZE] = bytes.try_into().map_err(|_| InvalidHpkePublicKey)?;
        Ok(Self(Box::new(*bytes)))
    }

    /// The bytes of the key.
    pub fn as_bytes(&self) -> &[u8; PUBLIC_KEY_SIZE] {
        &self.0
    }

    /// Seals `plaintext`, binds it to `info` and `aad`, and returns [`OVERHEAD_SIZE`] bytes more: encapsulated key, ciphertext, tag.
    /// Randomness is the operating system's.
    ///
    /// # Errors
    /// [`InvalidHpkePublicKey`].
    pub fn seal(&self, info: &[u8], aad: &[u8], plaintext: &[u8]) -> Result<Vec<u8>, InvalidHpkePublicKey> {
        ffi::hpke::seal(&self.0, info, aad, plaintext).ok_or(InvalidHpkePublicKey)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::system_random;

    /// The first vector of draft-connolly-cfrg-xwing-kem, appendix C: a seed and how its public key begins.
    #[test]
    fn public_keys_are_those_of_the_draft() {
        let seed = hex::decode("7f9c2ba4e88f827d616045507605853ed73b8093f6efbc88eb1a6eacfa66ef26").expect("hex");
        let key = HpkePrivateKey::from_seed(Secret::from_slice(&seed).expect("32 bytes"));
        assert_eq!(hex::encode(&key.public_key().as_bytes()[..16]), "e2236b35a8c24b39b10aa1323a96a919");
    }

    #[test]
    fn what_is_sealed_opens_under_its_key_info_and_data_only() {
        let key = HpkePrivateKey::generate(&mut system_random());
        let public = key.public_key();
        for size in [0, 1, 32, 1000] {
            let plaintext = vec![7; size];
            let sealed = public.seal(b"info", b"aad", &plaintext).expect("a key");
            assert_eq!(sealed.len(), size + OVERHEAD_SIZE);
            assert_eq!(*key.open(b"info", b"aad", &sealed).expect("opened"), plaintext);
            assert!(key.open(b"other", b"aad", &sealed).is_err());
            assert!(key.open(b"info", b"other", &sealed).is_err());
            assert!(HpkePrivateKey::generate(&mut system_random()).open(b"info", b"aad", &sealed).is_err());
            for index in [0, ENCAPSULATED_SIZE - 1, ENCAPSULATED_SIZE, sealed.len() - 1] {
                let mut changed = sealed.clone();
                changed[index] ^= 1;
                assert!(key.open(b"info", b"aad", &changed).is_err(), "byte {index}");
            }
            for end in [0, 1, ENCAPSULATED_SIZE, ENCAPSULATED_SIZE + TAG_SIZE - 1] {
                assert!(key.open(b"info", b"aad", &sealed[..end]).is_err(), "{end} bytes");
            }
        }
        assert!(HpkePublicKey::from_bytes(&[0; PUBLIC_KEY_SIZE - 1]).is_err());
        let out_of_range = HpkePublicKey::from_bytes(&[0xff; PUBLIC_KEY_SIZE]).expect("bytes");
        assert_eq!(out_of_range.seal(b"", b"", b""), Err(InvalidHpkePublicKey));
    }
}
