//! The measurements of a run, in memory that does not grow with the number of requests.

use std::collections::BTreeMap;
use std::time::Duration;

use hdrhistogram::Histogram;

use super::sample::{FinishedRequest, ReservoirSample};
use crate::latencies::Latencies;
use crate::scenario::{FlowStep, Script};

/// The shortest interval for which figures are kept.
const INTERVAL_MIN: Duration = Duration::from_secs(1);
/// Maximum histograms of intervals: one for each interval and series.
const CELLS_MAX: usize = 5000;
/// Maximum intervals of a run.
const INTERVALS_MAX: usize = 300;
/// Minimum number of requests that each series may record individually.
const SERIES_REQUESTS_MIN: usize = 100;
/// At most one in this many individually recorded requests of a series is a failed one, so that successful ones remain visible.
const FAILURES_SHARE: usize = 2;
/// Separates the random stream that samples failed requests from that for successful ones.
const FAILURES_SALT: u64 = 0xfa11_ed5e_ed00_0001;
/// Latencies of an interval range from a microsecond to an hour, with two significant digits.
const INTERVAL_LATENCY_MAX_US: u64 = 3_600_000_000;

/// Requests of one kind in one scenario: the unit of measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SeriesId {
    /// Its scenario's index.
    pub scenario: usize,
    /// Its kind's index.
    pub kind: usize,
}

/// Returns the series of a script, in the order of its scenarios and their steps.
pub(super) fn series(script: &Script) -> Vec<SeriesId> {
    let mut all = Vec::new();
    for (scenario, of) in script.scenarios.iter().enumerate() {
        for step in of.flow.steps() {
            if let FlowStep::Send(kind) = *step
                && !all.contains(&SeriesId { scenario, kind })
            {
                all.push(SeriesId { scenario, kind });
            }
        }
    }
    all
}

/// Figures of one series.
#[derive(Clone, Debug)]
pub struct Series {
    /// Its id.
    pub id: SeriesId,
    /// Latencies of successful answers.
    pub latencies: Latencies,
    /// Other results of requests, by code.
    pub errors: BTreeMap<String, u64>,
    /// A sample of the successful requests.
    pub sample: ReservoirSample,
    /// Time from due to end of requests that failed, were cancelled or timed out.
    pub failure_latencies: Latencies,
    /// A sample of these requests. Together with `sample` it stays within the quota of the series.
    pub failure_sample: ReservoirSample,
}

impl Series {
    /// Creates a series that records up to `quota` requests individually.
    fn new(id: SeriesId, quota: usize, seed: u64) -> Self {
        Series {
            id,
            latencies: Latencies::default(),
            errors: BTreeMap::new(),
            sample: ReservoirSample::new(quota, seed),
            failure_latencies: Latencies::default(),
            failure_sample: ReservoirSample::new(quota.div_ceil(FAILURES_SHARE), seed ^ FAILURES_SALT),
        }
    }

    /// Records a failed request. Its slot is taken from the quota of successful ones.
    fn keep_failure(&mut self, request: FinishedRequest) {
        let before = self.failure_sample.kept();
        self.failure_sample.add(request);
        if self.failure_sample.kept() > before {
            self.sample.shrink();
        }
    }
}

/// Figures of an interval. Requests count in the interval in which they were due, answers and fields in that of their arrival.
#[derive(Clone, Debug, Default)]
pub struct Interval {
    /// Requests that were due.
    pub due: u64,
    /// Successful answers.
    pub answered: u64,
    /// Values in them.
    pub fields: u64,
    /// Other results of requests.
    pub errors: u64,
    /// Latencies in microseconds of requests that were due in it, for each series that had any.
    pub latencies: BTreeMap<usize, Histogram<u32>>,
}

/// Numbers of users by outcome.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Users {
    /// Users that started.
    pub created: u64,
    /// Users that completed their flow.
    pub completed: u64,
    /// Users that ended because a request failed.
    pub failed: u64,
    /// Users that never started because the maximum of concurrent users was reached.
    pub skipped: u64,
}

/// All measurements.
#[derive(Clone, Debug)]
pub struct RunRecord {
    /// By series.
    pub series: Vec<Series>,
    /// By time.
    pub intervals: Vec<Interval>,
    /// Length of an interval.
    pub interval: Duration,
    /// Users of each scenario.
    pub users: Vec<Users>,
    /// Requests that were sent.
    pub sent: u64,
    /// Arrival of the last successful answer.
    pub last_answer: Duration,
    /// Active users.
    pub present: usize,
    /// Latencies of successful answers since the last snapshot.
    pub recent: Latencies,
    fields: Vec<usize>,
}

impl RunRecord {
    /// Creates the record of a script that takes `duration`, with up to `requests_max` requests recorded individually.
    pub fn new(script: &Script, duration: Duration, requests_max: usize, seed: u64) -> Self {
        let ids = series(script);
        let quota = (requests_max / ids.len().max(1)).max(SERIES_REQUESTS_MIN);
        let fields = ids.iter().map(|id| script.kinds[id.kind].fields).collect();
        let one = |(index, id): (usize, SeriesId)| Series::new(id, quota, seed.wrapping_add(index as u64));
        let count = (CELLS_MAX / ids.len().max(1)).clamp(1, INTERVALS_MAX);
        let whole = Duration::from_secs((duration / u32::try_from(count).unwrap_or(1)).as_secs_f64().ceil() as u64);
        RunRecord {
            series: ids.into_iter().enumerate().map(one).collect(),
            intervals: Vec::new(),
            interval: whole.max(INTERVAL_MIN),
            users: vec![Users::default(); script.scenarios.len()],
            sent: 0,
            last_answer: Duration::ZERO,
            present: 0,
            recent: Latencies::default(),
            fields,
        }
    }

    /// Returns the interval of a time since the start. Anything long after the last phase counts in the last interval.
    fn interval_at(&mut self, time: Duration) -> &mut Interval {
        let index = usize::try_from(time.as_nanos() / self.interval.as_nanos()).unwrap_or(usize::MAX);
        let index = index.min(2 * INTERVALS_MAX);
        if self.intervals.len() <= index {
            self.intervals.resize_with(index + 1, Interval::default);
        }
        &mut self.intervals[index]
    }

    /// Records that a request was sent that was due at `due`.
    pub fn sent(&mut self, due: Duration) {
        self.sent += 1;
        self.interval_at(due).due += 1;
    }

    /// Records a successful answer at `now` to a request that was due at `due`.
    pub fn answered(&mut self, series: usize, due: Duration, now: Duration) {
        let (latency, request) = ended(due, now);
        let fields = self.fields[series] as u64;
        let of = &mut self.series[series];
        of.latencies.record(latency);
        of.sample.add(request);
        self.recent.record(latency);
        self.last_answer = now;
        let came = self.interval_at(now);
        came.answered += 1;
        came.fields += fields;
        let histogram = self
            .interval_at(due)
            .latencies
            .entry(series)
            .or_insert_with(|| Histogram::new_with_bounds(1, INTERVAL_LATENCY_MAX_US, 2).expect("the bounds fit"));
        histogram.saturating_record((request.latency_ns / 1000).max(1));
    }

    /// Records the failure at `now` of a request that was due at `due`.
    pub fn failed(&mut self, series: usize, code: &str, due: Duration, now: Duration) {
        let (latency, request) = ended(due, now);
        let of = &mut self.series[series];
        *of.errors.entry(code.to_owned()).or_default() += 1;
        of.failure_latencies.record(latency);
        of.keep_failure(request);
        self.interval_at(now).errors += 1;
    }

    /// The number of successful answers.
    pub fn ok(&self) -> u64 {
        self.series.iter().map(|series| series.latencies.count()).sum()
    }

    /// Other results of requests, by code.
    pub fn errors(&self) -> BTreeMap<String, u64> {
        let mut all = BTreeMap::new();
        for (code, count) in self.series.iter().flat_map(|series| &series.errors) {
            *all.entry(code.clone()).or_default() += count;
        }
        all
    }
}

/// Returns the latency of a request that was due at `due` and ended at `now`, and its individual record.
fn ended(due: Duration, now: Duration) -> (Duration, FinishedRequest) {
    let latency = now.saturating_sub(due);
    let latency_ns = u64::try_from(latency.as_nanos()).unwrap_or(u64::MAX);
    (latency, FinishedRequest { due_us: u64::try_from(due.as_micros()).unwrap_or(u64::MAX), latency_ns })
}
