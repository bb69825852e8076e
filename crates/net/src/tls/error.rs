//! Errors of setting up TLS.

use boring::error::ErrorStack;
use thiserror::Error;

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

/// The library's reasons, such as `UNSUPPORTED_PROTOCOL`, which never contain data.
pub fn reasons(stack: &ErrorStack) -> String {
    let names: Vec<&str> = stack.errors().iter().filter_map(|error| error.reason()).collect();
    names.join(", ")
}
