//! Patches: documents that describe changes of another one, whose selectors therefore do not select in the patch itself.
//!
//! [`PatchWalk`] reads a JSON Patch (RFC 6902) strictly and finds the scalars in the values of its operations that selectors would select
//! in the document that it changes. [`ShapeWalk`] finds out whether a document has the shape of a patch, also a lenient one.

mod operations;
mod shape;

use std::sync::Arc;

use crate::error::{DocumentError, DocumentErrorKind};
use crate::limits::{DOCUMENT_SIZE_CEILING, DocumentLimits};
use crate::machine::Reach;
use crate::selector::Selection;
use crate::selector::automaton::{Detail, SetId};
use crate::text::unescape;
use crate::tracker::Tracker;
use crate::walker::{Match, Matcher, Pass, Purpose, WalkProgress};
use operations::{Operations, PatchOperation, TokenBytes};

pub use shape::{PatchShape, ShapeWalk};

/// Maximum size of a path in a patch, in escaped form: one is read in a single step.
pub const POINTER_SIZE_MAX: usize = 8 << 10;

/// Bytes of a walk that finding the place of an operation counts as, in addition to those of its path.
const OPERATION_BYTES: usize = 128;

/// A walk through a JSON Patch, which is passed in each call. Only for selectors of names and wildcards
/// ([`Selection::is_of_names`]).
#[derive(Debug)]
pub struct PatchWalk {
    limits: DocumentLimits,
    document_size: usize,
    operations: Vec<PatchOperation>,
    stage: PatchStage,
    matcher: Box<Matcher>,
    is_strict: bool,
    /// Whether paths are refused that some readers take for others.
    is_unambiguous: bool,
}

#[derive(Debug)]
enum PatchStage {
    /// Reads the operations.
    Read {
        pass: Pass,
        sink: Operations,
    },
    /// Looks into their values: the next operation, and the walk through the value of the one before.
    Look {
        next: usize,
        value: Option<ValueWalk>,
    },
    Failed(DocumentError),
}

/// A walk through the value of an operation.
#[derive(Debug)]
struct ValueWalk {
    pass: Pass,
    start: usize,
    end: usize,
    /// Whether nothing was selected in it although something must be.
    lacks_match: bool,
}

impl PatchWalk {
    /// Starts a walk through a patch of `document_size` bytes.
    ///
    /// # Errors
    /// [`DocumentErrorKind::TooLarge`].
    ///
    /// # Panics
    /// If the selectors have filters.
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
        let program = selection.program().expect("selectors of names and wildcards have no filters");
        let tracker = Tracker::new(Arc::clone(program), Detail::Scalars, None);
        Ok(PatchWalk {
            limits: limits.clone(),
            document_size,
            operations: Vec::new(),
            stage: PatchStage::Read { pass: Pass::checking(limits), sink: Operations::default() },
            matcher: Box::new(Matcher::new(tracker, purpose)),
            is_strict: false,
            is_unambiguous: purpose == Purpose::Encrypt,
        })
    }

    /// Refuses a value that is put where selectors look for others, and in which they select nothing: one in another shape than they
    /// expect.
    pub fn strict(self, is_strict: bool) -> Self {
        PatchWalk { is_strict, ..self }
    }

    /// Memory besides the document and the matches.
    pub fn memory(&self) -> usize {
        let read = match &self.stage {
            PatchStage::Read { sink, .. } => sink.found.capacity(),
            _ => self.operations.capacity(),
        };
        read * size_of::<PatchOperation>()
    }

    /// Continues through `document` for about `bytes_max` bytes and appends its matches, operation by operation.
    ///
    /// # Errors
    /// The document is not a JSON Patch, or an operation could move a value past the selectors; further calls return the same error.
    ///
    /// # Panics
    /// If the size of `document` is not the one that the walk was created with.
    pub fn next_batch(
        &mut self,
        document: &[u8],
        matches: &mut Vec<Match>,
        bytes_max: usize,
    ) -> Result<WalkProgress, DocumentError> {
        assert_eq!(document.len(), self.document_size, "a walk keeps to its document");
        let advanced = self.advance(document, matches, bytes_max);
        if let Err(error) = advanced {
            self.stage = PatchStage::Failed(error);
        }
        advanced
    }

    fn advance(
        &mut self,
        document: &[u8],
        matches: &mut Vec<Match>,
        bytes_max: usize,
    ) -> Result<WalkProgress, DocumentError> {
        let mut left = bytes_max.max(1);
        loop {
            match &mut self.stage {
                PatchStage::Read { pass, sink } => {
                    if pass.run(document, left, sink)? == Reach::Stopped {
                        return Ok(WalkProgress::More);
                    }
                    self.operations = std::mem::take(&mut sink.found);
                    self.stage = PatchStage::Look { next: 0, value: None };
                    return Ok(WalkProgress::More);
                }
                PatchStage::Look { value: value @ Some(_), .. } => {
                    let Some(walk) = value else { unreachable!("matched above") };
                    let is_done = walk.advance(document, matches, left, &mut self.matcher)?;
                    left = left.saturating_sub(walk.end - walk.start);
                    if is_done {
                        *value = None;
                    }
                    if !is_done || left == 0 {
                        return Ok(WalkProgress::More);
                    }
                }
                PatchStage::Look { next, value: None } => {
                    let Some(operation) = self.operations.get(*next) else { return Ok(WalkProgress::Done) };
                    *next += 1;
                    left = left.saturating_sub(OPERATION_BYTES + operation.path.map_or(0, TokenBytes::size));
                    self.look_at(document, *operation)?;
                    if left == 0 {
                        return Ok(WalkProgress::More);
                    }
                }
                PatchStage::Failed(error) => return Err(*error),
            }
        }
    }

    /// Checks an operation, and begins the walk through its value with the selectors at its place.
    fn look_at(&mut self, document: &[u8], operation: PatchOperation) -> Result<(), DocumentError> {
        let kind = operation.kind(document)?;
        let mut scratch = String::new();
        let is_unambiguous = self.is_unambiguous;
        let mut place = |token: TokenBytes, tracker: &mut Tracker, kept: &mut SetId| {
            if token.size() > POINTER_SIZE_MAX {
                return Err(token.error(DocumentErrorKind::PatchPath));
            }
            let path = unescape(token.of(document), &mut scratch);
            let path = path.map_err(|_| token.error(DocumentErrorKind::PatchPath))?;
            tracker.at_pointer(path, kept, is_unambiguous).map_err(|kind| token.error(kind))
        };
        let tracker = &mut self.matcher.tracker;
        let (mut from, mut unused) = (SetId::NOTHING, SetId::NOTHING);
        if kind.is_from_elsewhere() {
            from = place(operation.required(operation.from)?, tracker, &mut unused)?;
        }
        let path = operation.required(operation.path)?;
        let to = place(path, tracker, &mut from)?;
        // A value from where the selectors look for something else was not selected when it came there.
        if kind.is_from_elsewhere() && to != SetId::NOTHING && to != from {
            return Err(path.error(DocumentErrorKind::PatchMove));
        }
        let value = if kind.has_value() { Some(operation.required(operation.value)?) } else { operation.value };
        let Some(value) = value else { return Ok(()) };
        let (start, end) = (value.start as usize, value.end as usize);
        // Selectors that look everywhere look at any value; one at the root is the whole document.
        let is_looked_for = to != SetId::NOTHING && (to != tracker.start() || path.is_empty_string());
        let lacks_match = self.is_strict && kind.has_value() && is_looked_for;
        tracker.begin_at(to);
        let pass = Pass::checked(&self.limits, end - start);
        if let PatchStage::Look { value, .. } = &mut self.stage {
            *value = Some(ValueWalk { pass, start, end, lacks_match });
        }
        Ok(())
    }
}

impl ValueWalk {
    /// Continues for about `bytes_max` bytes and appends the matches; returns whether the value has ended.
    fn advance(
        &mut self,
        document: &[u8],
        matches: &mut Vec<Match>,
        bytes_max: usize,
        matcher: &mut Matcher,
    ) -> Result<bool, DocumentError> {
        let before = matches.len();
        matcher.begin_batch(matches, usize::MAX);
        let result = self.pass.run(&document[self.start..self.end], bytes_max, matcher);
        let is_done = matcher.end_batch(matches, &self.pass, result);
        for found in &mut matches[before..] {
            found.start += self.start;
            found.end += self.start;
        }
        let is_done = is_done.map_err(|error| error.moved(self.start))?;
        self.lacks_match &= matches.len() == before;
        if is_done && self.lacks_match {
            return Err(DocumentError::new(DocumentErrorKind::PatchUnmatched, self.start));
        }
        Ok(is_done)
    }
}
