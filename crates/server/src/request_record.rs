//! The record of one request that workers have: counted once, with a line of the log where policy refuses it.

use std::sync::Arc;

use fieldseal_engine::pool::{Cancellation, Reason};
use fieldseal_protocol::ErrorObject;

use crate::clock;
use crate::metrics::requests::{Arrival, Outcome, Requests};
use crate::refusals::Asker;
use fieldseal_service::Effort;

/// The record of a request from its arrival on, which is counted at its end.
#[derive(Debug)]
pub(crate) struct RequestRecord {
    requests: Arc<Requests>,
    arrival: Arrival,
    cancellation: Arc<Cancellation>,
    asker: Option<Asker>,
}

impl RequestRecord {
    /// `cancellation` is the request's.
    pub(crate) fn new(requests: Arc<Requests>, arrival: Arrival, cancellation: Arc<Cancellation>) -> Self {
        RequestRecord { requests, arrival, cancellation, asker: None }
    }

    /// The same, where a refusal by policy is a line of the log.
    pub(crate) fn asked_by(mut self, asker: Asker) -> Self {
        self.asker = Some(asker);
        self
    }

    /// The request ends with an answer of so many bytes, an error or not. To be called before it is sent: who has the answer finds it
    /// counted.
    pub(crate) fn end(self, answered: Result<usize, (&ErrorObject, usize)>, effort: Effort) {
        let now = clock::now();
        if let (Some(asker), Err((error, _))) = (&self.asker, answered) {
            asker.refused(now, self.arrival.method, error);
        }
        let (outcome, size) = match answered {
            _ if self.cancellation.reason() == Some(Reason::Disconnected) => (Outcome::Disconnected, 0),
            Ok(size) => (Outcome::Ok, size),
            Err((error, size)) => (error.code.into(), size),
        };
        self.requests.count(&self.arrival, outcome, effort, size, now);
    }
}
