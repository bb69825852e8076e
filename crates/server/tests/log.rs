//! The operator's log: it contains why a client was refused, and nothing that clients send. The test collects the log of its process, and
//! therefore runs alone in it.

#[path = "it/common/mod.rs"]
mod common;

use std::fmt::{Debug, Write};
use std::sync::Mutex;
use std::time::{Duration, SystemTime};

use boring::ssl::SslVersion;
use common::{Pki, Raw, TestServer, raw_connector, test_request, wait_until};
use leafseal_net::tls::{Issued, ServerName, Validity};
use leafseal_server::issue_client;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

static LOG: Mutex<String> = Mutex::new(String::new());

/// Writes all of this project's events into [`LOG`], one per line.
struct Collector;

struct Line(String);

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        write!(self.0, " {}={value:?}", field.name()).unwrap();
    }
}

impl Subscriber for Collector {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("leafseal")
    }

    fn event(&self, event: &Event<'_>) {
        let mut line = Line(event.metadata().level().to_string());
        event.record(&mut line);
        let mut log = LOG.lock().unwrap();
        writeln!(log, "{}", line.0).unwrap();
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

/// The line that contains these words.
fn line_with(words: &str) -> String {
    let log = LOG.lock().unwrap();
    log.lines().find(|line| line.contains(words)).expect("it is there").to_owned()
}

fn fingerprint(issued: &Issued) -> String {
    let certificate = boring::x509::X509::from_pem(&issued.certificate_pem).unwrap();
    let digest = certificate.digest(boring::hash::MessageDigest::sha256()).unwrap();
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Log lines about requests refused for missing permissions name client, certificate, operation and app. A client that causes many of them
/// leaves half of the lines to others; the rest is counted.
fn refused_requests_are_bounded_lines(test_server: &TestServer) {
    const SENT: u32 = 300;
    let shop = test_server.pki.client("shop");
    let fingerprint = fingerprint(&shop);
    let mut raw = Raw::connect(test_server.address(), raw_connector(&test_server.pki, Some(shop)));
    for id in 0..SENT {
        raw.send(|out| test_request(id, "closed", "4111-plaintext", out));
        raw.read_response();
    }
    let line = line_with("request refused");
    for part in [
        "WARN",
        "entry_point=\"rpc\"",
        "client=\"shop\"",
        &format!("certificate=\"{fingerprint}\""),
        "request=0",
        "operations=\"encrypt\"",
        "app=\"closed\"",
        "outcome=\"forbidden\"",
        "reason=\"the app is closed to this client\"",
    ] {
        assert!(line.contains(part), "{part} in {line}");
    }
    let count = |words: &str| LOG.lock().unwrap().lines().filter(|line| line.contains(words)).count();
    let lines = count("request refused");
    // In windows of 10 s, half of 100 lines each.
    assert!(lines < SENT as usize && lines.is_multiple_of(50), "{lines} lines");
    let mut other = test_server.raw_of("other");
    other.send(|out| test_request(1, "closed", "4111-plaintext", out));
    other.read_response();
    wait_for("client=\"other\"");
    wait_for("kind=\"known-callers\"");
    let suppressed: usize = LOG
        .lock()
        .unwrap()
        .lines()
        .filter(|line| line.contains("kind=\"known-callers\""))
        .map(|line| line.split("suppressed=").nth(1).unwrap().split(' ').next().unwrap().parse::<usize>().unwrap())
        .sum();
    assert_eq!(suppressed + lines, SENT as usize);
}

fn wait_for(words: &str) {
    wait_until(words, || LOG.lock().unwrap().contains(words));
}

/// Tries to connect with `identity` and waits until the log contains `words`.
fn refused(test_server: &TestServer, identity: Option<Issued>, words: &str) {
    if let Ok(mut raw) = Raw::try_connect(test_server.address(), raw_connector(&test_server.pki, identity)) {
        raw.read_connection_error_or_alert();
    }
    wait_for(words);
}

#[test]
fn the_log_gives_reasons_and_no_content() {
    tracing::subscriber::set_global_default(Collector).unwrap();
    let test_server = TestServer::with(|settings| settings.handshake_timeout = Duration::from_secs(1));

    refused(&test_server, None, "the client sent no certificate");
    refused(&test_server, Some(Pki::new().client("shop")), "\\\"shop\\\", issued by \\\"");
    wait_for("is of an unknown authority");
    let issue = |now: SystemTime| issue_client(&test_server.pki.authority, "shop", Validity { now, days: 1 }).unwrap();
    let two_days = Duration::from_secs(2 * 86_400);
    refused(&test_server, Some(issue(SystemTime::now() - two_days)), ", has expired, at 20");
    refused(&test_server, Some(issue(SystemTime::now() + two_days / 2)), "is not yet valid");
    let of_a_server = test_server.pki.authority.issue_server(&[ServerName::parse("shop")], common::validity()).unwrap();
    refused(&test_server, Some(of_a_server), "is not meant for clients");
    let stranger = test_server.pki.client("stranger");
    let fingerprint = fingerprint(&stranger);
    refused(&test_server, Some(stranger), "no client of this name");
    let line = line_with("no client of this name");
    assert!(line.contains("client=\"stranger\"") && line.contains(&format!("certificate=\"{fingerprint}\"")), "{line}");

    let mut old = raw_connector(&test_server.pki, Some(test_server.pki.client("shop")));
    old.set_max_proto_version(Some(SslVersion::TLS1_2)).unwrap();
    assert!(Raw::try_connect(test_server.address(), old).is_err());
    wait_for("does not speak TLS 1.3");
    let mut other = raw_connector(&test_server.pki, Some(test_server.pki.client("shop")));
    other.set_alpn_protos(b"\x02h2").unwrap();
    assert!(Raw::try_connect(test_server.address(), other).is_err());
    wait_for("another application protocol");
    let distrusting = boring::ssl::SslConnector::builder(boring::ssl::SslMethod::tls()).unwrap();
    assert!(Raw::try_connect(test_server.address(), distrusting).is_err());
    wait_for("ended the handshake: it does not know the authority of the engine's certificate");
    let mut plain = std::net::TcpStream::connect(test_server.address()).unwrap();
    std::io::Write::write_all(&mut plain, b"GET / HTTP/1.1\r\n\r\n").unwrap();
    wait_for("does not speak TLS");
    drop(std::net::TcpStream::connect(test_server.address()).unwrap());
    wait_for("closed the connection in the handshake");
    let _silent = std::net::TcpStream::connect(test_server.address()).unwrap();
    wait_for("took too long");

    // Whatever happens to a request, the log does not contain its content.
    let mut raw = test_server.raw();
    for (id, app) in [(1, "echo"), (2, "panic"), (3, "mute")] {
        raw.send(|out| test_request(id, app, "4111-plaintext", out));
        raw.read_response();
    }
    raw.write(b"\x2a4111-plaintext");
    raw.read_connection_error();
    wait_for("connection closed by the server");

    refused_requests_are_bounded_lines(&test_server);
    // Not only the digits: a port may contain them.
    assert!(!LOG.lock().unwrap().contains("plaintext"), "{}", LOG.lock().unwrap());
}
