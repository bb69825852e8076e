//! Decides which job a worker runs next, without threads or a clock. The workers call it under their lock.
//!
//! Tenants share the workers fairly, and so do the clients of a tenant and the connections of a client ([`Flows`]); the jobs of a
//! connection take turns. A job that must stop goes to the front of its connection, and its tenant is charged for that too.
//! An entry is one job, from its admission until no worker runs it and it is done or dropped:
//!
//! ```text
//!              take                 returned More (or More was returned in the meantime)
//!   Queued ───────────▶ Running ────────────────────────────────────▶ Queued
//!      ▲                 ├── share: the turn is released early ─────▶ Queued, the worker continues
//!      │                 └── returned Left ─────────────────────────▶ Released
//!      ├──────────────────────── another worker returns More ───────── Released
//!      └── woken, cancelled, or late ── Parked ◀── the last worker in it has left, and one returned Park
//! ```

mod admission;
mod inline;
mod parked;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use slab::Slab;

use crate::cancellation::Cancellation;
use crate::estimate::{Estimate, is_in_time};
use crate::fair::FlowArrival;
use crate::flows::{ConnectionLane, FlowPath, Flows, SettledSlice};
use crate::ledger::{Ledger, LedgerLimits, Receipt};
use crate::list::{Linked, LinkedList, Links};
pub use admission::{Admission, JobTicket, Rejection, Scheduling};

/// Expected cost of a job's first slice, in nanoseconds; for later ones, the cost of the previous.
const FIRST_SLICE_NS: u64 = 50_000;
/// Maximum expected cost of a slice: one that the system interrupted does not predict the next.
const EXPECTED_MAX_NS: u64 = 200_000;
/// Expected cost of ending a stopped job.
const ENDING_NS: u64 = 5_000;
/// Late jobs that one operation moves to the front of their connections.
const HURRIED_MAX: usize = 4;

/// Whether new jobs are admitted and queued ones started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SchedulerPhase {
    Open,
    /// Nothing new is admitted; queued jobs finish.
    Draining,
    /// Nothing is admitted or started.
    Stopped,
}

/// The result that a worker returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum SliceOutcome {
    More,
    Left,
    /// Nothing to do before it is woken, or this time.
    Park(Instant),
    Done,
    Panicked,
}

/// How an entry ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EntryEnd {
    Done,
    /// A slice panicked, or the job did not report its end.
    Panicked,
    ShutDown,
}

/// A slice for a worker to run.
#[derive(Debug)]
#[must_use = "a slice is given back, or its job is held forever"]
pub(crate) struct TakenSlice<T> {
    pub(crate) item: T,
    /// As in its [`Admission`].
    pub(crate) client: u64,
    pub(crate) hand: SliceHandle,
    /// When the job was submitted, at its first slice.
    pub(crate) submitted: Option<Instant>,
    /// Whether other workers run the job.
    pub(crate) is_spread: bool,
}

/// A worker's slice of an entry.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SliceHandle {
    ticket: JobTicket,
    expected: u64,
    /// Whether the turn has been released already.
    has_shared: bool,
    lane: ConnectionLane,
    /// Whether no worker runs it, but the thread that submitted the job.
    is_inline: bool,
}

impl SliceHandle {
    /// The job.
    pub(crate) fn ticket(self) -> JobTicket {
        self.ticket
    }

    /// Whether the turn was released while the slice ran.
    pub(crate) fn has_shared(self) -> bool {
        self.has_shared
    }
}

/// An entry that has ended: the item is to be dropped, outside every lock, and then released.
#[derive(Debug)]
pub(crate) struct EndedEntry<T> {
    pub(crate) item: T,
    pub(crate) end: EntryEnd,
    pub(crate) receipt: Receipt,
}

/// The state of a job's exclusive turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ExclusiveTurn {
    /// Waiting in this queue.
    Queued(EntryQueues),
    /// With a worker.
    Running,
    /// With no worker: those that run the job have all its parts.
    Released,
    /// With no worker, and none runs the job, until it is woken or this time.
    Parked(Instant),
}

/// The queues in which entries wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum EntryQueues {
    /// Its connection's.
    Fair(ConnectionLane),
    /// The only one, if jobs are served in the order of arrival.
    Arrivals,
}

#[derive(Debug)]
struct QueueEntry<T> {
    item: T,
    number: u64,
    client: u64,
    /// The node of its connection among the flows.
    connection: usize,
    receipt: Receipt,
    cancellation: Arc<Cancellation>,
    /// Until the first slice.
    submitted: Option<Instant>,
    turn: ExclusiveTurn,
    links: Links,
    /// A worker that had released the turn returned `More`, while another held it.
    again: bool,
    /// Set if a worker has left it to wait until then, and none has found more to do since.
    parking: Option<Instant>,
    /// It was woken before it was parked.
    is_woken: bool,
    /// Workers that run it.
    inside: u32,
    /// Set when no worker may take it any more.
    end: Option<EntryEnd>,
    /// It has been moved to the front of its connection.
    is_hurried: bool,
    deadline: Option<Instant>,
    /// Expected cost of the next slice, in nanoseconds.
    expected: u64,
    /// The cost of the job so far, and its expected remaining cost.
    used: u64,
    remaining: u64,
}

impl<T> QueueEntry<T> {
    /// The queue of the entry.
    fn queue(&self) -> EntryQueues {
        let ExclusiveTurn::Queued(queue) = self.turn else {
            unreachable!("only a waiting entry is taken out of a queue")
        };
        queue
    }
}

impl<T> Linked for QueueEntry<T> {
    fn links(&mut self) -> &mut Links {
        &mut self.links
    }
}

#[derive(Debug)]
pub(crate) struct Scheduler<T> {
    scheduling: Scheduling,
    phase: SchedulerPhase,
    ledger: Ledger,
    entries: Slab<QueueEntry<T>>,
    next_number: u64,
    flows: Flows,
    estimate: Estimate,
    /// Whether jobs are refused that would miss their deadlines.
    refuses_early: bool,
    arrivals: LinkedList,
    /// Of entries that wait or have waited.
    deadlines: BTreeSet<(Instant, usize)>,
    /// Entries that are parked, by the time until which they are.
    parked: BTreeSet<(Instant, usize)>,
    waiting: usize,
    running_slices: usize,
}

impl<T: Clone> Scheduler<T> {
    pub(crate) fn new(limits: LedgerLimits, scheduling: Scheduling, workers: usize, refuses_early: bool) -> Self {
        Scheduler {
            scheduling,
            phase: SchedulerPhase::Open,
            ledger: Ledger::new(limits),
            entries: Slab::new(),
            next_number: 0,
            flows: Flows::new(),
            estimate: Estimate::new(workers),
            // In the order of arrival, late jobs wait for their turn too.
            refuses_early: refuses_early && scheduling == Scheduling::Fair,
            arrivals: LinkedList::default(),
            deadlines: BTreeSet::new(),
            parked: BTreeSet::new(),
            waiting: 0,
            running_slices: 0,
        }
    }

    /// Queues an item, or returns it.
    pub(crate) fn admit(
        &mut self,
        item: T,
        admission: Admission,
        now: Instant,
    ) -> Result<JobTicket, (T, Admission, Rejection)> {
        if self.phase != SchedulerPhase::Open {
            return Err((item, admission, Rejection::ShuttingDown));
        }
        if let Some(wait) = self.wait_if_late(&admission, now) {
            return Err((item, admission, Rejection::TooLate { wait }));
        }
        let receipt = Receipt { tenant: admission.tenant, connection: admission.connection, bytes: admission.bytes };
        if let Err(bound) = self.ledger.enter(receipt) {
            return Err((item, admission, Rejection::Overloaded(bound)));
        }
        let connection = self.flows.enter(path(&admission));
        let costs = self.flows.costs_mut(connection);
        let remaining = self.estimate.cost(*costs, admission.bytes);
        costs.record_demand(remaining, now);
        self.flows.expect(connection, 0, remaining);
        let number = self.next_number;
        self.next_number += 1;
        let index = self.entries.insert(QueueEntry {
            item,
            number,
            client: admission.client,
            connection,
            receipt,
            cancellation: admission.cancellation,
            submitted: Some(now),
            turn: ExclusiveTurn::Released,
            links: Links::default(),
            again: false,
            parking: None,
            is_woken: false,
            inside: 0,
            end: None,
            is_hurried: false,
            deadline: None,
            expected: FIRST_SLICE_NS,
            used: 0,
            remaining,
        });
        self.queue(index, FlowArrival::New, now);
        Ok(JobTicket { index, number })
    }

    /// Returns the estimated wait of a job that would be late. If a worker is free, or its tenant has no other job, the estimate is not
    /// reliable enough to refuse it.
    fn wait_if_late(&mut self, admission: &Admission, now: Instant) -> Option<Duration> {
        if !self.refuses_early || self.waiting == 0 {
            return None;
        }
        let deadline = admission.cancellation.deadline()?;
        if self.flows.is_quiet(admission.tenant) {
            return None;
        }
        let loads = self.flows.loads(path(admission));
        let mut costs = self.flows.costs_of(admission.tenant, admission.client);
        let known = costs.as_deref().copied().unwrap_or_default();
        let cost = self.estimate.cost(known, admission.bytes);
        let wait = self.estimate.wait(cost, known, loads, now);
        if is_in_time(wait, deadline, now) {
            return None;
        }
        if let Some(costs) = &mut costs {
            costs.record_demand(cost, now);
        }
        Some(wait)
    }

    /// The next slice to run.
    pub(crate) fn take(&mut self, now: Instant) -> Option<TakenSlice<T>> {
        if self.phase == SchedulerPhase::Stopped {
            return None;
        }
        self.unpark_due(now);
        if self.waiting == 0 {
            return None;
        }
        self.hurry_late(now);
        let index = self.arrivals.first().or_else(|| self.flows.first())?;
        self.running_slices += 1;
        Some(self.begin_slice(index, false))
    }

    /// Takes a slice of a waiting entry.
    fn begin_slice(&mut self, index: usize, is_inline: bool) -> TakenSlice<T> {
        let lane = self.take_out(index);
        let entry = &mut self.entries[index];
        let is_spread = entry.inside > 0;
        entry.turn = ExclusiveTurn::Running;
        entry.inside += 1;
        let ticket = JobTicket { index, number: entry.number };
        let hand = SliceHandle { ticket, expected: entry.expected, has_shared: false, lane, is_inline };
        let client = entry.client;
        TakenSlice { item: entry.item.clone(), client, hand, submitted: entry.submitted.take(), is_spread }
    }

    /// Releases the turn while the worker continues. Returns false if the job must not be taken again.
    pub(crate) fn share(&mut self, hand: &mut SliceHandle, now: Instant) -> bool {
        let entry = &self.entries[hand.ticket.index];
        let is_closed = self.phase == SchedulerPhase::Stopped || entry.end.is_some();
        if is_closed || hand.has_shared || self.scheduling == Scheduling::FirstComeFirstServed {
            return false;
        }
        hand.has_shared = true;
        self.queue(hand.ticket.index, FlowArrival::Returned, now);
        true
    }

    /// Returns a slice that took `cost`. An entry that ends with it still counts until [`Scheduler::release`].
    pub(crate) fn give_back(
        &mut self,
        hand: SliceHandle,
        outcome: SliceOutcome,
        cost: Duration,
        now: Instant,
    ) -> Option<EndedEntry<T>> {
        let index = hand.ticket.index;
        self.settle(hand, outcome, nanoseconds(cost), now);
        let entry = &mut self.entries[index];
        entry.inside -= 1;
        self.running_slices -= usize::from(!hand.is_inline);
        match outcome {
            // A job that returns `Done` is done, whatever the other workers that run it return.
            SliceOutcome::Done => entry.end = Some(EntryEnd::Done),
            SliceOutcome::Panicked => entry.end = entry.end.or(Some(EntryEnd::Panicked)),
            SliceOutcome::Park(until) => entry.parking = Some(until),
            SliceOutcome::More | SliceOutcome::Left => {}
        }
        if self.phase == SchedulerPhase::Stopped {
            entry.end = entry.end.or(Some(EntryEnd::ShutDown));
        }
        if entry.end.is_none() {
            self.pass_turn_on(index, hand.has_shared, outcome == SliceOutcome::More, now);
            self.park_if_left(index, now);
        }
        self.end_if_left(index)
    }

    /// Decides what happens to the turn when a worker has left a job that continues.
    fn pass_turn_on(&mut self, index: usize, has_shared: bool, wants_more: bool, now: Instant) {
        let entry = &mut self.entries[index];
        let is_holder = !has_shared;
        if is_holder {
            entry.turn = ExclusiveTurn::Released;
        }
        match entry.turn {
            ExclusiveTurn::Released if wants_more || entry.again => self.queue(index, FlowArrival::Returned, now),
            ExclusiveTurn::Running if wants_more => entry.again = true,
            ExclusiveTurn::Released | ExclusiveTurn::Running | ExclusiveTurn::Queued(_) | ExclusiveTurn::Parked(_) => {}
        }
    }

    /// Ends an entry that no worker may take any more, once none runs it.
    fn end_if_left(&mut self, index: usize) -> Option<EndedEntry<T>> {
        let entry = &mut self.entries[index];
        // With no worker and no turn, the job would be lost; this is an error of the job.
        if entry.turn == ExclusiveTurn::Released && entry.inside == 0 {
            entry.end = entry.end.or(Some(EntryEnd::Panicked));
        }
        let end = entry.end?;
        let is_left = entry.inside == 0;
        match entry.turn {
            ExclusiveTurn::Queued(_) => {
                self.unqueue(index);
                self.entries[index].turn = ExclusiveTurn::Released;
            }
            ExclusiveTurn::Parked(until) => {
                entry.turn = ExclusiveTurn::Released;
                self.parked.remove(&(until, index));
            }
            ExclusiveTurn::Running | ExclusiveTurn::Released => {}
        }
        is_left.then(|| self.remove(index, end))
    }

    /// Stops counting an entry whose item has been dropped.
    pub(crate) fn release(&mut self, receipt: Receipt) {
        self.ledger.release(receipt);
    }

    pub(crate) fn phase(&self) -> SchedulerPhase {
        self.phase
    }

    pub(crate) fn set_draining(&mut self) {
        if self.phase == SchedulerPhase::Open {
            self.phase = SchedulerPhase::Draining;
        }
    }

    /// Starts no more slices. Entries that no worker runs end now, the rest when their last worker returns.
    pub(crate) fn stop(&mut self) -> Vec<EndedEntry<T>> {
        self.phase = SchedulerPhase::Stopped;
        let indices: Vec<usize> = self.entries.iter().map(|(index, _)| index).collect();
        let mut endings = Vec::new();
        for index in indices {
            let entry = &mut self.entries[index];
            entry.end = entry.end.or(Some(EntryEnd::ShutDown));
            endings.extend(self.end_if_left(index));
        }
        endings
    }

    /// Jobs that wait, run, or are not released yet.
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

    /// Slices that workers run.
    pub(crate) fn running_slices(&self) -> usize {
        self.running_slices
    }

    /// The estimated time that the workers need for all jobs.
    pub(crate) fn backlog(&self, now: Instant) -> Duration {
        self.estimate.time_for(self.flows.backlog(), now)
    }

    fn queue(&mut self, index: usize, arrival: FlowArrival, now: Instant) {
        let queue = self.queue_for(index, now);
        let entry = &mut self.entries[index];
        entry.again = false;
        entry.parking = None;
        entry.turn = ExclusiveTurn::Queued(queue);
        let connection = entry.connection;
        self.waiting += 1;
        match (queue, arrival) {
            (EntryQueues::Fair(lane), _) => self.flows.wait(connection, lane, arrival, &mut self.entries, index),
            (EntryQueues::Arrivals, FlowArrival::New) => self.arrivals.push_last(&mut self.entries, index),
            (EntryQueues::Arrivals, FlowArrival::Returned) => self.arrivals.push_first(&mut self.entries, index),
        }
    }

    /// The queue for an entry. One that must stop goes to the front of its connection, but only once.
    fn queue_for(&mut self, index: usize, now: Instant) -> EntryQueues {
        if self.scheduling == Scheduling::FirstComeFirstServed {
            return EntryQueues::Arrivals;
        }
        let entry = &mut self.entries[index];
        if entry.is_hurried {
            return EntryQueues::Fair(ConnectionLane::Live);
        }
        if entry.cancellation.check(now).is_err() {
            self.expect_end(index);
            return EntryQueues::Fair(ConnectionLane::Ending);
        }
        if entry.deadline.is_none()
            && let Some(deadline) = entry.cancellation.deadline()
        {
            entry.deadline = Some(deadline);
            self.deadlines.insert((deadline, index));
        }
        EntryQueues::Fair(ConnectionLane::Live)
    }

    /// Removes an entry from its queue, for a slice.
    fn take_out(&mut self, index: usize) -> ConnectionLane {
        let (connection, expected) = (self.entries[index].connection, self.entries[index].expected);
        self.waiting -= 1;
        match self.entries[index].queue() {
            EntryQueues::Fair(lane) => {
                self.flows.begin(connection, lane, &mut self.entries, index, expected);
                lane
            }
            EntryQueues::Arrivals => {
                self.arrivals.remove(&mut self.entries, index);
                self.flows.charge(connection, expected);
                ConnectionLane::Live
            }
        }
    }

    /// Removes an entry from its queue permanently.
    fn unqueue(&mut self, index: usize) {
        let connection = self.entries[index].connection;
        self.waiting -= 1;
        match self.entries[index].queue() {
            EntryQueues::Fair(lane) => self.flows.leave(connection, lane, &mut self.entries, index),
            EntryQueues::Arrivals => self.arrivals.remove(&mut self.entries, index),
        }
    }

    /// Moves a waiting entry to the front of its connection.
    fn put_first(&mut self, index: usize) {
        let entry = &mut self.entries[index];
        entry.turn = ExclusiveTurn::Queued(EntryQueues::Fair(ConnectionLane::Ending));
        let connection = entry.connection;
        self.flows.put_first(connection, &mut self.entries, index);
        self.expect_end(index);
    }

    /// Records that an entry must stop, which takes little time.
    fn expect_end(&mut self, index: usize) {
        let entry = &mut self.entries[index];
        entry.is_hurried = true;
        entry.expected = entry.expected.min(ENDING_NS);
        let (before, after) = (entry.remaining, entry.remaining.min(ENDING_NS));
        entry.remaining = after;
        self.flows.expect(entry.connection, before, after);
    }

    /// Settles the cost of a slice.
    fn settle(&mut self, hand: SliceHandle, outcome: SliceOutcome, cost: u64, now: Instant) {
        let entry = &mut self.entries[hand.ticket.index];
        let counted = cost.min(EXPECTED_MAX_NS);
        entry.expected = counted;
        entry.used += counted;
        let least = if outcome == SliceOutcome::More { counted } else { 0 };
        let (before, after) = (entry.remaining, entry.remaining.saturating_sub(counted).max(least));
        entry.remaining = after;
        self.flows.settle(entry.connection, hand.lane, SettledSlice { expected: hand.expected, cost, before, after });
        self.estimate.note(counted, self.waiting > 0, now);
        if outcome == SliceOutcome::Done {
            self.learn(hand.ticket.index, now);
        }
    }

    /// Updates the expected cost of such jobs with a finished job. One that had to stop cost less than a complete one.
    fn learn(&mut self, index: usize, now: Instant) {
        let entry = &self.entries[index];
        let costs = self.flows.costs_mut(entry.connection);
        let bytes = entry.receipt.bytes;
        let is_whole = !entry.is_hurried && entry.cancellation.check(now).is_ok();
        if is_whole || entry.used > self.estimate.cost(*costs, bytes) {
            self.estimate.learn(costs, bytes, entry.used);
        }
    }

    /// Removes an entry from everything but the ledger.
    fn remove(&mut self, index: usize, end: EntryEnd) -> EndedEntry<T> {
        let entry = self.entries.remove(index);
        if let Some(deadline) = entry.deadline {
            self.deadlines.remove(&(deadline, index));
        }
        self.flows.expect(entry.connection, entry.remaining, 0);
        self.flows.exit(entry.connection);
        EndedEntry { item: entry.item, end, receipt: entry.receipt }
    }
}

fn path(admission: &Admission) -> FlowPath {
    [admission.tenant, admission.client, admission.connection]
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod simulation;
#[cfg(test)]
mod tests;
