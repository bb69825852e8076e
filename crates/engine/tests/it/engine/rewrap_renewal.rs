//! A rewrap under way when the app's rule changes: it makes nothing that no call could open.

use leafseal_engine::admin::AcceptedSchemes;
use leafseal_engine::{RewrappedText, Scheme};

use super::*;
use crate::common::grant_accepting;

const NOT_PUBLIC: AcceptedSchemes = AcceptedSchemes { public_key: false, ..AcceptedSchemes::ALL };
const NOT_RESEALED: AcceptedSchemes = AcceptedSchemes { from_public_key: false, ..AcceptedSchemes::ALL };

/// One value a step, of which a long one takes several.
fn small_steps() -> Settings {
    Settings { step_values_max: 1, step_bytes_max: 64, ..Settings::default() }
}

/// The rest of a rewrap, after its first step.
type Rest<'a> = Box<dyn FnMut() -> Result<Progress, Error> + 'a>;

/// A rewrap on each path, each after its first step: a list, a document, a part of a document on another worker, a long value.
fn begun<'a>(
    engine: &'a Engine,
    caller: &'a Caller,
    options: &'a RewrapOptions<'a>,
    (texts, document, long): (&'a [&'a [u8]], &'a str, &'a str),
) -> Vec<(&'static str, Rest<'a>)> {
    let mut rewrapper = engine.rewrapper(caller, options).expect("accepted");
    let mut done = rewrapper.rewrap(&texts[..1], |_, text| assert!(matches!(text, RewrappedText::New(_)))).expect("1");
    let list = move || {
        done += rewrapper.rewrap(&texts[done..], |_, _| ())?;
        Ok(if done == texts.len() { Progress::Done } else { Progress::More })
    };
    let start = |document: &str| engine.rewrap_document(caller, options, None, document.len()).expect("accepted");
    let stepped = |document: &'a str| {
        let (mut work, mut out) = (start(document), Vec::new());
        assert_eq!(work.step(document.as_bytes(), &mut out).expect("accepted"), Progress::More);
        move || work.step(document.as_bytes(), &mut out)
    };
    let mut parted = start(document);
    let mut part = loop {
        match parted.next_part(document.as_bytes()).expect("planned") {
            PlannedPart::Part(part) => break part,
            PlannedPart::Walked => {}
            PlannedPart::All => panic!("no part"),
        }
    };
    let on_other_worker = move || part.step(document.as_bytes(), &mut Vec::new());
    vec![
        ("list", Box::new(list)),
        ("document", Box::new(stepped(document))),
        ("part", Box::new(on_other_worker)),
        ("long value", Box::new(stepped(long))),
    ]
}

fn end(rest: &mut Rest<'_>) -> Result<(), Error> {
    while rest()? == Progress::More {}
    Ok(())
}

#[test]
fn a_rewrap_under_way_ends_when_the_app_no_longer_accepts_what_it_makes() {
    let TestEngine { engine, store: _store, .. } = test_engine_with(small_steps());
    let operations = &[Operation::Encrypt, Operation::Decrypt];
    let set = |accept| {
        engine.store().set_accepted(&app("acme"), accept).expect("set");
        engine.maintain().expect("refreshed");
    };
    let seal = |scheme, document: &str| {
        let options = EncryptOptions { scheme: Some(scheme), ..EncryptOptions::new("acme") };
        encrypt_with(&engine, &options, &[], document).expect("encrypts")
    };
    let both = grant_accepting(&engine, "both", operations, Roles::Any, AcceptedSchemes::ALL);
    let (public, symmetric) = (Scheme::PublicKey, Scheme::Symmetric);
    // Old and wanted scheme; the rule from the second step on; whether the rest is refused.
    for (old, wanted, rule, is_refused) in [
        (public, symmetric, NOT_RESEALED, true),
        (symmetric, public, NOT_PUBLIC, true),
        (symmetric, public, NOT_RESEALED, false),
        // Of those to a public key none opens any more, so none is resealed.
        (public, symmetric, AcceptedSchemes { public_key: false, ..NOT_RESEALED }, false),
    ] {
        let document = seal(old, &format!("[{}]", ["\"4242\""; 12].join(",")));
        let long = seal(old, &format!("\"{}\"", "4242".repeat(1_000)));
        let texts = envelopes(&document);
        let texts: Vec<&[u8]> = texts.iter().map(|text| text.as_bytes()).collect();
        for on_failure in [OnFailure::Fail, OnFailure::Leave] {
            for caller in [&Caller::Owner, &both] {
                set(AcceptedSchemes::ALL);
                let options = RewrapOptions { scheme: Some(wanted), on_failure, ..RewrapOptions::new("acme") };
                let mut rests = begun(&engine, caller, &options, (&texts, &document, &long));
                set(rule);
                let before = engine.counters().sealed;
                for (path, rest) in &mut rests {
                    let ended = end(rest).map_err(|error| (error.code, error.message));
                    match (&ended, is_refused) {
                        (Err((ErrorCode::InvalidParams, message)), true) => {
                            assert!(message.contains("accept"), "{message}")
                        }
                        (Ok(()), false) => {}
                        (Err((ErrorCode::DecryptFailed, _)), false) => assert_eq!(old, public),
                        _ => panic!("{path} from {old:?} to {wanted:?} under {rule:?}: {ended:?}"),
                    }
                }
                let is_sealed = engine.counters().sealed != before;
                assert_eq!(is_sealed, !is_refused && old == symmetric, "{old:?} {wanted:?} {rule:?}");
                // A new one is answered as the rest of the old one is.
                let begins = engine.rewrapper(caller, &options).map(|_| ()).map_err(|error| error.code);
                assert_eq!(begins, if is_refused { Err(ErrorCode::InvalidParams) } else { Ok(()) });
            }
        }
    }
}

/// What the caller opens counts too: who opens none to a public key reseals none, whatever the app accepts of those.
#[test]
fn a_rewrap_under_way_is_judged_by_what_its_caller_opens_now() {
    let TestEngine { engine, store: _store, .. } = test_engine_with(small_steps());
    let operations = &[Operation::Encrypt, Operation::Decrypt];
    let options = EncryptOptions { scheme: Some(Scheme::Symmetric), ..EncryptOptions::new("acme") };
    let document = encrypt_with(&engine, &options, &[], "[1,2,3,4,5]").expect("encrypts");
    let caller = grant_accepting(&engine, "both", operations, Roles::Any, AcceptedSchemes::ALL);
    let to = RewrapOptions { scheme: Some(Scheme::Symmetric), ..RewrapOptions::new("acme") };
    for (granted, expected) in [(NOT_PUBLIC, Ok(())), (AcceptedSchemes::ALL, Err(ErrorCode::InvalidParams))] {
        engine.store().set_accepted(&app("acme"), AcceptedSchemes::ALL).expect("set");
        grant_accepting(&engine, "both", operations, Roles::Any, AcceptedSchemes::ALL);
        engine.store().rotate(&app("acme")).expect("rotated");
        engine.maintain().expect("refreshed");
        let mut work = engine.rewrap_document(&caller, &to, None, document.len()).expect("accepted");
        let mut out = Vec::new();
        assert_eq!(work.step(document.as_bytes(), &mut out).expect("accepted"), Progress::More);
        grant_accepting(&engine, "both", operations, Roles::Any, granted);
        engine.store().set_accepted(&app("acme"), NOT_RESEALED).expect("set");
        engine.maintain().expect("refreshed");
        let ended = loop {
            match work.step(document.as_bytes(), &mut out) {
                Ok(Progress::More) => {}
                Ok(Progress::Done) => break Ok(()),
                Err(error) => break Err(error.code),
            }
        };
        assert_eq!(ended, expected);
    }
}
