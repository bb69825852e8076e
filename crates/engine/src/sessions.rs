//! Sealing keys of sessions: one for each app, curve and profile, used until its time or count is exhausted, and wiped when the last
//! request that uses it ends.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use leafseal_crypto::PublicKey;
use leafseal_envelope::{Profile, SealingKey};

use crate::counters::{CacheCounters, Lookups};

/// A recipient's key and a profile: a rotation changes the key, so that a session never outlives it.
type SessionId = (PublicKey, Profile);

struct Session {
    key: Arc<SealingKey>,
    born: Duration,
}

impl Session {
    fn is_usable(&self, now: Duration, age_max: Duration) -> bool {
        now.saturating_sub(self.born) < age_max && self.key.values_left() > 0
    }
}

/// Sessions by recipient and profile. Limited: at most four per app, and expired ones are dropped by [`Sessions::expire`].
#[derive(Default)]
pub(crate) struct Sessions {
    kept: Mutex<KeptSession>,
}

#[derive(Default)]
struct KeptSession {
    sessions: HashMap<SessionId, Session>,
    lookups: Lookups,
}

impl Sessions {
    /// The session's key if it is neither expired nor used up, or else one from `make`.
    pub(crate) fn key(
        &self,
        recipient: &PublicKey,
        profile: Profile,
        now: Duration,
        age_max: Duration,
        make: impl FnOnce() -> SealingKey,
    ) -> Arc<SealingKey> {
        let id = (*recipient, profile);
        let usable = |session: &&Session| session.is_usable(now, age_max);
        let mut kept = self.lock();
        let found = kept.sessions.get(&id).filter(usable).map(|session| Arc::clone(&session.key));
        if let Some(key) = kept.lookups.note(found) {
            return key;
        }
        drop(kept);
        // Created outside the lock: a key agreement takes tens of microseconds. If two threads create one, the first is used.
        let key = Arc::new(make());
        let mut kept = self.lock();
        if let Some(session) = kept.sessions.get(&id).filter(usable) {
            return Arc::clone(&session.key);
        }
        kept.sessions.insert(id, Session { key: Arc::clone(&key), born: now });
        key
    }

    /// The session's key if it is neither expired nor used up; its absence is not counted.
    pub(crate) fn ready(
        &self,
        recipient: &PublicKey,
        profile: Profile,
        now: Duration,
        age_max: Duration,
    ) -> Option<Arc<SealingKey>> {
        let mut kept = self.lock();
        let session = kept.sessions.get(&(*recipient, profile)).filter(|session| session.is_usable(now, age_max))?;
        let key = Arc::clone(&session.key);
        kept.lookups.note(Some(key))
    }

    /// Drops expired sessions, so that an idle engine holds no session's key.
    pub(crate) fn expire(&self, now: Duration, age_max: Duration) {
        self.lock().sessions.retain(|_, session| now.saturating_sub(session.born) < age_max);
    }

    pub(crate) fn clear(&self) {
        self.lock().sessions.clear();
    }

    pub(crate) fn counters(&self) -> CacheCounters {
        let kept = self.lock();
        kept.lookups.with_entries(kept.sessions.len())
    }

    fn lock(&self) -> MutexGuard<'_, KeptSession> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
