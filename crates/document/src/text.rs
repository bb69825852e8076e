//! From a JSON string token to its text and back (RFC 8259, section 7), and the number grammar (section 6).

use crate::error::{TextError, TextErrorKind};
use crate::scan;

/// What the text of an envelope begins with.
const MARK: &[u8] = b"ev:";

fn fault(kind: TextErrorKind, offset: usize) -> TextError {
    TextError { kind, offset }
}

/// The text of a string token, quotation marks included in the token: borrowed from it when it holds no escapes, else
/// decoded into `scratch`, whose old content is dropped.
///
/// # Errors
/// What is no string token, holds malformed escapes or bytes that are not UTF-8, and a lone surrogate escape, which is
/// no text. The offset counts from the token's first byte.
pub fn unescape<'a>(token: &'a [u8], scratch: &'a mut String) -> Result<&'a str, TextError> {
    let inner = match token {
        [b'"', inner @ .., b'"'] => inner,
        _ => return Err(fault(TextErrorKind::NotAString, 0)),
    };
    let text = simdutf8::compat::from_utf8(inner)
        .map_err(|error| fault(TextErrorKind::InvalidUtf8, 1 + error.valid_up_to()))?;
    let stop = scan::special(inner, 0);
    if stop == inner.len() {
        return Ok(text);
    }
    decode(text, stop, scratch, LoneSurrogate::Refused)?;
    Ok(scratch)
}

/// The text of a well-formed string token, each lone surrogate replaced by U+FFFD. For showing, not for comparing.
pub(crate) fn unescape_lossy(token: &[u8]) -> String {
    let text = String::from_utf8_lossy(&token[1..token.len() - 1]);
    let mut decoded = String::new();
    match decode(&text, 0, &mut decoded, LoneSurrogate::Replaced) {
        Ok(()) => decoded,
        Err(_) => text.into_owned(),
    }
}

/// What becomes of half a surrogate pair.
#[derive(Clone, Copy, PartialEq, Eq)]
enum LoneSurrogate {
    Refused,
    Replaced,
}

/// Decodes a string's inner text into `scratch`; up to `stop` it is known to be plain.
fn decode(text: &str, mut stop: usize, scratch: &mut String, lone: LoneSurrogate) -> Result<(), TextError> {
    let inner = text.as_bytes();
    scratch.clear();
    scratch.reserve(inner.len());
    let mut copied = 0;
    loop {
        stop = scan::special(inner, stop);
        scratch.push_str(&text[copied..stop]);
        match inner.get(stop) {
            None => return Ok(()),
            Some(b'\\') => {}
            Some(_) => return Err(fault(TextErrorKind::NotAString, 1 + stop)),
        }
        let (character, length) = match decode_escape(&inner[stop..]) {
            Err(TextErrorKind::LoneSurrogate) if lone == LoneSurrogate::Replaced => (char::REPLACEMENT_CHARACTER, 6),
            decoded => decoded.map_err(|kind| fault(kind, 1 + stop))?,
        };
        scratch.push(character);
        copied = stop + length;
        stop = copied;
    }
}

/// The character of the escape sequence that `text` begins with, and the bytes it takes.
fn decode_escape(text: &[u8]) -> Result<(char, usize), TextErrorKind> {
    let plain = match text.get(1) {
        Some(b'"') => '"',
        Some(b'\\') => '\\',
        Some(b'/') => '/',
        Some(b'b') => '\u{8}',
        Some(b'f') => '\u{c}',
        Some(b'n') => '\n',
        Some(b'r') => '\r',
        Some(b't') => '\t',
        Some(b'u') => return decode_unicode(text),
        _ => return Err(TextErrorKind::InvalidEscape),
    };
    Ok((plain, 2))
}

/// The character of a `\u` escape, or of a pair of them that makes one character (RFC 8259, section 7).
fn decode_unicode(text: &[u8]) -> Result<(char, usize), TextErrorKind> {
    let high = hex_unit(text).ok_or(TextErrorKind::InvalidEscape)?;
    if let Some(character) = char::from_u32(u32::from(high)) {
        return Ok((character, 6));
    }
    let low = hex_unit(&text[6..]).ok_or(TextErrorKind::LoneSurrogate)?;
    match char::decode_utf16([high, low]).next() {
        Some(Ok(character)) => Ok((character, 12)),
        _ => Err(TextErrorKind::LoneSurrogate),
    }
}

/// The UTF-16 unit of the `\uXXXX` that `text` begins with.
fn hex_unit(text: &[u8]) -> Option<u16> {
    let digits = text.strip_prefix(b"\\u")?.first_chunk::<4>()?;
    digits.iter().try_fold(0, |unit, &digit| Some(unit << 4 | char::from(digit).to_digit(16)? as u16))
}

/// Appends `text` to `out` as a JSON string literal, quotation marks included. Escapes `"`, `\` and the characters below
/// U+0020, as RFC 8259 demands, and nothing more.
pub fn escape_into(text: &str, out: &mut Vec<u8>) {
    let bytes = text.as_bytes();
    out.reserve(bytes.len() + 2);
    out.push(b'"');
    let mut copied = 0;
    loop {
        let stop = scan::special(bytes, copied);
        out.extend_from_slice(&bytes[copied..stop]);
        let Some(&byte) = bytes.get(stop) else { break };
        escape_byte(byte, out);
        copied = stop + 1;
    }
    out.push(b'"');
}

fn escape_byte(byte: u8, out: &mut Vec<u8>) {
    let short = match byte {
        b'"' | b'\\' => byte,
        0x08 => b'b',
        0x0c => b'f',
        b'\n' => b'n',
        b'\r' => b'r',
        b'\t' => b't',
        _ => {
            const DIGITS: &[u8; 16] = b"0123456789abcdef";
            let (high, low) = (DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]);
            return out.extend_from_slice(&[b'\\', b'u', b'0', b'0', high, low]);
        }
    };
    out.extend_from_slice(&[b'\\', short]);
}

/// Whether `text` is exactly one number of RFC 8259, section 6, with nothing around it.
pub fn is_number(text: &[u8]) -> bool {
    scan::number(text, 0) == Ok(text.len())
}

/// Whether the text of a well-formed string token begins with `ev:`, spelled plainly or with `\u` escapes.
#[inline]
pub(crate) fn begins_like_envelope(token: &[u8], escaped: bool) -> bool {
    let inner = &token[1..];
    if !escaped {
        return inner.starts_with(MARK);
    }
    let mut rest = inner;
    for &wanted in MARK {
        // None of the three characters has a short escape, so `\u` is the only other spelling.
        let (unit, length) = match rest.first() {
            Some(b'\\') => (hex_unit(rest), 6),
            first => (first.map(|&byte| u16::from(byte)), 1),
        };
        if unit != Some(u16::from(wanted)) {
            return false;
        }
        rest = &rest[length..];
    }
    true
}
