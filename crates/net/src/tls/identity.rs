//! A server's identity: its certificate chain and private key, and the errors of loading them.

use std::fmt;

use boring::error::ErrorStack;
use boring::pkey::PKey;
use boring::ssl::SslContextBuilder;
use boring::x509::X509;
use thiserror::Error;
use zeroize::Zeroizing;

use super::private_key::{PrivateKeySettings, set_private_key};

/// A server's certificate chain and private key, in PEM (RFC 7468).
#[derive(Clone)]
pub struct ServerIdentity {
    /// Its certificate, then the intermediates up to its authority.
    pub certificate_chain_pem: Vec<u8>,
    /// Its private key, PKCS#8, PKCS#1 or SEC1.
    pub private_key_pem: Zeroizing<Vec<u8>>,
    /// How private-key operations are computed.
    pub private_key_settings: PrivateKeySettings,
}

impl fmt::Debug for ServerIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerIdentity").finish_non_exhaustive()
    }
}

/// Why certificates and key do not make a server.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum TlsError {
    /// Nothing that reads as what is needed.
    #[error("{what}: {reason}")]
    Unreadable {
        /// Which of them.
        what: &'static str,
        /// The TLS library's words.
        reason: String,
    },
    /// The private key is not that of the certificate.
    #[error("the private key does not belong to the certificate")]
    KeyMismatch,
    /// The library refused a setting of ours.
    #[error("the TLS library failed: {0}")]
    Library(String),
}

impl From<ErrorStack> for TlsError {
    fn from(error: ErrorStack) -> Self {
        TlsError::Library(reasons(&error))
    }
}

/// Presents an identity in sessions of the context.
///
/// # Errors
/// If one cannot be parsed, or they do not match.
pub fn set_identity(context: &mut SslContextBuilder, identity: &ServerIdentity) -> Result<(), TlsError> {
    let ServerIdentity { certificate_chain_pem, private_key_pem, private_key_settings } = identity;
    let mut chain = certificates("certificate chain", certificate_chain_pem)?.into_iter();
    let own = chain.next().expect("at least one certificate was read");
    context.set_certificate(&own)?;
    for issuer in chain {
        context.add_extra_chain_cert(issuer)?;
    }
    // The library's message about an invalid key reveals nothing of its content.
    let key = PKey::private_key_from_pem(private_key_pem)
        .map_err(|error| TlsError::Unreadable { what: "private key", reason: reasons(&error) })?;
    if !own.public_key()?.public_eq(&key) {
        return Err(TlsError::KeyMismatch);
    }
    Ok(set_private_key(context, &key, *private_key_settings)?)
}

/// Parses one or more certificates in PEM; an error calls them `what`.
///
/// # Errors
/// If the PEM does not contain certificates.
pub fn certificates(what: &'static str, pem: &[u8]) -> Result<Vec<X509>, TlsError> {
    let unreadable = |reason: String| TlsError::Unreadable { what, reason };
    let certificates = X509::stack_from_pem(pem).map_err(|error| unreadable(reasons(&error)))?;
    if certificates.is_empty() {
        return Err(unreadable("no certificate in PEM".to_owned()));
    }
    Ok(certificates)
}

/// The library's reasons, such as `UNSUPPORTED_PROTOCOL`, which never contain data.
pub fn reasons(stack: &ErrorStack) -> String {
    let names: Vec<&str> = stack.errors().iter().filter_map(|error| error.reason()).collect();
    names.join(", ")
}
