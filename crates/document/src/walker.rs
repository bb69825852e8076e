//! The walk: one pass over a document that returns the selected scalars as byte ranges, in slices of bounded work.
//!
//! Without filters the walk uses the automaton, in one pass; a pass before it counts array elements if a selector counts from the end. With
//! filters the document becomes a tape of values, the filters are evaluated on it, and the selected values are returned. All these can
//! pause and resume. UTF-8 is validated a piece at a time right behind the walk, so that no match is returned with unvalidated bytes.

mod lines;
mod locator;
mod matcher;

use std::sync::Arc;

use crate::error::{DocumentError, DocumentErrorKind};
use crate::limits::{DEPTH_CEILING, DOCUMENT_SIZE_CEILING, Limits};
use crate::machine::{Container, Machine, Reach, Scalar, Sink};
use crate::match_paths::{Key, MatchPaths, PathTracker};
use crate::selector::Selection;
use crate::selector::automaton::Detail;
use crate::tracker::{Lengths, Tracker};
use crate::tree::{ChildKey, Evaluated, Evaluation, SelectedNodes, Tape};
use lines::Lines;
use locator::{Locator, path_keys};
pub(crate) use matcher::Matcher;
use matcher::matched;

/// Bytes walked before they are checked as UTF-8, while they are still in the first-level cache.
const PIECE_SIZE: usize = 16 << 10;

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
    },
    /// The single pass.
    Stream {
        pass: Pass,
        matcher: Box<Matcher>,
    },
    /// The same, recording the paths of matches.
    Locate {
        pass: Pass,
        locator: Box<Locator>,
    },
    /// Filters: the document is read into a tape.
    Read {
        pass: Pass,
        tape: Box<Tape>,
    },
    /// Filters: the selection is evaluated.
    Evaluate {
        evaluation: Box<Evaluation>,
    },
    /// Filters: the selected values are returned, up to byte `position`.
    HandOver {
        nodes: Box<SelectedNodes>,
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
            None => Stage::Read { pass, tape: Box::new(Tape::new(limits.tree_nodes_max, selection)) },
            Some(program) if program.needs_lengths() => Stage::Count { pass, lengths: Lengths::default() },
            Some(program) => {
                let tracker = Tracker::new(Arc::clone(program), Detail::Scalars, None);
                Stage::Stream { pass, matcher: Box::new(Matcher::new(tracker, purpose)) }
            }
        };
        let (selection, limits) = (selection.clone(), limits.clone());
        let (records_paths, is_strict) = (false, false);
        Ok(Walk { selection, purpose, limits, document_size, stage, records_paths, is_strict, matched: Vec::new() })
    }

    /// Records the paths of matches, for [`Walk::take_paths`]. Call it before the first batch.
    pub fn with_paths(mut self) -> Self {
        self.records_paths = true;
        self.stage = match self.stage {
            Stage::Stream { pass, matcher } => Stage::Locate { pass, locator: Locator::new(*matcher) },
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

    /// Starts again with a document of another size.
    fn restart(&mut self, document_size: usize) -> Result<(), DocumentError> {
        self.document_size = document_size;
        if !self.continues() {
            let walk = Walk::new(document_size, &self.selection, self.purpose, &self.limits)?.strict(self.is_strict);
            *self = if self.records_paths { walk.with_paths() } else { walk };
            return Ok(());
        }
        let (is_strict, fresh) = (self.is_strict, Pass::checking(&self.limits));
        if let Stage::Stream { pass, .. } | Stage::Locate { pass, .. } = &mut self.stage {
            *pass = fresh;
        }
        if let Some(tracker) = self.tracker().filter(|_| is_strict) {
            tracker.begin_covered();
        }
        Ok(())
    }

    /// The tracker of a walk in one pass.
    fn tracker(&mut self) -> Option<&mut Tracker> {
        match &mut self.stage {
            Stage::Stream { matcher, .. } => Some(&mut matcher.tracker),
            Stage::Locate { locator, .. } => Some(&mut locator.matcher.tracker),
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
        matches!(self.stage, Stage::Stream { .. } | Stage::Locate { .. }) && !self.selection.needs_lengths()
    }

    /// The paths of the matches returned since the last call, for a walk that records them.
    pub fn take_paths(&mut self) -> MatchPaths {
        match &mut self.stage {
            Stage::Locate { locator, .. } => locator.path_tracker.take(),
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
            Stage::Stream { pass, .. } | Stage::Locate { pass, .. } => pass.machine.token_start(),
            Stage::HandOver { position, .. } => *position,
            Stage::Lines(lines) => lines.position().min(self.document_size),
            Stage::Done | Stage::Ended { .. } => self.document_size,
            Stage::Failed(error) => error.offset.min(self.document_size),
        }
    }

    /// Memory besides the document and the matches, excluding patterns.
    pub fn memory(&self) -> usize {
        match &self.stage {
            Stage::Count { lengths, .. } => lengths.memory(),
            Stage::Stream { matcher, .. } => matcher.tracker.memory(),
            Stage::Locate { locator, .. } => locator.matcher.tracker.memory(),
            Stage::Read { tape, .. } => tape.memory(),
            Stage::Evaluate { evaluation } => evaluation.memory(),
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
            Stage::Count { pass, lengths } => {
                if pass.run(document, bytes_max, lengths)? == Reach::Finished {
                    let lengths = std::mem::take(lengths);
                    self.stage = self.stream_with(lengths);
                }
                Ok(false)
            }
            Stage::Stream { pass, matcher } => {
                matcher.begin_batch(matches, matches_max);
                let result = pass.run(document, bytes_max, &mut **matcher);
                matcher.end_batch(matches, pass, result)
            }
            Stage::Locate { pass, locator } => {
                locator.matcher.begin_batch(matches, matches_max);
                let result = pass.run(document, bytes_max, &mut **locator);
                locator.matcher.end_batch(matches, pass, result)
            }
            Stage::Read { pass, tape } => {
                // Writing a value to the tape takes about as long as walking it.
                if pass.run(document, bytes_max.div_ceil(2), &mut **tape)? == Reach::Finished {
                    let evaluation = Evaluation::new(std::mem::take(&mut **tape), &self.selection, &self.limits);
                    self.stage = Stage::Evaluate { evaluation: Box::new(evaluation) };
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
                    let (nodes, matched) = evaluation.finish();
                    self.matched = matched;
                    self.stage =
                        Stage::HandOver { nodes: Box::new(nodes), position: 0, match_paths: MatchPaths::default() };
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
            Stage::Stream { matcher, .. } => {
                self.matched = matcher.tracker.matched();
                Stage::Done
            }
            Stage::Locate { mut locator, .. } => {
                self.matched = locator.matcher.tracker.matched();
                Stage::Ended { match_paths: locator.path_tracker.take() }
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

    fn stream_with(&self, lengths: Lengths) -> Stage {
        let program = self.selection.program().expect("only programs ask for lengths");
        let tracker = Tracker::new(Arc::clone(program), Detail::Scalars, Some(lengths));
        let pass = Pass::checked(&self.limits, self.document_size);
        let matcher = Matcher::new(tracker, self.purpose);
        match self.records_paths {
            true => Stage::Locate { pass, locator: Locator::new(matcher) },
            false => Stage::Stream { pass, matcher: Box::new(matcher) },
        }
    }
}

/// One pass over a document, followed by the UTF-8 validation.
#[derive(Debug)]
pub(crate) struct Pass {
    machine: Machine,
    /// Bytes known to be UTF-8.
    checked: usize,
}

impl Pass {
    /// A pass at the start of a document.
    pub(crate) fn checking(limits: &Limits) -> Self {
        Pass::checked(limits, 0)
    }

    /// A pass over a document of which the first `checked` bytes are known to be UTF-8.
    pub(crate) fn checked(limits: &Limits, checked: usize) -> Self {
        Pass { machine: Machine::new(limits.depth_max.min(DEPTH_CEILING)), checked }
    }

    /// Reads about `bytes_max` further bytes. Returns the fault with the lowest position in the document.
    pub(crate) fn run(
        &mut self,
        document: &[u8],
        bytes_max: usize,
        sink: &mut impl FallibleSink,
    ) -> Result<Reach, DocumentError> {
        let stop = self.machine.position().saturating_add(bytes_max);
        loop {
            let piece_end = stop.min(self.machine.position() + PIECE_SIZE);
            let result = self.machine.run(document, piece_end, sink);
            let read = match &result {
                Ok(_) => character_start(document, self.machine.position()),
                Err(error) => error.offset,
            };
            self.check_utf8(document, read)?;
            if let Some(error) = sink.fault() {
                return Err(error);
            }
            let reach = result?;
            if reach == Reach::Finished || sink.is_full() || self.machine.position() >= stop {
                return Ok(reach);
            }
        }
    }

    /// Validates the bytes up to `end`, which is between characters or at a fault.
    fn check_utf8(&mut self, document: &[u8], end: usize) -> Result<(), DocumentError> {
        let Some(piece) = document.get(self.checked..end) else {
            return Ok(());
        };
        if simdutf8::basic::from_utf8(piece).is_ok() {
            self.checked = end;
            return Ok(());
        }
        let valid = simdutf8::compat::from_utf8(piece).map_or_else(|error| error.valid_up_to(), str::len);
        self.checked += valid;
        Err(DocumentError::new(DocumentErrorKind::InvalidUtf8, self.checked))
    }
}

/// The last position up to `position` that is not within a UTF-8 character.
fn character_start(document: &[u8], position: usize) -> usize {
    let is_within = |at: &usize| document.get(*at).is_some_and(|byte| byte & 0b1100_0000 == 0b1000_0000);
    // More continuation bytes than a character can have are a fault, which is found with the next piece.
    (position.saturating_sub(3)..=position).rev().find(|at| !is_within(at)).unwrap_or(position)
}

/// A sink that can detect faults of a document itself.
pub(crate) trait FallibleSink: Sink {
    /// The fault, if it found one; it must then report that it is full.
    fn fault(&self) -> Option<DocumentError> {
        None
    }
}

impl FallibleSink for Lengths {}
