//! The engine over a real store: documents round-trip byte for byte, keys rotate, caches are cleared, and callers without permission are
//! refused.

use std::collections::{BTreeSet, HashSet};
use std::sync::Mutex;
use std::time::Duration;

use crate::common::{TestEngine, app, grant, rewritten, test_engine, test_engine_with};
use leafseal_crypto::aead::SealItem;
use leafseal_crypto::hash::sha256;
use leafseal_crypto::recipient::TABLE_PIECES;
use leafseal_crypto::{AeadAlgorithm, AeadKey, EcContext, Nonce, Recipient};
use leafseal_engine::admin::{ClientName, Operation, RoleName, Roles};
use leafseal_engine::{
    CacheCounters, Caller, Curve, DecryptOptions, DocumentLimits, DocumentWork, EmptyStrings, EncryptOptions, Engine,
    EngineCounters, Error, ErrorCode, FileOptions, Keying, OnFailure, PlannedPart, Progress, RewrapOptions, Rewriter,
    SealedInput, Selection, Settings, ValueType, system_random,
};
use leafseal_envelope::PublicKeyEnvelope;
use proptest::prelude::*;

mod accepted;
mod bound;
mod context;
mod files;
mod inline;
mod keys;
mod permissions;
mod reseal;
mod rewrap_renewal;
mod swaps;
mod symmetric;
mod versions;

fn encrypt_with(
    engine: &Engine,
    options: &EncryptOptions<'_>,
    select: &[&str],
    document: &str,
) -> Result<String, Error> {
    let selection = if select.is_empty() { None } else { Some(engine.selection(select)?) };
    encrypt_selected(engine, options, selection.as_ref(), document)
}

fn encrypt_selected(
    engine: &Engine,
    options: &EncryptOptions<'_>,
    selection: Option<&Selection>,
    document: &str,
) -> Result<String, Error> {
    rewritten(engine.encrypt_document(&Caller::Owner, options, selection, document.len())?, document)
}

fn encrypt(engine: &Engine, select: &[&str], document: &str) -> String {
    encrypt_with(engine, &EncryptOptions::new("acme"), select, document).expect("encrypts")
}

fn decrypt_as(engine: &Engine, caller: &Caller, options: &DecryptOptions<'_>, document: &str) -> Result<String, Error> {
    rewritten(engine.decrypt_document(caller, options, None, document.len())?, document)
}

fn decrypt(engine: &Engine, document: &str) -> Result<String, Error> {
    decrypt_as(engine, &Caller::Owner, &DecryptOptions::new("acme"), document)
}

fn encrypt_file(engine: &Engine, curve: Curve, content: &[u8]) -> Vec<u8> {
    let options = FileOptions { curve: Some(curve), ..FileOptions::default() };
    let mut work = engine.encrypt_file(&Caller::Owner, "acme", &options).expect("begins");
    let mut file = Vec::new();
    while work.step(content, &mut file).expect("encrypts") == Progress::More {}
    file
}

fn decrypt_file(engine: &Engine, caller: &Caller, app: &str, file: &[u8], out: &mut Vec<u8>) -> Result<(), Error> {
    let mut work = engine.decrypt_file(caller, app)?;
    while work.step(file, out)? == Progress::More {}
    Ok(())
}

/// All parts of a document after its first step, processed in reverse order, because they do not depend on one another.
fn in_parts<R: Rewriter>(mut work: DocumentWork<R>, document: &str) -> Result<(String, u64), Error> {
    let (mut head, mut parts, mut outputs, mut fault) = (Vec::new(), Vec::new(), Vec::new(), None);
    work.step(document.as_bytes(), &mut head)?;
    loop {
        match work.next_part(document.as_bytes()) {
            Ok(PlannedPart::Part(part)) => parts.push(part),
            Ok(PlannedPart::Walked) => {}
            Ok(PlannedPart::All) => break,
            Err(error) => {
                fault = Some(error);
                break;
            }
        }
    }
    let mut count = work.count();
    for mut part in parts.into_iter().rev() {
        let mut out = Vec::new();
        let step = loop {
            match part.step(document.as_bytes(), &mut out) {
                Ok(Progress::More) => {}
                step => break step,
            }
        };
        // The earlier part runs after this one, so its fault overwrites this one's.
        fault = step.err().or(fault);
        count += part.count();
        outputs.push(out);
    }
    let output = std::iter::once(head).chain(outputs.into_iter().rev()).flatten().collect();
    fault.map_or_else(|| Ok((String::from_utf8(output).expect("UTF-8"), count)), Err)
}

fn rewrap(engine: &Engine, document: &str) -> (String, u64) {
    let options = RewrapOptions::new("acme");
    let mut work = engine.rewrap_document(&Caller::Owner, &options, None, document.len()).expect("begins");
    let mut out = Vec::new();
    while work.step(document.as_bytes(), &mut out).expect("rewraps") == Progress::More {}
    (String::from_utf8(out).expect("UTF-8"), work.count())
}

/// Every envelope in a document, found without our own walk.
fn envelopes(document: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut rest = document;
    while let Some(start) = rest.find("\"ev:") {
        let end = rest[start..].find(":$\"").expect("an end") + start + 2;
        found.push(rest[start + 1..end].to_owned());
        rest = &rest[end..];
    }
    found
}

fn ephemerals(document: &str) -> usize {
    let keys: HashSet<[u8; 33]> = envelopes(document)
        .iter()
        .map(|text| PublicKeyEnvelope::parse(text.as_bytes()).expect("well formed").ephemeral)
        .collect();
    keys.len()
}

const PAYMENT: &str = " {\r\n \"card\" : {\"number\":\"4242 4242\", \"cvc\":123, \"ok\":true, \"none\":null},\t\"amount\": 12.50,\n \
    \"amount\": 1e+21, \"name\": \"h\\u00e9llo \\\"x\\\" \\/ ✓\", \"list\":[ 1 , -0.0, \"\", [], {} ] }\n";

#[test]
fn unselected_bytes_stay_unchanged() {
    let TestEngine { engine, store: _store, .. } = test_engine();
    let sealed = encrypt(&engine, &["$.card.number", "$.card.cvc"], PAYMENT);
    let found = envelopes(&sealed);
    assert_eq!(found.len(), 2);
    let expected =
        PAYMENT.replace("\"4242 4242\"", &format!("\"{}\"", found[0])).replace("123", &format!("\"{}\"", found[1]));
    assert_eq!(sealed, expected);
    assert_eq!(decrypt(&engine, &sealed).expect("decrypts"), PAYMENT);
}

#[test]
fn everything_round_trips_for_each_curve_keying_and_role() {
    let TestEngine { engine, store: _store, .. } = test_engine();
    // A string that was written with escapes is restored with only the escapes that it needs.
    let restored = PAYMENT.replace("h\\u00e9llo \\\"x\\\" \\/ ✓", "héllo \\\"x\\\" / ✓");
    for curve in [Curve::P256, Curve::Secp256k1] {
        for keying in [Keying::Field, Keying::Request, Keying::Session] {
            for role in [None, Some("card")] {
                let options =
                    EncryptOptions { curve: Some(curve), keying: Some(keying), role, ..EncryptOptions::new("acme") };
                let sealed = encrypt_with(&engine, &options, &[], PAYMENT).expect("encrypts");
                assert_eq!(envelopes(&sealed).len(), 9, "{sealed}");
                assert_eq!(ephemerals(&sealed), if keying == Keying::Field { 9 } else { 1 });
                assert!(sealed.contains("\"none\":null"));
                assert_eq!(decrypt(&engine, &sealed).expect("decrypts"), restored);
            }
        }
    }
}

/// Keying `field` while a table is being computed: one key agreement per step by the library, with a piece of the table from the second
/// step on, then groups. No key is used for two values.
#[test]
fn keys_per_field_are_generated_in_groups_once_there_is_a_table() {
    let steps = TABLE_PIECES + 3;
    for (recipients_max, table_from) in [(256, TABLE_PIECES + 1), (0, steps)] {
        for curve in Curve::ALL {
            let TestEngine { engine, store: _store, .. } =
                test_engine_with(Settings { recipients_max, ..Settings::default() });
            let options =
                EncryptOptions { curve: Some(curve), keying: Some(Keying::Field), ..EncryptOptions::new("acme") };
            let mut encryptor = engine.encryptor(&Caller::Owner, &options).expect("begins");
            let mut document = String::from("[null");
            let mut count = 0;
            for step in 0..steps {
                // With a table two, or eight where the CPU has SIMD lanes for them.
                let (has_table, values_max) = (step >= table_from, encryptor.step_values_max());
                assert!(if has_table { matches!(values_max, 2 | 8) } else { values_max == 1 }, "{values_max}");
                let values = [SealedInput { value_type: ValueType::String, text: b"a" }; 9];
                count += values.len();
                let mut out = Vec::new();
                let before =
                    |_, _, out: &mut Vec<u8>| out.extend_from_slice(if out.is_empty() { b"" } else { b"\",\"" });
                encryptor.encrypt(&values, &mut out, before).expect("encrypts");
                document += &format!(",\"{}\"", String::from_utf8(out).expect("UTF-8"));
            }
            document.push(']');
            assert_eq!(ephemerals(&document), count);
            assert_eq!(decrypt(&engine, &document).expect("decrypts"), format!("[null{}]", ",\"a\"".repeat(count)));
        }
    }
}

fn kind<T>(result: Result<T, Error>) -> ErrorCode {
    result.map(drop).expect_err("refused").code
}

#[test]
fn forks_of_one_request_share_its_keys() {
    let TestEngine { engine, store: _store, .. } = test_engine();
    let options = EncryptOptions { keying: Some(Keying::Request), ..EncryptOptions::new("acme") };
    let mut encryptor = engine.encryptor(&Caller::Owner, &options).expect("begins");
    let mut forks = [encryptor.fork().expect("granted"), encryptor.fork().expect("granted")];
    let mut out = Vec::new();
    for (text, fork) in [b"1", b"2"].iter().zip(&mut forks) {
        let value = SealedInput { value_type: ValueType::Number, text: *text };
        fork.encrypt(&[value], &mut out, |_, _, out| out.push(b' ')).expect("encrypts");
    }
    let sealed = String::from_utf8(out).expect("ASCII");
    let texts: Vec<&[u8]> = sealed.split_whitespace().map(str::as_bytes).collect();
    let ephemeral = |text: &[u8]| PublicKeyEnvelope::parse(text).expect("well formed").ephemeral;
    assert_eq!(ephemeral(texts[0]), ephemeral(texts[1]));

    let mut decryptor = engine.decryptor(&Caller::Owner, &DecryptOptions::new("acme")).expect("begins");
    let mut forks = [decryptor.fork(), decryptor.fork()];
    let before = engine.counters().opening_agreements;
    for (text, fork) in texts.iter().zip(&mut forks) {
        assert_eq!(fork.decrypt(&[text], |_, opened| assert!(opened.is_some())).expect("opens"), 1);
    }
    assert_eq!(engine.counters().opening_agreements - before, 1);
}

/// Lists whose values cost key agreements are split into small parts, so that several workers can join.
#[test]
fn parts_are_sized_by_the_cost_of_the_values() {
    let TestEngine { engine, store: _store, .. } = test_engine();
    let sealed = |keying| {
        let options = EncryptOptions { keying: Some(keying), ..EncryptOptions::new("acme") };
        envelopes(&encrypt_with(&engine, &options, &[], &format!("[{}]", vec!["1"; 300].join(","))).expect("encrypts"))
    };
    for (keying, expected) in [(Keying::Field, 1..=16), (Keying::Request, 100..=256)] {
        let texts = sealed(keying);
        let texts: Vec<&[u8]> = texts.iter().map(String::as_bytes).collect();
        let mut decryptor = engine.decryptor(&Caller::Owner, &DecryptOptions::new("acme")).expect("begins");
        let mut done = 0;
        while done < 200 {
            done += decryptor.decrypt(&texts[done..200], |_, _| ()).expect("opens");
        }
        assert!(expected.contains(&decryptor.part_values_max()), "{keying:?}: {}", decryptor.part_values_max());
        assert!(expected.contains(&decryptor.fork().part_values_max()), "the same for a joining worker");
    }
}

#[test]
fn the_first_fault_is_reported() {
    let TestEngine { engine, store: _store, .. } = test_engine();
    let sealed = encrypt(&engine, &[], "[1, 2, 3]");
    let texts = envelopes(&sealed);
    let (forged, cut) = (flip_last(&texts[1]), texts[2].replace(":$", ""));
    let list: [&[u8]; 3] = [texts[0].as_bytes(), forged.as_bytes(), cut.as_bytes()];
    let mut decryptor = engine.decryptor(&Caller::Owner, &DecryptOptions::new("acme")).expect("begins");
    let error = decryptor.decrypt(&list, |_, _| ()).expect_err("two are bad");
    assert_eq!((error.code, error.index), (ErrorCode::DecryptFailed, Some(1)));
}

#[test]
fn rewrapping_current_envelopes_copies_nothing_twice() {
    let TestEngine { engine, store: _store, .. } = test_engine();
    let sealed = encrypt(&engine, &[], &format!("[{}]", vec!["1"; 5_000].join(",")));
    let options = RewrapOptions::new("acme");
    let mut work = engine.rewrap_document(&Caller::Owner, &options, None, sealed.len()).expect("begins");
    let mut out = Vec::new();
    let mut last = 0;
    while work.step(sealed.as_bytes(), &mut out).expect("rewraps") == Progress::More {
        assert!(out.len() <= work.position() && sealed.as_bytes().starts_with(&out), "each byte is written once");
        assert!(work.position() >= last, "progress is shown all the same");
        last = work.position();
    }
    assert!(last > sealed.len() / 2);
    assert_eq!((String::from_utf8(out).expect("UTF-8"), work.count()), (sealed, 0));
}

#[test]
fn a_rewrap_leaves_envelopes_that_fail_to_decrypt_if_asked_to() {
    let TestEngine { engine, store: _store, .. } = test_engine();
    let long = format!("\"{}\"", "x".repeat(2 << 20));
    let sealed = encrypt(&engine, &[], &format!("[\"a\",{long}]"));
    let [good, good_long]: [String; 2] = envelopes(&sealed).try_into().expect("two");
    let bad = flip_last(&good_long);
    engine.store().rotate(&app("acme")).expect("rotated");
    engine.maintain().expect("noticed");
    let document = format!("[\"{good}\",\"ev:Tk9D:planted:$\",\"{bad}\",\"ev:\\ud800\",\"{good_long}\"]");
    let start = |on_failure| {
        let options = RewrapOptions { on_failure, ..RewrapOptions::new("acme") };
        engine.rewrap_document(&Caller::Owner, &options, None, document.len())
    };
    let mut work = start(OnFailure::Leave).expect("begins");
    let mut out = Vec::new();
    while work.step(document.as_bytes(), &mut out).expect("rewraps") == Progress::More {}
    let renewed = String::from_utf8(out).expect("UTF-8");
    let report = work.report();
    let paths: Vec<&str> = report.failures.iter().map(|failure| failure.path.as_str()).collect();
    assert_eq!((work.count(), report.failed, paths), (2, 3, vec!["$[1]", "$[2]", "$[3]"]));
    assert!(renewed.contains(&format!("\"ev:Tk9D:planted:$\",\"{bad}\",\"ev:\\ud800\"")));
    assert!(!renewed.contains(&good) && !renewed.contains(&good_long));
    assert_eq!(in_parts(start(OnFailure::Leave).expect("begins"), &document).expect("rewraps").1, 2);
    assert_eq!(kind(in_parts(start(OnFailure::Fail).expect("begins"), &document)), ErrorCode::InvalidEnvelope);
    assert_eq!(kind(start(OnFailure::Null).map(|_| ())), ErrorCode::InvalidParams);
}

#[test]
fn a_byte_order_mark_is_kept_and_other_encodings_are_named() {
    let TestEngine { engine, store: _store, .. } = test_engine();
    let document = "\u{feff}{\"a\":\"4242\"}";
    let sealed = encrypt(&engine, &["$.a"], document);
    assert!(sealed.starts_with("\u{feff}{\"a\":\"ev:"));
    assert_eq!(decrypt(&engine, &sealed).expect("decrypts"), document);
    for (document, expected) in [
        ("{\"a\":1,\"b\":\"x\\udd1e\"}", "the escape sequence at byte 13 is half of a UTF-16 surrogate pair"),
        (" \u{feff}{}", "a byte order mark at byte 1: remove it"),
        ("{\0\"\0", "the document is encoded in UTF-16 (little-endian): convert it to UTF-8"),
    ] {
        let error = encrypt_with(&engine, &EncryptOptions::new("acme"), &[], document).expect_err(document);
        assert!(error.to_string().starts_with(expected), "{error}");
        assert_eq!(error.code, ErrorCode::InvalidDocument);
    }
}

#[test]
fn output_too_large_to_decrypt_is_not_produced() {
    let document = DocumentLimits { document_size_max: 2_000, ..DocumentLimits::default() };
    let TestEngine { engine, store: _store, .. } = test_engine_with(Settings { document, ..Settings::default() });
    let list = |count: usize| format!("[{}]", vec!["1"; count].join(","));
    let sealed = encrypt(&engine, &[], &list(10));
    assert_eq!(decrypt(&engine, &sealed).expect("decrypts"), list(10));
    let options = EncryptOptions::new("acme");
    assert_eq!(kind(encrypt_with(&engine, &options, &[], &list(30))), ErrorCode::TooLarge);
    assert_eq!(kind(encrypt_with(&engine, &options, &[], &list(2_000))), ErrorCode::TooLarge);
}

#[test]
fn bad_input_is_named_by_its_byte_and_never_quoted() {
    let TestEngine { engine, store: _store, .. } = test_engine();
    let sealed = encrypt(&engine, &["$.a"], "{\"a\":\"4242424242424242\", \"b\": 1}");
    let envelope = envelopes(&sealed).remove(0);
    let other_app = encrypt_with(&engine, &EncryptOptions::new("other"), &[], "[\"x\"]").expect("encrypts");
    let cases: [(String, ErrorCode, u64); 8] = [
        ("{\"a\":".to_owned(), ErrorCode::InvalidDocument, 5),
        ("[1,]".to_owned(), ErrorCode::InvalidDocument, 3),
        ("{\"a\":\"\\ud800\"}".to_owned(), ErrorCode::InvalidDocument, 6),
        (sealed.replace(":$", ""), ErrorCode::InvalidEnvelope, 5),
        (sealed.replace("Tk9D", "Tk9E"), ErrorCode::InvalidEnvelope, 5),
        (sealed.replace(&envelope[25..30], "AAAAA"), ErrorCode::InvalidEnvelope, 5),
        (flip_last(&sealed), ErrorCode::DecryptFailed, 5),
        (other_app, ErrorCode::DecryptFailed, 1),
    ];
    for (document, expected, offset) in cases {
        let result = decrypt(&engine, &document)
            .and_then(|text| encrypt_with(&engine, &EncryptOptions::new("acme"), &[], &text));
        let error = result.expect_err(&document);
        assert_eq!((error.code, error.offset), (expected, Some(offset)), "{document}: {error}");
        assert!(!error.to_string().contains("4242"), "{error}");
    }
    assert_eq!(decrypt(&engine, &sealed).expect("healthy afterwards"), "{\"a\":\"4242424242424242\", \"b\": 1}");
}

/// Changes the last character that encodes six bits of the tag.
fn flip_last(document: &str) -> String {
    let end = document.find(":$").expect("an envelope");
    let mut text = document.to_owned();
    let digit = if &document[end - 2..end - 1] == "A" { "B" } else { "A" };
    text.replace_range(end - 2..end - 1, digit);
    text
}

/// Rule 5 of `docs/format.md`.
#[test]
fn values_that_only_look_like_envelopes_stay() {
    let TestEngine { engine, store: _store, .. } = test_engine();
    let document = "[\"ev:\", \"ev: a car\", \"evening\", \"ev:abcd:$ and more\", \":$\"]";
    assert_eq!(decrypt(&engine, document).expect("nothing to decrypt"), document);
    let sealed = encrypt(&engine, &[], "[\"with / slash\"]");
    let escaped = sealed.replace('/', "\\/");
    assert_eq!(decrypt(&engine, &escaped).expect("slashes may be escaped"), "[\"with / slash\"]");
    let twice = encrypt(&engine, &[], &sealed);
    assert_eq!(decrypt(&engine, &twice).expect("what was an envelope comes back as one"), sealed);
}

/// Rule 4 of `docs/format.md`.
#[test]
fn empty_strings_stay_if_configured() {
    let TestEngine { engine, store: _store, .. } =
        test_engine_with(Settings { empty_strings: EmptyStrings::Leave, ..Settings::default() });
    let sealed = encrypt(&engine, &[], "[\"\", \"a\", \"\"]");
    assert_eq!(envelopes(&sealed).len(), 1);
    assert!(sealed.starts_with("[\"\", \"ev:") && sealed.ends_with("\", \"\"]"));
}

#[test]
fn native_values_and_texts() {
    let TestEngine { engine, store: _store, .. } = test_engine();
    let mut encryptor = engine.encryptor(&Caller::Owner, &EncryptOptions::new("acme")).expect("begins");
    let values = [
        SealedInput { value_type: ValueType::Number, text: b"42" },
        SealedInput { value_type: ValueType::String, text: b"text" },
        SealedInput { value_type: ValueType::Boolean, text: b"true" },
    ];
    let mut out = Vec::new();
    encryptor.encrypt(&values, &mut out, |_, _, out| out.push(b' ')).expect("encrypts");
    let sealed = String::from_utf8(out).expect("ASCII");
    let mut texts: Vec<&[u8]> = sealed.split_whitespace().map(str::as_bytes).collect();
    texts.insert(1, b"not sealed");
    let mut decryptor = engine.decryptor(&Caller::Owner, &DecryptOptions::new("acme")).expect("begins");
    let mut seen = Vec::new();
    let mut done = 0;
    while done < texts.len() {
        done += decryptor
            .decrypt(&texts[done..], |index, opened| {
                seen.push((done + index, opened.map(|opened| (opened.value_type, opened.text.to_owned()))));
            })
            .expect("decrypts");
    }
    let opened =
        |index: usize| (values[index].value_type, String::from_utf8(values[index].text.to_vec()).expect("UTF-8"));
    assert_eq!(seen, [(0, Some(opened(0))), (1, None), (2, Some(opened(1))), (3, Some(opened(2)))]);
}

fn json() -> impl Strategy<Value = serde_json::Value> {
    let leaf = prop_oneof![
        Just(serde_json::Value::Null),
        any::<bool>().prop_map(Into::into),
        any::<i64>().prop_map(Into::into),
        any::<f64>().prop_filter("finite", |f| f.is_finite()).prop_map(Into::into),
        ".{0,40}".prop_map(Into::into),
    ];
    leaf.prop_recursive(4, 60, 8, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..8).prop_map(Into::into),
            prop::collection::hash_map(".{0,8}", inner, 0..8).prop_map(|map| map.into_iter().collect()),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]
    #[test]
    fn any_document_round_trips_for_any_steps(
        value in json(),
        values_max in 1usize..20,
        bytes_max in 1usize..200,
        keying in prop_oneof![Just(Keying::Field), Just(Keying::Request), Just(Keying::Session)],
    ) {
        let settings = Settings { step_values_max: values_max, step_bytes_max: bytes_max, keying, ..Settings::default() };
        let TestEngine { engine, store: _store, .. } = test_engine_with(settings);
        // serde_json escapes only what needs it, as we do, so that texts compare.
        let document = serde_json::to_string_pretty(&value).expect("JSON");
        let sealed = encrypt(&engine, &[], &document);
        prop_assert_eq!(decrypt(&engine, &sealed).expect("decrypts"), &*document);

        let work = engine.encrypt_document(&Caller::Owner, &EncryptOptions::new("acme"), None, document.len());
        let (sealed, count) = in_parts(work.expect("begins"), &document).expect("encrypts");
        prop_assert_eq!(envelopes(&sealed).len() as u64, count);
        let work = engine.decrypt_document(&Caller::Owner, &DecryptOptions::new("acme"), None, sealed.len());
        prop_assert_eq!(in_parts(work.expect("begins"), &sealed).expect("decrypts"), (document, count));
    }
}
