//! What a person gives to open a store: a passphrase, or shares, one per line.

use std::path::Path;

use crate::StoreError;
use crate::error::UnsealError;
use crate::files::read_private_file;
use crate::secret_path::SecretPath;
use crate::slots::{KeyShare, Passphrase, ShamirKey, SlotProvider};

/// Longest text in bytes: room for all shares of a slot.
pub const UNSEAL_SIZE_MAX: usize = 8192;

/// What a text is, by its first word.
pub enum UnsealText {
    /// A passphrase.
    Passphrase(Passphrase),
    /// Shares: at least one.
    Shares(Vec<KeyShare>),
}

impl UnsealText {
    /// Reads a text.
    ///
    /// # Errors
    /// [`UnsealError`], which holds nothing of the text.
    pub fn read(text: &str) -> Result<Self, UnsealError> {
        if text.len() > UNSEAL_SIZE_MAX {
            return Err(UnsealError::TooLong);
        }
        let mut lines = text.lines().map(str::trim_ascii).filter(|line| !line.is_empty()).peekable();
        let first = lines.peek().ok_or(UnsealError::Empty)?;
        if !first.starts_with("leafseal-share-") {
            return Ok(Self::Passphrase(Passphrase::new(text)?));
        }
        Ok(Self::Shares(lines.map(KeyShare::from_text).collect::<Result<_, _>>()?))
    }

    /// What opens a slot, if nothing is missing.
    fn provider(self) -> Result<Box<dyn SlotProvider>, UnsealError> {
        Ok(match self {
            Self::Passphrase(passphrase) => Box::new(passphrase),
            Self::Shares(shares) => Box::new(ShamirKey::from_shares(&shares)?),
        })
    }
}

/// Reads such a text from a regular file that only its owner may reach.
///
/// # Errors
/// As [`LocalRootKey::read_file`](crate::LocalRootKey::read_file), and [`UnsealError`].
pub fn read_unseal_file(path: &Path) -> Result<Box<dyn SlotProvider>, StoreError> {
    let content = read_private_file(SecretPath::UnsealFile, path, UNSEAL_SIZE_MAX)?.ok_or(UnsealError::TooLong)?;
    let text = std::str::from_utf8(&content).map_err(|_| UnsealError::Text)?;
    Ok(UnsealText::read(text)?.provider()?)
}
