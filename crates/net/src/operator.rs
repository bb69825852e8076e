//! The operator port: plain HTTP for health checks and metrics, on a thread of its own, so that it responds under full load.
//!
//! One request per connection, within a time limit; request bodies are not read. Anyone who can reach the port can read its content, so by
//! default it is bound to loopback. It exposes nothing about keys, callers or content; what it reports to other engines has a MAC.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use leafseal_config::{ms, secs, settings};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{sleep, timeout};

use crate::client::{ClientBound, Network};
use crate::slots::{ConnectionSlot, ConnectionSlots};
use crate::socket::ACCEPT_PAUSE;
use crate::thread::ListeningThread;

/// Minimum of `header_size_max`: the HTTP library's read size.
pub const HEADER_SIZE_MIN: usize = 8 << 10;
/// Maximum number of header fields of a request.
const HEADERS_MAX: usize = 64;
const TEXT: &str = "text/plain; charset=utf-8";
/// The format of the metrics: <https://prometheus.io/docs/specs/om/open_metrics_spec/>.
const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
const ALLOWED: &str = "GET, HEAD";

settings! {
    /// The address of the port, and its limits.
    #[derive(Clone, Debug)]
    pub struct OperatorSettings {
        /// Where probes and metrics are served. Port 0 lets the system choose one, as does port 0 in `server.address` if this key is not
        /// set.
        // Anyone who reaches it can read its content.
        pub address: Option<SocketAddr> = None;
        /// Maximum number of calls in flight; one more displaces the oldest, whose connection is closed.
        pub connections_max: usize = 64, in 1..=1 << 16;
        /// Maximum number of these calls per client (an IPv4 address, a /64 of IPv6); one more displaces the oldest of the same client.
        pub client_connections_max: usize = 32, in 1..=1 << 16;
        /// Balancers that are exempt from this limit.
        pub trusted_balancers: Vec<Network> = Vec::new(), is internal;
        /// Maximum size of the head of a call.
        pub header_size_max: usize = 16 << 10, bytes in HEADER_SIZE_MIN..=1 << 20;
        /// Maximum duration of a call.
        pub call_timeout: Duration = secs(5), in ms(1)..;
    }
}

impl OperatorSettings {
    /// The HTTP library's read size.
    pub const HEADER_SIZE_MIN: usize = HEADER_SIZE_MIN;

    /// The limit on the calls of one client.
    fn clients(&self) -> ClientBound {
        let trusted_balancers = self.trusted_balancers.clone();
        ClientBound { connections_max: self.client_connections_max, trusted_balancers }
    }
}

/// The content of the port.
pub trait OperatorReport: Send + Sync + 'static {
    /// Whether requests are served; if not, why not, in a few words.
    fn readiness(&self) -> impl Future<Output = Result<(), String>> + Send;

    /// Returns all metrics as text.
    fn metrics(&self) -> impl Future<Output = String> + Send;

    /// The newest state of the keystore that was seen, for another engine that asks with a challenge: one line without a secret. Does not
    /// block.
    fn sighting(&self, challenge: &str) -> Option<String> {
        let _ = challenge;
        None
    }

    /// Logs that the system returned an error instead of a socket.
    fn cannot_accept(&self, error: &io::Error);
}

/// The running port; closed on drop.
#[derive(Debug)]
pub struct OperatorPort {
    thread: ListeningThread,
}

impl OperatorPort {
    /// Starts to listen at `address` and to serve.
    ///
    /// # Errors
    /// If the address is in use, or a thread cannot be started.
    pub fn start<R: OperatorReport>(
        address: SocketAddr,
        settings: &OperatorSettings,
        report: Arc<R>,
    ) -> io::Result<Self> {
        let settings = settings.clone();
        let serve = move |listener| listen(listener, settings, report);
        Ok(OperatorPort { thread: ListeningThread::start("leafseal-operator", address, serve)? })
    }

    /// The bound address.
    pub fn address(&self) -> SocketAddr {
        self.thread.address()
    }
}

async fn listen<R: OperatorReport>(listener: TcpListener, settings: OperatorSettings, report: Arc<R>) {
    let slots = Arc::new(ConnectionSlots::new(settings.connections_max, settings.clients()));
    let settings = Arc::new(settings);
    loop {
        slots.room().await;
        match listener.accept().await {
            Ok((socket, address)) => {
                let slot = slots.take(address.ip());
                tokio::spawn(serve(socket, Arc::clone(&settings), Arc::clone(&report), slot));
            }
            Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
            Err(error) => {
                report.cannot_accept(&error);
                sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

/// Serves a connection: one request, within its time limit.
async fn serve<R: OperatorReport>(
    socket: TcpStream,
    settings: Arc<OperatorSettings>,
    report: Arc<R>,
    slot: ConnectionSlot,
) {
    let service = service_fn(|request| {
        let report = Arc::clone(&report);
        async move { Ok::<_, Infallible>(respond(&*report, &request).await) }
    });
    let mut http = http1::Builder::new();
    http.keep_alive(false).max_headers(HEADERS_MAX).max_buf_size(settings.header_size_max);
    let serving = http.serve_connection(TokioIo::new(socket), service);
    tokio::select! {
        // A call that breaks or takes too long needs no handling.
        _ = timeout(settings.call_timeout, serving) => {}
        () = slot.displaced() => {}
    }
}

const NO_SIGHTING: &str = "no state of a keystore was seen, or the challenge is not 32 hexadecimal digits\n";

async fn respond<R: OperatorReport>(report: &R, request: &Request<Incoming>) -> Response<Full<Bytes>> {
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        let mut response = answer(StatusCode::METHOD_NOT_ALLOWED, TEXT, "only GET and HEAD are answered\n".to_owned());
        response.headers_mut().insert(ALLOW, HeaderValue::from_static(ALLOWED));
        return response;
    }
    match request.uri().path() {
        "/livez" => answer(StatusCode::OK, TEXT, "ok\n".to_owned()),
        "/readyz" => match report.readiness().await {
            Ok(()) => answer(StatusCode::OK, TEXT, "ok\n".to_owned()),
            Err(why) => answer(StatusCode::SERVICE_UNAVAILABLE, TEXT, format!("{why}\n")),
        },
        "/metrics" => answer(StatusCode::OK, OPEN_METRICS, report.metrics().await),
        "/keystore" => {
            let challenge = request.uri().query().and_then(|query| query.strip_prefix("challenge="));
            match report.sighting(challenge.unwrap_or_default()) {
                Some(line) => answer(StatusCode::OK, TEXT, line),
                None => answer(StatusCode::NOT_FOUND, TEXT, NO_SIGHTING.to_owned()),
            }
        }
        _ => answer(StatusCode::NOT_FOUND, TEXT, "there are /livez, /readyz and /metrics\n".to_owned()),
    }
}

fn answer(status: StatusCode, content_type: &'static str, body: String) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from(body)));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    // A cached answer would be outdated.
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}
