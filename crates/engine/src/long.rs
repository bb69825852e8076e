//! Long values: values longer than a step are processed in pieces, by [`Encryptor::encrypt_long`], [`Decryptor::decrypt_long`] and
//! [`Rewrapper::rewrap_long`](crate::Rewrapper::rewrap_long). The caller stores the progress beside the value and passes both in each
//! step. A value is decrypted and verified completely before any byte of it is inspected or written.

use std::ops::ControlFlow;
use std::sync::Arc;

use leafseal_envelope::{
    Bindings, Envelope, EnvelopeDigest, EnvelopeForm, LongKey, LongOpening, LongSealing, LongText, Malformed, Metadata,
    OpenError, OpenedMetadata, PublicKeyEnvelope, Sealed, SealedInput, SymmetricEnvelope, SymmetricOpening, ValueType,
};
use zeroize::Zeroize;

use crate::app::App;
use crate::bindings::OwnBindings;
use crate::counters::ValueCounts;
use crate::decrypt::Decryptor;
use crate::encrypt::{Encryptor, is_sealed};
use crate::engine::permit::{Permit, Renewal};
use crate::error::Error;
use crate::keyring::{FoundKey, KeySearch, Keyring};
use crate::long_search::LongSearch;
use crate::opening::{EphemeralId, Opening};
use crate::report::OnFailure;
use crate::request_openings::{OpeningFault, RequestOpenings};
use crate::schemes::is_symmetric;
use crate::sealing::ValueSealing;

/// Bytes that may follow a text: a quotation mark.
const SHAPE_END_SIZE: usize = 1;
/// Maximum bytes after a text in an envelope: the rest that was not written yet and the tag in base64, and the end mark.
const ENVELOPE_END_SIZE: usize = 30 + SHAPE_END_SIZE;

/// The result of a step of a long value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LongStep {
    /// More steps follow.
    More,
    /// The value is replaced.
    Done,
    /// The value stays unchanged; nothing was written.
    Left,
    /// It is an envelope that fails to decrypt, and the request has an action for such: nothing was written.
    Failed,
}

/// The representation of a long value in the output.
pub trait Shape {
    /// Bytes that [`Shape::piece`] writes.
    fn size(&self, value_type: ValueType, piece: &[u8]) -> usize;

    /// Writes the bytes before a text of `size` bytes.
    ///
    /// # Errors
    /// If the output cannot represent such a value.
    fn begin(&self, value_type: ValueType, size: usize, out: &mut Vec<u8>) -> Result<(), Error>;

    /// Writes the next piece of a decrypted text.
    fn piece(&self, value_type: ValueType, piece: &[u8], out: &mut Vec<u8>);

    /// Writes the bytes after the text.
    fn end(&self, value_type: ValueType, out: &mut Vec<u8>);
}

/// A text that is being encrypted.
pub(crate) struct SealingText {
    sealing: LongSealing,
    done: usize,
}

impl SealingText {
    /// Writes the envelope's beginning; returns `None` if another request used up the key.
    pub(crate) fn begin(
        key: &ValueSealing,
        metadata: Option<&Metadata>,
        (value_type, size, bindings): (ValueType, usize, Bindings<'_>),
        shape: &impl Shape,
        out: &mut Vec<u8>,
    ) -> Result<Option<Self>, Error> {
        let start = out.len();
        shape.begin(ValueType::String, key.envelope_size(metadata, value_type, size), out)?;
        let sealing = key.seal_long(metadata, value_type, bindings, out);
        if sealing.is_err() {
            out.truncate(start);
        }
        Ok(sealing.ok().map(|sealing| Self { sealing, done: 0 }))
    }

    /// Encrypts the next piece of `text`.
    pub(crate) fn step(&mut self, text: &[u8], size: usize, out: &mut Vec<u8>) -> LongStep {
        let rest = &text[self.done..];
        // Reserved at once, because a growing buffer may be copied; later steps find it done, unless they write to another buffer.
        out.reserve(rest.len().div_ceil(3) * 4 + ENVELOPE_END_SIZE);
        let piece = piece(rest, size);
        self.sealing.update(piece, out);
        self.done += piece.len();
        if self.done < text.len() { LongStep::More } else { LongStep::Done }
    }

    pub(crate) fn finish(self, shape: &impl Shape, out: &mut Vec<u8>) {
        self.sealing.finish(out);
        shape.end(ValueType::String, out);
    }
}

fn piece(rest: &[u8], size: usize) -> &[u8] {
    &rest[..size.min(rest.len())]
}

/// The progress of encrypting a long value.
#[derive(Default)]
pub struct LongEncryption {
    sealing: Option<SealingText>,
    /// The progress of checking whether it is an envelope that decrypts, if such are skipped or resealed.
    opening: Option<LongDecryption>,
    /// What is encrypted, once that is known.
    source: Option<LongSource>,
}

/// What is encrypted of a long value.
#[derive(Clone, Copy)]
enum LongSource {
    /// The value.
    Value,
    /// The value of the envelope that it is.
    Opened,
}

impl Encryptor {
    /// Continues a long value. It keeps its key to its end, unless the permission to encrypt is revoked.
    ///
    /// # Errors
    /// As [`Encryptor::encrypt_bound`].
    pub fn encrypt_long(
        &mut self,
        long: &mut LongEncryption,
        (value, own): (&SealedInput<'_>, OwnBindings<'_>),
        shape: &impl Shape,
        out: &mut Vec<u8>,
    ) -> Result<LongStep, Error> {
        self.renew()?;
        let source = match self.settle_long(long, value, own)? {
            ControlFlow::Continue(source) => *long.source.insert(source),
            ControlFlow::Break(step) => return Ok(step),
        };
        let (text, envelope) = match (source, &long.opening, parse(value.text)) {
            (LongSource::Opened, Some(opening), Ok(Some(envelope))) => (opening.open.text(), Some(envelope)),
            _ => (value.text, None),
        };
        let Some(sealing) = &mut long.sealing else {
            let (key, value_type, metadata) = match &envelope {
                Some(envelope) => {
                    let metadata = self.resealed_metadata();
                    (self.resealing_key(envelope.marking())?, envelope.value_type(), Some(metadata))
                }
                None => {
                    self.note_sealed(&[*value]);
                    (self.key()?, value.value_type, self.metadata.clone())
                }
            };
            let of_value = (value_type, text.len(), self.binding.of(own)?);
            long.sealing = SealingText::begin(&key, metadata.as_ref(), of_value, shape, out)?;
            let begun = u64::from(long.sealing.is_some());
            self.count(ValueCounts::of(key.scheme(), begun));
            self.tally.add_rewrapped(if envelope.is_some() { begun } else { 0 });
            return Ok(LongStep::More);
        };
        let step = sealing.step(text, self.permit.step_bytes_max(), out);
        if let Some(sealing) = long.sealing.take_if(|_| step == LongStep::Done) {
            sealing.finish(shape, out);
        }
        Ok(step)
    }

    /// Continues checking whether a long value is an envelope to skip or to reseal.
    fn settle_long(
        &mut self,
        long: &mut LongEncryption,
        value: &SealedInput<'_>,
        own: OwnBindings<'_>,
    ) -> Result<ControlFlow<LongStep, LongSource>, Error> {
        if let Some(source) = long.source {
            return Ok(ControlFlow::Continue(source));
        }
        let (may_reseal, leaves_public_key) = (self.may_reseal(), !self.reseals());
        let step = match self.opener() {
            Some(opener) if value.value_type == ValueType::String && is_sealed(value.text) => {
                opener.open_long(long.opening.get_or_insert_default(), (value.text, own))?
            }
            _ => LongStep::Failed,
        };
        Ok(match step {
            LongStep::More => ControlFlow::Break(LongStep::More),
            LongStep::Done if leaves_public_key || is_symmetric(value.text) => {
                self.tally.add_skipped(1);
                ControlFlow::Break(LongStep::Left)
            }
            LongStep::Done if may_reseal => ControlFlow::Continue(LongSource::Opened),
            LongStep::Done | LongStep::Failed | LongStep::Left => ControlFlow::Continue(LongSource::Value),
        })
    }
}

/// The progress of decrypting a long envelope.
#[derive(Default)]
pub(crate) struct LongOpen {
    stage: LongStage,
    plaintext: Vec<u8>,
}

#[derive(Default)]
enum LongStage {
    #[default]
    Arrived,
    /// The digest is being computed, to see whether a copy of it failed.
    Recall(Arc<Opening>, EnvelopeDigest),
    /// The tag is being verified, with one key after the other.
    Search(LongSearch),
    /// The tag is being verified with the symmetric key that the envelope names.
    Symmetric(FoundKey, LongOpening),
    /// No key opens it: the digest is being computed, to remember that.
    Remember(EnvelopeDigest),
    /// The tag was correct; the text is being checked.
    Check(OpenMetadata),
    Open(OpenMetadata),
    /// It fails to decrypt: the output is being wiped, this many bytes so far.
    Wipe(OpeningFault, usize),
}

/// The key that has decrypted an envelope.
pub(crate) enum Opener {
    PublicKey(Arc<Opening>),
    Symmetric(FoundKey),
}

impl Opener {
    /// The key version.
    pub(crate) fn version(&self) -> Option<u32> {
        match self {
            Self::PublicKey(opening) => opening.version(),
            Self::Symmetric(found) => Some(found.version),
        }
    }

    /// Whether new values are sealed with it, in its scheme.
    pub(crate) fn is_newest(&self, app: &App) -> bool {
        match self {
            Self::PublicKey(opening) => opening.by_newest(),
            Self::Symmetric(found) => app.seals_with(found.key.id()),
        }
    }
}

/// The metadata of a decrypted envelope.
pub(crate) struct OpenMetadata {
    opener: Opener,
    pub(crate) form: EnvelopeForm,
    text: LongText,
    /// The size of the text in the output.
    size: usize,
}

impl LongOpen {
    pub(crate) fn is_open(&self) -> bool {
        matches!(self.stage, LongStage::Open(_))
    }

    /// Continues an envelope that is not decrypted yet; `measure` returns the size of a piece of its text in the output.
    pub(crate) fn step(
        &mut self,
        permit: &Permit,
        keyring: &mut Keyring,
        (envelope, own): (&Envelope<'_>, OwnBindings<'_>),
        measure: impl FnOnce(&[u8]) -> usize,
    ) -> Result<(), OpeningFault> {
        if !keyring.accept.accepts(envelope.scheme()) {
            return Err(OpeningFault::Value(OpenError::DecryptFailed));
        }
        self.stage = match (std::mem::take(&mut self.stage), envelope) {
            (LongStage::Check(open), _) => self.check(open, permit, measure),
            (LongStage::Wipe(unopened, wiped), _) if wiped == self.plaintext.len() => return Err(unopened),
            (LongStage::Wipe(unopened, wiped), _) => {
                LongStage::Wipe(unopened, wipe(&mut self.plaintext, wiped, permit.step_bytes_max()))
            }
            (LongStage::Open(open), _) => LongStage::Open(open),
            (stage, Envelope::PublicKey(envelope)) => {
                self.public_key_step(stage, permit, &mut keyring.openings, envelope)?
            }
            (stage, Envelope::Symmetric(envelope)) => self.symmetric_step(stage, permit, keyring, (envelope, own))?,
        };
        Ok(())
    }

    /// Checks the next piece of a text whose tag was right.
    fn check(&mut self, mut open: OpenMetadata, permit: &Permit, measure: impl FnOnce(&[u8]) -> usize) -> LongStage {
        let before = open.text.checked();
        let result = open.text.check(&self.plaintext, permit.step_bytes_max());
        open.size += measure(&open.text.text(&self.plaintext)[before..open.text.checked()]);
        match result {
            Ok(true) => LongStage::Open(open),
            Ok(false) => LongStage::Check(open),
            Err(error) => LongStage::Wipe(error.into(), 0),
        }
    }

    /// Continues to verify the tag of a symmetric envelope.
    fn symmetric_step(
        &mut self,
        stage: LongStage,
        permit: &Permit,
        keyring: &mut Keyring,
        (envelope, own): (&SymmetricEnvelope<'_>, OwnBindings<'_>),
    ) -> Result<LongStage, OpeningFault> {
        let sealed = Sealed::Value(Envelope::Symmetric(*envelope));
        let LongStage::Symmetric(found, mut opening) = stage else {
            return Ok(match keyring.symmetric.find(permit, envelope.key_id).map_err(OpeningFault::Request)? {
                KeySearch::Waiting => LongStage::Arrived,
                KeySearch::Missing => return Err(OpeningFault::Value(OpenError::DecryptFailed)),
                KeySearch::Found(found) => {
                    self.plaintext.reserve_exact(sealed.plaintext_size());
                    LongStage::Symmetric(found, LongOpening::new(0))
                }
            });
        };
        let bindings = keyring.binding.of(own).map_err(OpeningFault::Request)?;
        let key = LongKey::Symmetric(SymmetricOpening::bound(&found.key, bindings));
        let step = opening.step(key, &sealed, permit.step_bytes_max(), &mut self.plaintext);
        Ok(match step {
            Ok(None) => LongStage::Symmetric(found, opening),
            Ok(Some(form)) => {
                let text = LongText::new(&Envelope::Symmetric(*envelope), &self.plaintext);
                let accepted = text.and_then(|text| {
                    keyring.accept.check_metadata(text.metadata(&self.plaintext))?;
                    Ok(text)
                });
                match accepted {
                    Ok(text) => {
                        LongStage::Check(OpenMetadata { opener: Opener::Symmetric(found), form, text, size: 0 })
                    }
                    Err(error) => LongStage::Wipe(error.into(), 0),
                }
            }
            Err(error) => LongStage::Wipe(error.into(), 0),
        })
    }

    /// Continues to verify the tag of an envelope to a public key.
    fn public_key_step(
        &mut self,
        stage: LongStage,
        permit: &Permit,
        openings: &mut RequestOpenings,
        envelope: &PublicKeyEnvelope<'_>,
    ) -> Result<LongStage, OpeningFault> {
        let (engine, size) = (&permit.engine, permit.step_bytes_max());
        Ok(match stage {
            LongStage::Arrived => {
                let ephemeral = EphemeralId::of(envelope);
                let opening = openings
                    .find(ephemeral, || engine.opening(&permit.app, ephemeral))
                    .map_err(OpenError::Malformed)?;
                // One whose key is known costs no more than a digest of it.
                match opening.known().is_none() && openings.has_failures() {
                    true => LongStage::Recall(opening, envelope.digest_in_pieces()),
                    false => self.search(opening, envelope),
                }
            }
            LongStage::Recall(opening, mut digest) => match digest.step(envelope, size) {
                None => LongStage::Recall(opening, digest),
                Some(digest) if openings.has_failed(&digest) => return Err(OpenError::DecryptFailed.into()),
                Some(_) => self.search(opening, envelope),
            },
            LongStage::Search(search) => self.go_on_searching(search, permit, openings, envelope),
            LongStage::Remember(mut digest) => match digest.step(envelope, size) {
                None => LongStage::Remember(digest),
                Some(digest) => {
                    openings.note_failed(digest);
                    LongStage::Wipe(OpenError::DecryptFailed.into(), 0)
                }
            },
            stage => stage,
        })
    }

    fn search(&mut self, opening: Arc<Opening>, envelope: &PublicKeyEnvelope<'_>) -> LongStage {
        self.plaintext.reserve_exact(Sealed::Value(Envelope::PublicKey(*envelope)).plaintext_size());
        LongStage::Search(LongSearch::new(opening, 0))
    }

    fn go_on_searching(
        &mut self,
        mut search: LongSearch,
        permit: &Permit,
        openings: &mut RequestOpenings,
        envelope: &PublicKeyEnvelope<'_>,
    ) -> LongStage {
        let either = Envelope::PublicKey(*envelope);
        let (engine, sealed) = (&permit.engine, Sealed::Value(either));
        let step = search.step(engine, openings.version(), &sealed, permit.step_bytes_max(), &mut self.plaintext);
        let step = step.map_err(OpeningFault::from);
        match openings.note_trials(engine, search.take_trials()).and(step) {
            Ok(None) => LongStage::Search(search),
            Ok(Some(form)) => {
                openings.note_version(search.opening());
                match LongText::new(&either, &self.plaintext) {
                    Ok(text) => {
                        let opener = Opener::PublicKey(Arc::clone(search.opening()));
                        LongStage::Check(OpenMetadata { opener, form, text, size: 0 })
                    }
                    Err(error) => LongStage::Wipe(error.into(), 0),
                }
            }
            Err(OpeningFault::Value(OpenError::DecryptFailed)) if search.opening().known().is_none() => {
                LongStage::Remember(envelope.digest_in_pieces())
            }
            Err(unopened) => LongStage::Wipe(unopened, 0),
        }
    }

    pub(crate) fn open(&self) -> &OpenMetadata {
        let LongStage::Open(open) = &self.stage else { panic!("asked for once it is open") };
        open
    }

    pub(crate) fn opener(&self) -> &Opener {
        &self.open().opener
    }

    pub(crate) fn metadata(&self) -> Option<OpenedMetadata<'_>> {
        self.open().text.metadata(&self.plaintext)
    }

    pub(crate) fn text(&self) -> &[u8] {
        self.open().text.text(&self.plaintext)
    }
}

/// Wipes a piece of the output of a failed decryption; returns the progress.
pub(crate) fn wipe(plaintext: &mut [u8], start: usize, size: usize) -> usize {
    let end = start.saturating_add(size).min(plaintext.len());
    plaintext[start..end].zeroize();
    end
}

/// The progress of decrypting a long text.
#[derive(Default)]
pub struct LongDecryption {
    open: LongOpen,
    written: Option<WrittenText>,
}

/// How much of a decrypted text is written.
struct WrittenText {
    /// Bytes of the text.
    done: usize,
    /// Bytes of the output that are left.
    left: usize,
}

impl Decryptor {
    /// Continues a long text; a text that is not an envelope stays unchanged. One that fails to decrypt has the result `Failed`, unless the
    /// request fails.
    ///
    /// # Errors
    /// As [`Decryptor::decrypt_bound`], with index 0; the shape cannot represent the value.
    pub fn decrypt_long(
        &mut self,
        long: &mut LongDecryption,
        (text, own): (&[u8], OwnBindings<'_>),
        shape: &impl Shape,
        out: &mut Vec<u8>,
    ) -> Result<LongStep, Error> {
        let step = self.decrypt_long_strictly(long, (text, own), shape, out);
        if let (Ok(LongStep::Done), Ok(envelope)) = (&step, Envelope::parse(text)) {
            self.count(ValueCounts::of(envelope.scheme(), 1));
        }
        match step.map_err(|error| self.permit.knowledge.judge(error)) {
            // Errors of the value have its index; others concern the request.
            Err(error) if error.index.is_some() && self.on_failure() != OnFailure::Fail => Ok(LongStep::Failed),
            step => step,
        }
    }

    /// Continues decrypting a long text without writing it: `Done` once it is decrypted and may be read, `Left` if it is not an envelope,
    /// `Failed` if it fails to decrypt.
    pub(crate) fn open_long(
        &mut self,
        long: &mut LongDecryption,
        text: (&[u8], OwnBindings<'_>),
    ) -> Result<LongStep, Error> {
        let step = self.decrypt_long(long, text, &Discard, &mut Vec::new())?;
        Ok(if step == LongStep::More && long.written.is_some() { LongStep::Done } else { step })
    }

    fn decrypt_long_strictly(
        &mut self,
        long: &mut LongDecryption,
        (text, own): (&[u8], OwnBindings<'_>),
        shape: &impl Shape,
        out: &mut Vec<u8>,
    ) -> Result<LongStep, Error> {
        if self.renew()? == Renewal::Renewed && long.written.is_none() {
            *long = LongDecryption::default();
        }
        let Some(envelope) = parse(text)? else { return Ok(LongStep::Left) };
        if !long.open.is_open() {
            let measure = |piece: &[u8]| shape.size(envelope.value_type(), piece);
            let step = long.open.step(&self.permit, &mut self.keyring, (&envelope, own), measure);
            return step.map(|()| LongStep::More).map_err(|unopened| self.keyring.error(unopened, of_the_value));
        }
        let (value_type, opened) = (envelope.value_type(), long.open.text());
        let Some(written) = &mut long.written else {
            let role = self.permit.check_role((&envelope).into(), self.role.as_ref(), long.open.metadata());
            role.and_then(|()| shape.begin(value_type, long.open.open().size, out)).map_err(of_the_value)?;
            long.written = Some(WrittenText { done: 0, left: long.open.open().size });
            return Ok(LongStep::More);
        };
        out.reserve(written.left + SHAPE_END_SIZE);
        let (piece, before) = (piece(&opened[written.done..], self.permit.step_bytes_max()), out.len());
        shape.piece(value_type, piece, out);
        written.left -= out.len() - before;
        written.done += piece.len();
        if written.done < opened.len() {
            return Ok(LongStep::More);
        }
        shape.end(value_type, out);
        Ok(LongStep::Done)
    }
}

/// Discards a decrypted text.
struct Discard;

impl Shape for Discard {
    fn size(&self, _value_type: ValueType, _piece: &[u8]) -> usize {
        0
    }

    fn begin(&self, _value_type: ValueType, _size: usize, _out: &mut Vec<u8>) -> Result<(), Error> {
        Ok(())
    }

    fn piece(&self, _value_type: ValueType, _piece: &[u8], _out: &mut Vec<u8>) {}

    fn end(&self, _value_type: ValueType, _out: &mut Vec<u8>) {}
}

/// Parses a text that may be an envelope.
pub(crate) fn parse(text: &[u8]) -> Result<Option<Envelope<'_>>, Error> {
    match Envelope::parse(text) {
        Err(Malformed::NotAnEnvelope) => Ok(None),
        parsed => parsed.map(Some).map_err(|malformed| of_the_value(malformed.into())),
    }
}

/// Sets the index of the value, which is the only one of the call.
pub(crate) fn of_the_value(error: Error) -> Error {
    error.at_index(0)
}
