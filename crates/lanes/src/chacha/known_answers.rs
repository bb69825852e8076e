//! A known answer that a kernel must compute before it is used: the Poly1305 tag, by OpenSSL 3.0.19, of a text that its ChaCha20 encrypted.
//! The text has whole groups of blocks and a rest.

use super::{Kernel, Poly1305};

const TEXT_SIZE: usize = 1100;
const TAG: [u8; 16] = 0x44ed_dc38_ab8c_36d8_7fbd_3d6a_0cde_7cf9_u128.to_be_bytes();

/// Whether a kernel computes the known answer.
pub(super) fn are_given(kernel: Kernel) -> bool {
    let mut text: [u8; TEXT_SIZE] = std::array::from_fn(|i| (i % 251) as u8);
    let counting_from = |first: u8| std::array::from_fn(|i| first + i as u8);
    let nonce = std::array::from_fn(|i| 100 + i as u8);
    kernel.chacha20_in_place(&counting_from(0), &nonce, 1, &mut text);
    let mut mac = Poly1305::new(kernel, &counting_from(200));
    mac.update(&text);
    mac.finish() == TAG
}
