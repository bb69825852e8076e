//! The scheme `symmetric`: envelopes that name their key, are bound to a context, and open by a look-up.

use leafseal_engine::{AcceptedSchemes, InspectOptions, Scheme, ValueCounts};

use super::*;

fn symmetric<'a>(context: Option<&'a str>) -> EncryptOptions<'a> {
    EncryptOptions { scheme: Some(Scheme::Symmetric), context, ..EncryptOptions::new("acme") }
}

fn within<'a>(context: Option<&'a str>) -> DecryptOptions<'a> {
    DecryptOptions { context, ..DecryptOptions::new("acme") }
}

fn open_within(engine: &Engine, context: Option<&str>, document: &str) -> Result<String, Error> {
    decrypt_as(engine, &Caller::Owner, &within(context), document)
}

fn code<T>(result: Result<T, Error>) -> Option<ErrorCode> {
    result.err().map(|error| error.code)
}

#[test]
fn documents_come_back_as_with_the_other_scheme_with_every_keying_role_and_size() {
    let long = format!("{{\"a\":\"{}\",\"b\":[1,true,\"\"]}}", "\u{e9}x".repeat(50_000));
    let settings = Settings { step_bytes_max: 4_096, step_values_max: 3, ..Settings::default() };
    for settings in [Settings::default(), settings] {
        let TestEngine { engine, store: _store, .. } = test_engine_with(settings);
        for keying in [Keying::Field, Keying::Request, Keying::Session] {
            for role in [None, Some("card")] {
                for context in [None, Some("row 17")] {
                    let options = EncryptOptions { keying: Some(keying), role, ..symmetric(context) };
                    for document in [PAYMENT, &long, "[]", "\"\"", "-0.0"] {
                        let sealed = encrypt_with(&engine, &options, &[], document).expect("encrypts");
                        let label = if role.is_some() { "ev:WEFN:" } else { "ev:WEFF:" };
                        assert!(envelopes(&sealed).iter().all(|text| text.starts_with(label)), "{sealed}");
                        let others =
                            encrypt_with(&engine, &EncryptOptions::new("acme"), &[], document).expect("encrypts");
                        let expected = open_within(&engine, None, &others);
                        assert_eq!(open_within(&engine, context, &sealed), expected);
                        assert!(expected.is_ok());
                    }
                }
            }
        }
    }
}

#[test]
fn parts_of_a_document_agree_with_the_whole() {
    let TestEngine { engine, store: _store, .. } = test_engine();
    let document = format!("[{}]", vec!["\"4242\",7"; 3_000].join(","));
    let options = symmetric(None);
    let work = engine.encrypt_document(&Caller::Owner, &options, None, document.len()).expect("begins");
    let (sealed, count) = in_parts(work, &document).expect("encrypts");
    assert_eq!((count, envelopes(&sealed).iter().collect::<HashSet<_>>().len()), (6_000, 6_000), "no nonce twice");
    let work = engine.decrypt_document(&Caller::Owner, &within(None), None, sealed.len()).expect("begins");
    assert_eq!(in_parts(work, &sealed).expect("decrypts"), (document, 6_000));
}

#[test]
fn a_value_opens_in_its_context_and_its_app_alone() {
    let TestEngine { engine, store: _store, .. } = test_engine();
    let sealed = encrypt_with(&engine, &symmetric(Some("17")), &[], "[\"4242\"]").expect("encrypts");
    for context in [None, Some("18"), Some("1"), Some("17 ")] {
        assert_eq!(code(open_within(&engine, context, &sealed)), Some(ErrorCode::DecryptFailed), "{context:?}");
    }
    let other = DecryptOptions { context: Some("17"), ..DecryptOptions::new("other") };
    assert_eq!(code(decrypt_as(&engine, &Caller::Owner, &other, &sealed)), Some(ErrorCode::DecryptFailed));
    // An envelope to a public key is bound to nothing: anyone could put it where a bound one belongs.
    let public = encrypt(&engine, &[], "[\"4242\"]");
    assert_eq!(code(open_within(&engine, Some("17"), &public)), Some(ErrorCode::DecryptFailed));
    let accept = Some(AcceptedSchemes::default());
    let asked = DecryptOptions { accept, ..within(Some("17")) };
    assert_eq!(decrypt_as(&engine, &Caller::Owner, &asked, &public).expect("asked for"), "[\"4242\"]");
}

#[test]
fn options_that_do_not_go_together_are_refused() {
    let TestEngine { engine, store: _store, .. } = test_engine();
    let refused = |options: EncryptOptions<'_>| code(encrypt_with(&engine, &options, &[], "[1]"));
    let invalid = Some(ErrorCode::InvalidParams);
    assert_eq!(refused(EncryptOptions { curve: Some(Curve::P256), ..symmetric(None) }), invalid);
    assert_eq!(refused(EncryptOptions { scheme: Some(Scheme::PublicKey), ..symmetric(Some("17")) }), invalid);
    assert_eq!(refused(symmetric(Some(""))), invalid);
    assert_eq!(refused(symmetric(Some(&"x".repeat(1_025)))), invalid);
    assert_eq!(refused(symmetric(Some(&"x".repeat(1_024)))), None);
    // By the setting, a curve is a wish for a public key.
    let settings = Settings { scheme: Scheme::Symmetric, ..Settings::default() };
    let TestEngine { engine, store: _store, .. } = test_engine_with(settings);
    assert!(encrypt(&engine, &[], "[1]").contains("ev:WEFF:"));
    let options = EncryptOptions { curve: Some(Curve::P256), ..EncryptOptions::new("acme") };
    assert!(encrypt_with(&engine, &options, &[], "[1]").expect("encrypts").contains("ev:Tk9D:"));
}

#[test]
fn accepted_schemes_decide_what_opens() {
    let TestEngine { engine, store: _store, .. } = test_engine();
    let public = encrypt(&engine, &[], "\"4242\"");
    let sealed = encrypt_with(&engine, &symmetric(None), &[], "\"4242\"").expect("encrypts");
    let resealed = {
        let options = RewrapOptions { scheme: Some(Scheme::Symmetric), ..RewrapOptions::new("acme") };
        let work = engine.rewrap_document(&Caller::Owner, &options, None, public.len()).expect("begins");
        rewritten(work, &public).expect("rewraps")
    };
    let opens = |accept: AcceptedSchemes, document: &str| {
        let options = DecryptOptions { accept: Some(accept), ..within(None) };
        let opened = decrypt_as(&engine, &Caller::Owner, &options, document);
        assert!(opened.is_ok() || code(opened.clone()) == Some(ErrorCode::DecryptFailed), "{opened:?}");
        opened.is_ok()
    };
    let none = AcceptedSchemes { public_key: false, symmetric: false, from_public_key: false };
    for (accept, expected) in [
        (AcceptedSchemes::default(), [true, true, true]),
        (AcceptedSchemes { symmetric: true, ..none }, [false, true, false]),
        (AcceptedSchemes { from_public_key: true, ..none }, [false, false, true]),
        (AcceptedSchemes { public_key: true, ..none }, [true, false, false]),
        (none, [false, false, false]),
    ] {
        assert_eq!([&public, &sealed, &resealed].map(|text| opens(accept, text)), expected, "{accept:?}");
    }
}

#[test]
fn values_are_counted_by_scheme() {
    let settings = Settings { step_bytes_max: 4_096, step_values_max: 3, ..Settings::default() };
    let long = format!("[\"{}\",1,true]", "x".repeat(50_000));
    for settings in [Settings::default(), settings] {
        let TestEngine { engine, store: _store, .. } = test_engine_with(settings);
        let (mut sealed, mut opened) = (ValueCounts::default(), ValueCounts::default());
        let check = |sealed: ValueCounts, opened: ValueCounts| {
            let counters = engine.counters();
            assert_eq!((counters.sealed, counters.opened), (sealed, opened));
        };
        for keying in [Keying::Field, Keying::Request] {
            for document in ["[\"a\",2,null,false]", &long] {
                let options = EncryptOptions { keying: Some(keying), ..EncryptOptions::new("acme") };
                let public = encrypt_with(&engine, &options, &[], document).expect("encrypts");
                let own = EncryptOptions { scheme: Some(Scheme::Symmetric), ..options };
                let own = encrypt_with(&engine, &own, &[], document).expect("encrypts");
                (sealed.public_key, sealed.symmetric) = (sealed.public_key + 3, sealed.symmetric + 3);
                check(sealed, opened);
                assert_eq!((decrypt(&engine, &public).is_ok(), decrypt(&engine, &own).is_ok()), (true, true));
                (opened.public_key, opened.symmetric) = (opened.public_key + 3, opened.symmetric + 3);
                check(sealed, opened);
                let to = RewrapOptions { scheme: Some(Scheme::Symmetric), ..RewrapOptions::new("acme") };
                let both = format!("[{public},{own}]");
                let work = engine.rewrap_document(&Caller::Owner, &to, None, both.len()).expect("begins");
                rewritten(work, &both).expect("rewraps");
                // Those with a symmetric key are of the newest version, and stay.
                (opened.public_key, opened.symmetric) = (opened.public_key + 3, opened.symmetric + 3);
                sealed.symmetric += 3;
                check(sealed, opened);
            }
        }
        for (file, public) in [(encrypt_file(&engine, Curve::P256, b"content"), true), (symmetric_file(&engine), false)]
        {
            decrypt_file(&engine, &Caller::Owner, "acme", &file, &mut Vec::new()).expect("opens");
            let of_scheme = |counts: &mut ValueCounts| match public {
                true => counts.public_key += 1,
                false => counts.symmetric += 1,
            };
            of_scheme(&mut opened);
        }
        (sealed.public_key, sealed.symmetric) = (sealed.public_key + 1, sealed.symmetric + 1);
        check(sealed, opened);
        let damaged = "\"ev:Tk9D:damaged:$\"";
        assert!(decrypt(&engine, damaged).is_err());
        check(sealed, opened);
    }
}

fn symmetric_file(engine: &Engine) -> Vec<u8> {
    let options = FileOptions { scheme: Some(Scheme::Symmetric), ..FileOptions::default() };
    let mut work = engine.encrypt_file(&Caller::Owner, "acme", &options).expect("begins");
    let mut file = Vec::new();
    while work.step(b"content", &mut file).expect("encrypts") == Progress::More {}
    file
}

#[test]
fn a_resealed_value_keeps_its_mark() {
    let TestEngine { engine, store: _store, .. } = test_engine();
    for role in [None, Some("card")] {
        for document in ["\"4242\"".to_owned(), format!("\"{}\"", "x".repeat(300_000))] {
            let options = EncryptOptions { role, ..EncryptOptions::new("acme") };
            let public = encrypt_with(&engine, &options, &[], &document).expect("encrypts");
            let to = |scheme: Option<Scheme>, document: &str| {
                let options = RewrapOptions { scheme, ..RewrapOptions::new("acme") };
                let work = engine.rewrap_document(&Caller::Owner, &options, None, document.len()).expect("begins");
                rewritten(work, document).expect("rewraps")
            };
            let resealed = to(Some(Scheme::Symmetric), &public);
            let of = |document: &str| {
                let text = &envelopes(document)[0];
                engine.inspect(&Caller::Owner, Some("acme"), text.as_bytes()).expect("opens")
            };
            assert_eq!((of(&resealed).is_from_public_key, of(&resealed).role.as_deref()), (true, role));
            assert_eq!((of(&public).is_from_public_key, of(&public).scheme), (false, Scheme::PublicKey));
            assert_eq!(to(Some(Scheme::Symmetric), &resealed), resealed, "it is of the newest version");
            assert_eq!(to(None, &resealed), resealed);
            engine.store().rotate(&app("acme")).expect("rotated");
            engine.maintain().expect("refreshed");
            let newer = to(None, &resealed);
            assert_ne!(newer, resealed);
            assert_eq!((of(&newer).is_from_public_key, of(&newer).scheme), (true, Scheme::Symmetric));
            assert_eq!(decrypt(&engine, &newer).expect("opens"), document);
            let back = to(Some(Scheme::PublicKey), &newer);
            assert_eq!(
                (of(&back).scheme, decrypt(&engine, &back).expect("opens")),
                (Scheme::PublicKey, document.clone())
            );
        }
    }
}

#[test]
fn a_version_of_another_engine_opens_at_once_and_costs_one_look_up() {
    let TestEngine { engine, store, .. } = test_engine();
    let other = Engine::new(Box::new(store.open()), Settings::default());
    // Both have the app in their caches.
    encrypt_with(&engine, &symmetric(None), &[], "[1]").expect("encrypts");
    encrypt_with(&other, &symmetric(None), &[], "[1]").expect("encrypts");
    engine.store().rotate(&app("acme")).expect("rotated");
    engine.maintain().expect("refreshed");
    let sealed = encrypt_with(&engine, &symmetric(None), &[], "[1,\"a\"]").expect("encrypts");
    assert_eq!(open_within(&other, None, &sealed).expect("it asks the store"), "[1,\"a\"]");
    // A disabled version opens nowhere, once an engine has noticed.
    engine.store().disable_version(&app("acme"), 2).expect("disabled");
    for engine in [&engine, &other] {
        engine.maintain().expect("refreshed");
        assert_eq!(code(open_within(engine, None, &sealed)), Some(ErrorCode::DecryptFailed));
    }
}

#[test]
fn ids_without_a_key_are_looked_up_once_and_bounded() {
    let settings = Settings { request_key_lookups_max: 5, ..Settings::default() };
    let TestEngine { engine, store: _store, .. } = test_engine_with(settings);
    let sealed = encrypt_with(&engine, &symmetric(None), &[], "\"4242\"").expect("encrypts");
    let text = &envelopes(&sealed)[0];
    let parts: Vec<&str> = text.split(':').collect();
    let foreign = |number: usize| {
        // Another first byte, too, so that it is the id of no key.
        let first = if parts[2].starts_with('A') { "B" } else { "A" };
        let id = format!("{first}{}{}", &parts[2][1..20], ["AA", "AQ", "Ag", "Aw", "BA", "BQ", "Bg"][number]);
        format!("\"{}\"", text.replace(parts[2], &id))
    };
    let list = |numbers: &[usize]| format!("[{}]", numbers.iter().map(|n| foreign(*n)).collect::<Vec<_>>().join(","));
    let leave = DecryptOptions { on_failure: OnFailure::Leave, ..within(None) };
    let five = list(&[0, 1, 2, 3, 4, 0, 1, 2, 3, 4]);
    assert_eq!(decrypt_as(&engine, &Caller::Owner, &leave, &five).expect("they stay"), five);
    let six = list(&[0, 1, 2, 3, 4, 5]);
    assert_eq!(code(decrypt_as(&engine, &Caller::Owner, &leave, &six)), Some(ErrorCode::TooLarge));
    // The workers of a request are bounded together.
    let mut one = engine.decryptor(&Caller::Owner, &leave).expect("permitted");
    let mut other = one.fork();
    let open = |worker: &mut leafseal_engine::Decryptor, numbers: &[usize]| {
        let texts: Vec<String> = numbers.iter().map(|number| foreign(*number).replace('"', "")).collect();
        let texts: Vec<&[u8]> = texts.iter().map(|text| text.as_bytes()).collect();
        worker.open_texts(&texts, |_, opened| assert!(opened.is_err()))
    };
    assert_eq!(open(&mut one, &[0, 1, 2]).expect("within the bound"), 3);
    assert_eq!(open(&mut other, &[0, 1, 2, 3, 4]).expect("two more"), 5);
    assert_eq!(code(open(&mut one, &[5])), Some(ErrorCode::TooLarge));
    assert_eq!(engine.counters().opening_trials, 0, "no key is tried");
}

#[test]
fn files_open_in_their_context_alone() {
    let TestEngine { engine, store: _store, .. } =
        test_engine_with(Settings { step_bytes_max: 1_024, ..Settings::default() });
    let content = b"content ".repeat(1_000);
    let options = FileOptions { scheme: Some(Scheme::Symmetric), context: Some("17"), ..FileOptions::default() };
    let mut work = engine.encrypt_file(&Caller::Owner, "acme", &options).expect("begins");
    let mut file = Vec::new();
    while work.step(&content, &mut file).expect("encrypts") == Progress::More {}
    let open = |app: &str, context: Option<&str>| {
        let mut work = engine.decrypt_file(&Caller::Owner, app)?.with(context, None)?;
        let mut out = Vec::new();
        while work.step(&file, &mut out)? == Progress::More {}
        Ok::<_, Error>(out)
    };
    assert_eq!(open("acme", Some("17")).expect("opens"), content);
    for (app, context) in [("acme", None), ("acme", Some("18")), ("other", Some("17"))] {
        assert_eq!(code(open(app, context)), Some(ErrorCode::DecryptFailed), "{app} {context:?}");
    }
}

#[test]
fn envelopes_that_are_skipped_are_those_that_open() {
    let TestEngine { engine, store: _store, .. } = test_engine();
    let sealed = encrypt_with(&engine, &symmetric(Some("17")), &[], "[\"4242\"]").expect("encrypts");
    let skip = |context| EncryptOptions { skip_sealed: true, ..symmetric(context) };
    assert_eq!(encrypt_with(&engine, &skip(Some("17")), &[], &sealed).expect("skips"), sealed);
    for context in [None, Some("18")] {
        let again = encrypt_with(&engine, &skip(context), &[], &sealed).expect("encrypts");
        assert_eq!(open_within(&engine, context, &again).expect("opens"), sealed, "{context:?}");
    }
}

/// Whatever the cause: it is the same for the wrong context, a damaged envelope, and one of a kind that is not accepted.
#[test]
fn inspection_names_the_version_of_what_does_not_open_and_nothing_else() {
    for settings in [Settings::default(), Settings { step_bytes_max: 64, ..Settings::default() }] {
        let TestEngine { engine, store: _store, .. } = test_engine_with(settings);
        let seal = |options: &EncryptOptions<'_>| {
            let sealed = encrypt_with(&engine, options, &[], PAYMENT).expect("encrypts");
            envelopes(&sealed).remove(0)
        };
        let options = EncryptOptions { role: Some("card"), ..symmetric(Some("row 17")) };
        let of_first = seal(&options);
        engine.store().rotate(&app("acme")).expect("rotated");
        engine.maintain().expect("refreshed");
        let of_second = seal(&options);
        let of_other = seal(&EncryptOptions { app: "other", ..options });
        let inspected = |context, accept, text: &str| {
            let options = InspectOptions { context, accept, leaves_unopened: true, ..InspectOptions::default() };
            let inspector = engine.inspector(&Caller::Owner, Some("acme")).and_then(|it| it.with(&options));
            let facts = inspector.expect("begins").inspect_whole(text.as_bytes()).expect("it is left");
            assert!(facts.is_unopened == facts.encrypted_at.is_none() && facts.is_unopened == facts.origin.is_none());
            (facts.is_unopened, facts.key_version, facts.role)
        };
        let damaged = |text: &str| {
            let at = text.len() - 4;
            format!("{}{}{}", &text[..at], if text.as_bytes()[at] == b'A' { "B" } else { "A" }, &text[at + 1..])
        };
        let public = AcceptedSchemes { public_key: true, symmetric: false, from_public_key: false };
        for (version, text) in [(Some(1), &of_first), (Some(2), &of_second), (None, &of_other)] {
            let unopened = (true, version, None);
            let whole = inspected(Some("row 17"), None, text);
            assert_eq!(whole, version.map_or(unopened.clone(), |_| (false, version, Some("card".to_owned()))));
            for context in [None, Some("row 18")] {
                assert_eq!(inspected(context, None, text), unopened);
            }
            assert_eq!(inspected(Some("row 17"), None, &damaged(text)), unopened);
            assert_eq!(inspected(Some("row 17"), Some(public), text), unopened);
        }
    }
}

/// Every template of the vectors, filled with parts of envelopes that were just made, is refused with its code.
#[test]
fn the_vectors_are_refused() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../vectors/symmetric/refused.json");
    let vectors: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(path).expect("the vectors")).expect("JSON");
    let text = |name: &str| vectors[name].as_str().expect(name);
    let TestEngine { engine, store: _store, .. } = test_engine();
    let document = format!("[\"{}\",\"{}\"]", text("value"), text("other"));
    let sealed = encrypt_with(&engine, &symmetric(Some(text("context"))), &[], &document).expect("encrypts");
    assert_eq!(open_within(&engine, Some(text("context")), &sealed).expect("opens"), document);
    let found = envelopes(&sealed);
    let [one, other] = [0, 1].map(|at| found[at].split(':').map(str::to_owned).collect::<Vec<String>>());
    let refused = vectors["refused"].as_array().expect("a list");
    for vector in refused {
        let mut template = vector["template"].as_str().expect("text").to_owned();
        for (name, part) in [
            ("{id}", &one[2]),
            ("{nonce}", &one[3]),
            ("{ciphertext}", &one[4]),
            ("{other_nonce}", &other[3]),
            ("{other_ciphertext}", &other[4]),
        ] {
            template = template.replace(name, part);
        }
        let context = vector.get("context").map_or(Some(text("context")), serde_json::Value::as_str);
        let document = serde_json::to_string(&template).expect("JSON");
        let found = code(open_within(&engine, context, &document)).map(ErrorCode::as_str);
        assert_eq!(found, vector["code"].as_str(), "{vector}");
    }
    assert!(refused.len() > 30);
}

/// Reports count values by their scheme, long ones too, and whether one worker makes them or several.
#[test]
fn reports_count_symmetric_values() {
    let TestEngine { engine, store: _store, .. } =
        test_engine_with(Settings { step_bytes_max: 4_096, step_values_max: 3, ..Settings::default() });
    let long = "x".repeat(20_000);
    let document = format!("[{},\"{long}\"]", ["\"4242\"", "7", "true", "\"\""].repeat(5).join(","));
    let count = 21;
    let seal = |options: &EncryptOptions<'_>| {
        let mut work = engine.encrypt_document(&Caller::Owner, options, None, document.len()).expect("begins");
        let mut out = Vec::new();
        while work.step(document.as_bytes(), &mut out).expect("encrypts") == Progress::More {}
        (String::from_utf8(out).expect("text"), work.report().symmetric)
    };
    let ((sealed, of_symmetric), (public, of_public)) = (seal(&symmetric(None)), seal(&EncryptOptions::new("acme")));
    assert_eq!((of_symmetric, of_public), (count, 0));
    let mixed = format!("{},{}", sealed.trim_end_matches(']'), public.trim_start_matches('['));
    let mut work = engine.decrypt_document(&Caller::Owner, &within(None), None, mixed.len()).expect("begins");
    let mut out = Vec::new();
    while work.step(mixed.as_bytes(), &mut out).expect("decrypts") == Progress::More {}
    assert_eq!(work.report().symmetric, count);
    let options = RewrapOptions { scheme: Some(Scheme::Symmetric), ..RewrapOptions::new("acme") };
    let mut work = engine.rewrap_document(&Caller::Owner, &options, None, mixed.len()).expect("begins");
    let mut out = Vec::new();
    while work.step(mixed.as_bytes(), &mut out).expect("rewraps") == Progress::More {}
    assert_eq!(work.report().symmetric, count, "those that were resealed");
}
