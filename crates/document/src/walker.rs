//! The walk: one pass over a document that returns the selected scalars as byte ranges, in slices of bounded work.
//!
//! Without filters the walk uses the automaton, in one pass; a pass before it counts array elements if a selector counts from the
//! end. With filters the document becomes a tape of values, the filters are evaluated on it, and the selected values are returned.
//! All these can pause and resume. UTF-8 is validated a piece at a time directly behind the walk, so that no match is returned with
//! unvalidated bytes.

mod locator;

use std::sync::Arc;

use crate::error::{DocumentError, DocumentErrorKind};
use crate::limits::{DEPTH_CEILING, DOCUMENT_SIZE_CEILING, Limits};
use crate::machine::{Container, Machine, Reach, Scalar, Sink};
use crate::places::{Key, Places, Trail};
use crate::selector::Selection;
use crate::selector::automaton::Detail;
use crate::text::begins_like_envelope;
use crate::tracker::{Lengths, Tracker};
use crate::tree::{Evaluated, Evaluation, Place, SelectedNodes, Tape};
use locator::{Locator, way_to};

/// Bytes walked before they are checked as UTF-8: they are then still in the innermost caches.
const PIECE_SIZE: usize = 16 << 10;

/// Keys of places after which a batch ends: what one match brings is bounded by the depth.
const KEYS_MAX: usize = 4 << 10;

/// Bytes that are walked in about the time of one visit of a value by a filter.
pub const LOOK_BYTES: usize = 16;

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
    /// A string; `escaped` when there is a backslash in it, so that its text is not its bytes.
    String {
        /// Whether the token holds escape sequences.
        escaped: bool,
    },
    /// A number.
    Number,
    /// `true` or `false`.
    Boolean,
}

/// A scalar to replace: the byte range of its whole token in the document, a string's quotation marks included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Match {
    /// Offset of the token's first byte.
    pub start: usize,
    /// Offset after its last byte.
    pub end: usize,
    /// The kind of scalar.
    pub kind: ScalarKind,
}

/// Whether a walk is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// There is more to walk.
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
    /// Begins a walk; see [`Walk::new`].
    ///
    /// # Errors
    /// A document larger than the limits allow.
    pub fn new(
        document: &'d [u8],
        selection: &Selection,
        purpose: Purpose,
        limits: &Limits,
    ) -> Result<Self, DocumentError> {
        Ok(Walker { document, walk: Walk::new(document.len(), selection, purpose, limits)? })
    }

    /// Goes on; see [`Walk::next_batch`].
    ///
    /// # Errors
    /// The document is not well-formed or passes a limit. Matches appended before stay valid ranges.
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
    /// Whether the places of matches are noted.
    locates: bool,
    /// The number of matches of each selector, once known.
    matched: Vec<u64>,
}

#[derive(Debug)]
enum Stage {
    /// Counting array elements ahead of the walk.
    Count {
        pass: Pass,
        lengths: Lengths,
    },
    /// The one pass.
    Stream {
        pass: Pass,
        matcher: Box<Matcher>,
    },
    /// The same with the places of matches.
    Locate {
        pass: Pass,
        locator: Box<Locator>,
    },
    /// Filters: reading the document into a tape.
    Read {
        pass: Pass,
        tape: Box<Tape>,
    },
    /// Filters: working out what is selected.
    Evaluate {
        evaluation: Box<Evaluation>,
    },
    /// Filters: handing over what is selected, up to byte `position`.
    HandOver {
        nodes: Box<SelectedNodes>,
        position: usize,
        places: Places,
    },
    Done,
    /// Done, with places that were not taken yet.
    Ended {
        places: Places,
    },
    Failed(DocumentError),
}

impl Walk {
    /// Begins a walk through a document of `document_size` bytes. Allocates next to nothing until the first batch.
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
            None => Stage::Read { pass, tape: Box::new(Tape::new(limits.tree_nodes_max, selection.other_case())) },
            Some(program) if program.needs_lengths() => Stage::Count { pass, lengths: Lengths::default() },
            Some(program) => {
                let tracker = Tracker::new(Arc::clone(program), Detail::Scalars, None);
                Stage::Stream { pass, matcher: Box::new(Matcher::new(tracker, purpose)) }
            }
        };
        let (selection, limits) = (selection.clone(), limits.clone());
        Ok(Walk { selection, purpose, limits, document_size, stage, locates: false, matched: Vec::new() })
    }

    /// The same walk, which notes the places of its matches for [`Walk::take_places`]. To be called before the first batch.
    pub fn locating(mut self) -> Self {
        self.locates = true;
        self.stage = match self.stage {
            Stage::Stream { pass, matcher } => Stage::Locate { pass, locator: Locator::new(*matcher) },
            stage => stage,
        };
        self
    }

    /// The paths of the matches returned since the last call, for a walk that records them.
    pub fn take_places(&mut self) -> Places {
        match &mut self.stage {
            Stage::Locate { locator, .. } => locator.trail.take(),
            Stage::HandOver { places, .. } | Stage::Ended { places } => std::mem::take(places),
            _ => Places::default(),
        }
    }

    /// How many scalars each selector has selected, in the order of the selectors; those below a selected array or object count, and
    /// so does `null`. Known once the walk is done, and empty until then.
    pub fn matched(&self) -> &[u64] {
        &self.matched
    }

    /// No further match begins before this byte of the document. Stays 0 during a pass before the matches.
    pub fn position(&self) -> usize {
        match &self.stage {
            Stage::Count { .. } | Stage::Read { .. } | Stage::Evaluate { .. } => 0,
            Stage::Stream { pass, .. } | Stage::Locate { pass, .. } => pass.machine.token_start(),
            Stage::HandOver { position, .. } => *position,
            Stage::Done | Stage::Ended { .. } => self.document_size,
            Stage::Failed(error) => error.offset.min(self.document_size),
        }
    }

    /// Memory in addition to the document and the matches, without that of patterns.
    pub fn memory(&self) -> usize {
        match &self.stage {
            Stage::Count { lengths, .. } => lengths.memory(),
            Stage::Stream { matcher, .. } => matcher.tracker.memory(),
            Stage::Locate { locator, .. } => locator.matcher.tracker.memory(),
            Stage::Read { tape, .. } => tape.memory(),
            Stage::Evaluate { evaluation } => evaluation.memory(),
            Stage::HandOver { nodes, .. } => nodes.memory(),
            Stage::Done | Stage::Ended { .. } | Stage::Failed(_) => 0,
        }
    }

    /// Walks on through `document` and appends what it matches, in document order.
    ///
    /// Stops after `matches_max` matches, or after about `bytes_max` bytes, whichever comes first; both count as at least one. It
    /// overshoots by at most some 100 bytes, and stops within a longer token; while filters are evaluated [`LOOK_BYTES`] count as
    /// one visit of a value. A batch may be empty. With filters, or indexes that count from the end, the document is read once
    /// before the first match.
    ///
    /// # Errors
    /// The first fault of the document, or an exceeded limit; further calls return the same error. Matches appended before stay
    /// valid ranges of well-formed tokens.
    ///
    /// # Panics
    /// When `document` has not the size that the walk was begun with.
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
                self.end();
                Ok(Progress::Done)
            }
            Ok(false) => Ok(Progress::More),
            Err(error) => {
                self.stage = Stage::Failed(error);
                Err(error)
            }
        }
    }

    /// One batch; true when the walk is over.
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
                // To write a value down takes about as long as to walk it.
                if pass.run(document, bytes_max.div_ceil(2), &mut **tape)? == Reach::Finished {
                    let evaluation = Evaluation::new(std::mem::take(&mut **tape), &self.selection, &self.limits);
                    self.stage = Stage::Evaluate { evaluation: Box::new(evaluation) };
                }
                Ok(false)
            }
            Stage::Evaluate { evaluation } => {
                if evaluation.run(document, bytes_max / LOOK_BYTES)? == Evaluated::More {
                    return Ok(false);
                }
                if let Stage::Evaluate { evaluation } = std::mem::replace(&mut self.stage, Stage::Done) {
                    let (nodes, matched) = evaluation.finish();
                    self.matched = matched;
                    self.stage = Stage::HandOver { nodes: Box::new(nodes), position: 0, places: Places::default() };
                }
                Ok(false)
            }
            Stage::HandOver { nodes, position, places } => {
                let (purpose, locates) = (self.purpose, self.locates);
                let full = matches.len().saturating_add(matches_max);
                let stop = position.saturating_add(bytes_max);
                while *position < stop && matches.len() < full && places.size() < KEYS_MAX {
                    let Some(number) = nodes.next_below() else {
                        return Ok(true);
                    };
                    let node = nodes.tape().node(number);
                    let (start, end) = (node.start as usize, node.end as usize);
                    *position = start + 1;
                    if let Some(scalar) = node.scalar() {
                        let found = matched(document, start, end, scalar, purpose);
                        if found.is_some() && locates {
                            places.push(0, way_to(nodes.tape(), number).into_iter().rev());
                        }
                        matches.extend(found);
                        *position = end;
                    }
                }
                Ok(false)
            }
            Stage::Done | Stage::Ended { .. } => Ok(true),
            Stage::Failed(error) => Err(*error),
        }
    }

    /// Notes what each selector has selected.
    fn end(&mut self) {
        self.stage = match std::mem::replace(&mut self.stage, Stage::Done) {
            Stage::Stream { matcher, .. } => {
                self.matched = matcher.tracker.matched();
                Stage::Done
            }
            Stage::Locate { mut locator, .. } => {
                self.matched = locator.matcher.tracker.matched();
                Stage::Ended { places: locator.trail.take() }
            }
            Stage::HandOver { places, .. } if self.locates => Stage::Ended { places },
            Stage::Ended { places } => Stage::Ended { places },
            _ => Stage::Done,
        };
    }

    fn stream_with(&self, lengths: Lengths) -> Stage {
        let program = self.selection.program().expect("only programs ask for lengths");
        let tracker = Tracker::new(Arc::clone(program), Detail::Scalars, Some(lengths));
        let pass = Pass { checked: self.document_size, ..Pass::checking(&self.limits) };
        let matcher = Matcher::new(tracker, self.purpose);
        match self.locates {
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
    /// A reading that checks UTF-8.
    pub(crate) fn checking(limits: &Limits) -> Self {
        Pass { machine: Machine::new(limits.depth_max.min(DEPTH_CEILING)), checked: 0 }
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

/// The last place up to `position` that is not within a character of UTF-8.
fn character_start(document: &[u8], position: usize) -> usize {
    let is_within = |place: &usize| document.get(*place).is_some_and(|byte| byte & 0b1100_0000 == 0b1000_0000);
    // More bytes of that kind than a character has are a fault, which comes out with the next piece.
    (position.saturating_sub(3)..=position).rev().find(|place| !is_within(place)).unwrap_or(position)
}

/// A sink that can find fault with a document itself.
pub(crate) trait FallibleSink: Sink {
    /// The fault, if it found one; it must then call itself full.
    fn fault(&self) -> Option<DocumentError> {
        None
    }
}

impl FallibleSink for Lengths {}

/// Turns the automaton's verdicts into matches.
#[derive(Debug)]
struct Matcher {
    tracker: Tracker,
    purpose: Purpose,
    matches: Vec<Match>,
    /// Those that were there when the batch began.
    before: usize,
    matches_max: usize,
    /// The position of a refused name.
    refused: Option<usize>,
}

impl Matcher {
    fn new(tracker: Tracker, purpose: Purpose) -> Self {
        Matcher { tracker, purpose, matches: Vec::new(), before: 0, matches_max: 0, refused: None }
    }

    /// Takes the caller's list for a batch of up to `matches_max` matches after those in it.
    fn begin_batch(&mut self, matches: &mut Vec<Match>, matches_max: usize) {
        self.before = matches.len();
        self.matches_max = self.before.saturating_add(matches_max);
        std::mem::swap(matches, &mut self.matches);
    }

    /// Returns the list, without matches whose bytes were not validated, and whether the document is finished.
    fn end_batch(
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

    /// Nothing is read after the name.
    #[cold]
    fn refuse(&mut self, start: usize) {
        self.refused.get_or_insert(start);
        self.matches_max = 0;
    }
}

impl FallibleSink for Matcher {
    fn fault(&self) -> Option<DocumentError> {
        self.refused.map(|offset| DocumentError::new(DocumentErrorKind::AmbiguousName, offset))
    }
}

impl Sink for Matcher {
    #[inline(always)]
    fn name(&mut self, document: &[u8], start: usize, end: usize, escaped: bool) {
        if self.tracker.name(&document[start..end], escaped).is_err() {
            self.refuse(start);
        }
    }

    #[inline(always)]
    fn scalar(&mut self, document: &[u8], start: usize, end: usize, scalar: Scalar) {
        let set = self.tracker.value();
        if set.is_selected() {
            self.tracker.count(set);
            self.matches.extend(matched(document, start, end, scalar, self.purpose));
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

/// The match that a selected scalar makes, if any.
#[inline(always)]
fn matched(document: &[u8], start: usize, end: usize, scalar: Scalar, purpose: Purpose) -> Option<Match> {
    let kind = match (scalar, purpose) {
        (Scalar::String { escaped }, Purpose::Encrypt) => ScalarKind::String { escaped },
        (Scalar::String { escaped }, Purpose::Decrypt) if begins_like_envelope(&document[start..end], escaped) => {
            ScalarKind::String { escaped }
        }
        (Scalar::Number, Purpose::Encrypt) => ScalarKind::Number,
        (Scalar::Boolean, Purpose::Encrypt) => ScalarKind::Boolean,
        _ => return None,
    };
    Some(Match { start, end, kind })
}
