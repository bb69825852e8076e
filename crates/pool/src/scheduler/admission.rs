//! The admission parameters of a job, and the reasons for rejection.

use std::sync::Arc;
use std::time::Duration;

use thiserror::Error;

use crate::cancellation::Cancellation;
use crate::ledger::ReachedLimit;

/// The pool's description of a job before it runs.
#[derive(Clone, Debug)]
pub struct Admission {
    /// The owner of the job: tenants share the workers equally.
    pub tenant: u64,
    /// The sender: the clients of a tenant share the tenant's part equally. It must be an identity that costs something to obtain, such as
    /// a certificate or an API key, so that using many gains nothing.
    pub client: u64,
    /// The connection: the connections of a client share the client's part equally.
    pub connection: u64,
    /// Its memory in bytes.
    pub bytes: usize,
    /// Stops the job. Set a deadline before the job is submitted; it is read each time the job is queued.
    pub cancellation: Arc<Cancellation>,
}

/// Why a job was not admitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Rejection {
    /// A limit of the settings is reached.
    #[error("the queue is full: {0}")]
    Overloaded(ReachedLimit),
    /// It would miss its deadline. Only returned while more jobs wait than the workers can take, and never for a tenant without jobs.
    #[error("the estimated wait of {} ms is too long for the deadline", .wait.as_millis())]
    TooLate {
        /// The estimated time until it would be done.
        wait: Duration,
    },
    /// The pool shuts down.
    #[error("the pool shuts down")]
    ShuttingDown,
}

/// The order in which jobs run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Scheduling {
    /// Slice by slice, fairly among tenants, clients and connections; idle workers join a job that can be shared.
    #[default]
    Fair,
    /// Each job from its first slice to its last, on one worker, in the order of arrival; cancelled and late ones wait for their turn too.
    /// For demonstrations and comparisons.
    FirstComeFirstServed,
}

/// Identifies an admitted job, also after its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JobTicket {
    pub(super) index: usize,
    pub(super) number: u64,
}
