//! The record of one request in the worker pool: it is counted once, and recorded in the audit log if there is one.

use std::sync::Arc;

use leafseal_engine::pool::{CancelReason, Cancellation};
use leafseal_protocol::{ErrorCode, ErrorObject};

use super::requests::{Arrival, RequestOutcome, Requests};
use crate::audit::{AnswerRelease, ServerAudit};
use crate::canary_alarm::CanaryAlarms;
use crate::clock;
use crate::failure_log::FailureLogger;
use crate::request_facts::{EndedRequest, RequestFacts};
use leafseal_service::Effort;

/// The record of a request from its arrival; it is counted at the end of the request.
#[derive(Debug)]
pub(crate) struct RequestRecord {
    requests: Arc<Requests>,
    arrival: Arrival,
    cancellation: Arc<Cancellation>,
    reported: Option<ReportedRequest>,
}

/// Where a request is reported besides the metrics.
#[derive(Debug)]
pub(crate) struct ReportedRequest {
    pub(crate) facts: RequestFacts,
    /// If there is an audit log.
    pub(crate) audit: Option<Arc<ServerAudit>>,
    pub(crate) failures: FailureLogger,
    pub(crate) canaries: Arc<CanaryAlarms>,
}

impl RequestRecord {
    /// Creates a record; `cancellation` is the request's.
    pub(crate) fn new(requests: Arc<Requests>, arrival: Arrival, cancellation: Arc<Cancellation>) -> Self {
        RequestRecord { requests, arrival, cancellation, reported: None }
    }

    /// The same, for a request that is also reported.
    pub(crate) fn reported(self, reported: ReportedRequest) -> Self {
        RequestRecord { reported: Some(reported), ..self }
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
        let release = self.reported.map_or(AnswerRelease::Now, |reported| {
            let ended = EndedRequest {
                method: self.arrival.method,
                outcome: outcome.as_str(),
                has_failed: answered.is_err(),
                bytes_in: self.arrival.size,
                bytes_out: size,
                took: now.saturating_duration_since(self.arrival.at),
            };
            reported.end(outcome, &ended)
        });
        if let AnswerRelease::Withheld(error) = &release {
            (outcome, size) = (error.code.into(), 0);
        }
        self.requests.count(&self.arrival, outcome, effort, size, now);
        release
    }
}

impl ReportedRequest {
    fn end(self, outcome: RequestOutcome, ended: &EndedRequest) -> AnswerRelease {
        if outcome == RequestOutcome::Failed(ErrorCode::DecryptFailed) {
            self.failures.failed(&self.facts.record(ended));
        }
        let release = self.audit.as_ref().map_or(AnswerRelease::Now, |audit| audit.end(&self.facts, ended));
        self.canaries.note(self.facts, *ended);
        release
    }
}
