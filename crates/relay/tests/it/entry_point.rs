//! The relay's own decisions, of an outbound listener with a real engine behind it: the table of decisions, destinations, and tunnels.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::SystemTime;

use boring::ssl::{SslConnector, SslMethod, SslVerifyMode};
use leafseal_config::KeyExchange;
use leafseal_errors::EntryPoint;
use leafseal_net::tls::{
    CertificateAuthority, PrivateKeySettings, ServerName, SessionSettings, Validity, VerifiedChains,
};
use leafseal_protocol::FrameLimits;
use leafseal_relay::{Configuration, Relay};
use leafseal_server::{Server, ServerSettings, TlsSettings, issue_client};
use leafseal_service::EngineService;
use leafseal_testkit::{
    CASE_APP, CaseCaller, CaseRequest, DecisionCase, DecisionFixture, RecordedDecisions, decision_cases,
};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;

use crate::common::{Identity, PATIENCE, until};

/// The listed destinations: one for each rule of the table.
const DESTINATIONS: &str = r#"
[[outbound.destination]]
hosts = ["127.0.0.1"]
request = [{ action = "encrypt", json = ["$.a"] }]
[[outbound.destination]]
hosts = ["127.0.0.2"]
request = [{ action = "encrypt", json = ["$.a"], skip_sealed = true }]
[[outbound.destination]]
hosts = ["127.0.0.3"]
request = [{ action = "decrypt", json = ["$.a"] }]
[[outbound.destination]]
hosts = ["127.0.0.4"]
request = [{ action = "encrypt", json = ["$.a"], reseal = "symmetric", role = "health" }]
"#;

struct RelayFixture {
    fixture: DecisionFixture,
    decisions: Arc<RecordedDecisions>,
    relay: Relay,
    _server: Server,
    _folder: TempDir,
}

fn server(fixture: &DecisionFixture, authority: &CertificateAuthority) -> Server {
    let validity = Validity { now: SystemTime::now(), days: 2 };
    let issued = authority.issue_server(&[ServerName::parse("localhost")], validity).unwrap();
    let tls = TlsSettings {
        certificate_chain_pem: issued.certificate_pem,
        private_key_pem: issued.private_key_pem,
        private_key_settings: PrivateKeySettings::default(),
        sessions: SessionSettings::default(),
        key_exchange: KeyExchange::of_rpc(),
        verified_chains: VerifiedChains::default(),
        client_authorities_pem: authority.certificate_pem().unwrap(),
    };
    let address = SocketAddr::from(([127, 0, 0, 1], 0));
    let settings = ServerSettings { address, network_threads: 1, workers: 1, ..ServerSettings::new(tls) };
    let service = EngineService::new(fixture.engine.clone(), FrameLimits::default(), 1 << 30);
    Server::start(settings, Arc::new(service)).unwrap()
}

impl RelayFixture {
    /// The first listener refuses unlisted destinations, the second opens tunnels to them.
    fn new() -> RelayFixture {
        let (fixture, folder) = (DecisionFixture::new(), tempfile::tempdir().unwrap());
        let validity = Validity { now: SystemTime::now(), days: 2 };
        let authority = CertificateAuthority::create("test authority", validity).unwrap();
        let server = server(&fixture, &authority);
        let client = issue_client(&authority, CaseCaller::All.client(), validity).unwrap();
        let identity = Identity::new().of_server();
        let write = |name: &str, bytes: &[u8]| std::fs::write(folder.path().join(name), bytes).unwrap();
        write("authority.pem", &authority.certificate_pem().unwrap());
        write("client.pem", &client.certificate_pem);
        write("client.key", &client.private_key_pem);
        write("ca.pem", &identity.certificate_chain_pem);
        write("ca.key", &identity.private_key_pem);
        let listener =
            "[[outbound]]\naddress = \"127.0.0.1:0\"\nca_certificate = \"ca.pem\"\nca_private_key = \"ca.key\"\n";
        let port = server.local_addr().port();
        let text = format!(
            "[relay]\nthreads = 1\noperator_address = \"127.0.0.1:0\"\n[limits]\napi_key_timeout = \"50ms\"\n\
             [engine]\naddresses = [\"localhost:{port}\"]\nauthorities = \"authority.pem\"\ncertificate = \"client.pem\"\n\
             private_key = \"client.key\"\n[upstream]\nauthorities = \"ca.pem\"\nsystem_authorities = false\n\
             {listener}{DESTINATIONS}{listener}unlisted = \"tunnel\"\nunlisted_internal = \"tunnel\"\n"
        );
        let configuration = Configuration::parse(&text).unwrap_or_else(|problems| panic!("{problems:?} in\n{text}"));
        let relay = Relay::start(configuration, folder.path(), None).unwrap();
        let decisions = RecordedDecisions::new();
        relay.observe_decisions(Arc::<RecordedDecisions>::clone(&decisions));
        RelayFixture { fixture, decisions, relay, _server: server, _folder: folder }
    }

    /// Sends `CONNECT` to a listener; returns the stream and the status.
    async fn connect(&self, listener: usize, target: &str, key: Option<&str>) -> (TcpStream, u16) {
        let mut stream = TcpStream::connect(self.relay.addresses()[listener].address).await.unwrap();
        let key = key.map_or(String::new(), |key| format!("Proxy-Authorization: Bearer {key}\r\n"));
        let request = format!("CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n{key}\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(timeout(PATIENCE, stream.read_u8()).await.expect("an answer in time").unwrap());
        }
        let status = String::from_utf8(head).unwrap().split(' ').nth(1).unwrap().parse().unwrap();
        (stream, status)
    }

    /// Makes the request of a case: a tunnel to the destination whose rule does it, and a message in it.
    async fn make(&self, case: &DecisionCase) {
        let (host, value) = match case.request {
            CaseRequest::Encrypt => ("127.0.0.1", "\"a\""),
            CaseRequest::SkipSealed => ("127.0.0.2", "\"a\""),
            CaseRequest::Decrypt => ("127.0.0.3", &*self.fixture.sealed),
            CaseRequest::Reseal => ("127.0.0.4", &*self.fixture.sealed),
            CaseRequest::Rewrap | CaseRequest::Inspect | CaseRequest::PublicKeys => unreachable!("no rule does it"),
        };
        let key = self.fixture.api_key(case.caller, case.app);
        // Nothing listens at this port: what the destination would answer does not matter.
        let (stream, status) = self.connect(0, &format!("{host}:9"), key.as_deref()).await;
        if status != 200 {
            return assert_eq!(status, 407, "{}", case.name);
        }
        let mut connector = SslConnector::builder(SslMethod::tls()).unwrap();
        connector.set_verify(SslVerifyMode::NONE);
        let handshake = tokio_boring::connect(connector.build().configure().unwrap(), host, stream);
        let mut stream = timeout(PATIENCE, handshake).await.expect("a handshake in time").unwrap();
        let body = format!("{{\"a\":{value}}}");
        let size = body.len();
        let head = format!(
            "POST / HTTP/1.1\r\nhost: {host}:9\r\nconnection: close\r\ncontent-type: application/json\r\ncontent-length: {size}\r\n\r\n"
        );
        stream.write_all((head + &body).as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        let _ = timeout(PATIENCE, stream.read_to_end(&mut answer)).await.expect("an answer in time");
        assert!(answer.starts_with(b"HTTP/1.1 "), "{}", String::from_utf8_lossy(&answer));
    }

    async fn assert_decisions(&self, what: &str, expected: &[impl AsRef<str>]) {
        let mut seen = Vec::new();
        until(what, || {
            seen.extend(self.decisions.take());
            seen.len() >= expected.len()
        })
        .await;
        assert_eq!(seen, expected.iter().map(AsRef::as_ref).collect::<Vec<_>>(), "{what}");
    }

    async fn shut_down(self) {
        assert_eq!(self.decisions.take(), [""; 0], "no other decisions");
        tokio::task::spawn_blocking(|| self.relay.shutdown().map(drop)).await.unwrap().unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn each_message_through_the_relay_gives_the_decisions_of_the_table() {
    let relay = RelayFixture::new();
    for case in decision_cases(EntryPoint::Relay) {
        relay.make(case).await;
        relay.assert_decisions(case.name, &case.expected(EntryPoint::Relay)).await;
    }
    relay.shut_down().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn destinations_and_tunnels_are_decided() {
    let relay = RelayFixture::new();
    let key = relay.fixture.api_key(CaseCaller::Writer, CASE_APP).expect("it has one");
    let (_, status) = relay.connect(0, "192.0.2.1:443", Some(&key)).await;
    assert_eq!(status, 403);
    relay.assert_decisions("an unlisted destination", &["relay key permission - acme unlisted_destination"]).await;
    let upstream = TcpListener::bind("127.0.0.9:0").await.unwrap();
    let target = upstream.local_addr().unwrap().to_string();
    let (mut tunnel, status) = relay.connect(1, &target, Some(&key)).await;
    assert_eq!(status, 200);
    relay.assert_decisions("a tunnel that is not inspected", &["relay key permission - acme granted"]).await;
    let id = leafseal_testkit::id_of(&key);
    relay.fixture.engine.store().revoke_api_key(&id).unwrap();
    let ended = timeout(PATIENCE, tunnel.read(&mut [0])).await.expect("it ends in time");
    assert!(matches!(ended, Ok(0) | Err(_)));
    relay.assert_decisions("its end with the key", &["relay key identity - acme unauthorized"]).await;
    relay.shut_down().await;
}
