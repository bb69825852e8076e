//! Messages whose tag lies elsewhere, has another length, or whose text is replaced in place.

use zeroize::{Zeroize, Zeroizing};

use super::{ALONE_SIZE_MAX, AeadKey, Nonce, OpenItem, SealItem, TAG_SIZE};
use crate::DecryptFailed;
use crate::ffi::aead::Context;
use crate::ffi::stream_cipher::CipherText;

impl AeadKey {
    /// Encrypts `plaintext` to `ciphertext` and fills `tag` with the leading bytes of the message's tag.
    ///
    /// # Panics
    /// When the texts differ in length, or the algorithm does not take tags of that length
    /// ([`super::AeadAlgorithm::takes_tag_size`]).
    pub fn seal_detached(&self, nonce: &Nonce, aad: &[u8], plaintext: &[u8], ciphertext: &mut [u8], tag: &mut [u8]) {
        self.seal_text(nonce, aad, CipherText::Separate(plaintext, ciphertext), tag);
    }

    /// As [`AeadKey::seal_detached`], in place.
    ///
    /// # Panics
    /// When the algorithm does not take tags of that length.
    pub fn seal_in_place(&self, nonce: &Nonce, aad: &[u8], text: &mut [u8], tag: &mut [u8]) {
        self.seal_text(nonce, aad, CipherText::InPlace(text), tag);
    }

    /// Decrypts `ciphertext` to `plaintext`. On failure the plaintext is zeros.
    ///
    /// # Errors
    /// [`DecryptFailed`] for a wrong tag, key, nonce or associated data, and for a tag of a length that the algorithm does not take.
    ///
    /// # Panics
    /// When the texts differ in length.
    pub fn open_detached(
        &self,
        nonce: &Nonce,
        aad: &[u8],
        ciphertext: &[u8],
        plaintext: &mut [u8],
        tag: &[u8],
    ) -> Result<(), DecryptFailed> {
        let opened = self.open_text(nonce, aad, CipherText::Separate(ciphertext, plaintext), tag);
        if !opened {
            plaintext.zeroize();
        }
        opened.then_some(()).ok_or(DecryptFailed)
    }

    /// As [`AeadKey::open_detached`], in place: on failure the text is zeros, and the ciphertext is lost.
    ///
    /// # Errors
    /// As [`AeadKey::open_detached`].
    pub fn open_in_place(&self, nonce: &Nonce, aad: &[u8], text: &mut [u8], tag: &[u8]) -> Result<(), DecryptFailed> {
        let opened = self.open_text(nonce, aad, CipherText::InPlace(text), tag);
        if !opened {
            text.zeroize();
        }
        opened.then_some(()).ok_or(DecryptFailed)
    }

    fn seal_text(&self, nonce: &Nonce, aad: &[u8], text: CipherText<'_>, tag: &mut [u8]) {
        assert!(self.algorithm.takes_tag_size(tag.len()), "a length of tag that the algorithm takes");
        if let Some(lanes) = self.lanes.as_ref().filter(|_| text.input().len() <= ALONE_SIZE_MAX) {
            let mut sealed = [0; ALONE_SIZE_MAX + TAG_SIZE];
            let size = text.input().len();
            let sealed = &mut sealed[..size + TAG_SIZE];
            lanes.seal(&[SealItem { nonce: *nonce, aad, plaintext: text.input() }], sealed);
            text.output().copy_from_slice(&sealed[..size]);
            tag.copy_from_slice(&sealed[size..][..tag.len()]);
        } else {
            let whole = self.seal_long(&nonce.0, aad, text);
            tag.copy_from_slice(&whole[..tag.len()]);
        }
    }

    fn open_text(&self, nonce: &Nonce, aad: &[u8], text: CipherText<'_>, tag: &[u8]) -> bool {
        if !self.algorithm.takes_tag_size(tag.len()) {
            return false;
        }
        let lanes = self.lanes.as_ref();
        if let Some(lanes) = lanes.filter(|_| text.input().len() <= ALONE_SIZE_MAX && tag.len() == TAG_SIZE) {
            let size = text.input().len();
            let mut sealed = [0; ALONE_SIZE_MAX + TAG_SIZE];
            let sealed = &mut sealed[..size + TAG_SIZE];
            sealed[..size].copy_from_slice(text.input());
            sealed[size..].copy_from_slice(tag);
            let mut opened = [false];
            let mut plaintext = Zeroizing::new([0; ALONE_SIZE_MAX]);
            lanes.open(&[OpenItem { nonce: *nonce, aad, sealed }], &mut plaintext[..size], &mut opened);
            text.output().copy_from_slice(&plaintext[..size]);
            return opened[0];
        }
        if tag.len() == TAG_SIZE {
            return self.open_long(&nonce.0, aad, text, tag);
        }
        let context = || Context::new(self.algorithm, self.bytes(), tag.len());
        let (size, kept) = self.truncated.get_or_init(|| (tag.len(), context()));
        if *size == tag.len() { kept.open(&nonce.0, aad, text, tag) } else { context().open(&nonce.0, aad, text, tag) }
    }
}
