//! An asynchronous operation: runs on threads of the pool, ends on the thread that asked for it.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crate::batch::Batch;
use crate::delivery::{Completion, ThreadDelivery};
use crate::fault::{OperationFault, OperationResult};
use crate::keys::KeyCache;
use crate::operation::{JsBytes, Memory, SLICE_SIZE, Sliced};
use crate::parallel::Parallel;
use crate::pool::{POOL, Work};
use crate::streams::Stream;

/// A job's work.
pub(crate) enum OperationTask {
    /// One operation, slice by slice.
    Sliced(Box<Sliced>, JsBytes),
    /// Many operations.
    Batch(Box<Batch>, KeyCache),
    /// A piece of a stream, of which some is done.
    Update(Arc<Stream>, Memory, usize),
}

/// A task that moves between threads.
struct MovedTask(OperationTask);

// SAFETY: the memory belongs to the job while it runs: JavaScript holds the buffers, and `ThreadDelivery` waits for the job before their
// environment ends. Callers promise not to touch them meanwhile.
unsafe impl Send for MovedTask {}

/// A job. It holds a place in the pool until it is dropped.
pub(crate) struct OperationJob {
    id: f64,
    delivery: Arc<ThreadDelivery>,
    is_cancelled: AtomicBool,
    is_short: bool,
    kind: TaskKind,
}

/// Longest text in bytes of a job that threads take several of at once.
const SHORT_SIZE_MAX: usize = 4096;

enum TaskKind {
    /// On one thread at a time.
    Alone(Mutex<Option<MovedTask>>),
    /// On several threads.
    Parallel(Box<Parallel>),
}

// SAFETY: as for `MovedTask`; `Parallel` may be used by several threads.
unsafe impl Send for OperationJob {}
// SAFETY: as above.
unsafe impl Sync for OperationJob {}

impl OperationJob {
    /// Makes a job for which [`crate::pool::Pool::enter`] has reserved a place.
    pub(crate) fn new(id: f64, delivery: Arc<ThreadDelivery>, task: OperationTask) -> Self {
        let is_short = match &task {
            OperationTask::Sliced(_, place) => place.memory.source.size + place.memory.aad.size <= SHORT_SIZE_MAX,
            OperationTask::Batch(..) => false,
            OperationTask::Update(_, memory, _) => memory.source.size <= SHORT_SIZE_MAX,
        };
        let kind = TaskKind::Alone(Mutex::new(Some(MovedTask(task))));
        Self { id, delivery, is_cancelled: AtomicBool::new(false), is_short, kind }
    }

    /// Makes a job for several threads, likewise.
    pub(crate) fn parallel(id: f64, delivery: Arc<ThreadDelivery>, parallel: Parallel) -> Self {
        let kind = TaskKind::Parallel(Box::new(parallel));
        Self { id, delivery, is_cancelled: AtomicBool::new(false), is_short: false, kind }
    }

    /// Ends the job at its next slice.
    pub(crate) fn cancel(&self) {
        self.is_cancelled.store(true, Ordering::Relaxed);
    }

    fn step_alone(&self, work: &mut Option<MovedTask>) -> bool {
        let Some(MovedTask(task)) = work.as_mut() else { return false };
        let Some(outcome) = self.advance(task) else { return true };
        let (mut tag, mut output) = ([0; 16], None);
        if let Some(MovedTask(OperationTask::Sliced(sliced, place))) = work.take() {
            (tag, output) = (sliced.operation().tag, place.owned);
        }
        self.deliver(outcome, tag, output);
        false
    }

    fn advance(&self, task: &mut OperationTask) -> Option<OperationResult<usize>> {
        let is_cancelled = self.is_cancelled.load(Ordering::Relaxed);
        // SAFETY: the memory is the job's (see `MovedTask`), `begin` has made the end of the environment wait, and the lock keeps others
        // from
        // working on it.
        let step = || unsafe {
            match task {
                OperationTask::Sliced(sliced, _) if is_cancelled => {
                    sliced.abandon();
                    Some(Err(OperationFault::Cancelled))
                }
                OperationTask::Sliced(sliced, _) => sliced.step(),
                OperationTask::Batch(..) if is_cancelled => Some(Err(OperationFault::Cancelled)),
                OperationTask::Batch(batch, keys) => batch.step(keys),
                OperationTask::Update(stream, memory, done) => update(stream, *memory, done),
            }
        };
        catch_unwind(AssertUnwindSafe(step)).unwrap_or(Some(Err(OperationFault::Internal)))
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

    fn deliver(&self, outcome: OperationResult<usize>, tag: [u8; 16], output: Option<Box<[u8]>>) {
        let (status, written) = outcome.map_or_else(|fault| (fault as u8, 0), |written| (0, written));
        self.delivery.push(Completion { id: self.id, status, written, tag, output });
    }
}

impl Work for OperationJob {
    fn step(&self) -> bool {
        let Some(_running) = self.delivery.begin() else { return false };
        match &self.kind {
            TaskKind::Alone(work) => self.step_alone(&mut work.lock().unwrap_or_else(PoisonError::into_inner)),
            TaskKind::Parallel(parallel) => self.step_parallel(parallel),
        }
    }

    fn is_short(&self) -> bool {
        self.is_short
    }

    fn owner(&self) -> *const () {
        Arc::as_ptr(&self.delivery).cast()
    }
}

impl Drop for OperationJob {
    fn drop(&mut self) {
        POOL.leave();
    }
}

/// Works on a piece of a stream for a slice.
///
/// # Safety
/// The memory is valid, and nothing else uses it during the call.
unsafe fn update(stream: &Stream, memory: Memory, done: &mut usize) -> Option<OperationResult<usize>> {
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
