//! Accepts TLS handshakes with a certificate that can be replaced.

use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

use boring::ssl::SslContext;

use super::error::TlsError;
use super::identity::{ServerIdentity, set_identity};
use super::policy::server_context;

/// Begins TLS sessions. Clones share the certificate, which can be replaced while they serve.
#[derive(Clone)]
pub struct Acceptor {
    context: Arc<RwLock<SslContext>>,
}

impl Acceptor {
    /// Creates an acceptor that presents `identity`.
    ///
    /// # Errors
    /// If certificates or key cannot be read or do not belong together.
    pub fn new(identity: &ServerIdentity) -> Result<Self, TlsError> {
        Ok(Self::with_context(context_of(identity)?))
    }

    /// Creates an acceptor with the caller's context, which has certificates (or a callback that selects them) and ALPN set.
    pub fn with_context(context: SslContext) -> Self {
        Acceptor { context: Arc::new(RwLock::new(context)) }
    }

    /// Presents another identity from the next handshake on.
    ///
    /// # Errors
    /// As [`Acceptor::new`]; nothing changes then.
    pub fn replace(&self, identity: &ServerIdentity) -> Result<(), TlsError> {
        let context = context_of(identity)?;
        *self.context.write().unwrap_or_else(PoisonError::into_inner) = context;
        Ok(())
    }

    /// Presents from the next handshake on what `other` presents now. Cannot fail.
    pub fn take_from(&self, other: &Acceptor) {
        *self.context.write().unwrap_or_else(PoisonError::into_inner) = other.context();
    }

    /// The current context.
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
    let mut builder = server_context(&identity.sessions, &identity.key_exchange)?;
    set_identity(&mut builder, identity)?;
    Ok(builder.build().into_context())
}
