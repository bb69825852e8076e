//! The walk: one pass over a document that returns the selected scalars as byte ranges, in slices of bounded work.
//!
//! Without filters the walk uses the automaton, in one pass; a pass before it counts array elements if a selector counts from the end. With
//! filters the document becomes a tape of values, the filters are evaluated on it, and the selected values are returned. All these can
//! pause and resume. UTF-8 is validated a piece at a time right behind the walk, so that no match is returned with unvalidated bytes.

mod contexts;
mod lines;
mod locator;
mod matcher;
mod pass;
mod sieve;

use std::sync::Arc;

use crate::error::{DocumentError, DocumentErrorKind};
use crate::limits::{DOCUMENT_SIZE_CEILING, DocumentLimits};
use crate::machine::{Container, GrammarScalar, Reach, Sink};
use crate::match_paths::{MatchPaths, PathKey, PathTracker};
use crate::selector::Selection;
use crate::selector::automaton::Detail;
use crate::tracker::{Lengths, Tracker};
use crate::tree::{ChildKey, Evaluated, Evaluation, SelectedNodes};
use contexts::ContextWalk;
pub use contexts::MatchContext;
use lines::LineProgress;
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
pub enum WalkProgress {
    /// More of the document follows.
    More,
    /// The whole document was read and is well-formed, and all matches were returned.
    Done,
}

/// A walk that borrows its document and selection. [`DocumentWalk`] is the same without the borrow.
#[derive(Debug)]
pub struct Walker<'d> {
    document: &'d [u8],
    walk: DocumentWalk,
}

impl<'d> Walker<'d> {
    /// Starts a walk; see [`DocumentWalk::new`].
    ///
    /// # Errors
    /// The document is larger than the limits permit.
    pub fn new(
        document: &'d [u8],
        selection: &Selection,
        purpose: Purpose,
        limits: &DocumentLimits,
    ) -> Result<Self, DocumentError> {
        Ok(Walker { document, walk: DocumentWalk::new(document.len(), selection, purpose, limits)? })
    }

    /// Reads the document as JSON Lines; see [`DocumentWalk::lines`].
    pub fn lines(self) -> Self {
        Walker { walk: self.walk.lines(), ..self }
    }

    /// Continues; see [`DocumentWalk::next_batch`].
    ///
    /// # Errors
    /// The document is not well-formed or exceeds a limit. Matches appended before are still valid ranges.
    pub fn next_batch(
        &mut self,
        matches: &mut Vec<Match>,
        matches_max: usize,
        bytes_max: usize,
    ) -> Result<WalkProgress, DocumentError> {
        self.walk.next_batch(self.document, matches, matches_max, bytes_max)
    }

    /// See [`DocumentWalk::position`].
    pub fn position(&self) -> usize {
        self.walk.position()
    }

    /// See [`DocumentWalk::matched`].
    pub fn matched(&self) -> &[u64] {
        self.walk.matched()
    }
}

/// A walk through one document, which is passed in each call, so that both can wait in a queue.
#[derive(Debug)]
pub struct DocumentWalk {
    selection: Selection,
    purpose: Purpose,
    limits: DocumentLimits,
    document_size: usize,
    stage: WalkStage,
    /// Whether the paths of matches are recorded.
    records_paths: bool,
    /// The contexts of matches, if they are recorded.
    contexts: Option<Box<ContextWalk>>,
    /// Where selected scalars begin that are no matches and could be contexts, if that is looked for.
    others: Option<Vec<u32>>,
    /// Whether each selector must select something.
    is_strict: bool,
    /// The number of matches of each selector, once known.
    matched: Vec<u64>,
}

#[derive(Debug)]
enum WalkStage {
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
    Lines(Box<LineProgress>),
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

impl DocumentWalk {
    /// Starts a walk through a document of `document_size` bytes. Allocates almost nothing until the first batch.
    ///
    /// # Errors
    /// [`DocumentErrorKind::TooLarge`].
    pub fn new(
        document_size: usize,
        selection: &Selection,
        purpose: Purpose,
        limits: &DocumentLimits,
    ) -> Result<Self, DocumentError> {
        let size_max = limits.document_size_max.min(DOCUMENT_SIZE_CEILING);
        if document_size > size_max {
            return Err(DocumentError::new(DocumentErrorKind::TooLarge(size_max), document_size));
        }
        let pass = Pass::checking(limits);
        let stage = match selection.program() {
            None => WalkStage::Read { pass, evaluation: Box::new(Evaluation::new(selection, limits)) },
            Some(program) => {
                let tracker = Tracker::new(Arc::clone(program), Detail::Scalars, None);
                let collector = Collector::Matcher(Box::new(Matcher::new(tracker, purpose)));
                WalkStage::begin_pass(pass, collector, program.needs_lengths().then(Lengths::default))
            }
        };
        let (selection, limits) = (selection.clone(), limits.clone());
        let (records_paths, is_strict) = (false, false);
        Ok(DocumentWalk {
            selection,
            purpose,
            limits,
            document_size,
            stage,
            records_paths,
            contexts: None,
            others: None,
            is_strict,
            matched: Vec::new(),
        })
    }

    /// Records the paths of matches, for [`DocumentWalk::take_paths`]. Call it before the first batch.
    pub fn with_paths(mut self) -> Self {
        self.records_paths = true;
        let located = |collector| match collector {
            Collector::Matcher(matcher) => Collector::Locator(Locator::new(*matcher)),
            collector => collector,
        };
        self.stage = match self.stage {
            WalkStage::Stream { pass, collector } => WalkStage::Stream { pass, collector: located(collector) },
            WalkStage::Count { pass, lengths, collector } => {
                WalkStage::Count { pass, lengths, collector: located(collector) }
            }
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
    /// each line, those of the size and of the work of filters to all together; [`DocumentWalk::strict`] applies to each line. Call it
    /// after these, [`DocumentWalk::with_paths`] and [`DocumentWalk::with_contexts`], and before the first batch.
    pub fn lines(self) -> Self {
        let (selection, limits) = (self.selection.clone(), self.limits.clone());
        let DocumentWalk { purpose, document_size, records_paths, is_strict, .. } = self;
        DocumentWalk {
            stage: WalkStage::Lines(LineProgress::new(self)),
            selection,
            purpose,
            limits,
            document_size,
            records_paths,
            contexts: None,
            others: None,
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
        self.contexts.iter_mut().for_each(|contexts| contexts.restart());
        match &mut self.stage {
            WalkStage::Stream { pass, .. } if !self.selection.needs_lengths() => pass.restart(),
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
        self.stage = match std::mem::replace(&mut self.stage, WalkStage::Done) {
            WalkStage::Count { mut lengths, collector, .. } => {
                lengths.clear();
                WalkStage::begin_pass(pass, collector, Some(lengths))
            }
            WalkStage::Stream { mut collector, .. } => {
                let lengths = self.selection.needs_lengths().then(|| {
                    let mut lengths = collector.tracker().begin_with(Lengths::default()).unwrap_or_default();
                    lengths.clear();
                    lengths
                });
                WalkStage::begin_pass(pass, collector, lengths)
            }
            _ => {
                let evaluation = match finished {
                    Some(mut evaluation) => {
                        evaluation.restart(&self.limits);
                        evaluation
                    }
                    None => Box::new(Evaluation::new(&self.selection, &self.limits)),
                };
                WalkStage::Read { pass, evaluation }
            }
        };
    }

    /// The tracker of a walk in one pass.
    fn tracker(&mut self) -> Option<&mut Tracker> {
        match &mut self.stage {
            WalkStage::Count { collector, .. } | WalkStage::Stream { collector, .. } => Some(collector.tracker()),
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

    /// Whether the walk continues with the next document as it is, and counts the matches of all.
    fn continues(&self) -> bool {
        matches!(self.stage, WalkStage::Count { .. } | WalkStage::Stream { .. })
    }

    /// Ends a walk with filters; returns the evaluation, to be used again.
    fn finish_evaluation(&mut self) -> Option<Box<Evaluation>> {
        match std::mem::replace(&mut self.stage, WalkStage::Done) {
            WalkStage::HandOver { nodes, match_paths, .. } => {
                if self.records_paths {
                    self.stage = WalkStage::Ended { match_paths };
                }
                Some(nodes.into_evaluation())
            }
            _ => None,
        }
    }

    /// The paths of the matches returned since the last call, for a walk that records them.
    pub fn take_paths(&mut self) -> MatchPaths {
        match &mut self.stage {
            WalkStage::Stream { collector: Collector::Locator(locator), .. } => locator.path_tracker.take(),
            WalkStage::HandOver { match_paths, .. } | WalkStage::Ended { match_paths } => std::mem::take(match_paths),
            WalkStage::Lines(lines) => lines.take_paths(),
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
            WalkStage::Count { .. } | WalkStage::Read { .. } | WalkStage::Evaluate { .. } => 0,
            WalkStage::Stream { pass, .. } => pass.machine.token_start(),
            WalkStage::HandOver { position, .. } => *position,
            WalkStage::Lines(lines) => lines.position().min(self.document_size),
            WalkStage::Done | WalkStage::Ended { .. } => self.document_size,
            WalkStage::Failed(error) => error.offset.min(self.document_size),
        }
    }

    /// Memory besides the document and the matches, excluding patterns.
    pub fn memory(&self) -> usize {
        let walk = match &self.stage {
            WalkStage::Count { lengths, collector, .. } => lengths.memory() + collector.memory(),
            WalkStage::Stream { collector, .. } => collector.memory(),
            WalkStage::Read { evaluation, .. } | WalkStage::Evaluate { evaluation } => evaluation.memory(),
            WalkStage::HandOver { nodes, .. } => nodes.memory(),
            WalkStage::Lines(lines) => lines.memory(),
            WalkStage::Done | WalkStage::Ended { .. } | WalkStage::Failed(_) => 0,
        };
        walk + self.contexts.as_ref().map_or(0, |contexts| contexts.memory())
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
    ) -> Result<WalkProgress, DocumentError> {
        assert_eq!(document.len(), self.document_size, "a walk keeps to its document");
        let result = self.advance(document, matches, matches_max.max(1), bytes_max.max(1));
        match result {
            Ok(true) => {
                let is_lines = matches!(self.stage, WalkStage::Lines(_));
                self.end();
                match self.unmatched().filter(|_| self.is_strict && !is_lines) {
                    Some(selector) => self.fail(DocumentError::new(DocumentErrorKind::Unmatched(selector), 0)),
                    None => Ok(WalkProgress::Done),
                }
            }
            Ok(false) => Ok(WalkProgress::More),
            Err(error) => self.fail(error),
        }
    }

    fn fail(&mut self, error: DocumentError) -> Result<WalkProgress, DocumentError> {
        self.stage = WalkStage::Failed(error);
        Err(error)
    }

    /// Runs one batch, or a piece of the pass before; returns true when the walk is complete.
    fn advance(
        &mut self,
        document: &[u8],
        matches: &mut Vec<Match>,
        matches_max: usize,
        bytes_max: usize,
    ) -> Result<bool, DocumentError> {
        match self.contexts.take() {
            None => self.advance_stage(document, matches, matches_max, bytes_max),
            Some(contexts) => self.advance_with(contexts, document, matches, (matches_max, bytes_max)),
        }
    }

    /// Runs one batch without contexts.
    fn advance_stage(
        &mut self,
        document: &[u8],
        matches: &mut Vec<Match>,
        matches_max: usize,
        bytes_max: usize,
    ) -> Result<bool, DocumentError> {
        match &mut self.stage {
            WalkStage::Count { pass, lengths, .. } => {
                if pass.run(document, bytes_max, lengths)? == Reach::Finished {
                    self.stage =
                        std::mem::replace(&mut self.stage, WalkStage::Done).counted(&self.limits, document.len());
                }
                Ok(false)
            }
            WalkStage::Stream { pass, collector: Collector::Matcher(matcher) } => {
                matcher.begin_batch(matches, matches_max);
                let result = pass.run(document, bytes_max, &mut **matcher);
                matcher.end_batch(matches, pass, result)
            }
            WalkStage::Stream { pass, collector: Collector::Locator(locator) } => {
                locator.matcher.begin_batch(matches, matches_max);
                let result = pass.run(document, bytes_max, &mut **locator);
                locator.matcher.end_batch(matches, pass, result)
            }
            WalkStage::Read { pass, evaluation } => {
                // Writing a value to the tape takes about as long as walking it.
                if pass.run(document, bytes_max.div_ceil(2), evaluation.tape_mut())? == Reach::Finished
                    && let WalkStage::Read { mut evaluation, .. } = std::mem::replace(&mut self.stage, WalkStage::Done)
                {
                    evaluation.begin();
                    self.stage = WalkStage::Evaluate { evaluation };
                }
                Ok(false)
            }
            WalkStage::Evaluate { evaluation } => {
                if evaluation.run(document, bytes_max / VISIT_BYTES)? == Evaluated::More {
                    return Ok(false);
                }
                if let WalkStage::Evaluate { evaluation } = std::mem::replace(&mut self.stage, WalkStage::Done) {
                    // In a text of lines the next one has what is left.
                    self.limits.filter_steps_max = self.limits.filter_steps_max.saturating_sub(evaluation.steps());
                    self.matched.clear();
                    self.matched.extend_from_slice(evaluation.matched());
                    let nodes = SelectedNodes::new(evaluation);
                    self.stage = WalkStage::HandOver { nodes, position: 0, match_paths: MatchPaths::default() };
                }
                Ok(false)
            }
            WalkStage::HandOver { .. } => Ok(self.hand_over(document, matches, matches_max, bytes_max)),
            WalkStage::Lines(lines) => lines.advance(document, matches, matches_max, bytes_max),
            WalkStage::Done | WalkStage::Ended { .. } => Ok(true),
            WalkStage::Failed(error) => Err(*error),
        }
    }

    /// Hands over a batch of the values that filters have selected; returns true at their end.
    fn hand_over(&mut self, document: &[u8], matches: &mut Vec<Match>, matches_max: usize, bytes_max: usize) -> bool {
        let WalkStage::HandOver { nodes, position, match_paths } = &mut self.stage else { return true };
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
                if let (None, Some(others)) = (&found, &mut self.others) {
                    others.push(start as u32);
                }
                matches.extend(found);
                *position = end;
            }
        }
        false
    }

    /// Records the number of scalars that each selector has selected.
    fn end(&mut self) {
        self.stage = match std::mem::replace(&mut self.stage, WalkStage::Done) {
            WalkStage::Count { mut collector, .. } | WalkStage::Stream { mut collector, .. } => {
                self.matched = collector.tracker().matched();
                match collector {
                    Collector::Matcher(_) => WalkStage::Done,
                    Collector::Locator(mut locator) => WalkStage::Ended { match_paths: locator.path_tracker.take() },
                }
            }
            WalkStage::HandOver { match_paths, .. } if self.records_paths => WalkStage::Ended { match_paths },
            WalkStage::Lines(lines) => {
                self.matched = lines.into_matched();
                WalkStage::Done
            }
            WalkStage::Ended { match_paths } => WalkStage::Ended { match_paths },
            _ => WalkStage::Done,
        };
    }
}

impl WalkStage {
    /// Before a document. `lengths` are those of its arrays if they must be counted first, and empty.
    fn begin_pass(pass: Pass, collector: Collector, lengths: Option<Lengths>) -> WalkStage {
        match lengths {
            Some(lengths) => WalkStage::Count { pass, lengths, collector },
            None => WalkStage::Stream { pass, collector },
        }
    }

    /// Behind the pass that counts elements, in which all bytes of the document were found to be UTF-8.
    fn counted(self, limits: &DocumentLimits, document_size: usize) -> WalkStage {
        match self {
            WalkStage::Count { lengths, mut collector, .. } => {
                collector.tracker().begin_with(lengths);
                WalkStage::Stream { pass: Pass::checked(limits, document_size), collector }
            }
            stage => stage,
        }
    }
}
