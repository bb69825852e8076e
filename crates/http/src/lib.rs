//! A bounded HTTPS listener: HTTP/1.1 and HTTP/2 (by ALPN) over TLS 1.2 and 1.3, for the API and the relay.
//!
//! Whoever serves gives a [`Handler`], which sees a request whose body arrives while it works, and gives an answer whose body may be
//! made while it is sent. When the peer goes away, or resets the stream, the handler's future is dropped.
//!
//! Promises: connections, heads, streams and times are bounded by [`HttpSettings`]; a peer that brings or takes too little is cut
//! off, and nobody but it notices; what is left of a body that nobody reads is read on for a while, so that the peer sees the answer;
//! a shutdown lets requests end, and asks clients to go elsewhere before it, if there is time. Not here: routes, callers, what stands in a
//! body.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod activity;
mod body;
mod calendar;
mod client;
mod connection;
mod expiry;
mod gather;
mod leaving;
mod listener;
mod log_limit;
mod log_line;
mod operator;
mod pieces;
mod places;
mod problem;
mod process;
mod progress;
mod settings;
mod socket;
mod strict;
mod thread;
mod tls;
mod waiting;
mod watched;

pub use activity::{CLOSING_MAX, Full, Hold, HttpCounters, Received};
pub use body::{BodyError, Buffers, RequestBody, ResponseBody, bytes, empty};
pub use calendar::utc;
pub use client::{ClientBound, Network, NetworkError, client_of};
pub use connection::{Door, Handler, Peer, Phase, Protocol};
pub use expiry::{CertificateExpiry, Expiries, unix_seconds};
pub use leaving::{Leaving, age_reached};
pub use listener::{Event, Listener, ListenerOptions, Observer, protocol_of};
pub use log_limit::LogLimit;
pub use log_line::{LogFormat, LogLine};
pub use operator::{OperatorPort, OperatorSettings, Report};
pub use pieces::{BODY_PIECE_SIZE, Pieces};
pub use places::{Place, Places};
pub use problem::Problem;
pub use process::{ProcessFigures, ProcessSample, ProcessValue};
pub use settings::{HALF_OPEN_TIMEOUT_MIN, HttpSettings, SettingsError};
pub use socket::{ACCEPT_PAUSE, bind, prepare_socket};
pub use thread::ListeningThread;
pub use tls::{Acceptor, ServerIdentity, TlsError, certificates, reasons, server_context, set_identity};

/// What fuzz targets call.
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing {
    pub use crate::strict::fuzzing::check_requests;
}
