//! Shared by the tests of this crate: the SDKs' test keys, and decryption by them alone.

use leafseal_crypto::{Curve, EcContext, PrivateKey, PublicKey, Secret};
use leafseal_envelope::{OpenError, OpenScratch, OpeningKey, PublicKeyEnvelope, ValueType};
use rand::SeedableRng;
use rand::rngs::StdRng;
use serde_json::Value as Json;

pub(crate) struct App {
    pub ec: EcContext,
    pub keys: [(PrivateKey, PublicKey); 2],
}

/// An opened value, owned.
#[derive(Debug, PartialEq, Eq, Clone)]
pub(crate) struct Owned {
    pub value_type: ValueType,
    pub text: String,
    pub role: Option<String>,
    pub origin: Option<u32>,
    pub encrypted_at: Option<u32>,
}

pub(crate) fn vectors(name: &str) -> Json {
    let path = format!("{}/../../vectors/ev-sdk/{name}.json", env!("CARGO_MANIFEST_DIR"));
    serde_json::from_str(&std::fs::read_to_string(path).expect("readable")).expect("JSON")
}

impl App {
    pub(crate) fn of_the_vectors() -> Self {
        let json = vectors("keys");
        let ec = EcContext::new(&mut StdRng::seed_from_u64(1));
        let keys = [Curve::P256, Curve::Secp256k1].map(|curve| {
            let digits = json[curve.short_name()]["d"].as_str().expect("a string").trim_start_matches("0x");
            let scalar = Secret::from_slice(&hex::decode(format!("{digits:0>64}")).expect("hex")).expect("32 bytes");
            let private = PrivateKey::from_scalar(curve, scalar).expect("valid");
            let public = ec.public_key(&private);
            (private, public)
        });
        Self { ec, keys }
    }

    pub(crate) fn key(&self, curve: Curve) -> &(PrivateKey, PublicKey) {
        &self.keys[usize::from(curve == Curve::Secp256k1)]
    }

    pub(crate) fn opening_key(&self, ephemeral: &PublicKey) -> OpeningKey {
        let (private, public) = self.key(ephemeral.curve());
        OpeningKey::agree(&self.ec, private, public, ephemeral)
    }

    pub(crate) fn open(&self, text: &str) -> Result<Owned, OpenError> {
        let envelope = PublicKeyEnvelope::parse(text.as_bytes()).map_err(OpenError::Malformed)?;
        let ephemeral = envelope.ephemeral_key().map_err(OpenError::Malformed)?;
        let mut scratch = OpenScratch::default();
        let opened = self.opening_key(&ephemeral).open(&envelope, &mut scratch)?;
        Ok(owned(&opened))
    }
}

pub(crate) fn owned(opened: &leafseal_envelope::OpenedValue<'_>) -> Owned {
    let metadata = opened.metadata.unwrap_or_default();
    Owned {
        value_type: opened.value_type,
        text: opened.text.to_owned(),
        role: metadata.role.map(str::to_owned),
        origin: metadata.origin,
        encrypted_at: metadata.encrypted_at,
    }
}
