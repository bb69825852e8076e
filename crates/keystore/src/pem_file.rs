//! Reads the files of keys that are imported.

use std::fs::File;
use std::path::Path;

use leafseal_crypto::{Curve, EcContext, PrivateKey};

use crate::escrowed::{ESCROWED_SIZE_MAX, EscrowFault, UnverifiedRoot};
use crate::pem::{ImportError, PEM_SIZE_MAX, parse_private_key_pem};
use crate::{StoreError, files};

/// Reads the one private key in a PEM file of at most [`PEM_SIZE_MAX`] bytes.
///
/// # Errors
/// [`Error::Io`], and as [`parse_private_key_pem`].
pub fn read_private_key_pem(path: &Path, curve: Curve, context: &EcContext) -> Result<PrivateKey, StoreError> {
    // The user who imports a key is responsible for its origin: a pipe from another program is as good as a file.
    let file = File::open(path).map_err(StoreError::io(path))?;
    let content = files::read_secret(file, path, PEM_SIZE_MAX)?.ok_or(ImportError::TooLarge)?;
    let text = std::str::from_utf8(&content).map_err(|_| ImportError::NotText)?;
    Ok(parse_private_key_pem(text, curve, context)?)
}

/// Reads the symmetric root in a file, as an export has it.
///
/// # Errors
/// [`StoreError::Io`], [`StoreError::Escrow`].
pub fn read_escrowed_root(path: &Path) -> Result<UnverifiedRoot, StoreError> {
    let file = File::open(path).map_err(StoreError::io(path))?;
    let content = files::read_secret(file, path, ESCROWED_SIZE_MAX)?.ok_or(EscrowFault::Text)?;
    let text = std::str::from_utf8(&content).map_err(|_| EscrowFault::Text)?;
    Ok(UnverifiedRoot::parse(text)?)
}
