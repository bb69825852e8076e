//! Several workers in one job, with real threads; and single steps in virtual time.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Barrier, Mutex};
use std::time::{Duration, Instant};

use leafseal_pool::{
    Abandoned, Admission, CancelReason, Cancellation, Drained, Job, Pool, PoolClock, PoolObserver, PoolSettings,
    Scheduling, Slice, SliceTurn,
};

const WAIT: Duration = Duration::from_secs(60);

fn admission(tenant: u64, connection: u64) -> Admission {
    Admission { tenant, client: 0, connection, bytes: 10, cancellation: Arc::default() }
}

fn pool(workers: usize) -> Pool {
    Pool::new(PoolSettings { workers, ..PoolSettings::default() }).unwrap()
}

/// Parts that any worker can run, planned one after the other.
struct Parts<F> {
    state: Mutex<State>,
    /// Runs the part with this number.
    part: F,
    cancellation: Arc<Cancellation>,
    ended: Sender<(usize, Option<Abandoned>)>,
}

struct State {
    planned: usize,
    parts: usize,
    inside: usize,
    done: usize,
    said_done: bool,
    abandoned: Option<Abandoned>,
}

enum Entered {
    /// Another worker has returned that the job is done.
    Late,
    /// Other workers have all parts, or the job was cancelled.
    NothingLeft,
    Part {
        number: usize,
        is_last: bool,
    },
}

impl<F: Fn(usize) + Send + Sync> Parts<F> {
    fn new(
        parts: usize,
        part: F,
        cancellation: &Arc<Cancellation>,
        ended: &Sender<(usize, Option<Abandoned>)>,
    ) -> Self {
        let state = State { planned: 0, parts, inside: 0, done: 0, said_done: false, abandoned: None };
        Parts { state: Mutex::new(state), part, cancellation: Arc::clone(cancellation), ended: ended.clone() }
    }

    /// Plans the next part.
    fn enter(&self) -> Entered {
        let mut state = self.state.lock().unwrap();
        if state.said_done {
            return Entered::Late;
        }
        state.inside += 1;
        if self.cancellation.check(Instant::now()).is_err() {
            state.parts = state.planned;
        }
        if state.planned == state.parts {
            return Entered::NothingLeft;
        }
        state.planned += 1;
        Entered::Part { number: state.planned - 1, is_last: state.planned == state.parts }
    }

    fn leave(&self, worked: bool) -> Slice {
        let mut state = self.state.lock().unwrap();
        state.inside -= 1;
        state.done += usize::from(worked);
        if state.planned < state.parts {
            Slice::More
        } else if state.inside > 0 {
            Slice::Left
        } else {
            assert!(!state.said_done);
            state.said_done = true;
            Slice::Done
        }
    }
}

impl<F: Fn(usize) + Send + Sync> Job for Parts<F> {
    fn run_slice(&self, turn: &SliceTurn<'_>) -> Slice {
        match self.enter() {
            Entered::Late => Slice::Left,
            Entered::NothingLeft => self.leave(false),
            Entered::Part { number, is_last } => {
                if !is_last {
                    turn.share();
                }
                (self.part)(number);
                self.leave(true)
            }
        }
    }

    fn abandoned(&self, cause: Abandoned) {
        let mut state = self.state.lock().unwrap();
        assert!(!state.said_done && state.abandoned.is_none());
        state.abandoned = Some(cause);
    }
}

impl<F> Drop for Parts<F> {
    fn drop(&mut self) {
        let state = self.state.get_mut().unwrap();
        let _ = self.ended.send((state.done, state.abandoned));
    }
}

#[test]
fn a_single_job_uses_all_workers_at_once() {
    const WORKERS: usize = 4;
    let pool = pool(WORKERS);
    let (ended, end) = channel();
    // No worker continues before all have entered.
    let meeting = Barrier::new(WORKERS);
    let part = move |_| {
        meeting.wait();
    };
    let job = Parts::new(5 * WORKERS, part, &Arc::default(), &ended);
    pool.submit(Arc::new(job), admission(1, 1)).unwrap();
    assert_eq!(end.recv_timeout(WAIT), Ok((5 * WORKERS, None)));
    assert!(pool.counters().turns_shared >= WORKERS as u64 - 1);
}

#[test]
fn no_turn_is_shared_while_others_wait() {
    let pool = Arc::new(pool(1));
    let (seen, looks) = channel();
    struct CountingJob {
        pool: Arc<Pool>,
        seen: Sender<(bool, bool, bool)>,
    }
    impl Job for CountingJob {
        fn run_slice(&self, turn: &SliceTurn<'_>) -> Slice {
            let before = turn.others_wait();
            let (ended, _) = channel();
            let other = Parts::new(1, |_| {}, &Arc::default(), &ended);
            self.pool.submit(Arc::new(other), admission(2, 2)).unwrap();
            self.seen.send((before, turn.others_wait(), turn.share())).unwrap();
            Slice::Done
        }
    }
    pool.submit(Arc::new(CountingJob { pool: Arc::clone(&pool), seen }), admission(1, 1)).unwrap();
    assert_eq!(looks.recv_timeout(WAIT), Ok((false, true, false)));
}

/// Jobs of many parts from many threads, some cancelled, some with parts that panic: all parts of the others run exactly once.
#[test]
fn a_storm_of_parallel_jobs_ends_every_one_exactly_once() {
    const SUBMITTERS: u64 = 3;
    const JOBS: u64 = 150;
    let pool = Arc::new(pool(4));
    let (ended, ends) = channel();
    let worked = Arc::new(AtomicUsize::new(0));
    let threads: Vec<_> = (0..SUBMITTERS)
        .map(|submitter| {
            let (pool, ended, worked) = (Arc::clone(&pool), ended.clone(), Arc::clone(&worked));
            std::thread::spawn(move || {
                for number in 0..JOBS {
                    let cancellation = Arc::new(Cancellation::new());
                    let worked = Arc::clone(&worked);
                    let part = move |part: usize| {
                        assert!(number % 50 != 49 || part != 3, "one part of every fiftieth panics");
                        worked.fetch_add(1, Ordering::Relaxed);
                        std::hint::black_box((0..1000 * number % 7).sum::<u64>());
                    };
                    let job = Parts::new(1 + number as usize % 40, part, &cancellation, &ended);
                    let admission =
                        Admission { cancellation: Arc::clone(&cancellation), ..admission(submitter, number % 5) };
                    let ticket = pool.submit(Arc::new(job), admission).unwrap();
                    if number % 11 == 1 {
                        cancellation.cancel(CancelReason::Disconnected);
                        pool.hurry(&ticket);
                    }
                }
            })
        })
        .collect();
    for thread in threads {
        thread.join().unwrap();
    }
    assert_eq!(pool.shutdown(WAIT), Drained { jobs_abandoned: 0 });
    drop(ended);
    let all: Vec<_> = ends.iter().collect();
    assert_eq!(all.len() as u64, SUBMITTERS * JOBS);
    let panicked = all.iter().filter(|(_, abandoned)| *abandoned == Some(Abandoned::Panicked)).count() as u64;
    assert_eq!(panicked, SUBMITTERS * JOBS / 50);
    let counters = pool.counters();
    assert_eq!((counters.jobs_panicked, counters.jobs_done), (panicked, SUBMITTERS * JOBS - panicked));
    assert_eq!((counters.jobs_held, counters.bytes_held, counters.workers_busy), (0, 0, 0));
    assert_eq!(all.iter().map(|(done, _)| done).sum::<usize>(), worked.load(Ordering::Relaxed));
}

/// A clock that jobs advance.
#[derive(Clone)]
struct Virtual {
    start: Instant,
    microseconds: Arc<AtomicU64>,
}

impl Virtual {
    fn new() -> Self {
        Virtual { start: Instant::now(), microseconds: Arc::default() }
    }

    fn advance(&self, microseconds: u64) {
        self.microseconds.fetch_add(microseconds, Ordering::Relaxed);
    }
}

impl PoolClock for Virtual {
    fn now(&self) -> Instant {
        self.start + Duration::from_micros(self.microseconds.load(Ordering::Relaxed))
    }
}

/// Appends its name to the log for each slice, each of which takes this long.
struct Noting {
    name: char,
    slices: AtomicU64,
    microseconds: u64,
    clock: Virtual,
    log: Arc<Mutex<String>>,
    cancellation: Arc<Cancellation>,
}

impl Job for Noting {
    fn run_slice(&self, _turn: &SliceTurn<'_>) -> Slice {
        self.log.lock().unwrap().push(self.name);
        if self.cancellation.check(self.clock.now()).is_err() {
            return Slice::Done;
        }
        self.clock.advance(self.microseconds);
        if self.slices.fetch_sub(1, Ordering::Relaxed) > 1 { Slice::More } else { Slice::Done }
    }
}

/// A pool without threads, and the log of its jobs.
struct ManualPool {
    pool: Pool,
    clock: Virtual,
    log: Arc<Mutex<String>>,
}

impl ManualPool {
    fn new(settings: PoolSettings) -> Self {
        let clock = Virtual::new();
        ManualPool { pool: Pool::manual(settings, Arc::new(clock.clone())), clock, log: Arc::default() }
    }

    fn submit(
        &self,
        name: char,
        tenant: u64,
        slices: u64,
        microseconds: u64,
    ) -> (leafseal_pool::JobTicket, Arc<Cancellation>) {
        let cancellation = Arc::new(Cancellation::new());
        self.submit_with(name, tenant, (slices, microseconds), &cancellation)
    }

    fn submit_with(
        &self,
        name: char,
        tenant: u64,
        (slices, microseconds): (u64, u64),
        cancellation: &Arc<Cancellation>,
    ) -> (leafseal_pool::JobTicket, Arc<Cancellation>) {
        let job = Noting {
            name,
            slices: AtomicU64::new(slices),
            microseconds,
            clock: self.clock.clone(),
            log: Arc::clone(&self.log),
            cancellation: Arc::clone(cancellation),
        };
        let admission = Admission { cancellation: Arc::clone(cancellation), ..admission(tenant, tenant) };
        (self.pool.submit(Arc::new(job), admission).unwrap(), Arc::clone(cancellation))
    }

    fn run(&self) -> String {
        while self.pool.run_one() {}
        std::mem::take(&mut self.log.lock().unwrap())
    }
}

fn one_worker() -> PoolSettings {
    PoolSettings { workers: 1, ..PoolSettings::default() }
}

#[test]
fn by_hand_tenants_share_by_the_time_that_slices_take() {
    let manual = ManualPool::new(one_worker());
    manual.submit('A', 1, 3, 30);
    manual.submit('b', 2, 9, 10);
    assert_eq!(manual.run(), "AbbbAbbbAbbb");
    let counters = manual.pool.counters();
    assert_eq!((counters.slices, counters.jobs_done, counters.jobs_held, counters.wakes), (12, 2, 0, 0));
}

#[test]
fn by_hand_the_cancelled_and_the_late_go_first() {
    // L is late on purpose: the pool accepts it nevertheless.
    let manual = ManualPool::new(PoolSettings { refuse_early: false, ..one_worker() });
    let late = Arc::new(Cancellation::new());
    late.set_deadline(manual.clock.now() + Duration::from_micros(60));
    manual.submit('A', 1, 4, 50);
    manual.submit('B', 1, 1, 50);
    manual.submit_with('L', 1, (1, 50), &late);
    let (ticket, cancellation) = manual.submit('C', 1, 1, 50);
    assert!(manual.pool.run_one());
    cancellation.cancel(CancelReason::Cancelled);
    manual.pool.hurry(&ticket);
    // C ends at once, L when its deadline has passed; neither takes time.
    assert_eq!(manual.run(), "ACBLAAA");
}

#[test]
fn by_hand_first_come_first_served_serves_whole_jobs() {
    let manual = ManualPool::new(PoolSettings { scheduling: Scheduling::FirstComeFirstServed, ..one_worker() });
    manual.submit('A', 1, 3, 50);
    manual.submit('B', 2, 2, 50);
    assert_eq!(manual.run(), "AAABB");
}

#[test]
fn by_hand_a_shutdown_abandons_jobs_that_did_not_run() {
    let manual = ManualPool::new(one_worker());
    manual.submit('A', 1, 2, 50);
    manual.submit('B', 2, 1, 50);
    assert!(manual.pool.run_one());
    assert_eq!(manual.pool.shutdown(WAIT), Drained { jobs_abandoned: 2 });
    assert_eq!((manual.run(), manual.pool.counters().bytes_held), ("A".to_owned(), 0));
}

#[derive(Default)]
struct RecordingObserver(Mutex<Vec<(&'static str, u128)>>);

impl PoolObserver for RecordingObserver {
    fn waited(&self, time: Duration) {
        self.0.lock().unwrap().push(("waited", time.as_micros()));
    }

    fn slice(&self, time: Duration) {
        self.0.lock().unwrap().push(("slice", time.as_micros()));
    }
}

#[test]
fn the_observer_hears_of_each_wait_and_each_slice() {
    let observer = Arc::new(RecordingObserver::default());
    let manual =
        ManualPool::new(PoolSettings { observer: Arc::clone(&observer) as Arc<dyn PoolObserver>, ..one_worker() });
    manual.submit('A', 1, 2, 30);
    manual.clock.advance(7);
    manual.submit('B', 2, 1, 40);
    manual.run();
    let observer = observer.0.lock().unwrap();
    assert_eq!(*observer, [("waited", 7), ("slice", 30), ("waited", 30), ("slice", 40), ("slice", 30)]);
}
