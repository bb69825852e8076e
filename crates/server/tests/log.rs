//! What the operator reads: why a client did not get in, and nothing of what clients send. Alone in its process, whose log
//! it collects.

mod common;

use std::fmt::{Debug, Write};
use std::sync::Mutex;
use std::time::{Duration, SystemTime};

use boring::ssl::SslVersion;
use common::{Pki, Raw, Stage, raw_connector, toy_request, wait_until};
use fieldseal_server::certificates::{Issued, ServerName, Validity};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

static LOG: Mutex<String> = Mutex::new(String::new());

/// Writes every event of ours into [`LOG`], a line each.
struct Collector;

struct Line(String);

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        write!(self.0, " {}={value:?}", field.name()).unwrap();
    }
}

impl Subscriber for Collector {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("fieldseal")
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

fn wait_for(words: &str) {
    wait_until(words, || LOG.lock().unwrap().contains(words));
}

/// Tries to connect with `identity` and waits until the log says `words`.
fn refused(stage: &Stage, identity: Option<Issued>, words: &str) {
    if let Ok(mut raw) = Raw::try_connect(stage.address(), raw_connector(&stage.pki, identity)) {
        raw.read_connection_error_or_alert();
    }
    wait_for(words);
}

#[test]
fn the_log_says_why_and_holds_no_content() {
    tracing::subscriber::set_global_default(Collector).unwrap();
    let stage = Stage::with(|settings| settings.handshake_timeout = Duration::from_secs(1));

    refused(&stage, None, "the client sent no certificate");
    refused(&stage, Some(Pki::new().client("shop")), "of an unknown authority");
    let issue = |now: SystemTime| stage.pki.authority.issue_client("shop", Validity { now, days: 1 }).unwrap();
    let two_days = Duration::from_secs(2 * 86_400);
    refused(&stage, Some(issue(SystemTime::now() - two_days)), "has expired");
    refused(&stage, Some(issue(SystemTime::now() + two_days / 2)), "is not yet valid");
    let of_a_server = stage.pki.authority.issue_server(&[ServerName::parse("shop")], common::validity()).unwrap();
    refused(&stage, Some(of_a_server), "is not meant for clients");
    refused(&stage, Some(stage.pki.client("stranger")), "no client of this name");

    let mut old = raw_connector(&stage.pki, Some(stage.pki.client("shop")));
    old.set_max_proto_version(Some(SslVersion::TLS1_2)).unwrap();
    assert!(Raw::try_connect(stage.address(), old).is_err());
    wait_for("does not speak TLS 1.3");
    let mut other = raw_connector(&stage.pki, Some(stage.pki.client("shop")));
    other.set_alpn_protos(b"\x02h2").unwrap();
    assert!(Raw::try_connect(stage.address(), other).is_err());
    wait_for("another application protocol");
    let distrusting = boring::ssl::SslConnector::builder(boring::ssl::SslMethod::tls()).unwrap();
    assert!(Raw::try_connect(stage.address(), distrusting).is_err());
    wait_for("ended the handshake: TLSV1_ALERT_UNKNOWN_CA");
    let mut plain = std::net::TcpStream::connect(stage.address()).unwrap();
    std::io::Write::write_all(&mut plain, b"GET / HTTP/1.1\r\n\r\n").unwrap();
    wait_for("does not speak TLS");
    drop(std::net::TcpStream::connect(stage.address()).unwrap());
    wait_for("closed the connection in the handshake");
    let _silent = std::net::TcpStream::connect(stage.address()).unwrap();
    wait_for("took too long");

    // Whatever happens to a request, the log does not repeat it.
    let mut raw = stage.raw();
    for (id, app) in [(1, "echo"), (2, "panic"), (3, "mute")] {
        raw.send(|out| toy_request(id, app, "4111-plaintext", out));
        raw.read_response();
    }
    raw.write(b"\x2a4111-plaintext");
    raw.read_connection_error();
    wait_for("connection ended by the server");
    // Not the digits alone: a port may have them.
    assert!(!LOG.lock().unwrap().contains("plaintext"), "{}", LOG.lock().unwrap());
}
