//! An HTTPS listener with limits on everything: HTTP/1.1 and HTTP/2 (by ALPN) over TLS 1.2 and 1.3, for the API and the relay.
//!
//! A server provides a [`Handler`], which receives a request while its body arrives, and returns an answer whose body may be produced while
//! it is sent. When the peer disconnects or resets the stream, the handler's future is dropped.
//!
//! Guarantees: connections, heads, streams and times are limited by [`HttpSettings`]; a peer that sends or reads too slowly is disconnected
//! without affecting others; the rest of an unread body is read and discarded for a while, so that the peer receives the answer; a shutdown
//! lets requests finish, and can ask clients to reconnect elsewhere before. Not here: routes, callers, the content of bodies.

mod activity;
mod body;
mod connection;
mod gather;
mod listener;
mod pieces;
mod problem;
mod settings;
mod slow_peer;
mod strict;
mod waiting;
mod watched;

pub use activity::{Hold, HttpCounters, Received};
pub use body::{BodyError, BufferedBody, RequestBody, ResponseBody, bytes, empty};
pub use connection::{ConnectionPeer, Handler, Protocol, StreamServer};
pub use listener::{Listener, ListenerEvent, ListenerObserver, ListenerOptions, protocol_of};
pub use pieces::{BODY_PIECE_SIZE, Pieces};
pub use problem::{HttpProblem, status};
pub use settings::{HttpSettings, HttpSettingsError};

/// The media types of JSON Lines, a JSON document on each line. Not among them: `application/json-seq` (RFC 7464), whose texts begin with
/// a record separator and may have line breaks.
pub const JSON_LINES_TYPES: [&str; 8] = [
    "application/x-ndjson",
    "application/ndjson",
    "application/jsonl",
    "application/x-jsonl",
    "application/jsonlines",
    "application/x-jsonlines",
    "application/json-lines",
    "application/stream+json",
];

/// Entry points for fuzz targets.
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing {
    pub use crate::strict::fuzzing::check_requests;
}
