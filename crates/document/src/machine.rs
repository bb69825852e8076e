//! The grammar of RFC 8259, in one place: everything that reads a document drives this machine and passes it a [`Sink`].
//!
//! It uses no recursion and no tree, stores one byte per level, and can stop anywhere and continue later, also within a token: it sees the
//! document only up to slightly after its stopping point, and stops where an incomplete document would seem to end. It accepts exactly one
//! JSON value with white space around it, and a byte order mark before that, which it passes over. It does not validate UTF-8.

use crate::encoding::{BYTE_ORDER_MARK, OtherEncoding};
use crate::error::{DocumentError, DocumentErrorKind, Expected};
use crate::scan::{BLOCK, NumberPlace, StringPlace, StringToken, TokenScanner};

/// Minimum number of bytes visible after the stopping point: short tokens are read to their end.
const SIGHT: usize = BLOCK;

/// The two kinds of values that contain others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Container {
    Object,
    Array,
}

/// The kinds of scalar, as the grammar sees them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum GrammarScalar {
    String { escaped: bool },
    Number,
    Boolean,
    Null,
}

/// Receives the machine's events. Positions are byte offsets into the document; a string's or name's range includes its quotation
/// marks. For each value of an object, `name` comes first.
pub(crate) trait Sink {
    fn name(&mut self, document: &[u8], start: usize, end: usize, escaped: bool);
    fn scalar(&mut self, document: &[u8], start: usize, end: usize, scalar: GrammarScalar);
    fn open(&mut self, start: usize, container: Container);
    fn close(&mut self, end: usize);
    /// Whether the machine must stop before the next value.
    fn is_full(&self) -> bool;
}

/// A sink that can detect faults of a document itself.
pub(crate) trait FallibleSink: Sink {
    /// The fault, if it found one; it must then report that it is full.
    fn fault(&self) -> Option<DocumentError> {
        None
    }
}

/// The expected token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ExpectedToken {
    Document,
    FirstMember,
    FirstElement,
    /// A comma or the end of the innermost container.
    After,
    /// A name, after a comma.
    Member,
    /// The colon after a name.
    Colon,
    /// A value, after a comma or colon.
    Value,
    /// Only white space.
    End,
}

/// Whether the end of the document is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reach {
    Stopped,
    Finished,
}

/// An interrupted token.
#[derive(Clone, Copy, Debug)]
struct Cut {
    start: usize,
    token: CutToken,
}

#[derive(Clone, Copy, Debug)]
enum CutToken {
    Name(StringPlace),
    String(StringPlace),
    Number(NumberPlace),
}

/// The progress of reading a document.
#[derive(Debug)]
pub(crate) struct GrammarMachine {
    position: usize,
    next: ExpectedToken,
    cut: Option<Cut>,
    open: Vec<Container>,
    depth_max: usize,
}

impl GrammarMachine {
    /// At the start of a document.
    pub(crate) fn new(depth_max: usize) -> Self {
        GrammarMachine { position: 0, next: ExpectedToken::Document, cut: None, open: Vec::new(), depth_max }
    }

    /// Starts again with another document.
    pub(crate) fn restart(&mut self) {
        self.position = 0;
        self.next = ExpectedToken::Document;
        self.cut = None;
        self.open.clear();
    }

    /// Bytes read; possibly in the middle of a token.
    pub(crate) fn position(&self) -> usize {
        self.position
    }

    /// Bytes read up to the last incomplete token.
    pub(crate) fn token_start(&self) -> usize {
        self.cut.map_or(self.position, |cut| cut.start)
    }

    /// Reads until `stop` is reached or passed, the sink is full or the document ends. Passes `stop` by less than two blocks.
    pub(crate) fn run(&mut self, document: &[u8], stop: usize, sink: &mut impl Sink) -> Result<Reach, DocumentError> {
        let seen = seen(document, stop);
        let mut reader = RunningMachine {
            document: seen,
            is_whole: seen.len() == document.len(),
            scanner: TokenScanner::new(seen),
            in_object: self.open.last() == Some(&Container::Object),
            open: &mut self.open,
            next: self.next,
            cut: None,
            depth_max: self.depth_max,
            sink,
        };
        let begin = match self.cut.take() {
            None => Ok(self.position),
            Some(cut) => reader.resume(cut),
        };
        let result = begin.and_then(|position| reader.run(position, stop));
        (self.next, self.cut) = (reader.next, reader.cut);
        self.position = result?;
        if self.position < document.len() {
            return Ok(Reach::Stopped);
        }
        match self.next {
            ExpectedToken::End => Ok(Reach::Finished),
            ExpectedToken::Document => Err(DocumentError::new(DocumentErrorKind::Empty, self.position)),
            _ => Err(DocumentError::new(DocumentErrorKind::UnexpectedEnd, self.position)),
        }
    }
}

/// The machine while it runs. A separate value, inlined throughout, so that its fields are in registers.
struct RunningMachine<'r, S> {
    /// The visible part of the document.
    document: &'r [u8],
    /// Whether all of it is visible.
    is_whole: bool,
    scanner: TokenScanner<'r>,
    open: &'r mut Vec<Container>,
    /// Whether the innermost open container is an object.
    in_object: bool,
    next: ExpectedToken,
    /// The interrupted token, if there is one.
    cut: Option<Cut>,
    depth_max: usize,
    sink: &'r mut S,
}

impl<S: Sink> RunningMachine<'_, S> {
    #[inline(always)]
    fn run(&mut self, mut position: usize, stop: usize) -> Result<usize, DocumentError> {
        while position < stop && !self.sink.is_full() {
            let at = self.scanner.skip_space(position);
            let Some(&byte) = self.document.get(at) else { return Ok(at) };
            position = match self.next {
                ExpectedToken::After => self.after(at, byte)?,
                ExpectedToken::FirstMember if byte == b'}' => self.close(at),
                ExpectedToken::FirstMember => self.member(at, Expected::NameOrEnd)?,
                ExpectedToken::FirstElement if byte == b']' => self.close(at),
                ExpectedToken::FirstElement => self.value(at, Expected::ValueOrEnd)?,
                ExpectedToken::Document => self.root(at)?,
                ExpectedToken::Member => self.member(at, Expected::Name)?,
                ExpectedToken::Colon => self.colon(at)?,
                ExpectedToken::Value => self.value(at, Expected::Value)?,
                ExpectedToken::End => self.unexpected(Expected::EndOfDocument, at)?,
            };
        }
        Ok(position)
    }

    #[inline(always)]
    fn after(&mut self, at: usize, byte: u8) -> Result<usize, DocumentError> {
        if byte == b',' {
            let at = self.scanner.skip_space(at + 1);
            return match self.in_object {
                true => self.member(at, Expected::Name),
                false => self.value(at, Expected::Value),
            };
        }
        match (self.in_object, byte) {
            (true, b'}') | (false, b']') => Ok(self.close(at)),
            (true, _) => self.unexpected(Expected::CommaOrObjectEnd, at),
            (false, _) => self.unexpected(Expected::CommaOrArrayEnd, at),
        }
    }

    /// Reads a name, its colon and the value or the opening of the container that follows.
    #[inline(always)]
    fn member(&mut self, at: usize, expected: Expected) -> Result<usize, DocumentError> {
        if self.document.get(at) != Some(&b'"') {
            return self.absent(expected, at, ExpectedToken::Member);
        }
        match self.scanner.string(at) {
            Ok(name) => self.named(at, name),
            Err(error) => self.leave_off(error, at, CutToken::Name),
        }
    }

    #[inline(always)]
    fn named(&mut self, start: usize, name: StringToken) -> Result<usize, DocumentError> {
        self.sink.name(self.document, start, name.end, name.escaped);
        let colon = self.scanner.skip_space(name.end);
        self.colon(colon)
    }

    #[inline(always)]
    fn colon(&mut self, at: usize) -> Result<usize, DocumentError> {
        if self.document.get(at) != Some(&b':') {
            return self.absent(Expected::Colon, at, ExpectedToken::Colon);
        }
        let at = self.scanner.skip_space(at + 1);
        self.value(at, Expected::Value)
    }

    /// Reads a scalar, or the opening of a container.
    #[inline(always)]
    fn value(&mut self, at: usize, expected: Expected) -> Result<usize, DocumentError> {
        let (end, scalar) = match self.document.get(at) {
            Some(b'"') => match self.scanner.string(at) {
                Ok(string) => (string.end, GrammarScalar::String { escaped: string.escaped }),
                Err(error) => return self.leave_off(error, at, CutToken::String),
            },
            Some(b'-' | b'0'..=b'9') => match self.scanner.number(at) {
                Ok(end) if end < self.document.len() || self.is_whole => (end, GrammarScalar::Number),
                result => return self.leave_off_number(result, at, None),
            },
            Some(b'{') => return self.open(at, Container::Object),
            Some(b'[') => return self.open(at, Container::Array),
            Some(&first @ (b't' | b'f' | b'n')) => {
                let (end, scalar) = match first {
                    b't' => (self.scanner.literal(at, b"true"), GrammarScalar::Boolean),
                    b'f' => (self.scanner.literal(at, b"false"), GrammarScalar::Boolean),
                    _ => (self.scanner.literal(at, b"null"), GrammarScalar::Null),
                };
                match end {
                    Ok(end) => (end, scalar),
                    Err(error) => return self.leave_off_word(error, at),
                }
            }
            _ => return self.absent(expected, at, ExpectedToken::Value),
        };
        self.sink.scalar(self.document, at, end, scalar);
        self.next = ExpectedToken::After;
        Ok(end)
    }

    #[inline(always)]
    fn open(&mut self, at: usize, container: Container) -> Result<usize, DocumentError> {
        if self.open.len() >= self.depth_max {
            return Err(DocumentError::new(DocumentErrorKind::TooDeep(self.depth_max), at));
        }
        self.open.push(container);
        self.in_object = container == Container::Object;
        self.next = if self.in_object { ExpectedToken::FirstMember } else { ExpectedToken::FirstElement };
        self.sink.open(at, container);
        Ok(at + 1)
    }

    #[inline(always)]
    fn close(&mut self, at: usize) -> usize {
        self.open.pop();
        self.in_object = self.open.last() == Some(&Container::Object);
        self.next = if self.open.is_empty() { ExpectedToken::End } else { ExpectedToken::After };
        self.sink.close(at + 1);
        at + 1
    }

    #[inline(always)]
    fn root(&mut self, at: usize) -> Result<usize, DocumentError> {
        if at == 0 && self.document.starts_with(BYTE_ORDER_MARK) {
            return Ok(BYTE_ORDER_MARK.len());
        }
        if let Some(encoding) = OtherEncoding::of(self.document) {
            return Err(DocumentError::new(DocumentErrorKind::OtherEncoding(encoding), 0));
        }
        let end = self.value(at, Expected::Value)?;
        if self.next == ExpectedToken::After {
            self.next = ExpectedToken::End;
        }
        Ok(end)
    }

    /// Continues an interrupted token.
    #[cold]
    #[inline(never)]
    fn resume(&mut self, Cut { start, token }: Cut) -> Result<usize, DocumentError> {
        let (end, scalar) = match token {
            CutToken::Name(place) => {
                return match self.scanner.string_from(place) {
                    Ok(name) => self.named(start, name),
                    Err(error) => self.leave_off(error, start, CutToken::Name),
                };
            }
            CutToken::String(place) => match self.scanner.string_from(place) {
                Ok(string) => (string.end, GrammarScalar::String { escaped: string.escaped }),
                Err(error) => return self.leave_off(error, start, CutToken::String),
            },
            CutToken::Number(place) => match self.scanner.number_from(place) {
                Ok(end) if end < self.document.len() || self.is_whole => (end, GrammarScalar::Number),
                result => return self.leave_off_number(result, start, Some(place)),
            },
        };
        self.sink.scalar(self.document, start, end, scalar);
        self.next = if self.open.is_empty() { ExpectedToken::End } else { ExpectedToken::After };
        Ok(end)
    }

    /// Handles a token other than `expected`: a fault, the end of the document, or the end of its visible part; then `next` is the
    /// next token.
    #[cold]
    fn absent(&mut self, expected: Expected, at: usize, next: ExpectedToken) -> Result<usize, DocumentError> {
        if at == self.document.len() && self.is_whole {
            return Err(DocumentError::new(DocumentErrorKind::UnexpectedEnd, at));
        }
        let at = self.unexpected(expected, at)?;
        self.next = match expected {
            _ if self.next == ExpectedToken::Document => ExpectedToken::Document,
            Expected::ValueOrEnd => ExpectedToken::FirstElement,
            Expected::NameOrEnd => ExpectedToken::FirstMember,
            _ => next,
        };
        Ok(at)
    }

    /// Refuses something else than `expected`, and names a byte order mark, which is invisible in most editors. Returns the position to
    /// continue from where the visible part ends before that is known.
    #[cold]
    fn unexpected(&self, expected: Expected, at: usize) -> Result<usize, DocumentError> {
        let rest = &self.document[at..];
        if rest.starts_with(BYTE_ORDER_MARK) {
            return Err(DocumentError::new(DocumentErrorKind::ByteOrderMark, at));
        }
        if !self.is_whole && BYTE_ORDER_MARK.starts_with(rest) {
            return Ok(at);
        }
        Err(DocumentError::unexpected(expected, at))
    }

    /// Interrupts a string whose end is not visible.
    #[cold]
    fn leave_off(
        &mut self,
        error: DocumentError,
        start: usize,
        token: fn(StringPlace) -> CutToken,
    ) -> Result<usize, DocumentError> {
        if !self.is_out_of_sight(&error) {
            return Err(error);
        }
        let place = self.scanner.left_off();
        self.cut = Some(Cut { start, token: token(place) });
        Ok(place.position)
    }

    /// Interrupts a number that reaches the end of the visible part. A short one is read again from its start.
    #[cold]
    fn leave_off_number(
        &mut self,
        end: Result<usize, DocumentError>,
        start: usize,
        before: Option<NumberPlace>,
    ) -> Result<usize, DocumentError> {
        if let Err(error) = end
            && !self.is_out_of_sight(&error)
        {
            return Err(error);
        }
        if before.is_none() && self.document.len() - start < SIGHT {
            return Ok(self.begin_again(start));
        }
        let place = self.scanner.number_left_off(start, before);
        self.cut = Some(Cut { start, token: CutToken::Number(place) });
        Ok(place.position)
    }

    /// Interrupts a word whose end is not visible, to read it again from its start.
    #[cold]
    fn leave_off_word(&mut self, error: DocumentError, start: usize) -> Result<usize, DocumentError> {
        if self.is_out_of_sight(&error) { Ok(self.begin_again(start)) } else { Err(error) }
    }

    fn begin_again(&mut self, start: usize) -> usize {
        if self.next != ExpectedToken::Document {
            self.next = ExpectedToken::Value;
        }
        start
    }

    fn is_out_of_sight(&self, error: &DocumentError) -> bool {
        !self.is_whole && error.kind == DocumentErrorKind::UnexpectedEnd
    }
}

/// The visible part of a document on the way to `stop`: whole blocks, or all of it.
fn seen(document: &[u8], stop: usize) -> &[u8] {
    let end = stop.saturating_add(SIGHT).checked_next_multiple_of(BLOCK);
    &document[..end.unwrap_or(usize::MAX).min(document.len())]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Records all events.
    #[derive(Default, PartialEq, Debug)]
    struct RecordedEvents(Vec<(usize, usize, String)>);

    impl Sink for RecordedEvents {
        fn name(&mut self, document: &[u8], start: usize, end: usize, escaped: bool) {
            assert!(end <= document.len());
            self.0.push((start, end, format!("name {escaped}")));
        }

        fn scalar(&mut self, document: &[u8], start: usize, end: usize, scalar: GrammarScalar) {
            assert!(end <= document.len());
            self.0.push((start, end, format!("{scalar:?}")));
        }

        fn open(&mut self, start: usize, container: Container) {
            self.0.push((start, start, format!("{container:?}")));
        }

        fn close(&mut self, end: usize) {
            self.0.push((end, end, "close".to_owned()));
        }

        fn is_full(&self) -> bool {
            false
        }
    }

    /// Reads in steps of `step` bytes; returns the events, and the error if there is one.
    fn read(document: &[u8], step: usize) -> (RecordedEvents, Option<DocumentError>) {
        let (mut machine, mut record) = (GrammarMachine::new(8), RecordedEvents::default());
        loop {
            let stop = machine.position().saturating_add(step);
            match machine.run(document, stop, &mut record) {
                Ok(Reach::Finished) => return (record, None),
                Ok(Reach::Stopped) => {
                    assert!(machine.position() >= stop, "it continues");
                    assert!(machine.position() - stop < 2 * BLOCK, "it stops");
                    assert!(machine.token_start() <= machine.position());
                }
                Err(error) => return (record, Some(error)),
            }
        }
    }

    /// Every kind of long token, after white space that puts it at each position of a block, complete and followed by a fault.
    #[test]
    fn long_tokens_are_read_in_steps_as_in_one() {
        let digits = "7".repeat(200);
        let tokens = [
            format!("\"{}\"", "x".repeat(300)),
            format!("\"{}\"", "\\\\\\\"\\u00e9é".repeat(30)),
            format!("\"{}\\\"\"", "x".repeat(64)),
            format!("-{digits}.{digits}e+{digits}"),
            format!("0.{digits}"),
            format!("{digits}E-{digits}"),
            format!("0e{digits}"),
            " \t\r\n".repeat(70) + "true",
        ];
        for token in &tokens {
            for before in 0..=BLOCK {
                let space = " ".repeat(before);
                let texts = [
                    format!("{space}{token} "),
                    format!("{space}[{token} , {token},{space}null]"),
                    format!("{{\"a\"{space}:{token}, \"{}\" {space}: {token}}}", "n\\n".repeat(50)),
                    format!("[{token}{space}x]"),
                    format!("[{token}{space}"),
                    format!("{{\"a\":{token}{space}}} x"),
                ];
                for text in &texts {
                    let whole = read(text.as_bytes(), usize::MAX / 2);
                    for step in [1, 5, 64, 100] {
                        assert_eq!(read(text.as_bytes(), step), whole, "{step} at a time: {text}");
                    }
                }
            }
        }
    }

    #[test]
    fn a_fault_is_found_where_it_is_in_steps_too() {
        let long = "x".repeat(100);
        let digits = "1".repeat(100);
        for text in [
            format!("[\"{long}\x01\"]"),
            format!("[\"{long}\\x\"]"),
            format!("[\"{long}\\u12"),
            format!("[{digits}."),
            format!("[{digits}.x]"),
            format!("[{digits}e+]"),
            format!("[-{}]", " ".repeat(100)),
            format!("[{}fals", " ".repeat(100)),
            format!("[{}falze]", " ".repeat(100)),
            format!("{{\"{long}\"{}x", " ".repeat(100)),
            format!("{{\"{long}\":{}}}", " ".repeat(100)),
            format!("{{\"a\":1,{}", " ".repeat(100)),
            format!("[{}\u{feff}1]", " ".repeat(100)),
            format!("{{{}\u{feff}1}}", " ".repeat(100)),
            format!("{{\"a\"{}\u{feff}:1}}", " ".repeat(100)),
            format!("[1{}\u{feff}]", " ".repeat(100)),
            format!("[{}\u{e9}]", " ".repeat(100)),
            format!("\u{feff}{}\u{feff}1", " ".repeat(100)),
            format!("1{}\u{feff}", " ".repeat(100)),
            format!("[1,{}]", " ".repeat(100)),
        ] {
            let whole = read(text.as_bytes(), usize::MAX / 2);
            assert!(whole.1.is_some(), "{text}");
            for step in 1..130 {
                assert_eq!(read(text.as_bytes(), step), whole, "{step} at a time: {text}");
            }
        }
    }
}
