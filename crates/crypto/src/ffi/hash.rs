//! BoringSSL's SHA-2 and HMAC.

use std::mem::MaybeUninit;

use boring_sys as bssl;

use crate::types::hash::{HashFunction, SHA256_SIZE, SHA512_SIZE};

pub(crate) fn sha256(parts: &[&[u8]], digest: &mut [u8; SHA256_SIZE]) {
    let mut state = MaybeUninit::<bssl::SHA256_CTX>::uninit();
    // SAFETY: Init writes the whole state before Update and Final read it; each part is readable for its length; the digest has
    // room for 32 bytes; the state, which may hold secret input, is wiped in place at the end.
    unsafe {
        bssl::SHA256_Init(state.as_mut_ptr());
        for part in parts {
            bssl::SHA256_Update(state.as_mut_ptr(), part.as_ptr().cast(), part.len());
        }
        bssl::SHA256_Final(digest.as_mut_ptr(), state.as_mut_ptr());
        bssl::OPENSSL_cleanse(state.as_mut_ptr().cast(), size_of::<bssl::SHA256_CTX>());
    }
}

pub(crate) fn hmac_sha256(key: &[u8], message: &[u8]) -> [u8; SHA256_SIZE] {
    let mut tag = [0; SHA256_SIZE];
    let mut tag_size = 0;
    // SAFETY: key and message are readable for their lengths (a dangling pointer with length 0 is never read); the tag has room
    // for SHA-256's 32 bytes.
    let result = unsafe {
        bssl::HMAC(
            bssl::EVP_sha256(),
            key.as_ptr().cast(),
            key.len(),
            message.as_ptr(),
            message.len(),
            tag.as_mut_ptr(),
            &mut tag_size,
        )
    };
    assert!(!result.is_null() && tag_size as usize == SHA256_SIZE, "HMAC fails only without memory");
    tag
}

/// Writes the number of bytes that the function's digests have.
pub(crate) fn digest(hash: HashFunction, message: &[u8], out: &mut [u8; SHA512_SIZE]) {
    // SAFETY: the message is readable for its length, and the output has room for the longest of the digests.
    unsafe {
        match hash {
            HashFunction::Sha256 => bssl::SHA256(message.as_ptr(), message.len(), out.as_mut_ptr()),
            HashFunction::Sha384 => bssl::SHA384(message.as_ptr(), message.len(), out.as_mut_ptr()),
            HashFunction::Sha512 => bssl::SHA512(message.as_ptr(), message.len(), out.as_mut_ptr()),
        };
    }
}
