//! Logs requests that continued after envelopes failed to decrypt. The rate is limited, because anybody who can write a text field can
//! plant such strings.

use std::sync::Arc;

use leafseal_engine::{Caller, Failure, RequestReport};
use leafseal_net::LogLimit;
use leafseal_service::FailureObserver;

use crate::clock;

/// The destination of these lines.
#[derive(Clone, Debug)]
pub struct FailureLogger(Arc<LogLimit>);

impl FailureLogger {
    /// Allows up to `lines_max` lines in ten seconds.
    pub fn new(lines_max: usize) -> Self {
        Self(Arc::new(LogLimit::new(lines_max)))
    }
}

impl FailureObserver for FailureLogger {
    /// Logs a request, if envelopes of it failed to decrypt. The line contains no value; paths contain names of members.
    fn ended(&self, caller: &Caller, app: &str, report: &RequestReport) {
        if report.failed == 0 {
            return;
        }
        let principal = caller.principal();
        let client = principal.key().or(principal.client()).unwrap_or_else(|| principal.kind());
        if let Some(suppressed) = self.0.admit(clock::now(), &client) {
            let (failed, places) = (report.failed, places(&report.failures));
            tracing::warn!(client, app, failed, places, suppressed, "envelopes failed to decrypt");
        }
    }
}

/// The recorded positions, separated by commas.
fn places(failures: &[Failure]) -> String {
    let place = |failure: &Failure| match failure.path.is_empty() {
        true => failure.position.to_string(),
        false => failure.path.clone(),
    };
    failures.iter().map(place).collect::<Vec<_>>().join(", ")
}
