//! Which schemes a request uses and accepts, and what its values are bound to.

use leafseal_envelope::{Binding, OpenError, OpenedMetadata, OpenedValue, Scheme};

use crate::error::{Error, ErrorCode};

/// The schemes whose envelopes a request decrypts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AcceptedSchemes {
    /// Whether it accepts those to a public key, which anyone can make who has that key.
    pub public_key: bool,
    /// Whether it accepts those with a symmetric key, which only an engine makes.
    pub symmetric: bool,
    /// Whether it accepts those with a symmetric key whose value came in one to a public key, so that anyone may have made it.
    pub from_public_key: bool,
}

impl Default for AcceptedSchemes {
    /// All.
    fn default() -> Self {
        Self { public_key: true, symmetric: true, from_public_key: true }
    }
}

impl AcceptedSchemes {
    /// Whether it accepts some envelopes of this scheme.
    pub(crate) fn accepts(self, scheme: Scheme) -> bool {
        match scheme {
            Scheme::PublicKey => self.public_key,
            Scheme::Symmetric => self.symmetric || self.from_public_key,
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

    /// [`AcceptedSchemes::check`] for a value of which the metadata alone is at hand.
    pub(crate) fn check_metadata(self, metadata: Option<OpenedMetadata<'_>>) -> Result<(), OpenError> {
        let is_accepted = match metadata.is_some_and(|metadata| metadata.is_from_public_key) {
            true => self.from_public_key,
            false => self.symmetric,
        };
        if is_accepted { Ok(()) } else { Err(OpenError::DecryptFailed) }
    }
}

/// What a request accepts that asks for this, or for nothing: a public-key envelope is bound to no context, so that one who can write a
/// value could put such an envelope where a bound one belongs.
pub(crate) fn accepted(asked: Option<AcceptedSchemes>, context: Option<&str>) -> AcceptedSchemes {
    asked.unwrap_or(AcceptedSchemes { public_key: context.is_none(), ..AcceptedSchemes::default() })
}

/// What the values of a request are bound to.
pub(crate) fn binding_of(context: Option<&str>) -> Result<Binding, Error> {
    let Some(context) = context else { return Ok(Binding::default()) };
    Binding::context(context).map_err(|invalid| Error::new(ErrorCode::InvalidParams, invalid.to_string()))
}
