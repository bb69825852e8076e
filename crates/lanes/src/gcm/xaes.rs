//! Messages of XAES-256-GCM (C2SP, <https://c2sp.org/XAES-256-GCM>): AES-256-GCM under a key that is derived from a long-lived one and from
//! the first half of a nonce of 192 bits.

use super::{NONCE_SIZE, Nonce, OpenItem, SealItem};

/// Bytes of an [`XaesNonce`].
pub const XAES_NONCE_SIZE: usize = 2 * NONCE_SIZE;

/// A 192-bit nonce: a prefix, which selects the key, and the nonce under that key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct XaesNonce(pub [u8; XAES_NONCE_SIZE]);

impl XaesNonce {
    /// The first half. Neighbours of one call with an equal prefix share the derivation of their key.
    #[inline]
    pub fn prefix(&self) -> &[u8; NONCE_SIZE] {
        self.0.first_chunk().expect("half of the bytes")
    }

    /// The second half: the nonce of AES-256-GCM.
    #[inline]
    pub fn suffix(&self) -> &[u8; NONCE_SIZE] {
        self.0.last_chunk().expect("half of the bytes")
    }
}

/// One message to seal.
#[derive(Clone, Copy)]
pub struct XaesSealItem<'a> {
    /// Never used before under this key.
    pub nonce: XaesNonce,
    /// Associated data. Neighbours with an equal prefix that pass the same slice, in place and length, share its hashing.
    pub aad: &'a [u8],
    /// The text to encrypt.
    pub plaintext: &'a [u8],
}

impl<'a> XaesSealItem<'a> {
    /// The message of AES-256-GCM under the key of the prefix.
    pub fn under_prefix(&self) -> SealItem<'a> {
        SealItem { nonce: Nonce(*self.nonce.suffix()), aad: self.aad, plaintext: self.plaintext }
    }
}

/// One message to open.
#[derive(Clone, Copy)]
pub struct XaesOpenItem<'a> {
    /// The nonce of the encryption.
    pub nonce: XaesNonce,
    /// The associated data of the encryption. Neighbours with an equal prefix that pass the same slice share its hashing.
    pub aad: &'a [u8],
    /// Ciphertext followed by the tag.
    pub sealed: &'a [u8],
}

impl<'a> XaesOpenItem<'a> {
    /// The message of AES-256-GCM under the key of the prefix.
    pub fn under_prefix(&self) -> OpenItem<'a> {
        OpenItem { nonce: Nonce(*self.nonce.suffix()), aad: self.aad, sealed: self.sealed }
    }
}
