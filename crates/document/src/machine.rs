//! The grammar of RFC 8259, once: everything that reads a document drives this machine and hands it a [`Sink`].
//!
//! It uses no recursion and no tree, keeps one byte a level, and can stop after any value and go on later. It accepts
//! exactly one JSON value with white space around it. Whether the bytes are UTF-8 is not its business.

use crate::error::{DocumentError, DocumentErrorKind, Expected};
use crate::scan::Scanner;

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
        Machine { position: 0, next: Next::Document, open: Vec::new(), depth_max }
    }

    /// Bytes read; always between two tokens.
    pub(crate) fn position(&self) -> usize {
        self.position
    }

    /// Reads on until `stop` is reached or passed, the sink is full or the document is over. Passes `stop` by at most
    /// one member: its name, its value if that is a scalar, and the white space around them.
    pub(crate) fn run(&mut self, document: &[u8], stop: usize, sink: &mut impl Sink) -> Result<Reach, DocumentError> {
        let in_object = self.open.last() == Some(&Container::Object);
        let (next, open, depth_max) = (self.next, &mut self.open, self.depth_max);
        let mut reader = Reader { document, scanner: Scanner::new(document), open, in_object, next, depth_max, sink };
        let result = reader.run(self.position, stop);
        self.next = reader.next;
        self.position = result?;
        if self.position < document.len() {
            return Ok(Reach::Stopped);
        }
        match self.next {
            Next::End => Ok(Reach::Finished),
            Next::Document => Err(DocumentError::new(DocumentErrorKind::Empty, self.position)),
            _ => Err(DocumentError::new(DocumentErrorKind::UnexpectedEnd, self.position)),
        }
    }
}

/// The machine at work. A value of its own and inlined throughout, so that its fields live in registers.
struct Reader<'r, S> {
    document: &'r [u8],
    scanner: Scanner<'r>,
    open: &'r mut Vec<Container>,
    /// Whether the innermost open container is an object.
    in_object: bool,
    next: Next,
    depth_max: usize,
    sink: &'r mut S,
}

impl<S: Sink> Reader<'_, S> {
    #[inline(always)]
    fn run(&mut self, mut position: usize, stop: usize) -> Result<usize, DocumentError> {
        while position < stop && !self.sink.is_full() {
            let at = self.scanner.skip_space(position);
            let Some(&byte) = self.document.get(at) else { return Ok(at) };
            position = match self.next {
                Next::After => self.after(at, byte)?,
                Next::FirstMember if byte == b'}' => self.close(at),
                Next::FirstMember => self.member(at, Expected::NameOrEnd)?,
                Next::FirstElement if byte == b']' => self.close(at),
                Next::FirstElement => self.value(at, Expected::ValueOrEnd)?,
                Next::Document => self.root(at)?,
                Next::End => return Err(DocumentError::unexpected(Expected::EndOfDocument, at)),
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
            (true, _) => Err(DocumentError::unexpected(Expected::CommaOrObjectEnd, at)),
            (false, _) => Err(DocumentError::unexpected(Expected::CommaOrArrayEnd, at)),
        }
    }

    /// Reads a name, its colon and the value or the opening of the container that follows.
    #[inline(always)]
    fn member(&mut self, at: usize, expected: Expected) -> Result<usize, DocumentError> {
        if self.document.get(at) != Some(&b'"') {
            return Err(absent(self.document, expected, at));
        }
        let name = self.scanner.string(at)?;
        self.sink.name(self.document, at, name.end, name.escaped);
        let colon = self.scanner.skip_space(name.end);
        if self.document.get(colon) != Some(&b':') {
            return Err(absent(self.document, Expected::Colon, colon));
        }
        let at = self.scanner.skip_space(colon + 1);
        self.value(at, Expected::Value)
    }

    /// Reads a scalar, or the opening of a container.
    #[inline(always)]
    fn value(&mut self, at: usize, expected: Expected) -> Result<usize, DocumentError> {
        let (end, scalar) = match self.document.get(at) {
            Some(b'"') => {
                let string = self.scanner.string(at)?;
                (string.end, Scalar::String { escaped: string.escaped })
            }
            Some(b'-' | b'0'..=b'9') => (self.scanner.number(at)?, Scalar::Number),
            Some(b'{') => return self.open(at, Container::Object),
            Some(b'[') => return self.open(at, Container::Array),
            Some(b't') => (self.scanner.literal(at, b"true")?, Scalar::Boolean),
            Some(b'f') => (self.scanner.literal(at, b"false")?, Scalar::Boolean),
            Some(b'n') => (self.scanner.literal(at, b"null")?, Scalar::Null),
            _ => return Err(absent(self.document, expected, at)),
        };
        self.sink.scalar(self.document, at, end, scalar);
        self.next = Next::After;
        Ok(end)
    }

    #[inline(always)]
    fn open(&mut self, at: usize, container: Container) -> Result<usize, DocumentError> {
        if self.open.len() >= self.depth_max {
            return Err(DocumentError::new(DocumentErrorKind::TooDeep(self.depth_max), at));
        }
        self.open.push(container);
        self.in_object = container == Container::Object;
        self.next = if self.in_object { Next::FirstMember } else { Next::FirstElement };
        self.sink.open(at, container);
        Ok(at + 1)
    }

    #[inline(always)]
    fn close(&mut self, at: usize) -> usize {
        self.open.pop();
        self.in_object = self.open.last() == Some(&Container::Object);
        self.next = if self.open.is_empty() { Next::End } else { Next::After };
        self.sink.close(at + 1);
        at + 1
    }

    #[inline(always)]
    fn root(&mut self, at: usize) -> Result<usize, DocumentError> {
        if self.document.starts_with(b"\xef\xbb\xbf") {
            return Err(DocumentError::new(DocumentErrorKind::ByteOrderMark, 0));
        }
        let end = self.value(at, Expected::Value)?;
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
