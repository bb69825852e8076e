//! Signed notes (C2SP `signed-note`) with Ed25519, and the cosignatures of witnesses (C2SP `tlog-cosignature`).

use std::fmt::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use leafseal_crypto::Secret;
use leafseal_crypto::ed25519::{self, Ed25519PrivateKey, PUBLIC_KEY_SIZE, SIGNATURE_SIZE};
use leafseal_crypto::hash::{hkdf_sha256, sha256};
use thiserror::Error;

use crate::cursor_key::CursorKey;

/// Longest note that is read. Post-quantum signatures, which are ignored, have up to 5 kB.
pub(crate) const NOTE_SIZE_MAX: usize = 128 << 10;

/// Why a text is not a note of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum NoteFault {
    /// Not text, a line end or blank line is missing, or a signature line is none.
    #[error("not a signed note")]
    Malformed,
    /// No signature of a known key.
    #[error("not signed by a known key")]
    Unsigned,
    /// A signature of a known key is wrong.
    #[error("the signature is wrong: the text was changed")]
    Signature,
    /// The text of a public key is not `NAME+ID+KEY`.
    #[error("not a public key of a log: it must be NAME+ID+KEY, as the log's file \"key\" has it")]
    Key,
}

/// What a signature says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
enum SignatureType {
    /// The text.
    Ed25519 = 1,
    /// That a witness has seen the checkpoint at a time, and none that contradicts it.
    Cosignature = 4,
}

/// A public key with its name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VerifierKey {
    name: String,
    kind: SignatureType,
    public: [u8; PUBLIC_KEY_SIZE],
}

impl VerifierKey {
    /// The key of a log.
    ///
    /// # Errors
    /// [`NoteFault::Key`] for a name that is empty, or has spaces, control characters or `+`.
    pub fn of_log(name: &str, public: [u8; PUBLIC_KEY_SIZE]) -> Result<Self, NoteFault> {
        Self::new(name, SignatureType::Ed25519, public)
    }

    /// The key of a witness.
    ///
    /// # Errors
    /// Those of [`VerifierKey::of_log`].
    pub fn of_witness(name: &str, public: [u8; PUBLIC_KEY_SIZE]) -> Result<Self, NoteFault> {
        Self::new(name, SignatureType::Cosignature, public)
    }

    fn new(name: &str, kind: SignatureType, public: [u8; PUBLIC_KEY_SIZE]) -> Result<Self, NoteFault> {
        let is_wrong = |c: char| c.is_whitespace() || c.is_control() || c == '+';
        if name.is_empty() || name.contains(is_wrong) {
            return Err(NoteFault::Key);
        }
        Ok(Self { name: name.to_owned(), kind, public })
    }

    /// The name: for a log, its origin.
    pub fn name(&self) -> &str {
        &self.name
    }

    fn id(&self) -> [u8; 4] {
        let hash = sha256(&[self.name.as_bytes(), b"\n", &[self.kind as u8], &self.public]);
        [hash[0], hash[1], hash[2], hash[3]]
    }

    /// Whether it is the key of a witness.
    pub fn is_of_witness(&self) -> bool {
        self.kind == SignatureType::Cosignature
    }

    /// `NAME+ID+KEY`, as other implementations read it.
    pub fn to_text(&self) -> String {
        let id = u32::from_be_bytes(self.id());
        let key = STANDARD.encode([&[self.kind as u8][..], &self.public].concat());
        format!("{}+{id:08x}+{key}", self.name)
    }

    /// Reads what [`VerifierKey::to_text`] writes.
    ///
    /// # Errors
    /// [`NoteFault::Key`].
    pub fn parse(text: &str) -> Result<Self, NoteFault> {
        let (name, rest) = text.split_once('+').ok_or(NoteFault::Key)?;
        let (_, key) = rest.split_once('+').ok_or(NoteFault::Key)?;
        let bytes = STANDARD.decode(key).map_err(|_| NoteFault::Key)?;
        let (kind, public) = bytes.split_first().ok_or(NoteFault::Key)?;
        let kind = match kind {
            1 => SignatureType::Ed25519,
            4 => SignatureType::Cosignature,
            _ => return Err(NoteFault::Key),
        };
        let key = Self::new(name, kind, public.try_into().map_err(|_| NoteFault::Key)?)?;
        if key.to_text() == text { Ok(key) } else { Err(NoteFault::Key) }
    }

    /// Whether `signature` is one of this key under `text`.
    fn verify(&self, text: &str, signature: &[u8]) -> bool {
        match self.kind {
            SignatureType::Ed25519 => {
                signature.try_into().is_ok_and(|signature| ed25519::verify(&self.public, text.as_bytes(), signature))
            }
            SignatureType::Cosignature => signature.split_first_chunk().is_some_and(|(time, signature)| {
                let message = cosigned_text(text, u64::from_be_bytes(*time));
                let signature: Result<&[u8; SIGNATURE_SIZE], _> = signature.try_into();
                signature.is_ok_and(|signature| ed25519::verify(&self.public, message.as_bytes(), signature))
            }),
        }
    }
}

fn cosigned_text(text: &str, unix_s: u64) -> String {
    format!("cosignature/v1\ntime {unix_s}\n{text}")
}

/// A private key with its name.
#[derive(Debug, Clone)]
pub struct NoteSigner {
    public: VerifierKey,
    private: Ed25519PrivateKey,
}

impl NoteSigner {
    /// A log's key. The name is the log's origin.
    ///
    /// # Errors
    /// Those of [`VerifierKey::of_log`].
    pub fn of_log(name: &str, private: Ed25519PrivateKey) -> Result<Self, NoteFault> {
        Ok(Self { public: VerifierKey::of_log(name, private.public_key())?, private })
    }

    /// A witness's key.
    ///
    /// # Errors
    /// Those of [`VerifierKey::of_log`].
    pub fn of_witness(name: &str, private: Ed25519PrivateKey) -> Result<Self, NoteFault> {
        Ok(Self { public: VerifierKey::of_witness(name, private.public_key())?, private })
    }

    /// The public half.
    pub fn public(&self) -> &VerifierKey {
        &self.public
    }

    /// A secret that this key alone yields, for what is written before it is signed: signatures are deterministic (RFC 8032, section
    /// 5.1.6), and that of this text is never published.
    pub(crate) fn journal_key(&self) -> Secret<32> {
        let signature = self.private.sign(b"leafseal audit journal key 1\n");
        hkdf_sha256(&signature, b"leafseal audit journal 1")
    }

    /// A secret that this key alone yields, for the places of those who follow the log.
    pub fn cursor_key(&self) -> CursorKey {
        CursorKey::new(hkdf_sha256(self.journal_key().expose(), b"leafseal audit cursors 1"))
    }

    /// A note with this text, which ends with a line end, signed.
    pub fn sign(&self, text: &str) -> String {
        format!("{text}\n{}", self.line(&self.private.sign(text.as_bytes())))
    }

    /// The line of a cosignature under this text, at this time in seconds.
    pub fn cosign(&self, text: &str, unix_s: u64) -> String {
        let signature = self.private.sign(cosigned_text(text, unix_s).as_bytes());
        self.line(&[&unix_s.to_be_bytes()[..], &signature].concat())
    }

    fn line(&self, signature: &[u8]) -> String {
        let signature = STANDARD.encode([&self.public.id()[..], signature].concat());
        let mut line = String::new();
        let _ = writeln!(line, "— {} {signature}", self.public.name);
        line
    }
}

/// A note whose signatures were not looked at.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Note<'n> {
    /// With its line end.
    pub(crate) text: &'n str,
    signatures: &'n str,
}

impl<'n> Note<'n> {
    pub(crate) fn parse(note: &'n [u8]) -> Result<Self, NoteFault> {
        if note.len() > NOTE_SIZE_MAX {
            return Err(NoteFault::Malformed);
        }
        let note = std::str::from_utf8(note).map_err(|_| NoteFault::Malformed)?;
        let is_wrong = |c: char| c < ' ' && c != '\n';
        if note.contains(is_wrong) || !note.ends_with('\n') {
            return Err(NoteFault::Malformed);
        }
        let blank = note.rfind("\n\n").ok_or(NoteFault::Malformed)?;
        let (text, signatures) = (&note[..=blank], &note[blank + 2..]);
        let parsed = Self { text, signatures };
        if signatures.is_empty() || parsed.lines().any(|line| line.is_none()) {
            return Err(NoteFault::Malformed);
        }
        Ok(parsed)
    }

    /// Name, and base64 of id and signature, of each line.
    fn lines(&self) -> impl Iterator<Item = Option<(&'n str, &'n str)>> {
        self.signatures.lines().map(|line| {
            let (name, signature) = line.strip_prefix("— ")?.split_once(' ')?;
            (!name.is_empty() && !signature.is_empty() && !signature.contains(' ')).then_some((name, signature))
        })
    }

    /// The line of a key, after its signature was verified.
    pub(crate) fn line_of(&self, key: &VerifierKey) -> Result<String, NoteFault> {
        self.verify(std::slice::from_ref(key))?;
        let is_own =
            |signature: &str| STANDARD.decode(signature).is_ok_and(|bytes| bytes.first_chunk() == Some(&key.id()));
        let line = self.lines().flatten().find(|(name, signature)| *name == key.name && is_own(signature));
        line.map(|(name, signature)| format!("— {name} {signature}\n")).ok_or(NoteFault::Unsigned)
    }

    /// The time in seconds of a witness's cosignature, after it was verified.
    pub(crate) fn cosigned_at(&self, witness: &VerifierKey) -> Result<u64, NoteFault> {
        let line = self.line_of(witness)?;
        let signature = line.rsplit(' ').next().and_then(|signature| STANDARD.decode(signature.trim_end()).ok());
        let time = signature.and_then(|bytes| bytes.get(4..)?.first_chunk().copied());
        time.map(u64::from_be_bytes).filter(|_| witness.is_of_witness()).ok_or(NoteFault::Unsigned)
    }

    /// Checks that one of the keys has signed, and that no signature of any of them is wrong.
    pub(crate) fn verify(&self, keys: &[VerifierKey]) -> Result<(), NoteFault> {
        let mut is_signed = false;
        for (name, signature) in self.lines().flatten() {
            let bytes = STANDARD.decode(signature).map_err(|_| NoteFault::Malformed)?;
            let (id, signature) = bytes.split_first_chunk::<4>().ok_or(NoteFault::Malformed)?;
            for key in keys.iter().filter(|key| key.name == name && key.id() == *id) {
                if !key.verify(self.text, signature) {
                    return Err(NoteFault::Signature);
                }
                is_signed = true;
            }
        }
        if is_signed { Ok(()) } else { Err(NoteFault::Unsigned) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The examples of C2SP `signed-note` and `tlog-cosignature`. Their public keys are not published, but every signature line parses.
    const EXAMPLE: &str = "example.com/behind-the-sofa\n20852163\nCsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2I=\n\n\
        — example.com/behind-the-sofa Az3grlgtzPICa5OS8npVmf1Myq/5IZniMp+ZJurmRDeOoRDe4URYN7u5/Zhcyv2q1gGzGku9nTo+zyWE+xeMcTOAYQ8=\n\
        — witness.example.com/w1 jWbPPwAAAABkGFDLEZMHwSRaJNiIDoe9DYn/zXcrtPHeolMI5OWXEhZCB9dlrDJsX3b2oyin1nPZqhf5nNo0xUe+\
        mbIUBkBIfZ+qnA==\n";

    fn key(seed: u8) -> Ed25519PrivateKey {
        Ed25519PrivateKey::from_seed(Secret::from_bytes(&[seed; 32]))
    }

    #[test]
    fn notes_are_of_who_signed_them() {
        let (log, other) = (NoteSigner::of_log("leafseal/a/b", key(1)).expect("a name"), key(2));
        let witness = NoteSigner::of_witness("w", other).expect("a name");
        let text = "leafseal/a/b\n\n3\n";
        let note = log.sign(text) + &witness.cosign(text, 7);
        let parsed = Note::parse(note.as_bytes()).expect("a note");
        assert_eq!(parsed.text, text);
        let known = [log.public().clone(), witness.public().clone()];
        assert_eq!(parsed.verify(&known), Ok(()));
        assert_eq!(parsed.verify(&known[1..]), Ok(()));
        assert_eq!(parsed.verify(&[]), Err(NoteFault::Unsigned));
        let foreign = VerifierKey::of_log("leafseal/a/b", [9; 32]).expect("a name");
        assert_eq!(parsed.verify(&[foreign]), Err(NoteFault::Unsigned));
        // Each byte of text and signatures counts.
        for at in 0..note.len() {
            let mut changed = note.clone().into_bytes();
            changed[at] ^= 1;
            let verified =
                Note::parse(&changed).and_then(|note| note.verify(&known[..1]).and(note.verify(&known[1..])));
            assert!(verified.is_err(), "{at}");
        }
        let example = Note::parse(EXAMPLE.as_bytes()).expect("a note");
        assert_eq!(example.verify(&known), Err(NoteFault::Unsigned));
    }

    #[test]
    fn only_notes_are_read() {
        let signer = NoteSigner::of_log("n", key(1)).expect("a name");
        let note = signer.sign("text\n");
        for wrong in [
            "",
            "\n",
            "\n\n",
            "text\n",
            "text\n\n",
            "text\n\n— n\n",
            "text\n\n— n \n",
            "text\n\n- n AAAA\n",
            "text\n\n— n AAAA BBBB\n",
            "text\n\n—  AAAA\n",
            "te\rxt\n\n— n AAAA\n",
            note.trim_end(),
            "text\n\n— n AAAA\n\n",
        ] {
            assert_eq!(Note::parse(wrong.as_bytes()).map(|note| note.text), Err(NoteFault::Malformed), "{wrong:?}");
        }
        assert_eq!(Note::parse(b"\xff\n\n").map(|note| note.text), Err(NoteFault::Malformed));
        let long = "x".repeat(NOTE_SIZE_MAX) + &note;
        assert_eq!(Note::parse(long.as_bytes()).map(|note| note.text), Err(NoteFault::Malformed));
    }

    #[test]
    fn keys_are_written_and_read() {
        for key in [NoteSigner::of_log("a/b", key(3)), NoteSigner::of_witness("w", key(4))] {
            let text = key.expect("a name").public().to_text();
            assert_eq!(VerifierKey::parse(&text).expect("a key").to_text(), text);
            for at in 0..text.len() {
                let mut changed = text.clone().into_bytes();
                changed[at] ^= 1;
                assert!(String::from_utf8(changed).is_ok_and(|text| VerifierKey::parse(&text).is_err()), "{at}");
            }
        }
        // Of the Go checksum database (https://go.dev/ref/mod#checksum-database).
        let known = "sum.golang.org+033de0ae+Ac4zctda0e5eza+HJyk9SxEdh+s3Ux18htTTAD8OuAn8";
        assert_eq!(VerifierKey::parse(known).expect("a key").to_text(), known);
        for wrong in ["", "a", "a b", "a+b", "a\u{a0}b", "a\u{7}"] {
            assert_eq!(VerifierKey::of_log(wrong, [0; 32]).is_ok(), wrong == "a", "{wrong:?}");
        }
    }
}
