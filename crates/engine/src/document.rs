//! Documents: the walk finds the values, an [`Encryptor`], [`Decryptor`] or [`Rewrapper`] replaces them, and the bytes in between are
//! copied unchanged. The walk returns consecutive stretches of the document; a stretch is rewritten in bounded steps, by the main worker or
//! another one. Anything longer than a step, a value or the bytes before one, is processed in pieces. The document is passed in each call,
//! so that a request can wait with it in a queue.

mod binder;
mod copy;
mod inspection;
mod long_match;
mod plan;
mod rewriters;
mod stretch;

use std::borrow::Cow;
use std::sync::Arc;

use leafseal_document::{
    DocumentLimits, DocumentWalk, Match, MatchPaths, Purpose, ScalarKind, Selection, WalkProgress, escape_into,
    escape_piece, escaped_size, unescape, unescape_piece,
};
use leafseal_envelope::{Envelope, Malformed, OpenedValue, SealedInput, ValueType};

use crate::bindings::{DocumentBinding, OwnBindings};
use crate::cost;
use crate::decrypt::{DecryptOptions, Decryptor};
use crate::encrypt::{EncryptOptions, Encryptor};
use crate::engine::Engine;
use crate::error::{Error, ErrorCode};
use crate::long::{LongDecryption, LongEncryption, LongStep, Shape};
use crate::long_rewrap::LongRewrap;
use crate::permissions::Caller;
use crate::report::{OnFailure, RequestReport};
use crate::rewrap::{RewrapOptions, RewrappedText, Rewrapper};
use crate::settled::{Settled, SettledValues};
use copy::DocumentCopy;
pub use inspection::DocumentInspection;
use plan::DocumentPlan;
pub(crate) use rewriters::text_of;
use rewriters::{placed, plain_text, value_type};
use stretch::DocumentStretch;

/// Envelopes that [`check_document`] collects at a time.
const CHECKED_VALUES_MAX: usize = 1 << 10;

/// Whether a document, or a part of one, is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    /// More steps follow.
    More,
    /// The output is complete.
    Done,
}

/// Encrypts the selected values of a document.
pub type DocumentEncryption = DocumentWork<Encryptor>;
/// Decrypts the selected envelopes of a document.
pub type DocumentDecryption = DocumentWork<Decryptor>;
/// Rewraps the envelopes of a document to the newest key version.
pub type DocumentRewrap = DocumentWork<Rewrapper>;

/// A document in progress: `R` replaces its values.
pub struct DocumentWork<R: Rewriter> {
    plan: DocumentPlan,
    rewriter: R,
    /// The stretch that [`DocumentWork::step`] is processing.
    stretch: DocumentStretch<R::Long>,
    count: u64,
    /// The offset of the output in its buffer, once known.
    output_start: Option<usize>,
    output_size_max: usize,
    is_lines: bool,
}

/// A part of a document for one worker: the outputs of all parts in order are the result.
pub struct DocumentPart<R: Rewriter> {
    rewriter: R,
    stretch: DocumentStretch<R::Long>,
    count: u64,
    is_lines: bool,
}

/// The result of planning a part.
pub enum PlannedPart<P> {
    /// A part; more may follow.
    Part(P),
    /// No part yet: a piece of the document was scanned.
    Walked,
    /// All parts have been returned.
    All,
}

impl Engine {
    /// Starts encrypting a document of `size` bytes: the scalars that `selection` selects, or all.
    ///
    /// # Errors
    /// As [`Engine::encryptor`]; too large.
    pub fn encrypt_document(
        &self,
        caller: &Caller,
        options: &EncryptOptions<'_>,
        selection: Option<&Selection>,
        size: usize,
    ) -> Result<DocumentEncryption, Error> {
        self.rewrite_document(self.encryptor(caller, options)?, selection, size)
    }

    /// Starts decrypting a document of `size` bytes: the envelopes that `selection` selects, or all.
    ///
    /// # Errors
    /// As [`Engine::decryptor`]; too large.
    pub fn decrypt_document(
        &self,
        caller: &Caller,
        options: &DecryptOptions<'_>,
        selection: Option<&Selection>,
        size: usize,
    ) -> Result<DocumentDecryption, Error> {
        self.rewrite_document(self.decryptor(caller, options)?, selection, size)
    }

    /// Starts rewrapping a document of `size` bytes.
    ///
    /// # Errors
    /// As [`Engine::rewrapper`]; too large.
    pub fn rewrap_document(
        &self,
        caller: &Caller,
        options: &RewrapOptions<'_>,
        selection: Option<&Selection>,
        size: usize,
    ) -> Result<DocumentRewrap, Error> {
        self.rewrite_document(self.rewrapper(caller, options)?, selection, size)
    }

    /// Starts rewriting a document of `size` bytes, for callers that compile the selectors once the caller's permission is checked,
    /// which a rewriter proves.
    ///
    /// # Errors
    /// Too large.
    pub fn rewrite_document<R: Rewriter>(
        &self,
        rewriter: R,
        selection: Option<&Selection>,
        size: usize,
    ) -> Result<DocumentWork<R>, Error> {
        Ok(DocumentWork {
            plan: DocumentPlan::new(self, selection, R::PURPOSE, size, (rewriter.records_paths(), rewriter.binding()))?,
            rewriter,
            stretch: DocumentStretch::default(),
            count: 0,
            output_start: None,
            output_size_max: self.settings().document.document_size_max,
            is_lines: false,
        })
    }
}

/// Checks that `document` is one that the engine processes under these limits, without keys: for callers that send it nothing else of it
/// than its envelopes.
///
/// # Errors
/// As those of a document that is rewritten.
pub fn check_document(document: &[u8], limits: &DocumentLimits) -> Result<(), Error> {
    let mut walk = DocumentWalk::new(document.len(), &Selection::everything(), Purpose::Decrypt, limits)?;
    let mut matches = Vec::new();
    while walk.next_batch(document, &mut matches, CHECKED_VALUES_MAX, usize::MAX)? == WalkProgress::More {
        matches.clear();
    }
    Ok(())
}

impl<R: Rewriter> DocumentWork<R> {
    /// Fails if a selector matches nothing: once everything before the end of the document is done, and without a result.
    pub fn strict(mut self, is_strict: bool) -> Self {
        self.plan.walk = self.plan.walk.strict(is_strict && self.plan.has_selectors);
        self
    }

    /// Reads the document as JSON Lines. Where the work is strict, each selector must match something in each line that is not blank; call
    /// [`DocumentWork::strict`] before. Errors and paths of failures begin with the number of their line; offsets count from the start of
    /// the text.
    pub fn lines(mut self) -> Self {
        self.plan.walk = self.plan.walk.lines();
        self.is_lines = true;
        self
    }

    /// The report, once the work is done, including that of all parts.
    pub fn report(&self) -> RequestReport {
        let matched = if self.plan.has_selectors { self.plan.walk.matched().to_vec() } else { Vec::new() };
        RequestReport { matched, ..self.rewriter.report() }
    }

    /// Processes the next step of `document` and appends to `out`; both must be the same in each call.
    ///
    /// # Errors
    /// The document is not JSON, or a selected string is not Unicode, with the byte. An envelope is malformed, fails to decrypt or has a
    /// role that the caller may not read, with the byte. In strict mode, a selector matched nothing, with its index.
    pub fn step(&mut self, document: &[u8], out: &mut Vec<u8>) -> Result<Progress, Error> {
        let output_start = *self.output_start.get_or_insert(out.len());
        if self.stretch.is_done() && !self.plan.is_over() {
            self.plan.next(document, &mut self.stretch).map_err(|error| in_line(self.is_lines, document, error))?;
        }
        let count = self.stretch.step(&mut self.rewriter, document, out);
        self.count += count.map_err(|error| in_line(self.is_lines, document, error))?;
        if out.len() - output_start > self.output_size_max {
            return Err(self.too_large());
        }
        Ok(if self.is_planned() { Progress::Done } else { Progress::More })
    }

    /// Plans the next part of `document`, which must be the same in each call, after what [`DocumentWork::step`] has done and the
    /// parts before. A call costs a bounded walk, and in rare cases a key agreement.
    ///
    /// # Errors
    /// The document is not JSON (with the byte), or a permission was revoked. Errors of earlier parts take precedence.
    pub fn next_part(&mut self, document: &[u8]) -> Result<PlannedPart<DocumentPart<R>>, Error> {
        if self.stretch.is_done() {
            if self.plan.is_over() {
                return Ok(PlannedPart::All);
            }
            self.plan.next(document, &mut self.stretch).map_err(|error| in_line(self.is_lines, document, error))?;
        }
        if self.stretch.is_done() {
            return Ok(PlannedPart::Walked);
        }
        let stretch = self.stretch.take(self.rewriter.part_values_max());
        let (rewriter, is_lines) = (self.rewriter.fork()?, self.is_lines);
        Ok(PlannedPart::Part(DocumentPart { rewriter, stretch, count: 0, is_lines }))
    }

    /// Whether [`DocumentWork::next_part`] has returned everything.
    pub fn is_planned(&self) -> bool {
        self.stretch.is_done() && self.plan.is_over()
    }

    /// Maximum size of the output: a larger one could not be decrypted again under the same settings. Steps enforce it; the code
    /// that joins parts must check it and return [`DocumentWork::too_large`].
    pub fn output_size_max(&self) -> usize {
        self.output_size_max
    }

    /// The error of output beyond its limit.
    pub fn too_large(&self) -> Error {
        let limit = self.output_size_max;
        let message =
            format!("the result would have more than {limit} bytes, the limit of documents: split the document");
        Error::new(ErrorCode::TooLarge, message)
    }

    /// Whether each value is bound to its own, for which the document is read twice.
    pub fn binds_each(&self) -> bool {
        self.rewriter.binding().is_some()
    }

    /// Memory of the search for values besides the document: a tree, if selectors have filters; the objects that have a context.
    pub fn memory(&self) -> usize {
        self.plan.walk.memory()
    }

    /// The number of values that the steps have replaced, excluding parts.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Bytes of the document that are done, for showing progress.
    pub fn position(&self) -> usize {
        self.plan.walk.position()
    }
}

impl<R: Rewriter> DocumentPart<R> {
    /// Processes the next step of its part of `document`, which must be the same in each call, and appends to `out`, which belongs to this
    /// part.
    ///
    /// # Errors
    /// As [`DocumentWork::step`], except for errors of the document's form, which are found when the part is planned.
    pub fn step(&mut self, document: &[u8], out: &mut Vec<u8>) -> Result<Progress, Error> {
        let count = self.stretch.step(&mut self.rewriter, document, out);
        self.count += count.map_err(|error| in_line(self.is_lines, document, error))?;
        Ok(if self.stretch.is_done() { Progress::Done } else { Progress::More })
    }

    /// The number of values replaced so far.
    pub fn count(&self) -> u64 {
        self.count
    }
}

/// The error, with the number of its line if the document is read as lines.
fn in_line(is_lines: bool, document: &[u8], error: Error) -> Error {
    if !is_lines && error.code == ErrorCode::UnmatchedSelector {
        // It concerns the whole document.
        return Error { offset: None, ..error };
    }
    let before = error.offset.filter(|_| is_lines).and_then(|offset| document.get(..offset as usize));
    let Some(before) = before else { return error };
    let number = before.split(|&byte| byte == b'\n').count();
    Error { message: format!("line {number}: {}", error.message), ..error }
}

/// The replacement of an envelope that fails to decrypt, if requested.
const NULL: &[u8] = b"null";

/// Replaces a document's values: [`Encryptor`], [`Decryptor`] and [`Rewrapper`]. Other crates cannot implement it, because the copy type is
/// private.
pub trait Rewriter: Sized {
    /// The purpose of the walk.
    const PURPOSE: Purpose;

    /// The progress of a long value.
    type Long: Default + Send + 'static;

    /// Rewrites matches from the first on, none of them long; returns how many are done.
    fn rewrite(&mut self, offered: &[Match], copy: &mut DocumentCopy<'_>) -> Result<usize, Error>;

    /// Continues with a long value.
    fn rewrite_long(
        &mut self,
        long: &mut Self::Long,
        value: (&SealedInput<'_>, OwnBindings<'_>),
        out: &mut Vec<u8>,
    ) -> Result<LongStep, Error>;

    /// How the values are bound, if each is to its own.
    fn binding(&self) -> Option<Arc<DocumentBinding>>;

    /// Maximum bytes of one value, or of a gap, per step.
    fn bytes_max(&self) -> usize;

    /// An estimate of the size that `size` bytes with `count` values will have.
    fn output_size(&self, size: usize, count: usize) -> usize;

    /// The number of values that a part should have.
    fn part_values_max(&self) -> usize;

    /// Creates a copy for another worker.
    fn fork(&mut self) -> Result<Self, Error>;

    /// The report so far, without selector matches.
    fn report(&self) -> RequestReport {
        RequestReport::default()
    }

    /// The action for envelopes that fail to decrypt.
    fn on_failure(&self) -> OnFailure {
        OnFailure::Fail
    }

    /// Whether paths of values may be requested.
    fn records_paths(&self) -> bool {
        self.on_failure() != OnFailure::Fail
    }

    /// Records an envelope that failed to decrypt.
    fn note_failure(&mut self, _position: u64, _path: impl FnOnce() -> String) {}
}
