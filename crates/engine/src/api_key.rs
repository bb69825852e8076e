//! The text of API keys: `lsk_ID_SECRET`, with the id as in the store and the secret as 64 hexadecimal digits; and the callers that present
//! them.

use std::collections::BTreeSet;
use std::sync::Arc;

use leafseal_crypto::hash::sha256;
use leafseal_crypto::secret::equal_constant_time;
use leafseal_crypto::{CryptoRng, Secret};
use leafseal_keystore::{ApiKey, ApiKeyId, AppName, Operation, Roles};
use zeroize::Zeroizing;

use crate::error::Error;
use crate::permissions::{Caller, Rights, not_a_key};

/// The first characters of every key, so that people and secret scanners recognise it.
const PREFIX: &str = "lsk_";
/// Random bytes of a secret: it cannot be guessed, and one SHA-256 protects it.
const SECRET_SIZE: usize = 32;

/// The secret of a new API key. Displayed once, never stored.
pub struct ApiKeySecret(Secret<SECRET_SIZE>);

impl ApiKeySecret {
    /// Generates a random secret.
    pub fn generate(rng: &mut dyn CryptoRng) -> Self {
        Self(Secret::random(rng))
    }

    /// The hash that is stored.
    pub fn sha256(&self) -> [u8; 32] {
        sha256(&[self.0.expose()])
    }

    /// The text of the key.
    pub fn text(&self, id: &ApiKeyId) -> Zeroizing<String> {
        Zeroizing::new(format!("{PREFIX}{id}_{}", *hex(self.0.expose())))
    }
}

/// Parses the text of a key into its id and the SHA-256 of its secret; `None` if it is not a key.
pub fn read_api_key(text: &str) -> Option<(ApiKeyId, [u8; 32])> {
    let (id, secret) = text.strip_prefix(PREFIX)?.split_once('_')?;
    let secret = Zeroizing::new(unhex(secret)?);
    (secret.len() == SECRET_SIZE).then_some(())?;
    Some((ApiKeyId::parse(id).ok()?, sha256(&[&secret])))
}

impl Rights {
    /// The permissions of the holder of an API key's secret. Takes the same time wherever the secret differs.
    pub(crate) fn of_key(key: Option<Arc<ApiKey>>, secret_sha256: &[u8; 32]) -> Result<Self, Error> {
        match key {
            Some(key) if equal_constant_time(&key.secret_sha256, secret_sha256) && key.revoked_at.is_none() => {
                Ok(Self::Key(key))
            }
            _ => Err(not_a_key()),
        }
    }
}

/// The holder of a valid API key.
#[derive(Debug, Clone)]
pub struct ApiCaller {
    caller: Caller,
    key: Arc<ApiKey>,
}

impl ApiCaller {
    pub(crate) fn new(key: Option<Arc<ApiKey>>, secret_sha256: [u8; 32]) -> Result<Self, Error> {
        let Rights::Key(key) = Rights::of_key(key, &secret_sha256)? else {
            unreachable!("the rights of a key are a key's");
        };
        Ok(Self { caller: Caller::ApiKey { id: key.id.clone(), secret_sha256 }, key })
    }

    /// The identity for requests to the engine, which checks the key's permissions again.
    pub fn caller(&self) -> &Caller {
        &self.caller
    }

    /// Identifies the key; not secret.
    pub fn id(&self) -> &ApiKeyId {
        &self.key.id
    }

    /// The only app that the key is for.
    pub fn app(&self) -> &AppName {
        &self.key.app
    }

    /// The operations that the key allows.
    pub fn operations(&self) -> &BTreeSet<Operation> {
        &self.key.operations
    }

    /// The data roles that the key may read.
    pub fn roles(&self) -> &Roles {
        &self.key.roles
    }
}

/// Encodes lower-case hexadecimal digits. Constant time in the bytes, which may be secret.
pub(crate) fn hex(bytes: &[u8]) -> Zeroizing<String> {
    Zeroizing::new(base16ct::lower::encode_string(bytes))
}

/// Decodes lower-case hexadecimal digits. Constant time in the digits, except that it shows whether all are valid.
pub(crate) fn unhex(text: &str) -> Option<Vec<u8>> {
    base16ct::lower::decode_vec(text).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_valid_key_parses_to_its_stored_hash() {
        let secret = ApiKeySecret::generate(&mut crate::system_random());
        let id = ApiKeyId::parse("00ff00aa9b8c7d6e").expect("an id");
        let text = secret.text(&id);
        assert_eq!(text.len(), 4 + 16 + 1 + 64);
        assert_eq!(read_api_key(&text), Some((id, secret.sha256())));
        let upper = text.to_uppercase();
        for wrong in ["", "lsk_", &text[1..], &text[..84], &format!("{}0", &*text), &format!("{}00", &*text), &upper] {
            assert_eq!(read_api_key(wrong), None, "{} bytes", wrong.len());
        }
    }

    #[test]
    fn bytes_round_trip_through_their_digits() {
        let bytes: Vec<u8> = (0..=255).collect();
        assert_eq!(unhex(&hex(&bytes)), Some(bytes));
        assert_eq!([unhex("0"), unhex("0g"), unhex("AA"), unhex("ä")], [None, None, None, None]);
    }
}
