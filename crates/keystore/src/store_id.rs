//! The id of a store.

use std::fmt;

use leafseal_crypto::CryptoRng;
use leafseal_crypto::hash::sha256;

use crate::root_key::RootKeyId;

/// Bytes of a store's id.
pub(crate) const STORE_ID_SIZE: usize = 16;

/// The id of a store, made with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StoreId(pub(crate) [u8; STORE_ID_SIZE]);

impl fmt::Display for StoreId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex::encode(self.0))
    }
}

/// First bytes of what an extract's id is a hash of.
const EXTRACT_LABEL: &[u8] = b"leafseal-extract-1";

impl StoreId {
    /// Reads what `Display` writes: 32 hexadecimal digits.
    pub fn parse(text: &str) -> Option<Self> {
        hex::decode(text).ok()?.try_into().ok().map(Self)
    }

    /// The id of a new store.
    pub(crate) fn random(rng: &mut dyn CryptoRng) -> Self {
        let mut id = Self([0; STORE_ID_SIZE]);
        rng.fill_bytes(&mut id.0);
        id
    }

    /// The id of an extract under a root key: the same for a later extract of the same store, which may so take the place of an earlier one
    /// that an engine has open.
    pub(crate) fn of_extract(self, root_key: RootKeyId) -> Self {
        let hash = sha256(&[EXTRACT_LABEL, &self.0, &root_key.0]);
        Self(*hash.first_chunk().expect("32 bytes"))
    }
}
