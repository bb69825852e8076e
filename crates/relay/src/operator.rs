//! The operator port: plain HTTP for probes and metrics, on a thread of its own.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::thread::JoinHandle;

use fieldseal_http::{
    Event, Handler, HttpSettings, Listener, ListenerOptions, Observer, Peer, RequestBody, ResponseBody, bytes,
};
use hyper::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderValue};
use hyper::{Method, Request, Response, StatusCode};
use tokio::runtime::Builder;
use tokio::sync::oneshot;

const TEXT: &str = "text/plain; charset=utf-8";
const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
/// Connections at a time.
const CONNECTIONS_MAX: usize = 64;

/// What the port tells.
pub(crate) trait Report: Send + Sync + 'static {
    /// Whether requests can be served.
    fn readiness(&self) -> impl Future<Output = Result<(), String>> + Send;
    /// All metrics as text.
    fn metrics(&self) -> String;
}

/// The running port; closed when dropped.
pub(crate) struct OperatorPort {
    pub(crate) address: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

struct Port<R> {
    report: Arc<R>,
}

struct Quiet;

impl Observer for Quiet {
    fn happened(&self, _: &Event<'_>) {}
}

impl<R: Report> Handler for Port<R> {
    async fn handle(self: Arc<Self>, request: Request<RequestBody>, _: Arc<Peer>) -> Response<ResponseBody> {
        let answer = |status, kind: &'static str, text: String| {
            let mut response = Response::new(bytes(text.into()));
            *response.status_mut() = status;
            response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
            response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
            response
        };
        if !matches!(*request.method(), Method::GET | Method::HEAD) {
            return answer(StatusCode::METHOD_NOT_ALLOWED, TEXT, "only GET and HEAD are answered\n".to_owned());
        }
        match request.uri().path() {
            "/livez" => answer(StatusCode::OK, TEXT, "ok\n".to_owned()),
            "/readyz" => match self.report.readiness().await {
                Ok(()) => answer(StatusCode::OK, TEXT, "ok\n".to_owned()),
                Err(why) => answer(StatusCode::SERVICE_UNAVAILABLE, TEXT, format!("{why}\n")),
            },
            "/metrics" => answer(StatusCode::OK, OPEN_METRICS, self.report.metrics()),
            _ => answer(StatusCode::NOT_FOUND, TEXT, "there are /livez, /readyz and /metrics\n".to_owned()),
        }
    }
}

impl OperatorPort {
    /// Listens at `address` and answers from now on.
    pub(crate) fn start<R: Report>(address: SocketAddr, report: Arc<R>) -> io::Result<Self> {
        let socket = std::net::TcpListener::bind(address)?;
        socket.set_nonblocking(true)?;
        let address = socket.local_addr()?;
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let (stop, stopped) = oneshot::channel::<()>();
        let thread = std::thread::Builder::new().name("fieldseal-operator".to_owned()).spawn(move || {
            runtime.block_on(async {
                let settings = HttpSettings { connections_max: CONNECTIONS_MAX, ..HttpSettings::default() };
                let options = ListenerOptions { address, acceptor: None, settings, observer: Arc::new(Quiet) };
                let listening = tokio::net::TcpListener::from_std(socket)
                    .and_then(|socket| Listener::start_on(socket, options, Arc::new(Port { report })));
                match listening {
                    // Whether it is told to stop or whoever would tell is gone: that means the same.
                    Ok(_listening) => drop(stopped.await),
                    Err(error) => tracing::error!(%error, "the operator port cannot listen"),
                }
            });
        })?;
        Ok(OperatorPort { address, stop: Some(stop), thread: Some(thread) })
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
