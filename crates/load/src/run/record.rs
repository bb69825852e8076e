//! The record of a run, in memory that does not grow with the number of requests.

use std::collections::BTreeMap;
use std::time::Duration;

use hdrhistogram::Histogram;

use super::sample::{Request, Sample};
use crate::latencies::Latencies;
use crate::scenario::{Script, Step};

/// The shortest interval for which figures are kept.
const INTERVAL_MIN: Duration = Duration::from_secs(1);
/// Histograms that are kept for intervals, one for each of them and each series.
const CELLS_MAX: usize = 5000;
/// Intervals that a run has at most.
const INTERVALS_MAX: usize = 300;
/// Requests of a series that are kept one by one, however many series there are.
const SERIES_REQUESTS_MIN: usize = 100;
/// Of the recorded requests of a series, up to one in this many may be failed ones, so that good ones remain visible beside them.
const FAILURES_SHARE: usize = 2;
/// Keeps the draw of requests that ended badly apart from that of the others.
const FAILURES_SALT: u64 = 0xfa11_ed5e_ed00_0001;
/// Latencies of an interval are distinguished from a microsecond to an hour, to two digits.
const INTERVAL_LATENCY_MAX_US: u64 = 3_600_000_000;

/// Requests of one kind in one scenario: what figures are kept by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SeriesId {
    /// Its scenario's index.
    pub scenario: usize,
    /// Its kind's index.
    pub kind: usize,
}

/// The series of a script, in the order of its scenarios and their steps.
pub fn series(script: &Script) -> Vec<SeriesId> {
    let mut all = Vec::new();
    for (scenario, of) in script.scenarios.iter().enumerate() {
        for step in of.flow.steps() {
            if let Step::Send(kind) = *step
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
    /// Which.
    pub id: SeriesId,
    /// Latencies of good answers.
    pub latencies: Latencies,
    /// Other results of requests, by code.
    pub errors: BTreeMap<String, u64>,
    /// Some of the requests that were answered well.
    pub sample: Sample,
    /// From when a request was due until it ended otherwise: with an error, cancelled, or given up.
    pub failure_latencies: Latencies,
    /// Some of the requests that ended so; together with `sample` no more than the series may keep.
    pub failure_sample: Sample,
}

impl Series {
    /// Keeps `quota` requests one by one.
    fn new(id: SeriesId, quota: usize, seed: u64) -> Self {
        Series {
            id,
            latencies: Latencies::default(),
            errors: BTreeMap::new(),
            sample: Sample::new(quota, seed),
            failure_latencies: Latencies::default(),
            failure_sample: Sample::new(quota.div_ceil(FAILURES_SHARE), seed ^ FAILURES_SALT),
        }
    }

    /// Keeps a request that ended badly. Its place is one that a good one could have had.
    fn keep_failure(&mut self, request: Request) {
        let before = self.failure_sample.kept();
        self.failure_sample.add(request);
        if self.failure_sample.kept() > before {
            self.sample.shrink();
        }
    }
}

/// Figures of an interval. Requests count where they were due, answers and fields where they came.
#[derive(Clone, Debug, Default)]
pub struct Interval {
    /// Requests that were due.
    pub due: u64,
    /// Good answers.
    pub answered: u64,
    /// Values in them.
    pub fields: u64,
    /// Other results of requests.
    pub errors: u64,
    /// Latencies in microseconds of requests that were due in it, for each series that had any.
    pub latencies: BTreeMap<usize, Histogram<u32>>,
}

/// Users by what became of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Users {
    /// They arrived and began.
    pub created: u64,
    /// Their flow is done.
    pub completed: u64,
    /// A request of theirs failed, which ended them.
    pub failed: u64,
    /// They arrived when as many were there as may be, and never began.
    pub skipped: u64,
}

/// All that is noted.
#[derive(Clone, Debug)]
pub struct Record {
    /// By series.
    pub series: Vec<Series>,
    /// By time.
    pub intervals: Vec<Interval>,
    /// How long an interval is.
    pub interval: Duration,
    /// Users of each scenario.
    pub users: Vec<Users>,
    /// Requests that were sent.
    pub sent: u64,
    /// When the last good answer came.
    pub last_answer: Duration,
    /// Users that are there.
    pub present: usize,
    /// Latencies of all good answers since this was last emptied.
    pub recent: Latencies,
    fields: Vec<usize>,
}

impl Record {
    /// For a script of so long; keeps so many requests one by one.
    pub fn new(script: &Script, duration: Duration, requests_max: usize, seed: u64) -> Self {
        let ids = series(script);
        let quota = (requests_max / ids.len().max(1)).max(SERIES_REQUESTS_MIN);
        let fields = ids.iter().map(|id| script.kinds[id.kind].fields).collect();
        let one = |(index, id): (usize, SeriesId)| Series::new(id, quota, seed.wrapping_add(index as u64));
        let count = (CELLS_MAX / ids.len().max(1)).clamp(1, INTERVALS_MAX);
        let whole = Duration::from_secs((duration / u32::try_from(count).unwrap_or(1)).as_secs_f64().ceil() as u64);
        Record {
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

    /// The interval of a time since the start. Anything long after the last phase counts to the last interval.
    fn interval_at(&mut self, time: Duration) -> &mut Interval {
        let index = usize::try_from(time.as_nanos() / self.interval.as_nanos()).unwrap_or(usize::MAX);
        let index = index.min(2 * INTERVALS_MAX);
        if self.intervals.len() <= index {
            self.intervals.resize_with(index + 1, Interval::default);
        }
        &mut self.intervals[index]
    }

    /// A request was sent that was due then.
    pub fn sent(&mut self, due: Duration) {
        self.sent += 1;
        self.interval_at(due).due += 1;
    }

    /// A good answer came at `now` to a request that was due at `due`.
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

    /// Something else became at `now` of a request that was due at `due`.
    pub fn failed(&mut self, series: usize, code: &str, due: Duration, now: Duration) {
        let (latency, request) = ended(due, now);
        let of = &mut self.series[series];
        *of.errors.entry(code.to_owned()).or_default() += 1;
        of.failure_latencies.record(latency);
        of.keep_failure(request);
        self.interval_at(now).errors += 1;
    }

    /// Good answers so far.
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

/// How long a request took that was due at `due` and ended at `now`.
fn ended(due: Duration, now: Duration) -> (Duration, Request) {
    let latency = now.saturating_sub(due);
    let latency_ns = u64::try_from(latency.as_nanos()).unwrap_or(u64::MAX);
    (latency, Request { due_us: u64::try_from(due.as_micros()).unwrap_or(u64::MAX), latency_ns })
}
