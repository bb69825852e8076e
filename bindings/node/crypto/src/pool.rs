//! The threads of the package: one pool for the process, whatever the number of Node's worker threads.
//!
//! Apart from libuv's pool, so that crypto never waits behind `fs` and `dns`, nor they behind crypto. Jobs work in slices: a long one
//! goes back to the end of the queue after each, so that a short one waits for slices only.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;

use crate::priority::{self, Priority};

/// Maximum of the setting `threads`.
pub(crate) const THREADS_MAX: usize = 1024;
/// Short jobs that a thread takes at once.
const SHORT_MAX: usize = 16;
/// Default of the setting `queueMax`: operations that wait or run.
pub(crate) const QUEUE_MAX_DEFAULT: usize = 1 << 20;

/// The pool.
pub(crate) static POOL: JsPool = JsPool {
    state: Mutex::new(State {
        queue: VecDeque::new(),
        started: 0,
        idle: 0,
        woken: 0,
        threads: 0,
        priority: Priority::Low,
    }),
    wake: Condvar::new(),
    waiting: AtomicUsize::new(0),
    jobs: AtomicUsize::new(0),
    jobs_max: AtomicUsize::new(QUEUE_MAX_DEFAULT),
};

/// The `nice` value of Node's threads.
static NICENESS: OnceLock<i32> = OnceLock::new();

/// A job of the pool.
pub(crate) trait Work: Send + Sync {
    /// Works for a slice. False when there is nothing left to do for the calling thread.
    fn step(&self) -> bool;

    /// Whether the job ends within a step of microseconds.
    fn is_short(&self) -> bool;

    /// Identifies whom the job is for.
    fn owner(&self) -> *const ();
}

pub(crate) struct JsPool {
    state: Mutex<State>,
    wake: Condvar,
    /// Length of the queue, for a look without the lock.
    waiting: AtomicUsize,
    /// Jobs that wait or run.
    jobs: AtomicUsize,
    jobs_max: AtomicUsize,
}

struct State {
    queue: VecDeque<Arc<dyn Work>>,
    started: usize,
    idle: usize,
    /// Idle threads that have been woken and have not looked yet.
    woken: usize,
    /// Wanted threads; 0 before they are set, for the default.
    threads: usize,
    /// Priority of threads that start from now on.
    priority: Priority,
}

impl State {
    fn wanted(&mut self) -> usize {
        if self.threads == 0 {
            self.threads = thread::available_parallelism().map_or(1, usize::from);
        }
        self.threads
    }
}

impl JsPool {
    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing panics while it holds the lock.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Wanted threads.
    pub(crate) fn threads(&self) -> usize {
        self.lock().wanted()
    }

    /// Sets the number of threads: more start with the next jobs, superfluous ones end when they are idle.
    pub(crate) fn set_threads(&self, threads: usize) {
        self.lock().threads = threads.clamp(1, THREADS_MAX);
        self.wake.notify_all();
    }

    /// Wanted priority of the threads.
    pub(crate) fn priority(&self) -> Priority {
        self.lock().priority
    }

    /// Sets the priority of the threads. One that runs ends when it is idle, as it may not raise its own.
    pub(crate) fn set_priority(&self, priority: Priority) {
        self.lock().priority = priority;
        self.wake.notify_all();
    }

    /// Maximum number of jobs that wait or run.
    pub(crate) fn jobs_max(&self) -> usize {
        self.jobs_max.load(Ordering::Relaxed)
    }

    /// Sets the maximum number of jobs.
    pub(crate) fn set_jobs_max(&self, jobs_max: usize) {
        self.jobs_max.store(jobs_max.max(1), Ordering::Relaxed);
    }

    /// Reserves the place of a job; false when the pool is full. [`JsPool::leave`] gives it back.
    pub(crate) fn enter(&self) -> bool {
        let jobs = self.jobs.fetch_add(1, Ordering::Relaxed);
        let has_room = jobs < self.jobs_max();
        if !has_room {
            self.leave();
        }
        has_room
    }

    /// Gives back the place of a job that has ended.
    pub(crate) fn leave(&self) {
        self.jobs.fetch_sub(1, Ordering::Relaxed);
    }

    /// Queues a job, once for each of at most `helpers` threads that may work on it.
    pub(crate) fn push(&self, job: Arc<dyn Work>, helpers: usize) {
        let mut state = self.lock();
        for _ in 0..helpers.clamp(1, state.wanted()) {
            state.queue.push_back(Arc::clone(&job));
        }
        self.call(&mut state);
        self.waiting.store(state.queue.len(), Ordering::Relaxed);
    }

    /// Calls one thread for a queue that is not empty, if none is on its way: a thread that takes a job calls the next. A wake-up costs
    /// as much as several short jobs.
    fn call(&self, state: &mut State) {
        if state.idle > 0 {
            if state.woken == 0 {
                state.woken = 1;
                self.wake.notify_one();
            }
        } else if state.started < state.wanted() {
            start(state);
        }
    }

    /// Removes the waiting jobs of an owner.
    pub(crate) fn remove(&self, owner: *const ()) {
        let mut state = self.lock();
        let queue = std::mem::take(&mut state.queue);
        let (removed, kept): (VecDeque<_>, VecDeque<_>) = queue.into_iter().partition(|job| job.owner() == owner);
        state.queue = kept;
        self.waiting.store(state.queue.len(), Ordering::Relaxed);
        drop(state);
        // Jobs are dropped without the lock: they own buffers and keys.
        drop(removed);
    }

    /// Fills `jobs` with the next ones for the calling thread: a long one, or several short ones, for which the lock is taken once.
    /// `unfinished` ones go back to the end of the queue. False if the thread, which has a `priority`, is superfluous.
    fn next(&self, priority: Priority, unfinished: &mut Vec<Arc<dyn Work>>, jobs: &mut Vec<Arc<dyn Work>>) -> bool {
        let mut state = self.lock();
        state.queue.extend(unfinished.drain(..));
        loop {
            // Others get their share of the short ones.
            let share = (state.queue.len() / state.started.max(1)).clamp(1, SHORT_MAX);
            while jobs.len() < share && (jobs.is_empty() || state.queue.front().is_some_and(|job| job.is_short())) {
                let Some(job) = state.queue.pop_front() else { break };
                let is_long = !job.is_short();
                jobs.push(job);
                if is_long {
                    break;
                }
            }
            if !jobs.is_empty() {
                self.waiting.store(state.queue.len(), Ordering::Relaxed);
                // A thread hands its priority on to those that it starts.
                if !state.queue.is_empty() && state.priority == priority {
                    self.call(&mut state);
                }
                return true;
            }
            if state.started > state.wanted() || state.priority != priority {
                state.started -= 1;
                return false;
            }
            state.idle += 1;
            state = self.wake.wait(state).unwrap_or_else(PoisonError::into_inner);
            state.idle -= 1;
            state.woken = 0;
        }
    }

    fn work(&self, priority: Priority) {
        let (mut unfinished, mut jobs) = (Vec::new(), Vec::with_capacity(SHORT_MAX));
        while self.next(priority, &mut unfinished, &mut jobs) {
            for job in jobs.drain(..) {
                // A job that has more to do continues while no other waits.
                while job.step() {
                    if self.waiting.load(Ordering::Relaxed) != 0 {
                        unfinished.push(job);
                        break;
                    }
                }
            }
        }
    }
}

/// Starts a thread. If the system refuses, the threads that run do the work; if there is none, the next job tries again.
fn start(state: &mut State) {
    // The first one is started by a thread of Node.
    let niceness = *NICENESS.get_or_init(priority::niceness);
    let priority = state.priority;
    let body = move || {
        priority.enter(niceness);
        // `step` catches what a job may raise; this is the last resort that keeps the count right.
        while catch_unwind(AssertUnwindSafe(|| POOL.work(priority))).is_err() {}
    };
    if thread::Builder::new().name("leafseal-crypto".into()).spawn(body).is_ok() {
        state.started += 1;
    }
}
