//! Logs requests in which envelopes failed to decrypt, whether they continued or not. The rate is limited, because anybody who can write a
//! text field can plant such strings.

use std::sync::Arc;

use leafseal_engine::{Caller, RequestReport};
use leafseal_net::{AccessRecord, LogLimit};
use leafseal_service::FailureObserver;

use crate::clock;

/// Positions of failed envelopes in one line.
const POSITIONS_MAX: usize = 16;

/// The destination of these lines.
#[derive(Clone, Debug)]
pub struct FailureLogger(Arc<LogLimit>);

impl FailureLogger {
    /// Allows up to `lines_max` lines in ten seconds.
    pub fn new(lines_max: usize) -> Self {
        Self(Arc::new(LogLimit::new(lines_max)))
    }

    /// Logs a request that failed because an envelope did.
    pub(crate) fn failed(&self, record: &AccessRecord<'_>) {
        self.line(record, "a request failed to decrypt");
    }

    fn line(&self, record: &AccessRecord<'_>, message: &str) {
        let source = record.source();
        if let Some(suppressed) = self.0.admit(clock::now(), &source) {
            record.warn(message, suppressed);
        }
    }
}

impl FailureObserver for FailureLogger {
    /// Logs a request, if envelopes of it failed to decrypt. The line contains no value and no name of a member: positions are offsets in a
    /// document, or indexes in a list.
    fn ended(&self, caller: &Caller, app: &str, report: &RequestReport) {
        if report.failed == 0 {
            return;
        }
        let positions = report.failures.iter().take(POSITIONS_MAX);
        let positions = positions.map(|failure| u32::try_from(failure.position).unwrap_or(u32::MAX));
        let record = AccessRecord {
            app: Some(app.into()),
            failed: Some(report.failed),
            positions: positions.collect(),
            ..AccessRecord::of_principal(caller.principal())
        };
        self.line(&record, "envelopes failed to decrypt");
    }
}
