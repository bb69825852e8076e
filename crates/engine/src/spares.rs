//! Spare sealing keys: if a request needs a fresh key, two are generated, because two key agreements by tables share an inversion and the
//! cached tables; the second waits here for the next request. Each is used once, for one request, and wiped when it expires.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use fieldseal_crypto::PublicKey;
use fieldseal_envelope::{Profile, SealingKey};

use crate::counters::{CacheCounters, Lookups};

/// A recipient's key and a profile: a rotation changes the key, so that no spare outlives it.
type SpareId = (PublicKey, Profile);

struct Spare {
    key: SealingKey,
    born: Duration,
}

/// Spares by recipient and profile. Limited: one for each, and expired ones are dropped by [`Spares::expire`].
#[derive(Default)]
pub(crate) struct Spares {
    kept: Mutex<Kept>,
}

#[derive(Default)]
struct Kept {
    spares: HashMap<SpareId, Spare>,
    lookups: Lookups,
}

impl Spares {
    /// Takes the spare, if it has not expired.
    pub(crate) fn take(
        &self,
        recipient: &PublicKey,
        profile: Profile,
        now: Duration,
        age_max: Duration,
    ) -> Option<SealingKey> {
        let mut kept = self.lock();
        let found = kept.spares.remove(&(*recipient, profile));
        let young = found.filter(|spare| now.saturating_sub(spare.born) < age_max);
        kept.lookups.note(young).map(|spare| spare.key)
    }

    /// Stores a spare for the next request, replacing one that another thread may have stored.
    pub(crate) fn put(&self, recipient: &PublicKey, key: SealingKey, now: Duration) {
        let id = (*recipient, key.profile());
        let replaced = self.lock().spares.insert(id, Spare { key, born: now });
        // Wiped outside the lock.
        drop(replaced);
    }

    /// Drops expired spares, so that an idle engine holds none.
    pub(crate) fn expire(&self, now: Duration, age_max: Duration) {
        self.lock().spares.retain(|_, spare| now.saturating_sub(spare.born) < age_max);
    }

    pub(crate) fn clear(&self) {
        self.lock().spares.clear();
    }

    pub(crate) fn counters(&self) -> CacheCounters {
        let kept = self.lock();
        kept.lookups.with_entries(kept.spares.len())
    }

    fn lock(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
