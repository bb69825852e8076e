//! Reads the selected fields of a form and writes the form again, in steps of bounded work for offload threads.

pub(crate) mod canonical;

use std::ops::{ControlFlow, Range};
use std::sync::Arc;

use leafseal_document::WalkProgress;
use leafseal_document::form::{
    FieldNames, FieldReader, FormError, FormLimits, MultipartPart, PartReader, Syntax, WantedFields,
};
use thiserror::Error;

use crate::body::buffer::BodyBuffer;
use crate::body::envelopes::FILE_START;
use crate::body::offload::Cost;
use crate::policy::Action;

/// Memory for work on a form, as a multiple of its size: its values, the request with them, the answer, and the new body.
const MEMORY_FACTOR: usize = 6;
/// Memory for any form, in addition.
const MEMORY_MIN: usize = 4 << 10;
/// Bytes that a step copies, decodes or encodes at most.
pub(crate) const STEP_SIZE: usize = 32 << 10;

/// Why a form cannot be processed.
#[derive(Debug, Error)]
pub(crate) enum FormFault {
    /// It is malformed, or parsers could read it in different ways.
    #[error(transparent)]
    Form(#[from] FormError),
    /// A selected value is not text.
    #[error("a form's value is not UTF-8")]
    NotUtf8,
    /// A value contains the boundary, so it would end its part.
    #[error("a value contains the form's boundary")]
    Boundary,
    /// The rule has a role, which encrypted files do not carry: it would protect nothing, and could not be required.
    #[error("a file in a form cannot have a role: remove `role` from the rule")]
    FileWithRole,
    /// A field that no rule selects holds JSON with a name of values that rules hide in JSON.
    #[error(
        "a field that no rule selects holds JSON, in which rules hide values: select the field with `form`, or set \
         embedded_json = \"pass\" if the upstream does not parse it"
    )]
    HoldsJson,
    /// A field has the name of a cookie or of a query parameter that a rule hides.
    #[error("a field that a rule hides comes from two sources: many upstreams read query, form and cookies as one")]
    TwoSources,
}

/// The memory to charge for work on a form of this size.
pub(crate) fn memory(size: usize) -> usize {
    size.saturating_mul(MEMORY_FACTOR).saturating_add(MEMORY_MIN)
}

/// The cost of finding fields in a form of this size in the worst case: a separator at every other byte. Names that only some parsers read
/// as selected ones take longer to find.
pub(crate) fn cost(size: usize, is_guarded: bool) -> Cost {
    Cost::of_bytes(size, if is_guarded { 160 } else { 40 })
}

/// The result of a step: what is left, or the end.
type Step<S, T> = ControlFlow<Result<T, FormFault>, S>;

/// Turns the progress of a step into the next state or the end.
fn progress<S, T>(step: Result<WalkProgress, FormFault>, state: S, end: impl FnOnce(S) -> T) -> Step<S, T> {
    match step {
        Ok(WalkProgress::More) => ControlFlow::Continue(state),
        Ok(WalkProgress::Done) => ControlFlow::Break(Ok(end(state))),
        Err(fault) => ControlFlow::Break(Err(fault)),
    }
}

/// Turns ranges of a body into texts.
struct Decoding {
    ranges: Vec<Range<usize>>,
    is_encoded: bool,
    /// How far the range that is decoded now is done.
    at: usize,
    /// Bytes of a character that is not complete.
    rest: Vec<u8>,
    texts: Vec<String>,
}

impl Decoding {
    /// `is_encoded`: whether the texts are in the encoding of urlencoded forms.
    fn new(ranges: Vec<Range<usize>>, is_encoded: bool) -> Self {
        let texts = Vec::with_capacity(ranges.len());
        Decoding { ranges, is_encoded, at: 0, rest: Vec::new(), texts }
    }

    fn step(&mut self, body: &[u8]) -> Result<WalkProgress, FormFault> {
        let mut left = STEP_SIZE;
        loop {
            // While `at` is not 0, the last text is incomplete.
            let index = if self.at == 0 { self.texts.len() } else { self.texts.len() - 1 };
            let Some(range) = self.ranges.get(index).cloned() else { return Ok(WalkProgress::Done) };
            if self.at == 0 {
                self.texts.push(String::with_capacity(range.len()));
                self.at = range.start;
            }
            let end = range.end.min(self.at + left);
            let read = self.read(&body[self.at..range.end], end - self.at);
            self.at += read;
            left = left.saturating_sub(read + 1);
            self.take_text(index)?;
            if self.at == range.end {
                if !self.rest.is_empty() {
                    return Err(FormFault::NotUtf8);
                }
                self.at = 0;
            }
            if left == 0 {
                return Ok(WalkProgress::More);
            }
        }
    }

    /// Reads about `size` bytes; returns how many.
    fn read(&mut self, encoded: &[u8], size: usize) -> usize {
        match self.is_encoded {
            true => Syntax::decode(encoded, size, &mut self.rest),
            false => {
                self.rest.extend_from_slice(&encoded[..size]);
                size
            }
        }
    }

    /// Moves whole characters to the text.
    fn take_text(&mut self, index: usize) -> Result<(), FormFault> {
        let valid = match std::str::from_utf8(&self.rest) {
            Ok(text) => text.len(),
            Err(error) if error.error_len().is_none() => error.valid_up_to(),
            Err(_) => return Err(FormFault::NotUtf8),
        };
        let text = std::str::from_utf8(&self.rest[..valid]).map_err(|_| FormFault::NotUtf8)?;
        self.texts[index].push_str(text);
        self.rest.drain(..valid);
        Ok(())
    }
}

/// Bytes that are written in steps.
#[derive(Default)]
struct Output {
    bytes: Vec<u8>,
    /// Bytes that this step may still write.
    left: usize,
    /// How much of the current piece is written.
    at: usize,
    /// How many of the first bytes are those of the original.
    same: usize,
}

impl Output {
    fn with_capacity(size: usize) -> Self {
        Output { bytes: Vec::with_capacity(size), left: 0, at: 0, same: 0 }
    }

    /// Compares what this step has written with the original.
    fn compare(&mut self, original: &[u8]) {
        let written = self.bytes.get(self.same..).unwrap_or_default();
        // A difference stays the end of what is the same.
        if original.get(self.same..self.bytes.len()) == Some(written) {
            self.same = self.bytes.len();
        }
    }

    /// Whether other bytes than the original were written, after all have been compared.
    fn differs(&self, original: &[u8]) -> bool {
        self.same != original.len() || self.same != self.bytes.len()
    }

    fn begin_step(&mut self) {
        self.left = STEP_SIZE;
    }

    /// Writes more of a piece; returns whether it is complete.
    fn piece(&mut self, piece: &[u8], write: impl FnOnce(&[u8], &mut Vec<u8>)) -> bool {
        let size = (piece.len() - self.at).min(self.left);
        write(&piece[self.at..self.at + size], &mut self.bytes);
        self.at += size;
        // A piece without bytes takes time too.
        self.left = self.left.saturating_sub(size.max(1));
        let is_complete = self.at == piece.len();
        if is_complete {
            self.at = 0;
        }
        is_complete
    }

    fn copy(&mut self, piece: &[u8]) -> bool {
        self.piece(piece, |piece, out| out.extend_from_slice(piece))
    }
}

/// An `application/x-www-form-urlencoded` body or a query with the values of its selected fields.
pub(crate) struct Urlencoded {
    body: BodyBuffer,
    found: Vec<Range<usize>>,
    pub(crate) texts: Arc<Vec<String>>,
}

/// Reads a [`Urlencoded`] in steps.
pub(crate) struct ReadUrlencoded {
    body: BodyBuffer,
    stage: Reading<FieldReader>,
}

/// The rest to be read.
enum Reading<R> {
    Fields(Option<R>),
    Texts(Decoding),
}

impl ReadUrlencoded {
    pub(crate) fn new(body: BodyBuffer, names: Arc<FieldNames>, limits: FormLimits) -> Self {
        ReadUrlencoded { body, stage: Reading::Fields(Some(FieldReader::new(names, limits, WantedFields::Selected))) }
    }

    /// Runs one step; breaks with an error if the form is malformed or ambiguous.
    pub(crate) fn step(mut self) -> Step<Self, Urlencoded> {
        let step = self.advance();
        progress(step, self, |Self { body, stage }| match stage {
            Reading::Texts(Decoding { ranges: found, texts, .. }) => Urlencoded { body, found, texts: Arc::new(texts) },
            Reading::Fields(_) => Urlencoded { body, found: Vec::new(), texts: Arc::default() },
        })
    }

    fn advance(&mut self) -> Result<WalkProgress, FormFault> {
        match &mut self.stage {
            Reading::Fields(reader) => {
                let Some(fields) = reader.as_mut() else { return Ok(WalkProgress::Done) };
                if fields.read(self.body.as_ref())? == WalkProgress::Done {
                    let fields = reader.take().map(FieldReader::into_fields).unwrap_or_default();
                    let values = fields.into_iter().filter_map(|field| field.value).collect();
                    self.stage = Reading::Texts(Decoding::new(values, true));
                }
                Ok(WalkProgress::More)
            }
            Reading::Texts(texts) => texts.step(self.body.as_ref()),
        }
    }
}

impl Urlencoded {
    /// Maximum size of the body with other values in the selected fields: an encoded byte takes three.
    pub(crate) fn written_size_max(&self, texts: &[String]) -> usize {
        let changed = texts.iter().zip(&*self.texts).filter(|(text, before)| text != before);
        self.body.len() + changed.map(|(text, _)| 3 * text.len()).sum::<usize>()
    }
}

/// Writes a [`Urlencoded`] with other values in the selected fields, in steps; unchanged values keep their encoding.
pub(crate) struct WriteUrlencoded {
    form: Urlencoded,
    texts: Arc<Vec<String>>,
    syntax: Syntax,
    out: Output,
    /// The field that is written next, and how far the body before it has been copied.
    next: usize,
    copied: usize,
    is_copied: bool,
}

impl WriteUrlencoded {
    pub(crate) fn new(form: Urlencoded, texts: Arc<Vec<String>>, syntax: Syntax) -> Self {
        let out = Output::with_capacity(form.written_size_max(&texts));
        WriteUrlencoded { form, texts, syntax, out, next: 0, copied: 0, is_copied: false }
    }

    pub(crate) fn step(mut self) -> Step<Self, Vec<u8>> {
        self.out.begin_step();
        let is_done = self.advance();
        let progress_of = if is_done { WalkProgress::Done } else { WalkProgress::More };
        progress(Ok(progress_of), self, |this| this.out.bytes)
    }

    /// Returns whether all is written.
    fn advance(&mut self) -> bool {
        let body = self.form.body.as_ref();
        while self.out.left > 0 {
            let (Some(range), Some(text)) = (self.form.found.get(self.next), self.texts.get(self.next)) else {
                return self.out.copy(&body[self.copied..]);
            };
            if self.form.texts.get(self.next) == Some(text) {
                // Comparing it took time.
                self.out.left = self.out.left.saturating_sub(text.len().max(1));
                self.next += 1;
            } else if !self.is_copied {
                self.is_copied = self.out.copy(&body[self.copied..range.start]);
            } else if self.out.piece(text.as_bytes(), |piece, out| self.syntax.encode(piece, out)) {
                (self.copied, self.is_copied) = (range.end, false);
                self.next += 1;
            }
        }
        false
    }
}

/// A `multipart/form-data` body with the values of its selected parts.
pub(crate) struct Multipart {
    body: Arc<BodyBuffer>,
    boundary: String,
    parts: Vec<MultipartPart>,
    pub(crate) texts: Arc<Vec<String>>,
}

/// Reads a [`Multipart`] in steps.
pub(crate) struct ReadMultipart {
    body: BodyBuffer,
    boundary: String,
    /// The rule's action, if the rule names a role.
    with_role: Option<Action>,
    parts: Vec<MultipartPart>,
    stage: Reading<PartReader>,
}

impl ReadMultipart {
    /// `with_role`: the rule's action, if the rule names a role.
    ///
    /// # Errors
    /// If the boundary is not one.
    pub(crate) fn new(
        body: BodyBuffer,
        boundary: String,
        names: Arc<FieldNames>,
        limits: FormLimits,
        with_role: Option<Action>,
    ) -> Result<Self, FormError> {
        let reader = PartReader::new(&boundary, names, limits, WantedFields::Selected)?;
        Ok(ReadMultipart { body, boundary, with_role, parts: Vec::new(), stage: Reading::Fields(Some(reader)) })
    }

    /// Runs one step; breaks with an error if the form is malformed or ambiguous.
    pub(crate) fn step(mut self) -> Step<Self, Multipart> {
        let step = self.advance();
        progress(step, self, |Self { body, boundary, parts, stage, .. }| {
            let texts = if let Reading::Texts(texts) = stage { texts.texts } else { Vec::new() };
            Multipart { body: Arc::new(body), boundary, parts, texts: Arc::new(texts) }
        })
    }

    fn advance(&mut self) -> Result<WalkProgress, FormFault> {
        match &mut self.stage {
            Reading::Fields(reader) => {
                let Some(parts) = reader.as_mut() else { return Ok(WalkProgress::Done) };
                if parts.read(self.body.as_ref())? == WalkProgress::Done {
                    self.parts = reader.take().map(PartReader::into_parts).unwrap_or_default();
                    self.check_roles()?;
                    let texts = self.parts.iter().filter(|part| !part.is_file).map(|part| part.content.clone());
                    self.stage = Reading::Texts(Decoding::new(texts.collect(), false));
                }
                Ok(WalkProgress::More)
            }
            Reading::Texts(texts) => texts.step(self.body.as_ref()),
        }
    }

    fn check_roles(&self) -> Result<(), FormFault> {
        let Some(action) = self.with_role else { return Ok(()) };
        let mut files = self.parts.iter().filter(|part| part.is_file);
        match files.any(|part| takes_a_role(action, &self.body.as_ref()[part.content.clone()])) {
            true => Err(FormFault::FileWithRole),
            false => Ok(()),
        }
    }
}

impl Multipart {
    /// Returns the body, and the ranges of the selected files in it.
    pub(crate) fn files(&self) -> (Arc<BodyBuffer>, Vec<Range<usize>>) {
        let files = self.parts.iter().filter(|part| part.is_file).map(|part| part.content.clone());
        (Arc::clone(&self.body), files.collect())
    }
}

/// Writes a [`Multipart`] with other values and files in the selected parts, in steps.
pub(crate) struct WriteMultipart {
    form: Multipart,
    dashes: Vec<u8>,
    texts: Arc<Vec<String>>,
    /// `None` leaves a file unchanged.
    files: Vec<Option<Vec<u8>>>,
    out: Output,
    /// The part that is written next, and how many texts and files are.
    next: usize,
    texts_written: usize,
    files_written: usize,
    copied: usize,
    stage: PartStage,
}

/// The section of a part that is written next.
#[derive(Clone, Copy, PartialEq, Eq)]
enum PartStage {
    /// The body up to the line with the content's length, which is dropped.
    Length,
    /// The body up to the content.
    Head,
    Content,
}

impl WriteMultipart {
    pub(crate) fn new(form: Multipart, texts: Arc<Vec<String>>, files: Vec<Option<Vec<u8>>>) -> Self {
        let held = texts.iter().map(String::len).chain(files.iter().flatten().map(Vec::len)).sum::<usize>();
        let out = Output::with_capacity(form.body.len() + held);
        let dashes = format!("--{}", form.boundary).into_bytes();
        let stage = PartStage::Length;
        WriteMultipart {
            form,
            dashes,
            texts,
            files,
            out,
            next: 0,
            texts_written: 0,
            files_written: 0,
            copied: 0,
            stage,
        }
    }

    /// Runs one step; breaks with an error if a value would split the form where the original did not.
    pub(crate) fn step(mut self) -> Step<Self, Vec<u8>> {
        self.out.begin_step();
        let step = self.advance();
        progress(step, self, |this| this.out.bytes)
    }

    fn advance(&mut self) -> Result<WalkProgress, FormFault> {
        while self.out.left > 0 {
            let body = self.form.body.as_ref().as_ref();
            let Some(part) = self.form.parts.get(self.next) else {
                let is_done = self.out.copy(&body[self.copied..]);
                if is_done {
                    return Ok(WalkProgress::Done);
                }
                continue;
            };
            match (self.stage, &part.length_line) {
                (PartStage::Length, None) => self.stage = PartStage::Head,
                (PartStage::Length, Some(line)) => {
                    if self.out.copy(&body[self.copied..line.start]) {
                        (self.copied, self.stage) = (line.end, PartStage::Head);
                    }
                }
                (PartStage::Head, _) => {
                    if self.out.copy(&body[self.copied..part.content.start]) {
                        self.stage = PartStage::Content;
                    }
                }
                (PartStage::Content, _) => {
                    let old = &body[part.content.clone()];
                    let content = match part.is_file {
                        true => self.files.get(self.files_written).and_then(|file| file.as_deref()).unwrap_or(old),
                        false => self.texts.get(self.texts_written).map_or(&[][..], |text| text.as_bytes()),
                    };
                    if write_content(&mut self.out, content, &self.dashes)? {
                        let (is_file, end) = (part.is_file, part.content.end);
                        (self.files_written, self.texts_written) =
                            (self.files_written + usize::from(is_file), self.texts_written + usize::from(!is_file));
                        (self.copied, self.stage, self.next) = (end, PartStage::Length, self.next + 1);
                    }
                }
            }
        }
        Ok(WalkProgress::More)
    }
}

/// Writes more of a part's content, which must not contain the boundary; returns whether it is complete.
fn write_content(out: &mut Output, content: &[u8], dashes: &[u8]) -> Result<bool, FormFault> {
    let before = out.at;
    let begin = out.bytes.len() - before;
    let is_complete = out.copy(content);
    // A boundary may begin in what the step before wrote.
    let from = begin + before.saturating_sub(dashes.len() - 1);
    match memchr::memmem::find(&out.bytes[from..], dashes) {
        Some(_) => Err(FormFault::Boundary),
        None => Ok(is_complete),
    }
}

/// Whether a file would be encrypted or decrypted under the rule's role.
fn takes_a_role(action: Action, file: &[u8]) -> bool {
    match action {
        Action::Encrypt => true,
        Action::Decrypt => file.starts_with(FILE_START),
        Action::Redact => false,
    }
}
