//! The benchmark's table. Each row measures one kind of request. Rounds of all rows are interleaved, so that a temporary disturbance of
//! the machine affects all rows alike.

use std::sync::Arc;
use std::time::Duration;

use leafseal_client::raw::{RawConnection, RawConnector};
use leafseal_client::{Curve, Keying, Method};

use crate::accounting::{Cpu, ProcessAccount};
use crate::arrivals;
use crate::driver::{self, LoadModel, RequestRotation};
use crate::error::LoadError;
use crate::material::{self, PreparedRequests, RequestContent};
use crate::statistics::{median, spread};

/// The warm-up is one part in this many of a round.
const WARM_UP_SHARE: u32 = 10;
/// Pause after the last answer, in which the engine's threads become idle and the system updates their CPU time.
const SETTLING: Duration = Duration::from_millis(2);

/// The operation of the requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TableOperation {
    /// Encrypts values.
    Encrypt,
    /// Decrypts envelopes.
    Decrypt,
}

impl TableOperation {
    /// Returns its name in reports.
    pub fn as_str(self) -> &'static str {
        match self {
            TableOperation::Encrypt => Method::Encrypt.as_str(),
            TableOperation::Decrypt => Method::Decrypt.as_str(),
        }
    }
}

/// When requests are sent in every row.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Loop {
    /// Closed loop: a request follows an answer.
    Closed,
    /// Open loop: requests arrive at a rate.
    Open {
        /// Requests per second.
        rate: f64,
        /// Distribution of the intervals.
        process: arrivals::ArrivalProcess,
    },
}

/// The parameters of the benchmark.
#[derive(Clone, Debug)]
pub struct TablePlan {
    /// Numbers of values in a request; each is a group of rows.
    pub fields: Vec<usize>,
    /// Operations.
    pub operations: Vec<TableOperation>,
    /// Curves; `None` for symmetric envelopes.
    pub curves: Vec<Option<Curve>>,
    /// Keyings.
    pub keyings: Vec<Keying>,
    /// Bytes of a value.
    pub field_size: usize,
    /// Connections, at least 1.
    pub connections: usize,
    /// Requests in flight on each, at least 1. Fewer are in flight if requests take so long that a round is too short for them.
    pub in_flight: usize,
    /// When they are sent.
    pub model: Loop,
    /// Total duration of a row's rounds.
    pub duration: Duration,
    /// Rounds, at least 1. A row that has used its duration skips the rest.
    pub rounds: u32,
    /// The seed of values and arrivals.
    pub seed: u64,
    /// The app whose keys are used.
    pub app: String,
    /// Size of the engine's cache of opening keys. With more prepared requests than this, each decryption derives its key.
    pub opening_keys_kept: usize,
}

/// One row.
#[derive(Clone, Debug)]
pub struct TableRow {
    /// The content of its requests.
    pub content: RequestContent,
    /// The operation.
    pub operation: TableOperation,
    /// Requests in flight over all connections (closed loop).
    pub in_flight: usize,
    /// Distinct requests that were sent in rotation.
    pub distinct_requests: usize,
    /// Its rounds, in order.
    pub rounds: Vec<RowRound>,
}

/// One round of a row.
#[derive(Clone, Copy, Debug)]
pub struct RowRound {
    /// Time from the first request to the last answer.
    pub elapsed: Duration,
    /// Successful answers.
    pub requests: u64,
    /// Requests that were due but not sent before the end (open loop).
    pub unsent: u64,
    /// The engine's CPU time; `None` if its process is unknown.
    pub cpu: Option<Cpu>,
    /// The load generator's CPU time.
    pub load_cpu: Duration,
    /// Latency at p50, p90 and p99.
    pub percentiles: [Duration; 3],
    /// The longest latency.
    pub max: Duration,
}

/// Figures of a row: medians of its rounds.
#[derive(Clone, Copy, Debug)]
pub struct RowFigures {
    /// Values per second.
    pub fields_per_s: f64,
    /// Requests per second.
    pub requests_per_s: f64,
    /// Latency at p50, p90 and p99, in seconds.
    pub percentiles: [f64; 3],
    /// The longest latency of all rounds, in seconds.
    pub max: f64,
    /// The engine's CPU time.
    pub cpu: Option<CpuFigures>,
    /// The load generator's CPU seconds per request.
    pub load_per_request: f64,
    /// Half of the range of requests per second over the rounds, as a share of the median.
    pub spread: f64,
}

/// The engine's CPU time in figures.
#[derive(Clone, Copy, Debug)]
pub struct CpuFigures {
    /// Seconds per request.
    pub per_request: f64,
    /// Seconds per value.
    pub per_field: f64,
    /// The share of network threads.
    pub network: f64,
    /// The share of workers.
    pub workers: f64,
    /// Average number of cores that it used.
    pub cores: f64,
}

impl TableRow {
    /// Computes the medians of the rounds.
    pub fn figures(&self) -> RowFigures {
        let of_rounds = |figure: &dyn Fn(&RowRound) -> f64| median(self.rounds.iter().map(figure).collect());
        let rates: Vec<f64> = self.rounds.iter().map(RowRound::rate).collect();
        let requests_per_s = median(rates.clone());
        let fields = self.content.fields as f64;
        let is_accounted = self.rounds.iter().all(|round| round.cpu.is_some() && round.requests > 0);
        let cpu = (is_accounted && !self.rounds.is_empty()).then(|| {
            let share = |part: fn(&Cpu) -> Duration| {
                of_rounds(&|round| round.cpu.map_or(0.0, |cpu| part(&cpu).as_secs_f64() / cpu.total().as_secs_f64()))
            };
            let per_request = of_rounds(&|round| round.cpu_seconds() / round.requests as f64);
            CpuFigures {
                per_request,
                per_field: per_request / fields,
                network: share(|cpu| cpu.network),
                workers: share(|cpu| cpu.workers),
                cores: of_rounds(&|round| round.cpu_seconds() / round.elapsed.as_secs_f64()),
            }
        });
        RowFigures {
            fields_per_s: requests_per_s * fields,
            requests_per_s,
            percentiles: [0, 1, 2].map(|place| of_rounds(&|round| round.percentiles[place].as_secs_f64())),
            max: self.rounds.iter().map(|round| round.max).max().unwrap_or_default().as_secs_f64(),
            cpu,
            load_per_request: of_rounds(&|round| round.load_cpu.as_secs_f64() / (round.requests as f64).max(1.0)),
            spread: spread(&rates),
        }
    }
}

impl RowRound {
    fn rate(&self) -> f64 {
        self.requests as f64 / self.elapsed.as_secs_f64()
    }

    fn cpu_seconds(&self) -> f64 {
        self.cpu.map_or(0.0, |cpu| cpu.total().as_secs_f64())
    }
}

/// A row and its prepared requests.
struct PreparedRow {
    row: TableRow,
    rotation: Arc<RequestRotation>,
    /// Duration of one request alone.
    alone: Duration,
    used: Duration,
}

/// Measures all rows. `engine` is the process whose CPU time is read. Calls `progress` after each of [`steps`] steps.
///
/// # Errors
/// Fails if the engine is unreachable, refuses a request or answers wrong, because the figures would be meaningless.
pub async fn measure(
    plan: &TablePlan,
    connector: &RawConnector,
    engine: Option<&ProcessAccount>,
    mut progress: impl FnMut(),
) -> Result<Vec<TableRow>, LoadError> {
    let mut connections = Vec::new();
    for _ in 0..plan.connections {
        connections.push(connector.connect().await?);
    }
    let mut rows = Vec::new();
    for content in contents(plan) {
        rows.extend(prepare(plan, content, &mut connections[0]).await?);
        progress();
    }
    for _ in 0..plan.rounds {
        for prepared in &mut rows {
            if prepared.used < plan.duration {
                connections = round(plan, prepared, connections, engine).await?;
            }
            progress();
        }
    }
    Ok(rows.into_iter().map(|prepared| prepared.row).collect())
}

/// Number of progress calls of [`measure`].
pub fn steps(plan: &TablePlan) -> usize {
    let contents = contents(plan).count();
    contents + contents * plan.operations.len() * plan.rounds as usize
}

fn contents(plan: &TablePlan) -> impl Iterator<Item = RequestContent> + '_ {
    let TablePlan { fields, curves, keyings, field_size, .. } = plan;
    let sized = fields.iter().flat_map(move |&fields| curves.iter().map(move |&curve| (fields, curve)));
    sized.flat_map(move |(fields, curve)| {
        keyings.iter().map(move |&keying| RequestContent { fields, field_size: *field_size, curve, keying })
    })
}

/// Prepares the rows of one content: sends each request once and checks the answer.
async fn prepare(
    plan: &TablePlan,
    content: RequestContent,
    connection: &mut RawConnection,
) -> Result<Vec<PreparedRow>, LoadError> {
    let values = material::values(content, plan.seed);
    let (encrypt, answer) = material::encrypting(connection, &plan.app, content, &values).await?;
    let in_flight = in_flight(plan, encrypt.first_took);
    let count = if plan.operations.contains(&TableOperation::Decrypt) { distinct(plan, content, in_flight) } else { 1 };
    let decrypt = material::decrypting(connection, &plan.app, &encrypt, answer, count, &values).await?;
    let rows = plan.operations.iter().map(|operation| match operation {
        TableOperation::Encrypt => (*operation, &encrypt),
        TableOperation::Decrypt => (*operation, &decrypt),
    });
    Ok(rows.map(|(operation, prepared)| PreparedRow::new(plan, content, operation, prepared)).collect())
}

/// Returns how many requests may be in flight so that a round has time for all of them.
fn in_flight(plan: &TablePlan, alone: Duration) -> usize {
    let fit = (plan.duration / plan.rounds).as_secs_f64() / alone.as_secs_f64();
    (plan.connections * plan.in_flight).min(fit as usize).max(1)
}

/// Returns how many distinct requests to decrypt are sent in rotation, so that the engine has evicted an ephemeral key before it is used
/// again. A session's key is always cached, as it is in production.
fn distinct(plan: &TablePlan, content: RequestContent, in_flight: usize) -> usize {
    let kept = plan.opening_keys_kept;
    match content.keying {
        Keying::Session => 1,
        Keying::Request => kept + in_flight + 1,
        // Concurrent requests must not share keys.
        Keying::Field => kept / content.fields + in_flight + usize::from(in_flight > 1),
    }
}

impl PreparedRow {
    fn new(plan: &TablePlan, content: RequestContent, operation: TableOperation, prepared: &PreparedRequests) -> Self {
        let rotation = RequestRotation::new(prepared.requests.clone(), prepared.answer_size);
        let in_flight = in_flight(plan, prepared.first_took);
        let row = TableRow { content, operation, in_flight, distinct_requests: rotation.count(), rounds: Vec::new() };
        PreparedRow { row, rotation: Arc::new(rotation), alone: prepared.first_took, used: Duration::ZERO }
    }
}

async fn round(
    plan: &TablePlan,
    prepared: &mut PreparedRow,
    connections: Vec<RawConnection>,
    engine: Option<&ProcessAccount>,
) -> Result<Vec<RawConnection>, LoadError> {
    let slice = plan.duration / plan.rounds;
    let model = match plan.model {
        Loop::Closed => LoadModel::Closed { in_flight: prepared.row.in_flight },
        Loop::Open { rate, process } => {
            let seed = plan.seed ^ (prepared.row.rounds.len() as u64);
            LoadModel::Open { process, rate, in_flight_max: plan.in_flight, seed }
        }
    };
    let mut connections = connections;
    let warm_up = slice / WARM_UP_SHARE;
    if prepared.alone < warm_up {
        let warm = LoadModel::Closed { in_flight: prepared.row.in_flight };
        connections = good(driver::run(connections, &prepared.rotation, warm, warm_up).await?)?.connections;
    }
    let before = CpuAccounts::settled(engine).await?;
    let phase = good(driver::run(connections, &prepared.rotation, model, slice).await?)?;
    let after = CpuAccounts::settled(engine).await?;
    let latencies = &phase.tally.latencies;
    prepared.used += phase.elapsed;
    prepared.row.rounds.push(RowRound {
        elapsed: phase.elapsed,
        requests: phase.tally.ok(),
        unsent: phase.tally.unsent,
        cpu: after.engine.zip(before.engine).map(|(after, before)| after.since(&before)),
        load_cpu: after.load.since(&before.load).total(),
        percentiles: [0.5, 0.9, 0.99].map(|share| latencies.quantile(share)),
        max: latencies.max(),
    });
    Ok(phase.connections)
}

/// CPU time used up to a moment.
struct CpuAccounts {
    engine: Option<Cpu>,
    load: Cpu,
}

impl CpuAccounts {
    /// Reads CPU time once the engine is idle. This process is running, so its last milliseconds may be missing.
    async fn settled(engine: Option<&ProcessAccount>) -> Result<Self, LoadError> {
        tokio::time::sleep(SETTLING).await;
        let cpu = |process: &ProcessAccount| process.cpu().map_err(|error| LoadError::system("CPU time", error));
        let load = match engine {
            Some(_) => cpu(&ProcessAccount::new(std::process::id()))?,
            // A system without per-thread CPU time can still measure a remote engine.
            None => Cpu::default(),
        };
        Ok(CpuAccounts { engine: engine.map(cpu).transpose()?, load })
    }
}

/// Fails if a phase has error answers.
fn good(phase: driver::LoadPhase) -> Result<driver::LoadPhase, LoadError> {
    match phase.tally.errors.first_key_value() {
        None => Ok(phase),
        Some((code, count)) => Err(LoadError::Refused(format!("the engine answered {count} requests with {code}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan() -> TablePlan {
        TablePlan {
            fields: vec![1, 2000],
            operations: vec![TableOperation::Encrypt, TableOperation::Decrypt],
            curves: vec![Some(Curve::R1)],
            keyings: Keying::ALL.to_vec(),
            field_size: 32,
            connections: 2,
            in_flight: 4,
            model: Loop::Closed,
            duration: Duration::from_secs(3),
            rounds: 3,
            seed: 1,
            app: "app".into(),
            opening_keys_kept: 4,
        }
    }

    fn content(fields: usize, keying: Keying) -> RequestContent {
        RequestContent { fields, field_size: 32, curve: Some(Curve::R1), keying }
    }

    #[test]
    fn figures_are_medians_of_rounds() {
        let ms = Duration::from_millis;
        let round = |requests, cpu_ms: u64, latency_ms| RowRound {
            elapsed: ms(1000),
            requests,
            unsent: 0,
            cpu: Some(Cpu { network: ms(cpu_ms), workers: ms(cpu_ms * 3), other: Duration::ZERO }),
            load_cpu: ms(100),
            percentiles: [ms(latency_ms), ms(latency_ms * 2), ms(latency_ms * 3)],
            max: ms(latency_ms * 10),
        };
        let rounds = vec![round(100, 10, 1), round(200, 10, 5), round(110, 11, 2)];
        let content = content(50, Keying::Request);
        let row = TableRow { content, operation: TableOperation::Encrypt, in_flight: 8, distinct_requests: 1, rounds };
        let figures = row.figures();
        assert_eq!((figures.requests_per_s, figures.fields_per_s), (110.0, 5500.0));
        assert_eq!((figures.percentiles, figures.max), ([0.002, 0.004, 0.006], 0.05));
        let cpu = figures.cpu.unwrap();
        // 44 ms for 110 requests; the other rounds have the same and half.
        assert!((cpu.per_request - 0.0004).abs() < 1e-12 && (cpu.per_field - 0.000_008).abs() < 1e-12, "{cpu:?}");
        assert_eq!((cpu.network, cpu.workers, cpu.cores), (0.25, 0.75, 0.04));
        assert!((figures.spread - 50.0 / 110.0).abs() < 1e-12);

        let unknown = TableRow { rounds: vec![RowRound { cpu: None, ..round(1, 1, 1) }], ..row.clone() };
        assert!(unknown.figures().cpu.is_none());
        assert!(TableRow { rounds: Vec::new(), ..row }.figures().cpu.is_none());
    }

    #[test]
    fn long_requests_are_fewer_at_a_time() {
        let in_flight = |ms| in_flight(&plan(), Duration::from_millis(ms));
        // A round takes a second.
        assert_eq!([1, 125, 200, 600, 5000].map(in_flight), [8, 8, 5, 1, 1]);
    }

    /// More keys than the engine caches are used before one is repeated.
    #[test]
    fn no_key_is_repeated_while_it_is_cached() {
        let distinct = |fields, keying, in_flight| distinct(&plan(), content(fields, keying), in_flight);
        assert_eq!(distinct(1, Keying::Request, 8), 13);
        assert_eq!(distinct(2000, Keying::Session, 8), 1);
        for in_flight in [1, 3, 8] {
            for fields in [1, 2, 4, 5, 30] {
                let requests = distinct(fields, Keying::Field, in_flight);
                assert!((requests + 1 - in_flight) * fields > 4, "{requests} of {fields}, {in_flight} at a time");
            }
        }
    }

    #[test]
    fn each_kind_of_request_is_prepared_once_and_measured_in_each_round() {
        assert_eq!(contents(&plan()).count(), 2 * 3);
        assert_eq!(steps(&plan()), 6 + 6 * 2 * 3);
    }
}
