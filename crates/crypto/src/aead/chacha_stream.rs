//! ChaCha20-Poly1305 (RFC 8439, 2.8) in pieces, from its two halves.

use leafseal_lanes::chacha::Kernel;
use zeroize::Zeroizing;

use crate::aead::{Nonce, TAG_SIZE};
use crate::chacha::Poly1305Parts;
use crate::cipher::{CipherAlgorithm, CipherKey, CipherStream, IV_SIZE};
use crate::ffi::gcm_stream::CipherDirection;
use crate::ffi::stream_cipher::CipherText;

/// Bytes that go through one half and then the other, while a cache still has them.
const PIECE_SIZE: u64 = 16 << 10;

/// A message in the middle.
pub(super) struct ChaChaStream {
    cipher: CipherStream,
    mac: Poly1305Parts,
    direction: CipherDirection,
    aad_size: u64,
    text_size: u64,
}

impl ChaChaStream {
    /// `key` has 32 bytes.
    pub(super) fn new(
        kernel: Option<Kernel>,
        key: &[u8],
        nonce: &Nonce,
        aad: &[u8],
        direction: CipherDirection,
    ) -> Self {
        let key = CipherKey::on(kernel, CipherAlgorithm::ChaCha20, key).expect("a key of 32 bytes");
        let mut iv = [0; IV_SIZE];
        iv[4..].copy_from_slice(&nonce.0);
        let mut mac_key = Zeroizing::new([0; 32]);
        key.apply_in_place(&iv, &mut *mac_key);
        let mut mac = Poly1305Parts::new(kernel, &mac_key);
        mac.update(aad);
        pad(&mut mac, aad.len() as u64);
        iv[0] = 1;
        let cipher = std::sync::Arc::new(key).start(&iv);
        Self { cipher, mac, direction, aad_size: aad.len() as u64, text_size: 0 }
    }

    /// The next piece.
    pub(super) fn update(&mut self, text: CipherText<'_>) {
        self.text_size += text.input().len() as u64;
        let mut left = Some(text);
        while let Some(text) = left {
            let (piece, after) = text.split_at(PIECE_SIZE);
            self.piece(piece);
            left = after;
        }
    }

    fn piece(&mut self, mut text: CipherText<'_>) {
        if self.direction == CipherDirection::Open {
            self.mac.update(text.input());
        }
        self.cipher.run(text.reborrow());
        if self.direction == CipherDirection::Seal {
            self.mac.update(text.output());
        }
    }

    /// The tag of the whole message.
    pub(super) fn tag(mut self) -> [u8; TAG_SIZE] {
        pad(&mut self.mac, self.text_size);
        self.mac.update(&self.aad_size.to_le_bytes());
        self.mac.update(&self.text_size.to_le_bytes());
        self.mac.finish()
    }
}

/// Zeros up to a multiple of 16 bytes.
fn pad(mac: &mut Poly1305Parts, size: u64) {
    mac.update(&[0; 16][..(16 - size as usize % 16) % 16]);
}
