//! The threads around the queue.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};
use std::{fmt, io};

use crate::queue::{Held, Phase, Queue, Rejection};

/// Work that is done in slices.
pub trait Job: Send {
    /// Does some tens of microseconds of work. Not called again after [`Slice::Done`].
    fn run_slice(&mut self) -> Slice;

    /// Told why the job is dropped before it was done; never called while a slice runs, nor after `Done`.
    fn abandoned(&mut self, _cause: Abandoned) {}
}

/// What a slice left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Slice {
    /// There is more to do.
    More,
    /// The job is finished and is dropped.
    Done,
}

/// Why a job was dropped before it was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Abandoned {
    /// It was not admitted. Who submitted it says so; the pool itself gives the job back untouched.
    Rejected(Rejection),
    /// A slice of it panicked.
    Panicked,
    /// The pool shut down and its time to finish was over.
    ShutDown,
}

/// What a pool is made of and what it may hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolSettings {
    /// Threads, at least 1. Default: one per core.
    pub workers: usize,
    /// Most jobs held, waiting or running. Default 16,384.
    pub queue_jobs_max: usize,
    /// Most bytes held by these jobs, as told when they are submitted. Default 1 GiB.
    pub queue_bytes_max: usize,
}

impl Default for PoolSettings {
    fn default() -> Self {
        PoolSettings {
            workers: std::thread::available_parallelism().map_or(1, usize::from),
            queue_jobs_max: 16_384,
            queue_bytes_max: 1 << 30,
        }
    }
}

/// A job that was not admitted, handed back to who submitted it. `Job::abandoned` has not been called.
pub struct Rejected {
    /// The job, untouched.
    pub job: Box<dyn Job>,
    /// Why.
    pub cause: Rejection,
}

impl fmt::Debug for Rejected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rejected").field("cause", &self.cause).finish_non_exhaustive()
    }
}

/// What a pool has done and holds, at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Jobs held, waiting or running.
    pub jobs_held: usize,
    /// Bytes that they hold.
    pub bytes_held: usize,
    /// Jobs waiting for a worker.
    pub jobs_waiting: usize,
    /// Workers that run a slice.
    pub workers_busy: usize,
    /// Slices handed out since the start.
    pub slices: u64,
    /// Jobs finished since the start.
    pub jobs_done: u64,
    /// Jobs that panicked since the start.
    pub jobs_panicked: u64,
    /// Jobs that were not admitted since the start.
    pub jobs_rejected: u64,
}

/// How a shutdown went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Drained {
    /// Jobs that were dropped unfinished when the time was over.
    pub jobs_abandoned: usize,
}

/// The worker threads and their queue. Dropping it abandons what waits and joins the threads.
#[derive(Debug)]
pub struct Pool {
    shared: Arc<Shared>,
    threads: Mutex<Vec<JoinHandle<()>>>,
    workers: usize,
}

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    work: Condvar,
    empty: Condvar,
}

#[derive(Debug)]
struct State {
    queue: Queue<BoxedJob>,
    workers_idle: usize,
    counters: Counters,
}

struct BoxedJob(Box<dyn Job>);

impl fmt::Debug for BoxedJob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Job")
    }
}

impl Pool {
    /// Starts the threads, named `fieldseal-work-0` and so on.
    ///
    /// # Errors
    /// When the system gives no thread. Those already started end again.
    ///
    /// # Panics
    /// When `settings.workers` is 0.
    pub fn new(settings: PoolSettings) -> io::Result<Pool> {
        assert!(settings.workers > 0, "a pool has at least one worker");
        let state = State {
            queue: Queue::new(settings.queue_jobs_max, settings.queue_bytes_max),
            workers_idle: 0,
            counters: Counters::default(),
        };
        let shared = Arc::new(Shared { state: Mutex::new(state), work: Condvar::new(), empty: Condvar::new() });
        let pool = Pool { shared, threads: Mutex::new(Vec::new()), workers: settings.workers };
        for index in 0..settings.workers {
            let shared = Arc::clone(&pool.shared);
            let thread = Builder::new().name(format!("fieldseal-work-{index}")).spawn(move || shared.work())?;
            pool.threads().push(thread);
        }
        Ok(pool)
    }

    /// Puts a job at the end of the queue; `bytes` is the memory it holds.
    ///
    /// # Errors
    /// When the queue is full or the pool shuts down; the job comes back.
    pub fn submit(&self, job: Box<dyn Job>, bytes: usize) -> Result<(), Rejected> {
        let mut state = self.shared.lock();
        match state.queue.admit(BoxedJob(job), bytes) {
            Ok(()) => {
                let somebody_sleeps = state.workers_idle > 0;
                drop(state);
                if somebody_sleeps {
                    self.shared.work.notify_one();
                }
                Ok(())
            }
            Err((BoxedJob(job), cause)) => {
                state.counters.jobs_rejected += 1;
                Err(Rejected { job, cause })
            }
        }
    }

    /// The counters as they are now.
    pub fn counters(&self) -> Counters {
        let state = self.shared.lock();
        Counters {
            jobs_held: state.queue.items(),
            bytes_held: state.queue.bytes(),
            jobs_waiting: state.queue.waiting(),
            workers_busy: state.queue.items() - state.queue.waiting(),
            ..state.counters
        }
    }

    /// How many workers the pool was started with.
    pub fn workers(&self) -> usize {
        self.workers
    }

    /// Takes nothing new, lets the workers finish for up to `limit`, then stops them after the slices in hand and
    /// abandons the rest. Waits for all of it, so it must not be called from a job. A second call finds nothing left.
    pub fn shutdown(&self, limit: Duration) -> Drained {
        let deadline = Instant::now() + limit;
        let mut state = self.shared.lock();
        if state.queue.phase() == Phase::Open {
            state.queue.set_phase(Phase::Draining);
        }
        while state.queue.items() > 0 && state.queue.phase() == Phase::Draining {
            let now = Instant::now();
            if now >= deadline {
                break;
            }
            let (guard, _) = self.shared.empty.wait_timeout(state, deadline - now).expect(UNPOISONED);
            state = guard;
        }
        state.queue.set_phase(Phase::Stopped);
        drop(state);
        self.shared.work.notify_all();
        self.join();
        self.shared.abandon_waiting()
    }

    fn join(&self) {
        let threads = std::mem::take(&mut *self.threads());
        let current = std::thread::current().id();
        // The last owner of a pool may be a job's owner, dropped on a worker: it must not wait for itself.
        for thread in threads.into_iter().filter(|thread| thread.thread().id() != current) {
            thread.join().expect("workers catch the panics of their jobs");
        }
    }

    fn threads(&self) -> MutexGuard<'_, Vec<JoinHandle<()>>> {
        self.threads.lock().expect(UNPOISONED)
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.shutdown(Duration::ZERO);
    }
}

const UNPOISONED: &str = "nothing panics while this is locked";

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect(UNPOISONED)
    }

    /// The life of a worker.
    fn work(&self) {
        let mut unfinished = None;
        while let Some(mut held) = self.next(unfinished.take()) {
            // A job that panicked is never touched again but to be dropped, so its broken state is seen by nobody.
            match catch_unwind(AssertUnwindSafe(|| held.item.0.run_slice())) {
                Ok(Slice::More) => unfinished = Some(held),
                Ok(Slice::Done) => self.finish(held, None),
                Err(_) => self.finish(held, Some(Abandoned::Panicked)),
            }
        }
    }

    /// Puts back what is unfinished and takes the first job, waiting for one. `None` ends the worker.
    fn next(&self, unfinished: Option<Held<BoxedJob>>) -> Option<Held<BoxedJob>> {
        let mut state = self.lock();
        if let Some(held) = unfinished {
            state.queue.put_back(held);
        }
        loop {
            if let Some(held) = state.queue.take() {
                state.counters.slices += 1;
                return Some(held);
            }
            if state.queue.phase() == Phase::Stopped {
                return None;
            }
            state.workers_idle += 1;
            state = self.work.wait(state).expect(UNPOISONED);
            state.workers_idle -= 1;
        }
    }

    /// Drops a job, then stops counting it, so that the bytes counted are never less than those held.
    fn finish(&self, held: Held<BoxedJob>, abandoned: Option<Abandoned>) {
        let bytes = held.bytes();
        drop_job(held.item, abandoned);
        let mut state = self.lock();
        state.queue.release(bytes);
        match abandoned {
            None => state.counters.jobs_done += 1,
            Some(Abandoned::Panicked) => state.counters.jobs_panicked += 1,
            Some(Abandoned::ShutDown | Abandoned::Rejected(_)) => {}
        }
        if state.queue.items() == 0 {
            self.empty.notify_all();
        }
    }

    fn abandon_waiting(&self) -> Drained {
        let waiting = self.lock().queue.abandon();
        let jobs_abandoned = waiting.len();
        for held in waiting {
            self.finish(held, Some(Abandoned::ShutDown));
        }
        Drained { jobs_abandoned }
    }
}

/// Drops a job. A panic in its destructor ends here: the worker lives on.
fn drop_job(BoxedJob(mut job): BoxedJob, abandoned: Option<Abandoned>) {
    let _ = catch_unwind(AssertUnwindSafe(|| {
        if let Some(cause) = abandoned {
            job.abandoned(cause);
        }
        drop(job);
    }));
}
