//! A server's identity: its certificate chain and private key.

use std::fmt;

use boring::pkey::PKey;
use boring::ssl::SslContextBuilder;
use boring::x509::X509;
use leafseal_config::KeyExchange;
use leafseal_crypto::wipe_dead_stack;
use zeroize::Zeroizing;

use super::error::{TlsError, reasons};
use super::private_key::{PrivateKeySettings, set_private_key};
use super::sessions::SessionSettings;

/// A server's certificate chain and private key, in PEM (RFC 7468).
#[derive(Clone)]
pub struct ServerIdentity {
    /// Its certificate, then the intermediates up to its authority.
    pub certificate_chain_pem: Vec<u8>,
    /// Its private key, PKCS#8, PKCS#1 or SEC1.
    pub private_key_pem: Zeroizing<Vec<u8>>,
    /// How private-key operations are computed.
    pub private_key_settings: PrivateKeySettings,
    /// How sessions are resumed.
    pub sessions: SessionSettings,
    /// The accepted groups of the key exchange.
    pub key_exchange: KeyExchange,
}

impl fmt::Debug for ServerIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerIdentity").finish_non_exhaustive()
    }
}

/// Presents an identity in sessions of the context.
///
/// # Errors
/// If one cannot be parsed, or they do not match.
pub fn set_identity(context: &mut SslContextBuilder, identity: &ServerIdentity) -> Result<(), TlsError> {
    let ServerIdentity { certificate_chain_pem, private_key_pem, private_key_settings, .. } = identity;
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
    set_private_key(context, &key, *private_key_settings)?;
    // The library reads PEM line by line on the stack.
    wipe_dead_stack();
    Ok(())
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
