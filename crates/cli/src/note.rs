//! Lines for people on standard error.

use std::fmt;
use std::io::{self, Write};

/// Tells a person something on standard error. Where that cannot be written nobody reads it, and the work goes on.
pub fn note(text: impl fmt::Display) {
    let _ = writeln!(io::stderr(), "{text}");
}
