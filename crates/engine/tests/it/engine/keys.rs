//! The keys that a request uses: sessions, spare keys, versions, and the caches of opening keys.

use leafseal_engine::Decryptor;
use leafseal_engine::pool::{InSlice, take_yield};

use super::*;

#[test]
fn a_document_without_values_costs_no_key_and_stays() {
    let TestEngine { engine, store: _store, .. } = test_engine();
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
    let TestEngine { engine, clock, store: _store } = test_engine_with(settings);
    let options = EncryptOptions { keying: Some(Keying::Session), ..EncryptOptions::new("acme") };
    let key_of = |document: &str| {
        let text = encrypt_with(&engine, &options, &[], document).expect("encrypts");
        PublicKeyEnvelope::parse(envelopes(&text)[0].as_bytes()).expect("well formed").ephemeral
    };
    let first = key_of("[1]");
    assert_eq!(key_of("[2]"), first, "one session");
    clock.advance(14);
    assert_eq!(key_of("[3]"), first, "younger than 15 s");
    clock.advance(1);
    let second = key_of("[4]");
    assert_ne!(second, first, "15 s are over");
    let many = format!("[{}]", vec!["7"; 2_500].join(","));
    let sealed = encrypt_with(&engine, &options, &[], &many).expect("encrypts");
    assert_eq!(ephemerals(&sealed), 3, "999 are left, then 1,000, then 501");
    assert_eq!(decrypt(&engine, &sealed).expect("decrypts"), many);
}

/// A fixture in which both curves of `acme` have their tables, so that keys are generated in pairs.
fn test_engine_with_tables(settings: Settings) -> TestEngine {
    let test_engine = test_engine_with(settings);
    for curve in [Curve::P256, Curve::Secp256k1] {
        let options = EncryptOptions { curve: Some(curve), keying: Some(Keying::Field), ..EncryptOptions::new("acme") };
        for _ in 0..=TABLE_PIECES + 1 {
            encrypt_with(&test_engine.engine, &options, &[], "[1]").expect("encrypts");
        }
    }
    test_engine
}

fn ephemeral_of(engine: &Engine, options: &EncryptOptions<'_>) -> Vec<u8> {
    let text = encrypt_with(engine, options, &[], "[\"one\",2]").expect("encrypts");
    assert_eq!(ephemerals(&text), 1, "one key for a request");
    assert_eq!(decrypt(engine, &text).expect("decrypts"), "[\"one\",2]");
    PublicKeyEnvelope::parse(envelopes(&text)[0].as_bytes()).expect("well formed").ephemeral.to_vec()
}

#[test]
fn spare_keys_serve_the_next_requests_and_no_others() {
    let TestEngine { engine, store: _store, .. } = test_engine_with_tables(Settings::default());
    let counted = |engine: &Engine| engine.counters().spare_keys;
    let mut seen = HashSet::new();
    for curve in [Curve::P256, Curve::Secp256k1] {
        // With a role the envelopes have another form, and a key of one form is never used for the other.
        for role in [None, Some("card")] {
            let options = EncryptOptions { curve: Some(curve), role, ..EncryptOptions::new("acme") };
            let mut request = || assert!(seen.insert(ephemeral_of(&engine, &options)), "fresh for each request");
            let before = counted(&engine);
            request();
            let first = counted(&engine);
            let spares = first.entries - before.entries;
            assert!(spares > 0 && first.misses == before.misses + 1);
            (0..spares).for_each(|_| request());
            let used = counted(&engine);
            assert_eq!((used.hits - first.hits, used.misses), (spares as u64, first.misses));
            assert_eq!(used.entries, before.entries);
            // After the last one a batch is generated again: a full one.
            request();
            assert!(counted(&engine).entries - before.entries >= spares);
        }
    }
}

#[test]
fn a_spare_key_is_gone_when_its_time_is_over_the_key_is_rotated_or_none_is_wanted() {
    let TestEngine { engine, clock, store: _store } = test_engine_with_tables(Settings::default());
    let options = EncryptOptions::new("acme");
    ephemeral_of(&engine, &options);
    assert!(engine.counters().spare_keys.entries > 0);
    clock.advance(1);
    let hits = engine.counters().spare_keys.hits;
    ephemeral_of(&engine, &options);
    assert_eq!(engine.counters().spare_keys.hits, hits, "1 s is over");
    clock.advance(1);
    engine.maintain().expect("maintained");
    assert_eq!(engine.counters().spare_keys.entries, 0, "wiped although no call uses it");
    ephemeral_of(&engine, &options);
    engine.store().rotate(&app("acme")).expect("rotated");
    engine.maintain().expect("refreshed");
    assert_eq!(engine.counters().spare_keys.entries, 0);
    let none = Settings { spare_key_age_max: Duration::ZERO, ..Settings::default() };
    let TestEngine { engine, store: _store, .. } = test_engine_with_tables(none);
    ephemeral_of(&engine, &options);
    ephemeral_of(&engine, &options);
    assert_eq!((engine.counters().spare_keys.hits, engine.counters().spare_keys.entries), (0, 0));
}

#[test]
fn threads_never_share_a_spare_key() {
    let TestEngine { engine, store: _store, .. } = test_engine_with_tables(Settings::default());
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
    let TestEngine { engine, store: _store, .. } = test_engine();
    let ivs = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let options = EncryptOptions { keying: Some(Keying::Session), ..EncryptOptions::new("acme") };
                let sealed = encrypt_with(&engine, &options, &[], &format!("[{}]", vec!["1"; 3_000].join(",")));
                let found = envelopes(&sealed.expect("encrypts"));
                let parsed = found.iter().map(|text| PublicKeyEnvelope::parse(text.as_bytes()).expect("well formed"));
                ivs.lock().expect("no panic").extend(parsed.map(|envelope| (envelope.ephemeral, envelope.iv)));
            });
        }
    });
    let ivs = ivs.into_inner().expect("no panic");
    assert_eq!(ivs.iter().collect::<HashSet<_>>().len(), 12_000);
}

#[test]
fn old_versions_open_new_values_use_the_newest_and_rewrap_brings_them_up() {
    let TestEngine { engine, store: _store, .. } = test_engine();
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
    assert_eq!(decrypt(&engine, &old).expect_err("disabled").code, ErrorCode::DecryptFailed);
    assert_eq!(decrypt(&engine, &rewrapped).expect("decrypts"), plain);
}

#[test]
fn opening_keys_are_bounded_expire_and_go_with_a_change() {
    let settings =
        Settings { opening_keys_max: 3, opening_key_age_max: Duration::from_secs(10), ..Settings::default() };
    let TestEngine { engine, clock, store: _store } = test_engine_with(settings);
    let sealed: Vec<String> = (0..5).map(|i| encrypt(&engine, &[], &format!("[{i}]"))).collect();
    for document in &sealed {
        decrypt(&engine, document).expect("decrypts");
    }
    assert_eq!(engine.counters().opening_keys.entries, 3);
    clock.advance(9);
    engine.maintain().expect("maintained");
    assert_eq!(engine.counters().opening_keys.entries, 3);
    clock.advance(1);
    engine.maintain().expect("maintained");
    assert_eq!(engine.counters().opening_keys.entries, 0);
    decrypt(&engine, &sealed[0]).expect("decrypts");
    assert_eq!(engine.counters().opening_keys.entries, 1);
    engine.store().rotate(&app("other")).expect("rotated");
    engine.maintain().expect("refreshed");
    assert_eq!(engine.counters().opening_keys.entries, 0);
    let none = test_engine_with(Settings { opening_keys_max: 0, ..Settings::default() });
    let document = encrypt(&none.engine, &[], "[1,2]");
    assert_eq!(decrypt(&none.engine, &document).expect("decrypts"), "[1,2]");
    assert_eq!(none.engine.counters().opening_keys.entries, 0);
}

#[test]
fn caches_count_hits_and_misses() {
    let TestEngine { engine, clock, store: _store } = test_engine();
    let reported = |of: fn(&EngineCounters) -> &CacheCounters| {
        let CacheCounters { hits, misses, entries } = *of(&engine.counters());
        (hits, misses, entries)
    };
    // The first look at the store counts as a change.
    let memory = engine.counters().memory;
    assert_eq!(engine.counters(), EngineCounters { store_resyncs: 1, memory, ..EngineCounters::default() });
    let client = grant(&engine, "client", &[Operation::Encrypt, Operation::Decrypt], Roles::Any);
    assert_eq!(reported(|counters| &counters.grants), (0, 1, 1));
    let options = EncryptOptions { keying: Some(Keying::Session), ..EncryptOptions::new("acme") };
    let mut encryptor = engine.encryptor(&client, &options).expect("begins");
    assert_eq!((reported(|counters| &counters.grants), reported(|counters| &counters.apps)), ((1, 1, 1), (0, 1, 1)));
    let value = SealedInput { value_type: ValueType::Number, text: b"1" };
    let mut step = || encryptor.encrypt(&[value], &mut Vec::new(), |_, _, _| ()).expect("encrypts");
    (0..3).for_each(|_| step());
    assert_eq!(reported(|counters| &counters.sessions), (2, 1, 1));
    clock.advance(15);
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

#[test]
fn an_ephemeral_key_costs_one_agreement_a_version_and_one_search() {
    for opening_keys_max in [0, 100] {
        let TestEngine { engine, store: _store, .. } =
            test_engine_with(Settings { opening_keys_max, ..Settings::default() });
        let old = encrypt(&engine, &[], &format!("[{}]", vec!["1"; 1_000].join(",")));
        for _ in 0..3 {
            engine.store().rotate(&app("acme")).expect("rotated");
        }
        engine.maintain().expect("refreshed");
        decrypt(&engine, &old).expect("decrypts");
        assert_eq!(engine.counters().opening_agreements, 4, "one for each version, whatever the number of values");
        decrypt(&engine, &old).expect("decrypts");
        let expected = if opening_keys_max == 0 { 5 } else { 4 };
        assert_eq!(
            engine.counters().opening_agreements,
            expected,
            "the version is known, and the key where the setting says so"
        );
        let before = engine.counters().opening_agreements;
        let mut inspector = engine.inspector(&Caller::Owner, Some("acme")).expect("begins");
        for text in envelopes(&old) {
            while inspector.inspect(text.as_bytes()).expect("opens").is_none() {}
        }
        assert!(engine.counters().opening_agreements - before <= 4, "within a request always");
    }
}

/// As rows of a database: every value comes from another request, some from before a rotation, on both curves. Also with caches that are
/// too small for the keys that are computed together, and between values that are no envelopes.
#[test]
fn values_of_many_requests_decrypt_together() {
    let small = Settings { request_opening_keys_max: 3, opening_keys_max: 2, ..Settings::default() };
    let none = Settings { request_opening_keys_max: 1, opening_keys_max: 0, ..Settings::default() };
    for settings in [Settings::default(), small, none] {
        let TestEngine { engine, store: _store, .. } = test_engine_with(settings);
        let mut sealed = Vec::new();
        for i in 0..40 {
            if i == 15 {
                engine.store().rotate(&app("acme")).expect("rotated");
                engine.maintain().expect("refreshed");
            }
            let curve = if i % 11 == 10 { Curve::Secp256k1 } else { Curve::P256 };
            let options = EncryptOptions { curve: Some(curve), ..EncryptOptions::new("acme") };
            sealed.push(
                envelopes(&encrypt_with(&engine, &options, &[], &format!("[{i}]")).expect("encrypts"))[0].to_owned(),
            );
        }
        sealed.insert(3, "plain".to_owned());
        let document = |values: &[String]| format!("[\"{}\"]", values.join("\",\""));
        let mut expected: Vec<String> = (0..40).map(|i| i.to_string()).collect();
        expected.insert(3, "\"plain\"".to_owned());
        assert_eq!(decrypt(&engine, &document(&sealed)).expect("decrypts"), format!("[{}]", expected.join(",")));

        // An ephemeral key that is no point fails alone, in its place.
        let parts: Vec<&str> = sealed[9].split(':').collect();
        let off_curve = format!("A{}", "/".repeat(parts[parts.len() - 3].len() - 1));
        sealed[9] = sealed[9].replace(parts[parts.len() - 3], &off_curve);
        let error = decrypt(&engine, &document(&sealed)).expect_err("no point");
        assert!(error.to_string().contains("9"), "{error}");
    }
}

/// Several requests at a time, as a pool has them: each announces what it needs and lets the others go first.
#[test]
fn agreements_of_concurrent_requests_are_computed_together() {
    let TestEngine { engine, store: _store, .. } = test_engine();
    let sealed = |i: usize| envelopes(&encrypt(&engine, &[], &format!("[{i}]")))[0].to_owned();
    let sealed: Vec<String> = (0..20).map(sealed).collect();
    let texts: Vec<&[u8]> = sealed.iter().map(String::as_bytes).collect();
    let decryptor = || engine.decryptor(&Caller::Owner, &DecryptOptions::new("acme")).expect("begins");
    let step = |decryptor: &mut Decryptor, text: &[u8]| {
        let mut opened = Vec::new();
        let done = decryptor.decrypt(&[text], |_, value| opened.push(value.expect("an envelope").text.to_owned()));
        (done.expect("decrypts"), opened)
    };
    let agreements = || engine.counters().opening_agreements;
    let slice = InSlice::begin(true);
    let mut requests: Vec<(usize, Decryptor)> = (0..20).map(|i| (i, decryptor())).collect();
    let before = agreements();
    let first: Vec<usize> = requests.iter_mut().map(|(i, decryptor)| step(decryptor, texts[*i]).0).collect();
    if EcContext::new(&mut system_random()).batch_size() == 1 {
        assert_eq!(first, [1; 20], "without lanes, nothing waits");
        return;
    }
    // The eighth and the sixteenth complete a batch; seven of the others are computed by then.
    assert_eq!(first, [0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0]);
    assert_eq!(agreements() - before, 16);
    assert!(take_yield(), "the slices ended");
    // One goes away. Of the last four, the first whose turn comes computes all that are left.
    drop(requests.remove(18));
    for (i, decryptor) in requests.iter_mut().filter(|(i, _)| first[*i] == 0) {
        assert_eq!(step(decryptor, texts[*i]), (1, vec![i.to_string()]), "{i}");
        assert_eq!(agreements() - before, if *i < 16 { 16 } else { 19 }, "{i}");
    }
    drop(slice);
    // Alone, and with a key that the others know.
    for text in &texts[18..] {
        assert_eq!(step(&mut decryptor(), text).0, 1);
    }
    assert_eq!(agreements() - before, 20);
    engine.maintain().expect("forgets what the lost request announced");
}

/// A row of a database: as many steps as there are batches, not as there are values.
#[test]
fn values_with_keys_of_their_own_take_a_step_for_each_batch() {
    let batch_size = EcContext::new(&mut system_random()).batch_size();
    for settings in [Settings::default(), Settings { opening_keys_max: 2, ..Settings::default() }] {
        let TestEngine { engine, store: _store, .. } = test_engine_with(settings);
        let sealed: Vec<String> = (0..30).map(|i| encrypt(&engine, &[], &format!("[{i}]"))).collect();
        let sealed: Vec<String> = sealed.iter().map(|document| envelopes(document)[0].to_owned()).collect();
        let texts: Vec<&[u8]> = sealed.iter().map(String::as_bytes).collect();
        let mut decryptor = engine.decryptor(&Caller::Owner, &DecryptOptions::new("acme")).expect("begins");
        let before = engine.counters().opening_agreements;
        let mut steps = Vec::new();
        while steps.iter().sum::<usize>() < 30 {
            let done: usize = steps.iter().sum();
            steps.push(decryptor.decrypt(&texts[done..], |_, _| ()).expect("decrypts"));
        }
        let expected: Vec<usize> = texts.chunks(batch_size).map(<[_]>::len).collect();
        assert_eq!(steps, expected);
        assert_eq!(engine.counters().opening_agreements - before, 30);
    }
}
