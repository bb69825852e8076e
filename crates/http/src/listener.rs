//! Accepts sockets and serves them: connection limits, handshake, protocol; and shutdown.

use std::fmt::{self, Debug};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use boring::ssl::{Error as SslError, NameType, Ssl, SslContextRef};
use leafseal_net::tls::{Acceptor, explained, negotiated_group, reasons};
use leafseal_net::{ACCEPT_PAUSE, Full, ShutdownNotice, ShutdownPhase, bind, prepare_socket};
use tokio::io::{AsyncRead, AsyncWrite, BufReader, BufWriter};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::AbortHandle;
use tokio::time::{Instant, sleep, timeout, timeout_at};
use tokio_boring::{SslStream, SslStreamBuilder};

use crate::activity::{ActivitySlot, HttpCounters, Registry, count};
use crate::connection::{ConnectionEnd, ConnectionPeer, Handler, Protocol, StreamServer};
use crate::settings::HttpSettings;

/// BoringSSL reads a record in two parts and writes each record separately; buffers of this size combine them.
const BUFFER_SIZE: usize = 16 << 10;

/// An event of a listener other than a request, for logs.
#[derive(Debug)]
pub enum ListenerEvent<'a> {
    /// The system returned an error instead of a socket.
    CannotAccept(&'a io::Error),
    /// A connection was refused at a limit.
    Refused(SocketAddr, Full),
    /// A peer closed its connection during the handshake without sending anything, such as a port probe.
    Left(SocketAddr),
    /// A handshake failed, for this reason.
    HandshakeFailed(SocketAddr, &'a str),
    /// A connection was cut, for this reason.
    Cut(SocketAddr, &'a str),
    /// A connection broke because of its peer.
    Broken(SocketAddr, &'a hyper::Error),
}

/// Receives events; called on a network thread, so it must not block.
pub trait ListenerObserver: Send + Sync + 'static {
    /// Called for each event.
    fn observe(&self, event: &ListenerEvent<'_>);
}

/// The address and the settings of a listener.
pub struct ListenerOptions {
    /// The address to listen on. Port 0 lets the system choose one.
    pub address: SocketAddr,
    /// TLS; without it plain HTTP/1.1, for tests and for deployments that terminate TLS elsewhere.
    pub acceptor: Option<Acceptor>,
    /// Limits.
    pub settings: HttpSettings,
    /// The observer of events.
    pub observer: Arc<dyn ListenerObserver>,
}

/// A running listener. Dropping it stops everything at once; [`Listener::shutdown`] is graceful.
pub struct Listener<H> {
    address: SocketAddr,
    stream_server: StreamServer<H>,
    phase: watch::Sender<ShutdownPhase>,
    accepting: AbortHandle,
}

impl<H: Handler> Listener<H> {
    /// Starts to listen and serve, on the caller's runtime.
    ///
    /// # Errors
    /// If settings are invalid (`InvalidInput`), or the address is in use.
    pub fn start(options: ListenerOptions, handler: Arc<H>) -> io::Result<Self> {
        let listener = bind(options.address)?;
        Self::start_on(listener, options, handler)
    }

    /// The same with a socket that already listens; the options' address is ignored.
    ///
    /// # Errors
    /// If settings are invalid (`InvalidInput`).
    pub fn start_on(listener: TcpListener, options: ListenerOptions, handler: Arc<H>) -> io::Result<Self> {
        let ListenerOptions { address: _, acceptor, settings, observer } = options;
        settings.validate().map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))?;
        let address = listener.local_addr()?;
        let (phase, watched) = watch::channel(ShutdownPhase::Serving);
        let registry = Arc::new(Registry::new(settings.connections_max, settings.clients()));
        let notice = Arc::default();
        let stream_server = StreamServer { handler, settings: Arc::new(settings), registry, phase: watched, notice };
        let accepting = tokio::spawn(accept(listener, stream_server.clone(), acceptor, observer)).abort_handle();
        Ok(Listener { address, stream_server, phase, accepting })
    }

    /// The bound address.
    pub fn local_addr(&self) -> SocketAddr {
        self.address
    }

    /// The current counters.
    pub fn counters(&self) -> HttpCounters {
        self.stream_server.registry.counters()
    }

    /// Returns a function that reads the counters, for metrics.
    pub fn counting(&self) -> impl Fn() -> HttpCounters + Send + Sync + 'static {
        let registry = Arc::clone(&self.stream_server.registry);
        move || registry.counters()
    }

    /// Returns a handle that serves other streams with the same handler and limits.
    pub fn stream_server(&self) -> StreamServer<H> {
        self.stream_server.clone()
    }

    /// Asks clients to reconnect elsewhere while everything is served: each connection at its own moment of `notice`, by `Connection:
    /// close` in answers over HTTP/1.1, by GOAWAY over HTTP/2. Returns at once.
    pub fn begin_shutdown(&self, notice: ShutdownNotice) {
        // It may have been called before.
        let _ = self.stream_server.notice.set(notice);
        self.phase.send_if_modified(|phase| {
            let is_first = *phase == ShutdownPhase::Serving;
            if is_first {
                *phase = ShutdownPhase::Notice;
            }
            is_first
        });
    }

    /// Stops accepting connections, and lets each end once its requests are answered. Returns at once.
    pub fn begin_draining(&self) {
        self.accepting.abort();
        self.phase.send_replace(ShutdownPhase::Draining);
    }

    /// The same, then waits up to `drain_timeout` for connections to end. Returns the number of those that did not, which are
    /// dropped.
    pub async fn shutdown(self) -> usize {
        let deadline = Instant::now() + self.stream_server.settings.drain_timeout;
        self.shutdown_until(deadline).await
    }

    /// The same, but waits until `deadline`.
    pub async fn shutdown_until(self, deadline: Instant) -> usize {
        self.begin_draining();
        let registry = Arc::clone(&self.stream_server.registry);
        let ended = timeout_at(deadline, registry.all_ended()).await;
        let left = if ended.is_ok() { 0 } else { registry.counters().connections_open };
        self.phase.send_replace(ShutdownPhase::Closing);
        left
    }
}

impl<H> Drop for Listener<H> {
    fn drop(&mut self) {
        self.accepting.abort();
        self.phase.send_replace(ShutdownPhase::Closing);
    }
}

impl<H> Debug for Listener<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Listener").field("address", &self.address).finish_non_exhaustive()
    }
}

/// Accepts until the task is aborted.
async fn accept<H: Handler>(
    listener: TcpListener,
    stream_server: StreamServer<H>,
    acceptor: Option<Acceptor>,
    observer: Arc<dyn ListenerObserver>,
) {
    loop {
        stream_server.registry.room().await;
        match listener.accept().await {
            Ok((socket, address)) => {
                count(&stream_server.registry.tallies.accepted);
                let slot = match stream_server.registry.take(address.ip()) {
                    Ok(slot) => slot,
                    Err(full) => {
                        count(&stream_server.registry.tallies.refused);
                        observer.observe(&ListenerEvent::Refused(address, full));
                        continue;
                    }
                };
                let (stream_server, observer, acceptor) =
                    (stream_server.clone(), Arc::clone(&observer), acceptor.clone());
                tokio::spawn(async move {
                    match serve(socket, address, &stream_server, acceptor, slot, &*observer).await {
                        ConnectionEnd::Closed | ConnectionEnd::Displaced => {}
                        ConnectionEnd::Cut(reason) => observer.observe(&ListenerEvent::Cut(address, reason)),
                        ConnectionEnd::Broken(error) => observer.observe(&ListenerEvent::Broken(address, &error)),
                    }
                });
            }
            Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
            Err(error) => {
                observer.observe(&ListenerEvent::CannotAccept(&error));
                sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

/// Serves a connection from its acceptance to its end.
async fn serve<H: Handler>(
    socket: TcpStream,
    address: SocketAddr,
    stream_server: &StreamServer<H>,
    acceptor: Option<Acceptor>,
    slot: ActivitySlot,
    observer: &dyn ListenerObserver,
) -> ConnectionEnd {
    let mut peer = ConnectionPeer { address, protocol: Protocol::Http1, server_name: None, tls_group: None };
    // A broken socket is reported when it is read.
    let _ = prepare_socket(&socket, stream_server.settings.half_open_timeout);
    let Some(acceptor) = acceptor else { return stream_server.serve_in(slot, socket, peer).await };
    let socket = BufWriter::with_capacity(BUFFER_SIZE, BufReader::with_capacity(BUFFER_SIZE, socket));
    let context = acceptor.context();
    let secured = tokio::select! {
        secured = stream_server.tls_handshake(socket, &context) => secured,
        () = slot.activity.displaced.notified() => return ConnectionEnd::Displaced,
    };
    let failure = match secured {
        Ok(stream) => {
            peer.protocol = protocol_of(&stream);
            peer.tls_group = Some(negotiated_group(stream.ssl()));
            peer.server_name = stream.ssl().servername(NameType::HOST_NAME).map(str::to_owned);
            return stream_server.serve_in(slot, stream, peer).await;
        }
        Err(failure) => failure,
    };
    observer.observe(&match &failure {
        Some(reason) => ListenerEvent::HandshakeFailed(address, reason),
        None => ListenerEvent::Left(address),
    });
    ConnectionEnd::Closed
}

impl<H> StreamServer<H> {
    /// Performs the server's TLS handshake on a stream, within its timeout. Failures are counted with the listener's.
    ///
    /// # Errors
    /// Why the handshake failed; `None` if the peer closed the connection.
    pub async fn tls_handshake<S>(&self, stream: S, context: &SslContextRef) -> Result<SslStream<S>, Option<String>>
    where
        S: AsyncRead + AsyncWrite + Debug + Unpin,
    {
        let secured = timeout(self.settings.handshake_timeout, handshake(stream, context)).await;
        let secured = secured.unwrap_or_else(|_| Err(Some("it took too long".to_owned())));
        let tallies = &self.registry.tallies;
        if let Ok(stream) = &secured {
            tallies.key_exchanges.count(stream.ssl());
        }
        match &secured {
            Ok(stream) if stream.ssl().session_reused() => count(&tallies.handshakes_resumed),
            Ok(_) => {}
            Err(_) => count(&tallies.handshakes_failed),
        }
        secured
    }
}

async fn handshake<S>(stream: S, context: &SslContextRef) -> Result<SslStream<S>, Option<String>>
where
    S: AsyncRead + AsyncWrite + Debug + Unpin,
{
    let session = Ssl::new(context).map_err(|error| Some(reasons(&error)))?;
    SslStreamBuilder::new(session, stream).accept().await.map_err(|error| {
        let source = std::error::Error::source(&error).and_then(|source| source.downcast_ref::<SslError>());
        let reasons = source.and_then(SslError::ssl_error).map(reasons).unwrap_or_default();
        (!reasons.is_empty()).then(|| explained(reasons))
    })
}

/// The protocol that both sides negotiated.
pub fn protocol_of<S>(stream: &SslStream<S>) -> Protocol {
    if stream.ssl().selected_alpn_protocol() == Some(b"h2") { Protocol::Http2 } else { Protocol::Http1 }
}
