//! A bounded, fair work queue for computing threads.
//!
//! Work is a [`Job`] that runs in slices of tens of microseconds. Tenants share the workers fairly by the time that their slices
//! take, and so do the clients of a tenant and the connections of a client: a job on a quiet connection of a quiet tenant waits for
//! the slices in hand and for nothing else, whatever waits elsewhere. Several workers may be inside one job: it is worked on in
//! exclusive turns, and a job that has planned its next part gives the turn back early ([`Turn::share`]), so that an idle worker goes
//! on with the part after it. The queue is bounded by jobs and by bytes, in all, by tenant and by connection, and refuses what is
//! beyond; it never waits for room. While more waits than the workers can take it also refuses a job that would not be done before
//! its deadline.
//!
//! The pool knows neither sockets nor crypto. Who submits a job keeps a [`Cancellation`] to stop it and looks at it between
//! slices; a job that waits beyond its deadline, or that is hurried, goes first in its connection to learn of it, and its tenant pays for
//! that too. A panic ends its job alone. No lock is held while a slice runs.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod cancellation;
mod estimate;
mod fair;
mod flows;
mod front;
mod ledger;
mod list;
mod pool;
mod scheduler;
mod settings;
mod sync;

pub use cancellation::{Cancellation, Reason, Stop};
pub use ledger::{Bound, Measure, Scope};
pub use pool::{Abandoned, Counters, Drained, Job, Pool, Rejected, Slice, Turn};
pub use scheduler::{Admission, Rejection, Scheduling, Ticket};
pub use settings::{Clock, Observer, PoolSettings};
