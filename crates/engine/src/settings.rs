//! The engine's settings: every limit and its default.

use std::time::Duration;

use leafseal_config::{ms, secs, settings};
use leafseal_crypto::Curve;
use leafseal_document::DocumentLimits;
use leafseal_envelope::Scheme;
use leafseal_keystore::StoreLimits;

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

settings! {
    /// Settings of an engine.
    #[derive(Debug, Clone)]
    pub struct Settings {
        /// The scheme used when a request names neither scheme nor curve: `public-key` seals to a public key of the app, as anyone can who
        /// has that key; `symmetric` with a key that only engines have, which opens up to eighty times faster.
        pub scheme: Scheme = Scheme::PublicKey,
            one of { "public-key" => Scheme::PublicKey, "symmetric" => Scheme::Symmetric };
        /// The curve used when a request for the scheme `public-key` does not name one.
        pub curve: Curve = Curve::P256, one of { "r1" => Curve::P256, "k1" => Curve::Secp256k1 };
        /// How often encryption generates a new ephemeral key when a request does not specify it: per value (`field`), per request, or per
        /// session, which many requests share.
        pub keying: Keying = Keying::Request,
            one of { "field" => Keying::Field, "request" => Keying::Request, "session" => Keying::Session };
        /// Whether empty strings are encrypted or left unchanged.
        pub empty_strings: EmptyStrings = EmptyStrings::Encrypt,
            one of { "encrypt" => EmptyStrings::Encrypt, "leave" => EmptyStrings::Leave };
        /// Maximum age of the key that keying `session` reuses.
        pub session_age_max: Duration = secs(15), in ms(1)..;
        /// Maximum number of values that keying `session` encrypts with one key.
        pub session_values_max: u64 = 1 << 20, in 1..=1 << 32;
        /// How long spare ephemeral keys are kept for the next requests. They are generated together with a request's own key: two at once
        /// cost a fifth less each, eight in SIMD lanes a fifth; 0 disables spare keys.
        pub spare_key_age_max: Duration = secs(1), in ms(0)..;
        /// Derived decryption keys cached across requests, about 2 KiB each per key version; 0 disables the cache.
        pub opening_keys_max: usize = 10_000, in 0..=10_000_000;
        /// How long a key stays in that cache.
        pub opening_key_age_max: Duration = secs(60), in ms(0)..;
        /// Derived decryption keys that one request caches for its own use.
        pub request_opening_keys_max: usize = 1 << 14, in 1..=10_000_000;
        /// Key versions that one request may try without success, on values of other apps for example; beyond it the request fails with
        /// `too large`. Each costs about 15 µs of CPU time, 65 µs for an app with few versions. Must be at least
        /// `keystore.version_count_max`.
        // Each 64 KiB of a long value count as one.
        pub request_key_trials_max: u64 = 1 << 18, in 1..=1_000_000_000;
        /// Key ids of symmetric envelopes that one request may name without the app having such a key; beyond it the request fails with
        /// `too large`. Each is looked up in the keystore once.
        pub request_key_lookups_max: usize = 64, in 1..=1_000_000;
        /// How many paths of envelopes that failed to decrypt one request reports; further ones are only counted.
        pub failure_paths_max: usize = 16, in 0..=1_000;
        /// Public keys cached with a precomputed table for encryption, up to 108 KiB each. 0 disables the cache: a fresh ephemeral key then
        /// takes three times as long.
        pub recipients_max: usize = 256, in 0..=1_000_000;
        /// Values that a worker processes before it yields.
        // With `step_bytes_max` it takes about 50 µs: see the model in `cost.rs`.
        pub step_values_max: usize = cost::STEP_VALUES_MAX, in 1..=65_536;
        /// Bytes of values that a worker encrypts or decrypts before it yields; without a match it scans half as many. Longer values are
        /// processed in pieces.
        pub step_bytes_max: usize = cost::STEP_BYTES_MAX, bytes in 1024..=64 << 20;
        /// How long the blinding of private-key operations is reused before it is renewed.
        pub blinding_age_max: Duration = secs(60), in ms(0)..;
        /// How long known grants and keys stay in use while the keystore does not respond; then requests are refused and `/readyz` fails. A
        /// longer time bridges longer outages, but until the keystore responds nothing that was revoked or disabled is refused.
        pub store_silence_max: Duration = secs(60), in ms(0)..;
        /// How long an engine that shares its keystore (`keystore.url`) only decrypts with a new key version before it also encrypts with
        /// it: other engines learn of the version within a second. Use the same value everywhere.
        // Should exceed the second between two calls of `Engine::maintain`.
        pub key_version_delay: Duration = secs(2), in ms(0)..;
        /// Threads that read the keystore for requests, so that no worker waits for it. Look-ups for callers without known credentials use
        /// at most half of them.
        pub store_lookups_max: usize = 4, in 1..=256;
        /// Look-ups that wait for these threads, for callers with known credentials and as many for others; one client or address may have
        /// a quarter of them. When all wait, a client with fewer displaces the newest of the client with most, which fails with
        /// `overloaded`, and otherwise further requests do.
        pub store_queue_max: usize = 256, in 1..=65_536;
        /// How long a request waits for the keystore before it fails with `unavailable`.
        pub store_wait_max: Duration = secs(5), in ms(1)..;
        /// Memory for names of apps, clients and API keys that the keystore does not have, so that they are not looked up again.
        // The default has room for about 5,000 names.
        pub miss_bytes_max: usize = 1 << 20, bytes in 0..=1 << 30;
        /// How long such a name is remembered; a change of the keystore ends it at once.
        pub miss_age_max: Duration = secs(60), in ms(0)..;
        /// Rows of the keystore that are compared with their authentication in a second, in the background, so that edits are found that no
        /// request meets: about 12 for each app and key version. 0 turns this off. At most half of the time of the engine's connection to
        /// the keystore is used.
        // 100,000 apps take 40 s.
        pub store_scan_rows_per_second: u32 = 30_000, in 0..=10_000_000;
        /// How often such a scan begins, unless one takes longer.
        pub store_scan_interval: Duration = secs(30), in secs(1)..;
        /// How often the engine looks for keys to rotate and apps to delete, and does it: of several engines on a keystore one acts. With 0
        /// it never does; `leafseal keys upkeep` does the same once.
        pub store_upkeep_interval: Duration = secs(60), in ms(0)..;
        /// The age at which the keys of an app are rotated that has no rule of its own (`leafseal keys rotate-after`). 0: never.
        pub rotate_after: Duration = secs(0), in ms(0)..;
        /// How old the record may become that an app is in use, which keeps `leafseal keys delete` from deleting it. Each app is recorded
        /// once in that time, by one engine, at most a twenty-fourth of it late; each record is a change of the keystore.
        pub use_record_interval: Duration = secs(86_400), in secs(24)..;
        /// Limits on JSON documents and selectors. A request that exceeds one is refused.
        pub document: DocumentLimits = DocumentLimits::default(), is section("document.");
    }
}

impl Settings {
    /// What does not fit together, or with the limits of the store.
    pub fn problems(&self, store: &StoreLimits) -> Vec<String> {
        let (trials, versions) = (self.request_key_trials_max, store.version_count_max);
        let too_few = (trials < versions.into()).then(|| {
            format!(
                "engine.request_key_trials_max ({trials}) must be at least keystore.version_count_max ({versions}): otherwise a single \
                 value could not be tried with every key version"
            )
        });
        too_few.into_iter().collect()
    }
}
