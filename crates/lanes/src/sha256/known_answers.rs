//! Known answers that a kernel must compute before it is used: the examples of FIPS 180-4 (NIST, "SHA256 examples") of one and of two
//! blocks, each beside the other.

use super::{BLOCK_SIZE, INITIAL, Kernel, Sha256Words};

const ABC: Sha256Words =
    [0xba78_16bf, 0x8f01_cfea, 0x4141_40de, 0x5dae_2223, 0xb003_61a3, 0x9617_7a9c, 0xb410_ff61, 0xf200_15ad];
const TWO_BLOCKS: Sha256Words =
    [0x248d_6a61, 0xd206_38b8, 0xe5c0_2693, 0x0c3e_6039, 0xa33c_e459, 0x64ff_2167, 0xf6ec_edd4, 0x19db_06c1];
const TWO_BLOCKS_TEXT: &[u8] = b"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq";

/// A message with its padding (FIPS 180-4, 5.1.1).
fn padded(text: &[u8]) -> [u8; 2 * BLOCK_SIZE] {
    let mut blocks = [0; 2 * BLOCK_SIZE];
    blocks[..text.len()].copy_from_slice(text);
    blocks[text.len()] = 0x80;
    let end = (text.len() + 9).next_multiple_of(BLOCK_SIZE);
    blocks[end - 8..end].copy_from_slice(&(8 * text.len() as u64).to_be_bytes());
    blocks
}

/// Whether a kernel computes the known answers.
pub(super) fn are_given(kernel: Kernel) -> bool {
    let (short, long) = (padded(b"abc"), padded(TWO_BLOCKS_TEXT));
    let pairs = [[&short[..BLOCK_SIZE], &short[..BLOCK_SIZE]], [&long[..], &long[..]]];
    let expected = [ABC, TWO_BLOCKS];
    let are_right = pairs.into_iter().zip(expected).all(|(messages, expected)| {
        let [mut front, mut back] = [INITIAL; 2];
        kernel.compress_pair([&mut front, &mut back], messages);
        front == expected && back == expected
    });
    // Different messages: the second block of the longer one is left.
    let [mut front, mut back] = [INITIAL; 2];
    let is_one = kernel.compress_pair([&mut front, &mut back], [&short[..BLOCK_SIZE], &long]) == 1;
    let mut other = INITIAL;
    kernel.compress_pair([&mut back, &mut other], [&long[BLOCK_SIZE..], &long[BLOCK_SIZE..]]);
    are_right && is_one && front == ABC && back == TWO_BLOCKS
}
