//! The keys that a request seals with, of either scheme.

use std::sync::Arc;

use leafseal_crypto::random::system_random;
use leafseal_crypto::symmetric::SymmetricKey;
use leafseal_crypto::{Curve, PublicKey, Recipient};
use leafseal_envelope::{
    Binding, Bindings, KeySpent, LongSealing, Marking, Metadata, NoncePrefixes, Profile, Scheme, SealScratch,
    SealedInput, SealingKey, SymmetricProfile, SymmetricSealing, SymmetricVersion, ValueType,
};
use leafseal_pool::is_inline;

use crate::app::App;
use crate::bindings::BindingWish;
use crate::engine::Engine;
use crate::error::{Error, ErrorCode};
use crate::settings::Keying;

/// A key that seals values, shared by the workers of a request.
#[derive(Clone)]
pub(crate) enum ValueSealing {
    PublicKey(Arc<SealingKey>),
    Symmetric(Arc<SymmetricSealing>),
}

impl ValueSealing {
    /// Bytes of the envelope of a text of `text_size` bytes.
    pub(crate) fn envelope_size(&self, metadata: Option<&Metadata>, value_type: ValueType, text_size: usize) -> usize {
        match self {
            Self::PublicKey(key) => key.envelope_size(metadata, value_type, text_size),
            Self::Symmetric(sealing) => sealing.envelope_size(metadata, value_type, text_size),
        }
    }

    /// Appends the envelope of every value, bound to its own binding or, of [`Bindings::One`], to that of the key; see
    /// [`SealingKey::seal_many`].
    pub(crate) fn seal_many(
        &self,
        metadata: Option<&Metadata>,
        (values, bindings): (&[SealedInput<'_>], Bindings<'_>),
        scratch: &mut SealScratch,
        out: &mut Vec<u8>,
        before: impl FnMut(usize, usize, &mut Vec<u8>),
    ) -> Result<(), KeySpent> {
        let rng = &mut system_random();
        match self {
            Self::PublicKey(key) => key.seal_many(metadata, rng, values, scratch, out, before),
            Self::Symmetric(sealing) => {
                match bindings {
                    Bindings::One(_) => sealing.seal_many(metadata, rng, values, scratch, out, before),
                    Bindings::Each(own) => sealing.seal_bound(metadata, rng, (values, own), scratch, out, before),
                }
                Ok(())
            }
        }
    }

    /// Begins the envelope of a value in pieces.
    pub(crate) fn seal_long(
        &self,
        metadata: Option<&Metadata>,
        value_type: ValueType,
        bindings: Bindings<'_>,
        out: &mut Vec<u8>,
    ) -> Result<LongSealing, KeySpent> {
        let rng = &mut system_random();
        match self {
            Self::PublicKey(key) => key.seal_long(metadata, rng, value_type, out),
            Self::Symmetric(sealing) => {
                let own = matches!(bindings, Bindings::Each(_)).then(|| bindings.at(0));
                Ok(sealing.seal_long(metadata, rng, value_type, own, out))
            }
        }
    }

    /// The scheme of its envelopes.
    pub(crate) fn scheme(&self) -> Scheme {
        match self {
            Self::PublicKey(_) => Scheme::PublicKey,
            Self::Symmetric(_) => Scheme::Symmetric,
        }
    }

    /// How many more values it may seal.
    pub(crate) fn values_left(&self) -> u64 {
        match self {
            Self::PublicKey(key) => key.values_left(),
            Self::Symmetric(_) => u64::MAX,
        }
    }
}

/// What the values of an encryption are sealed with.
#[derive(Clone)]
pub(crate) enum SealingTarget {
    PublicKey {
        recipient: PublicKey,
        profile: Profile,
        /// The table for keying `field`.
        table: Option<Arc<Recipient>>,
    },
    Symmetric {
        profile: SymmetricProfile,
        binding: Binding,
    },
}

impl SealingTarget {
    /// By the options of a request, and the engine's settings where it has none.
    ///
    /// # Errors
    /// Options that do not go together; the app has no symmetric key, or accepts no such envelopes.
    pub(crate) fn new(
        engine: &Engine,
        app: &App,
        (scheme, curve): (Option<Scheme>, Option<Curve>),
        wish: BindingWish<'_>,
        has_metadata: bool,
    ) -> Result<Self, Error> {
        let scheme = scheme_of(engine, scheme, curve, wish.is_bound())?;
        check_opens(app, scheme)?;
        match scheme {
            Scheme::PublicKey => {
                let curve = curve.unwrap_or(engine.settings().curve);
                let profile = if has_metadata { Profile::with_metadata(curve) } else { Profile::plain(curve) };
                let (version, recipient) = app.encrypting(curve);
                engine.note_version(version);
                Ok(Self::PublicKey { recipient: *recipient, profile, table: None })
            }
            Scheme::Symmetric => {
                engine.note_version(app.newest_symmetric()?.0);
                let profile = SymmetricProfile { version: SymmetricVersion::of(has_metadata), marking: Marking::Live };
                Ok(Self::Symmetric { profile, binding: wish.binding(engine.settings())?.one() })
            }
        }
    }

    /// The same after the app's keys, or what it accepts, have changed.
    ///
    /// # Errors
    /// The app accepts no such envelopes any more.
    pub(crate) fn renewed(&mut self, app: &App) -> Result<(), Error> {
        check_opens(app, if self.agrees() { Scheme::PublicKey } else { Scheme::Symmetric })?;
        if let Self::PublicKey { recipient, table, .. } = self {
            *recipient = *app.encrypting(recipient.curve()).1;
            *table = None;
        }
        Ok(())
    }

    /// The same for values that are marked so; envelopes to a public key keep the marking of the request.
    pub(crate) fn marked(&self, marking: Marking) -> Self {
        match self {
            Self::Symmetric { profile, binding } => {
                Self::Symmetric { profile: SymmetricProfile { marking, ..*profile }, binding: binding.clone() }
            }
            Self::PublicKey { .. } => self.clone(),
        }
    }

    /// Whether a key of a public-key value costs a key agreement.
    pub(crate) fn agrees(&self) -> bool {
        matches!(self, Self::PublicKey { .. })
    }

    /// A key for the values of a request.
    ///
    /// # Errors
    /// The app has no symmetric key any more; a key would have to be made in an inline slice.
    pub(crate) fn key(&self, engine: &Engine, app: &App, keying: Keying) -> Result<ValueSealing, Error> {
        match self {
            Self::PublicKey { recipient, profile, .. } if is_inline() => {
                // Other keys are made in batches, for which requests had better arrive at the workers together.
                let known = (keying == Keying::Session).then(|| engine.known_session_key(recipient, *profile));
                known.flatten().map(ValueSealing::PublicKey).ok_or_else(Error::handed_over)
            }
            Self::PublicKey { recipient, profile, .. } => Ok(ValueSealing::PublicKey(match keying {
                Keying::Session => engine.session_key(recipient, *profile),
                Keying::Field | Keying::Request => engine.request_key(recipient, *profile),
            })),
            Self::Symmetric { profile, binding } => {
                let (_, key) = app.newest_symmetric()?;
                Ok(ValueSealing::Symmetric(symmetric_sealing(key, *profile, binding, keying)))
            }
        }
    }
}

/// The nonces of a session are those of a request: there is no agreement to share.
pub(crate) fn symmetric_sealing(
    key: Arc<SymmetricKey>,
    profile: SymmetricProfile,
    binding: &Binding,
    keying: Keying,
) -> Arc<SymmetricSealing> {
    let prefixes = if keying == Keying::Field { NoncePrefixes::Each } else { NoncePrefixes::One };
    Arc::new(SymmetricSealing::new(key, profile, binding, prefixes, &mut system_random()))
}

/// Refuses to seal what the app does not accept: nobody could open it.
fn check_opens(app: &App, scheme: Scheme) -> Result<(), Error> {
    let accepted = app.accepted();
    match scheme {
        Scheme::PublicKey if !accepted.public_key => Err(not_accepted(app, "public-key")),
        Scheme::Symmetric if !accepted.symmetric => Err(not_accepted(app, "symmetric")),
        _ => Ok(()),
    }
}

/// The error of a request that would seal such envelopes. `kind`: as `leafseal keys accept` names it.
pub(crate) fn not_accepted(app: &App, kind: &str) -> Error {
    let message = format!(
        "app {} accepts no {kind} envelopes, so that nobody could decrypt these: use another scheme, or accept them with \
         leafseal keys accept",
        app.name
    );
    Error::new(ErrorCode::InvalidParams, message)
}

/// The error of a request that names a curve for symmetric envelopes.
pub(crate) fn curve_with_symmetric() -> Error {
    Error::new(ErrorCode::InvalidParams, "curve belongs to the scheme public-key: leave it out, or use that scheme")
}

/// A curve is a wish for a public key.
pub(crate) fn scheme_of(
    engine: &Engine,
    scheme: Option<Scheme>,
    curve: Option<Curve>,
    is_bound: bool,
) -> Result<Scheme, Error> {
    let scheme = match (scheme, curve) {
        (Some(Scheme::Symmetric), Some(_)) => {
            return Err(curve_with_symmetric());
        }
        (Some(scheme), _) => scheme,
        (None, Some(_)) => Scheme::PublicKey,
        (None, None) => engine.settings().scheme,
    };
    match (scheme, is_bound) {
        (Scheme::PublicKey, true) => {
            let message = "envelopes to a public key are bound to nothing: use the scheme symmetric, or leave out what binds them";
            Err(Error::new(ErrorCode::InvalidParams, message))
        }
        _ => Ok(scheme),
    }
}
