//! The replacements of a document's values by encrypting, decrypting and rewrapping, and the text of a value in JSON.

use leafseal_envelope::ENVELOPE_OVERHEAD;

use super::*;
use crate::bindings::{DocumentBinding, OwnBindings};

impl Rewriter for Encryptor {
    const PURPOSE: Purpose = Purpose::Encrypt;

    type Long = LongEncryption;

    fn rewrite_long(
        &mut self,
        long: &mut LongEncryption,
        (value, own): (&SealedInput<'_>, OwnBindings<'_>),
        out: &mut Vec<u8>,
    ) -> Result<LongStep, Error> {
        self.encrypt_long(long, (value, own), &Json, out)
    }

    fn binding(&self) -> Option<Arc<DocumentBinding>> {
        self.binding.of_document()
    }

    fn bytes_max(&self) -> usize {
        self.permit.step_bytes_max()
    }

    fn rewrite(&mut self, offered: &[Match], copy: &mut DocumentCopy<'_>) -> Result<usize, Error> {
        let document = copy.document;
        let texts = texts_of(document, &offered[..offered.len().min(self.step_values_max())])?;
        let own = copy.own(texts.len())?;
        let texts = &texts[..own.as_ref().map_or(texts.len(), Vec::len)];
        let settled = match self.settles() {
            true => {
                let strings = texts.iter().zip(offered).map(|(text, found)| string_of(text, found));
                self.settle_bound(&strings.collect::<Vec<_>>(), own.as_deref())?
            }
            false => Settled::all(texts.len()),
        };
        let done = settled.done;
        let mut kept = Vec::with_capacity(offered.len());
        let mut values = Vec::with_capacity(offered.len());
        let (mut of_values, mut envelopes) = (Vec::new(), Vec::new());
        for (index, (found, text)) in offered.iter().zip(&texts[..done]).enumerate() {
            let value = SealedInput { value_type: value_type(found.kind), text };
            if !self.leaves(&value) && !settled.leaves(index) {
                kept.push(*found);
                values.push(value);
                of_values.extend(own.as_ref().map(|own| Arc::clone(&own[index])));
                if settled.has_envelopes() {
                    envelopes.push(settled.envelope(index));
                }
            }
        }
        let mut copied = copy.copied;
        let own = own.is_some().then_some(&*of_values);
        let values = SettledValues { values: &values, own, envelopes: &envelopes };
        self.encrypt_settled(values, copy.out, |index, _, out| {
            if index > 0 {
                out.push(b'"');
            }
            out.extend_from_slice(&document[copied..kept[index].start]);
            out.push(b'"');
            copied = kept[index].end;
        })?;
        if !kept.is_empty() {
            copy.out.push(b'"');
        }
        copy.copied = copied;
        copy.count += kept.len() as u64;
        Ok(done)
    }

    fn output_size(&self, size: usize, count: usize) -> usize {
        size + count * ENVELOPE_OVERHEAD + size / 3
    }

    fn part_values_max(&self) -> usize {
        self.step_values_max()
    }

    fn fork(&mut self) -> Result<Self, Error> {
        Encryptor::fork(self)
    }

    fn report(&self) -> RequestReport {
        Encryptor::report(self)
    }
}

impl Rewriter for Decryptor {
    const PURPOSE: Purpose = Purpose::Decrypt;

    type Long = LongDecryption;

    fn rewrite_long(
        &mut self,
        long: &mut LongDecryption,
        (value, own): (&SealedInput<'_>, OwnBindings<'_>),
        out: &mut Vec<u8>,
    ) -> Result<LongStep, Error> {
        self.decrypt_long(long, (value.text, own), &Json, out)
    }

    fn binding(&self) -> Option<Arc<DocumentBinding>> {
        self.keyring.binding.of_document()
    }

    fn bytes_max(&self) -> usize {
        self.permit.step_bytes_max()
    }

    fn rewrite(&mut self, offered: &[Match], copy: &mut DocumentCopy<'_>) -> Result<usize, Error> {
        let on_failure = self.on_failure();
        let texts = match texts_of(copy.document, &offered[..offered.len().min(self.step_values_max())]) {
            // A string that is not Unicode is not an envelope, however it begins.
            Err(_) if on_failure != OnFailure::Fail => {
                copy.fail(0, &offered[0], on_failure);
                return Ok(1);
            }
            texts => texts?,
        };
        let own = copy.own(texts.len())?;
        let texts = &texts[..own.as_ref().map_or(texts.len(), Vec::len)];
        let bytes: Vec<&[u8]> = texts.iter().map(AsRef::as_ref).collect();
        if on_failure == OnFailure::Fail {
            let result = self.decrypt_bound(&bytes, own.as_deref(), |index, opened| {
                if let Some(opened) = opened {
                    write_opened(&opened, copy.replace(&offered[index]));
                }
            });
            return result.map_err(|error| placed(error, offered));
        }
        self.open_texts_bound(&bytes, own.as_deref(), |index, outcome| match outcome {
            Ok(Some(opened)) => write_opened(&opened, copy.replace(&offered[index])),
            Ok(None) => {}
            Err(_) => copy.fail(index, &offered[index], on_failure),
        })
    }

    fn output_size(&self, size: usize, count: usize) -> usize {
        size.saturating_sub(count * ENVELOPE_OVERHEAD)
    }

    fn part_values_max(&self) -> usize {
        Decryptor::part_values_max(self)
    }

    fn fork(&mut self) -> Result<Self, Error> {
        Ok(Decryptor::fork(self))
    }

    fn report(&self) -> RequestReport {
        Decryptor::report(self)
    }

    fn on_failure(&self) -> OnFailure {
        Decryptor::on_failure(self)
    }

    fn note_failure(&mut self, position: u64, path: impl FnOnce() -> String) {
        Decryptor::note_failure(self, position, path);
    }
}

impl Rewriter for Rewrapper {
    const PURPOSE: Purpose = Purpose::Decrypt;

    type Long = LongRewrap;

    fn rewrite_long(
        &mut self,
        long: &mut LongRewrap,
        (value, own): (&SealedInput<'_>, OwnBindings<'_>),
        out: &mut Vec<u8>,
    ) -> Result<LongStep, Error> {
        self.rewrap_long(long, (value.text, own), &Json, out)
    }

    fn binding(&self) -> Option<Arc<DocumentBinding>> {
        self.keyring.binding.of_document()
    }

    fn bytes_max(&self) -> usize {
        self.permit.step_bytes_max()
    }

    fn rewrite(&mut self, offered: &[Match], copy: &mut DocumentCopy<'_>) -> Result<usize, Error> {
        let on_failure = self.on_failure();
        let texts = match texts_of(copy.document, &offered[..offered.len().min(self.part_values_max())]) {
            // A string that is not Unicode is not an envelope, however it begins.
            Err(_) if on_failure != OnFailure::Fail => {
                copy.fail(0, &offered[0], on_failure);
                return Ok(1);
            }
            texts => texts?,
        };
        let own = copy.own(texts.len())?;
        let texts = &texts[..own.as_ref().map_or(texts.len(), Vec::len)];
        let bytes: Vec<&[u8]> = texts.iter().map(AsRef::as_ref).collect();
        let result = self.rewrap_bound(&bytes, own.as_deref(), |index, rewrapped| match rewrapped {
            RewrappedText::New(envelope) => {
                let out = copy.replace(&offered[index]);
                out.push(b'"');
                out.extend_from_slice(envelope);
                out.push(b'"');
            }
            RewrappedText::Unchanged => {}
            RewrappedText::Failed => copy.fail(index, &offered[index], on_failure),
        });
        result.map_err(|error| placed(error, offered))
    }

    fn output_size(&self, size: usize, _count: usize) -> usize {
        size
    }

    fn part_values_max(&self) -> usize {
        Rewrapper::part_values_max(self)
    }

    fn fork(&mut self) -> Result<Self, Error> {
        Ok(Rewrapper::fork(self))
    }

    fn report(&self) -> RequestReport {
        Rewrapper::report(self)
    }

    fn on_failure(&self) -> OnFailure {
        Rewrapper::on_failure(self)
    }

    fn note_failure(&mut self, position: u64, path: impl FnOnce() -> String) {
        Rewrapper::note_failure(self, position, path);
    }
}

/// Long values in JSON. Envelopes contain nothing that needs escaping.
pub(super) struct Json;

impl Shape for Json {
    fn size(&self, value_type: ValueType, piece: &[u8]) -> usize {
        match value_type {
            ValueType::String => escaped_size(piece),
            ValueType::Number | ValueType::Boolean => piece.len(),
        }
    }

    fn begin(&self, value_type: ValueType, size: usize, out: &mut Vec<u8>) -> Result<(), Error> {
        out.reserve(size + 2);
        self.end(value_type, out);
        Ok(())
    }

    fn piece(&self, value_type: ValueType, piece: &[u8], out: &mut Vec<u8>) {
        match value_type {
            ValueType::String => escape_piece(piece, out),
            ValueType::Number | ValueType::Boolean => out.extend_from_slice(piece),
        }
    }

    fn end(&self, value_type: ValueType, out: &mut Vec<u8>) {
        if value_type == ValueType::String {
            out.push(b'"');
        }
    }
}

pub(super) fn value_type(kind: ScalarKind) -> ValueType {
    match kind {
        ScalarKind::String { .. } => ValueType::String,
        ScalarKind::Number => ValueType::Number,
        ScalarKind::Boolean => ValueType::Boolean,
    }
}

/// The texts of matches up to the first one without: its fault is reported when it is the first, so that faults are reported in order.
pub(super) fn texts_of<'d>(document: &'d [u8], offered: &[Match]) -> Result<Vec<Cow<'d, [u8]>>, Error> {
    let mut texts = Vec::with_capacity(offered.len());
    for found in offered {
        match text_of(document, found) {
            Ok(text) => texts.push(text),
            Err(error) if texts.is_empty() => return Err(error),
            Err(_) => break,
        }
    }
    Ok(texts)
}

/// The text of a string; other values count as text that is not an envelope.
pub(super) fn string_of<'t>(text: &'t [u8], found: &Match) -> &'t [u8] {
    match found.kind {
        ScalarKind::String { .. } => text,
        ScalarKind::Number | ScalarKind::Boolean => b"",
    }
}

/// The text as UTF-8, as the walk has checked: a string's text without quotation marks and escapes; a number's or boolean's token
/// unchanged.
pub(crate) fn text_of<'d>(document: &'d [u8], found: &Match) -> Result<Cow<'d, [u8]>, Error> {
    if found.kind != (ScalarKind::String { escaped: true }) {
        return Ok(Cow::Borrowed(plain_text(document, found)));
    }
    let mut text = String::new();
    unescape(&document[found.start..found.end], &mut text).map_err(|error| error.at(found.start))?;
    Ok(Cow::Owned(text.into_bytes()))
}

/// The same with escape sequences unchanged.
pub(super) fn plain_text<'d>(document: &'d [u8], found: &Match) -> &'d [u8] {
    match found.kind {
        ScalarKind::String { .. } => &document[found.start + 1..found.end - 1],
        ScalarKind::Number | ScalarKind::Boolean => &document[found.start..found.end],
    }
}

pub(super) fn write_opened(opened: &OpenedValue<'_>, out: &mut Vec<u8>) {
    match opened.value_type {
        ValueType::String => escape_into(opened.text, out),
        ValueType::Number | ValueType::Boolean => out.extend_from_slice(opened.text.as_bytes()),
    }
}

/// Converts the index of an offered value to its byte in the document.
pub(super) fn placed(error: Error, offered: &[Match]) -> Error {
    let place = error.index.and_then(|index| offered.get(usize::try_from(index).ok()?)).map(|found| found.start);
    match place {
        Some(start) => Error { index: None, ..error }.at_offset(start),
        None => error,
    }
}
