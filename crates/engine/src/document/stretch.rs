//! A stretch of a document, whose values are replaced in steps.

use std::sync::Arc;

use leafseal_pool::is_inline;

use super::binder::{ValueBinder, ValuePlaces};
use super::long_match::LongMatch;
use super::*;

/// A stretch of a document with the values in it, and its progress.
pub(super) struct DocumentStretch<L> {
    pub(super) matches: Vec<Match>,
    /// The paths of the matches, and the index of the first, if paths may be requested.
    pub(super) paths: Option<(Arc<MatchPaths>, usize)>,
    /// What the matches are bound to, if each is to its own.
    pub(super) binder: Option<ValueBinder>,
    /// The number of finished matches.
    pub(super) done: usize,
    /// The next match, if it is long and has been started.
    long: Option<Box<LongMatch<L>>>,
    /// The document is written up to this byte.
    pub(super) copied: usize,
    pub(super) end: usize,
}

impl<L> Default for DocumentStretch<L> {
    fn default() -> Self {
        Self { matches: Vec::new(), paths: None, binder: None, done: 0, long: None, copied: 0, end: 0 }
    }
}

impl<L: Default> DocumentStretch<L> {
    pub(super) fn is_done(&self) -> bool {
        self.done == self.matches.len() && self.copied == self.end
    }

    /// Takes up to `values_max` values from the front, with the bytes before them; the last ones with the bytes after them.
    pub(super) fn take(&mut self, values_max: usize) -> Self {
        let left = &self.matches[self.done..];
        if left.len() <= values_max {
            return std::mem::take(self);
        }
        let matches = left[..values_max].to_vec();
        let paths = self.paths.as_ref().map(|(paths, first)| (Arc::clone(paths), first + self.done));
        let binder = self.binder.as_ref().map(|binder| binder.part(self.done, values_max));
        let (copied, end) = (self.copied, matches[values_max - 1].end);
        (self.done, self.copied) = (self.done + values_max, end);
        Self { matches, paths, binder, copied, end, long: self.long.take(), done: 0 }
    }

    /// Processes some of the values, or a piece of a long one or of the bytes in between; returns how many were replaced.
    pub(super) fn step<R>(&mut self, rewriter: &mut R, document: &[u8], out: &mut Vec<u8>) -> Result<u64, Error>
    where
        R: Rewriter<Long = L>,
    {
        if self.done == 0 {
            out.reserve(rewriter.output_size(self.end - self.copied, self.matches.len()));
        }
        let short = self.short(rewriter.bytes_max());
        if short == 0 && !self.is_done() {
            return self.long_step(rewriter, document, out);
        }
        let bindings = ValuePlaces {
            matches: &self.matches,
            paths: self.paths.as_ref(),
            done: self.done,
            bytes_max: rewriter.bytes_max(),
        };
        let binder = self.binder.as_mut().map(|binder| (binder, bindings));
        let mut copy = DocumentCopy { document, copied: self.copied, count: 0, out, failed: Vec::new(), binder };
        let offered = &self.matches[self.done..self.done + short];
        let done = if offered.is_empty() { 0 } else { rewriter.rewrite(offered, &mut copy)? };
        if is_inline() && done < offered.len() {
            // A value has a key that is not known. Nothing but output has changed.
            return Err(Error::handed_over());
        }
        let (count, failed) = (copy.count, copy.failed);
        self.copied = copy.copied;
        failed.into_iter().for_each(|index| self.note_failure(rewriter, document, self.done + index));
        self.done += done;
        if self.done == self.matches.len() && self.end - self.copied <= rewriter.bytes_max() {
            out.extend_from_slice(&document[self.copied..self.end]);
            self.copied = self.end;
        }
        Ok(count)
    }

    /// The number of next values that, like the gaps before them, have at most `bytes_max` bytes each.
    fn short(&self, bytes_max: usize) -> usize {
        let left = &self.matches[self.done..];
        if self.end - self.copied <= bytes_max {
            return left.len();
        }
        let mut end = self.copied;
        let is_short = |found: &&Match| {
            let before = std::mem::replace(&mut end, found.end);
            found.start - before <= bytes_max && found.end - found.start <= bytes_max
        };
        left.iter().take_while(is_short).count()
    }

    /// Copies a piece of the gap before the next value, or processes a piece of that value, which is long.
    fn long_step<R>(&mut self, rewriter: &mut R, document: &[u8], out: &mut Vec<u8>) -> Result<u64, Error>
    where
        R: Rewriter<Long = L>,
    {
        let next = self.matches.get(self.done);
        let gap = &document[self.copied..next.map_or(self.end, |next| next.start)];
        if !gap.is_empty() {
            let piece = &gap[..rewriter.bytes_max().min(gap.len())];
            out.reserve(gap.len());
            out.extend_from_slice(piece);
            self.copied += piece.len();
            return Ok(0);
        }
        let Some(found) = next else { return Ok(0) };
        let (paths, done) = (self.paths.as_ref(), self.done);
        let places = ValuePlaces { matches: &self.matches, paths, done, bytes_max: rewriter.bytes_max() };
        let own = match &mut self.binder {
            Some(binder) => Some(binder.next(document, &places, 1)?),
            None => None,
        };
        let step = self.long.get_or_insert_default().step(rewriter, document, (found, own), out)?;
        if step == LongStep::More {
            return Ok(0);
        }
        let (end, number) = (found.end, self.done);
        (self.long, self.done) = (None, self.done + 1);
        match step {
            LongStep::Left => return Ok(0),
            LongStep::Failed => {
                self.note_failure(rewriter, document, number);
                if rewriter.on_failure() == OnFailure::Null {
                    out.extend_from_slice(NULL);
                    self.copied = end;
                }
                return Ok(0);
            }
            LongStep::More | LongStep::Done => {}
        }
        self.copied = end;
        Ok(1)
    }

    /// Records, for the report, that this match failed to decrypt.
    fn note_failure<R: Rewriter>(&self, rewriter: &mut R, document: &[u8], number: usize) {
        let path = || match &self.paths {
            Some((paths, first)) => paths.path(document, first + number),
            None => String::new(),
        };
        rewriter.note_failure(self.matches[number].start as u64, path);
    }
}
