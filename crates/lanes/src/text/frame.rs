//! The text around the base64 of an encrypted value, the same for many values: `head ‖ nonce ‖ middle ‖ sealed ‖ tail`.
//!
//! The parts are written in order. Head and middle are written with their longest length, so that each copy is a few moves, and the next
//! part overwrites the excess:
//!
//! ```text
//! write HEAD bytes of head,  advance by the head's length
//! write 16 characters of nonce
//! write MIDDLE of middle,   advance by the middle's length
//! write the base64 of the sealed value
//! write 2 bytes of tail
//! ```
//!
//! The excess never reaches beyond the text: [`TextFrame::new`] checks that for the shortest sealed value.

use super::steps::{Base64Steps, NonceText, encode_to};
use super::{NONCE_TEXT_SIZE, encoded_size};
use crate::gcm::NONCE_SIZE;

/// Longest head in bytes, unless a frame says otherwise.
pub const HEAD_SIZE_MAX: usize = 32;
/// Longest middle in bytes, unless a frame says otherwise.
pub const MIDDLE_SIZE_MAX: usize = 48;
/// Fewest bytes of a sealed value: its tag.
pub const SEALED_SIZE_MIN: usize = crate::gcm::TAG_SIZE;
/// Bytes of a tail.
const TAIL_SIZE: usize = 2;

/// The fixed parts of a sealed value's text, with room for the longest `HEAD` and the longest `MIDDLE` in bytes.
#[derive(Debug, Clone)]
pub struct TextFrame<const HEAD: usize = HEAD_SIZE_MAX, const MIDDLE: usize = MIDDLE_SIZE_MAX> {
    head: [u8; HEAD],
    middle: [u8; MIDDLE],
    tail: [u8; TAIL_SIZE],
    head_size: u8,
    middle_size: u8,
}

/// The frame of a text whose head has a key's id and half of a nonce, and whose middle is a colon.
pub type SymmetricFrame = TextFrame<64, 16>;

impl<const HEAD: usize, const MIDDLE: usize> TextFrame<HEAD, MIDDLE> {
    /// From its three parts.
    ///
    /// # Panics
    /// When head or middle are longer than there is room for, or so short that their excess would reach beyond the
    /// shortest text.
    pub fn new(head: &[u8], middle: &[u8], tail: [u8; TAIL_SIZE]) -> Self {
        let rest = encoded_size(SEALED_SIZE_MIN) + TAIL_SIZE;
        assert!(head.len() + NONCE_TEXT_SIZE + middle.len() + rest >= HEAD, "a text as long as a head");
        assert!(middle.len() + rest >= MIDDLE, "a rest as long as a middle");
        let mut frame = Self {
            head: [0; HEAD],
            middle: [0; MIDDLE],
            tail,
            head_size: head.len() as u8,
            middle_size: middle.len() as u8,
        };
        frame.head[..head.len()].copy_from_slice(head);
        frame.middle[..middle.len()].copy_from_slice(middle);
        frame
    }

    /// Replaces the last 16 characters of the head, half of a nonce: a few moves, where a new frame copies all of it.
    ///
    /// # Panics
    /// When the head is shorter.
    #[inline]
    pub fn replace_head_end(&mut self, end: &[u8; NONCE_TEXT_SIZE]) {
        let size = usize::from(self.head_size);
        self.head[size - NONCE_TEXT_SIZE..size].copy_from_slice(end);
    }

    /// The text before the nonce.
    pub fn head(&self) -> &[u8] {
        &self.head[..self.head_size.into()]
    }

    /// The text between nonce and encrypted value.
    pub fn middle(&self) -> &[u8] {
        &self.middle[..self.middle_size.into()]
    }

    /// The text at the end.
    pub fn tail(&self) -> &[u8] {
        &self.tail
    }

    /// Bytes of the text of `sealed_size` bytes.
    #[inline]
    pub fn text_size(&self, sealed_size: usize) -> usize {
        let fixed = usize::from(self.head_size) + NONCE_TEXT_SIZE + usize::from(self.middle_size) + TAIL_SIZE;
        fixed + encoded_size(sealed_size)
    }

    /// Appends a text.
    #[inline(always)]
    pub(super) fn append<S: Base64Steps>(
        &self,
        cpu: S::Cpu,
        nonce: &[u8; NONCE_SIZE],
        sealed: &[u8],
        out: &mut Vec<u8>,
    ) {
        let size = self.text_size(sealed.len());
        out.reserve(size);
        // SAFETY: room for the text was reserved, and `write` writes all of it.
        unsafe {
            self.write::<S>(cpu, nonce, sealed, out.as_mut_ptr().add(out.len()));
            out.set_len(out.len() + size);
        }
    }

    /// Writes a text.
    ///
    /// # Safety
    /// - `out` must be writable for [`TextFrame::text_size`]`(sealed.len())` bytes, none of which `sealed` has.
    #[inline(always)]
    unsafe fn write<S: Base64Steps>(&self, cpu: S::Cpu, nonce: &[u8; NONCE_SIZE], sealed: &[u8], out: *mut u8) {
        assert!(sealed.len() >= SEALED_SIZE_MIN, "a tag at least");
        // SAFETY: the parts together have the size for which `out` is writable. The excess of head and middle is within it too: `new` has
        // checked that for the shortest sealed value, and this one is not shorter.
        unsafe {
            out.cast::<[u8; HEAD]>().write_unaligned(self.head);
            let out = out.add(self.head_size.into());
            S::encode_nonce(cpu, nonce, &mut *out.cast::<NonceText>());
            let out = out.add(NONCE_TEXT_SIZE);
            out.cast::<[u8; MIDDLE]>().write_unaligned(self.middle);
            let out = out.add(self.middle_size.into());
            encode_to::<S>(cpu, sealed, out);
            out.add(encoded_size(sealed.len())).cast::<[u8; TAIL_SIZE]>().write_unaligned(self.tail);
        }
    }
}
