//! Lines for people on standard error.

use std::fmt::{self, Write as _};
use std::io::{self, Write};

/// Prints a note for a person on standard error. Control characters, which texts of others could have, are escaped: they could rewrite the
/// terminal on which a secret is typed. Errors of writing it are ignored.
pub(crate) fn note(text: impl fmt::Display) {
    let _ = writeln!(io::stderr(), "{}", printable(&text.to_string()));
}

/// The text with control characters, except line breaks and tabs, as escapes.
fn printable(text: &str) -> String {
    let mut printable = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '\n' | '\t' => printable.push(letter),
            // A string takes whatever is written.
            _ if letter.is_control() => drop(write!(printable, "{}", letter.escape_default())),
            _ => printable.push(letter),
        }
    }
    printable
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_in_a_note_controls_the_terminal() {
        let text = "a\tb\n\u{1b}[2J\r\u{9b}1A\u{7}ä";
        assert_eq!(printable(text), "a\tb\n\\u{1b}[2J\\r\\u{9b}1A\\u{7}ä");
    }
}
