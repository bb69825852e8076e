//! Plain Rust, by tables. A step has six bytes.
//!
//! ```text
//! encode: the 48 bits as four numbers of 12 bits, each of which selects two characters
//! decode: for each four characters, the OR of their values, each looked up at its place in 24 bits; a fault is a bit above
//! ```

use super::frame::{SymmetricFrame, TextFrame};
use super::steps::{self, Base64Steps, NonceText, entries};
use super::tables::{ALPHABET, NONE, VALUES};
use super::{NONCE_TEXT_SIZE, decoded_size, encoded_size};
use crate::gcm::NONCE_SIZE;

/// The token that every CPU has.
#[derive(Clone, Copy)]
pub(super) struct AnyCpu;

/// The steps.
pub(super) struct PortableSteps;

/// Leaves a function as it is, except that callers do not inline it: the code that selects a kernel would become slower for all of them.
macro_rules! plain {
    (#[inline] $($function:tt)*) => {
        #[inline(never)]
        $($function)*
    };
}

entries!(plain, AnyCpu, PortableSteps);

/// Bytes of a step: its characters are then a power of two.
const STEP: usize = 6;
const CHARACTERS: usize = STEP / 3 * 4;

/// The bits of a character that is not base64; no value has any of them.
const FAULT: u32 = 0xff << 24;

/// The value of each character at each place of a group of four, shifted to its place in the group's 24 bits.
static VALUE_OF: [[u32; 256]; 4] = {
    let mut tables = [[FAULT; 256]; 4];
    let mut place = 0;
    while place < tables.len() {
        let mut character = 0;
        while character < VALUES.len() {
            if VALUES[character] != NONE {
                tables[place][character] = (VALUES[character] as u32) << (18 - 6 * place);
            }
            character += 1;
        }
        place += 1;
    }
    tables
};

/// The characters of twelve bits, the first in the low byte: half as many look-ups as one for each character, in 8 KiB.
static PAIRS: [u16; 1 << 12] = {
    let mut pairs = [0; 1 << 12];
    let mut bits = 0;
    while bits < pairs.len() {
        pairs[bits] = u16::from_le_bytes([ALPHABET[bits >> 6], ALPHABET[bits & 63]]);
        bits += 1;
    }
    pairs
};

/// The characters of 48 bits.
#[inline(always)]
fn characters(bits: u64) -> [u8; CHARACTERS] {
    let pair = |place: u32| u64::from(PAIRS[(bits >> place & 0xfff) as usize]);
    (pair(36) | pair(24) << 16 | pair(12) << 32 | pair(0) << 48).to_le_bytes()
}

/// The 24 bits of four characters, or some of [`FAULT`].
#[inline(always)]
fn bits([a, b, c, d]: [u8; 4]) -> u32 {
    let value = |place: usize, character: u8| VALUE_OF[place][usize::from(character)];
    value(0, a) | value(1, b) | value(2, c) | value(3, d)
}

/// The first bytes of a step, followed by others.
#[inline(always)]
fn padded<const N: usize>(bytes: &[u8], padding: u8) -> [u8; N] {
    std::array::from_fn(|i| bytes.get(i).copied().unwrap_or(padding))
}

impl Base64Steps for PortableSteps {
    type Cpu = AnyCpu;
    const BYTES: usize = STEP;

    // SAFETY: the trait states what the caller must guarantee.
    #[inline(always)]
    unsafe fn encode_step(_: AnyCpu, bytes: *const u8, out: *mut u8) {
        // SAFETY: `bytes` is readable for a step.
        let [a, b, c, d, e, f] = unsafe { bytes.cast::<[u8; STEP]>().read() };
        let text = characters(u64::from_be_bytes([0, 0, a, b, c, d, e, f]));
        // SAFETY: `out` is writable for the characters of a step.
        unsafe { out.cast::<[u8; CHARACTERS]>().write(text) }
    }

    // SAFETY: the trait states what the caller must guarantee.
    #[inline(always)]
    unsafe fn encode_short(_: AnyCpu, bytes: *const u8, size: usize, out: *mut u8) {
        // SAFETY: `bytes` is readable for `size` bytes.
        let bytes = unsafe { std::slice::from_raw_parts(bytes, size) };
        let [a, b, c, d, e, f] = padded(bytes, 0);
        let text = characters(u64::from_be_bytes([0, 0, a, b, c, d, e, f]));
        let text = &text[..encoded_size(size)];
        // SAFETY: `out` is writable for the encoded size, which is that of the text here.
        unsafe { out.copy_from_nonoverlapping(text.as_ptr(), text.len()) }
    }

    #[inline(always)]
    fn encode_nonce(cpu: AnyCpu, nonce: &[u8; NONCE_SIZE], out: &mut NonceText) {
        // SAFETY: `out` is as long as the text of a nonce.
        unsafe { steps::encode_to::<Self>(cpu, nonce, out.as_mut_ptr().cast()) }
    }

    #[inline(always)]
    fn decode_nonce(cpu: AnyCpu, text: &[u8; NONCE_TEXT_SIZE], out: &mut [u8; NONCE_SIZE]) -> bool {
        steps::decode::<Self>(cpu, text, out)
    }

    // SAFETY: the trait states what the caller must guarantee.
    #[inline(always)]
    unsafe fn decode_step(_: AnyCpu, text: *const u8, out: *mut u8) -> bool {
        // SAFETY: `text` is readable for the characters of a step.
        let [first, second] = unsafe { text.cast::<[[u8; 4]; 2]>().read() }.map(bits);
        let [_, _, bytes @ ..] = (u64::from(first) << 24 | u64::from(second)).to_be_bytes();
        // SAFETY: `out` is writable for a step.
        unsafe { out.cast::<[u8; STEP]>().write(bytes) }
        (first | second) & FAULT == 0
    }

    // SAFETY: the trait states what the caller must guarantee.
    #[inline(always)]
    unsafe fn decode_short(_: AnyCpu, text: *const u8, size: usize, out: *mut u8) -> bool {
        let count = decoded_size(size).unwrap_or(0);
        // SAFETY: `text` is readable for `size` bytes.
        let text = unsafe { std::slice::from_raw_parts(text, size) };
        // `A` has the value zero.
        let [a, b, c, d, e, f, g, h] = padded(text, b'A');
        let [first, second] = [[a, b, c, d], [e, f, g, h]].map(bits);
        let bytes = (u64::from(first) << 24 | u64::from(second)) << 16;
        let decoded = &bytes.to_be_bytes()[..count];
        // SAFETY: `out` is writable for the decoded size. Not through a reference: the memory may be uninitialised.
        unsafe { out.copy_from_nonoverlapping(decoded.as_ptr(), count) };
        // Bits without a byte must be zero.
        (first | second) & FAULT == 0 && bytes << (8 * count) == 0
    }
}
