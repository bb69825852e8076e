//! Tests with Valgrind that timing does not depend on keys or texts. Valgrind lacks AVX-512, so these tests run the portable ChaCha20,
//! whose only branches are on lengths, and the source of Poly1305 over the model's numbers.

use super::{Kernel, Poly1305};
use crate::valgrind::{complaints, hide, reveal};

/// A text for two steps side by side, some blocks and a rest.
const SIZE: usize = 512 + 3 * 16 + 5;

#[test]
fn time_of_poly1305_does_not_depend_on_key_or_text() {
    let (key, text) = ([0xfe; 32], [0xff; SIZE]);
    let tag = |key, text: &[u8]| {
        let mut mac = Poly1305::new(Kernel::Model, key);
        mac.update(text);
        mac.finish()
    };
    let expected = tag(&key, &text);
    let (mut secret_key, mut secret_text, mut found) = (key, text, [0; 16]);
    hide(&mut secret_key);
    hide(&mut secret_text);
    let count = complaints(|| found = tag(&secret_key, &secret_text));
    reveal(&mut found);
    assert_eq!((found, count), (expected, 0));
}

#[test]
fn time_of_chacha20_does_not_depend_on_key_or_text() {
    let (mut key, mut text) = ([0xfe; 32], [0xff; SIZE]);
    hide(&mut key);
    hide(&mut text);
    assert_eq!(complaints(|| Kernel::Model.chacha20_in_place(&key, &[1; 12], 1, &mut text)), 0);
}
