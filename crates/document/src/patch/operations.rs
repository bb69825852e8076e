//! The operations of a JSON Patch (RFC 6902, section 4), read strictly: the members that the RFC names, each once.

use crate::error::{DocumentError, DocumentErrorKind};
use crate::machine::{Container, FallibleSink, GrammarScalar, Sink};
use crate::text::unescape;

/// Longest escaped form of a word that is read: `replace`, each character as `\uXXXX`.
const WORD_SIZE_MAX: usize = 2 + 6 * 7;

/// A value's bytes in the document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TokenBytes {
    pub(super) start: u32,
    pub(super) end: u32,
}

impl TokenBytes {
    pub(super) fn of(self, document: &[u8]) -> &[u8] {
        &document[self.start as usize..self.end as usize]
    }

    pub(super) fn size(self) -> usize {
        (self.end - self.start) as usize
    }

    pub(super) fn is_empty_string(self) -> bool {
        self.size() == 2
    }

    pub(super) fn error(self, kind: DocumentErrorKind) -> DocumentError {
        DocumentError::new(kind, self.start as usize)
    }
}

/// An operation: where its members are.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct PatchOperation {
    start: u32,
    op: Option<TokenBytes>,
    pub(super) path: Option<TokenBytes>,
    pub(super) from: Option<TokenBytes>,
    pub(super) value: Option<TokenBytes>,
}

/// The kind of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OperationKind {
    /// `add`, `replace` or `test`.
    Value,
    /// `move` or `copy`.
    FromElsewhere,
    Remove,
}

impl OperationKind {
    pub(super) fn has_value(self) -> bool {
        self == OperationKind::Value
    }

    pub(super) fn is_from_elsewhere(self) -> bool {
        self == OperationKind::FromElsewhere
    }
}

impl PatchOperation {
    pub(super) fn kind(&self, document: &[u8]) -> Result<OperationKind, DocumentError> {
        let op = self.required(self.op)?;
        let mut scratch = String::new();
        if op.size() > WORD_SIZE_MAX {
            return Err(op.error(DocumentErrorKind::NotAPatch));
        }
        match unescape(op.of(document), &mut scratch) {
            Ok("add" | "replace" | "test") => Ok(OperationKind::Value),
            Ok("move" | "copy") => Ok(OperationKind::FromElsewhere),
            Ok("remove") => Ok(OperationKind::Remove),
            _ => Err(op.error(DocumentErrorKind::NotAPatch)),
        }
    }

    /// A member that the operation must have.
    pub(super) fn required(&self, member: Option<TokenBytes>) -> Result<TokenBytes, DocumentError> {
        member.ok_or(DocumentError::new(DocumentErrorKind::NotAPatch, self.start as usize))
    }
}

/// Collects the operations.
#[derive(Debug, Default)]
pub(super) struct Operations {
    pub(super) found: Vec<PatchOperation>,
    depth: usize,
    /// The member whose value comes next.
    member: Member,
    /// Where the value of a member that is a container begins.
    value_start: u32,
    fault: Option<DocumentError>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Member {
    #[default]
    Op,
    Path,
    From,
    Value,
}

/// The depth at which the members of operations are.
const MEMBERS: usize = 2;

impl Operations {
    #[cold]
    fn refuse(&mut self, kind: DocumentErrorKind, offset: usize) {
        self.fault.get_or_insert(DocumentError::new(kind, offset));
    }

    fn put(&mut self, start: usize, end: usize) {
        let Some(operation) = self.found.last_mut() else { return };
        let place = match self.member {
            Member::Op => &mut operation.op,
            Member::Path => &mut operation.path,
            Member::From => &mut operation.from,
            Member::Value => &mut operation.value,
        };
        if place.replace(TokenBytes { start: start as u32, end: end as u32 }).is_some() {
            self.refuse(DocumentErrorKind::DuplicateName, start);
        }
    }
}

impl FallibleSink for Operations {
    fn fault(&self) -> Option<DocumentError> {
        self.fault
    }
}

impl Sink for Operations {
    fn name(&mut self, document: &[u8], start: usize, end: usize, _escaped: bool) {
        if self.depth != MEMBERS {
            return;
        }
        let mut scratch = String::new();
        let token = &document[start..end];
        let name = if token.len() <= WORD_SIZE_MAX { unescape(token, &mut scratch).ok() } else { None };
        self.member = match name {
            Some("op") => Member::Op,
            Some("path") => Member::Path,
            Some("from") => Member::From,
            Some("value") => Member::Value,
            _ => return self.refuse(DocumentErrorKind::NotAPatch, start),
        };
    }

    fn scalar(&mut self, _document: &[u8], start: usize, end: usize, scalar: GrammarScalar) {
        match self.depth {
            0 | 1 => self.refuse(DocumentErrorKind::NotAPatch, start),
            MEMBERS if self.member == Member::Value => self.put(start, end),
            MEMBERS if matches!(scalar, GrammarScalar::String { .. }) => self.put(start, end),
            // Some libraries write every member.
            MEMBERS if self.member == Member::From && scalar == GrammarScalar::Null => {}
            MEMBERS => self.refuse(DocumentErrorKind::NotAPatch, start),
            _ => {}
        }
    }

    fn open(&mut self, start: usize, container: Container) {
        match (self.depth, container) {
            (0, Container::Array) => {}
            (1, Container::Object) => {
                self.found.push(PatchOperation { start: start as u32, ..PatchOperation::default() })
            }
            (0 | 1, _) => self.refuse(DocumentErrorKind::NotAPatch, start),
            (MEMBERS, _) if self.member == Member::Value => self.value_start = start as u32,
            (MEMBERS, _) => self.refuse(DocumentErrorKind::NotAPatch, start),
            _ => {}
        }
        self.depth += 1;
    }

    fn close(&mut self, end: usize) {
        self.depth -= 1;
        if self.depth == MEMBERS {
            self.put(self.value_start as usize, end);
        }
    }

    fn is_full(&self) -> bool {
        self.fault.is_some()
    }
}
