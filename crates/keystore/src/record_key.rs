//! The key with which an engine signs what it has recorded, so that the holder of the store can tell a changed record.

use std::fmt;

use leafseal_crypto::ed25519::{self, Ed25519PrivateKey};
pub use leafseal_crypto::ed25519::{PUBLIC_KEY_SIZE as RECORD_KEY_SIZE, SIGNATURE_SIZE as RECORD_SIGNATURE_SIZE};

use crate::StoreId;

/// Longest name of an engine, in bytes.
pub const SIGNER_SIZE_MAX: usize = 64;

/// An Ed25519 key of one engine under one root of a store. A store opens with it again under every later root.
pub struct RecordKey {
    store: StoreId,
    epoch: u32,
    key: Ed25519PrivateKey,
}

impl RecordKey {
    pub(crate) fn new(store: StoreId, epoch: u32, key: Ed25519PrivateKey) -> Self {
        Self { store, epoch, key }
    }

    /// The store.
    pub fn store_id(&self) -> StoreId {
        self.store
    }

    /// How often the root of the store was replaced before the one of this key.
    pub fn epoch(&self) -> u32 {
        self.epoch
    }

    /// The public half.
    pub fn public_key(&self) -> [u8; RECORD_KEY_SIZE] {
        self.key.public_key()
    }

    /// Signs a message.
    pub fn sign(&self, message: &[u8]) -> [u8; RECORD_SIGNATURE_SIZE] {
        self.key.sign(message)
    }

    /// The private key alone, for a signer of another format.
    pub fn into_private_key(self) -> Ed25519PrivateKey {
        self.key
    }

    /// Whether this key has signed a message.
    pub fn verify(&self, message: &[u8], signature: &[u8; RECORD_SIGNATURE_SIZE]) -> bool {
        ed25519::verify(&self.public_key(), message, signature)
    }
}

impl fmt::Debug for RecordKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RecordKey({}, {}, …)", self.store, self.epoch)
    }
}

/// Whether a text can name an engine: 1 to [`SIGNER_SIZE_MAX`] letters, digits, dots, underscores and hyphens.
pub fn is_signer(name: &str) -> bool {
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
    (1..=SIGNER_SIZE_MAX).contains(&name.len()) && name.bytes().all(is_part)
}
