//! Redaction of the selected values of a JSON document.

use std::ops::ControlFlow;

use leafseal_document::{
    DocumentError, Limits as DocumentLimits, Match, Progress, Purpose, Selection, Walk, escape_into,
};

use crate::body::buffer::Buffer;
use crate::refusal::Refusal;

/// Why a document could not be redacted.
#[derive(Debug)]
pub(super) enum RedactFault {
    Document(DocumentError),
    /// A selector matched nothing, and the rule requires a match of each.
    Unmatched,
    NoRoom(Refusal),
}

impl From<DocumentError> for RedactFault {
    fn from(error: DocumentError) -> Self {
        RedactFault::Document(error)
    }
}

impl From<Refusal> for RedactFault {
    fn from(refusal: Refusal) -> Self {
        RedactFault::NoRoom(refusal)
    }
}

/// Replaces the selected values of a document, in steps.
pub(super) struct Redaction {
    document: Buffer,
    walk: Walk,
    /// The replacement as a JSON string.
    token: Vec<u8>,
    out: Buffer,
    copied: usize,
    count: u64,
    matches: Vec<Match>,
    /// Whether each selector must match something.
    is_strict: bool,
}

impl Redaction {
    /// Matches of a step, and bytes that it walks.
    const MATCHES_MAX: usize = 1024;
    const STEP_SIZE: usize = 64 << 10;

    /// `is_lines`: whether it is a document on each line.
    ///
    /// # Errors
    /// If the document is too large, or there is no memory for another.
    pub(super) fn new(
        document: Buffer,
        selection: &Selection,
        replacement: &str,
        (is_strict, is_lines): (bool, bool),
    ) -> Result<Self, RedactFault> {
        let mut token = Vec::new();
        escape_into(replacement, &mut token);
        let walk = Walk::new(document.len(), selection, Purpose::Encrypt, &DocumentLimits::default())?;
        let walk = if is_lines { walk.lines() } else { walk };
        let out = Buffer::with_capacity(document.len(), document.share())?;
        Ok(Redaction { document, walk, token, out, copied: 0, count: 0, matches: Vec::new(), is_strict })
    }

    /// Breaks with the document and the number of replaced values.
    pub(super) fn step(mut self) -> ControlFlow<Result<(Buffer, u64), RedactFault>, Self> {
        match self.advance() {
            Ok(Progress::More) => ControlFlow::Continue(self),
            Ok(Progress::Done) => ControlFlow::Break(Ok((self.out, self.count))),
            Err(fault) => ControlFlow::Break(Err(fault)),
        }
    }

    fn advance(&mut self) -> Result<Progress, RedactFault> {
        let bytes = self.document.as_ref();
        let progress = self.walk.next_batch(bytes, &mut self.matches, Self::MATCHES_MAX, Self::STEP_SIZE)?;
        for found in self.matches.drain(..) {
            self.out.extend(&bytes[self.copied..found.start])?;
            self.out.extend(&self.token)?;
            self.copied = found.end;
            self.count += 1;
        }
        if progress == Progress::Done && self.is_strict && self.walk.matched().contains(&0) {
            return Err(RedactFault::Unmatched);
        }
        // Later matches begin behind the position.
        let end = if progress == Progress::Done { bytes.len() } else { self.walk.position().max(self.copied) };
        self.out.extend(&bytes[self.copied..end])?;
        self.copied = end;
        Ok(progress)
    }
}
