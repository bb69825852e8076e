//! The threads that carry traffic: each has a runtime, sockets, an engine client and upstream connections of its own.

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use arc_swap::ArcSwap;
use fieldseal_http::{Acceptor, Event, Handler, HttpCounters, Listener, ListenerOptions, Observer, Peer};
use hyper::http::request::Parts;
use socket2::{Domain, Protocol, Socket, Type};
use tokio::runtime::Builder;
use tokio::sync::watch;
use tokio::time::interval;

use crate::access::{AccessLog, Record};
use crate::config::{Configuration, Limits};
use crate::inbound::InboundHandler;
use crate::metrics::ListenerMetrics;
use crate::outbound::{Mint, OutboundHandler};
use crate::transform::Workshop;
use crate::upstream::Pool;

/// Connections that the system accepts before we do.
const BACKLOG: i32 = 4096;
/// How often what was kept for too long is closed.
const TIDY_PERIOD: Duration = Duration::from_secs(1);
/// Names that are looked up at a time, for each thread that carries traffic: a look-up takes a thread for as long as the system makes
/// it wait.
const LOOKUP_THREADS_MAX: usize = 64;

/// What a thread works with under one configuration.
pub(crate) struct Tools {
    pub(crate) configuration: Arc<Configuration>,
    pub(crate) workshop: Workshop,
    pub(crate) pool: Pool,
    pub(crate) limits: Limits,
    /// The authorities of the outbound listeners, by their place.
    pub(crate) mints: Vec<Arc<Mint>>,
    /// What `upstream.authorities` held when the pool's connector was made.
    pub(crate) authorities: Arc<Option<Vec<u8>>>,
}

/// The tools of a thread, which a reload replaces.
pub(crate) type ToolBox = Arc<ArcSwap<Tools>>;

/// A listener's place on a thread.
#[derive(Clone)]
pub(crate) struct Seat {
    pub(crate) tools: ToolBox,
    pub(crate) index: usize,
    pub(crate) metrics: Arc<ListenerMetrics>,
    pub(crate) log: Option<Arc<dyn AccessLog>>,
}

impl Seat {
    pub(crate) fn tools(&self) -> Arc<Tools> {
        self.tools.load_full()
    }

    pub(crate) fn record(&self, name: &Arc<str>, tools: &Tools, peer: &Arc<Peer>, head: &Parts) -> Record {
        let log = self.log.as_ref().filter(|_| tools.configuration.process.access_log);
        Record::new(name, &self.metrics, log, Arc::clone(peer), head)
    }
}

/// A socket that listens, and what serves on it.
pub(crate) struct Post {
    pub(crate) socket: std::net::TcpListener,
    pub(crate) name: Arc<str>,
    pub(crate) acceptor: Option<Acceptor>,
    pub(crate) seat: Seat,
    pub(crate) is_outbound: bool,
    pub(crate) counting: Arc<OnceLock<Box<dyn Fn() -> HttpCounters + Send + Sync>>>,
}

/// Opens a socket for one thread; several threads may listen at the same address.
pub(crate) fn listen(address: SocketAddr) -> io::Result<std::net::TcpListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_reuse_address(true)?;
    socket.set_reuse_port(true)?;
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    Ok(socket.into())
}

/// Tells the log what happens at a listener.
struct Watcher {
    name: Arc<str>,
}

impl Observer for Watcher {
    fn happened(&self, event: &Event<'_>) {
        let listener = &*self.name;
        match event {
            Event::CannotAccept(error) => tracing::error!(listener, %error, "cannot accept connections"),
            Event::Refused(client) => tracing::warn!(listener, %client, "no place for a connection"),
            // Anybody can make these, as many as they like: `fieldseal_relay_connections_ended` counts them.
            Event::Left(client) => tracing::debug!(listener, %client, "a connection ended in its TLS handshake"),
            Event::HandshakeFailed(client, reason) => {
                tracing::debug!(listener, %client, reason, "a TLS handshake failed")
            }
            Event::Cut(client, reason) => tracing::info!(listener, %client, reason, "a connection was cut"),
            Event::Broken(client, error) => tracing::debug!(listener, %client, %error, "a connection broke"),
        }
    }
}

/// Carries traffic until it is told to stop; gives how many connections were not finished in time.
pub(crate) fn run(tools: &ToolBox, posts: Vec<Post>, mut stop: watch::Receiver<bool>) -> io::Result<usize> {
    let runtime = Builder::new_current_thread().enable_all().max_blocking_threads(LOOKUP_THREADS_MAX).build()?;
    let left = runtime.block_on(async {
        let mut inbound = Vec::new();
        let mut outbound = Vec::new();
        for post in posts {
            let Post { socket, name, acceptor, seat, is_outbound, counting } = post;
            let socket = tokio::net::TcpListener::from_std(socket)?;
            let settings = seat.tools().configuration.http_settings();
            let address = socket.local_addr()?;
            let options = ListenerOptions { address, acceptor, settings, observer: Arc::new(Watcher { name }) };
            if is_outbound {
                let handler = Arc::new(OutboundHandler::new(seat));
                let listener = start(socket, options, Arc::clone(&handler), &counting)?;
                handler.open(&listener.door());
                outbound.push(listener);
            } else {
                inbound.push(start(socket, options, Arc::new(InboundHandler { seat }), &counting)?);
            }
        }
        let mut tidy = interval(TIDY_PERIOD);
        loop {
            tokio::select! {
                _ = tidy.tick() => tools.load().pool.tidy(),
                stopped = stop.wait_for(|stopped| *stopped) => {
                    // Whoever would tell is gone: that means the same.
                    let _ = stopped;
                    break;
                }
            }
        }
        inbound.iter().for_each(Listener::begin_shutdown);
        outbound.iter().for_each(Listener::begin_shutdown);
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
