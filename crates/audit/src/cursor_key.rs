//! The key under which the places of a log's followers are authenticated.

use std::sync::Arc;

use leafseal_crypto::Secret;
use leafseal_crypto::hash::hmac_sha256;

/// The secret of a log under which the places of its followers are authenticated.
#[derive(Debug, Clone)]
pub struct CursorKey(Arc<Secret<32>>);

impl CursorKey {
    pub(crate) fn new(secret: Secret<32>) -> Self {
        Self(Arc::new(secret))
    }

    pub(crate) fn mac(&self, text: &[u8]) -> [u8; 32] {
        hmac_sha256(self.0.expose(), text)
    }
}
