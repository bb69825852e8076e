//! What every listener of Fieldseal does beside its protocol: sockets, bounds on clients, TLS, the operator port, metrics and log lines.
//!
//! The RPC listener, the HTTP listener and the relay build on it.
//!
//! Promises: who cannot be served takes no socket for long ([`Places`]); connections that move much delay the others by one turn
//! ([`BulkQueue`]); what the system refuses is tried again, and not at once ([`ACCEPT_PAUSE`]); a peer that vanished is noticed
//! ([`prepare_socket`]); a certificate is replaced without a restart ([`tls::Acceptor`]). Not here: what is said over a connection, and
//! who may say it.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod bulk;
mod calendar;
mod client;
mod leaving;
mod log_limit;
mod log_line;
pub mod metrics;
mod operator;
mod places;
mod process;
mod scheduling;
mod socket;
mod thread;
pub mod tls;

pub use bulk::{BulkQueue, BulkTurns};
pub use calendar::utc;
pub use client::{ClientBound, Network, NetworkError, client_of};
pub use leaving::{Leaving, Phase, age_reached};
pub use log_limit::LogLimit;
pub use log_line::{LogFormat, LogLine};
pub use operator::{HEADER_SIZE_MIN, OperatorPort, OperatorSettings, Report};
pub use places::{CLOSING_MAX, Full, Place, Places};
pub use process::ProcessFigures;
pub use scheduling::SchedulingClass;
pub use socket::{ACCEPT_PAUSE, HALF_OPEN_TIMEOUT_MIN, bind, prepare_socket};
pub use thread::ListeningThread;
