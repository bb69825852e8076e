//! The TLS side of a listener: TLS 1.2 and 1.3 with a server certificate, HTTP/2 or HTTP/1.1 by ALPN (RFC 7301).

use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

use boring::error::ErrorStack;
use boring::pkey::PKey;
use boring::ssl::{
    AlpnError, SslAcceptor, SslAcceptorBuilder, SslContext, SslContextBuilder, SslMethod, SslMode, SslVersion,
    select_next_proto,
};
use boring::x509::X509;
use thiserror::Error;
use zeroize::Zeroizing;

/// HTTP/2 is preferred.
const ALPN: &[u8] = b"\x02h2\x08http/1.1";

/// What a server presents, in PEM (RFC 7468).
#[derive(Clone)]
pub struct ServerIdentity {
    /// Its certificate, then those that lead to its authority.
    pub certificate_chain_pem: Vec<u8>,
    /// Its private key, PKCS#8, PKCS#1 or SEC1.
    pub private_key_pem: Zeroizing<Vec<u8>>,
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
    #[error("the TLS library refused: {0}")]
    Library(String),
}

impl From<ErrorStack> for TlsError {
    fn from(error: ErrorStack) -> Self {
        TlsError::Library(reasons(&error))
    }
}

/// Begins TLS sessions. Clones share the certificate, which can be replaced while they serve.
#[derive(Clone)]
pub struct Acceptor {
    context: Arc<RwLock<SslContext>>,
}

impl Acceptor {
    /// An acceptor that presents `identity` to everybody.
    ///
    /// # Errors
    /// Certificates or a key that cannot be read or do not belong together.
    pub fn new(identity: &ServerIdentity) -> Result<Self, TlsError> {
        Ok(Self::with_context(context_of(identity)?))
    }

    /// An acceptor over a context of the caller's, which has certificates (or a callback that chooses them) and ALPN set.
    pub fn with_context(context: SslContext) -> Self {
        Acceptor { context: Arc::new(RwLock::new(context)) }
    }

    /// Presents another identity from the next handshake on.
    ///
    /// # Errors
    /// As [`Acceptor::new`]; then nothing changes.
    pub fn replace(&self, identity: &ServerIdentity) -> Result<(), TlsError> {
        let context = context_of(identity)?;
        *self.context.write().unwrap_or_else(PoisonError::into_inner) = context;
        Ok(())
    }

    /// Presents from the next handshake on what `other` does now: nothing can go wrong any more.
    pub fn take_from(&self, other: &Acceptor) {
        *self.context.write().unwrap_or_else(PoisonError::into_inner) = other.context();
    }

    /// The context as it is now.
    pub fn context(&self) -> SslContext {
        self.context.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl fmt::Debug for Acceptor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Acceptor").finish_non_exhaustive()
    }
}

fn context_of(identity: &ServerIdentity) -> Result<SslContext, TlsError> {
    let mut builder = server_context()?;
    set_identity(&mut builder, &identity.certificate_chain_pem, &identity.private_key_pem)?;
    Ok(builder.build().into_context())
}

/// A context with our policy and without a certificate, for whoever chooses one for each session; see [`Acceptor::with_context`].
///
/// # Errors
/// When the library refuses.
pub fn server_context() -> Result<SslAcceptorBuilder, TlsError> {
    Ok(policy()?)
}

fn policy() -> Result<SslAcceptorBuilder, ErrorStack> {
    // The library's list of ciphers that Mozilla calls intermediate: forward secret, authenticated encryption.
    let mut context = SslAcceptor::mozilla_intermediate_v5(SslMethod::tls())?;
    context.set_min_proto_version(Some(SslVersion::TLS1_2))?;
    context.set_max_proto_version(Some(SslVersion::TLS1_3))?;
    context.set_mode(SslMode::ENABLE_PARTIAL_WRITE | SslMode::ACCEPT_MOVING_WRITE_BUFFER | SslMode::RELEASE_BUFFERS);
    // Without ALPN a client speaks HTTP/1.1; one that names only other protocols is refused.
    context.set_alpn_select_callback(|_, offered| select_next_proto(ALPN, offered).ok_or(AlpnError::ALERT_FATAL));
    Ok(context)
}

/// Presents a certificate chain with its private key, both in PEM, in sessions of the context.
///
/// # Errors
/// What cannot be read, or does not belong together.
pub fn set_identity(context: &mut SslContextBuilder, chain_pem: &[u8], private_key_pem: &[u8]) -> Result<(), TlsError> {
    let mut chain = certificates("certificate chain", chain_pem)?.into_iter();
    let own = chain.next().expect("at least one certificate was read");
    context.set_certificate(&own)?;
    for issuer in chain {
        context.add_extra_chain_cert(issuer)?;
    }
    // The library's words about a key that does not parse say nothing of its content.
    let key = PKey::private_key_from_pem(private_key_pem)
        .map_err(|error| TlsError::Unreadable { what: "private key", reason: reasons(&error) })?;
    if !own.public_key()?.public_eq(&key) {
        return Err(TlsError::KeyMismatch);
    }
    Ok(context.set_private_key(&key)?)
}

/// One certificate or more, in PEM; an error calls them `what`.
///
/// # Errors
/// What does not read as certificates, or is none.
pub fn certificates(what: &'static str, pem: &[u8]) -> Result<Vec<X509>, TlsError> {
    let unreadable = |reason: String| TlsError::Unreadable { what, reason };
    let certificates = X509::stack_from_pem(pem).map_err(|error| unreadable(reasons(&error)))?;
    if certificates.is_empty() {
        return Err(unreadable("no certificate in PEM".to_owned()));
    }
    Ok(certificates)
}

/// The library's reasons, such as `UNSUPPORTED_PROTOCOL`; never the data that it worked on.
pub fn reasons(stack: &ErrorStack) -> String {
    let names: Vec<&str> = stack.errors().iter().filter_map(|error| error.reason()).collect();
    names.join(", ")
}
