//! The counters of `/metrics`: each outcome of a request once, to the byte; connections; and that the documentation lists exactly these.

use std::collections::BTreeMap;
use std::net::TcpStream;
use std::sync::Arc;

use crate::common::operator::{get, sample, settings_of_port, test_server};
use crate::common::{Pki, Raw, TestServer, raw_connector, test_request, wait_until};
use leafseal_engine::admin::{AcceptedSchemes, AppName, Apps, ClientName, NewClient, Operation, Roles};
use leafseal_engine::{EngineCounters, Settings};
use leafseal_net::tls::CertificateExpiry;
use leafseal_protocol::{
    DecryptFileOptions, DecryptOptions, DocumentResult, EncryptFileOptions, EncryptOptions, FileResult, FrameLimits,
    Message, PublicKeysParams, RawValue, RewrapOptions, Scalar, ValuesResult, request,
};
use leafseal_server::{RequestOutcome, Server, ServerSettings};
use leafseal_service::EngineService;
use leafseal_testkit::{EngineFixture, engine};

/// The documentation of the metrics.
const DOCUMENT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/metrics.md");

/// Requests, fields, bytes of requests, bytes of answers.
type Sums = [u64; 4];
const FAMILIES: [&str; 4] = ["requests", "fields", "request_bytes", "answer_bytes"];

/// The traffic by method and outcome.
#[derive(Debug, Default, PartialEq)]
struct Ledger(BTreeMap<(String, String), Sums>);

impl Ledger {
    fn note(&mut self, method: &str, outcome: &str, sums: Sums) {
        let known = self.0.entry((method.to_owned(), outcome.to_owned())).or_default();
        known.iter_mut().zip(sums).for_each(|(known, more)| *known += more);
    }

    /// Reads the traffic from the metrics.
    fn reported(metrics: &str) -> Ledger {
        let mut ledger = Ledger::default();
        for (place, family) in FAMILIES.into_iter().enumerate() {
            let prefix = format!("leafseal_{family}_total{{method=\"");
            for rest in metrics.lines().filter_map(|line| line.strip_prefix(&prefix)) {
                let (method, rest) = rest.split_once("\",outcome=\"").expect("an outcome");
                let (outcome, count) = rest.split_once("\"} ").expect("a count");
                let mut sums = Sums::default();
                sums[place] = count.parse().expect("a whole number");
                ledger.note(method, outcome, sums);
            }
        }
        ledger.0.retain(|_, sums| *sums != Sums::default());
        ledger
    }

    fn requests(&self, of_method: &str) -> u64 {
        self.0.iter().filter(|((method, _), _)| method == of_method).map(|(_, sums)| sums[0]).sum()
    }

    /// Asserts that the metrics agree, and that each request has a duration.
    fn assert_reported(&self, metrics: &str) {
        assert_eq!(*self, Ledger::reported(metrics));
        for (method, _) in self.0.keys() {
            let served = sample(metrics, &format!("leafseal_service_seconds_count{{method=\"{method}\"}}"));
            assert_eq!(served, self.requests(method) as f64, "{method}");
        }
    }
}

/// The workers' time for these requests in seconds.
fn work(metrics: &str, method: &str, outcome: &str) -> f64 {
    sample(metrics, &format!("leafseal_request_work_seconds_total{{method=\"{method}\",outcome=\"{outcome}\"}}"))
}

/// A client that sends requests one after the other and records the traffic.
struct RecordingClient {
    raw: Raw,
    ledger: Ledger,
}

/// The expected result of a request.
struct Expected {
    method: &'static str,
    outcome: &'static str,
    fields: u64,
}

const fn expect(method: &'static str, outcome: &'static str, fields: u64) -> Expected {
    Expected { method, outcome, fields }
}

impl RecordingClient {
    fn new(raw: Raw) -> RecordingClient {
        RecordingClient { raw, ledger: Ledger::default() }
    }

    fn ask(&mut self, expected: Expected, encode: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
        let mut frame = Vec::new();
        encode(&mut frame);
        self.raw.write(&frame);
        self.read(expected, frame.len())
    }

    /// Reads the answer to a request of this many bytes.
    fn read(&mut self, Expected { method, outcome, fields }: Expected, size: usize) -> Vec<u8> {
        let answer = self.raw.read_frame().expect("an answer");
        let reported = match Message::parse(&answer) {
            Ok(Message::Response { result: Ok(_), .. }) => "ok",
            Ok(Message::Response { result: Err(error), .. }) => error.error().expect("an error object").code,
            other => panic!("{other:?}"),
        };
        assert_eq!(reported, outcome, "{method}");
        self.ledger.note(method, outcome, [1, fields, size as u64, answer.len() as u64]);
        answer
    }

    fn encrypt(&mut self, values: &[Scalar<'_>], fields: u64) -> Vec<u8> {
        let to = EncryptOptions::new("acme");
        let ask = |out: &mut Vec<u8>| request::encrypt(1, &to, values.iter().copied(), out);
        self.ask(expect("encrypt", "ok", fields), ask)
    }

    fn decrypt(&mut self, app: &str, outcome: &'static str, values: &[Scalar<'_>], fields: u64) {
        let of = DecryptOptions::new(app);
        let ask = |out: &mut Vec<u8>| request::decrypt(1, &of, values.iter().copied(), out);
        self.ask(expect("decrypt", outcome, fields), ask);
    }

    fn encrypt_document(&mut self, app: &str, outcome: &'static str, document: &str, fields: u64) -> Vec<u8> {
        let ask = |out: &mut Vec<u8>| {
            request::encrypt_document(1, &EncryptOptions::new(app), None, document.as_bytes(), out);
        };
        self.ask(expect("encrypt_document", outcome, fields), ask)
    }
}

fn result(answer: &[u8]) -> RawValue<'_> {
    match Message::parse(answer) {
        Ok(Message::Response { result: Ok(result), .. }) => result,
        other => panic!("{other:?}"),
    }
}

fn values(answer: &[u8]) -> Vec<Scalar<'_>> {
    ValuesResult::decode(result(answer)).expect("values").values.iter().map(|value| value.expect("a value")).collect()
}

/// A request that none of the encoders would write; `rest` follows its id.
fn odd_request(rest: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(&[0x94, 0, 1]);
    out.extend_from_slice(rest);
}

fn app(name: &str) -> AppName {
    AppName::parse(name).expect("a name")
}

/// A real engine with an operator port. The client `shop` may use only the app `acme`, `boss` every app.
struct TestEngine {
    pki: Pki,
    engine: EngineFixture,
    server: Server,
}

const ANSWER_SIZE_MAX: usize = 1 << 20;

impl TestEngine {
    fn new() -> TestEngine {
        let (pki, engine) = (Pki::new(), engine(Settings::default(), "shop", None));
        let boss = NewClient {
            name: ClientName::parse("boss").expect("a name"),
            apps: Apps::All,
            operations: [Operation::Encrypt, Operation::Decrypt].into(),
            roles: Roles::Any,
            accept: AcceptedSchemes::ALL,
            certificate_sha256: None,
        };
        engine.engine.store().put_client(&boss).expect("stored");
        let settings = ServerSettings {
            address: ([127, 0, 0, 1], 0).into(),
            network_threads: 1,
            workers: 2,
            operator: settings_of_port(),
            ..ServerSettings::new(pki.server_tls())
        };
        let service = EngineService::new(engine.engine.clone(), FrameLimits::default(), ANSWER_SIZE_MAX);
        let server = Server::start(settings, Arc::new(service)).expect("starts");
        TestEngine { pki, engine, server }
    }

    fn raw(&self, client: &str) -> Raw {
        Raw::connect(self.server.local_addr(), raw_connector(&self.pki, Some(self.pki.client(client))))
    }

    fn metrics(&self) -> String {
        get(self.server.operator_addr().expect("there is one"), "/metrics").1
    }
}

fn send_everything_that_works(client: &mut RecordingClient, test_server: &TestEngine) {
    client.ask(expect("health", "ok", 0), |out| request::health(1, out));
    client.ask(expect("info", "ok", 0), |out| request::info(1, out));
    client.ask(expect("public_keys", "ok", 0), |out| request::query(1, &PublicKeysParams { app: "acme" }, out));
    let few = client.encrypt(&[Scalar::from("text"), Scalar::Nil, Scalar::UInt(5), Scalar::Bool(true)], 3);
    let few = values(&few);
    client.decrypt("acme", "ok", &few, 3);
    client.decrypt("acme", "ok", &[few[0], Scalar::from("as it is"), Scalar::Nil], 1);
    // In parts, by both workers.
    let many = client.encrypt(&[Scalar::from("x"); 5_000], 5_000);
    client.decrypt("acme", "ok", &values(&many), 5_000);
    let small = client.encrypt_document("acme", "ok", "{\"a\":\"x\",\"b\":[1,null,2]}", 3);
    let large = client.encrypt_document("acme", "ok", &format!("[{}0]", "\"x\",".repeat(4_999)), 5_000);
    for (sealed, fields) in [(small, 3), (large, 5_000)] {
        let sealed = DocumentResult::decode(result(&sealed)).expect("a document");
        let of = DecryptOptions::new("acme");
        let ask = |out: &mut Vec<u8>| request::decrypt_document(1, &of, None, sealed.document, out);
        client.ask(expect("decrypt_document", "ok", fields), ask);
    }
    let to = EncryptFileOptions::new("acme");
    let file = client.ask(expect("encrypt_file", "ok", 0), |out| request::encrypt_file(1, &to, b"content", out));
    let file = FileResult::decode(result(&file)).expect("a file");
    let of = DecryptFileOptions::new("acme");
    client.ask(expect("decrypt_file", "ok", 0), |out| request::decrypt_file(1, &of, file.data, out));
    let texts: Vec<&str> = [few[0], few[2], few[3]].map(|value| text_of(&value)).into();
    let ask = |out: &mut Vec<u8>| request::inspect(1, Some("acme"), texts.iter().copied(), out);
    client.ask(expect("inspect", "ok", 0), ask);
    test_server.engine.engine.store().rotate(&app("acme")).expect("rotated");
    test_server.engine.engine.maintain().expect("noticed");
    let ask = |out: &mut Vec<u8>| request::rewrap(1, &RewrapOptions::new("acme"), texts.iter().copied(), out);
    client.ask(expect("rewrap", "ok", 3), ask);
}

fn text_of<'a>(value: &Scalar<'a>) -> &'a str {
    match value {
        Scalar::Str(text) => text.as_str(),
        other => panic!("{other:?}"),
    }
}

fn send_everything_that_fails(client: &mut RecordingClient, test_server: &TestEngine) {
    client.ask(expect("other", "invalid_request", 0), |out| odd_request(b"\x07\x90", out));
    client.ask(expect("other", "unknown_method", 0), |out| odd_request(b"\xa4melt\x90", out));
    client.ask(expect("health", "invalid_params", 0), |out| odd_request(b"\xa6health\x91\x01", out));
    client.ask(expect("encrypt", "invalid_params", 0), |out| odd_request(b"\xa7encrypt\x91\x80", out));
    client.encrypt_document("acme", "invalid_document", "{", 0);
    let to = EncryptOptions::new("acme");
    let ask = |out: &mut Vec<u8>| request::encrypt_document(1, &to, Some(&["$["]), b"{}", out);
    client.ask(expect("encrypt_document", "invalid_selector", 0), ask);
    let ask = |out: &mut Vec<u8>| request::inspect(1, None, ["no envelope"].into_iter(), out);
    client.ask(expect("inspect", "invalid_envelope", 0), ask);
    let sealed = client.encrypt(&[Scalar::from("x")], 1);
    client.decrypt("other", "decrypt_failed", &values(&sealed), 0);
    let sealed = client.encrypt_document("acme", "ok", "[1e999]", 1);
    let sealed = DocumentResult::decode(result(&sealed)).expect("a document").document;
    let envelope = std::str::from_utf8(&sealed[2..sealed.len() - 2]).expect("text");
    client.decrypt("acme", "number_out_of_range", &[Scalar::from(envelope)], 0);
    client.encrypt_document("none", "unknown_app", "[]", 0);
    let large = vec![0; ANSWER_SIZE_MAX];
    let to = EncryptFileOptions::new("acme");
    client.ask(expect("encrypt_file", "too_large", 0), |out| request::encrypt_file(1, &to, &large, out));
    test_server.engine.engine.store().disable_app(&app("other")).expect("disabled");
    test_server.engine.engine.maintain().expect("noticed");
    client.encrypt_document("other", "app_disabled", "[]", 0);
    let mut shop = RecordingClient { raw: test_server.raw("shop"), ledger: std::mem::take(&mut client.ledger) };
    shop.encrypt_document("other", "forbidden", "[]", 0);
    client.ledger = shop.ledger;
}

#[test]
fn the_engines_answers_are_counted_to_the_byte() {
    let test_server = TestEngine::new();
    let mut client = RecordingClient::new(test_server.raw("boss"));
    send_everything_that_works(&mut client, &test_server);
    send_everything_that_fails(&mut client, &test_server);
    let metrics = test_server.metrics();
    client.ledger.assert_reported(&metrics);
    assert!(work(&metrics, "encrypt", "ok") > 0.0 && work(&metrics, "encrypt_file", "too_large") > 0.0);
    assert_eq!(work(&metrics, "health", "ok"), 0.0, "no worker has seen it");
    assert_cache_metrics(&test_server.engine.engine.counters(), &metrics);
}

fn assert_cache_metrics(counters: &EngineCounters, metrics: &str) {
    let EngineCounters {
        apps,
        grants,
        api_keys,
        sessions,
        spare_keys,
        opening_keys,
        opening_agreements,
        opening_trials,
        sealed,
        opened,
        canaries,
        store_silence: _,
        store_is_sealed,
        store_resyncs,
        deletions_put_off,
        lookups,
        scan: _,
        memory: _,
    } = *counters;
    for (cache, counted) in [
        ("apps", apps),
        ("grants", grants),
        ("api_keys", api_keys),
        ("sessions", sessions),
        ("spare_keys", spare_keys),
        ("opening_keys", opening_keys),
    ] {
        let lookups = |result: &str| {
            sample(metrics, &format!("leafseal_cache_lookups_total{{cache=\"{cache}\",result=\"{result}\"}}"))
        };
        assert_eq!((lookups("hit"), lookups("miss")), (counted.hits as f64, counted.misses as f64), "{cache}");
        let entries = sample(metrics, &format!("leafseal_cache_entries{{cache=\"{cache}\"}}"));
        assert_eq!(entries, counted.entries as f64, "{cache}");
        assert!(
            ["sessions", "spare_keys", "api_keys"].contains(&cache) || counted.hits > 0 && counted.misses > 0,
            "{cache}: {counted:?}"
        );
    }
    let values = |action: &str, scheme: &str| {
        sample(metrics, &format!("leafseal_values_total{{action=\"{action}\",scheme=\"{scheme}\"}}"))
    };
    for (action, counts) in [("sealed", sealed), ("opened", opened)] {
        assert!(counts.public_key > 0, "{action}");
        let expected = (counts.public_key as f64, counts.symmetric as f64);
        assert_eq!((values(action, "public-key"), values(action, "symmetric")), expected, "{action}");
    }
    assert!(opening_agreements > 0);
    assert_eq!(sample(metrics, "leafseal_opening_agreements_total"), opening_agreements as f64);
    assert_eq!(sample(metrics, "leafseal_canary_decryptions_total"), canaries as f64);
    assert_eq!(sample(metrics, "leafseal_opening_trials_total"), opening_trials as f64);
    assert_eq!(sample(metrics, "leafseal_keystore_resyncs_total"), store_resyncs as f64);
    assert_eq!(sample(metrics, "leafseal_keystore_deletions_put_off_total"), deletions_put_off as f64);
    assert!(sample(metrics, "leafseal_keystore_silence_seconds") >= 0.0);
    assert_eq!(sample(metrics, "leafseal_keystore_sealed"), f64::from(u8::from(store_is_sealed)));
    assert_eq!(sample(metrics, "leafseal_keystore_lookups_total{result=\"made\"}"), lookups.made as f64);
    assert_eq!(sample(metrics, "leafseal_keystore_misses_bytes"), lookups.miss_bytes as f64);
}

#[test]
fn unfinished_messages_are_counted_by_cause() {
    let (test_server, address) = test_server(|_| {});
    let mut client = RecordingClient::new(test_server.raw());
    let request = |id: u32, app: &'static str| move |out: &mut Vec<u8>| test_request(id, app, "x", out);
    client.ask(expect("encrypt_document", "ok", 0), request(1, "echo"));
    client.ask(expect("encrypt_document", "internal", 0), request(1, "panic"));
    client.ask(expect("encrypt_document", "internal", 0), request(1, "mute"));
    let in_time = EncryptOptions { deadline_ms: Some(20), ..EncryptOptions::new("gate") };
    let ask = |out: &mut Vec<u8>| request::encrypt_document(1, &in_time, None, b"x", out);
    client.ask(expect("encrypt_document", "deadline_exceeded", 0), ask);
    let mut frame = Vec::new();
    test_request(1, "gate", "x", &mut frame);
    let steps = || test_server.service.steps.load(std::sync::atomic::Ordering::SeqCst);
    let begin = |raw: &mut Raw| {
        let before = steps();
        raw.write(&frame);
        wait_until("it is in progress", || steps() > before + 1);
    };
    begin(&mut client.raw);
    client.raw.send(|out| request::cancel(1, out));
    client.read(expect("encrypt_document", "cancelled", 0), frame.len());
    let mut leaving = test_server.raw();
    begin(&mut leaving);
    drop(leaving);
    wait_until("it is stopped", || test_server.server.counters().ended.of(RequestOutcome::Disconnected) == 1);
    client.ledger.note("encrypt_document", "disconnected", [1, 0, frame.len() as u64, 0]);

    wait_until("the last slice is over", || test_server.server.counters().pool.jobs_held == 0);
    let (_, metrics) = get(address, "/metrics");
    client.ledger.assert_reported(&metrics);
    assert_eq!(sample(&metrics, "leafseal_queue_wait_seconds_count"), 6.0, "all were admitted");
    for outcome in ["cancelled", "disconnected"] {
        // Two steps of the test service take 2 ms.
        assert!(work(&metrics, "encrypt_document", outcome) > 0.001, "{outcome}: what was done in vain");
    }
    // Workers do not run without requests, so all their time was for these.
    let busy = sample(&metrics, "leafseal_worker_busy_seconds_total");
    let of_requests: f64 = ["ok", "internal", "deadline_exceeded", "cancelled", "disconnected"]
        .map(|o| work(&metrics, "encrypt_document", o))
        .iter()
        .sum();
    assert!(of_requests <= busy, "{of_requests} of {busy}");
}

#[test]
fn refusals_before_the_queue_are_counted_too() {
    let test_server = TestServer::with(|settings| {
        settings.queue_jobs_max = 1;
        settings.operator = settings_of_port();
    });
    let address = test_server.server.operator_addr().expect("there is one");
    let mut holding = RecordingClient::new(test_server.raw());
    let mut frame = Vec::new();
    test_request(1, "gate", "x", &mut frame);
    holding.raw.write(&frame);
    wait_until("the queue is full", || test_server.server.counters().pool.jobs_held == 1);
    let mut client = RecordingClient::new(test_server.raw());
    let echo = |out: &mut Vec<u8>| test_request(1, "echo", "x", out);
    client.ask(expect("encrypt_document", "overloaded", 0), echo);
    let (service, server) = (Arc::clone(&test_server.service), test_server.server);
    let stopping = std::thread::spawn(move || server.shutdown());
    wait_until("it drains", || get(address, "/readyz").0 == 503);
    client.ask(expect("encrypt_document", "unavailable", 0), echo);
    client.ask(expect("health", "ok", 0), |out| request::health(1, out));
    let metrics = get(address, "/metrics").1;
    client.ledger.assert_reported(&metrics);
    assert_eq!(
        work(&metrics, "encrypt_document", "overloaded") + work(&metrics, "encrypt_document", "unavailable"),
        0.0
    );
    assert_eq!(sample(&metrics, "leafseal_queue_jobs"), 1.0);
    service.open_gate();
    holding.read(expect("encrypt_document", "ok", 0), frame.len());
    drop((holding, client));
    stopping.join().expect("it stops");
}

#[test]
fn events_are_counted() {
    let (test_server, address) = test_server(|_| {});
    test_server.assert_healthy();
    drop(TcpStream::connect(test_server.address()).unwrap());
    wait_until("the stranger is counted", || test_server.server.counters().handshakes_failed == 1);
    wait_until("the connection is gone", || test_server.server.counters().connections_open == 0);
    let (_, metrics) = get(address, "/metrics");
    assert_eq!(sample(&metrics, "leafseal_handshakes_total{result=\"ok\"}"), 1.0);
    assert_eq!(sample(&metrics, "leafseal_handshakes_total{result=\"failed\"}"), 1.0);
    assert_eq!(sample(&metrics, "leafseal_connections_total{event=\"accepted\"}"), 2.0);
    assert!(sample(&metrics, "leafseal_handshake_seconds_sum") > 0.0);
    assert!(sample(&metrics, "leafseal_network_received_bytes_total") > 500.0, "a handshake and a call");
    assert!(sample(&metrics, "leafseal_network_sent_bytes_total") > 500.0);
}

/// `UPDATE=1 cargo test -p leafseal-server --test metrics` regenerates the table.
#[test]
fn the_document_lists_the_metrics_of_the_endpoint() {
    let test_server = TestServer::with(|settings| {
        settings.operator = settings_of_port();
        // A log that is not open yet, for metrics of its sinks.
        settings.audit.folder = Some("audit".into());
        settings.audit.sinks = vec!["syslog+udp://siem.example.com:514".to_owned()];
    });
    let address = test_server.server.operator_addr().expect("there is an operator port");
    test_server.assert_healthy();
    test_server.server.watch_certificates(CertificateExpiry::of_pem(
        "client-authorities",
        "ca.pem",
        &test_server.pki.authority_pem,
    ));
    let (_, metrics) = get(address, "/metrics");
    leafseal_testkit::check_metrics_table(DOCUMENT, "## Metrics", &metrics);
    let document = std::fs::read_to_string(DOCUMENT).unwrap();
    for name in document.split('`').filter(|word| word.starts_with("leafseal_") || word.starts_with("process_")) {
        let base = name.split('{').next().expect("a first part");
        assert!(metrics.contains(base), "{name} is in the document alone");
    }
}
