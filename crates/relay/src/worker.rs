//! The threads that carry traffic: each has a runtime, sockets, an engine client and upstream connections of its own.

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use leafseal_http::{Handler, HttpCounters, Listener, ListenerEvent, ListenerObserver, ListenerOptions};
use leafseal_net::tls::Acceptor;
use leafseal_net::tls::sign_before_parking;
use leafseal_net::{DecisionLog, ShutdownNotice};
use socket2::{Domain, Protocol, Socket, Type};
use tokio::runtime::Builder;
use tokio::sync::watch;
use tokio::time::interval;

use crate::context::{ListenerContext, SharedWorkerContext};
use crate::inbound::InboundHandler;
use crate::outbound::OutboundHandler;
use crate::refusal_log::RefusalLog;

/// Connections that the system accepts before this process does.
const BACKLOG: i32 = 4096;
/// How often expired connections and caches are closed.
const TIDY_PERIOD: Duration = Duration::from_secs(1);
/// Concurrent name lookups per thread that carries traffic: a lookup occupies a thread until the system returns.
const LOOKUP_THREADS_MAX: usize = 64;
/// Task polls between two polls of the sockets. With the runtime's default of 61, a few connections that send large bodies, at tens of
/// microseconds per poll, would keep a small request waiting in its socket for milliseconds.
const TURNS_BETWEEN_EVENTS: u32 = 8;

/// A bound socket, and the server of its connections.
pub(crate) struct BoundListener {
    pub(crate) socket: std::net::TcpListener,
    pub(crate) name: Arc<str>,
    pub(crate) acceptor: Option<Acceptor>,
    pub(crate) context: ListenerContext,
    pub(crate) is_outbound: bool,
    pub(crate) counting: Arc<OnceLock<Box<dyn Fn() -> HttpCounters + Send + Sync>>>,
}

/// Opens one socket per thread, all at the same address, which no other process may use; port 0 lets the system choose.
///
/// The system distributes connections among sockets that share their port. If sockets share it from the beginning, another process of the
/// same user could join them unnoticed. The first socket is therefore bound and listens without sharing, which fails if another socket
/// listens there, including a relay's shared ones; only then does it share the port with the others. Of two processes that start at the
/// same time one is refused: the system checks again when a socket begins to listen.
///
/// # Errors
/// If the address is in use, or is not an address of this machine.
pub(crate) fn listen(address: SocketAddr, threads: usize) -> io::Result<Vec<std::net::TcpListener>> {
    let first = bind(address, false)?;
    let address = first.local_addr()?.as_socket().ok_or(io::ErrorKind::AddrNotAvailable)?;
    first.set_reuse_port(threads > 1)?;
    let mut sockets = vec![first.into()];
    for _ in 1..threads {
        sockets.push(bind(address, true)?.into());
    }
    Ok(sockets)
}

fn bind(address: SocketAddr, is_shared: bool) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    // A restarted process can reuse its port while old connections are in TIME_WAIT.
    socket.set_reuse_address(true)?;
    socket.set_reuse_port(is_shared)?;
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    Ok(socket)
}

/// Logs the events of a listener.
struct Watcher {
    name: Arc<str>,
    refusals: Arc<RefusalLog>,
}

impl ListenerObserver for Watcher {
    fn observe(&self, event: &ListenerEvent<'_>) {
        let listener = &*self.name;
        match event {
            ListenerEvent::CannotAccept(error) => {
                self.refusals.line(None, || tracing::error!(listener, %error, "cannot accept connections"));
            }
            ListenerEvent::Refused(client, full) => self.refusals.line(Some(*client), || {
                tracing::warn!(listener, %client, reason = %full, "connection rejected");
            }),
            // Clients can cause any number of these, so they are not logged: `leafseal_relay_connections_total` counts them.
            ListenerEvent::Left(client) => {
                tracing::debug!(listener, %client, "the client closed a connection during the TLS handshake")
            }
            ListenerEvent::HandshakeFailed(client, reason) => {
                tracing::debug!(listener, %client, reason, "a TLS handshake failed")
            }
            ListenerEvent::Cut(client, reason) => {
                self.refusals.line(Some(*client), || tracing::info!(listener, %client, reason, "connection closed"));
            }
            ListenerEvent::Broken(client, error) => tracing::debug!(listener, %client, %error, "a connection failed"),
        }
    }
}

/// The phase of a shutdown.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ShutdownStage {
    /// No shutdown.
    Serving,
    /// Everything is served; clients are asked to reconnect elsewhere.
    Notice(ShutdownNotice),
    /// Requests in flight finish, new ones are refused.
    Stopping,
}

/// Serves connections until it is stopped; returns how many did not finish in time.
pub(crate) fn run(
    worker: &SharedWorkerContext,
    listeners: Vec<BoundListener>,
    (refusals, decision_log): &(Arc<RefusalLog>, Arc<DecisionLog>),
    mut stage: watch::Receiver<ShutdownStage>,
) -> io::Result<usize> {
    let runtime = Builder::new_current_thread()
        .enable_all()
        .event_interval(TURNS_BETWEEN_EVENTS)
        .max_blocking_threads(LOOKUP_THREADS_MAX)
        .on_thread_park(sign_before_parking)
        .build()?;
    let left = runtime.block_on(async {
        let mut inbound = Vec::new();
        let mut outbound = Vec::new();
        for bound in listeners {
            let BoundListener { socket, name, acceptor, context, is_outbound, counting } = bound;
            let socket = tokio::net::TcpListener::from_std(socket)?;
            let settings = context.worker().configuration.http_settings();
            let address = socket.local_addr()?;
            let observer = Arc::new(Watcher { name, refusals: Arc::clone(&context.refusals) });
            let options = ListenerOptions { address, acceptor, settings, observer };
            if is_outbound {
                let handler = Arc::new(OutboundHandler::new(context));
                let listener = start(socket, options, Arc::clone(&handler), &counting)?;
                handler.open(&listener.stream_server());
                outbound.push(listener);
            } else {
                inbound.push(start(socket, options, Arc::new(InboundHandler { context }), &counting)?);
            }
        }
        let mut tidy = interval(TIDY_PERIOD);
        loop {
            tokio::select! {
                _ = tidy.tick() => {
                    worker.load().pool.tidy();
                    refusals.log_overdue();
                    decision_log.log_overdue();
                }
                changed = stage.changed() => {
                    // The sender was dropped, which means to stop.
                    let now = changed.map_or(ShutdownStage::Stopping, |()| *stage.borrow_and_update());
                    match now {
                        ShutdownStage::Serving => {}
                        ShutdownStage::Notice(notice) => {
                            inbound.iter().for_each(|listener| listener.begin_shutdown(notice));
                            outbound.iter().for_each(|listener| listener.begin_shutdown(notice));
                        }
                        ShutdownStage::Stopping => break,
                    }
                }
            }
        }
        inbound.iter().for_each(Listener::begin_draining);
        outbound.iter().for_each(Listener::begin_draining);
        let mut left = 0;
        for listener in inbound {
            left += listener.shutdown().await;
        }
        for listener in outbound {
            left += listener.shutdown().await;
        }
        io::Result::Ok(left)
    })?;
    runtime.shutdown_background();
    Ok(left)
}

fn start<H: Handler>(
    socket: tokio::net::TcpListener,
    options: ListenerOptions,
    handler: Arc<H>,
    counting: &OnceLock<Box<dyn Fn() -> HttpCounters + Send + Sync>>,
) -> io::Result<Listener<H>> {
    let listener = Listener::start_on(socket, options, handler)?;
    let _ = counting.set(Box::new(listener.counting()));
    Ok(listener)
}

#[cfg(test)]
mod tests {
    use std::net::{SocketAddr, TcpListener, TcpStream};
    use std::sync::Barrier;

    use super::*;

    const ANYWHERE: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 0);

    fn address_of(sockets: &[TcpListener]) -> SocketAddr {
        let address = sockets[0].local_addr().unwrap();
        assert!(sockets.iter().all(|socket| socket.local_addr().unwrap() == address));
        address
    }

    #[test]
    fn an_address_belongs_to_one_relay() {
        for threads in [1, 3] {
            let sockets = listen(ANYWHERE, threads).unwrap();
            assert_eq!(sockets.len(), threads);
            let address = address_of(&sockets);
            // The wildcard address conflicts with every address.
            for other in [address, SocketAddr::new([0, 0, 0, 0].into(), address.port())] {
                for others in [1, 2] {
                    let refused = listen(other, others).expect_err("a second relay at the address of the first");
                    assert_eq!(refused.kind(), io::ErrorKind::AddrInUse);
                }
            }
            drop(sockets);
            listen(address, threads).unwrap();
        }
    }

    #[test]
    fn of_many_that_begin_at_once_one_has_the_address() {
        let mut had = 0;
        for _ in 0..20 {
            let address = address_of(&listen(ANYWHERE, 1).unwrap());
            let (begin, done) = (Barrier::new(8), Barrier::new(8));
            let won = std::thread::scope(|scope| {
                let begun: Vec<_> = (0..8)
                    .map(|_| {
                        scope.spawn(|| {
                            begin.wait();
                            let sockets = listen(address, 2);
                            // No thread releases its sockets before all have tried.
                            done.wait();
                            sockets.is_ok()
                        })
                    })
                    .collect();
                begun.into_iter().map(|thread| usize::from(thread.join().unwrap())).sum::<usize>()
            });
            assert!(won <= 1, "{won} have it");
            had += won;
        }
        assert!(had > 0);
    }

    #[test]
    fn connections_are_shared_out_among_the_threads() {
        let sockets = listen(ANYWHERE, 4).unwrap();
        let address = address_of(&sockets);
        let clients: Vec<TcpStream> = (0..400).map(|_| TcpStream::connect(address).unwrap()).collect();
        let counts: Vec<usize> = sockets.iter().map(|it| std::iter::from_fn(|| it.accept().ok()).count()).collect();
        assert_eq!(counts.iter().sum::<usize>(), clients.len());
        // A hundred each on average; fewer than this is practically impossible.
        assert!(counts.iter().all(|&count| count >= 40), "{counts:?}");
    }
}
