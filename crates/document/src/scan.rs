//! The lexical layer: where a string, a number or a run of white space ends (RFC 8259, sections 2, 6 and 7).
//!
//! Every scan looks at 16 bytes at a time through `wide`, portable and without `unsafe`. The figures behind that choice
//! stand in `docs/decisions/0003-json-scanning.md`. Nothing here looks at UTF-8: the walker checks that over whole pieces,
//! which is quicker, and every byte that matters to the grammar is ASCII.

use wide::u8x16;

use crate::error::{DocumentError, DocumentErrorKind};

/// Bytes looked at by one step.
const WIDTH: usize = 16;

/// The 16 bytes from `position`, when the document has so many.
#[inline(always)]
fn block(document: &[u8], position: usize) -> Option<u8x16> {
    let bytes = document.get(position..)?.first_chunk::<WIDTH>()?;
    Some(u8x16::new(*bytes))
}

/// One bit for each byte that ends a run of plain string text: `"`, `\` or a control character.
#[inline(always)]
fn special_mask(block: u8x16) -> u32 {
    let control = block.min(u8x16::splat(0x1f)).simd_eq(block);
    let quote = block.simd_eq(u8x16::splat(b'"'));
    let backslash = block.simd_eq(u8x16::splat(b'\\'));
    (control | quote | backslash).to_bitmask()
}

/// One bit for each byte that is JSON white space.
#[inline(always)]
fn space_mask(block: u8x16) -> u32 {
    let space = block.simd_eq(u8x16::splat(b' '));
    let line_feed = block.simd_eq(u8x16::splat(b'\n'));
    let carriage_return = block.simd_eq(u8x16::splat(b'\r'));
    let tab = block.simd_eq(u8x16::splat(b'\t'));
    (space | line_feed | carriage_return | tab).to_bitmask()
}

/// True for the four white space bytes of JSON.
#[inline(always)]
fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\n' | b'\r' | b'\t')
}

/// True for the bytes that cannot stand unescaped in a string, and for the backslash.
#[inline(always)]
fn is_special(byte: u8) -> bool {
    byte < 0x20 || byte == b'"' || byte == b'\\'
}

/// The first position from `position` on that holds a quotation mark, a backslash or a control character; the
/// document's length where there is none.
#[inline(always)]
pub(crate) fn special(document: &[u8], mut position: usize) -> usize {
    while let Some(block) = block(document, position) {
        let mask = special_mask(block);
        if mask != 0 {
            return position + mask.trailing_zeros() as usize;
        }
        position += WIDTH;
    }
    short_run(document, position, |byte| !is_special(byte))
}

/// The first position from `position` on that holds no white space; the document's length where there is none.
#[inline(always)]
pub(crate) fn skip_space(document: &[u8], position: usize) -> usize {
    // Compact text has no white space and hand-written text one space after a colon, so both leave before the loop.
    match document.get(position) {
        Some(&byte) if byte <= b' ' => {}
        _ => return position,
    }
    match document.get(position + 1) {
        Some(&byte) if byte > b' ' && is_space(document[position]) => position + 1,
        _ => skip_long_space(document, position),
    }
}

#[inline(always)]
fn skip_long_space(document: &[u8], mut position: usize) -> usize {
    while let Some(block) = block(document, position) {
        let other = !space_mask(block) & 0xffff;
        if other != 0 {
            return position + other.trailing_zeros() as usize;
        }
        position += WIDTH;
    }
    short_run(document, position, is_space)
}

/// What is left when fewer bytes remain than one step takes.
#[cold]
fn short_run(document: &[u8], position: usize, inside: impl Fn(u8) -> bool) -> usize {
    let rest = document.get(position..).unwrap_or_default();
    position + rest.iter().take_while(|&&byte| inside(byte)).count()
}

/// Whether a string token holds a backslash, and so differs from its text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StringToken {
    /// The position after the closing quotation mark.
    pub(crate) end: usize,
    /// Whether there is a backslash in it.
    pub(crate) escaped: bool,
}

/// The end of the string whose opening quotation mark stands at `start`; control characters and malformed escapes are
/// refused, lone surrogates let through (RFC 8259, section 8.2).
#[inline(always)]
pub(crate) fn string(document: &[u8], start: usize) -> Result<StringToken, DocumentError> {
    let stop = special(document, start + 1);
    if document.get(stop) == Some(&b'"') {
        return Ok(StringToken {
            end: stop + 1,
            escaped: false,
        });
    }
    string_rest(document, stop)
}

/// Goes on where plain text stopped at something that is not the closing quotation mark.
#[inline(never)]
fn string_rest(document: &[u8], mut stop: usize) -> Result<StringToken, DocumentError> {
    loop {
        match document.get(stop) {
            Some(b'"') => {
                return Ok(StringToken {
                    end: stop + 1,
                    escaped: true,
                });
            }
            Some(b'\\') => stop = special(document, escape(document, stop)?),
            Some(_) => return Err(DocumentError::new(DocumentErrorKind::ControlCharacter, stop)),
            None => return Err(DocumentError::new(DocumentErrorKind::UnexpectedEnd, document.len())),
        }
    }
}

/// The position after the escape sequence whose backslash stands at `start`.
fn escape(document: &[u8], start: usize) -> Result<usize, DocumentError> {
    let fault = |offset: usize| match offset < document.len() {
        true => DocumentError::new(DocumentErrorKind::InvalidEscape, start),
        false => DocumentError::new(DocumentErrorKind::UnexpectedEnd, document.len()),
    };
    match document.get(start + 1) {
        Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => Ok(start + 2),
        Some(b'u') => {
            let digits = document.get(start + 2..).unwrap_or_default().iter().take(4);
            let count = digits.take_while(|byte| byte.is_ascii_hexdigit()).count();
            if count == 4 {
                Ok(start + 6)
            } else {
                Err(fault(start + 2 + count))
            }
        }
        _ => Err(fault(start + 1)),
    }
}

/// The end of the run of digits that begins at `position`.
#[inline(always)]
fn digits(document: &[u8], mut position: usize) -> usize {
    while let Some(byte) = document.get(position) {
        if !byte.is_ascii_digit() {
            break;
        }
        position += 1;
    }
    position
}

/// The same, where at least one digit must stand.
#[inline(always)]
fn some_digits(document: &[u8], position: usize) -> Result<usize, DocumentError> {
    let end = digits(document, position);
    if end == position {
        return Err(missing_digit(document, position));
    }
    Ok(end)
}

#[cold]
fn missing_digit(document: &[u8], position: usize) -> DocumentError {
    let kind = match position < document.len() {
        true => DocumentErrorKind::InvalidNumber,
        false => DocumentErrorKind::UnexpectedEnd,
    };
    DocumentError::new(kind, position)
}

/// The end of the number that begins at `start` (RFC 8259, section 6). What may follow a number is the caller's to check.
#[inline(always)]
pub(crate) fn number(document: &[u8], start: usize) -> Result<usize, DocumentError> {
    let integer = start + usize::from(document.get(start) == Some(&b'-'));
    let mut end = match document.get(integer) {
        Some(b'0') => integer + 1,
        _ => some_digits(document, integer)?,
    };
    if document.get(end) == Some(&b'.') {
        end = some_digits(document, end + 1)?;
    }
    if let Some(b'e' | b'E') = document.get(end) {
        let sign = usize::from(matches!(document.get(end + 1), Some(b'+' | b'-')));
        end = some_digits(document, end + 1 + sign)?;
    }
    Ok(end)
}

/// The end of `true`, `false` or `null` at `start`.
#[inline(always)]
pub(crate) fn literal(document: &[u8], start: usize, word: &'static [u8]) -> Result<usize, DocumentError> {
    let rest = &document[start..];
    if rest.starts_with(word) {
        return Ok(start + word.len());
    }
    let kind = match word.starts_with(rest) {
        true => DocumentErrorKind::UnexpectedEnd,
        false => DocumentErrorKind::InvalidLiteral,
    };
    let offset = if kind == DocumentErrorKind::UnexpectedEnd {
        document.len()
    } else {
        start
    };
    Err(DocumentError::new(kind, offset))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Text of `length` bytes that no scan stops at, so that a stop put anywhere is seen at every offset in a block.
    fn filler(length: usize, byte: u8) -> Vec<u8> {
        vec![byte; length]
    }

    #[test]
    fn special_is_found_at_every_place_around_the_width() {
        for length in [0, 1, 15, 16, 17, 31, 32, 33, 47] {
            for (place, stop) in (0..length).flat_map(|place| [b'"', b'\\', 0, 0x1f].map(|stop| (place, stop))) {
                let mut text = filler(length, b'a');
                text[place] = stop;
                assert_eq!(special(&text, 0), place, "length {length} place {place} stop {stop}");
            }
            for plain in [b' ', b'!', b'#', b'[', b']', 0x7f, 0x80, 0xff] {
                assert_eq!(special(&filler(length, plain), 0), length);
            }
        }
    }

    #[test]
    fn space_ends_at_every_place_around_the_width() {
        for length in [0, 1, 2, 15, 16, 17, 31, 32, 33] {
            for space in [b' ', b'\t', b'\n', b'\r'] {
                let mut text = filler(length, space);
                assert_eq!(skip_space(&text, 0), length);
                text.push(b'x');
                text.extend(filler(20, space));
                assert_eq!(skip_space(&text, 0), length);
            }
        }
        for other in [0, 1, 8, 11, 12, 14, 31, 33, 0x80, 0xa0] {
            assert_eq!(skip_space(&[other; 40], 3), 3, "{other} is no white space");
        }
        assert_eq!(skip_space(b"", 0), 0);
    }

    #[test]
    fn numbers_follow_the_grammar() {
        let good = [
            "0",
            "-0",
            "1",
            "-1",
            "10",
            "0.0",
            "1.5e3",
            "1E+2",
            "1e-2",
            "12345678901234567890",
            "0e0",
        ];
        for text in good {
            assert_eq!(number(text.as_bytes(), 0), Ok(text.len()), "{text}");
        }
        for text in ["-", "1.", "1.e1", "1e", "1e+", ".1", "+1", "-a", "1.a"] {
            assert!(number(text.as_bytes(), 0).is_err(), "{text}");
        }
        assert_eq!(number(b"01", 0), Ok(1));
    }
}
