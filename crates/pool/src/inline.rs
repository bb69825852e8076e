//! Slices that run on the thread that submits a job, instead of on a worker ([`Pool::submit_inline`](crate::Pool::submit_inline)).
//!
//! Such a slice must do no more than was counted before it began. Code in it that finds that it needs more, and has changed nothing yet,
//! calls [`hand_over`] and ends its step, which a worker repeats.

use std::cell::Cell;

#[derive(Clone, Copy, PartialEq, Eq)]
enum InlineState {
    /// No inline slice runs on this thread.
    Elsewhere,
    /// One runs.
    Running,
    /// One runs, and its last step is to be repeated on a worker.
    HandedOver,
}

thread_local! {
    static STATE: Cell<InlineState> = const { Cell::new(InlineState::Elsewhere) };
}

/// Whether the slice on this thread runs inline.
pub fn is_inline() -> bool {
    STATE.get() != InlineState::Elsewhere
}

/// Asks the job whose slice runs inline on this thread to end the slice after the current step, which has failed, must leave the job as it
/// was, and is repeated on a worker. Without effect on a worker.
pub fn hand_over() {
    if is_inline() {
        STATE.set(InlineState::HandedOver);
    }
}

/// Whether [`hand_over`] was called since the last call. For jobs, after each step.
pub fn take_hand_over() -> bool {
    let is_handed_over = STATE.get() == InlineState::HandedOver;
    if is_handed_over {
        STATE.set(InlineState::Running);
    }
    is_handed_over
}

/// Marks this thread as one that runs a slice inline, until it is dropped. The pool does that; public for tests of steps without a pool.
#[derive(Debug)]
pub struct InlineSlice(());

impl InlineSlice {
    /// Marks the thread.
    pub fn begin() -> Self {
        STATE.set(InlineState::Running);
        Self(())
    }
}

impl Drop for InlineSlice {
    fn drop(&mut self) {
        STATE.set(InlineState::Elsewhere);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hand_over_is_taken_once_and_only_inline() {
        hand_over();
        assert!(!is_inline() && !take_hand_over());
        let slice = InlineSlice::begin();
        assert!(is_inline() && !take_hand_over());
        hand_over();
        assert!(is_inline() && take_hand_over() && !take_hand_over());
        hand_over();
        drop(slice);
        assert!(!is_inline() && !take_hand_over());
    }
}
