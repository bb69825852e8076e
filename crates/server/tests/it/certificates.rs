//! Authentication: each wrong certificate, version and protocol causes a clear error on both sides, and the server continues.

use crate::common;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, SystemTime};

use crate::common::{Pki, Raw, TestServer, raw_connector, test_request, wait_until};
use boring::ssl::{SslConnectorBuilder, SslVersion};
use leafseal_client::{Client, ClientError, ErrorCode, ErrorKind, Retry};
use leafseal_net::tls::{Issued, ServerName, Validity};
use leafseal_server::{TlsSettings, issue_client};

const DAY: Duration = Duration::from_secs(86_400);

/// Connects with `identity` and returns the error.
async fn refused(test_server: &TestServer, identity: Issued) -> ClientError {
    let mut settings = test_server.client_settings();
    settings.tls = test_server.pki.client_tls(identity);
    let error = Client::connect(settings).await.expect_err("the server lets it in");
    test_server.assert_healthy();
    error
}

fn assert_tls(error: &ClientError, words: &str) {
    assert_eq!((error.kind, error.retry), (ErrorKind::Tls, Retry::Never), "{error}");
    assert!(error.message.contains(words), "{error}");
}

#[tokio::test]
async fn certificates_that_are_not_ours_or_not_now_are_refused() {
    let test_server = TestServer::new();
    let stranger = Pki::new();
    assert_tls(&refused(&test_server, stranger.client("shop")).await, "an authority that it does not know");

    let past = Validity { now: SystemTime::now() - 3 * DAY, days: 2 };
    let expired = issue_client(&test_server.pki.authority, "shop", past).unwrap();
    assert_tls(&refused(&test_server, expired).await, "our certificate \"shop\", issued by ");

    let late = Validity { now: SystemTime::now() + DAY, days: 1 };
    let future = issue_client(&test_server.pki.authority, "shop", late).unwrap();
    assert_tls(&refused(&test_server, future).await, "not yet valid");

    let names = [ServerName::parse("shop")];
    let of_a_server = test_server.pki.authority.issue_server(&names, common::validity()).unwrap();
    assert_tls(&refused(&test_server, of_a_server).await, "not meant for clients");
    wait_until("all are counted", || test_server.server.counters().handshakes_failed == 4);
}

#[tokio::test]
async fn an_unknown_caller_receives_an_error() {
    let test_server = TestServer::new();
    let error = refused(&test_server, test_server.pki.client("stranger")).await;
    assert_eq!((error.kind, error.retry), (ErrorKind::ConnectionRefused(ErrorCode::Forbidden), Retry::Never));
    assert!(error.message.contains("no client of this name"), "{error}");
    assert_eq!(test_server.server.counters().connections_forbidden, 1);
}

/// The client's read error when its half of the handshake succeeded and the server's failed.
fn alert_of(test_server: &TestServer, connector: SslConnectorBuilder) -> String {
    match Raw::try_connect(test_server.address(), connector) {
        Err(error) => error,
        Ok(mut raw) => raw.read_frame().expect_err("the server lets it in"),
    }
}

#[test]
fn without_a_certificate_or_tls_1_3_or_our_protocol_there_is_no_connection() {
    let test_server = TestServer::new();
    let alert = alert_of(&test_server, raw_connector(&test_server.pki, None));
    assert!(alert.contains("CERTIFICATE_REQUIRED"), "{alert}");

    let identity = || Some(test_server.pki.client("shop"));
    let mut old = raw_connector(&test_server.pki, identity());
    old.set_max_proto_version(Some(SslVersion::TLS1_2)).unwrap();
    let alert = alert_of(&test_server, old);
    assert!(alert.contains("PROTOCOL_VERSION"), "{alert}");

    let mut other = raw_connector(&test_server.pki, identity());
    other.set_alpn_protos(b"\x02h2\x08http/1.1").unwrap();
    let alert = alert_of(&test_server, other);
    assert!(alert.contains("NO_APPLICATION_PROTOCOL"), "{alert}");

    wait_until("all are counted", || test_server.server.counters().handshakes_failed == 3);
    test_server.assert_healthy();
}

#[test]
fn the_negotiated_parameters_are_the_chosen_ones() {
    let test_server = TestServer::new();
    let mut connector = raw_connector(&test_server.pki, Some(test_server.pki.client("shop")));
    connector.set_alpn_protos(b"\x02h2\x0aleafseal/1").unwrap();
    let mut raw = Raw::connect(test_server.address(), connector);
    let ssl = raw.stream.ssl();
    assert_eq!(ssl.version_str(), "TLSv1.3");
    assert_eq!(ssl.selected_alpn_protocol(), Some(&b"leafseal/1"[..]));
    assert_eq!(ssl.curve_name(), Some("X25519MLKEM768"));
    raw.send(|out| test_request(1, "echo", "x", out));
    assert_eq!(raw.read_response(), (1, String::new()));

    let without_alpn = test_server.raw();
    assert_eq!(without_alpn.stream.ssl().selected_alpn_protocol(), None);

    let mut slow = raw_connector(&test_server.pki, Some(test_server.pki.client("shop")));
    slow.set_curves_list("P-384").unwrap();
    assert!(Raw::try_connect(test_server.address(), slow).is_err(), "a group that we do not offer");
}

#[test]
fn a_connection_ends_when_its_certificate_expires() {
    let test_server = TestServer::new();
    // It expires in four to five seconds.
    let validity = Validity { now: SystemTime::now() - DAY + Duration::from_secs(5), days: 1 };
    let identity = issue_client(&test_server.pki.authority, "shop", validity).unwrap();
    let mut raw = Raw::connect(test_server.address(), raw_connector(&test_server.pki, Some(identity)));
    raw.send(|out| test_request(1, "echo", "in time", out));
    assert_eq!(raw.read_response(), (1, String::new()));
    raw.send(|out| test_request(2, "gate", "", out));
    let (code, message) = raw.read_connection_error();
    assert!(code == "forbidden" && message.contains("has expired"), "{code}: {message}");
    wait_until("no worker runs it any more", || test_server.service.alive() == 0);
}

#[test]
fn strangers_that_only_hold_a_slot_are_displaced() {
    let test_server = TestServer::with(|settings| {
        settings.handshakes_max = 3;
        settings.trusted_balancers = vec!["127.0.0.0/8".parse().unwrap()];
    });
    let mut strangers: Vec<_> = (0..9).map(|_| TcpStream::connect(test_server.address()).unwrap()).collect();
    wait_until("the oldest have gone", || test_server.server.counters().handshakes_displaced == 6);
    for stranger in &mut strangers[..6] {
        stranger.set_read_timeout(Some(common::PATIENCE)).unwrap();
        assert_eq!(stranger.read(&mut [0; 9]).unwrap(), 0);
    }
    assert_eq!(test_server.server.counters().handshakes_open, 3);
    test_server.assert_healthy();
    wait_until("one more has gone", || test_server.server.counters().handshakes_failed == 7);
    assert_eq!(test_server.server.counters().handshakes_displaced, 7);
}

#[test]
fn one_address_displaces_no_handshake_of_others() {
    let test_server = TestServer::with(|settings| settings.handshakes_max = 4);
    let connect_from = |address: [u8; 4]| {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let socket = runtime.block_on(async {
            let socket = tokio::net::TcpSocket::new_v4().unwrap();
            socket.bind((address, 0).into()).unwrap();
            socket.connect(test_server.address()).await.unwrap()
        });
        let socket = socket.into_std().unwrap();
        socket.set_nonblocking(false).unwrap();
        socket
    };
    let others = [connect_from([127, 0, 0, 2]), connect_from([127, 0, 0, 3])];
    wait_until("both shake hands", || test_server.server.counters().handshakes_open == 2);
    let _flood: Vec<_> = (0..9).map(|_| connect_from([127, 0, 0, 1])).collect();
    wait_until("its own have gone", || test_server.server.counters().handshakes_displaced == 7);
    assert_eq!(test_server.server.counters().handshakes_open, 4);
    for other in &others {
        other.set_nonblocking(true).unwrap();
        let read = (&mut &*other).read(&mut [0; 9]);
        assert_eq!(read.unwrap_err().kind(), std::io::ErrorKind::WouldBlock, "it still has its place");
    }
}

/// The system's timer that probes the silent peer (`tr` 02 of `/proc/net/tcp`).
#[cfg(target_os = "linux")]
#[test]
fn the_system_probes_peers_that_are_silent() {
    let test_server = TestServer::with(|settings| settings.half_open_timeout = Duration::from_secs(90));
    let _idle = test_server.raw();
    wait_until("it is open", || test_server.server.counters().connections_open == 1);
    let local = format!(":{:04X}", test_server.address().port());
    wait_until("the timer runs", || {
        let table = std::fs::read_to_string("/proc/net/tcp").unwrap();
        let rows = table.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
        // An open connection (`st` 01) of the listening port; the timer has hundredths of a second left.
        let timer =
            rows.into_iter().find(|row| row[1].ends_with(&local) && row[3] == "01").map(|row| row[5].to_owned());
        let Some(left) = timer.as_deref().and_then(|timer| timer.strip_prefix("02:")) else { return false };
        (3_000..=4_500).contains(&u32::from_str_radix(left, 16).unwrap())
    });
}

#[test]
fn connections_without_tls_are_closed() {
    let test_server = TestServer::with(|settings| settings.handshake_timeout = Duration::from_millis(600));
    for bytes in [&b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"[..], b"\x16\x03\x01\xff\xff", b"", &[0xc1; 1000]] {
        let mut socket = TcpStream::connect(test_server.address()).unwrap();
        socket.set_read_timeout(Some(common::PATIENCE)).unwrap();
        socket.write_all(bytes).unwrap();
        let mut rest = Vec::new();
        let _ = socket.read_to_end(&mut rest);
        assert!(rest.len() < 16, "at most an alert");
    }
    wait_until("all are counted", || test_server.server.counters().handshakes_failed == 4);
    assert_eq!(test_server.server.counters().connections_open, 0);
    test_server.assert_healthy();
}

#[tokio::test]
async fn a_client_believes_only_its_authority_and_the_right_name() {
    let test_server = TestServer::new();
    let stranger = Pki::new();
    let mut settings = test_server.client_settings();
    settings.tls.authorities_pem = stranger.authority_pem.clone();
    let error = Client::connect(settings).await.unwrap_err();
    assert_tls(&error, "was refused: it is of an authority that is not trusted here");

    let mut settings = test_server.client_settings();
    settings.server_name = Some("other.example.com".to_owned());
    let error = Client::connect(settings).await.unwrap_err();
    assert_tls(&error, "it is for localhost, 127.0.0.1, and not for the name by which the engine was called");

    let mut settings = test_server.client_settings();
    settings.addresses = vec![format!("localhost:{}", test_server.address().port())];
    Client::connect(settings).await.unwrap();
}

#[tokio::test]
async fn a_reload_changes_certificates_and_authorities_for_new_connections() {
    let (test_server, other) = (TestServer::new(), Pki::new());
    let open = Client::connect(test_server.client_settings()).await.unwrap();
    let fresh = other.server_tls();
    let mismatch = TlsSettings { private_key_pem: test_server.pki.server_tls().private_key_pem, ..fresh.clone() };
    assert!(test_server.server.reload(&mismatch, None).is_err());
    Client::connect(test_server.client_settings()).await.unwrap();

    test_server.server.reload(&fresh, None).unwrap();
    open.health().await.unwrap();
    let error = Client::connect(test_server.client_settings()).await.unwrap_err();
    assert_tls(&error, "an authority that is not trusted here");
    let mut settings = test_server.client_settings();
    settings.tls = other.client_tls(other.client("shop"));
    Client::connect(settings).await.unwrap();
}

#[test]
fn a_server_does_not_start_with_inconsistent_settings() {
    use leafseal_net::tls::TlsError;
    use leafseal_server::{Server, ServerSettings, StartError};
    let (pki, service) = (Pki::new(), std::sync::Arc::new(common::TestService::default()));
    let start = |tls: TlsSettings| {
        let address = ([127, 0, 0, 1], 0).into();
        Server::start(ServerSettings { address, ..ServerSettings::new(tls) }, std::sync::Arc::clone(&service))
    };
    let mismatch = TlsSettings { private_key_pem: pki.client("shop").private_key_pem, ..pki.server_tls() };
    assert!(matches!(start(mismatch), Err(StartError::Tls(TlsError::KeyMismatch))));
    let nobody = TlsSettings { client_authorities_pem: b"nothing".to_vec(), ..pki.server_tls() };
    let error = start(nobody).unwrap_err().to_string();
    assert!(error.contains("client authorities"), "{error}");
    let broken = TlsSettings {
        private_key_pem: zeroize::Zeroizing::new(b"-----BEGIN PRIVATE KEY-----\nc2VjcmV0\n".to_vec()),
        ..pki.server_tls()
    };
    let error = start(broken).unwrap_err().to_string();
    assert!(error.contains("private key") && !error.contains("c2Vj") && !error.contains("secret"), "{error}");

    let test_server = TestServer::new();
    let settings = ServerSettings { address: test_server.address(), ..ServerSettings::new(pki.server_tls()) };
    let taken = Server::start(settings, std::sync::Arc::clone(&service));
    assert!(matches!(taken, Err(StartError::Listen { .. })));
}
