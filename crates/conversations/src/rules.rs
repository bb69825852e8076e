//! The clients' rules, `vectors/client/rules.json`.

use serde::{Deserialize, Serialize};

/// The file, of which every client has a table.
pub const RULES: &str = include_str!("../../../vectors/client/rules.json");

/// The decisions and numbers that all clients share.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs, reason = "vectors/client/README.md explains them")]
pub struct Rules {
    pub outcomes: Vec<DecisionRow>,
    pub avoid: Vec<Avoid>,
    pub avoided_ms: u64,
    pub retries_max: u32,
    pub backoff: Backoff,
    pub budget: Budget,
    pub connections_max: usize,
    pub requests_in_flight_max: usize,
    pub connect_timeout_ms: u64,
    pub request_timeout_ms: u64,
    pub abandoned_timeout_ms: u64,
}

/// A line of the decision table. The first one that fits decides; a condition that is absent fits everything.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs, reason = "vectors/client/README.md explains them")]
pub struct DecisionRow {
    pub event: String,
    pub code: Option<String>,
    pub sent: Option<bool>,
    pub elsewhere: Option<bool>,
    pub action: CallAction,
}

/// The action of a call after an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs, reason = "vectors/client/README.md explains them")]
pub enum CallAction {
    Fail,
    RetryElsewhere,
    RetryLater,
    RetryCharged,
}

/// An event after which a place is avoided.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs, reason = "vectors/client/README.md explains them")]
pub struct Avoid {
    pub event: String,
    pub code: String,
    pub until_success: bool,
}

/// Pauses between attempts.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs, reason = "vectors/client/README.md explains them")]
pub struct Backoff {
    pub min_ms: u64,
    pub max_ms: u64,
    pub factor: u64,
    pub jitter_from: f64,
    pub jitter_to: f64,
}

/// Credit for retries that an engine pays for.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs, reason = "vectors/client/README.md explains them")]
pub struct Budget {
    pub start: u32,
    pub max: u32,
    pub retry_cost: u32,
    pub earned: u32,
    pub earned_except: Vec<String>,
}

impl Rules {
    /// The rules of this version.
    ///
    /// # Panics
    /// If the file is not as documented, which tests exclude.
    pub fn current() -> Rules {
        serde_json::from_str(RULES).expect("rules.json is as its README says")
    }
}
