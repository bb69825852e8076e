//! What a person gives to open a store: a passphrase, or shares, one per line.

use std::path::Path;

use crate::StoreError;
use crate::error::UnsealError;
use crate::files::read_private_file;
use crate::secret_path::SecretPath;
use crate::slots::{KeyShare, Passphrase, ShamirKey, SlotProvider};

/// Longest text in bytes: room for all shares of a slot.
pub const UNSEAL_SIZE_MAX: usize = 8192;

/// The provider that a text is, by its first word.
///
/// # Errors
/// [`UnsealError`], which holds nothing of the text.
pub fn unseal_text(text: &str) -> Result<Box<dyn SlotProvider>, UnsealError> {
    let mut lines = text.lines().map(str::trim_ascii).filter(|line| !line.is_empty()).peekable();
    let first = lines.peek().ok_or(UnsealError::Empty)?;
    if !first.starts_with("leafseal-share-") {
        return Ok(Box::new(Passphrase::new(text)?));
    }
    let shares = lines.map(KeyShare::from_text).collect::<Result<Vec<_>, _>>()?;
    Ok(Box::new(ShamirKey::from_shares(&shares)?))
}

/// Reads such a text from a regular file that only its owner may reach.
///
/// # Errors
/// As [`LocalRootKey::read_file`](crate::LocalRootKey::read_file), and [`UnsealError`].
pub fn read_unseal_file(path: &Path) -> Result<Box<dyn SlotProvider>, StoreError> {
    let content = read_private_file(SecretPath::UnsealFile, path, UNSEAL_SIZE_MAX)?.ok_or(UnsealError::TooLong)?;
    let text = std::str::from_utf8(&content).map_err(|_| UnsealError::Text)?;
    Ok(unseal_text(text)?)
}
