//! Decryption of values: a [`Decryptor`] is one request's permission to decrypt for an app. Adjacent values with the same ephemeral key are
//! decrypted together.

use std::ops::ControlFlow;
use std::sync::Arc;

use leafseal_envelope::{
    Envelope, Malformed, OpenError, OpenScratch, OpenedValue, PublicKeyEnvelope, Role, Scheme, SymmetricEnvelope,
    SymmetricOpening,
};
use leafseal_pool::{is_inline, others_wait, yield_slice};

use crate::app::App;
use crate::bindings::OwnBindings;
use crate::canaries::OpenedEnvelope;
use crate::cost::SearchBudget;
use crate::counters::ValueCounts;
pub use crate::decrypt_options::DecryptOptions;
use crate::engine::Engine;
use crate::engine::permit::{Knowledge, Permit, Renewal};
use crate::error::Error;
use crate::gatherer::Wanted;
use crate::keyring::{KeySearch, Keyring};
use crate::opening::{Agreements, EphemeralId, Opening};
use crate::permissions::{Caller, Operation};
use crate::report::{OnFailure, RequestReport, Tally};
use crate::request_openings::{FoundOpening, OpeningFault};
use crate::schemes::accepted;

/// Maximum number of adjacent values that are parsed before they are decrypted, so that the results stay in the first-level cache.
const RUN_VALUES_MAX: usize = 64;

/// Texts after an envelope that are searched for other ephemeral keys, to compute their keys together.
const LOOK_AHEAD_VALUES: usize = 64;

/// Decrypts the values of one request.
pub struct Decryptor {
    pub(crate) permit: Permit,
    pub(crate) role: Option<Role>,
    pub(crate) keyring: Keyring,
    /// The openings that the request has announced, while it waits for others that need some.
    wanted: Vec<Arc<Wanted>>,
    scratch: OpenScratch,
    on_failure: OnFailure,
    pub(crate) tally: Tally,
    /// Values that this step has opened: counted when it is over, because a step that is handed over is repeated.
    opened: ValueCounts,
}

impl Engine {
    /// Starts decrypting.
    ///
    /// # Errors
    /// Forbidden, unknown app, disabled app, invalid role, store unavailable.
    pub fn decryptor(&self, caller: &Caller, options: &DecryptOptions<'_>) -> Result<Decryptor, Error> {
        Decryptor::new(Permit::new(self, caller, &[Operation::Decrypt], options.app)?, options)
    }
}

impl Decryptor {
    pub(crate) fn new(permit: Permit, options: &DecryptOptions<'_>) -> Result<Self, Error> {
        Ok(Self {
            role: options.role.map(Role::parse).transpose()?,
            keyring: Keyring::new(
                &permit,
                options.wish().binding(permit.engine.settings())?,
                accepted(options.accept, options.wish()),
            ),
            permit,
            wanted: Vec::new(),
            scratch: OpenScratch::default(),
            on_failure: options.on_failure,
            tally: Tally::default(),
            opened: ValueCounts::default(),
        })
    }

    /// The number of texts that one step should be offered.
    pub fn step_values_max(&self) -> usize {
        self.permit.engine.settings().step_values_max.max(1)
    }

    /// The number of texts that one worker should take at a time: fewer than a step is offered if the texts so far have cost key
    /// agreements, but enough to fill the lanes of two steps.
    pub fn part_values_max(&self) -> usize {
        let lanes = self.permit.engine.agreements().ec.batch_size();
        let fitting = if lanes > 1 {
            self.keyring.openings.values_in_step().max(2 * lanes)
        } else {
            self.keyring.openings.values_in_step()
        };
        fitting.min(self.step_values_max())
    }

    /// Creates a decryptor of the same request for another worker; both share the keys that they find.
    pub fn fork(&mut self) -> Self {
        Self {
            permit: self.permit.clone(),
            role: self.role.clone(),
            keyring: self.keyring.fork(),
            wanted: Vec::new(),
            scratch: OpenScratch::default(),
            on_failure: self.on_failure,
            tally: self.tally.fork(),
            opened: ValueCounts::default(),
        }
    }

    /// The action for envelopes that fail to decrypt.
    pub fn on_failure(&self) -> OnFailure {
        self.on_failure
    }

    /// Records an envelope that failed to decrypt, for the report; `path` returns its path in a document.
    pub fn note_failure(&mut self, position: u64, path: impl FnOnce() -> String) {
        self.tally.add_failure(position, self.permit.engine.settings().failure_paths_max, path);
    }

    /// The report so far.
    pub fn report(&self) -> RequestReport {
        self.tally.report()
    }

    /// Decrypts texts from the first on and passes each to `each` with its index, in order: `None` for a text that is not an envelope.
    /// Stops before a second key agreement, so that a step stays short; returns how many are done. That is none if the search for the key
    /// version of the first text is not at its end: the next call, which begins with the same text, continues it.
    ///
    /// # Errors
    /// The first text that is malformed, fails to decrypt or has a role that the caller may not read, with its index. Earlier results of
    /// `each` are void. Too large, without an index: the request has tried too many key versions without success.
    pub fn decrypt(
        &mut self,
        texts: &[&[u8]],
        each: impl FnMut(usize, Option<OpenedValue<'_>>),
    ) -> Result<usize, Error> {
        self.decrypt_bound(texts, None, each)
    }

    /// The same for texts with their `own` bindings, one for each or more, if the request binds each to its own.
    ///
    /// # Errors
    /// As [`Decryptor::decrypt`]; bindings where the request has one for all, or none where it does not.
    pub fn decrypt_bound(
        &mut self,
        texts: &[&[u8]],
        own: OwnBindings<'_>,
        each: impl FnMut(usize, Option<OpenedValue<'_>>),
    ) -> Result<usize, Error> {
        let mut receiver = UntilFailure { each, failure: None };
        let done = self.open(texts, own, &mut receiver)?;
        receiver.failure.map_or(Ok(done), Err)
    }

    /// The same for a caller that continues after a text that fails to decrypt: `each` receives the error of such a text, without an index.
    ///
    /// # Errors
    /// The permission to decrypt, or the app's keys, were revoked since the last call; the store does not respond; too large: the request
    /// has tried too many key versions without success.
    pub fn open_texts(
        &mut self,
        texts: &[&[u8]],
        each: impl FnMut(usize, Result<Option<OpenedValue<'_>>, Error>),
    ) -> Result<usize, Error> {
        self.open_texts_bound(texts, None, each)
    }

    /// The same for texts with their own bindings; see [`Decryptor::decrypt_bound`].
    ///
    /// # Errors
    /// As [`Decryptor::open_texts`] and [`Decryptor::decrypt_bound`].
    pub fn open_texts_bound(
        &mut self,
        texts: &[&[u8]],
        own: OwnBindings<'_>,
        each: impl FnMut(usize, Result<Option<OpenedValue<'_>>, Error>),
    ) -> Result<usize, Error> {
        self.open(texts, own, &mut Outcomes(each))
    }

    fn open(
        &mut self,
        texts: &[&[u8]],
        own: OwnBindings<'_>,
        receiver: &mut impl OutcomeReceiver,
    ) -> Result<usize, Error> {
        self.keyring.binding.of(own)?;
        self.renew()?;
        let mut judged = Judged { receiver, knowledge: self.permit.knowledge, unavailable: None };
        self.opened = ValueCounts::default();
        let done = self.open_current(texts, own, &mut judged)?;
        judged.unavailable.map_or(Ok(()), Err)?;
        // A step of a network thread that leaves texts over, and has not failed, is repeated by a worker.
        if done == texts.len() || judged.receiver.has_failed() || !is_inline() {
            self.count(self.opened);
        }
        Ok(done)
    }

    /// Counts values that were opened.
    pub(crate) fn count(&mut self, counts: ValueCounts) {
        self.tally.add_symmetric(counts.symmetric);
        self.permit.engine.count_opened(counts);
    }

    /// [`Decryptor::open`] after the permit was renewed.
    fn open_current(
        &mut self,
        texts: &[&[u8]],
        own: OwnBindings<'_>,
        receiver: &mut impl OutcomeReceiver,
    ) -> Result<usize, Error> {
        let (mut run, mut symmetric) = (Vec::new(), Vec::new());
        let (mut done, mut budget) = (0, SearchBudget::default());
        while done < texts.len() {
            run.clear();
            symmetric.clear();
            let opening = match take_run(&texts[done..], &mut run, &mut symmetric) {
                Err(malformed) => Err(malformed.into()),
                Ok(Taken::Plain) => Ok(None),
                Ok(Taken::Symmetric) => match self.open_symmetric(&symmetric, own, &mut done, receiver)? {
                    ControlFlow::Continue(()) => continue,
                    ControlFlow::Break(()) => break,
                },
                Ok(Taken::PublicKey) if !self.keyring.accept.accepts(Scheme::PublicKey) => {
                    Err(OpenError::DecryptFailed.into())
                }
                Ok(Taken::PublicKey) => {
                    if self.prepare(&run[0], &texts[done + run.len()..], &mut budget).is_break() {
                        break;
                    }
                    self.opening(&run[0]).map(Some)
                }
            };
            let opening = match opening {
                Ok(Some(opening)) => opening,
                Ok(None) => {
                    receiver.opened(done, None);
                    done += 1;
                    continue;
                }
                Err(error) => {
                    done += 1;
                    match receiver.failed(done - 1, error) {
                        ControlFlow::Continue(()) => continue,
                        ControlFlow::Break(()) => break,
                    }
                }
            };
            if self.open_with(&opening, &run, &mut done, receiver, &mut budget)?.is_break() {
                break;
            }
        }
        self.keyring.openings.note(done, budget.agreements());
        Ok(done)
    }

    /// Decrypts a run of values of one ephemeral key. If the key is not known, versions are tried on the first of them; the step ends when
    /// that needs another one.
    fn open_with(
        &mut self,
        opening: &Arc<Opening>,
        mut run: &[PublicKeyEnvelope<'_>],
        done: &mut usize,
        receiver: &mut impl OutcomeReceiver,
        budget: &mut SearchBudget,
    ) -> Result<ControlFlow<()>, Error> {
        let Self { permit, role, keyring: Keyring { openings, .. }, scratch, opened: counts, .. } = self;
        while let Some((first, rest)) = run.split_first() {
            let index = *done;
            let (key, rest) = match openings.key(&permit.engine, opening, first, scratch, budget) {
                Ok(None) => return Ok(ControlFlow::Break(())),
                Ok(Some(FoundOpening { key, opened: None })) => (key, run),
                Ok(Some(FoundOpening { key, opened: Some(opened) })) => {
                    *done += 1;
                    counts.public_key += 1;
                    if hand_over(permit, role.as_ref(), (index, first.into()), Ok(opened), receiver).is_break() {
                        return Ok(ControlFlow::Break(()));
                    }
                    (key, rest)
                }
                Err(OpeningFault::Value(error)) => {
                    *done += 1;
                    if receiver.failed(index, error.into()).is_break() {
                        return Ok(ControlFlow::Break(()));
                    }
                    run = rest;
                    continue;
                }
                Err(unopened) => return Err(openings.error(unopened, |error| error)),
            };
            if let Some(version) = opening.version() {
                permit.engine.note_version(version);
            }
            let index = *done;
            *done += rest.len();
            let mut flow = ControlFlow::Continue(());
            key.open_many(rest, scratch, |i, result| {
                counts.public_key += u64::from(result.is_ok());
                if hand_over(permit, role.as_ref(), (index + i, (&rest[i]).into()), result, receiver).is_break() {
                    flow = ControlFlow::Break(());
                }
            });
            return Ok(flow);
        }
        Ok(ControlFlow::Continue(()))
    }

    /// Decrypts a run of values of one symmetric key; `Break` at the end of the step.
    fn open_symmetric(
        &mut self,
        run: &[SymmetricEnvelope<'_>],
        own: OwnBindings<'_>,
        done: &mut usize,
        receiver: &mut impl OutcomeReceiver,
    ) -> Result<ControlFlow<()>, Error> {
        let Self { permit, role, keyring, scratch, opened: counts, .. } = self;
        let Keyring { symmetric, binding, accept, .. } = keyring;
        let found = match accept.accepts(Scheme::Symmetric) {
            true => symmetric.find(permit, run[0].key_id)?,
            false => KeySearch::Missing,
        };
        let index = *done;
        let mut flow = ControlFlow::Continue(());
        match found {
            KeySearch::Waiting => return Ok(ControlFlow::Break(())),
            KeySearch::Missing => {
                *done += 1;
                flow = receiver.failed(index, OpenError::DecryptFailed.into());
            }
            KeySearch::Found(found) => {
                *done += run.len();
                let bindings = binding.of(own)?.from(index);
                SymmetricOpening::bound(&found.key, bindings).open_many(run, scratch, |i, result| {
                    let result = result.and_then(|opened| accept.check(opened));
                    counts.symmetric += u64::from(result.is_ok());
                    if hand_over(permit, role.as_ref(), (index + i, (&run[i]).into()), result, receiver).is_break() {
                        flow = ControlFlow::Break(());
                    }
                });
            }
        }
        Ok(flow)
    }

    /// Call it at the beginning of each step.
    pub(crate) fn renew(&mut self) -> Result<Renewal, Error> {
        let renewal = self.permit.renew()?;
        if renewal == Renewal::Renewed {
            self.keyring.renew(&self.permit);
        }
        Ok(renewal)
    }

    /// Sees that the keys of an envelope, and of some of the next texts, are computed together, and with those of concurrent requests, if
    /// they have ephemeral keys that are not known and SIMD lanes make that cheaper. `Break` if that is left to the next step.
    fn prepare(&mut self, first: &PublicKeyEnvelope<'_>, next: &[&[u8]], budget: &mut SearchBudget) -> ControlFlow<()> {
        let engine = self.permit.engine.clone();
        let app = Arc::clone(&self.permit.app);
        let agreements = engine.agreements();
        let batch_size = agreements.ec.batch_size().min(self.keyring.openings.count_max());
        let first = EphemeralId::of(first);
        let is_needed = (batch_size > 1 || is_inline()) && (!self.wanted.is_empty() || !self.is_known(first));
        if !is_needed {
            return ControlFlow::Continue(());
        }
        if !budget.take_agreement() {
            // The next step computes it together with others.
            return ControlFlow::Break(());
        }
        if self.wanted.is_empty() {
            let ephemerals = self.unknown(first, next, batch_size);
            let version = self.keyring.openings.likely_version(&app, first.curve);
            let Some(version) = version.filter(|_| ephemerals.len() > 1 || others_wait()) else {
                budget.return_agreement();
                return ControlFlow::Continue(());
            };
            let (wanted, is_complete) = engine.gatherer().announce(&app, version, &ephemerals, batch_size);
            self.wanted = wanted;
            if !is_complete && others_wait() {
                budget.return_agreement();
                yield_slice();
                return ControlFlow::Break(());
            }
        }
        if !self.take_wanted(&engine, &app, &agreements, batch_size) {
            budget.return_agreement();
        }
        ControlFlow::Continue(())
    }

    /// Whether there is an opening, perhaps without a key yet.
    fn is_known(&self, ephemeral: EphemeralId) -> bool {
        self.keyring.openings.has(ephemeral) || self.permit.engine.has_opening(&self.permit.app, ephemeral)
    }

    /// The ephemeral keys without an opening among the next texts, from the first on: up to a batch, of one curve.
    fn unknown(&self, first: EphemeralId, next: &[&[u8]], batch_size: usize) -> Vec<EphemeralId> {
        let mut ephemerals = vec![first];
        for text in next.iter().take(LOOK_AHEAD_VALUES) {
            if ephemerals.len() == batch_size {
                break;
            }
            let Ok(Envelope::PublicKey(envelope)) = Envelope::parse(text) else { continue };
            let ephemeral = EphemeralId::of(&envelope);
            let is_new =
                ephemeral.curve == first.curve && !ephemerals.contains(&ephemeral) && !self.is_known(ephemeral);
            if is_new {
                ephemerals.push(ephemeral);
            }
        }
        ephemerals
    }

    /// Takes the openings that were announced, and computes those that no other request has. Returns whether there were any to compute.
    fn take_wanted(&mut self, engine: &Engine, app: &Arc<App>, agreements: &Agreements, batch_size: usize) -> bool {
        let wanted = std::mem::take(&mut self.wanted);
        if !wanted.iter().all(|wanted| wanted.is_for(app)) {
            // The app's versions have changed since.
            return false;
        }
        let computes = engine.gatherer().compute(&wanted, agreements, batch_size);
        for opening in wanted.iter().filter_map(|wanted| wanted.computed()) {
            engine.note_opening_miss();
            self.keyring.openings.put(Arc::clone(opening));
        }
        computes
    }

    fn opening(&mut self, envelope: &PublicKeyEnvelope<'_>) -> Result<Arc<Opening>, Error> {
        let ephemeral = EphemeralId::of(envelope);
        Ok(self.keyring.openings.find(ephemeral, || self.permit.engine.opening(&self.permit.app, ephemeral))?)
    }
}

/// Hands an opened value over, if the caller may read it.
fn hand_over(
    permit: &Permit,
    role: Option<&Role>,
    (index, envelope): (usize, OpenedEnvelope<'_>),
    result: Result<OpenedValue<'_>, OpenError>,
    receiver: &mut impl OutcomeReceiver,
) -> ControlFlow<()> {
    let error = match result {
        Ok(opened) => match permit.check_role(envelope, role, opened.metadata) {
            Ok(()) => {
                receiver.opened(index, Some(opened));
                return ControlFlow::Continue(());
            }
            Err(error) => error,
        },
        Err(error) => error.into(),
    };
    receiver.failed(index, error)
}

/// Receives the outcome of each text. Two methods rather than one with a `Result`: an error is several times larger than a value, and
/// moving a `Result` of both took a tenth of the time of a decryption.
trait OutcomeReceiver {
    /// `None` for a text that is not an envelope.
    fn opened(&mut self, index: usize, opened: Option<OpenedValue<'_>>);

    /// A text failed to decrypt. After `Break` only the rest of the run of adjacent values follows.
    fn failed(&mut self, index: usize, error: Error) -> ControlFlow<()>;

    /// Whether the request has failed.
    fn has_failed(&self) -> bool {
        false
    }
}

/// Stops at the first failure.
struct UntilFailure<F> {
    each: F,
    failure: Option<Error>,
}

impl<F: FnMut(usize, Option<OpenedValue<'_>>)> OutcomeReceiver for UntilFailure<F> {
    #[inline]
    fn opened(&mut self, index: usize, opened: Option<OpenedValue<'_>>) {
        (self.each)(index, opened);
    }

    #[cold]
    fn failed(&mut self, index: usize, error: Error) -> ControlFlow<()> {
        self.failure.get_or_insert(error.at_index(index as u64));
        ControlFlow::Break(())
    }

    fn has_failed(&self) -> bool {
        self.failure.is_some()
    }
}

/// Passes failures on as well.
struct Outcomes<F>(F);

impl<F: FnMut(usize, Result<Option<OpenedValue<'_>>, Error>)> OutcomeReceiver for Outcomes<F> {
    fn opened(&mut self, index: usize, opened: Option<OpenedValue<'_>>) {
        self.0(index, Ok(opened));
    }

    fn failed(&mut self, index: usize, error: Error) -> ControlFlow<()> {
        self.0(index, Err(error));
        ControlFlow::Continue(())
    }
}

/// Stops at a failure that may not last, whatever the receiver would do with it.
struct Judged<'r, R> {
    receiver: &'r mut R,
    knowledge: Knowledge,
    unavailable: Option<Error>,
}

impl<R: OutcomeReceiver> OutcomeReceiver for Judged<'_, R> {
    #[inline]
    fn opened(&mut self, index: usize, opened: Option<OpenedValue<'_>>) {
        self.receiver.opened(index, opened);
    }

    #[cold]
    fn failed(&mut self, index: usize, error: Error) -> ControlFlow<()> {
        if self.knowledge.is_final(&error) {
            return self.receiver.failed(index, error);
        }
        self.unavailable = Some(self.knowledge.judge(error));
        ControlFlow::Break(())
    }
}

/// What the first texts are.
enum Taken {
    /// Not an envelope.
    Plain,
    /// Values of one ephemeral key.
    PublicKey,
    /// Values of one symmetric key.
    Symmetric,
}

/// Takes adjacent values with the same ephemeral key, or with the same symmetric key, from the front.
fn take_run<'a>(
    texts: &[&'a [u8]],
    run: &mut Vec<PublicKeyEnvelope<'a>>,
    symmetric: &mut Vec<SymmetricEnvelope<'a>>,
) -> Result<Taken, Malformed> {
    let Some((first, rest)) = texts.split_first() else { return Ok(Taken::Plain) };
    let rest = &rest[..rest.len().min(RUN_VALUES_MAX - 1)];
    // A fault after other values is reported later, so that the first fault of all is reported.
    match Envelope::parse(first) {
        Err(Malformed::NotAnEnvelope) => Ok(Taken::Plain),
        Err(malformed) => Err(malformed),
        Ok(Envelope::PublicKey(first)) => {
            run.push(first);
            for text in rest {
                if PublicKeyEnvelope::parse_next(text, run).is_err() {
                    break;
                }
                if !run.last().is_some_and(|last| first.shares_key(last)) {
                    run.pop();
                    break;
                }
            }
            Ok(Taken::PublicKey)
        }
        Ok(Envelope::Symmetric(first)) => {
            symmetric.push(first);
            for text in rest {
                if SymmetricEnvelope::parse_next(text, symmetric).is_err() {
                    break;
                }
                if symmetric.last().is_none_or(|last| last.key_id != first.key_id) {
                    symmetric.pop();
                    break;
                }
            }
            Ok(Taken::Symmetric)
        }
    }
}
