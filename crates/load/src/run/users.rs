//! Virtual users on one connection: starts them when they are due, sends the requests of their flows, and records the results.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::rc::Rc;
use std::time::Duration;

use fieldseal_client::ClientError;
use fieldseal_client::raw::{Message, RawConnection};
use slab::Slab;
use tokio::sync::watch;

use super::schedule::{Draw, Schedule, Stretch, Turns};
use super::{Connect, Shared};
use crate::driver::answer_size;
use crate::error::LoadError;
use crate::scenario::{Cursor, Next, PhaseLoad};
use crate::timer::Timer;

/// One answer in this many is checked value by value; of the others the size.
const CHECK_EVERY: u64 = 64;
/// The pause after a connection could not be made, or was replaced.
const RECONNECT_PAUSE: Duration = Duration::from_millis(100);

/// The engine's error for a cancelled request.
pub const CANCELLED: &str = "cancelled";

/// Codes of what is no answer of the engine.
pub(super) mod code {
    /// The connection broke while the request was under way.
    pub const LOST: &str = "connection_lost";
    /// There was no connection to send it on.
    pub const NOT_CONNECTED: &str = "connect_failed";
    /// The answer is not what it must be.
    pub const WRONG: &str = "wrong_answer";
    /// It did not come.
    pub const MISSING: &str = "no_answer";
}

/// Where the users of a connection come from.
pub(super) enum Source {
    /// Those of a schedule that all connections of open phases share.
    Open(Box<Turns>),
    /// One at a time, restarted until each stretch is over.
    Closed { stretches: VecDeque<Stretch>, draw: Draw },
}

impl Source {
    /// The arrivals of connection `place` of `places`.
    pub(super) fn open(schedule: Schedule, place: usize, places: usize) -> Self {
        Source::Open(Box::new(Turns::new(schedule, place, places)))
    }

    /// The closed phases that have a connection at this place.
    pub(super) fn closed(stretches: &[Stretch], place: usize, draw: Draw) -> Self {
        let is_here = |stretch: &&Stretch| match stretch.load {
            PhaseLoad::Closed { connections } => place < connections,
            PhaseLoad::Open { .. } | PhaseLoad::Pause => false,
        };
        Source::Closed { stretches: stretches.iter().filter(is_here).cloned().collect(), draw }
    }
}

/// A user that is there.
struct User {
    scenario: usize,
    cursor: Cursor,
}

/// A request under way.
#[derive(Clone, Copy)]
struct InFlight {
    user: usize,
    series: usize,
    kind: usize,
    due: Duration,
    /// Tells it from others that had the same id.
    number: u64,
}

/// Something that is to be done later.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Task {
    /// A user continues.
    Go(usize),
    /// A request is cancelled, if it is still under way: its id and number.
    Cancel(usize, u64),
    /// A user of a closed phase begins.
    Begin,
}

/// The event that the connection waited for.
enum Event<T> {
    Frame(T),
    /// Of the connection that the engine leaves.
    LeftFrame(T),
    Time,
    Stop,
}

/// One connection with its users.
pub(super) struct Users<C: Connect> {
    shared: Rc<Shared>,
    connect: Rc<C>,
    connection: Option<RawConnection<C::Stream>>,
    /// The connection before it, which the engine leaves, while requests on it are not answered.
    left: Option<Left<C::Stream>>,
    /// Before this no connection is tried again.
    retry_at: Duration,
    state: State,
    timer: Timer,
    stop: watch::Receiver<bool>,
}

/// A connection on which nothing more is sent.
struct Left<S> {
    connection: RawConnection<S>,
    /// The number of the last request that was sent on it.
    last: u64,
}

/// Everything but the connection.
struct State {
    shared: Rc<Shared>,
    source: Source,
    users: Slab<User>,
    requests: Slab<InFlight>,
    tasks: BinaryHeap<Reverse<(Duration, Task)>>,
    /// Requests that were sent so far.
    number: u64,
    answers: u64,
}

/// An answer, once its frame is judged.
struct Judged {
    request: InFlight,
    /// The code where it is no good answer.
    outcome: Result<(), String>,
}

impl<C: Connect> Users<C> {
    pub(super) fn new(
        shared: Rc<Shared>,
        connect: Rc<C>,
        connection: RawConnection<C::Stream>,
        source: Source,
        stop: watch::Receiver<bool>,
    ) -> Result<Self, LoadError> {
        let timer = Timer::new().map_err(|error| LoadError::system("a timer", error))?;
        let mut state = State {
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
            left: None,
            retry_at: Duration::ZERO,
            state,
            timer,
            stop,
        })
    }

    /// Until all is sent and answered, or nothing more is waited for; how many requests were still under way when it was stopped.
    pub(super) async fn drive(mut self) -> Result<u64, LoadError> {
        let end = self.shared.end + self.shared.answer_timeout;
        loop {
            if *self.stop.borrow() {
                return Ok(self.state.requests.len() as u64);
            }
            let now = self.shared.now();
            let needs_another = match &self.connection {
                None => true,
                Some(connection) => connection.is_left() && self.left.is_none(),
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
            if next.is_none() && self.state.requests.is_empty() {
                return Ok(0);
            }
            let retry = needs_another.then_some(self.retry_at);
            let wake = [next, retry, Some(end)].into_iter().flatten().min().expect("at least the end");
            self.wait(wake).await?;
        }
    }

    async fn wait(&mut self, wake: Duration) -> Result<(), LoadError> {
        let moment = self.shared.began.get() + wake;
        let (connection, left) = (self.connection.as_mut(), self.left.as_mut().map(|left| &mut left.connection));
        let event = tokio::select! {
            frame = next_frame(connection) => Event::Frame(frame),
            frame = next_frame(left) => Event::LeftFrame(frame),
            waited = self.timer.wait_until(moment) => {
                waited.map_err(|error| LoadError::system("a timer", error))?;
                Event::Time
            }
            () = told_to_stop(&mut self.stop) => Event::Stop,
        };
        match event {
            Event::Frame(Ok(frame)) => {
                let now = self.shared.now();
                let judged = self.state.judge(frame, now)?;
                match judged {
                    Some(judged) => self.state.settle(&judged, now, &mut self.connection),
                    // The engine announces that it will close the connection.
                    None => self.lose(),
                }
            }
            Event::LeftFrame(Ok(frame)) => {
                let now = self.shared.now();
                match self.state.judge(frame, now)? {
                    Some(judged) => self.state.settle(&judged, now, &mut self.connection),
                    None => self.lose_left(),
                }
            }
            Event::Frame(Err(_)) => self.lose(),
            Event::LeftFrame(Err(_)) => self.lose_left(),
            Event::Time | Event::Stop => {}
        }
        if self.left.as_ref().is_some_and(|left| !self.state.has_any(|number| number <= left.last)) {
            self.left = None;
        }
        Ok(())
    }

    /// The connection is no more: what was under way on it has failed.
    fn lose(&mut self) {
        self.connection = None;
        self.retry_at = Duration::ZERO;
        let (now, last) = (self.shared.now(), self.left.as_ref().map(|left| left.last));
        self.state.fail(code::LOST, now, |number| last.is_none_or(|last| number > last));
    }

    /// The same for the one before it.
    fn lose_left(&mut self) {
        if let Some(Left { last, .. }) = self.left.take() {
            self.state.fail(code::LOST, self.shared.now(), |number| number <= last);
        }
    }

    /// Tries to open a connection, replacing one that the engine leaves if there is one; users due meanwhile wait, and their
    /// latency grows.
    async fn reconnect(&mut self) {
        let mut stop = self.stop.clone();
        tokio::select! {
            made = self.connect.connect() => match made {
                Ok(connection) => {
                    let last = self.state.number;
                    self.left = self.connection.replace(connection).map(|connection| Left { connection, last });
                    // Not faster than this, even where the engine leaves each connection at once.
                    self.retry_at = self.shared.now() + RECONNECT_PAUSE;
                }
                Err(_) => self.retry_at = self.shared.now() + RECONNECT_PAUSE,
            },
            () = told_to_stop(&mut stop) => {}
        }
    }

    fn do_what_is_due(&mut self, now: Duration) {
        let Users { state, connection, left, retry_at, .. } = self;
        while let Some((due, scenario)) = state.arrival(now) {
            state.begin(scenario, due, now, connection);
        }
        while let Some(Reverse((due, task))) = state.tasks.peek().copied()
            && due <= now
        {
            state.tasks.pop();
            match task {
                Task::Go(user) => state.advance(user, due, now, connection),
                Task::Cancel(id, number) => {
                    let is_under_way = state.requests.get(id).is_some_and(|request| request.number == number);
                    let of_it = match left {
                        Some(left) if number <= left.last => Some(&mut left.connection),
                        _ => connection.as_mut(),
                    };
                    if let Some(connection) = of_it.filter(|_| is_under_way) {
                        connection.cancel(id_on_the_wire(id));
                    }
                }
                // Without a connection it would fail again and again.
                Task::Begin if connection.is_none() => state.tasks.push(Reverse((now.max(*retry_at), task))),
                Task::Begin => state.begin_closed(due, now, connection),
            }
            if connection.is_none() && task == Task::Begin {
                break;
            }
        }
    }
}

/// The next message of a connection; never, where there is none.
async fn next_frame<S: crate::driver::Stream>(connection: Option<&mut RawConnection<S>>) -> Result<&[u8], ClientError> {
    match connection {
        Some(connection) => connection.next().await,
        None => std::future::pending().await,
    }
}

/// Waits until the run is stopped; forever if nobody can stop it any more.
async fn told_to_stop(stop: &mut watch::Receiver<bool>) {
    if stop.changed().await.is_err() {
        std::future::pending().await
    }
}

/// Ids of requests are their places in a slab: small ones come again first.
fn id_on_the_wire(id: usize) -> u32 {
    u32::try_from(id).expect("far fewer requests are under way")
}

impl State {
    /// The next user of an open phase, if its time has come: when it was due, and its scenario.
    fn arrival(&mut self, now: Duration) -> Option<(Duration, usize)> {
        let Source::Open(turns) = &mut self.source else { return None };
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

    /// When the next thing is due, if there is one.
    fn next_moment(&self) -> Option<Duration> {
        let arrival = match &self.source {
            Source::Open(turns) => turns.peek().map(|arrival| arrival.due),
            Source::Closed { .. } => None,
        };
        let task = self.tasks.peek().map(|Reverse((due, _))| *due);
        [arrival, task].into_iter().flatten().min()
    }

    /// Records when the current or next closed phase has its next user.
    fn await_stretch(&mut self, now: Duration) {
        let Source::Closed { stretches, .. } = &mut self.source else { return };
        while stretches.front().is_some_and(|stretch| stretch.end <= now) {
            stretches.pop_front();
        }
        if let Some(stretch) = stretches.front() {
            self.tasks.push(Reverse((stretch.begin.max(now), Task::Begin)));
        }
    }

    fn begin_closed<S: crate::driver::Stream>(
        &mut self,
        due: Duration,
        now: Duration,
        connection: &mut Option<RawConnection<S>>,
    ) {
        let Source::Closed { stretches, draw } = &mut self.source else { return };
        if stretches.front().is_some_and(|stretch| now < stretch.end) {
            let scenario = draw.draw();
            self.begin(scenario, due, now, connection);
        } else {
            self.await_stretch(now);
        }
    }

    fn begin<S: crate::driver::Stream>(
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
        let user = self.users.insert(User { scenario, cursor: Cursor::default() });
        self.advance(user, due, now, connection);
    }

    /// Does the next step of a user, which is due at `due`.
    fn advance<S: crate::driver::Stream>(
        &mut self,
        user: usize,
        due: Duration,
        now: Duration,
        connection: &mut Option<RawConnection<S>>,
    ) {
        let shared = Rc::clone(&self.shared);
        let User { scenario, cursor } = &mut self.users[user];
        match cursor.advance(&shared.script.scenarios[*scenario].flow) {
            Next::Think(time) => self.tasks.push(Reverse((due + time, Task::Go(user)))),
            Next::Done => self.leave(user, true, now),
            Next::Send(kind) => {
                let series = shared.series_of(*scenario, kind);
                shared.record.borrow_mut().sent(due);
                let Some(connection) = connection else {
                    shared.record.borrow_mut().failed(series, code::NOT_CONNECTED, due, now);
                    return self.leave(user, false, now);
                };
                self.number += 1;
                let id = self.requests.insert(InFlight { user, series, kind, due, number: self.number });
                connection.send(id_on_the_wire(id), &shared.prepared[kind].request);
                if let Some(time) = shared.script.kinds[kind].cancel_after {
                    self.tasks.push(Reverse((now + time, Task::Cancel(id, self.number))));
                }
            }
        }
    }

    /// A user is done, or has failed.
    fn leave(&mut self, user: usize, is_done: bool, now: Duration) {
        let User { scenario, .. } = self.users.remove(user);
        {
            let mut record = self.shared.record.borrow_mut();
            record.present -= 1;
            let users = &mut record.users[scenario];
            *(if is_done { &mut users.completed } else { &mut users.failed }) += 1;
        }
        if matches!(self.source, Source::Closed { .. }) {
            self.await_stretch(now);
        }
    }

    /// The request that a frame answers, and its result. `None` if it is not an answer: the engine is about to close the
    /// connection.
    fn judge(&mut self, frame: &[u8], now: Duration) -> Result<Option<Judged>, LoadError> {
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
        Ok(Some(Judged { request, outcome }))
    }

    /// Lets the user of an answered request go on, or ends it.
    fn settle<S: crate::driver::Stream>(
        &mut self,
        judged: &Judged,
        now: Duration,
        connection: &mut Option<RawConnection<S>>,
    ) {
        let Judged { request, outcome } = judged;
        let is_asked_for = self.shared.script.kinds[request.kind].cancel_after.is_some();
        match outcome {
            Err(code) if !(is_asked_for && code == CANCELLED) => self.leave(request.user, false, now),
            _ => self.advance(request.user, now, now, connection),
        }
    }

    /// Whether any request under way has such a number.
    fn has_any(&self, such: impl Fn(u64) -> bool) -> bool {
        self.requests.iter().any(|(_, request)| such(request.number))
    }

    /// Ends the requests in flight whose number matches with this error.
    fn fail(&mut self, code: &str, now: Duration, such: impl Fn(u64) -> bool) {
        let ids: Vec<usize> =
            self.requests.iter().filter(|(_, request)| such(request.number)).map(|(id, _)| id).collect();
        let requests: Vec<InFlight> = ids.into_iter().map(|id| self.requests.remove(id)).collect();
        for request in requests {
            self.shared.record.borrow_mut().failed(request.series, code, request.due, now);
            self.leave(request.user, false, now);
        }
    }
}
