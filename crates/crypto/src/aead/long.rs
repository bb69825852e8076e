//! Whole messages that lanes do not encrypt: by the library, or long ones of ChaCha20-Poly1305 by their kernel.

use leafseal_lanes::chacha;

use super::chacha_stream::ChaChaStream;
use super::{AeadKey, Nonce, TAG_SIZE};
use crate::ffi::gcm_stream::CipherDirection;
use crate::ffi::stream_cipher::CipherText;
use crate::secret::equal_constant_time;

impl AeadKey {
    /// Through the library, or the kernel for long texts.
    pub(super) fn seal_long(&self, nonce: &[u8], aad: &[u8], text: CipherText<'_>) -> [u8; TAG_SIZE] {
        let Some(mut message) = self.chacha_for(nonce, aad, text.input().len(), CipherDirection::Seal) else {
            return self.context().seal(nonce, aad, text);
        };
        message.update(text);
        message.tag()
    }

    /// The reverse: whether the tag, which is whole, was right. On failure the output must be wiped.
    pub(super) fn open_long(&self, nonce: &[u8], aad: &[u8], text: CipherText<'_>, tag: &[u8]) -> bool {
        let Some(mut message) = self.chacha_for(nonce, aad, text.input().len(), CipherDirection::Open) else {
            return self.context().open(nonce, aad, text, tag);
        };
        message.update(text);
        equal_constant_time(&message.tag(), tag)
    }

    /// A message for the kernel for long texts, if it is long enough.
    fn chacha_for(&self, nonce: &[u8], aad: &[u8], size: usize, direction: CipherDirection) -> Option<ChaChaStream> {
        let kernel = self.chacha.filter(|_| size >= chacha::SIZE_MIN)?;
        let nonce = Nonce(nonce.try_into().ok()?);
        Some(ChaChaStream::new(Some(kernel), self.bytes(), &nonce, aad, direction))
    }
}
