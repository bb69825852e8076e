//! The result of a load test: one JSON object (`docs/load.md` explains the fields). A result is stored in a file, so that a report can
//! be rendered later and on another machine.

mod rows;

use std::collections::BTreeMap;
use std::time::Duration;

use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::accounting::Cpu;
use crate::latencies::Latencies;
use crate::metrics::Buckets;
use crate::provenance::{Provenance, SCHEMA};
use crate::run::{ReservoirSample, RunEnd, RunOutcome, RunSettings, UserCounts, stretches};
use crate::scenario::{PhaseLoad, Script};
use rows::{cpu_row, intervals, measured, phases, rounded, scenarios, series, server_row};

/// The value of the object's `kind`.
const KIND: &str = "load";
/// Maximum bytes of a result.
pub const RESULT_SIZE_MAX: usize = 256 << 20;

/// A run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LoadResult {
    /// The program, the machine and the settings.
    #[serde(flatten)]
    pub head: ReportHead,
    /// The scenario file's name.
    pub scenario: String,
    /// How it was run.
    pub settings: ResultSettings,
    /// Its phases.
    pub phases: Vec<ResultPhase>,
    /// Its start, in Unix seconds.
    pub began_unix_s: u64,
    /// Duration until the last answer, or until the wait for missing answers timed out.
    pub elapsed_s: f64,
    /// `finished` or `interrupted`.
    pub ended: String,
    /// Requests in flight when it was interrupted.
    pub unfinished: u64,
    /// All requests together.
    pub totals: Totals,
    /// By scenario.
    pub scenarios: Vec<ResultScenario>,
    /// By scenario and kind of request.
    pub series: Vec<ResultSeries>,
    /// Over time.
    pub intervals: Intervals,
    /// The engine's figures over time.
    pub server: Vec<ServerRow>,
    /// CPU time.
    pub cpu: CpuTimes,
}

/// The common fields of every report.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ReportHead {
    /// Version of the format. Changes when a field is removed or changes its meaning.
    pub schema: u32,
    /// `load`.
    pub kind: String,
    /// The program.
    pub program: LoadProgram,
    /// The machine that generated the load.
    pub machine: MachineRow,
    /// Settings of an engine that was started for the test.
    pub engine_settings: Vec<String>,
}

/// The program that generated the load.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LoadProgram {
    /// Its version.
    pub version: String,
    /// The commit it was built from, if known.
    pub commit: Option<String>,
    /// Whether it is a release build.
    pub release: bool,
}

/// A machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MachineRow {
    /// Its processor.
    pub cpu: String,
    /// Its cores.
    pub cores: usize,
    /// Its kernel.
    pub kernel: String,
}

/// How a scenario was run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ResultSettings {
    /// The seed.
    pub seed: u64,
    /// The environment of the file, if one was chosen.
    #[serde(default)]
    pub environment: Option<String>,
    /// `even` or `poisson` if an option overrides the file.
    pub arrivals: Option<String>,
    /// Connections that the users of open phases share.
    pub connections: usize,
    /// Maximum concurrent users.
    pub users_max: usize,
    /// Maximum requests that are recorded individually.
    pub requests_max: usize,
    /// How long to wait for answers after the last phase.
    pub answer_timeout_s: f64,
}

/// A phase.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ResultPhase {
    /// Its name.
    pub name: Option<String>,
    /// Its start, in seconds.
    pub begin_s: f64,
    /// Its end, in seconds.
    pub end_s: f64,
    /// Arrivals per second at its start, for an open phase.
    pub arrival_rate: Option<f64>,
    /// Arrivals per second at its end.
    pub ramp_to: Option<f64>,
    /// Connections, for a closed phase.
    pub connections: Option<usize>,
}

/// Numbers of users by outcome.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct UsersRow {
    /// Users that started.
    pub created: u64,
    /// Users that completed their flow.
    pub completed: u64,
    /// Users that ended because a request failed.
    pub failed: u64,
    /// Users that never started.
    pub skipped: u64,
}

/// All requests together.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Totals {
    /// Users.
    pub users: UsersRow,
    /// Requests that were sent.
    pub sent: u64,
    /// Successful answers.
    pub ok: u64,
    /// Other results of requests, by code.
    pub errors: BTreeMap<String, u64>,
    /// Values in successful answers.
    pub fields: u64,
    /// The time that rates cover: until the last successful answer or the end of the last phase, whichever is later; for an interrupted
    /// run until its end. It excludes waiting for answers that never arrived. Older results lack it and used `elapsed_s`.
    #[serde(default)]
    pub measured_s: Option<f64>,
    /// Successful answers per second.
    pub requests_per_s: f64,
    /// Values in successful answers per second.
    pub fields_per_s: f64,
    /// Latencies of successful answers.
    pub latency_us: Percentiles,
}

/// Latencies in microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Percentiles {
    /// The median.
    pub p50: f64,
    /// The 90th percentile.
    pub p90: f64,
    /// The 99th percentile.
    pub p99: f64,
    /// The 99.9th percentile.
    pub p99_9: f64,
    /// The longest.
    pub max: f64,
}

/// Returns the fewest samples that carry a percentile, given as a share: `0.99` takes 100. The percentile of fewer samples is the slowest
/// of them under another name, so that reports show none.
pub fn samples_min(share: f64) -> u64 {
    (1.0 / (1.0 - share)).round() as u64
}

/// A scenario.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ResultScenario {
    /// Its name.
    pub name: String,
    /// Its weight.
    pub weight: u32,
    /// Its users.
    pub users: UsersRow,
}

/// Requests of one kind in one scenario.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ResultSeries {
    /// Its scenario's index.
    pub scenario: usize,
    /// Its name: the scenario's, and the properties that distinguish it from others of that scenario.
    pub name: String,
    /// `encrypt` or `decrypt`.
    pub operation: String,
    /// Values in a request.
    pub fields: usize,
    /// Bytes of a value.
    pub field_size: usize,
    /// The curve in the requests, if set.
    pub curve: Option<String>,
    /// The keying in the requests, if set.
    pub keying: Option<String>,
    /// The app.
    pub app: String,
    /// When requests are cancelled.
    pub cancel_after_s: Option<f64>,
    /// Successful answers.
    pub ok: u64,
    /// Other results of requests, by code.
    pub errors: BTreeMap<String, u64>,
    /// Latencies of successful answers.
    pub latency_us: Percentiles,
    /// Values divided by latency, as percentiles.
    pub fields_per_s: Speeds,
    /// All latencies: microseconds and count.
    pub histogram: Vec<(f64, u64)>,
    /// Successful requests, recorded individually.
    pub requests: RecordedRequests,
    /// Time from due to end of requests without a successful answer; of the figures above only `errors` includes them. Missing in
    /// older results.
    #[serde(default)]
    pub failure_latency_us: Percentiles,
    /// The same requests, recorded individually.
    #[serde(default)]
    pub failures: RecordedRequests,
}

/// Speeds of requests, in values per second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Speeds {
    /// The median.
    pub p50: f64,
    /// The 10th percentile: 90 % of requests are at least as fast.
    pub p10: f64,
    /// The 1st percentile: 99 % of requests are at least as fast.
    pub p1: f64,
}

/// Individually recorded requests in the order in which they were due: all, or a random sample.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RecordedRequests {
    /// The total number of such requests.
    pub of: u64,
    /// Due times, in microseconds from the start.
    pub due_us: Vec<u64>,
    /// Latencies from the due time, in microseconds.
    pub latency_us: Vec<f64>,
}

/// Figures over time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Intervals {
    /// Length of an interval.
    pub length_s: f64,
    /// Consecutive intervals from the start.
    pub rows: Vec<IntervalRow>,
}

/// Figures of an interval.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct IntervalRow {
    /// Requests that were due in it.
    pub due: u64,
    /// Successful answers that arrived in it.
    pub ok: u64,
    /// Values in these answers.
    pub fields: u64,
    /// Other results of requests in it.
    pub errors: u64,
    /// Latencies of requests that were due in it, by series.
    pub latencies: Vec<IntervalLatencies>,
}

/// Latencies of a series in an interval.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct IntervalLatencies {
    /// The series' index.
    pub series: usize,
    /// Microseconds, with two significant digits, and count.
    pub histogram: Vec<(u64, u64)>,
}

/// The engine's figures of an interval.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ServerRow {
    /// End of the interval.
    pub at_s: f64,
    /// Average number of busy workers.
    pub workers_busy: Option<f64>,
    /// How long requests waited for a worker.
    pub queue_wait_us: Option<QueueWait>,
    /// Average number of cores that the process used.
    pub cores: Option<CpuRow>,
}

/// How long requests waited for a worker, as upper bounds of the metric's buckets; null above the last bound, or without requests.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct QueueWait {
    /// The number of requests.
    pub count: u64,
    /// The median.
    pub p50: Option<f64>,
    /// The 99th percentile.
    pub p99: Option<f64>,
}

/// CPU time by kind of thread.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct CpuRow {
    /// Sockets, TLS and frames.
    pub network: f64,
    /// Workers.
    pub workers: f64,
    /// All other threads.
    pub other: f64,
}

/// CPU time of the whole run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CpuTimes {
    /// Of the load tester, in seconds.
    pub load_s: Option<f64>,
    /// The same per value, in nanoseconds.
    pub load_per_field_ns: Option<f64>,
    /// CPU seconds of the engine, if its process or its metrics provide them.
    pub server_s: Option<CpuRow>,
    /// The same per value, in nanoseconds.
    pub server_per_field_ns: Option<f64>,
}

/// Why a file cannot be read as a result.
#[derive(Debug, Error)]
pub enum ResultError {
    /// Not JSON, or not the structure of a result.
    #[error("line {line}, column {column}: {message}")]
    Form {
        /// Line.
        line: usize,
        /// Column.
        column: usize,
        /// The problem.
        message: String,
    },
    /// A report of another kind.
    #[error("this is a report of `{0}`, not of a load test: `leafseal load -o RESULT.json` writes those")]
    OtherKind(String),
    /// A result of an unsupported version.
    #[error("schema {0}: this version of leafseal reads schema {SCHEMA}")]
    OtherSchema(u32),
    /// Inconsistent lists.
    #[error("{0}")]
    Inconsistent(&'static str),
    /// Artillery's own report.
    #[error(
        "this is a report of Artillery, which this command does not read: run the same scenario file with `leafseal load SCENARIO.yml \
         -o RESULT.json`, and report on that"
    )]
    Artillery,
}

/// The fields that identify the kind of a file; the rest is ignored.
#[derive(Deserialize)]
struct ResultKind {
    kind: Option<String>,
    schema: Option<u32>,
    /// Only Artillery's reports have these two.
    aggregate: Option<IgnoredAny>,
    intermediate: Option<IgnoredAny>,
}

impl LoadResult {
    /// Creates the result of a run.
    pub fn new(
        script: &Script,
        name: &str,
        settings: &RunSettings,
        outcome: &RunOutcome,
        provenance: &Provenance,
    ) -> Self {
        let head = serde_json::from_value(provenance.json(KIND)).expect("the head of every report has this form");
        let record = &outcome.record;
        let measured = measured(script, outcome).as_secs_f64();
        let mut latencies = Latencies::default();
        record.series.iter().for_each(|series| latencies.add(&series.latencies));
        let fields: u64 = record
            .series
            .iter()
            .map(|series| series.latencies.count() * script.kinds[series.id.kind].fields as u64)
            .sum();
        let users = record.users.iter().fold(UsersRow::default(), |sum, &users| sum.plus(users.into()));
        let ok = record.ok();
        let per_field = |seconds: f64| rounded(seconds * 1e9 / fields.max(1) as f64, 10.0);
        let load_s = outcome.load_cpu.map(|time| time.as_secs_f64());
        LoadResult {
            head,
            scenario: name.to_owned(),
            settings: ResultSettings {
                seed: settings.seed,
                environment: settings.environment.clone(),
                arrivals: settings.process.map(|process| process.as_str().to_owned()),
                connections: script.target.connections,
                users_max: settings.users_max,
                requests_max: settings.requests_max,
                answer_timeout_s: settings.answer_timeout.as_secs_f64(),
            },
            phases: phases(script),
            began_unix_s: outcome.began.duration_since(std::time::UNIX_EPOCH).map_or(0, |time| time.as_secs()),
            elapsed_s: rounded(outcome.elapsed.as_secs_f64(), 1e6),
            ended: if outcome.ended == RunEnd::Finished { "finished" } else { "interrupted" }.to_owned(),
            unfinished: outcome.unfinished,
            totals: Totals {
                users,
                sent: record.sent,
                ok,
                errors: record.errors(),
                fields,
                measured_s: Some(rounded(measured, 1e6)),
                requests_per_s: rounded(ok as f64 / measured, 1000.0),
                fields_per_s: rounded(fields as f64 / measured, 10.0),
                latency_us: (&latencies).into(),
            },
            scenarios: scenarios(script, outcome),
            series: series(script, outcome),
            intervals: intervals(outcome),
            server: outcome.server.iter().map(server_row).collect(),
            cpu: CpuTimes {
                load_s: load_s.map(|seconds| rounded(seconds, 1e6)),
                load_per_field_ns: load_s.map(per_field),
                server_s: outcome.server_cpu.map(|cpu| cpu_row(cpu, 1.0)),
                server_per_field_ns: outcome.server_cpu.map(|cpu| per_field(cpu.total().as_secs_f64())),
            },
        }
    }

    /// The duration, in seconds, that rates are computed over.
    pub fn measured_s(&self) -> f64 {
        self.totals.measured_s.unwrap_or(self.elapsed_s)
    }

    /// Parses a result.
    ///
    /// # Errors
    /// Fails if the text is not a result, or has an unsupported version.
    pub fn read(text: &str) -> Result<Self, ResultError> {
        let form = |error: serde_json::Error| {
            let (line, column) = (error.line(), error.column());
            let message = error.to_string();
            let message = message.split(" at line ").next().unwrap_or("it is damaged").to_owned();
            ResultError::Form { line, column, message }
        };
        // Parse the head first: a report of another kind has another body.
        let ResultKind { kind, schema, aggregate, intermediate } = serde_json::from_str(text).map_err(form)?;
        if kind.is_none() && aggregate.is_some() && intermediate.is_some() {
            return Err(ResultError::Artillery);
        }
        if let Some(kind) = kind.filter(|kind| kind != KIND) {
            return Err(ResultError::OtherKind(kind.chars().take(40).collect()));
        }
        if let Some(schema) = schema.filter(|schema| *schema != SCHEMA) {
            return Err(ResultError::OtherSchema(schema));
        }
        let result: LoadResult = serde_json::from_str(text).map_err(form)?;
        result.check()?;
        Ok(result)
    }

    /// Checks the properties that a report relies on.
    fn check(&self) -> Result<(), ResultError> {
        let series = self.series.len();
        let is_good = |number: f64| number.is_finite() && number >= 0.0;
        let has = |ok: bool, what| if ok { Ok(()) } else { Err(ResultError::Inconsistent(what)) };
        has(self.series.iter().all(|one| one.scenario < self.scenarios.len()), "a series of a missing scenario")?;
        let all = self.series.iter().flat_map(|one| [&one.requests, &one.failures]);
        has(
            all.into_iter().all(RecordedRequests::is_paired),
            "`due_us` and `latency_us` of a series differ in length",
        )?;
        let all = self.intervals.rows.iter().flat_map(|row| &row.latencies);
        has(all.into_iter().all(|latencies| latencies.series < series), "an interval of a missing series")?;
        has(is_good(self.intervals.length_s) && self.intervals.length_s > 0.0, "intervals without a length")?;
        has(is_good(self.elapsed_s) && is_good(self.measured_s()), "a run of negative duration")
    }
}
