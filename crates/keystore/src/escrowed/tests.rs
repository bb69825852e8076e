//! What is refused of a text in escrow: whatever differs from what its store has signed, or from how an export writes it.

use std::sync::LazyLock;

use leafseal_crypto::{Ed25519PrivateKey, PrivateKey, Secret};
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng};

use super::*;
use crate::is_signer;
use crate::model::KeyState;

/// Written by the implementation in tests/interop/escrow_text.py.
const VECTORS: [&str; 3] = [
    include_str!("../../../../vectors/escrow/acme-1.txt"),
    include_str!("../../../../vectors/escrow/acme-2.txt"),
    include_str!("../../../../vectors/escrow/old-1.txt"),
];

static CONTEXT: LazyLock<EcContext> = LazyLock::new(|| EcContext::new(&mut StdRng::seed_from_u64(1)));

/// The one of the vectors is number 1.
fn signer(number: u8) -> RecordKey {
    RecordKey::new(StoreId([7; 16]), 2, Ed25519PrivateKey::from_seed(Secret::from_bytes(&[number; 32])))
}

fn read(text: &str) -> Result<EscrowedVersion, EscrowFault> {
    EscrowedVersion::parse(text, &CONTEXT)
}

fn vector(index: usize) -> EscrowedVersion {
    read(VECTORS[index]).expect("a vector")
}

fn is_signed(version: &EscrowedVersion) -> bool {
    version.is_signed_by(&signer(1).public_key())
}

#[test]
fn texts_of_another_implementation_are_read_and_written_byte_for_byte() {
    assert!(!is_signer(ESCROW_SIGNER));
    for (index, text) in VECTORS.into_iter().enumerate() {
        let read = vector(index);
        assert!(is_signed(&read) && !read.is_signed_by(&signer(2).public_key()));
        let EscrowStatement { app, version, created_at, accept, .. } = read.statement().clone();
        let keys = AppKeys { name: app, disabled: false, accept, versions: Vec::new(), canaries: None };
        let (r1, k1, symmetric) = (read.r1.clone(), read.k1.clone(), read.symmetric.clone());
        let version = KeyVersion { version, created_at, state: KeyState::Active, r1, k1, symmetric };
        assert_eq!(*EscrowedVersion::sign(&keys, &version, &signer(1)).text(), text);
        assert!(text.len() * 2 < ESCROWED_SIZE_MAX, "also with a long name");
    }
    let kinds = AcceptedSchemes { public_key: false, ..AcceptedSchemes::ALL };
    assert_eq!((vector(0).statement().accept, vector(2).statement().accept), (kinds, AcceptedSchemes::ALL));
}

#[test]
fn every_fact_of_a_statement_is_signed() {
    let other_pair = |curve| AppKeyPair::new(PrivateKey::generate(curve, &mut StdRng::seed_from_u64(2)), &CONTEXT);
    let other_root = || SymmetricRoot::from_slice(&[9; 32]).expect("32 bytes");
    type Edit<'a> = (&'a str, Box<dyn Fn(&mut EscrowedVersion) + 'a>);
    let edits: [Edit<'_>; 11] = [
        ("store", Box::new(|it| it.statement.store = StoreId([8; 16]))),
        ("epoch", Box::new(|it| it.statement.epoch += 1)),
        ("app", Box::new(|it| it.statement.app = AppName::parse("other").expect("valid"))),
        ("version", Box::new(|it| it.statement.version += 1)),
        ("created_at", Box::new(|it| it.statement.created_at -= 1)),
        ("accept", Box::new(|it| it.statement.accept = AcceptedSchemes::ALL)),
        ("r1", Box::new(|it| it.r1 = other_pair(Curve::P256))),
        ("k1", Box::new(|it| it.k1 = other_pair(Curve::Secp256k1))),
        ("root", Box::new(|it| it.symmetric = Some(other_root()))),
        ("no root", Box::new(|it| it.symmetric = None)),
        ("signature", Box::new(|it| it.signature = vector(1).signature)),
    ];
    for (name, edit) in edits {
        // Keys that are replaced with what the statement says of them, and without.
        let mut forged = vector(0);
        edit(&mut forged);
        let keys_only = forged.text();
        forged.statement.r1 = *forged.r1.public();
        forged.statement.k1 = *forged.k1.public();
        forged.statement.symmetric = forged.symmetric.as_ref().map(SymmetricRoot::key_id);
        let forged = read(&forged.text()).expect("as an export writes it");
        assert!(!is_signed(&forged), "{name}");
        let is_key = matches!(name, "r1" | "k1" | "root" | "no root");
        assert_eq!(read(&keys_only).err(), is_key.then_some(EscrowFault::Keys), "{name}");
    }
}

#[test]
fn a_text_that_is_written_in_another_way_is_refused() {
    let [one, next, old] = VECTORS;
    let (line, keys) = one.split_once('\n').expect("lines");
    let at = keys.find("-----BEGIN").expect("a key") + keys[30..].find("-----BEGIN").expect("another") + 30;
    let root = keys.find(ROOT).expect("a root");
    let (r1, k1, root) = (&keys[..at], &keys[at..root], &keys[root..]);
    let next_keys = next.split_once('\n').expect("lines").1;
    let edited = |from: &str, to: &str| {
        let edited = one.replacen(from, to, 1);
        assert_ne!(edited, one, "{from}");
        edited
    };
    use EscrowFault::{Keys, NoStatement, Statement};
    for (text, fault) in [
        (String::new(), NoStatement),
        (keys.to_owned(), NoStatement),
        (root.to_owned(), NoStatement),
        (format!("\n{one}"), NoStatement),
        (edited("-1 store", "-2 store"), NoStatement),
        (line.to_owned(), Statement),
        (format!("{line}\n"), Keys),
        (edited("epoch=2 app=acme", "app=acme epoch=2"), Statement),
        (edited("epoch=2 ", ""), Statement),
        (edited("epoch=2 ", "epoch=2 epoch=2 "), Statement),
        (edited("epoch=2 ", "epoch=2  "), Statement),
        (edited("epoch=2", "epoch=02"), Statement),
        (edited("epoch=2", "epoch=+2"), Statement),
        (edited("epoch=2", "epoch=4294967296"), Statement),
        (edited("app=acme", "app=Acme"), Statement),
        (edited("symmetric,from-public-key", "from-public-key,symmetric"), Statement),
        (edited("symmetric,from-public-key", "public-key,symmetric,from-public-key"), Statement),
        (edited("r1=03", "r1=02"), Keys),
        (edited("k1=034a", "k1=034A"), Statement),
        (edited("key_id=0c", "key_id=0d"), Keys),
        (edited("key_id=0c82ac9c74f1ff7b892b5223830ddb07", "key_id=none"), Keys),
        (edited(" signature=", " signature=00"), Statement),
        (edited("\n", " \n"), Statement),
        (edited("\n", "\r\n"), Statement),
        (edited("\n", "\n\n"), Keys),
        (one.replace('\n', "\r\n"), Statement),
        (format!("{line}\n{k1}{r1}{root}"), Keys),
        (format!("{line}\n{r1}{r1}{root}"), Keys),
        (format!("{line}\n{r1}{k1}"), Keys),
        (format!("{line}\n{r1}{root}"), Keys),
        (format!("{line}\n{root}{r1}{k1}"), Keys),
        (format!("{line}\n{r1}{k1}{root}{root}"), Keys),
        (format!("{line}\n{next_keys}"), Keys),
        (format!("{one}{next}"), Keys),
        (format!("{one}\n"), Keys),
        (format!("{old}{root}"), Keys),
        (edited("root=C", "root= C"), Keys),
        (edited("PRIVATE KEY", "EC PRIVATE KEY"), Keys),
    ] {
        assert_eq!(read(&text).err(), Some(fault), "{text}");
    }
}

#[test]
fn no_truncated_and_no_mutated_text_is_signed() {
    for text in VECTORS {
        for size in 0..text.len() {
            assert!(read(&text[..size]).is_err(), "{size}");
        }
        for at in 0..text.len() {
            let mut changed = text.as_bytes().to_vec();
            changed[at] ^= 1;
            let changed = String::from_utf8(changed).expect("ASCII");
            assert!(!read(&changed).is_ok_and(|read| is_signed(&read)), "{at}");
        }
    }
    let mut draw = StdRng::seed_from_u64(50);
    let mut written_well = 0;
    for round in 0..10_000 {
        let (text, other) = (VECTORS[round % 3], VECTORS[draw.random_range(0..3)]);
        let mut changed = text.as_bytes().to_vec();
        for _ in 0..draw.random_range(1..4) {
            let at = draw.random_range(0..changed.len());
            let size = draw.random_range(0..40).min(changed.len() - at);
            match draw.random_range(0..5) {
                0 => changed[at] = b"0123456789abcdef =\n-/+"[draw.random_range(0..22)],
                1 => drop(changed.drain(at..at + size)),
                // From another text, from the same place or another.
                2 => {
                    let from = if draw.random() { at } else { draw.random_range(0..other.len()) };
                    let piece = other.as_bytes().get(from..from + size).unwrap_or_default();
                    changed.splice(at..at + piece.len().min(changed.len() - at), piece.iter().copied());
                }
                3 => drop(changed.splice(at..at, text.as_bytes()[..size].iter().copied())),
                _ => changed[at..at + size].reverse(),
            }
            if changed.is_empty() {
                break;
            }
        }
        let changed = String::from_utf8(changed).expect("ASCII");
        if let Ok(read) = read(&changed) {
            assert!(!is_signed(&read) || VECTORS.contains(&changed.as_str()), "{changed}");
            written_well += 1;
        }
    }
    assert!(written_well > 0, "some are refused by their signature alone");
}

#[test]
fn what_an_app_accepts_has_one_text() {
    let texts = ["all", "none", "public-key", "symmetric", "from-public-key", "public-key,from-public-key"];
    for text in texts {
        assert_eq!(AcceptedSchemes::parse(text).expect("a list").text(), text);
    }
    for text in [
        "",
        "All",
        "*",
        "symmetric,public-key",
        "symmetric,symmetric",
        "symmetric,",
        "public-key,symmetric,from-public-key",
    ] {
        assert_eq!(AcceptedSchemes::parse(text), None, "{text}");
    }
    let none = AcceptedSchemes { public_key: false, symmetric: false, from_public_key: false };
    assert_eq!((AcceptedSchemes::ALL.text(), none.text()), ("all".to_owned(), "none".to_owned()));
}
