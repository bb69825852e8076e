//! Sealing with a symmetric key: as [`crate::SealingKey`] does, without a key agreement.

use std::sync::{Arc, Mutex, PoisonError};

use leafseal_crypto::CryptoRng;
use leafseal_crypto::aead::TAG_SIZE;
use leafseal_crypto::symmetric::SymmetricKey;
use leafseal_crypto::text_kernel;
use leafseal_crypto::xaes::{XAES_NONCE_SIZE, XaesNonce, XaesNonces, XaesSealItem};
use leafseal_lanes::text::{Kernel, NONCE_TEXT_SIZE as HALF_TEXT_SIZE, SymmetricFrame, encoded_size};

use super::format::{NONCE_TEXT_SIZE, flags};
use crate::base64::append_base64;
use crate::binding::Binding;
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
    text: Kernel,
}

/// What values of one type have in common.
struct TypeParts {
    /// The text before the nonce.
    head: Vec<u8>,
    aad: Vec<u8>,
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
        let by_type = ValueType::ALL.map(|value_type| {
            let mut head = Head::write(profile.marking, profile.version.text(), value_type);
            append_base64(&key.id().0, &mut head);
            head.push(b':');
            let mut aad = Vec::new();
            binding.write(profile.version, flags(value_type, profile.marking), key.id(), &mut aad);
            TypeParts { head, aad }
        });
        Self { key, profile, nonces, by_type, text }
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
        let head = self.by_type[value_type as usize].head.len();
        head + NONCE_TEXT_SIZE + 1 + encoded_size(sealed) + SUFFIX.len()
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
        mut before: impl FnMut(usize, usize, &mut Vec<u8>),
    ) {
        assert_eq!(metadata.is_some(), self.profile.version.has_metadata(), "metadata as the profile has it");
        let mut frames = Frames::default();
        let mut first = 0;
        while first < values.len() {
            let group = &values[first..first + group_size(&values[first..], metadata_size(metadata))];
            let nonces = self.seal_group(metadata, rng, group, scratch);
            let mut sealed = scratch.sealed.as_slice();
            for (i, (value, nonce)) in group.iter().zip(&nonces).enumerate() {
                let size = self.envelope_size(metadata, value.value_type, value.text.len());
                before(first + i, size, out);
                let (this, rest) = sealed.split_at(metadata_size(metadata) + value.text.len() + TAG_SIZE);
                let frame = frames.frame(value.value_type, &self.by_type, nonce, self.text);
                self.text.append_symmetric(frame, nonce.suffix(), this, out);
                sealed = rest;
            }
            first += group.len();
        }
    }

    /// Seals a group into `scratch.sealed`; gives the nonces that it used.
    fn seal_group(
        &self,
        metadata: Option<&Metadata>,
        rng: &mut dyn CryptoRng,
        group: &[SealedInput<'_>],
        scratch: &mut SealScratch,
    ) -> [XaesNonce; GROUP_VALUES_MAX] {
        let SealScratch { plaintexts, sealed } = scratch;
        let mut rest = with_metadata(metadata, group, plaintexts);
        let mut nonces = [XaesNonce([0; XAES_NONCE_SIZE]); GROUP_VALUES_MAX];
        self.take_nonces(rng, &mut nonces[..group.len()]);
        let mut items = [XaesSealItem { nonce: nonces[0], aad: &[], plaintext: &[] }; GROUP_VALUES_MAX];
        for ((item, nonce), value) in items.iter_mut().zip(&nonces).zip(group) {
            item.nonce = *nonce;
            item.aad = &self.by_type[value.value_type as usize].aad;
            item.plaintext = value.text;
            if metadata.is_some() {
                (item.plaintext, rest) = rest.split_at(metadata_size(metadata) + value.text.len());
            }
        }
        let items = &items[..group.len()];
        sealed.resize(items.iter().map(|item| item.plaintext.len() + TAG_SIZE).sum(), 0);
        self.key.seal_many(items, sealed);
        nonces
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

    /// Begins the envelope of a value in pieces.
    pub fn seal_long(
        &self,
        metadata: Option<&Metadata>,
        rng: &mut dyn CryptoRng,
        value_type: ValueType,
        out: &mut Vec<u8>,
    ) -> LongSealing {
        assert_eq!(metadata.is_some(), self.profile.version.has_metadata(), "metadata as the profile has it");
        let mut nonce = [XaesNonce([0; XAES_NONCE_SIZE])];
        self.take_nonces(rng, &mut nonce);
        let TypeParts { head, aad } = &self.by_type[value_type as usize];
        out.extend_from_slice(head);
        append_base64(&nonce[0].0, out);
        out.push(b':');
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
    fn frame(
        &mut self,
        value_type: ValueType,
        by_type: &[TypeParts; 3],
        nonce: &XaesNonce,
        text: Kernel,
    ) -> &SymmetricFrame {
        let made = &mut self.made[value_type as usize];
        if made.as_ref().is_none_or(|(prefix, _)| prefix != nonce.prefix()) {
            let head = &by_type[value_type as usize].head;
            let mut whole = [0; HEAD_SIZE_MAX];
            let size = head.len() + HALF_TEXT_SIZE;
            whole[..head.len()].copy_from_slice(head);
            text.encode(nonce.prefix(), &mut whole[head.len()..size]);
            *made = Some((*nonce.prefix(), SymmetricFrame::new(&whole[..size], b":", SUFFIX)));
        }
        &made.as_ref().expect("made").1
    }
}
