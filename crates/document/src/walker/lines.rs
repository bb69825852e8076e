//! JSON Lines: the walk through a text of several documents, one on each line. Lines of white space alone are skipped.
//!
//! A JSON string contains no unescaped line break, so each line break separates documents, whatever a line contains.

use std::ops::Range;

use super::*;

/// The work of beginning a line, in bytes that are walked in about that time.
const LINE_COST: usize = 64;
/// Bytes in which a line break is searched in about the time in which one is walked.
const SEARCH_FACTOR: usize = 8;

/// The progress through the lines.
#[derive(Debug)]
pub(super) struct Lines {
    /// The walk through the current line, and then through the next one.
    walk: Walk,
    /// The bytes of the current line, if it is not complete.
    current: Option<Range<usize>>,
    /// Where the last line that was begun starts, and its number, counted from 1.
    start: usize,
    number: u64,
    /// Where the next line starts, and how many of its bytes contain no line break.
    next: usize,
    searched: usize,
    /// Matches of the current batch, as positions in the line.
    found: Vec<Match>,
    matched: Vec<u64>,
}

impl Lines {
    /// `walk` has the selection and the limits of the walk through each line.
    pub(super) fn new(walk: Walk) -> Box<Self> {
        let matched = vec![0; walk.selection.queries().len()];
        let (found, current) = (Vec::new(), None);
        Box::new(Lines { walk, current, start: 0, number: 0, next: 0, searched: 0, found, matched })
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
                if self.next >= text.len() {
                    return Ok(true);
                }
                self.find(text, &mut left)?;
                continue;
            };
            let result = self.walk.advance(&text[line.clone()], &mut self.found, full - matches.len(), left);
            let moved = |found: Match| Match { start: line.start + found.start, end: line.start + found.end, ..found };
            matches.extend(self.found.drain(..).map(moved));
            let is_over = match result {
                Err(error) if error.kind == DocumentErrorKind::Empty => true,
                result => result.map_err(|error| DocumentError { offset: line.start + error.offset, ..error })?,
            };
            if !is_over {
                return Ok(false);
            }
            left = left.saturating_sub(line.len());
            self.end_line();
            if self.walk.records_paths {
                return Ok(false);
            }
        }
        Ok(false)
    }

    /// Searches the end of the next line, and begins it.
    fn find(&mut self, text: &[u8], left: &mut usize) -> Result<(), DocumentError> {
        let from = self.next + self.searched;
        let piece = &text[from..text.len().min(from.saturating_add(left.saturating_mul(SEARCH_FACTOR)))];
        let end = match memchr::memchr(b'\n', piece) {
            Some(at) => from + at,
            None if from + piece.len() == text.len() => text.len(),
            None => {
                self.searched += piece.len();
                *left = 0;
                return Ok(());
            }
        };
        *left = left.saturating_sub(LINE_COST + (end - from) / SEARCH_FACTOR);
        (self.start, self.number) = (self.next, self.number + 1);
        self.current = Some(self.start..end);
        (self.next, self.searched) = (end + 1, 0);
        self.walk.restart(end - self.start)
    }

    fn end_line(&mut self) {
        self.current = None;
        if !self.walk.continues() {
            self.walk.end();
            self.matched.iter_mut().zip(&self.walk.matched).for_each(|(all, of_line)| *all += of_line);
        }
    }

    /// No further match begins before this byte of the text.
    pub(super) fn position(&self) -> usize {
        self.current.as_ref().map_or(self.next, |line| line.start + self.walk.position())
    }

    pub(super) fn memory(&self) -> usize {
        self.walk.memory()
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
