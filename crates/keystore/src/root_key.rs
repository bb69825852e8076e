//! The interface of root keys, which encrypt a store's private keys.
//!
//! A store uses only the trait [`RootKey`], so that keys in hardware fit too.

use std::fmt;

use leafseal_crypto::{CryptoRng, Secret};
use zeroize::Zeroizing;

/// Bytes of a [`RootKeyId`].
pub(crate) const ID_SIZE: usize = 8;

/// Identifies a root key without revealing anything about it.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct RootKeyId(pub [u8; ID_SIZE]);

impl fmt::Display for RootKeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex::encode(self.0))
    }
}

impl fmt::Debug for RootKeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RootKeyId({self})")
    }
}

/// Why a root key could not be had or used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RootKeyError {
    /// The text is not `leafseal-root-key-1:` and the base64 of 32 bytes.
    #[error("not a root key: it must be one line, leafseal-root-key-1: and the base64 of 32 bytes")]
    Text,
    /// The text has an unsupported version.
    #[error("unsupported root key version: use a newer Leafseal")]
    TextVersion,
    /// The ciphertext is damaged, or was encrypted under another key or for another place.
    #[error("decrypt failed")]
    DecryptFailed,
    /// The device that holds the key does not answer. Trying again may help.
    #[error("the device that holds the root key does not respond")]
    Unavailable,
}

/// Encrypts private keys for storage. Used a few times per key version, never per value, so a round trip to hardware is fine.
pub trait RootKey: Send + Sync {
    /// The same for the same key, different for different ones, and public.
    fn id(&self) -> RootKeyId;

    /// A key for the purpose that `label` names, different for each.
    fn derive(&self, label: &[u8]) -> Secret<32>;

    /// Encrypts and authenticates `plaintext` and binds it to `aad`. Implementations that generate their own nonces may ignore
    /// `rng`.
    ///
    /// # Errors
    /// [`RootKeyError::Unavailable`].
    fn seal(&self, aad: &[u8], plaintext: &[u8], rng: &mut dyn CryptoRng) -> Result<Vec<u8>, RootKeyError>;

    /// Opens what [`RootKey::seal`] returned for the same `aad`.
    ///
    /// # Errors
    /// [`RootKeyError::DecryptFailed`] for anything else, [`RootKeyError::Unavailable`].
    fn open(&self, aad: &[u8], sealed: &[u8]) -> Result<Zeroizing<Vec<u8>>, RootKeyError>;
}
