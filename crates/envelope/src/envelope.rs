//! An envelope of either scheme.

use crate::format::PublicKeyEnvelope;
use crate::parts::{CiphertextText, Head, Malformed, Marking, ValueType};
use crate::symmetric::SymmetricEnvelope;
use crate::versions::{Scheme, SymmetricVersion, Version};

/// An envelope taken apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Envelope<'a> {
    /// To a public key.
    PublicKey(PublicKeyEnvelope<'a>),
    /// With a symmetric key.
    Symmetric(SymmetricEnvelope<'a>),
}

impl<'a> Envelope<'a> {
    /// Takes `text` apart. Of the ciphertext only the length is checked here.
    ///
    /// # Errors
    /// [`Malformed`], which depends on the text alone.
    pub fn parse(text: &'a [u8]) -> Result<Self, Malformed> {
        let head = Head::split(text)?;
        if let Some(version) = Version::from_text(head.label) {
            return PublicKeyEnvelope::after(&head, version).map(Self::PublicKey);
        }
        let version = SymmetricVersion::from_text(head.label).ok_or(Malformed::UnknownVersion)?;
        SymmetricEnvelope::after(&head, text, version).map(Self::Symmetric)
    }

    /// Its scheme.
    pub fn scheme(&self) -> Scheme {
        match self {
            Self::PublicKey(_) => Scheme::PublicKey,
            Self::Symmetric(_) => Scheme::Symmetric,
        }
    }

    /// The four characters of its version.
    pub fn version_text(&self) -> &'static str {
        match self {
            Self::PublicKey(envelope) => envelope.version.text(),
            Self::Symmetric(envelope) => envelope.version.text(),
        }
    }

    /// The type that the text states. Only a symmetric envelope, and one with metadata, authenticate it.
    pub fn value_type(&self) -> ValueType {
        match self {
            Self::PublicKey(envelope) => envelope.value_type,
            Self::Symmetric(envelope) => envelope.value_type,
        }
    }

    /// Live or debug.
    pub fn marking(&self) -> Marking {
        match self {
            Self::PublicKey(envelope) => envelope.marking,
            Self::Symmetric(envelope) => envelope.marking,
        }
    }

    /// Whether metadata precedes the text.
    pub fn has_metadata(&self) -> bool {
        match self {
            Self::PublicKey(envelope) => envelope.version.has_metadata(),
            Self::Symmetric(envelope) => envelope.version.has_metadata(),
        }
    }

    /// Bytes of ciphertext and tag together.
    pub fn sealed_size(&self) -> usize {
        self.ciphertext().sealed_size()
    }

    pub(crate) fn ciphertext(&self) -> CiphertextText<'a> {
        match self {
            Self::PublicKey(envelope) => envelope.ciphertext,
            Self::Symmetric(envelope) => envelope.ciphertext,
        }
    }
}
