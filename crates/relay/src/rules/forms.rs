//! Reads the selected fields of a form and writes the form again. Synchronous, for offload threads.

use std::ops::Range;
use std::sync::Arc;

use leafseal_document::form::{FieldNames, FormError, FormLimits, Part, decode_field, find_fields, find_parts};
use thiserror::Error;

use crate::body::buffer::Buffer;
use crate::body::offload::Cost;
use crate::config::Action;

/// The first bytes of an encrypted file.
pub(crate) const FILE_START: &[u8] = b"%EVENC";
/// Memory for work on a form, as a multiple of its size: its values, the request with them, the answer, and the new body.
const MEMORY_FACTOR: usize = 6;
/// Memory for any form, in addition.
const MEMORY_MIN: usize = 4 << 10;

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
    #[error("a value holds the form's boundary")]
    Boundary,
    /// The rule has a role, which encrypted files do not carry: it would protect nothing, and could not be required.
    #[error("a file in a form cannot have a role: remove `role` from the rule")]
    FileWithRole,
}

/// The memory to charge for work on a form of this size.
pub(crate) fn memory(size: usize) -> usize {
    size.saturating_mul(MEMORY_FACTOR).saturating_add(MEMORY_MIN)
}

/// The cost of finding fields in a form of this size, with `comparisons` per name, in the worst case: a separator at every other byte.
pub(crate) fn cost(size: usize, comparisons: usize) -> Cost {
    Cost::of_bytes(size, 40 + 8 * comparisons as u64)
}

/// An `application/x-www-form-urlencoded` body with the values of its selected fields.
pub(crate) struct Urlencoded {
    body: Buffer,
    found: Vec<Range<usize>>,
    pub(crate) texts: Arc<Vec<String>>,
}

impl Urlencoded {
    /// # Errors
    /// If the form is malformed or ambiguous.
    pub(crate) fn read(body: Buffer, names: &FieldNames, limits: &FormLimits) -> Result<Self, FormFault> {
        let bytes = body.as_ref();
        let found = find_fields(bytes, names, limits)?;
        let texts = found.iter().map(|range| decode_field(&bytes[range.clone()]));
        let texts = Arc::new(texts.collect::<Result<_, _>>()?);
        Ok(Urlencoded { body, found, texts })
    }

    /// Maximum size of the body with other values in the selected fields: an encoded byte takes three.
    pub(crate) fn written_size_max(&self, texts: &[String]) -> usize {
        let changed = texts.iter().zip(&*self.texts).filter(|(text, before)| text != before);
        self.body.len() + changed.map(|(text, _)| 3 * text.len()).sum::<usize>()
    }

    /// Writes the body with other values in the selected fields; unchanged values keep their encoding. `encode` encodes a value for this
    /// kind of body.
    pub(crate) fn write(self, texts: &[String], encode: fn(&str, &mut Vec<u8>)) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.written_size_max(texts));
        let body = self.body.as_ref();
        let mut copied = 0;
        for ((range, text), before) in self.found.into_iter().zip(texts).zip(&*self.texts) {
            if text != before {
                out.extend_from_slice(&body[copied..range.start]);
                encode(text, &mut out);
                copied = range.end;
            }
        }
        out.extend_from_slice(&body[copied..]);
        out
    }
}

/// A `multipart/form-data` body with the values of its selected parts.
pub(crate) struct Multipart {
    body: Arc<Buffer>,
    boundary: String,
    parts: Vec<Part>,
    pub(crate) texts: Arc<Vec<String>>,
}

impl Multipart {
    /// `with_role`: the rule's action, if the rule names a role.
    ///
    /// # Errors
    /// If the form is malformed or ambiguous.
    pub(crate) fn read(
        body: Buffer,
        boundary: String,
        names: &FieldNames,
        limits: &FormLimits,
        with_role: Option<Action>,
    ) -> Result<Self, FormFault> {
        let bytes = body.as_ref();
        let parts = find_parts(bytes, &boundary, names, limits)?;
        let mut texts = Vec::new();
        for part in &parts {
            let content = &bytes[part.content.clone()];
            if !part.is_file {
                texts.push(String::from_utf8(content.to_vec()).map_err(|_| FormFault::NotUtf8)?);
            } else if with_role.is_some_and(|action| takes_a_role(action, content)) {
                return Err(FormFault::FileWithRole);
            }
        }
        Ok(Multipart { body: Arc::new(body), boundary, parts, texts: Arc::new(texts) })
    }

    /// Returns the body, and the ranges of the selected files in it.
    pub(crate) fn files(&self) -> (Arc<Buffer>, Vec<Range<usize>>) {
        let files = self.parts.iter().filter(|part| part.is_file).map(|part| part.content.clone());
        (Arc::clone(&self.body), files.collect())
    }

    /// Writes the body with other values and files in the selected parts. `None` leaves a file unchanged.
    ///
    /// # Errors
    /// If a value would split the form where the original did not.
    pub(crate) fn write(self, texts: &[String], files: &[Option<Vec<u8>>]) -> Result<Vec<u8>, FormFault> {
        let body = self.body.as_ref().as_ref();
        let dashes = format!("--{}", self.boundary);
        let dashes = memchr::memmem::Finder::new(dashes.as_bytes());
        let held = texts.iter().map(String::len).chain(files.iter().flatten().map(Vec::len)).sum::<usize>();
        let mut out = Vec::with_capacity(body.len() + held);
        let (mut texts, mut files) = (texts.iter(), files.iter());
        let mut copied = 0;
        for part in self.parts {
            if let Some(line) = part.length_line {
                out.extend_from_slice(&body[copied..line.start]);
                copied = line.end;
            }
            out.extend_from_slice(&body[copied..part.content.start]);
            let content = match part.is_file {
                true => files.next().and_then(|file| file.as_deref()).unwrap_or(&body[part.content.clone()]),
                false => texts.next().map_or(&[][..], |text| text.as_bytes()),
            };
            if dashes.find(content).is_some() {
                return Err(FormFault::Boundary);
            }
            out.extend_from_slice(content);
            copied = part.content.end;
        }
        out.extend_from_slice(&body[copied..]);
        Ok(out)
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
