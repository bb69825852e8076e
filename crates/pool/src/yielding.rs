//! Ends a slice early, at the wish of what runs in it.

use std::cell::Cell;

thread_local! {
    static STATE: Cell<State> = const { Cell::new(State::Outside) };
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    /// No slice runs on this thread.
    Outside,
    Running,
    /// What runs wishes the slice to end.
    Yielding,
}

/// Whether a slice runs on this thread, so that [`yield_slice`] has an effect.
pub fn is_in_slice() -> bool {
    STATE.get() != State::Outside
}

/// Asks the job that runs on this thread to end its slice after the current step, so that others have their turn before it continues: what
/// it waits for may come from them. Without effect outside a slice.
pub fn yield_slice() {
    if is_in_slice() {
        STATE.set(State::Yielding);
    }
}

/// Whether [`yield_slice`] was called in this slice since the last call. For jobs, after each step.
pub fn take_yield() -> bool {
    let is_yielding = STATE.get() == State::Yielding;
    if is_yielding {
        STATE.set(State::Running);
    }
    is_yielding
}

/// Marks this thread as one that runs a slice, until it is dropped. The pool does that; public for tests of steps without a pool.
#[derive(Debug)]
pub struct InSlice(());

impl InSlice {
    /// Marks the thread.
    pub fn begin() -> Self {
        STATE.set(State::Running);
        Self(())
    }
}

impl Drop for InSlice {
    fn drop(&mut self) {
        STATE.set(State::Outside);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wish_lasts_until_it_is_taken_and_only_in_a_slice() {
        yield_slice();
        assert!(!is_in_slice() && !take_yield());
        let slice = InSlice::begin();
        assert!(is_in_slice() && !take_yield());
        yield_slice();
        assert!(is_in_slice() && take_yield() && !take_yield());
        yield_slice();
        drop(slice);
        assert!(!is_in_slice() && !take_yield());
    }
}
