//! The configuration language of Fieldseal's programs: how files, environment variables, flags and scenarios write values, what a setting
//! accepts, and everything that is wrong with a file, each with line and column.
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
