//! Opening with a symmetric key.

use leafseal_crypto::aead::{OpenStream, TAG_SIZE};
use leafseal_crypto::symmetric::SymmetricKey;
use leafseal_crypto::xaes::{XAES_NONCE_SIZE, XaesNonce, XaesOpenItem};

use super::format::SymmetricEnvelope;
use crate::binding::{Binding, Bindings};
use crate::file::SymmetricFile;
use crate::open::{
    EnvelopeForm, GROUP_BYTES_MAX, GROUP_VALUES_MAX, OpenError, OpenScratch, OpenedValue, decode_group, interpret,
};

/// A symmetric key, and what the values to open are bound to.
#[derive(Debug, Clone, Copy)]
pub struct SymmetricOpening<'k> {
    key: &'k SymmetricKey,
    bindings: Bindings<'k>,
}

impl<'k> SymmetricOpening<'k> {
    /// For values that are bound to `binding`.
    pub fn new(key: &'k SymmetricKey, binding: &'k Binding) -> Self {
        Self::bound(key, Bindings::One(binding))
    }

    /// For values of which the first of each call is bound to the first of `bindings`, and so on.
    pub fn bound(key: &'k SymmetricKey, bindings: Bindings<'k>) -> Self {
        Self { key, bindings }
    }

    /// Opens every envelope on its own and hands each result to `each` with its index, in order. One bad envelope spoils only itself.
    ///
    /// # Panics
    /// When an envelope names another key, or has no binding.
    pub fn open_many(
        &self,
        envelopes: &[SymmetricEnvelope<'_>],
        scratch: &mut OpenScratch,
        mut each: impl FnMut(usize, Result<OpenedValue<'_>, OpenError>),
    ) {
        let mut first = 0;
        while first < envelopes.len() {
            let group = &envelopes[first..first + group_size(&envelopes[first..])];
            self.open_group(group, self.bindings.from(first), scratch, |i, result| each(first + i, result));
            first += group.len();
        }
    }

    /// Opens one envelope.
    ///
    /// # Errors
    /// [`OpenError::Malformed`] when the ciphertext is not base64; [`OpenError::DecryptFailed`] for everything that key and binding decide.
    ///
    /// # Panics
    /// When the envelope names another key.
    pub fn open<'s>(
        &self,
        envelope: &SymmetricEnvelope<'_>,
        scratch: &'s mut OpenScratch,
    ) -> Result<OpenedValue<'s>, OpenError> {
        let mut result = Err(OpenError::DecryptFailed);
        self.open_many(std::slice::from_ref(envelope), scratch, |_, opened| result = opened.map(|_| ()));
        result?;
        interpret(envelope.value_type, envelope.version.has_metadata(), &scratch.plaintext, EnvelopeForm::Standard)
    }

    fn open_group(
        &self,
        group: &[SymmetricEnvelope<'_>],
        bindings: Bindings<'_>,
        scratch: &mut OpenScratch,
        mut each: impl FnMut(usize, Result<OpenedValue<'_>, OpenError>),
    ) {
        let OpenScratch { sealed, plaintext, associated } = scratch;
        let decoded = decode_group(group.iter().map(|envelope| envelope.ciphertext), sealed);
        let ends = self.write_associated(group, bindings, associated);
        let mut rest = sealed.as_slice();
        let nonce = XaesNonce([0; XAES_NONCE_SIZE]);
        let mut items = [XaesOpenItem { nonce, aad: &[], sealed: &[] }; GROUP_VALUES_MAX];
        for (i, (item, envelope)) in items.iter_mut().zip(group).enumerate() {
            item.nonce = envelope.nonce;
            item.aad = &associated[ends[i].0..ends[i].1];
            (item.sealed, rest) = rest.split_at(envelope.sealed_size());
        }
        let items = &items[..group.len()];
        plaintext.resize(items.iter().map(|item| item.sealed.len() - TAG_SIZE).sum(), 0);
        let mut results = [Ok(()); GROUP_VALUES_MAX];
        self.key.open_many(items, plaintext, &mut results[..group.len()]);

        let mut rest = plaintext.as_slice();
        for (i, envelope) in group.iter().enumerate() {
            let (opened, after) = rest.split_at(items[i].sealed.len() - TAG_SIZE);
            rest = after;
            let has_metadata = envelope.version.has_metadata();
            each(
                i,
                match (decoded[i], results[i]) {
                    (Err(malformed), _) => Err(OpenError::Malformed(malformed)),
                    (Ok(()), Err(_)) => Err(OpenError::DecryptFailed),
                    (Ok(()), Ok(())) => interpret(envelope.value_type, has_metadata, opened, EnvelopeForm::Standard),
                },
            );
        }
    }

    /// Writes the associated data of a group: one for neighbours of one version, type, marking and binding. Gives the place of each.
    fn write_associated(
        &self,
        group: &[SymmetricEnvelope<'_>],
        bindings: Bindings<'_>,
        associated: &mut Vec<u8>,
    ) -> [(usize, usize); GROUP_VALUES_MAX] {
        associated.clear();
        let mut places = [(0, 0); GROUP_VALUES_MAX];
        let kind = |i: usize| (group[i].version, group[i].flags());
        for (i, envelope) in group.iter().enumerate() {
            assert_eq!(envelope.key_id, self.key.id(), "an envelope of this key");
            let binding = bindings.at(i);
            let is_same = |last: usize| kind(last) == kind(i) && std::ptr::eq(bindings.at(last), binding);
            places[i] = match i.checked_sub(1).filter(|&last| is_same(last)) {
                Some(last) => places[last],
                None => {
                    let start = associated.len();
                    binding.write(envelope.version, envelope.flags(), envelope.key_id, associated);
                    (start, associated.len())
                }
            };
        }
        places
    }

    /// Begins to open a file.
    ///
    /// # Panics
    /// When the file names another key.
    pub(crate) fn file_stream(&self, file: &SymmetricFile<'_>) -> OpenStream {
        assert_eq!(file.key_id, self.key.id(), "a file of this key");
        file.stream(self.key, self.bindings.at(0))
    }

    /// Begins to open an envelope in pieces.
    pub(crate) fn stream(&self, envelope: &SymmetricEnvelope<'_>) -> OpenStream {
        let mut associated = Vec::new();
        self.bindings.at(0).write(envelope.version, envelope.flags(), envelope.key_id, &mut associated);
        self.key.open_stream(&envelope.nonce, &associated)
    }
}

/// How many of the first envelopes make a group: bounded in number and bytes, at least one.
fn group_size(envelopes: &[SymmetricEnvelope<'_>]) -> usize {
    let mut bytes = 0;
    let fitting = envelopes.iter().take(GROUP_VALUES_MAX).take_while(|envelope| {
        bytes += envelope.sealed_size();
        bytes <= GROUP_BYTES_MAX
    });
    fitting.count().max(1)
}
