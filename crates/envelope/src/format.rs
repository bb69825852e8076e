//! The text form: `ev:[debug:]<VER>:[string:|number:|boolean:]<iv>:<ephemeral>:<ciphertext>:$`. Parsing looks at fixed places, as
//! every part but the ciphertext has a fixed length; base64 is standard, canonical, with or without padding.

use fieldseal_crypto::aead::{NONCE_SIZE, TAG_SIZE};
use fieldseal_crypto::ec::COMPRESSED_SIZE;
use fieldseal_crypto::{Curve, PublicKey};

/// What every envelope begins with.
const ENVELOPE_PREFIX: &[u8] = b"ev:";
/// What every envelope ends with.
const SUFFIX: &[u8] = b":$";
const DEBUG_MARK: &[u8] = b"debug:";
/// 12 bytes in base64: no padding arises.
pub(crate) const IV_TEXT_SIZE: usize = 16;
/// 33 bytes in base64: no padding arises.
pub(crate) const EPHEMERAL_TEXT_SIZE: usize = 44;

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

    /// What stands before the IV: nothing for strings.
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

/// The format version: curve, key derivation, associated data and whether metadata stands before the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Version {
    /// `Tk9D`: P-256, current, no metadata.
    Tk9d,
    /// `QkTC`: P-256, current, with metadata.
    Qktc,
    /// `RFVC`: secp256k1, current, no metadata.
    Rfvc,
    /// `S0lS`: secp256k1, current, with metadata.
    S0ls,
    /// `QlJV`: secp256k1, legacy, with metadata.
    Qljv,
    /// `TENZ`: P-256, legacy, with metadata.
    Tenz,
    /// `T1JL`: P-256, legacy, no metadata.
    T1jl,
}

impl Version {
    /// Every version.
    pub const ALL: [Version; 7] = [Self::Tk9d, Self::Qktc, Self::Rfvc, Self::S0ls, Self::Qljv, Self::Tenz, Self::T1jl];

    /// The four characters in the envelope.
    pub fn text(self) -> &'static str {
        match self {
            Self::Tk9d => "Tk9D",
            Self::Qktc => "QkTC",
            Self::Rfvc => "RFVC",
            Self::S0ls => "S0lS",
            Self::Qljv => "QlJV",
            Self::Tenz => "TENZ",
            Self::T1jl => "T1JL",
        }
    }

    /// The curve of its keys.
    pub fn curve(self) -> Curve {
        match self {
            Self::Tk9d | Self::Qktc | Self::Tenz | Self::T1jl => Curve::P256,
            Self::Rfvc | Self::S0ls | Self::Qljv => Curve::Secp256k1,
        }
    }

    /// Whether metadata stands before the text.
    pub fn has_metadata(self) -> bool {
        matches!(self, Self::Qktc | Self::S0ls | Self::Qljv | Self::Tenz)
    }

    /// Whether the version is only opened, never written.
    pub fn is_legacy(self) -> bool {
        matches!(self, Self::Qljv | Self::Tenz | Self::T1jl)
    }

    /// The version that is written today without metadata.
    pub fn plain(curve: Curve) -> Self {
        match curve {
            Curve::P256 => Self::Tk9d,
            Curve::Secp256k1 => Self::Rfvc,
        }
    }

    /// The version that is written today with metadata.
    pub fn with_metadata(curve: Curve) -> Self {
        match curve {
            Curve::P256 => Self::Qktc,
            Curve::Secp256k1 => Self::S0ls,
        }
    }

    fn from_text(text: &[u8]) -> Option<Self> {
        Self::ALL.into_iter().find(|version| version.text().as_bytes() == text)
    }
}

/// Why a text is no envelope. No case depends on a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Malformed {
    /// It does not begin with `ev:`, or neither ends with `:$` nor names a known version.
    NotAnEnvelope,
    /// It begins as an envelope of a known version but does not end with `:$`.
    CutShort,
    /// The version is none that is known.
    UnknownVersion,
    /// The initialisation vector is not 16 characters of base64.
    Iv,
    /// The ephemeral key is not 44 characters of base64.
    Ephemeral,
    /// The ephemeral key is no point of the version's curve.
    EphemeralPoint,
    /// The ciphertext is not base64, or is shorter than a tag.
    Ciphertext,
    /// A file whose header is not that of the file form.
    FileHeader,
    /// A file whose checksum does not fit its content: it was damaged or cut short.
    FileChecksum,
}

impl std::fmt::Display for Malformed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::NotAnEnvelope => "not an envelope: it must begin with \"ev:\" and end with \":$\"",
            Self::CutShort => "an envelope that was cut short: it does not end with \":$\"",
            Self::UnknownVersion => "an envelope of an unknown version",
            Self::Iv => "an envelope whose initialisation vector is not 12 bytes of base64",
            Self::Ephemeral => "an envelope whose ephemeral key is not 33 bytes of base64",
            Self::EphemeralPoint => "an envelope whose ephemeral key is not a point of its curve",
            Self::Ciphertext => "an envelope whose ciphertext is not base64 or is too short to hold a tag",
            Self::FileHeader => "not an encrypted file: its header is wrong",
            Self::FileChecksum => "an encrypted file that was damaged or cut short: its checksum is wrong",
        })
    }
}

impl std::error::Error for Malformed {}

/// An envelope taken apart. The ciphertext is still base64, so that it can be decoded straight to where it is needed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Envelope<'a> {
    /// Live or debug.
    pub marking: Marking,
    /// The format version.
    pub version: Version,
    /// The type that the text states. Only versions with metadata authenticate it.
    pub value_type: ValueType,
    /// The initialisation vector.
    pub iv: [u8; NONCE_SIZE],
    /// The ephemeral public key, compressed; not yet checked to be a point.
    pub ephemeral: [u8; COMPRESSED_SIZE],
    ciphertext: &'a [u8],
}

impl<'a> Envelope<'a> {
    /// Takes `text` apart. Of the ciphertext only the length is checked here.
    ///
    /// # Errors
    /// [`Malformed`], decided by the text alone.
    pub fn parse(text: &'a [u8]) -> Result<Self, Malformed> {
        let inner = text.strip_prefix(ENVELOPE_PREFIX).ok_or(Malformed::NotAnEnvelope)?;
        let inner = match inner.strip_suffix(SUFFIX) {
            Some(inner) => inner,
            None if names_a_version(inner) => return Err(Malformed::CutShort),
            None => return Err(Malformed::NotAnEnvelope),
        };
        let (marking, inner) = match inner.strip_prefix(DEBUG_MARK) {
            Some(rest) => (Marking::Debug, rest),
            None => (Marking::Live, inner),
        };
        let (version, inner) = split_part(inner, 4).ok_or(Malformed::UnknownVersion)?;
        let version = Version::from_text(version).ok_or(Malformed::UnknownVersion)?;
        let (value_type, inner) = split_type(inner);
        let (iv_text, inner) = split_part(inner, IV_TEXT_SIZE).ok_or(Malformed::Iv)?;
        let (ephemeral_text, ciphertext) = split_part(inner, EPHEMERAL_TEXT_SIZE).ok_or(Malformed::Ephemeral)?;
        let iv = decode_exact(iv_text).ok_or(Malformed::Iv)?;
        let ephemeral = decode_exact(ephemeral_text).ok_or(Malformed::Ephemeral)?;
        let ciphertext = strip_padding(ciphertext);
        if decoded_size(ciphertext.len()).is_none_or(|size| size < TAG_SIZE) {
            return Err(Malformed::Ciphertext);
        }
        Ok(Self { marking, version, value_type, iv, ephemeral, ciphertext })
    }

    /// The ephemeral public key, validated.
    ///
    /// # Errors
    /// [`Malformed::EphemeralPoint`].
    pub fn ephemeral_key(&self) -> Result<PublicKey, Malformed> {
        PublicKey::from_sec1(self.version.curve(), &self.ephemeral).map_err(|_| Malformed::EphemeralPoint)
    }

    /// Bytes of ciphertext and tag together.
    pub fn sealed_size(&self) -> usize {
        decoded_size(self.ciphertext.len()).expect("checked in parse")
    }

    /// Characters of base64 that the ciphertext has.
    pub(crate) fn text_size(&self) -> usize {
        self.ciphertext.len()
    }

    /// Writes a piece of ciphertext and tag to `out`: that of up to `size` characters, rounded down to whole groups of four, from
    /// character `start` on. Gives how many characters that were.
    ///
    /// # Errors
    /// [`Malformed::Ciphertext`] when it is not base64.
    pub(crate) fn decode_piece(&self, start: usize, size: usize, out: &mut Vec<u8>) -> Result<usize, Malformed> {
        let rest = &self.ciphertext[start..];
        let size = if size < rest.len() { (size & !3).max(4) } else { rest.len() };
        let piece = &rest[..size.min(rest.len())];
        out.resize(decoded_size(piece.len()).ok_or(Malformed::Ciphertext)?, 0);
        decode(piece, out)?;
        Ok(piece.len())
    }

    /// Writes ciphertext and tag to `out`, which has [`Envelope::sealed_size`] bytes.
    ///
    /// # Errors
    /// [`Malformed::Ciphertext`] when it is not base64.
    pub(crate) fn decode_sealed(&self, out: &mut [u8]) -> Result<(), Malformed> {
        decode(self.ciphertext, out)
    }
}

fn decode(text: &[u8], out: &mut [u8]) -> Result<(), Malformed> {
    let out = base64_simd::Out::from_slice(out);
    base64_simd::STANDARD_NO_PAD.decode(text, out).map(drop).map_err(|_| Malformed::Ciphertext)
}

/// Whether what follows `ev:` is a known version, so that the text was meant to be an envelope.
fn names_a_version(inner: &[u8]) -> bool {
    let inner = inner.strip_prefix(DEBUG_MARK).unwrap_or(inner);
    split_part(inner, 4).is_some_and(|(version, _)| Version::from_text(version).is_some())
}

/// The first `size` bytes and what follows the colon after them.
fn split_part(text: &[u8], size: usize) -> Option<(&[u8], &[u8])> {
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

fn decode_exact<const N: usize>(text: &[u8]) -> Option<[u8; N]> {
    let mut bytes = [0; N];
    let decoded = base64_simd::STANDARD_NO_PAD.decode(text, base64_simd::Out::from_slice(&mut bytes)).ok()?;
    (decoded.len() == N).then_some(bytes)
}

/// Padding counts only where it fills the last group of four.
fn strip_padding(text: &[u8]) -> &[u8] {
    if !text.len().is_multiple_of(4) {
        return text;
    }
    text.strip_suffix(b"==").or_else(|| text.strip_suffix(b"=")).unwrap_or(text)
}

/// Bytes that `length` characters of unpadded base64 hold; `None` where no number of bytes gives that length.
fn decoded_size(length: usize) -> Option<usize> {
    (length % 4 != 1).then_some(length / 4 * 3 + (length % 4).saturating_sub(1))
}

/// Characters of unpadded base64 for `size` bytes.
pub(crate) fn encoded_size(size: usize) -> usize {
    size / 3 * 4 + [0, 2, 3][size % 3]
}

/// Appends unpadded base64 of `bytes` at the front of `out` and gives the rest.
pub(crate) fn encode_base64<'o>(bytes: &[u8], out: &'o mut [u8]) -> &'o mut [u8] {
    let (text, rest) = out.split_at_mut(encoded_size(bytes.len()));
    let _ = base64_simd::STANDARD_NO_PAD.encode(bytes, base64_simd::Out::from_slice(text));
    rest
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAMPLE: &str =
        "ev:Tk9D:number:urjR3/lBjwvbkfq1:AzZPYTv3/U933kLq9RnhWyeQiiGALdtoa0SYAwGiOZL2:9AXXkxs4nL7rnbC84vB8DQ:$";

    fn error(text: &str) -> Malformed {
        Envelope::parse(text.as_bytes()).expect_err("malformed")
    }

    /// Rules 2 and 3: the parts, and both ways to write a string.
    #[test]
    fn takes_a_text_apart() {
        let envelope = Envelope::parse(SAMPLE.as_bytes()).expect("well formed");
        assert_eq!((envelope.version, envelope.value_type), (Version::Tk9d, ValueType::Number));
        assert_eq!((envelope.marking, envelope.sealed_size()), (Marking::Live, 16));
        let debug = SAMPLE.replace("ev:", "ev:debug:");
        assert_eq!(Envelope::parse(debug.as_bytes()).expect("well formed").marking, Marking::Debug);
        let string = SAMPLE.replace("number:", "string:");
        assert_eq!(Envelope::parse(string.as_bytes()).expect("well formed").value_type, ValueType::String);
    }

    /// Rule 1: padding.
    #[test]
    fn padding_may_stand_or_not() {
        let padded = SAMPLE.replace("B8DQ:$", "B8DQ==:$");
        let mut one = [0; 16];
        let mut other = [0; 16];
        Envelope::parse(SAMPLE.as_bytes()).expect("unpadded").decode_sealed(&mut one).expect("base64");
        Envelope::parse(padded.as_bytes()).expect("padded").decode_sealed(&mut other).expect("base64");
        assert_eq!(one, other);
    }

    /// Rules 2 and 5.
    #[test]
    fn each_fault_is_named() {
        assert_eq!(error(""), Malformed::NotAnEnvelope);
        assert_eq!(error("ev:$"), Malformed::NotAnEnvelope);
        assert_eq!(error("ev::$"), Malformed::UnknownVersion);
        assert_eq!(error(&SAMPLE.replace("Tk9D", "Tk9E")), Malformed::UnknownVersion);
        assert_eq!(error(&SAMPLE.replace("urjR", "urj")), Malformed::Iv);
        assert_eq!(error(&SAMPLE.replace("urjR", "ur!R")), Malformed::Iv);
        assert_eq!(error(&SAMPLE.replace("AzZP", "AzZ")), Malformed::Ephemeral);
        assert_eq!(error(&SAMPLE.replace("AzZP", "AzZ-")), Malformed::Ephemeral);
        assert_eq!(error(&SAMPLE.replace("9AXXkxs4", "9AXX")), Malformed::Ciphertext);
        assert_eq!(error(&SAMPLE.replace(":$", "")), Malformed::CutShort);
        assert_eq!(error("ev:debug:RFVC:abc"), Malformed::CutShort);
        for other in ["ev: a car", "ev:Tk9", "ev:abcd:ef", "evening", "EV:Tk9D:x:$"] {
            assert_eq!(error(other), Malformed::NotAnEnvelope, "{other}");
        }
    }

    /// Rule 1: what is refused.
    #[test]
    fn what_is_no_canonical_base64_does_not_decode() {
        for bad in ["B8D!:$", "B8DR:$", "B8D=:$", "B8DQ=:$", "B8DQ===:$"] {
            let text = SAMPLE.replace("B8DQ:$", bad);
            let result = Envelope::parse(text.as_bytes()).and_then(|e| e.decode_sealed(&mut vec![0; e.sealed_size()]));
            assert_eq!(result, Err(Malformed::Ciphertext), "{bad}");
        }
    }

    /// Rules 1 and 2: sizes.
    #[test]
    fn sizes_of_base64_agree_with_each_other() {
        for size in 0..200 {
            assert_eq!(decoded_size(encoded_size(size)), Some(size));
        }
        assert_eq!(decoded_size(1), None);
    }
}
