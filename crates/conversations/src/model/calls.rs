//! The life of a call: attempts, retries, its end.

use super::{Model, ModelEvent};
use crate::rules::CallAction;
use crate::script;

/// A call.
pub(super) struct ModelCall {
    is_health: bool,
    began: u64,
    deadline: Option<u64>,
    retries: u32,
    /// The connection on which the last request ended without success.
    pub(super) refused_by: Option<usize>,
    pub(super) stage: ModelStage,
}

/// Where a call is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ModelStage {
    /// Not made yet, or in the pause before a retry.
    Idle,
    /// Waits for a connection, or a free slot on one.
    Waiting,
    /// Its request is on this connection, with this number, since this time.
    Sent(usize, usize, u64),
    Ended,
}

impl ModelCall {
    pub(super) fn new(call: &script::ScriptedCall) -> Self {
        ModelCall {
            is_health: call.method == "health",
            began: call.at,
            deadline: call.deadline_ms,
            retries: 0,
            refused_by: None,
            stage: ModelStage::Idle,
        }
    }
}

impl Model<'_> {
    pub(super) fn call_begins(&mut self, call: usize) {
        self.push(self.now + self.rules.request_timeout_ms, ModelEvent::Expire(call));
        if self.calls[call].stage == ModelStage::Idle {
            self.begin(call);
        }
    }

    pub(super) fn retry(&mut self, call: usize) {
        if self.calls[call].stage == ModelStage::Idle {
            self.begin(call);
        }
    }

    pub(super) fn send(&mut self, call: usize, connection: usize) {
        let ModelCall { began, deadline, retries, .. } = self.calls[call];
        let request = self.connections[connection].sent;
        self.connections[connection].sent += 1;
        self.connections[connection].requests.insert(request, Some(call));
        self.calls[call].stage = ModelStage::Sent(connection, request, self.now);
        let left = match (deadline, retries) {
            (None, _) => String::new(),
            (Some(deadline), 0) => format!(" within {deadline}"),
            (Some(deadline), _) => format!(" within {}", (began + deadline).saturating_sub(self.now).max(1)),
        };
        self.write(format!("request {}{left} on {}", self.subject(call), self.name(connection)));
        self.engine_reads(connection, request);
    }

    /// How a message names the call that it is about. `health` has no place for a number.
    fn subject(&self, call: usize) -> String {
        match self.calls[call].is_health {
            true => "health".into(),
            false => (call + 1).to_string(),
        }
    }

    /// An attempt has ended with an error; `event` and `code` as in the rules.
    pub(super) fn attempt_ends(&mut self, call: usize, event: &str, code: &str, retry_after: Option<u64>) {
        let is_refused_by = match self.calls[call].stage {
            ModelStage::Sent(connection, ..) => Some(connection),
            ModelStage::Ended => return,
            ModelStage::Idle | ModelStage::Waiting => None,
        };
        if let Some(connection) = is_refused_by {
            self.calls[call].refused_by = Some(connection);
        }
        self.calls[call].stage = ModelStage::Idle;
        let is_unusable = is_refused_by.is_some_and(|connection| !self.connections[connection].is_usable);
        let is_refusal = ["unavailable", "audit_unavailable"].contains(&code);
        let elsewhere = (is_unusable && event == "answer") || (is_refusal && self.may_dial_elsewhere());
        let line = self.rules.outcomes.iter().position(|line| {
            line.event == event
                && line.code.as_ref().is_none_or(|expected| expected == "*" || expected == code)
                && line.sent.is_none_or(|sent| sent)
                && line.elsewhere.is_none_or(|expected| expected == elsewhere)
        });
        let line = line.expect("the rules have a line for every event");
        self.used.push(line);
        let action = self.rules.outcomes[line].action;
        let ModelCall { began, deadline, retries, .. } = self.calls[call];
        let backoff = self.backoff(retries);
        let pause = match action {
            CallAction::Fail => None,
            CallAction::RetryElsewhere if retries == 0 => Some(0),
            CallAction::RetryElsewhere | CallAction::RetryCharged => Some(backoff.max(retry_after.unwrap_or(0))),
            CallAction::RetryLater => Some(backoff.max(self.dialling.failed_until.saturating_sub(self.now))),
        };
        let limit = deadline.unwrap_or(u64::MAX).min(self.rules.request_timeout_ms);
        let in_time = |pause: &u64| retries < self.rules.retries_max && self.now + pause < began + limit;
        let is_charged = action == CallAction::RetryCharged;
        let cost = self.rules.budget.retry_cost;
        let Some(pause) = pause.filter(in_time).filter(|_| !is_charged || self.credit >= cost) else {
            let result = if code.is_empty() { event } else { code };
            return self.call_ended(call, result);
        };
        if is_charged {
            self.credit -= cost;
        }
        self.calls[call].retries += 1;
        self.push(self.now + pause, ModelEvent::Retry(call));
    }

    /// An `ok` answer to a request that was sent at this time.
    pub(super) fn call_succeeds(&mut self, call: usize, connection: usize, sent: u64) {
        let method = if self.calls[call].is_health { "health" } else { "encrypt" };
        if !self.rules.budget.earned_except.iter().any(|except| except == method) {
            self.credit = (self.credit + self.rules.budget.earned).min(self.rules.budget.max);
            self.succeeded(self.connections[connection].address, sent);
        }
        self.call_ended(call, "ok");
    }

    fn call_ended(&mut self, call: usize, result: &str) {
        self.calls[call].stage = ModelStage::Ended;
        self.write(format!("result {} {result}", call + 1));
    }

    /// The caller cancels the call, or its time is over.
    pub(super) fn call_ends_early(&mut self, call: usize, result: &str) {
        match self.calls[call].stage {
            ModelStage::Ended => return,
            ModelStage::Idle => {}
            ModelStage::Waiting => self.stop_waiting(call),
            ModelStage::Sent(connection, request, _) => {
                self.connections[connection].requests.insert(request, None);
                self.write(format!("cancel {} on {}", self.subject(call), self.name(connection)));
                self.push(self.now + self.rules.abandoned_timeout_ms, ModelEvent::Overdue(connection, request));
                self.close_if_idle(connection);
            }
        }
        self.call_ended(call, result);
    }
}
