//! Shared by all listeners: sockets, limits per client, TLS, the operator port, metrics and log lines.
//!
//! The RPC listener, the HTTP listener and the relay build on it.
//!
//! Guarantees: clients that cannot be served occupy a socket only briefly ([`ConnectionSlots`]); connections that move much data delay the
//! others by
//! one turn ([`BulkQueue`]); a failed `accept` is retried after a pause ([`ACCEPT_PAUSE`]); a vanished peer is detected
//! ([`prepare_socket`]); a certificate is replaced without a restart ([`tls::Acceptor`]). Not here: the content of connections, and
//! permissions.

mod access_record;
mod bulk;
mod calendar;
mod client;
mod decision_log;
mod log_limit;
mod log_line;
pub mod metrics;
mod operator;
mod places;
mod process;
mod scheduling;
mod shutdown;
mod slots;
mod socket;
mod thread;
pub mod tls;

pub use access_record::{AccessRecord, AccessValue, counted, trace_id};
pub use bulk::{BulkMember, BulkQueue};
pub use calendar::utc;
pub use client::{ClientBound, NETWORKS, Network, NetworkError, client_of, client_of_unless};
pub use decision_log::DecisionLog;
pub use log_limit::LogLimit;
pub use log_line::{LogFormat, LogLine};
pub use operator::{HEADER_SIZE_MIN, OperatorPort, OperatorReport, OperatorSettings};
pub use places::{CallPermit, FairPlaces};
pub use process::{ProcessFigures, ignores_signal};
pub use scheduling::SchedulingClass;
pub use shutdown::{ShutdownNotice, ShutdownPhase, age_reached};
pub use slots::{CLOSING_MAX, ConnectionSlot, ConnectionSlots, Full};
pub use socket::{ACCEPT_PAUSE, HALF_OPEN_TIMEOUT_MIN, bind, prepare_socket};
pub use thread::ListeningThread;
