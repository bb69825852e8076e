//! Every bound and default of the engine, named.

use std::time::Duration;

use fieldseal_crypto::Curve;
use fieldseal_document::Limits;

use crate::cost;

/// How often a fresh ephemeral key is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Keying {
    /// For each value: a key agreement each.
    Field,
    /// For each request.
    Request,
    /// For each app and curve, until the session's time or count is over.
    Session,
}

/// The action for empty strings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum EmptyStrings {
    /// They are encrypted like all others.
    Encrypt,
    /// They stay as they are.
    Leave,
}

/// Settings of an engine.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The curve when a request names none. Default P-256.
    pub curve: Curve,
    /// The keying when a request names none. Default `Request`.
    pub keying: Keying,
    /// The action for empty strings. Default `Encrypt`.
    pub empty_strings: EmptyStrings,
    /// How long a session's sealing key is used. Default 15 s.
    pub session_age_max: Duration,
    /// How many values a session's sealing key seals. Default 2^20, never more than 2^32.
    pub session_values_max: u64,
    /// How long a key that was made together with a request's own waits for the next request, one for each public key in use.
    /// Default 1 s; zero makes none ahead.
    pub spare_key_age_max: Duration,
    /// Opening keys kept across requests, about 2 KiB each and key version. Default 10,000.
    pub opening_keys_max: usize,
    /// How long an opening key is kept across requests. Default 60 s.
    pub opening_key_age_max: Duration,
    /// Opening keys that one request keeps for itself. Default 16,384.
    pub request_opening_keys_max: usize,
    /// Public keys that have a table of 84 KiB, which halves the cost of encrypting under a fresh key, and more. Default 256: 21 MiB.
    pub recipients_max: usize,
    /// Values that one step encrypts or decrypts, fewer where a value costs a key agreement. Default 256, which with
    /// `step_bytes_max` takes some 50 µs (`cost.rs` has the model).
    pub step_values_max: usize,
    /// Bytes that one step encrypts or decrypts, and twice as many as it walks; a longer value, or a file, is done in pieces of as
    /// many. Default 64 KiB.
    pub step_bytes_max: usize,
    /// How long the blinding of private-key operations stays as it is. Default 60 s.
    pub blinding_age_max: Duration,
    /// How long grants and keys that are known stay in use while the store does not answer. Default 60 s.
    pub store_silence_max: Duration,
    /// Places that a request reports of envelopes that did not open; the others are only counted. Default 16.
    pub failure_paths_max: usize,
    /// Bounds of documents and selectors.
    pub document: Limits,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            curve: Curve::P256,
            keying: Keying::Request,
            empty_strings: EmptyStrings::Encrypt,
            session_age_max: Duration::from_secs(15),
            session_values_max: 1 << 20,
            spare_key_age_max: Duration::from_secs(1),
            opening_keys_max: 10_000,
            opening_key_age_max: Duration::from_secs(60),
            request_opening_keys_max: 1 << 14,
            recipients_max: 256,
            step_values_max: cost::STEP_VALUES_MAX,
            step_bytes_max: cost::STEP_BYTES_MAX,
            blinding_age_max: Duration::from_secs(60),
            store_silence_max: Duration::from_secs(60),
            failure_paths_max: 16,
            document: Limits::default(),
        }
    }
}
