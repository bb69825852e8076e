//! The record of one request in the worker pool: it is counted once.

use std::sync::Arc;

use leafseal_engine::pool::{CancelReason, Cancellation};
use leafseal_protocol::ErrorObject;

use super::requests::{Arrival, RequestOutcome, Requests};
use crate::clock;
use leafseal_service::Effort;

/// The record of a request from its arrival; it is counted at the end of the request.
#[derive(Debug)]
pub(crate) struct RequestRecord {
    requests: Arc<Requests>,
    arrival: Arrival,
    cancellation: Arc<Cancellation>,
}

impl RequestRecord {
    /// Creates a record; `cancellation` is the request's.
    pub(crate) fn new(requests: Arc<Requests>, arrival: Arrival, cancellation: Arc<Cancellation>) -> Self {
        RequestRecord { requests, arrival, cancellation }
    }

    /// Ends the request with an answer of this size, an error or not. Call it before the answer is sent: a client that has the answer finds
    /// it counted.
    pub(crate) fn end(self, answered: Result<usize, (&ErrorObject, usize)>, effort: Effort) {
        let now = clock::now();
        let (outcome, size) = match answered {
            _ if self.cancellation.reason() == Some(CancelReason::Disconnected) => (RequestOutcome::Disconnected, 0),
            Ok(size) => (RequestOutcome::Ok, size),
            Err((error, size)) => (error.code.into(), size),
        };
        self.requests.count(&self.arrival, outcome, effort, size, now);
    }
}
