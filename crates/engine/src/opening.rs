//! Opening keys by ephemeral key. The format does not name the key version of an envelope: the versions are tried newest first, and the
//! successful one is cached, so that an ephemeral key costs one search; each trial is a separate step. Derived keys are cached for the
//! request and, limited in number and age, across requests; they are wiped on drop.

use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use leafseal_crypto::ec::COMPRESSED_SIZE;
use leafseal_crypto::{Curve, EcContext, PublicKey};
use leafseal_envelope::{Envelope, Form, LongOpening, Malformed, OpenError, OpenScratch, Opened, OpeningKey, Sealed};
use lru::LruCache;

use crate::apps::App;
use crate::cost;
use crate::counters::{CacheCounters, Lookups};

/// An ephemeral key as envelopes contain it: compressed, so that a known key need not be decompressed and validated again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct EphemeralId {
    pub(crate) curve: Curve,
    pub(crate) point: [u8; COMPRESSED_SIZE],
}

impl EphemeralId {
    pub(crate) fn of(envelope: &Envelope<'_>) -> Self {
        Self { curve: envelope.version.curve(), point: envelope.ephemeral }
    }

    /// The validated key.
    fn key(&self) -> Result<PublicKey, Malformed> {
        PublicKey::from_sec1(self.curve, &self.point).map_err(|_| Malformed::EphemeralPoint)
    }
}

/// The resources of key agreements, and the number made for decryption.
pub(crate) struct Agreements {
    pub(crate) ec: Arc<EcContext>,
    pub(crate) count: Arc<AtomicU64>,
}

/// The state of one ephemeral key for one app: the opening key of the version that decrypted, once found.
pub(crate) struct Opening {
    app: Arc<App>,
    ephemeral: PublicKey,
    winner: OnceLock<VersionKey>,
    /// The key of the newest version, if it was computed together with others and has not been tried.
    prepared: Mutex<Option<VersionKey>>,
}

/// The opening key of one version.
struct VersionKey {
    version: u32,
    /// 0 for the newest.
    place: usize,
    /// A kilobyte, which would otherwise be moved several times.
    key: Box<OpeningKey>,
}

impl Opening {
    pub(crate) fn new(app: Arc<App>, ephemeral: EphemeralId) -> Result<Self, Malformed> {
        Ok(Self { app, ephemeral: ephemeral.key()?, winner: OnceLock::new(), prepared: Mutex::default() })
    }

    /// The openings of several ephemeral keys of one curve, with their candidates of the newest version: in SIMD lanes, for little more
    /// than the cost of one. None for ephemeral keys that are no points.
    pub(crate) fn prepare_many(
        app: &Arc<App>,
        agreements: &Agreements,
        ephemerals: &[EphemeralId],
    ) -> Vec<Option<Arc<Self>>> {
        let Some((version, pair)) = ephemerals.first().and_then(|first| app.versions(first.curve).next()) else {
            return Vec::new();
        };
        let points: Vec<[u8; COMPRESSED_SIZE]> = ephemerals.iter().map(|ephemeral| ephemeral.point).collect();
        let keys = OpeningKey::agree_many(&agreements.ec, pair.private(), pair.public(), &points);
        agreements.count.fetch_add(keys.iter().flatten().count() as u64, Ordering::Relaxed);
        let opening = |key: OpeningKey| {
            let ephemeral = *key.ephemeral();
            let prepared = Mutex::new(Some(VersionKey { version, place: 0, key: Box::new(key) }));
            Arc::new(Self { app: Arc::clone(app), ephemeral, winner: OnceLock::new(), prepared })
        };
        keys.into_iter().map(|key| key.ok().map(opening)).collect()
    }

    /// Whether the next candidate costs no key agreement.
    pub(crate) fn is_ready(&self) -> bool {
        self.winner.get().is_some() || self.prepared().is_some()
    }

    fn prepared(&self) -> MutexGuard<'_, Option<VersionKey>> {
        self.prepared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The version that decrypted, once one has.
    pub(crate) fn version(&self) -> Option<u32> {
        self.winner.get().map(|winner| winner.version)
    }

    /// Whether the newest version decrypted.
    pub(crate) fn by_newest(&self) -> bool {
        self.winner.get().is_some_and(|winner| winner.place == 0)
    }

    /// The key that decrypts, once one has.
    pub(crate) fn known(&self) -> Option<&OpeningKey> {
        self.winner.get().map(|winner| &*winner.key)
    }

    /// Computes the key of the version at `place`, 0 for the newest, if there is one: one key agreement, unless it was prepared.
    fn candidate(&self, agreements: &Agreements, place: usize) -> Option<VersionKey> {
        if let Some(prepared) = self.prepared().take_if(|prepared| prepared.place == place) {
            return Some(prepared);
        }
        let (version, pair) = self.app.versions(self.ephemeral.curve()).nth(place)?;
        agreements.count.fetch_add(1, Ordering::Relaxed);
        let key = Box::new(OpeningKey::agree(&agreements.ec, pair.private(), pair.public(), &self.ephemeral));
        Some(VersionKey { version, place, key })
    }

    /// Stores a key that has decrypted.
    fn settle(&self, candidate: VersionKey) -> &OpeningKey {
        &self.winner.get_or_init(|| candidate).key
    }
}

/// The search for the key of a long text: the versions are tried one after the other, each in pieces.
pub(crate) struct LongSearch {
    opening: Arc<Opening>,
    /// The offset of the plaintext in its buffer.
    start: usize,
    /// The version being tried, if none is known yet.
    candidate: Option<Box<VersionKey>>,
    place: usize,
    trial: LongOpening,
}

impl LongSearch {
    pub(crate) fn new(opening: Arc<Opening>, start: usize) -> Self {
        Self { opening, start, candidate: None, place: 0, trial: LongOpening::new(start) }
    }

    pub(crate) fn into_opening(self) -> Arc<Opening> {
        self.opening
    }

    /// Continues by one key agreement or by `size` bytes of `sealed`; see [`LongOpening::step`].
    pub(crate) fn step(
        &mut self,
        agreements: &Agreements,
        sealed: &Sealed<'_>,
        size: usize,
        plaintext: &mut Vec<u8>,
    ) -> Result<Option<Form>, OpenError> {
        let key = match &self.candidate {
            Some(candidate) => &candidate.key,
            None => match self.opening.known() {
                Some(key) => key,
                None => {
                    let candidate = self.opening.candidate(agreements, self.place).ok_or(OpenError::DecryptFailed)?;
                    self.candidate = Some(Box::new(candidate));
                    return Ok(None);
                }
            },
        };
        let tried = self.trial.step(key, sealed, size, plaintext);
        if tried == Err(OpenError::DecryptFailed) && self.candidate.is_some() {
            (self.candidate, self.trial) = (None, LongOpening::new(self.start));
            self.place += 1;
            return Ok(None);
        }
        let form = tried?;
        if let Some(candidate) = self.candidate.take_if(|_| form.is_some()) {
            self.opening.settle(*candidate);
        }
        Ok(form)
    }
}

/// The address of the app, which an opening keeps alive and which changes with its versions, and the ephemeral key.
type OpeningId = (usize, EphemeralId);

fn id(app: &Arc<App>, ephemeral: EphemeralId) -> OpeningId {
    (Arc::as_ptr(app).addr(), ephemeral)
}

struct Kept {
    opening: Arc<Opening>,
    born: Duration,
}

/// The cache of opening keys across requests.
pub(crate) struct OpeningCache {
    state: Mutex<CacheState>,
    age_max: Duration,
}

struct CacheState {
    kept: LruCache<OpeningId, Kept>,
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
        let mut state = self.lock();
        let found = state.kept.get(&id(app, ephemeral)).filter(|kept| self.is_current(kept, now));
        let found = found.map(|kept| Arc::clone(&kept.opening));
        if let Some(opening) = state.lookups.note(found) {
            return Ok(opening);
        }
        drop(state);
        // Created outside the lock: validating a point takes microseconds. Two threads may both create one; the later one is kept.
        let opening = fresh()?;
        let _ = self.lock().kept.push(id(app, ephemeral), Kept { opening: Arc::clone(&opening), born: now });
        Ok(opening)
    }

    /// Whether it has an opening; not counted as a look-up.
    pub(crate) fn has(&self, app: &Arc<App>, ephemeral: EphemeralId, now: Duration) -> bool {
        self.lock().kept.peek(&id(app, ephemeral)).is_some_and(|kept| self.is_current(kept, now))
    }

    fn is_current(&self, kept: &Kept, now: Duration) -> bool {
        now.saturating_sub(kept.born) < self.age_max
    }

    /// Stores an opening that was made elsewhere, because a look-up would have missed.
    pub(crate) fn put(&self, app: &Arc<App>, ephemeral: EphemeralId, opening: Arc<Opening>, now: Duration) {
        if !self.age_max.is_zero() {
            let mut state = self.lock();
            let _ = state.lookups.note(None::<()>);
            let _ = state.kept.push(id(app, ephemeral), Kept { opening, born: now });
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

/// A key that opens an envelope.
pub(crate) struct Found<'o, 's> {
    pub(crate) key: &'o OpeningKey,
    /// The opened value, if the search for the key had to open it.
    pub(crate) opened: Option<Opened<'s>>,
}

/// Opening keys of one request: the last one directly accessible, the others by ephemeral key and shared by all workers of the request.
pub(crate) struct RequestOpenings {
    last: Option<(EphemeralId, Arc<Opening>)>,
    /// The number of versions tried without success for the current value, which has this ephemeral key.
    tried: Option<(EphemeralId, usize)>,
    /// Created for the second ephemeral key or the second worker: most requests have one of each.
    others: Option<Arc<Others>>,
    count_max: usize,
    tally: Tally,
}

struct Others {
    openings: Mutex<LruCache<EphemeralId, Arc<Opening>>>,
    tally: Mutex<Tally>,
}

/// The decryptions of a request, and their cost.
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
        Self { last: None, tried: None, others: None, count_max, tally: Tally::default() }
    }

    /// Shares the openings with another worker. Both may compute the agreement for one ephemeral key at the same time; later lookups find
    /// it.
    pub(crate) fn fork(&mut self) -> Self {
        let others = Arc::clone(self.others());
        let (last, count_max) = (self.last.clone(), self.count_max);
        // The first fork continues with the current value.
        Self { last, tried: self.tried.take(), others: Some(others), count_max, tally: Tally::default() }
    }

    /// The key of `opening` for `envelope`, if one is cached, whether or not it decrypts this one. Otherwise one version is tried, which
    /// costs a key agreement: returns `None` if that failed, and the next call tries the next version.
    ///
    /// # Errors
    /// No version decrypts it, or it is malformed for every version.
    pub(crate) fn key<'o, 's>(
        &mut self,
        opening: &'o Opening,
        agreements: &Agreements,
        envelope: &Envelope<'_>,
        scratch: &'s mut OpenScratch,
    ) -> Result<Option<Found<'o, 's>>, OpenError> {
        if let Some(key) = opening.known() {
            return Ok(Some(Found { key, opened: None }));
        }
        let ephemeral = EphemeralId::of(envelope);
        let place = self.tried.take_if(|(tried, _)| *tried == ephemeral).map_or(0, |(_, place)| place);
        let candidate = opening.candidate(agreements, place).ok_or(OpenError::DecryptFailed)?;
        match candidate.key.open(envelope, scratch) {
            Ok(opened) => Ok(Some(Found { key: opening.settle(candidate), opened: Some(opened) })),
            Err(OpenError::DecryptFailed) => {
                self.tried = Some((ephemeral, place + 1));
                Ok(None)
            }
            Err(malformed) => Err(malformed),
        }
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

    /// Ephemeral keys that can be prepared without evicting each other.
    pub(crate) fn count_max(&self) -> usize {
        self.count_max
    }

    /// Whether the request has used this ephemeral key.
    pub(crate) fn has(&self, ephemeral: EphemeralId) -> bool {
        self.last.as_ref().is_some_and(|(id, _)| *id == ephemeral)
            || self.others.as_ref().is_some_and(|others| others.openings().contains(&ephemeral))
    }

    /// Stores an opening that was made elsewhere.
    pub(crate) fn put(&mut self, ephemeral: EphemeralId, opening: Arc<Opening>) {
        self.others().openings().get_or_insert(ephemeral, || opening);
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
        // Created outside the lock, because other workers may wait for it.
        let made = make()?;
        Ok(Arc::clone(others.openings().get_or_insert(ephemeral, || made)))
    }

    fn others(&mut self) -> &Arc<Others> {
        self.others.get_or_insert_with(|| {
            // Created unbounded, then limited, so that the table grows with its content.
            let mut openings = LruCache::unbounded();
            openings.resize(NonZeroUsize::new(self.count_max).unwrap_or(NonZeroUsize::MIN));
            if let Some((id, opening)) = &self.last {
                openings.put(*id, Arc::clone(opening));
            }
            Arc::new(Others { openings: Mutex::new(openings), tally: Mutex::new(self.tally) })
        })
    }

    /// Records that `values` were decrypted with `agreements` key agreements.
    pub(crate) fn note(&mut self, values: usize, agreements: u64) {
        match &self.others {
            None => self.tally.add(values as u64, agreements),
            Some(others) => others.tally().add(values as u64, agreements),
        }
    }

    /// The number of further values that are expected to fit into a step.
    pub(crate) fn values_in_step(&self) -> usize {
        let Tally { values, agreements } = self.others.as_ref().map_or(self.tally, |others| *others.tally());
        cost::values_in_step(values, agreements)
    }
}
