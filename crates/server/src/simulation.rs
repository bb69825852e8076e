//! Entry points for a simulation of clients and servers in one thread, in which seeds decide the order of events. Nothing else needs them.
//!
//! Listening, TLS handshakes and starting threads are left out; the connections, their shared state, the jobs and the pool are those of a
//! server.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::Duration;

use leafseal_engine::pool::{Pool, PoolClock};
use leafseal_net::ShutdownNotice;

use crate::clock;
use crate::metrics::{ServerCounters, Times};
use crate::rpc::connection::RpcConnection;
use crate::rpc::gathered::GatheredSocket;
pub use crate::rpc::wire::PlainSocket;
use crate::server_state::ServerState;
use crate::settings::ServerSettings;
use leafseal_service::Service;

/// The validity of callers' certificates.
const VALIDITY: Duration = Duration::from_secs(365 * 86_400);

/// The address of all connections.
const HERE: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

/// A server without threads and sockets.
#[derive(Debug)]
pub struct Simulated<S> {
    server_state: Arc<ServerState>,
    service: Arc<S>,
}

impl<S: Service> Simulated<S> {
    /// Creates a server; jobs use `clock`, connections use the clock of their runtime.
    pub fn new(settings: ServerSettings, service: Arc<S>, clock: Arc<dyn PoolClock>) -> Self {
        let times = Arc::<Times>::default();
        let observer = Arc::<Times>::clone(&times);
        let pool = Pool::manual(settings.pool(observer), clock);
        Simulated { server_state: Arc::new(ServerState::new(settings, pool, times)), service }
    }

    /// Serves a connection after its handshake; `None` if there are too many.
    pub fn accept(
        &self,
        caller: Arc<S::Caller>,
        socket: impl PlainSocket,
    ) -> Option<impl Future<Output = ()> + Send + 'static> {
        let registration = self.server_state.register(HERE).ok()?;
        let (server_state, service) = (Arc::clone(&self.server_state), Arc::clone(&self.service));
        let expires = clock::now() + VALIDITY;
        Some(async move {
            let stream = GatheredSocket::new(socket);
            RpcConnection::new(server_state, service, caller, stream, &registration, (HERE, expires)).run().await;
        })
    }

    /// Runs one slice, as a worker would. Returns false if no job is queued.
    pub fn run_one(&self) -> bool {
        self.server_state.pool.run_one()
    }

    /// Whether no connection waits for a turn as a bulk connection.
    pub fn turns_are_taken(&self) -> bool {
        self.server_state.bulk.is_empty()
    }

    /// The current counters.
    pub fn counters(&self) -> ServerCounters {
        self.server_state.counters()
    }

    /// The first phase of a shutdown: everything is served for this long, and clients are asked to reconnect elsewhere.
    pub fn begin_shutdown(&self, delay: Duration) {
        self.server_state.begin_shutdown(ShutdownNotice::new(clock::now(), delay));
    }

    /// The second phase: new requests are refused.
    pub fn begin_draining(&self) {
        self.server_state.begin_draining();
    }

    /// The last phase, when the time for it is over: unfinished requests are abandoned, and connections end once everything is written.
    /// Returns the number of abandoned requests.
    pub fn begin_closing(&self) -> usize {
        let drained = self.server_state.pool.shutdown(Duration::ZERO);
        self.server_state.begin_closing();
        drained.jobs_abandoned
    }
}
