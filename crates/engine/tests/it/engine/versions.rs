//! The search for the key version of a value: its cost in key agreements, what a request remembers of it, and its bound.

use leafseal_engine::{Decryptor, OnFailure, RequestReport};

use super::*;

/// An engine without a cache across requests, whose app `acme` gets this many versions after `before` has run.
fn rotated<T>(settings: Settings, versions: usize, before: impl FnOnce(&Engine) -> T) -> (TestEngine, T) {
    let test_engine = test_engine_with(Settings { opening_keys_max: 0, ..settings });
    let made = before(&test_engine.engine);
    rotate_to(&test_engine.engine, versions);
    (test_engine, made)
}

fn rotate_to(engine: &Engine, versions: usize) {
    let count = || engine.store().app_summary(&app("acme")).expect("read").expect("there").versions.len();
    while count() < versions {
        engine.store().rotate(&app("acme")).expect("rotated");
    }
    engine.maintain().expect("refreshed");
}

/// Values, each with an ephemeral key of its own.
fn sealed(engine: &Engine, app: &str, curve: Curve, count: usize) -> Vec<String> {
    let options =
        EncryptOptions { keying: Some(Keying::Field), curve: Some(curve), role: None, ..EncryptOptions::new(app) };
    let document = format!("[{}]", vec!["1"; count].join(","));
    envelopes(&encrypt_with(engine, &options, &[], &document).expect("encrypts"))
}

fn list(values: &[String]) -> String {
    format!("[\"{}\"]", values.join("\",\""))
}

fn lenient<'a>() -> DecryptOptions<'a> {
    DecryptOptions { on_failure: OnFailure::Leave, ..DecryptOptions::new("acme") }
}

/// The values that a request decrypts, with its report.
fn opened(
    engine: &Engine,
    caller: &Caller,
    options: &DecryptOptions<'_>,
    document: &str,
) -> Result<RequestReport, Error> {
    let mut work = engine.decrypt_document(caller, options, None, document.len())?;
    while work.step(document.as_bytes(), &mut Vec::new())? == Progress::More {}
    Ok(work.report())
}

/// Key agreements and failed trials of `run`.
fn cost<T>(engine: &Engine, run: impl FnOnce() -> T) -> (u64, u64) {
    let before = engine.counters();
    run();
    let after = engine.counters();
    (after.opening_agreements - before.opening_agreements, after.opening_trials - before.opening_trials)
}

fn batch_size() -> u64 {
    EcContext::new(&mut system_random()).batch_size().max(4) as u64
}

const VERSIONS: usize = 40;
const VALUES: usize = 50;

/// The bar: old values cost what new ones do, after one search of each request, or none if another request came before.
#[test]
fn many_values_of_an_old_version_cost_one_search() {
    for curve in Curve::ALL {
        let (TestEngine { engine, store: _store, .. }, old) =
            rotated(Settings::default(), VERSIONS, |engine| sealed(engine, "acme", curve, VALUES));
        let document = list(&old);
        let expected = format!("[{}]", vec!["1"; VALUES].join(","));
        let run = || assert_eq!(decrypt(&engine, &document).expect("decrypts"), expected);
        let (agreements, trials) = cost(&engine, run);
        assert!(agreements <= VALUES as u64 + VERSIONS as u64 + batch_size(), "{curve:?}: {agreements}");
        assert!(trials < VERSIONS as u64 + batch_size(), "{curve:?}: {trials}");
        assert_eq!(cost(&engine, run), (VALUES as u64, 0), "the next request begins with the version of the last");
        // A change of the store empties the caches, and what fitted last is still known.
        engine.store().rotate(&app("other")).expect("rotated");
        engine.maintain().expect("refreshed");
        assert_eq!(cost(&engine, run), (VALUES as u64, 0));
        let (agreements, _) = cost(&engine, || assert_eq!(rewrap(&engine, &document).1, VALUES as u64));
        assert_eq!(agreements, VALUES as u64, "rewrapping as well");
        let mut inspector = engine.inspector(&Caller::Owner, Some("acme")).expect("begins");
        let mut inspect = |text: &String| while inspector.inspect(text.as_bytes()).expect("opens").is_none() {};
        assert_eq!(cost(&engine, || old.iter().for_each(&mut inspect)), (VALUES as u64, 0));
        // Several workers of one request.
        let work = engine.decrypt_document(&Caller::Owner, &DecryptOptions::new("acme"), None, document.len());
        let (agreements, trials) = cost(&engine, || in_parts(work.expect("begins"), &document).expect("decrypts"));
        assert_eq!((agreements, trials), (VALUES as u64, 0));
    }
}

/// As rows that were written over time and are read in any order: those that decrypted lately are tried before all others.
#[test]
fn values_of_a_few_versions_in_turn_are_found_among_many() {
    let mut values = Vec::new();
    let TestEngine { engine, store: _store, .. } =
        test_engine_with(Settings { opening_keys_max: 0, ..Settings::default() });
    for versions in [10, 20, VERSIONS] {
        values.push(sealed(&engine, "acme", Curve::P256, 20));
        rotate_to(&engine, versions);
    }
    let mixed: Vec<String> = (0..60).map(|i| values[i % 3][i / 3].clone()).collect();
    decrypt(&engine, &list(&mixed)).expect("decrypts");
    let (agreements, _) = cost(&engine, || decrypt(&engine, &list(&mixed)).expect("decrypts"));
    assert!(agreements <= 3 * 60, "at most three each: {agreements}");
}

/// In turn, so that each is of the version that decrypted longest ago.
#[test]
fn values_of_many_versions_in_turn_cost_no_more_than_these() {
    for in_use in [9, 30] {
        let (mut first, mut second) = (Vec::new(), Vec::new());
        let TestEngine { engine, store: _store, .. } =
            test_engine_with(Settings { opening_keys_max: 0, ..Settings::default() });
        for version in 1..=in_use {
            rotate_to(&engine, version);
            let mut pair = sealed(&engine, "acme", Curve::P256, 2);
            second.push(pair.pop().expect("two"));
            first.push(pair.pop().expect("two"));
        }
        rotate_to(&engine, 100);
        decrypt(&engine, &list(&first)).expect("decrypts");
        let (agreements, _) = cost(&engine, || decrypt(&engine, &list(&second)).expect("decrypts"));
        let each = in_use as u64 + batch_size();
        assert!(agreements <= in_use as u64 * each, "{in_use} versions in use: {agreements}");
    }
}

/// No step makes more agreements than fit side by side, and each search ends.
#[test]
fn a_search_goes_on_in_short_steps() {
    let (TestEngine { engine, store: _store, .. }, old) =
        rotated(Settings::default(), VERSIONS, |engine| sealed(engine, "acme", Curve::P256, 1));
    let text = old[0].as_bytes();
    let mut decryptor = engine.decryptor(&Caller::Owner, &DecryptOptions::new("acme")).expect("begins");
    let (mut steps, mut done) = (0, 0);
    while done == 0 {
        let (agreements, trials) =
            cost(&engine, || done = decryptor.decrypt(&[text], |_, value| assert!(value.is_some())).expect("opens"));
        assert!(agreements <= batch_size(), "{agreements} in a step");
        assert!(trials <= 30, "{trials} in a step");
        steps += 1;
    }
    assert!(steps <= 1 + TABLE_PIECES + VERSIONS, "{steps}");
}

/// A copy of what no version opens costs no agreement and no trial, however many there are: no more than a copy of what opens.
#[test]
fn copies_of_a_foreign_envelope_cost_one_search() {
    for versions in [1, 3, VERSIONS] {
        let options = EncryptOptions { role: Some("pci"), ..EncryptOptions::new("acme") };
        let make = |engine: &Engine| {
            let own = encrypt_with(engine, &options, &[], "[\"own\"]").expect("encrypts");
            (sealed(engine, "other", Curve::P256, 1).remove(0), envelopes(&own).remove(0))
        };
        let (TestEngine { engine, store: _store, .. }, (foreign, forbidden)) =
            rotated(Settings::default(), versions, make);
        let roles = Roles::Only(BTreeSet::from([RoleName::parse("health").expect("a role")]));
        let reader = grant(&engine, "reader", &[Operation::Encrypt, Operation::Decrypt], roles);
        let copies = |text: &String, count| list(&vec![text.clone(); count]);
        let fails = |text: &String, count| {
            let report = opened(&engine, &reader, &lenient(), &copies(text, count)).expect("continues");
            assert_eq!(report.failed, count as u64);
        };
        let every = (versions as u64, versions as u64);
        assert_eq!(cost(&engine, || fails(&foreign, 2_000)), every);
        assert_eq!(cost(&engine, || fails(&foreign, 1)), every);
        let (agreements, trials) = cost(&engine, || fails(&forbidden, 2_000));
        assert!(agreements <= versions as u64 && trials < versions as u64, "one search, which ends earlier");
        // Encrypting with skip_sealed or reseal has to know whether a text opens.
        let skip = EncryptOptions { skip_sealed: true, ..EncryptOptions::new("acme") };
        let reseal = EncryptOptions { reseal: true, role: Some("pci"), ..EncryptOptions::new("acme") };
        for options in [skip, reseal] {
            let encrypts = || drop(encrypt_with(&engine, &options, &[], &copies(&foreign, 300)).expect("encrypts"));
            assert_eq!(cost(&engine, encrypts), every);
        }
    }
}

/// The findings of one worker are shared with the others of the request.
#[test]
fn workers_share_what_failed() {
    let make = |engine: &Engine| sealed(engine, "other", Curve::P256, 1).remove(0);
    let (TestEngine { engine, store: _store, .. }, foreign) = rotated(Settings::default(), VERSIONS, make);
    let fails = |decryptor: &mut Decryptor| {
        let mut failures = 0;
        while failures == 0 {
            let texts: &[&[u8]] = &[foreign.as_bytes()];
            decryptor.open_texts(texts, |_, value| failures += usize::from(value.is_err())).expect("continues");
        }
    };
    let every = (VERSIONS as u64, VERSIONS as u64);
    let begin = || engine.decryptor(&Caller::Owner, &lenient()).expect("begins");
    let (mut first, mut early) = (begin(), begin());
    let mut fork = early.fork();
    assert_eq!(cost(&engine, || fails(&mut first)), every);
    assert_eq!(cost(&engine, || fails(&mut first.fork())), (0, 0), "forked after the failure");
    assert_eq!(cost(&engine, || fails(&mut early)), every);
    assert_eq!(cost(&engine, || fails(&mut fork)), (0, 0), "forked before it");
}

/// A change of the store makes workers forget keys and failures, and not what they have cost.
#[test]
fn the_bound_on_trials_is_one_of_the_request() {
    let settings = Settings { request_key_trials_max: 30, ..Settings::default() };
    let make = |engine: &Engine| sealed(engine, "other", Curve::P256, 11);
    let (TestEngine { engine, store: _store, .. }, foreign) = rotated(settings, 3, make);
    let open = |decryptor: &mut Decryptor, values: &[String]| -> Result<(), Error> {
        for value in values {
            let texts: &[&[u8]] = &[value.as_bytes()];
            while decryptor.open_texts(texts, |_, value| assert!(value.is_err()))? == 0 {}
        }
        Ok(())
    };
    let mut first = engine.decryptor(&Caller::Owner, &lenient()).expect("begins");
    let mut second = first.fork();
    open(&mut first, &foreign[..5]).expect("15 trials");
    engine.store().rotate(&app("other")).expect("rotated");
    engine.maintain().expect("refreshed");
    open(&mut second, &foreign[5..9]).expect("27 trials");
    assert_eq!(open(&mut first, &foreign[9..]).expect_err("33 trials").code, ErrorCode::TooLarge);
}

/// Long values are tried in pieces, and a copy of one is found by its digest, in pieces, too.
#[test]
fn copies_of_a_long_foreign_envelope_cost_one_search() {
    let settings = Settings { step_bytes_max: 1_000, ..Settings::default() };
    let options = EncryptOptions { keying: Some(Keying::Field), ..EncryptOptions::new("other") };
    let make = |engine: &Engine| {
        let long = format!("[\"{}\",\"{}\"]", "x".repeat(12_000), "y".repeat(12_000));
        envelopes(&encrypt_with(engine, &options, &[], &long).expect("encrypts"))
    };
    let (TestEngine { engine, store: _store, .. }, foreign) = rotated(settings, 3, make);
    let fails = |values: &[String]| {
        let report = opened(&engine, &Caller::Owner, &lenient(), &list(values)).expect("continues");
        assert_eq!(report.failed, values.len() as u64);
    };
    let one = cost(&engine, || fails(&foreign[..1]));
    assert_eq!(one.0, 3, "an agreement with each version");
    assert!(one.1 >= 3 * 12, "each piece counts: {}", one.1);
    let copies = vec![foreign[0].clone(); 50];
    assert_eq!(cost(&engine, || fails(&copies)), one);
    let both = [&copies[..], &foreign[1..], &copies[..]].concat();
    assert_eq!(cost(&engine, || fails(&both)), (2 * one.0, 2 * one.1), "another one is none of them");
}

/// Other values under a foreign ephemeral key cost trials and no agreements; and an ephemeral key whose first value is damaged still opens
/// the others.
#[test]
fn a_failure_is_that_of_a_value_and_not_of_its_ephemeral_key() {
    let make = |engine: &Engine| {
        let other = encrypt_with(engine, &EncryptOptions::new("other"), &[], "[1,2,3,4,5]").expect("encrypts");
        (envelopes(&other), envelopes(&encrypt(engine, &[], "[1,2,3,4,5]")))
    };
    let (TestEngine { engine, store: _store, .. }, (foreign, own)) = rotated(Settings::default(), VERSIONS, make);
    let (agreements, trials) = cost(&engine, || {
        assert_eq!(opened(&engine, &Caller::Owner, &lenient(), &list(&foreign)).expect("continues").failed, 5);
    });
    assert_eq!((agreements, trials), (VERSIONS as u64, 5 * VERSIONS as u64));
    let mut mixed = vec![flip_last(&own[0]), own[1].clone(), foreign[0].clone(), flip_last(&own[2]), own[3].clone()];
    mixed.push(mixed[0].clone());
    let mut work = engine.decrypt_document(&Caller::Owner, &lenient(), None, list(&mixed).len()).expect("begins");
    let mut out = Vec::new();
    while work.step(list(&mixed).as_bytes(), &mut out).expect("continues") == Progress::More {}
    let expected = format!("[\"{}\",2,\"{}\",\"{}\",4,\"{}\"]", mixed[0], mixed[2], mixed[3], mixed[5]);
    assert_eq!(String::from_utf8(out).expect("UTF-8"), expected);
}

/// The bound is an error of the request that names the setting: nothing is left or nulled as if it did not decrypt.
#[test]
fn a_request_that_tries_too_many_versions_fails_and_names_the_setting() {
    let settings = Settings { request_key_trials_max: 30, step_bytes_max: 1_000, ..Settings::default() };
    let make = |engine: &Engine| (sealed(engine, "other", Curve::P256, 20), sealed(engine, "acme", Curve::P256, 100));
    let (TestEngine { engine, store: _store, .. }, (foreign, own)) = rotated(settings, 3, make);
    let fails = |options: &DecryptOptions<'_>, values: &[String]| {
        let document = list(values);
        let begin = || engine.decrypt_document(&Caller::Owner, options, None, document.len()).expect("begins");
        let error = opened(&engine, &Caller::Owner, options, &document).expect_err("too many");
        assert_eq!((error.code, error.index, error.offset), (ErrorCode::TooLarge, None, None), "{error}");
        assert!(error.to_string().contains("engine.request_key_trials_max"), "{error}");
        assert_eq!(kind(in_parts(begin(), &document)), ErrorCode::TooLarge, "several workers share the bound");
    };
    opened(&engine, &Caller::Owner, &lenient(), &list(&foreign[..10])).expect("30 trials are allowed");
    for on_failure in [OnFailure::Leave, OnFailure::Null] {
        fails(&DecryptOptions { on_failure, ..DecryptOptions::new("acme") }, &foreign);
    }
    let error = opened(&engine, &Caller::Owner, &DecryptOptions::new("acme"), &list(&foreign)).expect_err("the first");
    assert_eq!(error.code, ErrorCode::DecryptFailed, "a single value is never refused");
    assert_eq!(
        decrypt(&engine, &list(&own)).expect("values that open count little"),
        format!("[{}]", vec!["1"; 100].join(","))
    );
    let skip = EncryptOptions { skip_sealed: true, ..EncryptOptions::new("acme") };
    assert_eq!(kind(encrypt_with(&engine, &skip, &[], &list(&foreign))), ErrorCode::TooLarge);
    // Each piece of a long value counts.
    let long = encrypt_with(&engine, &EncryptOptions::new("other"), &[], &format!("[\"{}\"]", "x".repeat(12_000)));
    fails(&lenient(), &envelopes(&long.expect("encrypts")));
}

/// Trimmed versions open nothing, without a restart; the others do.
#[test]
fn values_of_a_trimmed_version_do_not_decrypt() {
    let TestEngine { engine, store: _store, .. } = test_engine();
    let old = encrypt(&engine, &[], "[1]");
    engine.store().rotate(&app("acme")).expect("rotated");
    engine.maintain().expect("refreshed");
    let (new, rewrapped) = (encrypt(&engine, &[], "[2]"), rewrap(&engine, &old).0);
    engine.store().disable_version(&app("acme"), 1).expect("disabled");
    engine.store().trim_versions(&app("acme"), &BTreeSet::from([1])).expect("trimmed");
    engine.maintain().expect("refreshed");
    assert_eq!(decrypt(&engine, &old).expect_err("its keys are gone").code, ErrorCode::DecryptFailed);
    assert_eq!(
        (decrypt(&engine, &new).expect("opens"), decrypt(&engine, &rewrapped).expect("opens")),
        ("[2]".into(), "[1]".into())
    );
}

/// A decryptor that another worker continues while the first is in the middle of a search.
#[test]
fn a_fork_continues_a_search() {
    let (TestEngine { engine, store: _store, .. }, old) =
        rotated(Settings::default(), VERSIONS, |engine| sealed(engine, "acme", Curve::P256, 1));
    let mut decryptor = engine.decryptor(&Caller::Owner, &DecryptOptions::new("acme")).expect("begins");
    let text: &[&[u8]] = &[old[0].as_bytes()];
    let step = |decryptor: &mut Decryptor| decryptor.decrypt(text, |_, _| ()).expect("continues");
    let (agreements, _) = cost(&engine, || {
        (0..12).for_each(|_| assert_eq!(step(&mut decryptor), 0));
        let mut fork = decryptor.fork();
        while step(&mut fork) == 0 {}
        while step(&mut decryptor) == 0 {}
    });
    assert!(agreements <= VERSIONS as u64, "{agreements}");
}
