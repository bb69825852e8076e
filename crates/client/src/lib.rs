//! Client of the Leafseal engine: MessagePack-RPC over mutually authenticated TLS 1.3, on pooled connections.
//!
//! A [`Client`] is cheap to clone and shared by all tasks of a process. Many calls are in flight on one connection; answers arrive in any
//! order and are matched by id. A call that times out or is dropped sends `cancel`, so that the engine stops executing it. A broken
//! connection fails its calls with [`ErrorKind::ConnectionLost`], and the next call reconnects.
//!
//! It runs on the caller's tokio runtime. Every byte of a request is flushed before it waits for the answer.
//!
//! A call that the engine has not started, or has refused with advice to retry, is retried up to [`ClientSettings::retries_max`] times
//! within the call's time: no connection could be opened, the engine closed the connection before it read the request, or it answered
//! `unavailable`, `audit_unavailable` or `overloaded`. Every other failure is returned; [`ClientError::retry`] indicates whether the caller
//! may retry.
//!
//! An engine that shuts down, or whose connection reaches its maximum age, announces it on the connection. Calls in flight there finish,
//! new ones begin on other connections, first to other addresses.

/// Compiles and runs the examples of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

mod answer;
mod answer_memory;
mod client;
mod connection;
mod decisions;
mod error;
mod identity;
mod observer;
mod outgoing;
mod places;
mod prepared;
pub mod raw;
mod retry_budget;
mod rule;
mod rules;
mod settings;
mod shared;
mod signals;
#[cfg(feature = "simulation")]
#[doc(hidden)]
pub mod simulation;
mod tls;

pub use answer::{Answer, Document, NativeValues, Report, Rewrapped, Value};
pub use answer_memory::AnswerMemory;
pub use client::Client;
pub use error::{ClientError, ErrorKind, RequestProgress};
pub use identity::{ClientTls, ClientTlsFiles, TlsPart, TlsProblem};
pub use leafseal_protocol::{
    AcceptedScheme, ApiKeyFacts, AuthenticateParams, Curve, DecryptFileOptions, DecryptOptions, EncryptFileOptions,
    EncryptOptions, ErrorCode, Field, FrameLimits, HealthParams, InfoParams, InspectOptions, Inspection, Interface,
    Keying, Method, OnFailure, OptionInfo, OptionKind, OptionValue, OtherCase, OwnedOptions, PathBinding, PublicKeySet,
    PublicKeysParams, QueryParams, Reseal, Retry, RewrapFailure, RewrapOptions, Scalar, Scheme, SecretText, Surface,
    Text, TextKind, UnsealKeyParams, UnsealKeyResult, UnsealParams, UnsealResult, Word, WordSet,
};
pub use observer::{CallObserver, CallOutcome};
pub use prepared::Prepared;
pub use settings::ClientSettings;
