//! Encrypting values: an [`Encryptor`] is one request's right to encrypt for an app, with the keying that it asked for.

use std::sync::Arc;

use fieldseal_crypto::{Curve, PublicKey, Recipient};
use fieldseal_envelope::{
    Metadata, ORIGIN_FIELDSEAL, Profile, Role, SealScratch, SealingKey, Value, ValueType, seal_each,
};

use crate::cost;
use crate::engine::Engine;
use crate::error::Error;
use crate::permit::{Permit, Renewal};
use crate::policy::{Act, Caller};
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
}

impl<'a> EncryptOptions<'a> {
    /// For `app`, by the engine's settings, without a role.
    pub fn new(app: &'a str) -> Self {
        Self { app, curve: None, keying: None, role: None }
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
}

impl Engine {
    /// Begins to encrypt.
    ///
    /// # Errors
    /// Forbidden, unknown app, disabled app, invalid role, store unavailable.
    pub fn encryptor(&self, caller: &Caller, options: &EncryptOptions<'_>) -> Result<Encryptor, Error> {
        let permit = Permit::new(self, caller, &[Act::Encrypt], options.app)?;
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
            ..*self
        })
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
