//! An asynchronous operation: runs on threads of the pool, ends on the thread that asked for it.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crate::batch::Batch;
use crate::delivery::{Completion, Delivery};
use crate::fault::{Fault, Outcome};
use crate::keys::Keys;
use crate::operation::{Memory, Place, SLICE_SIZE, Sliced};
use crate::parallel::Parallel;
use crate::pool::{POOL, Work};
use crate::streams::Stream;

/// What a job does.
pub(crate) enum Task {
    /// One operation, slice by slice.
    Sliced(Box<Sliced>, Place),
    /// Many operations.
    Batch(Box<Batch>, Keys),
    /// A piece of a stream, of which some is done.
    Update(Arc<Stream>, Memory, usize),
}

/// A task that moves between threads.
struct Moved(Task);

// SAFETY: the memory belongs to the job while it runs: JavaScript holds the buffers, and `Delivery` waits for the job before their
// environment ends. Callers promise not to touch them meanwhile.
unsafe impl Send for Moved {}

/// A job. It holds a place in the pool until it is dropped.
pub(crate) struct Job {
    id: f64,
    delivery: Arc<Delivery>,
    is_cancelled: AtomicBool,
    is_short: bool,
    kind: Kind,
}

/// Longest text in bytes of a job that threads take several of at once.
const SHORT_SIZE_MAX: usize = 4096;

enum Kind {
    /// On one thread at a time.
    Alone(Mutex<Option<Moved>>),
    /// On several threads.
    Parallel(Box<Parallel>),
}

// SAFETY: as for `Moved`; `Parallel` may be used by several threads.
unsafe impl Send for Job {}
// SAFETY: as above.
unsafe impl Sync for Job {}

impl Job {
    /// Makes a job for which [`crate::pool::Pool::enter`] has reserved a place.
    pub(crate) fn new(id: f64, delivery: Arc<Delivery>, task: Task) -> Self {
        let is_short = match &task {
            Task::Sliced(_, place) => place.memory.source.size + place.memory.aad.size <= SHORT_SIZE_MAX,
            Task::Batch(..) => false,
            Task::Update(_, memory, _) => memory.source.size <= SHORT_SIZE_MAX,
        };
        let kind = Kind::Alone(Mutex::new(Some(Moved(task))));
        Self { id, delivery, is_cancelled: AtomicBool::new(false), is_short, kind }
    }

    /// Makes a job for several threads, likewise.
    pub(crate) fn parallel(id: f64, delivery: Arc<Delivery>, parallel: Parallel) -> Self {
        let kind = Kind::Parallel(Box::new(parallel));
        Self { id, delivery, is_cancelled: AtomicBool::new(false), is_short: false, kind }
    }

    /// Ends the job at its next slice.
    pub(crate) fn cancel(&self) {
        self.is_cancelled.store(true, Ordering::Relaxed);
    }

    fn step_alone(&self, work: &mut Option<Moved>) -> bool {
        let Some(Moved(task)) = work.as_mut() else { return false };
        let Some(outcome) = self.advance(task) else { return true };
        let (mut tag, mut output) = ([0; 16], None);
        if let Some(Moved(Task::Sliced(sliced, place))) = work.take() {
            (tag, output) = (sliced.operation().tag, place.owned);
        }
        self.deliver(outcome, tag, output);
        false
    }

    fn advance(&self, task: &mut Task) -> Option<Outcome<usize>> {
        let is_cancelled = self.is_cancelled.load(Ordering::Relaxed);
        // SAFETY: the memory is the job's (see `Moved`), `begin` has made the end of the environment wait, and the lock keeps others from
        // working on it.
        let step = || unsafe {
            match task {
                Task::Sliced(sliced, _) if is_cancelled => {
                    sliced.abandon();
                    Some(Err(Fault::Cancelled))
                }
                Task::Sliced(sliced, _) => sliced.step(),
                Task::Batch(..) if is_cancelled => Some(Err(Fault::Cancelled)),
                Task::Batch(batch, keys) => batch.step(keys),
                Task::Update(stream, memory, done) => update(stream, *memory, done),
            }
        };
        catch_unwind(AssertUnwindSafe(step)).unwrap_or(Some(Err(Fault::Internal)))
    }

    fn step_parallel(&self, parallel: &Parallel) -> bool {
        let is_cancelled = self.is_cancelled.load(Ordering::Relaxed);
        // SAFETY: as in `advance`; parts do not overlap.
        let (has_more, outcome) = unsafe { parallel.step(is_cancelled) };
        if let Some(outcome) = outcome {
            self.deliver(outcome, parallel.tag(), None);
        }
        has_more
    }

    fn deliver(&self, outcome: Outcome<usize>, tag: [u8; 16], output: Option<Box<[u8]>>) {
        let (status, written) = outcome.map_or_else(|fault| (fault as u8, 0), |written| (0, written));
        self.delivery.push(Completion { id: self.id, status, written, tag, output });
    }
}

impl Work for Job {
    fn step(&self) -> bool {
        let Some(_running) = self.delivery.begin() else { return false };
        match &self.kind {
            Kind::Alone(work) => self.step_alone(&mut work.lock().unwrap_or_else(PoisonError::into_inner)),
            Kind::Parallel(parallel) => self.step_parallel(parallel),
        }
    }

    fn is_short(&self) -> bool {
        self.is_short
    }

    fn owner(&self) -> *const () {
        Arc::as_ptr(&self.delivery).cast()
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        POOL.leave();
    }
}

/// Works on a piece of a stream for a slice.
///
/// # Safety
/// The memory is valid, and nobody else uses it during the call.
unsafe fn update(stream: &Stream, memory: Memory, done: &mut usize) -> Option<Outcome<usize>> {
    let Memory { source, target, .. } = memory;
    let size = SLICE_SIZE.min(source.size - *done);
    let source_part = source.part(*done, size)?;
    // Hashes have no target.
    let target_part = target.part(*done, size).unwrap_or(target);
    // SAFETY: the caller's promise.
    if let Err(fault) = unsafe { stream.update(source_part, target_part) } {
        return Some(Err(fault));
    }
    *done += size;
    (*done == source.size).then_some(Ok(*done))
}
