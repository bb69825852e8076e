//! The sink that collects the matches of a pass.

use super::{Match, Pass, Purpose, ScalarKind};
use crate::error::{DocumentError, DocumentErrorKind};
use crate::machine::{Container, FallibleSink, GrammarScalar, Reach, Sink};
use crate::text::begins_like_envelope;
use crate::tracker::Tracker;

/// Converts the automaton's verdicts to matches.
#[derive(Debug)]
pub(crate) struct Matcher {
    pub(crate) tracker: Tracker,
    purpose: Purpose,
    pub(super) matches: Vec<Match>,
    /// The number of matches when the batch began.
    before: usize,
    matches_max: usize,
    /// Whether the selected scalars that are no matches are noted: where each begins.
    pub(super) notes_others: bool,
    pub(super) others: Vec<u32>,
    /// The refused name.
    refused: Option<DocumentError>,
}

impl Matcher {
    pub(crate) fn new(tracker: Tracker, purpose: Purpose) -> Self {
        let (matches, others) = (Vec::new(), Vec::new());
        Matcher { tracker, purpose, matches, before: 0, matches_max: 0, notes_others: false, others, refused: None }
    }

    /// Takes the caller's list for a batch that adds up to `matches_max` matches.
    pub(crate) fn begin_batch(&mut self, matches: &mut Vec<Match>, matches_max: usize) {
        self.before = matches.len();
        self.matches_max = self.before.saturating_add(matches_max);
        std::mem::swap(matches, &mut self.matches);
    }

    /// Returns the list, without matches whose bytes were not validated, and whether the document is complete.
    pub(crate) fn end_batch(
        &mut self,
        matches: &mut Vec<Match>,
        pass: &Pass,
        result: Result<Reach, DocumentError>,
    ) -> Result<bool, DocumentError> {
        std::mem::swap(matches, &mut self.matches);
        if result.is_err() {
            let new = &matches[self.before..];
            matches.truncate(self.before + new.partition_point(|found| found.end <= pass.checked));
        }
        Ok(result? == Reach::Finished)
    }

    /// Stops at a refused name.
    #[cold]
    fn refuse(&mut self, kind: DocumentErrorKind, start: usize) {
        self.refused.get_or_insert(DocumentError::new(kind, start));
        self.matches_max = 0;
    }
}

impl FallibleSink for Matcher {
    fn fault(&self) -> Option<DocumentError> {
        self.refused
    }
}

impl Sink for Matcher {
    #[inline(always)]
    fn name(&mut self, document: &[u8], start: usize, end: usize, escaped: bool) {
        if let Err(kind) = self.tracker.name(&document[start..end], escaped) {
            self.refuse(kind, start);
        }
    }

    #[inline(always)]
    fn scalar(&mut self, document: &[u8], start: usize, end: usize, scalar: GrammarScalar) {
        let set = self.tracker.value();
        if set.is_selected() {
            self.tracker.count(set);
            let found = matched(document, start, end, scalar, self.purpose);
            if found.is_none() && self.notes_others {
                self.others.push(start as u32);
            }
            self.matches.extend(found);
        }
    }

    #[inline(always)]
    fn open(&mut self, _start: usize, container: Container) {
        let set = self.tracker.value();
        self.tracker.open(set, container);
    }

    #[inline(always)]
    fn close(&mut self, _end: usize) {
        self.tracker.close();
    }

    #[inline(always)]
    fn is_full(&self) -> bool {
        self.matches.len() >= self.matches_max
    }
}

/// The match for a selected scalar, if any.
#[inline(always)]
pub(super) fn matched(
    document: &[u8],
    start: usize,
    end: usize,
    scalar: GrammarScalar,
    purpose: Purpose,
) -> Option<Match> {
    let kind = match (scalar, purpose) {
        (GrammarScalar::String { escaped }, Purpose::Encrypt) => ScalarKind::String { escaped },
        (GrammarScalar::String { escaped }, Purpose::Decrypt)
            if begins_like_envelope(&document[start..end], escaped) =>
        {
            ScalarKind::String { escaped }
        }
        (GrammarScalar::Number, Purpose::Encrypt) => ScalarKind::Number,
        (GrammarScalar::Boolean, Purpose::Encrypt) => ScalarKind::Boolean,
        _ => return None,
    };
    Some(Match { start, end, kind })
}
