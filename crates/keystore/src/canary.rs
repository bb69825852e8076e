//! Canaries: envelopes that nobody has a reason to decrypt, and that the store knows by a keyed digest of what identifies them.

use std::fmt;

use leafseal_crypto::Secret;
use leafseal_crypto::hash::hmac_sha256;

use crate::{AppName, StoreError};

/// Canaries that an app has at most.
pub const CANARY_COUNT_MAX: usize = 100;
pub(crate) const CANARY_KEY_SIZE: usize = 32;
/// HMAC-SHA-256.
pub(crate) type CanaryDigest = [u8; 32];
/// Bytes of a digest that are shown.
const ID_BYTES: usize = 8;

/// A canary as it is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Canary {
    /// The beginning of its digest, in hexadecimal.
    pub id: String,
    /// How its envelope is sealed, by name.
    pub scheme: String,
    /// Unix seconds.
    pub created_at: u64,
}

impl Canary {
    pub(crate) fn id_of(digest: &CanaryDigest) -> String {
        hex::encode(&digest[..ID_BYTES])
    }
}

/// The canaries of an app.
pub struct CanarySet {
    key: Secret<CANARY_KEY_SIZE>,
    digests: Vec<CanaryDigest>,
}

impl CanarySet {
    pub(crate) fn new(key: Secret<CANARY_KEY_SIZE>, digests: Vec<CanaryDigest>) -> Self {
        Self { key, digests }
    }

    /// Whether an envelope is one of them, by what identifies it. Takes the same time for each envelope.
    pub fn has(&self, identity: &[u8]) -> bool {
        let digest = digest(&self.key, identity);
        let differs = |known: &CanaryDigest| known.iter().zip(&digest).fold(0, |all, (a, b)| all | (a ^ b));
        self.digests.iter().fold(false, |found, known| found | (differs(known) == 0))
    }
}

impl fmt::Debug for CanarySet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CanarySet({}, …)", self.digests.len())
    }
}

pub(crate) fn digest(key: &Secret<CANARY_KEY_SIZE>, identity: &[u8]) -> CanaryDigest {
    hmac_sha256(key.expose(), identity)
}

/// The part of a store that knows canaries.
pub trait StoreCanaries {
    /// Marks an envelope as a canary, by what identifies it. No change if it is one.
    ///
    /// # Errors
    /// [`StoreError::UnknownApp`], [`StoreError::TooMany`], [`StoreError::OldSchema`], [`StoreError::Busy`], [`StoreError::Full`].
    fn add_canary(&self, app: &AppName, identity: &[u8], scheme: &str) -> Result<Canary, StoreError>;

    /// The canaries of an app, oldest first.
    ///
    /// # Errors
    /// [`StoreError::UnknownApp`], [`StoreError::Busy`].
    fn canaries(&self, app: &AppName) -> Result<Vec<Canary>, StoreError>;

    /// Forgets a canary, whose envelope is one like others from then on; false if there is none of this id.
    ///
    /// # Errors
    /// [`StoreError::UnknownApp`], [`StoreError::Busy`], [`StoreError::Full`].
    fn remove_canary(&self, app: &AppName, id: &str) -> Result<bool, StoreError>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_has_its_own_alone() {
        let key = || Secret::from_slice(&[7; CANARY_KEY_SIZE]).expect("32 bytes");
        let set = CanarySet::new(key(), vec![digest(&key(), b"one"), digest(&key(), b"two")]);
        assert!(set.has(b"one") && set.has(b"two"));
        assert!(!set.has(b"three") && !set.has(b""));
        assert!(!CanarySet::new(Secret::from_slice(&[8; CANARY_KEY_SIZE]).expect("32 bytes"), set.digests).has(b"one"));
    }
}
