//! The log line of requests in which envelopes did not open and the work went on: bounded, since anybody who writes a text field can plant
//! such strings.

use std::sync::Arc;

use fieldseal_engine::{Caller, Failure, Report};
use fieldseal_net::LogLimit;
use fieldseal_service::FailureObserver;

use crate::clock;

/// Where such lines go.
#[derive(Clone, Debug)]
pub struct FailureLog(Arc<LogLimit>);

impl FailureLog {
    /// Up to `lines_max` lines in ten seconds.
    pub fn new(lines_max: usize) -> Self {
        Self(Arc::new(LogLimit::new(lines_max)))
    }
}

impl FailureObserver for FailureLog {
    /// Writes the line of a request, if envelopes of it did not open. It holds no value; paths hold names of members.
    fn ended(&self, caller: &Caller, app: &str, report: &Report) {
        if report.failed == 0 {
            return;
        }
        let client = match caller {
            Caller::Owner => "owner",
            Caller::Client { name, .. } => name.as_str(),
            Caller::ApiKey { id, .. } | Caller::OnBehalf { key: id, .. } => id.as_str(),
            Caller::Token { .. } => "token",
        };
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
