//! Sends requests on raw connections, in a closed or an open loop, and matches answers to requests.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use leafseal_client::raw::{EncodedRequest, Message, RawConnection, RemoteError, TlsStream};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::arrivals::{ArrivalProcess, Arrivals};
use crate::error::LoadError;
use crate::latencies::LatencyTally;
use crate::timer::Timer;

/// How long to wait for answers after the last request was sent.
pub const ANSWER_TIMEOUT: Duration = Duration::from_secs(60);

/// The transport of a connection: TLS, or plain TCP for comparison.
pub trait LoadStream: AsyncRead + AsyncWrite + Unpin + Send + 'static {}

impl<S: AsyncRead + AsyncWrite + Unpin + Send + 'static> LoadStream for S {}

/// Requests that all connections together send in rotation.
#[derive(Debug)]
pub struct RequestRotation {
    requests: Vec<EncodedRequest>,
    /// Bytes of each successful answer without its id.
    answer_size: usize,
    next: AtomicUsize,
}

impl RequestRotation {
    /// The answers to all `requests` must have the same size, `answer_size`, which excludes the id (see [`answer_size`]).
    ///
    /// # Panics
    /// If `requests` is empty.
    pub fn new(requests: Vec<EncodedRequest>, answer_size: usize) -> Self {
        assert!(!requests.is_empty(), "a rotation has at least one request");
        RequestRotation { requests, answer_size, next: AtomicUsize::new(0) }
    }

    /// The number of distinct requests.
    pub fn count(&self) -> usize {
        self.requests.len()
    }

    fn next(&self) -> &EncodedRequest {
        &self.requests[self.next.fetch_add(1, Ordering::Relaxed) % self.requests.len()]
    }
}

/// Returns the bytes of an answer without its id: the same for answers to requests that differ only in their id.
pub fn answer_size(frame: &[u8], id: u32) -> usize {
    let id_size = match id {
        0..=0x7f => 1,
        0x80..=0xff => 2,
        0x100..=0xffff => 3,
        _ => 5,
    };
    frame.len().saturating_sub(id_size)
}

/// When requests are sent.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum LoadModel {
    /// As soon as an answer arrives: a fixed number is in flight over all connections.
    Closed {
        /// Requests in flight, at least 1.
        in_flight: usize,
    },
    /// When they are due, independently of answers. Latency counts from the due time.
    Open {
        /// Distribution of the intervals.
        process: ArrivalProcess,
        /// Requests per second over all connections.
        rate: f64,
        /// Maximum in flight on one connection; further due requests wait, and their latency grows.
        in_flight_max: usize,
        /// Seed of the arrival times.
        seed: u64,
    },
}

/// The outcome of a period of constant load.
#[derive(Debug)]
pub struct LoadPhase<S = TlsStream> {
    /// The connections, for reuse by the next phase.
    pub connections: Vec<RawConnection<S>>,
    /// The results of its requests.
    pub tally: LatencyTally,
    /// Time from its start to the last answer.
    pub elapsed: Duration,
}

/// Sends requests for `duration`, then waits until all are answered.
///
/// # Errors
/// Fails if a connection closes or an answer is missing or wrong.
pub async fn run<S: LoadStream>(
    connections: Vec<RawConnection<S>>,
    rotation: &Arc<RequestRotation>,
    model: LoadModel,
    duration: Duration,
) -> Result<LoadPhase<S>, LoadError> {
    let began = Instant::now();
    let mut tasks = JoinSet::new();
    let count = connections.len();
    for (place, connection) in connections.into_iter().enumerate() {
        let driver = Driver {
            connection,
            rotation: Arc::clone(rotation),
            slots: DueTimes::default(),
            tally: LatencyTally::default(),
        };
        tasks.spawn(async move {
            let driving = driver.drive(model, place, count, began, duration);
            let answered = timeout(duration + ANSWER_TIMEOUT, driving).await;
            answered.unwrap_or(Err(LoadError::NoAnswer(ANSWER_TIMEOUT))).map(|driver| (place, driver))
        });
    }
    let mut tally = LatencyTally::default();
    let mut driven = Vec::new();
    while let Some(ended) = tasks.join_next().await {
        let (place, driver) = ended.expect("a driver does not panic and is not cancelled")?;
        tally.add(&driver.tally);
        driven.push((place, driver.connection));
    }
    let elapsed = began.elapsed();
    driven.sort_by_key(|&(place, _)| place);
    Ok(LoadPhase { connections: driven.into_iter().map(|(_, connection)| connection).collect(), tally, elapsed })
}

/// Sends one request and returns its whole successful answer with its latency.
///
/// # Errors
/// Fails if the connection closes or the answer is missing or an error.
pub async fn ask<S: LoadStream>(
    connection: &mut RawConnection<S>,
    request: &EncodedRequest,
) -> Result<(Vec<u8>, Duration), LoadError> {
    const ID: u32 = 0;
    let began = Instant::now();
    connection.send(ID, request);
    let frame = timeout(ANSWER_TIMEOUT, connection.next()).await.map_err(|_| LoadError::NoAnswer(ANSWER_TIMEOUT))??;
    let elapsed = began.elapsed();
    match parse(frame)? {
        (ID, Ok(())) => Ok((frame.to_vec(), elapsed)),
        (ID, Err(error)) => Err(LoadError::Refused(format!("{}: {}", error.code, error.message))),
        (id, _) => Err(LoadError::wrong(format!("the engine answered id {id}, which is not in flight"))),
    }
}

/// Parses the id of a response and its error.
pub fn parse(frame: &[u8]) -> Result<(u32, Result<(), RemoteError<'_>>), LoadError> {
    match Message::parse(frame) {
        Ok(Message::Response { id, result: Ok(_) }) => Ok((id, Ok(()))),
        Ok(Message::Response { id, result: Err(error) }) => {
            let error = error.error().map_err(|error| LoadError::wrong(format!("a malformed error: {error}")))?;
            Ok((id, Err(error)))
        }
        Ok(Message::Notification { method, .. }) => Err(LoadError::wrong(format!("the notification {method}"))),
        Ok(Message::Request { .. }) => Err(LoadError::wrong("a request")),
        Err(error) => Err(LoadError::wrong(format!("no message: {error}"))),
    }
}

/// Requests in flight on one connection: due times by id.
#[derive(Debug, Default)]
struct DueTimes {
    due: Vec<Option<Instant>>,
    free: Vec<u32>,
}

impl DueTimes {
    fn in_flight(&self) -> usize {
        self.due.len() - self.free.len()
    }

    /// Allocates an id for a request due at `due`. Small ids are reused first, so that answers keep one size.
    fn take(&mut self, due: Instant) -> u32 {
        match self.free.pop() {
            Some(id) => {
                self.due[id as usize] = Some(due);
                id
            }
            None => {
                self.due.push(Some(due));
                u32::try_from(self.due.len() - 1).expect("far fewer requests are in flight")
            }
        }
    }

    /// Frees an id and returns when its request was due; `None` if it is not in flight.
    fn give_back(&mut self, id: u32) -> Option<Instant> {
        let due = self.due.get_mut(id as usize)?.take()?;
        self.free.push(id);
        Some(due)
    }
}

/// One connection under load.
struct Driver<S> {
    connection: RawConnection<S>,
    rotation: Arc<RequestRotation>,
    slots: DueTimes,
    tally: LatencyTally,
}

impl<S: LoadStream> Driver<S> {
    async fn drive(
        self,
        model: LoadModel,
        place: usize,
        places: usize,
        began: Instant,
        duration: Duration,
    ) -> Result<Self, LoadError> {
        match model {
            LoadModel::Closed { in_flight } => {
                // The first connections take the remainder.
                let own = in_flight / places + usize::from(place < in_flight % places);
                self.closed(own, began + duration).await
            }
            LoadModel::Open { process, rate, in_flight_max, seed } => {
                let arrivals = Arrivals::share(process, rate, seed, place, places);
                self.open(arrivals, in_flight_max, began, duration).await
            }
        }
    }

    async fn closed(mut self, in_flight: usize, until: Instant) -> Result<Self, LoadError> {
        (0..in_flight).for_each(|_| self.send(Instant::now()));
        while self.slots.in_flight() > 0 {
            let now = self.receive().await?;
            if now < until {
                self.send(now);
            }
        }
        Ok(self)
    }

    async fn open(
        mut self,
        arrivals: Arrivals,
        in_flight_max: usize,
        began: Instant,
        duration: Duration,
    ) -> Result<Self, LoadError> {
        let mut timer = Timer::new().map_err(|error| LoadError::system("a timer", error))?;
        let mut due = arrivals.take_while(|&time| time < duration).map(|time| began + time).peekable();
        let end = began + duration;
        let mut now = began;
        loop {
            // One more pass after the end sends requests that were due just before it.
            let is_over = now >= end;
            now = Instant::now();
            while !is_over
                && self.slots.in_flight() < in_flight_max
                && let Some(moment) = due.next_if(|&moment| moment <= now)
            {
                self.send(moment);
            }
            let next = due.peek().copied().filter(|_| now < end && self.slots.in_flight() < in_flight_max);
            match next {
                Some(moment) => tokio::select! {
                    received = self.receive() => drop(received?),
                    waited = timer.wait_until(moment) => waited.map_err(|error| LoadError::system("a timer", error))?,
                },
                None if self.slots.in_flight() > 0 => drop(self.receive().await?),
                None => break,
            }
        }
        self.tally.unsent = due.count() as u64;
        Ok(self)
    }

    fn send(&mut self, due: Instant) {
        let id = self.slots.take(due);
        self.tally.sent += 1;
        self.connection.send(id, self.rotation.next());
    }

    /// Waits for an answer, records it, and returns when it arrived. Cancel-safe.
    async fn receive(&mut self) -> Result<Instant, LoadError> {
        let frame = self.connection.next().await?;
        let now = Instant::now();
        let (id, outcome) = parse(frame)?;
        let size = answer_size(frame, id);
        let due = self.slots.give_back(id);
        let due =
            due.ok_or_else(|| LoadError::wrong(format!("the engine answered id {id}, which is not in flight")))?;
        match outcome {
            Ok(()) if size != self.rotation.answer_size => {
                let expected = self.rotation.answer_size;
                return Err(LoadError::wrong(format!("expected {expected} bytes, found {size}")));
            }
            Ok(()) => self.tally.latencies.record(now.saturating_duration_since(due)),
            Err(error) => *self.tally.errors.entry(error.code.to_owned()).or_default() += 1,
        }
        Ok(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use leafseal_client::FrameLimits;
    use leafseal_client::raw::request;
    use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};

    /// Size of a health request with an id below 128, and of the answer of `peer`: `[1, id, nil, nil]`.
    const REQUEST_SIZE: usize = 12;
    const ANSWER: [u8; 5] = [0x94, 1, 0, 0xc0, 0xc0];

    /// Answers each request immediately, the first one after `pause`; sends `mistake` in place of every third answer.
    async fn peer(mut stream: DuplexStream, pause: Duration, mistake: Option<Vec<u8>>) {
        let mut request = [0; REQUEST_SIZE];
        for number in 1.. {
            if stream.read_exact(&mut request).await.is_err() {
                return;
            }
            if number == 1 {
                tokio::time::sleep(pause).await;
            }
            let mut answer = ANSWER.to_vec();
            if let Some(mistake) = mistake.as_ref().filter(|_| number % 3 == 0) {
                answer.clone_from(mistake);
            }
            // The id follows the type of a request or response; a notification has none.
            if answer[1] != 2 {
                answer[2] = answer[2].wrapping_add(request[2]);
            }
            if stream.write_all(&answer).await.is_err() {
                return;
            }
        }
    }

    /// Runs a load on `connections` connections to such peers.
    fn load(
        connections: usize,
        pause: Duration,
        mistake: Option<Vec<u8>>,
        model: LoadModel,
        duration: Duration,
    ) -> Result<LoadPhase<DuplexStream>, LoadError> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let health = EncodedRequest::new(request::health);
            assert_eq!(health.size() + 3, REQUEST_SIZE);
            let connection = |_| {
                let (ours, theirs) = duplex(64);
                tokio::spawn(peer(theirs, pause, mistake.clone()));
                RawConnection::over(ours, FrameLimits::default())
            };
            let rotation = Arc::new(RequestRotation::new(vec![health], ANSWER.len() - 1));
            run((0..connections).map(connection).collect(), &rotation, model, duration).await
        })
    }

    const fn open(rate: f64, in_flight_max: usize) -> LoadModel {
        LoadModel::Open { process: ArrivalProcess::Even, rate, in_flight_max, seed: 1 }
    }

    const NO_TIME: Duration = Duration::ZERO;
    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn a_closed_loop_answers_all_that_it_sends() {
        for (connections, in_flight) in [(1, 1), (3, 7), (4, 2)] {
            let phase = load(connections, NO_TIME, None, LoadModel::Closed { in_flight }, MS * 30).unwrap();
            let tally = &phase.tally;
            assert!(tally.ok() >= in_flight as u64 && tally.sent == tally.ok(), "{tally:?}");
            assert_eq!((phase.connections.len(), tally.unsent), (connections, 0));
            assert!(phase.elapsed >= MS * 30);
        }
    }

    #[test]
    fn an_open_loop_sends_exactly_the_due_requests() {
        let tally = load(3, NO_TIME, None, open(1000.0, 100), MS * 60).unwrap().tally;
        assert_eq!((tally.sent, tally.ok(), tally.unsent), (60, 60, 0));
    }

    /// The second request is due after 50 ms but can be sent only when the first is answered: its latency includes the wait.
    #[test]
    fn latency_counts_from_when_a_request_was_due() {
        let tally = load(1, MS * 200, None, open(20.0, 1), MS * 100).unwrap().tally;
        assert_eq!((tally.ok(), tally.unsent), (2, 0));
        assert!(tally.latencies.quantile(0.0) >= MS * 149, "{:?}", tally.latencies.quantile(0.0));
    }

    #[test]
    fn requests_that_cannot_be_sent_are_counted() {
        let tally = load(1, MS * 100, None, open(1000.0, 2), MS * 50).unwrap().tally;
        // Two at first, and at most two in the last pass.
        assert!((2..=4).contains(&tally.sent) && tally.sent + tally.unsent == 50, "{tally:?}");
        assert_eq!(tally.ok(), tally.sent);
    }

    #[test]
    fn errors_are_counted_and_wrong_answers_end_the_load() {
        let mut error = vec![0x94, 1, 0, 0x83];
        for (name, text) in [("code", "overloaded"), ("message", "no room"), ("retry", "later")] {
            for word in [name, text] {
                error.push(0xa0 | word.len() as u8);
                error.extend_from_slice(word.as_bytes());
            }
        }
        error.push(0xc0);
        let tally = load(1, NO_TIME, Some(error), open(1000.0, 9), MS * 30).unwrap().tally;
        assert_eq!((tally.ok(), tally.errors.get("overloaded"), tally.answered()), (20, Some(&10), 30));

        for (mistake, part) in [
            (vec![0x94, 1, 50, 0xc0, 0xc0], "not in flight"),
            (vec![0x94, 1, 0, 0xc0, 0xa1, b'x'], "expected 4 bytes, found 5"),
            (vec![0x94, 0, 0, 0xa1, b'x', 0x90], "a request"),
            (vec![0x93, 2, 0xa1, b'x', 0x90], "the notification x"),
            (vec![0x93, 7, 0, 0xc0], "no message"),
        ] {
            let error = load(2, NO_TIME, Some(mistake), open(1000.0, 9), MS * 30).unwrap_err().to_string();
            assert!(error.contains(part), "{error}");
        }
    }

    #[test]
    fn ids_are_used_again_and_answered_once() {
        let mut slots = DueTimes::default();
        let now = Instant::now();
        assert_eq!((slots.take(now), slots.take(now), slots.in_flight()), (0, 1, 2));
        assert_eq!(slots.give_back(0), Some(now));
        assert_eq!((slots.give_back(0), slots.give_back(7)), (None, None));
        assert_eq!((slots.take(now), slots.take(now), slots.in_flight()), (0, 2, 3));
    }

    #[test]
    fn the_size_of_an_answer_is_that_of_its_content() {
        let sizes = [0, 0x7f, 0x80, 0xff, 0x100, 0xffff, 0x10000, u32::MAX].map(|id| {
            let mut message = Vec::new();
            // A request has the same head as a response.
            request::health(id, &mut message);
            answer_size(&message, id)
        });
        assert_eq!(sizes, [sizes[0]; 8]);
    }
}
