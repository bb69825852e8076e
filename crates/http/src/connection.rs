//! Serves one connection: HTTP/1.1 or HTTP/2 over a stream, with limits on its peer.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use hyper::body::Incoming;
use hyper::header::{CONNECTION, EXPECT, HeaderValue, UPGRADE};
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode, Version};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use leafseal_net::{ShutdownNotice, ShutdownPhase, age_reached};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use crate::activity::{ActiveRequest, Activity, ActivitySlot, CloseReason, Hold, Registry, count};
use crate::body::{RequestBody, ResponseBody, Sending};
use crate::gather::{GatheredStream, GatheredWriter};
use crate::settings::HttpSettings;
use crate::slow_peer::PeerProgress;
use crate::strict::{Strict, UpgradeDecision};
use crate::watched::WatchedStream;

/// Checks of a connection per shortest timeout, within these bounds.
const LOOKS_PER_TIMEOUT: u32 = 8;
const LOOK_PAUSE_MIN: Duration = Duration::from_millis(10);
const LOOK_PAUSE_MAX: Duration = Duration::from_secs(1);
/// The reason for cutting a connection whose peer reads too slowly.
const READS_TOO_SLOWLY: &str = "it reads its answer too slowly";

/// The protocol of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// HTTP/1.1, or 1.0.
    Http1,
    /// HTTP/2.
    Http2,
}

/// The peer of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConnectionPeer {
    /// The peer's address.
    pub address: SocketAddr,
    /// Its protocol.
    pub protocol: Protocol,
    /// The server name of the TLS handshake (SNI).
    pub server_name: Option<String>,
    /// The group of the TLS key exchange; `None` without TLS.
    pub tls_group: Option<&'static str>,
}

/// Answers requests.
pub trait Handler: Send + Sync + 'static {
    /// Answers a request. The future is dropped when the peer resets the stream or disconnects; the rest of a body that the handler
    /// drops is read and discarded within limits. An upgrade (`hyper::upgrade::on`) works over HTTP/1.1, and for `CONNECT` over
    /// HTTP/2, where the [`Hold`] in the request's extensions must live as long as the stream.
    fn handle(
        self: Arc<Self>,
        request: Request<RequestBody>,
        peer: Arc<ConnectionPeer>,
    ) -> impl Future<Output = Response<ResponseBody>> + Send;
}

/// How a connection ended.
#[derive(Debug)]
pub(crate) enum ConnectionEnd {
    Closed,
    Displaced,
    Cut(&'static str),
    Broken(hyper::Error),
}

/// Serves streams as connections of a listener: its shared settings, limits and handler. For streams from another source, such as a
/// tunnel, use [`StreamServer::serve`].
pub struct StreamServer<H> {
    pub(crate) handler: Arc<H>,
    pub(crate) settings: Arc<HttpSettings>,
    pub(crate) registry: Arc<Registry>,
    pub(crate) phase: watch::Receiver<ShutdownPhase>,
    /// Set when the shutdown begins.
    pub(crate) notice: Arc<OnceLock<ShutdownNotice>>,
}

/// When a connection is asked to close, because of its age or a shutdown.
#[derive(Clone, Debug)]
struct CloseTime {
    number: u64,
    opened: Instant,
    age_reached: Option<Instant>,
    notice: Arc<OnceLock<ShutdownNotice>>,
}

impl CloseTime {
    fn end(&self) -> Option<Instant> {
        let moment = self.notice.get().map(|notice| notice.moment(self.opened, self.number));
        moment.into_iter().chain(self.age_reached).min()
    }

    fn is_over(&self, now: Instant) -> bool {
        self.end().is_some_and(|end| end <= now)
    }
}

impl<H> Clone for StreamServer<H> {
    fn clone(&self) -> Self {
        StreamServer {
            handler: Arc::clone(&self.handler),
            settings: Arc::clone(&self.settings),
            registry: Arc::clone(&self.registry),
            phase: self.phase.clone(),
            notice: Arc::clone(&self.notice),
        }
    }
}

impl<H> StreamServer<H> {
    /// Returns a server with another handler, within the limits and among the connections of the same listener.
    pub fn with_handler<T>(&self, handler: Arc<T>) -> StreamServer<T> {
        StreamServer {
            handler,
            settings: Arc::clone(&self.settings),
            registry: Arc::clone(&self.registry),
            phase: self.phase.clone(),
            notice: Arc::clone(&self.notice),
        }
    }

    /// The limits.
    pub fn settings(&self) -> &HttpSettings {
        &self.settings
    }
}

impl<H: Handler> StreamServer<H> {
    /// Serves HTTP on a stream until it ends, with the limits and handler of the listener. It counts as a connection of the
    /// listener; at the connection limit it ends at once.
    pub async fn serve<S>(&self, stream: S, peer: ConnectionPeer)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        if let Ok(slot) = self.registry.take_inner() {
            self.serve_in(slot, stream, peer).await;
        }
    }

    pub(crate) async fn serve_in<S>(&self, slot: ActivitySlot, stream: S, peer: ConnectionPeer) -> ConnectionEnd
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let activity = Arc::clone(&slot.activity);
        let close_time = self.close_time(slot.number);
        let writing = PeerProgress::new(self.settings.write_timeout, self.settings.write_progress_min);
        let stream = WatchedStream::new(stream, writing, slot);
        let peer = Arc::new(peer);
        let is_http2 = peer.protocol == Protocol::Http2;
        let (stream_server, for_requests, decision) = (self.clone(), Arc::clone(&activity), UpgradeDecision::default());
        let (for_decision, for_answers) = (decision.clone(), close_time.clone());
        let service = service_fn(move |request| {
            let (exchange, peer) = (for_requests.begin(), Arc::clone(&peer));
            stream_server.clone().answer(request, exchange, peer, for_decision.clone(), for_answers.clone())
        });
        if is_http2 {
            let stream = GatheredStream::new(stream);
            let mut builder = http2::Builder::new(TokioExecutor::new());
            builder
                .timer(TokioTimer::new())
                .max_concurrent_streams(self.settings.streams_max)
                .max_header_list_size(u32::try_from(self.settings.header_size_max).unwrap_or(u32::MAX));
            let connection = pin!(builder.serve_connection(TokioIo::new(stream.clone()), service));
            self.watch(Driven::new(connection, stream), &activity, is_http2.then_some(&close_time)).await
        } else {
            let stream = TokioIo::new(Strict::new(stream, decision, self.settings.header_size_max));
            let mut builder = http1::Builder::new();
            builder
                .timer(TokioTimer::new())
                // The watch limits the time of heads, and treats a connection without a request separately.
                .header_read_timeout(None)
                .max_header_size(self.settings.header_size_max)
                .max_headers(self.settings.headers_max);
            let connection = builder.serve_connection(stream, service).with_upgrades();
            self.watch(Driven::new(pin!(connection), ()), &activity, is_http2.then_some(&close_time)).await
        }
    }

    fn close_time(&self, number: u64) -> CloseTime {
        let (opened, notice) = (Instant::now(), Arc::clone(&self.notice));
        CloseTime { number, opened, age_reached: age_reached(opened, self.settings.connection_age_max, number), notice }
    }

    /// Handles one request, from its complete head to the head of the answer.
    fn answer(
        self,
        request: Request<Incoming>,
        exchange: Arc<ActiveRequest>,
        peer: Arc<ConnectionPeer>,
        decision: UpgradeDecision,
        close_time: CloseTime,
    ) -> impl Future<Output = Result<Response<Sending>, Infallible>> + Send + 'static {
        let is_connect = request.method() == Method::CONNECT;
        let may_change = is_connect || request.headers().contains_key(UPGRADE);
        let waits = request.version() >= Version::HTTP_11 && request.headers().contains_key(EXPECT);
        let of_request = Arc::clone(&exchange);
        let mut request = request.map(|incoming| RequestBody::new(incoming, of_request, &self.settings, waits));
        let is_http2 = peer.protocol == Protocol::Http2;
        if is_connect && is_http2 {
            request.extensions_mut().insert(Hold::new(&exchange));
        }
        let answering = self.handler.handle(request, peer);
        let settings = self.settings;
        async move {
            let mut response = answering.await;
            let status = response.status();
            let is_taken = status == StatusCode::SWITCHING_PROTOCOLS || (is_connect && status.is_success());
            if !is_http2 && !is_taken && close_time.is_over(Instant::now()) {
                response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
            }
            if may_change {
                if is_taken && !is_http2 {
                    exchange.activity().leave_http();
                }
                decision.decide(is_taken);
            }
            Ok(response.map(|body| Sending::new(body, exchange, &settings, is_http2)))
        }
    }

    /// How a connection with an error ended.
    fn ended(&self, error: hyper::Error) -> ConnectionEnd {
        if !reads_too_slowly(&error) {
            return ConnectionEnd::Broken(error);
        }
        count(&self.registry.tallies.cut);
        ConnectionEnd::Cut(READS_TOO_SLOWLY)
    }

    /// Drives a connection and ends it if its peer is too slow, it was displaced, or the listener stops. An HTTP/2 connection has a
    /// `close_time`, after which its peer is asked to close; over HTTP/1.1, answers do that.
    async fn watch<C: HttpConnection, O: GatheredWriter + Unpin>(
        &self,
        mut connection: Driven<'_, C, O>,
        activity: &Activity,
        close_time: Option<&CloseTime>,
    ) -> ConnectionEnd {
        let settings = &self.settings;
        let is_http2 = close_time.is_some();
        let mut phase = self.phase.clone();
        let mut seen = ShutdownPhase::Serving;
        let mut is_asked = false;
        loop {
            let due = close_time.filter(|_| !is_asked).and_then(CloseTime::end);
            if due.is_some_and(|due| due <= Instant::now()) {
                is_asked = true;
                connection.graceful_shutdown();
                continue;
            }
            let until_due = due.map_or(Duration::MAX, |due| due.saturating_duration_since(Instant::now()));
            let pause = look_pause(settings).min(until_due);
            tokio::select! {
                ended = &mut connection => return ended.map_or_else(|error| self.ended(error), |()| ConnectionEnd::Closed),
                () = activity.displaced.notified() => {
                    // The reason is sent if possible, without waiting: the new connection has the slot already.
                    end(connection, Duration::ZERO).await;
                    return ConnectionEnd::Displaced;
                }
                now = next_phase(&mut phase, seen) => match now {
                    ShutdownPhase::Notice => seen = now,
                    ShutdownPhase::Draining => {
                        seen = now;
                        connection.graceful_shutdown();
                    }
                    ShutdownPhase::Serving | ShutdownPhase::Closing => return ConnectionEnd::Closed,
                },
                () = sleep(pause) => match activity.verdict(settings, Instant::now(), !is_http2) {
                    CloseReason::Goes => {}
                    CloseReason::Idle => {
                        count(&self.registry.tallies.idle);
                        end(connection, settings.close_timeout).await;
                        return ConnectionEnd::Closed;
                    }
                    verdict => {
                        count(&self.registry.tallies.cut);
                        let is_head = verdict == CloseReason::SlowHead;
                        return ConnectionEnd::Cut(if is_head { "the head arrives too slowly" } else { READS_TOO_SLOWLY });
                    }
                },
            }
        }
    }
}

/// Whether the stream failed because the peer read too slowly.
fn reads_too_slowly(error: &hyper::Error) -> bool {
    let source = std::error::Error::source(error).and_then(|source| source.downcast_ref::<io::Error>());
    source.is_some_and(|source| source.kind() == io::ErrorKind::TimedOut)
}

/// Waits for the phase after `seen`. A dropped listener counts as closed.
async fn next_phase(phase: &mut watch::Receiver<ShutdownPhase>, seen: ShutdownPhase) -> ShutdownPhase {
    phase.wait_for(|phase| *phase != seen).await.map_or(ShutdownPhase::Closing, |phase| *phase)
}

fn look_pause(settings: &HttpSettings) -> Duration {
    let shortest = settings.header_read_timeout.min(settings.idle_timeout).min(settings.write_timeout);
    (shortest / LOOKS_PER_TIMEOUT).clamp(LOOK_PAUSE_MIN, LOOK_PAUSE_MAX)
}

/// Shuts the connection down gracefully.
async fn end<C: HttpConnection, O: GatheredWriter + Unpin>(mut connection: Driven<'_, C, O>, limit: Duration) {
    connection.graceful_shutdown();
    // The peer's reaction does not matter.
    let _ = timeout(limit, connection).await;
}

/// A connection, and the output that is buffered for it.
struct Driven<'c, C, O> {
    connection: Pin<&'c mut C>,
    outbox: O,
    ended: Option<hyper::Result<()>>,
}

impl<'c, C: HttpConnection, O> Driven<'c, C, O> {
    fn new(connection: Pin<&'c mut C>, outbox: O) -> Self {
        Driven { connection, outbox, ended: None }
    }

    fn graceful_shutdown(&mut self) {
        self.connection.as_mut().graceful_shutdown();
    }
}

impl<C: HttpConnection, O: GatheredWriter + Unpin> Future for Driven<'_, C, O> {
    type Output = hyper::Result<()>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<hyper::Result<()>> {
        let this = &mut *self;
        if this.ended.is_none()
            && let Poll::Ready(ended) = this.connection.as_mut().poll(cx)
        {
            this.ended = Some(ended);
        }
        match (this.outbox.poll_send(cx), this.ended.take()) {
            (Poll::Ready(()), Some(ended)) => Poll::Ready(ended),
            (_, ended) => {
                this.ended = ended;
                Poll::Pending
            }
        }
    }
}

/// The operations that both kinds of connections support.
trait HttpConnection: Future<Output = hyper::Result<()>> {
    fn graceful_shutdown(self: Pin<&mut Self>);
}

macro_rules! connection {
    ($type:ty, $($bounds:tt)*) => {
        impl<I, S> HttpConnection for $type
        where
            I: hyper::rt::Read + hyper::rt::Write + Unpin + Send + 'static,
            S: hyper::service::HttpService<Incoming, ResBody = Sending>,
            S::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
            $($bounds)*
        {
            fn graceful_shutdown(self: Pin<&mut Self>) {
                Self::graceful_shutdown(self);
            }
        }
    };
}

connection!(http1::UpgradeableConnection<I, S>,);
connection!(
    http2::Connection<I, S, TokioExecutor>,
    TokioExecutor: hyper::rt::bounds::Http2ServerConnExec<S::Future, Sending>,
);
