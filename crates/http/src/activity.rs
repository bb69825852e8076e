//! What the connections of a listener are doing: who is without a request, whose head takes long, who leaves an answer lying.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use tokio::sync::Notify;

use crate::settings::HttpSettings;

/// What a listener has counted since it began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HttpCounters {
    /// Connections that are open now.
    pub connections_open: usize,
    /// Connections that came.
    pub connections_accepted: u64,
    /// Connections that were closed at once, as there was no place.
    pub connections_refused: u64,
    /// Connections without a request that gave their place to another.
    pub connections_displaced: u64,
    /// Handshakes that failed.
    pub handshakes_failed: u64,
    /// Connections that were cut, as the peer brought or took too little.
    pub connections_cut: u64,
    /// Connections that were closed, as they had no request for too long.
    pub connections_idle: u64,
}

#[derive(Debug, Default)]
pub(crate) struct Tallies {
    pub(crate) accepted: AtomicU64,
    pub(crate) refused: AtomicU64,
    pub(crate) displaced: AtomicU64,
    pub(crate) handshakes_failed: AtomicU64,
    pub(crate) cut: AtomicU64,
    pub(crate) idle: AtomicU64,
}

pub(crate) fn count(tally: &AtomicU64) {
    tally.fetch_add(1, Ordering::Relaxed);
}

/// All connections of a listener.
#[derive(Debug)]
pub(crate) struct Registry {
    connections_max: usize,
    pub(crate) tallies: Tallies,
    state: Mutex<Open>,
    ended: Notify,
}

#[derive(Debug, Default)]
struct Open {
    next: u64,
    connections: BTreeMap<u64, Arc<Activity>>,
}

const UNPOISONED: &str = "nothing panics while this is locked";

impl Registry {
    pub(crate) fn new(connections_max: usize) -> Self {
        Registry { connections_max, tallies: Tallies::default(), state: Mutex::default(), ended: Notify::new() }
    }

    /// A place for a new connection, if need be that of the one without a request for longest.
    pub(crate) fn take(self: &Arc<Self>) -> Option<Place> {
        let mut open = self.lock();
        if open.connections.len() >= self.connections_max {
            let idle = open.connections.iter().filter_map(|(number, activity)| Some((activity.idle_since()?, *number)));
            let (_, number) = idle.min()?;
            let displaced = open.connections.remove(&number)?;
            displaced.displaced.notify_one();
            count(&self.tallies.displaced);
        }
        let number = open.next;
        open.next += 1;
        let activity = Arc::new(Activity::new());
        open.connections.insert(number, Arc::clone(&activity));
        drop(open);
        Some(Place { registry: Arc::clone(self), number, activity })
    }

    pub(crate) fn counters(&self) -> HttpCounters {
        let get = |tally: &AtomicU64| tally.load(Ordering::Relaxed);
        HttpCounters {
            connections_open: self.lock().connections.len(),
            connections_accepted: get(&self.tallies.accepted),
            connections_refused: get(&self.tallies.refused),
            connections_displaced: get(&self.tallies.displaced),
            handshakes_failed: get(&self.tallies.handshakes_failed),
            connections_cut: get(&self.tallies.cut),
            connections_idle: get(&self.tallies.idle),
        }
    }

    /// Ready when no connection is open.
    pub(crate) async fn all_ended(&self) {
        loop {
            let ended = self.ended.notified();
            if self.lock().connections.is_empty() {
                return;
            }
            ended.await;
        }
    }

    fn lock(&self) -> MutexGuard<'_, Open> {
        self.state.lock().expect(UNPOISONED)
    }
}

/// The place of one connection; free again when dropped.
#[derive(Debug)]
pub(crate) struct Place {
    registry: Arc<Registry>,
    number: u64,
    pub(crate) activity: Arc<Activity>,
}

impl Drop for Place {
    fn drop(&mut self) {
        self.registry.lock().connections.remove(&self.number);
        self.registry.ended.notify_waiters();
    }
}

/// What one connection is doing.
#[derive(Debug)]
pub(crate) struct Activity {
    marks: Mutex<Marks>,
    /// Told when the place has gone to another.
    pub(crate) displaced: Notify,
}

#[derive(Debug)]
struct Marks {
    /// Requests that have begun and whose bodies or answers have not ended.
    in_flight: usize,
    /// Since when there has been none.
    idle_since: Instant,
    /// When the first byte came of a head that is not whole.
    head_began: Option<Instant>,
    /// Until when the peer has to take a piece of an answer, by request.
    takes: BTreeMap<u64, Instant>,
    next: u64,
}

/// Why a connection ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Goes,
    /// Without a request for too long.
    Idle,
    SlowHead,
    SlowReader,
}

impl Activity {
    pub(crate) fn new() -> Self {
        let marks =
            Marks { in_flight: 0, idle_since: Instant::now(), head_began: None, takes: BTreeMap::new(), next: 0 };
        Activity { marks: Mutex::new(marks), displaced: Notify::new() }
    }

    /// Since when there has been no request, if there is none.
    pub(crate) fn idle_since(&self) -> Option<Instant> {
        let marks = self.lock();
        (marks.in_flight == 0).then_some(marks.idle_since)
    }

    /// Bytes have come.
    pub(crate) fn bytes_came(&self) {
        let mut marks = self.lock();
        if marks.in_flight == 0 {
            marks.head_began.get_or_insert_with(Instant::now);
        }
    }

    /// A request's head is whole.
    pub(crate) fn begin(self: &Arc<Self>) -> Arc<Exchange> {
        let mut marks = self.lock();
        marks.in_flight += 1;
        marks.head_began = None;
        let number = marks.next;
        marks.next += 1;
        Arc::new(Exchange { activity: Arc::clone(self), number, received: AtomicU64::new(0) })
    }

    /// The connection goes over to another protocol. It is in use for as long as it has its place, and how long it may be silent is for
    /// whoever took it over.
    pub(crate) fn leave_http(&self) {
        self.lock().in_flight += 1;
    }

    /// How the connection stands now.
    pub(crate) fn verdict(&self, settings: &HttpSettings, now: Instant, heads_are_timed: bool) -> Verdict {
        let marks = self.lock();
        let is_over = |since: Instant, limit: Duration| now.saturating_duration_since(since) >= limit;
        let slow_head = marks.head_began.is_some_and(|began| is_over(began, settings.header_read_timeout));
        if marks.takes.values().any(|deadline| now >= *deadline) {
            Verdict::SlowReader
        } else if heads_are_timed && slow_head {
            Verdict::SlowHead
        } else if marks.in_flight == 0 && is_over(marks.idle_since, settings.idle_timeout) {
            Verdict::Idle
        } else {
            Verdict::Goes
        }
    }

    fn lock(&self) -> MutexGuard<'_, Marks> {
        self.marks.lock().expect(UNPOISONED)
    }
}

/// A request in work; over when its last holder is dropped.
#[derive(Debug)]
pub(crate) struct Exchange {
    activity: Arc<Activity>,
    number: u64,
    /// Bytes of the request's body that were taken.
    received: AtomicU64,
}

impl Exchange {
    /// Bytes of the request's body were taken. Only its one reader calls this.
    pub(crate) fn took(&self, bytes: u64) {
        self.received.store(self.received.load(Ordering::Relaxed) + bytes, Ordering::Relaxed);
    }

    /// What the connection is doing.
    pub(crate) fn activity(&self) -> &Activity {
        &self.activity
    }

    /// The peer has been handed a piece of the answer, and has until `deadline` to ask for more.
    pub(crate) fn handed(&self, deadline: Instant) {
        self.activity.lock().takes.insert(self.number, deadline);
    }

    /// The peer has asked for more, or the answer is whole.
    pub(crate) fn asked(&self) {
        self.activity.lock().takes.remove(&self.number);
    }
}

impl Drop for Exchange {
    fn drop(&mut self) {
        let mut marks = self.activity.lock();
        marks.takes.remove(&self.number);
        marks.in_flight -= 1;
        marks.idle_since = Instant::now();
    }
}

/// Tells how much of a request's body has come. It keeps the request in work: to be dropped with the answer.
#[derive(Clone, Debug)]
pub struct Received {
    exchange: Arc<Exchange>,
}

impl Received {
    pub(crate) fn new(exchange: &Arc<Exchange>) -> Self {
        Received { exchange: Arc::clone(exchange) }
    }

    /// Bytes of the body that whoever reads it has taken so far. What is read on behind an early answer does not count.
    pub fn bytes(&self) -> u64 {
        self.exchange.received.load(Ordering::Relaxed)
    }
}

/// Keeps a request in work, and so its connection in use, while another protocol goes on in its stream: comes in the extensions of a
/// `CONNECT` over HTTP/2. Over HTTP/1.1 the connection itself becomes the stream, and keeps its place without.
#[derive(Clone, Debug)]
pub struct Hold {
    _exchange: Arc<Exchange>,
}

impl Hold {
    pub(crate) fn new(exchange: &Arc<Exchange>) -> Self {
        Hold { _exchange: Arc::clone(exchange) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_is_longest_without_a_request_gives_way() {
        let registry = Arc::new(Registry::new(2));
        let (first, second) = (registry.take().unwrap(), registry.take().unwrap());
        let busy = first.activity.begin();
        let third = registry.take().unwrap();
        assert_eq!((registry.counters().connections_open, registry.counters().connections_displaced), (2, 1));
        let also_busy = third.activity.begin();
        assert!(registry.take().is_none(), "both have requests");
        drop((second, busy));
        assert!(registry.take().is_some());
        drop((first, third, also_busy));
        assert_eq!(registry.counters().connections_open, 0);
    }

    #[test]
    fn verdicts_follow_what_is_missing() {
        let settings = HttpSettings::default();
        let activity = Arc::new(Activity::new());
        let now = Instant::now();
        let at = |seconds| activity.verdict(&settings, now + Duration::from_secs(seconds), true);
        assert_eq!((at(0), at(74), at(76)), (Verdict::Goes, Verdict::Goes, Verdict::Idle));
        activity.bytes_came();
        assert_eq!((at(9), at(11)), (Verdict::Goes, Verdict::SlowHead));
        assert_eq!(activity.verdict(&settings, now + Duration::from_secs(11), false), Verdict::Goes);
        let exchange = activity.begin();
        assert_eq!(at(100), Verdict::Goes);
        exchange.handed(now + Duration::from_secs(30));
        assert_eq!((at(29), at(31)), (Verdict::Goes, Verdict::SlowReader));
        exchange.asked();
        assert_eq!(at(31), Verdict::Goes);
        drop(exchange);
        assert_eq!(at(76), Verdict::Idle);
    }
}
