//! Flags that connections read for every answer, without the pool's lock.

use std::sync::atomic::{AtomicBool, Ordering, fence};

use crate::retry_budget::RetryBudget;

/// Facts of the pool that connections read for every answer.
#[derive(Default)]
pub(crate) struct PoolSignals {
    /// Calls wait for a connection, or for a slot on one.
    pub(crate) has_waiting: AtomicBool,
    /// Some place may be avoided until a call succeeds there.
    pub(crate) has_refusals: AtomicBool,
    pub(crate) budget: RetryBudget,
}

impl PoolSignals {
    /// Whether calls wait for a slot that was just released.
    pub(crate) fn has_waiting(&self) -> bool {
        // A call that begins to wait stores it, and then looks for a slot once more.
        fence(Ordering::SeqCst);
        self.has_waiting.load(Ordering::Relaxed)
    }

    pub(crate) fn has_refusals(&self) -> bool {
        self.has_refusals.load(Ordering::Relaxed)
    }
}
