//! The alarm that canaries were opened: a line of the log and a record of kind `canary` for each request.
//!
//! A request hands over what is known of it when it ends; the maintenance thread does the rest, within a second. So the answer of a
//! request with a canary waits for nothing that others do not wait for.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use leafseal_engine::Engine;
use leafseal_net::LogLimit;

use crate::audit::ServerAudit;
use crate::clock;
use crate::request_facts::{EndedRequest, RequestFacts};

/// Requests that wait to be reported. Further ones are counted, and the audit log has them as requests.
const WAITING_MAX: usize = 1_000;

/// Requests that have opened canaries.
#[derive(Debug)]
pub(crate) struct CanaryAlarms {
    waiting: Mutex<WaitingAlarms>,
    lines: LogLimit,
}

#[derive(Debug, Default)]
struct WaitingAlarms {
    requests: VecDeque<(RequestFacts, EndedRequest)>,
    /// Of those that have not found room.
    not_kept: u64,
    /// Canaries that the engine had counted at the last look.
    seen: u64,
}

impl CanaryAlarms {
    /// Logs at most `lines_max` lines in 10 s.
    pub(crate) fn new(lines_max: usize) -> Self {
        Self { waiting: Mutex::default(), lines: LogLimit::new(lines_max) }
    }

    /// Takes over what is known of a request that ends, if it has opened a canary.
    pub(crate) fn note(&self, facts: RequestFacts, ended: EndedRequest) {
        if facts.account.as_ref().is_none_or(|account| account.canaries() == 0) {
            return;
        }
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        if waiting.requests.len() < WAITING_MAX {
            waiting.requests.push_back((facts, ended));
        } else {
            waiting.not_kept += 1;
        }
    }

    /// Raises the alarm for those that have ended since the last call.
    pub(crate) fn raise(&self, engine: &Engine, audit: Option<&ServerAudit>) {
        let count = engine.counters().canaries;
        let (requests, not_kept, news) = {
            let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
            let news = count.saturating_sub(waiting.seen);
            waiting.seen = count;
            (std::mem::take(&mut waiting.requests), std::mem::take(&mut waiting.not_kept), news)
        };
        for (facts, ended) in &requests {
            let record = facts.record(ended);
            let source = record.source();
            if let Some(suppressed) = self.lines.admit(clock::now(), &source) {
                record.warn("a canary was decrypted", suppressed);
            }
            if let Some(audit) = audit {
                audit.record_canary(&record);
            }
        }
        if not_kept > 0 {
            tracing::warn!(requests = not_kept, "canaries were decrypted by more requests than are reported");
        }
        // Who the callers of the RPC interface are is noted for the audit log alone.
        if audit.is_none() && news > 0 {
            tracing::warn!(canaries = news, "canaries were decrypted: an audit log (audit.folder) shows by whom");
        }
    }
}
