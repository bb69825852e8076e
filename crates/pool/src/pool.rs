//! The worker threads around the scheduler.

mod counters;
mod inline;

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};
use std::{fmt, io};

use crate::inline::InlineSlice;
use crate::ledger::Receipt;
use crate::parking::{RunningJob, Wakes};
use crate::scheduler::{
    Admission, EndedEntry, EntryEnd, JobTicket, Rejection, Scheduler, SchedulerPhase, SliceHandle, SliceOutcome,
    TakenSlice,
};
use crate::settings::{PoolClock, PoolObserver, PoolSettings, SystemPoolClock};
use crate::sync::{
    AtomicIsize, AtomicUsize, Builder, Condvar, JoinHandle, Mutex, MutexGuard, Ordering, current, spin_loop,
};
use crate::yielding::InSlice;
pub use counters::{Drained, PoolCounters};
pub use inline::Submitted;

/// Work that is done in slices, by one worker or by several at once.
///
/// A job has one exclusive turn. [`Job::run_slice`] starts with it, so no other worker is in the job's exclusive part. A job that has
/// planned a part which needs nothing else of the job may release the turn with [`SliceTurn::share`] and continue with that part, while
/// another
/// worker takes the turn and plans the next.
pub trait Job: Send + Sync {
    /// Does some tens of microseconds of work.
    ///
    /// A job that never shares is run by one worker at a time, and is not called again after [`Slice::Done`]. One that shares may be called
    /// once more by each worker that took the turn while another was about to return `Done`; it then returns at once, and its result is
    /// ignored.
    fn run_slice(&self, turn: &SliceTurn<'_>) -> Slice;

    /// Called when the job is dropped before it was done; never while a slice runs, nor after `Done`.
    fn abandoned(&self, _cause: Abandoned) {}
}

/// The result of a slice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Slice {
    /// There is more work that a worker can take.
    More,
    /// There is no further part, but other workers still run parts of the job: one of them will return `More` or `Done`. The last one must
    /// not return this.
    Left,
    /// There is nothing to do before an event that the job has arranged to be woken for ([`job_waker`](crate::job_waker)): it is queued
    /// again then, when it is cancelled and hurried, at its deadline, or at this time. Only if no worker runs a part of it; a job that
    /// several workers leave at once may return this from any of them.
    Park(Instant),
    /// The job is finished and is dropped. Returned once. Its memory counts until it has been dropped.
    Done,
}

/// Why a job was dropped before it was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Abandoned {
    /// It was not admitted. The submitter reports that; the pool returns the job unchanged.
    Rejected(Rejection),
    /// A slice panicked, or all workers left the job without reporting that it is done.
    Panicked,
    /// The pool shut down and the job did not finish in time.
    ShutDown,
}

/// A job that was not admitted, returned to its submitter. `Job::abandoned` has not been called.
pub struct Rejected {
    /// The job, unchanged.
    pub job: Arc<dyn Job>,
    /// Its admission parameters.
    pub admission: Admission,
    /// The reason.
    pub cause: Rejection,
}

impl fmt::Debug for Rejected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rejected").field("cause", &self.cause).finish_non_exhaustive()
    }
}

/// The worker threads and their queue. Dropping it abandons waiting jobs and joins the threads.
#[derive(Debug)]
pub struct Pool {
    shared: Arc<SharedPool>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

struct SharedPool {
    state: Mutex<PoolState>,
    work: Condvar,
    empty: Condvar,
    /// Workers that neither run a slice nor have one waiting; negative: jobs that wait for a worker. A copy of the state that can be read
    /// without the lock.
    spare: AtomicIsize,
    /// Waiting jobs, likewise.
    waiting: AtomicUsize,
    workers: usize,
    linger: Duration,
    clock: Arc<dyn PoolClock>,
    observer: Arc<dyn PoolObserver>,
}

impl fmt::Debug for SharedPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").field("workers", &self.workers).finish_non_exhaustive()
    }
}

struct PoolState {
    scheduler: Scheduler<Arc<dyn Job>>,
    /// Sleeping workers, including those that have been woken and do not run yet.
    asleep: usize,
    waking: usize,
    /// Workers that poll for a part before they sleep, and need not be woken.
    lingering: usize,
    abandoned: usize,
    counters: PoolCounters,
}

/// A finished slice.
struct Ran {
    hand: SliceHandle,
    /// Whether other workers ran parts of the job at the same time, or could have.
    is_spread: bool,
    outcome: SliceOutcome,
    cost: Duration,
    /// When it ended.
    now: Instant,
}

/// A running slice's access to the other workers.
pub struct SliceTurn<'a> {
    shared: &'a SharedPool,
    hand: Cell<SliceHandle>,
    is_spread: bool,
    /// The work that an inline slice may still do.
    work_left: &'a Cell<Option<Duration>>,
}

impl fmt::Debug for SliceTurn<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Turn").field("is_spread", &self.is_spread).finish_non_exhaustive()
    }
}

impl SliceTurn<'_> {
    /// Releases the exclusive turn, so that another worker can run the job's next part at the same time. Returns whether it was released;
    /// then this call of `run_slice` must not use the exclusive part any more.
    ///
    /// The turn is released if a worker is idle, or if several workers already ran the job when this slice began: then the first to return
    /// continues without waiting for this one. Otherwise a call costs one atomic load.
    pub fn share(&self) -> bool {
        if !self.is_wanted() {
            return false;
        }
        let mut hand = self.hand.get();
        let is_shared = self.shared.share(&mut hand);
        self.hand.set(hand);
        is_shared
    }

    /// Whether [`SliceTurn::share`] could find another worker; if not, preparations for it can be skipped.
    pub fn is_wanted(&self) -> bool {
        !self.is_inline() && (self.is_spread || self.shared.spare.load(Ordering::Relaxed) > 0)
    }

    /// The current time of the pool's clock.
    pub fn now(&self) -> Instant {
        self.shared.clock.now()
    }

    /// Whether a job waits for a worker, and none is free.
    pub fn others_wait(&self) -> bool {
        self.shared.spare.load(Ordering::Relaxed) < 0
    }
}

impl Pool {
    /// Starts the threads, named `leafseal-work-0` and so on.
    ///
    /// # Errors
    /// If the system cannot start a thread. Threads already started are stopped.
    ///
    /// # Panics
    /// If `settings.workers` is 0.
    pub fn new(settings: PoolSettings) -> io::Result<Pool> {
        Pool::start(settings, Arc::new(SystemPoolClock))
    }

    fn start(settings: PoolSettings, clock: Arc<dyn PoolClock>) -> io::Result<Pool> {
        let pool = Pool::manual(settings, clock);
        for index in 0..pool.workers() {
            let shared = Arc::clone(&pool.shared);
            let thread = Builder::new().name(format!("leafseal-work-{index}")).spawn(move || shared.work())?;
            pool.threads().push(thread);
        }
        Ok(pool)
    }

    /// Creates a pool without threads, for simulations: [`Pool::run_one`] does a worker's work. It behaves like a pool with
    /// `settings.workers` workers that never run at the same time.
    ///
    /// # Panics
    /// If `settings.workers` is 0.
    pub fn manual(settings: PoolSettings, clock: Arc<dyn PoolClock>) -> Pool {
        assert!(settings.workers > 0, "a pool has at least one worker");
        let state = PoolState {
            scheduler: Scheduler::new(settings.limits(), settings.scheduling, settings.workers, settings.refuse_early),
            asleep: 0,
            waking: 0,
            lingering: 0,
            abandoned: 0,
            counters: PoolCounters::default(),
        };
        let shared = SharedPool {
            state: Mutex::new(state),
            work: Condvar::new(),
            empty: Condvar::new(),
            spare: AtomicIsize::new(settings.workers.cast_signed()),
            waiting: AtomicUsize::new(0),
            workers: settings.workers,
            linger: settings.linger,
            clock,
            observer: settings.observer,
        };
        Pool { shared: Arc::new(shared), threads: Mutex::new(Vec::new()) }
    }

    /// Runs one slice on the calling thread, as a worker would. Returns false if no job waits.
    pub fn run_one(&self) -> bool {
        let began = self.shared.clock.now();
        let mut state = self.shared.lock();
        let taken = state.take(began);
        self.shared.unlock(state);
        let Some(taken) = taken else { return false };
        let ran = self.shared.run(taken, began);
        let mut state = self.shared.lock();
        let ending = state.give_back(ran);
        self.shared.unlock(state);
        self.shared.end_all(ending);
        true
    }

    /// Queues a job.
    ///
    /// # Errors
    /// If the queue is full or the pool shuts down; the job is returned.
    pub fn submit(&self, job: Arc<dyn Job>, admission: Admission) -> Result<JobTicket, Rejected> {
        let now = self.shared.clock.now();
        let mut state = self.shared.lock();
        let ticket = state.admit(job, admission, now)?;
        // A polling worker may have lost its core to this thread, so a new job justifies waking another.
        self.shared.unlock_beside(state, 0);
        Ok(ticket)
    }

    /// Moves a waiting job to the front of its connection, once, and queues a parked one: after it was cancelled, so that its memory is
    /// freed soon.
    pub fn hurry(&self, ticket: &JobTicket) {
        let now = self.shared.clock.now();
        let mut state = self.shared.lock();
        state.scheduler.hurry(*ticket, now);
        self.shared.unlock_beside(state, 0);
    }

    /// The current counters.
    pub fn counters(&self) -> PoolCounters {
        let now = self.shared.clock.now();
        let state = self.shared.lock();
        PoolCounters {
            backlog: state.scheduler.backlog(now),
            jobs_held: state.scheduler.jobs(),
            bytes_held: state.scheduler.bytes(),
            jobs_waiting: state.scheduler.waiting(),
            jobs_parked: state.scheduler.parked(),
            workers_busy: state.scheduler.running_slices(),
            ..state.counters
        }
    }

    /// The number of workers.
    pub fn workers(&self) -> usize {
        self.shared.workers
    }

    /// Accepts no new jobs, lets the workers finish for up to `limit`, then stops them after their current slices and abandons the rest.
    /// Blocks until then, so it must not be called from a job. A second call has no effect.
    ///
    /// Without threads it abandons at once what has not run.
    pub fn shutdown(&self, limit: Duration) -> Drained {
        let deadline = Instant::now() + limit;
        let has_threads = !self.threads().is_empty();
        let mut state = self.shared.lock();
        state.scheduler.set_draining();
        while has_threads && state.scheduler.jobs() > 0 && state.scheduler.phase() == SchedulerPhase::Draining {
            let now = Instant::now();
            if now >= deadline {
                break;
            }
            let (guard, _) = self.shared.empty.wait_timeout(state, deadline - now).expect(UNPOISONED);
            state = guard;
        }
        let endings = state.scheduler.stop();
        drop(state);
        self.shared.work.notify_all();
        self.shared.end_all(endings);
        self.join();
        Drained { jobs_abandoned: std::mem::take(&mut self.shared.lock().abandoned) }
    }

    fn join(&self) {
        let threads = std::mem::take(&mut *self.threads());
        let current = current().id();
        // The last owner of a pool may be a job that is dropped on a worker, which must not wait for itself.
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

impl PoolState {
    fn take(&mut self, now: Instant) -> Option<TakenSlice<Arc<dyn Job>>> {
        let taken = self.scheduler.take(now);
        self.counters.slices += u64::from(taken.is_some());
        taken
    }

    fn give_back(&mut self, ran: Ran) -> Option<EndedEntry<Arc<dyn Job>>> {
        self.scheduler.give_back(ran.hand, ran.outcome, ran.cost, ran.now)
    }

    /// Whether to wake a sleeping worker: one for each waiting job that none of `takers` will take, while there are any.
    fn must_wake(&mut self, takers: usize) -> bool {
        self.scheduler.waiting() > self.waking + takers && self.wake_one()
    }

    /// Counts a worker as woken, if one sleeps that is not yet.
    fn wake_one(&mut self) -> bool {
        let sleeps = self.asleep > self.waking;
        self.waking += usize::from(sleeps);
        self.counters.wakes += u64::from(sleeps);
        sleeps
    }
}

impl SharedPool {
    fn lock(&self) -> MutexGuard<'_, PoolState> {
        self.state.lock().expect(UNPOISONED)
    }

    /// Ends a change of the state: updates the copies that are read without the lock, and wakes a sleeping worker if there is work.
    fn unlock(&self, state: MutexGuard<'_, PoolState>) {
        let takers = state.lingering;
        self.unlock_beside(state, takers);
    }

    /// The same if only `takers` of the awake workers can be expected to take waiting jobs.
    fn unlock_beside(&self, mut state: MutexGuard<'_, PoolState>, takers: usize) {
        self.publish(&state);
        let must_wake = state.must_wake(takers);
        drop(state);
        if must_wake {
            self.work.notify_one();
        }
    }

    fn publish(&self, state: &PoolState) {
        let taken = state.scheduler.running_slices() + state.scheduler.waiting();
        self.spare.store(self.workers.cast_signed() - taken.cast_signed(), Ordering::Relaxed);
        self.waiting.store(state.scheduler.waiting(), Ordering::Relaxed);
    }

    /// Runs a worker.
    fn work(self: &Arc<Self>) {
        let mut ran = None;
        while let Some((taken, now)) = self.next(ran.take()) {
            ran = Some(self.run(taken, now));
        }
    }

    /// Returns a finished slice and takes the next one, waiting for it, with its start time. `None` ends the worker.
    fn next(&self, ran: Option<Ran>) -> Option<(TakenSlice<Arc<dyn Job>>, Instant)> {
        let mut state = self.lock();
        // The end of one slice is the start of the next, unless much time passed in between.
        let mut now = None;
        let mut may_linger = false;
        if let Some(ran) = ran {
            now = Some(ran.now);
            may_linger = ran.is_spread;
            if let Some(ending) = state.give_back(ran) {
                (now, may_linger) = (None, false);
                self.unlock(state);
                state = self.end(ending);
            }
        }
        loop {
            let began = now.take().unwrap_or_else(|| self.clock.now());
            if let Some(taken) = state.take(began) {
                self.unlock(state);
                return Some((taken, began));
            }
            if state.scheduler.phase() == SchedulerPhase::Stopped {
                return None;
            }
            state = if std::mem::take(&mut may_linger) { self.linger(state) } else { self.sleep(state) };
        }
    }

    /// Polls for a waiting job for a short time, without the lock.
    fn linger<'a>(&'a self, mut state: MutexGuard<'a, PoolState>) -> MutexGuard<'a, PoolState> {
        state.lingering += 1;
        self.publish(&state);
        drop(state);
        let until = self.clock.now() + self.linger;
        while self.waiting.load(Ordering::Relaxed) == 0 && self.clock.now() < until {
            spin_loop();
        }
        // Jobs that arrived without waking a worker are taken before this worker sleeps.
        let mut state = self.lock();
        state.lingering -= 1;
        state
    }

    fn sleep<'a>(&'a self, mut state: MutexGuard<'a, PoolState>) -> MutexGuard<'a, PoolState> {
        self.publish(&state);
        state.asleep += 1;
        // A parked job is due without anybody's doing.
        let due = state.scheduler.next_due().filter(|_| state.scheduler.phase() != SchedulerPhase::Stopped);
        let mut state = match due {
            None => self.work.wait(state).expect(UNPOISONED),
            Some(due) => {
                let left = due.saturating_duration_since(self.clock.now());
                self.work.wait_timeout(state, left).expect(UNPOISONED).0
            }
        };
        state.asleep -= 1;
        state.waking = state.waking.saturating_sub(1);
        state
    }

    /// Runs a slice, without any lock.
    fn run(self: &Arc<Self>, taken: TakenSlice<Arc<dyn Job>>, began: Instant) -> Ran {
        self.run_within(taken, began, &Cell::new(None))
    }

    /// The same with `work_left` for an inline slice.
    fn run_within(
        self: &Arc<Self>,
        taken: TakenSlice<Arc<dyn Job>>,
        began: Instant,
        work_left: &Cell<Option<Duration>>,
    ) -> Ran {
        let TakenSlice { item: job, client, hand, submitted, is_spread } = taken;
        if let Some(submitted) = submitted {
            self.observer.waited(began.saturating_duration_since(submitted));
        }
        let turn = SliceTurn { shared: self, hand: Cell::new(hand), is_spread, work_left };
        // A job that panicked is not used again, only dropped, so its inconsistent state is never visible.
        let in_slice = InSlice::begin(self.waiting.load(Ordering::Relaxed) > 0);
        let running = RunningJob::begin(self, hand.ticket(), client);
        let ran = catch_unwind(AssertUnwindSafe(|| job.run_slice(&turn)));
        drop((running, in_slice));
        let outcome = match ran {
            Ok(Slice::More) => SliceOutcome::More,
            Ok(Slice::Left) => SliceOutcome::Left,
            Ok(Slice::Park(until)) => SliceOutcome::Park(until),
            Ok(Slice::Done) => SliceOutcome::Done,
            Err(_) => SliceOutcome::Panicked,
        };
        let now = self.clock.now();
        let cost = now.saturating_duration_since(began);
        if !turn.is_inline() {
            self.observer.slice(cost);
        }
        let hand = turn.hand.get();
        Ran { hand, is_spread: is_spread || hand.has_shared(), outcome, cost, now }
    }

    fn share(&self, hand: &mut SliceHandle) -> bool {
        let now = self.clock.now();
        let mut state = self.lock();
        let is_shared = state.scheduler.share(hand, now);
        state.counters.turns_shared += u64::from(is_shared);
        self.unlock(state);
        is_shared
    }

    /// Drops a job, then stops counting it, so that the bytes counted are never less than those held.
    fn end(&self, ending: EndedEntry<Arc<dyn Job>>) -> MutexGuard<'_, PoolState> {
        let EndedEntry { item, end, receipt } = ending;
        drop_job(item, end);
        let mut state = self.lock();
        self.release(&mut state, receipt, end);
        state
    }

    fn release(&self, state: &mut PoolState, receipt: Receipt, end: EntryEnd) {
        state.scheduler.release(receipt);
        match end {
            EntryEnd::Done => state.counters.jobs_done += 1,
            EntryEnd::Panicked => state.counters.jobs_panicked += 1,
            EntryEnd::ShutDown => state.abandoned += 1,
        }
        // A system call even if no thread waits.
        if state.scheduler.jobs() == 0 && state.scheduler.phase() != SchedulerPhase::Open {
            self.empty.notify_all();
        }
    }

    fn end_all(&self, endings: impl IntoIterator<Item = EndedEntry<Arc<dyn Job>>>) {
        for ending in endings {
            let state = self.end(ending);
            self.unlock(state);
        }
    }
}

impl Wakes for SharedPool {
    fn wake(&self, ticket: JobTicket) {
        let now = self.clock.now();
        let mut state = self.lock();
        state.scheduler.wake(ticket, now);
        self.unlock_beside(state, 0);
    }
}

/// Drops a job. A panic in its destructor ends here, and the worker continues.
fn drop_job(job: Arc<dyn Job>, end: EntryEnd) {
    let cause = match end {
        EntryEnd::Done => None,
        EntryEnd::Panicked => Some(Abandoned::Panicked),
        EntryEnd::ShutDown => Some(Abandoned::ShutDown),
    };
    let _ = catch_unwind(AssertUnwindSafe(|| {
        if let Some(cause) = cause {
            job.abandoned(cause);
        }
        drop(job);
    }));
}

#[cfg(all(test, loom))]
mod interleavings;
