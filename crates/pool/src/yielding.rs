//! Ends a slice early, at the request of the code that runs in it.

use std::cell::Cell;

thread_local! {
    static STATE: Cell<YieldState> = const { Cell::new(YieldState::Alone) };
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum YieldState {
    /// No slice runs on this thread, or none with others that wait.
    Alone,
    /// A slice runs, and other jobs waited for a turn when it began.
    Accompanied,
    /// The running code has asked for the slice to end.
    Yielding,
}

/// Whether a slice runs on this thread and other jobs waited for a turn when it began, so that [`yield_slice`] has an effect.
pub fn others_wait() -> bool {
    STATE.get() != YieldState::Alone
}

/// Asks the job that runs on this thread to end its slice after the current step, so that others have their turn before it continues: what
/// it waits for may come from them. Without effect if no others wait.
pub fn yield_slice() {
    if others_wait() {
        STATE.set(YieldState::Yielding);
    }
}

/// Whether [`yield_slice`] was called in this slice since the last call. For jobs, after each step.
pub fn take_yield() -> bool {
    let is_yielding = STATE.get() == YieldState::Yielding;
    if is_yielding {
        STATE.set(YieldState::Accompanied);
    }
    is_yielding
}

/// Marks this thread as one that runs a slice, until it is dropped. The pool does that; public for tests of steps without a pool.
#[derive(Debug)]
pub struct InSlice(());

impl InSlice {
    /// Marks the thread.
    pub fn begin(others_wait: bool) -> Self {
        STATE.set(if others_wait { YieldState::Accompanied } else { YieldState::Alone });
        Self(())
    }
}

impl Drop for InSlice {
    fn drop(&mut self) {
        STATE.set(YieldState::Alone);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wish_lasts_until_it_is_taken_and_only_while_others_wait() {
        yield_slice();
        assert!(!others_wait() && !take_yield());
        let slice = InSlice::begin(true);
        assert!(others_wait() && !take_yield());
        yield_slice();
        assert!(others_wait() && take_yield() && !take_yield());
        yield_slice();
        drop(slice);
        assert!(!others_wait() && !take_yield());
        let _slice = InSlice::begin(false);
        yield_slice();
        assert!(!others_wait() && !take_yield());
    }
}
