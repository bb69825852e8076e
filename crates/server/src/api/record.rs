//! The record of one call: it is counted once, and logged.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Instant;

use hyper::Response;
use hyper::body::Body as _;
use leafseal_engine::EntryPoint;
use leafseal_http::{ConnectionPeer, HttpProblem, ResponseBody};
use leafseal_net::{AccessRecord, client_of};
use leafseal_protocol::ErrorCode;

use crate::clock;
use crate::metrics::{ApiCall, RequestOutcome, word_of};
use crate::refusals::RefusalLine;
use crate::request_facts::{EndedRequest, RequestFacts};
use crate::server_state::ServerState;

/// The record of one call. If dropped before its end it counts as one whose caller disconnected.
pub(super) struct ApiRecord {
    server_state: Arc<ServerState>,
    call: Option<ApiCall>,
    facts: RequestFacts,
    began: Instant,
    failed: Option<ErrorCode>,
    is_counted: bool,
}

impl ApiRecord {
    pub(super) fn begin(
        server_state: Arc<ServerState>,
        call: Option<ApiCall>,
        (facts, began): (RequestFacts, Instant),
    ) -> Self {
        ApiRecord { server_state, call, facts, began, failed: None, is_counted: false }
    }

    /// Logs a call that the engine could not serve, rate-limited. Invalid calls do not concern the operator, and refused callers are logged
    /// with the decision.
    pub(super) fn failed(&mut self, problem: &HttpProblem, peer: &ConnectionPeer) {
        self.failed = Some(problem.code);
        if !problem.status.is_server_error() {
            return;
        }
        let write = || {
            let reason = Some(problem.detail.as_str().into());
            AccessRecord { reason, ..self.record(problem.status.as_u16(), 0, peer) }.warn("call failed", 0);
        };
        self.server_state.refusals.line(RefusalLine::Call, clock::now(), &client_of(peer.address.ip()), write);
    }

    /// Ends the record: the call is answered, and only sending remains.
    pub(super) fn end(mut self, response: &Response<ResponseBody>, peer: &ConnectionPeer) {
        let status = response.status().as_u16();
        self.count(Some(status));
        if self.server_state.settings.api.access_log {
            let bytes = response.body().size_hint().exact().unwrap_or_default();
            self.record(status, usize::try_from(bytes).unwrap_or(usize::MAX), peer).inform("call");
        }
    }

    fn record(&self, status: u16, bytes_out: usize, peer: &ConnectionPeer) -> AccessRecord<'_> {
        let record = self.facts.record(&EndedRequest {
            method: None,
            outcome: self.failed.map_or(RequestOutcome::Ok.as_str(), ErrorCode::as_str),
            has_failed: self.failed.is_some(),
            bytes_in: 0,
            bytes_out,
            took: clock::now().saturating_duration_since(self.began),
        });
        AccessRecord {
            entry_point: Some(EntryPoint::Api.as_str().into()),
            call: Some(word_of(self.call).into()),
            status: Some(status.into()),
            tls_group: peer.tls_group.map(Cow::Borrowed),
            ..record
        }
    }

    fn count(&mut self, status: Option<u16>) {
        self.is_counted = true;
        self.server_state.api.count(self.call, status, clock::now().saturating_duration_since(self.began));
    }
}

impl Drop for ApiRecord {
    fn drop(&mut self) {
        if !self.is_counted {
            self.count(None);
        }
    }
}
