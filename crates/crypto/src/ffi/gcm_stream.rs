//! BoringSSL's `EVP_CIPHER` in GCM mode, for messages that come in pieces: the context keeps its place in the message between calls.

use std::ptr::{NonNull, null, null_mut};

use boring_sys as bssl;
use leafseal_lanes::gcm::{NONCE_SIZE, TAG_SIZE};

use super::stream_cipher::CipherText;
use crate::types::aead::AeadAlgorithm;

/// Whether a message is sealed or opened.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum CipherDirection {
    Seal,
    Open,
}

/// An owned `EVP_CIPHER_CTX` in the middle of a message.
pub(crate) struct GcmStream(NonNull<bssl::EVP_CIPHER_CTX>);

// SAFETY: the context is not bound to the thread that made it.
unsafe impl Send for GcmStream {}

impl GcmStream {
    /// `key` has the algorithm's length (checked by [`crate::AeadKey::new`]).
    ///
    /// # Panics
    /// For an algorithm that is not GCM, and for an empty nonce.
    pub(crate) fn new(
        algorithm: AeadAlgorithm,
        key: &[u8],
        nonce: &[u8],
        aad: &[u8],
        direction: CipherDirection,
    ) -> Self {
        assert_eq!(key.len(), algorithm.key_size());
        let nonce_size = i32::try_from(nonce.len()).expect("a nonce shorter than 2 GiB");
        assert_ne!(nonce_size, 0, "a nonce that is not empty");
        // SAFETY: takes no argument; returns an owned context or null.
        let context = NonNull::new(unsafe { bssl::EVP_CIPHER_CTX_new() });
        let stream = Self(context.expect("only a failed allocation makes no context"));
        // SAFETY: the algorithm pointers are static; `key` has the length that the algorithm reads, `nonce` the length that the context is
        // set to before it is read, both copied by the call; the command takes no data; `aad` is passed with its length.
        let is_ready = unsafe {
            let cipher = match algorithm {
                AeadAlgorithm::Aes128Gcm => bssl::EVP_aes_128_gcm(),
                AeadAlgorithm::Aes192Gcm => bssl::EVP_aes_192_gcm(),
                AeadAlgorithm::Aes256Gcm => bssl::EVP_aes_256_gcm(),
                AeadAlgorithm::ChaCha20Poly1305 => panic!("ChaCha20-Poly1305 has its own stream"),
            };
            let seals = i32::from(direction == CipherDirection::Seal);
            let context = stream.0.as_ptr();
            let set_size = bssl::EVP_CTRL_AEAD_SET_IVLEN;
            bssl::EVP_CipherInit_ex(context, cipher, null_mut(), null(), null(), seals) == 1
                && (nonce.len() == NONCE_SIZE
                    || bssl::EVP_CIPHER_CTX_ctrl(context, set_size, nonce_size, null_mut()) == 1)
                && bssl::EVP_CipherInit_ex(context, null(), null_mut(), key.as_ptr(), nonce.as_ptr(), seals) == 1
                && bssl::EVP_CipherUpdateAAD(context, aad.as_ptr(), aad.len()) == 1
        };
        assert!(is_ready, "a key, a nonce and associated data of lengths that GCM takes");
        stream
    }

    /// The next piece of the message.
    pub(crate) fn update(&mut self, text: CipherText<'_>) {
        let (input, output, size) = text.pointers();
        let mut written = 0;
        // SAFETY: both pointers come with their length and are equal or apart; GCM holds nothing back, so that as much is written as
        // is read.
        let updated = unsafe { bssl::EVP_CipherUpdate_ex(self.0.as_ptr(), output, &mut written, size, input, size) };
        assert!(updated == 1 && written == size, "a message within PLAINTEXT_SIZE_MAX");
    }

    /// The tag of the sealed message.
    pub(crate) fn tag(self) -> [u8; TAG_SIZE] {
        let mut tag = [0; TAG_SIZE];
        let is_whole = self.finish() && self.control(bssl::EVP_CTRL_AEAD_GET_TAG, &mut tag);
        assert!(is_whole, "a stream that seals has a tag");
        tag
    }

    /// Whether `tag`, from 1 to 16 bytes long, is that of the opened message.
    pub(crate) fn verify(self, tag: &[u8]) -> bool {
        // The call takes a mutable pointer for both directions.
        let mut copy = [0; TAG_SIZE];
        let copy = &mut copy[..tag.len()];
        copy.copy_from_slice(tag);
        assert!(self.control(bssl::EVP_CTRL_AEAD_SET_TAG, copy), "a stream that opens takes a tag");
        let is_right = self.finish();
        if !is_right {
            super::clear_errors();
        }
        is_right
    }

    fn control(&self, command: i32, tag: &mut [u8]) -> bool {
        // SAFETY: both commands read or write exactly the number of bytes that they are given.
        unsafe { bssl::EVP_CIPHER_CTX_ctrl(self.0.as_ptr(), command, tag.len() as i32, tag.as_mut_ptr().cast()) == 1 }
    }

    /// Ends the message; false for a wrong tag.
    fn finish(&self) -> bool {
        let (mut nothing, mut written) = ([0; TAG_SIZE], 0);
        // SAFETY: a final call of GCM writes nothing; the buffer has room for a block all the same.
        unsafe { bssl::EVP_CipherFinal_ex2(self.0.as_ptr(), nothing.as_mut_ptr(), &mut written, nothing.len()) == 1 }
    }
}

impl Drop for GcmStream {
    fn drop(&mut self) {
        // SAFETY: the pointer came from EVP_CIPHER_CTX_new and is freed once; OPENSSL_free wipes what it frees (mem.h).
        unsafe { bssl::EVP_CIPHER_CTX_free(self.0.as_ptr()) }
    }
}
