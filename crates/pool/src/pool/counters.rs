//! The figures of a pool.

use std::time::Duration;

/// The counters and load of a pool at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PoolCounters {
    /// Jobs that wait or run.
    pub jobs_held: usize,
    /// Their bytes.
    pub bytes_held: usize,
    /// Jobs waiting for a worker.
    pub jobs_waiting: usize,
    /// Jobs that are parked.
    pub jobs_parked: usize,
    /// Workers that are running a slice.
    pub workers_busy: usize,
    /// Slices started since the start.
    pub slices: u64,
    /// Turns released early since the start.
    pub turns_shared: u64,
    /// Sleeping workers that were woken since the start.
    pub wakes: u64,
    /// Jobs finished since the start.
    pub jobs_done: u64,
    /// Jobs among them that the submitting thread finished by itself.
    pub jobs_inline: u64,
    /// Jobs that panicked since the start.
    pub jobs_panicked: u64,
    /// Jobs that were not admitted since the start.
    pub jobs_rejected: u64,
    /// Jobs rejected because they would have missed their deadlines.
    pub jobs_refused_early: u64,
    /// Estimated time that the workers need for all jobs.
    pub backlog: Duration,
}

/// The result of a shutdown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Drained {
    /// Jobs that were dropped unfinished at the end of the time limit.
    pub jobs_abandoned: usize,
}
