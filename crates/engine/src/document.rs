//! Documents: the walk finds the values, an [`Encryptor`], [`Decryptor`] or [`Rewrapper`] replaces them, and what lies between is
//! copied as it is. Each step is bounded; the document is passed in anew each time, so that a request can rest beside it in a
//! queue.

use std::borrow::Cow;

use fieldseal_document::{
    Match, Progress as WalkProgress, Purpose, ScalarKind, Selection, Walk, escape_into, unescape,
};
use fieldseal_envelope::{Opened, Value, ValueType};

use crate::decrypt::{DecryptOptions, Decryptor};
use crate::encrypt::{EncryptOptions, Encryptor};
use crate::engine::Engine;
use crate::error::{Error, ErrorKind};
use crate::policy::Caller;
use crate::rewrap::{RewrapOptions, Rewrapper};

/// Whether a document is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    /// There is more to do.
    More,
    /// The output is whole.
    Done,
}

/// Encrypts the selected values of a document.
pub struct DocumentEncryption {
    rewriting: Rewriting,
    encryptor: Encryptor,
}

/// Decrypts the selected envelopes of a document.
pub struct DocumentDecryption {
    rewriting: Rewriting,
    decryptor: Decryptor,
}

/// Brings the envelopes of a document to the newest key version.
pub struct DocumentRewrap {
    rewriting: Rewriting,
    rewrapper: Rewrapper,
    envelope: Vec<u8>,
}

impl Engine {
    /// Begins to encrypt a document of `size` bytes: what `selection` selects, else every scalar.
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
        let encryptor = self.encryptor(caller, options)?;
        Ok(DocumentEncryption { rewriting: Rewriting::new(self, selection, Purpose::Encrypt, size)?, encryptor })
    }

    /// Begins to decrypt a document of `size` bytes: the envelopes that `selection` selects, else every envelope.
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
        let decryptor = self.decryptor(caller, options)?;
        Ok(DocumentDecryption { rewriting: Rewriting::new(self, selection, Purpose::Decrypt, size)?, decryptor })
    }

    /// Begins to rewrap a document of `size` bytes.
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
        let rewrapper = self.rewrapper(caller, options)?;
        let rewriting = Rewriting::new(self, selection, Purpose::Decrypt, size)?;
        Ok(DocumentRewrap { rewriting, rewrapper, envelope: Vec::new() })
    }
}

impl DocumentEncryption {
    /// Goes on through `document`, always the same, and appends to `out`, always the same.
    ///
    /// # Errors
    /// The document is not JSON (with the byte), or a selected string is no Unicode text.
    pub fn step(&mut self, document: &[u8], out: &mut Vec<u8>) -> Result<Progress, Error> {
        let Self { rewriting, encryptor } = self;
        rewriting.find(document, out)?;
        let offered = rewriting.pending(encryptor.step_values_max());
        let mut kept = Vec::with_capacity(offered.len());
        let mut texts = Vec::with_capacity(offered.len());
        for found in offered {
            texts.push(text_of(document, found)?);
        }
        let mut values = Vec::with_capacity(offered.len());
        for (found, text) in offered.iter().zip(&texts) {
            let value = Value { value_type: value_type(found.kind), text };
            if !encryptor.leaves(&value) {
                kept.push(*found);
                values.push(value);
            }
        }
        let mut copied = rewriting.copied;
        encryptor.encrypt(&values, out, |index, _, out| {
            if index > 0 {
                out.push(b'"');
            }
            out.extend_from_slice(&document[copied..kept[index].start]);
            out.push(b'"');
            copied = kept[index].end;
        })?;
        if !values.is_empty() {
            out.push(b'"');
        }
        let (offered, replaced) = (offered.len(), values.len());
        rewriting.advance(document, out, offered, replaced, copied)
    }

    /// How many values were replaced so far.
    pub fn count(&self) -> u64 {
        self.rewriting.count
    }

    /// Bytes of the document that are done, for showing progress.
    pub fn position(&self) -> usize {
        self.rewriting.walk.position()
    }
}

impl DocumentDecryption {
    /// Goes on through `document`, always the same, and appends to `out`, always the same.
    ///
    /// # Errors
    /// The document is not JSON; an envelope is malformed, does not open, or may not be shown: with the byte.
    pub fn step(&mut self, document: &[u8], out: &mut Vec<u8>) -> Result<Progress, Error> {
        let Self { rewriting, decryptor } = self;
        rewriting.find(document, out)?;
        let offered = rewriting.pending(decryptor.step_values_max());
        let texts = offered.iter().map(|found| text_of(document, found)).collect::<Result<Vec<_>, _>>()?;
        let bytes: Vec<&[u8]> = texts.iter().map(AsRef::as_ref).collect();
        let (mut copied, mut replaced) = (rewriting.copied, 0);
        let result = decryptor.decrypt(&bytes, |index, opened| {
            let Some(opened) = opened else { return };
            out.extend_from_slice(&document[copied..offered[index].start]);
            write_opened(&opened, out);
            copied = offered[index].end;
            replaced += 1;
        });
        let done = result.map_err(|error| placed(error, offered))?;
        rewriting.advance(document, out, done, replaced, copied)
    }

    /// How many values were replaced so far.
    pub fn count(&self) -> u64 {
        self.rewriting.count
    }

    /// Bytes of the document that are done, for showing progress.
    pub fn position(&self) -> usize {
        self.rewriting.walk.position()
    }
}

impl DocumentRewrap {
    /// Goes on through `document`, always the same, and appends to `out`, always the same.
    ///
    /// # Errors
    /// The document is not JSON; an envelope is malformed or does not open: with the byte.
    pub fn step(&mut self, document: &[u8], out: &mut Vec<u8>) -> Result<Progress, Error> {
        let Self { rewriting, rewrapper, envelope } = self;
        rewriting.find(document, out)?;
        let offered = rewriting.pending(rewrapper.step_values_max());
        let (mut copied, mut replaced) = (rewriting.copied, 0);
        for found in offered {
            let text = text_of(document, found)?;
            envelope.clear();
            if rewrapper.rewrap(&text, envelope).map_err(|error| error.at_offset(found.start))? {
                out.extend_from_slice(&document[copied..found.start]);
                out.push(b'"');
                out.extend_from_slice(envelope);
                out.push(b'"');
                copied = found.end;
                replaced += 1;
            }
        }
        let done = offered.len();
        rewriting.advance(document, out, done, replaced, copied)
    }

    /// How many envelopes were replaced so far.
    pub fn count(&self) -> u64 {
        self.rewriting.count
    }

    /// Bytes of the document that are done, for showing progress.
    pub fn position(&self) -> usize {
        self.rewriting.walk.position()
    }
}

/// Where a rewriting stands: how far the walk has found, the replacements have been written, and the bytes between been copied.
struct Rewriting {
    walk: Walk,
    walked: WalkProgress,
    matches: Vec<Match>,
    next: usize,
    copied: usize,
    count: u64,
    batch_matches_max: usize,
    batch_bytes_max: usize,
    /// Where the output begins in its buffer, once known.
    output_start: Option<usize>,
    output_size_max: usize,
}

impl Rewriting {
    fn new(engine: &Engine, selection: Option<&Selection>, purpose: Purpose, size: usize) -> Result<Self, Error> {
        let settings = engine.settings();
        let everything;
        let selection = match selection {
            Some(selection) => selection,
            None => {
                everything = Selection::everything();
                &everything
            }
        };
        Ok(Self {
            walk: Walk::new(size, selection, purpose, &settings.document)?,
            walked: WalkProgress::More,
            matches: Vec::new(),
            next: 0,
            copied: 0,
            count: 0,
            batch_matches_max: settings.step_values_max,
            batch_bytes_max: settings.step_bytes_max,
            output_start: None,
            output_size_max: settings.document.document_size_max,
        })
    }

    /// Walks on when nothing is left of the last batch.
    fn find(&mut self, document: &[u8], out: &mut Vec<u8>) -> Result<(), Error> {
        if self.output_start.is_none() {
            self.output_start = Some(out.len());
            out.reserve(document.len());
        }
        if self.next == self.matches.len() && self.walked == WalkProgress::More {
            self.matches.clear();
            self.next = 0;
            self.walked =
                self.walk.next_batch(document, &mut self.matches, self.batch_matches_max, self.batch_bytes_max)?;
        }
        Ok(())
    }

    fn pending(&self, count_max: usize) -> &[Match] {
        let pending = &self.matches[self.next..];
        &pending[..pending.len().min(count_max)]
    }

    /// Notes what a step did; at the end copies what is left. Output past the limit of documents is refused: what was encrypted
    /// could not be decrypted again under the same settings.
    fn advance(
        &mut self,
        document: &[u8],
        out: &mut Vec<u8>,
        done: usize,
        replaced: usize,
        copied: usize,
    ) -> Result<Progress, Error> {
        self.next += done;
        self.count += replaced as u64;
        self.copied = copied;
        let progress = match self.next < self.matches.len() || self.walked == WalkProgress::More {
            true => Progress::More,
            false => {
                out.extend_from_slice(&document[self.copied..]);
                self.copied = document.len();
                Progress::Done
            }
        };
        let output_size = out.len() - self.output_start.unwrap_or_default();
        if output_size > self.output_size_max {
            let limit = self.output_size_max;
            let message =
                format!("the result would have more than {limit} bytes, the limit of documents: split the document");
            return Err(Error::new(ErrorKind::TooLarge, message));
        }
        Ok(progress)
    }
}

fn value_type(kind: ScalarKind) -> ValueType {
    match kind {
        ScalarKind::String { .. } => ValueType::String,
        ScalarKind::Number => ValueType::Number,
        ScalarKind::Boolean => ValueType::Boolean,
    }
}

/// UTF-8, as the walk has checked: a string's text without quotation marks and escapes; a number's or boolean's token as it is.
fn text_of<'d>(document: &'d [u8], found: &Match) -> Result<Cow<'d, [u8]>, Error> {
    let token = &document[found.start..found.end];
    let plain = match found.kind {
        ScalarKind::String { escaped: true } => {
            let mut text = String::new();
            unescape(token, &mut text).map_err(|error| {
                let offset = found.start + error.offset;
                Error::from(error).at_offset(offset)
            })?;
            return Ok(Cow::Owned(text.into_bytes()));
        }
        ScalarKind::String { escaped: false } => &token[1..token.len() - 1],
        ScalarKind::Number | ScalarKind::Boolean => token,
    };
    Ok(Cow::Borrowed(plain))
}

fn write_opened(opened: &Opened<'_>, out: &mut Vec<u8>) {
    match opened.value_type {
        ValueType::String => escape_into(opened.text, out),
        ValueType::Number | ValueType::Boolean => out.extend_from_slice(opened.text.as_bytes()),
    }
}

/// Turns the index of an offered value into its byte in the document.
fn placed(error: Error, offered: &[Match]) -> Error {
    let place = error.index.and_then(|index| offered.get(usize::try_from(index).ok()?)).map(|found| found.start);
    match place {
        Some(start) => Error { index: None, ..error }.at_offset(start),
        None => error,
    }
}
