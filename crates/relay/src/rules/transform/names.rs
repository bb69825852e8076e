//! Writes the names of selected members without the escapes that JSON does not require: the relay's reading of them is the only one.

use std::ops::{ControlFlow, Range};

use leafseal_document::{CanonicalNames, DocumentLimits, Match, NameWalk, Selection, WalkProgress};

use super::splice::{Splice, Tokens};
use super::{BodyKind, MessageRules};
use crate::body::buffer::{BodyBuffer, BudgetShare};
use crate::body::offload::Cost;
use crate::policy::Hidden;
use crate::refusal::Refusal;

/// Bytes that one step reads: some ten microseconds.
const STEP_SIZE: usize = 16 << 10;
/// The cost of a walk for each byte, as [`Cost::of_bytes`] counts it.
const WALK_FACTOR: u64 = 16;

/// A search for names in a document, or in one on each line.
pub(crate) struct NameSearch {
    /// The walk through each document.
    walk: NameWalk,
    is_lines: bool,
    body: BodyBuffer,
    /// Where the next document begins.
    next: usize,
    /// The current document.
    document: Option<Range<usize>>,
    found: CanonicalNames,
    /// Covers what was found.
    share: BudgetShare,
}

impl MessageRules<'_> {
    /// Writes the names of members that rules hide, or that their selectors look for, canonically.
    pub(super) async fn canonical_names(
        &mut self,
        kind: &BodyKind,
        hidden: &Hidden,
        mut body: BodyBuffer,
    ) -> Result<BodyBuffer, Refusal> {
        let cost = Cost::of_bytes(body.len(), 1);
        let look = move || (memchr::memchr(b'\\', body.as_ref()).is_some(), body);
        let (has_escape, found_in) = self.offload().run(cost, look).await;
        body = found_in;
        if !has_escape {
            return Ok(body);
        }
        // In a patch the names of its own members decide too.
        let selections = match kind {
            BodyKind::Patch => vec![None],
            _ => hidden.selections.iter().cloned().map(Some).collect(),
        };
        for selection in selections {
            let cost = Cost::of_bytes(body.len(), WALK_FACTOR);
            let search = NameSearch::new(body, selection, *kind == BodyKind::JsonLines)?;
            let searched = self.offload().run_in_slices(cost, search, NameSearch::step).await?;
            let (found_in, found, share) = searched.into_parts();
            if found.matches.is_empty() {
                body = found_in;
                continue;
            }
            self.has_new_body = true;
            let CanonicalNames { matches, tokens, places } = found;
            let tokens = BodyBuffer::of(tokens, share.another(0)?);
            body = self.splice(Splice::new(found_in, matches, Tokens::Each(tokens, places), share)?).await?;
        }
        Ok(body)
    }
}

impl NameSearch {
    /// `selection` is `None` to find any name.
    ///
    /// # Errors
    /// If there is no memory.
    pub(crate) fn new(body: BodyBuffer, selection: Option<Selection>, is_lines: bool) -> Result<Self, Refusal> {
        let (share, found) = (body.share().another(0)?, CanonicalNames::default());
        let limits = DocumentLimits::default();
        let walk = match selection {
            Some(selection) => NameWalk::new(&selection, &limits),
            None => NameWalk::any(&limits),
        };
        Ok(NameSearch { walk, is_lines, body, next: 0, document: None, found, share })
    }

    /// Runs one step; breaks with what was found.
    pub(crate) fn step(mut self) -> ControlFlow<Result<Self, Refusal>, Self> {
        let mut left = STEP_SIZE;
        while left > 0 {
            let Some(range) = self.document.clone() else {
                if self.next >= self.body.len() {
                    return ControlFlow::Break(Ok(self));
                }
                left = left.saturating_sub(self.begin());
                continue;
            };
            let before = self.found.matches.len();
            let document = &self.body.as_ref()[range.clone()];
            let progress = self.walk.next_batch(document, left, &mut self.found);
            for found in &mut self.found.matches[before..] {
                *found = Match { start: found.start + range.start, end: found.end + range.start, ..*found };
            }
            left = left.saturating_sub(document.len());
            // The rules refuse a document that is not well-formed.
            if !matches!(progress, Ok(WalkProgress::More)) {
                self.document = None;
            }
        }
        let found = &self.found;
        let matches = found.matches.capacity() + found.places.capacity();
        match self.share.resize(matches * size_of::<Match>() + found.tokens.capacity()) {
            Ok(()) => ControlFlow::Continue(self),
            Err(refusal) => ControlFlow::Break(Err(refusal)),
        }
    }

    /// The matches, and the share that covers them.
    pub(crate) fn into_parts(self) -> (BodyBuffer, CanonicalNames, BudgetShare) {
        (self.body, self.found, self.share)
    }

    /// Begins with the next document, if it has an escape and a name; returns the work in bytes that are walked.
    fn begin(&mut self) -> usize {
        let rest = &self.body.as_ref()[self.next..];
        let end = memchr::memchr(b'\n', rest).filter(|_| self.is_lines).unwrap_or(rest.len());
        let has = |byte| memchr::memchr(byte, &rest[..end]).is_some();
        if has(b'\\') && has(b':') {
            self.walk.restart();
            self.document = Some(self.next..self.next + end);
        }
        self.next += end + 1;
        LINE_COST + end / SEARCH_FACTOR
    }
}

/// The work of beginning a document, in bytes that are walked in about that time.
const LINE_COST: usize = 64;
/// Bytes in which an escape is searched in about the time in which one is walked.
const SEARCH_FACTOR: usize = 16;
