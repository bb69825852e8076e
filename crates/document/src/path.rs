//! Normalized paths (RFC 9535, section 2.7), key by key.

use std::fmt::Write;

use crate::text::unescape_lossy;

/// Approximate maximum length of a path in bytes: a longer one is truncated, and ends in `…`.
pub const PATH_SIZE_MAX: usize = 512;

/// Appends an element's index.
pub(crate) fn push_index(path: &mut String, index: u32) {
    write!(path, "[{index}]").expect("writing to a string does not fail");
}

/// Appends a member's name from its token.
pub(crate) fn push_name_whole(path: &mut String, token: &[u8]) {
    path.push_str("['");
    push_text(path, &unescape_lossy(token));
    path.push_str("']");
}

/// Appends a name from its token, or the beginning of a name whose token has more than [`PATH_SIZE_MAX`] bytes; returns whether it is
/// complete.
pub(crate) fn push_name(path: &mut String, token: &[u8]) -> bool {
    let inner = &token[1..token.len() - 1];
    if inner.len() <= PATH_SIZE_MAX {
        push_name_whole(path, token);
        return true;
    }
    path.push_str("['");
    push_text(path, &String::from_utf8_lossy(&inner[..PATH_SIZE_MAX]));
    false
}

/// Truncates a path to about `size` bytes, and marks it as truncated.
pub(crate) fn cut_short(path: &mut String, size: usize) {
    path.truncate(path.floor_char_boundary(size));
    path.push('…');
}

/// Appends the text between the quotation marks of a name.
pub(crate) fn push_text(path: &mut String, text: &str) {
    for character in text.chars() {
        match character {
            '\u{8}' => path.push_str("\\b"),
            '\t' => path.push_str("\\t"),
            '\n' => path.push_str("\\n"),
            '\u{c}' => path.push_str("\\f"),
            '\r' => path.push_str("\\r"),
            '\'' => path.push_str("\\'"),
            '\\' => path.push_str("\\\\"),
            '\0'..='\u{1f}' => write!(path, "\\u{:04x}", character as u32).expect("writing to a string does not fail"),
            _ => path.push(character),
        }
    }
}
