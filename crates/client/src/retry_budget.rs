//! The credit from which a client pays for retries.

use std::sync::atomic::{AtomicU32, Ordering};

use crate::rules;

/// Limits the retries of calls that an engine has refused as overloaded, or as unavailable on a connection that remains in use, over all
/// calls of a client.
#[derive(Debug)]
pub(crate) struct RetryBudget {
    credit: AtomicU32,
}

impl Default for RetryBudget {
    fn default() -> Self {
        RetryBudget { credit: AtomicU32::new(rules::CREDIT_START) }
    }
}

impl RetryBudget {
    /// Adds credit for an answered call.
    pub(crate) fn earn(&self) {
        let more = |credit: u32| {
            let earned = (credit + rules::CREDIT_EARNED).min(rules::CREDIT_MAX);
            (credit < rules::CREDIT_MAX).then_some(earned)
        };
        // Credit that is full stays full.
        let _ = self.credit.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more);
    }

    /// Pays for a retry; returns false if there is not enough credit.
    pub(crate) fn spend(&self) -> bool {
        let less = |credit: u32| credit.checked_sub(rules::RETRY_COST);
        self.credit.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repetitions_of_refused_calls_are_a_tenth_of_the_answers() {
        let budget = RetryBudget::default();
        let spend = |times: u32| (0..times).filter(|_| budget.spend()).count();
        assert_eq!(spend(1000), 10);
        (0..95).for_each(|_| budget.earn());
        assert_eq!(spend(1000), 9);
        (0..1_000_000).for_each(|_| budget.earn());
        assert_eq!(spend(1000), 100);
    }
}
