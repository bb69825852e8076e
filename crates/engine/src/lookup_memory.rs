//! The results of look-ups: the names that the store does not have, and those that it had before its last changes.

use std::collections::HashSet;
use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

use lru::LruCache;

use crate::wanted::{Absence, Wanted};

/// Names that existed before the last changes, each as a hash of eight bytes; beyond it all are forgotten.
const FAMILIAR_MAX: usize = 1 << 18;
/// Memory of a remembered miss beside its name, in bytes.
const MISS_SIZE: usize = 160;

impl Wanted {
    /// Bytes that remembering it takes.
    fn size(&self) -> usize {
        MISS_SIZE
            + match self {
                Self::App(name) => name.as_str().len(),
                Self::Client(name) => name.as_str().len(),
                Self::ApiKey(id) => id.as_str().len(),
                Self::TokenSecret => 0,
                Self::SymmetricKey(name, id) => name.as_str().len() + id.0.len(),
            }
    }
}

/// Misses in the order in which they were noticed, without those that do not fit.
pub(crate) struct Misses {
    /// Never promoted: the least recent is the oldest.
    entries: LruCache<Wanted, (Absence, Duration)>,
    bytes: usize,
}

impl Misses {
    pub(crate) fn new() -> Self {
        Self { entries: LruCache::unbounded(), bytes: 0 }
    }

    /// Their number, and their memory in bytes.
    pub(crate) fn size(&self) -> (usize, usize) {
        (self.entries.len(), self.bytes)
    }

    pub(crate) fn find(&self, wanted: &Wanted, now: Duration, age_max: Duration) -> Option<Absence> {
        let (absence, since) = self.entries.peek(wanted)?;
        (now.saturating_sub(*since) < age_max).then_some(*absence)
    }

    pub(crate) fn insert(&mut self, wanted: Wanted, absence: Absence, now: Duration, bytes_max: usize) {
        let size = wanted.size();
        if self.entries.push(wanted, (absence, now)).is_none() {
            self.bytes += size;
        }
        while self.bytes > bytes_max && self.pop() {}
    }

    pub(crate) fn expire(&mut self, now: Duration, age_max: Duration) {
        while self.entries.peek_lru().is_some_and(|(_, (_, since))| now.saturating_sub(*since) >= age_max) {
            self.pop();
        }
    }

    fn pop(&mut self) -> bool {
        let Some((wanted, _)) = self.entries.pop_lru() else { return false };
        self.bytes -= wanted.size();
        true
    }

    pub(crate) fn clear(&mut self) {
        self.entries.clear();
        self.bytes = 0;
    }
}

/// The entries from before the last changes of the store: the first to be read again. A hash that two share only changes a lane.
#[derive(Default)]
pub(crate) struct Familiar {
    hashes: HashSet<u64>,
    random: RandomState,
}

impl Familiar {
    pub(crate) fn has(&self, wanted: &Wanted) -> bool {
        self.hashes.contains(&self.random.hash_one(wanted))
    }

    pub(crate) fn add(&mut self, wanted: &Wanted) {
        if self.hashes.len() >= FAMILIAR_MAX {
            self.hashes.clear();
        }
        self.hashes.insert(self.random.hash_one(wanted));
    }

    pub(crate) fn remove(&mut self, wanted: &Wanted) {
        self.hashes.remove(&self.random.hash_one(wanted));
    }
}
