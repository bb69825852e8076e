//! Settings of a pool, its observer and its clock.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::ledger::{Amount, LedgerLimits};
use crate::scheduler::Scheduling;

/// Settings and limits of a pool.
#[derive(Clone)]
pub struct PoolSettings {
    /// Threads, at least 1. Default: one per core.
    pub workers: usize,
    /// Maximum number of waiting or running jobs. Default 16,384.
    pub queue_jobs_max: usize,
    /// Maximum bytes held by these jobs, as given at submission. Default 1 GiB.
    pub queue_bytes_max: usize,
    /// Maximum number of jobs per tenant. Default: the total limit.
    pub tenant_jobs_max: usize,
    /// Maximum bytes per tenant. Default: the total limit.
    pub tenant_bytes_max: usize,
    /// Maximum number of jobs per connection, over all tenants. Default: the total limit.
    pub connection_jobs_max: usize,
    /// Maximum bytes per connection. Default: the total limit.
    pub connection_bytes_max: usize,
    /// How long a worker that leaves a job on which others still work polls for its next part before it sleeps. The turn is usually free
    /// again in a few µs, and waking a worker takes much longer. Default 20 µs.
    pub linger: Duration,
    /// The order in which jobs run. Default: fair.
    pub scheduling: Scheduling,
    /// Whether a job is refused that would miss its deadline, by an estimate from the waiting jobs and the workers' capacity. Not if jobs
    /// are served in the order of arrival. Default: yes.
    pub refuse_early: bool,
    /// The observer of times. Default: none.
    pub observer: Arc<dyn PoolObserver>,
}

impl Default for PoolSettings {
    fn default() -> Self {
        PoolSettings {
            workers: std::thread::available_parallelism().map_or(1, usize::from),
            queue_jobs_max: 16_384,
            queue_bytes_max: 1 << 30,
            tenant_jobs_max: usize::MAX,
            tenant_bytes_max: usize::MAX,
            connection_jobs_max: usize::MAX,
            connection_bytes_max: usize::MAX,
            linger: Duration::from_micros(20),
            scheduling: Scheduling::default(),
            refuse_early: true,
            observer: Arc::new(NoPoolObserver),
        }
    }
}

impl fmt::Debug for PoolSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PoolSettings")
            .field("workers", &self.workers)
            .field("limits", &self.limits())
            .field("scheduling", &self.scheduling)
            .field("refuse_early", &self.refuse_early)
            .finish_non_exhaustive()
    }
}

impl PoolSettings {
    pub(crate) fn limits(&self) -> LedgerLimits {
        LedgerLimits {
            total: Amount { jobs: self.queue_jobs_max, bytes: self.queue_bytes_max },
            tenant: Amount { jobs: self.tenant_jobs_max, bytes: self.tenant_bytes_max },
            connection: Amount { jobs: self.connection_jobs_max, bytes: self.connection_bytes_max },
        }
    }
}

/// Receives durations: once per slice, from the worker, outside every lock. Must be quick.
pub trait PoolObserver: Send + Sync {
    /// A job has waited this long from its admission to its first slice.
    fn waited(&self, _time: Duration) {}

    /// A slice has taken this long of one worker's time. Not called for inline slices, which take none.
    fn slice(&self, _time: Duration) {}
}

struct NoPoolObserver;

impl PoolObserver for NoPoolObserver {}

/// A clock. Simulations provide their own.
pub trait PoolClock: Send + Sync {
    /// The current time, which never decreases.
    fn now(&self) -> Instant;
}

/// The monotonic clock of the system.
pub(crate) struct SystemPoolClock;

impl PoolClock for SystemPoolClock {
    fn now(&self) -> Instant {
        Instant::now()
    }
}
