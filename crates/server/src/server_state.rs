//! The state that all connections of a server share.

use std::collections::{BTreeMap, HashMap};
use std::hash::{BuildHasher, Hash, RandomState};
use std::net::IpAddr;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::{Duration, Instant};

use leafseal_engine::DecisionCounts;
use leafseal_engine::pool::Pool;
use leafseal_net::tls::{Expiries, GroupCounters};
use leafseal_net::{BulkQueue, ConnectionSlots, DecisionLog, Full, ShutdownNotice, ShutdownPhase};

use crate::audit::ServerAudit;
use crate::canary_alarm::CanaryAlarms;
use crate::client_slots::ClientSlots;
use crate::clock;
use crate::failure_log::FailureLogger;
use crate::metrics::{ApiCounters, LiveCounters, Requests, ServerCounters, Times};
use crate::outbox::Outbox;
use crate::refusals::ServerRefusalLog;
use crate::settings::{ServerSettings, signer_name};
use leafseal_service::Tenant;
use leafseal_service::{MemoryBudget, Share};

#[derive(Debug)]
pub(crate) struct ServerState {
    pub(crate) settings: ServerSettings,
    pub(crate) pool: Pool,
    pub(crate) counters: LiveCounters,
    pub(crate) requests: Arc<Requests>,
    pub(crate) times: Arc<Times>,
    pub(crate) handshakes: Arc<ConnectionSlots>,
    /// Handshakes of the RPC listener.
    pub(crate) key_exchanges: GroupCounters,
    pub(crate) refusals: Arc<ServerRefusalLog>,
    /// Logs refused callers, and counts decisions about all callers: observers of the engine.
    pub(crate) decision_log: Arc<DecisionLog>,
    pub(crate) decisions: Arc<DecisionCounts>,
    pub(crate) api: ApiCounters,
    /// Logs requests that failed because an envelope did not open.
    pub(crate) failures: FailureLogger,
    /// Reports requests that have opened canaries.
    pub(crate) canaries: Arc<CanaryAlarms>,
    /// The audit log, if there is one.
    pub(crate) audit: Option<Arc<ServerAudit>>,
    /// The queue of bulk RPC connections, by the numbers of their clients.
    pub(crate) bulk: BulkQueue<u64>,
    /// The certificates that the listeners use now.
    pub(crate) certificates: Expiries,
    /// Why this engine is not ready on account of the other engines of the store.
    peers_problem: Mutex<Option<String>>,
    phase: AtomicU8,
    /// Set when the shutdown begins.
    notice: OnceLock<ShutdownNotice>,
    /// Hashes tenants to numbers with a key of this process: callers that choose names cannot choose their numbers.
    tenants: RandomState,
    incoming: Arc<MemoryBudget>,
    answers: Arc<MemoryBudget>,
    connections: Mutex<Connections>,
    connection_ended: Condvar,
}

#[derive(Debug, Default)]
struct Connections {
    next: u64,
    open: BTreeMap<u64, Arc<Outbox>>,
    /// The number of connections per client address.
    of_address: HashMap<IpAddr, usize>,
    /// Connections from their acceptance to their end.
    accepted: usize,
    /// The memory of each client in use, by its number.
    clients: BTreeMap<u64, Weak<ClientBudgets>>,
}

/// The state that the connections of one client share: memory, and slots on the network threads.
#[derive(Debug)]
struct ClientBudgets {
    incoming: Arc<MemoryBudget>,
    answers: Arc<MemoryBudget>,
    slots: Arc<ClientSlots>,
}

/// The memory budgets that one connection is charged to.
#[derive(Debug)]
pub(crate) struct ConnectionMemory {
    client: Arc<ClientBudgets>,
    answers: Arc<MemoryBudget>,
}

impl ConnectionMemory {
    /// Creates an empty share of the memory for incoming frames.
    pub(crate) fn incoming_share(&self) -> Share {
        Share::of(&self.client.incoming)
    }

    /// The slots on the network threads, which the connections of a client share.
    pub(crate) fn slots(&self) -> Arc<ClientSlots> {
        Arc::clone(&self.client.slots)
    }

    /// Creates an empty share of the memory for answers.
    pub(crate) fn answers_share(&self) -> Share {
        Share::of(&self.answers)
    }
}

impl ServerState {
    /// Creates the state. `pool` must have been created with the same settings, with `times` as its observer.
    pub(crate) fn new(settings: ServerSettings, pool: Pool, times: Arc<Times>) -> Self {
        let incoming = MemoryBudget::new(settings.incoming_bytes_max, None);
        let answers = MemoryBudget::new(settings.answers_bytes_max, None);
        let handshakes = ConnectionSlots::new(settings.handshakes_max, settings.handshake_clients());
        let refusals = ServerRefusalLog::new(settings.refusal_lines_max);
        let failures = FailureLogger::new(settings.refusal_lines_max);
        let canaries = Arc::new(CanaryAlarms::new(settings.refusal_lines_max));
        let decision_log = DecisionLog::with_clock(settings.refusal_lines_max, clock::now);
        let audit = ServerAudit::new(&settings.audit, &signer_name(&settings.name));
        ServerState {
            settings,
            pool,
            counters: LiveCounters::default(),
            requests: Arc::default(),
            times,
            handshakes: Arc::new(handshakes),
            key_exchanges: GroupCounters::new(),
            refusals: Arc::new(refusals),
            decision_log: Arc::new(decision_log),
            decisions: Arc::default(),
            api: ApiCounters::default(),
            failures,
            canaries,
            audit,
            bulk: BulkQueue::default(),
            certificates: Expiries::default(),
            tenants: RandomState::new(),
            peers_problem: Mutex::new(Some("the engine asks its peers for the state of the keystore".to_owned())),
            phase: AtomicU8::new(ShutdownPhase::Serving as u8),
            notice: OnceLock::new(),
            incoming: Arc::new(incoming),
            answers: Arc::new(answers),
            connections: Mutex::default(),
            connection_ended: Condvar::new(),
        }
    }

    /// Why this engine is not ready on account of the other engines of the store.
    pub(crate) fn peers_problem(&self) -> Option<String> {
        self.peers_problem.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Why answers that wait for their records are refused.
    pub(crate) fn audit_problem(&self) -> Option<String> {
        let audit = self.audit.as_ref().filter(|audit| audit.is_waited_for())?;
        audit.fault().map(|fault| format!("the audit log takes no records: {fault}"))
    }

    pub(crate) fn set_peers_problem(&self, problem: Option<String>) {
        *self.peers_problem.lock().unwrap_or_else(PoisonError::into_inner) = problem;
    }

    pub(crate) fn phase(&self) -> ShutdownPhase {
        match self.phase.load(Ordering::Acquire) {
            phase if phase == ShutdownPhase::Serving as u8 => ShutdownPhase::Serving,
            phase if phase == ShutdownPhase::Notice as u8 => ShutdownPhase::Notice,
            phase if phase == ShutdownPhase::Draining as u8 => ShutdownPhase::Draining,
            _ => ShutdownPhase::Closing,
        }
    }

    /// The number that identifies a tenant in the pool.
    pub(crate) fn number_of(&self, tenant: Tenant<'_>) -> u64 {
        self.tenants.hash_one(tenant)
    }

    /// The number that identifies a client in the pool that the store does not contain: an API key, an address.
    pub(crate) fn number_of_client(&self, client: impl Hash) -> u64 {
        self.tenants.hash_one(client)
    }

    /// Whether new requests are accepted.
    pub(crate) fn is_serving(&self) -> bool {
        matches!(self.phase(), ShutdownPhase::Serving | ShutdownPhase::Notice)
    }

    /// When connections are asked to close, once the server shuts down.
    pub(crate) fn notice(&self) -> Option<ShutdownNotice> {
        self.notice.get().copied()
    }

    /// Starts asking connections to close, each at its moment.
    pub(crate) fn begin_shutdown(&self, notice: ShutdownNotice) {
        // It may have been called before.
        let _ = self.notice.set(notice);
        self.begin(ShutdownPhase::Notice);
    }

    /// Refuses new requests, and asks every connection to close that was not asked before.
    pub(crate) fn begin_draining(&self) {
        self.begin(ShutdownPhase::Draining);
    }

    /// Lets every connection end once its answers are written.
    pub(crate) fn begin_closing(&self) {
        self.begin(ShutdownPhase::Closing);
    }

    /// Begins a phase, unless a later one has begun, and wakes all connections.
    fn begin(&self, phase: ShutdownPhase) {
        self.phase.fetch_max(phase as u8, Ordering::AcqRel);
        let outboxes: Vec<_> = self.lock().open.values().cloned().collect();
        outboxes.iter().for_each(|outbox| outbox.wake());
    }

    /// Counts a connection that was accepted but may not be admitted yet.
    pub(crate) fn receive(self: &Arc<Self>) -> AcceptedConnection {
        self.lock().accepted += 1;
        AcceptedConnection { server_state: Arc::clone(self) }
    }

    /// Waits for all connections to end, including those beyond the limit: their clients may have sent requests already, and receive the
    /// message that these were not started. Returns how many admitted connections had not ended at `deadline`.
    pub(crate) fn wait_closed(&self, deadline: Instant) -> usize {
        let mut connections = self.lock();
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let is_empty = connections.open.is_empty() && connections.accepted == 0;
            if is_empty || left == Duration::ZERO {
                return connections.open.len();
            }
            let waited = self.connection_ended.wait_timeout(connections, left);
            connections = waited.expect(UNPOISONED).0;
        }
    }

    /// Checks whether a connection from `address` is within the limits.
    pub(crate) fn has_room(&self, address: IpAddr) -> Result<(), Full> {
        self.room_in(&self.lock(), self.settings.client_of(address))
    }

    fn room_in(&self, connections: &Connections, client: Option<IpAddr>) -> Result<(), Full> {
        let of_client = client.and_then(|client| connections.of_address.get(&client)).copied().unwrap_or_default();
        if connections.open.len() >= self.settings.connections_max {
            return Err(Full::Listener);
        }
        if of_client >= self.settings.client_connections_max { Err(Full::Client) } else { Ok(()) }
    }

    /// Registers a connection from `address`, if it is within the limits.
    pub(crate) fn register(self: &Arc<Self>, address: IpAddr) -> Result<Registration, Full> {
        let client = self.settings.client_of(address);
        let mut connections = self.lock();
        self.room_in(&connections, client)?;
        if let Some(client) = client {
            *connections.of_address.entry(client).or_default() += 1;
        }
        let number = connections.next;
        connections.next += 1;
        let outbox = Arc::new(Outbox::default());
        connections.open.insert(number, Arc::clone(&outbox));
        Ok(Registration { server_state: Arc::clone(self), outbox, client, number })
    }

    /// The memory for a new connection of this client.
    pub(crate) fn memory(&self, client: Tenant<'_>) -> ConnectionMemory {
        self.memory_of(self.number_of(client))
    }

    /// The same for a client by its number.
    pub(crate) fn memory_of(&self, client: u64) -> ConnectionMemory {
        let client = self.client_budgets(client);
        let max = self.settings.connection_answers_bytes_max;
        ConnectionMemory { answers: Arc::new(MemoryBudget::admitting_one(max, Arc::clone(&client.answers))), client }
    }

    fn client_budgets(&self, client: u64) -> Arc<ClientBudgets> {
        let clients = &mut self.lock().clients;
        if let Some(budgets) = clients.get(&client).and_then(Weak::upgrade) {
            return budgets;
        }
        clients.retain(|_, budgets| budgets.strong_count() > 0);
        let budget = |max, whole: &Arc<MemoryBudget>| Arc::new(MemoryBudget::new(max, Some(Arc::clone(whole))));
        let budgets = Arc::new(ClientBudgets {
            incoming: budget(self.settings.client_incoming_bytes_max, &self.incoming),
            answers: budget(self.settings.client_answers_bytes_max, &self.answers),
            slots: Arc::new(ClientSlots::new(self.settings.network_threads)),
        });
        clients.insert(client, Arc::downgrade(&budgets));
        budgets
    }

    pub(crate) fn counters(&self) -> ServerCounters {
        ServerCounters {
            ended: self.requests.outcomes(),
            connections_open: self.lock().open.len(),
            handshakes_open: self.handshakes.count(),
            incoming_bytes: self.incoming.used(),
            answers_bytes: self.answers.used(),
            pool: self.pool.counters(),
            ..self.counters.snapshot()
        }
    }

    fn lock(&self) -> MutexGuard<'_, Connections> {
        self.connections.lock().expect(UNPOISONED)
    }
}

const UNPOISONED: &str = "nothing panics while this is locked";

/// Counts one connection towards the limits until it is dropped.
#[derive(Debug)]
pub(crate) struct Registration {
    server_state: Arc<ServerState>,
    pub(crate) outbox: Arc<Outbox>,
    client: Option<IpAddr>,
    pub(crate) number: u64,
}

impl Drop for Registration {
    fn drop(&mut self) {
        drop(self.outbox.close());
        let mut connections = self.server_state.lock();
        connections.open.remove(&self.number);
        if let Some(client) = self.client
            && let Some(count) = connections.of_address.get_mut(&client)
        {
            *count -= 1;
            if *count == 0 {
                connections.of_address.remove(&client);
            }
        }
        drop(connections);
        self.server_state.connection_ended.notify_all();
    }
}

/// Counts a connection from its acceptance to its end.
#[derive(Debug)]
pub(crate) struct AcceptedConnection {
    server_state: Arc<ServerState>,
}

impl Drop for AcceptedConnection {
    fn drop(&mut self) {
        self.server_state.lock().accepted -= 1;
        self.server_state.connection_ended.notify_all();
    }
}
