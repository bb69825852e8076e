//! The admission parameters of a job, and the reasons for rejection.

use std::sync::Arc;
use std::time::Duration;

use thiserror::Error;

use crate::cancellation::Cancellation;
use crate::ledger::Bound;

/// The parameters of a job that the pool needs before it runs.
#[derive(Clone, Debug)]
pub struct Admission {
    /// The owner of the job: tenants share the workers equally.
    pub tenant: u64,
    /// The sender: the clients of a tenant share the tenant's part equally. It must be an identity that costs something to obtain,
    /// such as a certificate or an API key, so that nobody gains by using many.
    pub client: u64,
    /// Where it came from: the connections of a client share what the client gets equally.
    pub connection: u64,
    /// Memory that it holds.
    pub bytes: usize,
    /// How it is stopped. Set a deadline before the job is submitted; it is read again each time that the job has to wait.
    pub cancellation: Arc<Cancellation>,
}

/// Why something was not admitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Rejection {
    /// As much is held as the settings allow.
    #[error("the queue is full: {0}")]
    Overloaded(Bound),
    /// It would not be done before its deadline. Only while more waits than the workers can take, and never for a tenant of which
    /// nothing is held.
    #[error("the estimated wait of {} ms is too long for the deadline", .wait.as_millis())]
    TooLate {
        /// How long it would take until it is done.
        wait: Duration,
    },
    /// The pool shuts down.
    #[error("the pool shuts down")]
    ShuttingDown,
}

/// In which order jobs are worked on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Scheduling {
    /// Slice by slice, fairly to tenants and connections; idle workers help with a job that can be shared.
    #[default]
    Fair,
    /// Each job from its first slice to its last, by one worker, in the order of arrival; cancelled and late ones too wait for their
    /// turn. For demonstrations and comparisons.
    FirstComeFirstServed,
}

/// Names a job that was admitted, also after its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ticket {
    pub(super) index: usize,
    pub(super) number: u64,
}
