//! A fair lock for a connection, in the order of arrival: with a plain mutex, threads that make one call after another would keep all
//! others waiting, such as the one that notices changes.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// A lock that is passed on in the order in which it was requested.
#[derive(Default)]
pub(super) struct FairLock {
    state: Mutex<TurnState>,
    passed: Condvar,
}

#[derive(Default)]
struct TurnState {
    /// The number of the next that arrives.
    next: u64,
    /// The number whose turn it is.
    current: u64,
}

/// A turn, which ends on drop, also in a panic.
pub(super) struct LockTurn<'t>(&'t FairLock);

impl FairLock {
    /// Waits for a turn.
    pub(super) fn take(&self) -> LockTurn<'_> {
        let mut state = self.lock();
        let own = state.next;
        state.next += 1;
        while state.current != own {
            state = self.passed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        LockTurn(self)
    }

    fn lock(&self) -> MutexGuard<'_, TurnState> {
        // Every change under the lock is one assignment.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for LockTurn<'_> {
    fn drop(&mut self) {
        self.0.lock().current += 1;
        self.0.passed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::thread::{scope, yield_now};

    use super::*;

    /// Two threads that take one turn after another delay a third by one turn each.
    #[test]
    fn turns_are_passed_on_in_the_order_of_arrival() {
        let (turns, order) = (FairLock::default(), Mutex::new(Vec::new()));
        let has_arrived = |count| {
            while turns.lock().next < count {
                yield_now();
            }
        };
        scope(|scope| {
            let first = turns.take();
            for (number, name) in ["busy", "too", "quiet"].into_iter().enumerate() {
                let (turns, order) = (&turns, &order);
                scope.spawn(move || {
                    for _ in 0..if name == "quiet" { 1 } else { 100 } {
                        let _turn = turns.take();
                        order.lock().unwrap().push(name);
                    }
                });
                has_arrived(number as u64 + 2);
            }
            drop(first);
        });
        let order = order.into_inner().unwrap();
        assert_eq!((order.len(), order.iter().position(|name| *name == "quiet")), (201, Some(2)));
    }

    #[test]
    fn a_panic_ends_a_turn() {
        let turns = FairLock::default();
        let panics = catch_unwind(AssertUnwindSafe(|| {
            let _turn = turns.take();
            panic!("in a turn");
        }));
        assert!(panics.is_err());
        drop(turns.take());
    }
}
