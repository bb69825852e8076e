//! Canaries: envelopes that nobody has a reason to open. Every envelope that is opened passes here, and all alike: an app without canaries
//! costs one branch, one with them the digest of what identifies the envelope and a comparison with each of them, hit or not.

use leafseal_envelope::file::EncryptedFile;
use leafseal_envelope::{Envelope, PublicKeyEnvelope, SymmetricEnvelope};
use leafseal_keystore::CanarySet;

use crate::app::{App, CachedAppKeys};

/// Bytes of what identifies an envelope, at most: a letter, the X coordinate of an ephemeral key and a nonce.
const IDENTITY_SIZE_MAX: usize = 1 + 32 + 12;

/// An envelope that was opened, by what identifies it.
#[derive(Debug, Clone, Copy)]
pub(crate) enum OpenedEnvelope<'e> {
    PublicKey {
        ephemeral: &'e [u8; 33],
        nonce: &'e [u8; 12],
    },
    Symmetric {
        key_id: &'e [u8; 16],
        nonce: &'e [u8; 24],
    },
    /// A file with a symmetric key, which no value has: it is never a canary.
    SymmetricFile,
}

impl<'e> From<&'e EncryptedFile<'_>> for OpenedEnvelope<'e> {
    /// To a public key, a value without metadata opens as a file, too.
    fn from(file: &'e EncryptedFile<'_>) -> Self {
        match file {
            EncryptedFile::PublicKey(file) => Self::PublicKey { ephemeral: &file.ephemeral, nonce: &file.iv },
            EncryptedFile::Symmetric(_) => Self::SymmetricFile,
        }
    }
}

impl<'e> From<&'e PublicKeyEnvelope<'_>> for OpenedEnvelope<'e> {
    fn from(envelope: &'e PublicKeyEnvelope<'_>) -> Self {
        Self::PublicKey { ephemeral: &envelope.ephemeral, nonce: &envelope.iv }
    }
}

impl<'e> From<&'e SymmetricEnvelope<'_>> for OpenedEnvelope<'e> {
    fn from(envelope: &'e SymmetricEnvelope<'_>) -> Self {
        Self::Symmetric { key_id: &envelope.key_id.0, nonce: &envelope.nonce.0 }
    }
}

impl<'e> From<&'e Envelope<'_>> for OpenedEnvelope<'e> {
    fn from(envelope: &'e Envelope<'_>) -> Self {
        match envelope {
            Envelope::PublicKey(envelope) => envelope.into(),
            Envelope::Symmetric(envelope) => envelope.into(),
        }
    }
}

impl OpenedEnvelope<'_> {
    /// What identifies it. Whatever else of an envelope is changed, it does not open. Of the ephemeral key that is its X coordinate: some
    /// versions derive their key from that of the shared point alone, and bind nothing, so that the envelope opens with either point.
    fn identity(self, bytes: &mut [u8; IDENTITY_SIZE_MAX]) -> &[u8] {
        let (label, parts): (u8, [&[u8]; 2]) = match self {
            Self::PublicKey { ephemeral, nonce } => (b'p', [&ephemeral[1..], nonce]),
            Self::Symmetric { key_id, nonce } => (b's', [key_id, nonce]),
            Self::SymmetricFile => return &[],
        };
        let size = 1 + parts[0].len() + parts[1].len();
        bytes[0] = label;
        bytes[1..][..parts[0].len()].copy_from_slice(parts[0]);
        bytes[1 + parts[0].len()..size].copy_from_slice(parts[1]);
        &bytes[..size]
    }
}

/// What identifies an envelope, for [`StoreCanaries::add_canary`](leafseal_keystore::StoreCanaries::add_canary), and its scheme by name;
/// `None` for a text that is no envelope.
pub fn canary_identity(text: &[u8]) -> Option<(Vec<u8>, &'static str)> {
    let envelope = Envelope::parse(text).ok()?;
    let scheme = if matches!(envelope, Envelope::PublicKey(_)) { "public-key" } else { "symmetric" };
    Some((OpenedEnvelope::from(&envelope).identity(&mut [0; IDENTITY_SIZE_MAX]).to_vec(), scheme))
}

impl App {
    fn canaries(&self) -> Option<&CanarySet> {
        match &self.keys {
            CachedAppKeys::Pairs { keys, .. } => keys.canaries.as_deref(),
            CachedAppKeys::Public(_) => None,
        }
    }

    /// Whether an envelope that was opened is a canary; `None` if the app has none.
    #[inline]
    pub(crate) fn is_canary(&self, opened: OpenedEnvelope<'_>) -> Option<bool> {
        self.canaries().map(|canaries| canaries.has(opened.identity(&mut [0; IDENTITY_SIZE_MAX])))
    }
}
