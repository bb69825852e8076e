//! Callers of the HTTP interface: API keys permit only what they were created for, and tokens decrypt only their payload, for their time.

use std::collections::BTreeSet;

use crate::common::{ManualClock, TestEngine, app, digest, grant, rewritten, test_engine};
use leafseal_engine::admin::{AcceptedSchemes, NewApiKey, Operation, RoleName, Roles};
use leafseal_engine::{
    ApiKeySecret, Caller, DecryptOptions, EncryptOptions, Engine, Error, ErrorCode, Settings, read_api_key,
    system_random,
};

const NOW_MS: u64 = 1_700_000_000_000;
const MINUTE_MS: u64 = 60_000;

fn key(engine: &Engine, operations: &[Operation], roles: &[&str]) -> Caller {
    key_accepting(engine, operations, roles, AcceptedSchemes::ALL)
}

fn key_accepting(engine: &Engine, operations: &[Operation], roles: &[&str], accept: AcceptedSchemes) -> Caller {
    let secret = ApiKeySecret::generate(&mut system_random());
    let roles = roles.iter().map(|role| RoleName::parse(role).expect("a role")).collect::<BTreeSet<_>>();
    let new = NewApiKey {
        app: app("acme"),
        operations: operations.iter().copied().collect(),
        roles: if roles.is_empty() { Roles::Any } else { Roles::Only(roles) },
        accept,
        secret_sha256: secret.sha256(),
    };
    let stored = engine.store().create_api_key(&new).expect("made");
    engine.maintain().expect("refreshed");
    let (id, sha256) = read_api_key(&secret.text(&stored.id)).expect("its own text");
    engine.api_caller(&id, sha256).expect("known").caller().clone()
}

fn encrypt(engine: &Engine, caller: &Caller, role: Option<&str>, document: &str) -> Result<String, Error> {
    let options = EncryptOptions { role, ..EncryptOptions::new("acme") };
    rewritten(engine.encrypt_document(caller, &options, None, document.len())?, document)
}

fn decrypt(engine: &Engine, caller: &Caller, app: &str, document: &str) -> Result<String, Error> {
    rewritten(engine.decrypt_document(caller, &DecryptOptions::new(app), None, document.len())?, document)
}

fn kind<T>(result: Result<T, Error>) -> ErrorCode {
    result.err().expect("refused").code
}

fn id_of(key: &Caller) -> &str {
    let Caller::ApiKey { id, .. } = key else { panic!("the caller shows a key") };
    id.as_str()
}

#[test]
fn acting_for_a_key_allows_what_both_may_do() {
    let TestEngine { engine, store: _store, .. } = test_engine();
    let sealed = |role| encrypt(&engine, &Caller::Owner, role, "[\"a\"]").expect("the owner may");
    let card = Roles::Only(BTreeSet::from([RoleName::parse("card").expect("a role")]));
    let relay = grant(&engine, "relay", &[Operation::Decrypt], Roles::Any);
    let narrow = grant(&engine, "narrow", &[Operation::Decrypt], card);
    let writer = grant(&engine, "writer", &[Operation::Encrypt], Roles::Any);
    let of_card = key(&engine, Operation::ALL, &["card"]);
    let of_health = key(&engine, Operation::ALL, &["health"]);
    let of_writing = key(&engine, &[Operation::Encrypt], &[]);
    let may = |agent: &Caller, key: &Caller, role| {
        let caller = engine.on_behalf(agent, id_of(key)).expect("an id");
        match decrypt(&engine, &caller, "acme", &sealed(role)) {
            Ok(text) => text == "[\"a\"]",
            Err(error) => {
                assert_eq!(error.code, ErrorCode::Forbidden, "{error}");
                false
            }
        }
    };
    for (agent, key, expected) in [
        (&relay, &of_card, [true, true, false]),
        (&relay, &of_health, [true, false, true]),
        (&narrow, &of_card, [true, true, false]),
        (&narrow, &of_health, [true, false, false]),
        (&relay, &of_writing, [false; 3]),
        (&writer, &of_card, [false; 3]),
    ] {
        let found = [None, Some("card"), Some("health")].map(|role| may(agent, key, role));
        assert_eq!(found, expected, "{agent:?} for {key:?}");
    }
    // A request in progress ends when its key is revoked.
    let caller = engine.on_behalf(&relay, id_of(&of_card)).expect("an id");
    let document = sealed(None);
    let mut work =
        engine.decrypt_document(&caller, &DecryptOptions::new("acme"), None, document.len()).expect("the key is good");
    let Caller::ApiKey { id, .. } = &of_card else { panic!("a key") };
    engine.store().revoke_api_key(id).expect("revoked");
    engine.maintain().expect("refreshed");
    assert_eq!(kind(work.step(document.as_bytes(), &mut Vec::new())), ErrorCode::Forbidden);
    for id in ["0000000000000000", "nonsense"] {
        let unknown = engine.on_behalf(&relay, id).and_then(|caller| decrypt(&engine, &caller, "acme", &document));
        assert_eq!(kind(unknown), ErrorCode::Forbidden, "{id}");
    }
}

#[test]
fn a_key_allows_only_its_operations() {
    let TestEngine { engine, store: _store, .. } = test_engine();
    let sealed = encrypt(&engine, &Caller::Owner, None, "[\"a\"]").expect("the owner may");
    let envelope = sealed.trim_matches(['[', ']', '"']);
    let all: [Operation; 4] = Operation::ALL.try_into().expect("four");
    for own in all {
        let caller = key(&engine, &[own], &[]);
        let token = engine.issue_token(&caller, "acme", digest(&engine, &sealed), None);
        let may = [
            encrypt(&engine, &caller, None, "[1]").is_ok(),
            decrypt(&engine, &caller, "acme", &sealed).is_ok(),
            engine.inspect(&caller, Some("acme"), envelope.as_bytes()).is_ok(),
            token.is_ok(),
        ];
        // Tokens additionally require the permission to decrypt, which no key of this test has together with the permission to create
        // tokens.
        assert_eq!(may, all.map(|operation| operation == own && own != Operation::IssueTokens), "{own:?}");
        assert!(engine.public_keys(&caller, "acme").is_ok());
        assert_eq!(kind(engine.public_keys(&caller, "other")), ErrorCode::Forbidden);
        assert_eq!(kind(engine.public_keys(&caller, "nobody")), ErrorCode::Forbidden, "looks like one that is there");
    }
    let idle = key(&engine, &[], &[]);
    assert_eq!(kind(engine.public_keys(&idle, "acme")), ErrorCode::Forbidden);
}

#[test]
fn a_wrong_secret_an_unknown_id_and_a_revoked_key_give_the_same_error() {
    let TestEngine { engine, store: _store, .. } = test_engine();
    let Caller::ApiKey { id, secret_sha256 } = key(&engine, &[Operation::Decrypt], &[]) else { panic!("a key") };
    assert!(engine.known_api_caller(&id, secret_sha256).is_some());
    assert!(engine.known_api_caller(&id, [0; 32]).is_none());
    let wrong = engine.api_caller(&id, [0; 32]).expect_err("another secret");
    let unknown = leafseal_engine::admin::ApiKeyId::parse("0123456789abcdef").expect("an id");
    assert_eq!(engine.api_caller(&unknown, secret_sha256).expect_err("unknown"), wrong);
    engine.store().revoke_api_key(&id).expect("revoked");
    assert!(engine.api_caller(&id, secret_sha256).is_ok(), "not noticed yet");
    let sealed = encrypt(&engine, &Caller::Owner, None, "[\"a\"]").expect("the owner may");
    let caller = Caller::ApiKey { id: id.clone(), secret_sha256 };
    let mut work = engine.decrypt_document(&caller, &DecryptOptions::new("acme"), None, sealed.len()).expect("begun");
    engine.maintain().expect("refreshed");
    assert_eq!(engine.api_caller(&id, secret_sha256).expect_err("revoked"), wrong);
    assert!(engine.known_api_caller(&id, secret_sha256).is_none());
    let ended = work.step(sealed.as_bytes(), &mut Vec::new());
    assert_eq!(ended.expect_err("what lives on the key ends").code, ErrorCode::Forbidden);
}

#[test]
fn roles_hold_for_keys_and_for_the_tokens_that_they_make() {
    let TestEngine { engine, store: _store, .. } = test_engine();
    let sealed = |role| encrypt(&engine, &Caller::Owner, role, "[\"a\"]").expect("the owner may");
    let (plain, pci, health) = (sealed(None), sealed(Some("pci")), sealed(Some("health")));
    let caller = key(&engine, &[Operation::Decrypt, Operation::IssueTokens], &["pci"]);
    for (document, may) in [(&plain, true), (&pci, true), (&health, false)] {
        let token = engine.issue_token(&caller, "acme", digest(&engine, document), None).expect("made");
        let by_token = Caller::Token(engine.token(&token.text).expect("good"));
        let by_token = engine.show_payload(&by_token, &digest(&engine, document)).expect("it is for this one");
        for caller in [&caller, &by_token] {
            assert_eq!(decrypt(&engine, caller, "acme", document).is_ok(), may);
        }
    }
}

#[test]
fn a_token_is_for_its_app_payload_and_time() {
    let TestEngine { engine, store: _store, clock } = test_engine();
    let caller = key(&engine, &[Operation::IssueTokens, Operation::Decrypt], &[]);
    let sealed = encrypt(&engine, &Caller::Owner, None, "{\"a\":\"x\",\"n\":1}").expect("the owner may");
    let payload = digest(&engine, &sealed);
    let issued = engine.issue_token(&caller, "acme", payload, None).expect("made");
    assert_eq!((issued.created_ms, issued.expires_ms), (NOW_MS, NOW_MS + 5 * MINUTE_MS));
    for alone in [Operation::IssueTokens, Operation::Decrypt] {
        let half = key(&engine, &[alone], &[]);
        assert_eq!(kind(engine.issue_token(&half, "acme", payload, None)), ErrorCode::Forbidden, "{alone:?}");
    }
    let token = engine.token(&issued.text).expect("good");
    assert_eq!((token.app().as_str(), token.payload()), ("acme", payload));
    let unshown = Caller::Token(token);
    assert_eq!(kind(decrypt(&engine, &unshown, "acme", &sealed)), ErrorCode::Forbidden, "its payload was not compared");
    assert_eq!(kind(engine.decrypt_file(&unshown, "acme").map(drop)), ErrorCode::Forbidden);
    assert_eq!(kind(engine.show_payload(&unshown, &digest(&engine, "\"a\""))), ErrorCode::Forbidden, "another payload");
    let by_token = engine.show_payload(&unshown, &payload).expect("it is for this one");
    assert_eq!(engine.show_payload(&caller, &digest(&engine, "1")).as_ref(), Ok(&caller), "keys are for any payload");
    assert_eq!(decrypt(&engine, &by_token, "acme", &sealed).as_deref(), Ok("{\"a\":\"x\",\"n\":1}"));
    assert_eq!(kind(decrypt(&engine, &by_token, "other", &sealed)), ErrorCode::Forbidden);
    assert_eq!(kind(encrypt(&engine, &by_token, None, "[1]")), ErrorCode::Forbidden);
    assert_eq!(kind(engine.issue_token(&by_token, "acme", payload, None)), ErrorCode::Forbidden);
    for wrong in [NOW_MS, NOW_MS - 1, NOW_MS + 10 * MINUTE_MS + 1, u64::MAX] {
        assert_eq!(
            kind(engine.issue_token(&caller, "acme", payload, Some(wrong))),
            ErrorCode::InvalidParams,
            "{wrong}"
        );
    }
    let longest = engine.issue_token(&caller, "acme", payload, Some(NOW_MS + 10 * MINUTE_MS)).expect("made");
    clock.advance(299);
    assert!(engine.token(&issued.text).is_ok());
    clock.advance(1);
    let expired = engine.token(&issued.text).expect_err("its time is over");
    assert!(expired.code == ErrorCode::Unauthorized && expired.message.contains("expired"));
    assert!(engine.token(&longest.text).is_ok());
    engine.store().disable_app(&app("acme")).expect("disabled");
    engine.maintain().expect("refreshed");
    assert_eq!(kind(decrypt(&engine, &by_token, "acme", &sealed)), ErrorCode::AppDisabled);
}

#[test]
fn no_changed_token_is_good_and_none_of_another_store() {
    let TestEngine { engine, store: _store, .. } = test_engine();
    let caller = key(&engine, &[Operation::IssueTokens, Operation::Decrypt], &["pci"]);
    let text = engine.issue_token(&caller, "acme", digest(&engine, "[]"), None).expect("made").text;
    assert!(engine.token(&text).is_ok());
    for place in 0..text.len() {
        let mut changed = text.clone().into_bytes();
        changed[place] = if changed[place] == b'0' { b'1' } else { b'0' };
        let changed = String::from_utf8(changed).expect("ASCII");
        assert_eq!(kind(engine.token(&changed)), ErrorCode::Unauthorized, "at {place}");
        assert!(engine.token(&text[..place]).is_err());
    }
    assert!(engine.token(&format!("{text}00")).is_err());
    assert!(engine.token(&format!("fst_{}", "0".repeat(100_000))).is_err());
    let TestEngine { engine: other, store: _other_store, .. } = test_engine();
    assert_eq!(kind(other.token(&text)), ErrorCode::Unauthorized);
}

/// Every process that shares the store verifies a token that another created, without accessing the store or a lookup.
#[test]
fn a_token_is_checked_without_a_look_up() {
    let TestEngine { engine, store, .. } = test_engine();
    let caller = key(&engine, &[Operation::IssueTokens, Operation::Decrypt], &["pci"]);
    let Caller::ApiKey { id, secret_sha256 } = caller.clone() else { panic!("a key") };
    let payload = digest(&engine, "[\"a\"]");
    let text = engine.issue_token(&caller, "acme", payload, None).expect("made").text;
    let another = || Engine::with_clock(Box::new(store.open()), Settings::default(), Box::new(ManualClock::default()));
    let (checker, unprepared) = (another(), another());
    checker.prepare_tokens().expect("read once");
    std::fs::remove_file(store.path()).expect("removed");
    let before = checker.counters();
    for _ in 0..1000 {
        let token = checker.token(&text).expect("good");
        assert_eq!((token.app().as_str(), token.payload()), ("acme", payload));
    }
    assert_eq!(kind(checker.token(&format!("{text}00"))), ErrorCode::Unauthorized);
    assert_eq!(checker.counters(), before);
    // A lookup would have failed.
    assert_eq!(kind(checker.api_caller(&id, secret_sha256)), ErrorCode::Unavailable);
    assert_eq!(kind(unprepared.token(&text)), ErrorCode::Unavailable);
}

#[test]
fn a_payload_is_known_by_its_strings_in_their_order() {
    let TestEngine { engine, store: _store, .. } = test_engine();
    let of = |payload: &str| digest(&engine, payload);
    let payload = of(r#"{"a":"ev:x","n":1.0,"b":["y/"]}"#);
    assert_eq!(of(" { \"a\" : \"\\u0065v:x\" , \"n\":1, \"b\":[\"y\\/\"] } "), payload);
    assert_eq!(of(r#"{"data":{"a":"ev:x","n":1.0,"b":["y/"]}}"#), payload, "as SDKs wrap it");
    for other in [r#"{"a":"y/","b":["ev:x"]}"#, r#"["ev:x"]"#, r#"["ev:x","y/","y/"]"#, r#"["ev:xy/"]"#, "[]"] {
        assert_ne!(of(other), payload, "{other}");
    }
    let mut reading = engine.payload(1).expect("not too large");
    assert_eq!(kind(reading.step(b"[")), ErrorCode::InvalidDocument);
}
