//! Soak test: long mixed load of various sizes, curves, keyings and documents, with cancelled requests, missed deadlines and dropped
//! connections. Every result is checked, and the engine's resources are sampled throughout.

use std::sync::Arc;
use std::time::{Duration, Instant};

use leafseal_client::raw::{DocumentResult, EncodedRequest, Message, RawConnection, RawConnector, request};
use leafseal_client::{ClientSettings, Curve, DecryptOptions, Keying};
use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt, SeedableRng};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::threads::on_own_thread;
use leafseal_load::LoadError;
use leafseal_load::accounting::{ProcessAccount, Resources};
use leafseal_load::driver::{ANSWER_TIMEOUT, ask, parse};
use leafseal_load::material::{self, RequestContent};
use leafseal_load::statistics::median;

/// Sizes of requests; small ones are more frequent, as in production.
const FIELDS: [usize; 12] = [1, 1, 1, 30, 30, 30, 150, 150, 2000, 2000, 10_000, 60_000];
/// Maximum values in a request with a fresh key for each value: large ones are slow and would dominate the load.
const FIELD_KEYING_FIELDS_MAX: usize = 150;
/// One in this many requests is cancelled, one misses its deadline, and one loses its connection.
const DISTURBED_ONE_OF: u32 = 8;
/// Values in such a request: enough that it is still in progress when that happens.
const DISTURBED_FIELDS: usize = 20_000;
/// Maximum time after which a request is cancelled or its connection dropped.
const DISTURBED_AFTER_MAX_US: u64 = 8000;
/// Sampling interval of the engine's resources.
const SAMPLE_PERIOD: Duration = Duration::from_secs(1);

/// The parameters of the test.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    /// Its duration.
    pub duration: Duration,
    /// Connections, each with one request in flight.
    pub connections: usize,
    /// The seed of all choices.
    pub seed: u64,
    /// The app whose keys are used.
    pub app: String,
}

/// Counts of operations, all with correct results.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    /// Lists and documents that were encrypted and decrypted.
    pub round_trips: u64,
    /// Values in them.
    pub fields: u64,
    /// Cancelled requests.
    pub cancelled: u64,
    /// Cancelled requests that still returned their result.
    pub cancelled_too_late: u64,
    /// Requests with a deadline too short for them.
    pub late: u64,
    /// Such requests that still completed in time.
    pub late_but_done: u64,
    /// Connections that were dropped with a request in flight, and replaced.
    pub reconnected: u64,
}

impl Counts {
    fn add(&mut self, other: &Counts) {
        self.round_trips += other.round_trips;
        self.fields += other.fields;
        self.cancelled += other.cancelled;
        self.cancelled_too_late += other.cancelled_too_late;
        self.late += other.late;
        self.late_but_done += other.late_but_done;
        self.reconnected += other.reconnected;
    }
}

/// The outcome.
#[derive(Clone, Debug)]
pub(crate) struct Outcome {
    /// Counts of operations.
    pub counts: Counts,
    /// Time from the first request to the last answer.
    pub elapsed: Duration,
    /// The engine's resources, once per second; empty if its process is unknown.
    pub samples: Vec<Resources>,
}

/// A quarter of the run: medians, and minimum memory.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Quarter {
    /// Resident memory, bytes.
    pub memory: f64,
    /// The minimum: the memory that remains when no large request is in progress.
    pub memory_min: f64,
    /// Threads.
    pub threads: f64,
    /// Open descriptors.
    pub descriptors: f64,
}

impl Outcome {
    /// Returns the four quarters, in order, whose sizes differ by at most one sample; fewer than four if there are fewer samples.
    pub(crate) fn quarters(&self) -> Vec<Quarter> {
        let (samples, quarters) = (self.samples.len(), self.samples.len().min(4));
        let of = |samples: &[Resources], what: fn(&Resources) -> u64| {
            median(samples.iter().map(|sample| what(sample) as f64).collect())
        };
        let quarter = |samples: &[Resources]| Quarter {
            memory: of(samples, |sample| sample.memory),
            memory_min: samples.iter().map(|sample| sample.memory).min().unwrap_or(0) as f64,
            threads: of(samples, |sample| sample.threads),
            descriptors: of(samples, |sample| sample.descriptors),
        };
        let ends = (0..quarters).map(|at| at * samples / quarters..(at + 1) * samples / quarters);
        ends.map(|range| quarter(&self.samples[range])).collect()
    }
}

/// The difference between the last quarter and the second. The first one is excluded, because caches and memory pools fill during it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Growth {
    /// Increase of the minimum memory, in bytes.
    pub memory: f64,
    /// The same as a share.
    pub memory_share: f64,
    /// Additional threads.
    pub threads: f64,
    /// Additional descriptors.
    pub descriptors: f64,
}

/// Memory has grown if its minimum has increased by more than this share
const MEMORY_SHARE_MAX: f64 = 0.1;
/// and by more than this many bytes; smaller changes are fluctuations due to the mix of sizes.
const MEMORY_MAX: f64 = 16.0 * 1048576.0;

impl Growth {
    /// Whether anything has grown. The median of threads and descriptors may differ by one because of a connection that is being
    /// replaced.
    pub(crate) fn is_growth(&self) -> bool {
        let memory_grows = self.memory > MEMORY_MAX && self.memory_share > MEMORY_SHARE_MAX;
        memory_grows || self.threads > 1.0 || self.descriptors > 1.0
    }
}

impl Outcome {
    /// Returns the growth from the second quarter to the last; `None` unless there are four.
    pub(crate) fn growth(&self) -> Option<Growth> {
        let [_, second, _, last] = self.quarters()[..] else { return None };
        let memory = last.memory_min - second.memory_min;
        Some(Growth {
            memory,
            memory_share: memory / second.memory_min,
            threads: last.threads - second.threads,
            descriptors: last.descriptors - second.descriptors,
        })
    }
}

/// Runs the test; stops at the first wrong result.
///
/// # Errors
/// Fails if a connection closes unexpectedly or an answer is missing, an error or wrong.
pub(crate) async fn run(plan: Plan, client: ClientSettings, engine: ProcessAccount) -> Result<Outcome, LoadError> {
    let began = Instant::now();
    let until = began + plan.duration;
    let connector = Arc::new(RawConnector::new(client)?);
    let sampling = on_own_thread("load-samples", move || sample(engine, until));
    let counts = on_own_thread("load-soak", move || async move {
        let mut callers = JoinSet::new();
        for place in 0..plan.connections {
            let random = Xoshiro256PlusPlus::seed_from_u64(plan.seed.wrapping_add(place as u64));
            let caller = Caller::new(Arc::clone(&connector), plan.app.clone(), random);
            callers.spawn(async move { caller.await?.run(until).await });
        }
        let mut counts = Counts::default();
        while let Some(ended) = callers.join_next().await {
            counts.add(&ended.expect("a caller does not panic and is not cancelled")?);
        }
        Ok(counts)
    });
    let counts = counts.await?;
    let elapsed = began.elapsed();
    Ok(Outcome { counts, elapsed, samples: sampling.await? })
}

async fn sample(engine: ProcessAccount, until: Instant) -> Result<Vec<Resources>, LoadError> {
    let mut samples = Vec::new();
    while Instant::now() + SAMPLE_PERIOD < until {
        sleep(SAMPLE_PERIOD).await;
        let resources = engine.resources();
        samples.push(resources.map_err(|error| LoadError::system("the engine's resources", error))?);
    }
    Ok(samples)
}

/// A client that sends one request after another.
struct Caller {
    connector: Arc<RawConnector>,
    connection: RawConnection,
    app: String,
    random: Xoshiro256PlusPlus,
    counts: Counts,
}

impl Caller {
    async fn new(connector: Arc<RawConnector>, app: String, random: Xoshiro256PlusPlus) -> Result<Self, LoadError> {
        let connection = connector.connect().await?;
        Ok(Caller { connector, connection, app, random, counts: Counts::default() })
    }

    async fn run(mut self, until: Instant) -> Result<Counts, LoadError> {
        while Instant::now() < until {
            if self.connection.is_draining() {
                self.connection = self.connector.connect().await?;
            }
            match self.random.random_range(0..DISTURBED_ONE_OF * 3) {
                0 => self.cancel().await?,
                1 => self.miss_deadline().await?,
                2 => self.reconnect().await?,
                choice if choice.is_multiple_of(4) => self.document().await?,
                _ => self.values().await?,
            }
        }
        Ok(self.counts)
    }

    fn content(&mut self) -> RequestContent {
        let keying = Keying::ALL[self.random.random_range(0..Keying::ALL.len())];
        let fields = FIELDS[self.random.random_range(0..FIELDS.len())];
        let fields = if keying == Keying::Field { fields.min(FIELD_KEYING_FIELDS_MAX) } else { fields };
        // One more: no curve, so that the envelopes are symmetric.
        let curve = Curve::ALL.get(self.random.random_range(0..=Curve::ALL.len())).copied();
        RequestContent { fields, field_size: self.random.random_range(1..=64), curve, keying }
    }

    /// Encrypts and decrypts a list.
    async fn values(&mut self) -> Result<(), LoadError> {
        let content = self.content();
        let values = material::values(content, self.random.random());
        let (prepared, answer) = material::encrypting(&mut self.connection, &self.app, content, &values).await?;
        material::decrypting(&mut self.connection, &self.app, &prepared, answer, 1, &values).await?;
        self.count_round_trip(content);
        Ok(())
    }

    /// Encrypts and decrypts a document.
    async fn document(&mut self) -> Result<(), LoadError> {
        let content = self.content();
        let values = material::values(content, self.random.random());
        let json = format!("[\"{}\"]", values.join("\", \""));
        let encrypt = |id, out: &mut Vec<u8>| {
            request::encrypt_document(id, &content.options(&self.app), None, json.as_bytes(), out);
        };
        let (answer, _) = ask(&mut self.connection, &EncodedRequest::new(encrypt)).await?;
        let sealed = document(&answer, content.fields)?;
        if envelopes(sealed) != content.fields {
            return Err(LoadError::wrong("a document with values that are not encrypted"));
        }
        let options = DecryptOptions::new(&self.app);
        let decrypt = EncodedRequest::new(|id, out| request::decrypt_document(id, &options, None, sealed, out));
        let (answer, _) = ask(&mut self.connection, &decrypt).await?;
        if document(&answer, content.fields)? != json.as_bytes() {
            return Err(LoadError::wrong("the decrypted document differs from the encrypted one"));
        }
        self.count_round_trip(content);
        Ok(())
    }

    fn count_round_trip(&mut self, content: RequestContent) {
        self.counts.round_trips += 1;
        self.counts.fields += content.fields as u64;
    }

    /// Creates a request that takes long enough to be cancelled or interrupted.
    fn long_request(&mut self, deadline_ms: Option<u32>) -> EncodedRequest {
        let content = RequestContent {
            fields: DISTURBED_FIELDS,
            field_size: 32,
            curve: Some(Curve::R1),
            keying: Keying::Request,
        };
        let values = material::values(content, self.random.random());
        let mut options = content.options(&self.app);
        options.deadline_ms = deadline_ms;
        material::to_encrypt(&options, &values)
    }

    fn moment(&mut self) -> Duration {
        Duration::from_micros(self.random.random_range(0..DISTURBED_AFTER_MAX_US))
    }

    /// Cancels a request, which must still be answered exactly once.
    async fn cancel(&mut self) -> Result<(), LoadError> {
        let (request, moment) = (self.long_request(None), self.moment());
        self.connection.send(0, &request);
        let answered = match timeout(moment, self.connection.next()).await {
            Ok(answer) => Some(outcome(answer?)?),
            Err(_) => None,
        };
        let outcome = match answered {
            Some(outcome) => outcome,
            None => {
                self.connection.cancel(0);
                self.answer().await?
            }
        };
        self.counts.cancelled += 1;
        match outcome.as_deref() {
            None => self.counts.cancelled_too_late += 1,
            Some("cancelled") => {}
            Some(code) => return Err(LoadError::Refused(format!("{code} for a request that was cancelled"))),
        }
        // The answer to a request that was cancelled too late must arrive before this one.
        self.values().await
    }

    async fn miss_deadline(&mut self) -> Result<(), LoadError> {
        let request = self.long_request(Some(1));
        self.connection.send(0, &request);
        let outcome = self.answer().await?;
        self.counts.late += 1;
        match outcome.as_deref() {
            None => self.counts.late_but_done += 1,
            // Early refusal: the requests that wait before it would make it miss its deadline.
            Some("deadline_exceeded" | "overloaded") => {}
            Some(code) => return Err(LoadError::Refused(format!("{code} for a request with a deadline"))),
        }
        Ok(())
    }

    /// Drops the connection with a request in flight and opens a new one.
    async fn reconnect(&mut self) -> Result<(), LoadError> {
        let (request, moment) = (self.long_request(None), self.moment());
        self.connection.send(0, &request);
        if let Ok(answer) = timeout(moment, self.connection.next()).await {
            answer?;
        }
        self.connection = self.connector.connect().await?;
        self.counts.reconnected += 1;
        Ok(())
    }

    /// Receives the answer to the request in flight; returns its code if it is an error.
    async fn answer(&mut self) -> Result<Option<String>, LoadError> {
        let answer = timeout(ANSWER_TIMEOUT, self.connection.next()).await;
        outcome(answer.map_err(|_| LoadError::NoAnswer(ANSWER_TIMEOUT))??)
    }
}

/// Returns the code of the answer to request 0 if it is an error.
fn outcome(answer: &[u8]) -> Result<Option<String>, LoadError> {
    match parse(answer)? {
        (0, result) => Ok(result.err().map(|error| error.code.to_owned())),
        (id, _) => Err(LoadError::wrong(format!("the engine answered id {id}, which is not in flight"))),
    }
}

/// Returns the document in an answer, in which `count` values must have been changed.
fn document(answer: &[u8], count: usize) -> Result<&[u8], LoadError> {
    let Ok(Message::Response { result: Ok(result), .. }) = Message::parse(answer) else {
        return Err(LoadError::wrong("no result"));
    };
    let result = DocumentResult::decode(result).map_err(|error| LoadError::wrong(error.to_string()))?;
    if result.count != count as u64 {
        return Err(LoadError::wrong(format!("a document with {} values instead of {count}", result.count)));
    }
    Ok(result.document)
}

/// Counts the strings of a JSON text that begin like an envelope.
fn envelopes(json: &[u8]) -> usize {
    json.windows(4).filter(|window| window == b"\"ev:").count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quarters_are_medians_in_order() {
        let sample = |memory: u64| Resources { memory: memory << 20, threads: 5, descriptors: memory };
        let samples = [10, 20, 90, 30, 40, 50, 60, 60, 60, 70, 70, 80].map(sample).to_vec();
        let outcome = Outcome { counts: Counts::default(), elapsed: Duration::ZERO, samples };
        let mebibytes = |bytes: f64| bytes / f64::from(1 << 20);
        let quarters = outcome.quarters();
        let memory = |quarter: &Quarter| (mebibytes(quarter.memory), mebibytes(quarter.memory_min));
        let memory: Vec<_> = quarters.iter().map(memory).collect();
        assert_eq!(memory, [(20.0, 10.0), (40.0, 30.0), (60.0, 60.0), (70.0, 70.0)]);
        assert!(quarters.iter().all(|quarter| quarter.threads == 5.0));
        for count in 0..=12 {
            let some = Outcome { samples: outcome.samples[..count].to_vec(), ..outcome };
            assert_eq!((some.quarters().len(), some.growth().is_some()), (count.min(4), count >= 4));
        }
    }

    #[test]
    fn growth_is_distinguished_from_fluctuation() {
        let outcome = |memory: [u64; 4], threads: [u64; 4]| {
            let sample =
                |place: usize| Resources { memory: memory[place] << 20, threads: threads[place], descriptors: 9 };
            Outcome { counts: Counts::default(), elapsed: Duration::ZERO, samples: (0..4).map(sample).collect() }
        };
        let grows = |memory, threads| outcome(memory, threads).growth().unwrap().is_growth();
        assert!(!grows([10, 100, 100, 115], [5, 5, 5, 6]));
        assert!(!grows([10, 400, 400, 430], [5; 4]));
        assert!(grows([10, 100, 100, 120], [5; 4]));
        assert!(grows([10, 100, 100, 50], [5, 5, 6, 7]));
    }
}
