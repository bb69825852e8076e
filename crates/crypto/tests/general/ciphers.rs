//! Counter mode and ChaCha20.

use std::sync::Arc;

use aws_lc_rs::cipher::{AES_128, AES_192, AES_256, DecryptingKey, DecryptionContext, UnboundCipherKey};
use leafseal_crypto::{CipherAlgorithm, CipherKey};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use crate::{pieces, random};

fn apply(algorithm: CipherAlgorithm, key: &[u8], iv: &[u8; 16], text: &[u8]) -> Vec<u8> {
    let mut out = vec![0; text.len()];
    CipherKey::new(algorithm, key).expect("length").apply(iv, text, &mut out);
    out
}

fn decoded(text: &str) -> Vec<u8> {
    hex::decode(text).expect("hexadecimal")
}

/// SP 800-38A, F.5.5: CTR-AES256.Encrypt.
#[test]
fn counter_mode_of_the_standard() {
    let key = decoded("603deb1015ca71be2b73aef0857d77811f352c073b6108d72d9810a30914dff4");
    let iv = decoded("f0f1f2f3f4f5f6f7f8f9fafbfcfdfeff").try_into().expect("16 bytes");
    let text = decoded("6bc1bee22e409f96e93d7e117393172aae2d8a571e03ac9c9eb76fac45af8e51");
    let sealed = apply(CipherAlgorithm::Aes256Ctr, &key, &iv, &text);
    assert_eq!(hex::encode(sealed), "601ec313775789a5b7a7f504bbf3d228f443e3ca4d62b59aca84e990cacaf5c5");
}

/// RFC 8439, 2.4.2.
#[test]
fn chacha20_of_the_standard() {
    let key: Vec<u8> = (0..32).collect();
    let iv = decoded("01000000000000000000004a00000000").try_into().expect("16 bytes");
    let text = b"Ladies and Gentlemen of the class of '99: If I could offer you only one tip for the future, sunscreen would be it.";
    let sealed = apply(CipherAlgorithm::ChaCha20, &key, &iv, text);
    assert!(hex::encode(&sealed).starts_with("6e2e359a2568f98041ba0728dd0d6981e97e7aec1d4360c20a27afccfd9fae0b"));
    assert!(hex::encode(&sealed).ends_with("5af90bbf74a35be6b40b8eedf2785e42874d"));
}

/// The counter carries through all of its bytes, from random and from extreme values.
#[test]
fn counter_mode_equals_that_of_another_library() {
    let mut rng = StdRng::seed_from_u64(1);
    let algorithms = [
        (CipherAlgorithm::Aes128Ctr, &AES_128),
        (CipherAlgorithm::Aes192Ctr, &AES_192),
        (CipherAlgorithm::Aes256Ctr, &AES_256),
    ];
    for round in 0..300 {
        let (algorithm, other) = algorithms[round % 3];
        let key = random(&mut rng, algorithm.key_size());
        let mut iv = [0xff; 16];
        let carried = rng.random_range(0..=16);
        rng.fill(&mut iv[..carried]);
        let size = rng.random_range(0..1000);
        let text = random(&mut rng, size);
        let unbound = UnboundCipherKey::new(other, &key).expect("length");
        let mut expected = text.clone();
        let decrypting = DecryptingKey::ctr(unbound).expect("counter mode");
        decrypting.decrypt(&mut expected, DecryptionContext::Iv128((&iv).into())).expect("any text");
        assert_eq!(apply(algorithm, &key, &iv, &text), expected, "{} from {iv:x?}", algorithm.name());
    }
}

/// A 64-bit counter: the second word takes the carry of the first, the third none.
#[test]
fn chacha20_carries_into_the_second_word_only() {
    let key = [7; 32];
    let block = |iv: [u8; 16]| apply(CipherAlgorithm::ChaCha20, &key, &iv, &[0; 64]);
    let (mut last, mut next) = ([9; 16], [9; 16]);
    last[..4].copy_from_slice(&[0xff; 4]);
    next[..4].copy_from_slice(&[0; 4]);
    next[4] += 1;
    let two = apply(CipherAlgorithm::ChaCha20, &key, &last, &[0; 128]);
    assert_eq!(two, [block(last), block(next)].concat());
    let (mut last, mut next) = ([9; 16], [9; 16]);
    last[..8].copy_from_slice(&[0xff; 8]);
    next[..8].copy_from_slice(&[0; 8]);
    assert_eq!(apply(CipherAlgorithm::ChaCha20, &key, &last, &[0; 128]), [block(last), block(next)].concat());
}

#[test]
fn pieces_parts_and_places_are_the_whole() {
    let mut rng = StdRng::seed_from_u64(2);
    for round in 0..200 {
        let algorithm = CipherAlgorithm::ALL[round % 4];
        let key = random(&mut rng, algorithm.key_size());
        let mut iv: [u8; 16] = rng.random();
        if rng.random() {
            // A wrap within the text.
            let end = if algorithm == CipherAlgorithm::ChaCha20 { &mut iv[1..4] } else { &mut iv[12..15] };
            end.fill(0xff);
        }
        let size = rng.random_range(0..40_000);
        let text = random(&mut rng, size);
        let whole = apply(algorithm, &key, &iv, &text);
        let key = Arc::new(CipherKey::new(algorithm, &key).expect("length"));

        let mut in_place = text.clone();
        key.apply_in_place(&iv, &mut in_place);
        assert_eq!(in_place, whole);

        let (mut stream, mut streamed, mut at) = (Arc::clone(&key).start(&iv), text.clone(), 0);
        for size in pieces(&mut rng, size) {
            stream.apply_in_place(&mut streamed[at..at + size]);
            at += size;
        }
        assert_eq!(streamed, whole, "{} from {iv:x?}", algorithm.name());

        let block = rng.random_range(0..=size / algorithm.block_size());
        let at = block * algorithm.block_size();
        let mut part = vec![0; size - at];
        key.apply_at(&iv, block as u64, &text[at..], &mut part);
        assert_eq!(part, whole[at..]);
        part.copy_from_slice(&text[at..]);
        key.apply_in_place_at(&iv, block as u64, &mut part);
        assert_eq!(part, whole[at..]);
    }
}

#[test]
fn keys_of_other_lengths_are_refused() {
    for algorithm in CipherAlgorithm::ALL {
        for size in (0..40).filter(|&size| size != algorithm.key_size()) {
            assert!(CipherKey::new(algorithm, &vec![0; size]).is_err(), "{} with {size} bytes", algorithm.name());
        }
    }
}

#[test]
fn a_part_may_begin_at_any_byte() {
    let text: Vec<u8> = (0..700).map(|i| (i % 251) as u8).collect();
    for algorithm in CipherAlgorithm::ALL {
        let key = CipherKey::new(algorithm, &vec![5; algorithm.key_size()]).expect("length");
        let iv = [0xff; 16];
        let mut whole = vec![0; text.len()];
        key.apply(&iv, &text, &mut whole);
        for position in (0..=130).chain([255, 256, 257, 699, 700]) {
            for size in [0, 1, 15, 16, 17, 63, 64, 65, 200] {
                let end = text.len().min(position + size);
                let mut part = vec![0; end - position];
                key.apply_from(&iv, position as u64, &text[position..end], &mut part);
                assert_eq!(part, whole[position..end], "{algorithm:?} from {position} to {end}");
                let mut part = text[position..end].to_vec();
                key.apply_in_place_from(&iv, position as u64, &mut part);
                assert_eq!(part, whole[position..end], "{algorithm:?} in place from {position} to {end}");
            }
        }
    }
}
