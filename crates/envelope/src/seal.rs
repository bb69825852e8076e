//! Sealing: one key agreement makes a [`SealingKey`] that seals any number of values, each under its own nonce (random bits of each call
//! and a counter, as the key is fresh). Values are sealed in groups, so that a multi-buffer cipher can take them side by side, and their
//! text is written once, into the caller's buffer.

use leafseal_crypto::aead::{SealItem, SealStream, TAG_SIZE};
use leafseal_crypto::{
    AeadAlgorithm, AeadKey, CryptoRng, Curve, EcContext, Encapsulation, Nonce, NonceSequence, PublicKey, Recipient,
    Secret, text_kernel,
};
use leafseal_lanes::text::{Kernel, TextFrame};
use thiserror::Error;

use crate::aad::AssociatedData;
use crate::base64::append_base64;
use crate::format::MIDDLE_SIZE;
use crate::kdf;
use crate::metadata::Metadata;
use crate::parts::{Head, Marking, SUFFIX, ValueType};
use crate::versions::Version;

/// Values sealed side by side.
pub(crate) const GROUP_VALUES_MAX: usize = 64;
/// Bytes of plaintext in a group of more than one value: with its ciphertext it stays in a first-level cache.
const GROUP_BYTES_MAX: usize = 8 << 10;

/// A value to seal: a string's text, or the JSON text of a number or boolean.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct SealedInput<'a> {
    /// The type that the envelope will state.
    pub value_type: ValueType,
    /// The text: UTF-8, and for a number or boolean a JSON token (the caller must check this: other texts will not open).
    pub text: &'a [u8],
}

impl std::fmt::Debug for SealedInput<'_> {
    /// Type and size, never the text.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Value({:?}, {} bytes)", self.value_type, self.text.len())
    }
}

/// The properties that a sealing key writes: version and marking are the same for all its values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Profile {
    version: Version,
    marking: Marking,
}

impl Profile {
    /// Values without metadata.
    pub fn plain(curve: Curve) -> Self {
        Self { version: Version::plain(curve), marking: Marking::Live }
    }

    /// Values with metadata, such as a role.
    pub fn with_metadata(curve: Curve) -> Self {
        Self { version: Version::with_metadata(curve), marking: Marking::Live }
    }

    /// The same, marked `debug:`.
    pub fn debug(self) -> Self {
        Self { marking: Marking::Debug, ..self }
    }

    /// The version that is written.
    pub fn version(self) -> Version {
        self.version
    }
}

/// The key has sealed its maximum number of values: make a fresh one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("the sealing key has sealed its maximum number of values")]
pub struct KeySpent;

/// Buffers that live longer than one call, to save allocations.
#[derive(Default)]
pub struct SealScratch {
    pub(crate) plaintexts: Vec<u8>,
    pub(crate) sealed: Vec<u8>,
    /// The associated data of the values of a group that have their own.
    pub(crate) associated: Vec<u8>,
}

/// An AES key agreed with one recipient through a fresh ephemeral key. Shared between threads; wiped on drop.
pub struct SealingKey {
    profile: Profile,
    key: AeadKey,
    nonces: NonceSequence,
    aad: AssociatedData,
    /// The text around IV and ciphertext, by type.
    frames: [TextFrame; 3],
    text: Kernel,
}

impl SealingKey {
    /// Makes an ephemeral key and agrees with `recipient`; at most `values_max` values can be sealed (never more than 2^32).
    pub fn generate(
        ec: &EcContext,
        recipient: &Recipient,
        profile: Profile,
        values_max: u64,
        rng: &mut dyn CryptoRng,
    ) -> Self {
        let encapsulation = recipient.encapsulate(ec, rng);
        Self::from_encapsulation(&encapsulation, recipient.public(), profile, values_max, rng)
    }

    /// `count` such keys, independent of each other. With a recipient that has a table, they cost less than a loop of
    /// [`SealingKey::generate`] ([`Recipient::batch_size`]).
    pub fn generate_many(
        ec: &EcContext,
        recipient: &Recipient,
        profile: Profile,
        values_max: u64,
        count: usize,
        rng: &mut dyn CryptoRng,
    ) -> Vec<Self> {
        let encapsulations = recipient.encapsulate_many(ec, count, rng);
        let key = |one| Self::from_encapsulation(one, recipient.public(), profile, values_max, rng);
        encapsulations.iter().map(key).collect()
    }

    pub(crate) fn from_encapsulation(
        encapsulation: &Encapsulation,
        recipient: &PublicKey,
        profile: Profile,
        values_max: u64,
        rng: &mut dyn CryptoRng,
    ) -> Self {
        assert_eq!(profile.version.curve(), recipient.curve(), "a recipient on the profile's curve");
        let aad = AssociatedData::new(&encapsulation.ephemeral, recipient);
        let text = text_kernel();
        let mut middle = [b':'; MIDDLE_SIZE];
        text.encode(&aad.ephemeral, &mut middle[1..MIDDLE_SIZE - 1]);
        Self {
            profile,
            key: aead_key(profile.version, encapsulation),
            nonces: NonceSequence::new(rng, values_max),
            aad,
            frames: ValueType::ALL.map(|value_type| {
                let head = Head::write(profile.marking, profile.version.text(), value_type);
                TextFrame::new(&head, &middle, SUFFIX)
            }),
            text,
        }
    }

    /// The profile that it was made with.
    pub fn profile(&self) -> Profile {
        self.profile
    }

    /// How many more values it may seal.
    pub fn values_left(&self) -> u64 {
        self.nonces.left()
    }

    /// Bytes of the envelope of a text of `text_size` bytes.
    pub fn envelope_size(&self, metadata: Option<&Metadata>, value_type: ValueType, text_size: usize) -> usize {
        self.frames[value_type as usize].text_size(metadata_size(metadata) + text_size + TAG_SIZE)
    }

    /// Appends the envelope of every value to `out`. Before each, `before(index, envelope size, out)` may append bytes in between
    /// (a header, the bytes of a document). `metadata` must be given exactly when the profile has it. `rng` as for [`NonceSequence::take`].
    ///
    /// # Errors
    /// [`KeySpent`] when fewer nonces are left than there are values; then nothing was sealed.
    pub fn seal_many(
        &self,
        metadata: Option<&Metadata>,
        rng: &mut dyn CryptoRng,
        values: &[SealedInput<'_>],
        scratch: &mut SealScratch,
        out: &mut Vec<u8>,
        mut before: impl FnMut(usize, usize, &mut Vec<u8>),
    ) -> Result<(), KeySpent> {
        assert_eq!(metadata.is_some(), self.profile.version.has_metadata(), "metadata as the profile has it");
        let mut nonces = self.nonces.take(rng, values.len() as u64).ok_or(KeySpent)?;
        let mut first = 0;
        while first < values.len() {
            let group = &values[first..first + group_size(&values[first..], metadata_size(metadata))];
            let sealed_nonces = self.seal_group(metadata, group, scratch, &mut nonces);
            let mut sealed = scratch.sealed.as_slice();
            for (i, (value, nonce)) in group.iter().zip(&sealed_nonces).enumerate() {
                let size = self.envelope_size(metadata, value.value_type, value.text.len());
                before(first + i, size, out);
                let (this, rest) = sealed.split_at(metadata_size(metadata) + value.text.len() + TAG_SIZE);
                self.text.append(&self.frames[value.value_type as usize], &nonce.0, this, out);
                sealed = rest;
            }
            first += group.len();
        }
        Ok(())
    }

    /// Seals a group into `scratch.sealed`; gives the nonces that it used.
    fn seal_group(
        &self,
        metadata: Option<&Metadata>,
        group: &[SealedInput<'_>],
        scratch: &mut SealScratch,
        nonces: &mut impl Iterator<Item = Nonce>,
    ) -> [Nonce; GROUP_VALUES_MAX] {
        let SealScratch { plaintexts, sealed, .. } = scratch;
        let mut rest = with_metadata(metadata, group, plaintexts);
        let mut items = [SealItem { nonce: Nonce([0; 12]), aad: &[], plaintext: &[] }; GROUP_VALUES_MAX];
        for (item, value) in items.iter_mut().zip(group) {
            item.nonce = nonces.next().expect("a nonce for each value");
            item.aad = self.associated_data(value.value_type);
            item.plaintext = value.text;
            if metadata.is_some() {
                (item.plaintext, rest) = rest.split_at(metadata_size(metadata) + value.text.len());
            }
        }
        let items = &items[..group.len()];
        sealed.resize(items.iter().map(|item| item.plaintext.len() + TAG_SIZE).sum(), 0);
        self.key.seal_many(items, sealed);
        let mut used = [Nonce([0; 12]); GROUP_VALUES_MAX];
        used.iter_mut().zip(items).for_each(|(nonce, item)| *nonce = item.nonce);
        used
    }

    fn associated_data(&self, value_type: ValueType) -> &[u8] {
        match self.profile.version {
            Version::Tk9d => &self.aad.app,
            Version::Rfvc => &[],
            _ => self.aad.flagged(value_type, self.profile.marking),
        }
    }

    /// Begins to seal a value or file in pieces.
    pub(crate) fn stream(
        &self,
        rng: &mut dyn CryptoRng,
        value_type: ValueType,
    ) -> Result<(Nonce, SealStream), KeySpent> {
        let nonce = self.nonces.take(rng, 1).and_then(|mut range| range.next()).ok_or(KeySpent)?;
        Ok((nonce, self.key.seal_stream(&nonce, self.associated_data(value_type))))
    }

    /// Writes the text before the ciphertext of an envelope.
    pub(crate) fn write_head(&self, value_type: ValueType, nonce: &Nonce, out: &mut Vec<u8>) {
        let frame = &self.frames[value_type as usize];
        out.extend_from_slice(frame.head());
        append_base64(&nonce.0, out);
        out.extend_from_slice(frame.middle());
    }

    pub(crate) fn ephemeral(&self) -> &[u8] {
        &self.aad.ephemeral
    }
}

/// Seals every value under a key of its own: one key agreement each. Otherwise as [`SealingKey::seal_many`].
#[allow(clippy::too_many_arguments)] // A key's worth of arguments and a call's worth: a struct would only rename them.
pub fn seal_each(
    ec: &EcContext,
    recipient: &Recipient,
    profile: Profile,
    metadata: Option<&Metadata>,
    values: &[SealedInput<'_>],
    rng: &mut dyn CryptoRng,
    scratch: &mut SealScratch,
    out: &mut Vec<u8>,
    mut before: impl FnMut(usize, usize, &mut Vec<u8>),
) {
    for (group_index, group) in values.chunks(GROUP_VALUES_MAX).enumerate() {
        let encapsulations = recipient.encapsulate_many(ec, group.len(), rng);
        for (i, (value, encapsulation)) in group.iter().zip(&encapsulations).enumerate() {
            let key = SealingKey::from_encapsulation(encapsulation, recipient.public(), profile, 1, rng);
            let index = group_index * GROUP_VALUES_MAX + i;
            let value = std::slice::from_ref(value);
            key.seal_many(metadata, rng, value, scratch, out, |_, size, out| before(index, size, out))
                .expect("a fresh key seals one value");
        }
    }
}

fn aead_key(version: Version, encapsulation: &Encapsulation) -> AeadKey {
    let derived: Secret<32>;
    let key = match version {
        Version::Rfvc => &encapsulation.shared,
        _ => {
            derived = kdf::derive(&encapsulation.shared, &encapsulation.ephemeral);
            &derived
        }
    };
    AeadKey::new(AeadAlgorithm::Aes256Gcm, key.expose()).expect("32 bytes")
}

pub(crate) fn metadata_size(metadata: Option<&Metadata>) -> usize {
    metadata.map_or(0, |metadata| metadata.encoded.len())
}

/// How many of the first values make a group: at least one.
pub(crate) fn group_size(values: &[SealedInput<'_>], metadata_size: usize) -> usize {
    let mut bytes = 0;
    let fitting = values.iter().take(GROUP_VALUES_MAX).take_while(|value| {
        bytes += metadata_size + value.text.len();
        bytes <= GROUP_BYTES_MAX
    });
    fitting.count().max(1)
}

/// Where there is metadata, every plaintext of the group is put together in `plaintexts`; else nothing is copied.
pub(crate) fn with_metadata<'s>(
    metadata: Option<&Metadata>,
    group: &[SealedInput<'_>],
    plaintexts: &'s mut Vec<u8>,
) -> &'s [u8] {
    plaintexts.clear();
    if let Some(metadata) = metadata {
        for value in group {
            plaintexts.extend_from_slice(&metadata.encoded);
            plaintexts.extend_from_slice(value.text);
        }
    }
    plaintexts
}
