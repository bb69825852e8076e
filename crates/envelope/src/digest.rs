//! The digest of an envelope, by which copies of one are recognised.

use leafseal_crypto::hash::{SHA256_SIZE, sha256};
use leafseal_crypto::{DigestAlgorithm, DigestState};

use crate::format::PublicKeyEnvelope;

impl PublicKeyEnvelope<'_> {
    /// SHA-256 of everything that decides whether it opens: equal for copies of one envelope, and for no others.
    pub fn digest(&self) -> [u8; SHA256_SIZE] {
        let form = [self.marking as u8, self.value_type as u8];
        sha256(&[self.version.text().as_bytes(), &form, &self.iv, &self.ephemeral, self.ciphertext.text()])
    }

    /// Begins [`PublicKeyEnvelope::digest`] of a long envelope in pieces.
    pub fn digest_in_pieces(&self) -> EnvelopeDigest {
        let mut state = DigestAlgorithm::Sha256.start();
        let form = [self.marking as u8, self.value_type as u8];
        [self.version.text().as_bytes(), &form, &self.iv, &self.ephemeral].iter().for_each(|part| state.update(part));
        EnvelopeDigest { state, done: 0 }
    }
}

/// A digest of an envelope in progress.
pub struct EnvelopeDigest {
    state: DigestState,
    /// Bytes of the ciphertext's text.
    done: usize,
}

impl EnvelopeDigest {
    /// Goes on by up to `size` bytes of `envelope`, always the same; at its end gives [`PublicKeyEnvelope::digest`].
    pub fn step(&mut self, envelope: &PublicKeyEnvelope<'_>, size: usize) -> Option<[u8; SHA256_SIZE]> {
        let rest = &envelope.ciphertext.text()[self.done..];
        let piece = &rest[..size.max(1).min(rest.len())];
        self.state.update(piece);
        self.done += piece.len();
        if piece.len() < rest.len() {
            return None;
        }
        let mut digest = [0; SHA256_SIZE];
        self.state.clone().finish(&mut digest);
        Some(digest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_of_any_size_give_the_digest_of_the_whole() {
        let text = format!("ev:RFVC:{}:{}:{}:$", "A".repeat(16), "A".repeat(44), "B".repeat(64));
        let envelope = PublicKeyEnvelope::parse(text.as_bytes()).expect("an envelope");
        for size in [0, 1, 7, 63, 64, 65, 1_000] {
            let mut digest = envelope.digest_in_pieces();
            let (mut steps, mut ended) = (0, None);
            while ended.is_none() {
                ended = digest.step(&envelope, size);
                steps += 1;
            }
            assert_eq!((ended, steps), (Some(envelope.digest()), 64_usize.div_ceil(size.max(1))), "{size}");
        }
    }
}
