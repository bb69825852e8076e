//! Rewrapping: values encrypted to an older key version, or in a legacy form, are decrypted and encrypted to the newest version; type, role
//! and marking are kept. Values of the newest version stay unchanged, once they have been verified to decrypt.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use leafseal_crypto::Curve;
use leafseal_crypto::random::system_random;
use leafseal_envelope::{
    Envelope, EnvelopeForm, Malformed, Marking, Metadata, ORIGIN_LEAFSEAL, OpenScratch, OpenedMetadata, Profile, Role,
    SealScratch, SealedInput, SealingKey,
};

use crate::cost::SearchBudget;
use crate::engine::Engine;
use crate::engine::permit::{Permit, Renewal};
use crate::error::{Error, ErrorCode};
use crate::opening::EphemeralId;
use crate::permissions::{Caller, Operation};
use crate::report::{OnFailure, RequestReport, Tally};
use crate::request_openings::{FoundOpening, RequestOpenings};

/// The options of a rewrap.
#[derive(Debug, Clone, Copy)]
pub struct RewrapOptions<'a> {
    /// The app.
    pub app: &'a str,
    /// The curve of new envelopes; by default each keeps its own.
    pub curve: Option<Curve>,
    /// The action for an envelope that fails to decrypt. `Null` is refused, because it would destroy a stored value that another key may
    /// open.
    pub on_failure: OnFailure,
}

impl<'a> RewrapOptions<'a> {
    /// For `app`, each envelope with its own curve; envelopes that fail to decrypt fail the request.
    pub fn new(app: &'a str) -> Self {
        Self { app, curve: None, on_failure: OnFailure::Fail }
    }
}

/// The outcome for a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RewrappedText<'a> {
    /// Its new envelope.
    New(&'a [u8]),
    /// It stays unchanged: it is not an envelope, or already of the newest version.
    Unchanged,
    /// It is an envelope that fails to decrypt, and the request leaves such unchanged.
    Failed,
}

/// Rewraps the envelopes of one request.
pub struct Rewrapper {
    pub(crate) permit: Permit,
    curve: Option<Curve>,
    pub(crate) openings: RequestOpenings,
    keys: Arc<RequestKeys>,
    open_scratch: OpenScratch,
    seal_scratch: SealScratch,
    on_failure: OnFailure,
    tally: Tally,
}

impl Engine {
    /// Starts rewrapping: the caller must be permitted to encrypt and to decrypt.
    ///
    /// # Errors
    /// Forbidden, unknown app, disabled app, store unavailable; an action for failures that would destroy values.
    pub fn rewrapper(&self, caller: &Caller, options: &RewrapOptions<'_>) -> Result<Rewrapper, Error> {
        if options.on_failure == OnFailure::Null {
            let message =
                "rewrap cannot replace envelopes by null, which would destroy their values: use leave or fail";
            return Err(Error::new(ErrorCode::InvalidParams, message));
        }
        let permit = Permit::new(self, caller, &[Operation::Encrypt, Operation::Decrypt], options.app)?;
        Ok(Rewrapper {
            permit,
            curve: options.curve,
            openings: RequestOpenings::new(self),
            keys: Arc::default(),
            open_scratch: OpenScratch::default(),
            seal_scratch: SealScratch::default(),
            on_failure: options.on_failure,
            tally: Tally::default(),
        })
    }
}

impl Rewrapper {
    /// The number of envelopes that one worker should take at a time: fewer if the envelopes so far have cost key agreements.
    pub fn part_values_max(&self) -> usize {
        // Decrypted and encrypted, so half as many as if only decrypted.
        (self.openings.values_in_step() / 2).clamp(1, self.permit.engine.settings().step_values_max.max(1))
    }

    /// Creates a rewrapper of the same request for another worker, with the same keys.
    pub fn fork(&mut self) -> Self {
        Self {
            permit: self.permit.clone(),
            curve: self.curve,
            openings: self.openings.fork(),
            keys: Arc::clone(&self.keys),
            open_scratch: OpenScratch::default(),
            seal_scratch: SealScratch::default(),
            on_failure: self.on_failure,
            tally: self.tally.fork(),
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

    /// Processes texts from the first on and passes each to `each` with its index, in order. Stops after a text that cost key agreements,
    /// so that a step stays short; returns how many are done. That is none if the search for the key version of the first text is
    /// not at its end: the next call, which begins with the same text, continues it.
    ///
    /// # Errors
    /// The first text that is malformed, fails to decrypt, or has a role that the caller may not read, with its index, unless the request
    /// leaves such unchanged. Earlier results of `each` are void.
    pub fn rewrap(&mut self, texts: &[&[u8]], mut each: impl FnMut(usize, RewrappedText<'_>)) -> Result<usize, Error> {
        self.renew()?;
        let mut envelope = Vec::new();
        let (mut done, mut spent) = (0, Spent::default());
        while done < texts.len() && spent.agreements() == 0 {
            envelope.clear();
            match self.rewrap_one(done, texts[done], &mut envelope, &mut spent) {
                Ok(RewrapStep::Searching) => break,
                Ok(RewrapStep::Done) if envelope.is_empty() => each(done, RewrappedText::Unchanged),
                Ok(RewrapStep::Done) => each(done, RewrappedText::New(&envelope)),
                Err(error) if self.is_left(&error) => each(done, RewrappedText::Failed),
                Err(error) => return Err(self.permit.knowledge.judge(error)),
            }
            done += 1;
        }
        self.openings.note(done, spent.agreements());
        Ok(done)
    }

    /// Whether an envelope with this error stays unchanged. Errors of the value have its index; others concern the request. One that fails
    /// only because the store is silent does not stay: it may be sound.
    pub(crate) fn is_left(&self, error: &Error) -> bool {
        self.on_failure == OnFailure::Leave && error.index.is_some() && self.permit.knowledge.is_final(error)
    }

    /// Call it at the beginning of each step.
    pub(crate) fn renew(&mut self) -> Result<Renewal, Error> {
        let renewal = self.permit.renew()?;
        if renewal == Renewal::Renewed {
            self.openings.clear();
            self.keys = Arc::default();
        }
        Ok(renewal)
    }

    /// Writes the new envelope of `text`, if it gets one, and counts the key agreements that this took.
    fn rewrap_one(
        &mut self,
        index: usize,
        text: &[u8],
        out: &mut Vec<u8>,
        spent: &mut Spent,
    ) -> Result<RewrapStep, Error> {
        let at = |error: Error| error.at_index(index as u64);
        let envelope = match Envelope::parse(text) {
            Err(Malformed::NotAnEnvelope) => return Ok(RewrapStep::Done),
            parsed => parsed.map_err(|malformed| at(malformed.into()))?,
        };
        let ephemeral = EphemeralId::of(&envelope);
        let Self { permit, curve, openings, keys, open_scratch, seal_scratch, .. } = self;
        let Permit { engine, app, .. } = &*permit;
        let opening =
            openings.find(ephemeral, || engine.opening(app, ephemeral)).map_err(|malformed| at(malformed.into()))?;
        let opened = match openings.key(engine, &opening, &envelope, open_scratch, &mut spent.search) {
            Ok(None) => return Ok(RewrapStep::Searching),
            Ok(Some(FoundOpening { opened: Some(opened), .. })) => opened,
            Ok(Some(FoundOpening { key, opened: None })) => {
                key.open(&envelope, open_scratch).map_err(|error| at(error.into()))?
            }
            Err(unopened) => return Err(openings.error(unopened, at)),
        };
        permit.check_role(None, opened.metadata).map_err(at)?;
        let old =
            Old { envelope: &envelope, form: opened.form, metadata: opened.metadata, by_newest: opening.by_newest() };
        let Some((profile, metadata)) = old.target(*curve, engine.now_unix_s()) else { return Ok(RewrapStep::Done) };
        let sealing = keys.find(profile, || {
            spent.sealing += 1;
            engine.request_key(app.newest(profile.version().curve()), profile)
        });
        let value = SealedInput { value_type: opened.value_type, text: opened.text.as_bytes() };
        sealing
            .seal_many(metadata.as_ref(), &mut system_random(), &[value], seal_scratch, out, |_, _, _| ())
            .expect("a request's key seals 2^32 values");
        Ok(RewrapStep::Done)
    }

    /// The target of a decrypted envelope, unless it stays unchanged: the key, and the metadata if there is any.
    pub(crate) fn target(&self, old: &Old<'_>) -> Option<(Arc<SealingKey>, Option<Metadata>)> {
        let Permit { engine, app, .. } = &self.permit;
        let (profile, metadata) = old.target(self.curve, engine.now_unix_s())?;
        let recipient = app.newest(profile.version().curve());
        Some((self.keys.find(profile, || engine.request_key(recipient, profile)), metadata))
    }
}

/// The key agreements of a step.
#[derive(Default)]
struct Spent {
    search: SearchBudget,
    sealing: u64,
}

impl Spent {
    fn agreements(&self) -> u64 {
        self.search.agreements() + self.sealing
    }
}

/// The result of a step.
#[derive(Clone, Copy, PartialEq, Eq)]
enum RewrapStep {
    /// The text has its new envelope, or stays unchanged.
    Done,
    /// The search for the key that decrypts it continues.
    Searching,
}

/// A decrypted envelope.
pub(crate) struct Old<'a> {
    pub(crate) envelope: &'a Envelope<'a>,
    pub(crate) form: EnvelopeForm,
    pub(crate) metadata: Option<OpenedMetadata<'a>>,
    /// Whether the newest key version decrypted it.
    pub(crate) by_newest: bool,
}

impl Old<'_> {
    /// The profile and metadata to encrypt it with, unless it stays unchanged.
    fn target(&self, curve: Option<Curve>, now_unix_s: u32) -> Option<(Profile, Option<Metadata>)> {
        let version = self.envelope.version;
        let curve = curve.unwrap_or(version.curve());
        let is_current = self.form == EnvelopeForm::Standard && !version.is_legacy();
        if self.by_newest && is_current && curve == version.curve() {
            return None;
        }
        let role = self.metadata.and_then(|metadata| metadata.role);
        let role = role.map(|role| Role::parse(role).expect("checked when it was opened"));
        // Metadata is kept even without a role: the format versions that have it bind type and both keys.
        let metadata = self.metadata.map(|_| Metadata::new(role.as_ref(), ORIGIN_LEAFSEAL, now_unix_s));
        let profile = if metadata.is_some() { Profile::with_metadata(curve) } else { Profile::plain(curve) };
        let profile = if self.envelope.marking == Marking::Debug { profile.debug() } else { profile };
        Some((profile, metadata))
    }
}

/// Sealing keys of one request, shared by its workers: one for each profile, of which there are eight.
#[derive(Default)]
struct RequestKeys {
    keys: Mutex<Vec<Arc<SealingKey>>>,
}

impl RequestKeys {
    fn find(&self, profile: Profile, make: impl FnOnce() -> Arc<SealingKey>) -> Arc<SealingKey> {
        let usable = |key: &&Arc<SealingKey>| key.profile() == profile && key.values_left() > 0;
        if let Some(key) = self.lock().iter().find(usable) {
            return Arc::clone(key);
        }
        // Created outside the lock, because other workers may wait for it. If two create one, both use the first.
        let made = make();
        let mut keys = self.lock();
        if let Some(key) = keys.iter().find(usable) {
            return Arc::clone(key);
        }
        keys.push(Arc::clone(&made));
        made
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Arc<SealingKey>>> {
        self.keys.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
