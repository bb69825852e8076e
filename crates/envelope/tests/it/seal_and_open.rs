//! Sealing and opening against each other and against the rules that the SDK vectors cannot show: keying, nonces, metadata,
//! debug and legacy envelopes, edits, files. In `tests/interop` an independent decryptor in Python opens these envelopes.

use std::collections::HashSet;

use crate::common::{App, Owned, owned};
use leafseal_crypto::aead::SealItem;
use leafseal_crypto::hash::sha256;
use leafseal_crypto::{AeadAlgorithm, AeadKey, Curve, Nonce, PrivateKey, PublicKey, Recipient, Secret};
use leafseal_envelope::file::{EncryptedFile, FILE_OVERHEAD};
use leafseal_envelope::fuzzing::{open_file, open_in_pieces, seal_file};
use leafseal_envelope::{
    ENVELOPE_OVERHEAD, KeySpent, Malformed, Marking, Metadata, OpenError, OpenScratch, Profile, PublicKeyEnvelope,
    Role, SealScratch, SealedInput, SealingKey, ValueType, Version, seal_each,
};
use proptest::prelude::*;
use rand::SeedableRng;
use rand::rngs::StdRng;

fn recipient_of(app: &App, curve: Curve) -> Recipient {
    Recipient::with_table(app.key(curve).1)
}

fn string(text: &str) -> SealedInput<'_> {
    SealedInput { value_type: ValueType::String, text: text.as_bytes() }
}

fn seal(key: &SealingKey, metadata: Option<&Metadata>, values: &[SealedInput<'_>]) -> Vec<String> {
    let mut out = Vec::new();
    let mut ends = Vec::new();
    let mut rng = StdRng::seed_from_u64(9);
    key.seal_many(metadata, &mut rng, values, &mut SealScratch::default(), &mut out, |index, size, out| {
        assert_eq!(index, ends.len());
        ends.push(out.len() + size);
    })
    .expect("nonces are left");
    let text = String::from_utf8(out).expect("ASCII");
    let mut start = 0;
    ends.iter()
        .map(|&end| {
            let envelope = text[start..end].to_owned();
            start = end;
            envelope
        })
        .collect()
}

fn metadata() -> Metadata {
    Metadata::new(Some(&Role::parse("card-number").expect("a role")), 70, 1_700_000_000)
}

fn profiles() -> Vec<(Profile, Option<Metadata>)> {
    Curve::ALL
        .into_iter()
        .flat_map(|curve| [(Profile::plain(curve), None), (Profile::with_metadata(curve), Some(metadata()))])
        .flat_map(|(profile, metadata)| [(profile, metadata.clone()), (profile.debug(), metadata)])
        .collect()
}

/// Rules 1 and 2 as written, 6, 7 and 8 there and back.
#[test]
fn every_profile_and_type_round_trips() {
    let app = App::of_the_vectors();
    let mut rng = StdRng::seed_from_u64(2);
    let long = "x".repeat(100_000);
    let values = [
        string(""),
        string("héllo ✓"),
        string(&long),
        SealedInput { value_type: ValueType::Number, text: b"-12.50e+3" },
        SealedInput { value_type: ValueType::Boolean, text: b"false" },
        string("4242424242424242"),
    ];
    for (profile, metadata) in profiles() {
        let recipient = recipient_of(&app, profile.version().curve());
        let key = SealingKey::generate(&app.ec, &recipient, profile, 1 << 20, &mut rng);
        let texts = seal(&key, metadata.as_ref(), &values);
        for (value, text) in values.iter().zip(&texts) {
            let opened = app.open(text).expect("opens");
            assert_eq!((opened.value_type, opened.text.as_bytes()), (value.value_type, value.text));
            let expected = metadata.as_ref().map(|_| ("card-number".to_owned(), 70, 1_700_000_000));
            assert_eq!(opened.role.zip(opened.origin).zip(opened.encrypted_at).map(|((r, o), t)| (r, o, t)), expected);
            assert!(text.starts_with("ev:") && text.ends_with(":$"));
            assert!(!text.contains('='), "written without padding");
        }
    }
}

/// The size of a string's envelope is [`ENVELOPE_OVERHEAD`] plus four thirds of the value, to the byte of rounding.
#[test]
fn the_overhead_is_that_of_a_string() {
    let app = App::of_the_vectors();
    let mut rng = StdRng::seed_from_u64(21);
    for curve in Curve::ALL {
        let key = SealingKey::generate(&app.ec, &recipient_of(&app, curve), Profile::plain(curve), 9, &mut rng);
        for size in [0, 1, 2, 3, 1_000] {
            let text = "x".repeat(size);
            let envelope = seal(&key, None, &[string(&text)]).remove(0).len();
            let estimate = ENVELOPE_OVERHEAD + size + size.div_ceil(3);
            assert!((estimate - 1..=estimate).contains(&envelope), "{curve:?}: {envelope} of {estimate}");
        }
    }
}

/// Values encrypted in pieces decrypt as a whole, and vice versa, for any pieces, each profile and type.
#[test]
fn pieces_and_wholes_are_the_same_envelopes() {
    let app = App::of_the_vectors();
    let mut rng = StdRng::seed_from_u64(12);
    let text: String = (0..3_000).map(|i| ["é", "x", "€", "\u{1d11e}"][i % 4]).collect();
    let number = format!("-{}.5e3", "7".repeat(2_000));
    let values = [
        string(""),
        string(&text),
        SealedInput { value_type: ValueType::Number, text: number.as_bytes() },
        SealedInput { value_type: ValueType::Boolean, text: b"true" },
    ];
    for (profile, metadata) in profiles() {
        let recipient = recipient_of(&app, profile.version().curve());
        let key = SealingKey::generate(&app.ec, &recipient, profile, 1 << 20, &mut rng);
        let wholes = seal(&key, metadata.as_ref(), &values);
        for (value, whole) in values.iter().zip(&wholes) {
            for size in [1, 2, 3, 16, 47, 1000, 100_000] {
                let mut pieces = Vec::new();
                let sealing = key.seal_long(metadata.as_ref(), &mut rng, value.value_type, &mut pieces);
                let mut sealing = sealing.expect("fresh");
                value.text.chunks(size).for_each(|piece| sealing.update(piece, &mut pieces));
                sealing.finish(&mut pieces);
                assert_eq!(pieces.len(), whole.len());
                let opened = app.open(std::str::from_utf8(&pieces).expect("ASCII")).expect("opens");
                assert_eq!((opened.value_type, opened.text.as_bytes()), (value.value_type, value.text));
                let role = metadata.as_ref().map(|_| "card-number".to_owned());
                assert_eq!(opened.role, role);

                let envelope = PublicKeyEnvelope::parse(whole.as_bytes()).expect("well formed");
                let opening = app.opening_key(&envelope.ephemeral_key().expect("a point"));
                assert_eq!(open_in_pieces(&envelope, &opening, size).expect("opens").as_bytes(), value.text);
            }
        }
    }
}

/// A fault of the whole is a fault in pieces: a tag, base64, invalid text, another type.
#[test]
fn pieces_fail_as_wholes_do() {
    let app = App::of_the_vectors();
    let recipient = recipient_of(&app, Curve::P256);
    let mut rng = StdRng::seed_from_u64(13);
    let key = SealingKey::generate(&app.ec, &recipient, Profile::plain(Curve::P256), 9, &mut rng);
    let bad = [
        SealedInput { value_type: ValueType::String, text: b"ab\xff" },
        SealedInput { value_type: ValueType::String, text: "cut: é".as_bytes().split_last().expect("a byte").1 },
        SealedInput { value_type: ValueType::Number, text: b"1,2" },
        SealedInput { value_type: ValueType::Number, text: b"" },
        SealedInput { value_type: ValueType::Boolean, text: b"TRUE" },
    ];
    let mut texts = seal(&key, None, &bad);
    let good = seal(&key, None, &[string("a text that is changed")]).remove(0);
    let changed = if good.as_bytes()[80] == b'A' { "B" } else { "A" };
    texts.push([&good[..80], changed, &good[81..]].concat());
    texts.push(good.replace(":$", "!:$"));
    for text in &texts {
        let envelope = PublicKeyEnvelope::parse(text.as_bytes()).expect("well formed");
        let opening = app.opening_key(&envelope.ephemeral_key().expect("a point"));
        let whole = opening.open(&envelope, &mut OpenScratch::default()).map(drop);
        assert!(whole.is_err(), "{text}");
        for size in [1, 4, 5, 1000] {
            assert_eq!(open_in_pieces(&envelope, &opening, size).map(drop), whole, "{text}");
        }
    }
}

/// Rule 11.
#[test]
fn no_nonce_repeats_and_one_key_serves_all() {
    let app = App::of_the_vectors();
    let recipient = recipient_of(&app, Curve::P256);
    let key =
        SealingKey::generate(&app.ec, &recipient, Profile::plain(Curve::P256), 1 << 20, &mut StdRng::seed_from_u64(3));
    let values = vec![string("a"); 2_000];
    let texts = seal(&key, None, &values);
    let envelopes: Vec<PublicKeyEnvelope<'_>> =
        texts.iter().map(|t| PublicKeyEnvelope::parse(t.as_bytes()).expect("well formed")).collect();
    assert_eq!(envelopes.iter().map(|e| e.iv).collect::<HashSet<_>>().len(), 2_000);
    assert_eq!(envelopes.iter().map(|e| e.ephemeral).collect::<HashSet<_>>().len(), 1);
}

/// Rule 11: the limit.
#[test]
fn a_spent_key_seals_nothing() {
    let app = App::of_the_vectors();
    let recipient = recipient_of(&app, Curve::P256);
    let key = SealingKey::generate(&app.ec, &recipient, Profile::plain(Curve::P256), 3, &mut StdRng::seed_from_u64(4));
    let mut out = Vec::new();
    let values = [string("a"); 4];
    let mut rng = StdRng::seed_from_u64(4);
    let result = key.seal_many(None, &mut rng, &values, &mut SealScratch::default(), &mut out, |_, _, _| ());
    assert_eq!((result, out.len()), (Err(KeySpent), 0));
    assert_eq!(seal(&key, None, &values[..3]).len(), 3);
    assert_eq!(key.values_left(), 0);
}

#[test]
fn keying_by_field_makes_an_ephemeral_key_each() {
    let app = App::of_the_vectors();
    for (profile, metadata) in profiles() {
        let recipient = recipient_of(&app, profile.version().curve());
        let texts: Vec<String> = (0..70).map(|i| format!("value {i}")).collect();
        let values: Vec<SealedInput<'_>> = texts.iter().map(|t| string(t)).collect();
        let mut out = Vec::new();
        let mut order = Vec::new();
        let mut scratch = SealScratch::default();
        let rng = &mut StdRng::seed_from_u64(5);
        seal_each(
            &app.ec,
            &recipient,
            profile,
            metadata.as_ref(),
            &values,
            rng,
            &mut scratch,
            &mut out,
            |index, _, out| {
                order.push(index);
                if index > 0 {
                    out.push(b'\n');
                }
            },
        );
        assert!(order.iter().copied().eq(0..70));
        let sealed = String::from_utf8(out).expect("ASCII");
        let mut ephemerals = HashSet::new();
        for (line, text) in sealed.lines().zip(&texts) {
            assert_eq!(&app.open(line).expect("opens").text, text);
            ephemerals.insert(PublicKeyEnvelope::parse(line.as_bytes()).expect("well formed").ephemeral);
        }
        assert_eq!(ephemerals.len(), 70);
    }
}

/// Encrypts with the library's parts alone, as old SDKs did.
struct Forge<'a> {
    app: &'a App,
    private: PrivateKey,
    ephemeral: PublicKey,
}

impl<'a> Forge<'a> {
    fn new(app: &'a App, curve: Curve) -> Self {
        let private = PrivateKey::from_scalar(curve, Secret::from_bytes(&[0x33; 32])).expect("valid");
        let ephemeral = app.ec.public_key(&private);
        Self { app, private, ephemeral }
    }

    fn app_public(&self) -> &PublicKey {
        &self.app.key(self.ephemeral.curve()).1
    }

    fn raw(&self) -> [u8; 32] {
        *self.app.ec.agree(&self.private, self.app_public()).expose()
    }

    fn kdf_over(&self, key: &PublicKey) -> [u8; 32] {
        let file = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../vectors/der-prefix.txt"));
        let file = file.expect("readable");
        let line = file.lines().find(|line| line.starts_with(key.curve().short_name())).expect("a line a curve");
        let prefix = hex::decode(line.split(' ').nth(2).expect("three words")).expect("hex");
        sha256(&[&self.raw(), &[0, 0, 0, 1], &prefix, key.uncompressed()])
    }

    fn envelope(&self, head: &str, key: &[u8; 32], aad: &[u8], plaintext: &[u8]) -> String {
        use base64::Engine;
        let base64 = base64::engine::general_purpose::STANDARD_NO_PAD;
        let mut sealed = vec![0; plaintext.len() + 16];
        let item = SealItem { nonce: Nonce([9; 12]), aad, plaintext };
        AeadKey::new(AeadAlgorithm::Aes256Gcm, key).expect("32 bytes").seal(&item, &mut sealed);
        let (iv, ephemeral) = (base64.encode([9; 12]), base64.encode(self.ephemeral.compressed()));
        format!("ev:{head}:{iv}:{ephemeral}:{}:$", base64.encode(sealed))
    }
}

fn text_of(result: Result<Owned, OpenError>) -> String {
    result.expect("opens").text
}

/// Rule 9, and the versions that are opened only.
#[test]
fn legacy_versions_open() {
    let app = App::of_the_vectors();
    let with_metadata = |text: &str| [b"\x01\x00\x80", text.as_bytes()].concat();
    for (version, curve) in [("QlJV", Curve::Secp256k1), ("TENZ", Curve::P256)] {
        let forge = Forge::new(&app, curve);
        let aad = forge.app_public().compressed();
        let text = forge.envelope(version, &forge.kdf_over(&forge.ephemeral), &aad, &with_metadata("old"));
        assert_eq!(text_of(app.open(&text)), "old");
        let number = forge.envelope(
            &format!("{version}:number"),
            &forge.kdf_over(&forge.ephemeral),
            &aad,
            &with_metadata("4.20"),
        );
        assert_eq!(text_of(app.open(&number)), "4.20");
    }
    let forge = Forge::new(&app, Curve::P256);
    let (app_point, ephemeral_point) = (forge.app_public().compressed(), forge.ephemeral.compressed());
    for aad in [&[][..], &app_point, &ephemeral_point] {
        assert_eq!(text_of(app.open(&forge.envelope("T1JL", &forge.raw(), aad, b"older"))), "older");
    }
    // Early r1: the KDF over the app key, the ephemeral key as associated data.
    let early = forge.envelope("Tk9D", &forge.kdf_over(forge.app_public()), &ephemeral_point, b"early");
    assert_eq!(text_of(app.open(&early)), "early");
}

/// Rule 10.
#[test]
fn a_legacy_value_with_a_role_does_not_pass_for_something_without() {
    use leafseal_envelope::file::FILE_MAGIC;
    let app = App::of_the_vectors();
    let forge = Forge::new(&app, Curve::P256);
    let aad = forge.app_public().compressed();
    let plaintext = [b"\x0b\x00\x81\xa2dr\xa6health".as_slice(), b"secret"].concat();
    let text = forge.envelope("TENZ", &forge.kdf_over(&forge.ephemeral), &aad, &plaintext);
    assert_eq!(app.open(&text).expect("opens").role.as_deref(), Some("health"));
    assert_eq!(app.open(&text.replace("TENZ", "Tk9D")), Err(OpenError::DecryptFailed), "metadata is no text");
    // As a file it opens, for key and associated data are the same: the engine looks for the role in the content.
    let sealed = {
        use base64::Engine;
        let part = text.rsplit(':').nth(1).expect("a ciphertext");
        base64::engine::general_purpose::STANDARD_NO_PAD.decode(part).expect("base64")
    };
    let header = [FILE_MAGIC.as_slice(), &[3, 55, 0], &forge.ephemeral.compressed(), &[9; 12], &[0]].concat();
    let body = [header, sealed].concat();
    let file = [body.as_slice(), &crc32fast::hash(&body).to_le_bytes()].concat();
    let content = open_file(&file, &app.opening_key(&forge.ephemeral), 10).expect("opens");
    let metadata = leafseal_envelope::metadata_in_file(&content).expect("metadata");
    assert_eq!(metadata.role, Some("health"));
    assert!(leafseal_envelope::metadata_in_file(b"file bytes").is_none());
}

/// Rule 10.
#[test]
fn k1_opens_with_either_derivation_and_r1_does_not() {
    let app = App::of_the_vectors();
    let k1 = Forge::new(&app, Curve::Secp256k1);
    assert_eq!(text_of(app.open(&k1.envelope("RFVC", &k1.kdf_over(&k1.ephemeral), b"", b"quirk"))), "quirk");
    let r1 = Forge::new(&app, Curve::P256);
    let raw = r1.envelope("Tk9D", &r1.raw(), &r1.app_public().compressed(), b"quirk");
    assert_eq!(app.open(&raw), Err(OpenError::DecryptFailed));
}

/// Rule 3.
#[test]
fn content_that_lies_about_its_type_does_not_open() {
    let app = App::of_the_vectors();
    let forge = Forge::new(&app, Curve::P256);
    let (key, aad) = (forge.kdf_over(&forge.ephemeral), forge.app_public().compressed());
    for text in ["", "1,\"admin\":true", "01", "1.", ".5", "1e", "+1", "NaN", "0x10", "1 ", "\"1\"", "-", "1e+"] {
        let number = forge.envelope("Tk9D:number", &key, &aad, text.as_bytes());
        assert_eq!(app.open(&number), Err(OpenError::DecryptFailed), "{text}");
    }
    for text in ["0", "-0", "10", "1.50", "1e+21", "1E-7", "123456789012345678901234567890"] {
        assert_eq!(text_of(app.open(&forge.envelope("Tk9D:number", &key, &aad, text.as_bytes()))), text);
    }
    for text in ["TRUE", "1", "", "truefalse", "null"] {
        let boolean = forge.envelope("Tk9D:boolean", &key, &aad, text.as_bytes());
        assert_eq!(app.open(&boolean), Err(OpenError::DecryptFailed), "{text}");
    }
    let invalid_utf8 = forge.envelope("Tk9D", &key, &aad, b"\xff\xfe");
    assert_eq!(app.open(&invalid_utf8), Err(OpenError::DecryptFailed));
}

/// Rule 7: the parts that associated data binds.
#[test]
fn swapped_parts_and_types_do_not_open() {
    let app = App::of_the_vectors();
    let mut rng = StdRng::seed_from_u64(6);
    for (profile, metadata) in profiles() {
        let recipient = recipient_of(&app, profile.version().curve());
        let one = SealingKey::generate(&app.ec, &recipient, profile, 10, &mut rng);
        let other = SealingKey::generate(&app.ec, &recipient, profile, 10, &mut rng);
        let a = seal(&one, metadata.as_ref(), &[string("11"), string("22")]);
        let b = seal(&other, metadata.as_ref(), &[string("33")]);
        let part = |text: &str, i: usize| text.rsplit(':').nth(i).expect("a part").to_owned();
        // Counted from the end: 0 is `$`, 1 the ciphertext, 2 the ephemeral key, 3 the IV.
        for i in 1..=3 {
            let swapped = a[0].replace(&part(&a[0], i), &part(&b[0], i));
            assert_eq!(app.open(&swapped), Err(OpenError::DecryptFailed), "{swapped}");
        }
        let other_iv = a[0].replace(&part(&a[0], 3), &part(&a[1], 3));
        assert_eq!(app.open(&other_iv), Err(OpenError::DecryptFailed));
        if profile.version().has_metadata() && !a[0].contains("debug:") {
            let head = format!("{}:", profile.version().text());
            let retyped = a[0].replace(&head, &format!("{head}number:"));
            assert_eq!(app.open(&retyped), Err(OpenError::DecryptFailed), "the type is authenticated");
        }
    }
}

/// Rule 2: the point.
#[test]
fn wrong_points_and_wrong_apps_are_refused() {
    use base64::Engine;
    let base64 = base64::engine::general_purpose::STANDARD_NO_PAD;
    let app = App::of_the_vectors();
    let stranger =
        App { keys: App::of_the_vectors().keys.map(|(private, _)| other_key(&private)), ..App::of_the_vectors() };
    for (profile, metadata) in profiles() {
        let key = SealingKey::generate(
            &app.ec,
            &recipient_of(&app, profile.version().curve()),
            profile,
            10,
            &mut StdRng::seed_from_u64(7),
        );
        let text = &seal(&key, metadata.as_ref(), &[string("secret")])[0];
        assert_eq!(stranger.open(text), Err(OpenError::DecryptFailed));
        let ephemeral = base64.encode(PublicKeyEnvelope::parse(text.as_bytes()).expect("well formed").ephemeral);
        let mut off_curve = [0xff; 33];
        off_curve[0] = 2;
        for bad in [[0; 33], off_curve] {
            let forged = text.replace(&ephemeral, &base64.encode(bad));
            assert_eq!(app.open(&forged), Err(OpenError::Malformed(Malformed::EphemeralPoint)));
        }
    }
}

fn other_key(private: &PrivateKey) -> (PrivateKey, PublicKey) {
    let app = App::of_the_vectors();
    let other = PrivateKey::from_scalar(private.curve(), Secret::from_bytes(&[0x44; 32])).expect("valid");
    let public = app.ec.public_key(&other);
    (other, public)
}

#[test]
fn one_bad_envelope_spoils_only_itself() {
    let app = App::of_the_vectors();
    for curve in Curve::ALL {
        let recipient = recipient_of(&app, curve);
        let key =
            SealingKey::generate(&app.ec, &recipient, Profile::plain(curve), 1 << 20, &mut StdRng::seed_from_u64(8));
        let texts: Vec<String> = (0..100).map(|i| "x".repeat(i * 7 % 300)).collect();
        let values: Vec<SealedInput<'_>> = texts.iter().map(|t| string(t)).collect();
        let mut sealed = seal(&key, None, &values);
        for bad in [3, 31, 32, 64, 99] {
            let last = sealed[bad].len() - 3;
            let digit = if sealed[bad].as_bytes()[last] == b'A' { "E" } else { "A" };
            sealed[bad].replace_range(last..=last, digit);
        }
        let last = sealed[50].len() - 4;
        sealed[50].replace_range(last..=last, "!");
        let envelopes: Vec<PublicKeyEnvelope<'_>> =
            sealed.iter().map(|t| PublicKeyEnvelope::parse(t.as_bytes()).expect("well formed")).collect();
        let opening = app.opening_key(&envelopes[0].ephemeral_key().expect("a point"));
        let mut seen = 0;
        opening.open_many(&envelopes, &mut OpenScratch::default(), |index, result| {
            assert_eq!(index, seen);
            seen += 1;
            match (index, result) {
                (50, result) => assert_eq!(result, Err(OpenError::Malformed(Malformed::Ciphertext))),
                (3 | 31 | 32 | 64 | 99, Err(_)) => (),
                (_, result) => assert_eq!(result.expect("opens").text, texts[index]),
            }
        });
        assert_eq!(seen, 100);
    }
}

/// Rule 12.
#[test]
fn files_round_trip_and_damage_is_named() {
    let app = App::of_the_vectors();
    for curve in Curve::ALL {
        for (size, marking) in [(0, Marking::Live), (1, Marking::Debug), (100_000, Marking::Live)] {
            let content: Vec<u8> = (0..size).map(|i: u32| (i % 251) as u8).collect();
            let mut rng = StdRng::seed_from_u64(9);
            let file = seal_file(&app.ec, &recipient_of(&app, curve), marking, &content, 1000, &mut rng);
            assert_eq!(file.len(), content.len() + FILE_OVERHEAD);
            let Ok(EncryptedFile::PublicKey(parsed)) = EncryptedFile::parse(&file) else { panic!("an encrypted file") };
            assert_eq!((parsed.curve, parsed.marking), (curve, marking));
            let key = app.opening_key(&parsed.ephemeral_key().expect("a point"));
            for piece in [999, 64 << 10, usize::MAX] {
                assert_eq!(open_file(&file, &key, piece).as_ref(), Ok(&content));
            }
            for cut in [0, 6, 54, 70] {
                assert_eq!(EncryptedFile::parse(&file[..cut]).err(), Some(Malformed::FileHeader));
            }
            let mut damaged = file.clone();
            damaged[56] ^= 1;
            assert_eq!(open_file(&damaged, &key, 777), Err(OpenError::Malformed(Malformed::FileChecksum)));
            let cut_short = open_file(&file[..file.len() - 1], &key, 777).expect_err("a byte is missing");
            assert!(matches!(cut_short, OpenError::Malformed(Malformed::FileChecksum | Malformed::FileHeader)));
            // A forger corrects the checksum; the tag still fails.
            let end = damaged.len() - 4;
            let checksum = crc32fast::hash(&damaged[..end]).to_le_bytes();
            damaged[end..].copy_from_slice(&checksum);
            assert_eq!(open_file(&damaged, &key, 777), Err(OpenError::DecryptFailed));
        }
    }
}

/// A regular expression for texts that begin, and often end, as envelopes do.
const ALMOST_ENVELOPES: &str = "(ev:)?(debug:)?(Tk9D|QkTC|RFVC|S0lS|QlJV|TENZ|T1JL|[A-Za-z0-9]{4})?:?(number:|string:)?\
    [A-Za-z0-9+/=:!]{0,120}(:\\$)?";

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn any_texts_round_trip(texts in prop::collection::vec(".{0,200}", 0..80), which in 0usize..8) {
        let app = App::of_the_vectors();
        let (profile, metadata) = profiles().swap_remove(which);
        let recipient = recipient_of(&app, profile.version().curve());
        let key = SealingKey::generate(&app.ec, &recipient, profile, 1 << 20, &mut StdRng::seed_from_u64(10));
        let values: Vec<SealedInput<'_>> = texts.iter().map(|t| string(t)).collect();
        let sealed = seal(&key, metadata.as_ref(), &values);
        let envelopes: Vec<PublicKeyEnvelope<'_>> =
            sealed.iter().map(|t| PublicKeyEnvelope::parse(t.as_bytes()).expect("well formed")).collect();
        if let Some(first) = envelopes.first() {
            prop_assert_eq!(first.version, profile.version());
            let opening = app.opening_key(&first.ephemeral_key().expect("a point"));
            let mut scratch = OpenScratch::default();
            let mut many = Vec::new();
            opening.open_many(&envelopes, &mut scratch, |_, result| many.push(result.map(|opened| owned(&opened))));
            for (i, envelope) in envelopes.iter().enumerate() {
                let one = opening.open(envelope, &mut scratch).map(|opened| owned(&opened));
                prop_assert_eq!(&one, &many[i], "many equals a loop of one");
                prop_assert_eq!(&one.expect("opens").text, &texts[i]);
            }
        }
    }

    #[test]
    fn parsing_never_panics(text in ALMOST_ENVELOPES) {
        let _ = PublicKeyEnvelope::parse(text.as_bytes());
    }
}

#[test]
fn every_version_reports_its_properties() {
    let written: Vec<Version> = Version::ALL.into_iter().filter(|version| !version.is_legacy()).collect();
    assert_eq!(written.len(), 4);
    for curve in Curve::ALL {
        assert_eq!(Version::plain(curve).curve(), curve);
        assert_eq!(Version::with_metadata(curve).curve(), curve);
        assert!(Version::with_metadata(curve).has_metadata() && !Version::plain(curve).has_metadata());
    }
}
