//! The bounds of a connection's turn.

use std::time::Duration;

use crate::settings::ServerSettings;

/// Bytes read and written in one turn: some tens of microseconds of TLS.
const BYTES_MAX: usize = 64 << 10;
/// Messages handled in one turn, which takes some tens of microseconds too: many small ones fit into few bytes.
const MESSAGES_MAX: usize = 8;

/// The rest of a connection's turn.
pub(super) struct TurnBudget {
    pub(super) bytes: usize,
    pub(super) messages: usize,
    /// Counted work of requests that run on the network thread.
    work: Duration,
}

impl TurnBudget {
    pub(super) fn new(settings: &ServerSettings) -> Self {
        TurnBudget { bytes: BYTES_MAX, messages: MESSAGES_MAX, work: settings.inline_work_max }
    }

    /// Whether any of it was used.
    pub(super) fn is_touched(&self) -> bool {
        self.bytes < BYTES_MAX || self.messages < MESSAGES_MAX
    }

    pub(super) fn is_used_up(&self) -> bool {
        self.bytes == 0 || self.messages == 0
    }

    /// The work that a request may do on the network thread, after its message was taken off the budget: an equal share of each message
    /// that the turn can still handle, or all if no other message has arrived. Requests that arrive together and are not small go to
    /// workers, which run them side by side.
    pub(super) fn inline_work(&self, has_more_arrived: bool) -> Duration {
        let messages = if has_more_arrived { self.messages + 1 } else { 1 };
        self.work / u32::try_from(messages).unwrap_or(u32::MAX)
    }

    /// Takes work that was done.
    pub(super) fn take_work(&mut self, work: Duration) {
        self.work = self.work.saturating_sub(work);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn budget(work: Duration) -> TurnBudget {
        TurnBudget::new(&ServerSettings { inline_work_max: work, ..ServerSettings::for_tests() })
    }

    /// Requests that each take all that they may never exceed the budget together, whether they arrive together or one after another.
    #[test]
    fn a_turn_does_no_more_than_its_budget() {
        const WORK: Duration = Duration::from_micros(20);
        for arrived_together in 0..=MESSAGES_MAX {
            let (mut budget, mut done) = (budget(WORK), Duration::ZERO);
            for message in 0..MESSAGES_MAX {
                budget.messages -= 1;
                let granted = budget.inline_work(message < arrived_together);
                assert!(message >= arrived_together || granted >= WORK / 9, "{granted:?} of {WORK:?}");
                budget.take_work(granted);
                done += granted;
            }
            assert!(done <= WORK, "{done:?}");
            assert!(budget.is_used_up());
        }
    }

    #[test]
    fn a_lone_request_may_use_all_of_it_and_none_if_that_is_zero() {
        let mut budgets = [0, 20].map(|micros| budget(Duration::from_micros(micros)));
        budgets.iter_mut().for_each(|budget| budget.messages -= 1);
        assert_eq!(budgets.map(|budget| budget.inline_work(false).as_micros()), [0, 20]);
    }
}
