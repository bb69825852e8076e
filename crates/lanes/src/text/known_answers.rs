//! Known answers that a kernel must compute before it is used: the test vectors of RFC 4648, section 10, the whole alphabet, and texts that
//! are not base64.

use super::{Kernel, TextFrame, decoded_size, encoded_size};
use crate::gcm::NONCE_SIZE;

/// Bytes whose base64 is the alphabet.
const BYTES: [u8; 48] = {
    let mut bytes = [0; 48];
    let mut i = 0;
    while i < bytes.len() {
        // The values 0 to 63 in six bits each.
        let first = (i / 3 * 4) as u32;
        let bits = first << 18 | (first + 1) << 12 | (first + 2) << 6 | (first + 3);
        bytes[i] = (bits >> (16 - 8 * (i % 3))) as u8;
        i += 1;
    }
    bytes
};
const TEXT: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// The vectors of the RFC, without padding.
const ANSWERS: [(&[u8], &[u8]); 7] = [
    (b"", b""),
    (b"f", b"Zg"),
    (b"fo", b"Zm8"),
    (b"foo", b"Zm9v"),
    (b"foob", b"Zm9vYg"),
    (b"fooba", b"Zm9vYmE"),
    (b"foobar", b"Zm9vYmFy"),
];

/// More than two steps of any kernel, and every rest of one.
const REPEATED: usize = 4;

/// Whether a kernel encodes and decodes the known answers, and refuses text that is not base64.
pub(super) fn are_given(kernel: Kernel) -> bool {
    let long: (Vec<u8>, Vec<u8>) = (BYTES.repeat(REPEATED), TEXT.repeat(REPEATED));
    let ends = (0..=BYTES.len() / 3).map(|group| (&long.0[3 * group..], &long.1[4 * group..]));
    let shorter = ends.clone().map(|(bytes, text)| (&bytes[..bytes.len() - 96], &text[..text.len() - 128]));
    ANSWERS.into_iter().chain(ends).chain(shorter).all(|(bytes, text)| gives(kernel, bytes, text))
        && refuses(kernel, &long.1)
        && appends(kernel)
}

fn gives(kernel: Kernel, bytes: &[u8], text: &[u8]) -> bool {
    let mut encoded = vec![0; encoded_size(bytes.len())];
    kernel.encode(bytes, &mut encoded);
    let mut decoded = vec![0; bytes.len()];
    kernel.decode(text, &mut decoded) && decoded == bytes && encoded == text
}

/// Every byte outside the alphabet, at every place, and bits after the last byte.
fn refuses(kernel: Kernel, text: &[u8]) -> bool {
    let decodes = |text: &[u8]| kernel.decode(text, &mut vec![0; decoded_size(text.len()).expect("a length")]);
    let mut damaged = text.to_vec();
    let others = (0..=255).filter(|byte| !TEXT.contains(byte));
    let is_alert = others.zip((0..text.len()).cycle()).all(|(byte, place)| {
        let good = std::mem::replace(&mut damaged[place], byte);
        let is_refused = !decodes(&damaged);
        damaged[place] = good;
        is_refused
    });
    is_alert && [&b"Zh"[..], b"Zm9", b"Zm9vYh", b"Zm9vYmF"].iter().all(|text| !decodes(text))
}

fn appends(kernel: Kernel) -> bool {
    let frame = TextFrame::new(b"<", b">:::::::::::::::::::::::<", *b">.");
    let mut out = b"=".to_vec();
    kernel.append(&frame, BYTES.first_chunk::<NONCE_SIZE>().expect("12 bytes"), &BYTES, &mut out);
    out == [b"=<ABCDEFGHIJKLMNOP>:::::::::::::::::::::::<".as_slice(), TEXT, b">."].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn are_given_by_every_kernel_of_this_cpu() {
        for kernel in Kernel::detect() {
            assert!(are_given(kernel), "{}", kernel.name());
        }
    }

    /// The check can fail: another answer is not taken, and a text that is right is not refused.
    #[test]
    fn a_wrong_answer_is_detected() {
        for kernel in Kernel::detect() {
            assert!(!gives(kernel, b"foobar", b"Zm9vYmFz"));
            assert!(!gives(kernel, b"fo", b"Zm9"));
        }
    }
}
