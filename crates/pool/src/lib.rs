//! A bounded, fair work queue for computing threads.
//!
//! Work is a [`Job`] that runs in slices of tens of microseconds. Tenants share the workers fairly by the time that their slices
//! take, and so do the clients of a tenant and the connections of a client: a job on a quiet connection of a quiet tenant waits
//! only for the running slices, whatever waits elsewhere. Several workers may run one job: they take exclusive turns, and a job
//! that has planned its next part releases the turn early ([`SliceTurn::share`]), so that an idle worker continues with the part after
//! it. The queue is limited by jobs and bytes, in total, by tenant and by connection, and refuses what exceeds a limit; it never
//! waits for room. While more jobs wait than the workers can take it also refuses a job that would miss its deadline.
//!
//! A job that needs an event from elsewhere, such as a look-up, parks ([`Slice::Park`]): it holds its memory and its place in the limits,
//! but no worker, until its waker is used, it is cancelled, or its time is over. No worker ever waits.
//!
//! The submitter of a small job may run its first slice itself ([`Pool::submit_inline`]), if it would be the next slice anyway.
//!
//! The pool contains neither sockets nor crypto. The submitter of a job keeps a [`Cancellation`] to stop it, which is checked
//! between slices. A job that waits beyond its deadline, or that is hurried, goes first in its connection, so that it ends soon;
//! its tenant is charged for that too. A panic ends only its job. No lock is held while a slice runs.

mod cancellation;
mod estimate;
mod fair;
mod flows;
mod front;
mod inline;
mod ledger;
mod list;
mod parking;
mod pool;
mod scheduler;
mod settings;
mod sync;
mod yielding;

pub use cancellation::{CancelReason, Cancellation, StopReason};
pub use inline::{InlineSlice, hand_over, is_inline, take_hand_over};
pub use ledger::{LimitScope, Measure, ReachedLimit};
pub use parking::{Parking, finish_step, job_client, job_waker, park_job, take_parking};
pub use pool::{Abandoned, Drained, Job, Pool, PoolCounters, Rejected, Slice, SliceTurn, Submitted};
pub use scheduler::{Admission, JobTicket, Rejection, Scheduling};
pub use settings::{PoolClock, PoolObserver, PoolSettings};
pub use yielding::{InSlice, others_wait, take_yield, yield_slice};
