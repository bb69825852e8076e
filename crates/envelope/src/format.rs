//! The text form: `ev:[debug:]<VER>:[string:|number:|boolean:]<iv>:<ephemeral>:<ciphertext>:$`. Parsing uses fixed positions,
//! because every part except the ciphertext has a fixed length. Base64 is standard, canonical, with or without padding.

use leafseal_crypto::aead::{NONCE_SIZE, TAG_SIZE};
use leafseal_crypto::ec::COMPRESSED_SIZE;
use leafseal_crypto::{Curve, PublicKey, text_kernel};
pub(crate) use leafseal_lanes::text::encoded_size;
use leafseal_lanes::text::{NONCE_TEXT_SIZE, decoded_size};
use thiserror::Error;

/// The first bytes of every envelope.
const ENVELOPE_PREFIX: &[u8] = b"ev:";
/// The last bytes of every envelope.
pub(crate) const SUFFIX: [u8; 2] = *b":$";
const DEBUG_MARK: &[u8] = b"debug:";
/// Prefix, version and a colon.
const HEAD_SIZE_MIN: usize = 8;
/// 12 bytes in base64: no padding arises.
const IV_TEXT_SIZE: usize = NONCE_TEXT_SIZE;
/// 33 bytes in base64: no padding arises.
pub(crate) const EPHEMERAL_TEXT_SIZE: usize = 44;
/// The ephemeral key and the colons around it.
pub(crate) const MIDDLE_SIZE: usize = EPHEMERAL_TEXT_SIZE + 2;

/// Bytes of an envelope beside its value: prefix, version, IV, ephemeral key, tag and suffix. The value itself takes four thirds of its
/// size, rounded up. The type of a number or a boolean (`number:`), metadata and the debug mark come in addition.
pub const ENVELOPE_OVERHEAD: usize = HEAD_SIZE_MIN + IV_TEXT_SIZE + MIDDLE_SIZE + encoded_size(TAG_SIZE) + SUFFIX.len();

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

/// The format version: curve, key derivation, associated data, and whether metadata precedes the text.
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

    /// Whether metadata precedes the text.
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
    /// The text before the IV.
    head: &'a [u8],
    /// The text between IV and ciphertext.
    middle: &'a [u8; MIDDLE_SIZE],
    pub(crate) ciphertext: &'a [u8],
}

impl<'a> Envelope<'a> {
    /// Takes `text` apart. Of the ciphertext only the length is checked here.
    ///
    /// # Errors
    /// [`Malformed`], which depends on the text alone.
    pub fn parse(text: &'a [u8]) -> Result<Self, Malformed> {
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
        let (version, inner) = split_part(inner, 4).ok_or(Malformed::UnknownVersion)?;
        let version = Version::from_text(version).ok_or(Malformed::UnknownVersion)?;
        let (value_type, inner) = split_type(inner);
        let head = &text[..text.len() - SUFFIX.len() - inner.len()];
        let (iv_text, _) = split_part(inner, IV_TEXT_SIZE).ok_or(Malformed::Iv)?;
        let inner = &inner[IV_TEXT_SIZE..];
        let (middle, ciphertext) = inner.split_first_chunk::<MIDDLE_SIZE>().ok_or(Malformed::Ephemeral)?;
        let [b':', ephemeral_text @ .., b':'] = middle else { return Err(Malformed::Ephemeral) };
        let iv = decode_exact(iv_text).ok_or(Malformed::Iv)?;
        let ephemeral = decode_exact(ephemeral_text).ok_or(Malformed::Ephemeral)?;
        let ciphertext = ciphertext_of(ciphertext)?;
        Ok(Self { marking, version, value_type, iv, ephemeral, head, middle, ciphertext })
    }

    /// Parses `text` and appends it to `run`. Parts that equal the last envelope of `run` are compared as text instead of parsed
    /// again: neighbours usually differ only in IV and ciphertext.
    ///
    /// # Errors
    /// [`Malformed`], as [`Envelope::parse`] has it; then `run` is as it was.
    pub fn parse_next(text: &'a [u8], run: &mut Vec<Self>) -> Result<(), Malformed> {
        let mut iv = [0; NONCE_SIZE];
        let next = match run.last().and_then(|last| Some((last, last.ciphertext_alike(text, &mut iv)?))) {
            Some((last, ciphertext)) => Self { iv, ciphertext, ..*last },
            None => Self::parse(text)?,
        };
        run.push(next);
        Ok(())
    }

    /// The ciphertext, and the IV in `iv`, of a text that has everything else in common.
    #[inline]
    fn ciphertext_alike<'b>(&self, text: &'b [u8], iv: &mut [u8; NONCE_SIZE]) -> Option<&'b [u8]> {
        let (head, inner) = text.split_at_checked(self.head.len())?;
        let (iv_text, inner) = inner.split_first_chunk::<IV_TEXT_SIZE>()?;
        let (middle, inner) = inner.split_first_chunk()?;
        if !is_same(middle, self.middle) || !is_same_head(head, self.head) {
            return None;
        }
        let ciphertext = ciphertext_of(inner.strip_suffix(&SUFFIX)?).ok()?;
        text_kernel().decode_nonce(iv_text, iv).then_some(ciphertext)
    }

    /// The ephemeral public key, validated.
    ///
    /// # Errors
    /// [`Malformed::EphemeralPoint`].
    pub fn ephemeral_key(&self) -> Result<PublicKey, Malformed> {
        PublicKey::from_sec1(self.version.curve(), &self.ephemeral).map_err(|_| Malformed::EphemeralPoint)
    }

    /// Whether both have one ephemeral key on one curve.
    pub fn shares_key(&self, other: &Envelope<'_>) -> bool {
        self.version.curve() == other.version.curve() && self.has_ephemeral(&other.ephemeral)
    }

    pub(crate) fn has_ephemeral(&self, ephemeral: &[u8; COMPRESSED_SIZE]) -> bool {
        is_same(&self.ephemeral, ephemeral)
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
    if text_kernel().decode(text, out) { Ok(()) } else { Err(Malformed::Ciphertext) }
}

/// Equality of arrays of a register and more. The operator is a call of the C library for such.
#[inline]
fn is_same<const N: usize>(one: &[u8; N], other: &[u8; N]) -> bool {
    const REGISTER: usize = size_of::<u128>();
    let word = |bytes: &[u8; N], at: usize| u128::from_ne_bytes(*bytes[at..].first_chunk().expect("a register"));
    let difference = |at| word(one, at) ^ word(other, at);
    let whole = (0..N - REGISTER).step_by(REGISTER).fold(0, |sum, at| sum | difference(at));
    whole | difference(N - REGISTER) == 0
}

/// Compares the texts before the IV, which have equal length: `ev:` and a version, seldom more.
#[inline]
fn is_same_head(one: &[u8], other: &[u8]) -> bool {
    match (one.split_first_chunk::<HEAD_SIZE_MIN>(), other.split_first_chunk::<HEAD_SIZE_MIN>()) {
        (Some((one, rest)), Some((other, other_rest))) => one == other && (rest.is_empty() || rest == other_rest),
        _ => false,
    }
}

/// The base64 of a ciphertext without its padding, if it has a length that it can have.
fn ciphertext_of(text: &[u8]) -> Result<&[u8], Malformed> {
    let text = strip_padding(text);
    if decoded_size(text.len()).is_none_or(|size| size < TAG_SIZE) { Err(Malformed::Ciphertext) } else { Ok(text) }
}

/// Whether a known version follows `ev:`, so that the text was meant to be an envelope.
fn names_a_version(inner: &[u8]) -> bool {
    let inner = inner.strip_prefix(DEBUG_MARK).unwrap_or(inner);
    split_part(inner, 4).is_some_and(|(version, _)| Version::from_text(version).is_some())
}

/// The first `size` bytes, and the rest after the colon that follows them.
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
    (decoded_size(text.len()) == Some(N) && text_kernel().decode(text, &mut bytes)).then_some(bytes)
}

/// Padding counts only where it fills the last group of four.
fn strip_padding(text: &[u8]) -> &[u8] {
    if !text.len().is_multiple_of(4) {
        return text;
    }
    text.strip_suffix(b"==").or_else(|| text.strip_suffix(b"=")).unwrap_or(text)
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

    /// A text parses the same whatever precedes it: equal neighbours, another type, key or version, malformed ones.
    #[test]
    fn a_neighbour_changes_nothing() {
        let mut texts = vec![SAMPLE.to_owned(), String::new()];
        for (this, other) in [
            ("urjR", "urjS"),
            ("urjR", "ur!R"),
            ("urjR", "ur:R"),
            ("urjR3/lBjwvbkfq1:", "urjR3/lBjwvbkfq1"),
            ("number:", ""),
            ("number:", "string:"),
            ("number:", "boolean:"),
            ("ev:", "ev:debug:"),
            ("Tk9D", "RFVC"),
            ("Tk9D", "Tk9E"),
            ("AzZP", "AzZQ"),
            ("AzZP", "AzZ-"),
            ("OZL2:", "OZL2."),
            ("B8DQ:$", "B8DQ==:$"),
            ("B8DQ:$", "B8DQAAAA:$"),
            ("B8DQ:$", "B8:$"),
            ("B8DQ:$", "B8DQ:"),
            (":$", ""),
        ] {
            texts.push(SAMPLE.replace(this, other));
        }
        for before in texts.iter().filter_map(|text| Envelope::parse(text.as_bytes()).ok()) {
            for text in &texts {
                let mut run = vec![before];
                let parsed = Envelope::parse_next(text.as_bytes(), &mut run).map(|()| run[1]);
                assert_eq!(parsed, Envelope::parse(text.as_bytes()), "{text}");
                assert_eq!(run.len(), 1 + usize::from(parsed.is_ok()));
            }
        }
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

    /// Rule 1: texts that are refused.
    #[test]
    fn non_canonical_base64_does_not_decode() {
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
