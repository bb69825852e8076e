//! Resealing: what becomes of each text that arrives to be encrypted. The oracle is the rewrap of the same envelope.

use leafseal_crypto::{PrivateKey, Secret};
use leafseal_engine::admin::{Keystore as _, NewKeys};
use leafseal_engine::{AcceptedSchemes, EnvelopeMetadata, Marking, RequestReport, Scheme};
use leafseal_envelope::{Metadata, Profile, Role, SealScratch, SealingKey};
use serde_json::Value;

use super::*;

const NONE: AcceptedSchemes = AcceptedSchemes { public_key: false, symmetric: false, from_public_key: false };

fn reseal<'a>(context: Option<&'a str>) -> EncryptOptions<'a> {
    EncryptOptions { reseal: true, role: Some("card"), context, ..EncryptOptions::new("acme") }
}

/// An envelope to the public key of an app, as a browser makes it.
fn public_key(engine: &Engine, app: &str, (role, debug): (Option<&str>, bool), value: SealedInput<'_>) -> String {
    let keys = engine.public_keys(&Caller::Owner, app).expect("keys");
    let metadata = role.map(|role| Metadata::new(Some(&Role::parse(role).expect("a role")), 5, 1_600_000_000));
    let (ec, mut rng) = (EcContext::new(&mut system_random()), system_random());
    let profile = if role.is_some() { Profile::with_metadata(Curve::P256) } else { Profile::plain(Curve::P256) };
    let profile = if debug { profile.debug() } else { profile };
    let key = SealingKey::generate(&ec, &Recipient::with_table(keys.r1), profile, 1, &mut rng);
    let (mut scratch, mut out) = (SealScratch::default(), Vec::new());
    key.seal_many(metadata.as_ref(), &mut rng, &[value], &mut scratch, &mut out, |_, _, _| ()).expect("one value");
    String::from_utf8(out).expect("ASCII")
}

fn text(text: &str) -> SealedInput<'_> {
    SealedInput { value_type: ValueType::String, text: text.as_bytes() }
}

fn list(texts: &[String]) -> String {
    serde_json::to_string(texts).expect("JSON")
}

/// The texts of the result, its count and its report, which are the same from one worker and from several.
fn resealed(
    engine: &Engine,
    caller: &Caller,
    options: &EncryptOptions<'_>,
    texts: &[String],
) -> Result<(Vec<String>, u64, RequestReport), Error> {
    let document = list(texts);
    let begin = || engine.encrypt_document(caller, options, None, document.len());
    let mut work = begin()?;
    let mut out = Vec::new();
    while work.step(document.as_bytes(), &mut out)? == Progress::More {}
    let mut parted = begin()?;
    let (mut ends, mut count) = (Vec::new(), 0);
    loop {
        match parted.next_part(document.as_bytes())? {
            PlannedPart::Part(part) => ends.push(part),
            PlannedPart::Walked => {}
            PlannedPart::All => break,
        }
    }
    for mut part in ends.into_iter().rev() {
        while part.step(document.as_bytes(), &mut Vec::new())? == Progress::More {}
        count += part.count();
    }
    assert_eq!((work.count(), work.report()), (count, parted.report()));
    Ok((serde_json::from_slice(&out).expect("JSON"), work.count(), work.report()))
}

fn opened(engine: &Engine, options: &DecryptOptions<'_>, envelope: &str) -> Result<String, Error> {
    decrypt_as(engine, &Caller::Owner, options, &format!("\"{envelope}\""))
}

fn inspected(engine: &Engine, envelope: &str) -> EnvelopeMetadata {
    engine.inspect(&Caller::Owner, Some("acme"), envelope.as_bytes()).expect("opens")
}

fn rewrapped(engine: &Engine, context: Option<&str>, envelope: &str) -> String {
    let document = format!("\"{envelope}\"");
    let (scheme, accept) = (Some(Scheme::Symmetric), Some(AcceptedSchemes::ALL));
    let options = RewrapOptions { scheme, context, accept, ..RewrapOptions::new("acme") };
    let work = engine.rewrap_document(&Caller::Owner, &options, None, document.len()).expect("begins");
    rewritten(work, &document).expect("rewraps").trim_matches('"').to_owned()
}

fn code<T>(result: Result<T, Error>) -> Option<ErrorCode> {
    result.err().map(|error| error.code)
}

fn small_steps() -> Settings {
    Settings { step_values_max: 3, step_bytes_max: 200, ..Settings::default() }
}

#[test]
fn an_envelope_to_a_public_key_becomes_what_rewrapping_makes_of_it() {
    for settings in [Settings::default(), small_steps()] {
        let TestEngine { engine, clock, store: _store } = test_engine_with(settings);
        clock.advance(77);
        let long = "\u{e9}\"x".repeat(400);
        let number = SealedInput { value_type: ValueType::Number, text: b"-1.50e3" };
        let boolean = SealedInput { value_type: ValueType::Boolean, text: b"true" };
        let mut texts = Vec::new();
        for debug in [false, true] {
            for value in [text("4242"), text(""), text(&long), number, boolean] {
                texts.push(public_key(&engine, "acme", (Some("card"), debug), value));
            }
        }
        let other_curve =
            EncryptOptions { curve: Some(Curve::Secp256k1), role: Some("card"), ..EncryptOptions::new("acme") };
        texts.extend(envelopes(&encrypt_with(&engine, &other_curve, &[], "[\"k1\",7]").expect("encrypts")));
        // What it is worth does not depend on the key version that it was made for.
        engine.store().rotate(&app("acme")).expect("rotated");
        engine.maintain().expect("refreshed");
        texts.push(public_key(&engine, "acme", (Some("card"), false), text("new")));
        for keying in [Keying::Request, Keying::Field, Keying::Session] {
            let options = EncryptOptions { keying: Some(keying), ..reseal(None) };
            let (out, count, report) = resealed(&engine, &Caller::Owner, &options, &texts).expect("reseals");
            let all = texts.len() as u64;
            assert_eq!((count, report.rewrapped, report.symmetric), (all, all, all));
            assert_eq!((report.resealed, report.skipped), (0, 0));
            for (before, after) in texts.iter().zip(&out) {
                assert!(after.starts_with("ev:WEFN:") || after.starts_with("ev:debug:WEFN:"), "{after}");
                let oracle = rewrapped(&engine, None, before);
                assert_eq!(inspected(&engine, after), inspected(&engine, &oracle));
                assert_eq!(after.len(), oracle.len());
                assert_eq!(inspected(&engine, after).marking == Marking::Debug, before.contains("debug"));
                let open = |envelope: &str| opened(&engine, &DecryptOptions::new("acme"), envelope).expect("opens");
                assert_eq!((open(after), open(after)), (open(before), open(&oracle)));
            }
            assert_eq!(out.iter().collect::<HashSet<_>>().len(), out.len(), "no nonce twice");
            // Sent again, they stay.
            let (again, count, report) = resealed(&engine, &Caller::Owner, &options, &out).expect("leaves");
            assert_eq!((again, count, report.skipped, report.rewrapped), (out, 0, all, 0));
        }
    }
}

#[test]
fn everything_else_is_encrypted_or_left_as_by_skip_sealed() {
    for settings in [Settings::default(), small_steps()] {
        let TestEngine { engine, store: _store, .. } = test_engine_with(settings);
        let symmetric = |app, role| {
            let options = EncryptOptions { scheme: Some(Scheme::Symmetric), role, ..EncryptOptions::new(app) };
            envelopes(&encrypt_with(&engine, &options, &[], "\"4242\"").expect("encrypts")).remove(0)
        };
        let long = "4242".repeat(200);
        let public = |app: &str, role: Option<&str>| public_key(&engine, app, (role, false), text("4242"));
        let long_public = |app: &str, role| public_key(&engine, app, (role, false), text(&long));
        let damaged = |envelope: String| {
            let at = envelope.len() - 20;
            let other = if &envelope[at..=at] == "A" { "B" } else { "A" };
            format!("{}{other}{}", &envelope[..at], &envelope[at + 1..])
        };
        let resealed_by_rewrap = rewrapped(&engine, None, &public("acme", Some("card")));
        let left = [symmetric("acme", Some("card")), resealed_by_rewrap];
        let sealed_again = [
            public("acme", None),
            public("acme", Some("pii")),
            long_public("acme", Some("pii")),
            public("other", Some("card")),
            long_public("other", Some("card")),
            damaged(public("acme", Some("card"))),
            damaged(long_public("acme", Some("card"))),
            symmetric("acme", None),
            symmetric("acme", Some("pii")),
            symmetric("other", Some("card")),
            damaged(symmetric("acme", Some("card"))),
        ];
        let plain = ["4242", "ev:Tk9D:x:$", &long].map(str::to_owned);
        let good = [public("acme", Some("card")), long_public("acme", Some("card"))];
        let texts: Vec<String> = [&good[..], &left, &plain, &sealed_again, &good[..1]].concat();
        let (out, count, report) = resealed(&engine, &Caller::Owner, &reseal(None), &texts).expect("reseals");
        assert_eq!((report.rewrapped, report.skipped), (3, left.len() as u64));
        assert_eq!(report.resealed, sealed_again.len() as u64);
        assert_eq!((count, report.symmetric), ((texts.len() - left.len()) as u64, count));
        let role = DecryptOptions { role: Some("card"), ..DecryptOptions::new("acme") };
        let engines_alone = DecryptOptions { accept: Some(AcceptedSchemes { symmetric: true, ..NONE }), ..role };
        for (index, (before, after)) in texts.iter().zip(&out).enumerate() {
            assert!(after.starts_with("ev:WEFN:"), "{after}");
            let is_good = good.contains(before);
            assert_eq!(before == after, left.contains(before), "{index}");
            if !is_good && !left.contains(before) {
                // An engine sealed it, as text: what was sent comes back and not what is in it.
                assert_eq!(opened(&engine, &engines_alone, after).expect("opens"), format!("\"{before}\""), "{index}");
            }
            if is_good {
                let value = opened(&engine, &role, after).expect("opens");
                assert_eq!(Ok(&value), opened(&engine, &role, before).as_ref());
                assert_eq!(code(opened(&engine, &engines_alone, after)), Some(ErrorCode::DecryptFailed));
            }
        }
    }
}

#[test]
fn the_mark_says_what_opens() {
    let TestEngine { engine, store: _store, .. } = test_engine();
    let texts = [public_key(&engine, "acme", (Some("card"), false), text("4242"))];
    let (out, ..) = resealed(&engine, &Caller::Owner, &reseal(None), &texts).expect("reseals");
    for (accept, opens) in [
        (AcceptedSchemes { symmetric: true, ..NONE }, false),
        (AcceptedSchemes { public_key: true, ..NONE }, false),
        (AcceptedSchemes { from_public_key: true, ..NONE }, true),
        (AcceptedSchemes { public_key: false, ..AcceptedSchemes::ALL }, true),
    ] {
        let options = DecryptOptions { accept: Some(accept), ..DecryptOptions::new("acme") };
        assert_eq!(opened(&engine, &options, &out[0]).is_ok(), opens, "{accept:?}");
    }
}

#[test]
fn what_is_resealed_is_bound_as_new_values_are() {
    let TestEngine { engine, store: _store, .. } = test_engine();
    let texts = [public_key(&engine, "acme", (Some("card"), false), text("4242"))];
    let (out, ..) = resealed(&engine, &Caller::Owner, &reseal(Some("17")), &texts).expect("reseals");
    let accept = Some(AcceptedSchemes { public_key: false, ..AcceptedSchemes::ALL });
    let within = |context| DecryptOptions { context, accept, ..DecryptOptions::new("acme") };
    assert_eq!(opened(&engine, &within(Some("17")), &out[0]).expect("opens"), "\"4242\"");
    let by_default = DecryptOptions { accept: None, ..within(Some("17")) };
    assert_eq!(
        code(opened(&engine, &by_default, &out[0])),
        Some(ErrorCode::DecryptFailed),
        "the mark must be asked for"
    );
    for context in [None, Some("18")] {
        assert_eq!(code(opened(&engine, &within(context), &out[0])), Some(ErrorCode::DecryptFailed));
    }
    assert_eq!(
        inspected(&engine, &rewrapped(&engine, None, &texts[0])).role,
        Some("card".to_owned()),
        "without a context it opens for rewrapping"
    );
    // Symmetric ones of another row are text.
    let (moved, _, report) = resealed(&engine, &Caller::Owner, &reseal(Some("18")), &out).expect("encrypts");
    assert_eq!((report.resealed, report.skipped), (1, 0));
    assert_eq!(opened(&engine, &within(Some("18")), &moved[0]).expect("opens"), format!("\"{}\"", out[0]));
    // By the place in a document: each value to its own row and path.
    let document = format!("[{{\"id\":1,\"v\":\"{0}\",\"w\":\"a\"}},{{\"id\":2,\"v\":\"{0}\",\"w\":\"b\"}}]", texts[0]);
    let binding = (Some("id"), Some(leafseal_engine::PathBinding::Path));
    let options = EncryptOptions { context_select: binding.0, bind: binding.1, ..reseal(None) };
    let select = ["$[*].v", "$[*].w"];
    let sealed = encrypt_with(&engine, &options, &select, &document).expect("reseals");
    let open = |document: &str| {
        let options = DecryptOptions { context_select: binding.0, bind: binding.1, ..within(None) };
        let selection = engine.selection(&select).expect("valid");
        rewritten(
            engine.decrypt_document(&Caller::Owner, &options, Some(&selection), document.len()).expect("begins"),
            document,
        )
    };
    assert_eq!(open(&sealed).expect("opens"), document.replace(&texts[0], "4242"));
    let found = envelopes(&sealed);
    for (one, other) in [(0, 2), (0, 1), (1, 3)] {
        let moved = sealed.replace(&found[one], "-").replace(&found[other], &found[one]).replace('-', &found[other]);
        assert_eq!(code(open(&moved)), Some(ErrorCode::DecryptFailed), "{one} {other}");
    }
}

#[test]
fn what_the_app_the_client_and_the_call_accept_decides_what_is_resealed() {
    let TestEngine { engine, store: _store, .. } = test_engine();
    let texts = [
        public_key(&engine, "acme", (Some("card"), false), text("4242")),
        public_key(&engine, "acme", (Some("card"), false), text(&"4242".repeat(50_000))),
    ];
    let both = [Operation::Encrypt, Operation::Decrypt];
    let all = grant(&engine, "all", &both, Roles::Any);
    let rewraps = |caller: &Caller, options: &EncryptOptions<'_>| {
        let (out, _, report) = resealed(&engine, caller, options, &texts).expect("encrypts");
        assert!(report.rewrapped == 2 || report.resealed == 2, "{report:?}");
        assert!(out.iter().all(|text| text.starts_with("ev:WEFN:")));
        report.rewrapped == 2
    };
    let set = |accept: AcceptedSchemes| {
        engine.store().set_accepted(&app("acme"), accept).expect("set");
        engine.maintain().expect("refreshed");
    };
    let no = |accept| crate::common::grant_accepting(&engine, "some", &both, Roles::Any, accept);
    for (accept, expected) in [
        (AcceptedSchemes::ALL, true),
        (AcceptedSchemes { public_key: false, ..AcceptedSchemes::ALL }, false),
        // What no call would open is not made.
        (AcceptedSchemes { from_public_key: false, ..AcceptedSchemes::ALL }, false),
    ] {
        set(accept);
        assert_eq!(rewraps(&all, &reseal(None)), expected, "the app accepts {accept:?}");
    }
    // Nor what is no envelope: it would be a symmetric one.
    set(AcceptedSchemes { symmetric: false, ..AcceptedSchemes::ALL });
    assert_eq!(code(resealed(&engine, &all, &reseal(None), &texts)), Some(ErrorCode::InvalidParams));
    set(AcceptedSchemes::ALL);
    for (accept, expected) in [
        (AcceptedSchemes { public_key: true, ..NONE }, true),
        (AcceptedSchemes { public_key: false, ..AcceptedSchemes::ALL }, false),
    ] {
        assert_eq!(rewraps(&no(accept), &reseal(None)), expected, "the client accepts {accept:?}");
    }
    let asked = |accept| EncryptOptions { accept: Some(accept), ..reseal(None) };
    assert!(rewraps(&all, &asked(AcceptedSchemes { public_key: true, ..NONE })));
    // Of roles that the caller may not read nothing is opened.
    let pii = Roles::Only(BTreeSet::from([RoleName::parse("pii").expect("a role")]));
    assert!(!rewraps(&grant(&engine, "pii", &both, pii), &reseal(None)));
    // Resealing shows what opens.
    let writer = grant(&engine, "writer", &[Operation::Encrypt], Roles::Any);
    assert_eq!(code(resealed(&engine, &writer, &reseal(None), &texts)), Some(ErrorCode::Forbidden));
}

#[test]
fn options_that_do_not_go_together_are_refused() {
    let TestEngine { engine, store: _store, .. } = test_engine();
    let refused = |options: EncryptOptions<'_>| {
        code(encrypt_with(&engine, &options, &[], "[1]")).inspect(|code| assert_eq!(*code, ErrorCode::InvalidParams))
    };
    for options in [
        EncryptOptions { role: None, ..reseal(None) },
        EncryptOptions { scheme: Some(Scheme::PublicKey), ..reseal(None) },
        EncryptOptions { curve: Some(Curve::P256), ..reseal(None) },
        EncryptOptions { skip_sealed: true, ..reseal(None) },
        EncryptOptions { accept: Some(AcceptedSchemes { public_key: false, ..AcceptedSchemes::ALL }), ..reseal(None) },
    ] {
        assert!(refused(options).is_some(), "{options:?}");
    }
    for options in [reseal(None), EncryptOptions { scheme: Some(Scheme::Symmetric), ..reseal(None) }] {
        assert_eq!(refused(options), None);
        assert!(encrypt_with(&engine, &options, &[], "[1]").expect("encrypts").contains("ev:WEFN:number:"));
    }
}

/// Envelopes that the SDKs of the hosted service made become what rewrapping makes of them.
#[test]
fn envelopes_of_the_sdks_are_resealed() {
    let vectors = |name: &str| -> Value {
        let path = format!("{}/../../vectors/ev-sdk/{name}.json", env!("CARGO_MANIFEST_DIR"));
        serde_json::from_str(&std::fs::read_to_string(path).expect("vectors")).expect("JSON")
    };
    let TestEngine { engine, store, .. } = test_engine();
    let mut keys = NewKeys::generated();
    for curve in Curve::ALL {
        let keys_of_sdk = vectors("keys");
        let digits = keys_of_sdk[curve.short_name()]["d"].as_str().expect("text").trim_start_matches("0x");
        let byte = |at: usize| u8::from_str_radix(&digits[at..at + 2], 16).expect("hexadecimal");
        let scalar: Vec<u8> = (0..digits.len()).step_by(2).map(byte).collect();
        keys =
            keys.with(PrivateKey::from_scalar(curve, Secret::from_slice(&scalar).expect("32 bytes")).expect("valid"));
    }
    store.open().create_app(&app("sdk"), keys).expect("made");
    engine.maintain().expect("refreshed");
    let options = EncryptOptions { role: Some("pci-data"), ..EncryptOptions { app: "sdk", ..reseal(None) } };
    let mut count = 0;
    for name in ["node", "py"] {
        let made = vectors(name);
        for (case, out) in made["out"].as_object().expect("cases") {
            let document = out["obj"].to_string();
            if !case.ends_with("/pci-data") || case.starts_with("quirk") {
                continue;
            }
            let work = engine.encrypt_document(&Caller::Owner, &options, None, document.len()).expect("begins");
            let sealed = rewritten(work, &document).expect("reseals");
            let texts = envelopes(&sealed);
            assert!(texts.iter().all(|text| text.starts_with("ev:WEFN:")), "{sealed}");
            let open = |document: &str| {
                let options = DecryptOptions { role: Some("pci-data"), ..DecryptOptions::new("sdk") };
                decrypt_as(&engine, &Caller::Owner, &options, document).expect("opens")
            };
            assert_eq!(open(&sealed), open(&document), "{name} {case}");
            count += texts
                .iter()
                .filter(|text| {
                    let found = engine.inspect(&Caller::Owner, Some("sdk"), text.as_bytes()).expect("opens");
                    found.is_from_public_key && found.role.as_deref() == Some("pci-data")
                })
                .count();
            assert!(!texts.is_empty() && count >= texts.len());
        }
    }
    assert!(count > 20, "{count}");
}
