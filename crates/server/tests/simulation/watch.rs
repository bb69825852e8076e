//! Observes the server from both sides: the messages that it reads and writes, and the requests that its workers run. Violations are
//! collected for the driver of the schedule, because a panic within a slice would only end the request.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::AddAssign;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Instant;

use leafseal_engine::pool::Cancellation;
use leafseal_protocol::{CANCEL, Message, Retry, decode_cancel};

use crate::shares::{Flow, Served, Shares};

/// Identifies a request within a schedule.
pub(crate) type Number = u64;

/// The kind of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Work,
    /// Plans a part, with which the same worker then begins.
    Plan,
}

#[derive(Default)]
pub(crate) struct Watch {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Whether stopped requests must leave first in their connection, and within its fair share.
    is_prompt: bool,
    workers: usize,
    next: Number,
    /// Requests that have not been dropped.
    live: BTreeMap<Number, Live>,
    parts: usize,
    /// The steps of the running slices, the outermost first.
    inside: Vec<(Number, Step)>,
    shares: Shares,
    connections: BTreeMap<u64, Connection>,
    /// The executions of clients' calls, by the calls' numbers.
    executions: BTreeMap<usize, Vec<Execution>>,
    breach: Option<String>,
    seen: Seen,
}

/// Counts of the server's events.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Seen {
    pub steps: u64,
    /// Slices nested in others: two workers at the same time.
    pub nested: u64,
    /// Requests stopped before they were done: by `cancel` or the end of their connection, or by their deadline; and those among them that
    /// a worker was running.
    pub cancelled: u64,
    pub late: u64,
    pub in_hand: u64,
    /// Calls that an engine started after another had refused them.
    pub again: u64,
}

/// A call that an engine has started.
struct Execution {
    connection: u64,
    id: u32,
    /// It was answered with advice to retry.
    is_refused: bool,
}

struct Live {
    flow: Flow,
    id: u32,
    cancellation: Arc<Cancellation>,
    /// Set once it has been cancelled or is late.
    stopped: Option<Stopped>,
}

struct Stopped {
    /// Steps that may still begin: one for each worker that was planning, because planning and working are one slice.
    steps_left: usize,
    /// Set by the first slice that starts while no worker runs the request, because then the pool checks the deadlines.
    waiting: Option<Waiting>,
}

/// A stopped request that waits for its last slice.
struct Waiting {
    /// The service of all flows until then.
    since: Served,
    /// Live requests of its connection that may still run before it: the pool prioritizes at most [`HURRIED_MAX`] late ones at a time.
    passes_left: usize,
}

/// The number of late requests that the pool prioritizes in their connections at a time.
const HURRIED_MAX: usize = 4;

#[derive(Default)]
struct Connection {
    /// Requests that the server has read and not answered.
    unanswered: BTreeSet<u32>,
    /// Cancels read since the last check.
    cancels: Vec<u32>,
    /// Everything that the client sent has arrived.
    has_ended: bool,
}

impl Watch {
    pub(crate) fn new(workers: usize, is_prompt: bool) -> Watch {
        Watch { state: Mutex::new(State { workers, is_prompt, ..State::default() }) }
    }

    pub(crate) fn seen(&self) -> Seen {
        self.lock().seen
    }

    /// Panics if there was any violation.
    pub(crate) fn assert_sound(&self) {
        let breach = self.lock().breach.clone();
        assert_eq!(breach, None);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    /// Records that the server has read a message.
    pub(crate) fn note_read(&self, connection: u64, message: &Message<'_>) {
        let mut state = self.lock();
        let connection = state.connections.entry(connection).or_default();
        match *message {
            Message::Request { id, .. } => drop(connection.unanswered.insert(id)),
            Message::Notification { method: CANCEL, params } => {
                connection.cancels.push(decode_cancel(params).expect("an id"));
            }
            _ => {}
        }
    }

    /// Records that the server has written a message: the only answer to a request that it has read.
    pub(crate) fn note_answer(&self, connection: u64, message: &Message<'_>) {
        let Message::Response { id, result } = *message else { return };
        let mut state = self.lock();
        let is_refused = result.is_err_and(|error| error.error().expect("an error object").retry != Retry::Never);
        for execution in state.executions.values_mut().flatten() {
            execution.is_refused |= is_refused && execution.connection == connection && execution.id == id;
        }
        if !state.connections.entry(connection).or_default().unanswered.remove(&id) {
            state.fail(format!("connection {connection} got an answer to {id}, which was not in flight"));
        }
    }

    /// Records that everything that the client sent has arrived.
    pub(crate) fn note_end(&self, connection: u64) {
        self.lock().connections.entry(connection).or_default().has_ended = true;
    }

    /// Records that an engine starts a request, that of the client's `call`. It must not be running already, nor have finished: a client
    /// retries a call only if an engine permitted it, or has not started it.
    pub(crate) fn begin(&self, flow: Flow, id: u32, call: Option<usize>, cancellation: Arc<Cancellation>) -> Number {
        let mut state = self.lock();
        let number = state.next;
        state.next += 1;
        if let Some(call) = call {
            let before = state.executions.entry(call).or_default();
            let is_safe = before.iter().all(|execution| execution.is_refused);
            let is_again = !before.is_empty();
            before.push(Execution { connection: flow.connection, id, is_refused: false });
            state.seen.again += u64::from(is_again);
            if !is_safe {
                state.fail(format!("call {call} is executed twice"));
            }
        }
        state.live.insert(number, Live { flow, id, cancellation, stopped: None });
        number
    }

    pub(crate) fn end(&self, number: Number) {
        self.lock().live.remove(&number);
    }

    pub(crate) fn begin_part(&self) {
        self.lock().parts += 1;
    }

    pub(crate) fn end_part(&self) {
        self.lock().parts -= 1;
    }

    /// Records the start of a step, which must not belong to a stopped request.
    pub(crate) fn enter(&self, number: Number, step: Step, now: Instant) {
        let mut state = self.lock();
        state.look(now);
        state.seen.steps += 1;
        state.pass(number, now);
        state.inside.push((number, step));
        match state.live.get_mut(&number) {
            Some(Live { stopped: None, .. }) => return,
            Some(Live { stopped: Some(stopped), .. }) if stopped.steps_left > 0 => {
                stopped.steps_left -= 1;
                return;
            }
            _ => {}
        }
        state.fail(format!("a step of request {number} began after it was stopped"));
    }

    pub(crate) fn leave(&self) {
        self.lock().inside.pop();
    }

    /// The number of running slices.
    pub(crate) fn depth(&self) -> usize {
        self.lock().inside.len()
    }

    /// Records which requests have been stopped since the last check.
    pub(crate) fn look(&self, now: Instant) {
        self.lock().look(now);
    }

    /// Records that a worker is about to take a slice of one of the `held` requests.
    pub(crate) fn begin_slice(&self, held: usize, now: Instant) {
        let mut state = self.lock();
        state.look(now);
        state.begin_slice(held);
        state.shares.begin_slice(now);
    }

    /// Records that a worker has run a slice; `has_run` is false if there was none.
    pub(crate) fn end_slice(&self, has_run: bool, now: Instant) {
        let mut state = self.lock();
        state.shares.end_slice(now);
        state.seen.nested += u64::from(has_run && !state.inside.is_empty());
    }

    /// Checks the connections. `is_parked` returns those that are idle: they have processed everything they received.
    pub(crate) fn look_at_connections(&self, is_roomy: bool, is_parked: impl Fn(u64) -> bool) {
        let mut guard = self.lock();
        let state = &mut *guard;
        let mut forgotten = None;
        for (&number, connection) in state.connections.iter_mut().filter(|(number, _)| is_parked(**number)) {
            let cancels = std::mem::take(&mut connection.cancels);
            let is_wanted = |live: &Live| live.flow.connection == number && live.cancellation.reason().is_none();
            let mut wanted = state.live.values().filter(|live| is_wanted(live));
            let is_breach = |live: &Live| connection.has_ended || (is_roomy && cancels.contains(&live.id));
            forgotten = forgotten.or_else(|| wanted.find(|live| is_breach(live)).map(|live| (number, live.id)));
        }
        if let Some((connection, id)) = forgotten {
            state.fail(format!("connection {connection} continues with {id}, whose caller no longer waits"));
        }
    }

    /// Checks that neither a worker nor a connection has anything to do.
    pub(crate) fn look_at_rest(&self) {
        let mut state = self.lock();
        if let Some((number, live)) = state.live.first_key_value() {
            let breach = format!("request {number} of connection {} lies about", live.flow.connection);
            state.fail(breach);
        }
    }

    /// Checks that nothing is left.
    pub(crate) fn assert_empty(&self) {
        let state = self.lock();
        assert_eq!((state.live.len(), state.parts), (0, 0), "requests and parts that were not dropped");
    }
}

impl State {
    fn fail(&mut self, breach: String) {
        self.breach.get_or_insert(breach);
    }

    fn look(&mut self, now: Instant) {
        let State { live, inside, seen, .. } = self;
        let newly = |live: &Live| live.stopped.is_none() && live.cancellation.check(now).is_err();
        for (number, live) in live.iter_mut().filter(|(_, live)| newly(live)) {
            let steps_left = inside.iter().filter(|step| **step == (*number, Step::Plan)).count();
            match live.cancellation.reason() {
                Some(_) => seen.cancelled += 1,
                None => seen.late += 1,
            }
            seen.in_hand += u64::from(inside.iter().any(|(other, _)| other == number));
            live.stopped = Some(Stopped { steps_left, waiting: None });
        }
    }

    fn begin_slice(&mut self, held: usize) {
        let State { live, inside, shares, .. } = self;
        for (number, live) in live.iter_mut() {
            let is_inside = inside.iter().any(|(other, _)| other == number);
            if let Some(stopped) = live.stopped.as_mut().filter(|_| !is_inside) {
                let waiting = || Waiting { since: shares.served(), passes_left: held / HURRIED_MAX };
                stopped.waiting.get_or_insert_with(waiting);
            }
        }
    }

    /// Records that a worker has taken a live request: it may not pass stopped ones by more than is fair.
    fn pass(&mut self, number: Number, now: Instant) {
        let Some(flow) = self.live.get(&number).map(|live| live.flow.clone()) else { return };
        if !self.shares.begin_step(&flow) || !self.is_prompt {
            return;
        }
        // Each worker may have taken a slice for one flow and for the other that was not expected to be long.
        let lead_max_ns = (2 * self.workers as u64 + 1) * self.shares.longest_ns(now);
        let mut breach = None;
        for (passed, live) in self.live.iter_mut().filter(|(passed, _)| **passed != number) {
            let is_inside = self.inside.iter().any(|(other, _)| other == passed);
            let Some(waiting) = live.stopped.as_mut().and_then(|stopped| stopped.waiting.as_mut()) else { continue };
            if is_inside {
                continue;
            }
            let lead_ns = self.shares.lead_ns(&flow, &live.flow, &waiting.since);
            if flow == live.flow && waiting.passes_left == 0 {
                breach = Some(format!("request {number} goes before {passed} of its connection, which was stopped"));
            } else if flow == live.flow {
                waiting.passes_left -= 1;
            } else if lead_ns > lead_max_ns {
                breach = Some(format!("{number} got {lead_ns} ns while {passed} was stopped; fair is {lead_max_ns}"));
            }
        }
        if let Some(breach) = breach {
            self.fail(breach);
        }
    }
}

impl AddAssign for Seen {
    fn add_assign(&mut self, other: Seen) {
        self.steps += other.steps;
        self.nested += other.nested;
        self.cancelled += other.cancelled;
        self.late += other.late;
        self.in_hand += other.in_hand;
        self.again += other.again;
    }
}
