//! The pool with real threads: fairness, limits, panics, shutdown, and a stress test.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, OnceLock};
use std::task::Waker;
use std::time::{Duration, Instant};

use leafseal_pool::{
    Abandoned, Admission, CancelReason, Cancellation, Drained, Job, LimitScope, Measure, Pool, PoolSettings,
    ReachedLimit, Rejection, Slice, SliceTurn, job_waker,
};

fn pool(workers: usize) -> Pool {
    Pool::new(PoolSettings { workers, ..PoolSettings::default() }).unwrap()
}

fn admission(tenant: u64, connection: u64, bytes: usize) -> Admission {
    Admission { tenant, client: 0, connection, bytes, cancellation: Arc::default() }
}

fn bytes(bytes: usize) -> Admission {
    admission(0, 0, bytes)
}

/// A job that runs a closure for each slice and records how it ended.
struct Script<F> {
    slice: Mutex<F>,
    ended: Sender<Option<Abandoned>>,
    abandoned: OnceLock<Abandoned>,
}

impl<F> Script<F> {
    fn new(slice: F, ended: Sender<Option<Abandoned>>) -> Self {
        Script { slice: Mutex::new(slice), ended, abandoned: OnceLock::new() }
    }
}

impl<F: FnMut() -> Slice + Send> Job for Script<F> {
    fn run_slice(&self, _turn: &SliceTurn<'_>) -> Slice {
        let mut slice = self.slice.try_lock().expect("one worker has the turn");
        slice()
    }

    fn abandoned(&self, cause: Abandoned) {
        self.abandoned.set(cause).expect("abandoned once");
    }
}

impl<F> Drop for Script<F> {
    fn drop(&mut self) {
        let _ = self.ended.send(self.abandoned.get().copied());
    }
}

fn script<F: FnMut() -> Slice + Send + 'static>(slice: F) -> (Arc<dyn Job>, Receiver<Option<Abandoned>>) {
    let (ended, end) = channel();
    (Arc::new(Script::new(slice, ended)), end)
}

/// `slices` slices, each of which appends `name` to the log.
fn noting(name: char, slices: usize, log: &Arc<Mutex<String>>) -> (Arc<dyn Job>, Receiver<Option<Abandoned>>) {
    let (log, mut left) = (Arc::clone(log), slices);
    script(move || {
        log.lock().unwrap().push(name);
        left -= 1;
        if left == 0 { Slice::Done } else { Slice::More }
    })
}

/// Occupies a worker until the sender is dropped or sends.
fn gate() -> (Arc<dyn Job>, Sender<()>, Receiver<()>) {
    let (open, wait) = channel::<()>();
    let (entered, inside) = channel();
    let (job, _) = script(move || {
        entered.send(()).unwrap();
        let _ = wait.recv();
        Slice::Done
    });
    (job, open, inside)
}

const WAIT: Duration = Duration::from_secs(60);

#[test]
fn a_small_job_waits_for_one_slice_of_each_big_one() {
    let pool = pool(1);
    let log = Arc::new(Mutex::new(String::new()));
    let (gate, open, inside) = gate();
    pool.submit(gate, bytes(0)).unwrap();
    inside.recv_timeout(WAIT).unwrap();
    let mut ends = Vec::new();
    for (name, slices) in [('A', 6), ('B', 6), ('s', 1), ('C', 3), ('t', 2)] {
        let (job, end) = noting(name, slices, &log);
        pool.submit(job, bytes(0)).unwrap();
        ends.push(end);
    }
    drop(open);
    for end in ends {
        assert_eq!(end.recv_timeout(WAIT), Ok(None));
    }
    assert_eq!(*log.lock().unwrap(), "ABsCtABCtABCABABAB");
}

fn overloaded(measure: Measure) -> Rejection {
    Rejection::Overloaded(ReachedLimit { scope: LimitScope::Total, measure })
}

#[test]
fn bounds_refuse_at_once_and_give_the_job_back() {
    let pool =
        Pool::new(PoolSettings { workers: 1, queue_jobs_max: 2, queue_bytes_max: 100, ..PoolSettings::default() })
            .unwrap();
    let (held, open, inside) = gate();
    pool.submit(held, bytes(60)).unwrap();
    inside.recv_timeout(WAIT).unwrap();

    let (job, end) = script(|| Slice::Done);
    let rejected = pool.submit(job, bytes(41)).unwrap_err();
    assert_eq!(rejected.cause, overloaded(Measure::Bytes));
    pool.submit(rejected.job, bytes(40)).unwrap();
    let (third, _end) = script(|| Slice::Done);
    assert_eq!(pool.submit(third, bytes(0)).unwrap_err().cause, overloaded(Measure::Jobs));
    let counters = pool.counters();
    assert_eq!((counters.jobs_held, counters.bytes_held, counters.jobs_waiting, counters.workers_busy), (2, 100, 1, 1));
    assert_eq!(counters.jobs_rejected, 2);

    drop(open);
    assert_eq!(end.recv_timeout(WAIT), Ok(None));
    assert_eq!(pool.shutdown(WAIT), Drained { jobs_abandoned: 0 });
    let counters = pool.counters();
    assert_eq!((counters.jobs_held, counters.bytes_held, counters.jobs_done), (0, 0, 2));
}

#[test]
fn a_panic_ends_its_job_and_nothing_else() {
    let pool = pool(1);
    let (bad, end) = script(|| panic!("a job's own mistake"));
    pool.submit(bad, bytes(7)).unwrap();
    assert_eq!(end.recv_timeout(WAIT), Ok(Some(Abandoned::Panicked)));
    let (good, end) = script(|| Slice::Done);
    pool.submit(good, bytes(7)).unwrap();
    assert_eq!(end.recv_timeout(WAIT), Ok(None));
    pool.shutdown(WAIT);
    let counters = pool.counters();
    assert_eq!((counters.jobs_panicked, counters.jobs_done, counters.bytes_held), (1, 1, 0));
}

struct PanicsInDrop;

impl Job for PanicsInDrop {
    fn run_slice(&self, _turn: &SliceTurn<'_>) -> Slice {
        Slice::Done
    }
}

impl Drop for PanicsInDrop {
    fn drop(&mut self) {
        panic!("in the destructor");
    }
}

#[test]
fn a_panic_in_a_destructor_spares_the_worker() {
    let pool = pool(1);
    pool.submit(Arc::new(PanicsInDrop), bytes(1)).unwrap();
    let (good, end) = script(|| Slice::Done);
    pool.submit(good, bytes(1)).unwrap();
    assert_eq!(end.recv_timeout(WAIT), Ok(None));
}

#[test]
fn shutdown_finishes_what_it_can_and_abandons_the_rest() {
    let pool = pool(1);
    let (held, open, inside) = gate();
    pool.submit(held, bytes(0)).unwrap();
    inside.recv_timeout(WAIT).unwrap();
    let (waiting, end) = script(|| Slice::Done);
    pool.submit(waiting, bytes(5)).unwrap();
    let opener = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(80));
        drop(open);
    });
    let began = Instant::now();
    assert_eq!(pool.shutdown(Duration::from_millis(20)), Drained { jobs_abandoned: 1 });
    assert!(began.elapsed() >= Duration::from_millis(70), "the slice in hand is waited for");
    opener.join().unwrap();
    assert_eq!(end.recv_timeout(WAIT), Ok(Some(Abandoned::ShutDown)));
    let (late, _end) = script(|| Slice::Done);
    assert_eq!(pool.submit(late, bytes(0)).unwrap_err().cause, Rejection::ShuttingDown);
    assert_eq!(pool.counters().bytes_held, 0);
}

#[test]
fn draining_lets_long_jobs_finish() {
    let pool = pool(2);
    let log = Arc::new(Mutex::new(String::new()));
    let ends: Vec<_> = ['A', 'B', 'C']
        .into_iter()
        .map(|name| {
            let (job, end) = noting(name, 500, &log);
            pool.submit(job, bytes(1)).unwrap();
            end
        })
        .collect();
    assert_eq!(pool.shutdown(WAIT), Drained { jobs_abandoned: 0 });
    assert!(ends.iter().all(|end| end.try_recv() == Ok(None)));
    assert_eq!(log.lock().unwrap().len(), 1500);
}

#[test]
fn a_pool_dropped_by_its_own_job_ends() {
    let pool = Arc::new(pool(1));
    let (release, released) = channel::<()>();
    let own = Arc::clone(&pool);
    let (job, end) = script(move || {
        let _keep = &own;
        let _ = released.recv();
        Slice::Done
    });
    pool.submit(job, bytes(0)).unwrap();
    drop(pool);
    drop(release);
    assert_eq!(end.recv_timeout(WAIT), Ok(None));
}

/// Many threads submit jobs of many lengths, some of which panic or are cancelled; every one ends exactly once.
#[test]
fn a_storm_of_jobs_ends_every_one_exactly_once() {
    const SUBMITTERS: usize = 4;
    const JOBS: usize = 500;
    let pool = Arc::new(pool(3));
    let (ended, ends) = channel();
    let slices = Arc::new(AtomicUsize::new(0));
    let threads: Vec<_> = (0..SUBMITTERS)
        .map(|_| {
            let (pool, ended, slices) = (Arc::clone(&pool), ended.clone(), Arc::clone(&slices));
            std::thread::spawn(move || {
                for number in 0..JOBS {
                    let cancellation = Arc::new(Cancellation::new());
                    let (flag, slices, mut left) = (Arc::clone(&cancellation), Arc::clone(&slices), number % 7 + 1);
                    let job = Script::new(
                        move || {
                            slices.fetch_add(1, Ordering::Relaxed);
                            left -= 1;
                            assert!(number % 50 != 49, "every fiftieth panics");
                            if left == 0 || flag.check(Instant::now()).is_err() { Slice::Done } else { Slice::More }
                        },
                        ended.clone(),
                    );
                    pool.submit(Arc::new(job), admission(number as u64 % 3, number as u64 % 5, number)).unwrap();
                    if number % 11 == 0 {
                        cancellation.cancel(CancelReason::Disconnected);
                    }
                }
            })
        })
        .collect();
    for thread in threads {
        thread.join().unwrap();
    }
    pool.shutdown(WAIT);
    drop(ended);
    let all: Vec<_> = ends.iter().collect();
    assert_eq!(all.len(), SUBMITTERS * JOBS);
    let panicked = all.iter().filter(|end| **end == Some(Abandoned::Panicked)).count();
    assert_eq!(panicked, SUBMITTERS * JOBS / 50);
    let counters = pool.counters();
    assert_eq!(counters.slices as usize, slices.load(Ordering::Relaxed));
    assert_eq!(counters.jobs_done as usize + panicked, SUBMITTERS * JOBS);
    assert_eq!((counters.jobs_held, counters.bytes_held), (0, 0));
}

/// A job that parks in its first slice, sends its waker, and is done in its second; it sends the number of each slice.
fn parking(
    limit: Duration,
    cancellation: &Arc<Cancellation>,
) -> (Arc<dyn Job>, Admission, Receiver<usize>, Receiver<Waker>) {
    let (ran, slices) = channel();
    let (wakers, waker) = channel();
    let mut number = 0;
    let (job, _) = script(move || {
        number += 1;
        ran.send(number).unwrap();
        if number > 1 {
            return Slice::Done;
        }
        wakers.send(job_waker().expect("a slice runs")).unwrap();
        Slice::Park(Instant::now() + limit)
    });
    let admission = Admission { cancellation: Arc::clone(cancellation), ..bytes(1) };
    (job, admission, slices, waker)
}

const LONG: Duration = Duration::from_secs(600);

#[test]
fn a_parked_job_occupies_no_worker_and_continues_when_it_is_woken() {
    let pool = pool(1);
    let (job, admission, slices, waker) = parking(LONG, &Arc::default());
    pool.submit(job, admission).unwrap();
    assert_eq!(slices.recv(), Ok(1));
    let log = Arc::default();
    let (other, end) = noting('a', 3, &log);
    pool.submit(other, bytes(1)).unwrap();
    assert_eq!(end.recv(), Ok(None), "the only worker is free");
    assert_eq!(pool.counters().jobs_parked, 1);
    waker.recv().unwrap().wake();
    assert_eq!(slices.recv(), Ok(2));
    assert!(job_waker().is_none(), "no slice runs here");
}

#[test]
fn a_parked_job_continues_at_its_time_without_being_woken() {
    let pool = pool(2);
    let (job, admission, slices, _waker) = parking(Duration::from_millis(5), &Arc::default());
    pool.submit(job, admission).unwrap();
    assert_eq!((slices.recv(), slices.recv()), (Ok(1), Ok(2)));
}

#[test]
fn a_parked_job_that_is_cancelled_and_hurried_continues_to_its_end() {
    let pool = pool(1);
    let cancellation = Arc::<Cancellation>::default();
    let (job, admission, slices, _waker) = parking(LONG, &cancellation);
    let ticket = pool.submit(job, admission).unwrap();
    assert_eq!(slices.recv(), Ok(1));
    cancellation.cancel(CancelReason::Disconnected);
    pool.hurry(&ticket);
    assert_eq!(slices.recv(), Ok(2));
}

#[test]
fn a_waker_outlives_its_pool() {
    let pool = pool(1);
    let (job, admission, slices, waker) = parking(LONG, &Arc::default());
    pool.submit(job, admission).unwrap();
    assert_eq!(slices.recv(), Ok(1));
    let waker = waker.recv().unwrap();
    pool.shutdown(Duration::ZERO);
    drop(pool);
    waker.wake();
}
