//! The cancellation flag and the deadline of a job.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Instant;

/// Shared by the submitter of a job and the worker that runs it. Polling costs an atomic load or two.
#[derive(Debug, Default)]
pub struct Cancellation {
    /// 0, or the reason's number plus one.
    reason: AtomicU8,
    deadline: OnceLock<Instant>,
}

/// Why a job was cancelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CancelReason {
    /// The caller does not need the answer any more, and waits for the confirmation.
    Cancelled,
    /// The caller has disconnected: no answer can be delivered.
    Disconnected,
}

/// Why a job has to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StopReason {
    /// It was cancelled; [`Cancellation::reason`] returns the reason.
    Cancelled,
    /// Its deadline has passed.
    DeadlineExceeded,
}

const CANCELLED: u8 = 1;
const DISCONNECTED: u8 = 2;

impl Cancellation {
    /// Creates a flag that is neither cancelled nor has a deadline.
    pub fn new() -> Self {
        Cancellation::default()
    }

    /// Cancels the job. The first reason is kept.
    pub fn cancel(&self, reason: CancelReason) {
        let number = match reason {
            CancelReason::Cancelled => CANCELLED,
            CancelReason::Disconnected => DISCONNECTED,
        };
        // Relaxed suffices: no other data depends on the flag.
        let _ = self.reason.compare_exchange(0, number, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// The reason, once cancelled.
    pub fn reason(&self) -> Option<CancelReason> {
        match self.reason.load(Ordering::Relaxed) {
            CANCELLED => Some(CancelReason::Cancelled),
            DISCONNECTED => Some(CancelReason::Disconnected),
            _ => None,
        }
    }

    /// Sets the deadline. The first one is kept: it is set once, when the request is read.
    pub fn set_deadline(&self, deadline: Instant) {
        let _ = self.deadline.set(deadline);
    }

    /// The deadline, once set.
    pub fn deadline(&self) -> Option<Instant> {
        self.deadline.get().copied()
    }

    /// Checks whether the job may continue at `now`. A deadline has passed at its very instant.
    ///
    /// # Errors
    /// If it must stop. Cancellation takes precedence over the deadline.
    #[inline]
    pub fn check(&self, now: Instant) -> Result<(), StopReason> {
        if self.reason.load(Ordering::Relaxed) != 0 {
            return Err(StopReason::Cancelled);
        }
        match self.deadline.get() {
            Some(deadline) if *deadline <= now => Err(StopReason::DeadlineExceeded),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn continues_until_cancelled_and_keeps_the_first_reason() {
        let cancellation = Cancellation::new();
        let now = Instant::now();
        assert_eq!((cancellation.check(now), cancellation.reason()), (Ok(()), None));
        cancellation.cancel(CancelReason::Disconnected);
        cancellation.cancel(CancelReason::Cancelled);
        assert_eq!(cancellation.check(now), Err(StopReason::Cancelled));
        assert_eq!(cancellation.reason(), Some(CancelReason::Disconnected));
    }

    #[test]
    fn the_first_deadline_holds_to_the_nanosecond() {
        let cancellation = Cancellation::new();
        let deadline = Instant::now() + Duration::from_secs(1);
        cancellation.set_deadline(deadline);
        cancellation.set_deadline(deadline + Duration::from_secs(9));
        assert_eq!(cancellation.deadline(), Some(deadline));
        assert_eq!(cancellation.check(deadline - Duration::from_nanos(1)), Ok(()));
        assert_eq!(cancellation.check(deadline), Err(StopReason::DeadlineExceeded));
        cancellation.cancel(CancelReason::Cancelled);
        assert_eq!(cancellation.check(deadline), Err(StopReason::Cancelled));
    }
}
