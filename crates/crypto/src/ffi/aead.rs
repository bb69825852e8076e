//! BoringSSL's `EVP_AEAD`, with a context for each key: `EVP_AEAD_CTX_seal_scatter` and `EVP_AEAD_CTX_open_gather` take separate input
//! and output and any number of threads may use one context at once (aead.h, "AEAD operations").

use std::ptr::{NonNull, null};

use boring_sys as bssl;

use leafseal_lanes::gcm::TAG_SIZE;

use super::stream_cipher::CipherText;
use crate::types::aead::AeadAlgorithm;

/// An owned `EVP_AEAD_CTX`.
pub(crate) struct Context(NonNull<bssl::EVP_AEAD_CTX>);

// SAFETY: the context is not bound to the thread that made it.
unsafe impl Send for Context {}
// SAFETY: sealing and opening take the context as const; aead.h allows concurrent calls on one context.
unsafe impl Sync for Context {}

impl Context {
    /// `key` has the algorithm's length (checked by [`crate::AeadKey::new`]), `tag_size` is one that it accepts.
    pub(crate) fn new(algorithm: AeadAlgorithm, key: &[u8], tag_size: usize) -> Self {
        assert_eq!(key.len(), algorithm.key_size());
        assert!((1..=TAG_SIZE).contains(&tag_size));
        // SAFETY: the algorithm pointers are static; `key` is readable for its length and copied by the call.
        let context = unsafe {
            let aead = match algorithm {
                AeadAlgorithm::Aes128Gcm => bssl::EVP_aead_aes_128_gcm(),
                AeadAlgorithm::Aes192Gcm => bssl::EVP_aead_aes_192_gcm(),
                AeadAlgorithm::Aes256Gcm => bssl::EVP_aead_aes_256_gcm(),
                AeadAlgorithm::ChaCha20Poly1305 => bssl::EVP_aead_chacha20_poly1305(),
            };
            bssl::EVP_AEAD_CTX_new(aead, key.as_ptr(), key.len(), tag_size)
        };
        Self(NonNull::new(context).expect("only a failed allocation makes no context"))
    }

    /// Returns the whole tag. The context was made for whole tags.
    pub(crate) fn seal(&self, nonce: &[u8], aad: &[u8], text: CipherText<'_>) -> [u8; TAG_SIZE] {
        let (plaintext, ciphertext, size) = text.pointers();
        let (mut tag, mut tag_size) = ([0; TAG_SIZE], 0);
        // SAFETY: every pointer comes with the length of its slice; input and output have the same length and are equal, which aead.h
        // allows, or apart.
        let sealed = unsafe {
            bssl::EVP_AEAD_CTX_seal_scatter(
                self.0.as_ptr(),
                ciphertext,
                tag.as_mut_ptr(),
                &mut tag_size,
                tag.len(),
                nonce.as_ptr(),
                nonce.len(),
                plaintext,
                size,
                null(),
                0,
                aad.as_ptr(),
                aad.len(),
            )
        };
        assert!(
            sealed == 1 && tag_size == TAG_SIZE,
            "sealing fails only past PLAINTEXT_SIZE_MAX and for an empty nonce"
        );
        tag
    }

    /// Whether the tag was right; it has the length that the context was made for, or is not. The output is unspecified on failure.
    pub(crate) fn open(&self, nonce: &[u8], aad: &[u8], text: CipherText<'_>, tag: &[u8]) -> bool {
        let (ciphertext, plaintext, size) = text.pointers();
        // SAFETY: as in `seal`.
        let opened = unsafe {
            bssl::EVP_AEAD_CTX_open_gather(
                self.0.as_ptr(),
                plaintext,
                nonce.as_ptr(),
                nonce.len(),
                ciphertext,
                size,
                tag.as_ptr(),
                tag.len(),
                aad.as_ptr(),
                aad.len(),
            )
        };
        if opened != 1 {
            super::clear_errors();
        }
        opened == 1
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        // SAFETY: the pointer came from EVP_AEAD_CTX_new and is freed once; OPENSSL_free wipes what it frees (mem.h).
        unsafe { bssl::EVP_AEAD_CTX_free(self.0.as_ptr()) }
    }
}

/// The AES-GCM implementation on this CPU, as BoringSSL selects it (crypto/fipsmodule/aes/gcm.cc.inc: AVX-512, else AVX2 with VAES,
/// else AES-NI).
pub(crate) fn acceleration() -> &'static str {
    #[cfg(target_arch = "x86_64")]
    {
        let vaes = is_x86_feature_detected!("vaes") && is_x86_feature_detected!("vpclmulqdq");
        if vaes && is_x86_feature_detected!("avx512bw") && is_x86_feature_detected!("avx512vl") {
            return "VAES with AVX-512";
        }
        if vaes && is_x86_feature_detected!("avx2") {
            return "VAES with AVX2";
        }
        if is_x86_feature_detected!("aes") && is_x86_feature_detected!("pclmulqdq") {
            return "AES-NI";
        }
    }
    #[cfg(target_arch = "aarch64")]
    if std::arch::is_aarch64_feature_detected!("aes") {
        return "ARMv8 AES";
    }
    "constant-time portable code"
}
