//! Lines for people on standard error.

use std::fmt;
use std::io::{self, Write};

/// Prints a note for a person on standard error. Errors of writing it are ignored.
pub(crate) fn note(text: impl fmt::Display) {
    let _ = writeln!(io::stderr(), "{text}");
}
