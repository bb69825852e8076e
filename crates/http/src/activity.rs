//! Tracks a listener's connections: which have no request, which send a head slowly, which leave an answer unread.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use leafseal_net::tls::{GroupCounters, GroupCounts};
use leafseal_net::{BulkMember, BulkQueue, CLOSING_MAX, ClientBound, Full};
use tokio::sync::Notify;

use crate::settings::HttpSettings;
use crate::waiting::{Displacement, WaitMeasure};

/// Counters of a listener since its start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HttpCounters {
    /// Open connections.
    pub connections_open: usize,
    /// Accepted connections.
    pub connections_accepted: u64,
    /// Connections closed at once at a limit.
    pub connections_refused: u64,
    /// Connections displaced by others.
    pub connections_displaced: u64,
    /// Failed handshakes.
    pub handshakes_failed: u64,
    /// Handshakes that resumed a session.
    pub handshakes_resumed: u64,
    /// Successful handshakes by the group of their key exchange.
    pub key_exchanges: GroupCounts,
    /// Connections cut because the peer sent or read too slowly.
    pub connections_cut: u64,
    /// Connections closed after too long without a request.
    pub connections_idle: u64,
}

#[derive(Debug, Default)]
pub(crate) struct Tallies {
    pub(crate) accepted: AtomicU64,
    pub(crate) refused: AtomicU64,
    pub(crate) displaced: AtomicU64,
    pub(crate) handshakes_failed: AtomicU64,
    pub(crate) handshakes_resumed: AtomicU64,
    pub(crate) key_exchanges: GroupCounters,
    pub(crate) cut: AtomicU64,
    pub(crate) idle: AtomicU64,
}

pub(crate) fn count(tally: &AtomicU64) {
    tally.fetch_add(1, Ordering::Relaxed);
}

/// Maximum number of connections examined to find one to displace, so that the cost of a new connection does not grow with the
/// number of open ones.
const LOOKS_MAX: usize = 512;

/// All connections of a listener.
#[derive(Debug)]
pub(crate) struct Registry {
    connections_max: usize,
    clients: ClientBound,
    pub(crate) tallies: Tallies,
    bulk: BulkQueue<TurnOwner>,
    state: Mutex<OpenConnection>,
    /// Slots in use, including those of displaced connections that are still closing.
    held: AtomicUsize,
    ended: Notify,
}

#[derive(Debug, Default)]
struct OpenConnection {
    next: u64,
    connections: BTreeMap<u64, TakenSlot>,
    /// The connections of each client.
    clients: HashMap<IpAddr, BTreeSet<u64>>,
    /// Where the next search for a connection to displace begins.
    cursor: u64,
}

#[derive(Debug)]
struct TakenSlot {
    activity: Arc<Activity>,
    client: Option<IpAddr>,
}

const UNPOISONED: &str = "nothing panics while this is locked";

impl OpenConnection {
    fn add(&mut self, activity: Arc<Activity>, client: Option<IpAddr>) -> u64 {
        let number = self.next;
        self.next += 1;
        self.connections.insert(number, TakenSlot { activity, client });
        if let Some(client) = client {
            self.clients.entry(client).or_default().insert(number);
        }
        number
    }

    fn remove(&mut self, number: u64) -> Option<Arc<Activity>> {
        let TakenSlot { activity, client } = self.connections.remove(&number)?;
        if let Some(client) = client
            && let Some(numbers) = self.clients.get_mut(&client)
        {
            numbers.remove(&number);
            if numbers.is_empty() {
                self.clients.remove(&client);
            }
        }
        Some(activity)
    }

    /// The connection that a new one displaces, if any.
    fn displaceable(&mut self) -> Option<u64> {
        let now = Instant::now();
        let looked_at = self.connections.range(self.cursor..).chain(self.connections.range(..self.cursor));
        let mut last = self.cursor;
        let displaceable = looked_at.take(LOOKS_MAX).filter_map(|(number, taken)| {
            last = *number;
            Some((taken.activity.displacement(now)?, *number))
        });
        let displaceable = displaceable.max();
        self.cursor = last + 1;
        displaceable.map(|(_, number)| number)
    }

    /// The same among those of one client.
    fn displaceable_of(&self, client: IpAddr) -> Option<u64> {
        let now = Instant::now();
        let numbers = self.clients.get(&client)?.iter().take(LOOKS_MAX);
        let displaceable =
            numbers.filter_map(|number| Some((self.connections.get(number)?.activity.displacement(now)?, *number)));
        displaceable.max().map(|(_, number)| number)
    }
}

impl Registry {
    pub(crate) fn new(connections_max: usize, clients: ClientBound) -> Self {
        Registry {
            connections_max,
            clients,
            tallies: Tallies::default(),
            bulk: BulkQueue::default(),
            state: Mutex::default(),
            held: AtomicUsize::new(0),
            ended: Notify::new(),
        }
    }

    /// Takes a slot for a new connection from `address`, displacing another one if necessary.
    pub(crate) fn take(self: &Arc<Self>, address: IpAddr) -> Result<ActivitySlot, Full> {
        self.take_for(self.clients.client(address))
    }

    /// The same for a connection inside another one, which counts to no client: the outer one does.
    pub(crate) fn take_inner(self: &Arc<Self>) -> Result<ActivitySlot, Full> {
        self.take_for(None)
    }

    fn take_for(self: &Arc<Self>, client: Option<IpAddr>) -> Result<ActivitySlot, Full> {
        let mut open = self.lock();
        let of_client = client.and_then(|client| open.clients.get(&client)).map_or(0, BTreeSet::len);
        let displaceable = match client {
            Some(client) if of_client >= self.clients.connections_max => {
                Some(open.displaceable_of(client).ok_or(Full::Client)?)
            }
            _ if open.connections.len() >= self.connections_max => Some(open.displaceable().ok_or(Full::Listener)?),
            _ => None,
        };
        if let Some(displaced) = displaceable.and_then(|number| open.remove(number)) {
            displaced.displaced.notify_one();
            count(&self.tallies.displaced);
        }
        let activity = Arc::new(Activity::new());
        let number = open.add(Arc::clone(&activity), client);
        drop(open);
        self.held.fetch_add(1, Ordering::Relaxed);
        let turns_of = client.map_or(TurnOwner::Connection(number), TurnOwner::Client);
        Ok(ActivitySlot { registry: Arc::clone(self), number, turns_of, activity })
    }

    /// Waits while too many displaced connections are still closing, because their sockets are open.
    pub(crate) async fn room(&self) {
        loop {
            let ended = self.ended.notified();
            if self.held.load(Ordering::Relaxed) < self.connections_max + CLOSING_MAX {
                return;
            }
            ended.await;
        }
    }

    pub(crate) fn counters(&self) -> HttpCounters {
        let get = |tally: &AtomicU64| tally.load(Ordering::Relaxed);
        HttpCounters {
            connections_open: self.lock().connections.len(),
            connections_accepted: get(&self.tallies.accepted),
            connections_refused: get(&self.tallies.refused),
            connections_displaced: get(&self.tallies.displaced),
            handshakes_failed: get(&self.tallies.handshakes_failed),
            handshakes_resumed: get(&self.tallies.handshakes_resumed),
            key_exchanges: self.tallies.key_exchanges.get(),
            connections_cut: get(&self.tallies.cut),
            connections_idle: get(&self.tallies.idle),
        }
    }

    /// Completes when no connection is open.
    pub(crate) async fn all_ended(&self) {
        loop {
            let ended = self.ended.notified();
            if self.lock().connections.is_empty() {
                return;
            }
            ended.await;
        }
    }

    fn lock(&self) -> MutexGuard<'_, OpenConnection> {
        self.state.lock().expect(UNPOISONED)
    }
}

/// The flow whose turns on a thread a connection uses: its client's, or its own if it counts to no client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum TurnOwner {
    Client(IpAddr),
    Connection(u64),
}

/// The slot of one connection, released on drop.
#[derive(Debug)]
pub(crate) struct ActivitySlot {
    registry: Arc<Registry>,
    pub(crate) number: u64,
    turns_of: TurnOwner,
    pub(crate) activity: Arc<Activity>,
}

impl ActivitySlot {
    /// The turns of the connection, or of one direction of it.
    pub(crate) fn turns(&self) -> BulkMember<TurnOwner> {
        self.registry.bulk.join(self.turns_of)
    }
}

impl Drop for ActivitySlot {
    fn drop(&mut self) {
        self.registry.lock().remove(self.number);
        self.registry.held.fetch_sub(1, Ordering::Relaxed);
        self.registry.ended.notify_waiters();
    }
}

/// The state of one connection.
#[derive(Debug)]
pub(crate) struct Activity {
    marks: Mutex<Marks>,
    /// Notified when the connection is displaced.
    pub(crate) displaced: Notify,
}

#[derive(Debug)]
struct Marks {
    /// Requests whose bodies or answers have not ended.
    in_flight: usize,
    /// Since when there has been no request.
    idle_since: Instant,
    /// When the first byte of an incomplete head arrived.
    head_began: Option<Instant>,
    /// The time until which the peer must read a piece of an answer, by request.
    takes: BTreeMap<u64, Instant>,
    /// How long each request has waited for the peer.
    waits: BTreeMap<u64, WaitMeasure>,
    /// How long written output has waited for the peer.
    writing: WaitMeasure,
    /// Streams that carry another protocol, which count as in use.
    other_protocols: usize,
    next: u64,
}

/// Why a connection ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CloseReason {
    Goes,
    /// It had no request for too long.
    Idle,
    SlowHead,
    SlowReader,
}

impl Activity {
    pub(crate) fn new() -> Self {
        let marks = Marks {
            in_flight: 0,
            idle_since: Instant::now(),
            head_began: None,
            takes: BTreeMap::new(),
            waits: BTreeMap::new(),
            writing: WaitMeasure::default(),
            other_protocols: 0,
            next: 0,
        };
        Activity { marks: Mutex::new(marks), displaced: Notify::new() }
    }

    /// Whether the connection may be displaced by a new one, and how readily: it has no request, or all its requests wait for a
    /// slow peer.
    pub(crate) fn displacement(&self, now: Instant) -> Option<Displacement> {
        let marks = self.lock();
        if marks.in_flight == 0 {
            return Some(Displacement::Idle(now.saturating_duration_since(marks.idle_since)));
        }
        if marks.other_protocols > 0 {
            return None;
        }
        let writing = marks.writing.debt(now);
        let all_wait = marks.waits.len() == marks.in_flight;
        let requests = marks.waits.values().map(|waiting| waiting.debt(now)).min().flatten().filter(|_| all_wait);
        writing.max(requests).map(Displacement::Slow)
    }

    /// Output waits for the peer, after `bytes` were written without waiting.
    pub(crate) fn write_waits(&self, bytes: u64) {
        let now = Instant::now();
        let mut marks = self.lock();
        marks.writing.progressed(now, bytes);
        marks.writing.begin(now);
    }

    /// The peer has read some of it.
    pub(crate) fn write_progressed(&self) {
        self.lock().writing.progressed(Instant::now(), 0);
    }

    /// Bytes have arrived.
    pub(crate) fn bytes_received(&self) {
        let mut marks = self.lock();
        if marks.in_flight == 0 {
            marks.head_began.get_or_insert_with(Instant::now);
        }
    }

    /// Begins a request whose head is complete.
    pub(crate) fn begin(self: &Arc<Self>) -> Arc<ActiveRequest> {
        let mut marks = self.lock();
        marks.in_flight += 1;
        marks.head_began = None;
        let number = marks.next;
        marks.next += 1;
        Arc::new(ActiveRequest {
            activity: Arc::clone(self),
            number,
            received: AtomicU64::new(0),
            is_other_protocol: AtomicBool::new(false),
        })
    }

    /// The connection switches to another protocol. It counts as in use until it closes; the code that took it over limits its
    /// silence.
    pub(crate) fn leave_http(&self) {
        let mut marks = self.lock();
        marks.in_flight += 1;
        marks.other_protocols += 1;
    }

    /// The action for the connection now.
    pub(crate) fn verdict(&self, settings: &HttpSettings, now: Instant, heads_are_timed: bool) -> CloseReason {
        let marks = self.lock();
        let is_over = |since: Instant, limit: Duration| now.saturating_duration_since(since) >= limit;
        let slow_head = marks.head_began.is_some_and(|began| is_over(began, settings.header_read_timeout));
        if marks.takes.values().any(|deadline| now >= *deadline) {
            CloseReason::SlowReader
        } else if heads_are_timed && slow_head {
            CloseReason::SlowHead
        } else if marks.in_flight == 0 && is_over(marks.idle_since, settings.idle_timeout) {
            CloseReason::Idle
        } else {
            CloseReason::Goes
        }
    }

    fn lock(&self) -> MutexGuard<'_, Marks> {
        self.marks.lock().expect(UNPOISONED)
    }
}

/// A request in flight; it ends when its last holder is dropped.
#[derive(Debug)]
pub(crate) struct ActiveRequest {
    activity: Arc<Activity>,
    number: u64,
    /// Bytes of the request's body that the handler has read.
    received: AtomicU64,
    is_other_protocol: AtomicBool,
}

impl ActiveRequest {
    /// Counts bytes of the request's body that the handler has read. Only its one reader calls this.
    pub(crate) fn consumed(&self, bytes: u64) {
        self.received.store(self.received.load(Ordering::Relaxed) + bytes, Ordering::Relaxed);
    }

    /// The connection's activity.
    pub(crate) fn activity(&self) -> &Activity {
        &self.activity
    }

    /// Records that the request waits for bytes of its body.
    pub(crate) fn waits(&self) {
        self.activity.lock().waits.entry(self.number).or_default().begin(Instant::now());
    }

    /// Records that `bytes` of them have arrived, or that the body has ended.
    pub(crate) fn progressed(&self, bytes: u64) {
        if let Some(waiting) = self.activity.lock().waits.get_mut(&self.number) {
            waiting.progressed(Instant::now(), bytes);
        }
    }

    /// Records that a piece of the answer was passed to the connection, which must ask for more before `deadline`.
    pub(crate) fn handed(&self, deadline: Instant, bytes: u64) {
        let now = Instant::now();
        let mut marks = self.activity.lock();
        marks.takes.insert(self.number, deadline);
        let waiting = marks.waits.entry(self.number).or_default();
        waiting.progressed(now, bytes);
        waiting.begin(now);
    }

    /// Records that the connection has asked for more, or that the answer is complete.
    pub(crate) fn asked(&self) {
        let mut marks = self.activity.lock();
        if marks.takes.remove(&self.number).is_some()
            && let Some(waiting) = marks.waits.get_mut(&self.number)
        {
            waiting.progressed(Instant::now(), 0);
        }
    }

    /// The request's stream switches to another protocol, for as long as the request lasts.
    fn leave_http(&self) {
        if !self.is_other_protocol.swap(true, Ordering::Relaxed) {
            self.activity.lock().other_protocols += 1;
        }
    }
}

impl Drop for ActiveRequest {
    fn drop(&mut self) {
        let other_protocols = usize::from(self.is_other_protocol.load(Ordering::Relaxed));
        let mut marks = self.activity.lock();
        marks.takes.remove(&self.number);
        marks.waits.remove(&self.number);
        marks.other_protocols -= other_protocols;
        marks.in_flight -= 1;
        marks.idle_since = Instant::now();
    }
}

/// Counts the received bytes of a request's body. It keeps the request in flight: drop it with the answer.
#[derive(Clone, Debug)]
pub struct Received {
    exchange: Arc<ActiveRequest>,
}

impl Received {
    pub(crate) fn new(exchange: &Arc<ActiveRequest>) -> Self {
        Received { exchange: Arc::clone(exchange) }
    }

    /// Bytes of the body that its reader has read so far. Bytes discarded after an early answer are not counted.
    pub fn bytes(&self) -> u64 {
        self.exchange.received.load(Ordering::Relaxed)
    }
}

/// Keeps a request in flight, and so its connection in use, while another protocol runs in its stream. It is in the extensions of a
/// `CONNECT` over HTTP/2. Over HTTP/1.1 the connection itself becomes the stream and needs none.
#[derive(Clone, Debug)]
pub struct Hold {
    _exchange: Arc<ActiveRequest>,
}

impl Hold {
    pub(crate) fn new(exchange: &Arc<ActiveRequest>) -> Self {
        exchange.leave_http();
        Hold { _exchange: Arc::clone(exchange) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

    fn registry(connections_max: usize, of_client: usize) -> Arc<Registry> {
        let trusted_balancers = vec!["10.0.0.0/8".parse().unwrap()];
        Arc::new(Registry::new(connections_max, ClientBound { connections_max: of_client, trusted_balancers }))
    }

    #[test]
    fn the_longest_idle_connection_is_displaced() {
        let registry = registry(2, 2);
        let take = || registry.take(HERE);
        let (first, second) = (take().unwrap(), take().unwrap());
        let busy = first.activity.begin();
        let third = take().unwrap();
        assert_eq!((registry.counters().connections_open, registry.counters().connections_displaced), (2, 1));
        let also_busy = third.activity.begin();
        assert_eq!(take().err(), Some(Full::Client), "both have requests");
        drop((second, busy));
        assert!(take().is_ok());
        drop((first, third, also_busy));
        assert_eq!(registry.counters().connections_open, 0);
        assert!(registry.lock().clients.is_empty());
    }

    #[test]
    fn a_client_has_its_share_and_takes_nothing_of_others() {
        let registry = registry(3, 2);
        let [greedy, other, balancer] = ["192.0.2.1", "192.0.2.2", "10.0.0.1"].map(|text| text.parse().unwrap());
        let slots: Vec<_> = (0..2).map(|_| registry.take(greedy).unwrap()).collect();
        let idle = registry.take(other).unwrap();
        let (first, second) = (slots[0].activity.begin(), slots[1].activity.begin());
        assert_eq!(registry.take(greedy).err(), Some(Full::Client), "though another client's is idle");
        drop(second);
        let third = registry.take(greedy).unwrap();
        assert_eq!(registry.lock().clients[&greedy].len(), 2, "its own gave way");
        assert_eq!(registry.lock().clients[&other].len(), 1);
        drop((slots, idle, third, first));
        let _many: Vec<_> = (0..3).map(|_| registry.take(balancer).unwrap()).collect();
        assert_eq!((registry.counters().connections_open, registry.lock().clients.len()), (3, 0));
    }

    #[test]
    fn slow_peers_are_displaced_after_idle_ones_and_others_are_not() {
        let now = Instant::now();
        let later = now + Duration::from_secs(60);
        let activity = Arc::new(Activity::new());
        assert!(matches!(activity.displacement(later), Some(Displacement::Idle(_))));
        let (upload, other) = (activity.begin(), activity.begin());
        upload.waits();
        assert_eq!(activity.displacement(later), None, "the other request waits for us");
        other.handed(later, 1000);
        let slow = activity.displacement(later);
        assert!(matches!(slow, Some(Displacement::Slow(_))), "{slow:?}");
        assert!(slow < Some(Displacement::Idle(Duration::ZERO)));
        other.asked();
        assert_eq!(activity.displacement(later), None);
        drop(other);
        upload.progressed(1);
        assert_eq!(activity.displacement(later), None, "its bytes are being read");
        activity.write_waits(0);
        assert!(matches!(activity.displacement(later), Some(Displacement::Slow(_))), "an answer is not taken");
        activity.leave_http();
        assert_eq!(activity.displacement(later), None, "other protocols have times of their own");
    }

    #[test]
    fn verdicts_follow_the_pending_work() {
        let settings = HttpSettings::default();
        let activity = Arc::new(Activity::new());
        let now = Instant::now();
        let at = |seconds| activity.verdict(&settings, now + Duration::from_secs(seconds), true);
        assert_eq!((at(0), at(74), at(76)), (CloseReason::Goes, CloseReason::Goes, CloseReason::Idle));
        activity.bytes_received();
        assert_eq!((at(9), at(11)), (CloseReason::Goes, CloseReason::SlowHead));
        assert_eq!(activity.verdict(&settings, now + Duration::from_secs(11), false), CloseReason::Goes);
        let exchange = activity.begin();
        assert_eq!(at(100), CloseReason::Goes);
        exchange.handed(now + Duration::from_secs(30), 0);
        assert_eq!((at(29), at(31)), (CloseReason::Goes, CloseReason::SlowReader));
        exchange.asked();
        assert_eq!(at(31), CloseReason::Goes);
        drop(exchange);
        assert_eq!(at(76), CloseReason::Idle);
    }
}
