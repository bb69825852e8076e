//! Opening keys by ephemeral key. The format does not say which key version made an envelope: the versions are tried newest first,
//! and the one that opened is remembered, so that an ephemeral key costs one search. What was derived is kept for the request and,
//! bounded in number and age, across requests; it is wiped when it goes.

use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use fieldseal_crypto::ec::COMPRESSED_SIZE;
use fieldseal_crypto::{Curve, EcContext, PublicKey};
use fieldseal_envelope::{Envelope, Malformed, OpenError, OpenScratch, Opened, OpeningKey};
use lru::LruCache;

use crate::apps::App;
use crate::cost;
use crate::counters::{CacheCounters, Lookups};

/// An ephemeral key as envelopes state it: compressed, so that a key that is known need not be taken apart and validated again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct EphemeralId {
    pub(crate) curve: Curve,
    pub(crate) point: [u8; COMPRESSED_SIZE],
}

impl EphemeralId {
    pub(crate) fn of(envelope: &Envelope<'_>) -> Self {
        Self { curve: envelope.version.curve(), point: envelope.ephemeral }
    }

    /// The key, validated.
    fn key(&self) -> Result<PublicKey, Malformed> {
        PublicKey::from_sec1(self.curve, &self.point).map_err(|_| Malformed::EphemeralPoint)
    }
}

/// What key agreements need, and how many were made to open envelopes.
pub(crate) struct Agreements {
    pub(crate) ec: Arc<EcContext>,
    pub(crate) count: Arc<AtomicU64>,
}

/// What is known of one ephemeral key for one app: the opening key of the version that opened, once one has.
pub(crate) struct Opening {
    app: Arc<App>,
    ephemeral: PublicKey,
    winner: OnceLock<Winner>,
}

struct Winner {
    version: u32,
    /// 0 for the newest.
    place: usize,
    key: OpeningKey,
}

impl Opening {
    pub(crate) fn new(app: Arc<App>, ephemeral: EphemeralId) -> Result<Self, Malformed> {
        Ok(Self { app, ephemeral: ephemeral.key()?, winner: OnceLock::new() })
    }

    /// The version that opened, once one has.
    pub(crate) fn version(&self) -> Option<u32> {
        self.winner.get().map(|winner| winner.version)
    }

    /// Whether the newest version opened.
    pub(crate) fn by_newest(&self) -> bool {
        self.winner.get().is_some_and(|winner| winner.place == 0)
    }

    /// Opens envelopes of this ephemeral key one by one in order. `each` gets every result with its index, up to the first that no
    /// version opens while none is known: a request ends there, and each further search would cost an agreement a version.
    pub(crate) fn open_many(
        &self,
        agreements: &Agreements,
        envelopes: &[Envelope<'_>],
        scratch: &mut OpenScratch,
        mut each: impl FnMut(usize, Result<Opened<'_>, OpenError>),
    ) {
        let Some(first) = envelopes.first() else { return };
        match self.search(agreements, first, scratch) {
            Ok(key) => key.open_many(envelopes, scratch, each),
            Err(error) => each(0, Err(error)),
        }
    }

    /// The first version whose key opens `envelope`, which is then remembered. What is known already is not tried again: whether it
    /// opens `envelope` is for the caller to see.
    pub(crate) fn search(
        &self,
        agreements: &Agreements,
        envelope: &Envelope<'_>,
        scratch: &mut OpenScratch,
    ) -> Result<&OpeningKey, OpenError> {
        self.search_by(agreements, |key| key.open(envelope, scratch).map(drop))
    }

    /// The same for anything that a key opens or not. A text that is malformed is so for every key and ends the search.
    pub(crate) fn search_by(
        &self,
        agreements: &Agreements,
        mut opens: impl FnMut(&OpeningKey) -> Result<(), OpenError>,
    ) -> Result<&OpeningKey, OpenError> {
        if let Some(winner) = self.winner.get() {
            return Ok(&winner.key);
        }
        for (place, (version, pair)) in self.app.versions(self.ephemeral.curve()).enumerate() {
            agreements.count.fetch_add(1, Ordering::Relaxed);
            let key = OpeningKey::agree(&agreements.ec, pair.private(), pair.public(), &self.ephemeral);
            match opens(&key) {
                Ok(()) => return Ok(&self.winner.get_or_init(|| Winner { version, place, key }).key),
                Err(OpenError::DecryptFailed) => (),
                Err(malformed) => return Err(malformed),
            }
        }
        Err(OpenError::DecryptFailed)
    }
}

/// Which ephemeral key of which app, by name; whether the app's keys are still the same is looked at besides.
type OpeningId = (String, EphemeralId);

struct Kept {
    opening: Arc<Opening>,
    born: Duration,
}

/// Opening keys across requests.
pub(crate) struct OpeningCache {
    state: Mutex<CacheState>,
    age_max: Duration,
}

struct CacheState {
    kept: LruCache<OpeningId, Kept>,
    lookups: Lookups,
}

impl OpeningCache {
    /// `count_max` 0 keeps nothing.
    pub(crate) fn new(count_max: usize, age_max: Duration) -> Self {
        let age_max = if count_max == 0 { Duration::ZERO } else { age_max };
        let capacity = NonZeroUsize::new(count_max).unwrap_or(NonZeroUsize::MIN);
        let state = CacheState { kept: LruCache::new(capacity), lookups: Lookups::default() };
        Self { state: Mutex::new(state), age_max }
    }

    fn lock(&self) -> MutexGuard<'_, CacheState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn find(
        &self,
        app: &Arc<App>,
        ephemeral: EphemeralId,
        now: Duration,
    ) -> Result<Arc<Opening>, Malformed> {
        let fresh = || Opening::new(Arc::clone(app), ephemeral).map(Arc::new);
        if self.age_max.is_zero() {
            return fresh();
        }
        let id = (app.name.as_str().to_owned(), ephemeral);
        let mut state = self.lock();
        let current =
            |kept: &&Kept| now.saturating_sub(kept.born) < self.age_max && Arc::ptr_eq(&kept.opening.app, app);
        let found = state.kept.get(&id).filter(current).map(|kept| Arc::clone(&kept.opening));
        if let Some(opening) = state.lookups.note(found) {
            return Ok(opening);
        }
        drop(state);
        // Made outside the lock: a point's validation takes microseconds. Two threads may both make one; the later stays.
        let opening = fresh()?;
        let _ = self.lock().kept.push(id, Kept { opening: Arc::clone(&opening), born: now });
        Ok(opening)
    }

    /// Drops what is too old.
    pub(crate) fn expire(&self, now: Duration) {
        let mut state = self.lock();
        let old: Vec<OpeningId> = state
            .kept
            .iter()
            .filter(|(_, kept)| now.saturating_sub(kept.born) >= self.age_max)
            .map(|(id, _)| id.clone())
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

/// Opening keys of one request: the last one at hand, the others by ephemeral key and shared by all workers of the request.
pub(crate) struct RequestOpenings {
    last: Option<(EphemeralId, Arc<Opening>)>,
    /// Made for the second ephemeral key or the second worker: most requests have one of each.
    others: Option<Arc<Others>>,
    count_max: usize,
    tally: Tally,
}

struct Others {
    openings: Mutex<LruCache<EphemeralId, Arc<Opening>>>,
    tally: Mutex<Tally>,
}

/// What a request has opened, and what that cost.
#[derive(Clone, Copy, Default)]
struct Tally {
    values: u64,
    agreements: u64,
}

impl Tally {
    fn add(&mut self, values: u64, agreements: u64) {
        self.values += values;
        self.agreements += agreements;
    }
}

impl Others {
    fn openings(&self) -> MutexGuard<'_, LruCache<EphemeralId, Arc<Opening>>> {
        self.openings.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tally(&self) -> MutexGuard<'_, Tally> {
        self.tally.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl RequestOpenings {
    pub(crate) fn new(count_max: usize) -> Self {
        Self { last: None, others: None, count_max, tally: Tally::default() }
    }

    /// The same openings for another worker. Both may make an agreement for one ephemeral key at the same time; whoever looks
    /// later finds it.
    pub(crate) fn fork(&mut self) -> Self {
        let others = Arc::clone(self.others());
        Self { last: self.last.clone(), others: Some(others), count_max: self.count_max, tally: Tally::default() }
    }

    pub(crate) fn find(
        &mut self,
        ephemeral: EphemeralId,
        make: impl FnOnce() -> Result<Arc<Opening>, Malformed>,
    ) -> Result<Arc<Opening>, Malformed> {
        if let Some((_, opening)) = self.last.as_ref().filter(|(id, _)| *id == ephemeral) {
            return Ok(Arc::clone(opening));
        }
        let is_first = self.last.is_none() && self.others.is_none();
        let opening = if is_first { make()? } else { self.find_other(ephemeral, make)? };
        self.last = Some((ephemeral, Arc::clone(&opening)));
        Ok(opening)
    }

    fn find_other(
        &mut self,
        ephemeral: EphemeralId,
        make: impl FnOnce() -> Result<Arc<Opening>, Malformed>,
    ) -> Result<Arc<Opening>, Malformed> {
        let others = self.others();
        if let Some(found) = others.openings().get(&ephemeral) {
            return Ok(Arc::clone(found));
        }
        // Made outside the lock, for which other workers may wait.
        let made = make()?;
        Ok(Arc::clone(others.openings().get_or_insert(ephemeral, || made)))
    }

    fn others(&mut self) -> &Arc<Others> {
        self.others.get_or_insert_with(|| {
            // Made unbounded, then bounded: so the table grows with what is in it.
            let mut openings = LruCache::unbounded();
            openings.resize(NonZeroUsize::new(self.count_max).unwrap_or(NonZeroUsize::MIN));
            if let Some((id, opening)) = &self.last {
                openings.put(*id, Arc::clone(opening));
            }
            Arc::new(Others { openings: Mutex::new(openings), tally: Mutex::new(self.tally) })
        })
    }

    /// Notes that `values` were opened for `agreements` key agreements.
    pub(crate) fn note(&mut self, values: usize, agreements: u64) {
        match &self.others {
            None => self.tally.add(values as u64, agreements),
            Some(others) => others.tally().add(values as u64, agreements),
        }
    }

    /// How many more values may be expected to fit a step.
    pub(crate) fn values_in_step(&self) -> usize {
        let Tally { values, agreements } = self.others.as_ref().map_or(self.tally, |others| *others.tally());
        cost::values_in_step(values, agreements)
    }
}
