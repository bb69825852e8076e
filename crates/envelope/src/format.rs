//! The text of an envelope to a public key: `ev:[debug:]<VER>:[string:|number:|boolean:]<iv>:<ephemeral>:<ciphertext>:$`. Parsing uses
//! fixed positions, because every part except the ciphertext has a fixed length. Base64 is standard, canonical, with or without padding.

use leafseal_crypto::aead::{NONCE_SIZE, TAG_SIZE};
use leafseal_crypto::ec::COMPRESSED_SIZE;
use leafseal_crypto::{PublicKey, text_kernel};
use leafseal_lanes::text::{NONCE_TEXT_SIZE, encoded_size};

use crate::parts::{CiphertextText, Head, Malformed, Marking, SUFFIX, ValueType, decode_exact, split_part};
use crate::versions::Version;

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

/// An envelope taken apart. The ciphertext is still base64, so that it can be decoded straight to where it is needed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PublicKeyEnvelope<'a> {
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
    pub(crate) ciphertext: CiphertextText<'a>,
}

impl<'a> PublicKeyEnvelope<'a> {
    /// Takes `text` apart. Of the ciphertext only the length is checked here.
    ///
    /// # Errors
    /// [`Malformed`], which depends on the text alone.
    pub fn parse(text: &'a [u8]) -> Result<Self, Malformed> {
        let head = Head::split(text)?;
        let version = Version::from_text(head.label).ok_or(Malformed::UnknownVersion)?;
        Self::after(&head, version)
    }

    /// Takes the parts after `head` apart.
    pub(crate) fn after(head: &Head<'a>, version: Version) -> Result<Self, Malformed> {
        let Head { marking, value_type, text: head, rest: inner, .. } = *head;
        let (iv_text, _) = split_part(inner, IV_TEXT_SIZE).ok_or(Malformed::Iv)?;
        let inner = &inner[IV_TEXT_SIZE..];
        let (middle, ciphertext) = inner.split_first_chunk::<MIDDLE_SIZE>().ok_or(Malformed::Ephemeral)?;
        let [b':', ephemeral_text @ .., b':'] = middle else { return Err(Malformed::Ephemeral) };
        let iv = decode_exact(iv_text).ok_or(Malformed::Iv)?;
        let ephemeral = decode_exact(ephemeral_text).ok_or(Malformed::Ephemeral)?;
        let ciphertext = CiphertextText::parse(ciphertext)?;
        Ok(Self { marking, version, value_type, iv, ephemeral, head, middle, ciphertext })
    }

    /// Parses `text` and appends it to `run`. Parts that equal the last envelope of `run` are compared as text instead of parsed
    /// again: neighbours usually differ only in IV and ciphertext.
    ///
    /// # Errors
    /// [`Malformed`], as [`PublicKeyEnvelope::parse`] has it; then `run` is as it was.
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
    fn ciphertext_alike<'b>(&self, text: &'b [u8], iv: &mut [u8; NONCE_SIZE]) -> Option<CiphertextText<'b>> {
        let (head, inner) = text.split_at_checked(self.head.len())?;
        let (iv_text, inner) = inner.split_first_chunk::<IV_TEXT_SIZE>()?;
        let (middle, inner) = inner.split_first_chunk()?;
        if !is_same(middle, self.middle) || !is_same_head(head, self.head) {
            return None;
        }
        let ciphertext = CiphertextText::parse(inner.strip_suffix(&SUFFIX)?).ok()?;
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
    pub fn shares_key(&self, other: &PublicKeyEnvelope<'_>) -> bool {
        self.version.curve() == other.version.curve() && self.has_ephemeral(&other.ephemeral)
    }

    pub(crate) fn has_ephemeral(&self, ephemeral: &[u8; COMPRESSED_SIZE]) -> bool {
        is_same(&self.ephemeral, ephemeral)
    }

    /// Bytes of ciphertext and tag together.
    pub fn sealed_size(&self) -> usize {
        self.ciphertext.sealed_size()
    }
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

#[cfg(test)]
mod tests {
    use super::*;
    use leafseal_lanes::text::decoded_size;

    const SAMPLE: &str =
        "ev:Tk9D:number:urjR3/lBjwvbkfq1:AzZPYTv3/U933kLq9RnhWyeQiiGALdtoa0SYAwGiOZL2:9AXXkxs4nL7rnbC84vB8DQ:$";

    fn error(text: &str) -> Malformed {
        PublicKeyEnvelope::parse(text.as_bytes()).expect_err("malformed")
    }

    /// Rules 2 and 3: the parts, and both ways to write a string.
    #[test]
    fn takes_a_text_apart() {
        let envelope = PublicKeyEnvelope::parse(SAMPLE.as_bytes()).expect("well formed");
        assert_eq!((envelope.version, envelope.value_type), (Version::Tk9d, ValueType::Number));
        assert_eq!((envelope.marking, envelope.sealed_size()), (Marking::Live, 16));
        let debug = SAMPLE.replace("ev:", "ev:debug:");
        assert_eq!(PublicKeyEnvelope::parse(debug.as_bytes()).expect("well formed").marking, Marking::Debug);
        let string = SAMPLE.replace("number:", "string:");
        assert_eq!(PublicKeyEnvelope::parse(string.as_bytes()).expect("well formed").value_type, ValueType::String);
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
        for before in texts.iter().filter_map(|text| PublicKeyEnvelope::parse(text.as_bytes()).ok()) {
            for text in &texts {
                let mut run = vec![before];
                let parsed = PublicKeyEnvelope::parse_next(text.as_bytes(), &mut run).map(|()| run[1]);
                assert_eq!(parsed, PublicKeyEnvelope::parse(text.as_bytes()), "{text}");
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
        PublicKeyEnvelope::parse(SAMPLE.as_bytes()).expect("unpadded").ciphertext.decode(&mut one).expect("base64");
        PublicKeyEnvelope::parse(padded.as_bytes()).expect("padded").ciphertext.decode(&mut other).expect("base64");
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
            let result = PublicKeyEnvelope::parse(text.as_bytes())
                .and_then(|e| e.ciphertext.decode(&mut vec![0; e.sealed_size()]));
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
