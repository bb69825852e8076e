//! The opening keys of one request: the last one directly accessible, the others by ephemeral key and shared by all workers of the request.
//!
//! Envelopes that no version opened are remembered, too: a copy costs no second search, and no more than a copy of one that opens.

use std::hash::Hash;
use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use leafseal_crypto::Curve;
use leafseal_crypto::hash::SHA256_SIZE;
use leafseal_envelope::{Malformed, OpenError, OpenScratch, OpenedValue, OpeningKey, PublicKeyEnvelope};
use lru::LruCache;

use crate::app::App;
use crate::cost::{self, SearchBudget};
use crate::engine::Engine;
use crate::error::{Error, ErrorCode};
use crate::opening::{Agreements, EphemeralId, Opening, OpeningAttempt};

/// Versions that decrypted last among which one is searched that the app still has.
const LIKELY_COUNT_MAX: usize = 8;

/// A key that opens an envelope.
pub(crate) struct FoundOpening<'o, 's> {
    pub(crate) key: &'o OpeningKey,
    /// The opened value, if the search for the key had to open it.
    pub(crate) opened: Option<OpenedValue<'s>>,
}

/// Why a value has no key.
pub(crate) enum OpeningFault {
    /// The fault of the value.
    Value(OpenError),
    /// The request has tried too many key versions without success.
    TooManyTrials,
    /// The fault of the request, or of the store.
    Request(Error),
}

impl From<OpenError> for OpeningFault {
    fn from(error: OpenError) -> Self {
        Self::Value(error)
    }
}

/// Digests of envelopes that no version opened, as many as there may be opening keys.
type Failed = LruCache<[u8; SHA256_SIZE], ()>;

/// Opening keys of one request: the last one directly accessible, the others by ephemeral key and shared by all workers of the request.
pub(crate) struct RequestOpenings {
    last: Option<(EphemeralId, Arc<Opening>)>,
    /// The number of versions tried without success for the current value, which has this ephemeral key.
    tried: Option<(EphemeralId, usize)>,
    /// The version of the value before.
    version: Option<u32>,
    /// As long as there are no `others`, which have it then.
    failed: Option<Failed>,
    /// Created for the second ephemeral key or the second worker: most requests have one of each.
    others: Option<Arc<OtherOpenings>>,
    /// The tally of all workers, kept when the keys change: its bound is one of the request.
    shared_tally: Option<Arc<Mutex<Tally>>>,
    count_max: usize,
    trials_max: u64,
    tally: Tally,
}

struct OtherOpenings {
    openings: Mutex<LruCache<EphemeralId, Arc<Opening>>>,
    failed: Mutex<Option<Failed>>,
}

/// The decryptions of a request, and their cost.
#[derive(Clone, Copy, Default)]
struct Tally {
    values: u64,
    agreements: u64,
    /// Versions tried without success.
    trials: u64,
}

impl Tally {
    fn add(&mut self, other: &Self) {
        self.values += other.values;
        self.agreements += other.agreements;
        self.trials += other.trials;
    }
}

impl OtherOpenings {
    fn openings(&self) -> MutexGuard<'_, LruCache<EphemeralId, Arc<Opening>>> {
        self.openings.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn failed(&self) -> MutexGuard<'_, Option<Failed>> {
        self.failed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Engine {
    /// The resources of key agreements.
    pub(crate) fn agreements(&self) -> Agreements {
        Agreements { ec: self.ec(), work: Arc::clone(self.opening_work()) }
    }

    /// Counts versions that were tried without success.
    pub(crate) fn note_trials(&self, count: u64) {
        self.opening_work().note_trials(count);
    }

    /// The opening of an ephemeral key that a request before has found, or a new one.
    pub(crate) fn opening(&self, app: &Arc<App>, ephemeral: EphemeralId) -> Result<Arc<Opening>, Malformed> {
        match self.opening_cache().find(app, ephemeral, self.now()) {
            Some(opening) => Ok(opening),
            None => Opening::new(Arc::clone(app), ephemeral).map(Arc::new),
        }
    }

    /// Whether a request before has found the opening.
    pub(crate) fn has_opening(&self, app: &Arc<App>, ephemeral: EphemeralId) -> bool {
        self.opening_cache().has(app, ephemeral, self.now())
    }

    /// Counts a look-up that was left out because it would have found nothing.
    pub(crate) fn note_opening_miss(&self) {
        self.opening_cache().note_miss();
    }

    /// Keeps an opening that has decrypted a value for further requests.
    pub(crate) fn put_opening(&self, opening: Arc<Opening>) {
        self.opening_cache().put(opening, self.now());
    }
}

impl RequestOpenings {
    pub(crate) fn new(engine: &Engine) -> Self {
        let settings = engine.settings();
        Self {
            last: None,
            tried: None,
            version: None,
            failed: None,
            others: None,
            shared_tally: None,
            count_max: settings.request_opening_keys_max,
            trials_max: settings.request_key_trials_max,
            tally: Tally::default(),
        }
    }

    /// Forgets all keys and failures, because the app's keys have changed, but not their cost.
    pub(crate) fn clear(&mut self) {
        (self.last, self.tried, self.version, self.failed, self.others) = (None, None, None, None, None);
    }

    /// Shares the openings with another worker. Both may compute the agreement for one ephemeral key at the same time; later lookups find
    /// it.
    pub(crate) fn fork(&mut self) -> Self {
        let others = Arc::clone(self.others());
        Self {
            last: self.last.clone(),
            // The first fork continues with the current value.
            tried: self.tried.take(),
            version: self.version,
            failed: None,
            others: Some(others),
            shared_tally: self.shared_tally.clone(),
            count_max: self.count_max,
            trials_max: self.trials_max,
            tally: Tally::default(),
        }
    }

    /// The key of `opening` for `envelope`, if one is cached, whether or not it decrypts this one. Otherwise versions are tried, as far as
    /// the budget goes: returns `None` at its end, and the next call continues.
    ///
    /// # Errors
    /// No version decrypts it, or it is malformed for every version; the request has tried too many.
    pub(crate) fn key<'o, 's>(
        &mut self,
        engine: &Engine,
        opening: &'o Arc<Opening>,
        envelope: &PublicKeyEnvelope<'_>,
        scratch: &'s mut OpenScratch,
        budget: &mut SearchBudget,
    ) -> Result<Option<FoundOpening<'o, 's>>, OpeningFault> {
        if let Some(key) = self.known(opening) {
            return Ok(Some(FoundOpening { key, opened: None }));
        }
        let ephemeral = EphemeralId::of(envelope);
        let mut place = self.tried.take_if(|(tried, _)| *tried == ephemeral).map_or(0, |(_, place)| place);
        if place == 0 && self.has_failures() {
            budget.take_digest(envelope.sealed_size());
            if self.has_failed(&envelope.digest()) {
                return Err(OpenError::DecryptFailed.into());
            }
        }
        let agreements = engine.agreements();
        while budget.allows_trial() {
            let candidate = match opening.next(place, self.version, &agreements, budget) {
                OpeningAttempt::Known(key) => return Ok(Some(FoundOpening { key, opened: None })),
                OpeningAttempt::Candidate(candidate) => candidate,
                OpeningAttempt::Later => break,
                OpeningAttempt::Nothing => {
                    self.note_failed(envelope.digest());
                    return Err(OpenError::DecryptFailed.into());
                }
            };
            budget.take_trial(envelope.sealed_size());
            match candidate.key.verify(envelope, scratch) {
                Ok(form) => {
                    let key = opening.settle(candidate);
                    self.version = opening.version();
                    engine.put_opening(Arc::clone(opening));
                    return Ok(Some(FoundOpening { key, opened: Some(scratch.opened(envelope, form)?) }));
                }
                Err(OpenError::DecryptFailed) => {
                    place = candidate.place + 1;
                    self.note_trials(engine, 1)?;
                }
                Err(malformed) => return Err(malformed.into()),
            }
        }
        self.tried = Some((ephemeral, place));
        Ok(None)
    }

    /// The key of an opening, if the version is known.
    fn known<'o>(&mut self, opening: &'o Opening) -> Option<&'o OpeningKey> {
        let known = opening.known()?;
        self.version = opening.version();
        Some(known)
    }

    /// The version that most likely opens the next value.
    pub(crate) fn likely_version(&self, app: &App, curve: Curve) -> Option<u32> {
        let known = self.version.into_iter().chain(app.recent().versions(LIKELY_COUNT_MAX));
        known.into_iter().find(|version| app.pair(curve, *version).is_some()).or_else(|| app.newest_version(curve))
    }

    /// The version of the value before, if there is one.
    pub(crate) fn version(&self) -> Option<u32> {
        self.version
    }

    /// Records the version of a value that was opened elsewhere.
    pub(crate) fn note_version(&mut self, opening: &Opening) {
        self.version = opening.version();
    }

    /// Whether a value of the request had no version that opens it.
    pub(crate) fn has_failures(&mut self) -> bool {
        self.with_failed(|failed| failed.is_some())
    }

    /// Whether no version opened a copy of the envelope with this digest.
    pub(crate) fn has_failed(&mut self, digest: &[u8; SHA256_SIZE]) -> bool {
        self.with_failed(|failed| failed.as_mut().is_some_and(|failed| failed.get(digest).is_some()))
    }

    /// Records that no version opens the envelope with this digest.
    pub(crate) fn note_failed(&mut self, digest: [u8; SHA256_SIZE]) {
        let count_max = self.count_max;
        self.with_failed(|failed| failed.get_or_insert_with(|| growing(count_max)).put(digest, ()));
    }

    fn with_failed<T>(&mut self, run: impl FnOnce(&mut Option<Failed>) -> T) -> T {
        match &self.others {
            None => run(&mut self.failed),
            Some(others) => run(&mut others.failed()),
        }
    }

    /// Records versions that were tried without success.
    ///
    /// # Errors
    /// These were too many.
    pub(crate) fn note_trials(&mut self, engine: &Engine, count: u64) -> Result<(), OpeningFault> {
        engine.note_trials(count);
        let trials = self.add(&Tally { trials: count, ..Tally::default() }).trials;
        if trials > self.trials_max { Err(OpeningFault::TooManyTrials) } else { Ok(()) }
    }

    /// The error of a value without a key, with its place, or of the request if it has tried too many versions.
    pub(crate) fn error(&self, unopened: OpeningFault, placed: impl FnOnce(Error) -> Error) -> Error {
        match unopened {
            OpeningFault::Value(error) => placed(error.into()),
            OpeningFault::TooManyTrials => self.too_many_trials(),
            OpeningFault::Request(error) => error,
        }
    }

    /// The error of a request that has tried too many versions.
    pub(crate) fn too_many_trials(&self) -> Error {
        let message = format!(
            "the request has tried more than {} key versions on values that they do not open: \
             split the request, or raise engine.request_key_trials_max",
            self.trials_max
        );
        Error::new(ErrorCode::TooLarge, message)
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
    pub(crate) fn put(&mut self, opening: Arc<Opening>) {
        self.others().openings().get_or_insert(opening.id(), || opening);
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

    fn others(&mut self) -> &Arc<OtherOpenings> {
        self.others.get_or_insert_with(|| {
            let mut openings = growing(self.count_max);
            if let Some((id, opening)) = &self.last {
                openings.put(*id, Arc::clone(opening));
            }
            let failed = Mutex::new(self.failed.take());
            self.shared_tally.get_or_insert_with(|| Arc::new(Mutex::new(self.tally)));
            Arc::new(OtherOpenings { openings: Mutex::new(openings), failed })
        })
    }

    /// Records that `values` were decrypted with `agreements` key agreements.
    pub(crate) fn note(&mut self, values: usize, agreements: u64) {
        self.add(&Tally { values: values as u64, agreements, trials: 0 });
    }

    /// Adds to the tally of all workers, and returns it.
    fn add(&mut self, part: &Tally) -> Tally {
        match &self.shared_tally {
            None => {
                self.tally.add(part);
                self.tally
            }
            Some(shared) => {
                let mut tally = shared.lock().unwrap_or_else(PoisonError::into_inner);
                tally.add(part);
                *tally
            }
        }
    }

    fn tally(&self) -> Tally {
        self.shared_tally.as_ref().map_or(self.tally, |shared| *shared.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The number of further values that are expected to fit into a step.
    pub(crate) fn values_in_step(&self) -> usize {
        let Tally { values, agreements, .. } = self.tally();
        cost::values_in_step(values, agreements)
    }
}

/// A cache of up to `count_max` entries, created unbounded and then limited, so that the table grows with its content.
fn growing<K: Hash + Eq, V>(count_max: usize) -> LruCache<K, V> {
    let mut cache = LruCache::unbounded();
    cache.resize(NonZeroUsize::new(count_max).unwrap_or(NonZeroUsize::MIN));
    cache
}
