//! Counters of an engine, for metrics: the effect of its caches, and the work that they save.

/// An engine's counts at one moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counters {
    /// Apps with their keys, read from the store.
    pub apps: CacheCounters,
    /// Clients' grants, read from the store.
    pub grants: CacheCounters,
    /// API keys, read from the store.
    pub api_keys: CacheCounters,
    /// Sealing keys of sessions. A lookup for each step of a request.
    pub sessions: CacheCounters,
    /// Sealing keys that were made ahead for the next request. A lookup for each fresh key.
    pub spare_keys: CacheCounters,
    /// Opening keys that are kept across requests. A lookup for each ephemeral key of a request.
    pub opening_keys: CacheCounters,
    /// Key agreements that were made to open envelopes since the engine began.
    pub opening_agreements: u64,
}

/// Counters and size of a cache since the engine's start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CacheCounters {
    /// Lookups that found what they looked for.
    pub hits: u64,
    /// Lookups that did not, or only what was too old.
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
    /// Counts what a lookup has found, and hands it on.
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
