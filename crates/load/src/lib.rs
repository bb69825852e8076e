//! Load for a Fieldseal engine: who asks for what and when, how long it took, and what it cost the engine.
//!
//! [`arrivals`] says when requests are due, [`material`] what they hold and what their answers must be, [`driver`] sends them on raw
//! connections and matches answers, [`measure`] keeps latencies and counts, [`accounting`] asks the operating system what a process used.
//! [`table`] puts these together to the benchmark of `fieldseal bench`, [`interference`], [`overload`] and [`soak`] to its experiments.
//!
//! Promises: latency in an open loop counts from when a request was due, not from when it could be sent; every answer is
//! matched to its request and checked by its size, and at least one for each kind of request by its content; the same seed gives the
//! same values and the same arrivals. The generator's own cost stays small: requests are encoded once, answers are not decoded.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

pub mod accounting;
pub mod arrivals;
pub mod driver;
pub mod echo;
mod error;
pub mod interference;
pub mod material;
pub mod measure;
pub mod metrics;
pub mod overload;
pub mod page;
pub mod report;
pub mod result;
pub mod run;
pub mod scenario;
pub mod soak;
pub mod statistics;
pub mod table;
mod threads;
mod timer;

pub use error::LoadError;

/// What fuzz targets call.
#[doc(hidden)]
pub mod fuzzing {
    pub use crate::scenario::fuzzing::check_scenario;
}
