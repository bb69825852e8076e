//! SHA-2 (FIPS 180-4) and HMAC-SHA-256 (RFC 2104), from BoringSSL. Time depends on lengths only.

use zeroize::Zeroize;

use crate::ffi;
use crate::secret::{Secret, equal_constant_time};
pub use crate::types::hash::{HashFunction, SHA256_SIZE, SHA512_SIZE};

/// The output of a [`HashFunction`].
#[derive(Debug, Clone, Copy)]
pub struct Digest {
    bytes: [u8; SHA512_SIZE],
    size: usize,
}

impl AsRef<[u8]> for Digest {
    fn as_ref(&self) -> &[u8] {
        &self.bytes[..self.size]
    }
}

impl HashFunction {
    /// The digest of the concatenation of `parts`.
    pub fn digest(self, parts: &[&[u8]]) -> Digest {
        let mut digest = Digest { bytes: [0; SHA512_SIZE], size: self.size() };
        ffi::hash::digest(self, &parts.concat(), &mut digest.bytes);
        digest
    }
}

/// SHA-256 of the concatenation of `parts`.
pub fn sha256(parts: &[&[u8]]) -> [u8; SHA256_SIZE] {
    let mut digest = [0; SHA256_SIZE];
    ffi::hash::sha256(parts, &mut digest);
    digest
}

/// SHA-256 of the concatenation of `parts` when the digest is itself a secret (key derivation).
pub fn sha256_secret(parts: &[&[u8]]) -> Secret<SHA256_SIZE> {
    let mut digest = Secret::zeroed();
    ffi::hash::sha256(parts, digest.expose_mut());
    digest
}

/// HMAC-SHA-256 of `message` under `key` (any length).
pub fn hmac_sha256(key: &[u8], message: &[u8]) -> [u8; SHA256_SIZE] {
    ffi::hash::hmac_sha256(key, message)
}

/// Whether `tag` (16 to 32 bytes, a leading part of the MAC) authenticates `message`. Constant time in the tag.
pub fn hmac_sha256_verify(key: &[u8], message: &[u8], tag: &[u8]) -> bool {
    let expected = hmac_sha256(key, message);
    (16..=SHA256_SIZE).contains(&tag.len()) && equal_constant_time(&expected[..tag.len()], tag)
}

/// The first 32 bytes of HKDF-SHA-256 (RFC 5869) of `secret` without salt, with `info`.
pub fn hkdf_sha256(secret: &[u8], info: &[u8]) -> Secret<SHA256_SIZE> {
    let mut key = hmac_sha256(&[0; SHA256_SIZE], secret);
    let mut block = hmac_sha256(&key, &[info, &[1]].concat());
    let derived = Secret::from_bytes(&block);
    key.zeroize();
    block.zeroize();
    derived
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 5869, A.3: neither salt nor info.
    #[test]
    fn hkdf_gives_the_published_output() {
        let expected = hex::decode("8da4e775a563c18f715f802a063c5a31b8a11f5c5ee1879ec3454e5f3c738d2d").expect("hex");
        assert_eq!(hkdf_sha256(&[0x0b; 22], b"").expose().as_slice(), expected);
    }

    #[test]
    fn sha256_of_parts_equals_that_of_the_whole() {
        // FIPS 180-4 example: "abc".
        let expected = hex::decode("ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad").expect("hex");
        assert_eq!(sha256(&[b"a", b"", b"bc"]).as_slice(), expected);
        assert_eq!(sha256_secret(&[b"abc"]).expose().as_slice(), expected);
    }

    #[test]
    fn a_short_tag_never_verifies() {
        let tag = hmac_sha256(b"key", b"message");
        assert!(hmac_sha256_verify(b"key", b"message", &tag));
        assert!(hmac_sha256_verify(b"key", b"message", &tag[..16]));
        assert!(!hmac_sha256_verify(b"key", b"message", &tag[..15]));
        assert!(!hmac_sha256_verify(b"key", b"message", b""));
        assert!(!hmac_sha256_verify(b"key", b"messagf", &tag));
    }
}
