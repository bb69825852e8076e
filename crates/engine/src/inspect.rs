//! What can be told of an envelope without showing its value, and an app's public keys.

use fieldseal_crypto::Curve;
use fieldseal_crypto::PublicKey;
use fieldseal_envelope::{Envelope, Marking, OpenScratch, ValueType, Version};

use crate::engine::Engine;
use crate::error::Error;
use crate::opening::EphemeralId;
use crate::policy::Caller;

/// What an envelope states; the last four only when it was opened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Inspected {
    /// The format version.
    pub version: Version,
    /// The type that the text states.
    pub value_type: ValueType,
    /// Live or debug.
    pub marking: Marking,
    /// The ephemeral public key, compressed.
    pub ephemeral: [u8; 33],
    /// The data role.
    pub role: Option<String>,
    /// What wrote it.
    pub origin: Option<u32>,
    /// When, in Unix seconds.
    pub encrypted_at: Option<u32>,
    /// Which key version opens it.
    pub key_version: Option<u32>,
}

/// An app's public keys that new values are encrypted to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PublicKeys {
    /// The key version.
    pub version: u32,
    /// P-256.
    pub r1: PublicKey,
    /// secp256k1.
    pub k1: PublicKey,
}

impl Engine {
    /// What `text` states; with an app also what only its inside tells, for whoever may do anything with that app.
    ///
    /// # Errors
    /// Malformed; with an app also: decrypt failed, forbidden, unknown app.
    pub fn inspect(&self, caller: &Caller, app: Option<&str>, text: &[u8]) -> Result<Inspected, Error> {
        let app = app.map(|app| self.authorised_any(caller, app)).transpose()?;
        let envelope = Envelope::parse(text)?;
        envelope.ephemeral_key()?;
        let mut inspected = Inspected {
            version: envelope.version,
            value_type: envelope.value_type,
            marking: envelope.marking,
            ephemeral: envelope.ephemeral,
            role: None,
            origin: None,
            encrypted_at: None,
            key_version: None,
        };
        if let Some(app) = app {
            let mut scratch = OpenScratch::default();
            let opening = self.opening(&app, EphemeralId::of(&envelope))?;
            let key = opening.search(&self.ec(), &envelope, &mut scratch)?;
            let metadata = key.open(&envelope, &mut scratch)?.metadata.unwrap_or_default();
            inspected.role = metadata.role.map(str::to_owned);
            inspected.origin = metadata.origin;
            inspected.encrypted_at = metadata.encrypted_at;
            inspected.key_version = opening.version();
        }
        Ok(inspected)
    }

    /// The public keys of `app`, for whoever may do anything with it.
    ///
    /// # Errors
    /// Forbidden, unknown app, disabled app, store unavailable.
    pub fn public_keys(&self, caller: &Caller, app: &str) -> Result<PublicKeys, Error> {
        let app = self.authorised_any(caller, app)?;
        let (version, r1) = app.newest(Curve::P256);
        let (_, k1) = app.newest(Curve::Secp256k1);
        Ok(PublicKeys { version, r1: *r1.public(), k1: *k1.public() })
    }
}
