//! Starts and stops the server: listeners, network runtime, workers, maintenance.

use std::fmt;
use std::io;
use std::mem;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime};

use leafseal_engine::pool::Pool;
use leafseal_engine::{DecisionCounts, Engine};
use leafseal_http::Listener;
use leafseal_net::metrics::ThreadTimes;
use leafseal_net::tls::{Acceptor, CertificateExpiry, ServerIdentity, sign_before_parking};
use leafseal_net::{DecisionLog, OperatorPort, OperatorSettings, ShutdownNotice, bind};
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tokio::task::AbortHandle;

use crate::api::{self, Api};
use crate::audit::ServerAudit;
use crate::clock;
use crate::metrics::{ServerCounters, Times};
use crate::peers::{PeerSettings, PeersThread};
use crate::rpc::listener::listen;
use crate::server_state::ServerState;
use crate::settings::{ServerSettings, TlsSettings};
use crate::start_error::StartError;
use crate::status::Status;
use crate::store_thread::StoreThread;
use crate::tls;
use leafseal_service::Service;

/// How often [`Service::maintain`] is called.
const MAINTENANCE_PERIOD: Duration = Duration::from_secs(1);
/// The delay of a call that the service requests, which bounds how often it can request one.
const MAINTENANCE_PAUSE: Duration = Duration::from_millis(5);
/// Task polls between two polls of the sockets. With the runtime's default of 61, a few connections that move large frames, at tens of
/// microseconds per poll, would keep a small request waiting in its socket for milliseconds.
const TURNS_BETWEEN_EVENTS: u32 = 2;
/// How long a shutdown waits for connections beyond `close_timeout`, which each of them observes itself.
const CLOSE_MARGIN: Duration = Duration::from_millis(500);

/// A running server. Dropping it stops everything at once; [`Server::shutdown`] is graceful.
pub struct Server {
    server_state: Arc<ServerState>,
    local_address: SocketAddr,
    listener: AbortHandle,
    /// `None` once shut down.
    runtime: Option<Runtime>,
    operator: Option<OperatorPort>,
    /// `None` without an API, and once it is shut down.
    api: Option<Listener<Api>>,
    /// The listener's certificate, key and client authorities.
    acceptor: Acceptor,
    /// The certificate and key of the API, if it is enabled.
    api_acceptor: Option<Acceptor>,
    maintenance: Maintenance,
    _store_threads: [StoreThread; 2],
    _peers: Option<PeersThread>,
}

/// The unfinished work of a shutdown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShutdownReport {
    /// Requests answered with `unavailable`, because they were not finished within `drain_timeout`.
    pub requests_abandoned: usize,
    /// Connections cut, because their peers took longer than `close_timeout` to read the remaining bytes.
    pub connections_cut: usize,
}

impl Server {
    /// Starts the server.
    ///
    /// # Errors
    /// If settings are inconsistent, certificates cannot be used, an address is in use, or threads cannot be started.
    pub fn start<S: Service>(mut settings: ServerSettings, service: Arc<S>) -> Result<Server, StartError> {
        settings.validate()?;
        // Private keys stay in the memory of the TLS library alone, so settings lose them once they have been used.
        let acceptor = Acceptor::with_context(tls::context(&mem::take(&mut settings.tls))?);
        let api_identity = settings.api.identity.take();
        let times = Arc::<Times>::default();
        let observer = Arc::<Times>::clone(&times);
        let pool = Pool::new(settings.pool(observer)).map_err(StartError::Threads)?;
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(settings.network_threads)
            .thread_name("leafseal-net")
            .event_interval(TURNS_BETWEEN_EVENTS)
            .max_blocking_threads(settings.authentications_max)
            .on_thread_park(sign_before_parking)
            .enable_all()
            .build()
            .map_err(StartError::Threads)?;
        service.start().map_err(StartError::Threads)?;
        let address = settings.address;
        let setting = "server.address";
        let (local_address, listener) =
            bind_on(&runtime, address).map_err(|error| StartError::Listen { setting, address, error })?;
        let server_state = Arc::new(ServerState::new(settings, pool, times));
        service.observe_decisions(Arc::<DecisionLog>::clone(&server_state.decision_log));
        service.observe_decisions(Arc::<DecisionCounts>::clone(&server_state.decisions));
        if let Some(audit) = &server_state.audit {
            // Of a sealed keystore, maintenance opens it later.
            if let Some(engine) = service.engine().filter(|engine| !engine.is_sealed()) {
                audit.open(engine).map_err(StartError::Audit)?;
            }
            service.observe_decisions(Arc::<ServerAudit>::clone(audit));
        }
        let operator = start_operator(&server_state, &service)?;
        let peers = start_peers(&server_state, &service, operator.as_ref())?;
        let api = service
            .engine()
            .map(|engine| api::start(&server_state, api_identity, engine, &runtime))
            .transpose()?
            .flatten();
        let (api, api_acceptor) = api.unzip();
        let maintenance = Maintenance::start(Arc::clone(&service), &server_state).map_err(StartError::Threads)?;
        let scan = StoreThread::scan(Arc::clone(&service)).map_err(StartError::Threads)?;
        let upkeep = StoreThread::upkeep(Arc::clone(&service)).map_err(StartError::Threads)?;
        let listener = runtime.spawn(listen(listener, Arc::clone(&server_state), service, acceptor.clone()));
        let listener = listener.abort_handle();
        let shown = |address: Option<SocketAddr>| address.map(|address| address.to_string());
        let (operator_shown, api_shown) =
            (shown(operator.as_ref().map(OperatorPort::address)), shown(api.as_ref().map(Listener::local_addr)));
        tracing::info!(address = %local_address, operator = operator_shown, api = api_shown, "engine started");
        Ok(Server {
            server_state,
            local_address,
            listener,
            runtime: Some(runtime),
            operator,
            api,
            acceptor,
            api_acceptor,
            maintenance,
            _store_threads: [scan, upkeep],
            _peers: peers,
        })
    }

    /// The address of the RPC listener.
    pub fn local_addr(&self) -> SocketAddr {
        self.local_address
    }

    /// The address of the operator port, if it is enabled.
    pub fn operator_addr(&self) -> Option<SocketAddr> {
        self.operator.as_ref().map(OperatorPort::address)
    }

    /// The address of the HTTPS API, if it is enabled.
    pub fn api_addr(&self) -> Option<SocketAddr> {
        self.api.as_ref().map(Listener::local_addr)
    }

    /// Uses other certificates, keys and client authorities from the next handshake on. Open connections are kept.
    ///
    /// # Errors
    /// If certificates or keys cannot be read or do not belong together. Nothing changes then.
    pub fn reload(&self, tls: &TlsSettings, api: Option<&ServerIdentity>) -> Result<(), StartError> {
        let acceptor = Acceptor::with_context(tls::context(tls)?);
        // The last step that can fail, so that both change or neither.
        if let (Some(current), Some(identity)) = (&self.api_acceptor, api) {
            current.replace(identity).map_err(StartError::ApiIdentity)?;
        }
        self.acceptor.take_from(&acceptor);
        Ok(())
    }

    /// Sets the certificates in use: their expiry is exported as a metric, and [`Server::log_expiring`] warns of it.
    pub fn watch_certificates(&self, certificates: Vec<CertificateExpiry>) {
        self.server_state.certificates.replace(certificates);
        self.log_expiring();
    }

    /// Logs each certificate that expires within 30 days or 7 days, or has expired; each event once.
    pub fn log_expiring(&self) {
        let now = SystemTime::now();
        for certificate in self.server_state.certificates.due(now) {
            let CertificateExpiry { usage, file, subject, .. } = &certificate;
            tracing::warn!(usage, file, subject, "{}", certificate.warning(now));
        }
    }

    /// The current counters.
    pub fn counters(&self) -> ServerCounters {
        self.server_state.counters()
    }

    /// Begins the shutdown: the server is not ready any more and asks clients to reconnect elsewhere, but still serves everything. Returns
    /// `drain_delay`, the time to wait before [`Server::shutdown`].
    pub fn begin_shutdown(&self) -> Duration {
        let delay = self.server_state.settings.drain_delay;
        if !delay.is_zero() {
            tracing::info!(delay_seconds = delay.as_secs_f64(), "engine draining: no longer ready, still serving");
            let notice = ShutdownNotice::new(clock::now(), delay);
            self.server_state.begin_shutdown(notice);
            if let Some(api) = &self.api {
                api.begin_shutdown(notice);
            }
        }
        delay
    }

    /// Accepts no new connection, answers new requests with `unavailable` and `health` with `draining`, lets requests in flight finish for
    /// up to `drain_timeout`, then lets every connection write its answers and closes it.
    ///
    /// Blocks until all of this is done: call it from a separate thread, not from a task of an asynchronous runtime.
    pub fn shutdown(mut self) -> ShutdownReport {
        let settings = &self.server_state.settings;
        tracing::info!("engine stopping");
        self.listener.abort();
        self.server_state.begin_draining();
        if let Some(api) = &self.api {
            api.begin_draining();
        }
        let drained_by = Instant::now() + settings.drain_timeout;
        let drained = self.server_state.pool.shutdown(settings.drain_timeout);
        // No request runs any more: the last alarms, and the records of all. Answers that wait for theirs leave, or are withheld, before
        // connections close.
        (self.maintenance.raise_alarms)();
        if let Some(audit) = &self.server_state.audit {
            audit.close(drained_by.max(Instant::now() + CLOSE_MARGIN));
        }
        self.server_state.begin_closing();
        let deadline = Instant::now() + settings.close_timeout + CLOSE_MARGIN;
        let mut connections_cut = self.server_state.wait_closed(deadline);
        if let (Some(api), Some(runtime)) = (self.api.take(), &self.runtime) {
            connections_cut += runtime.block_on(api.shutdown_until(deadline.into()));
        }
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_timeout(CLOSE_MARGIN);
        }
        let requests_abandoned = drained.jobs_abandoned;
        tracing::info!(requests_abandoned, connections_cut, "engine stopped");
        ShutdownReport { requests_abandoned, connections_cut }
    }
}

/// Returns why a server would not start with these certificates and keys, which may be several reasons. Opens no listener.
pub fn check_identity(tls: &TlsSettings, api: Option<&ServerIdentity>) -> Vec<StartError> {
    let listener = tls::context(tls).err().map(StartError::Tls);
    let of_api = api.and_then(|identity| Acceptor::new(identity).err()).map(StartError::ApiIdentity);
    listener.into_iter().chain(of_api).collect()
}

impl Drop for Server {
    fn drop(&mut self) {
        // In the background: this may run within another runtime, which must not be blocked.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server").field("local_address", &self.local_address).finish_non_exhaustive()
    }
}

fn start_operator<S: Service>(
    server_state: &Arc<ServerState>,
    service: &Arc<S>,
) -> Result<Option<OperatorPort>, StartError> {
    let ServerSettings { operator, trusted_balancers, .. } = &server_state.settings;
    let Some(address) = operator.address else { return Ok(None) };
    let settings = OperatorSettings { trusted_balancers: trusted_balancers.clone(), ..operator.clone() };
    let status = Status {
        server_state: Arc::clone(server_state),
        service: Arc::clone(service),
        threads: ThreadTimes::default(),
    };
    let started = OperatorPort::start(address, &settings, Arc::new(status));
    let setting = "operator.address";
    started.map(Some).map_err(|error| StartError::Listen { setting, address, error })
}

/// Asks the other engines of the store what they have seen of it, before anything is served, and from then on.
fn start_peers<S: Service>(
    server_state: &Arc<ServerState>,
    service: &Arc<S>,
    operator: Option<&OperatorPort>,
) -> Result<Option<PeersThread>, StartError> {
    let ServerSettings { peers, peers_timeout, peers_interval, .. } = &server_state.settings;
    let own_port = operator.map(|operator| operator.address().port());
    let settings = PeerSettings { peers: peers.clone(), timeout: *peers_timeout, interval: *peers_interval, own_port };
    let (service, server_state) = (Arc::clone(service), Arc::clone(server_state));
    let set_problem = move |problem| server_state.set_peers_problem(problem);
    PeersThread::start(service, settings, set_problem)
}

fn bind_on(runtime: &Runtime, address: SocketAddr) -> io::Result<(SocketAddr, TcpListener)> {
    let _entered = runtime.enter();
    let listener = bind(address)?;
    Ok((listener.local_addr()?, listener))
}

/// The thread that calls [`Service::maintain`] and flushes the logs of refusals; it ends on drop.
struct Maintenance {
    turns: SyncSender<MaintenanceTurn>,
    thread: Option<JoinHandle<()>>,
    /// Reports canaries that were decrypted since the last turn.
    raise_alarms: Arc<dyn Fn() + Send + Sync>,
}

/// Why the thread of [`Maintenance`] wakes before its period is over.
enum MaintenanceTurn {
    /// The service requested a call.
    Due,
    Stop,
}

impl Maintenance {
    fn start<S: Service>(service: Arc<S>, server_state: &ServerState) -> io::Result<Maintenance> {
        let (refusals, decision_log) = (Arc::clone(&server_state.refusals), Arc::clone(&server_state.decision_log));
        let (audit, canaries) = (server_state.audit.clone(), Arc::clone(&server_state.canaries));
        // Requests that arrive while one waits are covered by it.
        let (turns, next) = sync_channel(1);
        let due = turns.clone();
        service.on_maintenance_due(Box::new(move || {
            // Full: a turn is due already. Disconnected: the thread has ended.
            let _ = due.try_send(MaintenanceTurn::Due);
        }));
        let raise_alarms: Arc<dyn Fn() + Send + Sync> = {
            let (service, audit) = (Arc::clone(&service), audit.clone());
            Arc::new(move || {
                if let Some(engine) = service.engine() {
                    canaries.raise(engine, audit.as_deref());
                }
            })
        };
        let raise = Arc::clone(&raise_alarms);
        let thread = std::thread::Builder::new().name("leafseal-tidy".to_owned()).spawn(move || {
            while wait_for_turn(&next) {
                let call = std::panic::AssertUnwindSafe(|| service.maintain());
                if std::panic::catch_unwind(call).is_err() {
                    tracing::error!("maintenance panicked");
                }
                refusals.log_overdue(clock::now());
                decision_log.log_overdue();
                raise();
                if let Some(audit) = &audit {
                    maintain_audit(audit, service.engine());
                }
            }
        })?;
        Ok(Maintenance { turns, thread: Some(thread), raise_alarms })
    }
}

/// Opens the audit log of a keystore that was sealed at the start, and records what is due.
fn maintain_audit(audit: &ServerAudit, engine: Option<&Engine>) {
    if let Some(engine) = engine.filter(|engine| !engine.is_sealed()) {
        audit.report_open(audit.open(engine));
    }
    if let Some(engine) = engine {
        audit.carry_changes(engine, clock::now());
    }
    audit.tidy(clock::now());
}

/// Waits until maintenance is due; false if the thread must end.
fn wait_for_turn(turns: &Receiver<MaintenanceTurn>) -> bool {
    let mut due = clock::now() + MAINTENANCE_PERIOD;
    loop {
        match turns.recv_timeout(due.saturating_duration_since(clock::now())) {
            Ok(MaintenanceTurn::Stop) | Err(RecvTimeoutError::Disconnected) => return false,
            Ok(MaintenanceTurn::Due) => due = due.min(clock::now() + MAINTENANCE_PAUSE),
            Err(RecvTimeoutError::Timeout) => return true,
        }
    }
}

impl Drop for Maintenance {
    fn drop(&mut self) {
        // Blocks while another turn is due. An error means that the thread has ended.
        let _ = self.turns.send(MaintenanceTurn::Stop);
        if let Some(thread) = self.thread.take() {
            // It catches the service's panics, so its result is of no interest.
            let _ = thread.join();
        }
    }
}
