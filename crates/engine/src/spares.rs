//! Spare sealing keys: if a request needs a fresh key, several are generated, because key agreements by tables share an inversion, SIMD
//! lanes and the cached tables; the others wait here for the next requests. Each is used once, for one request, and wiped when it expires.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use leafseal_crypto::PublicKey;
use leafseal_envelope::{Profile, SealingKey};

use crate::counters::{CacheCounters, Lookups};

/// A recipient's key and a profile: a rotation changes the key, so that no spare outlives it.
type SpareId = (PublicKey, Profile);

/// Spares that expire together. Each in an allocation of its own, so that a growing list leaves no copies behind.
struct SpareBatch {
    keys: Vec<Arc<SealingKey>>,
    born: Duration,
}

impl SpareBatch {
    fn is_young(&self, now: Duration, age_max: Duration) -> bool {
        now.saturating_sub(self.born) < age_max
    }
}

/// How soon the next spares are likely to be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Demand {
    /// The last ones, if any, expired.
    Low,
    /// The last ones were used before they expired.
    High,
}

impl Demand {
    /// The number of keys to generate if the lowest cost of each is that of `full`. Half of a large batch costs less at once, and nearly as
    /// little for each if all are used.
    pub(crate) fn batch_size(self, full: usize) -> usize {
        match self {
            Self::Low => full.min(2.max(full / 2)),
            Self::High => full,
        }
    }
}

/// Spares by recipient and profile. Limited: for each, as many batches as threads can generate at once; expired ones are dropped by
/// [`Spares::expire`].
#[derive(Default)]
pub(crate) struct Spares {
    kept: Mutex<KeptSpares>,
}

#[derive(Default)]
struct KeptSpares {
    batches: HashMap<SpareId, SpareBatch>,
    lookups: Lookups,
}

impl Spares {
    /// Takes a spare that has not expired.
    ///
    /// # Errors
    /// There is none: the demand for new ones.
    pub(crate) fn take(
        &self,
        recipient: &PublicKey,
        profile: Profile,
        now: Duration,
        age_max: Duration,
    ) -> Result<Arc<SealingKey>, Demand> {
        let mut kept = self.lock();
        let batch = kept.batches.get_mut(&(*recipient, profile)).filter(|batch| batch.is_young(now, age_max));
        let demand = if batch.is_some() { Demand::High } else { Demand::Low };
        let key = batch.and_then(|batch| batch.keys.pop());
        kept.lookups.note(key).ok_or(demand)
    }

    /// Stores spares for the next requests. Those that another thread has stored meanwhile stay; all expire with the oldest.
    pub(crate) fn put(
        &self,
        recipient: &PublicKey,
        profile: Profile,
        keys: impl Iterator<Item = SealingKey>,
        now: Duration,
        age_max: Duration,
    ) {
        let keys: Vec<Arc<SealingKey>> = keys.map(Arc::new).collect();
        let mut kept = self.lock();
        let mut expired = None;
        match kept.batches.entry((*recipient, profile)) {
            Entry::Occupied(mut batch) if batch.get().is_young(now, age_max) && !batch.get().keys.is_empty() => {
                batch.get_mut().keys.extend(keys);
            }
            Entry::Occupied(mut batch) => expired = Some(batch.insert(SpareBatch { keys, born: now })),
            Entry::Vacant(place) => _ = place.insert(SpareBatch { keys, born: now }),
        }
        drop(kept);
        // Wiped outside the lock.
        drop(expired);
    }

    /// Drops expired spares, so that an idle engine holds none.
    pub(crate) fn expire(&self, now: Duration, age_max: Duration) {
        self.lock().batches.retain(|_, batch| batch.is_young(now, age_max));
    }

    pub(crate) fn clear(&self) {
        self.lock().batches.clear();
    }

    pub(crate) fn counters(&self) -> CacheCounters {
        let kept = self.lock();
        kept.lookups.with_entries(kept.batches.values().map(|batch| batch.keys.len()).sum())
    }

    fn lock(&self) -> MutexGuard<'_, KeptSpares> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_is_full_where_the_last_one_was_used() {
        let sizes = |full| [Demand::Low, Demand::High].map(|demand| demand.batch_size(full));
        assert_eq!(sizes(1), [1, 1]);
        assert_eq!(sizes(2), [2, 2]);
        assert_eq!(sizes(8), [4, 8]);
    }
}
