//! Poly1305 (RFC 8439, 2.5) in pieces of any length.

use super::field::{ABOVE, Poly1305Number};
use super::wide::{self, Powers, STEP_SIZE};
use super::{KEY_SIZE, Kernel};
#[cfg(target_arch = "x86_64")]
use crate::cpu::entry;
#[cfg(target_arch = "x86_64")]
use crate::u64x8::Avx512;
#[cfg(any(test, feature = "model"))]
use crate::u64x8::{Model, ModelCpu};
use crate::wipe::wipe;

/// Bytes of a tag.
pub const TAG_SIZE: usize = 16;
/// Bytes of a block.
const BLOCK_SIZE: usize = 16;
/// Shortest piece, in bytes, that is worth the computation of the powers of r.
const WIDE_SIZE_MIN: usize = 2 * STEP_SIZE;
/// The bits of r that are kept.
const CLAMP: u128 = 0x0fff_fffc_0fff_fffc_0fff_fffc_0fff_ffff;

/// A message being authenticated. A key must not serve twice. Constant time in key and message. Wiped on drop.
pub struct Poly1305 {
    kernel: Kernel,
    r: Poly1305Number,
    s: [u8; TAG_SIZE],
    sum: Poly1305Number,
    /// Computed when they are needed.
    powers: Option<Powers>,
    /// The start of a block.
    rest: [u8; BLOCK_SIZE],
    rest_size: usize,
}

impl std::fmt::Debug for Poly1305 {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Poly1305(…)")
    }
}

impl Drop for Poly1305 {
    fn drop(&mut self) {
        wipe(&mut self.s);
        wipe(&mut self.rest);
    }
}

impl Poly1305 {
    /// Begins a message under a key of its own.
    pub fn new(kernel: Kernel, key: &[u8; KEY_SIZE]) -> Self {
        let (r, s) = key.split_at(BLOCK_SIZE);
        let (r, s): (&[u8; BLOCK_SIZE], &[u8; TAG_SIZE]) =
            (r.try_into().expect("half of a key"), s.try_into().expect("half of a key"));
        let r = Poly1305Number::new(&(u128::from_le_bytes(*r) & CLAMP).to_le_bytes(), 0);
        Self { kernel, r, s: *s, sum: Poly1305Number::zero(), powers: None, rest: [0; BLOCK_SIZE], rest_size: 0 }
    }

    /// The next piece.
    pub fn update(&mut self, mut bytes: &[u8]) {
        if self.rest_size > 0 {
            let (front, after) = bytes.split_at(bytes.len().min(BLOCK_SIZE - self.rest_size));
            self.keep(front);
            bytes = after;
            if self.rest_size < BLOCK_SIZE {
                return;
            }
            let block = self.rest;
            self.block(&block, ABOVE);
            self.rest_size = 0;
        }
        if bytes.len() >= WIDE_SIZE_MIN {
            let (steps, after) = bytes.split_at(bytes.len() / STEP_SIZE * STEP_SIZE);
            self.wide(steps);
            bytes = after;
        }
        let (blocks, rest) = bytes.as_chunks();
        blocks.iter().for_each(|block| self.block(block, ABOVE));
        self.keep(rest);
    }

    /// Ends the message with its tag.
    pub fn finish(mut self) -> [u8; TAG_SIZE] {
        if self.rest_size > 0 {
            let mut block = [0; BLOCK_SIZE];
            block[..self.rest_size].copy_from_slice(&self.rest[..self.rest_size]);
            block[self.rest_size] = 1;
            self.block(&block, 0);
        }
        self.sum.low_128().wrapping_add(u128::from_le_bytes(self.s)).to_le_bytes()
    }

    fn keep(&mut self, bytes: &[u8]) {
        self.rest[self.rest_size..][..bytes.len()].copy_from_slice(bytes);
        self.rest_size += bytes.len();
    }

    fn block(&mut self, block: &[u8; BLOCK_SIZE], above: u64) {
        self.sum.add(&Poly1305Number::new(block, above));
        self.sum = self.sum.multiply(&self.r);
    }

    fn wide(&mut self, bytes: &[u8]) {
        let powers = self.powers.get_or_insert_with(|| Powers::new(&self.r));
        self.sum = match self.kernel {
            #[cfg(target_arch = "x86_64")]
            Kernel::Ifma(cpu) => update_with_ifma(cpu, powers, &self.sum, bytes),
            #[cfg(any(test, feature = "model"))]
            Kernel::Model => wide::update::<Model>(ModelCpu, powers, &self.sum, bytes),
        };
    }
}

#[cfg(target_arch = "x86_64")]
entry! {
    fn update_with_ifma(cpu: Ifma, powers: &Powers, sum: &Poly1305Number, bytes: &[u8]) -> Poly1305Number {
        wide::update::<Avx512<_>>(cpu, powers, sum, bytes)
    }
}
