//! Keys for escrow: a key version as a signed text, encrypted to a recipient's public key as JSON Web Encryption (RFC 7516), compact form,
//! with ECDH-ES on P-256 (RFC 7518, 4.6) and AES-256-GCM. Any JOSE library opens it (`docs/decisions/0044-life-of-keys.md`).

use base64ct::{Base64, Base64UrlUnpadded, Encoding};
use leafseal_crypto::aead::{NONCE_SIZE, SealItem, TAG_SIZE};
use leafseal_crypto::hash::sha256_secret;
use leafseal_crypto::{AeadAlgorithm, AeadKey, CryptoRng, Curve, EcContext, Nonce, PrivateKey, PublicKey, Secret};

use crate::escrowed::EscrowedVersion;
use crate::model::{AppKeys, KeyVersion};
use crate::record_key::RecordKey;

/// The name of the content's encryption, which the key is derived for.
const ENCRYPTION: &[u8] = b"A256GCM";

/// Why a text is no recipient.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not the PEM of a public key on P-256: one block PUBLIC KEY, as openssl ec -pubout writes it")]
pub struct InvalidRecipient;

/// Whom keys are encrypted to.
#[derive(Debug, Clone)]
pub struct EscrowRecipient(PublicKey);

impl EscrowRecipient {
    /// Parses the PEM of a public key on P-256.
    ///
    /// # Errors
    /// [`InvalidRecipient`].
    pub fn from_pem(text: &str) -> Result<Self, InvalidRecipient> {
        let (_, rest) = text.split_once("-----BEGIN PUBLIC KEY-----").ok_or(InvalidRecipient)?;
        let (base64, after) = rest.split_once("-----END PUBLIC KEY-----").ok_or(InvalidRecipient)?;
        if after.contains("-----BEGIN") {
            return Err(InvalidRecipient);
        }
        let base64: String = base64.split_ascii_whitespace().collect();
        let der = Base64::decode_vec(&base64).map_err(|_| InvalidRecipient)?;
        PublicKey::from_spki_der(Curve::P256, &der).map(Self).map_err(|_| InvalidRecipient)
    }

    /// Encrypts the keys of a version of an app. `signer`: of its store, for [`ESCROW_SIGNER`](crate::ESCROW_SIGNER), so that they can be
    /// imported again. The result names app and version (`kid`), which are no secret.
    pub fn seal(
        &self,
        (app, version): (&AppKeys, &KeyVersion),
        signer: &RecordKey,
        context: &EcContext,
        rng: &mut dyn CryptoRng,
    ) -> String {
        let kid = format!("{}/{}", app.name, version.version);
        self.encrypt(&kid, &EscrowedVersion::sign(app, version, signer).text(), context, rng)
    }

    fn encrypt(&self, kid: &str, plaintext: &str, context: &EcContext, rng: &mut dyn CryptoRng) -> String {
        let ephemeral = PrivateKey::generate(Curve::P256, rng);
        let (x, y) = coordinates(&context.public_key(&ephemeral));
        let epk = format!(r#"{{"kty":"EC","crv":"P-256","x":"{x}","y":"{y}"}}"#);
        let header = format!(r#"{{"alg":"ECDH-ES","enc":"A256GCM","cty":"text/plain","kid":"{kid}","epk":{epk}}}"#);
        let header = Base64UrlUnpadded::encode_string(header.as_bytes());
        let key = derived(&context.agree(&ephemeral, &self.0));
        let key = AeadKey::new(AeadAlgorithm::Aes256Gcm, key.expose()).expect("32 bytes are an AES-256 key");
        let mut nonce = Nonce([0; NONCE_SIZE]);
        rng.fill_bytes(&mut nonce.0);
        let mut sealed = vec![0; plaintext.len() + TAG_SIZE];
        key.seal(&SealItem { nonce, aad: header.as_bytes(), plaintext: plaintext.as_bytes() }, &mut sealed);
        let (ciphertext, tag) = sealed.split_at(plaintext.len());
        let [nonce, ciphertext, tag] = [&nonce.0, ciphertext, tag].map(Base64UrlUnpadded::encode_string);
        // Direct agreement: there is no encrypted key.
        format!("{header}..{nonce}.{ciphertext}.{tag}")
    }
}

fn coordinates(public: &PublicKey) -> (String, String) {
    let (x, y) = public.uncompressed()[1..].split_at(32);
    (Base64UrlUnpadded::encode_string(x), Base64UrlUnpadded::encode_string(y))
}

/// The Concat KDF (NIST SP 800-56A, 5.8.1) as RFC 7518, 4.6.2 uses it, for 256 bits: one round of SHA-256.
fn derived(shared: &Secret<32>) -> Secret<32> {
    let size = |size: usize| u32::try_from(size).unwrap_or(u32::MAX).to_be_bytes();
    let parts: [&[u8]; 7] =
        [&size(1), shared.expose(), &size(ENCRYPTION.len()), ENCRYPTION, &size(0), &size(0), &size(256)];
    sha256_secret(&parts)
}

#[cfg(test)]
mod tests {
    use aes_gcm::Aes256Gcm;
    use aes_gcm::aead::{Aead, KeyInit, Payload};
    use rand::SeedableRng;
    use rand::rngs::StdRng;
    use sha2::{Digest, Sha256};

    use leafseal_crypto::Ed25519PrivateKey;
    use leafseal_crypto::symmetric::SymmetricRoot;

    use super::*;
    use crate::AppName;
    use crate::accepted::AcceptedSchemes;
    use crate::model::{AppKeyPair, KeyState};
    use crate::pem::public_key_pem;
    use crate::store_id::StoreId;

    /// Opened as RFC 7516, 5.2 and RFC 7518, 4.6 have it, with RustCrypto's AES and SHA-2, by the recipient's private key.
    fn open(jwe: &str, recipient: &PrivateKey, context: &EcContext) -> (serde_json::Value, String) {
        let parts: Vec<&str> = jwe.split('.').collect();
        let [header, "", nonce, ciphertext, tag] = parts[..] else { panic!("{jwe}") };
        let decode = |text: &str| Base64UrlUnpadded::decode_vec(text).expect("base64url");
        let fields: serde_json::Value = serde_json::from_slice(&decode(header)).expect("JSON");
        let coordinate = |name: &str| decode(fields["epk"][name].as_str().expect("text"));
        let point = [&[4], &coordinate("x")[..], &coordinate("y")].concat();
        let ephemeral = PublicKey::from_sec1(Curve::P256, &point).expect("a point");
        let mut hash = Sha256::new();
        hash.update([0, 0, 0, 1]);
        hash.update(context.agree(recipient, &ephemeral).expose());
        hash.update(b"\0\0\0\x07A256GCM\0\0\0\0\0\0\0\0\0\0\x01\0");
        let cipher = Aes256Gcm::new(&hash.finalize());
        let nonce: [u8; 12] = decode(nonce).try_into().expect("12 bytes");
        let payload = Payload { msg: &[decode(ciphertext), decode(tag)].concat(), aad: header.as_bytes() };
        let opened = cipher.decrypt(&nonce.into(), payload).expect("opens");
        (fields, String::from_utf8(opened).expect("text"))
    }

    #[test]
    fn a_recipient_opens_each_version_as_the_text_that_its_store_has_signed() {
        let mut rng = StdRng::seed_from_u64(7);
        let context = EcContext::new(&mut rng);
        let private = PrivateKey::generate(Curve::P256, &mut rng);
        let pem = public_key_pem(&context.public_key(&private));
        let recipient = EscrowRecipient::from_pem(&format!("text\n{pem}")).expect("a recipient");
        let signer = RecordKey::new(StoreId([7; 16]), 0, Ed25519PrivateKey::from_seed(Secret::random(&mut rng)));
        let pair = |curve| AppKeyPair::new(PrivateKey::generate(curve, &mut StdRng::seed_from_u64(8)), &context);
        let version = KeyVersion {
            version: 3,
            created_at: 1_790_000_000,
            state: KeyState::Active,
            r1: pair(Curve::P256),
            k1: pair(Curve::Secp256k1),
            symmetric: Some(SymmetricRoot::generate(&mut rng)),
        };
        let name = AppName::parse("acme").expect("valid");
        let app = AppKeys { name, disabled: false, accept: AcceptedSchemes::ALL, versions: Vec::new(), canaries: None };
        let jwe = recipient.seal((&app, &version), &signer, &context, &mut rng);
        let (header, opened) = open(&jwe, &private, &context);
        assert_eq!((&header["kid"], &header["cty"]), (&"acme/3".into(), &"text/plain".into()));
        let read = EscrowedVersion::parse(&opened, &context).expect("whole");
        assert!(read.is_signed_by(&signer.public_key()));
        let again = recipient.seal((&app, &version), &signer, &context, &mut rng);
        assert_ne!(jwe, again, "a fresh key each time");
        for text in ["", &pem.replace("PUBLIC", "PRIVATE"), &format!("{pem}{pem}"), &pem.replace("BEGIN", "BEGIN X")] {
            assert!(EscrowRecipient::from_pem(text).is_err(), "{text}");
        }
        let other = public_key_pem(&context.public_key(&PrivateKey::generate(Curve::Secp256k1, &mut rng)));
        assert!(EscrowRecipient::from_pem(&other).is_err(), "on another curve");
    }
}
