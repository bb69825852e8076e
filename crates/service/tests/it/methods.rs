//! Every method through [`EngineService`] without a socket: takes the frames that a client writes, returns the frames that it reads.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use leafseal_engine::admin::{AcceptedSchemes, AppName, ClientName, NewApiKey, Operation, RoleName, Roles};
use leafseal_engine::pool::{Cancellation, StopReason};
use leafseal_engine::{ApiKeySecret, EntryPoint, RequestOrigin, Settings, system_random};
use leafseal_protocol::{
    ApiKeyFacts, AuthenticateParams, DecryptFileOptions, DecryptOptions, DocumentResult, EncryptFileOptions,
    EncryptOptions, ErrorObject, FileResult, FrameLimits as WireLimits, InfoResult, InspectOptions, InspectResult,
    Keying, Message, OtherCase, PublicKeySet, PublicKeysParams, RewrapFailure, RewrapOptions, RewrapResult, Scalar,
    Scheme, SecretText, ValuesResult, answer, request,
};
use leafseal_service::{
    EngineService, PartStep, PeerIdentity, PlannedRequest, RequestPart, RequestStage, RequestStep, RequestWork,
    Service, Tenant, WrittenOutput,
};
use leafseal_testkit::{EngineFixture, engine};

mod inline;
mod long_values;

struct Fixture {
    service: EngineService,
    engine: EngineFixture,
    caller: Arc<leafseal_engine::Caller>,
}

const PEER: [u8; 32] = [7; 32];
const ORIGIN: RequestOrigin = RequestOrigin::of(EntryPoint::Rpc);

fn fixture() -> Fixture {
    fixture_with(Settings::default(), 1 << 30)
}

fn fixture_with(settings: Settings, answer_size_max: usize) -> Fixture {
    let engine = engine(settings, "tester", Some(PEER));
    let service = EngineService::new(engine.engine.clone(), WireLimits::default(), answer_size_max);
    service.maintain();
    let peer = PeerIdentity { name: "tester".to_owned(), certificate_sha256: PEER };
    let caller = service.authenticate(&peer, ORIGIN).expect("granted");
    Fixture { service, engine, caller }
}

/// The steps of a request.
#[derive(Default)]
struct Steps {
    count: usize,
    /// The largest output of a step in bytes.
    written_max: usize,
}

impl Steps {
    /// Runs a step that appends to `out`.
    fn take<T>(&mut self, out: &mut Vec<u8>, step: impl FnOnce(&mut Vec<u8>) -> T) -> T {
        let before = out.len();
        let result = step(out);
        self.count += 1;
        self.written_max = self.written_max.max(out.len().saturating_sub(before));
        result
    }
}

/// Runs a request to its end, with its parts in reverse order, because they do not depend on one another; returns the answer and the steps.
fn run(fixture: &Fixture, frame: Vec<u8>) -> (Vec<u8>, usize) {
    let (answer, steps) = run_watched(fixture, frame);
    (answer, steps.count)
}

fn run_watched(fixture: &Fixture, frame: Vec<u8>) -> (Vec<u8>, Steps) {
    let cancellation = Arc::new(Cancellation::new());
    let mut request = fixture.service.request(&fixture.caller, frame, 9, Instant::now(), cancellation, None);
    let mut steps = Steps::default();
    let answer = run_alone(&mut request, &mut steps).unwrap_or_else(|error| {
        let mut out = Vec::new();
        answer::error(9, &error, &mut out);
        out
    });
    (answer, steps)
}

fn run_alone(request: &mut RequestStage, steps: &mut Steps) -> Result<Vec<u8>, ErrorObject> {
    let mut head = Vec::new();
    loop {
        match steps.take(&mut head, |head| request.step(head))? {
            RequestStep::More => {}
            RequestStep::Done => return Ok(head),
            RequestStep::Spread { .. } => break,
        }
    }
    let (mut parts, mut fault, mut fields) = (Vec::new(), None, 0);
    let all: Vec<Box<dyn RequestPart>> =
        planned(request.work(), steps).map_while(|part| part.map_err(|error| fault = Some(error)).ok()).collect();
    for mut part in all.into_iter().rev() {
        let mut out = Vec::new();
        let step = loop {
            match steps.take(&mut out, |out| part.step(out)) {
                Ok(PartStep::More) => {}
                step => break step,
            }
        };
        // The earlier part runs after this one, so its fault overwrites this one's.
        fault = step.err().or(fault);
        fields += part.fields();
        parts.push(out);
    }
    fault.map_or(Ok(()), Err)?;
    let size = head.len() + parts.iter().map(Vec::len).sum::<usize>();
    let mut tail = Vec::new();
    let fields = fields + request.fields();
    request.work().finish(&mut head, WrittenOutput { size, fields }, &mut tail);
    Ok(std::iter::once(head).chain(parts.into_iter().rev()).chain([tail]).flatten().collect())
}

/// All parts, up to a fault in planning.
fn planned(
    request: &mut dyn RequestWork,
    steps: &mut Steps,
) -> impl Iterator<Item = Result<Box<dyn RequestPart>, ErrorObject>> {
    let mut is_over = false;
    std::iter::from_fn(move || {
        while !is_over {
            match steps.take(&mut Vec::new(), |_| request.next_part()) {
                Ok(PlannedRequest::Part(part)) => return Some(Ok(part)),
                Ok(PlannedRequest::Last(part)) => {
                    is_over = true;
                    return Some(Ok(part));
                }
                Ok(PlannedRequest::Nothing) => {}
                Ok(PlannedRequest::None) => is_over = true,
                Err(error) => {
                    is_over = true;
                    return Some(Err(error));
                }
            }
        }
        None
    })
}

fn frame(write: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut frame = Vec::new();
    write(&mut frame);
    frame
}

/// The result of an answer, which must be one.
fn result(answer: &[u8]) -> leafseal_protocol::RawValue<'_> {
    match Message::parse(answer).expect("a message") {
        Message::Response { id: 9, result: Ok(result) } => result,
        Message::Response { result: Err(error), .. } => panic!("{:?}", error.error().expect("an error object")),
        other => panic!("{other:?}"),
    }
}

/// Code, index and offset of an answer's error.
fn fault(answer: &[u8]) -> (String, Option<u64>, Option<u64>) {
    match Message::parse(answer).expect("a message") {
        Message::Response { id: 9, result: Err(error) } => {
            let error = error.error().expect("an error object");
            (error.code.to_owned(), error.index, error.offset)
        }
        other => panic!("{other:?}"),
    }
}

fn encrypt(fixture: &Fixture, options: &EncryptOptions<'_>, values: &[Scalar<'_>]) -> Vec<u8> {
    run(fixture, frame(|out| request::encrypt(9, options, values.iter().copied(), out))).0
}

fn decrypt(fixture: &Fixture, values: &[Scalar<'_>]) -> Vec<u8> {
    let options = DecryptOptions::new("acme");
    run(fixture, frame(|out| request::decrypt(9, &options, values.iter().copied(), out))).0
}

fn values(answer: &[u8]) -> Vec<Scalar<'_>> {
    ValuesResult::decode(result(answer)).expect("values").values.iter().map(|value| value.expect("a scalar")).collect()
}

#[test]
fn inspection_takes_a_context_for_each_envelope_and_may_leave_those_that_do_not_open() {
    let fixture = fixture();
    let options = EncryptOptions { scheme: Some(Scheme::Symmetric), role: Some("pci"), ..EncryptOptions::new("acme") };
    let (own, texts) = (["row 1", "row 2"], [Scalar::from("a"); 2]);
    let answer = run(&fixture, frame(|out| request::encrypt_bound(9, &options, &own, texts.into_iter(), out))).0;
    let sealed = values(&answer);
    // Long ones, which are opened in steps, too.
    let long = "a".repeat(300_000);
    let of_long = EncryptOptions { context: Some("row 3"), ..options };
    let answer = encrypt(&fixture, &of_long, &[Scalar::from(long.as_str())]);
    let long = values(&answer);
    let envelopes = [text_of(&sealed[0]), text_of(&sealed[1]), text_of(&long[0])];
    let inspect = |contexts: [&str; 3], on_failure| {
        let options = InspectOptions { on_failure, ..InspectOptions::new("acme") };
        run(&fixture, frame(|out| request::inspect_bound(9, &options, &contexts, envelopes.into_iter(), out))).0
    };
    let facts = |answer: &[u8]| {
        let inspected = InspectResult::decode(result(answer)).expect("a list");
        let inspected = inspected.iter().map(|one| one.expect("facts"));
        inspected.map(|one| (one.role, one.key_version, one.unopened)).collect::<Vec<_>>()
    };
    let opened = || (Some("pci".to_owned()), Some(1), None);
    assert_eq!(facts(&inspect(["row 1", "row 2", "row 3"], None)), [opened(), opened(), opened()]);
    assert_eq!(fault(&inspect(["row 1", "row 1", "row 3"], None)).0, "decrypt_failed");
    let unopened = || (None, Some(1), Some(true));
    let leave = Some(RewrapFailure::Leave);
    assert_eq!(facts(&inspect(["row 1", "row 1", "row 1"], leave)), [opened(), unopened(), unopened()]);
    assert_eq!(facts(&inspect(["row 2", "row 2", "row 3"], leave)), [unopened(), opened(), opened()]);
}

#[test]
fn inspection_opens_in_the_context_alone() {
    let fixture = fixture();
    let bound =
        EncryptOptions { scheme: Some(Scheme::Symmetric), context: Some("row 17"), ..EncryptOptions::new("acme") };
    let answer = encrypt(&fixture, &bound, &[Scalar::from("a")]);
    let envelope = text_of(&values(&answer)[0]);
    let inspect = |app: &str, context| {
        let options = InspectOptions { context, ..InspectOptions::new(app) };
        run(&fixture, frame(|out| request::inspect_with(9, &options, [envelope].into_iter(), out))).0
    };
    let answer = inspect("acme", Some("row 17"));
    let reported = InspectResult::decode(result(&answer)).expect("a list").iter().next().expect("one").expect("facts");
    assert_eq!((reported.scheme, reported.key_version), (Some(Scheme::Symmetric), Some(1)));
    for (app, context, code) in [
        ("acme", None, "decrypt_failed"),
        ("acme", Some("row 18"), "decrypt_failed"),
        ("", Some("row 17"), "invalid_params"),
    ] {
        assert_eq!(fault(&inspect(app, context)).0, code, "{context:?}");
    }
}

#[test]
fn native_values_round_trip() {
    let fixture = fixture();
    let mut given: Vec<Scalar<'_>> = vec![
        Scalar::Nil,
        Scalar::from("text"),
        Scalar::UInt(u64::MAX),
        Scalar::Int(i64::MIN),
        Scalar::Float(1e21),
        Scalar::Float(0.1),
        Scalar::Bool(false),
        Scalar::from(""),
        Scalar::Nil,
    ];
    let long = "x".repeat(200_000);
    given.push(Scalar::from(long.as_str()));
    for keying in [Keying::Field, Keying::Request, Keying::Session] {
        for role in [None, Some("card")] {
            let options = EncryptOptions { keying: Some(keying), role, ..EncryptOptions::new("acme") };
            let sealed = encrypt(&fixture, &options, &given);
            let envelopes = values(&sealed);
            assert_eq!(envelopes.len(), given.len());
            for (value, envelope) in given.iter().zip(&envelopes) {
                match (value, envelope) {
                    (Scalar::Nil, Scalar::Nil) => (),
                    (_, Scalar::Str(text)) => assert!(text.as_bytes().starts_with(b"ev:")),
                    other => panic!("{other:?}"),
                }
            }
            assert_eq!(values(&decrypt(&fixture, &envelopes)), given);
        }
    }
    let plain = [Scalar::from("no envelope"), Scalar::UInt(7), Scalar::Nil, Scalar::Bool(true)];
    assert_eq!(values(&decrypt(&fixture, &plain)), plain);
    assert_eq!(values(&encrypt(&fixture, &EncryptOptions::new("acme"), &[])), []);
}

#[test]
fn long_lists_take_many_steps_and_keep_their_order() {
    let fixture = fixture_with(Settings { step_values_max: 7, ..Settings::default() }, 1 << 30);
    let texts: Vec<String> = (0..500).map(|i| format!("value {i}")).collect();
    let given: Vec<Scalar<'_>> = texts.iter().map(|text| Scalar::from(text.as_str())).collect();
    let options = EncryptOptions::new("acme");
    let (sealed, steps) = run(&fixture, frame(|out| request::encrypt(9, &options, given.iter().copied(), out)));
    assert!(steps >= 500 / 7, "{steps} steps");
    let mut envelopes = values(&sealed);
    // Envelopes under other keys between them: each run costs a key agreement and ends a step.
    let others: Vec<Vec<u8>> = (0..5).map(|_| encrypt(&fixture, &options, &given[..1])).collect();
    let mut expected = given.clone();
    for (i, other) in others.iter().enumerate() {
        envelopes.insert(i * 90, values(other)[0]);
        expected.insert(i * 90, given[0]);
        envelopes.insert(i * 90, Scalar::Bool(true));
        expected.insert(i * 90, Scalar::Bool(true));
    }
    assert_eq!(values(&decrypt(&fixture, &envelopes)), expected);
}

#[test]
fn documents_files_and_lists() {
    let fixture = fixture();
    let document = br#" {"card":"4242", "n": 1.50, "x": null} "#;
    let select: &[&str] = &["$.card"];
    let options = EncryptOptions::new("acme");
    let (sealed, _) = run(&fixture, frame(|out| request::encrypt_document(9, &options, Some(select), document, out)));
    let sealed = DocumentResult::decode(result(&sealed)).map(|r| (r.document.to_vec(), r.count)).expect("a document");
    assert_eq!(sealed.1, 1);
    assert!(sealed.0.ends_with(br#", "n": 1.50, "x": null} "#));
    let opened =
        run(&fixture, frame(|out| request::decrypt_document(9, &DecryptOptions::new("acme"), None, &sealed.0, out)));
    assert_eq!(DocumentResult::decode(result(&opened.0)).expect("a document").document, document);
    let none: &[&str] = &[];
    let (refused, _) = run(&fixture, frame(|out| request::encrypt_document(9, &options, Some(none), document, out)));
    assert_eq!(fault(&refused).0, "invalid_params", "an empty list would send the document back unencrypted");

    let (file, _) =
        run(&fixture, frame(|out| request::encrypt_file(9, &EncryptFileOptions::new("acme"), b"content", out)));
    let file = FileResult::decode(result(&file)).expect("a file").data.to_vec();
    let (content, _) =
        run(&fixture, frame(|out| request::decrypt_file(9, &DecryptFileOptions::new("acme"), &file, out)));
    assert_eq!(FileResult::decode(result(&content)).expect("a file").data, b"content");

    let answer =
        encrypt(&fixture, &EncryptOptions { role: Some("card"), ..options }, &[Scalar::from("a"), Scalar::UInt(1)]);
    let texts: Vec<&str> = values(&answer).iter().map(|value| text_of(value)).collect();
    let (reported, _) = run(&fixture, frame(|out| request::inspect(9, Some("acme"), texts.iter().copied(), out)));
    let reported: Vec<_> =
        InspectResult::decode(result(&reported)).expect("a list").iter().map(|e| e.expect("facts")).collect();
    assert_eq!(
        (reported[0].version.as_str(), reported[0].role.as_deref(), reported[0].origin, reported[0].key_version),
        ("QkTC", Some("card"), Some(70), Some(1))
    );
    let (reported, _) = run(&fixture, frame(|out| request::inspect(9, None, texts.iter().copied(), out)));
    let reported: Vec<_> =
        InspectResult::decode(result(&reported)).expect("a list").iter().map(|e| e.expect("facts")).collect();
    assert_eq!(
        (reported[1].role.as_deref(), reported[1].key_version),
        (None, None),
        "without an app nothing is opened"
    );

    fixture.engine.engine.store().rotate(&AppName::parse("acme").expect("a name")).expect("rotated");
    fixture.service.maintain();
    let (new, _) =
        run(&fixture, frame(|out| request::rewrap(9, &RewrapOptions::new("acme"), texts.iter().copied(), out)));
    let new = RewrapResult::decode(result(&new)).expect("a list");
    assert_eq!((new.count, new.values.count()), (2, 2));

    let (keys, _) = run(&fixture, frame(|out| request::query(9, &PublicKeysParams { app: "acme" }, out)));
    let keys = PublicKeySet::decode(result(&keys)).expect("keys");
    assert_eq!((keys.app.as_str(), keys.version, keys.r1.len(), keys.k1.len()), ("acme", 2, 33, 33));
    assert!(keys.r1_pem.is_some_and(|pem| pem.starts_with("-----BEGIN PUBLIC KEY-----")));
    let (facts, _) = run(&fixture, frame(|out| request::info(9, out)));
    let facts = InfoResult::decode(result(&facts)).expect("facts");
    let facts: Vec<(&str, &str)> = facts.facts.iter().map(|(name, fact)| (name.as_str(), fact.as_str())).collect();
    assert!(facts.contains(&("protocol", "1")) && facts.contains(&("frame_size_max", "1073741824")), "{facts:?}");
    let named = |name| facts.iter().any(|(fact, _)| *fact == name);
    assert!(["version", "elements_max", "depth_max", "aes-256-gcm"].into_iter().all(named), "{facts:?}");
}

/// A relay learns only the necessary facts about a key, only for its own apps, and nothing about invalid keys.
#[test]
fn the_owner_of_an_api_key_is_returned_to_those_who_may_use_its_app() {
    let fixture = fixture();
    let store = fixture.engine.engine.store();
    let shown = |app: &str, roles: &[&str]| {
        let secret = ApiKeySecret::generate(&mut system_random());
        let roles: BTreeSet<RoleName> = roles.iter().map(|role| RoleName::parse(role).expect("a role")).collect();
        let app = AppName::parse(app).expect("a name");
        let operations = [Operation::Encrypt, Operation::IssueTokens].into();
        let roles = if roles.is_empty() { Roles::Any } else { Roles::Only(roles) };
        let key = store.create_api_key(&NewApiKey {
            app,
            operations,
            roles,
            accept: AcceptedSchemes::ALL,
            secret_sha256: secret.sha256(),
        });
        let id = key.expect("made").id;
        (secret.text(&id), id)
    };
    let ((own, own_id), (with_roles, _)) = (shown("acme", &[]), shown("acme", &["card", "pin"]));
    let (others, _) = shown("other", &[]);
    fixture.service.maintain();
    let ask = |key: &str| {
        let params = AuthenticateParams { api_key: SecretText(key), client: None };
        run(&fixture, frame(|out| request::query(9, &params, out))).0
    };

    let answer = ask(&own);
    let reported = ApiKeyFacts::decode(result(&answer)).expect("a key");
    assert_eq!((reported.key_id.as_str(), reported.app.as_str()), (own_id.as_str(), "acme"));
    assert_eq!(reported.operations, ["encrypt", "client-side-tokens"]);
    assert_eq!(reported.roles, None);
    let answer = ask(&with_roles);
    let reported = ApiKeyFacts::decode(result(&answer)).expect("a key");
    assert_eq!(reported.roles, Some(vec!["card".to_owned(), "pin".to_owned()]));

    let wrong_secret = format!("{}{}", &own[..own.len() - 1], if own.ends_with('0') { '1' } else { '0' });
    let refused = |key: &str| {
        let answer = ask(key);
        let Ok(Message::Response { result: Err(error), .. }) = Message::parse(&answer) else { panic!("not refused") };
        let error = error.error().expect("an error object");
        assert_eq!(error.code, "forbidden");
        error.message.to_owned()
    };
    let not_good = refused(&wrong_secret);
    assert_eq!([refused("x"), refused("lsk_0123456789abcdef_00")], [not_good.clone(), not_good.clone()]);
    assert!(refused(&others).contains("an app that this client may not use"));
    store.revoke_api_key(&own_id).expect("revoked");
    fixture.service.maintain();
    assert_eq!(refused(&own), not_good);
}

fn text_of<'a>(value: &Scalar<'a>) -> &'a str {
    match value {
        Scalar::Str(text) => text.as_str(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_tree_of_a_document_counts_as_memory_of_its_request() {
    let fixture = fixture_with(Settings { step_bytes_max: 4096, ..Settings::default() }, 1 << 30);
    let document = format!("[{}]", vec!["7"; 10_000].join(","));
    for (selector, expected) in [("$[?@ == 8]", 10_001 * 32), ("$[-1]", 4), ("$.a", 0)] {
        let select = [selector];
        let frame = frame(|out| {
            request::encrypt_document(9, &EncryptOptions::new("acme"), Some(&select), document.as_bytes(), out);
        });
        let mut request =
            fixture.service.request(&fixture.caller, frame, 9, Instant::now(), Arc::new(Cancellation::new()), None);
        while request.step(&mut Vec::new()).expect("a step") == RequestStep::More {}
        let mut memory_max = request.memory();
        while !matches!(request.work().next_part().expect("a part"), PlannedRequest::Last(_) | PlannedRequest::None) {
            memory_max = memory_max.max(request.memory());
        }
        // Memory is allocated in chunks of 64 KiB.
        let is_counted =
            if expected == 0 { memory_max == 0 } else { (expected..expected + (256 << 10)).contains(&memory_max) };
        assert!(is_counted, "{selector}: {memory_max} bytes");
        assert_eq!(request.memory(), 0, "{selector}: all is handed out");
    }
}

#[test]
fn faults_name_their_place_and_later_requests_are_served() {
    let fixture = fixture_with(Settings { step_values_max: 2, ..Settings::default() }, 1 << 30);
    let sealed = encrypt(&fixture, &EncryptOptions::new("acme"), &[Scalar::from("secret text"); 5]);
    let envelopes = values(&sealed);
    let good = text_of(&envelopes[3]);
    let forged = format!(
        "{}{}:$",
        &good[..good.len() - 4],
        if &good[good.len() - 4..good.len() - 3] == "A" { "BA" } else { "AA" }
    );
    let cut = &good[..good.len() - 2];
    for (bad, code) in [(forged.as_str(), "decrypt_failed"), (cut, "invalid_envelope")] {
        let mut list = envelopes.clone();
        list[3] = Scalar::from(bad);
        assert_eq!(fault(&decrypt(&fixture, &list)), (code.to_owned(), Some(3), None));
    }
    let code_of = |frame: Vec<u8>| fault(&run(&fixture, frame).0).0;
    let to = EncryptOptions::new;
    let none: &[Scalar<'_>] = &[];
    let encrypt_to = |app| frame(|out| request::encrypt(9, &to(app), none.iter().copied(), out));
    assert_eq!(code_of(encrypt_to("other")), "forbidden");
    assert_eq!(code_of(encrypt_to("none")), "forbidden");
    assert_eq!(code_of(frame(|out| request::query(9, &PublicKeysParams { app: "other" }, out))), "forbidden");
    let bad_document = frame(|out| request::encrypt_document(9, &to("acme"), None, b"{\"a\":}", out));
    assert_eq!(fault(&run(&fixture, bad_document).0), ("invalid_document".to_owned(), None, Some(5)));
    let bad_selector = frame(|out| request::encrypt_document(9, &to("acme"), Some(&["$.a", "$["]), b"{}", out));
    assert_eq!(fault(&run(&fixture, bad_selector).0), ("invalid_selector".to_owned(), Some(1), Some(2)));
    let in_another_case = |other_case| {
        let options = EncryptOptions { other_case, ..to("acme") };
        run(&fixture, frame(|out| request::encrypt_document(9, &options, Some(&["$.pin"]), b"{\"PIN\":1}", out))).0
    };
    assert_eq!(fault(&in_another_case(Some(OtherCase::Refuse))), ("ambiguous_name".to_owned(), None, Some(1)));
    for (other_case, count) in [(None, 0), (Some(OtherCase::Other), 0), (Some(OtherCase::Same), 1)] {
        let answer = in_another_case(other_case);
        let sealed = answer.windows(3).filter(|bytes| *bytes == b"ev:").count();
        assert_eq!(sealed, count, "{other_case:?}");
    }
    // Without permission for the app, a caller's selectors are not compiled either.
    let forbidden = frame(|out| request::encrypt_document(9, &to("other"), Some(&["$["]), b"{}", out));
    assert_eq!(code_of(forbidden), "forbidden");
    let no_file = frame(|out| request::decrypt_file(9, &DecryptFileOptions::new("acme"), b"no file", out));
    assert_eq!(code_of(no_file), "invalid_envelope");
    let mut unknown = vec![0x94, 0x00, 0x09, 0xa4];
    unknown.extend_from_slice(b"melt\x90");
    assert_eq!(code_of(unknown), "unknown_method");
    assert_eq!(values(&decrypt(&fixture, &envelopes)), [Scalar::from("secret text"); 5], "healthy afterwards");
}

#[test]
fn an_answer_past_its_limit_is_refused_and_its_memory_given_back() {
    let fixture = fixture_with(Settings::default(), 10_000);
    let answer = encrypt(&fixture, &EncryptOptions::new("acme"), &[Scalar::from("x"); 1_000]);
    assert_eq!(fault(&answer).0, "too_large");
    assert!(answer.capacity() < 1_000, "{}", answer.capacity());
}

#[test]
fn the_deadline_is_set_before_any_work() {
    let fixture = fixture();
    let options = EncryptOptions { deadline_ms: Some(50), ..EncryptOptions::new("acme") };
    let list = [Scalar::from("x")];
    let frame = frame(|out| request::encrypt(9, &options, list.iter().copied(), out));
    let cancellation = Arc::new(Cancellation::new());
    let arrived = Instant::now();
    let mut request = fixture.service.request(&fixture.caller, frame, 9, arrived, Arc::clone(&cancellation), None);
    assert_eq!(cancellation.deadline(), None);
    assert_eq!(request.step(&mut Vec::new()), Ok(RequestStep::More));
    assert_eq!(cancellation.deadline(), Some(arrived + Duration::from_millis(50)));
    assert_eq!(cancellation.check(arrived + Duration::from_millis(50)), Err(StopReason::DeadlineExceeded));
}

#[test]
fn strangers_are_refused_before_they_ask() {
    let fixture = fixture();
    let refused = |name: &str, certificate_sha256| {
        let peer = PeerIdentity { name: name.to_owned(), certificate_sha256 };
        fixture.service.authenticate(&peer, ORIGIN).map(drop).expect_err("refused").message
    };
    assert!(refused("stranger", PEER).contains("not known"));
    assert!(refused("tester", [8; 32]).contains("another certificate"));
    fixture.engine.engine.store().disable_client(&ClientName::parse("tester").expect("a name")).expect("disabled");
    fixture.service.maintain();
    assert!(refused("tester", PEER).contains("disabled"));
}

/// A request counts to an app once the app is cached; requests with unknown names count to the caller.
#[test]
fn a_request_counts_to_an_app_that_is_the_callers_to_use_and_else_to_the_caller() {
    let fixture = fixture();
    let (service, caller) = (&fixture.service, &*fixture.caller);
    let client = Tenant::Client("tester");
    assert_eq!(service.tenant(caller, Some("acme")), client, "nothing has asked for it yet");
    encrypt(&fixture, &EncryptOptions::new("acme"), &[Scalar::from("x")]);
    for app in ["other", "made-up", "", "no name \n"] {
        run(&fixture, frame(|out| request::query(9, &PublicKeysParams { app }, out)));
        assert_eq!(service.tenant(caller, Some(app)), client, "{app}");
    }
    assert_eq!(service.tenant(caller, Some("acme")), Tenant::App("acme"));
    assert_eq!(service.tenant(caller, None), client);
    let owner = leafseal_engine::Caller::Owner;
    assert_eq!(service.tenant(&owner, Some("acme")), Tenant::App("acme"));
    assert_eq!(service.tenant(&owner, Some("made-up")), Tenant::Owner);
    let (name, certificate_sha256) = (ClientName::parse("tester").expect("a name"), [8; 32]);
    let pretender = leafseal_engine::Caller::Client { name, certificate_sha256 };
    assert_eq!(service.tenant(&pretender, Some("acme")), client, "with another certificate");
    fixture.engine.engine.store().disable_app(&AppName::parse("acme").expect("a name")).expect("disabled");
    service.maintain();
    encrypt(&fixture, &EncryptOptions::new("acme"), &[Scalar::from("x")]);
    assert_eq!(service.tenant(caller, Some("acme")), client, "disabled");
}
