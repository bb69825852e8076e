//! The relay encrypts, decrypts or redacts selected fields of HTTP traffic in flight.
//!
//! An *inbound* listener is in front of an API, an *outbound* one is the proxy of clients that call third parties. Unselected bytes are
//! streamed unchanged. A body in which a rule selects fields is buffered within limits, sent to the engine, and written again; a message to
//! which a rule cannot be applied is refused. No value that a rule encrypts is ever forwarded in the clear.
//!
//! The crate does no crypto and holds no app keys. It neither prints nor reads the environment: the program passes the text of the
//! configuration and a destination for the access log.

mod access;
mod body;
pub mod config;
mod context;
mod cut;
mod decisions;
mod demo_upstream;
mod forward;
mod hop_headers;
pub mod host;
mod inbound;
mod json_text;
mod key_exchanges;
mod leaf_issuer;
mod metrics;
mod outages;
mod outbound;
mod place;
pub mod policy;
mod probe;
mod refusal;
mod refusal_log;
mod relay;
mod rules;
mod sealed;
mod stream;
mod target;
mod tunnel;
mod upstream;
mod validators;
mod worker;

pub use access::AccessLog;
pub use config::{Configuration, Problem};
pub use demo_upstream::DemoUpstream;
pub use leaf_issuer::LeafIssuerError;
pub use probe::{Probe, ProbeError, ProbeSettings, ProbeTarget, Round, Sample};
pub use relay::{Address, Relay, RelayError, check_files, files};
pub use upstream::ConnectorError;

/// Entry points for fuzz targets and benchmarks.
#[doc(hidden)]
pub mod fuzzing {
    pub use crate::body::coding::fuzzing::{MEMORY_MAX, check_coding};
    pub use crate::config::fuzzing::{check_configuration, find_route};
    pub use crate::policy::router::fuzzing::check_path;
    pub use crate::rules::transform::fuzzing::check_steps;
}
