//! Tests with Valgrind that timing does not depend on a private key or on the message.

use super::faults::{components, vectors};
use super::sign::{SigningNumbers, private_powers};
use super::words;
use crate::u64x8::{Model, ModelCpu};
use crate::valgrind::{complaints, hide, reveal};

/// Without the check of the signature, which is about public numbers.
#[test]
fn time_of_the_model_does_not_depend_on_keys_or_messages() {
    let (numbers, cases) = vectors();
    let mut key = SigningNumbers::new(&components(&numbers), 16).expect("a supported key");
    let cases = &cases[cases.len() - 4..];
    let mut messages = std::array::from_fn(|i| words::from_bytes(&cases[i].0, 32).expect("fits"));
    key.hide();
    messages.iter_mut().for_each(|message| hide(&mut message[..]));
    let mut signatures: [Vec<u64>; 4] = Default::default();
    let count = complaints(|| signatures = private_powers::<Model>(ModelCpu, &key, &messages));
    for (signature, (_, expected)) in signatures.iter_mut().zip(cases) {
        reveal(&mut signature[..]);
        assert!(words::to_bytes(signature) == *expected);
    }
    assert_eq!(count, 0);
}

/// The computation of a key's numbers at its set-up.
#[test]
fn time_of_powers_of_two_does_not_depend_on_primes() {
    let (numbers, _) = vectors();
    let mut prime = words::from_bytes(&numbers["p"], 16).expect("fits");
    let expected = words::power_of_two(2080, &prime);
    hide(&mut prime[..]);
    let mut power = Vec::new();
    let count = complaints(|| power = words::power_of_two(2080, &prime));
    reveal(&mut power[..]);
    assert!(power == expected);
    assert_eq!(count, 0);
}
