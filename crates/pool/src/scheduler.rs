//! Who works on what next, without threads and without a clock: what the workers' shell asks under its lock.
//!
//! Tenants share the workers fairly, and so do the connections of a tenant ([`FairQueue`]); the jobs of a connection take turns.
//! An entry is one job, from its admission until no worker is inside it and it is done, or dropped:
//!
//! ```text
//!              take                 returned More (or More came in the meantime)
//!   Queued ───────────▶ Held ───────────────────────────────────────▶ Queued
//!      ▲                 ├── share: the turn is given back early ───▶ Queued, the worker stays inside
//!      │                 └── returned Left ─────────────────────────▶ Away
//!      └──────────────────────── a worker inside returns More ───────── Away
//! ```

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use foldhash::HashMap;
use slab::Slab;
use thiserror::Error;

use crate::cancellation::Cancellation;
use crate::fair::{Arrival, FairQueue, Flow};
use crate::ledger::{Bound, Ledger, Limits, Receipt};
use crate::list::{Linked, Links, List};

/// What the first slice of a job is expected to cost, in nanoseconds; later ones, what the last one did.
const FIRST_SLICE_NS: u64 = 50_000;
/// The most that a slice is expected to cost: one that the system interrupted says nothing about the next.
const EXPECTED_MAX_NS: u64 = 200_000;
/// Flows that one operation forgets at a level.
const FORGOTTEN_MAX: usize = 2;
/// Flows that are remembered at a level though nothing of them is held, beyond as many as jobs are held.
const IDLE_FLOWS_SPARE: usize = 64;

/// What the pool must know of a job before it runs.
#[derive(Clone, Debug)]
pub struct Admission {
    /// Whose job it is: tenants share the workers equally.
    pub tenant: u64,
    /// Where it came from: the connections of a tenant share what the tenant gets equally.
    pub connection: u64,
    /// Memory that it holds.
    pub bytes: usize,
    /// How it learns that nobody waits for it. A deadline is best set before the job is submitted; it is looked at again each
    /// time that the job has to wait.
    pub cancellation: Arc<Cancellation>,
}

/// Why something was not admitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Rejection {
    /// As much is held as the settings allow.
    #[error("the queue is full: {0}")]
    Overloaded(Bound),
    /// The pool shuts down.
    #[error("the pool shuts down")]
    ShuttingDown,
}

/// In which order jobs are worked on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Scheduling {
    /// Slice by slice, fairly to tenants and connections; idle workers help with a job that can be shared.
    #[default]
    Fair,
    /// Each job from its first slice to its last, by one worker, in the order of arrival; cancelled and late ones too wait for their
    /// turn. For demonstrations and comparisons.
    FirstComeFirstServed,
}

/// Names a job that was admitted, also after its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ticket {
    index: usize,
    number: u64,
}

/// Whether new items are admitted and old ones handed out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    Open,
    /// Nothing new; what is held is finished.
    Draining,
    /// Nothing new; nothing is handed out.
    Stopped,
}

/// What a worker comes back with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Outcome {
    More,
    Left,
    Done,
    Panicked,
}

/// How an entry ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Done,
    /// A slice panicked, or the job forgot to say that it was done.
    Panicked,
    ShutDown,
}

/// A slice that a worker is to run.
#[derive(Debug)]
#[must_use = "a slice is given back, or its job is held forever"]
pub(crate) struct Taken<T> {
    pub(crate) item: T,
    pub(crate) hand: Hand,
    /// When the job was submitted, at its first slice.
    pub(crate) submitted: Option<Instant>,
    /// Whether other workers are inside the job.
    pub(crate) is_spread: bool,
}

/// A worker's part in an entry.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Hand {
    ticket: Ticket,
    expected: u64,
    /// Whether the turn has been given back already.
    has_shared: bool,
}

impl Hand {
    /// Whether the turn has been given back while the slice ran.
    pub(crate) fn has_shared(self) -> bool {
        self.has_shared
    }
}

/// An entry that has ended: the item is to be dropped, outside every lock, and then released.
#[derive(Debug)]
pub(crate) struct Ending<T> {
    pub(crate) item: T,
    pub(crate) end: End,
    pub(crate) receipt: Receipt,
}

/// Where the exclusive turn of a job is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Turn {
    /// To be taken; the entry stands in this line.
    Queued(Line),
    /// In the hands of a worker.
    Held,
    /// Nowhere: the workers inside have what there is to do.
    Away,
}

/// Lines that entries wait in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Line {
    /// Its connection's.
    Fair,
    /// Before everybody, once: to learn that it has been cancelled or is late.
    Urgent,
    /// The only one, where jobs are served in the order of arrival.
    Arrivals,
}

#[derive(Debug)]
struct Entry<T> {
    item: T,
    number: u64,
    tenant: usize,
    connection: usize,
    receipt: Receipt,
    cancellation: Arc<Cancellation>,
    /// Until the first slice.
    submitted: Option<Instant>,
    turn: Turn,
    links: Links,
    /// `More` came from a worker that had shared, while another held the turn.
    again: bool,
    /// Workers inside.
    inside: u32,
    /// Set when nobody shall take it any more.
    end: Option<End>,
    /// It has had its turn before everybody, or stands there.
    is_hurried: bool,
    deadline: Option<Instant>,
    /// What the next slice is expected to cost, in nanoseconds.
    expected: u64,
}

impl<T> Linked for Entry<T> {
    fn links(&mut self) -> &mut Links {
        &mut self.links
    }
}

/// A tenant of which something is held, or whose tag still counts.
#[derive(Debug, Default)]
struct Tenant {
    id: u64,
    flow: Flow,
    connections: FairQueue,
    entries: usize,
}

/// A tenant's jobs from one connection.
#[derive(Debug, Default)]
struct Connection {
    id: u64,
    flow: Flow,
    jobs: List,
    entries: usize,
}

#[derive(Debug)]
pub(crate) struct Scheduler<T> {
    scheduling: Scheduling,
    phase: Phase,
    ledger: Ledger,
    entries: Slab<Entry<T>>,
    next_number: u64,
    tenants: Slab<Tenant>,
    tenants_by_id: HashMap<u64, usize>,
    connections: Slab<Connection>,
    connections_by_id: HashMap<(usize, u64), usize>,
    fair: FairQueue,
    urgent: List,
    arrivals: List,
    /// Of entries that wait or have waited.
    deadlines: BTreeSet<(Instant, usize)>,
    waiting: usize,
    in_hand: usize,
}

impl<T: Clone> Scheduler<T> {
    pub(crate) fn new(limits: Limits, scheduling: Scheduling) -> Self {
        Scheduler {
            scheduling,
            phase: Phase::Open,
            ledger: Ledger::new(limits),
            entries: Slab::new(),
            next_number: 0,
            tenants: Slab::new(),
            tenants_by_id: HashMap::default(),
            connections: Slab::new(),
            connections_by_id: HashMap::default(),
            fair: FairQueue::default(),
            urgent: List::default(),
            arrivals: List::default(),
            deadlines: BTreeSet::new(),
            waiting: 0,
            in_hand: 0,
        }
    }

    /// Lets an item wait for a worker, or gives it back.
    pub(crate) fn admit(
        &mut self,
        item: T,
        admission: Admission,
        now: Instant,
    ) -> Result<Ticket, (T, Admission, Rejection)> {
        if self.phase != Phase::Open {
            return Err((item, admission, Rejection::ShuttingDown));
        }
        let receipt = Receipt { tenant: admission.tenant, connection: admission.connection, bytes: admission.bytes };
        if let Err(bound) = self.ledger.enter(receipt) {
            return Err((item, admission, Rejection::Overloaded(bound)));
        }
        let (tenant, connection) = self.enter_flows(receipt);
        let number = self.next_number;
        self.next_number += 1;
        let index = self.entries.insert(Entry {
            item,
            number,
            tenant,
            connection,
            receipt,
            cancellation: admission.cancellation,
            submitted: Some(now),
            turn: Turn::Away,
            links: Links::default(),
            again: false,
            inside: 0,
            end: None,
            is_hurried: false,
            deadline: None,
            expected: FIRST_SLICE_NS,
        });
        self.queue(index, Arrival::New, now);
        Ok(Ticket { index, number })
    }

    /// The next slice to run.
    pub(crate) fn take(&mut self, now: Instant) -> Option<Taken<T>> {
        if self.phase == Phase::Stopped || self.waiting == 0 {
            return None;
        }
        self.hurry_late(now);
        let index = self.urgent.first().or(self.arrivals.first()).or_else(|| self.first_in_fairness())?;
        self.unqueue(index);
        let entry = &mut self.entries[index];
        let is_spread = entry.inside > 0;
        entry.turn = Turn::Held;
        entry.inside += 1;
        let ticket = Ticket { index, number: entry.number };
        let hand = Hand { ticket, expected: entry.expected, has_shared: false };
        let taken = Taken { item: entry.item.clone(), hand, submitted: entry.submitted.take(), is_spread };
        self.in_hand += 1;
        let tenant = entry.tenant;
        self.charge(index);
        self.forget_flows(tenant);
        Some(taken)
    }

    /// Gives the turn back while the worker goes on. False when the job is not to be handed out again.
    pub(crate) fn share(&mut self, hand: &mut Hand, now: Instant) -> bool {
        let entry = &self.entries[hand.ticket.index];
        let is_closed = self.phase == Phase::Stopped || entry.end.is_some();
        if is_closed || hand.has_shared || self.scheduling == Scheduling::FirstComeFirstServed {
            return false;
        }
        hand.has_shared = true;
        self.queue(hand.ticket.index, Arrival::Returned, now);
        true
    }

    /// Takes a slice back that took `cost`. An entry that ends with it still counts until [`Scheduler::release`].
    pub(crate) fn give_back(
        &mut self,
        hand: Hand,
        outcome: Outcome,
        cost: Duration,
        now: Instant,
    ) -> Option<Ending<T>> {
        let index = hand.ticket.index;
        self.settle(index, hand.expected, nanoseconds(cost));
        let entry = &mut self.entries[index];
        entry.inside -= 1;
        self.in_hand -= 1;
        match outcome {
            // A job that says it is done is, whatever became of the other workers inside.
            Outcome::Done => entry.end = Some(End::Done),
            Outcome::Panicked => entry.end = entry.end.or(Some(End::Panicked)),
            Outcome::More | Outcome::Left => {}
        }
        if self.phase == Phase::Stopped {
            entry.end = entry.end.or(Some(End::ShutDown));
        }
        if entry.end.is_none() {
            self.pass_turn_on(index, hand.has_shared, outcome == Outcome::More, now);
        }
        self.end_if_left(index)
    }

    /// Decides where the turn goes when a worker has left a job that lives on.
    fn pass_turn_on(&mut self, index: usize, has_shared: bool, wants_more: bool, now: Instant) {
        let entry = &mut self.entries[index];
        let is_holder = !has_shared;
        if is_holder {
            entry.turn = Turn::Away;
        }
        match entry.turn {
            Turn::Away if wants_more || entry.again => self.queue(index, Arrival::Returned, now),
            Turn::Held if wants_more => entry.again = true,
            Turn::Away | Turn::Held | Turn::Queued(_) => {}
        }
    }

    /// Ends an entry that nobody shall take any more, once nobody is inside.
    fn end_if_left(&mut self, index: usize) -> Option<Ending<T>> {
        let entry = &mut self.entries[index];
        // With the turn nowhere and nobody inside, nobody would ever hear of it again: a fault of the job.
        if entry.turn == Turn::Away && entry.inside == 0 {
            entry.end = entry.end.or(Some(End::Panicked));
        }
        let end = entry.end?;
        let is_left = entry.inside == 0;
        if matches!(entry.turn, Turn::Queued(_)) {
            self.unqueue(index);
            self.entries[index].turn = Turn::Away;
        }
        is_left.then(|| self.remove(index, end))
    }

    /// Lets a job that waits go before all others, once. Does nothing where the job does not wait.
    pub(crate) fn hurry(&mut self, ticket: Ticket) {
        let Some(entry) = self.entries.get(ticket.index).filter(|entry| entry.number == ticket.number) else {
            return;
        };
        if entry.turn == Turn::Queued(Line::Fair) && !entry.is_hurried {
            self.make_urgent(ticket.index);
        }
    }

    /// Stops counting an entry whose item has been dropped.
    pub(crate) fn release(&mut self, receipt: Receipt) {
        self.ledger.release(receipt);
    }

    pub(crate) fn phase(&self) -> Phase {
        self.phase
    }

    pub(crate) fn set_draining(&mut self) {
        if self.phase == Phase::Open {
            self.phase = Phase::Draining;
        }
    }

    /// Hands out nothing any more. What no worker is inside of ends now, the rest when its last worker comes back.
    pub(crate) fn stop(&mut self) -> Vec<Ending<T>> {
        self.phase = Phase::Stopped;
        let indices: Vec<usize> = self.entries.iter().map(|(index, _)| index).collect();
        let mut endings = Vec::new();
        for index in indices {
            let entry = &mut self.entries[index];
            entry.end = entry.end.or(Some(End::ShutDown));
            endings.extend(self.end_if_left(index));
        }
        endings
    }

    /// Jobs that are held, waiting, worked on, or not released yet.
    pub(crate) fn jobs(&self) -> usize {
        self.ledger.total().jobs
    }

    pub(crate) fn bytes(&self) -> usize {
        self.ledger.total().bytes
    }

    /// Jobs that wait for a worker.
    pub(crate) fn waiting(&self) -> usize {
        self.waiting
    }

    /// Slices in the hands of workers.
    pub(crate) fn in_hand(&self) -> usize {
        self.in_hand
    }

    fn queue(&mut self, index: usize, arrival: Arrival, now: Instant) {
        let line = self.line(index, now);
        let entry = &mut self.entries[index];
        entry.turn = Turn::Queued(line);
        entry.again = false;
        self.waiting += 1;
        match (line, arrival) {
            (Line::Urgent, _) => self.urgent.push_last(&mut self.entries, index),
            (Line::Arrivals, Arrival::New) => self.arrivals.push_last(&mut self.entries, index),
            (Line::Arrivals, Arrival::Returned) => self.arrivals.push_first(&mut self.entries, index),
            (Line::Fair, _) => self.queue_fairly(index, arrival),
        }
    }

    /// Which line an entry goes to. One that has to stop goes before all others, but once: then it has heard of it.
    fn line(&mut self, index: usize, now: Instant) -> Line {
        if self.scheduling == Scheduling::FirstComeFirstServed {
            return Line::Arrivals;
        }
        let entry = &mut self.entries[index];
        if entry.is_hurried {
            return Line::Fair;
        }
        if entry.cancellation.check(now).is_err() {
            entry.is_hurried = true;
            return Line::Urgent;
        }
        if entry.deadline.is_none()
            && let Some(deadline) = entry.cancellation.deadline()
        {
            entry.deadline = Some(deadline);
            self.deadlines.insert((deadline, index));
        }
        Line::Fair
    }

    fn queue_fairly(&mut self, index: usize, arrival: Arrival) {
        let (tenant_index, connection_index) = (self.entries[index].tenant, self.entries[index].connection);
        let tenant = &mut self.tenants[tenant_index];
        let connection = &mut self.connections[connection_index];
        if connection.jobs.is_empty() {
            if tenant.connections.first().is_none() {
                self.fair.wait(tenant_index, &mut tenant.flow, arrival);
            }
            tenant.connections.wait(connection_index, &mut connection.flow, arrival);
        }
        connection.jobs.push_last(&mut self.entries, index);
    }

    /// Takes an entry out of the line that it stands in.
    fn unqueue(&mut self, index: usize) {
        let entry = &self.entries[index];
        let Turn::Queued(line) = entry.turn else { unreachable!("only who waits is taken out of a line") };
        let (tenant_index, connection_index) = (entry.tenant, entry.connection);
        self.waiting -= 1;
        let list = match line {
            Line::Urgent => &mut self.urgent,
            Line::Arrivals => &mut self.arrivals,
            Line::Fair => &mut self.connections[connection_index].jobs,
        };
        list.remove(&mut self.entries, index);
        if line == Line::Fair && list.is_empty() {
            let tenant = &mut self.tenants[tenant_index];
            tenant.connections.leave(connection_index, &mut self.connections[connection_index].flow);
            if tenant.connections.first().is_none() {
                self.fair.leave(tenant_index, &mut tenant.flow);
            }
        }
    }

    /// The entry whose turn it is in fairness; the virtual times move on to it.
    fn first_in_fairness(&mut self) -> Option<usize> {
        let tenant_index = self.fair.first()?;
        let tenant = &mut self.tenants[tenant_index];
        let connection_index = tenant.connections.first().expect("a tenant waits with its connections");
        let connection = &self.connections[connection_index];
        self.fair.advance(&tenant.flow);
        tenant.connections.advance(&connection.flow);
        connection.jobs.first()
    }

    fn make_urgent(&mut self, index: usize) {
        self.unqueue(index);
        let entry = &mut self.entries[index];
        entry.is_hurried = true;
        entry.turn = Turn::Queued(Line::Urgent);
        self.waiting += 1;
        self.urgent.push_last(&mut self.entries, index);
    }

    /// Lets those that wait beyond their deadline go before all others.
    fn hurry_late(&mut self, now: Instant) {
        while let Some(&(deadline, index)) = self.deadlines.first()
            && deadline <= now
        {
            self.deadlines.pop_first();
            let entry = &self.entries[index];
            if entry.turn == Turn::Queued(Line::Fair) && !entry.is_hurried {
                self.make_urgent(index);
            }
        }
    }

    fn charge(&mut self, index: usize) {
        let entry = &self.entries[index];
        let tenant = &mut self.tenants[entry.tenant];
        let connection = &mut self.connections[entry.connection];
        tenant.connections.charge(entry.connection, &mut connection.flow, entry.expected);
        self.fair.charge(entry.tenant, &mut tenant.flow, entry.expected);
    }

    fn settle(&mut self, index: usize, expected: u64, cost: u64) {
        let entry = &mut self.entries[index];
        entry.expected = cost.min(EXPECTED_MAX_NS);
        let tenant = &mut self.tenants[entry.tenant];
        let connection = &mut self.connections[entry.connection];
        tenant.connections.settle(entry.connection, &mut connection.flow, expected, cost);
        self.fair.settle(entry.tenant, &mut tenant.flow, expected, cost);
    }

    /// Finds the tenant and the connection of a new entry, or makes them.
    fn enter_flows(&mut self, receipt: Receipt) -> (usize, usize) {
        let Receipt { tenant: id, connection: connection_id, .. } = receipt;
        let tenants = &mut self.tenants;
        let tenant_index =
            *self.tenants_by_id.entry(id).or_insert_with(|| tenants.insert(Tenant { id, ..Tenant::default() }));
        let tenant = &mut self.tenants[tenant_index];
        if tenant.entries == 0 {
            self.fair.rise(tenant_index, &tenant.flow);
        }
        tenant.entries += 1;
        let connections = &mut self.connections;
        let connection_index = *self
            .connections_by_id
            .entry((tenant_index, connection_id))
            .or_insert_with(|| connections.insert(Connection { id: connection_id, ..Connection::default() }));
        let connection = &mut self.connections[connection_index];
        if connection.entries == 0 {
            tenant.connections.rise(connection_index, &connection.flow);
        }
        connection.entries += 1;
        (tenant_index, connection_index)
    }

    /// Takes an entry out of everything but the ledger.
    fn remove(&mut self, index: usize, end: End) -> Ending<T> {
        let entry = self.entries.remove(index);
        if let Some(deadline) = entry.deadline {
            self.deadlines.remove(&(deadline, index));
        }
        let tenant = &mut self.tenants[entry.tenant];
        tenant.entries -= 1;
        let connection = &mut self.connections[entry.connection];
        connection.entries -= 1;
        if connection.entries == 0 {
            tenant.connections.rest(entry.connection, &connection.flow);
        }
        if tenant.entries == 0 {
            self.fair.rest(entry.tenant, &tenant.flow);
        }
        self.forget_flows(entry.tenant);
        Ending { item: entry.item, end, receipt: entry.receipt }
    }

    /// Forgets flows that mean nothing any more: a few, so that no operation is long, but more than one operation adds. Where
    /// nothing at all is held nobody competes, and all are forgotten.
    fn forget_flows(&mut self, tenant_index: usize) {
        let tenant = &mut self.tenants[tenant_index];
        let (steps, idle_max) = forgetting(tenant.entries);
        for _ in 0..steps {
            let Some(index) = tenant.connections.forget(idle_max) else { break };
            let connection = self.connections.remove(index);
            self.connections_by_id.remove(&(tenant_index, connection.id));
        }
        let (steps, idle_max) = forgetting(self.entries.len());
        for _ in 0..steps {
            let Some(index) = self.fair.forget(idle_max) else { break };
            let tenant = self.tenants.remove(index);
            self.tenants_by_id.remove(&tenant.id);
        }
    }
}

/// How many flows to forget at most, and how many may be remembered, at a level where `entries` are held.
fn forgetting(entries: usize) -> (usize, usize) {
    if entries == 0 { (usize::MAX, 0) } else { (FORGOTTEN_MAX, entries + IDLE_FLOWS_SPARE) }
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod simulation;
#[cfg(test)]
mod tests;
