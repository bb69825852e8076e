//! Stream ciphers by name: AES in counter mode (SP 800-38A, 6.5) and ChaCha20 (RFC 8439), for interfaces that let their callers choose.
//!
//! They do not authenticate: an attacker who changes bits of a ciphertext changes the same bits of the plaintext. Prefer [`crate::aead`].
//! An IV must never repeat under a key, nor may the key streams of two messages overlap. Encryption and decryption are the same operation.
//! Any block of the key stream can be computed on its own, so that a long text may be cut and spread over threads
//! ([`CipherKey::apply_at`]).

use leafseal_lanes::chacha::Kernel;
use thiserror::Error;
use zeroize::{Zeroize, Zeroizing};

use crate::Secret;
use crate::chacha::chacha20;
use crate::ffi::stream_cipher::{AesKey, CipherText};
use crate::lanes;

/// Bytes of an initialisation vector: for AES the first counter block; for ChaCha20 a 64-bit little-endian block counter followed by
/// 64 bits of nonce, as OpenSSL has it. RFC 8439 divides the same bytes into a 32-bit counter and a 96-bit nonce; both agree until
/// its counter would wrap.
pub const IV_SIZE: usize = 16;

/// Longest block of a key stream in bytes.
const BLOCK_SIZE_MAX: usize = 64;

/// A stream cipher by its usual name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum CipherAlgorithm {
    /// AES-128 in counter mode with a 128-bit big-endian counter.
    Aes128Ctr,
    /// AES-192 in counter mode.
    Aes192Ctr,
    /// AES-256 in counter mode.
    Aes256Ctr,
    /// ChaCha20 with a 64-bit counter.
    ChaCha20,
}

impl CipherAlgorithm {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Aes128Ctr, Self::Aes192Ctr, Self::Aes256Ctr, Self::ChaCha20];

    /// The name that OpenSSL gives it, in lower case.
    pub fn name(self) -> &'static str {
        match self {
            Self::Aes128Ctr => "aes-128-ctr",
            Self::Aes192Ctr => "aes-192-ctr",
            Self::Aes256Ctr => "aes-256-ctr",
            Self::ChaCha20 => "chacha20",
        }
    }

    /// Bytes of a key.
    pub fn key_size(self) -> usize {
        match self {
            Self::Aes128Ctr => 16,
            Self::Aes192Ctr => 24,
            Self::Aes256Ctr | Self::ChaCha20 => 32,
        }
    }

    /// Bytes of a block of the key stream.
    pub fn block_size(self) -> usize {
        match self {
            Self::Aes128Ctr | Self::Aes192Ctr | Self::Aes256Ctr => 16,
            Self::ChaCha20 => 64,
        }
    }
}

/// The key has the wrong length for its algorithm.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("the key has the wrong length for this cipher")]
pub struct InvalidKeyLength;

/// An expanded key, usable from any thread. Wiped on drop.
pub struct CipherKey {
    algorithm: CipherAlgorithm,
    expanded: ExpandedKey,
}

enum ExpandedKey {
    Aes(Box<AesKey>),
    ChaCha20(Option<Kernel>, Secret<32>),
}

impl std::fmt::Debug for CipherKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "CipherKey({}, …)", self.algorithm.name())
    }
}

impl CipherKey {
    /// Expands `key`.
    ///
    /// # Errors
    /// [`InvalidKeyLength`] unless it has [`CipherAlgorithm::key_size`] bytes.
    pub fn new(algorithm: CipherAlgorithm, key: &[u8]) -> Result<Self, InvalidKeyLength> {
        Self::on(lanes::chacha_beside(lanes::serving()), algorithm, key)
    }

    pub(crate) fn on(kernel: Option<Kernel>, algorithm: CipherAlgorithm, key: &[u8]) -> Result<Self, InvalidKeyLength> {
        if key.len() != algorithm.key_size() {
            return Err(InvalidKeyLength);
        }
        let expanded = match algorithm {
            CipherAlgorithm::ChaCha20 => {
                ExpandedKey::ChaCha20(kernel, Secret::from_slice(key).ok_or(InvalidKeyLength)?)
            }
            _ => ExpandedKey::Aes(Box::new(AesKey::new(key))),
        };
        Ok(Self { algorithm, expanded })
    }

    /// The algorithm.
    pub fn algorithm(&self) -> CipherAlgorithm {
        self.algorithm
    }

    /// Encrypts or decrypts `input` to `output`.
    ///
    /// # Panics
    /// When they differ in length.
    pub fn apply(&self, iv: &[u8; IV_SIZE], input: &[u8], output: &mut [u8]) {
        self.run(*iv, CipherText::Separate(input, output));
    }

    /// Encrypts or decrypts in place.
    pub fn apply_in_place(&self, iv: &[u8; IV_SIZE], bytes: &mut [u8]) {
        self.run(*iv, CipherText::InPlace(bytes));
    }

    /// As [`CipherKey::apply`], for the part of a message that begins `block` blocks of the key stream after its start.
    ///
    /// # Panics
    /// When input and output differ in length.
    pub fn apply_at(&self, iv: &[u8; IV_SIZE], block: u64, input: &[u8], output: &mut [u8]) {
        self.run(self.algorithm.advance(iv, block), CipherText::Separate(input, output));
    }

    /// As [`CipherKey::apply_in_place`], from block `block` of the key stream.
    pub fn apply_in_place_at(&self, iv: &[u8; IV_SIZE], block: u64, bytes: &mut [u8]) {
        self.run(self.algorithm.advance(iv, block), CipherText::InPlace(bytes));
    }

    /// As [`CipherKey::apply`], for the part of a message that begins `position` bytes after its start.
    ///
    /// # Panics
    /// When input and output differ in length.
    pub fn apply_from(&self, iv: &[u8; IV_SIZE], position: u64, input: &[u8], output: &mut [u8]) {
        let (block, head) = self.place(position, input.len());
        let (input_head, input) = input.split_at(head);
        let (output_head, output) = output.split_at_mut(head);
        output_head.copy_from_slice(input_head);
        self.apply_head(iv, position, output_head);
        self.apply_at(iv, block, input, output);
    }

    /// As [`CipherKey::apply_from`], in place.
    pub fn apply_in_place_from(&self, iv: &[u8; IV_SIZE], position: u64, bytes: &mut [u8]) {
        let (block, head) = self.place(position, bytes.len());
        let (head, bytes) = bytes.split_at_mut(head);
        self.apply_head(iv, position, head);
        self.apply_in_place_at(iv, block, bytes);
    }

    /// The first block that begins at `position` or after it, and how many of `size` bytes lie before it.
    fn place(&self, position: u64, size: usize) -> (u64, usize) {
        let block_size = self.algorithm.block_size() as u64;
        let head = (block_size - position % block_size) % block_size;
        (position.div_ceil(block_size), size.min(head as usize))
    }

    /// The bytes before the first whole block.
    fn apply_head(&self, iv: &[u8; IV_SIZE], position: u64, head: &mut [u8]) {
        if head.is_empty() {
            return;
        }
        let block_size = self.algorithm.block_size() as u64;
        let mut block = Zeroizing::new([0; BLOCK_SIZE_MAX]);
        let mask = &mut block[..block_size as usize];
        self.apply_in_place_at(iv, position / block_size, mask);
        let mask = &mask[(position % block_size) as usize..];
        head.iter_mut().zip(mask).for_each(|(byte, mask)| *byte ^= mask);
    }

    fn run(&self, mut counter: [u8; IV_SIZE], text: CipherText<'_>) {
        match &self.expanded {
            ExpandedKey::Aes(key) => {
                let mut rest = Zeroizing::new([0; 16]);
                key.ctr(&mut counter, &mut rest, &mut 0, text);
            }
            ExpandedKey::ChaCha20(kernel, key) => chacha20_with_carry(*kernel, key.expose(), &counter, text),
        }
    }

    /// Begins a message that comes in pieces.
    pub fn start(self: std::sync::Arc<Self>, iv: &[u8; IV_SIZE]) -> CipherStream {
        CipherStream { key: self, counter: *iv, rest: [0; BLOCK_SIZE_MAX], used: 0 }
    }
}

impl CipherAlgorithm {
    /// The vector `blocks` blocks further on.
    fn advance(self, iv: &[u8; IV_SIZE], blocks: u64) -> [u8; IV_SIZE] {
        match self {
            Self::ChaCha20 => {
                let (counter, nonce) = split(iv);
                join(counter.wrapping_add(blocks), nonce)
            }
            _ => u128::from_be_bytes(*iv).wrapping_add(u128::from(blocks)).to_be_bytes(),
        }
    }
}

/// The 64-bit counter and the rest of a vector for ChaCha20.
fn split(iv: &[u8; IV_SIZE]) -> (u64, [u8; 8]) {
    let (counter, nonce) = iv.split_at(8);
    (u64::from_le_bytes(counter.try_into().expect("half of a vector")), nonce.try_into().expect("half of a vector"))
}

fn join(counter: u64, nonce: [u8; 8]) -> [u8; IV_SIZE] {
    let mut iv = [0; IV_SIZE];
    iv[..8].copy_from_slice(&counter.to_le_bytes());
    iv[8..].copy_from_slice(&nonce);
    iv
}

/// ChaCha20 whose counter carries into the second word: the library's counter of 32 bits wraps, so that a text is cut there.
fn chacha20_with_carry(kernel: Option<Kernel>, key: &[u8; 32], iv: &[u8; IV_SIZE], text: CipherText<'_>) {
    let (mut counter, nonce) = split(iv);
    let mut text = Some(text);
    while let Some(this) = text.take() {
        let blocks_left = (1_u64 << 32) - (counter & u64::from(u32::MAX));
        let (now, later) = this.split_at(blocks_left.saturating_mul(64));
        let iv = join(counter, nonce);
        let (low, long_nonce) = iv.split_at(4);
        chacha20(
            kernel,
            key,
            long_nonce.try_into().expect("12 bytes"),
            u32::from_le_bytes(low.try_into().expect("4 bytes")),
            now,
        );
        counter = counter.wrapping_add(blocks_left);
        text = later;
    }
}

/// A message in pieces of any length. Wiped on drop.
pub struct CipherStream {
    key: std::sync::Arc<CipherKey>,
    counter: [u8; IV_SIZE],
    /// The block of the key stream that the last piece ended in.
    rest: [u8; BLOCK_SIZE_MAX],
    /// The number of its bytes that are used; 0 if there is none.
    used: u32,
}

impl std::fmt::Debug for CipherStream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "CipherStream({}, …)", self.key.algorithm.name())
    }
}

impl Drop for CipherStream {
    fn drop(&mut self) {
        self.rest.zeroize();
    }
}

impl CipherStream {
    /// Encrypts or decrypts the next piece in place.
    pub fn apply_in_place(&mut self, bytes: &mut [u8]) {
        self.run(CipherText::InPlace(bytes));
    }

    pub(crate) fn run(&mut self, text: CipherText<'_>) {
        match &self.key.expanded {
            ExpandedKey::Aes(key) => {
                let rest = self.rest.first_chunk_mut().expect("a block of AES");
                key.ctr(&mut self.counter, rest, &mut self.used, text);
            }
            ExpandedKey::ChaCha20(..) => self.chacha20(text),
        }
    }

    fn chacha20(&mut self, text: CipherText<'_>) {
        let block_size = BLOCK_SIZE_MAX as u64;
        let mut text = Some(text);
        if self.used > 0 {
            let (front, after) = text.take().expect("a text").split_at(block_size - u64::from(self.used));
            let size = front.input().len();
            front.xor(&self.rest[self.used as usize..]);
            self.used = (self.used + size as u32) % BLOCK_SIZE_MAX as u32;
            text = after;
        }
        let Some(text) = text.filter(|text| !text.input().is_empty()) else { return };
        let block_count = text.input().len() as u64 / block_size;
        let (blocks, tail) = text.split_at(block_count * block_size);
        self.blocks(blocks);
        if let Some(tail) = tail {
            self.rest = [0; BLOCK_SIZE_MAX];
            let mut rest = Zeroizing::new(self.rest);
            self.blocks(CipherText::InPlace(&mut *rest));
            self.rest = *rest;
            self.used = tail.input().len() as u32;
            tail.xor(&self.rest);
        }
    }

    /// Whole blocks.
    fn blocks(&mut self, text: CipherText<'_>) {
        let ExpandedKey::ChaCha20(kernel, key) = &self.key.expanded else { return };
        let block_count = (text.input().len() / BLOCK_SIZE_MAX) as u64;
        chacha20_with_carry(*kernel, key.expose(), &self.counter, text);
        self.counter = CipherAlgorithm::ChaCha20.advance(&self.counter, block_count);
    }
}
