//! The lexical layer: finds the end of strings, numbers and white space (RFC 8259, sections 2, 6 and 7).
//!
//! The text is processed in aligned blocks of 64 bytes. A [`Finder`] caches one bit per byte for its last block, so that the next search in
//! that block is a shift and a count of zeros, without a load that the next position would depend on. The bits come from `wide`, portable
//! and without `unsafe`; `docs/decisions/0003-json-scanning.md` has the figures behind that choice. Nothing here validates UTF-8: the
//! walker does that over whole pieces, which is faster, and every byte that matters to the grammar is ASCII.

use wide::u8x16;

use crate::error::{DocumentError, DocumentErrorKind};

/// Bytes that one instruction processes.
const WIDTH: usize = 16;

/// Bytes in a block: one bit each in a word.
pub(crate) const BLOCK: usize = 64;

/// A class of bytes that end a run; the others are the run.
trait StopBytes {
    /// One bit for each byte of the class.
    fn mask(lane: u8x16) -> u32;
}

/// The bytes that end plain string text: `"`, `\` and control characters.
#[derive(Debug)]
struct StringStop;

/// All bytes but JSON white space.
#[derive(Debug)]
struct SpaceStop;

/// All bytes but the ten digits.
#[derive(Debug)]
struct DigitStop;

impl StopBytes for StringStop {
    #[inline(always)]
    fn mask(lane: u8x16) -> u32 {
        special_mask(lane)
    }
}

impl StopBytes for SpaceStop {
    #[inline(always)]
    fn mask(lane: u8x16) -> u32 {
        !space_mask(lane) & 0xffff
    }
}

impl StopBytes for DigitStop {
    #[inline(always)]
    fn mask(lane: u8x16) -> u32 {
        let distance = lane - u8x16::splat(b'0');
        !distance.min(u8x16::splat(9)).simd_eq(distance).to_bitmask() & 0xffff
    }
}

/// Finds the end of runs, and caches the last block.
#[derive(Debug)]
struct Finder<S> {
    /// The block's position, a multiple of [`BLOCK`].
    base: usize,
    /// One bit for each of its bytes that is in the class.
    mask: u64,
    class: std::marker::PhantomData<S>,
}

impl<S: StopBytes> Finder<S> {
    fn new() -> Self {
        // No block begins at the last address, so the first search loads one.
        Finder { base: usize::MAX, mask: 0, class: std::marker::PhantomData }
    }

    /// The first position from `position` on whose byte is in the class; the document's length if there is none.
    #[inline(always)]
    fn find(&mut self, document: &[u8], position: usize) -> usize {
        let mut first = position;
        if position & !(BLOCK - 1) == self.base {
            let rest = self.mask >> (position % BLOCK);
            if rest != 0 {
                return position + rest.trailing_zeros() as usize;
            }
            first = self.base + BLOCK;
        }
        (self.base, self.mask) = seek::<S>(document, first);
        let first = first.max(self.base);
        // At the end of the document no bit is set, and the count is that of a whole word.
        let rest = self.mask >> (first % BLOCK);
        (first + rest.trailing_zeros() as usize).min(document.len())
    }
}

/// The first block with a byte of the class at or after `position`; at the end of the document a block without one. Not inlined: it runs
/// once per block, and the machine's code stays small enough for the instruction cache.
#[inline(never)]
fn seek<S: StopBytes>(document: &[u8], position: usize) -> (usize, u64) {
    let mut base = position & !(BLOCK - 1);
    let mut wanted = u64::MAX << (position % BLOCK);
    loop {
        let mask = block_mask::<S>(document, base);
        if mask & wanted != 0 || base >= document.len() {
            return (base, mask);
        }
        base += BLOCK;
        wanted = u64::MAX;
    }
}

/// The bits of the block at `base`.
#[inline(always)]
fn block_mask<S: StopBytes>(document: &[u8], base: usize) -> u64 {
    match document.get(base..).and_then(|rest| rest.first_chunk()) {
        Some(block) => full_block_mask::<S>(block),
        None => last_block_mask::<S>(document, base),
    }
}

#[inline(always)]
fn full_block_mask<S: StopBytes>(block: &[u8; BLOCK]) -> u64 {
    let (lanes, _) = block.as_chunks::<WIDTH>();
    let mask = |lane: usize| u64::from(S::mask(u8x16::new(lanes[lane])));
    mask(0) | mask(1) << WIDTH | mask(2) << (2 * WIDTH) | mask(3) << (3 * WIDTH)
}

/// The bits of the block at which the document ends. It is not copied: a copy on the stack would outlast the document, where freed memory
/// is overwritten.
#[cold]
#[inline(never)]
fn last_block_mask<S: StopBytes>(document: &[u8], base: usize) -> u64 {
    let rest = document.get(base..).unwrap_or_default();
    match document.last_chunk() {
        _ if rest.is_empty() => 0,
        Some(block) => full_block_mask::<S>(block) >> (BLOCK - rest.len()),
        None => short_mask::<S>(rest),
    }
}

/// The bits of less than a block.
fn short_mask<S: StopBytes>(bytes: &[u8]) -> u64 {
    let (lanes, rest) = bytes.as_chunks::<WIDTH>();
    let lane_mask = |lane: [u8; WIDTH]| u64::from(S::mask(u8x16::new(lane)));
    let whole = (0..).step_by(WIDTH).zip(lanes).fold(0, |mask, (at, lane)| mask | lane_mask(*lane) << at);
    let last = rest.iter().rev().fold(0_u128, |word, &byte| word << 8 | u128::from(byte));
    // Padding bytes would be stops where the document has no bytes.
    let bits = lane_mask(last.to_le_bytes()) & !(u64::MAX << rest.len());
    whole | bits << (WIDTH * lanes.len())
}

/// One bit for each byte that ends a run of plain string text: `"`, `\` or a control character.
#[inline(always)]
fn special_mask(lane: u8x16) -> u32 {
    let control = lane.min(u8x16::splat(0x1f)).simd_eq(lane);
    let quote = lane.simd_eq(u8x16::splat(b'"'));
    let backslash = lane.simd_eq(u8x16::splat(b'\\'));
    (control | quote | backslash).to_bitmask()
}

/// One bit for each byte that is JSON white space.
#[inline(always)]
fn space_mask(lane: u8x16) -> u32 {
    let space = lane.simd_eq(u8x16::splat(b' '));
    let line_feed = lane.simd_eq(u8x16::splat(b'\n'));
    let carriage_return = lane.simd_eq(u8x16::splat(b'\r'));
    let tab = lane.simd_eq(u8x16::splat(b'\t'));
    (space | line_feed | carriage_return | tab).to_bitmask()
}

/// Whether the byte must be escaped in a string, or is a backslash.
#[inline(always)]
fn is_special(byte: u8) -> bool {
    byte < 0x20 || byte == b'"' || byte == b'\\'
}

/// The first position from `position` on with a quotation mark, a backslash or a control character; the text's length if there is none. For
/// single texts, which may be short, so nothing is cached between calls.
#[inline(always)]
pub(crate) fn special(text: &[u8], mut position: usize) -> usize {
    while let Some(lane) = text.get(position..).and_then(|rest| rest.first_chunk()) {
        let mask = special_mask(u8x16::new(*lane));
        if mask != 0 {
            return position + mask.trailing_zeros() as usize;
        }
        position += WIDTH;
    }
    let rest = text.get(position..).unwrap_or_default();
    position + rest.iter().take_while(|&&byte| !is_special(byte)).count()
}

/// Reads tokens of one document, front to back.
#[derive(Debug)]
pub(crate) struct TokenScanner<'d> {
    document: &'d [u8],
    strings: Finder<StringStop>,
    spaces: Finder<SpaceStop>,
    digits: Finder<DigitStop>,
    /// Where the last string was interrupted, if the visible document ended in it.
    left_off: StringPlace,
}

/// A position in a string, between two characters of its token.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct StringPlace {
    pub(crate) position: usize,
    /// Whether a backslash precedes it.
    pub(crate) escaped: bool,
}

/// A position in a number, after a digit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NumberPlace {
    pub(crate) position: usize,
    part: NumberPart,
}

/// The part of a number that a digit belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NumberPart {
    Integer,
    Fraction,
    Exponent,
}

/// A string token's end, and whether it contains a backslash, so that it differs from its text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StringToken {
    /// The position after the closing quotation mark.
    pub(crate) end: usize,
    /// Whether it contains a backslash.
    pub(crate) escaped: bool,
}

impl<'d> TokenScanner<'d> {
    pub(crate) fn new(document: &'d [u8]) -> Self {
        let left_off = StringPlace::default();
        TokenScanner { document, strings: Finder::new(), spaces: Finder::new(), digits: Finder::new(), left_off }
    }

    /// The first position from `position` on without white space; the document's length if there is none.
    #[inline(always)]
    pub(crate) fn skip_space(&mut self, position: usize) -> usize {
        // Compact text has no white space and hand-written text one space after a colon: fast paths for both.
        match self.document.get(position) {
            Some(&byte) if byte <= b' ' => {}
            _ => return position,
        }
        match self.document.get(position + 1) {
            Some(&byte) if byte > b' ' && self.document[position] == b' ' => position + 1,
            _ => self.spaces.find(self.document, position),
        }
    }

    /// The end of the string whose opening quotation mark is at `start`; control characters and malformed escapes are refused, lone
    /// surrogates accepted (RFC 8259, section 8.2).
    #[inline(always)]
    pub(crate) fn string(&mut self, start: usize) -> Result<StringToken, DocumentError> {
        let stop = self.strings.find(self.document, start + 1);
        if self.document.get(stop) == Some(&b'"') {
            return Ok(StringToken { end: stop + 1, escaped: false });
        }
        self.string_rest(stop)
    }

    /// Continues an interrupted string, once more of the document is visible.
    #[inline(always)]
    pub(crate) fn string_from(&mut self, place: StringPlace) -> Result<StringToken, DocumentError> {
        let stop = self.strings.find(self.document, place.position);
        if self.document.get(stop) == Some(&b'"') {
            return Ok(StringToken { end: stop + 1, escaped: place.escaped });
        }
        let token = self.string_rest(stop);
        self.left_off.escaped |= place.escaped;
        token
    }

    /// Where a string was interrupted by the end of the visible document.
    pub(crate) fn left_off(&self) -> StringPlace {
        self.left_off
    }

    /// Continues where plain text stopped at something other than the closing quotation mark.
    #[inline(always)]
    fn string_rest(&mut self, first: usize) -> Result<StringToken, DocumentError> {
        let mut stop = first;
        loop {
            match self.document.get(stop) {
                Some(b'"') => return Ok(StringToken { end: stop + 1, escaped: true }),
                Some(b'\\') => match escape(self.document, stop) {
                    Ok(after) => stop = self.strings.find(self.document, after),
                    Err(error) => return Err(self.leave_off(stop, first, error)),
                },
                Some(_) => return Err(DocumentError::new(DocumentErrorKind::ControlCharacter, stop)),
                None => {
                    let error = DocumentError::new(DocumentErrorKind::UnexpectedEnd, self.document.len());
                    return Err(self.leave_off(stop, first, error));
                }
            }
        }
    }

    #[cold]
    fn leave_off(&mut self, position: usize, first: usize, error: DocumentError) -> DocumentError {
        self.left_off = StringPlace { position, escaped: position != first };
        error
    }

    /// The end of a run of at least one digit.
    #[inline(always)]
    fn some_digits(&mut self, position: usize) -> Result<usize, DocumentError> {
        let end = self.digits.find(self.document, position);
        if end == position {
            return Err(missing_digit(self.document, position));
        }
        Ok(end)
    }

    /// The end of the number that begins at `start` (RFC 8259, section 6). The caller checks what follows a number.
    #[inline(always)]
    pub(crate) fn number(&mut self, start: usize) -> Result<usize, DocumentError> {
        let document = self.document;
        let integer = start + usize::from(document.get(start) == Some(&b'-'));
        let end = match document.get(integer) {
            Some(b'0') => integer + 1,
            _ => self.some_digits(integer)?,
        };
        self.fraction(end)
    }

    /// Continues a number after its integer.
    #[inline(always)]
    fn fraction(&mut self, end: usize) -> Result<usize, DocumentError> {
        match self.document.get(end) {
            Some(b'.') => {
                let end = self.some_digits(end + 1)?;
                self.exponent(end)
            }
            _ => self.exponent(end),
        }
    }

    #[inline(always)]
    fn exponent(&mut self, end: usize) -> Result<usize, DocumentError> {
        let Some(b'e' | b'E') = self.document.get(end) else { return Ok(end) };
        let sign = usize::from(matches!(self.document.get(end + 1), Some(b'+' | b'-')));
        self.some_digits(end + 1 + sign)
    }

    /// Continues an interrupted number, once more of the document is visible.
    pub(crate) fn number_from(&mut self, place: NumberPlace) -> Result<usize, DocumentError> {
        let end = self.digits.find(self.document, place.position);
        match place.part {
            NumberPart::Integer => self.fraction(end),
            NumberPart::Fraction => self.exponent(end),
            NumberPart::Exponent => Ok(end),
        }
    }

    /// The position after the last digit of a number at the end of the visible document, from its beginning or from where it was
    /// interrupted before.
    pub(crate) fn number_left_off(&self, start: usize, before: Option<NumberPlace>) -> NumberPlace {
        let from = before.map_or(start, |place| place.position);
        let text = &self.document[from..];
        let size = text.iter().rposition(u8::is_ascii_digit).map_or(0, |last| last + 1);
        let has = |mark: fn(&u8) -> bool| text[..size].iter().any(mark);
        let part = match before.map_or(NumberPart::Integer, |place| place.part) {
            _ if has(|byte| matches!(byte, b'e' | b'E')) => NumberPart::Exponent,
            NumberPart::Integer if has(|byte| *byte == b'.') => NumberPart::Fraction,
            part => part,
        };
        NumberPlace { position: from + size, part }
    }

    /// The end of `true`, `false` or `null` at `start`.
    #[inline(always)]
    pub(crate) fn literal(&self, start: usize, word: &'static [u8]) -> Result<usize, DocumentError> {
        let rest = &self.document[start..];
        match rest.starts_with(word) {
            true => Ok(start + word.len()),
            false => Err(wrong_literal(self.document, start, word)),
        }
    }
}

/// The end of the number at the start of `text`, for short texts.
pub(crate) fn number(text: &[u8], start: usize) -> Result<usize, DocumentError> {
    TokenScanner::new(text).number(start)
}

#[cold]
fn wrong_literal(document: &[u8], start: usize, word: &'static [u8]) -> DocumentError {
    match word.starts_with(&document[start..]) {
        true => DocumentError::new(DocumentErrorKind::UnexpectedEnd, document.len()),
        false => DocumentError::new(DocumentErrorKind::InvalidLiteral, start),
    }
}

#[cold]
fn missing_digit(document: &[u8], position: usize) -> DocumentError {
    let kind = match position < document.len() {
        true => DocumentErrorKind::InvalidNumber,
        false => DocumentErrorKind::UnexpectedEnd,
    };
    DocumentError::new(kind, position)
}

/// The position after the escape sequence whose backslash is at `start`.
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
            if count == 4 { Ok(start + 6) } else { Err(fault(start + 2 + count)) }
        }
        _ => Err(fault(start + 1)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Text of `length` bytes without stops, so that a stop is found at every offset in a block.
    fn filler(length: usize, byte: u8) -> Vec<u8> {
        vec![byte; length]
    }

    #[test]
    fn strings_end_at_every_place_around_the_widths() {
        for (before, length) in
            (0..70).flat_map(|before| [0, 1, 15, 16, 17, 63, 64, 65, 130].map(|length| (before, length)))
        {
            let mut text = vec![b'"'; before + 1];
            text.extend(filler(length, 0xe9));
            let close = text.len();
            assert_eq!(special(&text, before + 1), close);
            let ends_early = Err(DocumentError::new(DocumentErrorKind::UnexpectedEnd, close));
            assert_eq!(TokenScanner::new(&text).string(before), ends_early);
            for (stop, rest) in [(b'"', 0), (b'"', 70), (b'\\', 5), (0x1f, 64), (0, 1)] {
                text.truncate(close);
                text.push(stop);
                text.extend(filler(rest, b'"'));
                assert_eq!(special(&text, before + 1), close);
                let token = TokenScanner::new(&text).string(before);
                let expected = match stop {
                    b'"' => Ok(StringToken { end: close + 1, escaped: false }),
                    b'\\' => Ok(StringToken { end: close + 3, escaped: true }),
                    _ => Err(DocumentError::new(DocumentErrorKind::ControlCharacter, close)),
                };
                assert_eq!(token, expected, "before {before} length {length} stop {stop} rest {rest}");
            }
        }
        for plain in [b' ', b'!', b'#', b'[', b']', 0x7f, 0x80, 0xff] {
            assert_eq!(special(&filler(40, plain), 0), 40);
            assert!(TokenScanner::new(&filler(140, plain)).string(3).is_err_and(|error| error.offset == 140));
        }
    }

    #[test]
    fn space_ends_at_every_place_around_the_widths() {
        for (before, length) in
            (0..66).flat_map(|before| [0, 1, 2, 15, 16, 17, 63, 64, 65, 129].map(|length| (before, length)))
        {
            for space in *b" \t\n\r" {
                let mut text = filler(before, b'x');
                text.extend(filler(length, space));
                let end = text.len();
                assert_eq!(TokenScanner::new(&text).skip_space(before), end);
                text.push(b'x');
                text.extend(filler(20, space));
                assert_eq!(TokenScanner::new(&text).skip_space(before), end);
            }
        }
        for other in [0, 1, 8, 11, 12, 14, 31, 33, 0x80, 0xa0] {
            assert_eq!(TokenScanner::new(&[other; 40]).skip_space(3), 3, "{other} is no white space");
        }
        assert_eq!(TokenScanner::new(b"").skip_space(0), 0);
    }

    #[test]
    fn digits_end_at_every_place_around_the_widths() {
        for (before, length) in
            (0..66).flat_map(|before| [1, 2, 15, 16, 63, 64, 65, 200].map(|length| (before, length)))
        {
            for stop in [b'/', b':', b',', b' ', 0, 0xb0, b'a'] {
                let mut text = filler(before, b' ');
                text.extend(filler(length, b'0' + 1 + (length % 9) as u8));
                assert_eq!(number(&text, before), Ok(before + length));
                text.push(stop);
                text.extend(filler(70, b'5'));
                assert_eq!(number(&text, before), Ok(before + length), "before {before} length {length}");
            }
        }
    }

    #[test]
    fn numbers_follow_the_grammar() {
        let good = ["0", "-0", "1", "-1", "10", "0.0", "1.5e3", "1E+2", "1e-2", "12345678901234567890", "0e0"];
        for text in good {
            assert_eq!(number(text.as_bytes(), 0), Ok(text.len()), "{text}");
        }
        for text in ["-", "1.", "1.e1", "1e", "1e+", ".1", "+1", "-a", "1.a"] {
            assert!(number(text.as_bytes(), 0).is_err(), "{text}");
        }
        assert_eq!(number(b"01", 0), Ok(1));
    }
}
