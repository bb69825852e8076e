//! The engine's server: MessagePack-RPC over mutually authenticated TLS 1.3, the HTTPS API, and the certificates that they need.
//!
//! Network threads move bytes: sockets, TLS, frames, health. Workers compute: they run the [`Request`]s that a [`Service`] creates from
//! frames, slice by slice, a large one on several workers at once. Only owned bytes, a cancellation flag and a deadline cross between them.
//!
//! Guarantees: every request is answered exactly once while its connection lives; input of a peer is limited before it is stored; a hostile
//! or broken connection ends without affecting others; no plaintext, key or field content reaches a log or an error.

mod api;
mod attempts;
mod audit;
mod canary_alarm;
mod client_slots;
mod clock;
mod failure_log;
mod identity;
#[doc(hidden)]
pub mod in_process;
mod metrics;
mod outbox;
mod peers;
mod refusals;
mod request_facts;
mod rpc;
mod server;
mod server_state;
mod settings;
#[cfg(feature = "simulation")]
#[doc(hidden)]
pub mod simulation;
mod start_error;
mod status;
mod store_thread;
mod tls;

pub use failure_log::FailureLogger;
pub use identity::{IdentityError, issue_client};
pub use leafseal_engine::pool::Scheduling;
pub use leafseal_http::HttpSettings;
pub use metrics::{OutcomeCounts, RequestOutcome, ServerCounters};
pub use server::{Server, ShutdownReport, check_identity};
pub use settings::{
    ApiSettings, ApiSettingsError, AuditDurability, AuditSettings, AuditWait, CertificateFingerprint,
    InvalidFingerprint, RelayDestination, RelayInformation, ServerSettings, SettingsError, SharedRelayInformation,
    TlsSettings,
};
pub use start_error::StartError;
pub use tls::HandshakeFailure;

/// Entry points for fuzz targets.
#[doc(hidden)]
pub mod fuzzing {
    pub use crate::api::fuzzing::check_call;
}
