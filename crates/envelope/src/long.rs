//! The decryption of values and files in pieces, for callers that must yield between them. The result equals that of the whole.
//!
//! Decryption has two phases: until the tag is verified nothing inspects the plaintext, so that neither timing nor the position of
//! a fault reveals anything; then [`LongText`] parses it.

use leafseal_crypto::aead::{OpenStream, TAG_SIZE};

use crate::envelope::Envelope;
use crate::file::EncryptedFile;
use crate::metadata::{self, OpenedMetadata};
use crate::number::NumberText;
use crate::open::{EnvelopeForm, EnvelopeLabel, OpenError, OpeningKey};
use crate::parts::{Malformed, ValueType};
use crate::symmetric::SymmetricOpening;
use crate::versions::Version;

/// Something sealed, taken apart.
#[derive(Clone, Copy)]
pub enum Sealed<'a> {
    /// A value.
    Value(Envelope<'a>),
    /// A file.
    File(EncryptedFile<'a>),
}

impl<'a> Sealed<'a> {
    /// Bytes of plaintext.
    pub fn plaintext_size(&self) -> usize {
        match self {
            Self::Value(envelope) => envelope.sealed_size() - TAG_SIZE,
            Self::File(file) => file.content_size(),
        }
    }

    /// Begins to open it by one row of its version's table; nothing where there are no more rows.
    ///
    /// # Panics
    /// When `key` is of the other scheme.
    fn stream(&self, key: LongKey<'_>, attempt: usize) -> Option<OpenStream> {
        match (self, key) {
            (Self::Value(Envelope::PublicKey(envelope)), LongKey::PublicKey(key)) => {
                key.stream(envelope.version, EnvelopeLabel::of(envelope), attempt)
            }
            // A file is bound as the plain version of its curve is.
            (Self::File(EncryptedFile::PublicKey(file)), LongKey::PublicKey(key)) => {
                key.stream(Version::plain(file.curve), file.label(), attempt)
            }
            (Self::Value(Envelope::Symmetric(envelope)), LongKey::Symmetric(key)) => {
                (attempt == 0).then(|| key.stream(envelope))
            }
            (Self::File(EncryptedFile::Symmetric(file)), LongKey::Symmetric(key)) => {
                (attempt == 0).then(|| key.file_stream(file))
            }
            _ => panic!("a key of the other scheme"),
        }
    }

    /// Its size as it is read: in characters of base64, or in bytes.
    fn size(&self) -> usize {
        match self {
            Self::Value(envelope) => envelope.ciphertext().text().len(),
            Self::File(file) => file.sealed().len(),
        }
    }

    /// The next piece of ciphertext and tag, and how much was read for it.
    fn piece<'p>(&self, start: usize, size: usize, decoded: &'p mut Vec<u8>) -> Result<(&'p [u8], usize), Malformed>
    where
        'a: 'p,
    {
        match self {
            Self::Value(envelope) => {
                let read = envelope.ciphertext().decode_piece(start, size, decoded)?;
                Ok((decoded, read))
            }
            Self::File(file) => {
                let piece = &file.sealed()[start..];
                let piece = &piece[..size.max(1).min(piece.len())];
                Ok((piece, piece.len()))
            }
        }
    }
}

/// A key that opens.
#[derive(Clone, Copy)]
pub enum LongKey<'k> {
    /// Of an ephemeral key.
    PublicKey(&'k OpeningKey),
    /// Of a symmetric root.
    Symmetric(SymmetricOpening<'k>),
}

/// Something on its way out of its envelope, with one key: one row of its version's table after the other.
#[derive(Default)]
pub struct LongOpening {
    /// Where the plaintext begins in its buffer.
    start: usize,
    attempt: usize,
    /// Not there before the first piece of an attempt.
    stream: Option<OpenStream>,
    /// As far as it is read.
    read: usize,
    /// Bytes of plaintext.
    written: usize,
    tag: Vec<u8>,
    decoded: Vec<u8>,
}

impl LongOpening {
    /// One whose plaintext begins at byte `start` of its buffer.
    pub fn new(start: usize) -> Self {
        Self { start, ..Self::default() }
    }

    /// Goes on with `sealed`, always the same, by about `size` of its bytes, and writes to `plaintext`, always the same, which it
    /// lengthens as it comes to it. Gives how it was made once the tag was found to be right.
    ///
    /// # Errors
    /// As [`OpeningKey::open`]. The content of `plaintext` must be wiped then.
    pub fn step(
        &mut self,
        key: LongKey<'_>,
        sealed: &Sealed<'_>,
        size: usize,
        plaintext: &mut Vec<u8>,
    ) -> Result<Option<EnvelopeForm>, OpenError> {
        if self.stream.is_none() {
            self.stream = sealed.stream(key, self.attempt);
            (self.read, self.written) = (0, 0);
            self.tag.clear();
        }
        let stream = self.stream.as_mut().ok_or(OpenError::DecryptFailed)?;
        let (piece, read) = sealed.piece(self.read, size, &mut self.decoded).map_err(OpenError::Malformed)?;
        let (ciphertext, tag) = piece.split_at(piece.len().min(sealed.plaintext_size() - self.written));
        let place = self.start + self.written..self.start + self.written + ciphertext.len();
        // A second attempt writes over the first.
        plaintext.resize(plaintext.len().max(place.end), 0);
        stream.update(ciphertext, &mut plaintext[place]);
        self.tag.extend_from_slice(tag);
        self.written += ciphertext.len();
        self.read += read;
        if self.read < sealed.size() { Ok(None) } else { self.finish() }
    }

    fn finish(&mut self) -> Result<Option<EnvelopeForm>, OpenError> {
        let stream = self.stream.take().expect("it was read to its end");
        // A stream would also take a shorter tag, which is easier to guess.
        assert_eq!(self.tag.len(), TAG_SIZE, "a sealed text ends with a tag");
        if stream.finish(&self.tag).is_ok() {
            return Ok(Some(EnvelopeForm::of_attempt(self.attempt)));
        }
        self.attempt += 1;
        Ok(None)
    }
}

/// A plaintext whose tag was right on its way to its text.
pub struct LongText {
    value_type: ValueType,
    metadata_size: usize,
    /// Bytes of the text that were checked to be valid for its type.
    checked: usize,
    number: NumberText,
}

impl LongText {
    /// Splits the metadata off, where the envelope's version has it.
    ///
    /// # Errors
    /// [`OpenError::DecryptFailed`] for metadata that is not of its form.
    pub fn new(envelope: &Envelope<'_>, plaintext: &[u8]) -> Result<Self, OpenError> {
        let text_size = match envelope.has_metadata() {
            true => metadata::split(plaintext).ok_or(OpenError::DecryptFailed)?.1.len(),
            false => plaintext.len(),
        };
        let metadata_size = plaintext.len() - text_size;
        Ok(Self { value_type: envelope.value_type(), metadata_size, checked: 0, number: NumberText::default() })
    }

    /// Checks about `size` more bytes of the text, and at the end that it is valid for its type. Returns whether that was all.
    ///
    /// # Errors
    /// [`OpenError::DecryptFailed`], as for a wrong tag. Then `plaintext` must be wiped.
    pub fn check(&mut self, plaintext: &[u8], size: usize) -> Result<bool, OpenError> {
        let rest = &self.text(plaintext)[self.checked..];
        let piece = &rest[..size.max(4).min(rest.len())];
        let size = match std::str::from_utf8(piece) {
            Ok(_) => piece.len(),
            Err(error) if error.error_len().is_none() && piece.len() < rest.len() => error.valid_up_to(),
            Err(_) => return Err(OpenError::DecryptFailed),
        };
        self.number = match self.value_type {
            ValueType::Number => self.number.read(&piece[..size]),
            ValueType::String | ValueType::Boolean => self.number,
        };
        let is_all = size == rest.len();
        self.checked += size;
        if is_all && !self.is_of_its_type(plaintext) {
            return Err(OpenError::DecryptFailed);
        }
        Ok(is_all)
    }

    fn is_of_its_type(&self, plaintext: &[u8]) -> bool {
        match self.value_type {
            ValueType::String => true,
            ValueType::Number => self.number.is_whole(),
            ValueType::Boolean => matches!(self.text(plaintext), b"true" | b"false"),
        }
    }

    /// Bytes of the text that were checked.
    pub fn checked(&self) -> usize {
        self.checked
    }

    /// The text: UTF-8 as far as it was checked.
    pub fn text<'p>(&self, plaintext: &'p [u8]) -> &'p [u8] {
        &plaintext[self.metadata_size..]
    }

    /// The metadata, where the version has it.
    pub fn metadata<'p>(&self, plaintext: &'p [u8]) -> Option<OpenedMetadata<'p>> {
        if self.metadata_size == 0 {
            return None;
        }
        metadata::split(plaintext).map(|(metadata, _)| metadata)
    }
}
