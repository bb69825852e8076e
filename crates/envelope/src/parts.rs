//! The parts that the text of every envelope has, whatever its scheme: `ev:[debug:]<VER>:[string:|number:|boolean:]` in front, the base64
//! of ciphertext and tag, and `:$` at the end.

use leafseal_crypto::aead::TAG_SIZE;
use leafseal_crypto::text_kernel;
use leafseal_lanes::text::decoded_size;
use thiserror::Error;

use crate::versions::{SymmetricVersion, Version};

/// The first bytes of every envelope.
const ENVELOPE_PREFIX: &[u8] = b"ev:";
/// The last bytes of every envelope.
pub(crate) const SUFFIX: [u8; 2] = *b":$";
const DEBUG_MARK: &[u8] = b"debug:";
/// Characters of a version.
pub(crate) const VERSION_TEXT_SIZE: usize = 4;

/// The JSON type of a sealed value. The numbers are those of the associated data's flag.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum ValueType {
    /// Any text.
    String = 0,
    /// The JSON text of a number.
    Number = 1,
    /// `true` or `false`.
    Boolean = 2,
}

impl ValueType {
    /// Every type, in the order of their numbers.
    pub const ALL: [ValueType; 3] = [ValueType::String, ValueType::Number, ValueType::Boolean];

    /// `string`, `number` or `boolean`.
    pub fn name(self) -> &'static str {
        match self {
            Self::String => "string",
            Self::Number => "number",
            Self::Boolean => "boolean",
        }
    }

    /// The type label before the IV: empty for strings.
    pub(crate) fn label(self) -> &'static [u8] {
        match self {
            Self::String => b"",
            Self::Number => b"number:",
            Self::Boolean => b"boolean:",
        }
    }
}

/// Whether a value was marked `debug:` by the browser SDK.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Marking {
    /// An ordinary value.
    Live,
    /// Marked `debug:`.
    Debug,
}

/// The reason why a text is not an envelope. No case depends on a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum Malformed {
    /// It does not begin with `ev:`, or neither ends with `:$` nor names a known version.
    #[error("not an envelope: it must begin with \"ev:\" and end with \":$\"")]
    NotAnEnvelope,
    /// It begins as an envelope of a known version but does not end with `:$`.
    #[error("an envelope that was cut short: it does not end with \":$\"")]
    CutShort,
    /// The version is unknown.
    #[error("an envelope of an unknown version")]
    UnknownVersion,
    /// The initialisation vector is not 16 characters of base64.
    #[error("an envelope whose initialisation vector is not 12 bytes of base64")]
    Iv,
    /// The ephemeral key is not 44 characters of base64.
    #[error("an envelope whose ephemeral key is not 33 bytes of base64")]
    Ephemeral,
    /// The ephemeral key is not a point of the version's curve.
    #[error("an envelope whose ephemeral key is not a point of its curve")]
    EphemeralPoint,
    /// The id of a symmetric key is not 22 characters of base64.
    #[error("an envelope whose key id is not 16 bytes of base64")]
    KeyId,
    /// The nonce of a symmetric envelope is not 32 characters of base64.
    #[error("an envelope whose nonce is not 24 bytes of base64")]
    Nonce,
    /// The ciphertext is not base64, or is shorter than a tag.
    #[error("an envelope whose ciphertext is not base64 or is too short to contain a tag")]
    Ciphertext,
    /// A file whose header is not that of the file form.
    #[error("not an encrypted file: its header is wrong")]
    FileHeader,
    /// A file whose checksum does not match its content: it was damaged or truncated.
    #[error("an encrypted file that was damaged or cut short: its checksum is wrong")]
    FileChecksum,
}

/// What stands before the parts of an envelope that its scheme decides.
#[derive(Clone, Copy)]
pub(crate) struct Head<'a> {
    pub(crate) marking: Marking,
    /// The version's four characters, known or not.
    pub(crate) label: &'a [u8],
    pub(crate) value_type: ValueType,
    /// All of it.
    pub(crate) text: &'a [u8],
    /// What follows, up to the suffix.
    pub(crate) rest: &'a [u8],
}

impl<'a> Head<'a> {
    pub(crate) fn split(text: &'a [u8]) -> Result<Self, Malformed> {
        let inner = text.strip_prefix(ENVELOPE_PREFIX).ok_or(Malformed::NotAnEnvelope)?;
        let inner = match inner.strip_suffix(&SUFFIX) {
            Some(inner) => inner,
            None if names_a_version(inner) => return Err(Malformed::CutShort),
            None => return Err(Malformed::NotAnEnvelope),
        };
        let (marking, inner) = match inner.strip_prefix(DEBUG_MARK) {
            Some(rest) => (Marking::Debug, rest),
            None => (Marking::Live, inner),
        };
        let (label, inner) = split_part(inner, VERSION_TEXT_SIZE).ok_or(Malformed::UnknownVersion)?;
        let (value_type, rest) = split_type(inner);
        Ok(Self { marking, label, value_type, text: &text[..text.len() - SUFFIX.len() - rest.len()], rest })
    }

    /// Writes one, in one allocation: a request of one value makes one for each type.
    pub(crate) fn write(marking: Marking, label: &str, value_type: ValueType) -> Vec<u8> {
        Self::parts(marking, label, value_type).concat()
    }

    /// Appends one.
    pub(crate) fn append(marking: Marking, label: &str, value_type: ValueType, out: &mut Vec<u8>) {
        for part in Self::parts(marking, label, value_type) {
            out.extend_from_slice(part);
        }
    }

    fn parts(marking: Marking, label: &str, value_type: ValueType) -> [&[u8]; 5] {
        let mark: &[u8] = if marking == Marking::Debug { DEBUG_MARK } else { b"" };
        [ENVELOPE_PREFIX, mark, label.as_bytes(), b":", value_type.label()]
    }
}

/// Ciphertext and tag, still base64, so that they can be decoded straight to where they are needed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CiphertextText<'a>(&'a [u8]);

impl<'a> CiphertextText<'a> {
    /// Takes the padding off a text that has a length that it can have.
    pub(crate) fn parse(text: &'a [u8]) -> Result<Self, Malformed> {
        let text = strip_padding(text);
        if decoded_size(text.len()).is_none_or(|size| size < TAG_SIZE) {
            return Err(Malformed::Ciphertext);
        }
        Ok(Self(text))
    }

    pub(crate) fn text(self) -> &'a [u8] {
        self.0
    }

    /// Bytes of ciphertext and tag together.
    pub(crate) fn sealed_size(self) -> usize {
        decoded_size(self.0.len()).expect("checked when it was parsed")
    }

    /// Writes a piece of ciphertext and tag to `out`: that of up to `size` characters, rounded down to whole groups of four, from
    /// character `start` on. Gives how many characters that were.
    ///
    /// # Errors
    /// [`Malformed::Ciphertext`] when it is not base64.
    pub(crate) fn decode_piece(self, start: usize, size: usize, out: &mut Vec<u8>) -> Result<usize, Malformed> {
        let rest = &self.0[start..];
        let size = if size < rest.len() { (size & !3).max(4) } else { rest.len() };
        let piece = &rest[..size.min(rest.len())];
        out.resize(decoded_size(piece.len()).ok_or(Malformed::Ciphertext)?, 0);
        decode(piece, out)?;
        Ok(piece.len())
    }

    /// Writes ciphertext and tag to `out`, which has [`CiphertextText::sealed_size`] bytes.
    ///
    /// # Errors
    /// [`Malformed::Ciphertext`] when it is not base64.
    pub(crate) fn decode(self, out: &mut [u8]) -> Result<(), Malformed> {
        decode(self.0, out)
    }
}

fn decode(text: &[u8], out: &mut [u8]) -> Result<(), Malformed> {
    if text_kernel().decode(text, out) { Ok(()) } else { Err(Malformed::Ciphertext) }
}

/// Whether a known version follows `ev:`, so that the text was meant to be an envelope.
fn names_a_version(inner: &[u8]) -> bool {
    let inner = inner.strip_prefix(DEBUG_MARK).unwrap_or(inner);
    split_part(inner, VERSION_TEXT_SIZE)
        .is_some_and(|(label, _)| Version::from_text(label).is_some() || SymmetricVersion::from_text(label).is_some())
}

/// The first `size` bytes, and the rest after the colon that follows them.
pub(crate) fn split_part(text: &[u8], size: usize) -> Option<(&[u8], &[u8])> {
    let (part, rest) = text.split_at_checked(size)?;
    Some((part, rest.strip_prefix(b":")?))
}

fn split_type(text: &[u8]) -> (ValueType, &[u8]) {
    // No label can begin an IV: the colon comes too early.
    let labels: [(&[u8], ValueType); 3] =
        [(b"number:", ValueType::Number), (b"boolean:", ValueType::Boolean), (b"string:", ValueType::String)];
    labels
        .into_iter()
        .find_map(|(label, value_type)| Some((value_type, text.strip_prefix(label)?)))
        .unwrap_or((ValueType::String, text))
}

pub(crate) fn decode_exact<const N: usize>(text: &[u8]) -> Option<[u8; N]> {
    let mut bytes = [0; N];
    (decoded_size(text.len()) == Some(N) && text_kernel().decode(text, &mut bytes)).then_some(bytes)
}

/// Padding counts only where it fills the last group of four.
fn strip_padding(text: &[u8]) -> &[u8] {
    if !text.len().is_multiple_of(4) {
        return text;
    }
    text.strip_suffix(b"==").or_else(|| text.strip_suffix(b"=")).unwrap_or(text)
}
