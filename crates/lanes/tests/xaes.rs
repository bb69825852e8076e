//! XAES-256-GCM: the specification's accumulated rounds through every kernel of this CPU, so that other architectures have them too. The
//! library's own path, and comparisons with another library, are in the tests of `crypto`.

use leafseal_lanes::gcm::{Kernel, TAG_SIZE, XaesKeyParts, XaesNonce, XaesOpenItem, XaesSealItem};
use sha3::digest::{ExtendableOutput, Update, XofReader};
use shake::Shake128;

/// Messages that one call seals: more than the lanes of any kernel, and fewer.
const PLACES: usize = 9;

struct Round {
    key: [u8; 32],
    nonce: [u8; 24],
    plaintext: Vec<u8>,
    aad: Vec<u8>,
}

fn next_round(random: &mut impl XofReader) -> Round {
    let (mut key, mut nonce) = ([0; 32], [0; 24]);
    random.read(&mut key);
    random.read(&mut nonce);
    let mut text = || {
        let mut size = [0];
        random.read(&mut size);
        let mut text = vec![0; usize::from(size[0])];
        random.read(&mut text);
        text
    };
    let (plaintext, aad) = (text(), text());
    Round { key, nonce, plaintext, aad }
}

/// Seals the message of a round among others, which opens again in the same place.
fn sealed(kernel: Kernel, round: &Round, number: usize) -> Vec<u8> {
    let count = 1 + number % PLACES;
    let place = (number / PLACES) % count;
    let other = XaesSealItem { nonce: XaesNonce([9; 24]), aad: b"other", plaintext: &[7; 40] };
    let mut items = [other; PLACES];
    items[place] = XaesSealItem { nonce: XaesNonce(round.nonce), aad: &round.aad, plaintext: &round.plaintext };
    let mut key = XaesKeyParts::zero();
    kernel.expand_xaes(&round.key, &mut key);
    let mut out = vec![0; (count - 1) * (40 + TAG_SIZE) + round.plaintext.len() + TAG_SIZE];
    kernel.seal_xaes(&key, &items[..count], &mut out);
    let sealed = out[place * (40 + TAG_SIZE)..][..round.plaintext.len() + TAG_SIZE].to_vec();
    let item = XaesOpenItem { nonce: XaesNonce(round.nonce), aad: &round.aad, sealed: &sealed };
    let (mut text, mut opened) = (vec![0; round.plaintext.len()], [false]);
    kernel.open_xaes(&key, &[item], &mut text, &mut opened);
    assert!(opened[0] && text == round.plaintext, "{} opens round {number}", kernel.name());
    sealed
}

#[test]
fn ten_thousand_accumulated_rounds_in_every_kernel() {
    let expected = "e6b9edf2df6cec60c8cbd864e2211b597fb69a529160cd040d56c0c210081939";
    for kernel in Kernel::detect() {
        let (mut random, mut digest) = (Shake128::default().finalize_xof(), Shake128::default());
        (0..10_000).for_each(|number| digest.update(&sealed(kernel, &next_round(&mut random), number)));
        let mut hash = [0; 32];
        digest.finalize_xof().read(&mut hash);
        let hash: String = hash.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(hash, expected, "{}", kernel.name());
        println!("10,000 accumulated rounds through {}", kernel.name());
    }
}
