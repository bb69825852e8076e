//! Renders what the experiments found as JSON (`docs/benchmarks.md` explains the fields) and as text for a terminal.

mod interference;
mod overload;
mod soak;

pub(crate) use interference::{interference_json, interference_text};
pub(crate) use overload::{overload_json, overload_text};
pub(crate) use soak::{soak_json, soak_text};

/// Formats bytes.
fn mebibytes(bytes: f64) -> String {
    format!("{:.1} MiB", bytes / f64::from(1 << 20))
}

/// Formats whether a guarantee holds.
fn verdict(is_kept: bool) -> &'static str {
    if is_kept { "kept" } else { "BROKEN" }
}
