//! Which failed calls are repeated, when, and how often.
//!
//! Only calls of which nothing runs any more: the engine never read the request, or has answered it. A call whose connection broke in
//! the middle is not repeated, since the engine may still work on it.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use fieldseal_protocol::ErrorCode;
use tokio::time::{Instant, sleep};

use super::Inner;
use crate::error::{ClientError, ErrorKind, Sent};

/// Cost of a retry of a call that an engine has refused, where an answer earns 1: at most a tenth more calls reach an engine that
/// is overloaded or unavailable.
const REPETITION_COST: u32 = 10;
/// Maximum credit: a hundred retries.
const SAVINGS_MAX: u32 = 100 * REPETITION_COST;
/// Initial credit of a client: ten retries.
const SAVINGS_AT_START: u32 = 10 * REPETITION_COST;

/// Bounds the repetitions of calls that an engine has refused as overloaded, or as unavailable without leaving, over all calls of a client.
#[derive(Debug)]
pub(crate) struct RetryBudget {
    savings: AtomicU32,
}

impl Default for RetryBudget {
    fn default() -> Self {
        RetryBudget { savings: AtomicU32::new(SAVINGS_AT_START) }
    }
}

impl RetryBudget {
    /// A call was answered.
    pub(crate) fn earn(&self) {
        let more = |savings| (savings < SAVINGS_MAX).then_some(savings + 1);
        // Full is full.
        let _ = self.savings.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more);
    }

    /// Pays for a repetition; false where there is not enough.
    fn spend(&self) -> bool {
        let less = |savings: u32| savings.checked_sub(REPETITION_COST);
        self.savings.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less).is_ok()
    }
}

/// How a failed call may be repeated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Repetition {
    No,
    /// At once the first time, since other connections are not concerned.
    Elsewhere,
    /// After a pause.
    Later,
    /// After a pause, within the budget.
    Charged,
}

/// `is_left`: the engine has announced that it leaves the connection. An engine that is unavailable without that may be so for long, and
/// others with it.
fn repetition(kind: ErrorKind, is_left: bool) -> Repetition {
    match kind {
        ErrorKind::GoingAway | ErrorKind::ConnectionLost { sent: Sent::No } => Repetition::Elsewhere,
        ErrorKind::Engine(ErrorCode::Unavailable) if is_left => Repetition::Elsewhere,
        ErrorKind::Connect => Repetition::Later,
        ErrorKind::Engine(ErrorCode::Overloaded | ErrorCode::Unavailable) => Repetition::Charged,
        _ => Repetition::No,
    }
}

/// The repetitions of one call.
pub(crate) struct Retries<'i> {
    inner: &'i Inner,
    began: Instant,
    deadline: Option<Duration>,
    done: u32,
}

impl<'i> Retries<'i> {
    /// `deadline_ms` is that of the request.
    pub(crate) fn new(inner: &'i Inner, deadline_ms: Option<u32>) -> Self {
        let deadline = deadline_ms.map(|milliseconds| Duration::from_millis(milliseconds.into()));
        Retries { inner, began: Instant::now(), deadline, done: 0 }
    }

    /// The rest of the request's deadline, which the engine counts from when it has read the request. The first attempt has all of
    /// it, however long it waits for a connection.
    pub(crate) fn deadline_left_ms(&self) -> Option<u32> {
        let left = match self.done {
            0 => self.deadline?,
            _ => self.deadline?.saturating_sub(self.began.elapsed()),
        };
        let milliseconds = left.as_micros().div_ceil(1000).max(1);
        Some(u32::try_from(milliseconds).unwrap_or(u32::MAX))
    }

    /// Waits until the call may be made again. `is_left`: the engine has announced that it leaves the connection.
    ///
    /// # Errors
    /// The error of the call, where it is not to be repeated, or not in time.
    pub(crate) async fn after(
        &mut self,
        error: ClientError,
        is_left: bool,
        repeated: impl Fn(&ClientError),
    ) -> Result<(), ClientError> {
        let settings = &self.inner.settings;
        let repetition = repetition(error.kind, is_left);
        if repetition == Repetition::No || self.done >= settings.retries_max {
            return Err(error);
        }
        let pause = self.pause(repetition, &error).await;
        let limit = self.deadline.map_or(settings.request_timeout, |deadline| deadline.min(settings.request_timeout));
        if self.began.elapsed() + pause >= limit || (repetition == Repetition::Charged && !self.inner.budget.spend()) {
            return Err(error);
        }
        repeated(&error);
        self.done += 1;
        sleep(pause).await;
        Ok(())
    }

    async fn pause(&self, repetition: Repetition, error: &ClientError) -> Duration {
        if repetition == Repetition::Elsewhere && self.done == 0 {
            return Duration::ZERO;
        }
        let pause = self.inner.pause(self.done);
        match error.kind {
            // Before the next attempt to connect the call would only get the same error.
            ErrorKind::Connect => pause.max(self.inner.dialling_pause().await),
            _ => pause.max(error.retry_after.unwrap_or_default()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_calls_of_which_nothing_runs_are_repeated() {
        let lost = |sent| ErrorKind::ConnectionLost { sent };
        let engine = ErrorKind::Engine;
        for kind in [ErrorKind::GoingAway, lost(Sent::No), engine(ErrorCode::Unavailable)] {
            assert_eq!(repetition(kind, true), Repetition::Elsewhere, "{kind:?}");
        }
        assert_eq!(repetition(ErrorKind::Connect, false), Repetition::Later);
        for kind in [ErrorCode::Overloaded, ErrorCode::Unavailable].map(engine) {
            assert_eq!(repetition(kind, false), Repetition::Charged, "{kind:?}");
        }
        let others = ErrorCode::ALL.iter().copied().map(engine);
        let others =
            others.filter(|kind| !matches!(kind, ErrorKind::Engine(ErrorCode::Unavailable | ErrorCode::Overloaded)));
        let refused = ErrorKind::ConnectionRefused;
        let kinds = [
            lost(Sent::Maybe),
            ErrorKind::Settings,
            ErrorKind::Tls,
            ErrorKind::Timeout,
            ErrorKind::Protocol,
            ErrorKind::UnknownEngineError,
            ErrorKind::RequestTooLarge,
            refused(ErrorCode::Overloaded),
            refused(ErrorCode::Unavailable),
        ];
        for kind in kinds.into_iter().chain(others) {
            assert_eq!([true, false].map(|is_left| repetition(kind, is_left)), [Repetition::No; 2], "{kind:?}");
        }
    }

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
