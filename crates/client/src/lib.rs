//! Client of the Fieldseal engine: MessagePack-RPC over mutually authenticated TLS 1.3, on pooled connections.
//!
//! A [`Client`] is cheap to clone and shared by all tasks of a process. Many calls are in flight on one connection; answers
//! come in any order and are matched by id. A call that times out or is dropped sends `cancel`, so that the engine stops
//! working for it. A connection that dies fails its calls with [`ErrorKind::ConnectionLost`], and the next call connects anew.
//!
//! It runs on the tokio runtime of whoever calls it. Every byte of a request is flushed before its answer is waited for.
//! Nothing is repeated behind the caller's back: [`ClientError::retry`] says what may be.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod answer;
mod client;
mod connection;
mod error;
mod observer;
mod prepared;
pub mod raw;
mod settings;
mod shared;
#[cfg(feature = "simulation")]
#[doc(hidden)]
pub mod simulation;
mod tls;

pub use answer::{Answer, ApiKeyFacts, Document, Inspection, PublicKeySet, Report, Rewrapped, Value, Values};
pub use client::Client;
pub use error::{ClientError, ErrorKind, Sent};
pub use fieldseal_protocol::{
    Curve, DecryptFileOptions, DecryptOptions, EncryptFileOptions, EncryptOptions, ErrorCode, Keying, Limits, Method,
    OnFailure, OtherCase, Retry, RewrapOptions, Scalar, Text, TextKind,
};
pub use observer::{CallObserver, CallOutcome};
pub use prepared::Prepared;
pub use settings::{ClientSettings, ClientTls, TlsPart, TlsProblem};
