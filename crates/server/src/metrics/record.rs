//! The record of one request in the worker pool: it is counted once, and logged if permissions refuse it.

use std::sync::Arc;

use leafseal_engine::pool::{CancelReason, Cancellation};
use leafseal_protocol::ErrorObject;

use super::requests::{Arrival, Outcome, Requests};
use crate::clock;
use crate::refusals::RequestSource;
use leafseal_service::Effort;

/// The record of a request from its arrival; it is counted at the end of the request.
#[derive(Debug)]
pub(crate) struct RequestRecord {
    requests: Arc<Requests>,
    arrival: Arrival,
    cancellation: Arc<Cancellation>,
    source: Option<RequestSource>,
}

impl RequestRecord {
    /// Creates a record; `cancellation` is the request's.
    pub(crate) fn new(requests: Arc<Requests>, arrival: Arrival, cancellation: Arc<Cancellation>) -> Self {
        RequestRecord { requests, arrival, cancellation, source: None }
    }

    /// Adds the sender, so that a refusal by permissions is logged.
    pub(crate) fn with_source(mut self, source: RequestSource) -> Self {
        self.source = Some(source);
        self
    }

    /// Ends the request with an answer of this size, an error or not. Call it before the answer is sent: a client that has the answer finds
    /// it counted.
    pub(crate) fn end(self, answered: Result<usize, (&ErrorObject, usize)>, effort: Effort) {
        let now = clock::now();
        if let (Some(source), Err((error, _))) = (&self.source, answered) {
            source.refused(now, self.arrival.method, error);
        }
        let (outcome, size) = match answered {
            _ if self.cancellation.reason() == Some(CancelReason::Disconnected) => (Outcome::Disconnected, 0),
            Ok(size) => (Outcome::Ok, size),
            Err((error, size)) => (error.code.into(), size),
        };
        self.requests.count(&self.arrival, outcome, effort, size, now);
    }
}
