//! A listener with a scripted handler, and clients of both protocols.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use boring::asn1::Asn1Time;
use boring::ec::{EcGroup, EcKey};
use boring::hash::MessageDigest;
use boring::nid::Nid;
use boring::pkey::PKey;
use boring::ssl::{SslConnector, SslMethod, SslVerifyMode, SslVersion};
use boring::x509::X509;
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::{http1, http2};
use hyper::header::{CONNECTION, CONTENT_TYPE, HeaderValue, UPGRADE};
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioExecutor, TokioIo};
use leafseal_config::KeyExchange;
use leafseal_errors::ErrorCode;
use leafseal_http::{
    BufferedBody, ConnectionPeer, Handler, Hold, HttpCounters, HttpProblem, HttpSettings, Listener, ListenerEvent,
    ListenerObserver, ListenerOptions, RequestBody, ResponseBody, bytes, empty,
};
use leafseal_net::tls::{Acceptor, PrivateKeySettings, ServerIdentity, SessionSettings};
use tokio::net::TcpStream;
use tokio::sync::Notify;
use tokio::time::{sleep, timeout};
use tokio_boring::SslStream;

const PATIENCE: Duration = Duration::from_secs(60);
pub(crate) const TLS1_1: SslVersion = SslVersion::TLS1_1;
pub(crate) const TLS1_2: SslVersion = SslVersion::TLS1_2;
pub(crate) const TLS1_3: SslVersion = SslVersion::TLS1_3;

/// The defaults: no test waits for one of them.
pub(crate) fn settings() -> HttpSettings {
    HttpSettings::default()
}

#[derive(Default)]
pub(crate) struct Echo {
    hanging: Arc<AtomicUsize>,
    release: Arc<Notify>,
}

/// Counts a request while its handler hangs.
struct Hanging(Arc<AtomicUsize>);

impl Drop for Hanging {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Handler for Echo {
    async fn handle(
        self: Arc<Self>,
        request: Request<RequestBody>,
        peer: Arc<ConnectionPeer>,
    ) -> Response<ResponseBody> {
        if request.method() == Method::CONNECT || request.headers().contains_key(UPGRADE) {
            return change_protocol(request);
        }
        match request.uri().path() {
            "/refuse" => HttpProblem::new(ErrorCode::TooLarge, "no more").response(),
            "/protocol" => Response::new(bytes(Bytes::from(format!("{:?}", peer.protocol)))),
            "/endless" => {
                Response::new(BufferedBody::new(vec![Bytes::from(vec![0; 1 << 20]); 1000], ()).boxed_unsync())
            }
            "/hang" => {
                let released = self.release.notified();
                self.hanging.fetch_add(1, Ordering::SeqCst);
                let _hanging = Hanging(Arc::clone(&self.hanging));
                released.await;
                Response::new(bytes(Bytes::from_static(b"released")))
            }
            _ => match request.into_body().collect().await {
                Ok(body) => Response::new(bytes(body.to_bytes())),
                Err(error) => HttpProblem::new(ErrorCode::SlowBody, error.to_string()).response(),
            },
        }
    }
}

/// Echoes the bytes of the new protocol.
fn change_protocol(mut request: Request<RequestBody>) -> Response<ResponseBody> {
    let is_connect = request.method() == Method::CONNECT;
    let hold = request.extensions_mut().remove::<Hold>();
    let upgrade = hyper::upgrade::on(&mut request);
    tokio::spawn(async move {
        let (mut reading, mut writing) = tokio::io::split(TokioIo::new(upgrade.await.unwrap()));
        let _ = tokio::io::copy(&mut reading, &mut writing).await;
        drop(hold);
    });
    let mut response = Response::new(empty());
    if !is_connect {
        *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
        response.headers_mut().insert(CONNECTION, HeaderValue::from_static("upgrade"));
        response.headers_mut().insert(UPGRADE, HeaderValue::from_static("echo"));
    }
    response
}

/// Ignores events; the counters are checked.
struct Silent;

impl ListenerObserver for Silent {
    fn observe(&self, _: &ListenerEvent<'_>) {}
}

pub(crate) struct Served {
    pub listener: Listener<Echo>,
    pub release: Arc<Notify>,
    hanging: Arc<AtomicUsize>,
    address: SocketAddr,
    certificate: X509,
}

impl Served {
    pub(crate) fn start(settings: HttpSettings, with_tls: bool) -> Served {
        let (certificate, identity) = identity();
        let echo = Arc::new(Echo::default());
        let (release, hanging) = (Arc::clone(&echo.release), Arc::clone(&echo.hanging));
        let options = ListenerOptions {
            address: ([127, 0, 0, 1], 0).into(),
            acceptor: with_tls.then(|| Acceptor::new(&identity).unwrap()),
            settings,
            observer: Arc::new(Silent),
        };
        let listener = Listener::start(options, echo).unwrap();
        let address = listener.local_addr();
        Served { listener, release, hanging, address, certificate }
    }

    pub(crate) async fn socket(&self) -> TcpStream {
        TcpStream::connect(self.address).await.unwrap()
    }

    /// Waits until the handler has `count` hanging requests.
    pub(crate) async fn hanging_is(&self, count: usize) {
        let waiting = async {
            while self.hanging.load(Ordering::SeqCst) != count {
                sleep(Duration::from_millis(2)).await;
            }
        };
        timeout(PATIENCE, waiting).await.expect("the handler got there in time");
    }

    /// Waits until the counters satisfy a condition.
    pub(crate) async fn until(&self, is_so: impl Fn(&HttpCounters) -> bool) {
        let waiting = async {
            while !is_so(&self.listener.counters()) {
                sleep(Duration::from_millis(2)).await;
            }
        };
        timeout(PATIENCE, waiting).await.unwrap_or_else(|_| panic!("{:?}", self.listener.counters()));
    }
}

fn identity() -> (X509, ServerIdentity) {
    let group = EcGroup::from_curve_name(Nid::X9_62_PRIME256V1).unwrap();
    let key = PKey::from_ec_key(EcKey::generate(&group).unwrap()).unwrap();
    let mut builder = X509::builder().unwrap();
    builder.set_version(2).unwrap();
    builder.set_pubkey(&key).unwrap();
    builder.set_not_before(&Asn1Time::days_from_now(0).unwrap()).unwrap();
    builder.set_not_after(&Asn1Time::days_from_now(1).unwrap()).unwrap();
    builder.sign(&key, MessageDigest::sha256()).unwrap();
    let certificate = builder.build();
    let identity = ServerIdentity {
        certificate_chain_pem: certificate.to_pem().unwrap(),
        private_key_pem: key.private_key_to_pem_pkcs8().unwrap().into(),
        private_key_settings: PrivateKeySettings::default(),
        sessions: SessionSettings::default(),
        key_exchange: KeyExchange::default(),
    };
    (certificate, identity)
}

pub(crate) async fn tls(socket: TcpStream, served: &Served, is_http2: bool) -> SslStream<TcpStream> {
    try_tls(socket, served, is_http2, TLS1_3).await.expect("the handshake succeeds")
}

pub(crate) async fn try_tls(
    socket: TcpStream,
    served: &Served,
    is_http2: bool,
    version: SslVersion,
) -> Option<SslStream<TcpStream>> {
    let mut connector = SslConnector::builder(SslMethod::tls()).unwrap();
    // The test trusts its own certificate; the name does not matter.
    connector.set_verify(SslVerifyMode::NONE);
    connector.set_min_proto_version(Some(version)).unwrap();
    connector.set_max_proto_version(Some(version)).unwrap();
    connector.set_alpn_protos(if is_http2 { b"\x02h2" } else { b"\x08http/1.1" }).unwrap();
    let stream = tokio_boring::connect(connector.build().configure().unwrap(), "localhost", socket).await.ok()?;
    let presented = stream.ssl().peer_certificate().unwrap();
    assert_eq!(presented.to_der().unwrap(), served.certificate.to_der().unwrap());
    Some(stream)
}

pub(crate) struct Answer {
    pub status: StatusCode,
    pub content_type: String,
    pub body: Bytes,
}

pub(crate) enum Client {
    Http1(http1::SendRequest<Full<Bytes>>),
    Http2(http2::SendRequest<Full<Bytes>>),
}

impl Client {
    pub(crate) async fn connect(served: &Served, is_http2: bool) -> Client {
        Client::over(tls(served.socket().await, served, is_http2).await, is_http2).await
    }

    pub(crate) async fn over(stream: SslStream<TcpStream>, is_http2: bool) -> Client {
        let stream = TokioIo::new(stream);
        if is_http2 {
            let (sender, connection) = http2::handshake(TokioExecutor::new(), stream).await.unwrap();
            tokio::spawn(connection);
            Client::Http2(sender)
        } else {
            let (sender, connection) = http1::handshake(stream).await.unwrap();
            tokio::spawn(connection);
            Client::Http1(sender)
        }
    }

    async fn send(&mut self, request: Request<Full<Bytes>>) -> hyper::Result<Response<Incoming>> {
        match self {
            Client::Http1(sender) => {
                sender.ready().await?;
                sender.send_request(request).await
            }
            Client::Http2(sender) => sender.send_request(request).await,
        }
    }

    /// Sends a request without reading the answer's body.
    pub(crate) async fn begin(&mut self, path: &str) -> Response<Incoming> {
        let request = Request::get(format!("https://localhost{path}")).body(Full::default()).unwrap();
        self.send(request).await.unwrap()
    }

    /// Opens a tunnel through the listener.
    pub(crate) async fn connect_through(&mut self) -> hyper::upgrade::Upgraded {
        let request = Request::connect("destination:443").body(Full::default()).unwrap();
        let answer = self.send(request).await.unwrap();
        assert_eq!(answer.status(), StatusCode::OK);
        hyper::upgrade::on(answer).await.unwrap()
    }

    pub(crate) async fn try_post(&mut self, path: &str, body: Vec<u8>) -> Option<Answer> {
        let request = Request::post(format!("https://localhost{path}")).header("host", "localhost");
        let request = request.body(Full::from(body)).unwrap();
        let response = timeout(PATIENCE, self.send(request)).await.expect("an answer in time").ok()?;
        let (parts, body) = response.into_parts();
        let body = timeout(PATIENCE, body.collect()).await.expect("its body in time").ok()?.to_bytes();
        let content_type = parts.headers.get(CONTENT_TYPE).map_or("", |value| value.to_str().unwrap()).to_owned();
        Some(Answer { status: parts.status, content_type, body })
    }

    pub(crate) async fn post(&mut self, path: &str, body: Vec<u8>) -> Answer {
        self.try_post(path, body).await.expect("the connection holds")
    }
}
