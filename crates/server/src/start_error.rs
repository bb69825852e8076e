//! Why a server does not start.

use std::io;
use std::net::SocketAddr;

use leafseal_net::tls::TlsError;
use thiserror::Error;

use crate::audit::AuditError;
use crate::settings::{ApiSettingsError, SettingsError};

/// Why a server does not start.
#[derive(Debug, Error)]
pub enum StartError {
    /// A bound makes no sense.
    #[error(transparent)]
    Settings(#[from] SettingsError),
    /// Certificates or key.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The address, or that of the operator port or of the API.
    #[error("cannot listen on {address}: {error}")]
    Listen {
        /// The setting of the address: `server.address`, `operator.address` or `api.address`.
        setting: &'static str,
        /// Where.
        address: SocketAddr,
        /// Why not.
        error: io::Error,
    },
    /// A setting of the API.
    #[error(transparent)]
    Api(#[from] ApiSettingsError),
    /// Certificate or key of the API.
    #[error("api: {0}")]
    ApiIdentity(TlsError),
    /// Another engine has another keystore, and nothing here shows which is right.
    #[error("{0}: find out which of the two has the right keystore; leafseal store check prints its id")]
    Peer(String),
    /// The audit log.
    #[error("{0}")]
    Audit(AuditError),
    /// Threads.
    #[error("cannot start threads: {0}")]
    Threads(io::Error),
}
