//! Sealing with a symmetric key: as [`crate::SealingKey`] does, without a key agreement.

use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use leafseal_crypto::CryptoRng;
use leafseal_crypto::aead::TAG_SIZE;
use leafseal_crypto::symmetric::SymmetricKey;
use leafseal_crypto::text_kernel;
use leafseal_crypto::xaes::{XAES_NONCE_SIZE, XaesNonce, XaesNonces, XaesSealItem};
use leafseal_lanes::text::{Kernel, NONCE_TEXT_SIZE as HALF_TEXT_SIZE, SymmetricFrame, encoded_size};

use super::format::{NONCE_TEXT_SIZE, flags};
use crate::base64::append_base64;
use crate::binding::{Binding, Bindings};
use crate::long_sealing::LongSealing;
use crate::metadata::Metadata;
use crate::parts::{Head, Marking, SUFFIX, ValueType};
use crate::seal::{GROUP_VALUES_MAX, SealScratch, SealedInput, group_size, metadata_size, with_metadata};
use crate::versions::SymmetricVersion;

/// Bytes of the longest text up to the middle of the nonce: `ev:debug:WEFF:boolean:`, a key id, a colon, half of a nonce; rounded up.
const HEAD_SIZE_MAX: usize = 64;

/// The properties that are the same for all values of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SymmetricProfile {
    /// Whether metadata precedes the text.
    pub version: SymmetricVersion,
    /// Live or debug.
    pub marking: Marking,
}

/// How often a nonce gets a fresh prefix, with which a fresh key is derived.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoncePrefixes {
    /// Once for all values.
    One,
    /// For each value.
    Each,
}

/// Seals the values of one request. Shared between threads.
pub struct SymmetricSealing {
    key: Arc<SymmetricKey>,
    profile: SymmetricProfile,
    /// Of the one prefix; none where each value has its own.
    nonces: Option<Mutex<XaesNonces>>,
    by_type: [TypeParts; 3],
    /// The parts of all types, one after another: one allocation, which a request of one value notices.
    parts: Vec<u8>,
    text: Kernel,
}

/// Where the parts are that values of one type have in common.
struct TypeParts {
    /// The text before the nonce.
    head: Range<usize>,
    aad: Range<usize>,
}

impl SymmetricSealing {
    /// For values that are bound to `binding`. `rng` must be one that a copy of the process does not continue
    /// ([`leafseal_crypto::random::system_random`]): a copy then repeats nonces at most for a request that was running.
    pub fn new(
        key: Arc<SymmetricKey>,
        profile: SymmetricProfile,
        binding: &Binding,
        prefixes: NoncePrefixes,
        rng: &mut dyn CryptoRng,
    ) -> Self {
        let nonces = (prefixes == NoncePrefixes::One).then(|| Mutex::new(XaesNonces::with_one_prefix(rng)));
        let text = text_kernel();
        let mut parts = Vec::with_capacity(ValueType::ALL.len() * (2 * HEAD_SIZE_MAX + binding.size()));
        let by_type = ValueType::ALL.map(|value_type| {
            let start = parts.len();
            Head::append(profile.marking, profile.version.text(), value_type, &mut parts);
            append_base64(&key.id().0, &mut parts);
            parts.push(b':');
            let middle = parts.len();
            binding.write(profile.version, flags(value_type, profile.marking), key.id(), &mut parts);
            TypeParts { head: start..middle, aad: middle..parts.len() }
        });
        Self { key, profile, nonces, by_type, parts, text }
    }

    /// The text of values of this type before their nonce.
    fn head(&self, value_type: ValueType) -> &[u8] {
        &self.parts[self.by_type[value_type as usize].head.clone()]
    }

    fn prefix_text(&self, nonce: &XaesNonce) -> [u8; HALF_TEXT_SIZE] {
        let mut text = [0; HALF_TEXT_SIZE];
        self.text.encode(nonce.prefix(), &mut text);
        text
    }

    /// The associated data of values of this type, unless they have their own.
    fn aad(&self, value_type: ValueType) -> &[u8] {
        &self.parts[self.by_type[value_type as usize].aad.clone()]
    }

    /// The key.
    pub fn key(&self) -> &Arc<SymmetricKey> {
        &self.key
    }

    /// The profile.
    pub fn profile(&self) -> SymmetricProfile {
        self.profile
    }

    /// Bytes of the envelope of a text of `text_size` bytes.
    pub fn envelope_size(&self, metadata: Option<&Metadata>, value_type: ValueType, text_size: usize) -> usize {
        let sealed = metadata_size(metadata) + text_size + TAG_SIZE;
        self.by_type[value_type as usize].head.len() + NONCE_TEXT_SIZE + 1 + encoded_size(sealed) + SUFFIX.len()
    }

    /// Appends the envelope of every value to `out`. Before each, `before(index, envelope size, out)` may append bytes in between.
    /// `metadata` must be given exactly when the profile has it. `rng` must be one that a copy of the process does not continue
    /// ([`leafseal_crypto::random::system_random`]).
    pub fn seal_many(
        &self,
        metadata: Option<&Metadata>,
        rng: &mut dyn CryptoRng,
        values: &[SealedInput<'_>],
        scratch: &mut SealScratch,
        out: &mut Vec<u8>,
        before: impl FnMut(usize, usize, &mut Vec<u8>),
    ) {
        self.seal(metadata, rng, (values, None), scratch, out, before);
    }

    /// The same for values that are bound each to its own, in place of what the request is bound to.
    ///
    /// # Panics
    /// With fewer bindings than values.
    pub fn seal_bound(
        &self,
        metadata: Option<&Metadata>,
        rng: &mut dyn CryptoRng,
        (values, bindings): (&[SealedInput<'_>], &[Arc<Binding>]),
        scratch: &mut SealScratch,
        out: &mut Vec<u8>,
        before: impl FnMut(usize, usize, &mut Vec<u8>),
    ) {
        self.seal(metadata, rng, (values, Some(Bindings::Each(bindings))), scratch, out, before);
    }

    fn seal(
        &self,
        metadata: Option<&Metadata>,
        rng: &mut dyn CryptoRng,
        (values, bindings): (&[SealedInput<'_>], Option<Bindings<'_>>),
        scratch: &mut SealScratch,
        out: &mut Vec<u8>,
        mut before: impl FnMut(usize, usize, &mut Vec<u8>),
    ) {
        assert_eq!(metadata.is_some(), self.profile.version.has_metadata(), "metadata as the profile has it");
        let mut frames = Frames::default();
        let mut nonces = [XaesNonce([0; XAES_NONCE_SIZE]); GROUP_VALUES_MAX];
        let mut first = 0;
        while first < values.len() {
            let group = &values[first..first + group_size(&values[first..], metadata_size(metadata))];
            let of_group = bindings.map(|bindings| bindings.from(first));
            let nonces = &mut nonces[..group.len()];
            self.seal_group(metadata, rng, (group, of_group), nonces, scratch);
            let mut sealed = scratch.sealed.as_slice();
            for (i, (value, nonce)) in group.iter().zip(&*nonces).enumerate() {
                let size = self.envelope_size(metadata, value.value_type, value.text.len());
                before(first + i, size, out);
                let (this, rest) = sealed.split_at(metadata_size(metadata) + value.text.len() + TAG_SIZE);
                let frame = frames.frame(self, value.value_type, nonce);
                self.text.append_symmetric(frame, nonce.suffix(), this, out);
                sealed = rest;
            }
            first += group.len();
        }
    }

    /// Seals a group into `scratch.sealed`, with nonces that it puts into `nonces`.
    fn seal_group(
        &self,
        metadata: Option<&Metadata>,
        rng: &mut dyn CryptoRng,
        (group, bindings): (&[SealedInput<'_>], Option<Bindings<'_>>),
        nonces: &mut [XaesNonce],
        scratch: &mut SealScratch,
    ) {
        let SealScratch { plaintexts, sealed, associated } = scratch;
        let places = bindings.map(|bindings| self.write_associated(group, bindings, associated));
        let mut rest = with_metadata(metadata, group, plaintexts);
        self.take_nonces(rng, nonces);
        let mut items =
            [XaesSealItem { nonce: XaesNonce([0; XAES_NONCE_SIZE]), aad: &[], plaintext: &[] }; GROUP_VALUES_MAX];
        for (i, ((item, nonce), value)) in items.iter_mut().zip(&*nonces).zip(group).enumerate() {
            item.nonce = *nonce;
            item.aad = match &places {
                None => self.aad(value.value_type),
                Some(places) => &associated[places[i].0..places[i].1],
            };
            item.plaintext = value.text;
            if metadata.is_some() {
                (item.plaintext, rest) = rest.split_at(metadata_size(metadata) + value.text.len());
            }
        }
        let items = &items[..group.len()];
        sealed.resize(items.iter().map(|item| item.plaintext.len() + TAG_SIZE).sum(), 0);
        self.key.seal_many(items, sealed);
    }

    /// Writes the associated data of a group: one for neighbours of one type and binding. Gives the place of each.
    fn write_associated(
        &self,
        group: &[SealedInput<'_>],
        bindings: Bindings<'_>,
        associated: &mut Vec<u8>,
    ) -> [(usize, usize); GROUP_VALUES_MAX] {
        associated.clear();
        let mut places = [(0, 0); GROUP_VALUES_MAX];
        for (i, value) in group.iter().enumerate() {
            let (value_type, binding) = (value.value_type, bindings.at(i));
            let is_same =
                |last: usize| group[last].value_type == value_type && std::ptr::eq(bindings.at(last), binding);
            places[i] = match i.checked_sub(1).filter(|&last| is_same(last)) {
                Some(last) => places[last],
                None => {
                    let start = associated.len();
                    self.write_own(binding, value_type, associated);
                    (start, associated.len())
                }
            };
        }
        places
    }

    /// Appends the associated data of a value of this type that is bound to `binding`.
    fn write_own(&self, binding: &Binding, value_type: ValueType, out: &mut Vec<u8>) {
        let SymmetricProfile { version, marking } = self.profile;
        binding.write(version, flags(value_type, marking), self.key.id(), out);
    }

    /// Fills `nonces`, with one call of `rng` at most.
    fn take_nonces(&self, rng: &mut dyn CryptoRng, nonces: &mut [XaesNonce]) {
        match &self.nonces {
            Some(one) => fill(nonces, &mut one.lock().unwrap_or_else(PoisonError::into_inner)),
            None => {
                let mut each = XaesNonces::with_prefix_each(rng, nonces.len());
                fill(nonces, &mut each);
            }
        }
    }

    /// Begins the envelope of a value in pieces. It is bound to `binding`, or without one to what the request is bound to.
    pub fn seal_long(
        &self,
        metadata: Option<&Metadata>,
        rng: &mut dyn CryptoRng,
        value_type: ValueType,
        binding: Option<&Binding>,
        out: &mut Vec<u8>,
    ) -> LongSealing {
        assert_eq!(metadata.is_some(), self.profile.version.has_metadata(), "metadata as the profile has it");
        let mut nonce = [XaesNonce([0; XAES_NONCE_SIZE])];
        self.take_nonces(rng, &mut nonce);
        out.extend_from_slice(self.head(value_type));
        append_base64(&nonce[0].0, out);
        out.push(b':');
        let mut own = Vec::new();
        let aad = match binding {
            None => self.aad(value_type),
            Some(binding) => {
                self.write_own(binding, value_type, &mut own);
                &own
            }
        };
        LongSealing::begin(self.key.seal_stream(&nonce[0], aad), metadata, out)
    }
}

fn fill(nonces: &mut [XaesNonce], from: &mut XaesNonces) {
    nonces.iter_mut().zip(from).for_each(|(nonce, next)| *nonce = next);
}

/// The text around the second half of the nonce and the ciphertext, by type, for the prefix of the last nonce.
#[derive(Default)]
struct Frames {
    made: [Option<([u8; XAES_NONCE_SIZE / 2], SymmetricFrame)>; 3],
}

impl Frames {
    fn frame(&mut self, of: &SymmetricSealing, value_type: ValueType, nonce: &XaesNonce) -> &SymmetricFrame {
        let (prefix, frame) = self.made[value_type as usize].get_or_insert_with(|| {
            let head = of.head(value_type);
            let (mut whole, size) = ([0; HEAD_SIZE_MAX], head.len() + HALF_TEXT_SIZE);
            whole[..head.len()].copy_from_slice(head);
            whole[head.len()..size].copy_from_slice(&of.prefix_text(nonce));
            (*nonce.prefix(), SymmetricFrame::new(&whole[..size], b":", SUFFIX))
        });
        if prefix != nonce.prefix() {
            *prefix = *nonce.prefix();
            frame.replace_head_end(&of.prefix_text(nonce));
        }
        frame
    }
}
