//! Redaction of the selected values of a JSON document.

use std::ops::ControlFlow;

use leafseal_document::{
    DocumentError, DocumentErrorKind, DocumentLimits, DocumentWalk, Match, Purpose, Selection, WalkProgress,
    escape_into,
};

use crate::body::buffer::BodyBuffer;
use crate::refusal::Refusal;

/// Why a document could not be redacted.
#[derive(Debug)]
pub(super) enum RedactFault {
    Document(DocumentError),
    /// A selector matched nothing, and the rule requires a match of each; with the number of the line if the document is lines.
    Unmatched(Option<u64>),
    NoRoom(Refusal),
}

impl From<Refusal> for RedactFault {
    fn from(refusal: Refusal) -> Self {
        RedactFault::NoRoom(refusal)
    }
}

/// Replaces the selected values of a document, in steps.
pub(super) struct Redaction {
    document: BodyBuffer,
    walk: DocumentWalk,
    /// The replacement as a JSON string.
    token: Vec<u8>,
    out: BodyBuffer,
    copied: usize,
    count: u64,
    matches: Vec<Match>,
    is_lines: bool,
}

impl Redaction {
    /// Matches of a step, and bytes that it walks.
    const MATCHES_MAX: usize = 1024;
    const STEP_SIZE: usize = 64 << 10;

    /// `is_strict`: whether each selector must match something, in each line if the document is lines (`is_lines`).
    ///
    /// # Errors
    /// If the document is too large, or there is no memory for another.
    pub(super) fn new(
        document: BodyBuffer,
        selection: &Selection,
        replacement: &str,
        (is_strict, is_lines): (bool, bool),
    ) -> Result<Self, RedactFault> {
        let mut token = Vec::new();
        escape_into(replacement, &mut token);
        let walk = DocumentWalk::new(document.len(), selection, Purpose::Encrypt, &DocumentLimits::default());
        let walk = walk.map_err(RedactFault::Document)?.strict(is_strict);
        let walk = if is_lines { walk.lines() } else { walk };
        let out = BodyBuffer::with_capacity(document.len(), document.share())?;
        Ok(Redaction { document, walk, token, out, copied: 0, count: 0, matches: Vec::new(), is_lines })
    }

    /// Breaks with the document and the number of replaced values.
    pub(super) fn step(mut self) -> ControlFlow<Result<(BodyBuffer, u64), RedactFault>, Self> {
        match self.advance() {
            Ok(WalkProgress::More) => ControlFlow::Continue(self),
            Ok(WalkProgress::Done) => ControlFlow::Break(Ok((self.out, self.count))),
            Err(fault) => ControlFlow::Break(Err(fault)),
        }
    }

    fn advance(&mut self) -> Result<WalkProgress, RedactFault> {
        let bytes = self.document.as_ref();
        let walked = self.walk.next_batch(bytes, &mut self.matches, Self::MATCHES_MAX, Self::STEP_SIZE);
        let progress = walked.map_err(|error| match error.kind {
            DocumentErrorKind::Unmatched(_) => {
                RedactFault::Unmatched(self.is_lines.then(|| line_of(bytes, error.offset)))
            }
            _ => RedactFault::Document(error),
        })?;
        for found in self.matches.drain(..) {
            self.out.extend(&bytes[self.copied..found.start])?;
            self.out.extend(&self.token)?;
            self.copied = found.end;
            self.count += 1;
        }
        // Later matches begin behind the position.
        let end = if progress == WalkProgress::Done { bytes.len() } else { self.walk.position().max(self.copied) };
        self.out.extend(&bytes[self.copied..end])?;
        self.copied = end;
        Ok(progress)
    }
}

/// The number of the line that begins at this byte, counted from 1.
fn line_of(bytes: &[u8], start: usize) -> u64 {
    memchr::memchr_iter(b'\n', &bytes[..start.min(bytes.len())]).count() as u64 + 1
}
