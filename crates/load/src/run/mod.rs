//! Runs a scenario: users arrive, send requests and pause as it specifies, and every request is measured.
//!
//! Everything runs on one thread: the connections, each with its users ([`users`]) and a timer, and one [`RunRecord`]. Before the first
//! phase each request is encoded and sent once, so that a wrong key or a missing permission is detected before anything is measured.

mod record;
mod sample;
mod schedule;
mod server;
mod users;

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;
use std::time::{Duration, Instant, SystemTime};

use leafseal_client::raw::{EncodedRequest, RawConnection, RawConnector};
use leafseal_client::{ClientError, EncryptOptions};
use tokio::sync::watch;
use tokio::task::{JoinSet, LocalSet};

use crate::accounting::{Cpu, ProcessAccount};
use crate::arrivals::ArrivalProcess;
use crate::driver::{LoadStream, answer_size, ask};
use crate::error::LoadError;
use crate::latencies::Latencies;
use crate::material;
use crate::scenario::{PhaseLoad, RequestKind, Script};
pub use record::{Interval, RunRecord, Series, SeriesId, Users as UserCounts};
pub use sample::{FinishedRequest, ReservoirSample};
pub use schedule::{Draw, Schedule, TimedPhase, UserArrival, stretches};
use server::EngineWatcher;
pub use server::{ObservedEngine, ServerPoint};
pub use users::CANCELLED;
use users::{UserSource, Users};

/// Interval of live figures.
const TICK: Duration = Duration::from_millis(250);

/// How a script is run.
#[derive(Clone, Debug)]
pub struct RunSettings {
    /// The seed of arrivals, draws, values and samples.
    pub seed: u64,
    /// The environment with which the script was read, for the result.
    pub environment: Option<String>,
    /// Overrides how the intervals between arrivals vary.
    pub process: Option<ArrivalProcess>,
    /// Maximum requests recorded individually in the result; above that, a seeded random sample.
    pub requests_max: usize,
    /// Maximum number of concurrent users in total; users above that are skipped and counted.
    pub users_max: usize,
    /// How long to wait for answers and users after the last phase.
    pub answer_timeout: Duration,
}

impl Default for RunSettings {
    fn default() -> Self {
        RunSettings {
            seed: 1,
            environment: None,
            process: None,
            requests_max: 20_000,
            users_max: 100_000,
            answer_timeout: Duration::from_secs(60),
        }
    }
}

/// Opens connections to the tested server.
pub trait Connect: 'static {
    /// The transport of connections.
    type Stream: LoadStream;

    /// Opens a connection.
    fn connect(&self) -> impl Future<Output = Result<RawConnection<Self::Stream>, ClientError>>;
}

impl Connect for RawConnector {
    type Stream = leafseal_client::raw::TlsStream;

    fn connect(&self) -> impl Future<Output = Result<RawConnection, ClientError>> {
        RawConnector::connect(self)
    }
}

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunEnd {
    /// All phases are over, and all requests are answered or timed out.
    Finished,
    /// It was stopped.
    Interrupted,
}

/// The outcome of a run.
#[derive(Debug)]
pub struct RunOutcome {
    /// The recorded measurements.
    pub record: RunRecord,
    /// Its start.
    pub began: SystemTime,
    /// Duration until the last answer, or until the wait for missing answers timed out.
    pub elapsed: Duration,
    /// How it ended.
    pub ended: RunEnd,
    /// Requests in flight when it was stopped.
    pub unfinished: u64,
    /// CPU time of this process, if the system reports it.
    pub load_cpu: Option<Duration>,
    /// The engine's figures.
    pub server: Vec<ServerPoint>,
    /// CPU time of the engine during the run, if its process or its metrics provide it.
    pub server_cpu: Option<Cpu>,
}

/// The state of a run.
#[derive(Clone, Debug)]
pub struct RunSnapshot {
    /// Time since the start.
    pub elapsed: Duration,
    /// The current phase; `None` after the last one.
    pub phase: Option<usize>,
    /// Requests that were sent.
    pub sent: u64,
    /// Successful answers.
    pub ok: u64,
    /// Other results of requests.
    pub errors: u64,
    /// Active users.
    pub users: usize,
    /// Latencies since the previous snapshot.
    pub recent: Latencies,
}

/// An encoded request of one kind.
struct PreparedRequest {
    request: EncodedRequest,
    /// Bytes of an answer without its id.
    answer_size: usize,
    /// The expected values, if envelopes are decrypted.
    values: Vec<String>,
}

impl PreparedRequest {
    fn check(&self, answer: &[u8], kind: &RequestKind) -> Result<(), LoadError> {
        if kind.decrypt {
            material::check(answer, &self.values)
        } else {
            material::check_envelopes(answer, kind.fields)
        }
    }
}

/// The state that all connections of a run share.
struct SharedRun {
    script: Script,
    prepared: Vec<PreparedRequest>,
    record: RefCell<RunRecord>,
    /// The index of each series in the record.
    places: HashMap<SeriesId, usize>,
    began: Cell<Instant>,
    /// The end of the last phase.
    end: Duration,
    answer_timeout: Duration,
    /// Maximum concurrent users, by phase.
    users_max: Vec<usize>,
}

impl SharedRun {
    fn now(&self) -> Duration {
        self.began.get().elapsed()
    }

    /// Returns the series of a step.
    fn series_of(&self, scenario: usize, kind: usize) -> usize {
        self.places[&SeriesId { scenario, kind }]
    }
}

/// Runs a script until it ends or `stop` is set. Calls `progress` with the state several times per second.
///
/// # Errors
/// If the engine is unreachable, refuses one of the requests before the first phase, or violates the protocol. Later failures of
/// requests are counted.
pub async fn run<C: Connect>(
    script: Script,
    settings: &RunSettings,
    connect: C,
    observed: &ObservedEngine,
    stop: watch::Receiver<bool>,
    progress: impl FnMut(&RunSnapshot),
) -> Result<RunOutcome, LoadError> {
    LocalSet::new().run_until(run_here(script, settings, Rc::new(connect), observed, stop, progress)).await
}

async fn run_here<C: Connect>(
    script: Script,
    settings: &RunSettings,
    connect: Rc<C>,
    observed: &ObservedEngine,
    mut stop: watch::Receiver<bool>,
    mut progress: impl FnMut(&RunSnapshot),
) -> Result<RunOutcome, LoadError> {
    let mut first = connect.connect().await?;
    let mut prepared = Vec::new();
    for kind in &script.kinds {
        prepared.push(prepare(&mut first, kind, settings.seed).await?);
    }
    let stretches = stretches(&script.phases);
    let end = stretches.last().map_or(Duration::ZERO, |stretch| stretch.end);
    let record = RunRecord::new(&script, end, settings.requests_max, settings.seed);
    let shared = Rc::new(SharedRun {
        places: record.series.iter().enumerate().map(|(place, series)| (series.id, place)).collect(),
        record: RefCell::new(record),
        prepared,
        began: Cell::new(Instant::now()),
        end,
        answer_timeout: settings.answer_timeout,
        users_max: script.phases.iter().map(|phase| users_max(phase.load, settings)).collect(),
        script,
    });
    let sources = sources(&shared.script, settings, &stretches);
    let mut all = Vec::new();
    let mut first = Some(first);
    for source in sources {
        let connection = match first.take() {
            Some(first) => first,
            None => connect.connect().await?,
        };
        all.push(Users::new(Rc::clone(&shared), Rc::clone(&connect), connection, source, stop.clone())?);
    }
    let cpu = |process: &ProcessAccount| process.cpu().ok();
    let own = ProcessAccount::new(std::process::id());
    let mut watcher = EngineWatcher::new(observed).await?;
    let own_before = cpu(&own);
    let (began, began_at) = (SystemTime::now(), Instant::now());
    shared.began.set(began_at);
    let mut drivers = JoinSet::new();
    all.into_iter().for_each(|users| drop(drivers.spawn_local(users.drive())));
    let interval = shared.record.borrow().interval;
    let unfinished = tokio::select! {
        unfinished = joined(&mut drivers) => unfinished?,
        () = watcher.watch(began_at, interval) => unreachable!("it never returns"),
        () = report_progress(&shared, &stretches, &mut progress) => unreachable!("it never returns"),
    };
    let elapsed = shared.now();
    let load_cpu = cpu(&own).zip(own_before).map(|(after, before)| after.since(&before).total());
    let (server, server_cpu) = watcher.finish(began_at, interval).await;
    let ended = if *stop.borrow_and_update() { RunEnd::Interrupted } else { RunEnd::Finished };
    let record = shared.record.borrow().clone();
    Ok(RunOutcome { record, began, elapsed, ended, unfinished, load_cpu, server, server_cpu })
}

fn users_max(load: PhaseLoad, settings: &RunSettings) -> usize {
    match load {
        PhaseLoad::Open { users_max: Some(max), .. } => max.min(settings.users_max),
        PhaseLoad::Open { .. } | PhaseLoad::Closed { .. } | PhaseLoad::Pause => settings.users_max,
    }
}

/// The sources of each connection: those of open phases first, then those of closed ones.
fn sources(script: &Script, settings: &RunSettings, stretches: &[TimedPhase]) -> Vec<UserSource> {
    let is_open = stretches.iter().any(|stretch| matches!(stretch.load, PhaseLoad::Open { .. }));
    let has_open = is_open || script.scenarios.iter().any(|scenario| scenario.every.is_some());
    let closed = stretches.iter().map(|stretch| match stretch.load {
        PhaseLoad::Closed { connections } => connections,
        PhaseLoad::Open { .. } | PhaseLoad::Pause => 0,
    });
    let closed = closed.max().unwrap_or(0);
    let open = match has_open {
        true => script.target.connections,
        // Only pauses: one connection that waits for their end.
        false => usize::from(closed == 0),
    };
    let schedule = Schedule::new(&script.phases, &script.scenarios, settings.process, settings.seed);
    let mut sources: Vec<UserSource> = (0..open).map(|place| UserSource::open(schedule.clone(), place, open)).collect();
    sources.extend((0..closed).map(|place| {
        let seed = settings.seed.wrapping_add(1 + place as u64);
        UserSource::closed(stretches, place, Draw::new(&script.scenarios, seed))
    }));
    sources
}

/// Waits until all connections are done. Returns the number of requests in flight when they were stopped.
async fn joined(drivers: &mut JoinSet<Result<u64, LoadError>>) -> Result<u64, LoadError> {
    let mut unfinished = 0;
    while let Some(ended) = drivers.join_next().await {
        unfinished += ended.expect("a driver does not panic and is not cancelled")?;
    }
    Ok(unfinished)
}

/// Calls `progress` with the state at each tick, forever.
async fn report_progress(shared: &SharedRun, stretches: &[TimedPhase], progress: &mut impl FnMut(&RunSnapshot)) {
    loop {
        tokio::time::sleep(TICK).await;
        let elapsed = shared.now();
        let snapshot = {
            let mut record = shared.record.borrow_mut();
            RunSnapshot {
                elapsed,
                phase: stretches.iter().position(|stretch| elapsed < stretch.end),
                sent: record.sent,
                ok: record.ok(),
                errors: record.errors().values().sum(),
                users: record.present,
                recent: std::mem::take(&mut record.recent),
            }
        };
        progress(&snapshot);
    }
}

/// Encodes the requests of a kind and sends one to learn the expected answer.
async fn prepare<S: LoadStream>(
    connection: &mut RawConnection<S>,
    kind: &RequestKind,
    seed: u64,
) -> Result<PreparedRequest, LoadError> {
    let values = material::values_of(kind.fields, kind.field_size, seed);
    let options = EncryptOptions { curve: kind.curve, keying: kind.keying, ..EncryptOptions::new(&kind.app) };
    let request = material::to_encrypt(&options, &values);
    let (answer, _) = ask(connection, &request).await?;
    if !kind.decrypt {
        material::check_envelopes(&answer, kind.fields)?;
        return Ok(PreparedRequest { request, answer_size: answer_size(&answer, 0), values: Vec::new() });
    }
    let request = material::to_decrypt(&kind.app, &answer)?;
    let (answer, _) = ask(connection, &request).await?;
    material::check(&answer, &values)?;
    Ok(PreparedRequest { request, answer_size: answer_size(&answer, 0), values })
}
