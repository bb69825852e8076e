//! Sends requests on raw connections, in a closed or an open loop, and matches their answers.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use fieldseal_client::raw::{EncodedRequest, Message, RawConnection, RemoteError, TlsStream};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::arrivals::{Arrivals, Process};
use crate::error::LoadError;
use crate::measure::Tally;
use crate::timer::Timer;

/// How long answers may be missing after the last request was sent.
pub const ANSWER_TIMEOUT: Duration = Duration::from_secs(60);

/// What a connection goes over: TLS, or anything to compare it with.
pub trait Stream: AsyncRead + AsyncWrite + Unpin + Send + 'static {}

impl<S: AsyncRead + AsyncWrite + Unpin + Send + 'static> Stream for S {}

/// Requests that are sent in turn, by all connections together.
#[derive(Debug)]
pub struct Rotation {
    requests: Vec<EncodedRequest>,
    /// Bytes of each good answer but for its id.
    answer_size: usize,
    next: AtomicUsize,
}

impl Rotation {
    /// `requests` are all answered by as many bytes: `answer_size`, the id not counted (see [`answer_size`]).
    ///
    /// # Panics
    /// When there is no request.
    pub fn new(requests: Vec<EncodedRequest>, answer_size: usize) -> Self {
        assert!(!requests.is_empty(), "a rotation has at least one request");
        Rotation { requests, answer_size, next: AtomicUsize::new(0) }
    }

    /// How many different requests there are.
    pub fn count(&self) -> usize {
        self.requests.len()
    }

    fn next(&self) -> &EncodedRequest {
        &self.requests[self.next.fetch_add(1, Ordering::Relaxed) % self.requests.len()]
    }
}

/// Bytes of an answer, those of its id not counted: the same for answers to requests that differ in their id alone.
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
pub enum Pace {
    /// As soon as an answer has come: so many are in flight over all connections, at least 1.
    Closed {
        /// How many.
        in_flight: usize,
    },
    /// When they are due, whatever has been answered. Latency counts from then.
    Open {
        /// How the times between them vary.
        process: Process,
        /// How many a second over all connections.
        rate: f64,
        /// Most in flight on one connection; what is due beyond that waits, and its latency grows.
        in_flight_max: usize,
        /// What the times come from.
        seed: u64,
    },
}

/// A stretch of time under one load.
#[derive(Debug)]
pub struct Phase<S = TlsStream> {
    /// The connections, for the next phase.
    pub connections: Vec<RawConnection<S>>,
    /// What came of its requests.
    pub tally: Tally,
    /// From its beginning to the last answer.
    pub elapsed: Duration,
}

/// Sends for so long, then waits until all is answered.
///
/// # Errors
/// A connection ends, an answer is missing or is not what it must be.
pub async fn run<S: Stream>(
    connections: Vec<RawConnection<S>>,
    rotation: &Arc<Rotation>,
    pace: Pace,
    duration: Duration,
) -> Result<Phase<S>, LoadError> {
    let began = Instant::now();
    let mut tasks = JoinSet::new();
    let count = connections.len();
    for (place, connection) in connections.into_iter().enumerate() {
        let driver =
            Driver { connection, rotation: Arc::clone(rotation), slots: Slots::default(), tally: Tally::default() };
        tasks.spawn(async move {
            let driving = driver.drive(pace, place, count, began, duration);
            let answered = timeout(duration + ANSWER_TIMEOUT, driving).await;
            answered.unwrap_or(Err(LoadError::NoAnswer(ANSWER_TIMEOUT))).map(|driver| (place, driver))
        });
    }
    let mut tally = Tally::default();
    let mut driven = Vec::new();
    while let Some(ended) = tasks.join_next().await {
        let (place, driver) = ended.expect("a driver does not panic and is not cancelled")?;
        tally.add(&driver.tally);
        driven.push((place, driver.connection));
    }
    let elapsed = began.elapsed();
    driven.sort_by_key(|&(place, _)| place);
    Ok(Phase { connections: driven.into_iter().map(|(_, connection)| connection).collect(), tally, elapsed })
}

/// Sends one request and gives its whole answer, which is a good one, with the time that it took.
///
/// # Errors
/// The connection ends, the answer is missing or an error.
pub async fn ask<S: Stream>(
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

/// The id of a response, and its error.
pub(crate) fn parse(frame: &[u8]) -> Result<(u32, Result<(), RemoteError<'_>>), LoadError> {
    match Message::parse(frame) {
        Ok(Message::Response { id, result: Ok(_) }) => Ok((id, Ok(()))),
        Ok(Message::Response { id, result: Err(error) }) => {
            let error =
                error.error().map_err(|error| LoadError::wrong(format!("an error that cannot be read: {error}")))?;
            Ok((id, Err(error)))
        }
        Ok(Message::Notification { method, .. }) => Err(LoadError::wrong(format!("the notification {method}"))),
        Ok(Message::Request { .. }) => Err(LoadError::wrong("a request")),
        Err(error) => Err(LoadError::wrong(format!("no message: {error}"))),
    }
}

/// Requests in flight on one connection: when each was due, by its id.
#[derive(Debug, Default)]
struct Slots {
    due: Vec<Option<Instant>>,
    free: Vec<u32>,
}

impl Slots {
    fn in_flight(&self) -> usize {
        self.due.len() - self.free.len()
    }

    /// The id for a request that is due at `due`: small ones are used again first, so that answers stay of one size.
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

    /// When the request with this id was due; the id is free from now on. Nothing where it is not in flight.
    fn give_back(&mut self, id: u32) -> Option<Instant> {
        let due = self.due.get_mut(id as usize)?.take()?;
        self.free.push(id);
        Some(due)
    }
}

/// One connection under load.
struct Driver<S> {
    connection: RawConnection<S>,
    rotation: Arc<Rotation>,
    slots: Slots,
    tally: Tally,
}

impl<S: Stream> Driver<S> {
    async fn drive(
        self,
        pace: Pace,
        place: usize,
        places: usize,
        began: Instant,
        duration: Duration,
    ) -> Result<Self, LoadError> {
        match pace {
            Pace::Closed { in_flight } => {
                // The first connections get what does not divide.
                let own = in_flight / places + usize::from(place < in_flight % places);
                self.closed(own, began + duration).await
            }
            Pace::Open { process, rate, in_flight_max, seed } => {
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
            // The last look after the end is for what was due just before.
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

    /// Waits for an answer and notes it; when it came. A call that is dropped loses nothing.
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
                return Err(LoadError::wrong(format!("{size} bytes in place of {expected}")));
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

    #[test]
    fn ids_are_used_again_and_answered_once() {
        let mut slots = Slots::default();
        let now = Instant::now();
        assert_eq!((slots.take(now), slots.take(now), slots.in_flight()), (0, 1, 2));
        assert_eq!(slots.give_back(0), Some(now));
        assert_eq!((slots.give_back(0), slots.give_back(7)), (None, None));
        assert_eq!((slots.take(now), slots.take(now), slots.in_flight()), (0, 2, 3));
    }

    #[test]
    fn the_size_of_an_answer_is_that_of_its_content() {
        use fieldseal_client::raw::request;
        let sizes = [0, 0x7f, 0x80, 0xff, 0x100, 0xffff, 0x10000, u32::MAX].map(|id| {
            let mut message = Vec::new();
            // A request has the same head as a response.
            request::health(id, &mut message);
            answer_size(&message, id)
        });
        assert_eq!(sizes, [sizes[0]; 8]);
    }
}
