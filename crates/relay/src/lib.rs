//! The relay: HTTP in flight, with chosen fields encrypted, decrypted or redacted.
//!
//! An *inbound* listener is in front of an API, an *outbound* one is the proxy of clients that call third parties. Unselected bytes
//! are streamed unchanged. A body that a rule selects from is read completely, within limits, sent to the engine, and written
//! again; a message to which a rule cannot be applied is refused. Nothing that a rule encrypts is ever forwarded in the clear.
//!
//! The crate does no crypto and has no keys of apps. It neither prints nor reads the environment: the program hands it the text of the
//! configuration and a place for the access log.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod access;
mod body;
pub mod config;
mod context;
mod demo_upstream;
mod forward;
mod hop_headers;
mod inbound;
mod losses;
mod metrics;
mod outbound;
mod probe;
mod refusal;
mod refusal_log;
mod relay;
pub mod rules;
mod target;
mod tunnel;
mod upstream;
mod worker;

pub use access::AccessLog;
pub use config::{Configuration, Problem};
pub use demo_upstream::DemoUpstream;
pub use outbound::LeafIssuerError;
pub use probe::{Probe, ProbeError, ProbeSettings, Round, Sample, Way};
pub use relay::{Address, Relay, RelayError, check_files, files};
pub use upstream::ConnectorError;

/// Entry points for fuzz targets.
#[doc(hidden)]
pub mod fuzzing {
    pub use crate::body::coding::fuzzing::{MEMORY_MAX, check_coding};
    pub use crate::config::fuzzing::check_configuration;
    pub use crate::rules::route::fuzzing::check_path;
}
