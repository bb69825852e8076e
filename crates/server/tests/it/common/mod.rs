//! Shared by the network tests: generated certificates, a scripted service, raw TLS.
#![allow(dead_code)]

pub(crate) mod operator;
pub(crate) mod script;
pub(crate) mod seeds;

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime};

use boring::pkey::PKey;
use boring::ssl::{SslConnector, SslConnectorBuilder, SslMethod, SslStream, SslVerifyMode};
use boring::x509::X509;
use leafseal_client::{
    CallObserver, CallOutcome, Client, ClientError, ClientSettings, ClientTls, ErrorKind as ClientErrorKind, Method,
};
use leafseal_config::KeyExchange;
use leafseal_engine::admin::Operation;
use leafseal_engine::pool::Cancellation;
use leafseal_engine::{
    Decision, DecisionObserver, Denial, EntryPoint, Observers, Principal, Question, RequestAccount, RequestOrigin,
};
use leafseal_net::tls::{
    CertificateAuthority, Issued, PrivateKeySettings, ServerIdentity, ServerName, SessionSettings, Validity,
    VerifiedChains,
};
use leafseal_protocol::{
    EncryptDocumentParams, ErrorCode, ErrorObject, FrameLimits, GOING_AWAY, GoingAway, Message, Scanner, answer,
    connection_error,
};
use leafseal_server::{ApiSettings, Server, ServerSettings, TlsSettings, issue_client};
use leafseal_service::{
    PartStep, PeerIdentity, PlannedRequest, RefusedCaller, RequestPart, RequestStage, RequestStep, RequestWork,
    Service, Tenant, WrittenOutput,
};

/// Long enough for a slow machine; a passing test never waits for it.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) struct Pki {
    pub authority: CertificateAuthority,
    pub authority_pem: Vec<u8>,
}

impl Pki {
    pub(crate) fn new() -> Pki {
        let authority = CertificateAuthority::create("test authority", validity()).unwrap();
        let authority_pem = authority.certificate_pem().unwrap();
        Pki { authority, authority_pem }
    }

    pub(crate) fn client(&self, name: &str) -> Issued {
        issue_client(&self.authority, name, validity()).unwrap()
    }

    pub(crate) fn server_tls(&self) -> TlsSettings {
        let names = ["localhost", "127.0.0.1"].map(ServerName::parse);
        let issued = self.authority.issue_server(&names, validity()).unwrap();
        TlsSettings {
            certificate_chain_pem: issued.certificate_pem,
            private_key_pem: issued.private_key_pem,
            private_key_settings: PrivateKeySettings::default(),
            sessions: SessionSettings::default(),
            key_exchange: KeyExchange::of_rpc(),
            verified_chains: VerifiedChains::default(),
            client_authorities_pem: self.authority_pem.clone(),
        }
    }

    /// Settings of a server with one network thread and one worker: RPC and the API, on free ports, with one certificate.
    pub(crate) fn server_settings(&self) -> ServerSettings {
        let tls = self.server_tls();
        let identity = ServerIdentity {
            certificate_chain_pem: tls.certificate_chain_pem.clone(),
            private_key_pem: tls.private_key_pem.clone(),
            private_key_settings: PrivateKeySettings::default(),
            sessions: SessionSettings::default(),
            key_exchange: KeyExchange::default(),
        };
        let local = SocketAddr::from(([127, 0, 0, 1], 0));
        let api = ApiSettings { address: Some(local), identity: Some(identity), ..ApiSettings::default() };
        ServerSettings { address: local, network_threads: 1, workers: 1, api, ..ServerSettings::new(tls) }
    }

    pub(crate) fn client_tls(&self, issued: Issued) -> ClientTls {
        ClientTls {
            authorities_pem: self.authority_pem.clone(),
            certificate_chain_pem: issued.certificate_pem,
            private_key_pem: issued.private_key_pem,
            ..ClientTls::default()
        }
    }
}

pub(crate) fn validity() -> Validity {
    Validity { now: SystemTime::now(), days: 2 }
}

/// A server with a [`TestService`].
pub(crate) struct TestServer {
    pub pki: Pki,
    pub service: Arc<TestService>,
    pub server: Server,
}

impl TestServer {
    pub(crate) fn new() -> TestServer {
        TestServer::with(|_| {})
    }

    pub(crate) fn with(change: impl FnOnce(&mut ServerSettings)) -> TestServer {
        let pki = Pki::new();
        let mut settings = ServerSettings {
            address: SocketAddr::from(([127, 0, 0, 1], 0)),
            network_threads: 1,
            workers: 2,
            close_timeout: Duration::from_millis(500),
            ..ServerSettings::new(pki.server_tls())
        };
        change(&mut settings);
        let (service, server) = start(settings);
        TestServer { pki, service, server }
    }

    /// Starts another server, which the same clients trust.
    pub(crate) fn beside(&self, change: impl FnOnce(&mut ServerSettings)) -> (Arc<TestService>, Server) {
        let mut settings = ServerSettings {
            address: SocketAddr::from(([127, 0, 0, 1], 0)),
            network_threads: 1,
            workers: 2,
            ..ServerSettings::new(self.pki.server_tls())
        };
        change(&mut settings);
        start(settings)
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.server.local_addr()
    }

    pub(crate) fn client_settings(&self) -> ClientSettings {
        let tls = self.pki.client_tls(self.pki.client("shop"));
        // Without retries, each event of a call is observable.
        ClientSettings { retries_max: 0, ..ClientSettings::new(self.address().to_string(), tls) }
    }

    pub(crate) async fn client(&self) -> Client {
        Client::connect(self.client_settings()).await.unwrap()
    }

    /// Opens a TLS connection without our client.
    pub(crate) fn raw(&self) -> Raw {
        self.raw_of("shop")
    }

    /// The same for another client.
    pub(crate) fn raw_of(&self, client: &str) -> Raw {
        Raw::connect(self.address(), raw_connector(&self.pki, Some(self.pki.client(client))))
    }

    /// Checks that the server still serves a well-behaved client.
    pub(crate) fn assert_healthy(&self) {
        let mut raw = self.raw();
        raw.send(|out| leafseal_protocol::request::health(9, out));
        let frame = raw.read_frame().expect("an answer");
        let Ok(Message::Response { id: 9, result: Ok(_) }) = Message::parse(&frame) else {
            panic!("no healthy answer");
        };
    }
}

fn start(settings: ServerSettings) -> (Arc<TestService>, Server) {
    let service = Arc::new(TestService::default());
    let server = Server::start(settings, Arc::clone(&service)).unwrap();
    (service, server)
}

/// Waits until `condition` holds.
pub(crate) fn wait_until(what: &str, mut condition: impl FnMut() -> bool) {
    let began = Instant::now();
    while !condition() {
        assert!(began.elapsed() < PATIENCE, "waited too long until {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// As [`wait_until`], asynchronously.
pub(crate) async fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let began = Instant::now();
    while !condition() {
        assert!(began.elapsed() < PATIENCE, "waited too long until {what}");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

/// A service that accepts `encrypt_document` and behaves according to the app's name: `echo` answers with the document; `large` with the
/// number of bytes in the document; `spread` with that many parts, of many sizes, by all workers; `sleep` after that many steps of a
/// millisecond; `gate` when the gate is open; `panic` panics; `mute` answers nothing; `closed` is forbidden. Names with these prefixes
/// behave the same.
#[derive(Default)]
pub(crate) struct TestService {
    pub gate_is_open: Arc<AtomicBool>,
    pub begun: AtomicUsize,
    pub alive: Arc<AtomicUsize>,
    pub steps: Arc<AtomicUsize>,
    pub maintained: AtomicUsize,
    pub maintenance_panics: AtomicBool,
    /// Steps of the scan of the store, and the threads that made them.
    pub scanned: AtomicUsize,
    pub scan_threads: Mutex<Vec<String>>,
    /// Requests maintenance, once a server has started.
    pub maintenance_due: Mutex<Option<Box<dyn Fn() + Send + Sync>>>,
    pub is_unready: AtomicBool,
    /// Whether every request is answered with `unavailable`.
    pub is_unavailable: Arc<AtomicBool>,
    pub cancellations: Mutex<Vec<Arc<Cancellation>>>,
    /// Names of the clients that were admitted, in order.
    pub admitted: Mutex<Vec<String>>,
    /// Names of clients that are admitted no longer.
    pub forbidden: Mutex<Vec<String>>,
    pub observers: Arc<Observers>,
}

pub(crate) struct Caller {
    peer: PeerIdentity,
}

/// The apps that exist in the test service.
const APPS: [&str; 8] = ["echo", "large", "spread", "sleep", "gate", "panic", "mute", "closed"];

impl TestService {
    pub(crate) fn open_gate(&self) {
        self.gate_is_open.store(true, Ordering::SeqCst);
    }

    pub(crate) fn begun(&self) -> usize {
        self.begun.load(Ordering::SeqCst)
    }

    /// The number of requests that have not been dropped.
    pub(crate) fn alive(&self) -> usize {
        self.alive.load(Ordering::SeqCst)
    }
}

impl Service for TestService {
    type Caller = Caller;

    fn authenticate(&self, peer: &PeerIdentity, origin: RequestOrigin) -> Result<Arc<Caller>, RefusedCaller> {
        if peer.name == "waiter" {
            while !self.gate_is_open.load(Ordering::SeqCst) {
                std::thread::sleep(Duration::from_millis(1));
            }
        }
        if peer.name == "stranger" || self.forbidden.lock().unwrap().contains(&peer.name) {
            let message = "no client of this name".to_owned();
            self.refuse_peer(Some(peer), origin, &message);
            return Err(RefusedCaller { code: ErrorCode::Forbidden, message });
        }
        self.admitted.lock().unwrap().push(peer.name.clone());
        Ok(Arc::new(Caller { peer: peer.clone() }))
    }

    fn refuse_peer(&self, peer: Option<&PeerIdentity>, origin: RequestOrigin, reason: &str) {
        let principal = peer.map_or(Principal::Anonymous, |peer| Principal::Client {
            name: &peer.name,
            certificate_sha256: peer.certificate_sha256,
        });
        let refusal = Some(Denial { code: ErrorCode::Forbidden, reason });
        let question = Question::Identity;
        self.observers.decided(&Decision {
            origin,
            principal,
            question,
            operations: &[],
            app: None,
            refusal,
            is_accounted: false,
        });
    }

    fn observe_decisions(&self, observer: Arc<dyn DecisionObserver>) {
        self.observers.attach(observer);
    }

    fn tenant<'a>(&self, caller: &'a Caller, app: Option<&'a str>) -> Tenant<'a> {
        app.filter(|app| APPS.contains(app)).map_or(Tenant::Client(&caller.peer.name), Tenant::App)
    }

    fn request(
        &self,
        caller: &Arc<Caller>,
        frame: Vec<u8>,
        id: u32,
        arrived: Instant,
        cancellation: Arc<Cancellation>,
        _: Option<Arc<RequestAccount>>,
    ) -> RequestStage {
        self.begun.fetch_add(1, Ordering::SeqCst);
        self.alive.fetch_add(1, Ordering::SeqCst);
        self.cancellations.lock().unwrap().push(Arc::clone(&cancellation));
        RequestStage::working(TestRequest {
            caller: Arc::clone(caller),
            observers: Arc::clone(&self.observers),
            frame,
            id,
            arrived,
            cancellation,
            steps_done: 0,
            parts: None,
            planned: 0,
            gate_is_open: Arc::clone(&self.gate_is_open),
            alive: Arc::clone(&self.alive),
            is_unavailable: Arc::clone(&self.is_unavailable),
            steps: Arc::clone(&self.steps),
        })
    }

    fn readiness(&self) -> Result<(), String> {
        let is_unready = self.is_unready.load(Ordering::SeqCst);
        if is_unready { Err("as the test wishes".to_owned()) } else { Ok(()) }
    }

    fn on_maintenance_due(&self, due: Box<dyn Fn() + Send + Sync>) {
        *self.maintenance_due.lock().unwrap() = Some(due);
    }

    fn scan(&self) -> Option<Duration> {
        self.scan_threads.lock().unwrap().push(std::thread::current().name().unwrap_or_default().to_owned());
        self.scanned.fetch_add(1, Ordering::SeqCst);
        Some(Duration::from_millis(10))
    }

    fn maintain(&self) {
        self.maintained.fetch_add(1, Ordering::SeqCst);
        assert!(!self.maintenance_panics.load(Ordering::SeqCst), "as the test wishes");
    }
}

struct TestRequest {
    caller: Arc<Caller>,
    observers: Arc<Observers>,
    frame: Vec<u8>,
    id: u32,
    arrived: Instant,
    cancellation: Arc<Cancellation>,
    steps_done: u64,
    /// The answer in parts, and the number of parts.
    parts: Option<(answer::OpenDocument, usize)>,
    planned: usize,
    gate_is_open: Arc<AtomicBool>,
    alive: Arc<AtomicUsize>,
    is_unavailable: Arc<AtomicBool>,
    steps: Arc<AtomicUsize>,
}

impl Drop for TestRequest {
    fn drop(&mut self) {
        self.alive.fetch_sub(1, Ordering::SeqCst);
    }
}

impl TestRequest {
    fn refuse(&self) -> ErrorObject {
        let (code, reason) = (ErrorCode::Forbidden, "the app is closed to this client");
        let PeerIdentity { name, certificate_sha256 } = &self.caller.peer;
        self.observers.decided(&Decision {
            origin: RequestOrigin { request: Some(self.id), ..RequestOrigin::of(EntryPoint::Rpc) },
            principal: Principal::Client { name, certificate_sha256: *certificate_sha256 },
            question: Question::Permission,
            operations: &[Operation::Encrypt],
            app: Some("closed"),
            refusal: Some(Denial { code, reason }),
            is_accounted: false,
        });
        ErrorObject::new(code, reason)
    }
}

impl RequestWork for TestRequest {
    fn step(&mut self, out: &mut Vec<u8>) -> Result<RequestStep, ErrorObject> {
        self.steps.fetch_add(1, Ordering::SeqCst);
        if self.is_unavailable.load(Ordering::SeqCst) {
            return Err(ErrorObject::new(ErrorCode::Unavailable, "as the test wishes"));
        }
        let Ok(Message::Request { method, params, .. }) = Message::parse(&self.frame) else {
            panic!("the server hands over requests only");
        };
        let params = match EncryptDocumentParams::decode(params) {
            Ok(params) => params,
            Err(error) => {
                return Err(ErrorObject::new(ErrorCode::InvalidParams, format!("{method}: {error}")));
            }
        };
        if let Some(milliseconds) = params.options.deadline_ms {
            let deadline = self.arrived + Duration::from_millis(milliseconds.into());
            self.cancellation.set_deadline(deadline);
        }
        let number = || std::str::from_utf8(params.document).unwrap().parse::<u64>().unwrap();
        let app = APPS.into_iter().find(|app| params.options.app.starts_with(app));
        let document = match app.unwrap_or(params.options.app) {
            "spread" => {
                let head = answer::OpenDocument::begin(self.id, out);
                self.parts = Some((head, number() as usize));
                return Ok(RequestStep::Spread { answer_size_max: usize::MAX });
            }
            "echo" => params.document.to_vec(),
            "large" => vec![b'x'; number() as usize],
            "sleep" if self.steps_done >= number() => params.document.to_vec(),
            "gate" if self.gate_is_open.load(Ordering::SeqCst) => params.document.to_vec(),
            "sleep" | "gate" => {
                self.steps_done += 1;
                std::thread::sleep(Duration::from_millis(1));
                return Ok(RequestStep::More);
            }
            "panic" => panic!("as the request wishes"),
            "mute" => return Ok(RequestStep::Done),
            "closed" => return Err(self.refuse()),
            other => panic!("no such app: {other}"),
        };
        let open = answer::OpenDocument::begin(self.id, out);
        out.extend_from_slice(&document);
        open.finish(1, out);
        Ok(RequestStep::Done)
    }

    fn next_part(&mut self) -> Result<PlannedRequest, ErrorObject> {
        let (_, count) = self.parts.as_ref().expect("it has spread");
        if self.planned == *count {
            return Ok(PlannedRequest::None);
        }
        self.planned += 1;
        Ok(PlannedRequest::Part(Box::new(TestPart { number: self.planned - 1 })))
    }

    fn finish(&mut self, head: &mut Vec<u8>, written: WrittenOutput, tail: &mut Vec<u8>) {
        let (open, count) = self.parts.take().expect("it has spread");
        open.finish_at(written.size, count as u64, head, tail);
    }
}

struct TestPart {
    number: usize,
}

impl RequestPart for TestPart {
    fn step(&mut self, out: &mut Vec<u8>) -> Result<PartStep, ErrorObject> {
        out.extend_from_slice(&spread_part(self.number));
        Ok(PartStep::Done)
    }
}

/// The output of a part of `spread`: up to about 70 KB.
pub(crate) fn spread_part(number: usize) -> Vec<u8> {
    vec![b'a' + (number % 26) as u8; number * 7_919 % 70_001]
}

/// A TLS context that trusts the authority and presents `identity`, if any.
pub(crate) fn raw_connector(pki: &Pki, identity: Option<Issued>) -> SslConnectorBuilder {
    let mut connector = SslConnector::builder(SslMethod::tls()).unwrap();
    let authority = X509::from_pem(&pki.authority_pem).unwrap();
    connector.cert_store_mut().add_cert(authority).unwrap();
    connector.set_verify(SslVerifyMode::PEER);
    if let Some(identity) = identity {
        connector.set_certificate(&X509::from_pem(&identity.certificate_pem).unwrap()).unwrap();
        connector.set_private_key(&PKey::private_key_from_pem(&identity.private_key_pem).unwrap()).unwrap();
    }
    connector
}

/// A blocking TLS connection that sends whatever a test wants.
pub(crate) struct Raw {
    pub stream: SslStream<TcpStream>,
    received: Vec<u8>,
    /// The reasons of `going_away`, in the order of arrival.
    pub reported: Vec<GoingAway>,
}

impl Raw {
    pub(crate) fn connect(address: SocketAddr, connector: SslConnectorBuilder) -> Raw {
        Raw::try_connect(address, connector).unwrap()
    }

    pub(crate) fn try_connect(address: SocketAddr, connector: SslConnectorBuilder) -> Result<Raw, String> {
        let socket = TcpStream::connect(address).unwrap();
        socket.set_nodelay(true).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        let stream = connector.build().connect("localhost", socket).map_err(|error| error.to_string())?;
        Ok(Raw { stream, received: Vec::new(), reported: Vec::new() })
    }

    /// Writes bytes; the peer may have disconnected.
    pub(crate) fn write(&mut self, bytes: &[u8]) {
        let _ = self.stream.write_all(bytes);
    }

    pub(crate) fn send(&mut self, encode: impl FnOnce(&mut Vec<u8>)) {
        let mut bytes = Vec::new();
        encode(&mut bytes);
        self.write(&bytes);
    }

    /// Returns the next frame, or how the stream ended. `going_away` is recorded and skipped, as old clients do.
    pub(crate) fn read_frame(&mut self) -> Result<Vec<u8>, String> {
        loop {
            let frame = self.read_any_frame()?;
            match Message::parse(&frame) {
                Ok(Message::Notification { method: GOING_AWAY, params }) => {
                    self.reported.push(GoingAway::decode(params))
                }
                _ => return Ok(frame),
            }
        }
    }

    fn read_any_frame(&mut self) -> Result<Vec<u8>, String> {
        let mut scanner = Scanner::new(FrameLimits::default());
        loop {
            if let Some(size) = scanner.scan(&self.received).unwrap() {
                let rest = self.received.split_off(size);
                return Ok(std::mem::replace(&mut self.received, rest));
            }
            let mut bytes = [0; 16_384];
            match self.stream.read(&mut bytes) {
                Ok(0) => return Err("closed".to_owned()),
                Ok(size) => self.received.extend_from_slice(&bytes[..size]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Err("silent".to_owned()),
                Err(error) => return Err(error.to_string()),
            }
        }
    }

    /// Returns code and message of a `connection_error`, after which the stream has to end.
    pub(crate) fn read_connection_error(&mut self) -> (String, String) {
        let frame = self.read_frame().expect("a notification");
        let Ok(Message::Notification { method: "connection_error", params }) = Message::parse(&frame) else {
            panic!("another message");
        };
        let error = connection_error(params).unwrap();
        let reported = (error.code.to_owned(), error.message.to_owned());
        assert_eq!(self.read_frame(), Err("closed".to_owned()), "after {reported:?}");
        reported
    }

    /// Reads to the end, which must come before any response.
    pub(crate) fn read_connection_error_or_alert(&mut self) {
        while let Ok(frame) = self.read_frame() {
            assert!(matches!(Message::parse(&frame), Ok(Message::Notification { .. })));
        }
    }

    /// Returns id and error code of a response; the code is empty for a success.
    pub(crate) fn read_response(&mut self) -> (u32, String) {
        let frame = self.read_frame().expect("a response");
        match Message::parse(&frame) {
            Ok(Message::Response { id, result: Ok(_) }) => (id, String::new()),
            Ok(Message::Response { id, result: Err(error) }) => (id, error.error().unwrap().code.to_owned()),
            other => panic!("another message: {other:?}"),
        }
    }
}

/// Appends a request to the test service.
pub(crate) fn test_request(id: u32, app: &str, document: &str, out: &mut Vec<u8>) {
    let options = leafseal_client::EncryptOptions::new(app);
    leafseal_protocol::request::encrypt_document(id, &options, None, document.as_bytes(), out);
}

/// Counts the retries of calls.
#[derive(Default)]
pub(crate) struct Repetitions {
    pub after: Mutex<Vec<ClientErrorKind>>,
}

impl CallObserver for Repetitions {
    fn ended(&self, _: Method, _: CallOutcome<'_>, _: Duration) {}

    fn retried(&self, _: Method, error: &ClientError) {
        self.after.lock().unwrap().push(error.kind);
    }
}
