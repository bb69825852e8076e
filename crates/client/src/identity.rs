//! The client's identity and the authorities that it trusts.

use std::path::{Path, PathBuf};
use std::{fmt, fs};

use thiserror::Error;
use zeroize::Zeroizing;

use crate::error::ClientError;

/// The authorities that the client trusts and its certificate and key, in PEM (RFC 7468).
#[derive(Clone, Default)]
pub struct ClientTls {
    /// The authorities whose server certificates are accepted; the system's own are not.
    pub authorities_pem: Vec<u8>,
    /// The client's certificate, then the intermediates up to its authority.
    pub certificate_chain_pem: Vec<u8>,
    /// Its private key, PKCS#8 or SEC1.
    pub private_key_pem: Zeroizing<Vec<u8>>,
    /// The files that these are from, if they are: new connections use what is in them then.
    pub files: Option<ClientTlsFiles>,
}

/// The files of [`ClientTls`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientTlsFiles {
    /// The trusted authorities.
    pub authorities: PathBuf,
    /// The client's certificate chain.
    pub certificate_chain: PathBuf,
    /// Its private key.
    pub private_key: PathBuf,
}

impl ClientTls {
    /// Reads the three files. A client with them notices renewed ones: each new connection uses what is in them then, and what it had
    /// before if that cannot be used.
    ///
    /// # Errors
    /// If one cannot be read; the message names it.
    pub fn from_files(authorities: &Path, certificate_chain: &Path, private_key: &Path) -> Result<Self, ClientError> {
        let read =
            |path: &Path| fs::read(path).map_err(|error| ClientError::settings(format!("{}: {error}", path.display())));
        Ok(ClientTls {
            authorities_pem: read(authorities)?,
            certificate_chain_pem: read(certificate_chain)?,
            private_key_pem: Zeroizing::new(read(private_key)?),
            files: Some(ClientTlsFiles {
                authorities: authorities.to_owned(),
                certificate_chain: certificate_chain.to_owned(),
                private_key: private_key.to_owned(),
            }),
        })
    }
}

/// A part of [`ClientTls`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TlsPart {
    /// The trusted authorities.
    Authorities,
    /// The client's certificate and those that lead to its authority.
    CertificateChain,
    /// The client's private key.
    PrivateKey,
}

/// Why a part of [`ClientTls`] cannot be used. Holds nothing of it.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{message}")]
pub struct TlsProblem {
    /// Which part.
    pub part: TlsPart,
    /// Why not.
    pub message: String,
}

impl fmt::Debug for ClientTls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientTls").finish_non_exhaustive()
    }
}
