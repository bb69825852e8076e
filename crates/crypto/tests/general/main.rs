//! The primitives that callers choose by name, against Project Wycheproof, published vectors and other libraries: ciphers, AEAD with
//! tags apart, hashes and HMAC; whole, in pieces and in place.

mod aead;
mod ciphers;
mod digests;
mod xaes;

use rand::RngExt;
use rand::rngs::StdRng;

/// Random bytes.
fn random(rng: &mut StdRng, size: usize) -> Vec<u8> {
    let mut bytes = vec![0; size];
    rng.fill(&mut bytes[..]);
    bytes
}

/// Sizes of random pieces, empty ones included, that make up `size`.
fn pieces(rng: &mut StdRng, size: usize) -> Vec<usize> {
    let (mut sizes, mut left) = (Vec::new(), size);
    while left > 0 {
        let size_max = if rng.random() { 20 } else { 500 };
        let piece = rng.random_range(0..=size_max).min(left);
        sizes.push(piece);
        left -= piece;
    }
    sizes
}
