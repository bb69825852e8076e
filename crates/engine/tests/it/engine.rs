//! The engine over a real store: documents come back byte for byte, keys rotate, caches are cleared, and callers without permission
//! are refused.

use std::collections::{BTreeSet, HashSet};
use std::sync::Mutex;
use std::time::Duration;

use crate::common::{Bench, app, bench, bench_with, grant, rewritten};
use fieldseal_crypto::aead::SealItem;
use fieldseal_crypto::hash::sha256;
use fieldseal_crypto::recipient::TABLE_PIECES;
use fieldseal_crypto::{AeadAlgorithm, AeadKey, EcContext, Nonce, Recipient};
use fieldseal_engine::admin::{ClientName, Operation, RoleName, Roles};
use fieldseal_engine::{
    CacheCounters, Caller, Counters, Curve, DecryptOptions, DocumentLimits, DocumentWork, EmptyStrings, EncryptOptions,
    Engine, Error, ErrorKind, Keying, Planned, Progress, RewrapOptions, Rewriter, Selection, Settings, Value,
    ValueType, system_random,
};
use fieldseal_envelope::Envelope;
use proptest::prelude::*;

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
    let mut work = engine.encrypt_file(&Caller::Owner, "acme", Some(curve)).expect("begins");
    let mut file = Vec::new();
    while work.step(content, &mut file).expect("encrypts") == Progress::More {}
    file
}

fn decrypt_file(engine: &Engine, caller: &Caller, app: &str, file: &[u8], out: &mut Vec<u8>) -> Result<(), Error> {
    let mut work = engine.decrypt_file(caller, app)?;
    while work.step(file, out)? == Progress::More {}
    Ok(())
}

/// All parts of a document after its first step, done last to first, as they do not depend on one another.
fn in_parts<R: Rewriter>(mut work: DocumentWork<R>, document: &str) -> Result<(String, u64), Error> {
    let (mut head, mut parts, mut outputs, mut fault) = (Vec::new(), Vec::new(), Vec::new(), None);
    work.step(document.as_bytes(), &mut head)?;
    loop {
        match work.next_part(document.as_bytes()) {
            Ok(Planned::Part(part)) => parts.push(part),
            Ok(Planned::Walked) => {}
            Ok(Planned::All) => break,
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
        // The part before comes after this one: the first fault is the last to be seen.
        fault = step.err().or(fault);
        count += part.count();
        outputs.push(out);
    }
    let output = std::iter::once(head).chain(outputs.into_iter().rev()).flatten().collect();
    fault.map_or_else(|| Ok((String::from_utf8(output).expect("UTF-8"), count)), Err)
}

fn rewrap(engine: &Engine, document: &str) -> (String, u64) {
    let options = RewrapOptions { app: "acme", curve: None };
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
        .map(|text| Envelope::parse(text.as_bytes()).expect("well formed").ephemeral)
        .collect();
    keys.len()
}

const PAYMENT: &str = " {\r\n \"card\" : {\"number\":\"4242 4242\", \"cvc\":123, \"ok\":true, \"none\":null},\t\"amount\": 12.50,\n \
    \"amount\": 1e+21, \"name\": \"h\\u00e9llo \\\"x\\\" \\/ ✓\", \"list\":[ 1 , -0.0, \"\", [], {} ] }\n";

#[test]
fn unselected_bytes_stay_unchanged() {
    let Bench { engine, store: _store, .. } = bench();
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
    let Bench { engine, store: _store, .. } = bench();
    // A string that was written with escapes comes back with the escapes that it needs.
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

/// Keying `field` on its way to a table: one key agreement a step by the library, with a piece of the table from the second step on, then
/// groups. No key serves two values.
#[test]
fn keys_per_field_are_generated_in_groups_once_there_is_a_table() {
    let steps = TABLE_PIECES + 3;
    for (recipients_max, table_from) in [(256, TABLE_PIECES + 1), (0, steps)] {
        for curve in Curve::ALL {
            let Bench { engine, store: _store, .. } = bench_with(Settings { recipients_max, ..Settings::default() });
            let options =
                EncryptOptions { curve: Some(curve), keying: Some(Keying::Field), ..EncryptOptions::new("acme") };
            let mut encryptor = engine.encryptor(&Caller::Owner, &options).expect("begins");
            let mut document = String::from("[null");
            let mut count = 0;
            for step in 0..steps {
                assert_eq!(encryptor.step_values_max(), if step < table_from { 1 } else { 2 });
                let values = [Value { value_type: ValueType::String, text: b"a" }; 9];
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

#[test]
fn a_document_without_values_costs_no_key_and_stays() {
    let Bench { engine, store: _store, .. } = bench();
    for document in ["null", " [ ] ", "{}", "{\"a\":[null,{}]}"] {
        assert_eq!(encrypt(&engine, &[], document), document);
        assert_eq!(decrypt(&engine, document).expect("decrypts"), document);
    }
    assert_eq!(decrypt(&engine, PAYMENT).expect("nothing to decrypt"), PAYMENT);
    let scalar = encrypt(&engine, &[], " true ");
    assert!(scalar.starts_with(" \"ev:") && scalar.ends_with("\" "));
    assert_eq!(decrypt(&engine, &scalar).expect("decrypts"), " true ");
}

#[test]
fn sessions_end_by_time_and_by_count() {
    let settings = Settings { session_values_max: 1_000, ..Settings::default() };
    let Bench { engine, hands, store: _store } = bench_with(settings);
    let options = EncryptOptions { keying: Some(Keying::Session), ..EncryptOptions::new("acme") };
    let key_of = |document: &str| {
        let text = encrypt_with(&engine, &options, &[], document).expect("encrypts");
        Envelope::parse(envelopes(&text)[0].as_bytes()).expect("well formed").ephemeral
    };
    let first = key_of("[1]");
    assert_eq!(key_of("[2]"), first, "one session");
    hands.advance(14);
    assert_eq!(key_of("[3]"), first, "younger than 15 s");
    hands.advance(1);
    let second = key_of("[4]");
    assert_ne!(second, first, "15 s are over");
    let many = format!("[{}]", vec!["7"; 2_500].join(","));
    let sealed = encrypt_with(&engine, &options, &[], &many).expect("encrypts");
    assert_eq!(ephemerals(&sealed), 3, "999 are left, then 1,000, then 501");
    assert_eq!(decrypt(&engine, &sealed).expect("decrypts"), many);
}

/// A bench at which both curves of `acme` have their tables, so that keys are made in pairs.
fn bench_with_tables(settings: Settings) -> Bench {
    let bench = bench_with(settings);
    for curve in [Curve::P256, Curve::Secp256k1] {
        let options = EncryptOptions { curve: Some(curve), keying: Some(Keying::Field), ..EncryptOptions::new("acme") };
        for _ in 0..=TABLE_PIECES + 1 {
            encrypt_with(&bench.engine, &options, &[], "[1]").expect("encrypts");
        }
    }
    bench
}

fn ephemeral_of(engine: &Engine, options: &EncryptOptions<'_>) -> Vec<u8> {
    let text = encrypt_with(engine, options, &[], "[\"one\",2]").expect("encrypts");
    assert_eq!(ephemerals(&text), 1, "one key for a request");
    assert_eq!(decrypt(engine, &text).expect("decrypts"), "[\"one\",2]");
    Envelope::parse(envelopes(&text)[0].as_bytes()).expect("well formed").ephemeral.to_vec()
}

#[test]
fn a_spare_key_serves_the_next_request_and_no_other() {
    let Bench { engine, store: _store, .. } = bench_with_tables(Settings::default());
    let counted = |engine: &Engine| engine.counters().spare_keys;
    let before = counted(&engine);
    let mut seen = HashSet::new();
    for curve in [Curve::P256, Curve::Secp256k1] {
        // With a role the envelopes have another form, and the key of one form never serves the other.
        for role in [None, Some("card")] {
            let options = EncryptOptions { curve: Some(curve), role, ..EncryptOptions::new("acme") };
            (0..4).for_each(|_| assert!(seen.insert(ephemeral_of(&engine, &options)), "fresh for each request"));
        }
    }
    let after = counted(&engine);
    assert_eq!((after.hits - before.hits, after.misses - before.misses, after.entries), (8, 8, 0));
}

#[test]
fn a_spare_key_is_gone_when_its_time_is_over_the_key_is_rotated_or_none_is_wanted() {
    let Bench { engine, hands, store: _store } = bench_with_tables(Settings::default());
    let options = EncryptOptions::new("acme");
    ephemeral_of(&engine, &options);
    assert_eq!(engine.counters().spare_keys.entries, 1);
    hands.advance(1);
    let hits = engine.counters().spare_keys.hits;
    ephemeral_of(&engine, &options);
    assert_eq!(engine.counters().spare_keys.hits, hits, "1 s is over");
    hands.advance(1);
    engine.maintain().expect("maintained");
    assert_eq!(engine.counters().spare_keys.entries, 0, "wiped though nobody asks for it");
    ephemeral_of(&engine, &options);
    engine.store().rotate(&app("acme")).expect("rotated");
    engine.maintain().expect("refreshed");
    assert_eq!(engine.counters().spare_keys.entries, 0);
    let none = Settings { spare_key_age_max: Duration::ZERO, ..Settings::default() };
    let Bench { engine, store: _store, .. } = bench_with_tables(none);
    ephemeral_of(&engine, &options);
    ephemeral_of(&engine, &options);
    assert_eq!((engine.counters().spare_keys.hits, engine.counters().spare_keys.entries), (0, 0));
}

#[test]
fn threads_never_share_a_spare_key() {
    let Bench { engine, store: _store, .. } = bench_with_tables(Settings::default());
    let all = std::thread::scope(|scope| {
        let ask = || (0..200).map(|_| ephemeral_of(&engine, &EncryptOptions::new("acme"))).collect::<Vec<_>>();
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(ask)).collect();
        threads.into_iter().flat_map(|thread| thread.join().expect("ends")).collect::<Vec<_>>()
    });
    assert_eq!(all.iter().collect::<HashSet<_>>().len(), 800);
    assert!(engine.counters().spare_keys.hits > 0);
}

#[test]
fn a_session_shared_by_threads_repeats_no_nonce() {
    let Bench { engine, store: _store, .. } = bench();
    let ivs = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let options = EncryptOptions { keying: Some(Keying::Session), ..EncryptOptions::new("acme") };
                let sealed = encrypt_with(&engine, &options, &[], &format!("[{}]", vec!["1"; 3_000].join(",")));
                let found = envelopes(&sealed.expect("encrypts"));
                let parsed = found.iter().map(|text| Envelope::parse(text.as_bytes()).expect("well formed"));
                ivs.lock().expect("no panic").extend(parsed.map(|envelope| (envelope.ephemeral, envelope.iv)));
            });
        }
    });
    let ivs = ivs.into_inner().expect("no panic");
    assert_eq!(ivs.iter().collect::<HashSet<_>>().len(), 12_000);
}

#[test]
fn old_versions_open_new_values_use_the_newest_and_rewrap_brings_them_up() {
    let Bench { engine, store: _store, .. } = bench();
    let old =
        encrypt_with(&engine, &EncryptOptions { role: Some("card"), ..EncryptOptions::new("acme") }, &[], PAYMENT)
            .expect("encrypts");
    let plain = decrypt(&engine, &old).expect("decrypts");
    assert_eq!(rewrap(&engine, &old), (old.clone(), 0));
    engine.store().rotate(&app("acme")).expect("rotated");
    engine.store().rotate(&app("acme")).expect("rotated");
    engine.maintain().expect("refreshed");
    let version_of =
        |text: &str| engine.inspect(&Caller::Owner, Some("acme"), text.as_bytes()).expect("opens").key_version;
    assert_eq!(version_of(&envelopes(&old)[0]), Some(1));
    assert_eq!(decrypt(&engine, &old).expect("the first version still decrypts"), plain);
    let new = encrypt(&engine, &[], "[1]");
    assert_eq!(version_of(&envelopes(&new)[0]), Some(3));
    let (rewrapped, count) = rewrap(&engine, &old);
    assert_eq!(count, 9);
    for text in envelopes(&rewrapped) {
        let inspected = engine.inspect(&Caller::Owner, Some("acme"), text.as_bytes()).expect("opens");
        assert_eq!((inspected.key_version, inspected.role.as_deref()), (Some(3), Some("card")));
    }
    assert_eq!(decrypt(&engine, &rewrapped).expect("decrypts"), plain);
    assert_eq!(rewrap(&engine, &rewrapped), (rewrapped.clone(), 0));
    engine.store().disable_version(&app("acme"), 1).expect("disabled");
    engine.maintain().expect("refreshed");
    assert_eq!(decrypt(&engine, &old).expect_err("disabled").kind, ErrorKind::DecryptFailed);
    assert_eq!(decrypt(&engine, &rewrapped).expect("decrypts"), plain);
}

#[test]
fn opening_keys_are_bounded_expire_and_go_with_a_change() {
    let settings =
        Settings { opening_keys_max: 3, opening_key_age_max: Duration::from_secs(10), ..Settings::default() };
    let Bench { engine, hands, store: _store } = bench_with(settings);
    let sealed: Vec<String> = (0..5).map(|i| encrypt(&engine, &[], &format!("[{i}]"))).collect();
    for document in &sealed {
        decrypt(&engine, document).expect("decrypts");
    }
    assert_eq!(engine.counters().opening_keys.entries, 3);
    hands.advance(9);
    engine.maintain().expect("maintained");
    assert_eq!(engine.counters().opening_keys.entries, 3);
    hands.advance(1);
    engine.maintain().expect("maintained");
    assert_eq!(engine.counters().opening_keys.entries, 0);
    decrypt(&engine, &sealed[0]).expect("decrypts");
    assert_eq!(engine.counters().opening_keys.entries, 1);
    engine.store().rotate(&app("other")).expect("rotated");
    engine.maintain().expect("refreshed");
    assert_eq!(engine.counters().opening_keys.entries, 0);
    let none = bench_with(Settings { opening_keys_max: 0, ..Settings::default() });
    let document = encrypt(&none.engine, &[], "[1,2]");
    assert_eq!(decrypt(&none.engine, &document).expect("decrypts"), "[1,2]");
    assert_eq!(none.engine.counters().opening_keys.entries, 0);
}

#[test]
fn caches_count_hits_and_misses() {
    let Bench { engine, hands, store: _store } = bench();
    let reported = |of: fn(&Counters) -> &CacheCounters| {
        let CacheCounters { hits, misses, entries } = *of(&engine.counters());
        (hits, misses, entries)
    };
    assert_eq!(engine.counters(), Counters::default());
    let client = grant(&engine, "client", &[Operation::Encrypt, Operation::Decrypt], Roles::Any);
    assert_eq!(reported(|counters| &counters.grants), (0, 1, 1));
    let options = EncryptOptions { keying: Some(Keying::Session), ..EncryptOptions::new("acme") };
    let mut encryptor = engine.encryptor(&client, &options).expect("begins");
    assert_eq!((reported(|counters| &counters.grants), reported(|counters| &counters.apps)), ((1, 1, 1), (0, 1, 1)));
    let value = Value { value_type: ValueType::Number, text: b"1" };
    let mut step = || encryptor.encrypt(&[value], &mut Vec::new(), |_, _, _| ()).expect("encrypts");
    (0..3).for_each(|_| step());
    assert_eq!(reported(|counters| &counters.sessions), (2, 1, 1));
    hands.advance(15);
    step();
    assert_eq!(reported(|counters| &counters.sessions), (2, 2, 1), "what is too old is not found");
    let document = encrypt(&engine, &[], "[1,2]");
    (0..3).for_each(|_| drop(decrypt(&engine, &document).expect("decrypts")));
    assert_eq!((reported(|counters| &counters.opening_keys), engine.counters().opening_agreements), ((2, 1, 1), 1));
    assert_eq!(reported(|counters| &counters.apps), (4, 1, 1));
    engine.store().rotate(&app("other")).expect("rotated");
    engine.maintain().expect("refreshed");
    assert_eq!(
        (reported(|counters| &counters.opening_keys), reported(|counters| &counters.apps)),
        ((2, 1, 0), (4, 1, 0))
    );
}

fn kind<T>(result: Result<T, Error>) -> ErrorKind {
    result.map(drop).expect_err("refused").kind
}

#[test]
fn clients_may_use_only_granted_operations() {
    let Bench { engine, store: _store, .. } = bench();
    let encrypts = grant(&engine, "writer", &[Operation::Encrypt], Roles::Any);
    let decrypts = grant(&engine, "reader", &[Operation::Decrypt], Roles::Any);
    let (to_acme, from_acme) = (EncryptOptions::new("acme"), DecryptOptions::new("acme"));
    engine.encryptor(&encrypts, &to_acme).map(drop).expect("may encrypt");
    engine.decryptor(&decrypts, &from_acme).map(drop).expect("may decrypt");
    assert_eq!(kind(engine.encryptor(&decrypts, &to_acme)), ErrorKind::Forbidden);
    assert_eq!(kind(engine.decryptor(&encrypts, &from_acme)), ErrorKind::Forbidden);
    assert_eq!(kind(engine.encryptor(&encrypts, &EncryptOptions::new("other"))), ErrorKind::Forbidden);
    assert_eq!(kind(engine.encryptor(&encrypts, &EncryptOptions::new("none"))), ErrorKind::Forbidden, "not: unknown");
    let options = RewrapOptions { app: "acme", curve: None };
    assert_eq!(kind(engine.rewrapper(&encrypts, &options)), ErrorKind::Forbidden);
    assert_eq!(kind(engine.rewrapper(&decrypts, &options)), ErrorKind::Forbidden);
    engine.public_keys(&encrypts, "acme").expect("either right is enough");
    assert_eq!(kind(engine.public_keys(&encrypts, "other")), ErrorKind::Forbidden);
    assert_eq!(kind(engine.encrypt_file(&decrypts, "acme", None)), ErrorKind::Forbidden);
    assert_eq!(kind(engine.decrypt_file(&encrypts, "acme")), ErrorKind::Forbidden);
    assert_eq!(kind(engine.client("writer", [8; 32])), ErrorKind::Forbidden, "another certificate");
    assert_eq!(kind(engine.client("stranger", [7; 32])), ErrorKind::Forbidden);
    assert_eq!(kind(engine.client("no/name", [7; 32])), ErrorKind::Forbidden);
    engine.store().disable_client(&ClientName::parse("writer").expect("a name")).expect("disabled");
    engine.maintain().expect("refreshed");
    assert_eq!(kind(engine.encryptor(&encrypts, &to_acme)), ErrorKind::Forbidden, "at once, on an open connection too");
}

#[test]
fn inspecting_the_inside_needs_the_right_to_decrypt_and_the_role() {
    let Bench { engine, store: _store, .. } = bench();
    let writer = grant(&engine, "writer", &[Operation::Encrypt], Roles::Any);
    let cards = Roles::Only(BTreeSet::from([RoleName::parse("card").expect("a role")]));
    let reader = grant(&engine, "reader", &[Operation::Decrypt], cards);
    let sealed = |role| {
        let options = EncryptOptions { role: Some(role), ..EncryptOptions::new("acme") };
        envelopes(&encrypt_with(&engine, &options, &[], "[1]").expect("encrypts")).remove(0)
    };
    let inspect = |caller: &Caller, app, text: &str| engine.inspect(caller, app, text.as_bytes());
    assert_eq!(inspect(&writer, None, &sealed("card")).expect("the outside is for everyone").role, None);
    assert_eq!(kind(inspect(&writer, Some("acme"), &sealed("card"))), ErrorKind::Forbidden);
    assert_eq!(inspect(&reader, Some("acme"), &sealed("card")).expect("granted").role.as_deref(), Some("card"));
    assert_eq!(kind(inspect(&reader, Some("acme"), &sealed("health"))), ErrorKind::Forbidden);
}

#[test]
fn revoking_a_permission_ends_requests_that_need_it() {
    let Bench { engine, store: _store, .. } = bench_with(Settings { step_values_max: 1, ..Settings::default() });
    let document = "[1, 2, 3, 4]";
    let sealed = encrypt(&engine, &[], document);
    let both = grant(&engine, "both", &[Operation::Encrypt, Operation::Decrypt], Roles::Any);
    let mut encrypting =
        engine.encrypt_document(&both, &EncryptOptions::new("acme"), None, document.len()).expect("begins");
    let mut decrypting =
        engine.decrypt_document(&both, &DecryptOptions::new("acme"), None, sealed.len()).expect("begins");
    let (mut one, mut other) = (Vec::new(), Vec::new());
    encrypting.step(document.as_bytes(), &mut one).expect("granted");
    decrypting.step(sealed.as_bytes(), &mut other).expect("granted");
    engine.store().rotate(&app("other")).expect("rotated");
    engine.maintain().expect("refreshed");
    encrypting.step(document.as_bytes(), &mut one).expect("another change takes nothing away");
    decrypting.step(sealed.as_bytes(), &mut other).expect("another change takes nothing away");
    engine.store().disable_client(&ClientName::parse("both").expect("a name")).expect("disabled");
    engine.maintain().expect("refreshed");
    assert_eq!(kind(encrypting.step(document.as_bytes(), &mut one)), ErrorKind::Forbidden);
    assert_eq!(kind(decrypting.step(sealed.as_bytes(), &mut other)), ErrorKind::Forbidden);
    assert_eq!(kind(engine.inspect(&both, None, envelopes(&sealed)[0].as_bytes())), ErrorKind::Forbidden);
}

#[test]
fn revoking_a_permission_ends_parts_that_need_it() {
    let Bench { engine, store: _store, .. } = bench_with(Settings { step_values_max: 2, ..Settings::default() });
    let document = "[1, 2, 3, 4, 5, 6, 7, 8]";
    let both = grant(&engine, "both", &[Operation::Encrypt, Operation::Decrypt], Roles::Any);
    let mut work = engine.encrypt_document(&both, &EncryptOptions::new("acme"), None, document.len()).expect("begins");
    work.step(document.as_bytes(), &mut Vec::new()).expect("granted");
    let mut part = || match work.next_part(document.as_bytes()) {
        Ok(Planned::Part(part)) => Ok(part),
        Err(error) => Err(error),
        Ok(Planned::Walked | Planned::All) => panic!("there is more"),
    };
    let (mut first, mut second) = (part().expect("granted"), part().expect("granted"));
    first.step(document.as_bytes(), &mut Vec::new()).expect("granted");
    engine.store().rotate(&app("acme")).expect("rotated");
    engine.maintain().expect("refreshed");
    let mut out = Vec::new();
    second.step(document.as_bytes(), &mut out).expect("the right is still there");
    let text = envelopes(&String::from_utf8(out).expect("UTF-8")).remove(0);
    let inspected = engine.inspect(&Caller::Owner, Some("acme"), text.as_bytes()).expect("opens");
    assert_eq!(inspected.key_version, Some(2), "a part sees the new key");
    let mut third = part().expect("granted");
    engine.store().disable_client(&ClientName::parse("both").expect("a name")).expect("disabled");
    engine.maintain().expect("refreshed");
    assert_eq!(kind(third.step(document.as_bytes(), &mut Vec::new())), ErrorKind::Forbidden);
    assert_eq!(kind(part()), ErrorKind::Forbidden);
}

#[test]
fn forks_of_one_request_share_its_keys() {
    let Bench { engine, store: _store, .. } = bench();
    let options = EncryptOptions { keying: Some(Keying::Request), ..EncryptOptions::new("acme") };
    let mut encryptor = engine.encryptor(&Caller::Owner, &options).expect("begins");
    let mut forks = [encryptor.fork().expect("granted"), encryptor.fork().expect("granted")];
    let mut out = Vec::new();
    for (text, fork) in [b"1", b"2"].iter().zip(&mut forks) {
        let value = Value { value_type: ValueType::Number, text: *text };
        fork.encrypt(&[value], &mut out, |_, _, out| out.push(b' ')).expect("encrypts");
    }
    let sealed = String::from_utf8(out).expect("ASCII");
    let texts: Vec<&[u8]> = sealed.split_whitespace().map(str::as_bytes).collect();
    let ephemeral = |text: &[u8]| Envelope::parse(text).expect("well formed").ephemeral;
    assert_eq!(ephemeral(texts[0]), ephemeral(texts[1]));

    let mut decryptor = engine.decryptor(&Caller::Owner, &DecryptOptions::new("acme")).expect("begins");
    let mut forks = [decryptor.fork(), decryptor.fork()];
    let before = engine.counters().opening_agreements;
    for (text, fork) in texts.iter().zip(&mut forks) {
        assert_eq!(fork.decrypt(&[text], |_, opened| assert!(opened.is_some())).expect("opens"), 1);
    }
    assert_eq!(engine.counters().opening_agreements - before, 1);
}

/// Lists whose values cost agreements fall into small parts, so that several workers have something to do.
#[test]
fn parts_are_sized_by_the_cost_of_the_values() {
    let Bench { engine, store: _store, .. } = bench();
    let sealed = |keying| {
        let options = EncryptOptions { keying: Some(keying), ..EncryptOptions::new("acme") };
        envelopes(&encrypt_with(&engine, &options, &[], &format!("[{}]", vec!["1"; 300].join(","))).expect("encrypts"))
    };
    for (keying, expected) in [(Keying::Field, 1..=1), (Keying::Request, 100..=256)] {
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
    let Bench { engine, store: _store, .. } = bench();
    let sealed = encrypt(&engine, &[], "[1, 2, 3]");
    let texts = envelopes(&sealed);
    let (forged, cut) = (flip_last(&texts[1]), texts[2].replace(":$", ""));
    let list: [&[u8]; 3] = [texts[0].as_bytes(), forged.as_bytes(), cut.as_bytes()];
    let mut decryptor = engine.decryptor(&Caller::Owner, &DecryptOptions::new("acme")).expect("begins");
    let error = decryptor.decrypt(&list, |_, _| ()).expect_err("two are bad");
    assert_eq!((error.kind, error.index), (ErrorKind::DecryptFailed, Some(1)));
}

#[test]
fn rewrapping_current_envelopes_copies_nothing_twice() {
    let Bench { engine, store: _store, .. } = bench();
    let sealed = encrypt(&engine, &[], &format!("[{}]", vec!["1"; 5_000].join(",")));
    let options = RewrapOptions { app: "acme", curve: None };
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
fn an_ephemeral_key_costs_one_agreement_a_version_and_one_search() {
    for opening_keys_max in [0, 100] {
        let Bench { engine, store: _store, .. } = bench_with(Settings { opening_keys_max, ..Settings::default() });
        let old = encrypt(&engine, &[], &format!("[{}]", vec!["1"; 1_000].join(",")));
        for _ in 0..3 {
            engine.store().rotate(&app("acme")).expect("rotated");
        }
        engine.maintain().expect("refreshed");
        decrypt(&engine, &old).expect("decrypts");
        assert_eq!(engine.counters().opening_agreements, 4, "one for each version, whatever the number of values");
        decrypt(&engine, &old).expect("decrypts");
        let expected = if opening_keys_max == 0 { 8 } else { 4 };
        assert_eq!(engine.counters().opening_agreements, expected, "kept across requests where the setting says so");
        let before = engine.counters().opening_agreements;
        let mut inspector = engine.inspector(&Caller::Owner, Some("acme")).expect("begins");
        for text in envelopes(&old) {
            while inspector.inspect(text.as_bytes()).expect("opens").is_none() {}
        }
        assert!(engine.counters().opening_agreements - before <= 4, "within a request always");
    }
}

#[test]
fn output_too_large_to_decrypt_is_not_produced() {
    let document = DocumentLimits { document_size_max: 2_000, ..DocumentLimits::default() };
    let Bench { engine, store: _store, .. } = bench_with(Settings { document, ..Settings::default() });
    let list = |count: usize| format!("[{}]", vec!["1"; count].join(","));
    let sealed = encrypt(&engine, &[], &list(10));
    assert_eq!(decrypt(&engine, &sealed).expect("decrypts"), list(10));
    let options = EncryptOptions::new("acme");
    assert_eq!(kind(encrypt_with(&engine, &options, &[], &list(30))), ErrorKind::TooLarge);
    assert_eq!(kind(encrypt_with(&engine, &options, &[], &list(2_000))), ErrorKind::TooLarge);
}

#[test]
fn roles_are_checked_when_a_value_is_open() {
    let Bench { engine, store: _store, .. } = bench();
    let cards = Roles::Only(BTreeSet::from([RoleName::parse("card").expect("a role")]));
    let reader = grant(&engine, "reader", &[Operation::Decrypt], cards);
    let sealed = |role| {
        let options = EncryptOptions { role, ..EncryptOptions::new("acme") };
        encrypt_with(&engine, &options, &[], "[\"secret\"]").expect("encrypts")
    };
    let open = |document: &str, role| {
        decrypt_as(&engine, &reader, &DecryptOptions { role, ..DecryptOptions::new("acme") }, document)
    };
    assert_eq!(open(&sealed(Some("card")), None).expect("granted"), "[\"secret\"]");
    assert_eq!(open(&sealed(None), None).expect("without a role"), "[\"secret\"]");
    assert_eq!(kind(open(&sealed(Some("health")), None)), ErrorKind::Forbidden);
    assert_eq!(open(&sealed(Some("card")), Some("card")).expect("as asked"), "[\"secret\"]");
    assert_eq!(kind(open(&sealed(None), Some("card"))), ErrorKind::Forbidden);
    assert_eq!(kind(open(&sealed(Some("card")), Some("not a role"))), ErrorKind::InvalidParams);
}

#[test]
fn apps_that_are_unknown_or_disabled_are_refused() {
    let Bench { engine, store: _store, .. } = bench();
    let sealed = encrypt(&engine, &[], "[1]");
    assert_eq!(kind(encrypt_with(&engine, &EncryptOptions::new("none"), &[], "[1]")), ErrorKind::UnknownApp);
    assert_eq!(kind(encrypt_with(&engine, &EncryptOptions::new("../x"), &[], "[1]")), ErrorKind::UnknownApp);
    engine.store().disable_app(&app("acme")).expect("disabled");
    engine.maintain().expect("refreshed");
    assert_eq!(kind(encrypt_with(&engine, &EncryptOptions::new("acme"), &[], "[1]")), ErrorKind::AppDisabled);
    assert_eq!(kind(decrypt(&engine, &sealed)), ErrorKind::AppDisabled);
    engine.store().enable_app(&app("acme")).expect("enabled");
    engine.maintain().expect("refreshed");
    assert_eq!(decrypt(&engine, &sealed).expect("decrypts"), "[1]");
}

#[test]
fn bad_input_is_named_by_its_byte_and_never_quoted() {
    let Bench { engine, store: _store, .. } = bench();
    let sealed = encrypt(&engine, &["$.a"], "{\"a\":\"4242424242424242\", \"b\": 1}");
    let envelope = envelopes(&sealed).remove(0);
    let other_app = encrypt_with(&engine, &EncryptOptions::new("other"), &[], "[\"x\"]").expect("encrypts");
    let cases: [(String, ErrorKind, u64); 8] = [
        ("{\"a\":".to_owned(), ErrorKind::InvalidDocument, 5),
        ("[1,]".to_owned(), ErrorKind::InvalidDocument, 3),
        ("{\"a\":\"\\ud800\"}".to_owned(), ErrorKind::InvalidDocument, 6),
        (sealed.replace(":$", ""), ErrorKind::InvalidEnvelope, 5),
        (sealed.replace("Tk9D", "Tk9E"), ErrorKind::InvalidEnvelope, 5),
        (sealed.replace(&envelope[25..30], "AAAAA"), ErrorKind::InvalidEnvelope, 5),
        (flip_last(&sealed), ErrorKind::DecryptFailed, 5),
        (other_app, ErrorKind::DecryptFailed, 1),
    ];
    for (document, expected, offset) in cases {
        let result = decrypt(&engine, &document)
            .and_then(|text| encrypt_with(&engine, &EncryptOptions::new("acme"), &[], &text));
        let error = result.expect_err(&document);
        assert_eq!((error.kind, error.offset), (expected, Some(offset)), "{document}: {error}");
        assert!(!error.to_string().contains("4242"), "{error}");
    }
    assert_eq!(decrypt(&engine, &sealed).expect("healthy afterwards"), "{\"a\":\"4242424242424242\", \"b\": 1}");
}

/// Changes the last character that carries six whole bits of the tag.
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
    let Bench { engine, store: _store, .. } = bench();
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
    let Bench { engine, store: _store, .. } =
        bench_with(Settings { empty_strings: EmptyStrings::Leave, ..Settings::default() });
    let sealed = encrypt(&engine, &[], "[\"\", \"a\", \"\"]");
    assert_eq!(envelopes(&sealed).len(), 1);
    assert!(sealed.starts_with("[\"\", \"ev:") && sealed.ends_with("\", \"\"]"));
}

#[test]
fn files_decrypt_under_any_version() {
    let Bench { engine, store: _store, .. } = bench();
    for curve in [Curve::P256, Curve::Secp256k1] {
        let mut content = b"kept".to_vec();
        let file = encrypt_file(&engine, curve, b"content");
        engine.store().rotate(&app("acme")).expect("rotated");
        engine.maintain().expect("refreshed");
        for _ in 0..2 {
            decrypt_file(&engine, &Caller::Owner, "acme", &file, &mut content).expect("decrypts");
        }
        assert_eq!(content, b"keptcontentcontent");
        let other = decrypt_file(&engine, &Caller::Owner, "other", &file, &mut content);
        assert_eq!(kind(other), ErrorKind::DecryptFailed);
        assert_eq!(content, b"keptcontentcontent");
        let text = decrypt_file(&engine, &Caller::Owner, "acme", b"text", &mut content);
        assert_eq!(kind(text), ErrorKind::InvalidEnvelope);
    }
}

/// A file that is in truth a legacy value (`TENZ`) with a role: the two share key and associated data on P-256.
fn file_of_a_value_with_a_role(engine: &Engine, role: &str, text: &str) -> Vec<u8> {
    let recipient = engine.public_keys(&Caller::Owner, "acme").expect("keys").r1;
    let mut rng = system_random();
    let encapsulation = Recipient::from(recipient).encapsulate(&EcContext::new(&mut rng), &mut rng);
    let prefixes = concat!(env!("CARGO_MANIFEST_DIR"), "/../../vectors/der-prefix.txt");
    let prefixes = std::fs::read_to_string(prefixes).expect("readable");
    let digits = prefixes.lines().find_map(|line| line.strip_prefix("r1 270 ")).expect("a line for r1");
    let prefix: Vec<u8> =
        (0..digits.len()).step_by(2).map(|i| u8::from_str_radix(&digits[i..i + 2], 16).expect("hex")).collect();
    let shared = encapsulation.shared.expose();
    let key = sha256(&[shared, &[0, 0, 0, 1], &prefix, encapsulation.ephemeral.uncompressed()]);
    let map = [b"\x81\xa2dr".as_slice(), &[0xa0 + role.len() as u8], role.as_bytes()].concat();
    let plaintext = [&(map.len() as u16).to_le_bytes(), map.as_slice(), text.as_bytes()].concat();
    let mut sealed = vec![0; plaintext.len() + 16];
    let item = SealItem { nonce: Nonce([9; 12]), aad: &recipient.compressed(), plaintext: &plaintext };
    AeadKey::new(AeadAlgorithm::Aes256Gcm, &key).expect("32 bytes").seal(&item, &mut sealed);
    let header = [b"%EVENC\x03\x37\x00".as_slice(), &encapsulation.ephemeral.compressed(), &[9; 12], &[0]].concat();
    let body = [header, sealed].concat();
    [body.as_slice(), &crc32fast::hash(&body).to_le_bytes()].concat()
}

#[test]
fn a_value_does_not_pass_its_role_as_a_file() {
    let Bench { engine, store: _store, .. } = bench();
    let file = file_of_a_value_with_a_role(&engine, "health", "secret");
    let mut content = Vec::new();
    decrypt_file(&engine, &Caller::Owner, "acme", &file, &mut content).expect("the owner may see any role");
    assert!(content.ends_with(b"secret"));
    let cards = Roles::Only(BTreeSet::from([RoleName::parse("card").expect("a role")]));
    let reader = grant(&engine, "reader", &[Operation::Decrypt], cards);
    let mut content = b"kept".to_vec();
    assert_eq!(kind(decrypt_file(&engine, &reader, "acme", &file, &mut content)), ErrorKind::Forbidden);
    assert_eq!(content, b"kept");
}

#[test]
fn native_values_and_texts() {
    let Bench { engine, store: _store, .. } = bench();
    let mut encryptor = engine.encryptor(&Caller::Owner, &EncryptOptions::new("acme")).expect("begins");
    let values = [
        Value { value_type: ValueType::Number, text: b"42" },
        Value { value_type: ValueType::String, text: b"text" },
        Value { value_type: ValueType::Boolean, text: b"true" },
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
        let Bench { engine, store: _store, .. } = bench_with(settings);
        // serde_json writes the escapes that are needed and no others, as we do, so that texts compare.
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
