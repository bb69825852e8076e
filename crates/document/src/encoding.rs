//! The encoding of a document that is not UTF-8, by its first bytes. JSON text begins with two ASCII characters, or consists of one
//! (RFC 8259), so the places of its zero bytes show the width of characters.

use std::fmt;

/// The byte order mark in UTF-8, which a reader ignores at the start of a document (RFC 8259, section 8.1).
pub const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// An encoding that JSON must not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OtherEncoding {
    /// UTF-16, big-endian.
    Utf16Be,
    /// UTF-16, little-endian.
    Utf16Le,
    /// UTF-32, big-endian.
    Utf32Be,
    /// UTF-32, little-endian.
    Utf32Le,
}

impl OtherEncoding {
    /// The encoding that a document with this start must have, if it is another than UTF-8.
    pub(crate) fn of(document: &[u8]) -> Option<Self> {
        match *document {
            [0xff, 0xfe, 0, 0, ..] => Some(Self::Utf32Le),
            [0, 0, 0xfe, 0xff, ..] => Some(Self::Utf32Be),
            [0xff, 0xfe, ..] => Some(Self::Utf16Le),
            [0xfe, 0xff, ..] => Some(Self::Utf16Be),
            [0, 0, 0, 1..=u8::MAX, ..] => Some(Self::Utf32Be),
            [1..=u8::MAX, 0, 0, 0, ..] => Some(Self::Utf32Le),
            [0, 1..=u8::MAX, ..] => Some(Self::Utf16Be),
            [1..=u8::MAX, 0, ..] => Some(Self::Utf16Le),
            _ => None,
        }
    }
}

impl fmt::Display for OtherEncoding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Utf16Be => "UTF-16 (big-endian)",
            Self::Utf16Le => "UTF-16 (little-endian)",
            Self::Utf32Be => "UTF-32 (big-endian)",
            Self::Utf32Le => "UTF-32 (little-endian)",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wide(text: &str, is_32: bool, is_big: bool) -> Vec<u8> {
        let of_unit = |unit: u16| if is_big { unit.to_be_bytes() } else { unit.to_le_bytes() };
        let of_character = |c: char| if is_big { u32::from(c).to_be_bytes() } else { u32::from(c).to_le_bytes() };
        match is_32 {
            true => text.chars().flat_map(of_character).collect(),
            false => text.encode_utf16().flat_map(of_unit).collect(),
        }
    }

    #[test]
    fn wide_characters_are_recognised_with_and_without_a_byte_order_mark() {
        use OtherEncoding::{Utf16Be, Utf16Le, Utf32Be, Utf32Le};
        for (encoding, is_32, is_big) in
            [(Utf16Be, false, true), (Utf16Le, false, false), (Utf32Be, true, true), (Utf32Le, true, false)]
        {
            for text in ["{}", "1", " [1]", "\"\u{e9}\"", "\u{feff}{}", "\u{feff}\"\u{4e2d}"] {
                assert_eq!(OtherEncoding::of(&wide(text, is_32, is_big)), Some(encoding), "{text}");
            }
        }
        for text in ["", "{", "{}", "\u{feff}{}", "\0", "\0\0", "\"\u{e9}\"", "[1]\0"] {
            assert_eq!(OtherEncoding::of(text.as_bytes()), None, "{text:?}");
        }
    }
}
