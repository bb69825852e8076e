//! The record of one call: it is counted once, and logged.

use std::sync::Arc;
use std::time::Instant;

use hyper::Response;
use hyper::body::Body as _;
use leafseal_http::{ConnectionPeer, HttpProblem, ResponseBody};
use leafseal_net::client_of;

use crate::clock;
use crate::metrics::{ApiCall, word_of};
use crate::refusals::RefusalLine;
use crate::server_state::ServerState;

/// How many values a call has encrypted or decrypted, for its record: an extension of its response.
#[derive(Debug, Clone, Copy)]
pub(super) struct CallValues {
    pub(super) count: u64,
    /// With a symmetric key.
    pub(super) symmetric: u64,
}

/// The record of one call. If dropped before its end it counts as one whose caller disconnected.
pub(super) struct ApiRecord {
    server_state: Arc<ServerState>,
    call: Option<ApiCall>,
    began: Instant,
    is_counted: bool,
}

impl ApiRecord {
    pub(super) fn begin(server_state: Arc<ServerState>, call: Option<ApiCall>, began: Instant) -> Self {
        ApiRecord { server_state, call, began, is_counted: false }
    }

    /// Logs a call that the engine could not serve, rate-limited. Invalid calls do not concern the operator, and refused callers are logged
    /// with the decision.
    pub(super) fn failed(&self, problem: &HttpProblem, peer: &ConnectionPeer) {
        if !problem.status.is_server_error() {
            return;
        }
        let (status, code) = (problem.status.as_u16(), problem.code.as_str());
        let write = || {
            tracing::warn!(address = %peer.address, call = word_of(self.call), status, code, reason = %problem.detail, "call failed");
        };
        self.server_state.refusals.line(RefusalLine::Call, clock::now(), &client_of(peer.address.ip()), write);
    }

    /// Ends the record: the call is answered, and only sending remains.
    pub(super) fn end(mut self, response: &Response<ResponseBody>, peer: &ConnectionPeer) {
        let status = response.status().as_u16();
        self.count(Some(status));
        if self.server_state.settings.api.access_log {
            let bytes = response.body().size_hint().exact();
            let milliseconds = clock::now().saturating_duration_since(self.began).as_secs_f64() * 1e3;
            let (tls_group, call) = (peer.tls_group, word_of(self.call));
            let values = response.extensions().get::<CallValues>();
            let (count, symmetric) = (values.map(|values| values.count), values.map(|values| values.symmetric));
            tracing::info!(address = %peer.address, tls_group, call, status, bytes, milliseconds, count, symmetric, "call");
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
