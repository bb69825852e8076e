//! The metadata of an envelope without its value, and an app's public keys.

use std::sync::Arc;

use leafseal_crypto::ec::COMPRESSED_SIZE;
use leafseal_crypto::symmetric::SymmetricKeyId;
use leafseal_crypto::{Curve, PublicKey};
use leafseal_envelope::{
    Binding, Envelope, Marking, OpenError, OpenScratch, OpenedMetadata, PublicKeyEnvelope, Scheme, SymmetricEnvelope,
    SymmetricOpening, ValueType,
};

use crate::bindings::{BindingWish, DocumentBinding, OwnBindings, PathBinding, RequestBinding};
use crate::cost::SearchBudget;
use crate::engine::Engine;
use crate::engine::permit::{Permit, Renewal};
use crate::error::{Error, ErrorCode};
use crate::keyring::{KeySearch, Keyring};
use crate::long::LongOpen;
use crate::opening::EphemeralId;
use crate::permissions::{Caller, Operation};
use crate::request_openings::FoundOpening;
use crate::schemes::{AcceptedSchemes, accepted};

/// The metadata of an envelope; the role, the origin, the time and the mark only if it was decrypted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EnvelopeMetadata {
    /// The scheme.
    pub scheme: Scheme,
    /// The four characters of the format version.
    pub version: &'static str,
    /// The type stated in the text.
    pub value_type: ValueType,
    /// Live or debug.
    pub marking: Marking,
    /// The curve, of one to a public key.
    pub curve: Option<Curve>,
    /// The ephemeral public key, compressed, of one to a public key.
    pub ephemeral: Option<[u8; COMPRESSED_SIZE]>,
    /// The id of the key, of a symmetric one.
    pub key_id: Option<SymmetricKeyId>,
    /// The data role.
    pub role: Option<String>,
    /// The software that wrote it.
    pub origin: Option<u32>,
    /// The time of encryption in Unix seconds.
    pub encrypted_at: Option<u32>,
    /// Whether it was resealed from an envelope to a public key.
    pub is_from_public_key: bool,
    /// The key version that decrypts it, of a symmetric one also if it does not open: its key id names the version.
    pub key_version: Option<u32>,
    /// Whether it failed to decrypt; see [`InspectOptions::leaves_unopened`].
    pub is_unopened: bool,
}

/// The options of an inspection that opens envelopes.
#[derive(Debug, Clone, Copy, Default)]
pub struct InspectOptions<'a> {
    /// What symmetric envelopes are bound to.
    pub context: Option<&'a str>,
    /// Documents: where the context of each value is, from an object around it: `id`, `customer.id`. In place of `context`.
    pub context_select: Option<&'a str>,
    /// Documents: what of its path each value is bound to, beside its context.
    pub bind: Option<PathBinding>,
    /// Lists: whether each value comes with its own context, which [`Inspector::inspect_bound`] gets. In place of `context`.
    pub has_contexts: bool,
    /// The kinds of envelopes that are opened; others fail to. By default as for decryption.
    pub accept: Option<AcceptedSchemes>,
    /// Whether an envelope that fails to decrypt is reported by what its text shows and, if it is symmetric, the version of its key. By
    /// default it is an error.
    pub leaves_unopened: bool,
}

impl<'a> InspectOptions<'a> {
    fn wish(&self) -> BindingWish<'a> {
        let Self { context, context_select, bind, has_contexts, .. } = *self;
        BindingWish { context, context_select, bind, has_contexts }
    }

    /// The first option that is of no use without an app.
    fn of_opened(&self) -> Option<&'static str> {
        let binds = self.context_select.is_some() || self.bind.is_some() || self.has_contexts;
        let given = [
            ("a context", self.context.is_some()),
            ("what binds values", binds),
            ("accept", self.accept.is_some()),
            ("on_failure", self.leaves_unopened),
        ];
        given.iter().find(|(_, is_given)| *is_given).map(|(what, _)| *what)
    }
}

/// An app's public keys that new values are encrypted to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EnginePublicKeys {
    /// The key version.
    pub version: u32,
    /// P-256.
    pub r1: PublicKey,
    /// secp256k1.
    pub k1: PublicKey,
}

/// Inspects the envelopes of one request.
pub struct Inspector {
    inside: Option<Inside>,
    step_values_max: usize,
}

/// Requirements of decryption: an app, and the permission to decrypt for it.
struct Inside {
    permit: Permit,
    keyring: Keyring,
    scratch: OpenScratch,
    /// The current envelope, if it is long.
    long: Option<LongOpen>,
    leaves_unopened: bool,
}

impl Engine {
    /// Starts inspecting. With an app, envelopes are decrypted to read the fields inside, which requires the permission to decrypt.
    ///
    /// # Errors
    /// Forbidden; with an app also: unknown app, disabled app, store unavailable.
    pub fn inspector(&self, caller: &Caller, app: Option<&str>) -> Result<Inspector, Error> {
        let inside = match app {
            Some(app) => {
                let permit = Permit::new(self, caller, &[Operation::Inspect], app)?;
                let keyring = Keyring::new(&permit, RequestBinding::One(Binding::default()), AcceptedSchemes::ALL);
                Some(Inside { permit, keyring, scratch: OpenScratch::default(), long: None, leaves_unopened: false })
            }
            None => {
                self.admit(caller)?;
                None
            }
        };
        Ok(Inspector { inside, step_values_max: self.settings().step_values_max.max(1) })
    }

    /// Inspects one envelope; see [`Engine::inspector`] and [`Inspector::inspect`].
    ///
    /// # Errors
    /// As those two.
    pub fn inspect(&self, caller: &Caller, app: Option<&str>, text: &[u8]) -> Result<EnvelopeMetadata, Error> {
        self.inspector(caller, app)?.inspect_whole(text)
    }

    /// The public keys of `app`, for callers that may use it.
    ///
    /// # Errors
    /// Forbidden, unknown app, disabled app, store unavailable.
    pub fn public_keys(&self, caller: &Caller, app: &str) -> Result<EnginePublicKeys, Error> {
        let app = self.authorised_any(caller, app)?;
        let (version, r1) = app.encrypting(Curve::P256);
        let (_, k1) = app.encrypting(Curve::Secp256k1);
        Ok(EnginePublicKeys { version, r1: *r1, k1: *k1 })
    }
}

impl Inspector {
    /// How envelopes are opened.
    ///
    /// # Errors
    /// The context is empty or too long, options do not go together, or there is no app.
    pub fn with(mut self, options: &InspectOptions<'_>) -> Result<Self, Error> {
        let Some(inside) = &mut self.inside else {
            return match options.of_opened() {
                None => Ok(self),
                Some(what) => {
                    let message = format!("{what} needs an app: without one, envelopes are not opened");
                    Err(Error::new(ErrorCode::InvalidParams, message))
                }
            };
        };
        let wish = options.wish();
        let binding = wish.binding(inside.permit.engine.settings())?;
        inside.keyring = Keyring::new(&inside.permit, binding, accepted(options.accept, wish));
        inside.leaves_unopened = options.leaves_unopened;
        Ok(self)
    }

    /// How the values of a document are bound, if each is to its own.
    pub(crate) fn binding(&self) -> Option<Arc<DocumentBinding>> {
        self.inside.as_ref().and_then(|inside| inside.keyring.binding.of_document())
    }

    /// The number of envelopes that one worker should take at a time: fewer if the envelopes so far have cost key agreements.
    pub fn part_values_max(&self) -> usize {
        let fitting = self.inside.as_ref().map_or(usize::MAX, |inside| inside.keyring.openings.values_in_step());
        fitting.min(self.step_values_max)
    }

    /// Creates an inspector of the same request for another worker; both share the keys that they find. The first fork continues with an
    /// unfinished envelope.
    pub fn fork(&mut self) -> Self {
        let inside = self.inside.as_mut().map(|inside| Inside {
            permit: inside.permit.clone(),
            keyring: inside.keyring.fork(),
            scratch: OpenScratch::default(),
            long: inside.long.take(),
            leaves_unopened: inside.leaves_unopened,
        });
        Self { inside, step_values_max: self.step_values_max }
    }

    /// [`Inspector::inspect`] in all of its steps.
    ///
    /// # Errors
    /// As that.
    pub fn inspect_whole(&mut self, text: &[u8]) -> Result<EnvelopeMetadata, Error> {
        self.inspect_bound_whole(text, None)
    }

    /// [`Inspector::inspect_bound`] in all of its steps.
    ///
    /// # Errors
    /// As that.
    pub(crate) fn inspect_bound_whole(&mut self, text: &[u8], own: OwnBindings<'_>) -> Result<EnvelopeMetadata, Error> {
        loop {
            if let Some(inspected) = self.inspect_bound(text, own)? {
                return Ok(inspected);
            }
        }
    }

    /// Returns the metadata of `text`, with an app including the fields inside; never its value. Returns `None` if that needs further
    /// steps: call again with the same text.
    ///
    /// # Errors
    /// Malformed; with an app also: decrypt failed, a role that the caller may not read.
    pub fn inspect(&mut self, text: &[u8]) -> Result<Option<EnvelopeMetadata>, Error> {
        self.inspect_bound(text, None)
    }

    /// The same for a text with its `own` binding, one or more, of which the first counts, if the request binds each to its own.
    ///
    /// # Errors
    /// As [`Inspector::inspect`]; a binding where the request has one for all, or none where it does not.
    pub fn inspect_bound(&mut self, text: &[u8], own: OwnBindings<'_>) -> Result<Option<EnvelopeMetadata>, Error> {
        let envelope = Envelope::parse(text)?;
        let mut inspected = EnvelopeMetadata::of_text(&envelope);
        let is_told = match &mut self.inside {
            None => {
                if let Envelope::PublicKey(envelope) = &envelope {
                    envelope.ephemeral_key()?;
                }
                true
            }
            Some(inside) => {
                let filled = inside.fill((&envelope, own), &mut inspected);
                match filled.map_err(|error| inside.permit.knowledge.judge(error)) {
                    Err(error) if inside.leaves_unopened && error.code == ErrorCode::DecryptFailed => {
                        inside.fill_failed(&envelope, &mut inspected);
                        true
                    }
                    filled => filled?,
                }
            }
        };
        Ok(is_told.then_some(inspected))
    }
}

impl Inside {
    /// Fills in the fields inside; returns whether the envelope was decrypted.
    fn fill(
        &mut self,
        (envelope, own): (&Envelope<'_>, OwnBindings<'_>),
        inspected: &mut EnvelopeMetadata,
    ) -> Result<bool, Error> {
        self.keyring.binding.of(own)?;
        if self.permit.renew()? == Renewal::Renewed {
            self.keyring.renew(&self.permit);
            self.long = None;
        }
        if !self.keyring.accept.accepts(envelope.scheme()) {
            return Err(OpenError::DecryptFailed.into());
        }
        if envelope.sealed_size() > self.permit.step_bytes_max() {
            return self.tell_long((envelope, own), inspected);
        }
        match envelope {
            Envelope::PublicKey(envelope) => self.fill_public_key(envelope, inspected),
            Envelope::Symmetric(envelope) => self.fill_symmetric((envelope, own), inspected),
        }
    }

    /// Fills in what is known of an envelope that failed to decrypt, whatever the cause: the version that its key id names, which callers
    /// that may decrypt for the app learn from any envelope of that key that opens. Nothing else in it is authentic.
    fn fill_failed(&mut self, envelope: &Envelope<'_>, inspected: &mut EnvelopeMetadata) {
        self.long = None;
        inspected.is_unopened = true;
        if let Envelope::Symmetric(envelope) = envelope {
            inspected.key_version = self.keyring.symmetric.version(&self.permit, envelope.key_id);
        }
    }

    fn fill_symmetric(
        &mut self,
        (envelope, own): (&SymmetricEnvelope<'_>, OwnBindings<'_>),
        inspected: &mut EnvelopeMetadata,
    ) -> Result<bool, Error> {
        let Self { permit, keyring: Keyring { symmetric, binding, accept, .. }, scratch, .. } = self;
        let found = match symmetric.find(permit, envelope.key_id)? {
            KeySearch::Waiting => return Ok(false),
            KeySearch::Missing => return Err(OpenError::DecryptFailed.into()),
            KeySearch::Found(found) => found,
        };
        let opening = SymmetricOpening::bound(&found.key, binding.of(own)?);
        let opened = accept.check(opening.open(envelope, scratch)?)?;
        permit.check_role(envelope.into(), None, opened.metadata)?;
        inspected.fill(opened.metadata, Some(found.version));
        Ok(true)
    }

    fn fill_public_key(
        &mut self,
        envelope: &PublicKeyEnvelope<'_>,
        inspected: &mut EnvelopeMetadata,
    ) -> Result<bool, Error> {
        let Self { permit, keyring: Keyring { openings, .. }, scratch, .. } = self;
        let Permit { engine, app, .. } = &*permit;
        let ephemeral = EphemeralId::of(envelope);
        let opening = openings.find(ephemeral, || engine.opening(app, ephemeral))?;
        let mut budget = SearchBudget::default();
        let found = match openings.key(engine, &opening, envelope, scratch, &mut budget) {
            Err(unopened) => return Err(openings.error(unopened, |error| error)),
            Ok(found) => found,
        };
        openings.note(usize::from(found.is_some()), budget.agreements());
        let opened = match found {
            None => return Ok(false),
            Some(FoundOpening { opened: Some(opened), .. }) => opened,
            Some(FoundOpening { key, opened: None }) => key.open(envelope, scratch)?,
        };
        permit.check_role(envelope.into(), None, opened.metadata)?;
        // Anyone may have written the mark into one to a public key.
        let metadata = opened.metadata.map(|metadata| OpenedMetadata { is_from_public_key: false, ..metadata });
        inspected.fill(metadata, opening.version());
        Ok(true)
    }

    fn tell_long(
        &mut self,
        (envelope, own): (&Envelope<'_>, OwnBindings<'_>),
        inspected: &mut EnvelopeMetadata,
    ) -> Result<bool, Error> {
        let long = self.long.get_or_insert_default();
        if !long.is_open() {
            let step = long.step(&self.permit, &mut self.keyring, (envelope, own), <[u8]>::len);
            step.map_err(|unopened| self.keyring.error(unopened, |error| error))?;
            return Ok(false);
        }
        self.permit.check_role(envelope.into(), None, long.metadata())?;
        inspected.fill(long.metadata(), long.opener().version());
        self.long = None;
        Ok(true)
    }
}

impl EnvelopeMetadata {
    fn of_text(envelope: &Envelope<'_>) -> Self {
        let public_key = if let Envelope::PublicKey(envelope) = envelope { Some(envelope) } else { None };
        let symmetric = if let Envelope::Symmetric(envelope) = envelope { Some(envelope) } else { None };
        Self {
            scheme: envelope.scheme(),
            version: envelope.version_text(),
            value_type: envelope.value_type(),
            marking: envelope.marking(),
            curve: public_key.map(|envelope| envelope.version.curve()),
            ephemeral: public_key.map(|envelope| envelope.ephemeral),
            key_id: symmetric.map(|envelope| envelope.key_id),
            role: None,
            origin: None,
            encrypted_at: None,
            is_from_public_key: false,
            key_version: None,
            is_unopened: false,
        }
    }

    fn fill(&mut self, metadata: Option<OpenedMetadata<'_>>, key_version: Option<u32>) {
        let metadata = metadata.unwrap_or_default();
        self.role = metadata.role.map(str::to_owned);
        self.origin = metadata.origin;
        self.encrypted_at = metadata.encrypted_at;
        self.is_from_public_key = metadata.is_from_public_key;
        self.key_version = key_version;
    }
}
