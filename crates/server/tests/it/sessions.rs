//! Resumption of TLS sessions: who may resume what, where, and for how long; with BoringSSL's client and Python's.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use boring::hash::MessageDigest;
use boring::pkey::{PKey, Private};
use boring::sign::Signer;
use boring::ssl::{
    PrivateKeyMethod, PrivateKeyMethodError, SslConnector, SslConnectorBuilder, SslRef, SslSession,
    SslSessionCacheMode, SslSignatureAlgorithm, SslStream,
};
use boring::x509::X509;
use leafseal_engine::Settings;
use leafseal_net::tls::{
    Issued, ServerIdentity, SessionSettings, Validity, VerifiedChains, offer_session, ticket_keys,
};
use leafseal_protocol::FrameLimits;
use leafseal_server::{ApiSettings, Server, ServerSettings, TlsSettings, issue_client};
use leafseal_service::EngineService;

use crate::common::{PATIENCE, Pki, TestServer, raw_connector, test_request, wait_until};
use leafseal_testkit::engine;

const DAY: Duration = Duration::from_secs(24 * 3600);

/// A client that keeps the tickets it gets, and uses the first of them for each new connection.
pub(crate) struct Resumer {
    connector: SslConnector,
    tickets: Arc<Mutex<Vec<SslSession>>>,
}

impl Resumer {
    fn new(pki: &Pki, identity: Option<Issued>) -> Self {
        Self::of(raw_connector(pki, identity))
    }

    pub(crate) fn of(mut connector: SslConnectorBuilder) -> Self {
        let tickets = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&tickets);
        connector.set_session_cache_mode(SslSessionCacheMode::CLIENT);
        connector.set_new_session_callback(move |_, session| kept.lock().unwrap().push(session));
        Self { connector: connector.build(), tickets }
    }

    pub(crate) fn open(
        &self,
        address: SocketAddr,
        ticket: Option<&SslSession>,
    ) -> Result<SslStream<TcpStream>, String> {
        let socket = TcpStream::connect(address).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut ssl = self.connector.configure().unwrap().into_ssl("localhost").unwrap();
        if let Some(ticket) = ticket {
            offer_session(&mut ssl, ticket).unwrap();
        }
        ssl.connect(socket).map_err(|error| error.to_string())
    }

    /// Whether a connection with this ticket is a resumed one, and the answer to a request on it.
    pub(crate) fn ask(&self, address: SocketAddr, ticket: Option<&SslSession>) -> Result<(bool, Vec<u8>), String> {
        let mut stream = self.open(address, ticket)?;
        let mut request = Vec::new();
        test_request(1, "echo", "x", &mut request);
        stream.write_all(&request).map_err(|error| error.to_string())?;
        let mut answer = [0; 256];
        let size = stream.read(&mut answer).map_err(|error| error.to_string())?;
        Ok((stream.ssl().session_reused(), answer[..size].to_vec()))
    }

    /// The first ticket of a full handshake.
    pub(crate) fn ticket(&self, address: SocketAddr) -> SslSession {
        self.tickets.lock().unwrap().clear();
        let (is_resumed, _) = self.ask(address, None).unwrap();
        assert!(!is_resumed);
        self.tickets.lock().unwrap()[0].clone()
    }

    pub(crate) fn resumes(&self, address: SocketAddr, ticket: &SslSession) -> bool {
        self.ask(address, Some(ticket)).unwrap().0
    }
}

fn shop(test_server: &TestServer) -> Resumer {
    Resumer::new(&test_server.pki, Some(test_server.pki.client("shop")))
}

fn keys(bytes: &[u8]) -> SessionSettings {
    let text: String = bytes.iter().map(|byte| format!("{byte:02x}").repeat(32) + "\n").collect();
    SessionSettings { ticket_keys: ticket_keys(text.as_bytes()).unwrap(), ..SessionSettings::default() }
}

#[test]
fn a_resumed_session_has_the_identity_of_its_full_handshake() {
    let test_server = TestServer::new();
    let resumer = shop(&test_server);
    let ticket = resumer.ticket(test_server.address());
    // Several times with one ticket, as clients with several connections do.
    for _ in 0..3 {
        let (is_resumed, answer) = resumer.ask(test_server.address(), Some(&ticket)).unwrap();
        assert!(is_resumed && !answer.is_empty());
    }
    assert_eq!(*test_server.service.admitted.lock().unwrap(), ["shop"; 4]);
    wait_until("resumptions are counted", || test_server.server.counters().handshakes_resumed == 3);
    test_server.assert_healthy();
}

#[test]
fn a_client_without_a_grant_resumes_nothing() {
    let test_server = TestServer::new();
    let resumer = shop(&test_server);
    let ticket = resumer.ticket(test_server.address());
    test_server.service.forbidden.lock().unwrap().push("shop".to_owned());
    let answer = resumer.ask(test_server.address(), Some(&ticket)).unwrap().1;
    assert!(String::from_utf8_lossy(&answer).contains("forbidden"), "{answer:?}");
    wait_until("it is refused", || test_server.server.counters().connections_forbidden == 1);
}

#[test]
fn nobody_resumes_with_a_certificate_that_has_expired() {
    let test_server = TestServer::new();
    // It expires in three to four seconds.
    let validity = Validity { now: SystemTime::now() - DAY + Duration::from_secs(4), days: 1 };
    let resumer =
        Resumer::new(&test_server.pki, Some(issue_client(&test_server.pki.authority, "shop", validity).unwrap()));
    let ticket = resumer.ticket(test_server.address());
    wait_until("its certificate has expired", || {
        // The ticket has expired with it, so the handshake is a full one.
        resumer.ask(test_server.address(), Some(&ticket)).is_err_and(|error| error.contains("EXPIRED"))
    });
}

#[test]
fn other_authorities_end_all_sessions() {
    let (test_server, other) = (TestServer::with(|settings| settings.tls.sessions = keys(&[1])), Pki::new());
    let resumer = shop(&test_server);
    let ticket = resumer.ticket(test_server.address());
    let tls = |client_authorities_pem: Vec<u8>| TlsSettings {
        sessions: keys(&[1]),
        client_authorities_pem,
        ..test_server.pki.server_tls()
    };
    test_server.server.reload(&tls(test_server.pki.authority_pem.clone()), None).unwrap();
    assert!(resumer.resumes(test_server.address(), &ticket), "another certificate of the server changes nothing");
    test_server.server.reload(&tls(other.authority_pem.clone()), None).unwrap();
    let error = resumer.ask(test_server.address(), Some(&ticket)).unwrap_err();
    assert!(error.contains("UNKNOWN_CA"), "{error}");
    let both = [&other.authority_pem[..], &test_server.pki.authority_pem].concat();
    test_server.server.reload(&tls(both), None).unwrap();
    assert!(!resumer.resumes(test_server.address(), &ticket));
}

#[test]
fn engines_with_the_same_keys_resume_each_others_sessions() {
    let first = TestServer::with(|settings| settings.tls.sessions = keys(&[1]));
    let resumer = shop(&first);
    let ticket = resumer.ticket(first.address());
    let rows = [(keys(&[1]), true), (keys(&[2, 1]), true), (keys(&[2]), false), (SessionSettings::default(), false)];
    for (sessions, expected) in rows {
        let (_, server) = first.beside(|settings| settings.tls.sessions = sessions);
        assert_eq!(resumer.resumes(server.local_addr(), &ticket), expected);
    }
}

#[test]
fn tickets_end_with_their_lifetime_however_often_they_are_renewed() {
    let lifetime = Duration::from_secs(4);
    let test_server = TestServer::with(|settings| settings.tls.sessions.lifetime = lifetime);
    let resumer = shop(&test_server);
    let start = std::time::Instant::now();
    let mut ticket = resumer.ticket(test_server.address());
    while start.elapsed() < lifetime + Duration::from_secs(2) {
        resumer.tickets.lock().unwrap().clear();
        let is_resumed = resumer.resumes(test_server.address(), &ticket);
        if !is_resumed {
            return;
        }
        // In its last second a session has no ticket any more.
        if let Some(renewed) = resumer.tickets.lock().unwrap().first() {
            ticket = renewed.clone();
        }
        std::thread::sleep(Duration::from_millis(200));
    }
    panic!("a chain of renewals continues");
}

#[test]
fn without_a_lifetime_there_are_no_tickets() {
    let test_server = TestServer::with(|settings| settings.tls.sessions.lifetime = Duration::ZERO);
    let resumer = shop(&test_server);
    resumer.ask(test_server.address(), None).unwrap();
    assert!(resumer.tickets.lock().unwrap().is_empty());
}

/// Bytes of a ticket that were changed, and tickets of anybody else, lead to a full handshake, which needs the certificate.
#[test]
fn a_forged_ticket_is_no_identity() {
    let test_server = TestServer::new();
    let resumer = shop(&test_server);
    let ticket = resumer.ticket(test_server.address());
    let der = ticket.to_der().unwrap();
    let without_certificate = Resumer::new(&test_server.pki, None);
    assert!(without_certificate.resumes(test_server.address(), &ticket), "a ticket is what counts");
    let mut forged = 0;
    for place in (0..der.len()).step_by(5) {
        let mut changed = der.clone();
        changed[place] ^= 0x10;
        // Changes outside the ticket may leave nothing that is a session, or another one for the client alone.
        let Ok(session) = SslSession::from_der(&changed) else { continue };
        match without_certificate.ask(test_server.address(), Some(&session)) {
            Ok((is_resumed, _)) => assert!(is_resumed),
            Err(_) => forged += 1,
        }
    }
    assert!(forged > 20, "{forged}");
    assert!(test_server.service.admitted.lock().unwrap().iter().all(|caller| caller == "shop"));
    test_server.assert_healthy();
}

/// Sessions of the API have no client certificate. With the same keys one must not open the door of the other listener.
#[test]
fn a_session_of_the_api_is_none_of_the_rpc_listener() {
    let pki = Pki::new();
    let tls = TlsSettings { sessions: keys(&[1]), ..pki.server_tls() };
    let identity = ServerIdentity {
        certificate_chain_pem: tls.certificate_chain_pem.clone(),
        private_key_pem: tls.private_key_pem.clone(),
        private_key_settings: tls.private_key_settings,
        sessions: tls.sessions.clone(),
        key_exchange: tls.key_exchange.clone(),
    };
    let local = SocketAddr::from(([127, 0, 0, 1], 0));
    let api = ApiSettings { address: Some(local), identity: Some(identity), ..ApiSettings::default() };
    let fixture = engine(Settings::default(), "shop", None);
    let service = EngineService::new(fixture.engine.clone(), FrameLimits::default(), 1 << 30);
    let settings = ServerSettings { address: local, network_threads: 1, workers: 1, api, ..ServerSettings::new(tls) };
    let server = Server::start(settings, Arc::new(service)).unwrap();
    let (rpc, api) = (server.local_addr(), server.api_addr().unwrap());
    let of_api = Resumer::new(&pki, None);
    let first = http(&of_api, api, None);
    let ticket = of_api.tickets.lock().unwrap()[0].clone();
    assert_eq!((first, http(&of_api, api, Some(&ticket))), (false, true));
    let error = of_api.ask(rpc, Some(&ticket)).unwrap_err();
    assert!(error.contains("CERTIFICATE_REQUIRED"), "{error}");

    let of_rpc = Resumer::new(&pki, Some(pki.client("shop")));
    let ticket = of_rpc.ticket(rpc);
    assert!(!http(&of_rpc, api, Some(&ticket)));
}

/// A call of the API; whether it was on a resumed session.
fn http(resumer: &Resumer, api: SocketAddr, ticket: Option<&SslSession>) -> bool {
    let mut stream = resumer.open(api, ticket).unwrap();
    stream.write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    assert!(answer.starts_with(b"HTTP/1.1 "), "{answer:?}");
    stream.ssl().session_reused()
}

/// Signs handshakes with a key that is not that of the certificate.
struct KeyOfAnother(PKey<Private>);

impl PrivateKeyMethod for KeyOfAnother {
    fn sign(
        &self,
        _ssl: &mut SslRef,
        input: &[u8],
        _algorithm: SslSignatureAlgorithm,
        output: &mut [u8],
    ) -> Result<usize, PrivateKeyMethodError> {
        let mut signer = Signer::new(MessageDigest::sha256(), &self.0).unwrap();
        Ok(signer.sign_oneshot(output, input).unwrap())
    }

    fn decrypt(&self, _: &mut SslRef, _: &[u8], _: &mut [u8]) -> Result<usize, PrivateKeyMethodError> {
        Err(PrivateKeyMethodError::FAILURE)
    }

    fn complete(&self, _: &mut SslRef, _: &mut [u8]) -> Result<usize, PrivateKeyMethodError> {
        Err(PrivateKeyMethodError::FAILURE)
    }
}

/// A client verified once is admitted again, one of another authority never, and bounds of zero remember nothing.
#[test]
fn verified_chains_admit_nobody_else() {
    let none = VerifiedChains { count_max: 0, ..VerifiedChains::default() };
    let one = VerifiedChains { count_max: 1, ..VerifiedChains::default() };
    for verified_chains in [VerifiedChains::default(), one, none] {
        let test_server = TestServer::with(|settings| settings.tls.verified_chains = verified_chains);
        let stranger = Pki::new();
        let connect = |identity: Issued| {
            Resumer::new(&test_server.pki, Some(identity)).ask(test_server.address(), None).map(|(_, answer)| answer)
        };
        let [shop, till] = ["shop", "till"].map(|name| test_server.pki.client(name));
        let clone = |issued: &Issued| Issued {
            certificate_pem: issued.certificate_pem.clone(),
            private_key_pem: issued.private_key_pem.clone(),
        };
        for identity in [&shop, &till, &shop, &shop, &till] {
            connect(clone(identity)).expect("of our authority");
        }
        assert_eq!(*test_server.service.admitted.lock().unwrap(), ["shop", "till", "shop", "shop", "till"]);
        for _ in 0..2 {
            assert!(connect(stranger.client("shop")).unwrap_err().contains("UNKNOWN_CA"));
        }
        // A certificate that is remembered is of no use without its key.
        let mut connector = raw_connector(&test_server.pki, None);
        connector.set_certificate(&X509::from_pem(&shop.certificate_pem).unwrap()).unwrap();
        connector.set_private_key_method(KeyOfAnother(PKey::private_key_from_pem(&till.private_key_pem).unwrap()));
        let error = Resumer::of(connector).ask(test_server.address(), None).unwrap_err();
        assert!(error.contains("DECRYPT_ERROR"), "{error}");
        test_server.assert_healthy();
    }
}

/// Python's `ssl`, that is OpenSSL, with a client certificate: a full handshake, and a second connection with its session.
#[test]
fn python_resumes_a_session() {
    const SCRIPT: &str = r#"
import socket, ssl, sys
port, authority, certificate, key, request = sys.argv[1:]
context = ssl.create_default_context(cafile=authority)
context.load_cert_chain(certificate, key)
def ask(session):
    with socket.create_connection(("127.0.0.1", int(port)), 20) as raw:
        with context.wrap_socket(raw, server_hostname="localhost", session=session) as stream:
            stream.sendall(bytes.fromhex(request))
            assert stream.recv(4096)
            return stream.session, stream.session_reused
session, first = ask(None)
_, second = ask(session)
print(first, second)
"#;
    let test_server = TestServer::new();
    let folder = tempfile::tempdir().unwrap();
    let identity = test_server.pki.client("shop");
    let files = [
        ("ca.pem", &test_server.pki.authority_pem[..]),
        ("shop.pem", &identity.certificate_pem),
        ("shop.key", &identity.private_key_pem),
    ];
    let mut request = Vec::new();
    test_request(1, "echo", "x", &mut request);
    let mut command = Command::new("python3");
    command.args(["-c", SCRIPT, &test_server.address().port().to_string()]);
    for (name, content) in files {
        std::fs::write(folder.path().join(name), content).unwrap();
        command.arg(folder.path().join(name));
    }
    let output = command.arg(hex::encode(request)).output().expect("python3 runs");
    let printed = String::from_utf8_lossy(&output.stdout);
    assert_eq!(printed.trim(), "False True", "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn the_longest_lifetime_of_all_starts_too() {
    let pki = Pki::new();
    let mut tls = pki.server_tls();
    tls.sessions.lifetime = Duration::MAX;
    let settings = ServerSettings { address: ([127, 0, 0, 1], 0).into(), ..ServerSettings::new(tls) };
    let server = Server::start(settings, Arc::new(crate::common::TestService::default())).unwrap();
    let resumer = Resumer::new(&pki, Some(pki.client("shop")));
    let ticket = resumer.ticket(server.local_addr());
    assert!(resumer.resumes(server.local_addr(), &ticket));
}
