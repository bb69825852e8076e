//! Records decisions as lines of words, for tables of expected decisions.

use std::sync::{Arc, Mutex, PoisonError};

use leafseal_engine::{Decision, DecisionObserver, Principal};

/// Records the decisions of an engine or a relay.
#[derive(Debug, Default)]
pub struct RecordedDecisions(Mutex<Vec<String>>);

impl RecordedDecisions {
    /// Creates an observer without decisions.
    pub fn new() -> Arc<Self> {
        Arc::default()
    }

    /// Returns the decisions since the last call, in order, each as [`words_of`] writes it.
    pub fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl DecisionObserver for RecordedDecisions {
    fn decided(&self, decision: &Decision<'_>) {
        assert!(decision.refusal.is_none_or(|refusal| !refusal.reason.is_empty()), "{decision:?}");
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(words_of(decision));
    }
}

/// Writes a decision as `DOOR PRINCIPAL QUESTION OPERATIONS APP OUTCOME`, without ids, which differ in each run; `-` if there is none.
pub fn words_of(decision: &Decision<'_>) -> String {
    let principal = match decision.principal {
        Principal::Owner => "owner".to_owned(),
        Principal::Anonymous => "anonymous".to_owned(),
        Principal::Client { name, .. } => name.to_owned(),
        Principal::ApiKey { .. } => "key".to_owned(),
        Principal::OnBehalf { client, .. } => format!("{client}+key"),
        Principal::Token { .. } => "token".to_owned(),
    };
    let operations: Vec<&str> = decision.operations.iter().map(|operation| operation.as_str()).collect();
    let operations = if operations.is_empty() { "-".to_owned() } else { operations.join("+") };
    let outcome = decision.refusal.map_or("granted", |refusal| refusal.code.as_str());
    let (entry_point, question) = (decision.origin.entry_point.as_str(), decision.question.as_str());
    format!("{entry_point} {principal} {question} {operations} {} {outcome}", decision.app.unwrap_or("-"))
}
