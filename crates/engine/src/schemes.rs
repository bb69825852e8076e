//! Which schemes a request accepts.

use leafseal_envelope::{Envelope, OpenError, OpenedMetadata, OpenedValue, Scheme};
pub use leafseal_keystore::AcceptedSchemes;

use crate::bindings::BindingWish;
use crate::engine::permit::Permit;

/// Which envelopes a request decrypts: those that its app, its caller's permissions and the request itself accept.
#[derive(Clone, Copy)]
pub(crate) struct Acceptance {
    asked: AcceptedSchemes,
    current: AcceptedSchemes,
}

impl Acceptance {
    pub(crate) fn new(asked: AcceptedSchemes, permit: &Permit) -> Self {
        Self { asked, current: asked.and(permit.accepted()) }
    }

    /// The same request under its permit as it is now.
    pub(crate) fn renewed(self, permit: &Permit) -> Self {
        Self::new(self.asked, permit)
    }

    /// Whether it accepts some envelopes of this scheme.
    pub(crate) fn accepts(self, scheme: Scheme) -> bool {
        match scheme {
            Scheme::PublicKey => self.current.public_key,
            Scheme::Symmetric => self.current.symmetric || self.current.from_public_key,
        }
    }

    /// Whether it accepts a file of this scheme. None is resealed.
    pub(crate) fn accepts_file(self, scheme: Scheme) -> bool {
        match scheme {
            Scheme::PublicKey => self.current.public_key,
            Scheme::Symmetric => self.current.symmetric,
        }
    }

    /// Returns an opened symmetric envelope if it accepts that one.
    ///
    /// # Errors
    /// As for a wrong tag.
    pub(crate) fn check<'s>(self, opened: OpenedValue<'s>) -> Result<OpenedValue<'s>, OpenError> {
        self.check_metadata(opened.metadata)?;
        Ok(opened)
    }

    /// [`Acceptance::check`] for a value of which the metadata alone is at hand.
    pub(crate) fn check_metadata(self, metadata: Option<OpenedMetadata<'_>>) -> Result<(), OpenError> {
        let is_accepted = match metadata.is_some_and(|metadata| metadata.is_from_public_key) {
            true => self.current.from_public_key,
            false => self.current.symmetric,
        };
        if is_accepted { Ok(()) } else { Err(OpenError::DecryptFailed) }
    }
}

/// What a request accepts that asks for this, or for nothing. Where values are bound, nothing means symmetric envelopes of values
/// alone: one to a public key is bound to nothing, and one that was made of it is bound to whatever place it was found in. Who can
/// write a value could put such an envelope where a bound one belongs.
pub(crate) fn accepted(asked: Option<AcceptedSchemes>, wish: BindingWish<'_>) -> AcceptedSchemes {
    const BOUND: AcceptedSchemes = AcceptedSchemes { public_key: false, symmetric: true, from_public_key: false };
    asked.unwrap_or(if wish.is_bound() { BOUND } else { AcceptedSchemes::ALL })
}

/// Whether a text is a symmetric envelope, by its form.
pub(crate) fn is_symmetric(text: &[u8]) -> bool {
    Envelope::parse(text).is_ok_and(|envelope| envelope.scheme() == Scheme::Symmetric)
}
