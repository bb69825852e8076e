//! One schedule: its parts, its random source, and its driver.

use std::convert::Infallible;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

use leafseal_config::KeyExchange;
use leafseal_engine::pool::{PoolClock, Scheduling};
use leafseal_engine::{Caller, Engine, Settings};
use leafseal_net::tls::{PrivateKeySettings, SessionSettings, VerifiedChains};
use leafseal_protocol::FrameLimits;
use leafseal_server::simulation::Simulated;
use leafseal_server::{ServerSettings, TlsSettings};
use leafseal_service::EngineService;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use tokio::task::yield_now;
use tokio::time::advance;

use crate::common::script::{NetworkQuality, Plan};
use crate::executor::Executor;
use crate::journal::Journal;
use crate::material::{APPS, Material};
use crate::network::{Endpoint, Opener};
use crate::service::{SimulatedCaller, Watched};
use crate::watch::{Number, Step, Watch};

/// Maximum number of events within a step.
const INTERLUDES_MAX: u64 = 3;
/// In a slow network, from the beginning of a call to its answer.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(3);
/// For fast and slow machines.
const STEP_NS_MAX: [u64; 3] = [10_000, 500_000, 3_000_000];
/// The script's positions are for messages after a handshake and in records; connections carry fewer bytes here.
const PLACES_SCALE: [u64; 3] = [1, 5, 30];
/// Small, so that small requests take many steps.
const STEP_VALUES: usize = 8;
const STEP_BYTES: usize = 4 << 10;

/// The server's limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Bounds {
    /// Enough for all of the clients' requests.
    Roomy,
    /// Less than they request.
    Tight,
}

pub(crate) struct World {
    pub material: &'static Material,
    pub journal: Arc<Journal>,
    pub watch: Watch,
    pub quality: NetworkQuality,
    pub bounds: Bounds,
    pub network_connections: AtomicU64,
    began: tokio::time::Instant,
    seed: u64,
    workers: usize,
    settings: OnceLock<ServerSettings>,
    step_ns_max: u64,
    chance: Mutex<StdRng>,
    executor: Executor,
    /// Nanoseconds of the running slice that the runtime's clock does not include yet.
    ahead: Arc<AtomicU64>,
    hosts: Mutex<Vec<Host>>,
    is_healed: AtomicBool,
    is_shutting_down: AtomicBool,
    is_closing: AtomicBool,
    /// A digest of all events.
    digest: Mutex<DefaultHasher>,
}

/// An address, where engines serve one after the other.
struct Host {
    /// The last one serves.
    engines: Vec<Arc<Simulated<Watched>>>,
    is_listening: bool,
}

/// The runtime's clock, plus the time used by the running slice.
#[derive(Clone)]
struct Time {
    began: Instant,
    ahead: Arc<AtomicU64>,
}

impl PoolClock for Time {
    fn now(&self) -> Instant {
        now(&self.ahead)
    }
}

impl leafseal_engine::EngineClock for Time {
    fn now_unix_s(&self) -> u32 {
        1_800_000_000
    }

    fn monotonic(&self) -> Duration {
        now(&self.ahead) - self.began
    }
}

fn now(ahead: &AtomicU64) -> Instant {
    tokio::time::Instant::now().into_std() + Duration::from_nanos(ahead.load(Ordering::Relaxed))
}

impl World {
    pub(crate) fn new(material: &'static Material, seed: u64) -> Arc<World> {
        let mut chance = StdRng::seed_from_u64(seed);
        let quality = if chance.random_bool(0.4) { NetworkQuality::Slow } else { NetworkQuality::Lossy };
        let bounds = if chance.random_bool(0.3) { Bounds::Tight } else { Bounds::Roomy };
        let scheduling = if chance.random_bool(0.1) { Scheduling::FirstComeFirstServed } else { Scheduling::Fair };
        let step_ns_max = STEP_NS_MAX[chance.random_range(0..STEP_NS_MAX.len())];
        let workers = chance.random_range(1..5);
        let settings = server_settings(&mut chance, workers, bounds, scheduling);
        let hosts = if chance.random_bool(0.4) { 2 } else { 1 };
        let world = Arc::new(World {
            material,
            journal: Arc::default(),
            // Slices of one engine do not serve requests that wait at another.
            watch: Watch::new(workers, bounds == Bounds::Roomy && scheduling == Scheduling::Fair && hosts == 1),
            quality,
            bounds,
            network_connections: AtomicU64::new(0),
            began: tokio::time::Instant::now(),
            seed,
            workers,
            settings: OnceLock::new(),
            step_ns_max,
            chance: Mutex::new(chance),
            executor: Executor::default(),
            ahead: Arc::default(),
            hosts: Mutex::default(),
            is_healed: AtomicBool::new(false),
            is_shutting_down: AtomicBool::new(false),
            is_closing: AtomicBool::new(false),
            digest: Mutex::default(),
        });
        assert!(world.settings.set(settings).is_ok(), "set once");
        for _ in 0..hosts {
            world.hosts.lock().unwrap().push(Host { engines: vec![world.new_engine()], is_listening: true });
        }
        world
    }

    fn new_engine(self: &Arc<Self>) -> Arc<Simulated<Watched>> {
        let time = Time { began: now(&self.ahead), ahead: Arc::clone(&self.ahead) };
        let engine =
            Engine::with_clock(Box::new(self.material.store.open()), engine_settings(), Box::new(time.clone()));
        // Requests count to an app once it is known.
        for app in APPS {
            engine.public_keys(&Caller::Owner, app).expect("it is in the store");
        }
        let service = EngineService::new(engine, FrameLimits::default(), 1 << 28);
        let service = Watched { service, world: Arc::downgrade(self) };
        let settings = self.settings.get().expect("set when the world was made").clone();
        Arc::new(Simulated::new(settings, Arc::new(service), Arc::new(time)))
    }

    /// The number of addresses that clients have.
    pub(crate) fn addresses(&self) -> usize {
        self.hosts.lock().unwrap().len()
    }

    /// All engines so far.
    pub(crate) fn engines(&self) -> Vec<Arc<Simulated<Watched>>> {
        self.hosts.lock().unwrap().iter().flat_map(|host| host.engines.iter().cloned()).collect()
    }

    /// The engine that serves at an address, or did so last.
    pub(crate) fn engine_at(&self, host: usize) -> Arc<Simulated<Watched>> {
        Arc::clone(self.hosts.lock().unwrap()[host].engines.last().expect("at least one"))
    }

    /// Starts a new engine at the address.
    pub(crate) fn restart(self: &Arc<Self>, host: usize) {
        let engine = self.new_engine();
        let host = &mut self.hosts.lock().unwrap()[host];
        host.engines.push(engine);
        host.is_listening = true;
    }

    /// A random number below `limit`.
    pub(crate) fn below(&self, limit: u64) -> u64 {
        self.chance.lock().unwrap().random_range(0..limit)
    }

    /// A random generator with its own seed.
    pub(crate) fn fork(&self) -> StdRng {
        StdRng::seed_from_u64(self.chance.lock().unwrap().random())
    }

    pub(crate) fn plan(&self, connection: u64) -> Plan {
        if self.is_healed.load(Ordering::Relaxed) {
            return Plan::fair();
        }
        let mut plan = Plan::of(self.seed, self.quality, connection);
        let scale = PLACES_SCALE[self.below(PLACES_SCALE.len() as u64) as usize];
        let places = plan.to_server.iter_mut().chain(&mut plan.to_client).map(|event| &mut event.at);
        places.chain(&mut plan.replay_at).for_each(|place| *place /= scale);
        plan
    }

    /// Opens new connections without faults.
    pub(crate) fn heal(&self) {
        self.is_healed.store(true, Ordering::Relaxed);
    }

    /// Whether an engine listens.
    pub(crate) fn is_listening(&self) -> bool {
        self.hosts.lock().unwrap().iter().any(|host| host.is_listening)
    }

    pub(crate) fn is_listening_at(&self, host: usize) -> bool {
        self.hosts.lock().unwrap()[host].is_listening
    }

    pub(crate) fn is_closing(&self) -> bool {
        self.is_closing.load(Ordering::Relaxed)
    }

    /// Whether an engine has begun to shut down.
    pub(crate) fn is_shutting_down(&self) -> bool {
        self.is_shutting_down.load(Ordering::Relaxed)
    }

    /// Whether the only engine has begun to shut down.
    pub(crate) fn is_only_one_shutting_down(&self) -> bool {
        self.addresses() == 1 && self.is_shutting_down()
    }

    pub(crate) fn begin_shutdown(&self, host: usize, delay: Duration) {
        self.is_shutting_down.store(true, Ordering::Relaxed);
        self.engine_at(host).begin_shutdown(delay);
    }

    pub(crate) fn begin_draining(&self, host: usize) {
        self.is_shutting_down.store(true, Ordering::Relaxed);
        self.hosts.lock().unwrap()[host].is_listening = false;
        self.engine_at(host).begin_draining();
    }

    /// Returns how many requests were abandoned.
    pub(crate) fn begin_closing(&self, host: usize) -> usize {
        if !self.is_listening() {
            self.is_closing.store(true, Ordering::Relaxed);
        }
        self.engine_at(host).begin_closing()
    }

    pub(crate) fn request_timeout(&self) -> Duration {
        Duration::from_secs(if self.quality == NetworkQuality::Slow { 20 } else { 2 })
    }

    /// The longest pause before a client retries a call.
    pub(crate) fn retry_pause_max(&self) -> Duration {
        Duration::from_millis(50)
    }

    /// Checks that no call waits for a lost wake-up until some timer fires.
    pub(crate) fn assert_in_time(&self, call: usize, elapsed: Duration) {
        let is_late = self.quality == NetworkQuality::Slow && elapsed > ANSWER_TIME_MAX;
        assert!(!is_late, "call {call} was answered after {elapsed:?}");
    }

    /// Adds an event to the digest, which must be the same when the seed is run again.
    pub(crate) fn note(&self, what: &str, a: u64, b: u64) {
        (what, a, b, self.began.elapsed()).hash(&mut *self.digest.lock().unwrap());
    }

    pub(crate) fn digest(&self) -> u64 {
        self.digest.lock().unwrap().finish()
    }

    /// Serves a connection; returns false when the server accepts no more.
    pub(crate) fn accept(&self, host: usize, number: u64, opener: Opener, socket: Endpoint) -> bool {
        let caller = Arc::new(SimulatedCaller { connection: number, opener, caller: Arc::new(Caller::Owner) });
        let Some(serving) = self.engine_at(host).accept(caller, socket) else { return false };
        self.note("accept", number, u64::from(opener == Opener::Eavesdropper));
        self.executor.spawn(number, serving);
        true
    }

    pub(crate) fn has_connections(&self) -> bool {
        !self.executor.is_empty()
    }

    fn look(&self) {
        self.watch.look(now(&self.ahead));
    }

    /// Runs a step of a request: simulated time passes, in which other workers and the network run.
    pub(crate) fn step(&self, number: Number, step: Step) {
        self.watch.enter(number, step, now(&self.ahead));
        self.ahead.fetch_add(self.below(self.step_ns_max), Ordering::Relaxed);
        self.look();
        for _ in 0..self.below(INTERLUDES_MAX + 1) {
            if self.below(2) == 0 && self.watch.depth() < self.workers {
                self.run_slice();
            } else {
                self.poll_connection();
            }
        }
        self.watch.leave();
    }

    fn run_slice(&self) {
        let mut busy = self.engines();
        // Includes an engine whose only request is running: another worker may join it.
        busy.retain(|engine| engine.counters().pool.jobs_held > 0);
        if busy.is_empty() {
            return;
        }
        let engine = &busy[self.below(busy.len() as u64) as usize];
        self.watch.begin_slice(engine.counters().pool.jobs_held, now(&self.ahead));
        let has_run = engine.run_one();
        self.watch.end_slice(has_run, now(&self.ahead));
    }

    fn poll_connection(&self) {
        if let Some(number) = self.executor.poll_one(|count| self.below(count)) {
            self.note("poll", number, self.ahead.load(Ordering::Relaxed));
            self.look();
        }
    }

    /// Drives the schedule until `script` has ended.
    pub(crate) async fn play<T>(&self, script: impl Future<Output = T>) -> T {
        tokio::select! {
            biased;
            reported = script => reported,
            never = self.drive() => match never {},
        }
    }

    async fn drive(&self) -> Infallible {
        loop {
            self.watch.assert_sound();
            let is_roomy = self.bounds == Bounds::Roomy;
            let engines = self.engines();
            // A connection that waits for its turn has not processed everything, although nothing wakes it yet.
            if engines.iter().all(|engine| engine.turns_are_taken()) {
                self.watch.look_at_connections(is_roomy, |number| !self.executor.is_ready(number));
            }
            let has_work = engines.iter().any(|engine| engine.counters().pool.jobs_waiting > 0);
            match (has_work, self.executor.has_ready(), self.below(4)) {
                (false, false, _) => {
                    if is_roomy {
                        self.watch.look_at_rest();
                    }
                    self.executor.wait().await;
                }
                (_, _, 0) => yield_now().await,
                (true, false, _) | (true, true, 1) => self.work().await,
                (_, true, _) => self.poll_connection(),
            }
        }
    }

    /// Runs a worker's slice. Its time is added to the clock before anything else reads it.
    async fn work(&self) {
        self.run_slice();
        let used = Duration::from_nanos(self.ahead.swap(0, Ordering::Relaxed));
        self.note("slice", used.as_nanos() as u64, 0);
        advance(used).await;
    }
}

fn engine_settings() -> Settings {
    Settings { step_values_max: STEP_VALUES, step_bytes_max: STEP_BYTES, ..Settings::default() }
}

fn server_settings(chance: &mut StdRng, workers: usize, bounds: Bounds, scheduling: Scheduling) -> ServerSettings {
    let nothing = TlsSettings {
        certificate_chain_pem: Vec::new(),
        private_key_pem: Vec::new().into(),
        private_key_settings: PrivateKeySettings::default(),
        sessions: SessionSettings::default(),
        key_exchange: KeyExchange::of_rpc(),
        verified_chains: VerifiedChains::default(),
        client_authorities_pem: Vec::new(),
    };
    let settings = ServerSettings {
        workers,
        scheduling,
        idle_timeout: Duration::from_secs(60),
        frame_timeout: Duration::from_secs(5),
        paused_frame_timeout: Duration::from_secs(40),
        write_timeout: Duration::from_secs(5),
        ..ServerSettings::new(nothing)
    };
    match bounds {
        Bounds::Roomy => settings,
        Bounds::Tight => ServerSettings {
            requests_in_flight_max: chance.random_range(1..5),
            outgoing_bytes_max: chance.random_range(1..50_000),
            connection_bytes_max: chance.random_range(1..100_000),
            queue_jobs_max: chance.random_range(1..8),
            app_jobs_max: chance.random_range(1..5),
            answers_bytes_max: chance.random_range(100_000..1_000_000),
            client_answers_bytes_max: chance.random_range(100_000..1_000_000),
            connection_answers_bytes_max: chance.random_range(1..200_000),
            admission_wait: Duration::from_millis(chance.random_range(0..5)),
            ..settings
        },
    }
}
