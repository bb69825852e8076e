//! Encryption of values: an [`Encryptor`] is one request's permission to encrypt for an app, with its keying.

use std::sync::Arc;

use leafseal_crypto::random::fresh_random;
use leafseal_crypto::{Curve, Recipient};
use leafseal_envelope::{
    Envelope, Metadata, ORIGIN_LEAFSEAL, Profile, Role, Scheme, SealScratch, SealedInput, ValueType, seal_each,
};
use leafseal_pool::is_inline;

use crate::bindings::{BindingWish, OwnBindings, PathBinding, RequestBinding};
use crate::cost;
use crate::decrypt::{DecryptOptions, Decryptor};
use crate::engine::Engine;
use crate::engine::permit::{Permit, Renewal};
use crate::error::Error;
use crate::permissions::{Caller, Operation};
use crate::report::{OnFailure, RequestReport, Tally};
use crate::schemes::AcceptedSchemes;
use crate::sealing::{SealingTarget, ValueSealing};
use crate::settings::{EmptyStrings, Keying};

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
    /// The schemes of the envelopes that are skipped; see [`DecryptOptions::accept`].
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
            accept: None,
        }
    }

    /// What binds the values.
    pub(crate) fn wish(&self) -> BindingWish<'a> {
        let Self { context, context_select, bind, has_contexts, .. } = *self;
        BindingWish { context, context_select, bind, has_contexts }
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
    /// Decrypts values that are already encrypted, if such are skipped.
    opener: Option<Box<Decryptor>>,
    tally: Tally,
}

/// The decision about some of the texts, if envelopes that decrypt are skipped.
pub struct Settled {
    /// The number of decided texts; the others wait for the next step.
    pub done: usize,
    left: Vec<bool>,
}

impl Settled {
    /// This many texts, none of which is skipped.
    pub fn all(count: usize) -> Self {
        Self { done: count, left: Vec::new() }
    }

    /// Whether the text at `index` stays unchanged.
    pub fn leaves(&self, index: usize) -> bool {
        self.left.get(index).is_some_and(|&left| left)
    }
}

/// Whether a text has the form of an envelope, whether or not it decrypts.
pub(crate) fn is_sealed(text: &[u8]) -> bool {
    text.starts_with(MARK) && Envelope::parse(text).is_ok()
}

/// The first bytes of every envelope: checked first, because most texts differ there.
const MARK: &[u8] = b"ev:";

impl Engine {
    /// Starts encrypting. `skip_sealed` reveals which envelopes decrypt, so it requires the permission to decrypt, too.
    ///
    /// # Errors
    /// Forbidden, unknown app, disabled app, invalid role, store unavailable.
    pub fn encryptor(&self, caller: &Caller, options: &EncryptOptions<'_>) -> Result<Encryptor, Error> {
        const ENCRYPT: &[Operation] = &[Operation::Encrypt];
        const BOTH: &[Operation] = &[Operation::Encrypt, Operation::Decrypt];
        let operations = if options.skip_sealed { BOTH } else { ENCRYPT };
        let permit = Permit::new(self, caller, operations, options.app)?;
        let opener = match options.skip_sealed {
            true => {
                let EncryptOptions { app, role, context, context_select, bind, has_contexts, .. } = *options;
                let options = DecryptOptions {
                    app,
                    role,
                    context,
                    context_select,
                    bind,
                    has_contexts,
                    accept: options.accept,
                    on_failure: OnFailure::Leave,
                };
                Some(Box::new(Decryptor::new(permit.probe(), &options)?))
            }
            false => None,
        };
        let role = options.role.map(Role::parse).transpose()?;
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
            tally: self.tally.fork(),
            keying: self.keying,
        })
    }

    /// Whether envelopes that decrypt are skipped.
    pub fn skips_sealed(&self) -> bool {
        self.opener.is_some()
    }

    /// The report so far.
    pub fn report(&self) -> RequestReport {
        self.tally.report()
    }

    /// Decides which texts are skipped because they are envelopes that decrypt: as many from the front as fit into a step, which may be
    /// none if a version of the app's keys was tried without success. If nothing is to be skipped all are decided at once.
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
        let mut left = Vec::with_capacity(sealed);
        let done = opener.open_texts_bound(&texts[..sealed], own, |_, outcome| {
            left.push(matches!(outcome, Ok(Some(_))));
        })?;
        self.tally.add_skipped(left.iter().filter(|&&left| left).count() as u64);
        Ok(Settled { done, left })
    }

    /// The decryptor for envelopes to skip, and the tally.
    pub(crate) fn opener(&mut self) -> (Option<&mut Decryptor>, &mut Tally) {
        (self.opener.as_deref_mut(), &mut self.tally)
    }

    /// Counts, for the report, values that are envelopes already.
    pub(crate) fn note_sealed(&mut self, values: &[SealedInput<'_>]) {
        let is_sealed = |value: &&SealedInput<'_>| value.value_type == ValueType::String && is_sealed(value.text);
        self.tally.add_resealed(values.iter().filter(is_sealed).count() as u64);
    }

    /// Counts, for the report, values that were sealed with a symmetric key.
    pub(crate) fn note_symmetric(&mut self, count: usize) {
        self.tally.add_symmetric(count as u64);
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
            return Ok(());
        }
        let (mut done, mut symmetric) = (0, 0);
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
                    symmetric += if key.is_symmetric() { count } else { 0 };
                }
                // Another request of the session used up the key: the next iteration gets a fresh one.
                Err(_) => self.key = None,
            }
        }
        // Last: a step that is handed over is repeated.
        self.note_sealed(values);
        self.note_symmetric(symmetric);
        Ok(())
    }

    pub(crate) fn renew(&mut self) -> Result<(), Error> {
        if self.permit.renew()? == Renewal::Renewed {
            self.target.renewed(&self.permit.app);
            self.key = None;
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
}
