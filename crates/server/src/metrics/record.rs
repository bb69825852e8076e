//! The record of one request in the worker pool: it is counted once, and recorded in the audit log if there is one.

use std::sync::Arc;

use leafseal_engine::pool::{CancelReason, Cancellation};
use leafseal_protocol::ErrorObject;

use super::requests::{Arrival, RequestOutcome, Requests};
use crate::audit::{AnswerRelease, AuditedRequest, EndedRequest};
use crate::clock;
use leafseal_service::Effort;

/// The record of a request from its arrival; it is counted at the end of the request.
#[derive(Debug)]
pub(crate) struct RequestRecord {
    requests: Arc<Requests>,
    arrival: Arrival,
    cancellation: Arc<Cancellation>,
    audited: Option<AuditedRequest>,
}

impl RequestRecord {
    /// Creates a record; `cancellation` is the request's.
    pub(crate) fn new(requests: Arc<Requests>, arrival: Arrival, cancellation: Arc<Cancellation>) -> Self {
        RequestRecord { requests, arrival, cancellation, audited: None }
    }

    /// The same, for a request that the audit log records.
    pub(crate) fn audited(self, audited: Option<AuditedRequest>) -> Self {
        RequestRecord { audited, ..self }
    }

    /// Ends the request with an answer of this size, an error or not, and says what becomes of the answer. Call it before the answer is
    /// sent: a client that has the answer finds it counted, and recorded.
    #[must_use]
    pub(crate) fn end(self, answered: Result<usize, (&ErrorObject, usize)>, effort: Effort) -> AnswerRelease {
        let now = clock::now();
        let (mut outcome, mut size) = match answered {
            _ if self.cancellation.reason() == Some(CancelReason::Disconnected) => (RequestOutcome::Disconnected, 0),
            Ok(size) => (RequestOutcome::Ok, size),
            Err((error, size)) => (error.code.into(), size),
        };
        let release = self.audited.map_or(AnswerRelease::Now, |audited| {
            audited.end(&EndedRequest {
                method: self.arrival.method,
                outcome: outcome.as_str(),
                failed: answered.err().map(|(error, _)| error),
                bytes_in: self.arrival.size,
                bytes_out: size,
                took: now.saturating_duration_since(self.arrival.at),
            })
        });
        if let AnswerRelease::Withheld(error) = &release {
            (outcome, size) = (error.code.into(), 0);
        }
        self.requests.count(&self.arrival, outcome, effort, size, now);
        release
    }
}
