//! The grammar of RFC 8259, once: everything that reads a document drives this machine and hands it a [`Sink`].
//!
//! It uses no recursion and no tree, keeps one byte a level, and can stop after any value and go on later. It accepts
//! exactly one JSON value with white space around it. Whether the bytes are UTF-8 is not its business.

use crate::error::{DocumentError, DocumentErrorKind, Expected};
use crate::scan;

/// The two kinds of value that hold others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Container {
    Object,
    Array,
}

/// The kinds of scalar, as the grammar sees them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scalar {
    String { escaped: bool },
    Number,
    Boolean,
    Null,
}

/// What listens to the machine. Positions are byte offsets into the document; a string's or name's range includes its
/// quotation marks. For each value of an object, `name` comes first.
pub(crate) trait Sink {
    fn name(&mut self, document: &[u8], start: usize, end: usize, escaped: bool);
    fn scalar(&mut self, document: &[u8], start: usize, end: usize, scalar: Scalar);
    fn open(&mut self, start: usize, container: Container);
    fn close(&mut self, end: usize);
    /// Whether the machine must stop before the next value.
    fn is_full(&self) -> bool;
}

/// What stands next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    Document,
    FirstMember,
    FirstElement,
    /// A comma or the end of the innermost container.
    After,
    /// White space and nothing else.
    End,
}

/// Whether the document is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reach {
    Stopped,
    Finished,
}

/// How far a document has been read.
#[derive(Debug)]
pub(crate) struct Machine {
    position: usize,
    next: Next,
    open: Vec<Container>,
    depth_max: usize,
}

impl Machine {
    /// At the start of a document.
    pub(crate) fn new(depth_max: usize) -> Self {
        Machine {
            position: 0,
            next: Next::Document,
            open: Vec::new(),
            depth_max,
        }
    }

    /// Bytes read; always between two tokens.
    pub(crate) fn position(&self) -> usize {
        self.position
    }

    /// Reads on until `stop` is reached or passed, the sink is full or the document is over. Passes `stop` by at most
    /// one member: its name, its value if that is a scalar, and the white space around them.
    pub(crate) fn run(&mut self, document: &[u8], stop: usize, sink: &mut impl Sink) -> Result<Reach, DocumentError> {
        while self.position < stop && !sink.is_full() {
            let at = scan::skip_space(document, self.position);
            let Some(&byte) = document.get(at) else {
                self.position = at;
                break;
            };
            self.position = match self.next {
                Next::After => self.after(document, at, byte, sink)?,
                Next::FirstMember if byte == b'}' => self.close(at, sink),
                Next::FirstMember => self.member(document, at, Expected::NameOrEnd, sink)?,
                Next::FirstElement if byte == b']' => self.close(at, sink),
                Next::FirstElement => self.value(document, at, Expected::ValueOrEnd, sink)?,
                Next::Document => self.document(document, at, sink)?,
                Next::End => return Err(DocumentError::unexpected(Expected::EndOfDocument, at)),
            };
        }
        if self.position < document.len() {
            return Ok(Reach::Stopped);
        }
        match self.next {
            Next::End => Ok(Reach::Finished),
            Next::Document => Err(DocumentError::new(DocumentErrorKind::Empty, self.position)),
            _ => Err(DocumentError::new(DocumentErrorKind::UnexpectedEnd, self.position)),
        }
    }

    #[inline(always)]
    fn after(&mut self, document: &[u8], at: usize, byte: u8, sink: &mut impl Sink) -> Result<usize, DocumentError> {
        let in_object = self.open.last() == Some(&Container::Object);
        if byte == b',' {
            let at = scan::skip_space(document, at + 1);
            return match in_object {
                true => self.member(document, at, Expected::Name, sink),
                false => self.value(document, at, Expected::Value, sink),
            };
        }
        match (in_object, byte) {
            (true, b'}') | (false, b']') => Ok(self.close(at, sink)),
            (true, _) => Err(DocumentError::unexpected(Expected::CommaOrObjectEnd, at)),
            (false, _) => Err(DocumentError::unexpected(Expected::CommaOrArrayEnd, at)),
        }
    }

    /// Reads a name, its colon and the value or the opening of the container that follows.
    #[inline(always)]
    fn member(
        &mut self,
        document: &[u8],
        at: usize,
        expected: Expected,
        sink: &mut impl Sink,
    ) -> Result<usize, DocumentError> {
        if document.get(at) != Some(&b'"') {
            return Err(absent(document, expected, at));
        }
        let name = scan::string(document, at)?;
        sink.name(document, at, name.end, name.escaped);
        let colon = scan::skip_space(document, name.end);
        if document.get(colon) != Some(&b':') {
            return Err(absent(document, Expected::Colon, colon));
        }
        let at = scan::skip_space(document, colon + 1);
        self.value(document, at, Expected::Value, sink)
    }

    /// Reads a scalar, or the opening of a container.
    #[inline(always)]
    fn value(
        &mut self,
        document: &[u8],
        at: usize,
        expected: Expected,
        sink: &mut impl Sink,
    ) -> Result<usize, DocumentError> {
        let (end, scalar) = match document.get(at) {
            Some(b'"') => {
                let string = scan::string(document, at)?;
                (
                    string.end,
                    Scalar::String {
                        escaped: string.escaped,
                    },
                )
            }
            Some(b'-' | b'0'..=b'9') => (scan::number(document, at)?, Scalar::Number),
            Some(b'{') => return self.open(at, Container::Object, Next::FirstMember, sink),
            Some(b'[') => return self.open(at, Container::Array, Next::FirstElement, sink),
            Some(b't') => (scan::literal(document, at, b"true")?, Scalar::Boolean),
            Some(b'f') => (scan::literal(document, at, b"false")?, Scalar::Boolean),
            Some(b'n') => (scan::literal(document, at, b"null")?, Scalar::Null),
            _ => return Err(absent(document, expected, at)),
        };
        sink.scalar(document, at, end, scalar);
        self.next = Next::After;
        Ok(end)
    }

    #[inline(always)]
    fn open(
        &mut self,
        at: usize,
        container: Container,
        next: Next,
        sink: &mut impl Sink,
    ) -> Result<usize, DocumentError> {
        if self.open.len() >= self.depth_max {
            return Err(DocumentError::new(DocumentErrorKind::TooDeep(self.depth_max), at));
        }
        self.open.push(container);
        self.next = next;
        sink.open(at, container);
        Ok(at + 1)
    }

    #[inline(always)]
    fn close(&mut self, at: usize, sink: &mut impl Sink) -> usize {
        self.open.pop();
        self.next = if self.open.is_empty() { Next::End } else { Next::After };
        sink.close(at + 1);
        at + 1
    }

    #[cold]
    #[inline(never)]
    fn document(&mut self, document: &[u8], at: usize, sink: &mut impl Sink) -> Result<usize, DocumentError> {
        if document.starts_with(b"\xef\xbb\xbf") {
            return Err(DocumentError::new(DocumentErrorKind::ByteOrderMark, 0));
        }
        let end = self.value(document, at, Expected::Value, sink)?;
        if self.open.is_empty() {
            self.next = Next::End;
        }
        Ok(end)
    }
}

/// The error for a place where `expected` should stand: the document may also just be over.
#[cold]
fn absent(document: &[u8], expected: Expected, at: usize) -> DocumentError {
    match at < document.len() {
        true => DocumentError::unexpected(expected, at),
        false => DocumentError::new(DocumentErrorKind::UnexpectedEnd, document.len()),
    }
}
