//! Jobs whose first slice runs on the thread that submits them.

use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};
use std::task::Waker;
use std::thread::ThreadId;
use std::time::{Duration, Instant};

use leafseal_pool::{
    Abandoned, Admission, Job, Pool, PoolSettings, Slice, SliceTurn, Submitted, hand_over, is_inline, job_waker,
    take_hand_over,
};

const WORK: Duration = Duration::from_micros(20);
const PATIENCE: Duration = Duration::from_secs(60);

/// What a slice saw.
#[derive(Debug, PartialEq, Eq)]
struct Seen {
    thread: ThreadId,
    is_inline: bool,
    result: Slice,
}

/// Does counted pieces of work, one after another, as far as each slice may.
struct Counted {
    left: Mutex<Vec<Option<Duration>>>,
    seen: Sender<Seen>,
    abandoned: Sender<Abandoned>,
}

impl Job for Counted {
    fn run_slice(&self, turn: &SliceTurn<'_>) -> Slice {
        let mut left = self.left.lock().unwrap();
        assert!(!turn.share() || !turn.is_inline(), "an inline slice keeps the turn");
        while let Some(work) = left.last() {
            if !turn.takes(*work) {
                break;
            }
            left.pop();
        }
        let result = if left.is_empty() { Slice::Done } else { Slice::More };
        assert_eq!(is_inline(), turn.is_inline());
        let thread = std::thread::current().id();
        self.seen.send(Seen { thread, is_inline: is_inline(), result }).unwrap();
        result
    }

    fn abandoned(&self, cause: Abandoned) {
        self.abandoned.send(cause).unwrap();
    }
}

fn pool() -> Pool {
    Pool::new(PoolSettings { workers: 1, ..PoolSettings::default() }).unwrap()
}

fn admission(tenant: u64) -> Admission {
    Admission { tenant, client: 0, connection: 0, bytes: 1, cancellation: Arc::default() }
}

/// Runs pieces of work, the last one first; returns what its slices saw, and what the submitter did.
fn run(pool: &Pool, pieces: &[Option<Duration>]) -> (Vec<Seen>, Submitted) {
    let ((seen, slices), (abandoned, _causes)) = (channel(), channel());
    let job = Arc::new(Counted { left: Mutex::new(pieces.to_vec()), seen, abandoned });
    let submitted = pool.submit_inline(job, admission(1), WORK).unwrap();
    // It ends when the job is dropped.
    (slices.iter().collect(), submitted)
}

#[test]
fn counted_work_runs_on_the_thread_that_submits() {
    let (pool, here) = (pool(), std::thread::current().id());
    let (seen, submitted) = run(&pool, &[Some(WORK / 2), Some(WORK / 2)]);
    assert_eq!(seen, [Seen { thread: here, is_inline: true, result: Slice::Done }]);
    assert_eq!(submitted.inline_work, WORK);
    let counters = pool.counters();
    assert_eq!((counters.jobs_done, counters.jobs_inline, counters.slices, counters.wakes), (1, 1, 1, 0));
    assert_eq!((counters.jobs_held, counters.bytes_held, counters.workers_busy), (0, 0, 0));
}

#[test]
fn more_than_may_be_done_goes_to_a_worker_at_the_end_of_a_piece() {
    let (pool, here) = (pool(), std::thread::current().id());
    for (pieces, done) in [
        (vec![Some(WORK / 2), Some(WORK * 3 / 4)], WORK * 3 / 4),
        (vec![None, Some(WORK / 4)], WORK / 4),
        (vec![None], Duration::ZERO),
    ] {
        let (seen, submitted) = run(&pool, &pieces);
        assert_eq!(seen[0], Seen { thread: here, is_inline: true, result: Slice::More });
        assert!(matches!(seen[1..], [Seen { thread, is_inline: false, result: Slice::Done }] if thread != here));
        assert_eq!(submitted.inline_work, done);
    }
    pool.shutdown(PATIENCE);
    assert_eq!((pool.counters().jobs_done, pool.counters().jobs_inline), (3, 0));
}

/// Returns what a closure returns, for each slice.
struct Script<F>(Mutex<F>, Sender<Option<Abandoned>>);

impl<F: FnMut() -> Slice + Send> Job for Script<F> {
    fn run_slice(&self, _: &SliceTurn<'_>) -> Slice {
        (self.0.lock().unwrap())()
    }

    fn abandoned(&self, cause: Abandoned) {
        self.1.send(Some(cause)).unwrap();
    }
}

#[test]
fn a_panic_ends_its_job_and_not_the_submitter() {
    let pool = pool();
    let (ended, end) = channel();
    let job = Script(Mutex::new(|| panic!("as the test wishes")), ended);
    pool.submit_inline(Arc::new(job), admission(1), WORK).unwrap();
    assert_eq!(end.recv(), Ok(Some(Abandoned::Panicked)));
    assert_eq!((pool.counters().jobs_panicked, pool.counters().jobs_inline), (1, 0));
    assert!(!is_inline(), "the mark is gone");
}

#[test]
fn a_job_parks_and_continues_on_a_worker() {
    let pool = pool();
    let (wakers, waker) = channel::<Waker>();
    let (ended, end) = channel();
    let here = std::thread::current().id();
    let own = ended.clone();
    let job = Script(
        Mutex::new(move || {
            if std::thread::current().id() == here {
                wakers.send(job_waker().expect("a slice")).unwrap();
                return Slice::Park(Instant::now() + PATIENCE);
            }
            own.send(None).unwrap();
            Slice::Done
        }),
        ended,
    );
    pool.submit_inline(Arc::new(job), admission(1), WORK).unwrap();
    assert_eq!(pool.counters().jobs_parked, 1, "the submitter does not wait");
    waker.recv().unwrap().wake();
    assert_eq!(end.recv_timeout(PATIENCE), Ok(None));
}

/// Workers that went to sleep while nothing was parked wake for it.
#[test]
fn a_job_that_parks_continues_at_its_time_without_being_woken() {
    let pool = pool();
    for _ in 0..5 {
        // The worker sleeps by now, most likely.
        std::thread::sleep(Duration::from_millis(20));
        let (ended, end) = channel();
        let here = std::thread::current().id();
        let own = ended.clone();
        let job = Script(
            Mutex::new(move || {
                if std::thread::current().id() == here {
                    return Slice::Park(Instant::now() + Duration::from_millis(5));
                }
                own.send(None).unwrap();
                Slice::Done
            }),
            ended,
        );
        pool.submit_inline(Arc::new(job), admission(1), WORK).unwrap();
        assert_eq!(end.recv_timeout(PATIENCE), Ok(None));
    }
}

#[test]
fn a_hand_over_outside_an_inline_slice_has_no_effect() {
    let pool = pool();
    let (ended, end) = channel();
    let own = ended.clone();
    let job = Script(
        Mutex::new(move || {
            hand_over();
            own.send(take_hand_over().then_some(Abandoned::ShutDown)).unwrap();
            Slice::Done
        }),
        ended,
    );
    pool.submit(Arc::new(job), admission(1)).unwrap();
    assert_eq!(end.recv_timeout(PATIENCE), Ok(None));
}

/// Submitters on several threads, beside workers: everything ends once.
#[test]
fn submitters_and_workers_end_every_job_once() {
    const THREADS: u64 = 4;
    const JOBS: usize = 2_000;
    let pool = pool();
    std::thread::scope(|scope| {
        for tenant in 0..THREADS {
            let pool = &pool;
            scope.spawn(move || {
                for number in 0..JOBS {
                    let ((seen, slices), (abandoned, causes)) = (channel(), channel());
                    let pieces = vec![Some(WORK / 2), if number % 3 == 0 { None } else { Some(WORK / 2) }];
                    let job = Arc::new(Counted { left: Mutex::new(pieces), seen, abandoned });
                    pool.submit_inline(job, admission(tenant % 2), WORK).unwrap();
                    // Until the job is dropped.
                    let done = slices.iter().filter(|seen| seen.result == Slice::Done).count();
                    assert_eq!((done, causes.iter().count()), (1, 0));
                }
            });
        }
    });
    pool.shutdown(PATIENCE);
    let counters = pool.counters();
    assert_eq!((counters.jobs_done, counters.jobs_held), (THREADS * JOBS as u64, 0));
    assert!(counters.jobs_inline > 0 && counters.jobs_inline < counters.jobs_done, "{counters:?}");
}
