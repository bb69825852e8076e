//! Small requests that a network thread runs itself: nothing but the thread differs from those that workers run.

use std::collections::BTreeSet;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, Instant};

use leafseal_engine::admin::{
    AcceptedSchemes, AppName, Apps, ClientName, Keystore, NewClient, NewKeys, Operation, Roles,
};
use leafseal_engine::pool::PoolClock;
use leafseal_engine::{Engine, EntryPoint, RequestOrigin, Settings};
use leafseal_protocol::{
    Curve, DecryptOptions, DocumentResult, EncryptOptions, FrameBuffer, FrameLimits, Keying, Message, OnFailure,
    RewrapOptions, Scalar, Scheme, ValuesResult, request,
};
use leafseal_server::simulation::Simulated;
use leafseal_server::{Server, ServerSettings};
use leafseal_service::{EngineService, PeerIdentity, Service};
use leafseal_testkit::{GatedStore, RecordedDecisions, ScratchStore};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};

use crate::common::operator::get;
use crate::common::{PATIENCE, Pki, Raw, raw_connector, wait_until};
use crate::turns::{Stream, TURN_MESSAGES_MAX};

fn client(name: &str, operations: &[Operation]) -> NewClient {
    NewClient {
        name: ClientName::parse(name).expect("a name"),
        apps: Apps::Only(["acme", "other"].map(|app| AppName::parse(app).expect("a name")).into()),
        operations: operations.iter().copied().collect::<BTreeSet<_>>(),
        roles: Roles::Any,
        accept: AcceptedSchemes::ALL,
        certificate_sha256: None,
    }
}

fn store() -> ScratchStore {
    let store = ScratchStore::new(&["acme", "other", "closed"]);
    let keystore = store.open();
    keystore.put_client(&client("shop", &[Operation::Encrypt, Operation::Decrypt])).expect("stored");
    keystore.put_client(&client("writer", &[Operation::Encrypt])).expect("stored");
    store
}

/// Sends one request after another, by the names of clients, and collects the answers.
type Ask<'a> = dyn FnMut(&str, &dyn Fn(u32, &mut Vec<u8>)) -> Vec<u8> + 'a;

/// What a run of requests left behind.
#[derive(Debug, PartialEq, Eq)]
struct Records {
    /// Answers as they are, except those with new envelopes, which are decrypted.
    answers: Vec<String>,
    decisions: Vec<String>,
    metrics: Vec<String>,
}

fn envelopes(answer: &[u8]) -> Vec<String> {
    let Ok(Message::Response { result: Ok(result), .. }) = Message::parse(answer) else { panic!("{answer:?}") };
    let values = ValuesResult::decode(result).expect("values").values;
    let text = |value| match value {
        Scalar::Str(text) => text.as_str().to_owned(),
        other => format!("{other:?}"),
    };
    values.iter().map(|value| text(value.expect("a value"))).collect()
}

fn scalars(texts: &[String]) -> Vec<Scalar<'_>> {
    texts.iter().map(|text| Scalar::from(text.as_str())).collect()
}

/// Every option of `encrypt` and `decrypt`, and requests of other kinds among them. `foreign` is sealed for another app.
fn requests(ask: &mut Ask<'_>, foreign: &str) -> Vec<String> {
    let mut answers = Vec::new();
    let all = EncryptOptions::new("acme");
    let some = [Scalar::from("text"), Scalar::Nil, Scalar::UInt(5), Scalar::Bool(true), Scalar::from("")];
    for round in 0..3 {
        for keying in [None, Some(Keying::Request), Some(Keying::Session), Some(Keying::Field)] {
            for (scheme, curve, role) in [
                (None, None, None),
                (None, Some(Curve::K1), Some("card")),
                (Some(Scheme::Symmetric), None, None),
                (Some(Scheme::Symmetric), None, Some("card")),
            ] {
                let options = EncryptOptions { scheme, keying, curve, role, ..all };
                for values in [&some[..1], &some, &[Scalar::from("x"); 90], &[Scalar::from("x"); 300], &[]] {
                    let sealed = ask("shop", &|id, out| request::encrypt(id, &options, values.iter().copied(), out));
                    let sealed = envelopes(&sealed);
                    let decrypt = |role, on_failure, values: &[Scalar<'_>], ask: &mut Ask<'_>| {
                        let options = DecryptOptions { role, on_failure, ..DecryptOptions::new("acme") };
                        ask("shop", &|id, out| request::decrypt(id, &options, values.iter().copied(), out))
                    };
                    // The second time its key is known.
                    for _ in 0..2 {
                        let opened = decrypt(None, None, &scalars(&sealed), ask);
                        answers.push(format!("{round} {keying:?} {} {}", sealed.concat().len(), shown(&opened)));
                    }
                    let mut mixed = sealed.clone();
                    mixed.extend(["no envelope".to_owned(), foreign.to_owned()]);
                    let mixed = scalars(&mixed);
                    for (role, on_failure) in
                        [(None, None), (None, Some(OnFailure::Null)), (Some("card"), None), (Some("other"), None)]
                    {
                        let answer = decrypt(role, on_failure, &mixed, ask);
                        answers.push(shown(&answer));
                    }
                }
            }
        }
    }
    answers.extend(documents(ask, foreign));
    answers.extend(refused(ask, foreign));
    answers
}

/// A text without the envelopes in it, which differ in each run.
fn without_envelopes(mut text: &str) -> String {
    let mut kept = String::new();
    while let Some((before, envelope)) = text.split_once("ev:") {
        kept.extend([before, "ENVELOPE"]);
        text = envelope.split_once(":$").map_or("", |(_, after)| after);
    }
    kept + text
}

/// Documents, small and not so small, as they are and with selectors.
fn documents(ask: &mut Ask<'_>, foreign: &str) -> Vec<String> {
    let mut answers = Vec::new();
    let (small, lines) = (r#"{"a":"x","b":[1,null,2.5,true,""],"c":{"d":"\u00e9"}}"#, "{\"a\":1}\n\n[2,\"x\"]\n");
    let large = format!("[{}0]", "\"x\",".repeat(500));
    for keying in [None, Some(Keying::Session), Some(Keying::Field)] {
        for (document, is_lines) in
            [(small, false), (lines, true), ("7", false), ("", false), ("{", false), (&large, false)]
        {
            for select in [None, Some(&["$.a", "$.b[*]"][..])] {
                let options = EncryptOptions { keying, lines: is_lines, ..EncryptOptions::new("acme") };
                let encrypt = |id, out: &mut Vec<u8>| {
                    request::encrypt_document(id, &options, select, document.as_bytes(), out);
                };
                let sealed = ask("shop", &encrypt);
                let Ok(Message::Response { result: Ok(result), .. }) = Message::parse(&sealed) else {
                    answers.push(shown(&sealed));
                    continue;
                };
                let sealed = DocumentResult::decode(result).expect("a document").document.to_vec();
                let with_foreign = [b"[".as_slice(), &sealed, b",\"", foreign.as_bytes(), b"\"]"].concat();
                for on_failure in [None, Some(OnFailure::Null), Some(OnFailure::Leave)] {
                    for document in [&sealed, &sealed, &with_foreign] {
                        let options = DecryptOptions { on_failure, lines: is_lines, ..DecryptOptions::new("acme") };
                        let answer =
                            ask("shop", &|id, out| request::decrypt_document(id, &options, select, document, out));
                        answers.push(format!("{} {}", sealed.len(), without_envelopes(&shown(&answer))));
                    }
                }
            }
        }
    }
    answers
}

fn shown(answer: &[u8]) -> String {
    String::from_utf8_lossy(answer).into_owned()
}

/// Requests that fail, and some that no network thread runs.
fn refused(ask: &mut Ask<'_>, foreign: &str) -> Vec<String> {
    let one = [Scalar::from("text")];
    let mut answers = Vec::new();
    let all = EncryptOptions::new("acme");
    for options in [
        EncryptOptions { deadline_ms: Some(0), ..all },
        EncryptOptions { deadline_ms: Some(60_000), role: Some("not a role"), ..all },
        EncryptOptions { skip_sealed: true, ..all },
        EncryptOptions::new("closed"),
        EncryptOptions::new("nowhere"),
        EncryptOptions::new("no name"),
        EncryptOptions::new(""),
    ] {
        for client in ["shop", "writer"] {
            let answer = ask(client, &|id, out| request::encrypt(id, &options, one.iter().copied(), out));
            answers.push(match Message::parse(&answer) {
                Ok(Message::Response { result: Ok(_), .. }) => format!("{} values", envelopes(&answer).len()),
                _ => shown(&answer),
            });
        }
    }
    let of = DecryptOptions::new("acme");
    let malformed = foreign.replace(":$", "!:$");
    let texts = [foreign, &malformed, "ev:"].map(|text| [Scalar::from(text)]);
    for values in &texts {
        for client in ["shop", "writer"] {
            for options in [of, DecryptOptions { key_id: Some("unknown"), ..of }, DecryptOptions::new("closed")] {
                answers
                    .push(shown(&ask(client, &|id, out| request::decrypt(id, &options, values.iter().copied(), out))));
            }
        }
    }
    let rewrap = RewrapOptions::new("acme");
    answers.push(shown(&ask("shop", &|id, out| request::rewrap(id, &rewrap, [foreign].into_iter(), out))));
    answers.push(shown(&ask("shop", &|id, out| request::given(id, "encrypt", &[], out))));
    answers.push(shown(&ask("shop", &|id, out| request::given(id, "melt", &[], out))));
    answers.push(shown(&ask("shop", &|id, out| request::health(id, out))));
    answers
}

/// Makes all requests over TLS; returns what they left behind, and how many ran on a network thread.
fn play(store: &ScratchStore, inline_work_max: Duration) -> (Records, u64) {
    let engine = Engine::new(Box::new(store.open()), Settings::default());
    let decisions = RecordedDecisions::new();
    engine.observe_decisions(Arc::<RecordedDecisions>::clone(&decisions));
    let pki = Pki::new();
    let mut settings = ServerSettings { inline_work_max, ..pki.server_settings() };
    settings.operator.address = Some(([127, 0, 0, 1], 0).into());
    let service = EngineService::new(engine.clone(), FrameLimits::default(), 1 << 30);
    let server = Server::start(settings, Arc::new(service)).expect("it starts");
    engine.maintain().expect("refreshed");
    let foreign = foreign(&engine);
    decisions.take();
    let connect = |name: &str| Raw::connect(server.local_addr(), raw_connector(&pki, Some(pki.client(name))));
    let (mut shop, mut writer, mut id) = (connect("shop"), connect("writer"), 0);
    let mut ask = |client: &str, encode: &dyn Fn(u32, &mut Vec<u8>)| {
        id += 1;
        let raw = if client == "shop" { &mut shop } else { &mut writer };
        // The first two requests of a connection are tried on its network thread, whatever becomes of them.
        if id % 2 == 0 {
            *raw = connect(client);
        }
        raw.send(|out| encode(id, out));
        raw.read_frame().expect("an answer")
    };
    let answers = requests(&mut ask, &foreign);
    let metrics = get(server.operator_addr().expect("there is one"), "/metrics").1;
    let families =
        ["leafseal_requests_total", "leafseal_fields_total", "leafseal_request_bytes", "leafseal_answer_bytes"];
    // How far a request came before it failed depends on where its slices ended.
    let is_effort = |line: &str| line.starts_with("leafseal_fields_total") && !line.contains("outcome=\"ok\"");
    let is_of = |line: &&str| families.iter().any(|family| line.starts_with(family)) && !is_effort(line);
    let metrics = metrics.lines().filter(is_of).map(str::to_owned).collect();
    (Records { answers, decisions: decisions.take(), metrics }, server.counters().pool.jobs_inline)
}

/// A value of another app.
fn foreign(engine: &Engine) -> String {
    let options = leafseal_engine::EncryptOptions::new("other");
    let mut encryptor = engine.encryptor(&leafseal_engine::Caller::Owner, &options).expect("permitted");
    let value = leafseal_engine::SealedInput { value_type: leafseal_engine::ValueType::String, text: b"foreign" };
    let mut out = Vec::new();
    encryptor.encrypt(&[value], &mut out, |_, _, _| {}).expect("encrypted");
    String::from_utf8(out).expect("text")
}

#[test]
fn every_answer_and_record_is_the_same_on_either_thread() {
    let store = store();
    let (workers, none) = play(&store, Duration::ZERO);
    let (both, inline) = play(&store, ServerSettings::default().inline_work_max);
    assert_eq!(none, 0);
    assert!(inline > 100, "only {inline} requests ran on the network thread");
    assert!(workers.answers.len() > 400 && workers.metrics.len() > 10, "not much was tested");
    for (name, workers, both) in [
        ("answer", &workers.answers, &both.answers),
        ("decision", &workers.decisions, &both.decisions),
        ("metric", &workers.metrics, &both.metrics),
    ] {
        let different = (0..).zip(workers).zip(both).find(|((_, worker), other)| worker != other);
        assert!(different.is_none() && workers.len() == both.len(), "a {name} differs: {different:?}");
    }
}

/// A clock of slices that stands still: on a busy machine a thread may lose the processor within a slice, which ends it.
struct Still(Instant);

impl PoolClock for Still {
    fn now(&self) -> Instant {
        self.0
    }
}

/// A server without threads: nothing runs on a worker unless the test calls for it.
struct Manual {
    server: Simulated<EngineService>,
    engine: Engine,
    _store: ScratchStore,
}

impl Manual {
    fn new(inline_work_max: Duration) -> Manual {
        let store = store();
        // A session that no busy machine lets grow old.
        let lasting = Settings { session_age_max: Duration::from_secs(3_600), ..Settings::default() };
        let engine = Engine::new(Box::new(store.open()), lasting);
        let service = EngineService::new(engine.clone(), FrameLimits::default(), 1 << 30);
        service.maintain();
        let settings = ServerSettings { inline_work_max, ..ServerSettings::new(Pki::new().server_tls()) };
        let server = Simulated::new(settings, Arc::new(service), Arc::new(Still(Instant::now())));
        let manual = Manual { server, engine, _store: store };
        // The apps are in the cache, and acme has a session.
        ["acme", "other"].into_iter().for_each(|app| _ = manual.seal(app));
        manual
    }

    fn seal(&self, app: &str) -> String {
        let options = leafseal_engine::EncryptOptions {
            keying: Some(leafseal_engine::Keying::Session),
            ..leafseal_engine::EncryptOptions::new(app)
        };
        let caller = leafseal_engine::Caller::Client {
            name: ClientName::parse("shop").expect("a name"),
            certificate_sha256: [0; 32],
        };
        let mut encryptor = self.engine.encryptor(&caller, &options).expect("permitted");
        let value = leafseal_engine::SealedInput { value_type: leafseal_engine::ValueType::String, text: b"text" };
        let mut out = Vec::new();
        encryptor.encrypt(&[value], &mut out, |_, _, _| {}).expect("encrypted");
        String::from_utf8(out).expect("text")
    }

    fn connect(&self) -> (DuplexStream, impl Future<Output = ()> + '_) {
        const ORIGIN: RequestOrigin = RequestOrigin::of(EntryPoint::Rpc);
        let peer = PeerIdentity { name: "shop".to_owned(), certificate_sha256: [0; 32] };
        let service = EngineService::new(self.engine.clone(), FrameLimits::default(), 1 << 30);
        let caller = service.authenticate(&peer, ORIGIN).expect("granted");
        let (client, socket) = duplex(1 << 20);
        (client, self.server.accept(caller, Stream(socket)).expect("there is room"))
    }

    fn inline(&self) -> u64 {
        self.server.counters().pool.jobs_inline
    }

    fn waiting(&self) -> usize {
        self.server.counters().pool.jobs_waiting
    }
}

fn session(id: u32, app: &str, count: usize, out: &mut Vec<u8>) {
    let options = EncryptOptions { keying: Some(Keying::Session), ..EncryptOptions::new(app) };
    request::encrypt(id, &options, vec![Scalar::from("text"); count].into_iter(), out);
}

/// Polls a connection until it has nothing to do; `after` each turn.
async fn serve(manual: &Manual, mut serving: Pin<&mut impl Future<Output = ()>>, mut after: impl FnMut()) {
    loop {
        let before = (manual.server.counters().requests, manual.inline());
        let is_over = poll_fn(|cx| Poll::Ready(serving.as_mut().poll(cx).is_ready())).await;
        assert!(!is_over);
        after();
        if manual.server.turns_are_taken() && before == (manual.server.counters().requests, manual.inline()) {
            return;
        }
        tokio::task::yield_now().await;
    }
}

/// The ids of the answers that have arrived, as many as are expected, all of them results.
async fn answered(client: &mut DuplexStream, count: usize) -> Vec<u32> {
    let (mut frames, mut ids) = (FrameBuffer::new(FrameLimits::default()), Vec::new());
    while ids.len() < count {
        client.read_buf(frames.spare()).await.expect("an answer");
        while let Some(frame) = frames.next_frame().expect("a frame") {
            match Message::parse(frame.head()) {
                Ok(Message::Response { id, result: Ok(_) }) => ids.push(id),
                other => panic!("{other:?}"),
            }
        }
    }
    ids
}

/// A network thread answers small requests, of which as many have arrived as a turn handles, without any worker.
#[tokio::test]
async fn a_network_thread_answers_small_requests_itself() {
    let manual = Manual::new(Duration::from_micros(20));
    let (mut client, serving) = manual.connect();
    let mut serving = pin!(serving);
    let mut messages = Vec::new();
    (0..40).for_each(|id| session(id, "acme", 1, &mut messages));
    // That of a cancelled request is sent already.
    request::cancel(39, &mut messages);
    client.write_all(&messages).await.unwrap();
    let mut before = 0;
    let in_turn = || {
        let inline = manual.inline() - std::mem::replace(&mut before, manual.inline());
        assert!(inline <= TURN_MESSAGES_MAX, "{inline} requests in a turn");
    };
    serve(&manual, serving.as_mut(), in_turn).await;
    assert_eq!((manual.inline(), manual.waiting()), (40, 0));
    assert_eq!(answered(&mut client, 40).await, (0..40).collect::<Vec<_>>());
    // An id may be used again.
    let mut message = Vec::new();
    session(3, "other", 1, &mut message);
    client.write_all(&message).await.unwrap();
    serve(&manual, serving.as_mut(), || {}).await;
    assert_eq!((manual.inline(), answered(&mut client, 1).await), (41, vec![3]));
}

/// Of requests that arrive together and are not small, all go to the workers; so do those behind them.
#[tokio::test]
async fn requests_that_arrive_together_are_left_to_workers_beyond_the_budget() {
    let manual = Manual::new(Duration::from_micros(20));
    let (mut client, serving) = manual.connect();
    let mut serving = pin!(serving);
    let mut messages = Vec::new();
    (0..20).for_each(|id| session(id, "acme", 60, &mut messages));
    client.write_all(&messages).await.unwrap();
    serve(&manual, serving.as_mut(), || {}).await;
    assert_eq!((manual.inline(), manual.waiting()), (0, 20));
    while manual.server.run_one() {}
    serve(&manual, serving.as_mut(), || {}).await;
    let mut ids = answered(&mut client, 20).await;
    ids.sort_unstable();
    assert_eq!(ids, (0..20).collect::<Vec<_>>());
    // Alone it may use the whole budget.
    for (count, is_inline) in [(60, true), (200, false)] {
        let before = manual.inline();
        let mut message = Vec::new();
        session(0, "acme", count, &mut message);
        client.write_all(&message).await.unwrap();
        serve(&manual, serving.as_mut(), || {}).await;
        assert_eq!(manual.inline() - before, u64::from(is_inline), "{count} values");
        while manual.server.run_one() {}
        serve(&manual, serving.as_mut(), || {}).await;
        assert_eq!(answered(&mut client, 1).await, [0]);
    }
}

/// Neither a request of the same app overtakes one that waits, whatever its connection, nor one that has had its share another app's.
#[tokio::test]
async fn a_request_that_waits_is_not_overtaken() {
    let manual = Manual::new(Duration::from_micros(20));
    let ((mut first, one), (mut second, two)) = (manual.connect(), manual.connect());
    let (mut one, mut two) = (pin!(one), pin!(two));
    let mut message = Vec::new();
    session(0, "acme", 300, &mut message);
    session(1, "acme", 1, &mut message);
    first.write_all(&message).await.unwrap();
    serve(&manual, one.as_mut(), || {}).await;
    assert_eq!((manual.inline(), manual.waiting()), (0, 2), "one of its connection waits");
    let mut message = Vec::new();
    session(0, "acme", 1, &mut message);
    second.write_all(&message).await.unwrap();
    serve(&manual, two.as_mut(), || {}).await;
    assert_eq!((manual.inline(), manual.waiting()), (0, 3), "one of its app waits");
    let mut message = Vec::new();
    session(1, "other", 1, &mut message);
    second.write_all(&message).await.unwrap();
    serve(&manual, two.as_mut(), || {}).await;
    assert_eq!((manual.inline(), manual.waiting()), (1, 3), "an app of which nothing waits is the next to be served");
    while manual.server.run_one() {}
    serve(&manual, one.as_mut(), || {}).await;
    serve(&manual, two.as_mut(), || {}).await;
    assert_eq!((answered(&mut first, 2).await.len(), answered(&mut second, 2).await.len()), (2, 2));
}

/// A request whose key needs an agreement, or a look-up, goes to a worker, once.
#[tokio::test]
async fn a_key_that_is_not_known_is_left_to_a_worker() {
    let manual = Manual::new(Duration::from_micros(20));
    let sealed = manual.seal("acme");
    let decrypt = |id, out: &mut Vec<u8>| {
        request::decrypt(id, &DecryptOptions::new("acme"), [Scalar::from(sealed.as_str())].into_iter(), out);
    };
    let field = |id, out: &mut Vec<u8>| {
        let options = EncryptOptions { keying: Some(Keying::Field), ..EncryptOptions::new("acme") };
        request::encrypt(id, &options, [Scalar::from("text")].into_iter(), out);
    };
    let curve = |id, out: &mut Vec<u8>| {
        let (keying, curve) = (Some(Keying::Session), Some(Curve::K1));
        let options = EncryptOptions { keying, curve, ..EncryptOptions::new("acme") };
        request::encrypt(id, &options, [Scalar::from("text")].into_iter(), out);
    };
    let symmetric = |id, out: &mut Vec<u8>| {
        let scheme = Some(Scheme::Symmetric);
        let options = EncryptOptions { scheme, keying: Some(Keying::Field), ..EncryptOptions::new("acme") };
        request::encrypt(id, &options, [Scalar::from("text")].into_iter(), out);
    };
    // Only what needs an agreement each time goes to a worker again; what needs none never does.
    for (ask, inline) in [
        (&decrypt as &dyn Fn(u32, &mut Vec<u8>), [false, true]),
        (&field, [false, false]),
        (&curve, [false, true]),
        (&symmetric, [true, true]),
    ] {
        // On a connection that has tried nothing in vain yet.
        let (mut client, serving) = manual.connect();
        let mut serving = pin!(serving);
        for (round, is_inline) in (0..).zip(inline) {
            let before = manual.inline();
            let mut message = Vec::new();
            ask(round, &mut message);
            client.write_all(&message).await.unwrap();
            serve(&manual, serving.as_mut(), || {}).await;
            assert_eq!((manual.inline() - before, manual.waiting()), (u64::from(is_inline), usize::from(!is_inline)));
            while manual.server.run_one() {}
            serve(&manual, serving.as_mut(), || {}).await;
            assert_eq!(answered(&mut client, 1).await, [round]);
        }
    }
    let (mut client, serving) = manual.connect();
    let mut serving = pin!(serving);
    let mut message = Vec::new();
    session(7, "nowhere", 1, &mut message);
    client.write_all(&message).await.unwrap();
    let before = manual.inline();
    serve(&manual, serving.as_mut(), || {}).await;
    assert_eq!((manual.inline() - before, manual.waiting()), (0, 1));
}

/// Requests that lack their key, among others that do not, are tried no more often than the bound says.
#[tokio::test]
async fn alternating_requests_are_seldom_tried_for_nothing() {
    const REQUESTS: u64 = 300;
    let manual = Manual::new(Duration::from_micros(20));
    for (lacking, bound) in [(2, 6 + REQUESTS / 31), (9, 6 + REQUESTS / 9)] {
        let (mut client, serving) = manual.connect();
        let mut serving = pin!(serving);
        let (mut tried, mut answered_here) = (0, 0);
        for id in 0..u32::try_from(REQUESTS).expect("few") {
            let mut message = Vec::new();
            let keying = if id % lacking == 0 { Keying::Field } else { Keying::Session };
            let options = EncryptOptions { keying: Some(keying), ..EncryptOptions::new("acme") };
            request::encrypt(id, &options, [Scalar::from("text")].into_iter(), &mut message);
            let before = (manual.server.counters().pool.slices, manual.inline());
            client.write_all(&message).await.unwrap();
            serve(&manual, serving.as_mut(), || {}).await;
            tried += manual.server.counters().pool.slices - before.0;
            answered_here += manual.inline() - before.1;
            while manual.server.run_one() {}
            serve(&manual, serving.as_mut(), || {}).await;
            assert_eq!(answered(&mut client, 1).await, [id]);
        }
        let futile = tried - answered_here;
        assert!(futile <= bound && answered_here > 0, "{futile} of {tried}, every {lacking}th lacks its key");
    }
}

/// While the store hangs, requests whose grants and apps are not cached wait for it, and the network thread does not.
#[test]
fn a_store_that_hangs_does_not_hold_up_the_network_thread() {
    let store = store();
    let (gated, gate) = GatedStore::new(Box::new(store.open()));
    let engine = Engine::new(Box::new(gated), Settings { store_wait_max: PATIENCE, ..Settings::default() });
    let pki = Pki::new();
    let service = EngineService::new(engine.clone(), FrameLimits::default(), 1 << 30);
    let server = Server::start(pki.server_settings(), Arc::new(service)).expect("it starts");
    engine.maintain().expect("refreshed");
    let mut raw = Raw::connect(server.local_addr(), raw_connector(&pki, Some(pki.client("shop"))));
    raw.send(|out| session(0, "acme", 1, out));
    assert_eq!(raw.read_response(), (0, String::new()));
    gate.close_for(|name| name == "other");
    raw.send(|out| session(1, "other", 1, out));
    wait_until("it is parked", || server.counters().pool.jobs_parked == 1);
    for id in 2..10 {
        raw.send(|out| session(id, "acme", 1, out));
        assert_eq!(raw.read_response(), (id, String::new()));
    }
    assert!(server.counters().pool.jobs_inline > 0, "some of them were known to the network thread");
    // A change empties the caches: what was known has to be looked up.
    gate.open();
    assert_eq!(raw.read_response(), (1, String::new()));
    engine.store().create_app(&AppName::parse("third").expect("a name"), NewKeys::generated()).expect("created");
    gate.close_for(|name| name == "shop");
    engine.maintain().expect("noticed");
    let before = server.counters().pool.jobs_inline;
    raw.send(|out| session(11, "acme", 1, out));
    wait_until("it is parked", || server.counters().pool.jobs_parked == 1);
    raw.send(|out| request::health(12, out));
    assert_eq!(raw.read_response(), (12, String::new()));
    gate.open();
    assert_eq!(raw.read_response(), (11, String::new()));
    assert_eq!(server.counters().pool.jobs_inline, before);
    assert!(gate.take_threads().iter().all(|thread| !thread.starts_with("leafseal-net")));
}
