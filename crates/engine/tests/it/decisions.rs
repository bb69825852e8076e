//! Each decision about a caller's identity, permissions and roles reaches the observers exactly once.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use leafseal_engine::admin::{AcceptedSchemes, ApiKeyId, ClientName, NewApiKey, Operation, RoleName, Roles};
use leafseal_engine::{
    Caller, DecryptOptions, EncryptOptions, Engine, EntryPoint, Error, ErrorCode, FileOptions, OnFailure, PlannedPart,
    Progress, RequestOrigin, RewrapOptions, Settings,
};
use leafseal_testkit::{CaseRequest, DecisionCase, DecisionFixture, RecordedDecisions, decision_cases};

use crate::common::{TestEngine, app, digest, grant, rewritten, test_engine, test_engine_with};

fn observed(engine: &Engine) -> Arc<RecordedDecisions> {
    let seen = RecordedDecisions::new();
    engine.observe_decisions(Arc::<RecordedDecisions>::clone(&seen));
    seen
}

fn key(engine: &Engine, operations: &[Operation]) -> Caller {
    let secret_sha256 = [5; 32];
    let operations = operations.iter().copied().collect();
    let new =
        NewApiKey { app: app("acme"), operations, roles: Roles::Any, accept: AcceptedSchemes::ALL, secret_sha256 };
    let id = engine.store().create_api_key(&new).expect("stored").id;
    engine.maintain().expect("refreshed");
    Caller::ApiKey { id, secret_sha256 }
}

fn cards() -> Roles {
    Roles::Only(BTreeSet::from([RoleName::parse("card").expect("a role")]))
}

fn code<T>(result: Result<T, Error>) -> ErrorCode {
    result.err().expect("refused").code
}

/// Everything that a caller may ask for, with the operations that it needs; each is asked once.
fn ask(engine: &Engine, caller: &Caller, name: &str) -> Vec<&'static str> {
    let skipping = EncryptOptions { skip_sealed: true, ..EncryptOptions::new(name) };
    let _ = engine.encryptor(caller, &EncryptOptions::new(name)).map(drop);
    let _ = engine.encryptor(caller, &skipping).map(drop);
    let _ = engine.decryptor(caller, &DecryptOptions::new(name)).map(drop);
    let _ = engine.rewrapper(caller, &RewrapOptions::new(name)).map(drop);
    let _ = engine.inspector(caller, Some(name)).map(drop);
    let _ = engine.encrypt_file(caller, name, &FileOptions::default()).map(drop);
    let _ = engine.decrypt_file(caller, name).map(drop);
    let _ = engine.issue_token(caller, name, digest(engine, "{}"), None).map(drop);
    let _ = engine.public_keys(caller, name).map(drop);
    let both = "encrypt+decrypt";
    vec!["encrypt", both, "decrypt", both, "inspect", "encrypt", "decrypt", "client-side-tokens+decrypt", "-"]
}

#[test]
fn every_grant_and_every_refusal_is_observed_once() {
    let TestEngine { engine, store: _store, .. } = test_engine();
    let all = grant(&engine, "all", &[Operation::Encrypt, Operation::Decrypt], Roles::Any);
    let none = grant(&engine, "none", &[], Roles::Any);
    let api_key = key(&engine, Operation::ALL);
    let Caller::ApiKey { id, .. } = &api_key else { panic!("an API key") };
    let on_behalf = engine.on_behalf(&none, id.as_str()).expect("an id");
    let payload = digest(&engine, "{}");
    let token = engine.issue_token(&Caller::Owner, "acme", payload, None).expect("made").text;
    let unshown = Caller::Token(engine.token(&token).expect("good"));
    let token = engine.show_payload(&unshown, &payload).expect("the payload");
    let seen = observed(&engine);
    assert_eq!(code(engine.show_payload(&unshown, &digest(&engine, "\"a\""))), ErrorCode::Forbidden);
    assert_eq!(seen.take(), ["library token permission decrypt acme forbidden"]);
    let cases = [
        (&Caller::Owner, "owner", 9),
        (&Caller::Anonymous, "anonymous", 1),
        (&all, "all", 8),
        (&none, "none", 0),
        (&api_key, "key", 9),
        (&on_behalf, "none+key", 0),
        (&unshown, "token", 1),
        (&token, "token", 3),
    ];
    for (caller, name, granted) in cases {
        let asked = ask(&engine, caller, "acme");
        let decisions = seen.take();
        let begins = asked.iter().map(|operations| format!("library {name} permission {operations} acme "));
        assert_eq!(decisions.len(), asked.len(), "{decisions:#?}");
        assert!(decisions.iter().zip(begins).all(|(found, begin)| found.starts_with(&begin)), "{decisions:#?}");
        let outcomes = |outcome: &str| decisions.iter().filter(|words| words.ends_with(outcome)).count();
        assert_eq!((outcomes(" granted"), outcomes(" forbidden")), (granted, asked.len() - granted), "{decisions:#?}");
    }
    let _ = engine.encryptor(&Caller::Owner, &EncryptOptions::new("nowhere")).map(drop);
    assert_eq!(seen.take(), ["library owner permission encrypt nowhere unknown_app"]);
    engine.store().disable_app(&app("other")).expect("disabled");
    engine.maintain().expect("refreshed");
    let _ = engine.decryptor(&Caller::Owner, &DecryptOptions::new("other")).map(drop);
    assert_eq!(seen.take(), ["library owner permission decrypt other app_disabled"]);
}

#[test]
fn a_refused_identity_is_observed_and_a_good_one_only_where_it_suffices() {
    let TestEngine { engine, clock, store: _store } = test_engine_with(Settings::default());
    let reader = grant(&engine, "reader", &[Operation::Decrypt], Roles::Any);
    let idle = grant(&engine, "idle", &[], Roles::Any);
    let api_key = key(&engine, &[Operation::Decrypt, Operation::IssueTokens]);
    let Caller::ApiKey { id, secret_sha256 } = &api_key else { panic!("an API key") };
    let token = engine.issue_token(&api_key, "acme", digest(&engine, "\"a\""), None).expect("made").text;
    let seen = observed(&engine);
    let unknown = ApiKeyId::parse("0000000000000000").expect("an id");

    engine.client("reader", [7; 32]).expect("granted");
    engine.api_caller(id, *secret_sha256).expect("the key is good");
    engine.token(&token).expect("good");
    engine.on_behalf(&reader, id.as_str()).expect("an id");
    assert_eq!(seen.take(), [""; 0], "what they ask for is decided later");

    engine.admit(&reader).expect("granted");
    engine.inspector(&reader, None).map(drop).expect("the outside is for every client");
    assert_eq!(seen.take(), ["library reader identity - - granted"; 2]);

    assert_eq!(code(engine.client("stranger", [7; 32])), ErrorCode::Forbidden);
    assert_eq!(code(engine.client("reader", [8; 32])), ErrorCode::Forbidden);
    assert_eq!(code(engine.client("no name", [7; 32])), ErrorCode::Forbidden);
    assert_eq!(code(engine.on_behalf(&reader, "no id")), ErrorCode::Forbidden);
    assert_eq!(
        seen.take(),
        [
            "library stranger identity - - forbidden",
            "library reader identity - - forbidden",
            "library anonymous identity - - forbidden",
            "library reader identity - - forbidden",
        ]
    );

    assert_eq!(code(engine.api_caller(id, [6; 32])), ErrorCode::Unauthorized);
    assert_eq!(code(engine.api_caller(&unknown, *secret_sha256)), ErrorCode::Unauthorized);
    assert_eq!(code(engine.token("fst_00")), ErrorCode::Unauthorized);
    clock.advance(Duration::from_secs(5 * 60).as_secs());
    engine.maintain().expect("refreshed");
    assert_eq!(code(engine.token(&token)), ErrorCode::Unauthorized);
    assert_eq!(
        seen.take(),
        [
            "library key identity - - unauthorized",
            "library key identity - - unauthorized",
            "library anonymous identity - - unauthorized",
            "library token identity - - unauthorized",
        ]
    );

    let text = format!("lsk_{}_{}", unknown.as_str(), "0".repeat(64));
    assert_eq!(code(engine.authenticate(&reader, "no key", None)), ErrorCode::Forbidden);
    assert_eq!(code(engine.authenticate(&reader, &text, None)), ErrorCode::Forbidden);
    assert_eq!(code(engine.authenticate(&idle, &text, None)), ErrorCode::Forbidden);
    assert_eq!(
        seen.take(),
        [
            "library reader identity - - forbidden",
            "library reader+key identity - - forbidden",
            "library idle+key identity - - forbidden",
        ]
    );
}

#[test]
fn a_refusal_before_the_work_begins_is_observed_and_a_grant_is_not() {
    let TestEngine { engine, store: _store, .. } = test_engine();
    let narrow = key(&engine, &[Operation::Encrypt]);
    engine.encryptor(&narrow, &EncryptOptions::new("acme")).map(drop).expect("granted, and known from then on");
    let seen = observed(&engine);
    let engine = engine.at(RequestOrigin::of(EntryPoint::Api));
    engine.refuse_early(&narrow, &[Operation::Encrypt], &app("acme")).expect("granted");
    assert_eq!(code(engine.refuse_early(&narrow, &[Operation::Decrypt], &app("acme"))), ErrorCode::Forbidden);
    assert_eq!(seen.take(), ["api key permission decrypt acme forbidden"]);
}

/// Values with a role that the caller may not read are refused each, and reported once for a request, whatever it does about them.
#[test]
fn a_refused_role_is_observed_once_for_a_request() {
    let TestEngine { engine, store: _store, .. } = test_engine();
    let sealed = |role, value: &str| {
        let options = EncryptOptions { role: Some(role), ..EncryptOptions::new("acme") };
        rewritten(engine.encrypt_document(&Caller::Owner, &options, None, value.len()).expect("begins"), value)
    };
    let secrets = sealed("health", "[\"a\",\"b\",\"c\"]").expect("encrypted");
    let envelope = secrets.split('"').nth(1).expect("one");
    let caller = grant(&engine, "reader", &[Operation::Encrypt, Operation::Decrypt], cards());
    let seen = observed(&engine);
    let reported = |operations: &str, question: &str| format!("library reader {question} {operations} acme ");
    let expect = |operations: &str, what: &str| {
        let granted = reported(operations, "permission") + "granted";
        assert_eq!(seen.take(), [granted, reported(operations, "role") + "forbidden"], "{what}");
    };

    let leaving = DecryptOptions { on_failure: OnFailure::Leave, ..DecryptOptions::new("acme") };
    let work = engine.decrypt_document(&caller, &leaving, None, secrets.len()).expect("begins");
    assert_eq!(rewritten(work, &secrets).expect("left"), secrets);
    expect("decrypt", "each value is left");

    let mut work = engine.decrypt_document(&caller, &leaving, None, secrets.len()).expect("begins");
    loop {
        match work.next_part(secrets.as_bytes()).expect("planned") {
            PlannedPart::All => break,
            PlannedPart::Walked => {}
            PlannedPart::Part(mut part) => {
                while part.step(secrets.as_bytes(), &mut Vec::new()).expect("left") == Progress::More {}
            }
        }
    }
    expect("decrypt", "several workers");

    let mut decryptor = engine.decryptor(&caller, &DecryptOptions::new("acme")).expect("granted");
    let opened = loop {
        match decryptor.decrypt(&[envelope.as_bytes()], |_, _| panic!("nothing is opened")) {
            Ok(0) => {}
            other => break other,
        }
    };
    assert_eq!(code(opened), ErrorCode::Forbidden);
    expect("decrypt", "a list");

    let mut rewrapper = engine.rewrapper(&caller, &RewrapOptions::new("acme")).expect("granted");
    let rewrapped = loop {
        match rewrapper.rewrap(&[envelope.as_bytes()], |_, _| panic!("nothing is rewrapped")) {
            Ok(0) => {}
            other => break other,
        }
    };
    assert_eq!(code(rewrapped), ErrorCode::Forbidden);
    expect("encrypt+decrypt", "a rewrap");

    assert_eq!(code(engine.inspect(&caller, Some("acme"), envelope.as_bytes())), ErrorCode::Forbidden);
    expect("inspect", "the inside of an envelope");

    let skipping = EncryptOptions { skip_sealed: true, role: Some("card"), ..EncryptOptions::new("acme") };
    let work = engine.encrypt_document(&caller, &skipping, None, secrets.len()).expect("begins");
    rewritten(work, &secrets).expect("encrypted again");
    expect("encrypt+decrypt", "a search for envelopes to skip");

    // Not a refusal: the caller may read them, and has not asked for them.
    let mine = sealed("card", "[\"a\"]").expect("encrypted");
    assert_eq!(seen.take().len(), 1);
    let skipping = EncryptOptions { role: None, ..skipping };
    let work = engine.encrypt_document(&caller, &skipping, None, mine.len()).expect("begins");
    assert_eq!(rewritten(work, &mine).expect("skipped"), mine);
    assert_eq!(seen.take(), [reported("encrypt+decrypt", "permission") + "granted"]);
}

#[test]
fn a_long_value_and_a_file_with_a_refused_role_are_observed() {
    let settings = Settings { step_bytes_max: 64, ..Settings::default() };
    let TestEngine { engine, store: _store, .. } = test_engine_with(settings);
    let options = EncryptOptions { role: Some("health"), ..EncryptOptions::new("acme") };
    let document = format!("[\"{}\"]", "a".repeat(1000));
    let work = engine.encrypt_document(&Caller::Owner, &options, None, document.len()).expect("begins");
    let sealed = rewritten(work, &document).expect("encrypted");
    let caller = grant(&engine, "reader", &[Operation::Encrypt, Operation::Decrypt], cards());
    let seen = observed(&engine);
    let work = engine.decrypt_document(&caller, &DecryptOptions::new("acme"), None, sealed.len()).expect("begins");
    assert_eq!(code(rewritten(work, &sealed)), ErrorCode::Forbidden);
    let work = engine.rewrap_document(&caller, &RewrapOptions::new("acme"), None, sealed.len()).expect("begins");
    assert_eq!(code(rewritten(work, &sealed)), ErrorCode::Forbidden);
    assert_eq!(
        seen.take(),
        [
            "library reader permission decrypt acme granted",
            "library reader role decrypt acme forbidden",
            "library reader permission encrypt+decrypt acme granted",
            "library reader role encrypt+decrypt acme forbidden",
        ]
    );
}

#[test]
fn a_request_that_ends_because_its_grant_was_revoked_is_observed_as_one_refusal() {
    let TestEngine { engine, store: _store, .. } = test_engine();
    let writer = grant(&engine, "writer", &[Operation::Encrypt], Roles::Any);
    let seen = observed(&engine);
    let mut one = engine.encryptor(&writer, &EncryptOptions::new("acme")).expect("granted");
    let mut other = one.fork().expect("another worker");
    engine.store().disable_client(&ClientName::parse("writer").expect("a name")).expect("disabled");
    engine.maintain().expect("refreshed");
    for worker in [&mut one, &mut other] {
        assert_eq!(code(worker.encrypt(&[], &mut Vec::new(), |_, _, _| ())), ErrorCode::Forbidden);
    }
    let expected = ["granted", "forbidden"].map(|outcome| format!("library writer permission encrypt acme {outcome}"));
    assert_eq!(seen.take(), expected);
}

/// Makes the request of a case as a program does that contains the engine, such as one in Python.
fn make(engine: &Engine, case: &DecisionCase, sealed: &str) -> Result<(), Error> {
    let (caller, document) = (&Caller::Owner, "\"a\"");
    let encrypt = EncryptOptions::new(case.app);
    let skipping = EncryptOptions { skip_sealed: true, ..encrypt };
    let work = match case.request {
        CaseRequest::Encrypt => rewritten(engine.encrypt_document(caller, &encrypt, None, document.len())?, document),
        CaseRequest::SkipSealed => {
            rewritten(engine.encrypt_document(caller, &skipping, None, document.len())?, document)
        }
        CaseRequest::Reseal => {
            let resealing = EncryptOptions { reseal: true, role: Some("health"), ..encrypt };
            rewritten(engine.encrypt_document(caller, &resealing, None, sealed.len())?, sealed)
        }
        CaseRequest::Decrypt => {
            let options = DecryptOptions::new(case.app);
            rewritten(engine.decrypt_document(caller, &options, None, sealed.len())?, sealed)
        }
        CaseRequest::Rewrap => {
            rewritten(engine.rewrap_document(caller, &RewrapOptions::new(case.app), None, sealed.len())?, sealed)
        }
        CaseRequest::Inspect => {
            return engine.inspect(caller, Some(case.app), sealed.trim_matches('"').as_bytes()).map(drop);
        }
        CaseRequest::PublicKeys => return engine.public_keys(caller, case.app).map(drop),
    };
    work.map(drop)
}

#[test]
fn each_request_of_a_program_with_an_engine_gives_the_decisions_of_the_table() {
    let fixture = DecisionFixture::new();
    for case in decision_cases(EntryPoint::Library) {
        let made = make(&fixture.engine, case, &fixture.sealed);
        let expected = case.expected(EntryPoint::Library);
        assert_eq!(made.is_ok(), expected.iter().all(|words| words.ends_with(" granted")), "{}", case.name);
        assert_eq!(fixture.decisions.take(), expected, "{}", case.name);
    }
}

#[test]
fn an_app_that_cannot_exist_is_not_reported() {
    let TestEngine { engine, store: _store, .. } = test_engine();
    let seen = observed(&engine);
    let refused = engine.encryptor(&Caller::Owner, &EncryptOptions::new("closed\n\u{1b}[31mWARN forged")).map(drop);
    assert_eq!(code(refused), ErrorCode::UnknownApp);
    assert_eq!(seen.take(), ["library owner permission encrypt - unknown_app"]);
}

/// The methods of the engine for callers, whose decisions the tests of this file look at. None opens or seals anything without a permit,
/// which the visibility of an app's keys ensures; this list makes sure that a new one is tested.
const FOR_CALLERS: [&str; 18] = [
    "admit",
    "authenticate",
    "decrypt_document",
    "decrypt_file",
    "decryptor",
    "encrypt_document",
    "encrypt_file",
    "encryptor",
    "inspect",
    "inspector",
    "is_known_to_use",
    "issue_token",
    "on_behalf",
    "public_keys",
    "refuse_early",
    "rewrap_document",
    "rewrapper",
    "show_payload",
];

fn sources(folder: &Path, found: &mut Vec<(PathBuf, String)>) {
    for entry in std::fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = std::fs::read_to_string(&path).expect("text");
            found.push((path, text));
        }
    }
}

fn sources_of(package: &str) -> Vec<(PathBuf, String)> {
    let (mut found, root) = (Vec::new(), Path::new(env!("CARGO_MANIFEST_DIR")).join("../.."));
    sources(&root.join(package).join("src"), &mut found);
    found
}

#[test]
fn every_method_for_callers_is_one_whose_decisions_are_tested() {
    let mut found = BTreeSet::new();
    for (_, text) in sources_of("crates/engine") {
        for signature in text.split("pub fn ").skip(1).chain(text.split("pub async fn ").skip(1)) {
            let (name, rest) = signature.split_once('(').expect("a function");
            let parameters = rest.split_once('{').expect("a body").0;
            if parameters.trim_start().starts_with("&self") && parameters.contains(": &Caller") {
                found.insert(name.to_owned());
            }
        }
    }
    assert_eq!(found.iter().map(String::as_str).collect::<Vec<_>>(), FOR_CALLERS);
}

#[test]
fn no_entry_point_reads_keys_around_the_engine() {
    for (path, text) in sources_of("crates/engine") {
        let exports = path.ends_with("src/lib.rs") && (text.contains("OpeningKey") || text.contains("SealingKey"));
        assert!(!exports, "the engine exports no key: its interface is the only way to one");
        let loads = text.contains(".load_app(") && !path.ends_with("apps.rs");
        assert!(!loads, "{}: an app's keys are read in apps.rs alone", path.display());
    }
    for package in ["service", "server", "relay", "load", "cli"].map(|name| format!("crates/{name}")) {
        for (path, text) in sources_of(&package).into_iter().chain(sources_of("bindings/python")) {
            // Escrow, by a command that needs what opens the store: there is no caller to decide about.
            let is_escrow = path.ends_with("crates/cli/src/commands/escrow.rs");
            assert!(
                is_escrow || !text.contains("load_app("),
                "{} reads keys: use the engine, which decides",
                path.display()
            );
        }
    }
}
