//! `unseal`: a passphrase or shares from a client that the settings name, while no grant can be verified.
//!
//! An attempt runs on a thread of its own, one at a time: a passphrase costs much memory and time, and the store may be a database. The
//! request is parked meanwhile.

use std::collections::HashMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::Waker;
use std::time::{Duration, Instant};

use leafseal_engine::admin::{
    CandidateKeys, ClientName, CollectedShares, KeyShare, ShareCollection, ShareLimits, SlotSummary, StoreError,
    UnsealError, UnsealKey, UnsealText,
};
use leafseal_engine::pool::{job_waker, park_job};
use leafseal_engine::{Caller, Engine, Error, system_random};
use leafseal_protocol::{ErrorCode, ErrorObject, UnsealKeyResult, UnsealResult};

use super::convert;
use crate::sealed_record::{RecordRules, SealedRecord, SignedLine};

/// How long a request waits for its attempt: Argon2id with the highest costs takes some seconds.
const ATTEMPT_TIME_MAX: Duration = Duration::from_secs(60);
/// Advice to a client that comes while another's attempt runs.
const BUSY_PAUSE: Duration = Duration::from_secs(2);
/// In which attempts are counted.
const ATTEMPT_PERIOD: Duration = Duration::from_secs(60);

/// Who may open a sealed store, and how often.
#[derive(Clone, Debug, Default)]
pub struct UnsealRules {
    /// SHA-256 of the certificates of the clients that may; none: nobody may.
    pub unsealers: Vec<[u8; 32]>,
    /// Attempts of a client in a minute.
    pub attempts_max: usize,
    /// How long shares are kept after they were brought.
    pub shares_age_max: Duration,
    /// What shares may take.
    pub shares: ShareLimits,
    /// What is recorded while the store is sealed.
    pub record: RecordRules,
}

/// Opens the store with what clients bring.
#[derive(Debug, Default)]
pub(super) struct Unsealer {
    rules: UnsealRules,
    record: Arc<SealedRecord>,
    state: Mutex<UnsealState>,
}

#[derive(Debug, Default)]
struct UnsealState {
    shares: ShareCollection<Bringer>,
    /// The keys of clients that the settings name, each for the next attempt.
    keys: HashMap<[u8; 32], UnsealKey>,
    /// When such clients made their attempts.
    attempts: HashMap<[u8; 32], Vec<Instant>>,
    is_busy: bool,
}

/// Who brought shares: the certificate decides, the name is for the log.
#[derive(Debug, Clone, PartialEq)]
struct Bringer {
    certificate_sha256: [u8; 32],
    name: ClientName,
}

impl Unsealer {
    /// Records from now on what happens while the store of `engine` is sealed.
    pub(super) fn new(engine: &Engine, rules: UnsealRules) -> Self {
        let record = Arc::new(SealedRecord::new(rules.record.clone(), rules.unsealers.clone()));
        engine.observe_decisions(Arc::<SealedRecord>::clone(&record));
        if engine.is_sealed() {
            record.begin();
        }
        let state = UnsealState { shares: ShareCollection::new(rules.shares), ..UnsealState::default() };
        Self { rules, record, state: Mutex::new(state) }
    }

    /// Writes to the log what was recorded of a store that is open now, or begins to record.
    pub(super) fn record(&self, engine: &Engine) -> Result<(), StoreError> {
        if engine.is_sealed() {
            self.record.begin();
        } else if !self.lock().is_busy {
            // Otherwise the attempt that has opened the store is not in the record yet.
            for SignedLine { record, public_key, signature } in self.record.end(|signer| engine.record_key(signer))? {
                tracing::warn!(record, public_key, signature, "what happened while the keystore was sealed");
            }
        }
        Ok(())
    }

    /// Whether the client with this certificate may unseal.
    pub(super) fn permits(&self, certificate_sha256: &[u8; 32]) -> bool {
        self.rules.unsealers.contains(certificate_sha256)
    }

    /// Forgets shares that are too old.
    pub(super) fn expire(&self, now: Instant) {
        if self.lock().shares.expire(now, self.rules.shares_age_max) {
            tracing::info!("forgot the shares for the keystore: the others were not brought in time");
        }
    }

    /// A new key for the next attempt of `caller`, in the place of the one before.
    pub(super) fn next_key(&self, engine: &Engine, caller: &Caller) -> Result<UnsealKeyResult, ErrorObject> {
        let Bringer { certificate_sha256, .. } = self.permitted(engine, caller)?;
        let key = UnsealKey::generate(&mut system_random());
        let public_key = key.public_key();
        self.lock().keys.insert(certificate_sha256, key);
        Ok(UnsealKeyResult { public_key })
    }

    /// Starts an attempt of `caller` on a thread of its own, with what it has sealed to its key.
    pub(super) fn begin(
        self: &Arc<Self>,
        engine: &Engine,
        caller: &Caller,
        sealed: &[u8],
        now: Instant,
    ) -> Result<Arc<UnsealAttempt>, ErrorObject> {
        let (bringer, key) = self.admit(engine, caller, now)?;
        let attempt = Arc::new(UnsealAttempt::default());
        let turn = UnsealTurn { unsealer: Arc::clone(self), attempt: Arc::clone(&attempt) };
        let (engine, caller, sealed) = (engine.clone(), caller.clone(), sealed.to_vec());
        let thread = std::thread::Builder::new().name("leafseal-unseal".to_owned());
        let started = thread.spawn(move || {
            let outcome = turn.unsealer.open(&engine, bringer, key, &sealed);
            turn.end(outcome.map_err(|error| refused(&engine, &caller, error)), &caller);
        });
        match started {
            Ok(_) => Ok(attempt),
            Err(_) => Err(ErrorObject::new(ErrorCode::Unavailable, "the engine cannot start a thread: try again")),
        }
    }

    /// The certificate of a client that the settings name.
    fn permitted(&self, engine: &Engine, caller: &Caller) -> Result<Bringer, ErrorObject> {
        match caller {
            Caller::Client { certificate_sha256, name } if self.permits(certificate_sha256) => {
                Ok(Bringer { certificate_sha256: *certificate_sha256, name: name.clone() })
            }
            _ => Err(forbidden(engine, caller, "server.unsealers does not name this client's certificate")),
        }
    }

    /// Refuses whoever may not make an attempt now; the key for the attempt.
    fn admit(&self, engine: &Engine, caller: &Caller, now: Instant) -> Result<(Bringer, UnsealKey), ErrorObject> {
        let bringer = self.permitted(engine, caller)?;
        let mut state = self.lock();
        if state.is_busy {
            let message = "somebody else is unsealing the keystore at this moment: try again";
            return Err(ErrorObject::new(ErrorCode::Overloaded, message).retry_after(BUSY_PAUSE));
        }
        let attempts = state.attempts.entry(bringer.certificate_sha256).or_default();
        attempts.retain(|made| now.saturating_duration_since(*made) < ATTEMPT_PERIOD);
        if attempts.len() >= self.rules.attempts_max {
            drop(state);
            return Err(forbidden(engine, caller, "too many attempts to unseal the keystore: wait a minute"));
        }
        attempts.push(now);
        let unknown = || ErrorObject::new(ErrorCode::InvalidParams, UnsealError::Sealed.to_string());
        let key = state.keys.remove(&bringer.certificate_sha256).ok_or_else(unknown)?;
        state.is_busy = true;
        Ok((bringer, key))
    }

    /// Opens the store, or keeps the shares.
    fn open(
        &self,
        engine: &Engine,
        bringer: Bringer,
        key: UnsealKey,
        sealed: &[u8],
    ) -> Result<UnsealResult, UnsealFailure> {
        let text = UnsealText::read(&key.open(sealed)?)?;
        drop(key);
        let Some(slots) = engine.sealed_slots()? else {
            return Ok(UnsealResult { status: UnsealResult::OPEN.to_owned(), missing: 0 });
        };
        match text {
            UnsealText::Passphrase(passphrase) => engine.unseal(Box::new(passphrase))?,
            UnsealText::Shares(shares) => match self.collect(&slots, &bringer, &shares)? {
                CollectedShares::Enough(keys) => open_by_shares(engine, &keys)?,
                CollectedShares::Missing(missing) => {
                    return Ok(UnsealResult { status: UnsealResult::SEALED.to_owned(), missing: missing.into() });
                }
            },
        }
        // Only now: whatever fails, what people have brought stays until it is too old.
        self.lock().shares.clear();
        Ok(UnsealResult { status: UnsealResult::UNSEALED.to_owned(), missing: 0 })
    }

    fn collect(
        &self,
        slots: &[SlotSummary],
        bringer: &Bringer,
        shares: &[KeyShare],
    ) -> Result<CollectedShares<Bringer>, UnsealFailure> {
        let is_missing = |share: &&KeyShare| slots.iter().all(|slot| slot.id != *share.slot());
        if let Some(other) = shares.iter().find(is_missing) {
            return Err(UnsealFailure::OtherSlot(other.slot().to_string()));
        }
        let of_first = |slot: &&SlotSummary| shares.first().is_some_and(|share| slot.id == *share.slot());
        let slot = slots.iter().find(of_first).ok_or(UnsealError::Empty)?;
        let collected = self.lock().shares.add(bringer, slot, shares, Instant::now());
        Ok(collected.map_err(UnsealError::from)?)
    }

    /// A panic in an attempt leaves a state as good as any.
    fn lock(&self) -> MutexGuard<'_, UnsealState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn open_by_shares(engine: &Engine, keys: &CandidateKeys<Bringer>) -> Result<(), StoreError> {
    engine.unseal(keys.provider())?;
    for Bringer { name, .. } in keys.misfits() {
        tracing::warn!(
            client = name.as_str(),
            "the shares that this client brought do not fit those that opened the keystore"
        );
    }
    Ok(())
}

/// Why an attempt opens nothing.
enum UnsealFailure {
    /// What was brought is neither a passphrase nor shares of one slot.
    Text(UnsealError),
    /// A share of a slot that this store does not have.
    OtherSlot(String),
    Store(StoreError),
}

impl From<UnsealError> for UnsealFailure {
    fn from(error: UnsealError) -> Self {
        Self::Text(error)
    }
}

impl From<StoreError> for UnsealFailure {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

/// A refusal that clients do not retry by themselves: a person decides.
fn forbidden(engine: &Engine, caller: &Caller, reason: impl Into<String>) -> ErrorObject {
    convert::error(engine.refuse(caller.principal(), Error::new(ErrorCode::Forbidden, reason.into())))
}

/// The answer to a failed attempt, which is reported.
fn refused(engine: &Engine, caller: &Caller, failure: UnsealFailure) -> ErrorObject {
    match failure {
        UnsealFailure::Text(error) => ErrorObject::new(ErrorCode::InvalidParams, error.to_string()),
        UnsealFailure::OtherSlot(slot) => {
            forbidden(engine, caller, format!("the share is of slot {slot}, which this keystore does not have"))
        }
        // It names slots, whose ids are public.
        UnsealFailure::Store(error @ StoreError::Sealed { .. }) => forbidden(engine, caller, error.to_string()),
        UnsealFailure::Store(error) => {
            tracing::error!(%error, "cannot unseal the keystore");
            ErrorObject::new(
                ErrorCode::Unavailable,
                "the keystore does not answer: see the engine's log, then try again",
            )
        }
    }
}

/// The turn of an attempt, which ends with it, even by a panic.
struct UnsealTurn {
    unsealer: Arc<Unsealer>,
    attempt: Arc<UnsealAttempt>,
}

impl UnsealTurn {
    fn end(self, outcome: Result<UnsealResult, ErrorObject>, caller: &Caller) {
        self.unsealer.record.attempted(caller.principal(), &outcome);
        if let (Ok(UnsealResult { status, missing }), Caller::Client { name, .. }) = (&outcome, caller) {
            tracing::info!(client = name.as_str(), status, missing, "a client brought what opens the keystore");
        }
        // Before the answer: who has it may make the next attempt.
        self.unsealer.lock().is_busy = false;
        self.attempt.end(outcome);
    }
}

impl Drop for UnsealTurn {
    fn drop(&mut self) {
        self.unsealer.lock().is_busy = false;
        self.attempt.end(Err(ErrorObject::new(ErrorCode::Internal, "the attempt to unseal failed")));
    }
}

/// A running attempt, and its outcome.
#[derive(Debug, Default)]
pub(super) struct UnsealAttempt {
    state: Mutex<AttemptState>,
    ended: Condvar,
}

#[derive(Debug, Default)]
struct AttemptState {
    outcome: Option<Result<UnsealResult, ErrorObject>>,
    waker: Option<Waker>,
}

impl UnsealAttempt {
    /// The outcome. Without one, the job that runs on this thread is parked, and its step fails; any other thread waits.
    pub(super) fn outcome(&self) -> Result<UnsealResult, ErrorObject> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.outcome.is_none() {
            match job_waker() {
                Some(waker) => {
                    state.waker = Some(waker);
                    park_job(ATTEMPT_TIME_MAX);
                }
                None => {
                    let waited =
                        self.ended.wait_timeout_while(state, ATTEMPT_TIME_MAX, |state| state.outcome.is_none());
                    state = waited.unwrap_or_else(PoisonError::into_inner).0;
                }
            }
        }
        let late = || Err(ErrorObject::new(ErrorCode::Unavailable, "the attempt to unseal takes too long: try again"));
        state.outcome.clone().unwrap_or_else(late)
    }

    /// Sets the outcome, unless there is one.
    fn end(&self, outcome: Result<UnsealResult, ErrorObject>) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.outcome.get_or_insert(outcome);
        let waker = state.waker.take();
        drop(state);
        self.ended.notify_all();
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}
