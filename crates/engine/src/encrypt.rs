//! Encrypting values: an [`Encryptor`] is one request's right to encrypt for an app, with the keying that it asked for.

use std::ops::ControlFlow;
use std::sync::Arc;

use fieldseal_crypto::{Curve, PublicKey, Recipient};
use fieldseal_envelope::{
    Envelope, Metadata, ORIGIN_FIELDSEAL, Profile, Role, SealScratch, SealingKey, Value, ValueType, seal_each,
};

use crate::cost;
use crate::decrypt::{DecryptOptions, Decryptor};
use crate::engine::Engine;
use crate::error::Error;
use crate::permit::{Permit, Renewal};
use crate::policy::{Act, Caller};
use crate::report::{OnFailure, Report, Tally};
use crate::settings::{EmptyStrings, Keying};

/// What a request says about its encryption. What it leaves out the engine's settings say.
#[derive(Debug, Clone, Copy)]
pub struct EncryptOptions<'a> {
    /// The app.
    pub app: &'a str,
    /// The curve.
    pub curve: Option<Curve>,
    /// How often a fresh ephemeral key is made.
    pub keying: Option<Keying>,
    /// The data role to write into each envelope.
    pub role: Option<&'a str>,
    /// Leaves alone the envelopes that the caller could decrypt under this app and role, in place of sealing them twice.
    pub skip_sealed: bool,
}

impl<'a> EncryptOptions<'a> {
    /// For `app`, by the engine's settings, without a role.
    pub fn new(app: &'a str) -> Self {
        Self { app, curve: None, keying: None, role: None, skip_sealed: false }
    }
}

/// Encrypts the values of one request.
pub struct Encryptor {
    pub(crate) permit: Permit,
    recipient: PublicKey,
    profile: Profile,
    pub(crate) metadata: Option<Metadata>,
    keying: Keying,
    key: Option<Arc<SealingKey>>,
    /// The table that keying `field` goes through.
    table: Option<Arc<Recipient>>,
    scratch: SealScratch,
    /// Opens what is sealed already, where that is left alone.
    opener: Option<Box<Decryptor>>,
    tally: Tally,
}

/// What becomes of the first of some texts that are offered, where envelopes that open are left alone.
pub struct Settled {
    /// How many texts are settled; the others wait for the next step.
    pub done: usize,
    left: Vec<bool>,
}

impl Settled {
    /// So many texts, of which none is left alone.
    pub fn all(count: usize) -> Self {
        Self { done: count, left: Vec::new() }
    }

    /// Whether the text at `index` is left as it is.
    pub fn leaves(&self, index: usize) -> bool {
        self.left.get(index).is_some_and(|&left| left)
    }
}

/// Whether a text has an envelope's form; whether it opens is not looked at.
pub(crate) fn is_sealed(text: &[u8]) -> bool {
    text.starts_with(MARK) && Envelope::parse(text).is_ok()
}

/// What every envelope begins with: looked at first, as most texts end there.
const MARK: &[u8] = b"ev:";

impl Engine {
    /// Begins to encrypt. What `skip_sealed` leaves alone says whether an envelope opens: it needs the right to decrypt, too.
    ///
    /// # Errors
    /// Forbidden, unknown app, disabled app, invalid role, store unavailable.
    pub fn encryptor(&self, caller: &Caller, options: &EncryptOptions<'_>) -> Result<Encryptor, Error> {
        let permit = Permit::new(self, caller, &[Act::Encrypt], options.app)?;
        let opener = match options.skip_sealed {
            true => {
                let options = DecryptOptions { app: options.app, role: options.role, on_failure: OnFailure::Leave };
                Some(Box::new(self.decryptor_for(caller, &options, &[Act::Encrypt, Act::Decrypt])?))
            }
            false => None,
        };
        let role = options.role.map(Role::parse).transpose()?;
        let curve = options.curve.unwrap_or(self.settings().curve);
        let profile = if role.is_some() { Profile::with_metadata(curve) } else { Profile::plain(curve) };
        Ok(Encryptor {
            recipient: *permit.app.newest(curve).1.public(),
            permit,
            profile,
            metadata: role.map(|role| Metadata::new(Some(&role), ORIGIN_FIELDSEAL, self.now_unix_s())),
            keying: options.keying.unwrap_or(self.settings().keying),
            key: None,
            table: None,
            scratch: SealScratch::default(),
            opener,
            tally: Tally::default(),
        })
    }
}

impl Encryptor {
    /// How many values one step should take: as many as keep it short.
    pub fn step_values_max(&self) -> usize {
        let values_max = self.permit.engine.settings().step_values_max.max(1);
        match self.keying {
            Keying::Field if self.table.is_some() => cost::STEP_TABLE_AGREEMENTS_MAX.min(values_max),
            Keying::Field => cost::STEP_AGREEMENTS_MAX.min(values_max),
            Keying::Request | Keying::Session => values_max,
        }
    }

    /// An encryptor of the same request for another worker: what both seal has the keys that one alone would have used. Makes the
    /// request's key if there is none yet, which costs a key agreement.
    ///
    /// # Errors
    /// As [`Encryptor::encrypt`].
    pub fn fork(&mut self) -> Result<Self, Error> {
        self.renew()?;
        if self.keying == Keying::Request {
            self.key();
        }
        Ok(Self {
            permit: self.permit.clone(),
            metadata: self.metadata.clone(),
            key: self.key.clone(),
            table: self.table.clone(),
            scratch: SealScratch::default(),
            opener: self.opener.as_mut().map(|opener| Box::new(opener.fork())),
            tally: self.tally.fork(),
            ..*self
        })
    }

    /// Whether envelopes that open are left alone.
    pub fn skips_sealed(&self) -> bool {
        self.opener.is_some()
    }

    /// What is to be reported so far.
    pub fn report(&self) -> Report {
        self.tally.report()
    }

    /// Says of texts from the first on which are left alone because they are envelopes that open: as many as fit a step, which may be
    /// none where a version of the app's keys was tried in vain. Where nothing is left alone all are settled at once.
    ///
    /// # Errors
    /// The right to decrypt, or the app's keys, were taken away since the last call; or the store does not answer.
    pub fn settle(&mut self, texts: &[&[u8]]) -> Result<Settled, Error> {
        let Some(opener) = &mut self.opener else { return Ok(Settled::all(texts.len())) };
        let plain = texts.iter().take_while(|text| !is_sealed(text)).count();
        if plain > 0 {
            return Ok(Settled::all(plain));
        }
        let sealed = texts.iter().take_while(|text| is_sealed(text)).count();
        let mut left = Vec::with_capacity(sealed);
        let done = opener.open_texts(&texts[..sealed], |_, outcome| {
            left.push(matches!(outcome, Ok(Some(_))));
            ControlFlow::Continue(())
        })?;
        self.tally.add_skipped(left.iter().filter(|&&left| left).count() as u64);
        Ok(Settled { done, left })
    }

    /// Whoever opens envelopes to leave them alone, and the tally for those.
    pub(crate) fn opener(&mut self) -> (Option<&mut Decryptor>, &mut Tally) {
        (self.opener.as_deref_mut(), &mut self.tally)
    }

    /// Counts, for the report, values that are envelopes already.
    pub(crate) fn note_sealed(&mut self, values: &[Value<'_>]) {
        let is_sealed = |value: &&Value<'_>| value.value_type == ValueType::String && is_sealed(value.text);
        self.tally.add_resealed(values.iter().filter(is_sealed).count() as u64);
    }

    /// Whether the value stays as it is by the engine's settings.
    pub fn leaves(&self, value: &Value<'_>) -> bool {
        self.permit.engine.settings().empty_strings == EmptyStrings::Leave
            && value.value_type == ValueType::String
            && value.text.is_empty()
    }

    /// Appends the envelope of every value to `out`; before each, `before(index, envelope size, out)` may append what stands
    /// between them.
    ///
    /// # Errors
    /// The right to encrypt, or the app's keys, were taken away since the last call; or the store does not answer.
    pub fn encrypt(
        &mut self,
        values: &[Value<'_>],
        out: &mut Vec<u8>,
        mut before: impl FnMut(usize, usize, &mut Vec<u8>),
    ) -> Result<(), Error> {
        self.renew()?;
        self.note_sealed(values);
        if self.keying == Keying::Field {
            let (ec, mut rng, recipient) = (self.permit.engine.ec(), self.permit.engine.rng(), self.with_table());
            let Self { profile, metadata, scratch, .. } = self;
            seal_each(&ec, &recipient, *profile, metadata.as_ref(), values, &mut rng, scratch, out, before);
            return Ok(());
        }
        let mut done = 0;
        while done < values.len() {
            let key = self.key();
            let count = usize::try_from(key.values_left()).unwrap_or(usize::MAX).min(values.len() - done);
            let part = &values[done..done + count];
            let shifted = |index: usize, size: usize, out: &mut Vec<u8>| before(done + index, size, out);
            match key.seal_many(self.metadata.as_ref(), part, &mut self.scratch, out, shifted) {
                Ok(()) => done += count,
                // Another request of the session took the rest: the next round has a fresh key.
                Err(_) => self.key = None,
            }
        }
        Ok(())
    }

    pub(crate) fn renew(&mut self) -> Result<(), Error> {
        if self.permit.renew()? == Renewal::Renewed {
            self.recipient = *self.permit.app.newest(self.recipient.curve()).1.public();
            self.key = None;
            self.table = None;
        }
        Ok(())
    }

    /// The recipient, whose table is kept once it has one.
    fn with_table(&mut self) -> Arc<Recipient> {
        if let Some(recipient) = &self.table {
            return Arc::clone(recipient);
        }
        let recipient = self.permit.engine.recipient(&self.recipient);
        self.table = recipient.has_table().then(|| Arc::clone(&recipient));
        recipient
    }

    /// The key at hand, unless it is spent. A session's is asked for anew at each step, so that its time holds within a request; a
    /// value of its own keying has its own.
    pub(crate) fn key(&mut self) -> Arc<SealingKey> {
        match self.keying {
            Keying::Session => return self.permit.engine.session_key(&self.recipient, self.profile),
            Keying::Field => return self.permit.engine.request_key(&self.recipient, self.profile),
            Keying::Request => {}
        }
        let usable = self.key.take().filter(|key| key.values_left() > 0);
        let key = usable.unwrap_or_else(|| self.permit.engine.request_key(&self.recipient, self.profile));
        Arc::clone(self.key.insert(key))
    }
}
