//! Decryption: one key agreement makes an [`OpeningKey`] for every value that shares an ephemeral key. One table lists the
//! derivation and associated data of each version. Where SDKs in use disagree, the table has a second row that is tried after the
//! tag fails, so that the ordinary path costs nothing more.

use std::sync::OnceLock;

use leafseal_crypto::aead::{NONCE_SIZE, OpenItem, OpenStream, TAG_SIZE};
use leafseal_crypto::ec::SCALAR_SIZE;
use leafseal_crypto::{AeadAlgorithm, AeadKey, DecryptFailed, EcContext, Nonce, PrivateKey, PublicKey, Secret};
use thiserror::Error;

use crate::aad::AssociatedData;
use crate::format::PublicKeyEnvelope;
use crate::kdf;
use crate::metadata::{self, OpenedMetadata};
use crate::number::NumberText;
use crate::parts::{CiphertextText, Malformed, Marking, ValueType};
use crate::versions::Version;

/// Values opened side by side.
pub(crate) const GROUP_VALUES_MAX: usize = 64;
/// Bytes of ciphertext in a group of more than one value.
pub(crate) const GROUP_BYTES_MAX: usize = 8 << 10;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Derivation {
    /// The KDF over the ephemeral key.
    Kdf,
    /// The shared X coordinate as it is.
    Raw,
    /// The KDF over the app key, as early r1 data has it.
    KdfOverAppKey,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Binding {
    None,
    AppKey,
    EphemeralKey,
    /// Version 2: flag, ephemeral key, app key.
    Flagged,
}

/// The attempts for a version, in order.
fn attempts(version: Version) -> &'static [(Derivation, Binding)] {
    match version {
        Version::Tk9d => &[(Derivation::Kdf, Binding::AppKey), (Derivation::KdfOverAppKey, Binding::EphemeralKey)],
        Version::Qktc => &[(Derivation::Kdf, Binding::Flagged)],
        // An SDK caches one key for both k1 versions, derived as its first call wanted.
        Version::Rfvc => &[(Derivation::Raw, Binding::None), (Derivation::Kdf, Binding::None)],
        Version::S0ls => &[(Derivation::Kdf, Binding::Flagged), (Derivation::Raw, Binding::Flagged)],
        Version::Qljv => &[(Derivation::Kdf, Binding::AppKey), (Derivation::Raw, Binding::AppKey)],
        Version::Tenz => &[(Derivation::Kdf, Binding::AppKey)],
        // Its associated data was never settled.
        Version::T1jl => &[
            (Derivation::Raw, Binding::None),
            (Derivation::Raw, Binding::AppKey),
            (Derivation::Raw, Binding::EphemeralKey),
        ],
    }
}

/// The fields of an envelope apart from its keys and ciphertext.
#[derive(Clone, Copy)]
pub(crate) struct EnvelopeLabel {
    pub(crate) iv: [u8; NONCE_SIZE],
    pub(crate) value_type: ValueType,
    pub(crate) marking: Marking,
}

impl EnvelopeLabel {
    pub(crate) fn of(envelope: &PublicKeyEnvelope<'_>) -> Self {
        Self { iv: envelope.iv, value_type: envelope.value_type, marking: envelope.marking }
    }
}

/// How an envelope was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EnvelopeForm {
    /// As its version has it.
    Standard,
    /// In a way that some software has, and that is tolerated.
    Tolerated,
}

impl EnvelopeForm {
    /// By the row of the table that opened.
    pub(crate) fn of_attempt(attempt: usize) -> Self {
        if attempt == 0 { Self::Standard } else { Self::Tolerated }
    }
}

/// An opened value.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct OpenedValue<'s> {
    /// The type. Checked against the text: a number is a JSON number, a boolean `true` or `false`.
    pub value_type: ValueType,
    /// The text.
    pub text: &'s str,
    /// Role, origin and time where the version has metadata.
    pub metadata: Option<OpenedMetadata<'s>>,
    /// Whether it was made as its version has it.
    pub form: EnvelopeForm,
}

impl std::fmt::Debug for OpenedValue<'_> {
    /// Everything but the text, of which the size.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { value_type, text, metadata, form } = self;
        write!(f, "Opened({value_type:?}, {} bytes, {metadata:?}, {form:?})", text.len())
    }
}

/// Buffers that live longer than one call.
#[derive(Default)]
pub struct OpenScratch {
    pub(crate) sealed: Vec<u8>,
    pub(crate) plaintext: Vec<u8>,
    pub(crate) associated: Vec<u8>,
}

impl OpenScratch {
    /// The value that [`OpeningKey::verify`] has decrypted last, from this envelope.
    ///
    /// # Errors
    /// [`OpenError::DecryptFailed`] for a content that is not of its type, as for a wrong tag.
    pub fn opened(&self, envelope: &PublicKeyEnvelope<'_>, form: EnvelopeForm) -> Result<OpenedValue<'_>, OpenError> {
        interpret(envelope.value_type, envelope.version.has_metadata(), &self.plaintext, form)
    }
}

/// The shared secret of an app's private key and one ephemeral key, with the AES keys derived from it. Wiped on drop.
pub struct OpeningKey {
    ephemeral: PublicKey,
    app: PublicKey,
    aad: AssociatedData,
    shared: Secret<32>,
    derived: [OnceLock<AeadKey>; 3],
}

impl std::fmt::Debug for OpeningKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "OpeningKey({:?}, …)", self.ephemeral)
    }
}

impl OpeningKey {
    /// One key agreement. `app` is the public key of `private`; all three are on one curve.
    pub fn agree(ec: &EcContext, private: &PrivateKey, app: &PublicKey, ephemeral: &PublicKey) -> Self {
        Self::of_shared(app, ephemeral, ec.agree(private, ephemeral))
    }

    /// From the shared X coordinate of the ephemeral key and the private key of `app`, for callers that agree on many at a time.
    pub fn of_shared(app: &PublicKey, ephemeral: &PublicKey, shared: Secret<SCALAR_SIZE>) -> Self {
        Self {
            ephemeral: *ephemeral,
            app: *app,
            aad: AssociatedData::new(ephemeral, app),
            shared,
            derived: Default::default(),
        }
    }

    /// The ephemeral key.
    pub fn ephemeral(&self) -> &PublicKey {
        &self.ephemeral
    }

    /// Opens one envelope.
    ///
    /// # Errors
    /// [`OpenError::Malformed`] when the ciphertext is not base64; [`OpenError::DecryptFailed`] for everything that a key decides.
    ///
    /// # Panics
    /// When the envelope's ephemeral key is another.
    pub fn open<'s>(
        &self,
        envelope: &PublicKeyEnvelope<'_>,
        scratch: &'s mut OpenScratch,
    ) -> Result<OpenedValue<'s>, OpenError> {
        let form = self.verify(envelope, scratch)?;
        scratch.opened(envelope, form)
    }

    /// Decrypts one envelope into `scratch` and verifies its tag: whether this is the key that it was made for. The content is checked by
    /// [`OpenScratch::opened`].
    ///
    /// # Errors
    /// As [`OpeningKey::open`].
    ///
    /// # Panics
    /// When the envelope's ephemeral key is another.
    pub fn verify(
        &self,
        envelope: &PublicKeyEnvelope<'_>,
        scratch: &mut OpenScratch,
    ) -> Result<EnvelopeForm, OpenError> {
        assert!(envelope.has_ephemeral(&self.aad.ephemeral), "an envelope of this ephemeral key");
        scratch.sealed.resize(envelope.sealed_size(), 0);
        envelope.ciphertext.decode(&mut scratch.sealed).map_err(OpenError::Malformed)?;
        scratch.plaintext.resize(envelope.sealed_size() - TAG_SIZE, 0);
        let OpenScratch { sealed, plaintext, .. } = scratch;
        self.try_attempts(attempts(envelope.version), EnvelopeLabel::of(envelope), sealed, plaintext)
    }

    /// Opens every envelope on its own and hands each result to `each` with its index, in order. One bad envelope spoils only
    /// itself.
    ///
    /// # Panics
    /// When an envelope's ephemeral key is another.
    pub fn open_many(
        &self,
        envelopes: &[PublicKeyEnvelope<'_>],
        scratch: &mut OpenScratch,
        mut each: impl FnMut(usize, Result<OpenedValue<'_>, OpenError>),
    ) {
        let mut first = 0;
        while first < envelopes.len() {
            let group = &envelopes[first..first + group_size(&envelopes[first..])];
            self.open_group(group, scratch, |i, result| each(first + i, result));
            first += group.len();
        }
    }

    /// A group shares its first attempt's key. Values that fail are retried individually.
    fn open_group(
        &self,
        group: &[PublicKeyEnvelope<'_>],
        scratch: &mut OpenScratch,
        mut each: impl FnMut(usize, Result<OpenedValue<'_>, OpenError>),
    ) {
        let OpenScratch { sealed, plaintext, .. } = scratch;
        let decoded = decode_group(group.iter().map(|envelope| envelope.ciphertext), sealed);
        let mut rest = sealed.as_slice();
        let mut items = [OpenItem { nonce: Nonce([0; 12]), aad: &[], sealed: &[] }; GROUP_VALUES_MAX];
        for (item, envelope) in items.iter_mut().zip(group) {
            assert!(envelope.has_ephemeral(&self.aad.ephemeral), "an envelope of this ephemeral key");
            item.nonce = Nonce(envelope.iv);
            item.aad = self.associated_data(attempts(envelope.version)[0].1, EnvelopeLabel::of(envelope));
            (item.sealed, rest) = rest.split_at(envelope.sealed_size());
        }
        let items = &items[..group.len()];
        plaintext.resize(items.iter().map(|item| item.sealed.len() - TAG_SIZE).sum(), 0);
        let mut results = [Ok(()); GROUP_VALUES_MAX];
        let key = self.key(attempts(group[0].version)[0].0);
        key.open_many(items, plaintext, &mut results[..group.len()]);

        let mut rest = plaintext.as_mut_slice();
        for (i, envelope) in group.iter().enumerate() {
            let (opened, after) = rest.split_at_mut(items[i].sealed.len() - TAG_SIZE);
            rest = after;
            let form = match (decoded[i], results[i]) {
                (Ok(()), Ok(())) => Ok(EnvelopeForm::Standard),
                (Err(malformed), _) => Err(OpenError::Malformed(malformed)),
                (Ok(()), Err(DecryptFailed)) => {
                    let others = &attempts(envelope.version)[1..];
                    let opens = self.try_attempts(others, EnvelopeLabel::of(envelope), items[i].sealed, opened);
                    opens.map(|_| EnvelopeForm::Tolerated)
                }
            };
            match form {
                Ok(form) => each(i, interpret(envelope.value_type, envelope.version.has_metadata(), opened, form)),
                Err(error) => each(i, Err(error)),
            }
        }
    }

    fn try_attempts(
        &self,
        attempts: &[(Derivation, Binding)],
        label: EnvelopeLabel,
        sealed: &[u8],
        plaintext: &mut [u8],
    ) -> Result<EnvelopeForm, OpenError> {
        let opens = |&(derivation, binding): &(Derivation, Binding)| {
            let aad = self.associated_data(binding, label);
            self.key(derivation).open(&OpenItem { nonce: Nonce(label.iv), aad, sealed }, plaintext).is_ok()
        };
        attempts.iter().position(opens).map(EnvelopeForm::of_attempt).ok_or(OpenError::DecryptFailed)
    }

    /// Begins to open something in pieces by one row of its version's table; nothing where there are no more rows.
    pub(crate) fn stream(&self, version: Version, label: EnvelopeLabel, attempt: usize) -> Option<OpenStream> {
        let &(derivation, binding) = attempts(version).get(attempt)?;
        Some(self.key(derivation).open_stream(&Nonce(label.iv), self.associated_data(binding, label)))
    }

    fn key(&self, derivation: Derivation) -> &AeadKey {
        self.derived[derivation as usize].get_or_init(|| {
            let key = match derivation {
                Derivation::Kdf => kdf::derive(&self.shared, &self.ephemeral),
                Derivation::Raw => self.shared.clone(),
                Derivation::KdfOverAppKey => kdf::derive(&self.shared, &self.app),
            };
            AeadKey::new(AeadAlgorithm::Aes256Gcm, key.expose()).expect("32 bytes")
        })
    }

    fn associated_data(&self, binding: Binding, label: EnvelopeLabel) -> &[u8] {
        match binding {
            Binding::None => &[],
            Binding::AppKey => &self.aad.app,
            Binding::EphemeralKey => &self.aad.ephemeral,
            Binding::Flagged => self.aad.flagged(label.value_type, label.marking),
        }
    }
}

/// Why an envelope did not open.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum OpenError {
    /// Its text is wrong, whatever the key.
    #[error(transparent)]
    Malformed(Malformed),
    /// Its tag, key or content is wrong.
    #[error("{}", DecryptFailed)]
    DecryptFailed,
}

/// Ciphertexts one after the other in `sealed`, and which of them are not base64: their bytes count for nothing.
pub(crate) fn decode_group<'a>(
    group: impl Iterator<Item = CiphertextText<'a>> + Clone,
    sealed: &mut Vec<u8>,
) -> [Result<(), Malformed>; GROUP_VALUES_MAX] {
    sealed.resize(group.clone().map(CiphertextText::sealed_size).sum(), 0);
    let mut results = [Ok(()); GROUP_VALUES_MAX];
    let mut rest = sealed.as_mut_slice();
    for (ciphertext, result) in group.zip(&mut results) {
        let (this, after) = rest.split_at_mut(ciphertext.sealed_size());
        *result = ciphertext.decode(this);
        rest = after;
    }
    results
}

/// How many of the first envelopes make a group: one derivation, bounded in number and bytes, at least one.
fn group_size(envelopes: &[PublicKeyEnvelope<'_>]) -> usize {
    let derivation = attempts(envelopes[0].version)[0].0;
    let mut bytes = 0;
    let fitting = envelopes.iter().take(GROUP_VALUES_MAX).take_while(|envelope| {
        bytes += envelope.sealed_size();
        bytes <= GROUP_BYTES_MAX && attempts(envelope.version)[0].0 == derivation
    });
    fitting.count().max(1)
}

/// Invalid content fails like a wrong tag: anyone who knows the public key can encrypt anything.
#[inline]
pub(crate) fn interpret(
    value_type: ValueType,
    has_metadata: bool,
    plaintext: &[u8],
    form: EnvelopeForm,
) -> Result<OpenedValue<'_>, OpenError> {
    if !has_metadata {
        let text = text_of(value_type, plaintext).ok_or(OpenError::DecryptFailed)?;
        return Ok(OpenedValue { value_type, text, metadata: None, form });
    }
    let (metadata, text) = metadata::split(plaintext).ok_or(OpenError::DecryptFailed)?;
    let text = text_of(value_type, text).ok_or(OpenError::DecryptFailed)?;
    Ok(OpenedValue { value_type, text, metadata: Some(metadata), form })
}

/// A text that fits its type. Without this a sealed `1,"admin":true` of type number would become part of a document's structure.
#[inline]
fn text_of(value_type: ValueType, text: &[u8]) -> Option<&str> {
    let text = std::str::from_utf8(text).ok()?;
    let fits = match value_type {
        ValueType::String => true,
        ValueType::Number => NumberText::default().read(text.as_bytes()).is_whole(),
        ValueType::Boolean => matches!(text, "true" | "false"),
    };
    fits.then_some(text)
}
