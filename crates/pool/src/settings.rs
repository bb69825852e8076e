//! Settings of a pool, its observer and its clock.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::ledger::{Amount, Limits};
use crate::scheduler::Scheduling;

/// Settings and limits of a pool.
#[derive(Clone)]
pub struct PoolSettings {
    /// Threads, at least 1. Default: one per core.
    pub workers: usize,
    /// Most jobs held, waiting or running. Default 16,384.
    pub queue_jobs_max: usize,
    /// Maximum bytes held by these jobs, as given at submission. Default 1 GiB.
    pub queue_bytes_max: usize,
    /// Most jobs held for one tenant. Default: no less than in all.
    pub tenant_jobs_max: usize,
    /// Most bytes held for one tenant. Default: no less than in all.
    pub tenant_bytes_max: usize,
    /// Most jobs held for one connection, whatever their tenants. Default: no less than in all.
    pub connection_jobs_max: usize,
    /// Most bytes held for one connection. Default: no less than in all.
    pub connection_bytes_max: usize,
    /// How long a worker that comes from a job on which others still work looks out for its next part, computing nothing, before it
    /// sleeps. Its turn is mostly free again in a few µs, and to be woken takes many more. Default 20 µs.
    pub linger: Duration,
    /// In which order jobs are worked on. Default: fairly.
    pub scheduling: Scheduling,
    /// Whether a job is refused that would not be done before its deadline, by an estimate of what waits before it and of what the
    /// workers do. Not where jobs are served in the order of arrival. Default: yes.
    pub refuse_early: bool,
    /// The observer of times. Default: none.
    pub observer: Arc<dyn Observer>,
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
            observer: Arc::new(Nobody),
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
    pub(crate) fn limits(&self) -> Limits {
        Limits {
            total: Amount { jobs: self.queue_jobs_max, bytes: self.queue_bytes_max },
            tenant: Amount { jobs: self.tenant_jobs_max, bytes: self.tenant_bytes_max },
            connection: Amount { jobs: self.connection_jobs_max, bytes: self.connection_bytes_max },
        }
    }
}

/// Receives times: once per slice, from the worker, outside every lock. Must be quick.
pub trait Observer: Send + Sync {
    /// A job waited this long from its admission to its first slice.
    fn waited(&self, _time: Duration) {}

    /// A slice took this long, of one worker's time.
    fn slice(&self, _time: Duration) {}
}

struct Nobody;

impl Observer for Nobody {}

/// Tells the time. Simulations bring their own.
pub trait Clock: Send + Sync {
    /// Never earlier than before.
    fn now(&self) -> Instant;
}

/// The monotonic clock of the system.
pub(crate) struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Instant {
        Instant::now()
    }
}
