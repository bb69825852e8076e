//! The walk through JSON Lines: a text of several documents, one on each line that is not blank.

use std::ops::Range;

use super::sieve::{Sieve, is_trivial};
use super::*;
use crate::encoding::BYTE_ORDER_MARK;
use crate::lines::{LineFinder, NextLine};

/// The work of a line besides walking it where a walk reads it more than once, in bytes that are walked in about that time.
const PASSES_COST: usize = 256;
/// Memory of an evaluation of filters above which it is not kept for the next line.
const KEPT_MEMORY_MAX: usize = 256 << 10;
/// The work of a line for each selector where each must select something, in bytes that are walked in about that time.
const SELECTOR_COST: usize = 4;

/// The progress through the lines.
#[derive(Debug)]
pub(super) struct LineProgress {
    /// The walk through the current line, and then through the next one.
    walk: DocumentWalk,
    finder: LineFinder,
    /// Whether a line needs no walk.
    sieve: Option<Sieve>,
    /// Whether nothing is selected in a line without a value below its root.
    passes_trivial: bool,
    /// The evaluation of the line before, to be used again.
    evaluation: Option<Box<Evaluation>>,
    /// The bytes of the current line, if it is not complete.
    current: Option<Range<usize>>,
    /// Where the last line that was begun starts, and its number, counted from 1.
    start: usize,
    number: u64,
    /// The work of beginning a line, besides finding it.
    line_cost: usize,
    /// Matches of the current batch, as positions in the line.
    found: Vec<Match>,
    /// The contexts of matches, as positions in the text.
    contexts: Vec<MatchContext>,
    /// Whether the end of the text was reached with contexts that had not been taken.
    is_ended: bool,
    matched: Vec<u64>,
}

impl LineProgress {
    /// `walk` has the selection and the limits of the walk through each line.
    pub(super) fn new(walk: DocumentWalk) -> Box<Self> {
        let selectors = walk.selection.queries().len();
        let strict_cost = if walk.is_strict { selectors * SELECTOR_COST } else { 0 };
        let is_one_pass = matches!(walk.stage, WalkStage::Stream { .. }) && walk.contexts.is_none();
        let line_cost = if is_one_pass { strict_cost } else { PASSES_COST + strict_cost };
        let (found, current, finder, matched) = (Vec::new(), None, LineFinder::default(), vec![0; selectors]);
        let (sieve, evaluation) = (Sieve::new(&walk.selection), None);
        let passes_trivial = walk.selection.queries().iter().all(|query| !query.segments.is_empty());
        Box::new(LineProgress {
            walk,
            finder,
            sieve,
            passes_trivial,
            evaluation,
            current,
            start: 0,
            number: 0,
            line_cost,
            found,
            contexts: Vec::new(),
            is_ended: false,
            matched,
        })
    }

    /// Runs one batch; returns true at the end of the text. A batch that records paths ends with its line.
    pub(super) fn advance(
        &mut self,
        text: &[u8],
        matches: &mut Vec<Match>,
        matches_max: usize,
        bytes_max: usize,
    ) -> Result<bool, DocumentError> {
        let full = matches.len().saturating_add(matches_max);
        let mut left = bytes_max;
        while left > 0 && matches.len() < full {
            let Some(line) = self.current.clone() else {
                match self.finder.next(text, &mut left) {
                    // The contexts of the last matches are taken before the walk is complete.
                    NextLine::End => return Ok(self.contexts.is_empty() || std::mem::replace(&mut self.is_ended, true)),
                    NextLine::More => return Ok(false),
                    NextLine::Line { carriage_return: Some(at), .. } if self.walk.selection.is_unambiguous() => {
                        return Err(DocumentError::new(DocumentErrorKind::CarriageReturn, at));
                    }
                    NextLine::Line { range, number, .. } => {
                        let size = range.len();
                        match self.begin(text, range, number)? {
                            true => left = left.saturating_sub(self.line_cost),
                            false => left = left.saturating_sub(size),
                        }
                    }
                }
                continue;
            };
            let result = self.walk.advance(&text[line.clone()], &mut self.found, full - matches.len(), left);
            let moved = |found: Match| Match { start: line.start + found.start, end: line.start + found.end, ..found };
            matches.extend(self.found.drain(..).map(moved));
            let in_text = |it: MatchContext| MatchContext { start: line.start + it.start, end: line.start + it.end };
            self.contexts.extend(self.walk.take_contexts().into_iter().map(in_text));
            match result {
                // A byte order mark alone.
                Err(error) if error.kind == DocumentErrorKind::Empty => self.current = None,
                Err(error) => return Err(error.moved(line.start)),
                Ok(false) => return Ok(false),
                Ok(true) => self.end_line()?,
            }
            left = left.saturating_sub(line.len());
            if self.walk.records_paths {
                return Ok(false);
            }
        }
        Ok(false)
    }

    /// Begins a line; returns false if it needs no walk.
    fn begin(&mut self, text: &[u8], line: Range<usize>, number: u64) -> Result<bool, DocumentError> {
        if number > 1 && text[line.clone()].starts_with(BYTE_ORDER_MARK) {
            return Err(DocumentError::new(DocumentErrorKind::ByteOrderMark, line.start));
        }
        (self.start, self.number) = (line.start, number);
        let document = &text[line.clone()];
        if self.passes_trivial && is_trivial(document)
            || self.sieve.as_mut().is_some_and(|sieve| sieve.passes(document, &self.walk.limits))
        {
            return match self.walk.is_strict {
                true => Err(DocumentError::new(DocumentErrorKind::Unmatched(0), self.start)),
                false => Ok(false),
            };
        }
        self.walk.restart(line.len(), self.evaluation.take())?;
        self.current = Some(line);
        Ok(true)
    }

    /// Ends a line that was read completely.
    fn end_line(&mut self) -> Result<(), DocumentError> {
        self.current = None;
        if !self.walk.continues() {
            self.evaluation = self.walk.finish_evaluation().filter(|it| it.memory() <= KEPT_MEMORY_MAX);
            self.matched.iter_mut().zip(&self.walk.matched).for_each(|(all, of_line)| *all += of_line);
        }
        match self.walk.unmatched().filter(|_| self.walk.is_strict) {
            Some(selector) => Err(DocumentError::new(DocumentErrorKind::Unmatched(selector), self.start)),
            None => Ok(()),
        }
    }

    /// No further match begins before this byte of the text.
    pub(super) fn position(&self) -> usize {
        self.current.as_ref().map_or(self.finder.position(), |line| line.start + self.walk.position())
    }

    pub(super) fn memory(&self) -> usize {
        self.walk.memory() + self.evaluation.as_ref().map_or(0, |evaluation| evaluation.memory())
    }

    pub(super) fn take_contexts(&mut self) -> Vec<MatchContext> {
        std::mem::take(&mut self.contexts)
    }

    pub(super) fn take_paths(&mut self) -> MatchPaths {
        self.walk.take_paths().in_line(self.number, self.start)
    }

    /// The number of matches of each selector in all lines.
    pub(super) fn into_matched(mut self) -> Vec<u64> {
        if self.walk.continues() {
            self.walk.end();
            return self.walk.matched;
        }
        self.matched
    }
}
