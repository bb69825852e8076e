//! ChaCha20 and Poly1305 (RFC 8439): by the kernel of `lanes` where there is one and the text is long, else by the library.

use leafseal_lanes::chacha::{self, Kernel};

use crate::ffi::stream_cipher::{self, CipherText};

/// ChaCha20 from block `counter`, which must not pass 2^32 - 1 within the text.
pub(crate) fn chacha20(kernel: Option<Kernel>, key: &[u8; 32], nonce: &[u8; 12], counter: u32, text: CipherText<'_>) {
    match (kernel, text) {
        (Some(kernel), CipherText::Separate(input, output)) if input.len() >= chacha::SIZE_MIN => {
            kernel.chacha20(key, nonce, counter, input, output);
        }
        (Some(kernel), CipherText::InPlace(bytes)) if bytes.len() >= chacha::SIZE_MIN => {
            kernel.chacha20_in_place(key, nonce, counter, bytes);
        }
        (_, text) => stream_cipher::chacha20(key, nonce, counter, text),
    }
}

/// Poly1305 in pieces. Wiped on drop.
pub(crate) enum Poly1305Parts {
    Library(stream_cipher::BoringPoly1305),
    Lanes(Box<chacha::Poly1305>),
}

impl Poly1305Parts {
    pub(crate) fn new(kernel: Option<Kernel>, key: &[u8; 32]) -> Self {
        match kernel {
            Some(kernel) => Self::Lanes(Box::new(chacha::Poly1305::new(kernel, key))),
            None => Self::Library(stream_cipher::BoringPoly1305::new(key)),
        }
    }

    pub(crate) fn update(&mut self, bytes: &[u8]) {
        match self {
            Self::Library(state) => state.update(bytes),
            Self::Lanes(state) => state.update(bytes),
        }
    }

    pub(crate) fn finish(self) -> [u8; 16] {
        match self {
            Self::Library(state) => state.finish(),
            Self::Lanes(state) => state.finish(),
        }
    }
}
