//! The upstream connections of one thread.

use std::collections::HashMap;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use hyper::body::Incoming;
use hyper::client::conn::{http1, http2};
use hyper::header::{self, HeaderValue};
use hyper::http::uri::{Authority, PathAndQuery, Scheme};
use hyper::{Request, Response, Uri, Version};
use hyper_util::rt::{TokioExecutor, TokioTimer};
use leafseal_errors::ErrorCode;
use thiserror::Error;
use tokio::task::AbortHandle;
use tokio::time::{Instant, timeout_at};

use super::body::{AnswerBody, ClientFault, SendClock, Sent};
use super::connect::{ConnectError, Connected, Connector, HttpProtocol, Io, UpstreamTls};
use super::sockets::{Socket, Sockets};
use crate::config::UpstreamSettings;
use crate::outages::Outages;
use crate::policy::Origin;

/// Maximum number of pooled connections that are tried if they turn out to be closed.
const RETRIES_MAX: usize = 3;

/// Why there is no answer.
#[derive(Debug, Error)]
pub(crate) enum UpstreamError {
    #[error("no connection to the upstream: {0}")]
    Connect(#[from] ConnectError),
    #[error("too many connections to upstreams")]
    TooMany,
    #[error("the upstream did not answer in time")]
    TimedOut,
    #[error("the client's request broke off")]
    ClientBroke,
    #[error("the client's request arrives too slowly")]
    ClientSlow,
    #[error("the upstream broke off: {0}")]
    Broken(hyper::Error),
}

impl UpstreamError {
    pub(crate) fn code(&self) -> ErrorCode {
        match self {
            UpstreamError::TimedOut | UpstreamError::Connect(ConnectError::TimedOut) => ErrorCode::UpstreamTimeout,
            UpstreamError::Connect(ConnectError::Certificate(_)) => ErrorCode::UpstreamCertificate,
            UpstreamError::Connect(_) => ErrorCode::UpstreamUnreachable,
            UpstreamError::TooMany => ErrorCode::RelayOverloaded,
            UpstreamError::ClientBroke => ErrorCode::ClientBroke,
            UpstreamError::ClientSlow => ErrorCode::SlowBody,
            UpstreamError::Broken(_) => ErrorCode::UpstreamBroke,
        }
    }
}

/// The connections of one thread. Clones share them.
#[derive(Clone)]
pub(crate) struct UpstreamPool(Arc<PoolShared>);

struct PoolShared {
    connector: Connector,
    /// Logs loss and recovery of upstreams, if set.
    outages: Option<Arc<Outages>>,
    sockets: Arc<Sockets>,
    state: Mutex<HashMap<Origin, Kept>>,
}

#[derive(Default)]
struct Kept {
    /// Idle HTTP/1.1 connections, the most recently used last.
    idle: Vec<(Http1, Instant)>,
    http2: Option<Http2>,
    /// Open connections, including idle ones.
    open: usize,
}

impl Kept {
    /// The connection that has been idle longest, and since when.
    fn oldest_idle(&mut self) -> Option<(Instant, &mut Self)> {
        let http1 = self.idle.first().map(|(_, since)| *since);
        let http2 = self.http2.as_ref().filter(|http2| Arc::strong_count(&http2.users) == 1).map(|http2| http2.used);
        let since = http1.into_iter().chain(http2).min()?;
        Some((since, self))
    }

    /// Closes that connection.
    fn close_oldest(&mut self) {
        match self.idle.is_empty() {
            true => self.http2 = None,
            false => drop(self.idle.remove(0)),
        }
    }
}

/// An HTTP/1.1 connection and the task that drives it.
struct Http1 {
    sender: http1::SendRequest<Sent>,
    task: AbortHandle,
    tls: UpstreamTls,
}

/// An HTTP/2 connection, which many requests share.
struct Http2 {
    sender: http2::SendRequest<Sent>,
    /// Held by each request on it.
    users: Arc<()>,
    used: Instant,
    tls: UpstreamTls,
}

/// The connection for a request.
enum RequestConnection {
    Http1(Http1),
    Http2(http2::SendRequest<Sent>, Arc<()>, UpstreamTls),
}

impl RequestConnection {
    fn tls(&self) -> UpstreamTls {
        match self {
            Self::Http1(http1) => http1.tls,
            Self::Http2(_, _, tls) => *tls,
        }
    }
}

/// The body of an answer, whose connection returns to the pool on drop.
pub(crate) type UpstreamAnswer = AnswerBody<Lease>;

/// A connection in use; it returns to the pool on drop.
pub(crate) struct Lease {
    pool: UpstreamPool,
    origin: Arc<Origin>,
    http1: Option<Http1>,
    /// Counts a user of a shared connection.
    _user: Option<Arc<()>>,
}

impl Drop for Lease {
    fn drop(&mut self) {
        let Some(http1) = self.http1.take().filter(|http1| !http1.sender.is_closed() && http1.tls.is_valid()) else {
            return;
        };
        let idle_max = self.pool.connector().settings().idle_connections_max;
        let mut state = self.pool.lock();
        if let Some(kept) = state.get_mut(&*self.origin)
            && kept.idle.len() < idle_max
        {
            kept.idle.push((http1, Instant::now()));
        }
    }
}

/// Counts an open connection until it is dropped.
struct Open {
    pool: UpstreamPool,
    origin: Arc<Origin>,
    _socket: Socket,
}

impl Drop for Open {
    fn drop(&mut self) {
        let mut state = self.pool.lock();
        if let Some(kept) = state.get_mut(&*self.origin) {
            kept.open -= 1;
            kept.idle.retain(|(http1, _)| !http1.sender.is_closed());
            if kept.open == 0 {
                state.remove(&*self.origin);
            }
        }
    }
}

impl UpstreamPool {
    /// Creates a pool; `sockets` may be shared with other pools.
    pub(crate) fn new(connector: Connector, sockets: Arc<Sockets>, outages: Option<Arc<Outages>>) -> Self {
        UpstreamPool(Arc::new(PoolShared { connector, outages, sockets, state: Mutex::default() }))
    }

    /// Counts a socket that is opened outside of the pool.
    pub(crate) fn socket(&self) -> Result<Socket, UpstreamError> {
        self.socket_in(&mut self.lock())
    }

    /// Counts another socket, displacing the connection that has been idle longest if necessary.
    fn socket_in(&self, state: &mut HashMap<Origin, Kept>) -> Result<Socket, UpstreamError> {
        let sockets = &self.0.sockets;
        if let Some(socket) = sockets.take() {
            return Ok(socket);
        }
        let idle = state.values_mut().filter_map(Kept::oldest_idle);
        let (_, kept) = idle.min_by_key(|(since, _)| *since).ok_or(UpstreamError::TooMany)?;
        kept.close_oldest();
        Ok(sockets.replace())
    }

    fn connector(&self) -> &Connector {
        &self.0.connector
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Origin, Kept>> {
        self.0.state.lock().expect("nothing panics while this is locked")
    }

    /// The number of open connections.
    pub(crate) fn open(&self) -> usize {
        self.lock().values().map(|kept| kept.open).sum()
    }

    /// Closes connections that have been idle for too long.
    pub(crate) fn tidy(&self) {
        let limit = self.connector().settings().idle_timeout;
        for kept in self.lock().values_mut() {
            let is_good = |http1: &Http1| !http1.sender.is_closed() && http1.tls.is_valid();
            kept.idle.retain(|(http1, since)| is_good(http1) && since.elapsed() < limit);
            if kept.http2.as_ref().is_some_and(|http2| !http2.tls.is_valid()) {
                kept.http2 = None;
            }
            if let Some(http2) = &mut kept.http2 {
                if Arc::strong_count(&http2.users) > 1 {
                    http2.used = Instant::now();
                } else if http2.used.elapsed() >= limit {
                    kept.http2 = None;
                }
            }
        }
    }

    /// Sends a request whose target is a path; returns the head of the answer. If a pooled connection turns out to be closed, a request of
    /// which nothing was written is sent on another one; a request that was written but is idempotent is sent once more on a new one (RFC
    /// 9110, section 9.2.2).
    pub(crate) async fn send(
        &self,
        origin: &Arc<Origin>,
        mut request: Box<Request<Sent>>,
    ) -> Result<Response<UpstreamAnswer>, UpstreamError> {
        let may_be_2 = !request.headers().contains_key(header::UPGRADE);
        let limit = self.connector().settings().response_timeout;
        let mut tries_left = RETRIES_MAX;
        loop {
            let kept = if tries_left > 0 { self.kept(origin, may_be_2) } else { None };
            let is_kept = kept.is_some();
            let connection = match kept {
                Some(connection) => connection,
                None => Box::pin(self.dial(origin, may_be_2)).await?,
            };
            let spare = if is_kept { copy(&request) } else { None };
            let clock = request.body_mut().clock();
            let mut lease = Lease { pool: self.clone(), origin: Arc::clone(origin), http1: None, _user: None };
            let tls = connection.tls();
            let sent = match connection {
                RequestConnection::Http1(mut http1) => {
                    relative(&mut request);
                    let sent = pin!(http1.sender.try_send_request(*request));
                    let sent = within(limit, clock.as_deref(), sent).await;
                    match &sent {
                        Some(Ok(_)) => lease.http1 = Some(http1),
                        Some(Err(_)) => {}
                        // The upstream does not read any more, so the rest of the request would wait forever.
                        None => http1.task.abort(),
                    }
                    sent
                }
                RequestConnection::Http2(mut sender, user, _) => {
                    let sent = Box::pin(sender.try_send_request(absolute(*request, origin)?));
                    let sent = within(limit, clock.as_deref(), sent).await;
                    if sent.is_none() {
                        self.withdraw(origin, &user);
                    }
                    lease._user = Some(user);
                    sent
                }
            };
            let mut error = match sent {
                None => return Err(client_fault(clock.as_deref()).unwrap_or(UpstreamError::TimedOut)),
                Some(Ok(answer)) => return Ok(self.answer(answer, tls, lease)),
                Some(Err(error)) => error,
            };
            let unsent = error.take_message();
            let error = error.into_error();
            // Over HTTP/2 the error only reports that this side reset the stream.
            if let Some(fault) = client_fault(clock.as_deref()) {
                return Err(fault);
            }
            match (unsent, spare) {
                (Some(unsent), _) if is_kept => {
                    *request = unsent;
                    tries_left -= 1;
                }
                (None, Some(spare)) if !error.is_user() && !error.is_parse() => {
                    request = spare;
                    tries_left = 0;
                }
                _ if error.is_user() => return Err(UpstreamError::ClientBroke),
                _ => return Err(UpstreamError::Broken(error)),
            }
        }
    }

    fn answer(&self, mut answer: Response<Incoming>, tls: UpstreamTls, lease: Lease) -> Response<UpstreamAnswer> {
        answer.extensions_mut().insert(tls);
        let body_timeout = self.connector().settings().body_timeout;
        answer.map(|body| UpstreamAnswer::new(body, body_timeout, lease))
    }

    /// Opens a connection.
    async fn dial(&self, origin: &Arc<Origin>, may_be_2: bool) -> Result<RequestConnection, UpstreamError> {
        let open = self.begin(origin)?;
        let connected = self.connector().connect(origin, may_be_2).await;
        match (&self.0.outages, &connected) {
            (None, _) => {}
            (Some(outages), Ok(_)) => outages.succeeded(|| origin.authority()),
            (Some(outages), Err(error)) => outages.failed(&origin.authority(), error),
        }
        let Connected { io, protocol, tls } = connected?;
        let settings = self.connector().settings();
        let connection = match protocol {
            HttpProtocol::Http1 => handshake_1(io, open, settings, tls).await,
            HttpProtocol::Http2 => handshake_2(io, open, settings, tls).await,
        };
        let connection = connection.map_err(UpstreamError::Broken)?;
        if let RequestConnection::Http2(sender, users, tls) = &connection {
            let http2 = Http2 { sender: sender.clone(), users: Arc::clone(users), used: Instant::now(), tls: *tls };
            self.lock().entry((**origin).clone()).or_default().http2 = Some(http2);
        }
        Ok(connection)
    }

    /// Assigns no new requests to a connection that did not answer one: it may be dead. Its other requests continue.
    fn withdraw(&self, origin: &Origin, user: &Arc<()>) {
        if let Some(kept) = self.lock().get_mut(origin)
            && kept.http2.as_ref().is_some_and(|http2| Arc::ptr_eq(&http2.users, user))
        {
            kept.http2 = None;
        }
    }

    /// Takes a pooled connection.
    fn kept(&self, origin: &Origin, may_be_2: bool) -> Option<RequestConnection> {
        let limit = self.connector().settings().idle_timeout;
        let mut state = self.lock();
        let kept = state.get_mut(origin)?;
        if let Some(http2) = kept.http2.as_ref().filter(|_| may_be_2) {
            if !http2.sender.is_closed() && http2.tls.is_valid() {
                return Some(RequestConnection::Http2(http2.sender.clone(), Arc::clone(&http2.users), http2.tls));
            }
            kept.http2 = None;
        }
        // The task of a connection that was just returned may not have run yet; an earlier connection will do.
        let is_good = |(http1, since): &(Http1, Instant)| {
            http1.sender.is_ready() && since.elapsed() < limit && http1.tls.is_valid()
        };
        let at = kept.idle.iter().rposition(is_good)?;
        Some(RequestConnection::Http1(kept.idle.remove(at).0))
    }

    fn begin(&self, origin: &Arc<Origin>) -> Result<Open, UpstreamError> {
        let connections_max = self.connector().settings().connections_max;
        let mut state = self.lock();
        if state.get(&**origin).is_some_and(|kept| kept.open >= connections_max) {
            return Err(UpstreamError::TooMany);
        }
        let socket = self.socket_in(&mut state)?;
        state.entry((**origin).clone()).or_default().open += 1;
        Ok(Open { pool: self.clone(), origin: Arc::clone(origin), _socket: socket })
    }
}

async fn handshake_1(
    io: Io,
    open: Open,
    settings: &UpstreamSettings,
    tls: UpstreamTls,
) -> hyper::Result<RequestConnection> {
    let mut builder = http1::Builder::new();
    builder.max_buf_size(settings.header_size_max).max_headers(settings.headers_max);
    let (sender, connection) = builder.handshake(io).await?;
    let connection = connection.with_upgrades();
    let task = tokio::spawn(async move {
        if let Err(error) = connection.await {
            tracing::debug!(%error, "a connection to an upstream failed");
        }
        drop(open);
    });
    Ok(RequestConnection::Http1(Http1 { sender, task: task.abort_handle(), tls }))
}

async fn handshake_2(
    io: Io,
    open: Open,
    settings: &UpstreamSettings,
    tls: UpstreamTls,
) -> hyper::Result<RequestConnection> {
    // The configuration limits these to what HTTP/2 can express.
    let number = |size: usize| u32::try_from(size).unwrap_or(u32::MAX);
    let mut builder = http2::Builder::new(TokioExecutor::new());
    builder
        .timer(TokioTimer::new())
        .max_header_list_size(number(settings.header_size_max))
        .initial_stream_window_size(number(settings.stream_window))
        .initial_connection_window_size(number(settings.connection_window))
        .keep_alive_interval(settings.ping_interval)
        .keep_alive_timeout(settings.ping_timeout)
        .keep_alive_while_idle(true);
    let (sender, connection) = builder.handshake(io).await?;
    tokio::spawn(async move {
        if let Err(error) = connection.await {
            tracing::debug!(%error, "a connection to an upstream failed");
        }
        drop(open);
    });
    Ok(RequestConnection::Http2(sender, Arc::default(), tls))
}

/// Rewrites the request for HTTP/2, whose target includes scheme and host.
fn absolute(mut request: Request<Sent>, origin: &Origin) -> Result<Request<Sent>, UpstreamError> {
    let host = request.headers_mut().remove(header::HOST);
    let mut target = std::mem::take(request.uri_mut()).into_parts();
    // A request that was tried over HTTP/2 before already has it.
    if target.authority.is_none() {
        let host = host.and_then(|host| Authority::try_from(host.as_bytes()).ok());
        target.authority = host.or_else(|| origin.authority().parse().ok());
    }
    target.scheme = Some(if origin.is_tls { Scheme::HTTPS } else { Scheme::HTTP });
    target.path_and_query.get_or_insert(PathAndQuery::from_static("/"));
    let target = Uri::from_parts(target).map_err(|_| ConnectError::Name("it is no host".to_owned()))?;
    *request.uri_mut() = target;
    *request.version_mut() = Version::HTTP_2;
    Ok(request)
}

/// Rewrites the request for HTTP/1.1, which has the host in a field and only a path in the target.
fn relative(request: &mut Request<Sent>) {
    *request.version_mut() = Version::HTTP_11;
    let Some(authority) = request.uri().authority() else { return };
    if let Ok(host) = HeaderValue::from_str(authority.as_str()) {
        request.headers_mut().insert(header::HOST, host);
    }
    *request.uri_mut() = request.uri().path_and_query().cloned().map_or_else(Uri::default, Uri::from);
}

/// Waits for the head of an answer: for `limit` from the end of the request, or from its last piece that the upstream could read.
async fn within<F: Future + Unpin>(limit: Duration, clock: Option<&SendClock>, mut sent: F) -> Option<F::Output> {
    let mut deadline = Instant::now() + limit;
    loop {
        if let Ok(sent) = timeout_at(deadline, &mut sent).await {
            return Some(sent);
        }
        match clock.map(|clock| clock.deadline(limit)) {
            Some(later) if later > Instant::now() => deadline = later,
            _ => return None,
        }
    }
}

/// The client's fault in a failed request, if any.
fn client_fault(clock: Option<&SendClock>) -> Option<UpstreamError> {
    Some(match clock?.fault()? {
        ClientFault::Slow => UpstreamError::ClientSlow,
        ClientFault::Broke => UpstreamError::ClientBroke,
    })
}

/// Copies a request for a retry, if possible.
fn copy(request: &Request<Sent>) -> Option<Box<Request<Sent>>> {
    if !request.method().is_idempotent() {
        return None;
    }
    let body = request.body().try_clone()?;
    let mut copy = Box::new(Request::new(body));
    *copy.method_mut() = request.method().clone();
    *copy.uri_mut() = request.uri().clone();
    *copy.headers_mut() = request.headers().clone();
    Some(copy)
}
