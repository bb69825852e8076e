//! Virtual users on one connection: starts them when they are due, sends the requests of their flows, and records the results.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::rc::Rc;
use std::time::Duration;

use leafseal_client::ClientError;
use leafseal_client::raw::{Message, RawConnection};
use slab::Slab;
use tokio::sync::watch;

use super::schedule::{ArrivalTurns, Draw, Schedule, TimedPhase};
use super::{Connect, SharedRun};
use crate::driver::answer_size;
use crate::error::LoadError;
use crate::scenario::{FlowPosition, NextAction, PhaseLoad};
use crate::timer::Timer;

/// One answer in this many is checked value by value; for the others only the size is checked.
const CHECK_EVERY: u64 = 64;
/// The pause after a connection failed or was replaced.
const RECONNECT_PAUSE: Duration = Duration::from_millis(100);

/// The engine's error for a cancelled request.
pub const CANCELLED: &str = "cancelled";

/// Codes of failures that are not answers of the engine.
pub(super) mod code {
    /// The connection broke while the request was in flight.
    pub(crate) const LOST: &str = "connection_lost";
    /// No connection was available.
    pub(crate) const NOT_CONNECTED: &str = "connect_failed";
    /// The answer has unexpected content or size.
    pub(crate) const WRONG: &str = "wrong_answer";
    /// No answer arrived in time.
    pub(crate) const MISSING: &str = "no_answer";
}

/// The source of a connection's users.
pub(super) enum UserSource {
    /// The schedule that all connections of open phases share.
    Open(Box<ArrivalTurns>),
    /// One user at a time, restarted until each phase is over.
    Closed { stretches: VecDeque<TimedPhase>, draw: Draw },
}

impl UserSource {
    /// The arrivals of connection `place` of `places`.
    pub(super) fn open(schedule: Schedule, place: usize, places: usize) -> Self {
        UserSource::Open(Box::new(ArrivalTurns::new(schedule, place, places)))
    }

    /// The closed phases that have a connection with index `place`.
    pub(super) fn closed(stretches: &[TimedPhase], place: usize, draw: Draw) -> Self {
        let is_here = |stretch: &&TimedPhase| match stretch.load {
            PhaseLoad::Closed { connections } => place < connections,
            PhaseLoad::Open { .. } | PhaseLoad::Pause => false,
        };
        UserSource::Closed { stretches: stretches.iter().filter(is_here).cloned().collect(), draw }
    }
}

/// An active user.
struct User {
    scenario: usize,
    cursor: FlowPosition,
}

/// A request in flight.
#[derive(Clone, Copy)]
struct RequestInFlight {
    user: usize,
    series: usize,
    kind: usize,
    due: Duration,
    /// Distinguishes it from earlier requests with the same id.
    number: u64,
}

/// A scheduled task.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum UserTask {
    /// A user continues.
    Go(usize),
    /// A request is cancelled if it is still in flight: its id and number.
    Cancel(usize, u64),
    /// A user of a closed phase starts.
    Begin,
}

/// The event that the connection waited for.
enum ConnectionEvent<T> {
    Frame(T),
    /// A frame of the connection that the engine is closing.
    DrainingFrame(T),
    Time,
    Stop,
}

/// One connection with its users.
pub(super) struct Users<C: Connect> {
    shared: Rc<SharedRun>,
    connect: Rc<C>,
    connection: Option<RawConnection<C::Stream>>,
    /// The previous connection, which the engine is closing, until the requests on it are answered.
    draining: Option<Draining<C::Stream>>,
    /// No connection attempt is made before this.
    retry_at: Duration,
    state: UserState,
    timer: Timer,
    stop: watch::Receiver<bool>,
}

/// A connection on which nothing more is sent.
struct Draining<S> {
    connection: RawConnection<S>,
    /// The number of the last request that was sent on it.
    last: u64,
}

/// Everything but the connection.
struct UserState {
    shared: Rc<SharedRun>,
    source: UserSource,
    users: Slab<User>,
    requests: Slab<RequestInFlight>,
    tasks: BinaryHeap<Reverse<(Duration, UserTask)>>,
    /// Number of requests sent.
    number: u64,
    answers: u64,
}

/// An answer whose frame has been checked.
struct CheckedAnswer {
    request: RequestInFlight,
    /// The code if the request failed.
    outcome: Result<(), String>,
}

impl<C: Connect> Users<C> {
    pub(super) fn new(
        shared: Rc<SharedRun>,
        connect: Rc<C>,
        connection: RawConnection<C::Stream>,
        source: UserSource,
        stop: watch::Receiver<bool>,
    ) -> Result<Self, LoadError> {
        let timer = Timer::new().map_err(|error| LoadError::system("a timer", error))?;
        let mut state = UserState {
            shared: Rc::clone(&shared),
            source,
            users: Slab::new(),
            requests: Slab::new(),
            tasks: BinaryHeap::new(),
            number: 0,
            answers: 0,
        };
        state.await_stretch(Duration::ZERO);
        Ok(Users {
            shared,
            connect,
            connection: Some(connection),
            draining: None,
            retry_at: Duration::ZERO,
            state,
            timer,
            stop,
        })
    }

    /// Runs until the last phase is over and all requests are sent and answered or timed out. Returns the number of
    /// requests in flight when it was stopped.
    pub(super) async fn drive(mut self) -> Result<u64, LoadError> {
        let end = self.shared.end + self.shared.answer_timeout;
        loop {
            if *self.stop.borrow() {
                return Ok(self.state.requests.len() as u64);
            }
            let now = self.shared.now();
            let needs_another = match &self.connection {
                None => true,
                Some(connection) => connection.is_draining() && self.draining.is_none(),
            };
            if needs_another && now >= self.retry_at && now < end {
                self.reconnect().await;
                continue;
            }
            self.do_what_is_due(now);
            if now >= end {
                self.state.fail(code::MISSING, now, |_| true);
                return Ok(0);
            }
            let next = self.state.next_moment();
            // Phases last as long as they say, whatever is left to do in them.
            let phases_end = (now < self.shared.end).then_some(self.shared.end);
            if next.is_none() && self.state.requests.is_empty() && phases_end.is_none() {
                return Ok(0);
            }
            let retry = needs_another.then_some(self.retry_at);
            let wake = [next, retry, phases_end, Some(end)].into_iter().flatten().min().expect("at least the end");
            self.wait(wake).await?;
        }
    }

    async fn wait(&mut self, wake: Duration) -> Result<(), LoadError> {
        let moment = self.shared.began.get() + wake;
        let (connection, draining) =
            (self.connection.as_mut(), self.draining.as_mut().map(|draining| &mut draining.connection));
        let event = tokio::select! {
            frame = next_frame(connection) => ConnectionEvent::Frame(frame),
            frame = next_frame(draining) => ConnectionEvent::DrainingFrame(frame),
            waited = self.timer.wait_until(moment) => {
                waited.map_err(|error| LoadError::system("a timer", error))?;
                ConnectionEvent::Time
            }
            () = stopped(&mut self.stop) => ConnectionEvent::Stop,
        };
        match event {
            ConnectionEvent::Frame(Ok(frame)) => {
                let now = self.shared.now();
                let judged = self.state.judge(frame, now)?;
                match judged {
                    Some(judged) => self.state.settle(&judged, now, &mut self.connection),
                    // The engine announces that it will close the connection.
                    None => self.lose(),
                }
            }
            ConnectionEvent::DrainingFrame(Ok(frame)) => {
                let now = self.shared.now();
                match self.state.judge(frame, now)? {
                    Some(judged) => self.state.settle(&judged, now, &mut self.connection),
                    None => self.lose_draining(),
                }
            }
            ConnectionEvent::Frame(Err(_)) => self.lose(),
            ConnectionEvent::DrainingFrame(Err(_)) => self.lose_draining(),
            ConnectionEvent::Time | ConnectionEvent::Stop => {}
        }
        if self.draining.as_ref().is_some_and(|draining| !self.state.has_any(|number| number <= draining.last)) {
            self.draining = None;
        }
        Ok(())
    }

    /// Drops the connection and fails the requests in flight on it.
    fn lose(&mut self) {
        self.connection = None;
        self.retry_at = Duration::ZERO;
        let (now, last) = (self.shared.now(), self.draining.as_ref().map(|draining| draining.last));
        self.state.fail(code::LOST, now, |number| last.is_none_or(|last| number > last));
    }

    /// Drops the previous connection and fails the requests in flight on it.
    fn lose_draining(&mut self) {
        if let Some(Draining { last, .. }) = self.draining.take() {
            self.state.fail(code::LOST, self.shared.now(), |number| number <= last);
        }
    }

    /// Opens a connection, and replaces one that the engine is closing. Users due meanwhile wait, and their latency grows.
    async fn reconnect(&mut self) {
        let mut stop = self.stop.clone();
        tokio::select! {
            made = self.connect.connect() => match made {
                Ok(connection) => {
                    let last = self.state.number;
                    self.draining = self.connection.replace(connection).map(|connection| Draining { connection, last });
                    // Limits reconnects if the engine closes each connection immediately.
                    self.retry_at = self.shared.now() + RECONNECT_PAUSE;
                }
                Err(_) => self.retry_at = self.shared.now() + RECONNECT_PAUSE,
            },
            () = stopped(&mut stop) => {}
        }
    }

    fn do_what_is_due(&mut self, now: Duration) {
        let Users { state, connection, draining, retry_at, .. } = self;
        while let Some((due, scenario)) = state.arrival(now) {
            state.begin(scenario, due, now, connection);
        }
        while let Some(Reverse((due, task))) = state.tasks.peek().copied()
            && due <= now
        {
            state.tasks.pop();
            match task {
                UserTask::Go(user) => state.advance(user, due, now, connection),
                UserTask::Cancel(id, number) => {
                    let is_in_flight = state.requests.get(id).is_some_and(|request| request.number == number);
                    let of_it = match draining {
                        Some(draining) if number <= draining.last => Some(&mut draining.connection),
                        _ => connection.as_mut(),
                    };
                    if let Some(connection) = of_it.filter(|_| is_in_flight) {
                        connection.cancel(id_on_the_wire(id));
                    }
                }
                // Without a connection it would fail repeatedly.
                UserTask::Begin if connection.is_none() => state.tasks.push(Reverse((now.max(*retry_at), task))),
                UserTask::Begin => state.begin_closed(due, now, connection),
            }
            if connection.is_none() && task == UserTask::Begin {
                break;
            }
        }
    }
}

/// Returns the next message of a connection; pending forever without one.
async fn next_frame<S: crate::driver::LoadStream>(
    connection: Option<&mut RawConnection<S>>,
) -> Result<&[u8], ClientError> {
    match connection {
        Some(connection) => connection.next().await,
        None => std::future::pending().await,
    }
}

/// Waits until the run is stopped; forever if the sender is gone.
async fn stopped(stop: &mut watch::Receiver<bool>) {
    if stop.changed().await.is_err() {
        std::future::pending().await
    }
}

/// Request ids are indexes of a slab: small ones are reused first.
fn id_on_the_wire(id: usize) -> u32 {
    u32::try_from(id).expect("far fewer requests are under way")
}

impl UserState {
    /// Returns the next user of an open phase, if it is due: its due time and scenario.
    fn arrival(&mut self, now: Duration) -> Option<(Duration, usize)> {
        let UserSource::Open(turns) = &mut self.source else { return None };
        loop {
            let arrival = turns.take_due(now)?;
            let users_max = self.shared.users_max[arrival.phase];
            let mut record = self.shared.record.borrow_mut();
            if record.present < users_max {
                return Some((arrival.due, arrival.scenario));
            }
            record.users[arrival.scenario].skipped += 1;
        }
    }

    /// Returns the time of the next arrival or task.
    fn next_moment(&self) -> Option<Duration> {
        let arrival = match &self.source {
            UserSource::Open(turns) => turns.peek().map(|arrival| arrival.due),
            UserSource::Closed { .. } => None,
        };
        let task = self.tasks.peek().map(|Reverse((due, _))| *due);
        [arrival, task].into_iter().flatten().min()
    }

    /// Schedules the next user of the current or next closed phase.
    fn await_stretch(&mut self, now: Duration) {
        let UserSource::Closed { stretches, .. } = &mut self.source else { return };
        while stretches.front().is_some_and(|stretch| stretch.end <= now) {
            stretches.pop_front();
        }
        if let Some(stretch) = stretches.front() {
            self.tasks.push(Reverse((stretch.begin.max(now), UserTask::Begin)));
        }
    }

    fn begin_closed<S: crate::driver::LoadStream>(
        &mut self,
        due: Duration,
        now: Duration,
        connection: &mut Option<RawConnection<S>>,
    ) {
        let UserSource::Closed { stretches, draw } = &mut self.source else { return };
        if stretches.front().is_some_and(|stretch| now < stretch.end) {
            let scenario = draw.draw();
            self.begin(scenario, due, now, connection);
        } else {
            self.await_stretch(now);
        }
    }

    fn begin<S: crate::driver::LoadStream>(
        &mut self,
        scenario: usize,
        due: Duration,
        now: Duration,
        connection: &mut Option<RawConnection<S>>,
    ) {
        {
            let mut record = self.shared.record.borrow_mut();
            record.users[scenario].created += 1;
            record.present += 1;
        }
        let user = self.users.insert(User { scenario, cursor: FlowPosition::default() });
        self.advance(user, due, now, connection);
    }

    /// Executes the next step of a user, which is due at `due`.
    fn advance<S: crate::driver::LoadStream>(
        &mut self,
        user: usize,
        due: Duration,
        now: Duration,
        connection: &mut Option<RawConnection<S>>,
    ) {
        let shared = Rc::clone(&self.shared);
        let User { scenario, cursor } = &mut self.users[user];
        match cursor.advance(&shared.script.scenarios[*scenario].flow) {
            NextAction::Think(time) => self.tasks.push(Reverse((due + time, UserTask::Go(user)))),
            NextAction::Done => self.leave(user, true, now),
            NextAction::Send(kind) => {
                let series = shared.series_of(*scenario, kind);
                shared.record.borrow_mut().sent(due);
                let Some(connection) = connection else {
                    shared.record.borrow_mut().failed(series, code::NOT_CONNECTED, due, now);
                    return self.leave(user, false, now);
                };
                self.number += 1;
                let id = self.requests.insert(RequestInFlight { user, series, kind, due, number: self.number });
                connection.send(id_on_the_wire(id), &shared.prepared[kind].request);
                if let Some(time) = shared.script.kinds[kind].cancel_after {
                    self.tasks.push(Reverse((now + time, UserTask::Cancel(id, self.number))));
                }
            }
        }
    }

    /// Removes a user that completed its flow or failed.
    fn leave(&mut self, user: usize, is_done: bool, now: Duration) {
        let User { scenario, .. } = self.users.remove(user);
        {
            let mut record = self.shared.record.borrow_mut();
            record.present -= 1;
            let users = &mut record.users[scenario];
            *(if is_done { &mut users.completed } else { &mut users.failed }) += 1;
        }
        if matches!(self.source, UserSource::Closed { .. }) {
            self.await_stretch(now);
        }
    }

    /// Matches a frame to its request and checks it. Returns `None` if it is not an answer but announces that the engine will close
    /// the connection.
    fn judge(&mut self, frame: &[u8], now: Duration) -> Result<Option<CheckedAnswer>, LoadError> {
        let (id, outcome) = match Message::parse(frame) {
            Ok(Message::Response { id, result: Ok(_) }) => (id, Ok(())),
            Ok(Message::Response { id, result: Err(error) }) => {
                let code = error.error().map_or_else(|_| code::WRONG.to_owned(), |error| error.code.to_owned());
                (id, Err(code))
            }
            Ok(Message::Notification { .. }) => return Ok(None),
            Ok(Message::Request { .. }) => return Err(LoadError::wrong("a request")),
            Err(error) => return Err(LoadError::wrong(format!("no message: {error}"))),
        };
        let place = usize::try_from(id).unwrap_or(usize::MAX);
        let Some(request) = self.requests.try_remove(place) else {
            return Err(LoadError::wrong(format!("the engine answered id {id}, which is not in flight")));
        };
        let outcome = outcome.and_then(|()| {
            self.answers += 1;
            let prepared = &self.shared.prepared[request.kind];
            let is_expected = answer_size(frame, id) == prepared.answer_size;
            if is_expected && !self.answers.is_multiple_of(CHECK_EVERY) {
                return Ok(());
            }
            prepared.check(frame, &self.shared.script.kinds[request.kind]).map_err(|_| code::WRONG.to_owned())
        });
        let mut record = self.shared.record.borrow_mut();
        match &outcome {
            Ok(()) => record.answered(request.series, request.due, now),
            Err(code) => record.failed(request.series, code, request.due, now),
        }
        Ok(Some(CheckedAnswer { request, outcome }))
    }

    /// Continues or ends the user of an answered request.
    fn settle<S: crate::driver::LoadStream>(
        &mut self,
        judged: &CheckedAnswer,
        now: Duration,
        connection: &mut Option<RawConnection<S>>,
    ) {
        let CheckedAnswer { request, outcome } = judged;
        let is_asked_for = self.shared.script.kinds[request.kind].cancel_after.is_some();
        match outcome {
            Err(code) if !(is_asked_for && code == CANCELLED) => self.leave(request.user, false, now),
            _ => self.advance(request.user, now, now, connection),
        }
    }

    /// Whether the number of any request in flight matches.
    fn has_any(&self, such: impl Fn(u64) -> bool) -> bool {
        self.requests.iter().any(|(_, request)| such(request.number))
    }

    /// Ends the requests in flight whose number matches with this error.
    fn fail(&mut self, code: &str, now: Duration, such: impl Fn(u64) -> bool) {
        let ids: Vec<usize> =
            self.requests.iter().filter(|(_, request)| such(request.number)).map(|(id, _)| id).collect();
        let requests: Vec<RequestInFlight> = ids.into_iter().map(|id| self.requests.remove(id)).collect();
        for request in requests {
            self.shared.record.borrow_mut().failed(request.series, code, request.due, now);
            self.leave(request.user, false, now);
        }
    }
}
