//! Overload test: offers a multiple of the engine's capacity and checks that the engine stays responsive, within its memory bound,
//! answers every request exactly once, and recovers within a second.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use leafseal_client::ClientSettings;
use leafseal_client::raw::{EncodedRequest, RawConnection, RawConnector, request};

use crate::threads::on_own_thread;
use leafseal_load::LoadError;
use leafseal_load::accounting::ProcessAccount;
use leafseal_load::arrivals;
use leafseal_load::driver::{self, LoadModel, RequestRotation, answer_size, ask};
use leafseal_load::latencies::{Latencies, LatencyTally};
use leafseal_load::material::{self, RequestContent};

/// Requests in flight on each connection while the engine's capacity is measured.
const CAPACITY_IN_FLIGHT: usize = 8;
/// Window in which throughput is measured after the load.
const WINDOW: Duration = Duration::from_millis(100);
/// The share of the capacity that counts as full speed.
const FULL_SPEED: f64 = 0.9;
/// Timeout of the wait for full speed.
const RECOVERY_MAX: Duration = Duration::from_secs(30);
/// Maximum health requests in flight.
const HEALTH_IN_FLIGHT_MAX: usize = 100;
/// Duration of a batch of health requests; the end of the load is noticed between batches.
const HEALTH_STRETCH: Duration = Duration::from_secs(1);
/// Sampling interval of memory.
const MEMORY_PERIOD: Duration = Duration::from_millis(50);

/// The load on the engine.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    /// The content of each request.
    pub content: RequestContent,
    /// Deadline of a request in milliseconds, if any.
    pub deadline_ms: Option<u32>,
    /// Connections.
    pub connections: usize,
    /// Maximum requests in flight on each connection; further due requests are not sent.
    pub in_flight_max: usize,
    /// The offered rate as a multiple of the capacity.
    pub factor: f64,
    /// Duration of the overload.
    pub duration: Duration,
    /// Duration of the capacity measurement before it.
    pub capacity_duration: Duration,
    /// Interval of health requests, on a separate connection.
    pub health_period: Duration,
    /// The seed of values and arrivals.
    pub seed: u64,
    /// The app whose keys are used.
    pub app: String,
}

/// The outcome.
#[derive(Debug)]
pub(crate) struct Outcome {
    /// The engine's capacity in requests per second.
    pub capacity: f64,
    /// Requests per second that were due.
    pub offered: f64,
    /// The requests.
    pub tally: LatencyTally,
    /// The health requests; latency counts from when they were due.
    pub health: LatencyTally,
    /// Resident memory.
    pub memory: Memory,
    /// Time from the end of the load until every request was answered.
    pub drained_in: Duration,
    /// Time from the end of the load to the first window at full speed; `None` if not reached within 30 s.
    pub recovered_in: Option<Duration>,
    /// Requests per second in that window, or in the last one.
    pub recovered_rate: f64,
}

/// Resident memory of the engine in bytes; zero if its process is unknown.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Memory {
    /// Before the overload, after the capacity measurement.
    pub before: u64,
    /// Maximum during the overload.
    pub max: u64,
    /// After every request was answered.
    pub after: u64,
}

/// Measures the capacity, then loads the engine beyond it.
///
/// # Errors
/// Fails if a connection closes, an answer is wrong, or a request is not answered exactly once.
pub(crate) async fn run(
    plan: Plan,
    client: ClientSettings,
    engine: Option<ProcessAccount>,
) -> Result<Outcome, LoadError> {
    let connector = Arc::new(RawConnector::new(client)?);
    let health = watch_health(&plan, Arc::clone(&connector));
    let memory = watch_memory(engine.clone());
    let load = on_own_thread("load-requests", move || Load { plan, connector, engine }.run());
    let mut outcome = load.await?;
    outcome.health = health.finish().await?;
    outcome.memory.max = memory.finish().await?;
    Ok(outcome)
}

struct Load {
    plan: Plan,
    connector: Arc<RawConnector>,
    engine: Option<ProcessAccount>,
}

impl Load {
    async fn run(self) -> Result<Outcome, LoadError> {
        let plan = &self.plan;
        let mut connections = Vec::new();
        for _ in 0..plan.connections {
            connections.push(self.connector.connect().await?);
        }
        let rotation = rotation(plan, &mut connections[0]).await?;
        let busy = LoadModel::Closed { in_flight: plan.connections * CAPACITY_IN_FLIGHT };
        let phase = driver::run(connections, &rotation, busy, plan.capacity_duration).await?;
        let capacity = phase.tally.ok() as f64 / phase.elapsed.as_secs_f64();
        let before = self.memory()?;

        let rate = capacity * plan.factor;
        let process = arrivals::ArrivalProcess::Poisson;
        let model = LoadModel::Open { process, rate, in_flight_max: plan.in_flight_max, seed: plan.seed };
        let began = Instant::now();
        let phase = driver::run(phase.connections, &rotation, model, plan.duration).await?;
        let (end, tally) = (began + plan.duration, phase.tally);
        let drained_in = end.elapsed();
        let (recovered_in, recovered_rate) = recover(phase.connections, &rotation, busy, capacity, end).await?;
        let memory = Memory { before, max: 0, after: self.memory()? };
        let health = LatencyTally::default();
        Ok(Outcome { capacity, offered: rate, tally, health, memory, drained_in, recovered_in, recovered_rate })
    }

    fn memory(&self) -> Result<u64, LoadError> {
        memory(self.engine.as_ref())
    }
}

/// Returns the engine's resident memory in bytes; 0 if its process is unknown.
fn memory(engine: Option<&ProcessAccount>) -> Result<u64, LoadError> {
    let Some(engine) = engine else { return Ok(0) };
    Ok(engine.resources().map_err(|error| LoadError::system("the engine's memory", error))?.memory)
}

/// Prepares the requests; each is sent once in both directions.
async fn rotation(plan: &Plan, connection: &mut RawConnection) -> Result<Arc<RequestRotation>, LoadError> {
    let values = material::values(plan.content, plan.seed);
    let (prepared, answer) = material::encrypting(connection, &plan.app, plan.content, &values).await?;
    material::decrypting(connection, &plan.app, &prepared, answer, 1, &values).await?;
    let mut options = plan.content.options(&plan.app);
    options.deadline_ms = plan.deadline_ms;
    Ok(Arc::new(RequestRotation::new(vec![material::to_encrypt(&options, &values)], prepared.answer_size)))
}

/// Sends requests until the engine is at full speed. Returns the time from `end` until then, and the rate.
async fn recover(
    mut connections: Vec<RawConnection>,
    rotation: &Arc<RequestRotation>,
    busy: LoadModel,
    capacity: f64,
    end: Instant,
) -> Result<(Option<Duration>, f64), LoadError> {
    loop {
        let after = end.elapsed();
        let phase = driver::run(connections, rotation, busy, WINDOW).await?;
        let rate = phase.tally.ok() as f64 / phase.elapsed.as_secs_f64();
        if rate >= capacity * FULL_SPEED {
            return Ok((Some(after), rate));
        }
        if after > RECOVERY_MAX {
            return Ok((None, rate));
        }
        connections = phase.connections;
    }
}

/// A task that runs beside the load until it is stopped.
struct BackgroundTask<F> {
    stop: Arc<AtomicBool>,
    result: F,
}

impl<T, F: Future<Output = Result<T, LoadError>>> BackgroundTask<F> {
    async fn finish(self) -> Result<T, LoadError> {
        self.stop.store(true, Ordering::Relaxed);
        self.result.await
    }
}

/// Sends health requests to the engine.
fn watch_health(
    plan: &Plan,
    connector: Arc<RawConnector>,
) -> BackgroundTask<impl Future<Output = Result<LatencyTally, LoadError>> + use<>> {
    let stop = Arc::new(AtomicBool::new(false));
    let (stopped, period, seed) = (Arc::clone(&stop), plan.health_period, plan.seed);
    let result = on_own_thread("load-health", move || async move {
        let mut connection = connector.connect().await?;
        let health = EncodedRequest::new(request::health);
        let (answer, _) = ask(&mut connection, &health).await?;
        let rotation = Arc::new(RequestRotation::new(vec![health], answer_size(&answer, 0)));
        let rate = 1.0 / period.as_secs_f64();
        let model = LoadModel::Open {
            process: arrivals::ArrivalProcess::Even,
            rate,
            in_flight_max: HEALTH_IN_FLIGHT_MAX,
            seed,
        };
        let mut connections = vec![connection];
        let mut tally = LatencyTally::default();
        while !stopped.load(Ordering::Relaxed) {
            let phase = driver::run(connections, &rotation, model, HEALTH_STRETCH).await?;
            tally.add(&phase.tally);
            connections = phase.connections;
        }
        Ok(tally)
    });
    BackgroundTask { stop, result }
}

/// Samples the engine's memory; returns the maximum.
fn watch_memory(
    engine: Option<ProcessAccount>,
) -> BackgroundTask<impl Future<Output = Result<u64, LoadError>> + use<>> {
    let stop = Arc::new(AtomicBool::new(false));
    let stopped = Arc::clone(&stop);
    let result = on_own_thread("load-memory", move || async move {
        let mut max = 0;
        while !stopped.load(Ordering::Relaxed) {
            max = max.max(memory(engine.as_ref())?);
            tokio::time::sleep(MEMORY_PERIOD).await;
        }
        Ok(max)
    });
    BackgroundTask { stop, result }
}

/// The results of a run, compared with the guarantees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Verdicts {
    /// Every health request was answered within [`HEALTH_MAX`].
    pub health: bool,
    /// Every request that was sent was answered, once.
    pub answered_once: bool,
    /// Full speed within a second after the load.
    pub recovered: bool,
    /// Memory stayed below the bound; true if the process is unknown.
    pub memory: bool,
}

/// Maximum latency of a health request.
pub(crate) const HEALTH_MAX: Duration = Duration::from_millis(100);
/// Maximum time to full speed.
pub(crate) const RECOVERY_TARGET: Duration = Duration::from_secs(1);

impl Outcome {
    /// Compares the run with the guarantees. `memory_bound` is the maximum resident memory in bytes.
    pub(crate) fn verdicts(&self, memory_bound: u64) -> Verdicts {
        let latencies: &Latencies = &self.health.latencies;
        Verdicts {
            health: self.health.errors.is_empty() && latencies.count() > 0 && latencies.max() < HEALTH_MAX,
            answered_once: self.tally.sent == self.tally.answered(),
            recovered: self.recovered_in.is_some_and(|after| after <= RECOVERY_TARGET),
            memory: self.memory.max <= memory_bound,
        }
    }
}
