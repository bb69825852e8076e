//! Checks the worker threads under every interleaving, with loom: no wake-up is lost, every job ends once, a shutdown ends all. `make loom`
//! runs each model on every schedule with at most three preemptions.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

use super::*;
use crate::settings::PoolSettings;

/// A constant clock, so that an interleaving is deterministic.
struct Still(Instant);

impl PoolClock for Still {
    fn now(&self) -> Instant {
        self.0
    }
}

/// A clock that advances with each reading, so that polling ends.
struct Ticking(Instant, AtomicU64);

impl PoolClock for Ticking {
    fn now(&self) -> Instant {
        self.0 + MOMENT * u32::try_from(self.1.fetch_add(1, Relaxed)).unwrap()
    }
}

const MOMENT: Duration = Duration::from_micros(1);
const FOREVER: Duration = Duration::from_secs(1 << 20);

fn pool(workers: usize) -> Pool {
    let settings = PoolSettings { workers, linger: Duration::ZERO, ..PoolSettings::default() };
    Pool::start(settings, Arc::new(Still(Instant::now()))).unwrap()
}

fn model(run: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(run);
}

/// Counts how jobs ended. Plain counters of the standard library, which loom does not track.
#[derive(Default)]
struct Ends {
    done: AtomicUsize,
    abandoned: AtomicUsize,
    dropped: AtomicUsize,
}

struct Tally {
    slices: AtomicUsize,
    panics: bool,
    ends: Arc<Ends>,
}

impl Job for Tally {
    fn run_slice(&self, _turn: &SliceTurn<'_>) -> Slice {
        assert!(!self.panics, "its own fault");
        if self.slices.fetch_sub(1, Relaxed) > 1 {
            return Slice::More;
        }
        self.ends.done.fetch_add(1, Relaxed);
        Slice::Done
    }

    fn abandoned(&self, _cause: Abandoned) {
        self.ends.abandoned.fetch_add(1, Relaxed);
    }
}

impl Drop for Tally {
    fn drop(&mut self) {
        self.ends.dropped.fetch_add(1, Relaxed);
    }
}

fn tally(slices: usize, ends: &Arc<Ends>) -> Arc<dyn Job> {
    Arc::new(Tally { slices: AtomicUsize::new(slices), panics: slices == 0, ends: Arc::clone(ends) })
}

fn admission(connection: u64) -> Admission {
    Admission { tenant: 0, client: 0, connection, bytes: 1, cancellation: Arc::default() }
}

fn counts(ends: &Ends) -> (usize, usize, usize) {
    (ends.done.load(Relaxed), ends.abandoned.load(Relaxed), ends.dropped.load(Relaxed))
}

#[test]
fn no_wake_up_is_lost_with_one_worker() {
    model(|| {
        let (pool, ends) = (pool(1), Arc::default());
        pool.submit(tally(1, &ends), admission(1)).unwrap();
        pool.submit(tally(2, &ends), admission(2)).unwrap();
        assert_eq!(pool.shutdown(FOREVER), Drained { jobs_abandoned: 0 });
        assert_eq!(counts(&ends), (2, 0, 2));
    });
}

#[test]
fn no_wake_up_is_lost_with_two_workers() {
    model(|| {
        let (pool, ends) = (pool(2), Arc::default());
        pool.submit(tally(1, &ends), admission(1)).unwrap();
        pool.submit(tally(1, &ends), admission(2)).unwrap();
        assert_eq!(pool.shutdown(FOREVER), Drained { jobs_abandoned: 0 });
        assert_eq!(counts(&ends), (2, 0, 2));
    });
}

#[test]
fn two_threads_may_submit_at_once() {
    model(|| {
        let (pool, ends) = (Arc::new(pool(1)), Arc::default());
        let other = {
            let (pool, ends) = (Arc::clone(&pool), Arc::clone(&ends));
            loom::thread::spawn(move || assert!(pool.submit(tally(1, &ends), admission(1)).is_ok()))
        };
        pool.submit(tally(0, &ends), admission(2)).unwrap();
        other.join().unwrap();
        assert_eq!(pool.shutdown(FOREVER), Drained { jobs_abandoned: 0 });
        assert_eq!(counts(&ends), (1, 1, 2), "one panicked");
    });
}

#[test]
fn a_shutdown_at_any_moment_ends_every_job_once() {
    model(|| {
        let (pool, ends) = (pool(1), Arc::default());
        pool.submit(tally(2, &ends), admission(1)).unwrap();
        pool.submit(tally(1, &ends), admission(2)).unwrap();
        let drained = pool.shutdown(Duration::ZERO);
        let (done, abandoned, dropped) = counts(&ends);
        assert_eq!((done + abandoned, dropped), (2, 2));
        assert_eq!(drained.jobs_abandoned, abandoned);
    });
}

/// Two parts that must run at the same time: each waits for the other.
struct Pair {
    /// Parts that have begun.
    parts: Mutex<usize>,
    both: Condvar,
    inside: AtomicUsize,
    ends: Arc<Ends>,
}

impl Job for Pair {
    fn run_slice(&self, turn: &SliceTurn<'_>) -> Slice {
        self.inside.fetch_add(1, Relaxed);
        let mut parts = self.parts.lock().unwrap();
        *parts += 1;
        assert!(*parts <= 2);
        if *parts == 1 {
            drop(parts);
            assert!(turn.share(), "the other worker is idle");
            parts = self.parts.lock().unwrap();
        }
        while *parts < 2 {
            parts = self.both.wait(parts).unwrap();
        }
        self.both.notify_all();
        if self.inside.fetch_sub(1, Relaxed) > 1 {
            return Slice::Left;
        }
        self.ends.done.fetch_add(1, Relaxed);
        Slice::Done
    }
}

impl Drop for Pair {
    fn drop(&mut self) {
        self.ends.dropped.fetch_add(1, Relaxed);
    }
}

#[test]
fn a_shared_turn_wakes_an_idle_worker() {
    model(|| {
        let (pool, ends) = (pool(2), Arc::<Ends>::default());
        let pair =
            Pair { parts: Mutex::new(0), both: Condvar::new(), inside: AtomicUsize::new(0), ends: Arc::clone(&ends) };
        pool.submit(Arc::new(pair), admission(1)).unwrap();
        assert_eq!(pool.shutdown(FOREVER), Drained { jobs_abandoned: 0 });
        assert_eq!(counts(&ends), (1, 0, 1));
    });
}

/// Parts that are planned one after another by the worker with the turn, and run in parallel.
struct Parts {
    left: AtomicUsize,
    inside: AtomicUsize,
    ends: Arc<Ends>,
}

impl Job for Parts {
    fn run_slice(&self, turn: &SliceTurn<'_>) -> Slice {
        self.inside.fetch_add(1, Relaxed);
        let planned = self.left.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(1));
        if planned.is_ok_and(|left| left > 1) {
            turn.share();
        }
        let is_last = self.inside.fetch_sub(1, Relaxed) == 1;
        match (self.left.load(Relaxed), is_last) {
            (0, true) => {
                self.ends.done.fetch_add(1, Relaxed);
                Slice::Done
            }
            (0, false) => Slice::Left,
            _ => Slice::More,
        }
    }
}

impl Drop for Parts {
    fn drop(&mut self) {
        self.ends.dropped.fetch_add(1, Relaxed);
    }
}

#[test]
fn a_worker_that_lingers_misses_no_part() {
    model(|| {
        let settings = PoolSettings { workers: 2, linger: 2 * MOMENT, ..PoolSettings::default() };
        let pool = Pool::start(settings, Arc::new(Ticking(Instant::now(), AtomicU64::new(0)))).unwrap();
        let ends = Arc::<Ends>::default();
        let parts = Parts { left: AtomicUsize::new(3), inside: AtomicUsize::new(0), ends: Arc::clone(&ends) };
        pool.submit(Arc::new(parts), admission(1)).unwrap();
        assert_eq!(pool.shutdown(FOREVER), Drained { jobs_abandoned: 0 });
        assert_eq!(counts(&ends), (1, 0, 1));
    });
}
