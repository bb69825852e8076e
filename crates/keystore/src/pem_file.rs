//! Reads the files of keys that are imported.

use std::fs::File;
use std::path::Path;

use leafseal_crypto::{Curve, EcContext, PrivateKey};

use crate::escrow_fault::EscrowFault;
use crate::escrowed::{ESCROWED_SIZE_MAX, EscrowedVersion};
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

/// Reads the key version in a file, as an export has it.
///
/// # Errors
/// [`StoreError::Io`], [`StoreError::Escrow`].
pub fn read_escrowed_version(path: &Path, context: &EcContext) -> Result<EscrowedVersion, StoreError> {
    let file = File::open(path).map_err(StoreError::io(path))?;
    let content = files::read_secret(file, path, ESCROWED_SIZE_MAX)?.ok_or(EscrowFault::NoStatement)?;
    let text = std::str::from_utf8(&content).map_err(|_| EscrowFault::NoStatement)?;
    Ok(EscrowedVersion::parse(text, context)?)
}
