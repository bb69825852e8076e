//! The table of decisions at the entry points of the server: MessagePack-RPC and the HTTPS API.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use boring::ssl::{SslConnector, SslMethod, SslVerifyMode};
use leafseal_client::{Client, ClientError, ClientSettings, DecryptOptions, EncryptOptions, Reseal, RewrapOptions};
use leafseal_engine::EntryPoint;
use leafseal_net::tls::{Issued, Validity};
use leafseal_protocol::FrameLimits;
use leafseal_server::{Server, issue_client};
use leafseal_service::EngineService;
use leafseal_testkit::{CASE_APP, CaseCaller, CaseRequest, DecisionCase, DecisionFixture, decision_cases};

use crate::common::{PATIENCE, Pki, Raw, raw_connector, wait_until};

struct RealServer {
    fixture: DecisionFixture,
    pki: Pki,
    server: Server,
}

impl RealServer {
    fn new() -> RealServer {
        let (fixture, pki) = (DecisionFixture::new(), Pki::new());
        let settings = pki.server_settings();
        let service = EngineService::new(fixture.engine.clone(), FrameLimits::default(), 1 << 30);
        let server = Server::start(settings, Arc::new(service)).expect("it starts");
        RealServer { fixture, pki, server }
    }

    /// Makes the request of a case over RPC, on a connection of its own.
    async fn rpc(&self, case: &DecisionCase) {
        let address = self.server.local_addr();
        if case.caller == CaseCaller::Nobody {
            let connected = Raw::try_connect(address, raw_connector(&self.pki, None));
            return if let Ok(mut raw) = connected {
                raw.read_connection_error_or_alert()
            };
        }
        let tls = self.pki.client_tls(self.pki.client(case.caller.client()));
        let settings = ClientSettings { retries_max: 0, ..ClientSettings::new(address.to_string(), tls) };
        let client = Client::new(settings).expect("good settings");
        // An error is the answer of some of them, and the decisions are what the test looks at.
        let _ = ask(&client, case, &self.fixture.sealed).await;
    }

    /// Makes the request of a case over HTTPS.
    fn api(&self, case: &DecisionCase) {
        let key = self.fixture.api_key(case.caller, case.app);
        let credentials = key.map_or(String::new(), |key| format!("Api-Key: {key}\r\n"));
        let sealed = &*self.fixture.sealed;
        let (method, path, body) = match case.request {
            CaseRequest::Encrypt => ("POST", "/encrypt".to_owned(), "\"a\""),
            CaseRequest::SkipSealed => ("POST", "/encrypt?skip_sealed=true".to_owned(), "\"a\""),
            CaseRequest::Reseal => ("POST", "/encrypt?reseal=symmetric&role=health".to_owned(), sealed),
            CaseRequest::Decrypt => ("POST", "/decrypt".to_owned(), sealed),
            CaseRequest::Inspect => ("POST", "/inspect".to_owned(), sealed),
            CaseRequest::PublicKeys => ("GET", format!("/any/apps/{}", case.app), ""),
            CaseRequest::Rewrap => unreachable!("the API has no such call"),
        };
        let size = body.len();
        let head = format!(
            "{method} {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n{credentials}content-type: application/json\r\n\
             content-length: {size}\r\n\r\n"
        );
        let socket = TcpStream::connect(self.server.api_addr().expect("it has an API")).expect("connects");
        socket.set_read_timeout(Some(PATIENCE)).expect("set");
        let mut connector = SslConnector::builder(SslMethod::tls()).expect("a context");
        connector.set_verify(SslVerifyMode::NONE);
        let mut stream = connector.build().connect("localhost", socket).expect("shakes hands");
        stream.write_all((head + body).as_bytes()).expect("sent");
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        assert!(answer.starts_with(b"HTTP/1.1 "), "{}", String::from_utf8_lossy(&answer));
    }

    fn assert_decisions(&self, case: &DecisionCase, entry_point: EntryPoint) {
        let expected = case.expected(entry_point);
        let mut seen = Vec::new();
        wait_until(case.name, || {
            seen.extend(self.fixture.decisions.take());
            seen.len() >= expected.len()
        });
        assert_eq!(seen, expected, "{} at {entry_point:?}", case.name);
    }
}

async fn ask(client: &Client, case: &DecisionCase, sealed: &str) -> Result<(), ClientError> {
    let envelope = sealed.trim_matches('"');
    let encrypt = EncryptOptions::new(case.app);
    match case.request {
        CaseRequest::Encrypt => client.encrypt_document(&encrypt, None, b"\"a\"").await.map(drop),
        CaseRequest::SkipSealed => {
            let options = EncryptOptions { skip_sealed: true, ..encrypt };
            client.encrypt_document(&options, None, b"\"a\"").await.map(drop)
        }
        CaseRequest::Reseal => {
            let options = EncryptOptions { reseal: Some(Reseal::Symmetric), role: Some("health"), ..encrypt };
            client.encrypt_document(&options, None, sealed.as_bytes()).await.map(drop)
        }
        CaseRequest::Decrypt => {
            client.decrypt_document(&DecryptOptions::new(case.app), None, sealed.as_bytes()).await.map(drop)
        }
        CaseRequest::Rewrap => client.rewrap(&RewrapOptions::new(case.app), &[envelope]).await.map(drop),
        CaseRequest::Inspect => client.inspect(Some(case.app), &[envelope]).await.map(drop),
        CaseRequest::PublicKeys => client.public_keys(case.app).await.map(drop),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn each_request_over_rpc_gives_the_decisions_of_the_table() {
    let server = RealServer::new();
    for case in decision_cases(EntryPoint::Rpc) {
        server.rpc(case).await;
        server.assert_decisions(case, EntryPoint::Rpc);
    }
    assert_eq!(server.fixture.decisions.take(), [""; 0], "and no others");
}

#[test]
fn each_call_of_the_api_gives_the_decisions_of_the_table() {
    let server = RealServer::new();
    for case in decision_cases(EntryPoint::Api) {
        server.api(case);
        server.assert_decisions(case, EntryPoint::Api);
    }
    assert_eq!(server.fixture.decisions.take(), [""; 0], "and no others");
}

/// Calls that need no more than an identity, or have none, and the credentials that they do not take.
#[test]
fn calls_without_a_permission_give_at_most_a_decision_about_the_identity() {
    let server = RealServer::new();
    let key = server.fixture.api_key(CaseCaller::Writer, CASE_APP).expect("it has one");
    let call = |path: &str, credentials: &str| {
        let socket = TcpStream::connect(server.server.api_addr().expect("it has an API")).expect("connects");
        let mut connector = SslConnector::builder(SslMethod::tls()).expect("a context");
        connector.set_verify(SslVerifyMode::NONE);
        let mut stream = connector.build().connect("localhost", socket).expect("shakes hands");
        let head = format!("GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n{credentials}\r\n");
        stream.write_all(head.as_bytes()).expect("sent");
        let _ = stream.read_to_end(&mut Vec::new());
        server.fixture.decisions.take()
    };
    assert_eq!(call("/openapi.json", ""), [""; 0]);
    assert_eq!(call("/nowhere", ""), [""; 0]);
    assert_eq!(call("/v2/relay-outbound", &format!("Api-Key: {key}\r\n")), ["api key identity - acme granted"]);
    for wrong in ["", "Api-Key: lsk_1\r\n", "Authorization: Token fst_00\r\n", "Authorization: Digest a\r\n"] {
        let decisions = call("/v2/relay-outbound", wrong);
        assert_eq!(decisions, ["api anonymous identity - - unauthorized"], "{wrong}");
    }
    let of_other = base64(&format!("other:{key}"));
    let decisions = call("/cages/key", &format!("Authorization: Basic {of_other}\r\n"));
    assert_eq!(decisions, ["api key identity - - unauthorized"]);
}

fn base64(text: &str) -> String {
    boring::base64::encode_block(text.as_bytes())
}

/// Certificates that TLS refuses, or that expire under an open connection, are refused identities, too.
#[test]
fn certificates_that_are_not_ours_or_expire_are_decided() {
    let server = RealServer::new();
    let address = server.server.local_addr();
    let refused = |issued: Issued| {
        if let Ok(mut raw) = Raw::try_connect(address, raw_connector(&server.pki, Some(issued))) {
            raw.read_connection_error_or_alert();
        }
    };
    let validity = |now: SystemTime| Validity { now, days: 1 };
    let issue = |now| issue_client(&server.pki.authority, "all", validity(now)).expect("issued");
    let (now, day) = (SystemTime::now(), Duration::from_secs(86_400));
    for issued in [Pki::new().client("all"), issue(now - 2 * day), issue(now + day)] {
        refused(issued);
        let mut seen = Vec::new();
        wait_until("it is refused", || {
            seen.extend(server.fixture.decisions.take());
            !seen.is_empty()
        });
        assert_eq!(seen, ["rpc anonymous identity - - forbidden"]);
    }
    // It expires in three to four seconds.
    let _open = Raw::connect(address, raw_connector(&server.pki, Some(issue(now - day + Duration::from_secs(4)))));
    let mut seen = Vec::new();
    wait_until("it has expired", || {
        seen.extend(server.fixture.decisions.take());
        !seen.is_empty()
    });
    assert_eq!(seen, ["rpc all identity - - forbidden"]);
}
