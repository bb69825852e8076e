//! An asynchronous operation: runs on threads of the pool, ends on the thread that asked for it.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crate::delivery::{Completion, Delivery};
use crate::fault::{Fault, Outcome};
use crate::operation::{Memory, Operation, Sliced};
use crate::pool::POOL;

/// Bytes of JavaScript that a job reads and writes, or its own copies of them.
pub(crate) struct Place {
    pub(crate) memory: Memory,
    /// Owned memory that `memory` points to: short texts, which are copied back when the job has ended.
    pub(crate) owned: Option<Box<[u8]>>,
    /// Owned associated data.
    pub(crate) aad: Option<Box<[u8]>>,
}

// SAFETY: the memory belongs to the job while it runs: JavaScript holds the buffers and `Delivery` waits for the job before their
// environment ends. Callers promise not to touch them meanwhile.
unsafe impl Send for Place {}

/// A job. It holds a place in the pool until it is dropped.
pub(crate) struct Job {
    id: f64,
    delivery: Arc<Delivery>,
    is_cancelled: AtomicBool,
    work: Mutex<Option<Work>>,
}

struct Work {
    sliced: Sliced,
    place: Place,
}

// SAFETY: the memory that `sliced` points to is that of `place`.
unsafe impl Send for Work {}

impl Job {
    /// Makes a job for which [`crate::pool::Pool::enter`] has reserved a place.
    pub(crate) fn new(id: f64, delivery: Arc<Delivery>, operation: Operation, place: Place) -> Self {
        let sliced = Sliced::new(operation, place.memory);
        Self { id, delivery, is_cancelled: AtomicBool::new(false), work: Mutex::new(Some(Work { sliced, place })) }
    }

    /// Whether the job belongs to `delivery`.
    pub(crate) fn is_for(&self, delivery: &Arc<Delivery>) -> bool {
        Arc::ptr_eq(&self.delivery, delivery)
    }

    /// Ends the job at its next slice.
    pub(crate) fn cancel(&self) {
        self.is_cancelled.store(true, Ordering::Relaxed);
    }

    /// Works for a slice. False when there is nothing left to do.
    pub(crate) fn step(&self) -> bool {
        let Some(_running) = self.delivery.begin() else { return false };
        let mut work = self.work.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(current) = work.as_mut() else { return false };
        let Some(outcome) = self.advance(current) else { return true };
        if let Some(work) = work.take() {
            self.delivery.push(completion(self.id, work, outcome));
        }
        false
    }

    fn advance(&self, work: &mut Work) -> Option<Outcome<usize>> {
        if self.is_cancelled.load(Ordering::Relaxed) {
            // SAFETY: as below.
            unsafe { work.sliced.abandon() };
            return Some(Err(Fault::Cancelled));
        }
        // SAFETY: the memory is the job's (see `Place`), `begin` has made the end of the environment wait, and the lock keeps others
        // from working on it.
        let step = || unsafe { work.sliced.step() };
        catch_unwind(AssertUnwindSafe(step)).unwrap_or(Some(Err(Fault::Internal)))
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        POOL.leave();
    }
}

fn completion(id: f64, work: Work, outcome: Outcome<usize>) -> Completion {
    let operation = work.sliced.operation();
    let (status, written) = outcome.map_or_else(|fault| (fault as u8, 0), |written| (0, written));
    Completion { id, status, written, tag: operation.tag, output: work.place.owned }
}
