//! Measures whether small requests wait for large ones: an open loop of small requests alone, and beside connections that send large
//! requests in a closed loop. The same traffic against an echo server shows the operating system's share.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use leafseal_client::raw::{EncodedRequest, RawConnection, RawConnector};
use leafseal_client::{ClientSettings, FrameLimits};
use tokio::net::TcpStream;

use crate::echo::Exchange;
use crate::threads::on_own_thread;
use leafseal_load::LoadError;
use leafseal_load::arrivals::ArrivalProcess;
use leafseal_load::driver::{self, LoadModel, RequestRotation};
use leafseal_load::latencies::LatencyTally;
use leafseal_load::material::{self, RequestContent};
use leafseal_load::metrics::{self, Buckets};

/// Warm-up: how long large requests run before small ones are sent, and small ones before they are counted.
const LEAD: Duration = Duration::from_millis(300);
/// Maximum small requests in flight: the echo server requires ids below 128.
const IN_FLIGHT_MAX: usize = 100;

/// The parameters of the experiment.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    /// The small requests.
    pub small: RequestContent,
    /// Small requests per second, with Poisson arrivals.
    pub rate: f64,
    /// The large requests.
    pub large: RequestContent,
    /// Connections with one large request in flight each.
    pub large_connections: usize,
    /// Duration of a round.
    pub round: Duration,
    /// The seed of values and arrivals.
    pub seed: u64,
    /// The app whose keys are used.
    pub app: String,
}

/// The competing load while small requests are measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CompetingLoad {
    /// None.
    Alone,
    /// Large requests.
    Large,
}

/// The results of a round.
#[derive(Debug, Default)]
pub(crate) struct Round {
    /// The small requests.
    pub small: LatencyTally,
    /// The large requests; empty if there were none.
    pub large: LatencyTally,
    /// Total duration of the large requests.
    pub large_elapsed: Duration,
    /// How long all requests waited in the engine for a worker, if known.
    pub queue_waits: Option<Buckets>,
    /// Busy time of the engine's workers, if known.
    pub worker_time: Option<Duration>,
}

impl Round {
    /// Adds the results of another round.
    pub(crate) fn add(&mut self, other: &Round) {
        self.small.add(&other.small);
        self.large.add(&other.large);
        self.large_elapsed += other.large_elapsed;
        if let Some(waits) = &other.queue_waits {
            self.queue_waits.get_or_insert_default().add(waits);
        }
        if let Some(time) = other.worker_time {
            *self.worker_time.get_or_insert_default() += time;
        }
    }

    /// Returns the workers' time per large request, including that of the small ones; zero if unknown.
    pub(crate) fn large_work(&self) -> Duration {
        let count = u32::try_from(self.large.ok()).unwrap_or(u32::MAX).max(1);
        self.worker_time.unwrap_or_default() / count
    }
}

/// The measurement of a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Case {
    /// The engine with small requests only.
    Alone,
    /// The engine with large requests beside the small ones.
    Beside,
    /// An engine that serves whole requests in order of arrival, with large requests beside the small ones.
    BesideUnfair,
    /// The echo server with small requests only.
    FloorAlone,
    /// The echo server with large requests beside the small ones.
    FloorBeside,
}

impl Case {
    /// Returns its name in reports.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Case::Alone => "alone",
            Case::Beside => "beside",
            Case::BesideUnfair => "beside_first_come_first_served",
            Case::FloorAlone => "floor_alone",
            Case::FloorBeside => "floor_beside",
        }
    }

    /// Returns its title in text reports.
    pub(crate) fn title(self) -> &'static str {
        match self {
            Case::Alone => "alone",
            Case::Beside => "beside large requests",
            Case::BesideUnfair => "the same, first come first served",
            Case::FloorAlone => "bare echo, alone",
            Case::FloorBeside => "bare echo, beside large requests",
        }
    }
}

/// The results of all rounds.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    /// Each case with its rounds combined.
    pub cases: Vec<(Case, Round)>,
}

/// The p99 of small requests beside large ones, relative to that alone and to the operating system's minimum.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Verdict {
    /// Ratio to the p99 alone.
    pub to_alone: f64,
    /// Ratio to the p99 of the echo server under the same traffic.
    pub to_floor: f64,
}

/// Maximum ratio to the p99 alone.
pub(crate) const TO_ALONE_MAX: f64 = 2.0;
/// Maximum ratio to the echo server's p99 under the same traffic, for machines where the system's own scheduling dominates.
pub(crate) const TO_FLOOR_MAX: f64 = 1.5;

impl Verdict {
    /// Whether either limit holds.
    pub(crate) fn is_kept(&self) -> bool {
        self.to_alone <= TO_ALONE_MAX || self.to_floor <= TO_FLOOR_MAX
    }
}

impl Outcome {
    /// Adds a round.
    pub(crate) fn add(&mut self, case: Case, round: &Round) {
        match self.cases.iter_mut().find(|(known, _)| *known == case) {
            Some((_, sum)) => sum.add(round),
            None => {
                let mut sum = Round::default();
                sum.add(round);
                self.cases.push((case, sum));
            }
        }
    }

    /// Computes the verdict.
    pub(crate) fn verdict(&self) -> Verdict {
        let p99 = |case| {
            let round = self.cases.iter().find(|(known, _)| *known == case).map(|(_, round)| round);
            round.map_or(f64::NAN, |round| round.small.latencies.quantile(0.99).as_secs_f64())
        };
        let beside = p99(Case::Beside);
        Verdict { to_alone: beside / p99(Case::Alone), to_floor: beside / p99(Case::FloorBeside) }
    }
}

/// A request and the size of its answer.
#[derive(Clone, Debug)]
struct Kind {
    request: EncodedRequest,
    answer_size: usize,
}

impl Kind {
    fn rotation(&self) -> Arc<RequestRotation> {
        Arc::new(RequestRotation::new(vec![self.request.clone()], self.answer_size))
    }

    /// The equivalent exchange of the echo server.
    fn exchange(&self, work: Duration) -> Exchange {
        // With an id of one byte, the head of a request has three bytes.
        Exchange { request_size: self.request.size() + 3, answer_size: self.answer_size + 1, work }
    }
}

/// The experiment against one engine.
#[derive(Debug)]
pub(crate) struct Interference {
    plan: Plan,
    connector: Arc<RawConnector>,
    operator: Option<SocketAddr>,
    small: Kind,
    large: Kind,
}

impl Interference {
    /// Creates the requests, and sends each once in both directions. `operator` is the address of the engine's metrics.
    ///
    /// # Errors
    /// Fails if the engine is unreachable or an answer is missing, an error or wrong.
    pub(crate) async fn prepare(
        plan: Plan,
        client: ClientSettings,
        operator: Option<SocketAddr>,
    ) -> Result<Self, LoadError> {
        let connector = RawConnector::new(client)?;
        let mut connection = connector.connect().await?;
        let small = kind(&mut connection, &plan, plan.small).await?;
        let large = kind(&mut connection, &plan, plan.large).await?;
        Ok(Interference { plan, connector: Arc::new(connector), operator, small, large })
    }

    /// Returns the exchanges of the echo server for small and for large requests; each large one takes `large_work`.
    pub(crate) fn exchanges(&self, large_work: Duration) -> [Exchange; 2] {
        [self.small.exchange(Duration::ZERO), self.large.exchange(large_work)]
    }

    /// Measures small requests against the engine. `number` varies the arrivals between rounds.
    ///
    /// # Errors
    /// Fails if a connection closes or an answer is missing or wrong.
    pub(crate) async fn at_engine(&self, competing: CompetingLoad, number: u32) -> Result<Round, LoadError> {
        let before = self.engine_times().await?;
        let [small, large] = [Arc::clone(&self.connector), Arc::clone(&self.connector)];
        let connect_small = move || async move { small.connect().await.map_err(LoadError::from) };
        let connect_large = move || {
            let connector = Arc::clone(&large);
            async move { connector.connect().await.map_err(LoadError::from) }
        };
        let mut round = self.at(connect_small, connect_large, competing, number).await?;
        if let Some((before, after)) = before.zip(self.engine_times().await?) {
            round.queue_waits = Some(after.queue_waits.since(&before.queue_waits));
            round.worker_time = Some(after.workers_busy.saturating_sub(before.workers_busy));
        }
        Ok(round)
    }

    /// Measures the same traffic against an echo server with these addresses for small and for large requests.
    ///
    /// # Errors
    /// As for [`Self::at_engine`].
    pub(crate) async fn at_floor(
        &self,
        [small, large]: [SocketAddr; 2],
        competing: CompetingLoad,
        number: u32,
    ) -> Result<Round, LoadError> {
        self.at(move || plain(small), move || plain(large), competing, number).await
    }

    /// Measures small requests on one connection while other connections send large ones, each kind on its own thread.
    async fn at<S, Small, Large>(
        &self,
        connect_small: impl FnOnce() -> Small + Send + 'static,
        connect_large: impl Fn() -> Large + Send + 'static,
        competing: CompetingLoad,
        number: u32,
    ) -> Result<Round, LoadError>
    where
        S: driver::LoadStream,
        Small: Future<Output = Result<RawConnection<S>, LoadError>> + Send,
        Large: Future<Output = Result<RawConnection<S>, LoadError>> + Send,
    {
        let large = (competing == CompetingLoad::Large).then(|| self.start_large(connect_large));
        let probe = self.probe(number);
        let small = on_own_thread("load-small", move || async move { probe.run(connect_small().await?).await });
        let small = small.await?;
        let (large, large_elapsed) = match large {
            Some(large) => large.await?,
            None => Default::default(),
        };
        Ok(Round { small, large, large_elapsed, ..Round::default() })
    }

    async fn engine_times(&self) -> Result<Option<EngineTimes>, LoadError> {
        let Some(operator) = self.operator else { return Ok(None) };
        let text = metrics::fetch(&[operator]).await?;
        let times = Buckets::read(&text, metrics::QUEUE_WAIT).zip(metrics::number(&text, metrics::WORKERS_BUSY));
        Ok(times.map(|(queue_waits, busy)| EngineTimes { queue_waits, workers_busy: Duration::from_secs_f64(busy) }))
    }

    fn start_large<S, F>(
        &self,
        connect: impl Fn() -> F + Send + 'static,
    ) -> impl Future<Output = Result<(LatencyTally, Duration), LoadError>>
    where
        S: driver::LoadStream,
        F: Future<Output = Result<RawConnection<S>, LoadError>> + Send,
    {
        let (rotation, count) = (self.large.rotation(), self.plan.large_connections);
        // Covers the time in which small requests connect, warm up and are counted.
        let duration = self.plan.round + LEAD * 2;
        on_own_thread("load-large", move || async move {
            let mut connections = Vec::new();
            for _ in 0..count {
                connections.push(connect().await?);
            }
            let phase = driver::run(connections, &rotation, LoadModel::Closed { in_flight: count }, duration).await?;
            Ok((phase.tally, phase.elapsed))
        })
    }

    fn probe(&self, number: u32) -> Probe {
        let model = LoadModel::Open {
            process: ArrivalProcess::Poisson,
            rate: self.plan.rate,
            in_flight_max: IN_FLIGHT_MAX,
            seed: self.plan.seed.wrapping_add(u64::from(number)),
        };
        Probe { rotation: self.small.rotation(), model, duration: self.plan.round }
    }
}

/// The engine's cumulative times, from its metrics.
struct EngineTimes {
    queue_waits: Buckets,
    workers_busy: Duration,
}

/// A connection without TLS.
async fn plain(address: SocketAddr) -> Result<RawConnection<TcpStream>, LoadError> {
    let unreachable = |error| LoadError::system("the echo server", error);
    let stream = TcpStream::connect(address).await.map_err(unreachable)?;
    stream.set_nodelay(true).map_err(unreachable)?;
    Ok(RawConnection::over(stream, FrameLimits::default()))
}

/// Small requests on one connection.
struct Probe {
    rotation: Arc<RequestRotation>,
    model: LoadModel,
    duration: Duration,
}

impl Probe {
    async fn run<S: driver::LoadStream>(self, connection: RawConnection<S>) -> Result<LatencyTally, LoadError> {
        let warm = driver::run(vec![connection], &self.rotation, self.model, LEAD).await?;
        Ok(driver::run(warm.connections, &self.rotation, self.model, self.duration).await?.tally)
    }
}

async fn kind(connection: &mut RawConnection, plan: &Plan, content: RequestContent) -> Result<Kind, LoadError> {
    let values = material::values(content, plan.seed);
    let (prepared, answer) = material::encrypting(connection, &plan.app, content, &values).await?;
    material::decrypting(connection, &plan.app, &prepared, answer, 1, &values).await?;
    Ok(Kind { request: prepared.requests[0].clone(), answer_size: prepared.answer_size })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_verdict_is_kept_by_either_measure() {
        let round = |millis| {
            let mut round = Round::default();
            (0..100).for_each(|_| round.small.latencies.record(Duration::from_millis(millis)));
            round
        };
        let verdict = |alone, beside, floor| {
            let mut outcome = Outcome::default();
            outcome.add(Case::Alone, &round(alone));
            outcome.add(Case::Beside, &round(beside));
            outcome.add(Case::FloorBeside, &round(floor));
            outcome.verdict()
        };
        assert!(verdict(10, 19, 1).is_kept());
        assert!(verdict(1, 19, 15).is_kept());
        assert!(!verdict(5, 19, 10).is_kept());
        assert!(!Outcome::default().verdict().is_kept());
    }

    #[test]
    fn rounds_of_a_case_add_up() {
        let mut outcome = Outcome::default();
        let mut round = Round::default();
        round.small.latencies.record(Duration::from_millis(1));
        (0..3).for_each(|_| outcome.add(Case::Alone, &round));
        assert_eq!((outcome.cases.len(), outcome.cases[0].1.small.ok()), (1, 3));
    }
}
