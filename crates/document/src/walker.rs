//! The walk: one pass over a document that returns the selected scalars as byte ranges, in slices of bounded work.
//!
//! Without filters the walk uses the automaton, in one pass; a pass before it counts array elements if a selector counts from the end. With
//! filters the document becomes a tape of values, the filters are evaluated on it, and the selected values are returned. All these can
//! pause and resume. UTF-8 is validated a piece at a time right behind the walk, so that no match is returned with unvalidated bytes.

mod lines;
mod locator;
mod matcher;
mod pass;
mod sieve;

use std::sync::Arc;

use crate::error::{DocumentError, DocumentErrorKind};
use crate::limits::{DOCUMENT_SIZE_CEILING, Limits};
use crate::machine::{Container, Reach, Scalar, Sink};
use crate::match_paths::{Key, MatchPaths, PathTracker};
use crate::selector::Selection;
use crate::selector::automaton::Detail;
use crate::tracker::{Lengths, Tracker};
use crate::tree::{ChildKey, Evaluated, Evaluation, SelectedNodes};
use lines::Lines;
use locator::{Locator, path_keys};
pub(crate) use matcher::Matcher;
use matcher::matched;
pub(crate) use pass::Pass;

/// Number of path keys after which a batch ends; one match adds at most one key per level.
const KEYS_MAX: usize = 4 << 10;

/// Bytes walked in about the time in which a filter visits one value.
pub const VISIT_BYTES: usize = 16;

/// The purpose of the matches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Every selected string, number, `true` and `false`; never `null`.
    Encrypt,
    /// Every selected string whose text begins with `ev:`.
    Decrypt,
}

/// The kind of a matched scalar.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScalarKind {
    /// A string; `escaped` if it contains a backslash, so that its text differs from its bytes.
    String {
        /// Whether the token contains escape sequences.
        escaped: bool,
    },
    /// A number.
    Number,
    /// `true` or `false`.
    Boolean,
}

/// A scalar to replace: the byte range of its whole token in the document, including a string's quotation marks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Match {
    /// Offset of the token's first byte.
    pub start: usize,
    /// Offset after its last byte.
    pub end: usize,
    /// The kind of scalar.
    pub kind: ScalarKind,
}

/// Whether a walk is complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// More of the document follows.
    More,
    /// The whole document was read and is well-formed, and all matches were returned.
    Done,
}

/// A walk that borrows its document and selection. [`Walk`] is the same without the borrow.
#[derive(Debug)]
pub struct Walker<'d> {
    document: &'d [u8],
    walk: Walk,
}

impl<'d> Walker<'d> {
    /// Starts a walk; see [`Walk::new`].
    ///
    /// # Errors
    /// The document is larger than the limits permit.
    pub fn new(
        document: &'d [u8],
        selection: &Selection,
        purpose: Purpose,
        limits: &Limits,
    ) -> Result<Self, DocumentError> {
        Ok(Walker { document, walk: Walk::new(document.len(), selection, purpose, limits)? })
    }

    /// Reads the document as JSON Lines; see [`Walk::lines`].
    pub fn lines(self) -> Self {
        Walker { walk: self.walk.lines(), ..self }
    }

    /// Continues; see [`Walk::next_batch`].
    ///
    /// # Errors
    /// The document is not well-formed or exceeds a limit. Matches appended before are still valid ranges.
    pub fn next_batch(
        &mut self,
        matches: &mut Vec<Match>,
        matches_max: usize,
        bytes_max: usize,
    ) -> Result<Progress, DocumentError> {
        self.walk.next_batch(self.document, matches, matches_max, bytes_max)
    }

    /// See [`Walk::position`].
    pub fn position(&self) -> usize {
        self.walk.position()
    }

    /// See [`Walk::matched`].
    pub fn matched(&self) -> &[u64] {
        self.walk.matched()
    }
}

/// A walk through one document, which is passed in each call, so that both can wait in a queue.
#[derive(Debug)]
pub struct Walk {
    selection: Selection,
    purpose: Purpose,
    limits: Limits,
    document_size: usize,
    stage: Stage,
    /// Whether the paths of matches are recorded.
    records_paths: bool,
    /// Whether each selector must select something.
    is_strict: bool,
    /// The number of matches of each selector, once known.
    matched: Vec<u64>,
}

#[derive(Debug)]
enum Stage {
    /// Counts array elements ahead of the walk.
    Count {
        pass: Pass,
        lengths: Lengths,
        collector: Collector,
    },
    /// The single pass.
    Stream {
        pass: Pass,
        collector: Collector,
    },
    /// Filters: the document is read into a tape.
    Read {
        pass: Pass,
        evaluation: Box<Evaluation>,
    },
    /// Filters: the selection is evaluated.
    Evaluate {
        evaluation: Box<Evaluation>,
    },
    /// Filters: the selected values are returned, up to byte `position`.
    HandOver {
        nodes: SelectedNodes,
        position: usize,
        match_paths: MatchPaths,
    },
    /// The documents of a text of lines.
    Lines(Box<Lines>),
    Done,
    /// Complete, with paths that were not taken yet.
    Ended {
        match_paths: MatchPaths,
    },
    Failed(DocumentError),
}

/// Receives the matches of the single pass.
#[derive(Debug)]
enum Collector {
    Matcher(Box<Matcher>),
    /// Records the paths of matches too.
    Locator(Box<Locator>),
}

impl Collector {
    fn tracker(&mut self) -> &mut Tracker {
        match self {
            Collector::Matcher(matcher) => &mut matcher.tracker,
            Collector::Locator(locator) => &mut locator.matcher.tracker,
        }
    }

    fn memory(&self) -> usize {
        match self {
            Collector::Matcher(matcher) => matcher.tracker.memory(),
            Collector::Locator(locator) => locator.matcher.tracker.memory(),
        }
    }
}

impl Walk {
    /// Starts a walk through a document of `document_size` bytes. Allocates almost nothing until the first batch.
    ///
    /// # Errors
    /// [`DocumentErrorKind::TooLarge`].
    pub fn new(
        document_size: usize,
        selection: &Selection,
        purpose: Purpose,
        limits: &Limits,
    ) -> Result<Self, DocumentError> {
        let size_max = limits.document_size_max.min(DOCUMENT_SIZE_CEILING);
        if document_size > size_max {
            return Err(DocumentError::new(DocumentErrorKind::TooLarge(size_max), document_size));
        }
        let pass = Pass::checking(limits);
        let stage = match selection.program() {
            None => Stage::Read { pass, evaluation: Box::new(Evaluation::new(selection, limits)) },
            Some(program) => {
                let tracker = Tracker::new(Arc::clone(program), Detail::Scalars, None);
                let collector = Collector::Matcher(Box::new(Matcher::new(tracker, purpose)));
                Stage::begin_pass(pass, collector, program.needs_lengths().then(Lengths::default))
            }
        };
        let (selection, limits) = (selection.clone(), limits.clone());
        let (records_paths, is_strict) = (false, false);
        Ok(Walk { selection, purpose, limits, document_size, stage, records_paths, is_strict, matched: Vec::new() })
    }

    /// Records the paths of matches, for [`Walk::take_paths`]. Call it before the first batch.
    pub fn with_paths(mut self) -> Self {
        self.records_paths = true;
        let located = |collector| match collector {
            Collector::Matcher(matcher) => Collector::Locator(Locator::new(*matcher)),
            collector => collector,
        };
        self.stage = match self.stage {
            Stage::Stream { pass, collector } => Stage::Stream { pass, collector: located(collector) },
            Stage::Count { pass, lengths, collector } => Stage::Count { pass, lengths, collector: located(collector) },
            stage => stage,
        };
        self
    }

    /// Fails at the end of the document if a selector selects nothing in it ([`DocumentErrorKind::Unmatched`]). Call it before the first
    /// batch.
    pub fn strict(mut self, is_strict: bool) -> Self {
        self.is_strict = is_strict;
        self
    }

    /// Reads the document as JSON Lines: a document on each line that is not blank, which all have the walk's selection. Limits apply to
    /// each line, those of the size and of the work of filters to all together; [`Walk::strict`] applies to each line. Call it after
    /// these and [`Walk::with_paths`], and before the first batch.
    pub fn lines(self) -> Self {
        let (selection, limits) = (self.selection.clone(), self.limits.clone());
        let Walk { purpose, document_size, records_paths, is_strict, .. } = self;
        Walk {
            stage: Stage::Lines(Lines::new(self)),
            selection,
            purpose,
            limits,
            document_size,
            records_paths,
            is_strict,
            matched: Vec::new(),
        }
    }

    /// Starts again with another document of this size. The stage is that of a walk that is complete, or has failed because its document
    /// is empty.
    fn restart(&mut self, document_size: usize, finished: Option<Box<Evaluation>>) -> Result<(), DocumentError> {
        let size_max = self.limits.document_size_max.min(DOCUMENT_SIZE_CEILING);
        if document_size > size_max {
            return Err(DocumentError::new(DocumentErrorKind::TooLarge(size_max), document_size));
        }
        self.document_size = document_size;
        match &mut self.stage {
            Stage::Stream { pass, .. } if !self.selection.needs_lengths() => pass.restart(),
            _ => self.begin_stage(finished),
        }
        let is_strict = self.is_strict;
        if let Some(tracker) = self.tracker().filter(|_| is_strict) {
            tracker.begin_covered();
        }
        Ok(())
    }

    /// Begins a stage that is not the one at the end of the last document.
    fn begin_stage(&mut self, finished: Option<Box<Evaluation>>) {
        let pass = Pass::checking(&self.limits);
        self.stage = match std::mem::replace(&mut self.stage, Stage::Done) {
            Stage::Count { mut lengths, collector, .. } => {
                lengths.clear();
                Stage::begin_pass(pass, collector, Some(lengths))
            }
            Stage::Stream { mut collector, .. } => {
                let lengths = self.selection.needs_lengths().then(|| {
                    let mut lengths = collector.tracker().begin_with(Lengths::default()).unwrap_or_default();
                    lengths.clear();
                    lengths
                });
                Stage::begin_pass(pass, collector, lengths)
            }
            _ => {
                let evaluation = match finished {
                    Some(mut evaluation) => {
                        evaluation.restart(&self.limits);
                        evaluation
                    }
                    None => Box::new(Evaluation::new(&self.selection, &self.limits)),
                };
                Stage::Read { pass, evaluation }
            }
        };
    }

    /// The tracker of a walk in one pass.
    fn tracker(&mut self) -> Option<&mut Tracker> {
        match &mut self.stage {
            Stage::Count { collector, .. } | Stage::Stream { collector, .. } => Some(collector.tracker()),
            _ => None,
        }
    }

    /// The first selector that has selected nothing in the document, which is over.
    fn unmatched(&mut self) -> Option<usize> {
        match self.continues() {
            true => self.tracker().and_then(|tracker| tracker.uncovered()),
            false => self.matched.iter().position(|&matched| matched == 0),
        }
    }

    /// Whether the walk goes on with the next document as it is, and counts the matches of all.
    fn continues(&self) -> bool {
        matches!(self.stage, Stage::Count { .. } | Stage::Stream { .. })
    }

    /// Ends a walk with filters; returns the evaluation, to be used again.
    fn finish_evaluation(&mut self) -> Option<Box<Evaluation>> {
        match std::mem::replace(&mut self.stage, Stage::Done) {
            Stage::HandOver { nodes, match_paths, .. } => {
                if self.records_paths {
                    self.stage = Stage::Ended { match_paths };
                }
                Some(nodes.into_evaluation())
            }
            _ => None,
        }
    }

    /// The paths of the matches returned since the last call, for a walk that records them.
    pub fn take_paths(&mut self) -> MatchPaths {
        match &mut self.stage {
            Stage::Stream { collector: Collector::Locator(locator), .. } => locator.path_tracker.take(),
            Stage::HandOver { match_paths, .. } | Stage::Ended { match_paths } => std::mem::take(match_paths),
            Stage::Lines(lines) => lines.take_paths(),
            _ => MatchPaths::default(),
        }
    }

    /// The number of scalars that each selector has selected, in the order of the selectors, including those below a selected array or
    /// object, and `null`. Known once the walk is complete, and empty until then.
    pub fn matched(&self) -> &[u64] {
        &self.matched
    }

    /// No further match begins before this byte of the document. Stays 0 during a pass before the matches.
    pub fn position(&self) -> usize {
        match &self.stage {
            Stage::Count { .. } | Stage::Read { .. } | Stage::Evaluate { .. } => 0,
            Stage::Stream { pass, .. } => pass.machine.token_start(),
            Stage::HandOver { position, .. } => *position,
            Stage::Lines(lines) => lines.position().min(self.document_size),
            Stage::Done | Stage::Ended { .. } => self.document_size,
            Stage::Failed(error) => error.offset.min(self.document_size),
        }
    }

    /// Memory besides the document and the matches, excluding patterns.
    pub fn memory(&self) -> usize {
        match &self.stage {
            Stage::Count { lengths, collector, .. } => lengths.memory() + collector.memory(),
            Stage::Stream { collector, .. } => collector.memory(),
            Stage::Read { evaluation, .. } | Stage::Evaluate { evaluation } => evaluation.memory(),
            Stage::HandOver { nodes, .. } => nodes.memory(),
            Stage::Lines(lines) => lines.memory(),
            Stage::Done | Stage::Ended { .. } | Stage::Failed(_) => 0,
        }
    }

    /// Continues through `document` and appends its matches, in document order.
    ///
    /// Stops after `matches_max` matches, or after about `bytes_max` bytes, whichever comes first; both count as at least one. It
    /// overshoots by at most about 100 bytes, and stops within a longer token; while filters are evaluated, [`VISIT_BYTES`] count as one
    /// visit of a value. A batch may be empty. With filters, or indexes that count from the end, the document is read once before the first
    /// match.
    ///
    /// # Errors
    /// The first fault of the document, or an exceeded limit; further calls return the same error. Matches appended before are still valid
    /// ranges of well-formed tokens.
    ///
    /// # Panics
    /// If the size of `document` is not the one that the walk was created with.
    pub fn next_batch(
        &mut self,
        document: &[u8],
        matches: &mut Vec<Match>,
        matches_max: usize,
        bytes_max: usize,
    ) -> Result<Progress, DocumentError> {
        assert_eq!(document.len(), self.document_size, "a walk keeps to its document");
        let result = self.advance(document, matches, matches_max.max(1), bytes_max.max(1));
        match result {
            Ok(true) => {
                let is_lines = matches!(self.stage, Stage::Lines(_));
                self.end();
                match self.unmatched().filter(|_| self.is_strict && !is_lines) {
                    Some(selector) => self.fail(DocumentError::new(DocumentErrorKind::Unmatched(selector), 0)),
                    None => Ok(Progress::Done),
                }
            }
            Ok(false) => Ok(Progress::More),
            Err(error) => self.fail(error),
        }
    }

    fn fail(&mut self, error: DocumentError) -> Result<Progress, DocumentError> {
        self.stage = Stage::Failed(error);
        Err(error)
    }

    /// Runs one batch; returns true when the walk is complete.
    fn advance(
        &mut self,
        document: &[u8],
        matches: &mut Vec<Match>,
        matches_max: usize,
        bytes_max: usize,
    ) -> Result<bool, DocumentError> {
        match &mut self.stage {
            Stage::Count { pass, lengths, .. } => {
                if pass.run(document, bytes_max, lengths)? == Reach::Finished {
                    self.stage = std::mem::replace(&mut self.stage, Stage::Done).counted(&self.limits, document.len());
                }
                Ok(false)
            }
            Stage::Stream { pass, collector: Collector::Matcher(matcher) } => {
                matcher.begin_batch(matches, matches_max);
                let result = pass.run(document, bytes_max, &mut **matcher);
                matcher.end_batch(matches, pass, result)
            }
            Stage::Stream { pass, collector: Collector::Locator(locator) } => {
                locator.matcher.begin_batch(matches, matches_max);
                let result = pass.run(document, bytes_max, &mut **locator);
                locator.matcher.end_batch(matches, pass, result)
            }
            Stage::Read { pass, evaluation } => {
                // Writing a value to the tape takes about as long as walking it.
                if pass.run(document, bytes_max.div_ceil(2), evaluation.tape_mut())? == Reach::Finished
                    && let Stage::Read { mut evaluation, .. } = std::mem::replace(&mut self.stage, Stage::Done)
                {
                    evaluation.begin();
                    self.stage = Stage::Evaluate { evaluation };
                }
                Ok(false)
            }
            Stage::Evaluate { evaluation } => {
                if evaluation.run(document, bytes_max / VISIT_BYTES)? == Evaluated::More {
                    return Ok(false);
                }
                if let Stage::Evaluate { evaluation } = std::mem::replace(&mut self.stage, Stage::Done) {
                    // In a text of lines the next one has what is left.
                    self.limits.filter_steps_max = self.limits.filter_steps_max.saturating_sub(evaluation.steps());
                    self.matched.clear();
                    self.matched.extend_from_slice(evaluation.matched());
                    let nodes = SelectedNodes::new(evaluation);
                    self.stage = Stage::HandOver { nodes, position: 0, match_paths: MatchPaths::default() };
                }
                Ok(false)
            }
            Stage::HandOver { .. } => Ok(self.hand_over(document, matches, matches_max, bytes_max)),
            Stage::Lines(lines) => lines.advance(document, matches, matches_max, bytes_max),
            Stage::Done | Stage::Ended { .. } => Ok(true),
            Stage::Failed(error) => Err(*error),
        }
    }

    /// Hands over a batch of the values that filters have selected; returns true at their end.
    fn hand_over(&mut self, document: &[u8], matches: &mut Vec<Match>, matches_max: usize, bytes_max: usize) -> bool {
        let Stage::HandOver { nodes, position, match_paths } = &mut self.stage else { return true };
        let (purpose, records_paths) = (self.purpose, self.records_paths);
        let (full, stop) = (matches.len().saturating_add(matches_max), position.saturating_add(bytes_max));
        while *position < stop && matches.len() < full && match_paths.size() < KEYS_MAX {
            let Some(number) = nodes.next_below() else {
                return true;
            };
            let node = nodes.tape().node(number);
            let (start, end) = (node.start as usize, node.end as usize);
            *position = start + 1;
            if let Some(scalar) = node.scalar() {
                let found = matched(document, start, end, scalar, purpose);
                if found.is_some() && records_paths {
                    match_paths.push(0, path_keys(nodes.tape(), number).into_iter().rev());
                }
                matches.extend(found);
                *position = end;
            }
        }
        false
    }

    /// Records the number of scalars that each selector has selected.
    fn end(&mut self) {
        self.stage = match std::mem::replace(&mut self.stage, Stage::Done) {
            Stage::Count { mut collector, .. } | Stage::Stream { mut collector, .. } => {
                self.matched = collector.tracker().matched();
                match collector {
                    Collector::Matcher(_) => Stage::Done,
                    Collector::Locator(mut locator) => Stage::Ended { match_paths: locator.path_tracker.take() },
                }
            }
            Stage::HandOver { match_paths, .. } if self.records_paths => Stage::Ended { match_paths },
            Stage::Lines(lines) => {
                self.matched = lines.into_matched();
                Stage::Done
            }
            Stage::Ended { match_paths } => Stage::Ended { match_paths },
            _ => Stage::Done,
        };
    }
}

impl Stage {
    /// Before a document. `lengths` are those of its arrays if they must be counted first, and empty.
    fn begin_pass(pass: Pass, collector: Collector, lengths: Option<Lengths>) -> Stage {
        match lengths {
            Some(lengths) => Stage::Count { pass, lengths, collector },
            None => Stage::Stream { pass, collector },
        }
    }

    /// Behind the pass that counts elements, in which all bytes of the document were found to be UTF-8.
    fn counted(self, limits: &Limits, document_size: usize) -> Stage {
        match self {
            Stage::Count { lengths, mut collector, .. } => {
                collector.tracker().begin_with(lengths);
                Stage::Stream { pass: Pass::checked(limits, document_size), collector }
            }
            stage => stage,
        }
    }
}
