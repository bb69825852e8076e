//! The engine's settings: every limit and its default.

use std::time::Duration;

use leafseal_crypto::Curve;
use leafseal_document::Limits;

use crate::cost;

/// How often a fresh ephemeral key is generated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Keying {
    /// For each value, with a key agreement each.
    Field,
    /// For each request.
    Request,
    /// For each app and curve, until the session's time or count is exhausted.
    Session,
}

/// The action for empty strings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum EmptyStrings {
    /// They are encrypted like all others.
    Encrypt,
    /// They stay unchanged.
    Leave,
}

/// Settings of an engine.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The curve if a request names none. Default P-256.
    pub curve: Curve,
    /// The keying if a request names none. Default `Request`.
    pub keying: Keying,
    /// The action for empty strings. Default `Encrypt`.
    pub empty_strings: EmptyStrings,
    /// How long a session's sealing key is used. Default 15 s.
    pub session_age_max: Duration,
    /// How many values a session's sealing key encrypts. Default 2^20, never more than 2^32.
    pub session_values_max: u64,
    /// Maximum age of spare keys, which are generated together with a request's own key and wait for the next requests: one to seven per
    /// public key in use, by the CPU. Default 1 s; zero disables spare keys.
    pub spare_key_age_max: Duration,
    /// Maximum number of opening keys kept across requests, about 2 KiB each per key version. Default 10,000.
    pub opening_keys_max: usize,
    /// How long an opening key is kept across requests. Default 60 s.
    pub opening_key_age_max: Duration,
    /// Maximum number of opening keys that one request keeps for itself. Default 16,384.
    pub request_opening_keys_max: usize,
    /// Maximum number of key versions that one request tries without success, on values of other apps for example: each costs about 15 µs,
    /// and 65 µs if there are few. Each 64 KiB of a long value count as one. Default 2^18.
    pub request_key_trials_max: u64,
    /// Maximum number of public keys with a table of up to 108 KiB, which at least halves the cost of encrypting under a fresh key. Default
    /// 256: 27 MiB.
    pub recipients_max: usize,
    /// Values that one step encrypts or decrypts, fewer if a value costs a key agreement. Default 256, which with `step_bytes_max` takes
    /// about 50 µs (see the model in `cost.rs`).
    pub step_values_max: usize,
    /// Bytes that one step encrypts or decrypts; it scans half as many. A longer value, or a file, is processed in pieces of this size.
    /// Default 64 KiB.
    pub step_bytes_max: usize,
    /// How long the blinding of private-key operations is used. Default 60 s.
    pub blinding_age_max: Duration,
    /// How long cached grants and keys stay in use while the store does not respond. Default 60 s.
    pub store_silence_max: Duration,
    /// How long an engine decrypts with a new key version before it encrypts with it, if other engines share the store: they may learn of
    /// it later. Should exceed the second between two calls of [`Engine::maintain`](crate::Engine::maintain). Default 2 s.
    pub key_version_delay: Duration,
    /// Threads of a server that read the store for requests, at least 1. Look-ups for callers without known credentials use at most half of
    /// them. Default 4.
    pub store_lookups_max: usize,
    /// Look-ups that wait for one of these threads: so many for callers with known credentials and so many for others. A quarter of them
    /// may come from one client or address. In a full queue one with fewer displaces the newest of the one with most, which gets
    /// `overloaded`; otherwise further callers do. Default 256.
    pub store_queue_max: usize,
    /// How long a request waits for the store before it is answered with `unavailable`. Default 5 s.
    pub store_wait_max: Duration,
    /// Memory in bytes for names of apps, clients and API keys that the store does not have, so that they are not looked up again. Default
    /// 1 MiB: about 5,000 names.
    pub miss_bytes_max: usize,
    /// How long such a name is remembered, unless the store reports a change before. Default 60 s.
    pub miss_age_max: Duration,
    /// Maximum number of positions reported per request of envelopes that failed to decrypt; the others are only counted. Default 16.
    pub failure_paths_max: usize,
    /// Limits on documents and selectors.
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
            request_key_trials_max: 1 << 18,
            recipients_max: 256,
            step_values_max: cost::STEP_VALUES_MAX,
            step_bytes_max: cost::STEP_BYTES_MAX,
            blinding_age_max: Duration::from_secs(60),
            store_silence_max: Duration::from_secs(60),
            key_version_delay: Duration::from_secs(2),
            store_lookups_max: 4,
            store_queue_max: 256,
            store_wait_max: Duration::from_secs(5),
            miss_bytes_max: 1 << 20,
            miss_age_max: Duration::from_secs(60),
            failure_paths_max: 16,
            document: Limits::default(),
        }
    }
}
