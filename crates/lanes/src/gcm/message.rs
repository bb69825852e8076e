//! The differences between encryption and decryption: which side of the cipher is hashed, and the use of the tag.

use super::vector::BLOCK_SIZE;
use super::{NONCE_SIZE, OpenItem, SealItem, TAG_SIZE, XaesNonce, XaesOpenItem, XaesSealItem};

/// A message to be sealed or opened.
pub(super) trait LaneMessage {
    /// The input is ciphertext, and its tag follows.
    const IS_SEALED: bool;
    /// Bytes of tag in the output.
    const TAG_OUT: usize = if Self::IS_SEALED { 0 } else { TAG_SIZE };

    fn nonce(&self) -> &[u8; NONCE_SIZE];
    fn aad(&self) -> &[u8];
    /// The text, and its tag where it is sealed.
    fn input(&self) -> &[u8];

    /// Bytes of text.
    #[inline(always)]
    fn size(&self) -> usize {
        self.input().len() - if Self::IS_SEALED { TAG_SIZE } else { 0 }
    }

    /// Blocks of text.
    #[inline(always)]
    fn blocks(&self) -> usize {
        self.size().div_ceil(BLOCK_SIZE)
    }

    /// The bits of associated data and of text, as the hash takes them in at the end; reversed.
    #[inline(always)]
    fn lengths(&self) -> [u64; 2] {
        [8 * self.size() as u64, 8 * self.aad().len() as u64]
    }
}

impl LaneMessage for SealItem<'_> {
    const IS_SEALED: bool = false;

    #[inline(always)]
    fn nonce(&self) -> &[u8; NONCE_SIZE] {
        &self.nonce.0
    }

    #[inline(always)]
    fn aad(&self) -> &[u8] {
        self.aad
    }

    #[inline(always)]
    fn input(&self) -> &[u8] {
        self.plaintext
    }
}

impl LaneMessage for OpenItem<'_> {
    const IS_SEALED: bool = true;

    #[inline(always)]
    fn nonce(&self) -> &[u8; NONCE_SIZE] {
        &self.nonce.0
    }

    #[inline(always)]
    fn aad(&self) -> &[u8] {
        self.aad
    }

    #[inline(always)]
    fn input(&self) -> &[u8] {
        self.sealed
    }
}

/// The nonce of XAES-256-GCM, of which [`LaneMessage::nonce`] is the suffix.
pub(super) trait XaesMessage: LaneMessage {
    fn xaes_nonce(&self) -> &XaesNonce;
}

impl LaneMessage for XaesSealItem<'_> {
    const IS_SEALED: bool = false;

    #[inline(always)]
    fn nonce(&self) -> &[u8; NONCE_SIZE] {
        self.nonce.suffix()
    }

    #[inline(always)]
    fn aad(&self) -> &[u8] {
        self.aad
    }

    #[inline(always)]
    fn input(&self) -> &[u8] {
        self.plaintext
    }
}

impl XaesMessage for XaesSealItem<'_> {
    #[inline(always)]
    fn xaes_nonce(&self) -> &XaesNonce {
        &self.nonce
    }
}

impl LaneMessage for XaesOpenItem<'_> {
    const IS_SEALED: bool = true;

    #[inline(always)]
    fn nonce(&self) -> &[u8; NONCE_SIZE] {
        self.nonce.suffix()
    }

    #[inline(always)]
    fn aad(&self) -> &[u8] {
        self.aad
    }

    #[inline(always)]
    fn input(&self) -> &[u8] {
        self.sealed
    }
}

impl XaesMessage for XaesOpenItem<'_> {
    #[inline(always)]
    fn xaes_nonce(&self) -> &XaesNonce {
        &self.nonce
    }
}
