//! The relay: start, reload, shutdown.

mod files;
#[cfg(test)]
mod tests;

use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime};

use arc_swap::ArcSwap;
use leafseal_client::{Client, ClientError, ClientSettings};
use leafseal_errors::{DecisionCounts, DecisionObserver, Observers};
use leafseal_http::HttpCounters;
use leafseal_net::tls::{Acceptor, CertificateExpiry, Expiries, PrivateKeyFigures, TlsError};
use leafseal_net::{DecisionLog, OperatorPort, OperatorReport, OperatorSettings, ProcessFigures, ShutdownNotice};
use thiserror::Error;
use tokio::sync::watch;
use tokio::time::timeout;

use crate::access::AccessLog;
use crate::body::buffer::BodyBudget;
use crate::body::offload::OffloadThreads;
use crate::config::{Configuration, Process};
use crate::context::{ListenerContext, SharedWorkerContext, WorkerContext};
use crate::leaf_issuer::{LeafIssuer, LeafIssuerError};
use crate::metrics::{EngineMetrics, ListenerMetrics, ListenerSnapshot, Snapshot};
use crate::outages::Outages;
use crate::refusal_log::RefusalLog;
use crate::rules::transform::TransformContext;
use crate::upstream::{Connector, ConnectorError, Sockets, UpstreamPool};
use crate::worker::{self, BoundListener, ShutdownStage};
use files::{Plan, acceptor, client_settings, expiries, new_leaf_issuer, plans, read};
pub use files::{check_files, files};

/// Offload threads per lane, for each thread that carries traffic: they only compute.
const OFFLOAD_THREADS_MAX: usize = 1;
/// Maximum time that a readiness check waits for the engine; a slower engine counts as not ready.
const READINESS_TIMEOUT: Duration = Duration::from_secs(2);

/// Errors of starting the relay or loading a configuration.
#[derive(Debug, Error)]
pub enum RelayError {
    /// A file cannot be read.
    #[error("{path}: {error}")]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// A listener's certificate or key.
    #[error("listener {listener}: {error}")]
    Identity {
        /// The listener's name.
        listener: Arc<str>,
        /// The error.
        error: TlsError,
    },
    /// The authority of an outbound listener.
    #[error("listener {listener}: {error}")]
    Authority {
        /// The listener's name.
        listener: Arc<str>,
        /// The error.
        error: LeafIssuerError,
    },
    /// The engine's certificates.
    #[error("section [engine]: {0}")]
    Engine(#[from] ClientError),
    /// The upstreams' authorities.
    #[error("section [upstream]: {0}")]
    Upstream(#[from] ConnectorError),
    /// An address that cannot be listened at.
    #[error("cannot listen at {address}: {error}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// Why.
        error: io::Error,
    },
    /// No thread.
    #[error("cannot start a thread: {0}")]
    Thread(io::Error),
    /// A change that requires a restart.
    #[error("{0} takes effect only after a restart")]
    Restart(&'static str),
}

/// A listener's address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    /// The listener's name.
    pub listener: Arc<str>,
    /// The bound address.
    pub address: SocketAddr,
    /// Whether the listener is an outbound proxy.
    pub is_outbound: bool,
}

/// A running relay.
pub struct Relay {
    base: PathBuf,
    shared: Arc<RelayShared>,
    addresses: Vec<Address>,
    acceptors: Vec<Option<Acceptor>>,
    operator: OperatorPort,
    stage: watch::Sender<ShutdownStage>,
    threads: Vec<JoinHandle<io::Result<usize>>>,
}

type Counting = Arc<OnceLock<Box<dyn Fn() -> HttpCounters + Send + Sync>>>;

/// The counts of one listener, by thread.
struct Counted {
    name: Arc<str>,
    metrics: Vec<Arc<ListenerMetrics>>,
    counting: Vec<Counting>,
}

struct RelayShared {
    boxes: Vec<SharedWorkerContext>,
    resources: SharedResources,
    /// The client of readiness checks. It is used on the operator's thread.
    probe: ArcSwap<Client>,
    configuration: Mutex<Arc<Configuration>>,
    counted: Vec<Counted>,
    reloads: AtomicU64,
    certificates: Expiries,
    refusals: Arc<RefusalLog>,
    observers: Arc<Observers>,
    decisions: Arc<DecisionCounts>,
    /// Set when the relay begins to shut down.
    is_shutting_down: AtomicBool,
    log: Option<Arc<dyn AccessLog>>,
}

/// The state that all configurations share: the budget for bodies, offload threads, and the counts of calls to the engine, by
/// thread.
struct SharedResources {
    budget: Arc<BodyBudget>,
    sockets: Arc<Sockets>,
    offload: OffloadThreads,
    engine: Vec<Arc<EngineMetrics>>,
    /// The counters of the operator's thread.
    probe: Arc<EngineMetrics>,
    /// Upstreams that cannot be reached.
    upstream_outages: Arc<Outages>,
}

impl SharedResources {
    fn new(configuration: &Configuration) -> Result<Self, RelayError> {
        let Process { threads, body_scheduling: scheduling, .. } = configuration.process;
        let engine_outages = Arc::new(Outages::new("engine"));
        Ok(SharedResources {
            budget: BodyBudget::new(&configuration.limits),
            sockets: Sockets::new(configuration.upstream.sockets_max),
            offload: OffloadThreads::new(threads * OFFLOAD_THREADS_MAX, scheduling).map_err(RelayError::Thread)?,
            engine: (0..threads).map(|_| Arc::new(EngineMetrics::new(&engine_outages))).collect(),
            probe: Arc::new(EngineMetrics::new(&engine_outages)),
            upstream_outages: Arc::new(Outages::new("upstream")),
        })
    }
}

impl OperatorReport for RelayShared {
    async fn readiness(&self) -> Result<(), String> {
        if self.is_shutting_down.load(Ordering::Relaxed) {
            return Err("the relay is shutting down".to_owned());
        }
        let client = Client::clone(&self.probe.load());
        match client.health().await {
            Ok(status) if status == "ok" => Ok(()),
            Ok(status) => Err(format!("the engine reports {status}")),
            Err(error) => Err(format!("the engine cannot be reached: {error}")),
        }
    }

    async fn metrics(&self) -> String {
        let readiness = timeout(READINESS_TIMEOUT, self.readiness()).await;
        let listeners = self
            .counted
            .iter()
            .map(|counted| ListenerSnapshot {
                name: Arc::clone(&counted.name),
                metrics: counted.metrics.clone(),
                connections: counted.counting.iter().filter_map(|it| it.get()).map(|it| it()).collect(),
            })
            .collect();
        let upstream_connections = self.boxes.iter().map(|worker| worker.load().pool.open()).sum();
        let snapshot = Snapshot {
            listeners,
            engine: self.resources.engine.iter().chain([&self.resources.probe]).cloned().collect(),
            is_ready: readiness.is_ok_and(|ready| ready.is_ok()),
            upstream_connections,
            bodies: self.resources.budget.usage(),
            log_lines_dropped: self.log.as_ref().map_or(0, |log| log.dropped()),
            reloads: self.reloads.load(Ordering::Relaxed),
            decisions: Arc::clone(&self.decisions),
            process: ProcessFigures::read(),
            private_keys: PrivateKeyFigures::read(),
            certificates: self.certificates.first(),
        };
        snapshot.into_text()
    }

    fn cannot_accept(&self, error: &io::Error) {
        let write = || tracing::error!(%error, "cannot accept connections at the operator port");
        self.refusals.line(None, write);
    }
}

impl Relay {
    /// Starts a relay. Relative paths of the configuration are resolved from `base`.
    ///
    /// # Errors
    /// If files cannot be read or used, addresses are in use, or threads cannot be started.
    pub fn start(
        configuration: Configuration,
        base: &Path,
        log: Option<Arc<dyn AccessLog>>,
    ) -> Result<Relay, RelayError> {
        let configuration = Arc::new(configuration);
        let threads = configuration.process.threads;
        let prepared = PreparedRelay::new(&configuration, base)?;
        let resources = SharedResources::new(&configuration)?;
        let worker = |thread| {
            let worker = prepared.worker(&configuration, &resources, thread, None);
            worker.map(|worker| Arc::new(ArcSwap::from_pointee(worker)))
        };
        let boxes: Vec<SharedWorkerContext> = (0..threads).map(worker).collect::<Result<_, _>>()?;
        let plans = plans(&configuration);
        let acceptors: Vec<_> = plans.iter().map(|plan| acceptor(plan, base)).collect::<Result<_, _>>()?;
        let refusals = Arc::new(RefusalLog::new(configuration.process.refusal_lines_max));
        let decision_log = Arc::new(DecisionLog::new(configuration.process.refusal_lines_max));
        let decisions: Arc<DecisionCounts> = Arc::default();
        let observers = observers([Arc::<DecisionLog>::clone(&decision_log), Arc::<DecisionCounts>::clone(&decisions)]);
        let (stage, staged) = watch::channel(ShutdownStage::Serving);
        let mut listeners: Vec<Vec<BoundListener>> = (0..threads).map(|_| Vec::new()).collect();
        let (mut addresses, mut counted) = (Vec::new(), Vec::new());
        for (plan, acceptor) in plans.iter().zip(&acceptors) {
            let Plan { name, address, is_outbound, index, .. } = *plan;
            let (mut of_metrics, mut of_counting) = (Vec::new(), Vec::new());
            let listen = |error| RelayError::Listen { address, error };
            let sockets = worker::listen(address, threads).map_err(listen)?;
            let address = sockets[0].local_addr().map_err(listen)?;
            for (thread, socket) in sockets.into_iter().enumerate() {
                let (metrics, counting) = (Arc::new(ListenerMetrics::default()), Counting::default());
                of_metrics.push(Arc::clone(&metrics));
                of_counting.push(Arc::clone(&counting));
                let (worker, refusals) = (Arc::clone(&boxes[thread]), Arc::clone(&refusals));
                let observers = Arc::clone(&observers);
                let context = ListenerContext { worker, index, metrics, refusals, observers, log: log.clone() };
                let (name, acceptor) = (Arc::clone(name), acceptor.clone());
                listeners[thread].push(BoundListener { socket, name, acceptor, context, is_outbound, counting });
            }
            addresses.push(Address { listener: Arc::clone(name), address, is_outbound });
            counted.push(Counted { name: Arc::clone(name), metrics: of_metrics, counting: of_counting });
        }
        let operator_address = configuration.process.operator_address;
        let shared = Arc::new(RelayShared {
            boxes: boxes.clone(),
            probe: ArcSwap::from_pointee(prepared.probe(&resources.probe)?),
            resources,
            configuration: Mutex::new(Arc::clone(&configuration)),
            counted,
            reloads: AtomicU64::new(0),
            certificates: Expiries::default(),
            refusals: Arc::clone(&refusals),
            observers,
            decisions,
            is_shutting_down: AtomicBool::new(false),
            log,
        });
        let operator = OperatorPort::start(operator_address, &OperatorSettings::default(), Arc::clone(&shared))
            .map_err(|error| RelayError::Listen { address: operator_address, error })?;
        let mut running = Vec::new();
        for (index, (listeners, worker)) in listeners.into_iter().zip(boxes).enumerate() {
            let (staged, logs) = (staged.clone(), (Arc::clone(&refusals), Arc::clone(&decision_log)));
            let thread = std::thread::Builder::new().name(format!("leafseal-relay-{index}"));
            let thread = thread.spawn(move || worker::run(&worker, listeners, &logs, staged));
            running.push(thread.map_err(RelayError::Thread)?);
        }
        shared.certificates.replace(expiries(&configuration, base));
        log_start(&addresses, operator.address(), threads);
        Ok(Relay { base: base.to_owned(), shared, addresses, acceptors, operator, stage, threads: running })
    }

    /// Has every decision of the relay reported to `observer`.
    pub fn observe_decisions(&self, observer: Arc<dyn DecisionObserver>) {
        self.shared.observers.attach(observer);
    }

    /// The addresses of the listeners.
    pub fn addresses(&self) -> &[Address] {
        &self.addresses
    }

    /// The address of health checks and metrics.
    pub fn operator_address(&self) -> SocketAddr {
        self.operator.address()
    }

    /// Loads another configuration: new requests use it, those in flight finish under the old one. Certificates are read again.
    ///
    /// # Errors
    /// As [`Relay::start`], or for a change that requires a restart. Nothing has changed then.
    pub fn reload(&self, configuration: Configuration) -> Result<(), RelayError> {
        let mut current = self.shared.configuration.lock().expect("nothing panics while this is locked");
        check_fixed(&current, &configuration)?;
        let configuration = Arc::new(configuration);
        // Everything that can fail happens before anything is replaced.
        let prepared = PreparedRelay::new(&configuration, &self.base)?;
        let plans = plans(&configuration);
        let acceptors: Vec<_> = plans.iter().map(|plan| acceptor(plan, &self.base)).collect::<Result<_, _>>()?;
        let shared = &self.shared;
        let probe = prepared.probe(&shared.resources.probe)?;
        let worker = |(thread, before): (usize, &SharedWorkerContext)| {
            prepared.worker(&configuration, &shared.resources, thread, Some(&before.load_full()))
        };
        let fresh: Vec<WorkerContext> = shared.boxes.iter().enumerate().map(worker).collect::<Result<_, _>>()?;
        for (new, old) in acceptors.iter().zip(&self.acceptors) {
            if let (Some(new), Some(old)) = (new, old) {
                old.take_from(new);
            }
        }
        shared.resources.budget.resize(&configuration.limits);
        shared.resources.sockets.resize(configuration.upstream.sockets_max);
        shared.probe.store(Arc::new(probe));
        for (worker, fresh) in shared.boxes.iter().zip(fresh) {
            worker.store(Arc::new(fresh));
        }
        shared.certificates.replace(expiries(&configuration, &self.base));
        *current = Arc::clone(&configuration);
        shared.reloads.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    /// Reads the files of the current configuration again: certificates, keys and authorities.
    ///
    /// # Errors
    /// As [`Relay::start`]. Nothing has changed then.
    pub fn reload_files(&self) -> Result<(), RelayError> {
        let current = Arc::clone(&self.shared.configuration.lock().expect("nothing panics while this is locked"));
        self.reload(Configuration::clone(&current))
    }

    /// Logs each certificate that expires within 30 days or 7 days, or has expired; each event once.
    pub fn log_expiring(&self) {
        let now = SystemTime::now();
        for certificate in self.shared.certificates.due(now) {
            let CertificateExpiry { usage, file, subject, .. } = &certificate;
            tracing::warn!(usage, file, subject, "{}", certificate.warning(now));
        }
    }

    /// Begins the shutdown: the relay is not ready any more and asks clients to reconnect elsewhere, but still serves everything. Returns
    /// `drain_delay`, the time to wait before [`Relay::shutdown`].
    pub fn begin_shutdown(&self) -> Duration {
        let delay = self.shared.configuration.lock().expect("nothing panics while this is locked").process.drain_delay;
        if !delay.is_zero() {
            tracing::info!(delay_seconds = delay.as_secs_f64(), "relay draining: no longer ready, still serving");
            self.shared.is_shutting_down.store(true, Ordering::Relaxed);
            self.stage.send_replace(ShutdownStage::Notice(ShutdownNotice::new(Instant::now(), delay)));
        }
        delay
    }

    /// Stops accepting connections and lets requests in flight finish within `drain_timeout`. Returns the number of connections that did
    /// not finish.
    ///
    /// # Errors
    /// If a thread failed.
    pub fn shutdown(self) -> io::Result<usize> {
        tracing::info!("relay stopping");
        self.shared.is_shutting_down.store(true, Ordering::Relaxed);
        self.stage.send_replace(ShutdownStage::Stopping);
        let mut left = 0;
        for thread in self.threads {
            left += thread.join().map_err(|_| io::Error::other("a thread of the relay panicked"))??;
        }
        tracing::info!(connections_cut = left, "relay stopped");
        Ok(left)
    }
}

fn observers(attached: [Arc<dyn DecisionObserver>; 2]) -> Arc<Observers> {
    let observers = Observers::default();
    attached.into_iter().for_each(|observer| observers.attach(observer));
    Arc::new(observers)
}

fn log_start(addresses: &[Address], operator: SocketAddr, threads: usize) {
    for Address { listener, address, is_outbound } in addresses {
        tracing::info!(%listener, %address, is_outbound, "relay listening");
    }
    tracing::info!(%operator, threads, "relay started");
}

/// Checks whether a running relay can adopt the new configuration.
fn check_fixed(old: &Configuration, new: &Configuration) -> Result<(), RelayError> {
    let (old_plans, new_plans) = (plans(old), plans(new));
    if !old_plans.iter().map(Plan::fixed).eq(new_plans.iter().map(Plan::fixed)) {
        return Err(RelayError::Restart("another set of listeners"));
    }
    if old_plans.iter().zip(&new_plans).any(|(old, new)| old.tls.is_some() != new.tls.is_some()) {
        return Err(RelayError::Restart("a listener that begins or ceases to speak TLS"));
    }
    let Process { access_log, reload_check, reload_configuration, .. } = old.process;
    if old.process != (Process { access_log, reload_check, reload_configuration, ..new.process.clone() }) {
        return Err(RelayError::Restart(
            "a change in section [relay], except access_log, reload_check and reload_configuration,",
        ));
    }
    if old.http_settings() != new.http_settings() {
        return Err(RelayError::Restart(
            "in section [limits] a change of connections_max, client_connections_max, trusted_balancers, streams_max, header_size_max, \
             headers_max, handshake_timeout, header_timeout, body_timeout, write_timeout, idle_timeout or connection_age_max",
        ));
    }
    Ok(())
}

/// The state that all threads share under one configuration.
struct PreparedRelay {
    client: ClientSettings,
    connector: Connector,
    /// The content of the connector's file of authorities.
    authorities: Arc<Option<Vec<u8>>>,
    leaf_issuers: Vec<Arc<LeafIssuer>>,
}

impl PreparedRelay {
    fn new(configuration: &Configuration, base: &Path) -> Result<Self, RelayError> {
        let client = client_settings(&configuration.engine, base)?;
        let leaf_issuer = |it| new_leaf_issuer(it, &configuration.limits, base).map(Arc::new);
        let leaf_issuers = configuration.outbound.iter().map(leaf_issuer).collect::<Result<_, _>>()?;
        let settings = &configuration.upstream;
        let authorities = settings.authorities.as_ref().map(|path| read(base, path)).transpose()?;
        Ok(PreparedRelay {
            client,
            connector: Connector::new(settings, base)?,
            authorities: Arc::new(authorities),
            leaf_issuers,
        })
    }

    /// Creates an engine client whose calls are counted in `counts`.
    fn client(&self, counts: &Arc<EngineMetrics>) -> Result<Client, ClientError> {
        Ok(Client::new(self.client.clone())?.observed_by(Arc::<EngineMetrics>::clone(counts)))
    }

    /// The same for readiness checks, without retries: the engine's present state counts.
    fn probe(&self, counts: &Arc<EngineMetrics>) -> Result<Client, ClientError> {
        let settings = ClientSettings { retries_max: 0, ..self.client.clone() };
        Ok(Client::new(settings)?.observed_by(Arc::<EngineMetrics>::clone(counts)))
    }

    /// Creates the context of one thread. Connections to upstreams are kept if none of their settings changed.
    fn worker(
        &self,
        configuration: &Arc<Configuration>,
        resources: &SharedResources,
        thread: usize,
        before: Option<&WorkerContext>,
    ) -> Result<WorkerContext, RelayError> {
        let client = self.client(&resources.engine[thread])?;
        let timeout = configuration.engine.calls.timeout.as_millis();
        let is_same = |before: &&WorkerContext| {
            before.configuration.upstream == configuration.upstream && before.authorities == self.authorities
        };
        let kept = before.filter(is_same);
        let (budget, offload) = (Arc::clone(&resources.budget), resources.offload.way());
        Ok(WorkerContext {
            configuration: Arc::clone(configuration),
            transforms: TransformContext::new(client, budget, offload, timeout, &configuration.limits),
            pool: kept.map_or_else(
                || {
                    let outages = Arc::clone(&resources.upstream_outages);
                    UpstreamPool::new(self.connector.clone(), Arc::clone(&resources.sockets), Some(outages))
                },
                |before| before.pool.clone(),
            ),
            limits: configuration.limits.clone(),
            authorities: Arc::clone(&self.authorities),
            leaf_issuers: self.leaf_issuers.clone(),
        })
    }
}
