//! The pool's own cost, and waiting times by tenant. Four tables, each figure from the fastest round:  (1) One thread, no wake-ups: a
//! job from its admission to its end, and a slice handed over, with more and more waiting. (2) Threads: jobs without work, one at a
//! time and many, with the number of wake-ups. (3) One job of many parts on one worker and on two. (4) Virtual time: how long small
//! jobs wait while four clients keep large ones in the queue, by scheduling order.

use std::hint::black_box;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, mpsc};
use std::time::{Duration, Instant};

use leafseal_pool::{Admission, Job, Pool, PoolClock, PoolSettings, Scheduling, Slice, SliceTurn};

const ROUNDS: usize = 300;
const ROUND_TIME: Duration = Duration::from_millis(1);
/// Calls between two readings of the clock.
const CALLS: usize = 16;

fn main() {
    one_thread();
    threads();
    spread();
    waits();
}

/// Runs for a fixed number of slices.
struct Slices(AtomicU64);

impl Slices {
    fn of(slices: u64) -> Arc<Self> {
        Arc::new(Slices(AtomicU64::new(slices)))
    }
}

impl Job for Slices {
    fn run_slice(&self, turn: &SliceTurn<'_>) -> Slice {
        black_box(turn.share());
        let left = self.0.load(Ordering::Relaxed) - 1;
        self.0.store(left, Ordering::Relaxed);
        if left == 0 { Slice::Done } else { Slice::More }
    }
}

fn admission(tenant: u64, connection: u64) -> Admission {
    Admission { tenant, client: 0, connection, bytes: 1000, cancellation: Arc::default() }
}

struct SystemClock;

impl PoolClock for SystemClock {
    fn now(&self) -> Instant {
        Instant::now()
    }
}

fn manual(workers: usize) -> Pool {
    let settings = PoolSettings { workers, queue_jobs_max: 1 << 20, ..PoolSettings::default() };
    Pool::manual(settings, Arc::new(SystemClock))
}

/// Nanoseconds of the fastest round of `work`, which processes `count` items per call. Rounds are shorter than the time slices of a busy
/// system.
fn fastest(count: usize, mut work: impl FnMut()) -> f64 {
    let round = |_| {
        let (began, mut calls) = (Instant::now(), 0);
        while began.elapsed() < ROUND_TIME {
            (0..CALLS).for_each(|_| work());
            calls += CALLS;
        }
        began.elapsed().as_nanos() as f64 / (calls * count) as f64
    };
    (0..ROUNDS).map(round).min_by(f64::total_cmp).expect("rounds")
}

fn one_thread() {
    println!("one thread, two readings of the clock a slice included           ns");
    let pool = manual(1);
    let alone = fastest(1, || submit_and_run(&pool, 1, 1));
    println!("  a job of one slice, nothing else held                    {alone:>8.0}");
    let held: Vec<_> = (0..1000).map(|other| pool.submit(Slices::of(1), admission(100 + other, other))).collect();
    assert!(held.iter().all(Result::is_ok), "room");
    let new = fastest(1, || submit_and_run(&pool, 1, 1));
    println!("  the same, first in line before 1,000 tenants              {new:>8.0}");
    for (tenants, connections) in [(1, 1), (1, 1_000), (1_000, 1), (100_000, 1)] {
        let pool = manual(1);
        for tenant in 0..tenants {
            for connection in 0..connections {
                pool.submit(Slices::of(u64::MAX), admission(tenant, connection)).expect("room");
            }
        }
        let slice = fastest(1, || assert!(pool.run_one()));
        println!("  a slice, {tenants:>7} tenants with {connections:>5} connections each     {slice:>8.0}");
    }
    let pool = manual(2);
    pool.submit(Slices::of(u64::MAX), admission(1, 1)).expect("room");
    let slice = fastest(1, || assert!(pool.run_one()));
    println!("  a slice that gives its turn back early                    {slice:>8.0}");
}

fn submit_and_run(pool: &Pool, tenant: u64, connection: u64) {
    pool.submit(Slices::of(1), admission(tenant, connection)).expect("room");
    assert!(pool.run_one());
}

/// Counts down outstanding jobs and signals when they fall below a mark.
struct Outstanding {
    count: AtomicUsize,
    mark: usize,
    lock: Mutex<()>,
    below: Condvar,
}

struct Counted(Arc<Outstanding>);

impl Job for Counted {
    fn run_slice(&self, _turn: &SliceTurn<'_>) -> Slice {
        let outstanding = &self.0;
        if outstanding.count.fetch_sub(1, Ordering::AcqRel) - 1 == outstanding.mark {
            drop(outstanding.lock.lock().expect("no panic"));
            outstanding.below.notify_one();
        }
        Slice::Done
    }
}

fn threads() {
    println!("\nthreads, jobs without any work         ns a job   wake-ups a job");
    for workers in [1, 2] {
        for most in [1, 64, 1024] {
            let settings = PoolSettings { workers, ..PoolSettings::default() };
            let pool = Pool::new(settings).expect("threads");
            let outstanding = Arc::new(Outstanding {
                count: AtomicUsize::new(0),
                mark: most / 2,
                lock: Mutex::new(()),
                below: Condvar::new(),
            });
            let time = fastest(most - most / 2, || fill(&pool, &outstanding, most));
            let counters = pool.counters();
            let wakes = counters.wakes as f64 / counters.slices as f64;
            println!("  {workers} workers, up to {most:>5} in the queue {time:>10.0} {wakes:>16.3}");
        }
    }
}

/// Fills the queue up to `most` jobs and waits until half of them are done.
fn fill(pool: &Pool, outstanding: &Arc<Outstanding>, most: usize) {
    while outstanding.count.load(Ordering::Acquire) < most {
        outstanding.count.fetch_add(1, Ordering::AcqRel);
        pool.submit(Arc::new(Counted(Arc::clone(outstanding))), admission(1, 1)).expect("room");
    }
    let mut guard = outstanding.lock.lock().expect("no panic");
    while outstanding.count.load(Ordering::Acquire) > outstanding.mark {
        guard = outstanding.below.wait(guard).expect("no panic");
    }
}

const PARTS: usize = 60;

/// Parts of arithmetic, planned one after the other.
struct Spread {
    /// Planned parts, and finished parts.
    planned: AtomicUsize,
    done: AtomicUsize,
    ended: Mutex<Option<mpsc::Sender<()>>>,
}

/// Arithmetic, each thousand steps of which take about a microsecond.
fn compute(steps: u64) {
    black_box((0..steps).fold(1_u64, |sum, term| (sum ^ term).wrapping_mul(0x9e37_79b9_7f4a_7c15)));
}

impl Job for Spread {
    fn run_slice(&self, turn: &SliceTurn<'_>) -> Slice {
        // Only the worker with the turn plans.
        let planned = self.planned.load(Ordering::Relaxed);
        if planned == PARTS {
            return Slice::Left;
        }
        compute(1_000);
        self.planned.store(planned + 1, Ordering::Relaxed);
        if planned + 1 < PARTS {
            turn.share();
        }
        compute(24_000);
        if self.done.fetch_add(1, Ordering::AcqRel) + 1 == PARTS {
            drop(self.ended.lock().expect("no panic").take());
            return Slice::Done;
        }
        if self.planned.load(Ordering::Relaxed) < PARTS { Slice::More } else { Slice::Left }
    }
}

fn spread() {
    println!("\none job of {PARTS} parts of some 25 µs, of which 1 is planning      ms   times one worker   wake-ups");
    let pools = [1, 2].map(|workers| Pool::new(PoolSettings { workers, ..PoolSettings::default() }).expect("threads"));
    let mut fastest = [f64::MAX; 2];
    for _ in 0..400 {
        for (pool, fastest) in pools.iter().zip(&mut fastest) {
            let (sender, receiver) = mpsc::channel();
            let job =
                Spread { planned: AtomicUsize::new(0), done: AtomicUsize::new(0), ended: Mutex::new(Some(sender)) };
            let began = Instant::now();
            pool.submit(Arc::new(job), admission(1, 1)).expect("room");
            receiver.recv().expect_err("only dropped");
            *fastest = fastest.min(began.elapsed().as_secs_f64() * 1000.0);
        }
    }
    for (pool, time) in pools.iter().zip(fastest) {
        let counters = pool.counters();
        let wakes = counters.wakes as f64 / counters.jobs_done as f64;
        println!("  {} workers {time:>57.2} {:>18.2} {wakes:>10.1}", pool.workers(), fastest[0] / time);
    }
}

const SLICE: Duration = Duration::from_micros(50);
/// 60,000 fields of 400 ns.
const LARGE_SLICES: u64 = 480;

/// A clock that the slices themselves advance.
#[derive(Clone)]
struct VirtualClock {
    start: Instant,
    nanoseconds: Arc<AtomicU64>,
}

impl VirtualClock {
    fn elapsed(&self) -> Duration {
        Duration::from_nanos(self.nanoseconds.load(Ordering::Relaxed))
    }

    fn advance(&self, time: Duration) {
        self.nanoseconds.fetch_add(time.as_nanos() as u64, Ordering::Relaxed);
    }
}

impl PoolClock for VirtualClock {
    fn now(&self) -> Instant {
        self.start + self.elapsed()
    }
}

/// The jobs that have ended in virtual time.
#[derive(Default)]
struct Ended {
    /// Times from arrival to end of small jobs.
    small: Vec<Duration>,
    /// Clients whose large job is done, and which send the next one.
    large: Vec<u64>,
}

/// A job in virtual time.
struct Virtual {
    clock: VirtualClock,
    slices: AtomicU64,
    /// The sender of a large job; the arrival time of a small one.
    origin: Result<u64, Duration>,
    ended: Arc<Mutex<Ended>>,
}

impl Job for Virtual {
    fn run_slice(&self, _turn: &SliceTurn<'_>) -> Slice {
        self.clock.advance(SLICE);
        if self.slices.fetch_sub(1, Ordering::Relaxed) > 1 {
            return Slice::More;
        }
        let mut ended = self.ended.lock().expect("no panic");
        match self.origin {
            Ok(client) => ended.large.push(client),
            Err(arrived) => ended.small.push(self.clock.elapsed() - arrived),
        }
        Slice::Done
    }
}

fn waits() {
    println!(
        "\nsmall jobs of one slice of 50 µs, one each 10 ms, on one worker; four clients keep large jobs of 24 ms in the queue:"
    );
    println!("µs from arrival to end         large jobs       p50       p99       max");
    for large_each in [1, 16] {
        for (name, scheduling, are_apart) in [
            ("fair", Scheduling::Fair, true),
            ("turns of all jobs", Scheduling::Fair, false),
            ("first come, first served", Scheduling::FirstComeFirstServed, true),
        ] {
            let took = small_jobs_under(scheduling, are_apart, large_each);
            let at = |share: f64| took[((took.len() - 1) as f64 * share) as usize].as_micros();
            println!("  {name:<28} {:>10} {:>9} {:>9} {:>9}", 4 * large_each, at(0.5), at(0.99), at(1.0));
        }
    }
}

/// Times of small jobs, in order. `are_apart`: each client has its own connection; otherwise all jobs take turns.
fn small_jobs_under(scheduling: Scheduling, are_apart: bool, large_each: u64) -> Vec<Duration> {
    let clock = VirtualClock { start: Instant::now(), nanoseconds: Arc::default() };
    let pool =
        Pool::manual(PoolSettings { workers: 1, scheduling, ..PoolSettings::default() }, Arc::new(clock.clone()));
    let ended = Arc::new(Mutex::new(Ended::default()));
    let submit = |client: u64, slices, origin| {
        let job = Virtual { clock: clock.clone(), slices: AtomicU64::new(slices), origin, ended: Arc::clone(&ended) };
        pool.submit(Arc::new(job), admission(0, if are_apart { client } else { 0 })).expect("room");
    };
    // The first ones have different lengths, so that they do not end together.
    (0..4 * large_each).for_each(|job| submit(job % 4, 1 + job * 97 % LARGE_SLICES, Ok(job % 4)));
    let mut next_small = Duration::from_millis(1);
    while clock.elapsed() < Duration::from_secs(60) {
        while next_small <= clock.elapsed() {
            submit(4, 1, Err(next_small));
            next_small += Duration::from_micros(10_007);
        }
        assert!(pool.run_one());
        let large = std::mem::take(&mut ended.lock().expect("no panic").large);
        large.into_iter().for_each(|client| submit(client, LARGE_SLICES, Ok(client)));
    }
    let mut times = std::mem::take(&mut ended.lock().expect("no panic").small);
    times.sort();
    times
}
