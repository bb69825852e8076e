//! The grammar of RFC 9535, section 2, except for filters: queries, segments, names, indexes and slices.
//!
//! A recursive descent parser over bytes; each error has its position and the expected input. White space is allowed exactly where the ABNF
//! has `S`. Filters are parsed in `filter.rs`, with the same parser.

use super::ast::{ArraySlice, Expression, JsonPathQuery, PathSegment, Reach, Selector};
use crate::error::SelectorErrorKind;
use crate::limits::DocumentLimits;
use crate::text::hex_unit;

/// The limits of I-JSON integers (RFC 9535, section 2.1).
const INTEGER_MAX: i64 = (1 << 53) - 1;

/// An error in the current selector: its position and kind.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct SelectorFault {
    pub(crate) position: usize,
    pub(crate) kind: SelectorErrorKind,
}

pub(crate) type SelectorResult<T> = Result<T, SelectorFault>;

/// A position in a selector's text, and the use of the limits.
pub(crate) struct Parser<'a> {
    pub(super) text: &'a str,
    pub(super) position: usize,
    pub(super) limits: &'a DocumentLimits,
    pub(super) depth: usize,
    pub(super) parsed: &'a mut SelectorTotals,
}

/// The totals of a selection's selectors so far.
#[derive(Debug, Default)]
pub(crate) struct SelectorTotals {
    /// Segments, and the selectors beyond the first in each.
    pub(crate) segments: usize,
    /// `$` queries inside filters.
    pub(crate) root_queries: u32,
    /// Calls of `match` and `search`.
    pub(crate) patterns: usize,
    /// The filters; selectors hold their numbers.
    pub(crate) filters: Vec<Expression>,
}

impl<'a> Parser<'a> {
    /// Starts before the first byte of `text`, with the counts of the selectors before it.
    pub(crate) fn new(text: &'a str, limits: &'a DocumentLimits, parsed: &'a mut SelectorTotals) -> Self {
        Parser { text, position: 0, limits, depth: 0, parsed }
    }

    /// `jsonpath-query`: the whole text.
    pub(crate) fn selector(&mut self) -> SelectorResult<JsonPathQuery> {
        if self.text.len() > self.limits.selector_length_max {
            return Err(SelectorFault {
                position: 0,
                kind: SelectorErrorKind::TooLong(self.limits.selector_length_max),
            });
        }
        if !self.eat(b'$') {
            return self.expected("'$' at the start of the selector");
        }
        let query = self.segments()?;
        if self.position < self.text.len() {
            return self.expected("'.', '..', '[' or the end of the selector");
        }
        Ok(query)
    }

    /// `*(S segment)`; white space after the last segment is not consumed.
    pub(super) fn segments(&mut self) -> SelectorResult<JsonPathQuery> {
        let mut query = JsonPathQuery::default();
        loop {
            let before = self.position;
            self.space();
            if !matches!(self.peek(), Some(b'.' | b'[')) {
                self.position = before;
                return Ok(query);
            }
            self.count_segment()?;
            query.segments.push(self.segment()?);
        }
    }

    fn count_segment(&mut self) -> SelectorResult<()> {
        if self.parsed.segments >= self.limits.segments_max {
            return self.fault(SelectorErrorKind::TooManySegments(self.limits.segments_max));
        }
        self.parsed.segments += 1;
        Ok(())
    }

    fn segment(&mut self) -> SelectorResult<PathSegment> {
        let dots = self.rest().bytes().take(2).take_while(|&byte| byte == b'.').count();
        self.position += dots;
        let reach = if dots == 2 { Reach::Descendants } else { Reach::Children };
        let selectors = match (dots, self.peek()) {
            (0 | 2, Some(b'[')) => self.bracketed()?,
            (_, Some(b'*')) => {
                self.position += 1;
                vec![Selector::Wildcard]
            }
            _ => vec![Selector::Name(self.shorthand_name(dots)?)],
        };
        Ok(PathSegment { reach, selectors })
    }

    /// `member-name-shorthand`.
    fn shorthand_name(&mut self, dots: usize) -> SelectorResult<String> {
        let is_first = |c: char| c.is_ascii_alphabetic() || c == '_' || !c.is_ascii();
        let length = match self.rest().chars().next() {
            Some(first) if is_first(first) => {
                let rest = self.rest();
                rest.find(|c: char| !is_first(c) && !c.is_ascii_digit()).unwrap_or(rest.len())
            }
            _ if dots == 2 => return self.expected("a name, '*' or '[' after '..'"),
            _ => return self.expected("a name or '*' after '.'"),
        };
        let name = self.rest()[..length].to_owned();
        self.position += length;
        Ok(name)
    }

    /// `bracketed-selection`.
    fn bracketed(&mut self) -> SelectorResult<Vec<Selector>> {
        self.position += 1;
        let mut selectors = Vec::new();
        loop {
            self.space();
            selectors.push(self.bracket_selector()?);
            self.space();
            if self.eat(b']') {
                return Ok(selectors);
            }
            if !self.eat(b',') {
                return self.expected("',' or ']'");
            }
            self.count_segment()?;
        }
    }

    fn bracket_selector(&mut self) -> SelectorResult<Selector> {
        match self.peek() {
            Some(b'\'' | b'"') => Ok(Selector::Name(self.string()?)),
            Some(b'*') => {
                self.position += 1;
                Ok(Selector::Wildcard)
            }
            Some(b'?') => {
                self.position += 1;
                let filter = self.filter()?;
                self.parsed.filters.push(filter);
                Ok(Selector::Filter(self.parsed.filters.len() as u32 - 1))
            }
            Some(b'-' | b':' | b'0'..=b'9') => self.index_or_slice(),
            _ => self.expected("a quoted name, '*', an index, a slice or a filter"),
        }
    }

    /// `index-selector` or `slice-selector`, distinguished by the first colon.
    fn index_or_slice(&mut self) -> SelectorResult<Selector> {
        let start = self.optional_integer()?;
        let after_start = self.position;
        self.space();
        if !self.eat(b':') {
            self.position = after_start;
            return match start {
                Some(index) => Ok(Selector::Index(index)),
                None => self.expected("an index"),
            };
        }
        self.space();
        let end = self.optional_integer()?;
        self.space();
        let mut step = None;
        if self.eat(b':') {
            self.space();
            step = self.optional_integer()?;
        }
        Ok(Selector::Slice(ArraySlice { start, end, step: step.unwrap_or(1) }))
    }

    /// `int`, if one begins here: no leading zeros, no −0, within the range of I-JSON.
    fn optional_integer(&mut self) -> SelectorResult<Option<i64>> {
        if !matches!(self.peek(), Some(b'-' | b'0'..=b'9')) {
            return Ok(None);
        }
        let start = self.position;
        let negative = self.eat(b'-');
        let digits = self.rest().bytes().take_while(u8::is_ascii_digit).count();
        let leading_zero = self.peek() == Some(b'0');
        if digits == 0 {
            return self.expected("a digit after '-'");
        }
        if leading_zero && (digits > 1 || negative) {
            return self.expected("an integer without leading zero, and no '-0'");
        }
        let text = &self.rest()[..digits];
        let magnitude = text.parse::<i64>().ok().filter(|&magnitude| magnitude <= INTEGER_MAX);
        let Some(magnitude) = magnitude else {
            return Err(SelectorFault { position: start, kind: SelectorErrorKind::IntegerRange });
        };
        self.position += digits;
        Ok(Some(if negative { -magnitude } else { magnitude }))
    }

    /// `string-literal`, with either kind of quotation mark.
    pub(super) fn string(&mut self) -> SelectorResult<String> {
        let quote = self.text.as_bytes()[self.position];
        self.position += 1;
        let mut value = String::new();
        loop {
            let Some(character) = self.rest().chars().next() else {
                return self.expected("the closing quotation mark");
            };
            match character {
                '\\' => value.push(self.escape(quote)?),
                _ if character == char::from(quote) => {
                    self.position += 1;
                    return Ok(value);
                }
                '\0'..='\u{1f}' => return self.expected("an escape: control characters cannot stand in a string"),
                _ => {
                    value.push(character);
                    self.position += character.len_utf8();
                }
            }
        }
    }

    /// One escape sequence, at its backslash. Only the string's own kind of quotation mark can be escaped.
    fn escape(&mut self, quote: u8) -> SelectorResult<char> {
        let start = self.position;
        self.position += 2;
        Ok(match self.text.as_bytes().get(start + 1) {
            Some(b'b') => '\u{8}',
            Some(b'f') => '\u{c}',
            Some(b'n') => '\n',
            Some(b'r') => '\r',
            Some(b't') => '\t',
            Some(b'/') => '/',
            Some(b'\\') => '\\',
            Some(&byte) if byte == quote => char::from(quote),
            Some(b'u') => return self.unicode_escape(start),
            _ => {
                self.position = start;
                return self.expected("an escape: \\b \\f \\n \\r \\t \\/ \\\\ \\u, or the string's quotation mark");
            }
        })
    }

    /// `hexchar`, after its `\u`: one unit, or a high and a low surrogate.
    fn unicode_escape(&mut self, start: usize) -> SelectorResult<char> {
        let high = self.hex_unit(start)?;
        let mut units = vec![high];
        if matches!(high, 0xd800..=0xdbff) && self.rest().starts_with("\\u") {
            self.position += 2;
            units.push(self.hex_unit(start)?);
        }
        let mut characters = char::decode_utf16(units);
        match (characters.next(), characters.next()) {
            (Some(Ok(character)), None) => Ok(character),
            _ => {
                self.position = start;
                self.expected("a character: surrogates stand in pairs, high before low")
            }
        }
    }

    fn hex_unit(&mut self, start: usize) -> SelectorResult<u16> {
        let Some(unit) = self.text.as_bytes().get(self.position..).and_then(hex_unit) else {
            self.position = start;
            return self.expected("four hexadecimal digits after \\u");
        };
        self.position += 4;
        Ok(unit)
    }

    /// `S`.
    pub(super) fn space(&mut self) {
        let count = self.rest().bytes().take_while(|byte| matches!(byte, b' ' | b'\t' | b'\n' | b'\r')).count();
        self.position += count;
    }

    pub(super) fn rest(&self) -> &'a str {
        // Positions advance by whole characters, so the slice is at a character boundary.
        &self.text[self.position..]
    }

    pub(super) fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.position).copied()
    }

    pub(super) fn eat(&mut self, byte: u8) -> bool {
        let found = self.peek() == Some(byte);
        self.position += usize::from(found);
        found
    }

    pub(super) fn fault<T>(&self, kind: SelectorErrorKind) -> SelectorResult<T> {
        Err(SelectorFault { position: self.position, kind })
    }

    pub(super) fn expected<T>(&self, what: &'static str) -> SelectorResult<T> {
        self.fault(SelectorErrorKind::Expected(what))
    }
}
