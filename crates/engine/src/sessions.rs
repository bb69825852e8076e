//! Sealing keys of sessions: one for each app, curve and profile, used until its time or its count is over, wiped when the last
//! request that uses it is done.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use fieldseal_crypto::PublicKey;
use fieldseal_envelope::{Profile, SealingKey};

/// A recipient's key and a profile: a rotation changes the key, so that a session never outlives it.
type SessionId = (PublicKey, Profile);

struct Session {
    key: Arc<SealingKey>,
    born: Duration,
}

/// Sessions by recipient and profile. Bounded: four an app at most, and old ones go with [`Sessions::expire`].
#[derive(Default)]
pub(crate) struct Sessions {
    sessions: Mutex<HashMap<SessionId, Session>>,
}

impl Sessions {
    /// The session's key if it is young enough and not spent, else what `make` makes.
    pub(crate) fn key(
        &self,
        recipient: &PublicKey,
        profile: Profile,
        now: Duration,
        age_max: Duration,
        make: impl FnOnce() -> SealingKey,
    ) -> Arc<SealingKey> {
        let id = (*recipient, profile);
        let usable = |session: &Session| now.saturating_sub(session.born) < age_max && session.key.values_left() > 0;
        if let Some(session) = self.lock().get(&id).filter(|session| usable(session)) {
            return Arc::clone(&session.key);
        }
        // Made outside the lock: a key agreement takes tens of microseconds. Two threads may both make one; the later stays.
        let key = Arc::new(make());
        self.lock().insert(id, Session { key: Arc::clone(&key), born: now });
        key
    }

    /// Drops what is too old, so that an idle engine holds no session's key.
    pub(crate) fn expire(&self, now: Duration, age_max: Duration) {
        self.lock().retain(|_, session| now.saturating_sub(session.born) < age_max);
    }

    pub(crate) fn clear(&self) {
        self.lock().clear();
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<SessionId, Session>> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
