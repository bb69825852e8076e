//! The cache of opening keys across requests, limited in number and age. It has those that decrypted a value, so that foreign values evict
//! nothing; what it drops is wiped.

use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use lru::LruCache;

use crate::app::App;
use crate::counters::{CacheCounters, Lookups};
use crate::opening::{EphemeralId, Opening};

/// The address of the app, which an opening keeps alive and which changes with its versions, and the ephemeral key.
type OpeningId = (usize, EphemeralId);

fn id(app: &Arc<App>, ephemeral: EphemeralId) -> OpeningId {
    (Arc::as_ptr(app).addr(), ephemeral)
}

struct KeptOpening {
    opening: Arc<Opening>,
    born: Duration,
}

/// The cache of opening keys across requests.
pub(crate) struct OpeningCache {
    state: Mutex<CacheState>,
    age_max: Duration,
}

struct CacheState {
    kept: LruCache<OpeningId, KeptOpening>,
    lookups: Lookups,
}

impl OpeningCache {
    /// A `count_max` of 0 disables the cache.
    pub(crate) fn new(count_max: usize, age_max: Duration) -> Self {
        let age_max = if count_max == 0 { Duration::ZERO } else { age_max };
        let capacity = NonZeroUsize::new(count_max).unwrap_or(NonZeroUsize::MIN);
        let state = CacheState { kept: LruCache::new(capacity), lookups: Lookups::default() };
        Self { state: Mutex::new(state), age_max }
    }

    fn lock(&self) -> MutexGuard<'_, CacheState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn find(&self, app: &Arc<App>, ephemeral: EphemeralId, now: Duration) -> Option<Arc<Opening>> {
        if self.age_max.is_zero() {
            return None;
        }
        let mut state = self.lock();
        let found = state.kept.get(&id(app, ephemeral)).filter(|kept| self.is_current(kept, now));
        let found = found.map(|kept| Arc::clone(&kept.opening));
        state.lookups.note(found)
    }

    /// Whether it has an opening; not counted as a look-up.
    pub(crate) fn has(&self, app: &Arc<App>, ephemeral: EphemeralId, now: Duration) -> bool {
        self.lock().kept.peek(&id(app, ephemeral)).is_some_and(|kept| self.is_current(kept, now))
    }

    fn is_current(&self, kept: &KeptOpening, now: Duration) -> bool {
        now.saturating_sub(kept.born) < self.age_max
    }

    /// Counts a look-up that was left out because it would have found nothing.
    pub(crate) fn note_miss(&self) {
        if !self.age_max.is_zero() {
            let _ = self.lock().lookups.note(None::<()>);
        }
    }

    /// Stores an opening that has decrypted a value.
    pub(crate) fn put(&self, opening: Arc<Opening>, now: Duration) {
        if !self.age_max.is_zero() {
            let _ = self.lock().kept.push(id(opening.app(), opening.id()), KeptOpening { opening, born: now });
        }
    }

    /// Drops expired entries.
    pub(crate) fn expire(&self, now: Duration) {
        let mut state = self.lock();
        let old: Vec<OpeningId> = state
            .kept
            .iter()
            .filter(|(_, kept)| now.saturating_sub(kept.born) >= self.age_max)
            .map(|(id, _)| *id)
            .collect();
        for id in old {
            let _ = state.kept.pop(&id);
        }
    }

    pub(crate) fn clear(&self) {
        self.lock().kept.clear();
    }

    pub(crate) fn counters(&self) -> CacheCounters {
        let state = self.lock();
        state.lookups.with_entries(state.kept.len())
    }
}
