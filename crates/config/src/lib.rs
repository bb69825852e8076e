//! The configuration language that engine, relay and load tester share: the syntax of values in files, environment variables, flags and
//! scenarios, the accepted values of settings, and validation of files, with line and column of each problem.
//!
//! A JSON Schema describes a file. Why durations and sizes are parsed here and not by a library: `docs/decisions/0016-configuration.md`.
//! No I/O and no environment.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod document;
mod duration;
mod kind;
mod place;
mod size;

pub use document::{Document, raw, without_null};
pub use duration::{DURATION_MAX, parse_duration, write_duration};
pub use kind::{Item, Kind, Raw, Value};
pub use place::{Problem, line_column, nearest};
pub use size::{parse_size, write_size};
