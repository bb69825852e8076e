//! Load tests of a Leafseal engine: requests, their schedule, their latency, and their cost to the engine.
//!
//! [`arrivals`] computes when requests are due, [`material`] their content and their expected answers, [`driver`] sends them on raw
//! connections and matches answers, [`latencies`] records latencies and counts, [`accounting`] reads the operating system's
//! accounting of a process. [`table`] combines these into the benchmark of `leafseal bench`; `benches/experiments` uses them too.
//!
//! Guarantees: latency in an open loop counts from when a request was due, not from when it could be sent. Every answer is matched to
//! its request and its size is checked, and the content of at least one answer for each kind of request. The same seed produces the
//! same values and arrivals. The generator's own cost is small: requests are encoded once, answers are not decoded.

pub mod accounting;
pub mod arrivals;
pub mod driver;
mod error;
pub mod latencies;
pub mod material;
pub mod metrics;
pub mod page;
mod provenance;
pub mod report;
pub mod result;
pub mod run;
pub mod scenario;
pub mod statistics;
pub mod table;
mod timer;

pub use error::LoadError;

/// Entry points for fuzz targets.
#[doc(hidden)]
pub mod fuzzing {
    pub use crate::scenario::fuzzing::check_scenario;
}
