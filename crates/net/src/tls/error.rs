//! Errors of setting up TLS.

use boring::error::ErrorStack;
use leafseal_config::KeyExchangeError;
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
    /// The settings admit no key exchange.
    #[error("the groups of the key exchange: {0}")]
    KeyExchange(#[from] KeyExchangeError),
    /// The library refused a setting of ours.
    #[error("the TLS library failed: {0}")]
    Library(String),
}

impl From<ErrorStack> for TlsError {
    fn from(error: ErrorStack) -> Self {
        TlsError::Library(reasons(&error))
    }
}

/// Why a client that is too old, or does not offer what a listener requires, is refused.
pub const NO_SHARED_GROUP: &str =
    "the client offers no accepted group for the key exchange (tls_groups, and tls_require if it is hybrid)";

/// Replaces the library's reasons for refusing a client by sentences where an operator has a setting to look at.
pub fn explained(reasons: String) -> String {
    match reasons.as_str() {
        "NO_SHARED_GROUP" => NO_SHARED_GROUP.to_owned(),
        "UNSUPPORTED_PROTOCOL" => {
            let words = "the client does not speak TLS 1.2 or newer, or not TLS 1.3 where tls_require is hybrid";
            format!("{words} ({reasons})")
        }
        _ => reasons,
    }
}

/// The library's reasons, such as `UNSUPPORTED_PROTOCOL`, which never contain data.
pub fn reasons(stack: &ErrorStack) -> String {
    let names: Vec<&str> = stack.errors().iter().filter_map(|error| error.reason()).collect();
    names.join(", ")
}
