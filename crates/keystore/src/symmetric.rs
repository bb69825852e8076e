//! The symmetric root of a key version: 32 random bytes, of which the engine seals values of its own without a public key. Every key is
//! derived from it with a label alone, so that it opens the same values under another app's name.

use leafseal_crypto::hash::hmac_sha256;
use leafseal_crypto::{CryptoRng, GuardedSecret, Secret};
use zeroize::Zeroize;

/// Bytes of a symmetric root.
pub(crate) const SYMMETRIC_ROOT_SIZE: usize = 32;
/// Bytes of a [`SymmetricKeyId`].
pub(crate) const KEY_ID_SIZE: usize = 16;

const LABEL_ID: &[u8] = b"leafseal-symmetric-1 key id";

/// Names a symmetric root in what is sealed with it. Public, and derived from the root.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SymmetricKeyId(pub [u8; KEY_ID_SIZE]);

/// A symmetric root, wiped on drop.
#[derive(Debug, Clone)]
pub struct SymmetricRoot(GuardedSecret);

impl SymmetricRoot {
    /// A new one.
    pub(crate) fn generate(rng: &mut dyn CryptoRng) -> Self {
        Self(GuardedSecret::from(Secret::random(rng)))
    }

    pub(crate) fn from_slice(bytes: &[u8]) -> Option<Self> {
        Some(Self(GuardedSecret::from(Secret::from_slice(bytes)?)))
    }

    pub(crate) fn bytes(&self) -> &[u8; SYMMETRIC_ROOT_SIZE] {
        self.0.expose()
    }

    /// The first 16 bytes of HKDF-SHA-256 (RFC 5869) without salt, with the label as info.
    pub fn key_id(&self) -> SymmetricKeyId {
        let mut key = hmac_sha256(&[0; 32], self.bytes());
        let block = hmac_sha256(&key, &[LABEL_ID, &[1]].concat());
        key.zeroize();
        SymmetricKeyId(*block.first_chunk().expect("32 bytes"))
    }
}

#[cfg(test)]
mod tests {
    use hmac::{Hmac, Mac};
    use sha2::Sha256;

    use super::*;

    /// Frozen: it is in what is sealed. Another library, by RFC 5869's two steps.
    #[test]
    fn the_id_is_that_of_hkdf() {
        let mac = |key: &[u8], parts: &[&[u8]]| {
            let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("any length");
            parts.iter().for_each(|part| mac.update(part));
            mac.finalize().into_bytes()
        };
        let extracted = mac(&[0; 32], &[&[0x5a; 32]]);
        let expanded = mac(&extracted, &[b"leafseal-symmetric-1 key id", &[1]]);
        let root = SymmetricRoot::from_slice(&[0x5a; 32]).expect("32 bytes");
        assert_eq!(root.key_id().0, expanded[..16]);
        assert!(SymmetricRoot::from_slice(&[0; 31]).is_none());
    }
}
