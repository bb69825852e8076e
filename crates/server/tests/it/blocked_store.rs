//! A store that blocks: workers and network threads go on, because none of them ever waits for it.

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use boring::base64;
use boring::ssl::{SslConnector, SslMethod, SslStream, SslVerifyMode};
use leafseal_client::{Client, ClientSettings, DecryptOptions, EncryptOptions, ErrorCode, ErrorKind, Scalar, Value};
use leafseal_engine::admin::{
    AcceptedSchemes, AppName, Apps, ClientName, Keystore, NewApiKey, NewClient, NewKeys, Operation, Roles,
};
use leafseal_engine::{
    ApiKeySecret, Caller, EncryptOptions as SealingOptions, Engine, Progress, Scheme, Settings, system_random,
};
use leafseal_protocol::FrameLimits;
use leafseal_server::{ApiSettings, Server};
use leafseal_service::EngineService;
use leafseal_testkit::{Gate, GatedStore, RecordedDecisions, ScratchStore};

use crate::common::{PATIENCE, Pki, wait_until};

/// Callers that the store holds up.
const STRANGERS: usize = 24;

struct Blocked {
    server: Server,
    engine: Engine,
    gate: Gate,
    pki: Pki,
    /// The head field of a caller whose key is in the store.
    authorization: String,
    store: ScratchStore,
}

impl Drop for Blocked {
    fn drop(&mut self) {
        self.gate.open();
    }
}

fn name(text: &str) -> AppName {
    AppName::parse(text).expect("a name")
}

impl Blocked {
    fn new(engine: Settings) -> Self {
        Self::with_calls(engine, ApiSettings::default().calls_max)
    }

    fn with_calls(engine: Settings, calls_max: usize) -> Self {
        let store = ScratchStore::new(&["acme", "other"]);
        let secret = ApiKeySecret::generate(&mut system_random());
        let key = NewApiKey {
            app: name("acme"),
            operations: Operation::ALL.iter().copied().collect(),
            roles: Roles::Any,
            accept: AcceptedSchemes::ALL,
            secret_sha256: secret.sha256(),
        };
        let keystore = store.open();
        let id = keystore.create_api_key(&key).expect("made").id;
        let shop = NewClient {
            name: ClientName::parse("shop").expect("a name"),
            apps: Apps::All,
            operations: BTreeSet::from([Operation::Encrypt, Operation::Decrypt]),
            roles: Roles::Any,
            accept: AcceptedSchemes::ALL,
            certificate_sha256: None,
        };
        keystore.put_client(&shop).expect("stored");
        let (gated, gate) = GatedStore::new(Box::new(keystore));
        let engine = Engine::new(Box::new(gated), engine);
        let pki = Pki::new();
        let mut settings = pki.server_settings();
        settings.api.calls_max = calls_max;
        let service = EngineService::new(engine.clone(), FrameLimits::default(), 1 << 30);
        let server = Server::start(settings, Arc::new(service)).expect("it starts");
        // The start has made the secret of tokens: a change, after which the caches are emptied once.
        engine.maintain().expect("refreshed");
        let shown = format!("acme:{}", *secret.text(&id));
        let authorization = format!("authorization: Basic {}\r\n", base64::encode_block(shown.as_bytes()));
        Self { server, engine, gate, pki, authorization, store }
    }

    fn send(&self, head: &str, body: &str) -> SslStream<TcpStream> {
        self.send_from(1, head, body)
    }

    /// Sends a call from 127.0.0.`host`.
    fn send_from(&self, host: u8, head: &str, body: &str) -> SslStream<TcpStream> {
        let address = self.server.api_addr().expect("it has an API");
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build().expect("a runtime");
        let socket = runtime.block_on(async {
            let socket = tokio::net::TcpSocket::new_v4().expect("a socket");
            socket.bind(SocketAddr::from(([127, 0, 0, host], 0))).expect("bound");
            socket.connect(address).await.expect("connects").into_std().expect("a socket")
        });
        socket.set_nonblocking(false).expect("set");
        socket.set_read_timeout(Some(PATIENCE)).expect("set");
        let mut connector = SslConnector::builder(SslMethod::tls()).expect("a context");
        connector.set_verify(SslVerifyMode::NONE);
        let mut stream = connector.build().connect("localhost", socket).expect("shakes hands");
        let size = body.len();
        let head = format!("{head}host: localhost\r\ncontent-length: {size}\r\nconnection: close\r\n\r\n{body}");
        stream.write_all(head.as_bytes()).expect("sent");
        stream
    }

    /// A call of the caller whose key is in the store.
    fn encrypt(&self) -> SslStream<TcpStream> {
        let head = format!("POST /encrypt HTTP/1.1\r\n{}content-type: application/json\r\n", self.authorization);
        self.send(&head, "{\"card\":\"4111\"}")
    }

    /// A call without credentials for the keys of an app.
    fn keys(&self, app: &str) -> SslStream<TcpStream> {
        self.keys_from(1, app)
    }

    fn keys_from(&self, host: u8, app: &str) -> SslStream<TcpStream> {
        self.send_from(host, &format!("GET /keys HTTP/1.1\r\nx-evervault-app-id: {app}\r\n"), "")
    }

    fn client_settings(&self) -> ClientSettings {
        let tls = self.pki.client_tls(self.pki.client("shop"));
        let request_timeout = 5 * PATIENCE;
        ClientSettings {
            retries_max: 0,
            request_timeout,
            ..ClientSettings::new(self.server.local_addr().to_string(), tls)
        }
    }

    /// An envelope of a version that another engine on the store makes.
    fn sealed_by_another(&self) -> String {
        let other = Engine::new(Box::new(self.store.open()), Settings::default());
        other.store().rotate(&name("acme")).expect("rotated");
        other.maintain().expect("refreshed");
        sealed(&other)
    }

    fn parked(&self) -> usize {
        self.server.counters().pool.jobs_parked
    }
}

fn answer(mut stream: SslStream<TcpStream>) -> String {
    let mut text = String::new();
    stream.read_to_string(&mut text).expect("an answer in time");
    text
}

fn status(stream: SslStream<TcpStream>) -> String {
    answer(stream).split(' ').nth(1).unwrap_or_default().to_owned()
}

/// One worker serves cached callers while many others wait for the store, which workers and network threads never read.
#[test]
fn workers_serve_cached_callers_while_the_store_blocks() {
    let blocked = Blocked::new(Settings { store_wait_max: PATIENCE, ..Settings::default() });
    assert_eq!(status(blocked.encrypt()), "200");
    blocked.gate.close_for(|name| name.starts_with("invented"));
    let names = |number: usize| format!("invented-{number}");
    let mut strangers: Vec<_> = (0..STRANGERS).map(|number| blocked.keys(&names(number))).collect();
    // Several that want the same.
    strangers.extend((0..4).map(|_| blocked.keys("invented-0")));
    wait_until("all are parked", || blocked.parked() == STRANGERS + 4);
    assert_eq!(blocked.server.counters().pool.workers_busy, 0);
    for _ in 0..10 {
        assert_eq!(status(blocked.encrypt()), "200");
    }
    assert_eq!(blocked.parked(), STRANGERS + 4);
    assert_eq!(blocked.gate.reads("invented-0"), 1, "one look-up for all of them");
    blocked.gate.open();
    for stranger in strangers {
        assert_eq!(status(stranger), "404");
    }
    assert_eq!(blocked.gate.reads("invented-0"), 1);
    assert_eq!(status(blocked.keys("invented-0")), "404");
    assert_eq!(blocked.gate.reads("invented-0"), 1, "it is remembered");
    let own = std::thread::current().name().unwrap_or_default().to_owned();
    for thread in blocked.gate.take_threads() {
        let may_wait = thread.starts_with("leafseal-lookup") || thread == "leafseal-tidy" || thread == own;
        assert!(may_wait, "{thread} has read the store");
    }
}

/// An address whose calls hold all places of callers without credentials loses the newest of them to another.
#[test]
fn callers_without_credentials_share_their_places_fairly() {
    let blocked = Blocked::with_calls(Settings { store_wait_max: PATIENCE, ..Settings::default() }, 8);
    assert_eq!(status(blocked.keys("acme")), "200");
    blocked.gate.close_for(|name| name.starts_with("invented"));
    let mut busy: Vec<_> = Vec::new();
    for number in 0..4 {
        busy.push(blocked.keys_from(2, &format!("invented-{number}")));
        wait_until("it is parked", || blocked.parked() == busy.len());
    }
    assert_eq!(status(blocked.keys_from(2, "acme")), "503", "it has all places");
    assert_eq!(status(blocked.keys_from(3, "acme")), "200");
    assert_eq!(status(busy.pop().expect("one of four")), "503", "the newest");
    blocked.gate.open();
    for stranger in busy {
        assert_eq!(status(stranger), "404");
    }
}

#[test]
fn a_caller_that_leaves_while_it_waits_is_forgotten() {
    let blocked = Blocked::new(Settings::default());
    blocked.gate.close_for(|name| name.starts_with("invented"));
    let strangers: Vec<_> = (0..4).map(|number| blocked.keys(&format!("invented-{number}"))).collect();
    wait_until("all are parked", || blocked.parked() == 4);
    drop(strangers);
    wait_until("nothing is held", || blocked.server.counters().pool.jobs_held == 0);
    assert_eq!(blocked.gate.held(), 2, "the store still blocks");
}

#[test]
fn a_caller_that_waits_too_long_receives_unavailable_and_when_to_retry() {
    let blocked = Blocked::new(Settings { store_wait_max: Duration::from_millis(50), ..Settings::default() });
    blocked.gate.close_for(|name| !name.is_empty());
    for stream in [blocked.keys("acme"), blocked.encrypt()] {
        let answer = answer(stream);
        assert!(answer.starts_with("HTTP/1.1 503"), "{answer}");
        let lower = answer.to_lowercase();
        assert!(lower.contains("retry-after: 1") && lower.contains("unavailable"), "{answer}");
    }
}

/// Over RPC: an app of an authenticated client is looked up while the connection serves other requests, and deadlines hold.
#[tokio::test(flavor = "multi_thread")]
async fn requests_of_a_client_overtake_one_that_waits_for_the_store() {
    let blocked = Blocked::new(Settings::default());
    let client = Client::connect(blocked.client_settings()).await.expect("connects");
    client.encrypt_document(&EncryptOptions::new("acme"), None, b"[1]").await.expect("encrypted");
    blocked.gate.close_for(|name| name == "other");
    let late = EncryptOptions { deadline_ms: Some(50), ..EncryptOptions::new("other") };
    let error = client.encrypt_document(&late, None, b"[1]").await.expect_err("the store blocks");
    assert_eq!(error.kind, ErrorKind::Engine(ErrorCode::DeadlineExceeded));
    let waiting = tokio::spawn({
        let client = client.clone();
        async move { client.encrypt_document(&EncryptOptions::new("other"), None, b"[1]").await }
    });
    wait_until("it is parked", || blocked.parked() == 1);
    for _ in 0..10 {
        client.encrypt_document(&EncryptOptions::new("acme"), None, b"[1]").await.expect("encrypted");
    }
    assert_eq!(blocked.parked(), 1);
    blocked.gate.open();
    waiting.await.expect("no panic").expect("encrypted");
}

/// A request that waits for the store is begun again once it answers, which is one decision, as is a key that is waited for; what the store
/// does not answer in time is none.
#[test]
fn a_decision_that_waits_for_the_store_is_made_once() {
    let blocked = Blocked::new(Settings { store_wait_max: PATIENCE, ..Settings::default() });
    let decisions = RecordedDecisions::new();
    blocked.engine.observe_decisions(Arc::<RecordedDecisions>::clone(&decisions));
    blocked.gate.close_for(|name| name == "acme" || name == "nowhere");
    let (caller, stranger) = (blocked.encrypt(), blocked.keys("nowhere"));
    wait_until("both are parked", || blocked.parked() == 2);
    assert_eq!(decisions.take(), [""; 0]);
    blocked.gate.open();
    assert_eq!((status(caller), status(stranger)), ("200".to_owned(), "404".to_owned()));
    let mut seen = decisions.take();
    seen.sort();
    assert_eq!(seen, ["api anonymous permission - nowhere unknown_app", "api key permission encrypt acme granted"]);

    let blocked = Blocked::new(Settings { store_wait_max: Duration::from_millis(50), ..Settings::default() });
    let decisions = RecordedDecisions::new();
    blocked.engine.observe_decisions(Arc::<RecordedDecisions>::clone(&decisions));
    blocked.gate.close_for(|name| !name.is_empty());
    assert_eq!((status(blocked.encrypt()), status(blocked.keys("acme"))), ("503".to_owned(), "503".to_owned()));
    assert_eq!(decisions.take(), [""; 0], "nothing was decided");
}

/// A change of the store empties the caches in the middle of a long request: it waits for the store, on no worker, and continues.
#[tokio::test(flavor = "multi_thread")]
async fn a_long_request_waits_for_its_permission_after_a_change() {
    let blocked = Blocked::new(Settings::default());
    let client = Client::connect(blocked.client_settings()).await.expect("connects");
    client.encrypt_document(&EncryptOptions::new("acme"), None, b"[1]").await.expect("encrypted");
    let document = format!("[{}1]", "1,".repeat(20_000));
    let keying = Some(leafseal_client::Keying::Field);
    let long = tokio::spawn({
        let client = client.clone();
        async move {
            let options = EncryptOptions { keying, ..EncryptOptions::new("acme") };
            client.encrypt_document(&options, None, document.as_bytes()).await
        }
    });
    wait_until("it runs", || blocked.server.counters().pool.workers_busy > 0);
    blocked.gate.close_for(|name| name == "shop");
    blocked.engine.store().create_app(&name("third"), NewKeys::generated()).expect("created");
    blocked.engine.maintain().expect("noticed at once");
    wait_until("it is parked", || blocked.parked() == 1);
    assert_eq!(blocked.server.counters().pool.workers_busy, 0);
    blocked.gate.open();
    let sealed = long.await.expect("no panic").expect("encrypted");
    assert_eq!(sealed.count, 20_001);
}

/// Reads of an app's list of versions, which every unknown key id begins with.
const VERSIONS: &str = "summary of acme";

/// A symmetric envelope of the text `4242`.
fn sealed(engine: &Engine) -> String {
    let options = SealingOptions { scheme: Some(Scheme::Symmetric), ..SealingOptions::new("acme") };
    let mut work = engine.encrypt_document(&Caller::Owner, &options, None, 6).expect("begins");
    let mut out = Vec::new();
    while work.step(b"\"4242\"", &mut out).expect("encrypts") == Progress::More {}
    String::from_utf8(out).expect("ASCII").trim_matches('"').to_owned()
}

async fn decrypt(client: &Client, envelope: &str) -> Result<Vec<Value>, ErrorKind> {
    let opened = client.decrypt(&DecryptOptions::new("acme"), &[Scalar::from(envelope)]).await;
    opened.map_err(|error| error.kind)
}

fn text() -> Result<Vec<Value>, ErrorKind> {
    Ok(vec![Value::from(Scalar::from("4242"))])
}

/// A version that another engine has just made seals at once: the first who reads its envelopes waits for one look-up, parked.
#[tokio::test(flavor = "multi_thread")]
async fn key_ids_that_the_engine_does_not_know_yet_are_looked_up_once_while_others_are_served() {
    const READERS: usize = 6;
    let blocked = Blocked::new(Settings { store_wait_max: PATIENCE, ..Settings::default() });
    let client = Client::connect(blocked.client_settings()).await.expect("connects");
    let known = sealed(&blocked.engine);
    assert_eq!(decrypt(&client, &known).await, text());
    for is_new in [false, true] {
        let before = blocked.gate.reads(VERSIONS);
        blocked.gate.take_threads();
        // The engine shall not see by itself that the store has changed.
        blocked.gate.close_for(move |name| name == VERSIONS || name.is_empty() && is_new);
        let (envelope, expected) = match is_new {
            true => (blocked.sealed_by_another(), text()),
            // Of another store.
            false => {
                let store = ScratchStore::new(&["acme"]);
                let envelope = sealed(&Engine::new(Box::new(store.open()), Settings::default()));
                (envelope, Err(ErrorKind::Engine(ErrorCode::DecryptFailed)))
            }
        };
        let readers: Vec<_> = (0..READERS)
            .map(|_| {
                let (client, envelope) = (client.clone(), envelope.clone());
                tokio::spawn(async move { decrypt(&client, &envelope).await })
            })
            .collect();
        wait_until("all are parked", || blocked.parked() == READERS);
        assert_eq!(blocked.server.counters().pool.workers_busy, 0);
        for _ in 0..10 {
            assert_eq!(decrypt(&client, &known).await, text());
        }
        assert_eq!((blocked.parked(), blocked.gate.reads(VERSIONS) - before), (READERS, 1), "one look-up for all");
        blocked.gate.close_for(move |name| name.is_empty() && is_new);
        for reader in readers {
            assert_eq!(reader.await.expect("no panic"), expected);
        }
        assert_eq!(decrypt(&client, &envelope).await, expected);
        assert_eq!(
            blocked.gate.reads(VERSIONS) - before,
            1,
            "the answer is remembered, also that there is no such key"
        );
        let threads = blocked.gate.take_threads();
        let waits = |thread: &String| thread.starts_with("leafseal-work") || thread.starts_with("leafseal-net");
        assert!(!threads.iter().any(waits), "{threads:?} have read the store");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_id_for_which_the_store_does_not_answer_is_unavailable_and_not_damaged() {
    let blocked = Blocked::new(Settings { store_wait_max: Duration::from_secs(1), ..Settings::default() });
    let client = Client::connect(blocked.client_settings()).await.expect("connects");
    let known = sealed(&blocked.engine);
    assert_eq!(decrypt(&client, &known).await, text());
    blocked.gate.close_for(|name| name == VERSIONS || name.is_empty());
    let fresh = blocked.sealed_by_another();
    assert_eq!(decrypt(&client, &fresh).await, Err(ErrorKind::Engine(ErrorCode::Unavailable)));
    assert_eq!(decrypt(&client, &known).await, text());
    blocked.gate.close_for(|name| name.is_empty());
    // Until the look-up that was held up has ended, others who ask are refused at once.
    let mut answer = decrypt(&client, &fresh).await;
    while answer == Err(ErrorKind::Engine(ErrorCode::Unavailable)) {
        answer = decrypt(&client, &fresh).await;
    }
    assert_eq!(answer, text(), "nothing is remembered of a look-up without an answer");
}
