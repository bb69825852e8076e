//! The text of a symmetric envelope: `ev:[debug:]<VER>:[string:|number:|boolean:]<key id>:<nonce>:<ciphertext>:$`, three parts of base64 as
//! the envelopes to a public key have them, so that patterns made for those match.

use leafseal_crypto::aead::TAG_SIZE;
use leafseal_crypto::symmetric::{KEY_ID_SIZE, SymmetricKeyId};
use leafseal_crypto::text_kernel;
use leafseal_crypto::xaes::{XAES_NONCE_SIZE, XaesNonce};
use leafseal_lanes::text::encoded_size;

use crate::parts::{
    CiphertextText, Head, Malformed, Marking, SUFFIX, VERSION_TEXT_SIZE, ValueType, decode_exact, split_part,
};
use crate::versions::SymmetricVersion;

/// 16 bytes in base64.
pub(super) const KEY_ID_TEXT_SIZE: usize = encoded_size(KEY_ID_SIZE);
/// 24 bytes in base64: no padding arises.
pub(super) const NONCE_TEXT_SIZE: usize = encoded_size(XAES_NONCE_SIZE);

/// Bytes of a symmetric envelope beside its value: prefix, version, key id, nonce, tag and suffix. The value itself takes four thirds of
/// its size, rounded up. The type of a number or a boolean, metadata and the debug mark come in addition.
pub const SYMMETRIC_OVERHEAD: usize =
    3 + VERSION_TEXT_SIZE + 1 + KEY_ID_TEXT_SIZE + 1 + NONCE_TEXT_SIZE + 1 + encoded_size(TAG_SIZE) + SUFFIX.len();

/// A symmetric envelope taken apart. The ciphertext is still base64.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SymmetricEnvelope<'a> {
    /// Live or debug; authenticated.
    pub marking: Marking,
    /// The format version; authenticated.
    pub version: SymmetricVersion,
    /// The type; authenticated.
    pub value_type: ValueType,
    /// The symmetric key that it names.
    pub key_id: SymmetricKeyId,
    /// The nonce.
    pub nonce: XaesNonce,
    /// The text before the nonce.
    head: &'a [u8],
    pub(crate) ciphertext: CiphertextText<'a>,
}

impl<'a> SymmetricEnvelope<'a> {
    /// Takes the parts after `head` apart.
    pub(crate) fn after(head: &Head<'a>, text: &'a [u8], version: SymmetricVersion) -> Result<Self, Malformed> {
        let (id_text, rest) = split_part(head.rest, KEY_ID_TEXT_SIZE).ok_or(Malformed::KeyId)?;
        let key_id = SymmetricKeyId(decode_exact(id_text).ok_or(Malformed::KeyId)?);
        let (nonce, ciphertext) = nonce_and_ciphertext(rest)?;
        let (marking, value_type) = (head.marking, head.value_type);
        let head = &text[..head.text.len() + KEY_ID_TEXT_SIZE + 1];
        Ok(Self { marking, version, value_type, key_id, nonce, head, ciphertext })
    }

    /// Parses `text` and appends it to `run`, if it has the key id of the envelopes there and is of this scheme. What equals the last of
    /// `run` is compared instead of parsed again.
    ///
    /// # Errors
    /// [`Malformed`] if it is not such an envelope; then `run` is as it was.
    pub fn parse_next(text: &'a [u8], run: &mut Vec<Self>) -> Result<(), Malformed> {
        let next = match run.last() {
            Some(last) if text.starts_with(last.head) => {
                let rest = text[last.head.len()..].strip_suffix(&SUFFIX).ok_or(Malformed::CutShort)?;
                let (nonce, ciphertext) = nonce_and_ciphertext(rest)?;
                Self { nonce, ciphertext, ..*last }
            }
            _ => {
                let head = Head::split(text)?;
                let version = SymmetricVersion::from_text(head.label).ok_or(Malformed::UnknownVersion)?;
                Self::after(&head, text, version)?
            }
        };
        run.push(next);
        Ok(())
    }

    /// Bytes of ciphertext and tag together.
    pub fn sealed_size(&self) -> usize {
        self.ciphertext.sealed_size()
    }

    /// The bits of type and marking in the associated data.
    pub(super) fn flags(&self) -> u8 {
        flags(self.value_type, self.marking)
    }
}

/// The type in the upper half; 1 for `debug`.
pub(super) fn flags(value_type: ValueType, marking: Marking) -> u8 {
    (value_type as u8) << 4 | u8::from(marking == Marking::Debug)
}

fn nonce_and_ciphertext(rest: &[u8]) -> Result<(XaesNonce, CiphertextText<'_>), Malformed> {
    let (nonce_text, ciphertext) = split_part(rest, NONCE_TEXT_SIZE).ok_or(Malformed::Nonce)?;
    let mut nonce = XaesNonce([0; XAES_NONCE_SIZE]);
    if !text_kernel().decode(nonce_text, &mut nonce.0) {
        return Err(Malformed::Nonce);
    }
    Ok((nonce, CiphertextText::parse(ciphertext)?))
}
