//! Accepts sockets and turns them into connections: limits, handshake, authentication.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use boring::ssl::SslContext;
use leafseal_engine::{EntryPoint, RequestOrigin};
use leafseal_net::tls::{Acceptor, chain_expiry, negotiated_group};
use leafseal_net::{ACCEPT_PAUSE, ConnectionSlot, Full, client_of, prepare_socket};
use leafseal_protocol::{ErrorCode, ErrorObject, answer};
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::spawn_blocking;
use tokio::time::{Instant, sleep, timeout, timeout_at};
use tokio_boring::{SslStream, SslStreamBuilder};

use crate::clock;
use crate::identity::{peer_identity, valid_for};
use crate::metrics::LiveCounters;
use crate::refusals::{RefusalLine, ServerRefusalLog, fingerprint};
use crate::rpc::connection::{ConnectionEnding, RpcConnection};
use crate::rpc::gathered::GatheredSocket;
use crate::rpc::wire::discard;
use crate::server_state::{Registration, ServerState};
use crate::tls::{self, HandshakeFailure};
use leafseal_service::{PeerIdentity, RefusedCaller, Service};

type RpcStream = SslStream<GatheredSocket<TcpStream>>;

/// A connection whose client is authenticated.
struct Admitted<C> {
    peer: PeerIdentity,
    caller: Arc<C>,
    registration: Registration,
    /// When the first certificate of the peer's verified chain expires.
    expires: std::time::Instant,
}

/// Accepts until the task is aborted.
pub(crate) async fn listen<S: Service>(
    listener: TcpListener,
    server_state: Arc<ServerState>,
    service: Arc<S>,
    context: Acceptor,
) {
    loop {
        server_state.handshakes.room().await;
        match listener.accept().await {
            Ok((socket, address)) => accept(socket, address, &server_state, &service, &context.context()),
            Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
            Err(error) => {
                let write = || tracing::error!(%error, "cannot accept connections");
                server_state.refusals.line(RefusalLine::Connection, clock::now(), &"accept", write);
                sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

fn accept<S: Service>(
    socket: TcpStream,
    address: SocketAddr,
    server_state: &Arc<ServerState>,
    service: &Arc<S>,
    context: &SslContext,
) {
    LiveCounters::add(&server_state.counters.connections_accepted);
    if let Err(full) = server_state.has_room(address.ip()) {
        LiveCounters::add(&server_state.counters.connections_refused);
        let write = || tracing::warn!(%address, reason = %full, "connection rejected");
        server_state.refusals.line(RefusalLine::Connection, clock::now(), &client_of(address.ip()), write);
        return;
    }
    let (slot, accepted) = (server_state.handshakes.take(address.ip()), server_state.receive());
    let (server_state, service, context) = (Arc::clone(server_state), Arc::clone(service), context.clone());
    tokio::spawn(async move {
        serve(socket, address, server_state, service, context, slot).await;
        drop(accepted);
    });
}

/// Serves a connection from its acceptance to its end.
async fn serve<S: Service>(
    socket: TcpStream,
    address: SocketAddr,
    server_state: Arc<ServerState>,
    service: Arc<S>,
    context: SslContext,
    slot: ConnectionSlot,
) {
    let deadline = Instant::now() + server_state.settings.handshake_timeout;
    let began = clock::now();
    let stream = match handshake_in_slot(socket, &server_state, &context, deadline, slot).await {
        Ok(stream) => {
            server_state.times.handshake.observe(clock::now() - began);
            server_state.key_exchanges.count(stream.ssl());
            if stream.ssl().session_reused() {
                LiveCounters::add(&server_state.counters.handshakes_resumed);
            }
            stream
        }
        Err(failure) => return refuse_handshake(&failure, address, &server_state, &*service),
    };
    match admit(&stream, address, &server_state, &service, deadline).await {
        Ok(admitted) => {
            let Admitted { peer, caller, registration, expires } = admitted;
            let number = registration.number;
            let tls_group = negotiated_group(stream.ssl());
            tracing::debug!(%address, client = %peer.name, connection = number, tls_group, "connected");
            let of_connection = Arc::clone(&service);
            let place = (address.ip(), expires);
            let end =
                RpcConnection::new(Arc::clone(&server_state), of_connection, caller, stream, &registration, place)
                    .of_peer(&peer)
                    .run()
                    .await;
            match &end {
                ConnectionEnding::Fault(error) if error.code == ErrorCode::Forbidden => {
                    service.refuse_peer(Some(&peer), origin_of(address), &error.message);
                }
                end => log_end(&server_state.refusals, end, &peer, address, number),
            }
        }
        Err((error, peer)) => {
            let counters = &server_state.counters;
            let is_forbidden = error.code == ErrorCode::Forbidden;
            LiveCounters::add(if is_forbidden {
                &counters.connections_forbidden
            } else {
                &counters.connections_refused
            });
            if !is_forbidden {
                let client = peer.as_ref().map(|peer| peer.name.as_str());
                let write = || tracing::warn!(%address, client, reason = %error.message, "connection rejected");
                server_state.refusals.line(RefusalLine::Connection, clock::now(), &client_of(address.ip()), write);
            }
            // Counted like a handshake: a refused client holds a socket no longer than others need the slot.
            let slot = server_state.handshakes.take(address.ip());
            tokio::select! {
                () = refuse(stream, &error, server_state.settings.close_timeout) => {}
                () = slot.displaced() => {}
            }
        }
    }
}

/// Counts and logs a failed handshake.
fn refuse_handshake<S: Service>(
    failure: &HandshakeFailure,
    address: SocketAddr,
    server_state: &ServerState,
    service: &S,
) {
    LiveCounters::add(&server_state.counters.handshakes_failed);
    if failure.is_about_the_certificate() {
        return service.refuse_peer(None, origin_of(address), &failure.to_string());
    }
    if let Some(audit) = &server_state.audit {
        audit.handshake_failed(address.ip());
    }
    let write = || tracing::warn!(%address, reason = %failure, "handshake failed");
    server_state.refusals.line(RefusalLine::Connection, clock::now(), &client_of(address.ip()), write);
}

/// Performs the handshake, for as long as the connection has its slot.
async fn handshake_in_slot(
    socket: TcpStream,
    server_state: &ServerState,
    context: &SslContext,
    deadline: Instant,
    slot: ConnectionSlot,
) -> Result<RpcStream, HandshakeFailure> {
    tokio::select! {
        shaken = handshake(socket, server_state, context, deadline) => shaken,
        () = slot.displaced() => {
            LiveCounters::add(&server_state.counters.handshakes_displaced);
            Err(HandshakeFailure::Displaced)
        }
    }
}

async fn handshake(
    socket: TcpStream,
    server_state: &ServerState,
    context: &SslContext,
    deadline: Instant,
) -> Result<RpcStream, HandshakeFailure> {
    let other = |error: io::Error| HandshakeFailure::Other(error.to_string());
    prepare_socket(&socket, server_state.settings.half_open_timeout).map_err(other)?;
    let session = tls::session(context).map_err(other)?;
    let shaking = SslStreamBuilder::new(session, GatheredSocket::new(socket)).accept();
    match timeout_at(deadline, shaking).await {
        Err(_) => Err(HandshakeFailure::TimedOut),
        Ok(Ok(stream)) => Ok(stream),
        Ok(Err(error)) => {
            let failure = tls::explain(&error);
            if let Some(stream) = error.into_source_stream() {
                // The alert with the reason is being sent.
                let _ = timeout(server_state.settings.close_timeout, close(stream)).await;
            }
            Err(failure)
        }
    }
}

async fn close(mut stream: GatheredSocket<TcpStream>) -> io::Result<()> {
    stream.shutdown().await?;
    discard(stream.socket_mut()).await
}

/// Identifies the peer and registers its connection. A refusal includes the peer's identity, if it has one.
async fn admit<S: Service>(
    stream: &RpcStream,
    address: SocketAddr,
    server_state: &Arc<ServerState>,
    service: &Arc<S>,
    deadline: Instant,
) -> Result<Admitted<S::Caller>, (ErrorObject, Option<PeerIdentity>)> {
    let forbidden = |message: String| {
        service.refuse_peer(None, origin_of(address), &message);
        (ErrorObject::new(ErrorCode::Forbidden, message), None)
    };
    let certificate = stream.ssl().peer_certificate();
    let certificate = certificate.ok_or_else(|| forbidden("the client sent no certificate".to_owned()))?;
    let peer = peer_identity(&certificate).map_err(|error| forbidden(error.to_string()))?;
    let last_second = chain_expiry(stream.ssl());
    let last_second = last_second.ok_or_else(|| forbidden("the client's certificates were not verified".to_owned()))?;
    let expires = clock::now() + valid_for(last_second, SystemTime::now());
    let registration = match server_state.register(address.ip()) {
        Ok(registration) => registration,
        Err(full) => {
            let message = match full {
                Full::Listener => "the engine has too many connections",
                Full::Client => "the engine has too many connections from this address",
            };
            return Err((ErrorObject::new(ErrorCode::Overloaded, message), Some(peer)));
        }
    };
    match authenticate(service, &peer, origin_of(address), deadline).await {
        Ok(caller) => Ok(Admitted { peer, caller, registration, expires }),
        Err(error) => Err((error, Some(peer))),
    }
}

/// The origin of a connection.
fn origin_of(address: SocketAddr) -> RequestOrigin {
    RequestOrigin { address: Some(address.ip()), ..RequestOrigin::of(EntryPoint::Rpc) }
}

/// Recognises a client from memory, or else calls the service on a thread that may block: its store may be busy, which must not affect
/// other connections.
async fn authenticate<S: Service>(
    service: &Arc<S>,
    peer: &PeerIdentity,
    origin: RequestOrigin,
    deadline: Instant,
) -> Result<Arc<S::Caller>, ErrorObject> {
    if let Some(caller) = service.recognise(peer) {
        return Ok(caller);
    }
    let (service, peer) = (Arc::clone(service), peer.clone());
    let mut asking = spawn_blocking(move || service.authenticate(&peer, origin));
    match timeout_at(deadline, &mut asking).await {
        Ok(Ok(Ok(caller))) => Ok(caller),
        Ok(Ok(Err(RefusedCaller { code, message }))) => Err(ErrorObject::new(code, message)),
        Ok(Err(_)) => Err(ErrorObject::new(ErrorCode::Internal, "the engine failed to look the caller up")),
        Err(_) => {
            // Removes it from the queue, if it has not started.
            asking.abort();
            Err(ErrorObject::new(ErrorCode::Overloaded, "the engine could not look the caller up in time"))
        }
    }
}

/// Sends the reason to a refused caller, and closes.
async fn refuse(mut stream: RpcStream, error: &ErrorObject, limit: Duration) {
    let mut message = Vec::new();
    answer::connection_error(error, &mut message);
    let refusing = async {
        stream.write_all(&message).await?;
        stream.shutdown().await?;
        discard(stream.get_mut().socket_mut()).await
    };
    if let Ok(Err(error)) = timeout(limit, refusing).await {
        tracing::debug!(%error, "cannot send the refusal: the caller closed the connection");
    }
}

fn log_end(log: &ServerRefusalLog, end: &ConnectionEnding, peer: &PeerIdentity, address: SocketAddr, connection: u64) {
    let client = peer.name.as_str();
    let line = |write: &dyn Fn()| log.line(RefusalLine::Connection, clock::now(), &client, write);
    match end {
        ConnectionEnding::Closed => tracing::debug!(client, connection, "connection closed by the client"),
        ConnectionEnding::Idle => tracing::debug!(client, connection, "connection closed: idle for too long"),
        ConnectionEnding::AgeReached => tracing::debug!(client, connection, "connection closed: maximum age reached"),
        ConnectionEnding::ShutDown => {
            tracing::debug!(client, connection, "connection closed: the engine is shutting down")
        }
        ConnectionEnding::Broken(error) => {
            line(&|| tracing::info!(client, %address, connection, %error, "connection failed"))
        }
        ConnectionEnding::Fault(error) => line(&|| {
            let fingerprint = fingerprint(peer);
            tracing::warn!(client, %fingerprint, %address, connection, %error, "connection closed by the server");
        }),
        ConnectionEnding::SlowReader => {
            line(
                &|| tracing::warn!(client, %address, connection, "connection closed: the client does not read its answers"),
            );
        }
    }
}
