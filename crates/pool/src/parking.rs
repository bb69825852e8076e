//! Stops a job between two steps until an event elsewhere, at the request of the code that runs in it: a look-up is under way, and no
//! worker waits for it.
//!
//! Code in a slice requests a waker with [`park_slice`], passes it to what will produce the event, and ends its step. The job then
//! returns [`Slice::Park`](crate::Slice::Park), and is queued again when the waker is used or the time is over.

use std::cell::{Cell, RefCell};
use std::sync::{Arc, Weak};
use std::task::{Wake, Waker};
use std::time::Duration;

use crate::scheduler::JobTicket;

/// Queues parked jobs again.
pub(crate) trait Wakes: Send + Sync {
    /// Queues a job, or lets it continue at once if it is about to park. Does nothing if it has ended.
    fn wake(&self, ticket: JobTicket);
}

/// A request of the code that ran in a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parking {
    /// How long the job waits, counted from its first unsuccessful step.
    pub limit: Duration,
    /// Whether the step has done nothing, failed for want of the event, and is to be repeated. Otherwise it counts, and only the step after
    /// it waits.
    pub repeats: bool,
}

thread_local! {
    /// The job whose slice runs on this thread, and its client.
    static RUNNING: Cell<Option<(JobTicket, u64)>> = const { Cell::new(None) };
    /// The pool of the last slice on this thread: kept, because it is the same for all slices of a worker.
    static POOL: RefCell<Option<Weak<dyn Wakes>>> = const { RefCell::new(None) };
    static PARKING: Cell<Option<Parking>> = const { Cell::new(None) };
}

struct JobWaker {
    pool: Weak<dyn Wakes>,
    ticket: JobTicket,
}

impl Wake for JobWaker {
    fn wake(self: Arc<Self>) {
        if let Some(pool) = self.pool.upgrade() {
            pool.wake(self.ticket);
        }
    }
}

/// The waker of the job whose slice runs on this thread; `None` outside a slice, where the caller may wait itself.
pub fn job_waker() -> Option<Waker> {
    let (ticket, _) = RUNNING.get()?;
    let pool = POOL.with_borrow(Clone::clone)?;
    Some(Waker::from(Arc::new(JobWaker { pool, ticket })))
}

/// The client whose job's slice runs on this thread, as in [`Admission::client`](crate::Admission::client).
pub fn job_client() -> Option<u64> {
    RUNNING.get().map(|(_, client)| client)
}

/// Asks the job that runs on this thread to end its slice after the current step and to wait for its waker, for at most `limit` in all. The
/// step itself has failed and will be repeated.
pub fn park_job(limit: Duration) {
    PARKING.set(Some(Parking { limit, repeats: true }));
}

/// After [`park_job`]: the current step continues without what it lacks, and counts.
pub fn finish_step() {
    PARKING.set(PARKING.get().map(|parking| Parking { repeats: false, ..parking }));
}

/// Returns the request of the last step, once. For jobs, after each step.
pub fn take_parking() -> Option<Parking> {
    PARKING.take()
}

/// Marks this thread as one that runs a slice of a job, until it is dropped.
#[derive(Debug)]
pub(crate) struct RunningJob(());

impl RunningJob {
    pub(crate) fn begin<P: Wakes + 'static>(pool: &Arc<P>, ticket: JobTicket, client: u64) -> Self {
        POOL.with_borrow_mut(|known| {
            let is_known = known.as_ref().is_some_and(|known| std::ptr::addr_eq(known.as_ptr(), Arc::as_ptr(pool)));
            if !is_known {
                let pool: Weak<P> = Arc::downgrade(pool);
                *known = Some(pool);
            }
        });
        RUNNING.set(Some((ticket, client)));
        PARKING.set(None);
        Self(())
    }
}

impl Drop for RunningJob {
    fn drop(&mut self) {
        RUNNING.set(None);
        PARKING.set(None);
    }
}
