//! A relay on real sockets, test certificates, and clients of both protocols that send bodies in pieces.
#![allow(dead_code, reason = "each test file uses a part")]

use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use boring::asn1::Asn1Time;
use boring::ec::{EcGroup, EcKey};
use boring::hash::MessageDigest;
use boring::nid::Nid;
use boring::pkey::{PKey, Private};
use boring::ssl::{SslConnector, SslMethod, SslVerifyMode};
use boring::x509::extension::{BasicConstraints, SubjectAlternativeName};
use boring::x509::{X509, X509NameBuilder};
use http_body_util::BodyExt;
use hyper::body::{Body, Bytes, Frame, Incoming};
use hyper::client::conn::{http1, http2};
use hyper::header::{HeaderMap, HeaderName, HeaderValue};
use hyper::{Request, Response, StatusCode, Version};
use hyper_util::rt::{TokioExecutor, TokioIo};
use leafseal_config::KeyExchange;
use leafseal_net::LogFormat;
use leafseal_net::tls::{PrivateKeySettings, ServerIdentity, SessionSettings};
use leafseal_relay::{AccessLog, Configuration, Relay};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio::time::{sleep, timeout};

/// Longer than anything in these tests takes on a busy machine; a passing test never waits for it.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);
/// The settings of the identity's files.
const PAIR: &str = "certificate = \"certificate.pem\"\nprivate_key = \"key.pem\"\n";
pub(crate) const CHECKSUM: HeaderName = HeaderName::from_static("x-checksum");

/// A self-signed certificate for `localhost`, and its key.
pub(crate) struct Identity {
    pub certificate: X509,
    pub key: PKey<Private>,
    /// The groups that it accepts as a server.
    pub key_exchange: KeyExchange,
}

impl Identity {
    pub(crate) fn new() -> Identity {
        Identity::valid_for(24 * 3600)
    }

    /// The same, valid for so many seconds from now.
    pub(crate) fn valid_for(seconds: i64) -> Identity {
        let group = EcGroup::from_curve_name(Nid::X9_62_PRIME256V1).unwrap();
        let key = PKey::from_ec_key(EcKey::generate(&group).unwrap()).unwrap();
        let mut name = X509NameBuilder::new().unwrap();
        name.append_entry_by_nid(Nid::COMMONNAME, "localhost").unwrap();
        let name = name.build();
        let mut builder = X509::builder().unwrap();
        builder.set_version(2).unwrap();
        builder.set_subject_name(&name).unwrap();
        builder.set_issuer_name(&name).unwrap();
        builder.set_pubkey(&key).unwrap();
        builder.set_not_before(&Asn1Time::days_from_now(0).unwrap()).unwrap();
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs() as i64;
        builder.set_not_after(&Asn1Time::from_unix(now + seconds).unwrap()).unwrap();
        builder.append_extension(&BasicConstraints::new().critical().ca().build().unwrap()).unwrap();
        let names = SubjectAlternativeName::new().dns("localhost").build(&builder.x509v3_context(None, None)).unwrap();
        builder.append_extension(&names).unwrap();
        builder.sign(&key, MessageDigest::sha256()).unwrap();
        Identity { certificate: builder.build(), key, key_exchange: KeyExchange::default() }
    }

    pub(crate) fn of_server(&self) -> ServerIdentity {
        ServerIdentity {
            certificate_chain_pem: self.certificate.to_pem().unwrap(),
            private_key_pem: self.key.private_key_to_pem_pkcs8().unwrap().into(),
            private_key_settings: PrivateKeySettings::default(),
            sessions: SessionSettings::default(),
            key_exchange: self.key_exchange.clone(),
        }
    }
}

/// A relay of one thread, with a plain HTTP/1.1 listener and a TLS listener.
pub(crate) struct TestRelay {
    relay: Option<Relay>,
    folder: TempDir,
    pub log: Arc<Lines>,
}

/// An access log in memory.
#[derive(Default)]
pub(crate) struct Lines(Mutex<Vec<String>>);

impl AccessLog for Lines {
    fn format(&self) -> LogFormat {
        LogFormat::Json
    }

    fn write(&self, line: &str) {
        self.0.lock().unwrap().push(line.to_owned());
    }

    fn dropped(&self) -> u64 {
        0
    }
}

impl Lines {
    /// Waits for the only line about a path.
    pub(crate) async fn about(&self, path: &str) -> serde_json::Value {
        let named = || -> Option<serde_json::Value> {
            let lines = self.0.lock().unwrap();
            let mut lines = lines.iter().map(|line| serde_json::from_str(line).expect("a line of JSON"));
            lines.find(|line: &serde_json::Value| line["path"] == path)
        };
        until("the request is logged", || named().is_some()).await;
        named().expect("it is there")
    }
}

impl TestRelay {
    /// Starts a relay in front of an upstream; `upstream` is the content of the section of that name, `routes` follows each listener.
    pub(crate) fn new(origin: &str, identity: &Identity, upstream: &str, routes: &str) -> TestRelay {
        let listener =
            |tls: &str| format!("[[inbound]]\naddress = \"127.0.0.1:0\"\nupstream = \"{origin}\"\n{tls}{routes}\n");
        TestRelay::start(identity, upstream, &format!("{}{}", listener(""), listener(PAIR)))
    }

    /// Starts a relay with a TLS listener alone, with these settings.
    pub(crate) fn with_tls(origin: &str, identity: &Identity, settings: &str) -> TestRelay {
        let listener = format!("[[inbound]]\naddress = \"127.0.0.1:0\"\nupstream = \"{origin}\"\n{PAIR}{settings}");
        TestRelay::start(identity, "", &listener)
    }

    /// Starts a proxy whose authority is `identity`; `settings` follows the listener.
    pub(crate) fn outbound(identity: &Identity, settings: &str) -> TestRelay {
        let ca = "ca_certificate = \"certificate.pem\"\nca_private_key = \"key.pem\"\n";
        TestRelay::start(identity, "", &format!("[[outbound]]\naddress = \"127.0.0.1:0\"\n{ca}{settings}"))
    }

    fn start(identity: &Identity, upstream: &str, listeners: &str) -> TestRelay {
        let folder = tempfile::tempdir().unwrap();
        let ServerIdentity { certificate_chain_pem, private_key_pem, .. } = identity.of_server();
        std::fs::write(folder.path().join("certificate.pem"), certificate_chain_pem).unwrap();
        std::fs::write(folder.path().join("key.pem"), &*private_key_pem).unwrap();
        // No engine listens at this address; these tests need none.
        let text = format!(
            "[relay]\nthreads = 1\noperator_address = \"127.0.0.1:0\"\n\
             [engine]\naddresses = [\"localhost:1\"]\nauthorities = \"certificate.pem\"\n{PAIR}\
             [upstream]\nauthorities = \"certificate.pem\"\nsystem_authorities = false\n{upstream}\n{listeners}"
        );
        let configuration = Configuration::parse(&text).unwrap_or_else(|problems| panic!("{problems:?} in\n{text}"));
        let log = Arc::<Lines>::default();
        let relay = Relay::start(configuration, folder.path(), Some(Arc::<Lines>::clone(&log))).unwrap();
        TestRelay { relay: Some(relay), folder, log }
    }

    /// The value of a sample in the relay's metrics, by its name with labels.
    pub(crate) async fn metric(&self, sample: &str) -> f64 {
        let mut socket = TcpStream::connect(self.relay.as_ref().expect("running").operator_address()).await.unwrap();
        socket.write_all(b"GET /metrics HTTP/1.1\r\nhost: a\r\n\r\n").await.unwrap();
        let mut text = String::new();
        timeout(PATIENCE, socket.read_to_string(&mut text)).await.expect("metrics in time").unwrap();
        let value = text.lines().find_map(|line| line.strip_prefix(sample)?.strip_prefix(' '));
        value.unwrap_or_else(|| panic!("{sample} in {text}")).parse().unwrap()
    }

    pub(crate) fn address(&self, is_tls: bool) -> SocketAddr {
        self.relay.as_ref().expect("running").addresses()[usize::from(is_tls)].address
    }

    /// The relay's metrics as text.
    pub(crate) async fn metrics(&self) -> String {
        let address = self.relay.as_ref().expect("running").operator_address();
        let (mut sender, connection) =
            http1::handshake(TokioIo::new(TcpStream::connect(address).await.unwrap())).await.unwrap();
        tokio::spawn(connection);
        let request = Request::get("/metrics").header("host", "a").body(Pieces::of([])).unwrap();
        let answer = Answer::whole(sender.send_request(request).await.unwrap()).await;
        String::from_utf8(answer.body.to_vec()).unwrap()
    }

    pub(crate) async fn client(&self, version: Version) -> Client {
        let is_http2 = version == Version::HTTP_2;
        let socket = TcpStream::connect(self.address(is_http2)).await.unwrap();
        if !is_http2 {
            let (sender, connection) = http1::handshake(TokioIo::new(socket)).await.unwrap();
            tokio::spawn(connection);
            return Client::Http1(sender);
        }
        let mut connector = SslConnector::builder(SslMethod::tls()).unwrap();
        connector.set_verify(SslVerifyMode::NONE);
        connector.set_alpn_protos(b"\x02h2").unwrap();
        let stream = tokio_boring::connect(connector.build().configure().unwrap(), "localhost", socket).await.unwrap();
        let (sender, connection) = http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await.unwrap();
        tokio::spawn(connection);
        Client::Http2(sender)
    }
}

impl Drop for TestRelay {
    fn drop(&mut self) {
        if let Some(relay) = self.relay.take() {
            let left = relay.shutdown();
            assert!(left.is_ok() || std::thread::panicking(), "{left:?}");
        }
    }
}

/// A body that sends what a test passes in, and ends when the sender is dropped.
pub(crate) struct Pieces(mpsc::UnboundedReceiver<Frame<Bytes>>);

pub(crate) type PiecesSender = mpsc::UnboundedSender<Frame<Bytes>>;

impl Pieces {
    pub(crate) fn new() -> (PiecesSender, Pieces) {
        let (teller, reported) = mpsc::unbounded_channel();
        (teller, Pieces(reported))
    }

    /// A complete body.
    pub(crate) fn of(frames: impl IntoIterator<Item = Frame<Bytes>>) -> Pieces {
        let (teller, pieces) = Pieces::new();
        frames.into_iter().for_each(|frame| teller.send(frame).unwrap());
        pieces
    }
}

impl Body for Pieces {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        self.0.poll_recv(cx).map(|frame| frame.map(Ok))
    }

    fn is_end_stream(&self) -> bool {
        self.0.is_closed() && self.0.is_empty()
    }
}

pub(crate) fn data(bytes: &'static [u8]) -> Frame<Bytes> {
    Frame::data(Bytes::from_static(bytes))
}

/// Trailers with a checksum.
pub(crate) fn trailers(checksum: &'static str) -> Frame<Bytes> {
    Frame::trailers(HeaderMap::from_iter([(CHECKSUM, HeaderValue::from_static(checksum))]))
}

pub(crate) enum Client {
    Http1(http1::SendRequest<Pieces>),
    Http2(http2::SendRequest<Pieces>),
}

/// A response, read completely.
#[derive(Debug)]
pub(crate) struct Answer {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub body: Bytes,
    pub trailers: Option<HeaderMap>,
}

impl Answer {
    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }

    pub(crate) async fn whole(response: Response<Incoming>) -> Answer {
        let (head, body) = response.into_parts();
        let body = timeout(PATIENCE, body.collect()).await.expect("a body in time").expect("a body");
        let trailers = body.trailers().cloned();
        Answer { status: head.status, headers: head.headers, body: body.to_bytes(), trailers }
    }
}

impl Client {
    pub(crate) fn request(&self, method: &str, path: &str, body: Pieces) -> Request<Pieces> {
        let target = match self {
            Client::Http1(_) => path.to_owned(),
            Client::Http2(_) => format!("https://shop.example{path}"),
        };
        let request = Request::builder().method(method).uri(target).header("te", "trailers");
        let request = if let Client::Http1(_) = self { request.header("host", "shop.example") } else { request };
        request.header("trailer", "x-checksum").body(body).unwrap()
    }

    /// Sends a request and returns the head of the response.
    pub(crate) async fn begin(&mut self, request: Request<Pieces>) -> Response<Incoming> {
        let answer = async {
            match self {
                Client::Http1(sender) => {
                    sender.ready().await?;
                    sender.send_request(request).await
                }
                Client::Http2(sender) => sender.send_request(request).await,
            }
        };
        timeout(PATIENCE, answer).await.expect("an answer in time").expect("an answer")
    }

    pub(crate) async fn send(&mut self, method: &str, path: &str, body: Pieces) -> Answer {
        let request = self.request(method, path, body);
        Answer::whole(self.begin(request).await).await
    }
}

/// Waits until `condition` holds.
pub(crate) async fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let waiting = async {
        while !condition() {
            sleep(Duration::from_millis(2)).await;
        }
    };
    timeout(PATIENCE, waiting).await.unwrap_or_else(|_| panic!("waited too long until {what}"));
}
