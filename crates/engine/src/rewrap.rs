//! Rewrapping: values encrypted to an older key version, or in a legacy form, are decrypted and encrypted to the newest version; type, role
//! and marking are kept. Values of the newest version stay unchanged, once they have been verified to decrypt.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use leafseal_crypto::Curve;
use leafseal_envelope::{
    Binding, Envelope, EnvelopeForm, Malformed, Marking, Metadata, ORIGIN_LEAFSEAL, OpenError, OpenScratch,
    OpenedMetadata, Profile, Role, Scheme, SealScratch, SealedInput, SymmetricOpening, SymmetricProfile,
    SymmetricVersion,
};

use crate::app::App;
use crate::bindings::{BindingWish, OwnBindings, PathBinding};
use crate::cost::SearchBudget;
use crate::counters::ValueCounts;
use crate::engine::Engine;
use crate::engine::permit::{Permit, Renewal};
use crate::error::{Error, ErrorCode};
use crate::keyring::{KeySearch, Keyring};
use crate::opening::EphemeralId;
use crate::permissions::{Caller, Operation};
use crate::report::{OnFailure, RequestReport, Tally};
use crate::request_openings::FoundOpening;
use crate::schemes::{AcceptedSchemes, accepted};
use crate::sealing::{ValueSealing, curve_with_symmetric, not_accepted, symmetric_sealing};
use crate::settings::Keying;

/// The options of a rewrap.
#[derive(Debug, Clone, Copy)]
pub struct RewrapOptions<'a> {
    /// The app.
    pub app: &'a str,
    /// The scheme of new envelopes; by default each keeps its own, and with a curve it is public-key.
    pub scheme: Option<Scheme>,
    /// The curve of new envelopes to a public key; by default each keeps its own.
    pub curve: Option<Curve>,
    /// What symmetric envelopes are bound to, before and after.
    pub context: Option<&'a str>,
    /// Documents: where the context of each value is, from an object around it: `id`, `customer.id`. In place of `context`.
    pub context_select: Option<&'a str>,
    /// Documents: what of its path each value is bound to, beside its context.
    pub bind: Option<PathBinding>,
    /// Lists: whether each value comes with its own context, which [`Rewrapper::rewrap_bound`] gets. In place of `context`.
    pub has_contexts: bool,
    /// The kinds of envelopes that are opened; others fail to. By default as for decryption.
    pub accept: Option<AcceptedSchemes>,
    /// The action for an envelope that fails to decrypt. `Null` is refused, because it would destroy a stored value that another key may
    /// open.
    pub on_failure: OnFailure,
}

impl<'a> RewrapOptions<'a> {
    /// For `app`, each envelope with its own curve; envelopes that fail to decrypt fail the request.
    pub fn new(app: &'a str) -> Self {
        Self {
            app,
            scheme: None,
            curve: None,
            context: None,
            context_select: None,
            bind: None,
            has_contexts: false,
            accept: None,
            on_failure: OnFailure::Fail,
        }
    }

    /// What binds the values.
    pub(crate) fn wish(&self) -> BindingWish<'a> {
        let Self { context, context_select, bind, has_contexts, .. } = *self;
        BindingWish { context, context_select, bind, has_contexts }
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
    wish: SchemeWish,
    /// The kinds that the request opens.
    accept: AcceptedSchemes,
    pub(crate) keyring: Keyring,
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
    /// Forbidden, unknown app, disabled app, store unavailable; an action for failures that would destroy values; envelopes to a public key
    /// of values that are bound.
    pub fn rewrapper(&self, caller: &Caller, options: &RewrapOptions<'_>) -> Result<Rewrapper, Error> {
        if options.on_failure == OnFailure::Null {
            let message =
                "rewrap cannot replace envelopes by null, which would destroy their values: use leave or fail";
            return Err(Error::new(ErrorCode::InvalidParams, message));
        }
        let permit = Permit::new(self, caller, &[Operation::Encrypt, Operation::Decrypt], options.app)?;
        let wish = SchemeWish::new(options)?;
        let accept = accepted(options.accept, options.wish());
        wish.check(&permit.app, accept.and(permit.accepted()))?;
        Ok(Rewrapper {
            wish,
            accept,
            keyring: Keyring::new(&permit, options.wish().binding(self.settings())?, accept),
            permit,
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
        (self.keyring.openings.values_in_step() / 2).clamp(1, self.permit.engine.settings().step_values_max.max(1))
    }

    /// Creates a rewrapper of the same request for another worker, with the same keys.
    pub fn fork(&mut self) -> Self {
        Self {
            permit: self.permit.clone(),
            wish: self.wish,
            accept: self.accept,
            keyring: self.keyring.fork(),
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
    pub fn rewrap(&mut self, texts: &[&[u8]], each: impl FnMut(usize, RewrappedText<'_>)) -> Result<usize, Error> {
        self.rewrap_bound(texts, None, each)
    }

    /// The same for texts with their `own` bindings, one for each or more, if the request binds each to its own.
    ///
    /// # Errors
    /// As [`Rewrapper::rewrap`]; bindings where the request has one for all, or none where it does not.
    pub fn rewrap_bound(
        &mut self,
        texts: &[&[u8]],
        own: OwnBindings<'_>,
        mut each: impl FnMut(usize, RewrappedText<'_>),
    ) -> Result<usize, Error> {
        self.keyring.binding.of(own)?;
        self.renew()?;
        let mut envelope = Vec::new();
        let (mut done, mut spent) = (0, Spent::default());
        let (mut opened, mut sealed) = (ValueCounts::default(), ValueCounts::default());
        while done < texts.len() && spent.agreements() == 0 {
            envelope.clear();
            match self.rewrap_one((done, texts[done]), own, &mut envelope, &mut spent) {
                Ok(RewrapStep::Searching) => break,
                Ok(RewrapStep::Plain) => each(done, RewrappedText::Unchanged),
                Ok(RewrapStep::Kept(old)) => {
                    opened.add(ValueCounts::of(old, 1));
                    each(done, RewrappedText::Unchanged);
                }
                Ok(RewrapStep::Sealed(old, new)) => {
                    opened.add(ValueCounts::of(old, 1));
                    sealed.add(ValueCounts::of(new, 1));
                    each(done, RewrappedText::New(&envelope));
                }
                Err(error) if self.is_left(&error) => each(done, RewrappedText::Failed),
                Err(error) => return Err(self.permit.knowledge.judge(error)),
            }
            done += 1;
        }
        self.keyring.openings.note(done, spent.agreements());
        self.permit.engine.count_opened(opened);
        self.count_sealed(sealed);
        Ok(done)
    }

    fn count_sealed(&mut self, counts: ValueCounts) {
        self.tally.add_symmetric(counts.symmetric);
        self.permit.engine.count_sealed(counts);
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
            // What it makes must open afterwards, under the rule of now.
            self.wish.check(&self.permit.app, self.accept.and(self.permit.accepted()))?;
            self.keyring.renew(&self.permit);
            self.keys = Arc::default();
        }
        Ok(renewal)
    }

    /// Writes the new envelope of `text`, if it gets one, and counts the key agreements that this took.
    fn rewrap_one(
        &mut self,
        (index, text): (usize, &[u8]),
        own: OwnBindings<'_>,
        out: &mut Vec<u8>,
        spent: &mut Spent,
    ) -> Result<RewrapStep, Error> {
        let at = |error: Error| error.at_index(index as u64);
        let envelope = match Envelope::parse(text) {
            Err(Malformed::NotAnEnvelope) => return Ok(RewrapStep::Plain),
            parsed => parsed.map_err(|malformed| at(malformed.into()))?,
        };
        let Self { permit, keyring: Keyring { openings, symmetric, binding, accept }, open_scratch, .. } = self;
        if !accept.accepts(envelope.scheme()) {
            return Err(at(OpenError::DecryptFailed.into()));
        }
        let (opened, by_newest) = match &envelope {
            Envelope::PublicKey(envelope) => {
                let Permit { engine, app, .. } = &*permit;
                let ephemeral = EphemeralId::of(envelope);
                let opening = openings
                    .find(ephemeral, || engine.opening(app, ephemeral))
                    .map_err(|malformed| at(malformed.into()))?;
                let opened = match openings.key(engine, &opening, envelope, open_scratch, &mut spent.search) {
                    Ok(None) => return Ok(RewrapStep::Searching),
                    Ok(Some(FoundOpening { opened: Some(opened), .. })) => opened,
                    Ok(Some(FoundOpening { key, opened: None })) => {
                        key.open(envelope, open_scratch).map_err(|error| at(error.into()))?
                    }
                    Err(unopened) => return Err(openings.error(unopened, at)),
                };
                (opened, opening.by_newest())
            }
            Envelope::Symmetric(envelope) => {
                let found = match symmetric.find(permit, envelope.key_id)? {
                    KeySearch::Waiting => return Ok(RewrapStep::Searching),
                    KeySearch::Missing => return Err(at(OpenError::DecryptFailed.into())),
                    KeySearch::Found(found) => found,
                };
                let opening = SymmetricOpening::bound(&found.key, binding.of(own)?.from(index));
                let opened = opening.open(envelope, open_scratch).and_then(|opened| accept.check(opened));
                (opened.map_err(|error| at(error.into()))?, permit.app.seals_with(envelope.key_id))
            }
        };
        permit.check_role((&envelope).into(), None, opened.metadata).map_err(at)?;
        let old = Old { envelope: &envelope, form: opened.form, metadata: opened.metadata, by_newest };
        let target = self.wish.target(&old, self.permit.engine.now_unix_s());
        let Some((kind, metadata)) = target else { return Ok(RewrapStep::Kept(envelope.scheme())) };
        let sealing = self.keys.find(kind, || {
            spent.sealing += u64::from(matches!(kind, SealingKind::PublicKey(_)));
            kind.key(&self.permit, &self.keyring.binding.one())
        })?;
        let value = SealedInput { value_type: opened.value_type, text: opened.text.as_bytes() };
        let bindings = self.keyring.binding.of(own)?.from(index);
        sealing
            .seal_many(metadata.as_ref(), (&[value], bindings), &mut self.seal_scratch, out, |_, _, _| ())
            .expect("a request's key seals 2^32 values");
        Ok(RewrapStep::Sealed(envelope.scheme(), sealing.scheme()))
    }

    /// The target of a decrypted envelope, unless it stays unchanged: the key, and the metadata if there is any.
    pub(crate) fn target(&mut self, old: &Old<'_>) -> Result<Option<(ValueSealing, Option<Metadata>)>, Error> {
        let target = self.wish.target(old, self.permit.engine.now_unix_s());
        let Some((kind, metadata)) = target else { return Ok(None) };
        let sealing = self.keys.find(kind, || kind.key(&self.permit, &self.keyring.binding.one()))?;
        self.count_sealed(ValueCounts::of(sealing.scheme(), 1));
        Ok(Some((sealing, metadata)))
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
    /// The text is no envelope.
    Plain,
    /// The envelope, of this scheme, stays unchanged.
    Kept(Scheme),
    /// The envelope, of the first scheme, has a new one, of the second.
    Sealed(Scheme, Scheme),
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

/// The scheme that a request wants: nothing keeps that of each envelope.
#[derive(Clone, Copy)]
enum SchemeWish {
    Kept,
    PublicKey(Option<Curve>),
    Symmetric,
}

/// A kind of key that a request seals with.
#[derive(Clone, Copy, PartialEq, Eq)]
enum SealingKind {
    PublicKey(Profile),
    Symmetric(SymmetricProfile),
}

impl SealingKind {
    fn key(self, permit: &Permit, binding: &Binding) -> Result<ValueSealing, Error> {
        let Permit { engine, app, .. } = permit;
        match self {
            Self::PublicKey(profile) => {
                Ok(ValueSealing::PublicKey(engine.request_key(app.newest(profile.version().curve()), profile)))
            }
            Self::Symmetric(profile) => {
                let (_, key) = app.newest_symmetric()?;
                Ok(ValueSealing::Symmetric(symmetric_sealing(key, profile, binding, Keying::Request)))
            }
        }
    }
}

impl SchemeWish {
    fn new(options: &RewrapOptions<'_>) -> Result<Self, Error> {
        match (options.scheme, options.curve) {
            (None, None) => Ok(Self::Kept),
            (None | Some(Scheme::PublicKey), _) if options.wish().is_bound() => Err(unbinds()),
            (None | Some(Scheme::PublicKey), curve) => Ok(Self::PublicKey(curve)),
            (Some(Scheme::Symmetric), None) => Ok(Self::Symmetric),
            (Some(Scheme::Symmetric), Some(_)) => Err(curve_with_symmetric()),
        }
    }

    /// Refuses to seal what the app does not accept: nobody could open it. `opened`: what the request opens.
    fn check(self, app: &App, opened: AcceptedSchemes) -> Result<(), Error> {
        let accepted = app.accepted();
        match self {
            Self::PublicKey(_) if !accepted.public_key => Err(not_accepted(app, "public-key")),
            Self::Symmetric if opened.public_key && !accepted.from_public_key => {
                Err(not_accepted(app, "from-public-key"))
            }
            _ => Ok(()),
        }
    }

    /// The kind of key and the metadata to encrypt it with, unless it stays unchanged.
    fn target(self, old: &Old<'_>, now_unix_s: u32) -> Option<(SealingKind, Option<Metadata>)> {
        let role = old.metadata.and_then(|metadata| metadata.role);
        let role = role.map(|role| Role::parse(role).expect("checked when it was opened"));
        let is_symmetric = old.envelope.scheme() == Scheme::Symmetric;
        let marking = old.envelope.marking();
        if matches!(self, Self::Symmetric) || matches!(self, Self::Kept) && is_symmetric {
            if old.by_newest && is_symmetric {
                return None;
            }
            // The mark stays: a value that anyone may have made is not an engine's because it was sealed again.
            let is_from_public_key = !is_symmetric || old.metadata.is_some_and(|metadata| metadata.is_from_public_key);
            let has_metadata = old.metadata.is_some() || is_from_public_key;
            let metadata = Metadata::marked(role.as_ref(), ORIGIN_LEAFSEAL, now_unix_s, is_from_public_key);
            let profile = SymmetricProfile { version: SymmetricVersion::of(has_metadata), marking };
            return Some((SealingKind::Symmetric(profile), has_metadata.then_some(metadata)));
        }
        // Metadata is kept even without a role: the format versions that have it bind type and both keys.
        let metadata = old.metadata.map(|_| Metadata::new(role.as_ref(), ORIGIN_LEAFSEAL, now_unix_s));
        let wanted = if let Self::PublicKey(curve) = self { curve } else { None };
        let profile = public_profile(wanted, old.envelope, old, metadata.is_some(), marking)?;
        Some((SealingKind::PublicKey(profile), metadata))
    }
}

/// The error of a request that would turn bound values into unbound ones, which open in every place that one copies them to.
fn unbinds() -> Error {
    let message = "envelopes to a public key are bound to nothing, so that rewrapping to them would unbind the values: decrypt these with \
                   their context and encrypt them without it";
    Error::new(ErrorCode::InvalidParams, message)
}

/// The profile of a new envelope to a public key, unless the old one stays.
fn public_profile(
    wanted: Option<Curve>,
    envelope: &Envelope<'_>,
    old: &Old<'_>,
    has_metadata: bool,
    marking: Marking,
) -> Option<Profile> {
    let curve = match envelope {
        Envelope::PublicKey(envelope) => {
            let curve = wanted.unwrap_or(envelope.version.curve());
            let is_current = old.form == EnvelopeForm::Standard && !envelope.version.is_legacy();
            if old.by_newest && is_current && curve == envelope.version.curve() {
                return None;
            }
            curve
        }
        Envelope::Symmetric(_) => wanted.unwrap_or(Curve::P256),
    };
    let profile = if has_metadata { Profile::with_metadata(curve) } else { Profile::plain(curve) };
    Some(if marking == Marking::Debug { profile.debug() } else { profile })
}

/// Sealing keys of one request, shared by its workers: one of each kind, of which there are twelve.
#[derive(Default)]
struct RequestKeys {
    keys: Mutex<Vec<(SealingKind, ValueSealing)>>,
}

impl RequestKeys {
    fn find(
        &self,
        kind: SealingKind,
        make: impl FnOnce() -> Result<ValueSealing, Error>,
    ) -> Result<ValueSealing, Error> {
        let usable = |(of, key): &&(SealingKind, ValueSealing)| *of == kind && key.values_left() > 0;
        if let Some((_, key)) = self.lock().iter().find(usable) {
            return Ok(key.clone());
        }
        // Created outside the lock, because other workers may wait for it. If two create one, both use the first.
        let made = make()?;
        let mut keys = self.lock();
        if let Some((_, key)) = keys.iter().find(usable) {
            return Ok(key.clone());
        }
        keys.push((kind, made.clone()));
        Ok(made)
    }

    fn lock(&self) -> MutexGuard<'_, Vec<(SealingKind, ValueSealing)>> {
        self.keys.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
