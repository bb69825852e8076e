//! Converts JSON string tokens to text and back (RFC 8259, section 7), and checks the number grammar (section 6).

use std::ops::Range;

use crate::error::{TextError, TextErrorKind};
use crate::scan;

/// Bytes of `\uXXXX`.
const UNIT_ESCAPE_SIZE: usize = 6;
/// Bytes of the longest escape sequence: a surrogate pair.
const ESCAPE_SIZE_MAX: usize = 2 * UNIT_ESCAPE_SIZE;
/// Maximum length of a UTF-8 character in bytes.
const CHARACTER_SIZE_MAX: usize = 4;
/// The first bytes of an envelope's text.
const MARK: &[u8] = b"ev:";

fn fault(kind: TextErrorKind, offset: usize) -> TextError {
    TextError { kind, offset }
}

/// An error of a token's inner text, counted from the token's first byte.
fn behind_mark(error: TextError) -> TextError {
    fault(error.kind, 1 + error.offset)
}

/// The text of a string token, which includes its quotation marks: borrowed from the token if it contains no escapes, otherwise decoded
/// into `scratch`, whose previous content is dropped.
///
/// # Errors
/// If it is not a string token, contains malformed escapes or bytes that are not UTF-8, or a lone surrogate escape, which is not text. The
/// offset counts from the token's first byte.
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
    scratch.clear();
    decode(text, stop..inner.len(), scratch, LoneSurrogate::Refused).map_err(behind_mark)?;
    Ok(scratch)
}

/// Whether the token's text may have `size_max` bytes or fewer, without reading it.
pub(crate) fn may_unescape_to(token: &[u8], size_max: usize) -> bool {
    token.len() <= size_max.saturating_mul(UNIT_ESCAPE_SIZE) + 2
}

/// Appends the text of the next piece of a string token to `text`: from `rest`, the token after its opening quotation mark without the
/// closing one. The piece has `size` bytes, or up to an escape sequence more or a character less; returns its size.
///
/// # Errors
/// As [`unescape`]; the offset counts from the first byte of `rest`.
pub fn unescape_piece(rest: &[u8], size: usize, text: &mut String) -> Result<usize, TextError> {
    let size = size.max(CHARACTER_SIZE_MAX);
    let piece = &rest[..size.saturating_add(ESCAPE_SIZE_MAX).min(rest.len())];
    let piece = match simdutf8::compat::from_utf8(piece) {
        Ok(piece) => piece,
        // The piece only ends within a character.
        Err(error) if error.error_len().is_none() && piece.len() < rest.len() => {
            simdutf8::basic::from_utf8(&piece[..error.valid_up_to()]).expect("valid up to there")
        }
        Err(error) => return Err(fault(TextErrorKind::InvalidUtf8, error.valid_up_to())),
    };
    let end = piece.floor_char_boundary(size);
    decode(piece, 0..end, text, LoneSurrogate::Refused)
}

/// The text of a well-formed string token, each lone surrogate replaced by U+FFFD. For display, not for comparison.
pub(crate) fn unescape_lossy(token: &[u8]) -> String {
    let text = String::from_utf8_lossy(&token[1..token.len() - 1]);
    let mut decoded = String::new();
    match decode(&text, 0..text.len(), &mut decoded, LoneSurrogate::Replaced) {
        Ok(_) => decoded,
        Err(_) => text.into_owned(),
    }
}

/// The action for half a surrogate pair.
#[derive(Clone, Copy, PartialEq, Eq)]
enum LoneSurrogate {
    Refused,
    Replaced,
}

/// Appends the text of a piece of a string's inner text to `decoded`: from where it is known to be plain up to `piece.start`, to
/// `piece.end` or to the end of the escape sequence there; returns that position.
fn decode(text: &str, piece: Range<usize>, decoded: &mut String, lone: LoneSurrogate) -> Result<usize, TextError> {
    let inner = text.as_bytes();
    decoded.reserve(piece.end);
    let (mut copied, mut stop) = (0, piece.start);
    while copied < piece.end {
        // Escape sequences often follow one another: after one, the next is searched at once.
        if copied < stop || inner[stop] != b'\\' {
            stop = scan::special(&inner[..piece.end], stop);
            decoded.push_str(&text[copied..stop]);
            copied = stop;
        }
        match inner[..piece.end].get(stop) {
            None => break,
            Some(b'\\') => {}
            Some(_) => return Err(fault(TextErrorKind::NotAString, stop)),
        }
        let (character, length) = match decode_escape(&inner[stop..]) {
            Err(TextErrorKind::LoneSurrogate) if lone == LoneSurrogate::Replaced => {
                (char::REPLACEMENT_CHARACTER, UNIT_ESCAPE_SIZE)
            }
            decoded => decoded.map_err(|kind| fault(kind, stop))?,
        };
        decoded.push(character);
        copied = stop + length;
        stop = copied;
    }
    Ok(copied)
}

/// The character of the escape sequence at the start of `text`, and its length in bytes.
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

/// The character of a `\u` escape, or of a surrogate pair (RFC 8259, section 7).
fn decode_unicode(text: &[u8]) -> Result<(char, usize), TextErrorKind> {
    let high = escaped_unit(text).ok_or(TextErrorKind::InvalidEscape)?;
    if let Some(character) = char::from_u32(u32::from(high)) {
        return Ok((character, 6));
    }
    let low = escaped_unit(&text[6..]).ok_or(TextErrorKind::LoneSurrogate)?;
    match char::decode_utf16([high, low]).next() {
        Some(Ok(character)) => Ok((character, 12)),
        _ => Err(TextErrorKind::LoneSurrogate),
    }
}

/// The UTF-16 unit of the `\uXXXX` that `text` begins with.
fn escaped_unit(text: &[u8]) -> Option<u16> {
    hex_unit(text.strip_prefix(b"\\u")?)
}

/// The UTF-16 unit of the four hexadecimal digits that `text` begins with.
pub(crate) fn hex_unit(text: &[u8]) -> Option<u16> {
    let digits = text.first_chunk::<4>()?;
    digits.iter().try_fold(0, |unit, &digit| Some(unit << 4 | char::from(digit).to_digit(16)? as u16))
}

/// Appends `text` to `out` as a JSON string literal with its quotation marks. Escapes `"`, `\` and the characters below U+0020, as RFC 8259
/// requires, and nothing more.
pub fn escape_into(text: &str, out: &mut Vec<u8>) {
    out.reserve(text.len() + 2);
    out.push(b'"');
    escape_piece(text.as_bytes(), out);
    out.push(b'"');
}

/// Appends a piece of a text to `out`, escaped for a JSON string literal. Pieces may be split anywhere.
pub fn escape_piece(bytes: &[u8], out: &mut Vec<u8>) {
    let mut copied = 0;
    loop {
        let stop = scan::special(bytes, copied);
        out.extend_from_slice(&bytes[copied..stop]);
        let row = &bytes[stop..bytes.len().min(stop + ROW_SIZE)];
        if row.is_empty() {
            break;
        }
        escape_row(row, out);
        copied = stop + row.len();
    }
}

/// Bytes that [`escape_piece`] writes for a piece.
pub fn escaped_size(bytes: &[u8]) -> usize {
    let (mut size, mut passed) = (bytes.len(), 0);
    loop {
        let stop = scan::special(bytes, passed);
        let row = &bytes[stop..bytes.len().min(stop + ROW_SIZE)];
        if row.is_empty() {
            return size;
        }
        size += row.iter().map(|&byte| ESCAPES[usize::from(byte)].length() - 1).sum::<usize>();
        passed = stop + row.len();
    }
}

/// Bytes after an escaped one that are processed without searching for the next: escaped bytes often follow one another.
const ROW_SIZE: usize = 16;

/// Size of an entry of [`ESCAPES`]: more than the longest, so that each is copied whole.
const ENTRY_SIZE: usize = 8;

/// The escaped form of a byte; the last byte is the length.
#[derive(Clone, Copy)]
struct ByteEscape([u8; ENTRY_SIZE]);

impl ByteEscape {
    fn length(self) -> usize {
        usize::from(self.0[ENTRY_SIZE - 1])
    }
}

static ESCAPES: [ByteEscape; 256] = {
    let mut escapes = [ByteEscape([0; ENTRY_SIZE]); 256];
    let mut byte = 0;
    while byte < 256 {
        escapes[byte] = escape_of(byte as u8);
        byte += 1;
    }
    escapes
};

const fn escape_of(byte: u8) -> ByteEscape {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let short = match byte {
        b'"' | b'\\' => byte,
        0x08 => b'b',
        0x0c => b'f',
        b'\n' => b'n',
        b'\r' => b'r',
        b'\t' => b't',
        0..=0x1f => {
            let (high, low) = (DIGITS[(byte >> 4) as usize], DIGITS[(byte & 15) as usize]);
            return ByteEscape([b'\\', b'u', b'0', b'0', high, low, 0, UNIT_ESCAPE_SIZE as u8]);
        }
        plain => return ByteEscape([plain, 0, 0, 0, 0, 0, 0, 1]),
    };
    ByteEscape([b'\\', short, 0, 0, 0, 0, 0, 2])
}

fn escape_row(row: &[u8], out: &mut Vec<u8>) {
    let mut escaped = [0; ROW_SIZE * UNIT_ESCAPE_SIZE + ENTRY_SIZE];
    let mut size = 0;
    for &byte in row {
        let escape = ESCAPES[usize::from(byte)];
        escaped[size..size + ENTRY_SIZE].copy_from_slice(&escape.0);
        size += escape.length();
    }
    out.extend_from_slice(&escaped[..size]);
}

/// Whether `text` is exactly one number (RFC 8259, section 6).
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
            Some(b'\\') => (escaped_unit(rest), 6),
            first => (first.map(|&byte| u16::from(byte)), 1),
        };
        if unit != Some(u16::from(wanted)) {
            return false;
        }
        rest = &rest[length..];
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Unescapes a token's inner text in pieces.
    fn in_pieces(inner: &[u8], size: usize) -> Result<String, TextError> {
        let (mut text, mut done) = (String::new(), 0);
        while done < inner.len() {
            let piece = unescape_piece(&inner[done..], size, &mut text);
            let taken = piece.map_err(|error| fault(error.kind, done + error.offset))?;
            assert!(taken > 0 && taken <= size.max(CHARACTER_SIZE_MAX) + ESCAPE_SIZE_MAX, "{taken} for {size}");
            done += taken;
        }
        Ok(text)
    }

    #[test]
    fn any_pieces_unescape_to_the_whole_or_to_its_fault() {
        for inner in [
            "",
            "plain",
            "é€\u{1d11e}é€\u{1d11e}",
            "\\ud834\\uDD1E\\ud834\\uDD1Ex\\ud834\\uDD1E",
            "\\\\\\\\\\\"\\/\\b\\f\\n\\r\\t\\u0000\\u00e9\u{1d11e}\\\\",
            "fault: \\x",
            "cut: \\u12",
            "control: \u{1}",
            "a lone half: \\ud834x",
            "two halves of the wrong kind: \\udd1e\\ud834",
            "a half at the end: \\ud834",
            "a mark: \" behind",
        ] {
            let token = format!("\"{inner}\"");
            let mut scratch = String::new();
            let whole = unescape(token.as_bytes(), &mut scratch).map(str::to_owned);
            let whole = whole.map_err(|error| fault(error.kind, error.offset - 1));
            for size in 0..=inner.len() + 2 {
                assert_eq!(in_pieces(inner.as_bytes(), size), whole, "{size} at a time: {inner}");
            }
        }
        assert_eq!(in_pieces(b"ab\xffcd", 3).map_err(|error| error.offset), Err(2));
        assert_eq!(
            in_pieces("abcdé".as_bytes().split_last().expect("a byte").1, 3).map_err(|error| error.offset),
            Err(4)
        );
    }

    #[test]
    fn any_pieces_escape_to_the_whole() {
        let text = "\u{0}\u{1f}plain \"\\/ é€\u{1d11e}\n";
        let mut whole = Vec::new();
        escape_into(text, &mut whole);
        for size in 1..=text.len() {
            let mut escaped = Vec::new();
            text.as_bytes().chunks(size).for_each(|piece| escape_piece(piece, &mut escaped));
            assert_eq!(escaped, whole[1..whole.len() - 1], "{size} at a time");
        }
        for byte in 0..=u8::MAX {
            let mut escaped = Vec::new();
            escape_piece(&[b'x', byte, byte], &mut escaped);
            assert_eq!(escaped_size(&[b'x', byte, byte]), escaped.len(), "{byte}");
        }
    }

    #[test]
    fn a_name_too_long_for_a_selector_is_recognised_by_its_size() {
        assert!(may_unescape_to(b"\"\\u0061\"", 1) && may_unescape_to(b"\"a\"", 1));
        assert!(!may_unescape_to(b"\"\\u0061b\"", 1) && !may_unescape_to(b"\"a\"", 0));
    }
}
