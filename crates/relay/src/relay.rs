//! The relay as a whole: started, reloaded, stopped.

use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread::JoinHandle;
use std::time::Duration;

use arc_swap::ArcSwap;
use fieldseal_client::{Client, ClientError, ClientSettings, ClientTls};
use fieldseal_http::{Acceptor, HttpCounters, OperatorPort, OperatorSettings, Report, ServerIdentity, TlsError};
use thiserror::Error;
use tokio::sync::watch;
use zeroize::Zeroizing;

use crate::access::AccessLog;
use crate::config::{Configuration, EngineSettings, KeyPair};
use crate::held::Room;
use crate::metrics::{self, ListenerMetrics, Told};
use crate::outbound::{Mint, MintError};
use crate::transform::Workshop;
use crate::upstream::{Connector, ConnectorError, Pool};
use crate::worker::{self, Post, Seat, ToolBox, Tools};

/// Why the relay cannot start or take up a configuration.
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
        /// What is wrong.
        error: TlsError,
    },
    /// The authority of an outbound listener.
    #[error("listener {listener}: {error}")]
    Authority {
        /// The listener's name.
        listener: Arc<str>,
        /// What is wrong.
        error: MintError,
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
    #[error("no thread: {0}")]
    Thread(io::Error),
    /// A change that a running relay cannot take up.
    #[error("{0} takes a restart")]
    Restart(&'static str),
}

/// Where the relay listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    /// The listener's name.
    pub listener: Arc<str>,
    /// Where.
    pub address: SocketAddr,
    /// Whether clients call it as a proxy.
    pub is_outbound: bool,
}

/// A running relay.
pub struct Relay {
    base: PathBuf,
    shared: Arc<Shared>,
    addresses: Vec<Address>,
    acceptors: Vec<Option<Acceptor>>,
    operator: OperatorPort,
    stop: watch::Sender<bool>,
    threads: Vec<JoinHandle<io::Result<usize>>>,
}

type Counting = Arc<OnceLock<Box<dyn Fn() -> HttpCounters + Send + Sync>>>;

/// The counts of one listener, by thread.
struct Counted {
    name: Arc<str>,
    metrics: Vec<Arc<ListenerMetrics>>,
    counting: Vec<Counting>,
}

struct Shared {
    boxes: Vec<ToolBox>,
    room: Arc<Room>,
    configuration: Mutex<Arc<Configuration>>,
    counted: Vec<Counted>,
    reloads: AtomicU64,
}

impl Report for Shared {
    async fn readiness(&self) -> Result<(), String> {
        let client = self.boxes[0].load().probe.clone();
        match client.health().await {
            Ok(status) if status == "ok" => Ok(()),
            Ok(status) => Err(format!("the engine says {status}")),
            Err(error) => Err(format!("the engine cannot be reached: {error}")),
        }
    }

    fn metrics(&self) -> String {
        let told: Vec<Told> = self
            .counted
            .iter()
            .map(|counted| Told {
                name: Arc::clone(&counted.name),
                metrics: counted.metrics.clone(),
                connections: counted.counting.iter().filter_map(|it| it.get()).map(|it| it()).collect(),
            })
            .collect();
        let upstream = self.boxes.iter().map(|tools| tools.load().pool.open()).sum();
        metrics::text(&told, upstream, self.reloads.load(Ordering::Relaxed))
    }

    fn cannot_accept(&self, error: &io::Error) {
        tracing::error!(%error, "cannot accept connections at the operator port");
    }
}

impl Relay {
    /// Starts a relay. Relative paths of the configuration begin at `base`.
    ///
    /// # Errors
    /// Files that cannot be read or used, addresses that are taken, no threads.
    pub fn start(
        configuration: Configuration,
        base: &Path,
        log: Option<Arc<dyn AccessLog>>,
    ) -> Result<Relay, RelayError> {
        let configuration = Arc::new(configuration);
        let threads = configuration.process.threads;
        let room = Room::new(&configuration.limits);
        let made = Made::new(&configuration, base)?;
        let boxes: Vec<ToolBox> = (0..threads)
            .map(|_| made.tools(&configuration, &room, None).map(|tools| Arc::new(ArcSwap::from_pointee(tools))))
            .collect::<Result<_, _>>()?;
        let acceptors = acceptors(&configuration, base)?;
        let (stop, stopped) = watch::channel(false);
        let mut posts: Vec<Vec<Post>> = (0..threads).map(|_| Vec::new()).collect();
        let (mut addresses, mut counted) = (Vec::new(), Vec::new());
        for (at, (name, address, is_outbound, index)) in listeners(&configuration).into_iter().enumerate() {
            let mut address = address;
            let (mut of_metrics, mut of_counting) = (Vec::new(), Vec::new());
            for thread in 0..threads {
                let listen = |error| RelayError::Listen { address, error };
                let socket = worker::listen(address).map_err(listen)?;
                // The first thread's port is everybody's.
                address = socket.local_addr().map_err(listen)?;
                let (metrics, counting) = (Arc::new(ListenerMetrics::default()), Counting::default());
                of_metrics.push(Arc::clone(&metrics));
                of_counting.push(Arc::clone(&counting));
                let seat = Seat { tools: Arc::clone(&boxes[thread]), index, metrics, log: log.clone() };
                posts[thread].push(Post { socket, acceptor: acceptors[at].clone(), seat, is_outbound, counting });
            }
            addresses.push(Address { listener: Arc::clone(&name), address, is_outbound });
            counted.push(Counted { name, metrics: of_metrics, counting: of_counting });
        }
        let operator_address = configuration.process.operator_address;
        let shared = Arc::new(Shared {
            boxes: boxes.clone(),
            room,
            configuration: Mutex::new(configuration),
            counted,
            reloads: AtomicU64::new(0),
        });
        let operator = OperatorPort::start(operator_address, &OperatorSettings::default(), Arc::clone(&shared))
            .map_err(|error| RelayError::Listen { address: operator_address, error })?;
        let mut running = Vec::new();
        for (index, (posts, tools)) in posts.into_iter().zip(boxes).enumerate() {
            let stopped = stopped.clone();
            let thread = std::thread::Builder::new().name(format!("fieldseal-relay-{index}"));
            let thread = thread.spawn(move || worker::run(&tools, posts, stopped));
            running.push(thread.map_err(RelayError::Thread)?);
        }
        Ok(Relay { base: base.to_owned(), shared, addresses, acceptors, operator, stop, threads: running })
    }

    /// Where it listens.
    pub fn addresses(&self) -> &[Address] {
        &self.addresses
    }

    /// Where health and metrics are told.
    pub fn operator_address(&self) -> SocketAddr {
        self.operator.address()
    }

    /// Takes up another configuration: requests that come from now on go by it, those in work by the old one. Certificates are
    /// read anew.
    ///
    /// # Errors
    /// As [`Relay::start`], or a change that takes a restart. Then nothing has changed.
    pub fn reload(&self, configuration: Configuration) -> Result<(), RelayError> {
        let mut current = self.shared.configuration.lock().expect("nothing panics while this is locked");
        let fixed = |it: &Configuration| {
            listeners(it).into_iter().map(|(name, at, way, _)| (name, at, way)).collect::<Vec<_>>()
        };
        if fixed(&current) != fixed(&configuration) {
            return Err(RelayError::Restart("another set of listeners"));
        }
        if current.process
            != (crate::config::Process { access_log: current.process.access_log, ..configuration.process.clone() })
        {
            return Err(RelayError::Restart("a change in section [relay], but for access_log,"));
        }
        let configuration = Arc::new(configuration);
        let made = Made::new(&configuration, &self.base)?;
        let identities = identities(&configuration, &self.base)?;
        if identities.iter().zip(&self.acceptors).any(|(new, old)| new.is_some() != old.is_some()) {
            return Err(RelayError::Restart("a listener that begins or ceases to speak TLS"));
        }
        let mut fresh = Vec::new();
        for tools in &self.shared.boxes {
            fresh.push(made.tools(&configuration, &self.shared.room, Some(&tools.load_full()))?);
        }
        for ((name, identity), acceptor) in names(&configuration).zip(&identities).zip(&self.acceptors) {
            if let (Some(identity), Some(acceptor)) = (identity, acceptor) {
                let replaced = acceptor.replace(identity);
                replaced.map_err(|error| RelayError::Identity { listener: Arc::clone(name), error })?;
            }
        }
        for (tools, fresh) in self.shared.boxes.iter().zip(fresh) {
            tools.store(Arc::new(fresh));
        }
        *current = configuration;
        self.shared.reloads.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    /// Takes no connection any more, lets requests in work end, within `drain_timeout`; tells how many connections were not finished.
    ///
    /// # Errors
    /// A thread that could not serve.
    pub fn shutdown(self) -> io::Result<usize> {
        self.stop.send_replace(true);
        let mut left = 0;
        for thread in self.threads {
            left += thread.join().map_err(|_| io::Error::other("a thread of the relay panicked"))??;
        }
        Ok(left)
    }
}

/// Name, address, way and place of each listener.
fn listeners(configuration: &Configuration) -> Vec<(Arc<str>, SocketAddr, bool, usize)> {
    let inbound = configuration.inbound.iter().enumerate();
    let inbound = inbound.map(|(index, it)| (Arc::clone(&it.name), it.address, false, index));
    let outbound = configuration.outbound.iter().enumerate();
    let outbound = outbound.map(|(index, it)| (Arc::clone(&it.name), it.address, true, index));
    inbound.chain(outbound).collect()
}

fn names(configuration: &Configuration) -> impl Iterator<Item = &Arc<str>> {
    configuration.inbound.iter().map(|it| &it.name).chain(configuration.outbound.iter().map(|it| &it.name))
}

fn read(base: &Path, path: &Path) -> Result<Vec<u8>, RelayError> {
    let path = base.join(path);
    std::fs::read(&path).map_err(|error| RelayError::File { path, error })
}

fn identities(configuration: &Configuration, base: &Path) -> Result<Vec<Option<ServerIdentity>>, RelayError> {
    let identity = |pair: &KeyPair| {
        let certificate_chain_pem = read(base, &pair.certificate)?;
        let private_key_pem = Zeroizing::new(read(base, &pair.private_key)?);
        Ok(ServerIdentity { certificate_chain_pem, private_key_pem })
    };
    let inbound = configuration.inbound.iter().map(|it| it.tls.as_ref());
    let all = inbound.chain(configuration.outbound.iter().map(|it| it.tls.as_ref()));
    all.map(|tls| tls.map(identity).transpose()).collect()
}

fn acceptors(configuration: &Configuration, base: &Path) -> Result<Vec<Option<Acceptor>>, RelayError> {
    let identities = identities(configuration, base)?;
    let acceptor = |(name, identity): (&Arc<str>, Option<ServerIdentity>)| {
        let acceptor = identity.map(|identity| Acceptor::new(&identity)).transpose();
        acceptor.map_err(|error| RelayError::Identity { listener: Arc::clone(name), error })
    };
    names(configuration).zip(identities).map(acceptor).collect()
}

/// What all threads share under one configuration.
struct Made {
    client: ClientSettings,
    connector: Connector,
    mints: Vec<Arc<Mint>>,
}

impl Made {
    fn new(configuration: &Configuration, base: &Path) -> Result<Self, RelayError> {
        let EngineSettings { addresses, authorities, certificate, private_key, server_name, connections_max, timeout } =
            &configuration.engine;
        let tls = ClientTls::from_files(&base.join(authorities), &base.join(certificate), &base.join(private_key))?;
        let client = ClientSettings {
            addresses: addresses.clone(),
            server_name: server_name.clone(),
            connections_max: *connections_max,
            request_timeout: *timeout,
            connect_timeout: (*timeout).min(Duration::from_secs(5)),
            ..ClientSettings::new("", tls)
        };
        let mint = |it: &crate::config::Outbound| {
            let (certificate, key) = (read(base, &it.authority.certificate)?, read(base, &it.authority.private_key)?);
            let mint = Mint::new(&certificate, &Zeroizing::new(key), configuration.limits.certificates_max);
            let mint = mint.map_err(|error| RelayError::Authority { listener: Arc::clone(&it.name), error });
            Ok::<_, RelayError>(Arc::new(mint?))
        };
        let mints = configuration.outbound.iter().map(mint).collect::<Result<_, _>>()?;
        Ok(Made { client, connector: Connector::new(&configuration.upstream, base)?, mints })
    }

    /// The tools of one thread. Connections to upstreams go on where nothing that concerns them has changed.
    fn tools(
        &self,
        configuration: &Arc<Configuration>,
        room: &Arc<Room>,
        before: Option<&Tools>,
    ) -> Result<Tools, RelayError> {
        let client = Client::new(self.client.clone())?;
        let timeout = configuration.engine.timeout.as_millis();
        let kept = before.filter(|before| before.configuration.upstream == configuration.upstream);
        Ok(Tools {
            configuration: Arc::clone(configuration),
            workshop: Workshop::new(client, Arc::clone(room), timeout, &configuration.limits),
            pool: kept.map_or_else(|| Pool::new(self.connector.clone()), |before| before.pool.clone()),
            limits: configuration.limits.clone(),
            mints: self.mints.clone(),
            // It lives on the operator's thread.
            probe: Client::new(self.client.clone())?,
        })
    }
}
