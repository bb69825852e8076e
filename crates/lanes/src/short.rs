//! Incomplete blocks of 16 bytes, in two halves of 64 bits.
//!
//! ```text
//! load of n bytes:   n ≥ 8: the first 8 bytes; the last 8 bytes, shifted by the bytes that both have
//!                    n ≥ 4: the first 4 bytes; the last 4 bytes, shifted to their place (the common bytes are equal, so OR)
//!                    else:  byte by byte
//! store:             the same in reverse: both stores write the common bytes with the same values
//! ```
//!
//! Branches depend only on lengths.
#![cfg_attr(not(any(target_arch = "x86_64", target_arch = "aarch64")), allow(dead_code))]

use std::mem::MaybeUninit;

/// Bytes of a block.
const BLOCK_SIZE: usize = 16;

/// 16 bytes of ones, then 16 of zeros: the 16 bytes from index 16 − n are a mask of the first n bytes of a block.
const KEEP: [u8; 2 * BLOCK_SIZE] = {
    let mut mask = [0; 2 * BLOCK_SIZE];
    let mut i = 0;
    while i < BLOCK_SIZE {
        mask[i] = 0xff;
        i += 1;
    }
    mask
};

/// A block of which the first `size` bytes are ones; at most 16.
#[inline(always)]
pub(crate) fn mask(size: usize) -> &'static [u8; BLOCK_SIZE] {
    KEEP[BLOCK_SIZE - size..].first_chunk().expect("as long as two blocks")
}

/// The same as little-endian halves.
#[inline(always)]
pub(crate) fn mask_halves(size: usize) -> [u64; 2] {
    let (halves, _) = mask(size).as_chunks();
    [u64::from_le_bytes(halves[0]), u64::from_le_bytes(halves[1])]
}

/// The first bytes of a block, followed by zeros, as little-endian halves.
///
/// # Safety
/// - `size` must be from 1 to 16.
/// - `bytes` must be readable for `size` bytes.
#[inline(always)]
pub(crate) unsafe fn load(bytes: *const u8, size: usize) -> [u64; 2] {
    // SAFETY: `bytes` is readable for `size` bytes.
    let bytes = unsafe { std::slice::from_raw_parts(bytes, size) };
    if let (Some(front), Some(back)) = (bytes.first_chunk(), bytes.last_chunk()) {
        let unused = 8 * (BLOCK_SIZE - size) as u32;
        return [u64::from_le_bytes(*front), u64::from_le_bytes(*back).checked_shr(unused).unwrap_or(0)];
    }
    if let (Some(front), Some(back)) = (bytes.first_chunk(), bytes.last_chunk()) {
        let back = u64::from(u32::from_le_bytes(*back)) << (8 * (size - 4));
        return [u64::from(u32::from_le_bytes(*front)) | back, 0];
    }
    [bytes.iter().rev().fold(0, |bits, &byte| bits << 8 | u64::from(byte)), 0]
}

/// Writes the first bytes of a block, given as little-endian halves.
///
/// # Safety
/// - `size` must be from 1 to 16.
/// - `out` must be writable for `size` bytes.
#[inline(always)]
pub(crate) unsafe fn store([low, high]: [u64; 2], out: *mut u8, size: usize) {
    // SAFETY: `out` is writable for `size` bytes, which as `MaybeUninit` need no initial value.
    let out = unsafe { std::slice::from_raw_parts_mut(out.cast::<MaybeUninit<u8>>(), size) };
    let bits = u128::from(high) << 64 | u128::from(low);
    if let Some(front) = out.first_chunk_mut() {
        *front = low.to_le_bytes().map(MaybeUninit::new);
        let back = ((bits >> (8 * (size - 8))) as u64).to_le_bytes();
        *out.last_chunk_mut().expect("8 bytes") = back.map(MaybeUninit::new);
    } else if let Some(front) = out.first_chunk_mut() {
        *front = (low as u32).to_le_bytes().map(MaybeUninit::new);
        let back = ((low >> (8 * (size - 4))) as u32).to_le_bytes();
        *out.last_chunk_mut().expect("4 bytes") = back.map(MaybeUninit::new);
    } else {
        for (i, byte) in out.iter_mut().enumerate() {
            byte.write((low >> (8 * i)) as u8);
        }
    }
}
