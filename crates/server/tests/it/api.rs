//! The HTTPS API on real sockets over a real engine: slow, hostile or impatient callers. Well-behaved callers are tested in
//! `tests/interop`.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;

use crate::common::{PATIENCE, Pki, operator, wait_until};
use boring::base64;
use boring::ssl::{SslConnector, SslMethod, SslStream, SslVerifyMode};
use leafseal_engine::admin::{AcceptedSchemes, AppName, NewApiKey, Operation, Roles};
use leafseal_engine::{ApiKeySecret, Settings, system_random};
use leafseal_protocol::FrameLimits;
use leafseal_server::{RelayDestination, RelayInformation, Server, ServerSettings};
use leafseal_service::EngineService;
use leafseal_testkit::{EngineFixture, engine};
use serde_json::Value;

const SHORT: Duration = Duration::from_millis(300);

struct TestServer {
    server: Server,
    authorization: String,
    /// Keeps the store.
    _engine: EngineFixture,
}

struct Answer {
    status: u16,
    head: String,
    body: Vec<u8>,
}

impl Answer {
    fn code(&self) -> String {
        assert!(self.head.contains("content-type: application/problem+json"), "{}", self.head);
        let problem: Value = serde_json::from_slice(&self.body).expect("JSON");
        assert_eq!(problem["status"], self.status);
        problem["code"].as_str().expect("a code").to_owned()
    }
}

impl TestServer {
    fn new(change: impl FnOnce(&mut ServerSettings)) -> TestServer {
        let pki = Pki::new();
        let mut settings = pki.server_settings();
        change(&mut settings);
        let fixture = engine(Settings::default(), "tester", None);
        let secret = ApiKeySecret::generate(&mut system_random());
        let new = NewApiKey {
            app: AppName::parse("acme").expect("a name"),
            operations: Operation::ALL.iter().copied().collect(),
            roles: Roles::Any,
            accept: AcceptedSchemes::ALL,
            secret_sha256: secret.sha256(),
        };
        let id = fixture.engine.store().create_api_key(&new).expect("made").id;
        let shown = format!("acme:{}", *secret.text(&id));
        let service = EngineService::new(fixture.engine.clone(), FrameLimits::default(), 1 << 30);
        let server = Server::start(settings, Arc::new(service)).expect("it starts");
        let authorization = format!("Authorization: Basic {}", base64::encode_block(shown.as_bytes()));
        TestServer { server, authorization, _engine: fixture }
    }

    fn connect(&self) -> SslStream<TcpStream> {
        let socket = TcpStream::connect(self.server.api_addr().expect("it has an API")).expect("connects");
        socket.set_read_timeout(Some(PATIENCE)).expect("set");
        let mut connector = SslConnector::builder(SslMethod::tls()).expect("a context");
        // The test has just created the certificate.
        connector.set_verify(SslVerifyMode::NONE);
        connector.build().connect("localhost", socket).expect("shakes hands")
    }

    fn head(&self, path: &str, size: usize) -> String {
        let authorization = &self.authorization;
        format!(
            "POST {path} HTTP/1.1\r\nhost: localhost\r\n{authorization}\r\ncontent-type: application/json\r\ncontent-length: {size}\r\n\r\n"
        )
    }

    fn post_lines(&self, path: &str, body: &[u8]) -> Answer {
        let mut stream = self.connect();
        let head = self.head(path, body.len()).replace("application/json", "application/x-ndjson; charset=utf-8");
        stream.write_all(head.as_bytes()).expect("sent");
        stream.write_all(body).expect("sent");
        read_answer(&mut stream)
    }

    fn post(&self, path: &str, body: &[u8]) -> Answer {
        let mut stream = self.connect();
        stream.write_all(self.head(path, body.len()).as_bytes()).expect("sent");
        stream.write_all(body).expect("sent");
        read_answer(&mut stream)
    }

    fn get(&self, path: &str) -> Answer {
        let mut stream = self.connect();
        let head = format!("GET {path} HTTP/1.1\r\nhost: localhost\r\n{}\r\n\r\n", self.authorization);
        stream.write_all(head.as_bytes()).expect("sent");
        read_answer(&mut stream)
    }

    /// Starts a call that occupies the only worker for seconds.
    fn long_call(&self) -> SslStream<TcpStream> {
        self.call_of(400_000)
    }

    /// Starts a call with a key agreement for each of this many values.
    fn call_of(&self, values: usize) -> SslStream<TcpStream> {
        let body = format!("[{}1]", "1,".repeat(values));
        let mut stream = self.connect();
        stream.write_all(self.head("/encrypt?keying=field", body.len()).as_bytes()).expect("sent");
        stream.write_all(body.as_bytes()).expect("sent");
        wait_until("the call is in progress", || self.server.counters().pool.workers_busy > 0);
        stream
    }
}

fn read_answer(stream: &mut SslStream<TcpStream>) -> Answer {
    let mut bytes = Vec::new();
    let head_end = loop {
        if let Some(end) = bytes.windows(4).position(|part| part == b"\r\n\r\n") {
            break end + 4;
        }
        let mut piece = [0; 4096];
        let size = stream.read(&mut piece).expect("an answer in time");
        assert!(size > 0, "closed without an answer: {}", String::from_utf8_lossy(&bytes));
        bytes.extend_from_slice(&piece[..size]);
    };
    let head = String::from_utf8(bytes[..head_end].to_vec()).expect("a head").to_ascii_lowercase();
    let size =
        head.lines().find_map(|line| line.strip_prefix("content-length: ")).map_or(0, |size| size.parse().unwrap());
    let mut body = bytes[head_end..].to_vec();
    let have = body.len();
    body.resize(size, 0);
    stream.read_exact(&mut body[have..]).expect("the body");
    let status = head.split(' ').nth(1).expect("a status").parse().expect("a number");
    Answer { status, head, body }
}

#[test]
fn encrypted_values_round_trip_and_are_counted() {
    let test_server = TestServer::new(|settings| settings.operator.address = Some(([127, 0, 0, 1], 0).into()));
    let sealed = test_server.post("/encrypt", b"{\"card\": \"4111\", \"amount\": 1.50}");
    assert_eq!(sealed.status, 200, "{}", sealed.head);
    assert!(
        sealed.head.contains("content-type: application/json\r\n") && sealed.head.contains("cache-control: no-store")
    );
    assert_eq!(String::from_utf8_lossy(&sealed.body).matches("\"ev:").count(), 2);
    let opened = test_server.post("/decrypt", &sealed.body);
    assert_eq!(opened.body, b"{\"card\": \"4111\", \"amount\": 1.50}");
    assert_eq!(test_server.post("/decrypt", b"{").code(), "invalid_document");
    let (_, metrics) = operator::get(test_server.server.operator_addr().expect("a port"), "/metrics");
    let counted = [
        ("leafseal_api_calls_total{call=\"encrypt\",status=\"200\"}", 1.0),
        ("leafseal_api_calls_total{call=\"decrypt\",status=\"200\"}", 1.0),
        ("leafseal_api_calls_total{call=\"decrypt\",status=\"400\"}", 1.0),
        ("leafseal_api_connections_total{event=\"accepted\"}", 3.0),
        ("leafseal_fields_total{method=\"encrypt_document\",outcome=\"ok\"}", 2.0),
    ];
    for (name, value) in counted {
        assert_eq!(operator::sample(&metrics, name), value, "{name}");
    }
}

#[test]
fn envelopes_to_a_public_key_are_resealed_as_they_arrive() {
    let test_server = TestServer::new(|_| {});
    let document = b"{\"card\": \"4111\", \"cvc\": \"12\"}";
    let public = test_server.post("/encrypt?select=$.card&role=card", document);
    let arrived = test_server.post("/encrypt?reseal=symmetric&role=card", &public.body);
    assert_eq!(arrived.status, 200, "{}", arrived.head);
    let text = String::from_utf8_lossy(&arrived.body);
    assert_eq!(text.matches("\"ev:WEFN:").count(), 2, "{text}");
    assert!(arrived.head.contains("{\"count\":2,\"rewrapped\":1,\"symmetric\":2}"), "{}", arrived.head);
    assert_eq!(test_server.post("/decrypt?role=card", &arrived.body).body, document);
    // Of the two only the plain value was an engine's.
    let opened = test_server.post("/decrypt?accept=symmetric&on_failure=leave", &arrived.body);
    assert!(opened.body.ends_with(b"\"cvc\": \"12\"}") && opened.head.contains("\"failed\":1"), "{}", opened.head);
    let again = test_server.post("/encrypt?reseal=symmetric&role=card", &arrived.body);
    assert!(again.body == arrived.body && again.head.contains("\"skipped\":2"), "{}", again.head);
    let other = test_server.post("/encrypt?select=$.card&reseal=symmetric&role=other", &public.body);
    assert!(other.head.contains("{\"count\":1,\"matched\":[1],\"resealed\":1,\"symmetric\":1}"), "{}", other.head);
    assert_eq!(test_server.post("/decrypt?select=$.card", &other.body).body, public.body);
    for query in [
        "reseal=symmetric",
        "reseal=symmetric&role=card&scheme=public-key",
        "reseal=symmetric&role=card&curve=r1",
        "reseal=symmetric&role=card&skip_sealed=true",
        "reseal=symmetric&role=card&accept=symmetric",
        "reseal=public-key&role=card",
        "reseal=&role=card",
    ] {
        let refused = test_server.post(&format!("/encrypt?{query}"), &public.body);
        assert_eq!((refused.status, refused.code().as_str()), (400, "invalid_params"), "{query}");
    }
}

#[test]
fn json_lines_are_processed_line_by_line() {
    let test_server = TestServer::new(|_| {});
    let text = b"{\"card\": \"4111\", \"n\": 1}\r\n\n{\"card\": \"4242\"}\n";
    let sealed = test_server.post_lines("/encrypt?select=$.card&select=$.no", text);
    assert!(sealed.status == 200 && sealed.head.contains("content-type: application/x-ndjson\r\n"), "{}", sealed.head);
    assert!(sealed.head.contains("leafseal-report: {\"count\":2,\"matched\":[2,0]}"), "{}", sealed.head);
    let lines: Vec<&[u8]> = sealed.body.split(|&byte| byte == b'\n').collect();
    assert!(lines.len() == 4 && lines[1].is_empty() && lines[0].ends_with(b"\", \"n\": 1}\r"), "{lines:?}");
    assert_eq!(test_server.post_lines("/decrypt", &sealed.body).body, text);
    let again = test_server.post_lines("/encrypt?select=$.card&skip_sealed=true", &sealed.body);
    assert!(again.body == sealed.body && again.head.contains("\"skipped\":2"), "{}", again.head);
    let refused = test_server.post_lines("/encrypt?select=$.card&strict=true", b"{\"card\": 1}\n\n{\"cards\": [1]}\n");
    let problem: Value = serde_json::from_slice(&refused.body).expect("JSON");
    assert_eq!((refused.status, refused.code().as_str()), (422, "unmatched_selector"));
    assert!(problem["detail"].as_str().expect("text").starts_with("line 3: "), "{problem}");
    assert_eq!(test_server.post_lines("/encrypt?select=$.card&strict=true", text).status, 200);
    // Envelopes, one on each line.
    let envelopes: Vec<u8> = lines
        .iter()
        .filter(|line| !line.is_empty())
        .flat_map(|line| {
            let document: Value = serde_json::from_slice(line).expect("JSON");
            format!("{}\n", document["card"]).into_bytes()
        })
        .collect();
    let inspected = test_server.post_lines("/inspect", &envelopes);
    let types: Vec<Value> = inspected
        .body
        .split(|&byte| byte == b'\n')
        .filter(|line| !line.is_empty())
        .map(|line| serde_json::from_slice::<Value>(line).expect("JSON")["type"].clone())
        .collect();
    assert_eq!(types, ["string", "string"], "{}", String::from_utf8_lossy(&inspected.body));
    for (path, body) in [
        ("/encrypt", &b"{}\n{\"a\":}"[..]),
        ("/decrypt", b"1\n{\"a\":\"ev:Tk9D:damaged:$\"}"),
        ("/inspect", b"\n\"no envelope\""),
    ] {
        let refused = test_server.post_lines(path, body);
        let problem: Value = serde_json::from_slice(&refused.body).expect("JSON");
        assert!(
            refused.status >= 400 && problem["detail"].as_str().expect("text").starts_with("line 2: "),
            "{problem}"
        );
    }
    assert_eq!(test_server.post_lines("/client-side-tokens", b"{}").status, 415);
    assert_eq!(
        (test_server.post_lines("/encrypt", b"").status, test_server.post_lines("/inspect", b"").status),
        (200, 200)
    );
}

fn post_file(test_server: &TestServer, path: &str, body: &[u8]) -> Answer {
    let mut stream = test_server.connect();
    let head = test_server.head(path, body.len()).replace("application/json", "application/octet-stream");
    stream.write_all(&[head.as_bytes(), body].concat()).expect("sent");
    read_answer(&mut stream)
}

#[test]
fn an_empty_file_is_an_answer() {
    let test_server = TestServer::new(|_| {});
    let file = post_file(&test_server, "/encrypt", b"");
    assert_eq!((file.status, file.body.len()), (200, 75));
    let content = post_file(&test_server, "/decrypt", &file.body);
    assert_eq!((content.status, content.body.len()), (200, 0));
}

#[test]
fn a_file_opens_in_its_context_if_its_kind_is_accepted() {
    let test_server = TestServer::new(|_| {});
    let sealed = post_file(&test_server, "/encrypt?scheme=symmetric&context=scan+7", b"scan").body;
    let opened = post_file(&test_server, "/decrypt?context=scan+7&accept=symmetric", &sealed);
    assert_eq!((opened.status, opened.body.as_slice()), (200, &b"scan"[..]));
    let anyone = post_file(&test_server, "/encrypt", b"scan").body;
    for (path, file, status, code) in [
        ("/decrypt", &sealed, 422, "decrypt_failed"),
        ("/decrypt?context=scan+8", &sealed, 422, "decrypt_failed"),
        ("/decrypt?context=scan+7&accept=public-key", &sealed, 422, "decrypt_failed"),
        ("/decrypt?accept=symmetric", &anyone, 422, "decrypt_failed"),
        ("/decrypt?role=card", &sealed, 400, "invalid_params"),
    ] {
        let refused = post_file(&test_server, path, file);
        assert_eq!((refused.status, refused.code().as_str()), (status, code), "{path}");
    }
}

/// Who holds a token would otherwise choose what a value is bound to, by the option or by a name or number that the token does not cover.
#[test]
fn a_token_opens_no_bound_values() {
    let test_server = TestServer::new(|_| {});
    let sealed = test_server.post("/encrypt?scheme=symmetric&context=8", b"\"4242\"").body;
    let payload: Value = serde_json::from_slice(&sealed).expect("JSON");
    let asked = serde_json::json!({ "action": "api:decrypt", "payload": payload }).to_string();
    let issued: Value =
        serde_json::from_slice(&test_server.post("/client-side-tokens", asked.as_bytes()).body).expect("JSON");
    let token = format!("authorization: Token {}", issued["token"].as_str().expect("a token"));
    for (path, status, code) in [
        ("/decrypt", 422, "decrypt_failed"),
        ("/decrypt?context=8", 400, "invalid_params"),
        ("/decrypt?context_select=id", 400, "invalid_params"),
        ("/decrypt?bind=path", 400, "invalid_params"),
    ] {
        let mut stream = test_server.connect();
        let head = test_server.head(path, sealed.len()).replace(&test_server.authorization, &token);
        stream.write_all(&[head.as_bytes(), &sealed].concat()).expect("sent");
        let refused = read_answer(&mut stream);
        assert_eq!((refused.status, refused.code().as_str()), (status, code), "{path}");
    }
}

#[test]
fn an_envelope_is_inspected_in_its_context() {
    let test_server = TestServer::new(|_| {});
    let sealed = test_server.post("/encrypt?scheme=symmetric&context=row+17&role=card", b"\"4242\"").body;
    let inspected = test_server.post("/inspect?context=row+17", &sealed);
    let shown: Value = serde_json::from_slice(&inspected.body).expect("JSON");
    assert_eq!((&shown["role"], &shown["scheme"]), (&"card".into(), &"symmetric".into()), "{shown}");
    for (path, status, code) in [
        ("/inspect", 422, "decrypt_failed"),
        ("/inspect?context=row+18", 422, "decrypt_failed"),
        ("/inspect?context=", 400, "invalid_params"),
        ("/inspect?role=card", 400, "invalid_params"),
    ] {
        let refused = test_server.post(path, &sealed);
        assert_eq!((refused.status, refused.code().as_str()), (status, code), "{path}");
    }
}

#[test]
fn callers_without_credentials_are_refused_before_the_body() {
    let test_server = TestServer::new(|_| {});
    let mut stream = test_server.connect();
    let head = test_server.head("/encrypt", 1000).replace(&test_server.authorization, "x-nothing: 1");
    stream.write_all(head.as_bytes()).expect("sent");
    let answer = read_answer(&mut stream);
    assert_eq!((answer.status, answer.code().as_str()), (401, "unauthorized"));
    let mut stream = test_server.connect();
    stream.write_all(test_server.head("/encrypt", 1 << 30).as_bytes()).expect("sent");
    assert_eq!(read_answer(&mut stream).code(), "too_large");
    let mut stream = test_server.connect();
    let waiting = test_server.head("/encrypt", 1 << 30).replace("\r\n\r\n", "\r\nexpect: 100-continue\r\n\r\n");
    stream.write_all(waiting.as_bytes()).expect("sent");
    assert_eq!(read_answer(&mut stream).code(), "too_large", "and no word to go on");
}

#[test]
fn a_body_that_arrives_too_slowly_is_abandoned() {
    let test_server = TestServer::new(|settings| settings.api.http.body_timeout = SHORT);
    let mut stream = test_server.connect();
    stream.write_all(test_server.head("/encrypt", 100).as_bytes()).expect("sent");
    stream.write_all(b"[\"half").expect("sent");
    let answer = read_answer(&mut stream);
    assert_eq!((answer.status, answer.code().as_str()), (408, "slow_body"));
    assert_eq!(test_server.server.counters().incoming_bytes, 0);
}

#[test]
fn a_call_has_its_time() {
    let test_server = TestServer::new(|settings| settings.api.call_timeout = SHORT);
    let mut stream = test_server.connect();
    stream.write_all(test_server.head("/encrypt", 100).as_bytes()).expect("sent");
    assert_eq!(read_answer(&mut stream).code(), "slow_body", "its body too");
    // Enough time for the body, and less than the work takes.
    let test_server = TestServer::new(|settings| settings.api.call_timeout = Duration::from_secs(2));
    let mut long = test_server.long_call();
    let answer = read_answer(&mut long);
    assert_eq!((answer.status, answer.code().as_str()), (504, "deadline_exceeded"));
}

#[test]
fn a_disconnecting_caller_ends_its_call() {
    let test_server = TestServer::new(|_| {});
    let call = test_server.call_of(2_000_000);
    drop(call);
    wait_until("its work has ended", || test_server.server.counters().pool.jobs_held == 0);
    wait_until("it is counted", || {
        test_server.server.counters().ended.of(leafseal_server::RequestOutcome::Disconnected) == 1
    });
    assert_eq!(test_server.server.counters().answers_bytes, 0);
}

#[test]
fn a_full_queue_and_too_many_calls_give_a_retry_delay() {
    let few_jobs = TestServer::new(|settings| {
        (settings.queue_jobs_max, settings.app_jobs_max, settings.admission_wait) = (1, 1, Duration::ZERO);
    });
    let few_calls = TestServer::new(|settings| settings.api.calls_max = 1);
    for test_server in [few_jobs, few_calls] {
        let long = test_server.long_call();
        let answer = test_server.post("/encrypt", b"[\"secret\"]");
        assert_eq!((answer.status, answer.code().as_str()), (503, "overloaded"));
        assert!(
            answer.head.contains("retry-after: 1\r\n") && !String::from_utf8_lossy(&answer.body).contains("secret")
        );
        drop(long);
        wait_until("there is room again", || test_server.post("/encrypt", b"[1]").status == 200);
    }
}

#[test]
fn a_shutdown_answers_requests_in_flight() {
    let test_server = TestServer::new(|settings| settings.drain_timeout = PATIENCE);
    let body = format!("[{}1]", "1,".repeat(20_000));
    let mut stream = test_server.connect();
    stream.write_all(test_server.head("/encrypt?keying=field", body.len()).as_bytes()).expect("sent");
    stream.write_all(body.as_bytes()).expect("sent");
    wait_until("the call is in progress", || test_server.server.counters().pool.workers_busy > 0);
    let TestServer { server, .. } = test_server;
    let ending = std::thread::spawn(move || server.shutdown());
    let answer = read_answer(&mut stream);
    assert_eq!((answer.status, answer.body.starts_with(b"[\"ev:")), (200, true));
    let report = ending.join().expect("it ends");
    assert_eq!((report.requests_abandoned, report.connections_cut), (0, 0));
}

#[test]
fn the_relays_state_is_reported() {
    let test_server = TestServer::new(|settings| {
        settings.api.relay.set(Some(RelayInformation {
            destinations: vec![RelayDestination { id: "d1".to_owned(), domain: "*.example.com".to_owned() }],
            ca_pem: Some(b"-----BEGIN CERTIFICATE-----\n".to_vec()),
            poll_interval: Duration::from_secs(7),
        }));
    });
    let reported = test_server.get("/v2/relay-outbound");
    assert!(reported.head.contains("x-poll-interval: 7\r\n"), "{}", reported.head);
    let reported: Value = serde_json::from_slice(&reported.body).expect("JSON");
    assert_eq!(reported["outboundDestinations"]["d1"]["destinationDomain"], "*.example.com");
    assert_eq!(test_server.get("/").body, b"-----BEGIN CERTIFICATE-----\n");
    let without = TestServer::new(|_| {});
    assert_eq!(without.get("/v2/relay-outbound").body, b"{\"outboundDestinations\":{}}");
    assert_eq!(without.get("/").code(), "not_found");
}
