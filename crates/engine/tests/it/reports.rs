//! The reports of requests: selector matches, values already encrypted, envelopes that failed to decrypt. The report is the same for one
//! worker, in small steps, and in parts processed in any order.

use std::collections::BTreeSet;

use crate::common::{TestEngine, app, grant, test_engine, test_engine_with};
use leafseal_engine::admin::{Operation, RoleName, Roles};
use leafseal_engine::{
    Caller, Curve, DecryptOptions, DocumentWork, EncryptOptions, Engine, Error, ErrorCode, Keying, OnFailure,
    PlannedPart, Progress, RequestReport, Rewriter, Selection, Settings,
};

/// Output, count and report of a document processed by one worker.
fn alone<R: Rewriter>(mut work: DocumentWork<R>, document: &str) -> Result<(String, u64, RequestReport), Error> {
    let mut out = Vec::new();
    while work.step(document.as_bytes(), &mut out)? == Progress::More {}
    Ok((String::from_utf8(out).expect("UTF-8"), work.count(), work.report()))
}

/// The same with parts that are processed in reverse order.
fn in_parts<R: Rewriter>(mut work: DocumentWork<R>, document: &str) -> Result<(String, u64, RequestReport), Error> {
    let (mut parts, mut outputs, mut count) = (Vec::new(), Vec::new(), 0);
    loop {
        match work.next_part(document.as_bytes())? {
            PlannedPart::Part(part) => parts.push(part),
            PlannedPart::Walked => {}
            PlannedPart::All => break,
        }
    }
    for mut part in parts.into_iter().rev() {
        let mut out = Vec::new();
        while part.step(document.as_bytes(), &mut out)? == Progress::More {}
        count += part.count();
        outputs.push(out);
    }
    let output: Vec<u8> = outputs.into_iter().rev().flatten().collect();
    Ok((String::from_utf8(output).expect("UTF-8"), count, work.report()))
}

/// Steps of few values and bytes, so that larger input is long or split into several parts.
fn small_steps() -> Settings {
    Settings { step_values_max: 2, step_bytes_max: 160, failure_paths_max: 3, ..Settings::default() }
}

fn selection(engine: &Engine, select: &[&str]) -> Option<Selection> {
    (!select.is_empty()).then(|| engine.selection(select).expect("valid"))
}

fn encrypted(
    engine: &Engine,
    caller: &Caller,
    options: &EncryptOptions<'_>,
    document: &str,
) -> Result<(String, u64, RequestReport), Error> {
    let begin = || engine.encrypt_document(caller, options, None, document.len());
    let whole = alone(begin()?, document)?;
    let parts = in_parts(begin()?, document)?;
    assert_eq!((whole.1, &whole.2), (parts.1, &parts.2), "one worker reports what several do");
    Ok(whole)
}

fn opened(
    engine: &Engine,
    caller: &Caller,
    options: &DecryptOptions<'_>,
    select: &[&str],
    document: &str,
) -> Result<(String, u64, RequestReport), Error> {
    let selection = selection(engine, select);
    let begin = || engine.decrypt_document(caller, options, selection.as_ref(), document.len());
    let whole = alone(begin()?, document)?;
    assert_eq!(whole, in_parts(begin()?, document)?, "one worker reports what several do");
    Ok(whole)
}

fn sealed(engine: &Engine, options: &EncryptOptions<'_>, text: &str) -> String {
    let document = format!("\"{text}\"");
    let (sealed, ..) =
        alone(engine.encrypt_document(&Caller::Owner, options, None, document.len()).expect("begins"), &document)
            .expect("encrypts");
    sealed.trim_matches('"').to_owned()
}

fn only(role: &str) -> Roles {
    Roles::Only(BTreeSet::from([RoleName::parse(role).expect("a role")]))
}

/// Changes a character of the ciphertext.
fn damaged(envelope: &str) -> String {
    let at = envelope.len() - 4;
    let other = if &envelope[at..=at] == "A" { "B" } else { "A" };
    format!("{}{other}{}", &envelope[..at], &envelope[at + 1..])
}

#[test]
fn every_selector_reports_its_matches_and_strict_mode_fails_for_one_without() {
    let document = r#"{"card":{"number":"4242","cvc":null},"list":[1,2,{"card":{"number":"5"}}],"empty":{}}"#;
    let cases: [(&[&str], &[u64]); 5] = [
        (&["$.card.number", "$.card.cvccc"], &[1, 0]),
        (&["$.card", "$.card.number", "$..number", "$.list[-1:]"], &[2, 1, 2, 1]),
        (&["$.empty", "$.card.cvc"], &[0, 1]),
        (&["$.list[?@.card].card.number", "$.card", "$[?@.no]"], &[1, 2, 0]),
        (&[], &[]),
    ];
    for settings in [Settings::default(), small_steps()] {
        let TestEngine { engine, store: _store, .. } = test_engine_with(settings);
        for (select, expected) in cases {
            let selection = selection(&engine, select);
            let begin = |is_strict| {
                let options = EncryptOptions::new("acme");
                let work = engine.encrypt_document(&Caller::Owner, &options, selection.as_ref(), document.len());
                work.expect("begins").strict(is_strict)
            };
            assert_eq!(alone(begin(false), document).expect("encrypts").2.matched, expected, "{select:?}");
            assert_eq!(in_parts(begin(false), document).expect("encrypts").2.matched, expected, "{select:?}");
            let unmatched = expected.iter().position(|&matched| matched == 0).map(|index| index as u64);
            for strict in [alone(begin(true), document), in_parts(begin(true), document)] {
                match (strict, unmatched) {
                    (Ok((_, _, report)), None) => assert_eq!(report.matched, expected),
                    (Err(error), Some(index)) => {
                        let place = (error.code, error.index, error.offset);
                        assert_eq!(place, (ErrorCode::UnmatchedSelector, Some(index), None));
                    }
                    (strict, _) => panic!("{select:?}: {strict:?}"),
                }
            }
        }
        let broken = &document[..document.len() - 1];
        let options = EncryptOptions::new("acme");
        let none = engine.selection(&["$.none"]).expect("valid");
        let work = engine.encrypt_document(&Caller::Owner, &options, Some(&none), broken.len()).expect("begins");
        let error = alone(work.strict(true), broken).expect_err("not JSON");
        assert_eq!(error.code, ErrorCode::InvalidDocument, "a document's own fault comes first");
    }
}

#[test]
fn encrypted_values_are_encrypted_again_and_counted() {
    for settings in [Settings::default(), small_steps()] {
        let TestEngine { engine, store: _store, .. } = test_engine_with(settings);
        let options = EncryptOptions::new("acme");
        let (once, long) = (sealed(&engine, &options, "4242"), sealed(&engine, &options, &"x".repeat(900)));
        let other = sealed(&engine, &EncryptOptions::new("other"), "5");
        let document = format!(
            r#"["{once}", "plain", "{other}", "ev:Tk9D:not one", {{"a":"{long}", "b": 1}}, "{}"]"#,
            damaged(&once)
        );
        let (twice, count, report) = encrypted(&engine, &Caller::Owner, &options, &document).expect("encrypts");
        assert_eq!((count, report.resealed, report.skipped), (7, 4, 0), "by their form, of any app");
        let back = opened(&engine, &Caller::Owner, &DecryptOptions::new("acme"), &[], &twice).expect("opens");
        assert_eq!(back.0, document, "one layer comes off");
    }
}

#[test]
fn skipping_leaves_exactly_the_envelopes_that_decrypt_for_this_app_and_role() {
    for settings in [Settings::default(), small_steps()] {
        let TestEngine { engine, store: _store, .. } = test_engine_with(settings);
        let plain = EncryptOptions::new("acme");
        let pci = EncryptOptions { role: Some("pci"), ..plain };
        let old = sealed(&engine, &EncryptOptions { curve: Some(Curve::Secp256k1), ..plain }, "old");
        engine.store().rotate(&app("acme")).expect("rotated");
        engine.maintain().expect("refreshed");
        let (own, long) = (sealed(&engine, &plain, "own"), sealed(&engine, &plain, &"y".repeat(900)));
        let role = sealed(&engine, &pci, "role");
        let other = sealed(&engine, &EncryptOptions::new("other"), "other");
        let texts = [&own, "plain", &old, &other, &damaged(&own), "ev:Tk9D:x", &role, &long, &damaged(&long), &own];
        let document = serde_json::to_string(&texts).expect("JSON");
        for keying in [Keying::Request, Keying::Field] {
            let options = EncryptOptions { skip_sealed: true, keying: Some(keying), ..plain };
            let (out, count, report) = encrypted(&engine, &Caller::Owner, &options, &document).expect("encrypts");
            let out: Vec<String> = serde_json::from_str(&out).expect("JSON");
            let left: Vec<usize> = (0..texts.len()).filter(|&index| out[index] == texts[index]).collect();
            assert_eq!(left, [0, 2, 6, 7, 9]);
            assert_eq!((count, report.skipped, report.resealed), (5, 5, 3));
        }
        // With a role, only envelopes that carry it are protected as requested.
        let options = EncryptOptions { skip_sealed: true, ..pci };
        let (out, ..) = encrypted(&engine, &Caller::Owner, &options, &document).expect("encrypts");
        let out: Vec<String> = serde_json::from_str(&out).expect("JSON");
        assert_eq!((0..texts.len()).filter(|&index| out[index] == texts[index]).collect::<Vec<_>>(), [6]);

        // A caller without permission to decrypt does not learn which envelopes decrypt; values of a role that it may not read are
        // encrypted again.
        let writer = grant(&engine, "writer", &[Operation::Encrypt], Roles::Any);
        let refused = encrypted(&engine, &writer, &EncryptOptions { skip_sealed: true, ..plain }, &document);
        assert_eq!(refused.map_err(|error| error.code).expect_err("forbidden"), ErrorCode::Forbidden);
        let both = grant(&engine, "both", &[Operation::Encrypt, Operation::Decrypt], only("health"));
        let options = EncryptOptions { skip_sealed: true, ..plain };
        let (_, _, report) = encrypted(&engine, &both, &options, &document).expect("encrypts");
        assert_eq!((report.skipped, report.resealed), (4, 4));
    }
}

/// Strings that fail to decrypt, each for a different reason, which must not be visible.
fn spoilt(engine: &Engine) -> Vec<String> {
    let plain = EncryptOptions::new("acme");
    let own = sealed(engine, &plain, "own");
    let long = sealed(engine, &plain, &"z".repeat(900));
    vec![
        "\"ev:Tk9D:planted:$\"".to_owned(),
        format!("\"{}\"", sealed(engine, &EncryptOptions::new("other"), "another app's")),
        format!("\"{}\"", damaged(&own)),
        format!("\"{}\"", sealed(engine, &EncryptOptions { role: Some("pci"), ..plain }, "a role that is not granted")),
        "\"ev:\\ud800 no text\"".to_owned(),
        format!("\"{}\"", damaged(&long)),
        format!("\"ev:Tk9D:{}:$\"", "q".repeat(900)),
        format!("\"ev:{}\\ud800\"", "q".repeat(900)),
        format!("\"{}\"", sealed(engine, &EncryptOptions { role: Some("pci"), ..plain }, &"w".repeat(900))),
        format!("\"{}\"", sealed(engine, &EncryptOptions::new("other"), &"v".repeat(900))),
    ]
}

#[test]
fn one_string_that_does_not_open_stays_or_becomes_null_and_is_reported() {
    for settings in [Settings { failure_paths_max: 3, ..Settings::default() }, small_steps()] {
        let TestEngine { engine, store: _store, .. } = test_engine_with(settings);
        let reader = grant(&engine, "reader", &[Operation::Decrypt], only("health"));
        let good = sealed(&engine, &EncryptOptions::new("acme"), "good \\\"text\\\"");
        let spoilt = spoilt(&engine);
        for planted in &spoilt {
            let document = format!(r#"{{"a": ["{good}", {planted}, "x"], "b\"'": {{"c": {planted}}}, "d": "{good}"}}"#);
            let open = |on_failure, select: &[&str]| {
                let options = DecryptOptions { on_failure, ..DecryptOptions::new("acme") };
                opened(&engine, &reader, &options, select, &document)
            };
            assert!(open(OnFailure::Fail, &[]).is_err(), "the default fails: {planted}");
            let expected = |spot: &str| {
                format!(r#"{{"a": ["good \"text\"", {spot}, "x"], "b\"'": {{"c": {spot}}}, "d": "good \"text\""}}"#)
            };
            for select in [&[][..], &["$..*"], &["$.a[?@ != 1]", "$['b\"\\'']", "$.d"]] {
                for (on_failure, spot) in [(OnFailure::Leave, planted.as_str()), (OnFailure::Null, "null")] {
                    let (out, count, report) = open(on_failure, select).expect("continues");
                    assert_eq!((out, count), (expected(spot), 2), "{select:?}");
                    assert_eq!(report.failed, 2);
                    let failures: Vec<(&str, bool)> = report
                        .failures
                        .iter()
                        .map(|failure| {
                            (failure.path.as_str(), document[failure.position as usize..].starts_with(planted))
                        })
                        .collect();
                    assert_eq!(failures, [("$['a'][1]", true), ("$['b\"\\'']['c']", true)]);
                }
            }
        }
        // The reasons are not visible: in the same positions, each yields the same report.
        let all = format!("[{}]", spoilt.join(","));
        let options = DecryptOptions { on_failure: OnFailure::Null, ..DecryptOptions::new("acme") };
        let (out, count, report) = opened(&engine, &reader, &options, &[], &all).expect("continues");
        assert_eq!((out, count, report.failed), (format!("[{}]", vec!["null"; spoilt.len()].join(",")), 0, 10));
        let paths: Vec<&str> = report.failures.iter().map(|failure| failure.path.as_str()).collect();
        assert_eq!(paths, ["$[0]", "$[1]", "$[2]"], "the first ones, and the others are counted");
        // Faults of the document itself and missing permissions do not concern single values.
        let broken = &all[..all.len() - 1];
        let error = opened(&engine, &reader, &options, &[], broken).expect_err("not JSON");
        assert_eq!(error.code, ErrorCode::InvalidDocument);
        let writer = grant(&engine, "writer", &[Operation::Encrypt], Roles::Any);
        let error = opened(&engine, &writer, &options, &[], &all).expect_err("may not decrypt");
        assert_eq!(error.code, ErrorCode::Forbidden);
    }
}

/// Older versions are tried for each value, one per step, and values after one that fails to decrypt are decrypted.
#[test]
fn lists_continue_after_a_text_that_does_not_decrypt() {
    let TestEngine { engine, store: _store, .. } = test_engine();
    let (own, k1) =
        (EncryptOptions::new("acme"), EncryptOptions { curve: Some(Curve::Secp256k1), ..EncryptOptions::new("acme") });
    let old = [sealed(&engine, &own, "old"), sealed(&engine, &k1, "k1")];
    for _ in 0..2 {
        engine.store().rotate(&app("acme")).expect("rotated");
    }
    engine.maintain().expect("refreshed");
    let (bad, stranger) = (damaged(&old[0]), sealed(&engine, &EncryptOptions::new("other"), "x"));
    let texts = [bad.as_str(), &old[0], &stranger, "plain", &old[1], &bad, &stranger, "ev:Tk9D:x:$", &old[0]];
    let texts: Vec<&[u8]> = texts.iter().map(|text| text.as_bytes()).collect();
    let mut decryptor = engine.decryptor(&Caller::Owner, &DecryptOptions::new("acme")).expect("begins");
    let (mut done, mut seen) = (0, Vec::new());
    while done < texts.len() {
        done += decryptor
            .open_texts(&texts[done..], |index, outcome| {
                seen.push((done + index, outcome.map(|opened| opened.map(|opened| opened.text.to_owned()))));
            })
            .expect("continues");
    }
    let places: Vec<usize> = seen.iter().map(|(place, _)| *place).collect();
    assert_eq!(places, (0..texts.len()).collect::<Vec<_>>(), "each once and in order");
    let seen: Vec<Option<Option<&str>>> =
        seen.iter().map(|(_, outcome)| outcome.as_ref().ok().map(Option::as_deref)).collect();
    let open = |text| Some(Some(text));
    assert_eq!(seen, [None, open("old"), None, Some(None), open("k1"), None, None, None, open("old")]);
}

#[test]
fn lines_are_rewritten_as_documents_of_their_own() {
    for settings in [Settings::default(), small_steps()] {
        let TestEngine { engine, store: _store, .. } = test_engine_with(settings);
        let select = ["$.card", "$.no"];
        let selection = engine.selection(&select).expect("valid");
        let text =
            "{\"card\":\"4242\",\"n\":1}\r\n\n{\"n\":2}\n[7]\n{\"card\" : \"a long value, longer than a step\"}\n";
        let encrypt = |is_strict| {
            let options = EncryptOptions::new("acme");
            let work = engine.encrypt_document(&Caller::Owner, &options, Some(&selection), text.len());
            work.expect("begins").strict(is_strict).lines()
        };
        let (sealed, count, report) = alone(encrypt(false), text).expect("encrypts");
        assert_eq!((count, report.matched), (2, vec![2, 0]));
        assert_eq!(in_parts(encrypt(false), text).expect("encrypts").1, 2);
        for strict in [alone(encrypt(true), text), in_parts(encrypt(true), text)] {
            let error = strict.expect_err("no line has it");
            assert_eq!(
                (error.code, error.index, error.offset, &*error.message),
                (ErrorCode::UnmatchedSelector, Some(1), Some(0), "line 1: selector 1 matched no value")
            );
        }
        // A line of another shape beside one that matches.
        let cards = engine.selection(&["$.card"]).expect("valid");
        for (text, line) in [
            ("{\"card\":1}\n\n{\"cards\":[{\"card\":2}]}\n", Some("line 3: ")),
            ("\n{\"card\":1}\n[{\"card\":2}]", Some("line 3: ")),
            ("{\"card\":1}\n\n{\"card\":2}\n", None),
            ("\n\n", None),
        ] {
            let work = || {
                let options = EncryptOptions::new("acme");
                let work = engine.encrypt_document(&Caller::Owner, &options, Some(&cards), text.len());
                work.expect("begins").strict(true).lines()
            };
            for result in [alone(work(), text), in_parts(work(), text)] {
                match (result, line) {
                    (Ok(_), None) => {}
                    (Err(error), Some(line)) => assert!(error.message.starts_with(line), "{error:?}"),
                    (result, _) => panic!("{text:?}: {result:?}"),
                }
            }
        }
        let decrypt = |text: &str, on_failure| {
            let options = DecryptOptions { on_failure, ..DecryptOptions::new("acme") };
            engine.decrypt_document(&Caller::Owner, &options, None, text.len()).expect("begins").lines()
        };
        assert_eq!(alone(decrypt(&sealed, OnFailure::Fail), &sealed).expect("decrypts").0, text);
        // The last envelope, on line 5.
        let at = sealed.rfind("ev:").expect("an envelope");
        let envelope = &sealed[at..at + sealed[at..].find('"').expect("its end")];
        let damaged = sealed.replace(envelope, &damaged(envelope));
        for result in [
            alone(decrypt(&damaged, OnFailure::Fail), &damaged),
            in_parts(decrypt(&damaged, OnFailure::Fail), &damaged),
        ] {
            let error = result.expect_err("it is damaged");
            assert!(error.message.starts_with("line 5: ") && error.offset == Some(at as u64 - 1), "{error:?}");
        }
        for (_, count, report) in [
            alone(decrypt(&damaged, OnFailure::Leave), &damaged).expect("decrypts"),
            in_parts(decrypt(&damaged, OnFailure::Leave), &damaged).expect("decrypts"),
        ] {
            assert_eq!((count, report.failed, &*report.failures[0].path), (1, 1, "line 5: $['card']"));
        }
        let broken = "{}\n{\"card\":";
        let options = EncryptOptions::new("acme");
        let work = engine.encrypt_document(&Caller::Owner, &options, None, broken.len()).expect("begins").lines();
        let error = alone(work, broken).expect_err("no JSON");
        assert!(error.message.starts_with("line 2: "), "{error:?}");
    }
}
