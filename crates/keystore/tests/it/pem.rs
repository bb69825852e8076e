//! PEM vectors made by openssl (`vectors/keys/`): what each file must give. The public keys to expect are openssl's too.

use std::fs;
use std::path::{Path, PathBuf};

use crate::common::context;
use leafseal_crypto::{Curve, PrivateKey};
use leafseal_keystore::{
    ImportError, PEM_SIZE_MAX, StoreError, parse_private_key_pem, public_key_pem, read_private_key_pem,
};
use proptest::prelude::*;

fn path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../vectors/keys").join(name)
}

fn text(name: &str) -> String {
    fs::read_to_string(path(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

fn parse(name: &str, curve: Curve) -> Result<PrivateKey, ImportError> {
    match read_private_key_pem(&path(name), curve, &context()) {
        Ok(key) => Ok(key),
        Err(StoreError::Import(error)) => Err(error),
        Err(other) => panic!("{name}: {other}"),
    }
}

fn other(curve: Curve) -> Curve {
    match curve {
        Curve::P256 => Curve::Secp256k1,
        Curve::Secp256k1 => Curve::P256,
    }
}

/// The forms that must give the key whose public half `openssl ec -pubout` wrote to `CURVE.pub.pem`.
const ACCEPTED: [&str; 8] =
    ["sec1", "sec1-no-public", "sec1-parameters", "sec1-bare", "pkcs8", "pkcs8-no-public", "pkcs8-crlf", "pkcs8-text"];

const REFUSED: [(&str, ImportError); 10] = [
    ("sec1-explicit", ImportError::ExplicitParameters),
    ("pkcs8-explicit", ImportError::ExplicitParameters),
    ("explicit-parameters", ImportError::ExplicitParameters),
    ("sec1-encrypted", ImportError::Encrypted),
    ("pkcs8-encrypted", ImportError::Encrypted),
    ("truncated", ImportError::Truncated),
    ("truncated-content", ImportError::Malformed),
    ("two-keys", ImportError::SeveralKeys),
    ("mismatch", ImportError::PublicKeyMismatch),
    ("pub", ImportError::OtherBlock("PUBLIC KEY")),
];

#[test]
fn every_form_gives_the_key_that_openssl_means() {
    for curve in Curve::ALL {
        let expected = text(&format!("{}.pub.pem", curve.short_name()));
        for form in ACCEPTED {
            let name = format!("{}.{form}.pem", curve.short_name());
            let key = parse(&name, curve).unwrap_or_else(|error| panic!("{name}: {error}"));
            assert_eq!(public_key_pem(&context().public_key(&key)), expected, "{name}");
        }
    }
}

#[test]
fn every_other_form_is_refused_for_its_reason() {
    for curve in Curve::ALL {
        for (form, expected) in REFUSED {
            let name = format!("{}.{form}.pem", curve.short_name());
            assert_eq!(parse(&name, curve).err(), Some(expected), "{name}");
        }
        assert_eq!(parse("other.p384.pem", curve).err(), Some(ImportError::OtherCurve));
        assert_eq!(parse("other.ed25519.pem", curve).err(), Some(ImportError::NotEllipticCurve));
        assert_eq!(parse("other.rsa.pem", curve).err(), Some(ImportError::NotEllipticCurve));
        assert_eq!(parse("other.zero.pem", curve).err(), Some(ImportError::InvalidScalar));
        assert_eq!(parse("make.sh", curve).err(), Some(ImportError::NoKey));
    }
}

#[test]
fn the_curve_of_a_key_must_be_the_requested_one() {
    for found in Curve::ALL {
        for form in ACCEPTED.into_iter().filter(|form| *form != "sec1-bare") {
            let name = format!("{}.{form}.pem", found.short_name());
            let expected = other(found);
            let error = ImportError::WrongCurve { expected, found };
            assert_eq!(parse(&name, expected).err(), Some(error), "{name}");
        }
    }
    let error = parse("k1.sec1.pem", Curve::P256).expect_err("refused");
    assert_eq!(error.to_string(), "this is a secp256k1 (k1) key where a P-256 (r1) key is expected");
    // Parameters and a key that disagree.
    let key = text("r1.sec1-bare.pem");
    let parameters = "-----BEGIN EC PARAMETERS-----\nBgUrgQQACg==\n-----END EC PARAMETERS-----\n";
    let (expected, found) = (Curve::P256, Curve::Secp256k1);
    assert_eq!(
        parse_private_key_pem(&format!("{parameters}{key}"), Curve::P256, &context()).err(),
        Some(ImportError::WrongCurve { expected, found })
    );
}

#[test]
fn every_vector_is_used() {
    let mut known: Vec<String> =
        ["other.p384.pem", "other.ed25519.pem", "other.rsa.pem", "other.zero.pem"].map(str::to_owned).to_vec();
    for curve in Curve::ALL {
        let forms = ACCEPTED.into_iter().chain(REFUSED.map(|(form, _)| form));
        known.extend(forms.map(|form| format!("{}.{form}.pem", curve.short_name())));
    }
    let mut found: Vec<String> = fs::read_dir(path(""))
        .expect("folder")
        .map(|entry| entry.expect("entry").file_name().into_string().expect("text"))
        .filter(|name| name.ends_with(".pem"))
        .collect();
    known.sort();
    found.sort();
    assert_eq!(found, known);
}

#[test]
fn damaged_text_is_refused() {
    let sec1 = text("r1.sec1.pem");
    let parse = |text: &str| parse_private_key_pem(text, Curve::P256, &context()).err();
    assert_eq!(parse(""), Some(ImportError::NoKey));
    assert_eq!(parse("\n\n"), Some(ImportError::NoKey));
    assert_eq!(parse(&sec1.replace("-----BEGIN", "----BEGIN")), Some(ImportError::NoKey));
    assert_eq!(parse(&sec1.replace("-----END EC", "-----END")), Some(ImportError::Truncated));
    assert_eq!(parse(&sec1.replace("EC PRIVATE", "PRIVATE")), Some(ImportError::Malformed));
    assert_eq!(parse(&sec1.replace("EC PRIVATE", "DSA PRIVATE")), Some(ImportError::OtherBlock("of another kind")));
    assert_eq!(parse(&sec1.replacen('M', "!", 1)), Some(ImportError::NotBase64));
    let empty = "-----BEGIN PRIVATE KEY-----\n-----END PRIVATE KEY-----\n";
    assert_eq!(parse(empty), Some(ImportError::Malformed));
    let padded = format!("{}{sec1}", " \n".repeat((PEM_SIZE_MAX - sec1.len()) / 2));
    assert_eq!(parse(&padded), None);
    assert_eq!(parse(&format!("{padded}{}", " ".repeat(3))), Some(ImportError::TooLarge));
}

#[test]
fn errors_repeat_nothing_of_the_file() {
    for name in ["r1.mismatch.pem", "r1.truncated-content.pem", "r1.truncated.pem", "r1.two-keys.pem"] {
        let content = text(name);
        let error = parse(name, Curve::P256).expect_err("refused");
        let shown = format!("{error} {error:?}");
        for line in content.lines().filter(|line| !line.starts_with('-')) {
            assert!(!shown.contains(&line[..line.len().min(8)]), "{name}");
        }
    }
}

proptest! {
    /// Whatever is done to a PEM, it gives the key that it held or a refusal, and no panic.
    #[test]
    fn changed_text_gives_the_same_key_or_none(
        form in prop::sample::select(&["sec1", "pkcs8", "sec1-parameters"]),
        index in any::<prop::sample::Index>(),
        byte in 0x20..0x7fu8,
    ) {
        let original = text(&format!("r1.{form}.pem"));
        let mut changed = original.clone().into_bytes();
        let index = index.index(changed.len());
        changed[index] = byte;
        let changed = String::from_utf8(changed).expect("ASCII");
        let expected = parse_private_key_pem(&original, Curve::P256, &context()).expect("valid");
        if let Ok(key) = parse_private_key_pem(&changed, Curve::P256, &context()) {
            prop_assert_eq!(key.scalar(), expected.scalar());
        }
    }

    #[test]
    fn text_of_any_kind_is_refused_without_a_panic(noise in "\\PC{0,200}") {
        let block = format!("-----BEGIN PRIVATE KEY-----\n{noise}\n-----END PRIVATE KEY-----\n");
        for text in [noise, block] {
            prop_assert!(parse_private_key_pem(&text, Curve::P256, &context()).is_err());
        }
    }
}
