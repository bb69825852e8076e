//! Log lines about callers that are refused. Peers can cause any number of them, so their rate is limited, and suppressed lines are
//! counted.

use std::time::Instant;

use leafseal_errors::{Decision, DecisionObserver, EntryPoint, Principal, Question};

use crate::access_record::AccessRecord;
use crate::client::client_of;
use crate::log_limit::LogLimit;

/// Logs each refusal of a caller, with its reason and without a secret or a value.
#[derive(Debug)]
pub struct DecisionLog {
    /// One for each kind: any number of addresses may send credentials that are no good, and must not hide what a known caller tries.
    limits: [LogLimit; LoggedCaller::ALL.len()],
    now: fn() -> Instant,
}

/// Whom a line is about.
#[derive(Clone, Copy, Debug)]
enum LoggedCaller {
    /// A caller whose identity is proven.
    Known,
    /// Any other.
    Unknown,
}

impl LoggedCaller {
    const ALL: [LoggedCaller; 2] = [LoggedCaller::Known, LoggedCaller::Unknown];

    fn of(decision: &Decision<'_>) -> Self {
        let is_known = decision.question != Question::Identity && decision.principal != Principal::Anonymous;
        if is_known { LoggedCaller::Known } else { LoggedCaller::Unknown }
    }

    /// The name in the log.
    fn as_str(self) -> &'static str {
        match self {
            LoggedCaller::Known => "known-callers",
            LoggedCaller::Unknown => "unknown-callers",
        }
    }
}

impl DecisionLog {
    /// Allows at most `lines_max` lines in 10 s about known callers, and as many about others. One client, or one key or address without
    /// a client, causes at most half of them.
    pub fn new(lines_max: usize) -> Self {
        Self::with_clock(lines_max, Instant::now)
    }

    /// The same with another clock.
    pub fn with_clock(lines_max: usize, now: fn() -> Instant) -> Self {
        DecisionLog { limits: LoggedCaller::ALL.map(|_| LogLimit::new(lines_max)), now }
    }

    /// Logs the counts of suppressed lines that no later line has reported.
    pub fn log_overdue(&self) {
        for caller in LoggedCaller::ALL {
            log_suppressed(caller, self.limits[caller as usize].overdue((self.now)()).unwrap_or_default());
        }
    }
}

fn log_suppressed(caller: LoggedCaller, suppressed: u64) {
    if suppressed > 0 {
        tracing::warn!(suppressed, kind = caller.as_str(), "refusals omitted from the log");
    }
}

impl DecisionObserver for DecisionLog {
    fn decided(&self, decision: &Decision<'_>) {
        if decision.refusal.is_none() {
            return;
        }
        let caller = LoggedCaller::of(decision);
        let address = decision.origin.address.map(client_of);
        // An unknown caller invents names, and a known client the ids of keys: neither must get lines for each of them.
        let source = match (caller, decision.principal) {
            (LoggedCaller::Unknown, _) => (None, address),
            (LoggedCaller::Known, Principal::ApiKey { id }) => (Some(id), None),
            (LoggedCaller::Known, principal) => match principal.client() {
                None => (None, address),
                client => (client, None),
            },
        };
        if let Some(suppressed) = self.limits[caller as usize].admit((self.now)(), &source) {
            log_suppressed(caller, suppressed);
            log(decision);
        }
    }
}

fn log(decision: &Decision<'_>) {
    let message = match decision.question {
        Question::Identity => "caller refused",
        Question::Permission => "request refused",
        Question::Role => "value refused",
    };
    let record = AccessRecord::of(decision);
    // A proxy's clients often send credentials only when they are asked for them.
    if decision.origin.entry_point == EntryPoint::Relay && decision.principal == Principal::Anonymous {
        return record.inform(message);
    }
    record.warn(message, 0);
}

#[cfg(test)]
mod tests {
    use leafseal_errors::{Denial, ErrorCode, RequestOrigin};

    use super::*;

    /// Reports a refusal, or a grant without a code, to the log.
    fn decide(log: &DecisionLog, principal: Principal<'_>, question: Question, code: Option<ErrorCode>, address: u8) {
        let refusal = code.map(|code| Denial { code, reason: "it may not" });
        let origin = RequestOrigin { address: Some([192, 0, 2, address].into()), ..RequestOrigin::of(EntryPoint::Rpc) };
        log.decided(&Decision {
            origin,
            principal,
            question,
            operations: &[],
            app: None,
            refusal,
            is_accounted: false,
        });
    }

    fn client(name: &str) -> Principal<'_> {
        Principal::Client { name, certificate_sha256: [0; 32] }
    }

    /// Which lines about three more sources are admitted.
    fn left(log: &DecisionLog, caller: LoggedCaller) -> [Option<u64>; 3] {
        ["x", "y", "z"].map(|source| log.limits[caller as usize].admit(Instant::now(), &source))
    }

    #[test]
    fn a_caller_that_is_refused_often_leaves_lines_to_others_and_grants_take_none() {
        let log = DecisionLog::new(4);
        let forbidden = Some(ErrorCode::Forbidden);
        (0..10).for_each(|_| decide(&log, client("granted"), Question::Permission, None, 1));
        (0..5).for_each(|address| decide(&log, client("often"), Question::Permission, forbidden, address));
        assert_eq!(left(&log, LoggedCaller::Known), [Some(3), Some(0), None], "of four lines, two were left");
    }

    #[test]
    fn a_client_that_invents_keys_leaves_lines_to_others() {
        let log = DecisionLog::new(4);
        for key in ["a", "b", "c", "d"] {
            let principal = Principal::OnBehalf { client: "relay", key };
            decide(&log, principal, Question::Permission, Some(ErrorCode::Forbidden), 1);
        }
        assert_eq!(left(&log, LoggedCaller::Known), [Some(2), Some(0), None]);
    }

    #[test]
    fn callers_that_prove_nothing_take_no_line_from_known_ones() {
        let log = DecisionLog::new(4);
        for address in 0..50 {
            for principal in [Principal::Anonymous, Principal::ApiKey { id: "invented" }, client("invented")] {
                decide(&log, principal, Question::Identity, Some(ErrorCode::Unauthorized), address);
            }
            decide(&log, Principal::Anonymous, Question::Permission, Some(ErrorCode::Forbidden), address);
        }
        assert_eq!(left(&log, LoggedCaller::Unknown), [None; 3]);
        assert_eq!(left(&log, LoggedCaller::Known), [Some(0), Some(0), Some(0)]);
    }
}
