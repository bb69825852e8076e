//! A bounded, fair work queue for computing threads.
//!
//! Work is a [`Job`] that runs in slices of tens of microseconds. A worker takes the first job, runs one slice and, if more
//! is left, puts the job at the end: a small job waits for one slice of each job before it, never for a whole big one.
//! The queue is bounded by jobs and by bytes and refuses what is beyond; it never waits for room.
//!
//! The pool knows neither sockets nor crypto. Who submits a job keeps a [`Cancellation`] to stop it and looks at it between
//! slices. A panic ends its job alone. No lock is held while a slice runs.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod cancellation;
mod pool;
mod queue;

pub use cancellation::{Cancellation, Reason, Stop};
pub use pool::{Abandoned, Counters, Drained, Job, Pool, PoolSettings, Rejected, Slice};
pub use queue::Rejection;
