//! Counters of an engine, for metrics: the effect of its caches, and the work that they save.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use leafseal_envelope::Scheme;
use leafseal_keystore::MemoryStatus;

pub use crate::lookups::LookupCounters;
pub use crate::scan::ScanCounters;

/// An engine's counters at one moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct EngineCounters {
    /// Apps with their keys, read from the store.
    pub apps: CacheCounters,
    /// Clients' grants, read from the store.
    pub grants: CacheCounters,
    /// API keys, read from the store.
    pub api_keys: CacheCounters,
    /// Sealing keys of sessions. One lookup per step of a request.
    pub sessions: CacheCounters,
    /// Sealing keys generated ahead for the next request. One lookup per fresh key.
    pub spare_keys: CacheCounters,
    /// Opening keys that are kept across requests. One lookup per ephemeral key of a request.
    pub opening_keys: CacheCounters,
    /// Values that were sealed since the engine's start.
    pub sealed: ValueCounts,
    /// Values that were opened since the engine's start: to decrypt or rewrap them, or to find those that `skip_sealed` skips.
    pub opened: ValueCounts,
    /// How often canaries were opened since the engine's start.
    pub canaries: u64,
    /// Key agreements for decryption since the engine's start.
    pub opening_agreements: u64,
    /// Key versions tried without success on a value, or on a piece of a long one, since the engine's start.
    pub opening_trials: u64,
    /// How long ago the store last responded to the check for changes.
    pub store_silence: Duration,
    /// Whether a person must open the store.
    pub store_is_sealed: bool,
    /// How often the caches were cleared, because the store had changed, was connected again or has been silent for too long; the first
    /// look at the store is one.
    pub store_resyncs: u64,
    /// Deletions of apps that this engine has put off, because the apps were in use after the request.
    pub deletions_put_off: u64,
    /// Look-ups in the store.
    pub lookups: LookupCounters,
    /// What was seen of the store.
    pub memory: MemoryStatus,
    /// The scan for edits in the store.
    pub scan: ScanCounters,
}

/// Numbers of values by their scheme. A file is one value.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ValueCounts {
    /// To a public key.
    pub public_key: u64,
    /// With a symmetric key.
    pub symmetric: u64,
}

impl ValueCounts {
    /// This many values of one scheme.
    pub(crate) fn of(scheme: Scheme, count: u64) -> Self {
        match scheme {
            Scheme::PublicKey => Self { public_key: count, symmetric: 0 },
            Scheme::Symmetric => Self { public_key: 0, symmetric: count },
        }
    }

    pub(crate) fn add(&mut self, other: Self) {
        self.public_key += other.public_key;
        self.symmetric += other.symmetric;
    }
}

/// Counts values of an engine.
#[derive(Debug, Default)]
pub(crate) struct ValueTotals {
    public_key: AtomicU64,
    symmetric: AtomicU64,
}

impl ValueTotals {
    pub(crate) fn add(&self, counts: ValueCounts) {
        for (total, count) in [(&self.public_key, counts.public_key), (&self.symmetric, counts.symmetric)] {
            // All threads share them: what is not needed is not touched.
            if count > 0 {
                total.fetch_add(count, Ordering::Relaxed);
            }
        }
    }

    pub(crate) fn now(&self) -> ValueCounts {
        ValueCounts {
            public_key: self.public_key.load(Ordering::Relaxed),
            symmetric: self.symmetric.load(Ordering::Relaxed),
        }
    }
}

/// Counters and size of a cache since the engine's start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CacheCounters {
    /// Successful lookups.
    pub hits: u64,
    /// Lookups that found nothing, or only an expired entry.
    pub misses: u64,
    /// Current number of entries.
    pub entries: usize,
}

/// Lookups of a cache, counted under its lock.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Lookups {
    hits: u64,
    misses: u64,
}

impl Lookups {
    /// Counts the result of a lookup and returns it.
    pub(crate) fn note<T>(&mut self, found: Option<T>) -> Option<T> {
        match found {
            Some(_) => self.hits += 1,
            None => self.misses += 1,
        }
        found
    }

    pub(crate) fn with_entries(self, entries: usize) -> CacheCounters {
        CacheCounters { hits: self.hits, misses: self.misses, entries }
    }
}
