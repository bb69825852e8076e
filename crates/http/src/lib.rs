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
mod connection;
mod gather;
mod listener;
mod pieces;
mod problem;
mod progress;
mod settings;
mod strict;
mod waiting;
mod watched;

pub use activity::{Hold, HttpCounters, Received};
pub use body::{BodyError, Buffers, RequestBody, ResponseBody, bytes, empty};
pub use connection::{Door, Handler, Peer, Protocol};
pub use listener::{Event, Listener, ListenerOptions, Observer, protocol_of};
pub use pieces::{BODY_PIECE_SIZE, Pieces};
pub use problem::Problem;
pub use settings::{HttpSettings, SettingsError};

/// What fuzz targets call.
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing {
    pub use crate::strict::fuzzing::check_requests;
}
