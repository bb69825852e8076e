//! Log lines about callers that are refused. Peers can cause any number of them, so their rate is limited, and suppressed lines are
//! counted.

use std::net::IpAddr;
use std::time::Instant;

use leafseal_errors::{Decision, DecisionObserver, Denial, EntryPoint, Principal, Question};

use crate::client::client_of;
use crate::log_limit::LogLimit;

/// Logs each refusal of a caller, with its reason and without a secret or a value.
#[derive(Debug)]
pub struct DecisionLog {
    limit: LogLimit,
    now: fn() -> Instant,
}

impl DecisionLog {
    /// Allows at most `lines_max` lines in 10 s, at most half of them about one client, or one address without a client.
    pub fn new(lines_max: usize) -> Self {
        Self::with_clock(lines_max, Instant::now)
    }

    /// The same with another clock.
    pub fn with_clock(lines_max: usize, now: fn() -> Instant) -> Self {
        DecisionLog { limit: LogLimit::new(lines_max), now }
    }

    /// Logs the count of suppressed lines that no later line has reported.
    pub fn log_overdue(&self) {
        log_suppressed(self.limit.overdue((self.now)()).unwrap_or_default());
    }
}

fn log_suppressed(suppressed: u64) {
    if suppressed > 0 {
        tracing::warn!(suppressed, kind = "decisions", "refusals omitted from the log");
    }
}

impl DecisionObserver for DecisionLog {
    fn decided(&self, decision: &Decision<'_>) {
        let Some(refusal) = decision.refusal else { return };
        let source = (decision.principal.client(), decision.origin.address.map(client_of));
        if let Some(suppressed) = self.limit.admit((self.now)(), &source) {
            log_suppressed(suppressed);
            log(decision, refusal);
        }
    }
}

fn log(decision: &Decision<'_>, refusal: Denial<'_>) {
    let Decision { origin, principal, question, app, .. } = *decision;
    let (client, key) = (principal.client(), principal.key());
    let (token, fingerprint) = match principal {
        Principal::Token { id } => (Some(id), None),
        Principal::Client { certificate_sha256, .. } => (None, Some(hex::encode(certificate_sha256))),
        Principal::Owner | Principal::Anonymous | Principal::ApiKey { .. } | Principal::OnBehalf { .. } => (None, None),
    };
    let operations: Vec<&str> = decision.operations.iter().map(|operation| operation.as_str()).collect();
    let operations = (!operations.is_empty()).then(|| operations.join(", "));
    let (entry_point, request, address) =
        (origin.entry_point.as_str(), origin.request, origin.address.as_ref().map(IpAddr::to_string));
    let message = match question {
        Question::Identity => "caller refused",
        Question::Permission => "request refused",
        Question::Role => "value refused",
    };
    let (fingerprint, operations, address) = (fingerprint.as_deref(), operations.as_deref(), address.as_deref());
    let (code, reason) = (refusal.code.as_str(), refusal.reason);
    // A proxy's clients often send credentials only when they are asked for them.
    if origin.entry_point == EntryPoint::Relay && principal == Principal::Anonymous {
        return tracing::info!(entry_point, address, code, %reason, "{message}");
    }
    tracing::warn!(entry_point, client, fingerprint, key, token, address, request, operations, app, code, %reason, "{message}");
}

#[cfg(test)]
mod tests {
    use leafseal_errors::{ErrorCode, RequestOrigin};

    use super::*;

    #[test]
    fn a_caller_that_is_refused_often_leaves_lines_to_others_and_grants_take_none() {
        let log = DecisionLog::new(4);
        let decided = |name, code: Option<ErrorCode>| {
            let refusal = code.map(|code| Denial { code, reason: "it may not" });
            let principal = Principal::Client { name, certificate_sha256: [0; 32] };
            let (origin, question) = (RequestOrigin::of(EntryPoint::Rpc), Question::Permission);
            log.decided(&Decision { origin, principal, question, operations: &[], app: None, refusal });
        };
        (0..10).for_each(|_| decided("granted", None));
        (0..5).for_each(|_| decided("often", Some(ErrorCode::Forbidden)));
        let lines = [(); 3].map(|()| log.limit.admit(Instant::now(), &"other"));
        assert_eq!(lines, [Some(3), Some(0), None], "of four lines, two were left");
    }
}
