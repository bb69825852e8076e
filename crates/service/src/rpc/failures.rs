//! Where a request's envelopes that failed to decrypt are logged, if it has an action for them.

use std::sync::Arc;

use leafseal_engine::{Caller, OnFailure, RequestReport};

use super::FailureObserver;
use super::call::OwnedCall;

/// The log of a request with an action for failures; nothing for one that fails.
#[derive(Default)]
pub(super) struct FailureLog(Option<(Arc<dyn FailureObserver>, Caller)>);

impl FailureLog {
    pub(super) fn of(on_failure: OnFailure, log: &Arc<dyn FailureObserver>, caller: &Caller) -> Self {
        Self((on_failure != OnFailure::Fail).then(|| (Arc::clone(log), caller.clone())))
    }

    /// Whether the answer reports failures.
    pub(super) fn is_wanted(&self) -> bool {
        self.0.is_some()
    }

    /// Logs the failures of a request that has ended; returns their positions.
    pub(super) fn ended(&self, call: &OwnedCall, report: &RequestReport) -> Vec<u64> {
        if let Some((log, caller)) = &self.0 {
            log.ended(caller, call.parsed().app(), report);
        }
        report.failures.iter().map(|failure| failure.position).collect()
    }
}
