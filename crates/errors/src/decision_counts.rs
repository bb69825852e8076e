//! Counts decisions by entry point and outcome, for metrics.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::codes::ErrorCode;
use crate::decision::{Decision, DecisionObserver, EntryPoint};
use crate::words::Side;

/// The name of the outcome of a granted request.
const GRANTED: &str = "granted";

/// One for each code, and one for granted requests.
const OUTCOMES: usize = ErrorCode::ALL.len() + 1;

/// Counters of decisions since the start.
#[derive(Debug)]
pub struct DecisionCounts([[AtomicU64; OUTCOMES]; EntryPoint::ALL.len()]);

impl Default for DecisionCounts {
    fn default() -> Self {
        Self(std::array::from_fn(|_| std::array::from_fn(|_| AtomicU64::new(0))))
    }
}

impl DecisionCounts {
    /// The names of outcomes that a decision may have at an entry point, with their counts.
    pub fn of(&self, entry_point: EntryPoint) -> impl Iterator<Item = (&'static str, u64)> {
        let counts = &self.0[entry_point as usize];
        let refusals = ErrorCode::ALL.iter().filter(|code| code.side() == Side::Permission);
        let refusals = refusals.map(|code| (code.as_str(), *code as usize));
        let outcomes = std::iter::once((GRANTED, OUTCOMES - 1)).chain(refusals);
        outcomes.map(|(name, place)| (name, counts[place].load(Ordering::Relaxed)))
    }
}

impl DecisionObserver for DecisionCounts {
    fn decided(&self, decision: &Decision<'_>) {
        let place = decision.refusal.map_or(OUTCOMES - 1, |refusal| refusal.code as usize);
        self.0[decision.origin.entry_point as usize][place].fetch_add(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decision::{Denial, Principal, Question, RequestOrigin};

    #[test]
    fn decisions_are_counted_by_door_and_outcome() {
        let counts = DecisionCounts::default();
        let decided = |entry_point, code: Option<ErrorCode>| {
            counts.decided(&Decision {
                origin: RequestOrigin::of(entry_point),
                principal: Principal::Anonymous,
                question: Question::Identity,
                operations: &[],
                app: None,
                refusal: code.map(|code| Denial { code, reason: "" }),
                is_accounted: false,
            });
        };
        decided(EntryPoint::Api, None);
        decided(EntryPoint::Rpc, Some(ErrorCode::Forbidden));
        decided(EntryPoint::Rpc, Some(ErrorCode::Forbidden));
        let counted = |entry_point| counts.of(entry_point).filter(|(_, count)| *count > 0).collect::<Vec<_>>();
        assert_eq!(counted(EntryPoint::Api), [("granted", 1)]);
        assert_eq!(counted(EntryPoint::Rpc), [("forbidden", 2)]);
        let names: Vec<&str> = counts.of(EntryPoint::Relay).map(|(name, _)| name).collect();
        assert_eq!(names[..4], ["granted", "unknown_app", "app_disabled", "forbidden"]);
    }
}
