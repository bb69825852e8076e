//! Rewrapping: what was sealed to an older key version, or in a legacy form, is opened and sealed to the newest version; type, role
//! and marking stay. What is at the newest version already stays as it is, once it has been seen to open.

use std::sync::Arc;

use fieldseal_crypto::Curve;
use fieldseal_envelope::{
    Envelope, Form, Malformed, Marking, Metadata, ORIGIN_FIELDSEAL, OpenScratch, Profile, Role, SealScratch,
    SealingKey, Value,
};
use fieldseal_keystore::Operation;

use crate::apps::App;
use crate::decrypt::check_role;
use crate::engine::Engine;
use crate::error::Error;
use crate::opening::{EphemeralId, RequestOpenings};
use crate::permit::{Permit, Renewal};
use crate::policy::Caller;

/// What a request says about its rewrapping.
#[derive(Debug, Clone, Copy)]
pub struct RewrapOptions<'a> {
    /// The app.
    pub app: &'a str,
    /// The curve of what is sealed anew; each envelope keeps its own without it.
    pub curve: Option<Curve>,
}

/// Rewraps the envelopes of one request.
pub struct Rewrapper {
    permit: Permit,
    curve: Option<Curve>,
    openings: RequestOpenings,
    keys: Vec<Arc<SealingKey>>,
    open_scratch: OpenScratch,
    seal_scratch: SealScratch,
}

impl Engine {
    /// Begins to rewrap: the caller must be allowed to encrypt and to decrypt.
    ///
    /// # Errors
    /// Forbidden, unknown app, disabled app, store unavailable.
    pub fn rewrapper(&self, caller: &Caller, options: &RewrapOptions<'_>) -> Result<Rewrapper, Error> {
        let permit = Permit::new(self, caller, &[Operation::Encrypt, Operation::Decrypt], options.app)?;
        Ok(Rewrapper {
            permit,
            curve: options.curve,
            openings: RequestOpenings::new(self.settings().request_opening_keys_max),
            keys: Vec::new(),
            open_scratch: OpenScratch::default(),
            seal_scratch: SealScratch::default(),
        })
    }
}

impl Rewrapper {
    /// How many envelopes one step should take: each may cost a key agreement.
    pub fn step_values_max(&self) -> usize {
        1
    }

    /// Appends the new envelope of `text` to `out` and gives true; or leaves `out` and gives false, when the text is no envelope
    /// or is at the newest version already.
    ///
    /// # Errors
    /// Malformed, decrypt failed, a role that the caller may not see.
    pub fn rewrap(&mut self, text: &[u8], out: &mut Vec<u8>) -> Result<bool, Error> {
        if self.permit.renew()? == Renewal::Renewed {
            self.openings = RequestOpenings::new(self.permit.engine.settings().request_opening_keys_max);
            self.keys.clear();
        }
        let envelope = match Envelope::parse(text) {
            Err(Malformed::NotAnEnvelope) => return Ok(false),
            parsed => parsed?,
        };
        let ephemeral = EphemeralId::of(&envelope);
        let Self { permit: Permit { engine, app, rights, .. }, openings, open_scratch, .. } = self;
        let opening = openings.find(ephemeral, || engine.opening(app, ephemeral))?;
        let key = opening.search(&engine.agreements(), &envelope, open_scratch)?;
        let opened = key.open(&envelope, open_scratch)?;
        check_role(rights, None, &opened)?;
        let curve = self.curve.unwrap_or(envelope.version.curve());
        let current = opened.form == Form::Standard && !envelope.version.is_legacy();
        if opening.by_newest() && current && curve == envelope.version.curve() {
            return Ok(false);
        }
        let role = opened.metadata.and_then(|metadata| metadata.role);
        let role = role.map(|role| Role::parse(role).expect("checked when it was opened"));
        // Metadata stays even without a role: the versions that have it bind type and both keys.
        let metadata = opened.metadata.map(|_| Metadata::new(role.as_ref(), ORIGIN_FIELDSEAL, engine.now_unix_s()));
        let profile = if metadata.is_some() { Profile::with_metadata(curve) } else { Profile::plain(curve) };
        let profile = if envelope.marking == Marking::Debug { profile.debug() } else { profile };
        let sealing = sealing_key(&mut self.keys, engine, app, profile);
        let value = Value { value_type: opened.value_type, text: opened.text.as_bytes() };
        sealing
            .seal_many(metadata.as_ref(), &[value], &mut self.seal_scratch, out, |_, _, _| ())
            .expect("a request's key seals 2^32 values");
        Ok(true)
    }
}

/// One key a request and profile: there are eight profiles at most.
fn sealing_key(keys: &mut Vec<Arc<SealingKey>>, engine: &Engine, app: &App, profile: Profile) -> Arc<SealingKey> {
    if let Some(key) = keys.iter().find(|key| key.profile() == profile && key.values_left() > 0) {
        return Arc::clone(key);
    }
    let recipient = app.newest(profile.version().curve()).1.public();
    let key = engine.request_key(recipient, profile);
    keys.push(Arc::clone(&key));
    key
}
