//! Counts requests when they end, by method and outcome, with their bytes and the workers' time.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use leafseal_net::metrics::{Histogram, HistogramSnapshot};
use leafseal_protocol::{ErrorCode, Method};
use leafseal_service::Effort;

/// How a request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RequestOutcome {
    /// Answered with a result.
    Ok,
    /// The client disconnected before the answer.
    Disconnected,
    /// Answered with this error.
    Failed(ErrorCode),
}

impl RequestOutcome {
    /// The number of outcomes.
    pub const COUNT: usize = FIRST_ERROR + ErrorCode::RPC.len();

    /// Every outcome, in the order of their indexes.
    pub fn all() -> impl Iterator<Item = RequestOutcome> {
        [RequestOutcome::Ok, RequestOutcome::Disconnected]
            .into_iter()
            .chain(ErrorCode::RPC.iter().copied().map(RequestOutcome::Failed))
    }

    /// The label in metrics: the error's code, if it is one.
    pub const fn as_str(self) -> &'static str {
        match self {
            RequestOutcome::Ok => "ok",
            RequestOutcome::Disconnected => "disconnected",
            RequestOutcome::Failed(code) => code.as_str(),
        }
    }

    const fn index(self) -> usize {
        match self {
            RequestOutcome::Ok => 0,
            RequestOutcome::Disconnected => 1,
            RequestOutcome::Failed(code) => FIRST_ERROR + code as usize,
        }
    }
}

impl From<ErrorCode> for RequestOutcome {
    fn from(code: ErrorCode) -> Self {
        RequestOutcome::Failed(code)
    }
}

const FIRST_ERROR: usize = 2;
/// The number of methods, and one more for unknown ones.
const METHODS: usize = Method::ALL.len() + 1;

fn method_index(method: Option<Method>) -> usize {
    method.map_or(Method::ALL.len(), |method| method as usize)
}

fn method_word(index: usize) -> &'static str {
    Method::ALL.get(index).map_or("other", |method| method.as_str())
}

/// The properties of a request on arrival.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arrival {
    /// `None` if the method is unknown.
    pub(crate) method: Option<Method>,
    /// The size of its message in bytes.
    pub(crate) size: usize,
    /// When the message was complete.
    pub(crate) at: Instant,
}

/// Requests of one method and outcome. Aligned to a cache line, because all threads count.
#[derive(Debug, Default)]
#[repr(align(64))]
struct RequestCell {
    requests: AtomicU64,
    fields: AtomicU64,
    request_bytes: AtomicU64,
    answer_bytes: AtomicU64,
    work_ns: AtomicU64,
}

/// All requests since the start. Relaxed ordering suffices: no other data depends on the counts.
#[derive(Debug)]
pub(crate) struct Requests {
    cells: Box<[[RequestCell; RequestOutcome::COUNT]; METHODS]>,
    service_time: [Histogram; METHODS],
}

impl Default for Requests {
    fn default() -> Self {
        let cells = std::array::from_fn(|_| std::array::from_fn(|_| RequestCell::default()));
        Requests { cells: Box::new(cells), service_time: std::array::from_fn(|_| Histogram::default()) }
    }
}

impl Requests {
    /// Counts a request that ends now with an answer of this size.
    pub(crate) fn count(
        &self,
        arrival: &Arrival,
        outcome: RequestOutcome,
        effort: Effort,
        answer_size: usize,
        now: Instant,
    ) {
        let method = method_index(arrival.method);
        let cell = &self.cells[method][outcome.index()];
        let add = |counter: &AtomicU64, amount: u64| counter.fetch_add(amount, Ordering::Relaxed);
        add(&cell.requests, 1);
        add(&cell.fields, effort.fields);
        add(&cell.request_bytes, arrival.size as u64);
        add(&cell.answer_bytes, answer_size as u64);
        add(&cell.work_ns, u64::try_from(effort.time.as_nanos()).unwrap_or(u64::MAX));
        self.service_time[method].observe(now.saturating_duration_since(arrival.at));
    }

    /// The number of requests by outcome.
    pub(crate) fn outcomes(&self) -> OutcomeCounts {
        let mut counts = OutcomeCounts::default();
        for cells in self.cells.iter() {
            counts.0.iter_mut().zip(cells).for_each(|(sum, cell)| *sum += cell.requests.load(Ordering::Relaxed));
        }
        counts
    }

    pub(crate) fn snapshot(&self) -> RequestsSnapshot {
        let of_method = |(index, cells): (usize, &[RequestCell; RequestOutcome::COUNT])| {
            let method = method_word(index);
            RequestOutcome::all().zip(cells).map(|(outcome, cell)| cell.snapshot(method, outcome)).collect::<Vec<_>>()
        };
        let times = self.service_time.iter().enumerate();
        RequestsSnapshot {
            rows: self.cells.iter().enumerate().flat_map(of_method).collect(),
            service_time: times.map(|(index, histogram)| (method_word(index), histogram.snapshot())).collect(),
        }
    }
}

impl RequestCell {
    fn snapshot(&self, method: &'static str, outcome: RequestOutcome) -> Row {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Row {
            labels: [method, outcome.as_str()],
            requests: read(&self.requests),
            fields: read(&self.fields),
            request_bytes: read(&self.request_bytes),
            answer_bytes: read(&self.answer_bytes),
            work: Duration::from_nanos(read(&self.work_ns)),
        }
    }
}

/// [`Requests`] at one moment.
#[derive(Debug)]
pub(crate) struct RequestsSnapshot {
    /// All combinations of method and outcome.
    pub(crate) rows: Vec<Row>,
    /// By method.
    pub(super) service_time: Vec<(&'static str, HistogramSnapshot)>,
}

/// Requests of one method and outcome.
#[derive(Debug)]
pub(crate) struct Row {
    /// Method and outcome.
    pub(crate) labels: [&'static str; 2],
    pub(crate) requests: u64,
    pub(crate) fields: u64,
    pub(crate) request_bytes: u64,
    pub(crate) answer_bytes: u64,
    pub(crate) work: Duration,
}

/// Requests that have ended, by outcome.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct OutcomeCounts([u64; RequestOutcome::COUNT]);

impl OutcomeCounts {
    /// The number of requests with one outcome.
    pub fn of(&self, outcome: impl Into<RequestOutcome>) -> u64 {
        self.0[outcome.into().index()]
    }

    /// The number of all requests.
    pub fn total(&self) -> u64 {
        self.0.iter().sum()
    }
}

/// Shows only outcomes that occurred.
impl std::fmt::Debug for OutcomeCounts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let counts = RequestOutcome::all().zip(&self.0).filter(|(_, count)| **count > 0);
        f.debug_map().entries(counts.map(|(outcome, count)| (outcome.as_str(), count))).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_method_and_outcome_has_a_place_and_a_word_of_its_own() {
        assert_eq!(
            RequestOutcome::all().map(RequestOutcome::index).collect::<Vec<_>>(),
            (0..RequestOutcome::COUNT).collect::<Vec<_>>()
        );
        let mut words: Vec<&str> = RequestOutcome::all().map(RequestOutcome::as_str).collect();
        words.sort_unstable();
        words.dedup();
        assert_eq!(words.len(), RequestOutcome::COUNT);
        let methods = Method::ALL.iter().map(|method| Some(*method)).chain([None]);
        assert_eq!(methods.map(method_index).collect::<Vec<_>>(), (0..METHODS).collect::<Vec<_>>());
        assert!((0..METHODS - 1).all(|index| Method::parse(method_word(index)).map(|m| m as usize) == Some(index)));
        assert_eq!((method_word(METHODS - 1), Method::parse("other")), ("other", None));
    }

    #[test]
    fn a_request_is_counted_exactly_once() {
        let (requests, at) = (Requests::default(), Instant::now());
        let arrival = Arrival { method: Some(Method::Info), size: 7, at };
        let effort = Effort { fields: 3, time: Duration::from_nanos(50) };
        for _ in 0..2 {
            requests.count(&arrival, ErrorCode::Internal.into(), effort, 11, at + Duration::from_micros(2));
        }
        let snapshot = requests.snapshot();
        let counted: Vec<&Row> = snapshot.rows.iter().filter(|row| row.requests > 0).collect();
        let [row] = counted[..] else { panic!("{counted:?}") };
        assert_eq!((row.labels, row.requests, row.fields), (["info", "internal"], 2, 6));
        assert_eq!((row.request_bytes, row.answer_bytes, row.work), (14, 22, Duration::from_nanos(100)));
        let times: Vec<_> = snapshot.service_time.iter().filter(|(_, times)| times.count > 0).collect();
        assert!(times.len() == 1 && times[0].0 == "info" && times[0].1.sum == 4e-6, "{times:?}");
        let outcomes = requests.outcomes();
        assert_eq!((outcomes.total(), outcomes.of(ErrorCode::Internal), outcomes.of(RequestOutcome::Ok)), (2, 2, 0));
        assert_eq!(format!("{outcomes:?}"), "{\"internal\": 2}");
    }

    #[test]
    fn a_clock_before_the_arrival_counts_as_no_time() {
        let (requests, now) = (Requests::default(), Instant::now());
        let arrival = Arrival { method: None, size: 0, at: now + Duration::from_secs(1) };
        requests.count(&arrival, RequestOutcome::Ok, Effort::default(), 0, now);
        assert_eq!(requests.snapshot().service_time[METHODS - 1].1.sum, 0.0);
    }
}
