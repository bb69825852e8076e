//! The methods, and the parameters and results of queries: the one declaration of each.
//!
//! A query is a method that carries no values of users. Its entry has its meaning in short, for clients; after an empty line its meaning
//! in full, for `docs/protocol.md`; its name, its parameters and its result. `-> Record.field` means that clients return that field, the
//! only one. `cargo xtask generate` writes the types and calls of the clients in other languages and the section of the page.

use crate::error::ContentError;
use crate::field::Field;
use crate::message::{RawParams, RawValue};
use crate::query::{InfoResult, QueryInfo, QueryResult, methods};
use crate::record::{
    FieldInfo, FieldType, RecordInfo, RecordValue, SecretText, WireRecord, decoder, field_of, records,
};
use crate::wire::WireReader;
use crate::words::{Curve, Scheme, TextKind};

methods! {
    values {
        /// Native values to envelopes.
        Encrypt "encrypt";
        /// Envelopes to native values.
        Decrypt "decrypt";
        /// Encrypts the chosen fields of a JSON text.
        EncryptDocument "encrypt_document";
        /// Decrypts the chosen envelopes of a JSON text.
        DecryptDocument "decrypt_document";
        /// Bytes to an encrypted file.
        EncryptFile "encrypt_file";
        /// An encrypted file to its bytes.
        DecryptFile "decrypt_file";
        /// Envelopes to envelopes under the newest key version.
        Rewrap "rewrap";
        /// The metadata of envelopes.
        Inspect "inspect";
    }
    queries {
        /// Returns the app's newest public keys.
        ///
        /// Returns the public keys that the engine encrypts with, for encryption without it: those of the app's newest version, or of
        /// the one before for some seconds after a rotation (`engine.key_version_delay`).
        PublicKeys "public_keys" (PublicKeysParams<'a>) -> PublicKeySet;
        /// Verifies an API key and returns what it allows.
        ///
        /// Verifies an API key and returns what it allows. A relay uses this for the keys of its own clients. The caller must be allowed
        /// to use the key's app. A key that is unknown, revoked or for another app causes `forbidden`.
        Authenticate "authenticate" (AuthenticateParams<'a>) -> ApiKeyFacts;
        /// Returns `ok`, `sealed`, `draining`, or another word that means not ready.
        ///
        /// Answered as soon as it is read, independently of the queue. It is not read while the engine
        /// [has stopped reading](#when-the-engine-stops-reading-or-closes) from the connection; use a separate connection for `health`
        /// where that matters.
        Health "health" (HealthParams) -> Health.status;
        /// Returns properties of the engine by name.
        ///
        /// The result is a map of strings; `protocol` (the version of this protocol, `1`), `version` (of the engine), `frame_size_max`,
        /// `elements_max` and `depth_max` (decimal) are always present; there may be others.
        Info "info" (InfoParams) -> InfoResult;
        /// Returns a public key for the next `unseal` of this client.
        ///
        /// Returns a public key, to which the client seals the secret of its next [`unseal`](#unseal). A client has one such key: the next
        /// call replaces it, and the engine forgets its private half with the attempt. Only for the clients whose certificates
        /// `server.unsealers` names, whether the keystore is sealed or not; others get `forbidden`.
        UnsealKey "unseal_key" (UnsealKeyParams) -> UnsealKeyResult.public_key, for operators;
        /// Brings what opens a sealed keystore: a passphrase, or shares.
        ///
        /// Brings what opens the keystore of an engine that was started with `serve --sealed`, or whose root was replaced: a passphrase, or
        /// shares, one per line, sealed to a key that [`unseal_key`](#unseal_key) has returned on this engine: connections then carry
        /// ciphertext alone, and no buffer that the secret was read into has to be overwritten. HPKE (RFC 9180, base mode) with X-Wing,
        /// HKDF-SHA-256 and AES-256-GCM, the info `leafseal unseal 1` and no associated data. Several callers may bring one share each.
        /// Only the clients whose certificates `server.unsealers` names may do so, and nobody else is admitted while the keystore is
        /// sealed. What does not open it causes `forbidden`, and so do too many attempts. A secret that is sealed to another key, or is
        /// neither a passphrase nor shares of one slot, causes `invalid_params`. One attempt is made at a time: `overloaded` during
        /// another.
        Unseal "unseal" (UnsealParams<'a>) -> UnsealResult, for operators;
    }
}

records! {
    /// Parameters of `public_keys`.
    params PublicKeysParams<'a> {
        /// The app whose keys are returned.
        App app: &'a str;
    }

    /// The newest public keys of an app.
    result PublicKeySet = "PublicKeys" {
        /// The app.
        App app: String;
        /// The key version, from 1.
        Version version: u64;
        /// The P-256 key, SEC1-compressed, 33 bytes.
        R1 r1: Vec<u8>;
        /// The secp256k1 key, SEC1-compressed, 33 bytes.
        K1 k1: Vec<u8>;
        /// The P-256 key as SubjectPublicKeyInfo in PEM (RFC 7468).
        R1Pem r1_pem: Option<String>;
        /// The secp256k1 key as SubjectPublicKeyInfo in PEM (RFC 7468).
        K1Pem k1_pem: Option<String>;
    }

    /// Parameters of `authenticate`.
    params AuthenticateParams<'a> {
        /// The key as its user sent it.
        ApiKey api_key: SecretText<'a>;
        /// The user's name, such as its address. Look-ups in the keystore for different users take turns, so that one that sends
        /// invented keys does not keep the others waiting. Default: one user for all.
        Client client: Option<&'a str>;
    }

    /// An API key that is in force, and what it allows.
    result ApiKeyFacts = "ApiKey" {
        /// The id of the key in lists, logs and requests on its behalf; not secret.
        KeyId key_id: String;
        /// The only app that the key is for.
        App app: String;
        /// The permitted operations: `encrypt`, `decrypt`, `inspect`, `client-side-tokens`; ignore others.
        Operations operations: Vec<String>;
        /// The data roles that it may decrypt; absent for every role.
        Roles roles: Option<Vec<String>>;
    }

    /// Parameters of `health`: none.
    params HealthParams {}

    /// The readiness of an engine.
    result Health {
        /// `ok`; `sealed` while someone must open the keystore with `unseal`; `draining` while the engine finishes requests and accepts
        /// no new ones. Treat any other word as not ready.
        Status status: String;
    }

    /// Parameters of `info`: none.
    params InfoParams {}

    /// Parameters of `unseal_key`: none.
    params UnsealKeyParams {}

    /// A key for one call of `unseal`.
    result UnsealKeyResult = "UnsealKey" {
        /// The X-Wing public key, 1216 bytes.
        PublicKey public_key: Vec<u8>;
    }

    /// Parameters of `unseal`.
    params UnsealParams<'a> {
        /// Encapsulated key, then ciphertext with tag, of a passphrase or of shares: at most 8192 bytes of text.
        Secret secret: &'a [u8];
    }

    /// The state of the keystore after `unseal`.
    result UnsealResult = "Unsealed" {
        /// `unsealed`: it is open now; `open`: it was open already; `sealed`: shares are missing.
        Status status: String;
        /// How many shares are missing.
        Missing missing: u64;
    }

    /// The metadata of an envelope, without its value.
    result Inspection {
        /// The version in the envelope's text, such as `Tk9D`.
        Version version: String;
        /// The scheme; engines that know one alone leave it out: `public-key`.
        Scheme scheme: Option<Scheme>;
        /// The curve; only of envelopes to a public key.
        Curve curve: Option<Curve>;
        /// The type of the encrypted value.
        Type kind: TextKind;
        /// Whether it is marked as made in debug mode.
        Debug debug: bool;
        /// The ephemeral public key, SEC1-compressed, 33 bytes; only of envelopes to a public key.
        Ephemeral ephemeral: Option<Vec<u8>>;
        /// The id of the key that a symmetric envelope names, 16 bytes.
        SymmetricKeyId symmetric_key_id: Option<Vec<u8>>;
        /// Whether a symmetric envelope was resealed from one to a public key; only if the call names an app.
        FromPublicKey from_public_key: Option<bool>;
        /// The data role; only if the call names an app.
        Role role: Option<String>;
        /// The number of the software that made it; only if the call names an app.
        Origin origin: Option<u64>;
        /// When it was made, in Unix seconds; only if the call names an app.
        EncryptedAt encrypted_at: Option<u64>;
        /// The app's key version that opens it; only if the call names an app. The key id of a symmetric envelope names the version, also
        /// if it does not open.
        KeyVersion key_version: Option<u64>;
        /// Whether it does not open, where the call leaves such.
        Unopened unopened: Option<bool>;
    }
}

impl Health {
    /// The engine serves.
    pub const OK: &'static str = "ok";
    /// Someone must open the keystore.
    pub const SEALED: &'static str = "sealed";
    /// The engine finishes what it has and takes nothing new.
    pub const DRAINING: &'static str = "draining";
}

impl UnsealResult {
    /// The keystore is open now.
    pub const UNSEALED: &'static str = "unsealed";
    /// It was open already.
    pub const OPEN: &'static str = "open";
    /// Shares are missing.
    pub const SEALED: &'static str = "sealed";
}

/// The parameters of a query: a method that carries no values of users, and whose parameters and result are declared.
pub trait QueryParams {
    /// The method.
    const METHOD: Method;
    /// Its result.
    type Result: QueryResult;

    /// Appends the map of parameters.
    fn write(&self, out: &mut Vec<u8>);
}
