//! Each decision about a caller's permissions reaches the observer exactly once.

use std::sync::{Arc, Mutex};

use leafseal_engine::admin::{ClientName, NewApiKey, Operation, Roles};
use leafseal_engine::{
    Caller, Decision, DecisionObserver, DecryptOptions, EncryptOptions, Engine, ErrorCode, RewrapOptions,
};

use crate::common::{TestEngine, app, digest, grant, test_engine};

/// Operations, app and the code of a refusal, in the order of the decisions.
type Seen = Arc<Mutex<Vec<(Vec<Operation>, String, Option<ErrorCode>)>>>;

struct Recorder(Seen);

impl DecisionObserver for Recorder {
    fn decided(&self, decision: &Decision<'_>) {
        let refusal = decision.refusal.map(|error| error.code);
        self.0.lock().expect("unpoisoned").push((decision.operations.to_vec(), decision.app.to_owned(), refusal));
    }
}

fn observed(engine: &Engine) -> Seen {
    let seen = Seen::default();
    assert!(engine.observe_decisions(Box::new(Recorder(Arc::clone(&seen)))));
    assert!(!engine.observe_decisions(Box::new(Recorder(Seen::default()))), "an engine has one observer");
    seen
}

fn key(engine: &Engine, operations: &[Operation]) -> Caller {
    let secret_sha256 = [5; 32];
    let operations = operations.iter().copied().collect();
    let new = NewApiKey { app: app("acme"), operations, roles: Roles::Any, secret_sha256 };
    let id = engine.store().create_api_key(&new).expect("stored").id;
    engine.maintain().expect("refreshed");
    Caller::ApiKey { id, secret_sha256 }
}

/// Everything that a caller may ask for, with the operations that it takes; each is asked once.
fn ask(engine: &Engine, caller: &Caller, name: &str) -> Vec<Vec<Operation>> {
    use Operation::{Decrypt, Encrypt, Inspect, IssueTokens};
    let _ = engine.encryptor(caller, &EncryptOptions::new(name)).map(drop);
    let _ = engine.decryptor(caller, &DecryptOptions::new(name)).map(drop);
    let _ = engine.rewrapper(caller, &RewrapOptions::new(name)).map(drop);
    let _ = engine.inspector(caller, Some(name)).map(drop);
    let _ = engine.encrypt_file(caller, name, None).map(drop);
    let _ = engine.decrypt_file(caller, name).map(drop);
    let _ = engine.issue_token(caller, name, digest(engine, "{}"), None).map(drop);
    let _ = engine.public_keys(caller, name).map(drop);
    let issuing = vec![IssueTokens, Decrypt];
    vec![
        vec![Encrypt],
        vec![Decrypt],
        vec![Encrypt, Decrypt],
        vec![Inspect],
        vec![Encrypt],
        vec![Decrypt],
        issuing,
        vec![],
    ]
}

#[test]
fn every_grant_and_every_refusal_is_observed_once() {
    let TestEngine { engine, store: _store, .. } = test_engine();
    let all = grant(&engine, "all", &[Operation::Encrypt, Operation::Decrypt], Roles::Any);
    let none = grant(&engine, "none", &[], Roles::Any);
    let api_key = key(&engine, &Operation::ALL);
    let Caller::ApiKey { id, .. } = &api_key else { panic!("an API key") };
    let on_behalf = Caller::on_behalf(none.clone(), id.as_str()).expect("an id");
    let token = Caller::Token { app: app("acme"), roles: Roles::Any };
    let seen = observed(&engine);
    for (caller, granted) in [(&Caller::Owner, 8), (&all, 7), (&none, 0), (&api_key, 8), (&on_behalf, 0), (&token, 3)] {
        let expected = ask(&engine, caller, "acme");
        let decisions = std::mem::take(&mut *seen.lock().expect("unpoisoned"));
        let operations: Vec<_> = decisions.iter().map(|(operations, ..)| operations.clone()).collect();
        assert_eq!(operations, expected, "{caller:?}");
        assert!(decisions.iter().all(|(_, app, _)| app == "acme"));
        let refusals: Vec<_> = decisions.iter().filter_map(|(.., refusal)| *refusal).collect();
        assert_eq!(refusals.len(), expected.len() - granted, "{caller:?}: {decisions:?}");
        assert!(refusals.iter().all(|code| *code == ErrorCode::Forbidden), "{refusals:?}");
    }
    let _ = engine.encryptor(&Caller::Owner, &EncryptOptions::new("nowhere")).map(drop);
    let decision = (vec![Operation::Encrypt], "nowhere".to_owned(), Some(ErrorCode::UnknownApp));
    assert_eq!(*seen.lock().expect("unpoisoned"), [decision]);
}

#[test]
fn a_refusal_before_the_work_begins_is_observed_and_a_grant_is_not() {
    let TestEngine { engine, store: _store, .. } = test_engine();
    let narrow = key(&engine, &[Operation::Encrypt]);
    engine.encryptor(&narrow, &EncryptOptions::new("acme")).map(drop).expect("granted, and known from then on");
    let seen = observed(&engine);
    engine.refuse_early(&narrow, &[Operation::Encrypt], &app("acme")).expect("granted");
    let refused = engine.refuse_early(&narrow, &[Operation::Decrypt], &app("acme"));
    assert_eq!(refused.expect_err("refused").code, ErrorCode::Forbidden);
    let decision = (vec![Operation::Decrypt], "acme".to_owned(), Some(ErrorCode::Forbidden));
    assert_eq!(*seen.lock().expect("unpoisoned"), [decision]);
}

#[test]
fn a_request_that_ends_because_its_grant_was_revoked_is_observed_as_a_refusal() {
    let TestEngine { engine, store: _store, .. } = test_engine();
    let writer = grant(&engine, "writer", &[Operation::Encrypt], Roles::Any);
    let seen = observed(&engine);
    let mut work = engine.encrypt_file(&writer, "acme", None).expect("granted");
    engine.maintain().expect("refreshed");
    engine.store().disable_client(&ClientName::parse("writer").expect("a name")).expect("disabled");
    engine.maintain().expect("refreshed");
    let ended = work.step(b"content", &mut Vec::new()).map(drop);
    assert_eq!(ended.expect_err("revoked").code, ErrorCode::Forbidden);
    let refusals: Vec<_> = seen.lock().expect("unpoisoned").iter().map(|(.., refusal)| *refusal).collect();
    assert_eq!(refusals, [None, Some(ErrorCode::Forbidden)]);
}
