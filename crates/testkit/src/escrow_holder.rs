//! The recipient of exported keys.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use leafseal_crypto::aead::{OpenItem, TAG_SIZE};
use leafseal_crypto::hash::sha256;
use leafseal_crypto::{AeadAlgorithm, AeadKey, Curve, EcContext, Nonce, PrivateKey, PublicKey};
use leafseal_engine::admin::{AppName, ESCROW_SIGNER, EscrowRecipient, EscrowedVersion, Keystore, public_key_pem};
use leafseal_engine::system_random;

/// A third party with a key on P-256, which opens what was exported to it.
pub struct EscrowHolder {
    key: PrivateKey,
    context: EcContext,
}

impl Default for EscrowHolder {
    fn default() -> Self {
        let rng = &mut system_random();
        Self { key: PrivateKey::generate(Curve::P256, rng), context: EcContext::new(rng) }
    }
}

impl EscrowHolder {
    /// Its public key.
    pub fn public_pem(&self) -> String {
        public_key_pem(&self.context.public_key(&self.key))
    }

    /// The active versions of an app as they are exported to it, newest first.
    ///
    /// # Panics
    /// When the app is not there.
    pub fn export(&self, store: &dyn Keystore, app: &AppName) -> Vec<String> {
        let recipient = EscrowRecipient::from_pem(&self.public_pem()).expect("a public key on P-256");
        let signer = store.record_key(ESCROW_SIGNER, None).expect("read").expect("a store");
        let keys = store.load_app(app).expect("read").expect("there");
        let seal = |version| recipient.seal((&keys, version), &signer, &self.context, &mut system_random());
        let opened = keys.versions.iter().map(|version| self.open(&seal(version)));
        opened.map(|text| String::from_utf8(text).expect("text")).collect()
    }

    /// A text that was exported.
    ///
    /// # Panics
    /// When it does not read.
    pub fn read(&self, text: &str) -> EscrowedVersion {
        EscrowedVersion::parse(text, &self.context).expect("whole")
    }

    /// Decrypts a JWE (RFC 7516, 5.2) with ECDH-ES (RFC 7518, 4.6) and A256GCM.
    ///
    /// # Panics
    /// When it is none, or for someone else.
    pub fn open(&self, jwe: &str) -> Vec<u8> {
        let parts: Vec<&str> = jwe.split('.').collect();
        let [header, "", nonce, ciphertext, tag] = parts[..] else { panic!("a JWE has five parts: {jwe}") };
        let decode = |text: &str| URL_SAFE_NO_PAD.decode(text).expect("base64url");
        let fields = String::from_utf8(decode(header)).expect("text");
        let coordinate = |name: &str| {
            let (_, rest) = fields.split_once(&format!("\"{name}\":\"")).expect("a coordinate");
            decode(rest.split_once('"').expect("an end").0)
        };
        let point = [&[4], &coordinate("x")[..], &coordinate("y")].concat();
        let ephemeral = PublicKey::from_sec1(Curve::P256, &point).expect("a point");
        let shared = self.context.agree(&self.key, &ephemeral);
        let key = sha256(&[&[0, 0, 0, 1], shared.expose(), b"\0\0\0\x07A256GCM\0\0\0\0\0\0\0\0\0\0\x01\0"]);
        let key = AeadKey::new(AeadAlgorithm::Aes256Gcm, &key).expect("32 bytes");
        let sealed = [decode(ciphertext), decode(tag)].concat();
        let nonce = Nonce(decode(nonce).try_into().expect("12 bytes"));
        let mut opened = vec![0; sealed.len() - TAG_SIZE];
        key.open(&OpenItem { nonce, aad: header.as_bytes(), sealed: &sealed }, &mut opened).expect("opens");
        opened
    }
}
