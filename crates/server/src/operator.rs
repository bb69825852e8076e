//! The operator port: plain HTTP for probes and metrics, on a thread of its own, so that it answers when everything else is busy.
//!
//! One request a connection, within a bound of time; the bodies of requests are not read. Whoever reaches the port can read
//! what it says, so that by default it listens on the machine itself alone. It says nothing of keys, callers or content.

use std::convert::Infallible;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::thread::JoinHandle;

use fieldseal_http::ACCEPT_PAUSE;
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::oneshot;
use tokio::time::{sleep, timeout};

use crate::places::{Place, Places};
use crate::settings::OperatorSettings;

/// Header fields of one request.
const HEADERS_MAX: usize = 64;
const TEXT: &str = "text/plain; charset=utf-8";
/// What the metrics are written in: <https://prometheus.io/docs/specs/om/open_metrics_spec/>.
const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
const ALLOWED: &str = "GET, HEAD";

/// What the port tells.
pub(crate) trait Report: Send + Sync + 'static {
    /// Whether requests are served.
    ///
    /// # Errors
    /// Why not, in a few words.
    fn readiness(&self) -> Result<(), String>;

    /// All metrics as text.
    fn metrics(&self) -> String;
}

/// The running port; closed when dropped.
pub(crate) struct OperatorPort {
    address: SocketAddr,
    /// Dropped to end the thread.
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl OperatorPort {
    /// Listens at `address` and answers from now on.
    ///
    /// # Errors
    /// An address that is taken, or no thread.
    pub(crate) fn start(address: SocketAddr, settings: &OperatorSettings, report: Arc<dyn Report>) -> io::Result<Self> {
        let listener = TcpListener::bind(address)?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let (stop, stopped) = oneshot::channel::<()>();
        let port = Port { settings: settings.clone(), report };
        let thread = std::thread::Builder::new().name("fieldseal-operator".to_owned());
        let thread = thread.spawn(move || run(&runtime, listener, port, stopped))?;
        Ok(OperatorPort { address, stop: Some(stop), thread: Some(thread) })
    }

    /// Where it listens.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for OperatorPort {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // A panic of it has been reported by then, and there is nothing to do about it here.
            let _ = thread.join();
        }
    }
}

#[derive(Clone)]
struct Port {
    settings: OperatorSettings,
    report: Arc<dyn Report>,
}

fn run(runtime: &Runtime, listener: TcpListener, port: Port, stopped: oneshot::Receiver<()>) {
    runtime.block_on(async {
        tokio::select! {
            listening = listen(listener, port) => {
                let Err(error) = listening;
                tracing::error!(%error, "the operator port cannot listen");
            }
            _ = stopped => {}
        }
    });
}

async fn listen(listener: TcpListener, port: Port) -> io::Result<Infallible> {
    let listener = tokio::net::TcpListener::from_std(listener)?;
    let places = Arc::new(Places::new(port.settings.connections_max));
    loop {
        match listener.accept().await {
            Ok((socket, _)) => drop(tokio::spawn(serve(socket, port.clone(), places.take()))),
            Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
            Err(error) => {
                tracing::error!(%error, "cannot accept connections at the operator port");
                sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

/// The life of a connection: one request, within its time.
async fn serve(socket: TcpStream, port: Port, place: Place) {
    let OperatorSettings { header_size_max, call_timeout, .. } = port.settings;
    let service = service_fn(|request| {
        let response = respond(&*port.report, &request);
        async move { Ok::<_, Infallible>(response) }
    });
    let mut http = http1::Builder::new();
    http.keep_alive(false).max_headers(HEADERS_MAX).max_buf_size(header_size_max);
    let serving = http.serve_connection(TokioIo::new(socket), service);
    tokio::select! {
        served = timeout(call_timeout, serving) => {
            if let Ok(Err(error)) = served {
                tracing::debug!(%error, "a call at the operator port broke");
            }
        }
        () = place.displaced() => {}
    }
}

fn respond(report: &dyn Report, request: &Request<Incoming>) -> Response<Full<Bytes>> {
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        let mut response = answer(StatusCode::METHOD_NOT_ALLOWED, TEXT, "only GET and HEAD are answered\n".to_owned());
        response.headers_mut().insert(ALLOW, HeaderValue::from_static(ALLOWED));
        return response;
    }
    match request.uri().path() {
        "/livez" => answer(StatusCode::OK, TEXT, "ok\n".to_owned()),
        "/readyz" => match report.readiness() {
            Ok(()) => answer(StatusCode::OK, TEXT, "ok\n".to_owned()),
            Err(why) => answer(StatusCode::SERVICE_UNAVAILABLE, TEXT, format!("{why}\n")),
        },
        "/metrics" => answer(StatusCode::OK, OPEN_METRICS, report.metrics()),
        _ => answer(StatusCode::NOT_FOUND, TEXT, "there are /livez, /readyz and /metrics\n".to_owned()),
    }
}

fn answer(status: StatusCode, content_type: &'static str, body: String) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from(body)));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    // An answer of a moment ago would be wrong.
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}
