//! Encryption of values: an [`Encryptor`] is one request's permission to encrypt for an app, with its keying.

use std::sync::Arc;

use leafseal_crypto::random::fresh_random;
use leafseal_crypto::{Curve, Recipient};
use leafseal_envelope::{
    Envelope, Marking, Metadata, ORIGIN_LEAFSEAL, Profile, Role, Scheme, SealScratch, SealedInput, ValueType, seal_each,
};
use leafseal_pool::is_inline;

use crate::bindings::{BindingWish, OwnBindings, PathBinding, RequestBinding};
use crate::cost;
use crate::counters::ValueCounts;
use crate::decrypt::{DecryptOptions, Decryptor};
use crate::engine::Engine;
use crate::engine::permit::{Permit, Renewal};
use crate::error::{Error, ErrorCode};
use crate::permissions::{Caller, Operation};
use crate::report::{OnFailure, RequestReport, Tally};
use crate::schemes::AcceptedSchemes;
use crate::sealing::{SealingTarget, ValueSealing};
use crate::settings::{EmptyStrings, Keying};
use crate::settled::{Settled, SettledText, SettledValues};

/// The options of an encryption. `None` uses the engine's settings.
#[derive(Debug, Clone, Copy)]
pub struct EncryptOptions<'a> {
    /// The app.
    pub app: &'a str,
    /// The scheme; a curve without a scheme means public-key.
    pub scheme: Option<Scheme>,
    /// The curve of the scheme public-key.
    pub curve: Option<Curve>,
    /// What symmetric envelopes are bound to.
    pub context: Option<&'a str>,
    /// Documents: where the context of each value is, from an object around it: `id`, `customer.id`. In place of `context`.
    pub context_select: Option<&'a str>,
    /// Documents: what of its path each value is bound to, beside its context.
    pub bind: Option<PathBinding>,
    /// Lists: whether each value comes with its own context, which [`Encryptor::encrypt_bound`] gets. In place of `context`.
    pub has_contexts: bool,
    /// How often a fresh ephemeral key is generated.
    pub keying: Option<Keying>,
    /// The data role to write into each envelope.
    pub role: Option<&'a str>,
    /// Skips the envelopes that the caller could decrypt under this app and role, instead of encrypting them again.
    pub skip_sealed: bool,
    /// Makes symmetric envelopes of those to a public key that the caller could decrypt under this app and role, as rewrapping does, and
    /// skips symmetric ones. Needs a role, and a scheme that is symmetric or missing.
    pub reseal: bool,
    /// The schemes of the envelopes that are skipped or resealed; see [`DecryptOptions::accept`]. Resealed are all by default.
    pub accept: Option<AcceptedSchemes>,
}

impl<'a> EncryptOptions<'a> {
    /// For `app`, with the engine's settings, without a role.
    pub fn new(app: &'a str) -> Self {
        Self {
            app,
            scheme: None,
            curve: None,
            context: None,
            context_select: None,
            bind: None,
            has_contexts: false,
            keying: None,
            role: None,
            skip_sealed: false,
            reseal: false,
            accept: None,
        }
    }

    /// What binds the values.
    pub(crate) fn wish(&self) -> BindingWish<'a> {
        let Self { context, context_select, bind, has_contexts, .. } = *self;
        BindingWish { context, context_select, bind, has_contexts }
    }

    /// The same with what resealing implies.
    ///
    /// # Errors
    /// Options that do not go together.
    fn checked(self) -> Result<Self, Error> {
        if !self.reseal {
            return Ok(self);
        }
        let fault = if self.role.is_none() {
            "reseal needs a role: values of another role, or without one, are not resealed"
        } else if self.scheme == Some(Scheme::PublicKey) {
            "reseal makes symmetric envelopes: use the scheme symmetric, or leave it out"
        } else if self.skip_sealed {
            "reseal leaves symmetric envelopes unchanged by itself: leave out skip_sealed"
        } else if self.accept.is_some_and(|accept| !accept.public_key) {
            "reseal opens envelopes to a public key: add them to accept, or leave out reseal"
        } else {
            return Ok(Self { scheme: Some(Scheme::Symmetric), ..self });
        };
        Err(Error::new(ErrorCode::InvalidParams, fault))
    }

    /// The options of the decryption that finds the envelopes to skip or to reseal, if there are any.
    fn opening(&self) -> Option<DecryptOptions<'a>> {
        let Self { app, role, context, context_select, bind, has_contexts, accept, .. } = *self;
        // Resealing is the wish to open them: what is resealed is bound by it.
        let accept = if self.reseal { Some(accept.unwrap_or_default()) } else { accept };
        let on_failure = OnFailure::Leave;
        let options = DecryptOptions { app, role, context, context_select, bind, has_contexts, accept, on_failure };
        (self.skip_sealed || self.reseal).then_some(options)
    }
}

/// Encrypts the values of one request.
pub struct Encryptor {
    pub(crate) permit: Permit,
    pub(crate) binding: RequestBinding,
    target: SealingTarget,
    pub(crate) metadata: Option<Metadata>,
    keying: Keying,
    key: Option<ValueSealing>,
    scratch: SealScratch,
    /// Decrypts values that are already encrypted, if such are skipped or resealed.
    opener: Option<Box<Decryptor>>,
    /// Whether envelopes to a public key are resealed, and not skipped.
    reseals: bool,
    /// The key for values whose envelopes were marked as made in debug mode, once there is one.
    debug_key: Option<ValueSealing>,
    pub(crate) tally: Tally,
}

/// Whether a text has the form of an envelope, whether or not it decrypts.
pub(crate) fn is_sealed(text: &[u8]) -> bool {
    text.starts_with(MARK) && Envelope::parse(text).is_ok()
}

/// The first bytes of every envelope: checked first, because most texts differ there.
const MARK: &[u8] = b"ev:";

impl Engine {
    /// Starts encrypting. `skip_sealed` and `reseal` reveal which envelopes decrypt, so they require the permission to decrypt, too.
    ///
    /// # Errors
    /// Forbidden, unknown app, disabled app, invalid role, options that do not go together, store unavailable.
    pub fn encryptor(&self, caller: &Caller, options: &EncryptOptions<'_>) -> Result<Encryptor, Error> {
        const ENCRYPT: &[Operation] = &[Operation::Encrypt];
        const BOTH: &[Operation] = &[Operation::Encrypt, Operation::Decrypt];
        let options = options.checked()?;
        let opening = options.opening();
        let operations = if opening.is_some() { BOTH } else { ENCRYPT };
        let permit = Permit::new(self, caller, operations, options.app)?;
        let opener = match opening {
            Some(opening) => Some(Box::new(Decryptor::new(permit.probe(), &opening)?)),
            None => None,
        };
        let role = options.role.map(Role::parse).transpose()?;
        if let Some(role) = &role {
            self.note_role(role.as_str());
        }
        let scheme = (options.scheme, options.curve);
        Ok(Encryptor {
            binding: options.wish().binding(self.settings())?,
            target: SealingTarget::new(self, &permit.app, scheme, options.wish(), role.is_some())?,
            permit,
            metadata: role.map(|role| Metadata::new(Some(&role), ORIGIN_LEAFSEAL, self.now_unix_s())),
            keying: options.keying.unwrap_or(self.settings().keying),
            key: None,
            scratch: SealScratch::default(),
            opener,
            reseals: options.reseal,
            debug_key: None,
            tally: Tally::default(),
        })
    }
}

impl Encryptor {
    /// The number of values that one step should take to stay short.
    pub fn step_values_max(&self) -> usize {
        let values_max = self.permit.engine.settings().step_values_max.max(1);
        match (self.keying, &self.target) {
            (Keying::Field, SealingTarget::PublicKey { table, .. }) => {
                let batch = table.as_ref().map_or(cost::STEP_AGREEMENTS_MAX, |table| table.batch_size());
                batch.min(values_max)
            }
            _ => values_max,
        }
    }

    /// An encryptor of the same request for another worker; both use the keys that one alone would have used. Generates the
    /// request's key if there is none yet, which costs a key agreement.
    ///
    /// # Errors
    /// As [`Encryptor::encrypt`].
    pub fn fork(&mut self) -> Result<Self, Error> {
        self.renew()?;
        if self.keying == Keying::Request {
            self.key()?;
        }
        Ok(Self {
            permit: self.permit.clone(),
            binding: self.binding.clone(),
            metadata: self.metadata.clone(),
            key: self.key.clone(),
            target: self.target.clone(),
            scratch: SealScratch::default(),
            opener: self.opener.as_mut().map(|opener| Box::new(opener.fork())),
            reseals: self.reseals,
            debug_key: self.debug_key.clone(),
            tally: self.tally.fork(),
            keying: self.keying,
        })
    }

    /// Whether [`Encryptor::settle`] decides about texts: envelopes that decrypt are skipped or resealed.
    pub fn settles(&self) -> bool {
        self.opener.is_some()
    }

    /// The report so far.
    pub fn report(&self) -> RequestReport {
        self.tally.report()
    }

    /// Decides which texts are skipped or resealed because they are envelopes that decrypt: as many from the front as fit into a step,
    /// which may be none if a version of the app's keys was tried without success. If none are to be opened all are decided at once.
    ///
    /// # Errors
    /// The permission to decrypt, or the app's keys, were revoked since the last call; or the store does not respond.
    pub fn settle(&mut self, texts: &[&[u8]]) -> Result<Settled, Error> {
        self.settle_bound(texts, None)
    }

    /// The same for texts with their own bindings; see [`Encryptor::encrypt_bound`].
    ///
    /// # Errors
    /// As [`Encryptor::settle`] and [`Encryptor::encrypt_bound`].
    pub fn settle_bound(&mut self, texts: &[&[u8]], own: OwnBindings<'_>) -> Result<Settled, Error> {
        let Some(opener) = &mut self.opener else { return Ok(Settled::all(texts.len())) };
        let plain = texts.iter().take_while(|text| !is_sealed(text)).count();
        if plain > 0 {
            return Ok(Settled::all(plain));
        }
        let sealed = texts.iter().take_while(|text| is_sealed(text)).count();
        if self.reseals {
            return self.reseal(&texts[..sealed], own);
        }
        let mut outcomes = Vec::with_capacity(sealed);
        let mut skipped = 0;
        let done = opener.open_texts_bound(&texts[..sealed], own, |_, outcome| {
            let is_left = matches!(outcome, Ok(Some(_)));
            skipped += u64::from(is_left);
            outcomes.push(if is_left { SettledText::Left } else { SettledText::Encrypted });
        })?;
        self.tally.add_skipped(skipped);
        Ok(Settled { done, outcomes, envelopes: Vec::new() })
    }

    /// [`Encryptor::settle_bound`] for envelopes that are resealed.
    fn reseal(&mut self, texts: &[&[u8]], own: OwnBindings<'_>) -> Result<Settled, Error> {
        self.renew()?;
        let kinds: Vec<(Scheme, Marking)> = texts
            .iter()
            .filter_map(|text| Envelope::parse(text).ok())
            .map(|envelope| (envelope.scheme(), envelope.marking()))
            .collect();
        let mut keys = [self.resealing_key(Marking::Live)?, self.resealing_key(Marking::Live)?];
        if kinds.iter().any(|(_, marking)| *marking == Marking::Debug) {
            keys[1] = self.resealing_key(Marking::Debug)?;
        }
        let (metadata, may_reseal) = (self.resealed_metadata(), self.may_reseal());
        let Self { opener: Some(opener), binding, scratch, .. } = self else { return Ok(Settled::all(texts.len())) };
        let bindings = binding.of(own)?;
        let mut settled = Settled { done: 0, outcomes: Vec::with_capacity(texts.len()), envelopes: Vec::new() };
        let (mut skipped, mut resealed) = (0, 0);
        let Settled { outcomes, envelopes, .. } = &mut settled;
        let done = opener.open_texts_bound(texts, own, |index, outcome| {
            let ((scheme, marking), opened) = match outcome {
                Ok(Some(opened)) => (kinds[index], opened),
                Ok(None) | Err(_) => return outcomes.push(SettledText::Encrypted),
            };
            if scheme == Scheme::Symmetric {
                skipped += 1;
                return outcomes.push(SettledText::Left);
            }
            if !may_reseal {
                return outcomes.push(SettledText::Encrypted);
            }
            let value = SealedInput { value_type: opened.value_type, text: opened.text.as_bytes() };
            let start = envelopes.len();
            let key = &keys[usize::from(marking == Marking::Debug)];
            key.seal_many(Some(&metadata), (&[value], bindings.from(index)), scratch, envelopes, |_, _, _| ())
                .expect("a symmetric key is never used up");
            resealed += 1;
            outcomes.push(SettledText::Resealed(start..envelopes.len()));
        })?;
        settled.done = done;
        self.tally.add_skipped(skipped);
        self.tally.add_rewrapped(resealed);
        self.count(ValueCounts::of(Scheme::Symmetric, resealed));
        Ok(settled)
    }

    /// Whether envelopes to a public key are resealed, and not skipped.
    pub(crate) fn reseals(&self) -> bool {
        self.reseals
    }

    /// Whether the app opens what resealing makes. If not, envelopes to a public key are encrypted again: a layer of them comes off.
    pub(crate) fn may_reseal(&self) -> bool {
        self.reseals && self.permit.app.accepted().from_public_key
    }

    /// The metadata of values that are resealed now: what rewrapping gives them.
    pub(crate) fn resealed_metadata(&self) -> Metadata {
        let role = self.opener.as_ref().and_then(|opener| opener.role.as_ref());
        Metadata::marked(role, ORIGIN_LEAFSEAL, self.permit.engine.now_unix_s(), true)
    }

    /// The decryptor for envelopes to skip or to reseal.
    pub(crate) fn opener(&mut self) -> Option<&mut Decryptor> {
        self.opener.as_deref_mut()
    }

    /// Counts, for the report, values that are envelopes already.
    pub(crate) fn note_sealed(&mut self, values: &[SealedInput<'_>]) {
        let is_sealed = |value: &&SealedInput<'_>| value.value_type == ValueType::String && is_sealed(value.text);
        self.tally.add_resealed(values.iter().filter(is_sealed).count() as u64);
    }

    /// Counts values that were sealed.
    pub(crate) fn count(&mut self, counts: ValueCounts) {
        self.tally.add_symmetric(counts.symmetric);
        self.permit.engine.count_sealed(counts);
    }

    /// Whether the engine's settings leave the value unchanged.
    pub fn leaves(&self, value: &SealedInput<'_>) -> bool {
        self.permit.engine.settings().empty_strings == EmptyStrings::Leave
            && value.value_type == ValueType::String
            && value.text.is_empty()
    }

    /// Appends the envelope of every value to `out`; before each, `before(index, envelope size, out)` may append bytes in between.
    ///
    /// # Errors
    /// The permission to encrypt, or the app's keys, were revoked since the last call; or the store does not respond.
    pub fn encrypt(
        &mut self,
        values: &[SealedInput<'_>],
        out: &mut Vec<u8>,
        before: impl FnMut(usize, usize, &mut Vec<u8>),
    ) -> Result<(), Error> {
        self.encrypt_bound(values, None, out, before)
    }

    /// The same for values with their `own` bindings, one for each or more, if the request binds each to its own.
    ///
    /// # Errors
    /// As [`Encryptor::encrypt`]; bindings where the request has one for all, or none where it does not.
    pub fn encrypt_bound(
        &mut self,
        values: &[SealedInput<'_>],
        own: OwnBindings<'_>,
        out: &mut Vec<u8>,
        mut before: impl FnMut(usize, usize, &mut Vec<u8>),
    ) -> Result<(), Error> {
        self.binding.of(own)?;
        self.renew()?;
        if self.keying == Keying::Field && is_inline() && self.target.agrees() {
            return Err(Error::handed_over());
        }
        if self.keying == Keying::Field
            && let Some((recipient, profile)) = self.with_table()
        {
            self.note_sealed(values);
            let (ec, mut rng) = (self.permit.engine.ec(), fresh_random());
            let Self { metadata, scratch, .. } = self;
            seal_each(&ec, &recipient, profile, metadata.as_ref(), values, &mut rng, scratch, out, before);
            self.count(ValueCounts::of(Scheme::PublicKey, values.len() as u64));
            return Ok(());
        }
        let (mut done, mut sealed) = (0, ValueCounts::default());
        while done < values.len() {
            let key = self.key()?;
            let count = usize::try_from(key.values_left()).unwrap_or(usize::MAX).min(values.len() - done);
            let part = &values[done..done + count];
            let shifted = |index: usize, size: usize, out: &mut Vec<u8>| before(done + index, size, out);
            let metadata = self.metadata.as_ref();
            let bindings = self.binding.of(own)?.from(done);
            match key.seal_many(metadata, (part, bindings), &mut self.scratch, out, shifted) {
                Ok(()) => {
                    done += count;
                    sealed.add(ValueCounts::of(key.scheme(), count as u64));
                }
                // Another request of the session used up the key: the next iteration gets a fresh one.
                Err(_) => self.key = None,
            }
        }
        // Last: a step that is handed over is repeated.
        self.note_sealed(values);
        self.count(sealed);
        Ok(())
    }

    /// The same for texts that were settled: those with an envelope get that one.
    ///
    /// # Errors
    /// As [`Encryptor::encrypt_bound`].
    pub fn encrypt_settled(
        &mut self,
        SettledValues { values, own, envelopes }: SettledValues<'_>,
        out: &mut Vec<u8>,
        mut before: impl FnMut(usize, usize, &mut Vec<u8>),
    ) -> Result<(), Error> {
        if envelopes.is_empty() {
            return self.encrypt_bound(values, own, out, before);
        }
        let envelope_at = |index: usize| envelopes.get(index).copied().flatten();
        let mut done = 0;
        while done < values.len() {
            if let Some(envelope) = envelope_at(done) {
                before(done, envelope.len(), out);
                out.extend_from_slice(envelope);
                done += 1;
                continue;
            }
            let count = (done..values.len()).take_while(|&index| envelope_at(index).is_none()).count();
            let own = own.map(|own| &own[done..]);
            let shifted = |index: usize, size: usize, out: &mut Vec<u8>| before(done + index, size, out);
            self.encrypt_bound(&values[done..done + count], own, out, shifted)?;
            done += count;
        }
        Ok(())
    }

    pub(crate) fn renew(&mut self) -> Result<(), Error> {
        if self.permit.renew()? == Renewal::Renewed {
            self.target.renewed(&self.permit.app)?;
            self.key = None;
            self.debug_key = None;
        }
        Ok(())
    }

    /// The recipient of a value and its profile, where each value costs an agreement; keeps its table once there is one.
    fn with_table(&mut self) -> Option<(Arc<Recipient>, Profile)> {
        let SealingTarget::PublicKey { recipient, profile, table } = &mut self.target else { return None };
        if let Some(recipient) = table {
            return Some((Arc::clone(recipient), *profile));
        }
        let recipient = self.permit.engine.recipient(recipient);
        *table = recipient.has_table().then(|| Arc::clone(&recipient));
        Some((recipient, *profile))
    }

    /// The current key, unless it is used up. A session's key is requested again in each step, so that its age limit applies within a
    /// request; with keying per value each value has its own.
    ///
    /// # Errors
    /// A key would have to be made in an inline slice; the app has no symmetric key any more.
    pub(crate) fn key(&mut self) -> Result<ValueSealing, Error> {
        let Permit { engine, app, .. } = &self.permit;
        let is_kept = self.keying == Keying::Request || !self.target.agrees();
        if let Some(key) = self.key.as_ref().filter(|key| is_kept && key.values_left() > 0) {
            return Ok(key.clone());
        }
        let key = self.target.key(engine, app, self.keying)?;
        self.key = is_kept.then(|| key.clone());
        Ok(key)
    }

    /// The key for a value that was resealed, marked as its envelope was.
    ///
    /// # Errors
    /// As [`Encryptor::key`].
    pub(crate) fn resealing_key(&mut self, marking: Marking) -> Result<ValueSealing, Error> {
        if marking == Marking::Live {
            return self.key();
        }
        if let Some(key) = &self.debug_key {
            return Ok(key.clone());
        }
        let Permit { engine, app, .. } = &self.permit;
        let key = self.target.marked(marking).key(engine, app, self.keying)?;
        Ok(self.debug_key.insert(key).clone())
    }
}
