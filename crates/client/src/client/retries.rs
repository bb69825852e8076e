//! Which failed calls are retried, when, and how often.
//!
//! Only calls that no engine is executing any more: the engine never read the request, or has answered it. A call whose connection broke is
//! not retried, because the engine may still be executing it.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use leafseal_protocol::ErrorCode;
use tokio::time::{Instant, sleep};

use super::Inner;
use crate::error::{ClientError, ErrorKind, Sent};

/// Cost of retrying a call that an engine has refused, if an answer earns 1: at most a tenth more calls reach an engine that is overloaded
/// or unavailable.
const RETRY_COST: u32 = 10;
/// Maximum credit: a hundred retries.
const CREDIT_MAX: u32 = 100 * RETRY_COST;
/// Initial credit of a client: ten retries.
const CREDIT_AT_START: u32 = 10 * RETRY_COST;

/// Limits the retries of calls that an engine has refused as overloaded, or as unavailable without leaving the connection, over all calls
/// of a client.
#[derive(Debug)]
pub(crate) struct RetryBudget {
    credit: AtomicU32,
}

impl Default for RetryBudget {
    fn default() -> Self {
        RetryBudget { credit: AtomicU32::new(CREDIT_AT_START) }
    }
}

impl RetryBudget {
    /// Adds credit for an answered call.
    pub(crate) fn earn(&self) {
        let more = |credit| (credit < CREDIT_MAX).then_some(credit + 1);
        // Credit that is full stays full.
        let _ = self.credit.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more);
    }

    /// Pays for a retry; returns false if there is not enough credit.
    fn spend(&self) -> bool {
        let less = |credit: u32| credit.checked_sub(RETRY_COST);
        self.credit.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less).is_ok()
    }
}

/// How a failed call may be retried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RetryMode {
    No,
    /// At once the first time, because other connections are not affected.
    Elsewhere,
    /// After a pause.
    Later,
    /// After a pause, within the budget.
    Charged,
}

/// `goes_elsewhere`: the engine has announced that it leaves the connection, or it is unavailable and another engine may be reachable.
/// Without another engine, the outage may last long, so retries are charged.
fn retry_mode(kind: ErrorKind, goes_elsewhere: bool) -> RetryMode {
    match kind {
        ErrorKind::GoingAway | ErrorKind::ConnectionLost { sent: Sent::No } => RetryMode::Elsewhere,
        ErrorKind::Engine(ErrorCode::Unavailable) | ErrorKind::ConnectionRefused(ErrorCode::Unavailable)
            if goes_elsewhere =>
        {
            RetryMode::Elsewhere
        }
        ErrorKind::Connect => RetryMode::Later,
        ErrorKind::Engine(ErrorCode::Overloaded | ErrorCode::Unavailable) => RetryMode::Charged,
        _ => RetryMode::No,
    }
}

/// The retries of one call.
pub(crate) struct Retries<'i> {
    inner: &'i Inner,
    began: Instant,
    deadline: Option<Duration>,
    done: u32,
}

impl<'i> Retries<'i> {
    /// Creates the state of a call; `deadline_ms` is the request's deadline.
    pub(crate) fn new(inner: &'i Inner, deadline_ms: Option<u32>) -> Self {
        let deadline = deadline_ms.map(|milliseconds| Duration::from_millis(milliseconds.into()));
        Retries { inner, began: Instant::now(), deadline, done: 0 }
    }

    /// The rest of the request's deadline, which the engine counts from when it has read the request. The first attempt has all of it,
    /// however long it waits for a connection.
    pub(crate) fn deadline_left_ms(&self) -> Option<u32> {
        let left = match self.done {
            0 => self.deadline?,
            _ => self.deadline?.saturating_sub(self.began.elapsed()),
        };
        let milliseconds = left.as_micros().div_ceil(1000).max(1);
        Some(u32::try_from(milliseconds).unwrap_or(u32::MAX))
    }

    /// Waits until the call may be retried; `goes_elsewhere` as for [`retry_mode`].
    ///
    /// # Errors
    /// The error of the call, if it must not be retried, or not in time.
    pub(crate) async fn after(
        &mut self,
        error: ClientError,
        goes_elsewhere: bool,
        retried: impl Fn(&ClientError),
    ) -> Result<(), ClientError> {
        let settings = &self.inner.settings;
        let retry_mode = retry_mode(error.kind, goes_elsewhere);
        if retry_mode == RetryMode::No || self.done >= settings.retries_max {
            return Err(error);
        }
        let pause = self.pause(retry_mode, &error).await;
        let limit = self.deadline.map_or(settings.request_timeout, |deadline| deadline.min(settings.request_timeout));
        if self.began.elapsed() + pause >= limit || (retry_mode == RetryMode::Charged && !self.inner.budget.spend()) {
            return Err(error);
        }
        retried(&error);
        self.done += 1;
        sleep(pause).await;
        Ok(())
    }

    async fn pause(&self, retry_mode: RetryMode, error: &ClientError) -> Duration {
        if retry_mode == RetryMode::Elsewhere && self.done == 0 {
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
        let refused = ErrorKind::ConnectionRefused;
        let unavailable = [engine(ErrorCode::Unavailable), refused(ErrorCode::Unavailable)];
        for kind in [ErrorKind::GoingAway, lost(Sent::No)].into_iter().chain(unavailable) {
            assert_eq!(retry_mode(kind, true), RetryMode::Elsewhere, "{kind:?}");
        }
        assert_eq!(retry_mode(ErrorKind::Connect, false), RetryMode::Later);
        for kind in [ErrorCode::Overloaded, ErrorCode::Unavailable].map(engine) {
            assert_eq!(retry_mode(kind, false), RetryMode::Charged, "{kind:?}");
        }
        let others = ErrorCode::ALL.iter().copied().map(engine);
        let others =
            others.filter(|kind| !matches!(kind, ErrorKind::Engine(ErrorCode::Unavailable | ErrorCode::Overloaded)));
        assert_eq!(retry_mode(refused(ErrorCode::Unavailable), false), RetryMode::No);
        let kinds = [
            lost(Sent::Maybe),
            ErrorKind::Settings,
            ErrorKind::Tls,
            ErrorKind::Timeout,
            ErrorKind::Protocol,
            ErrorKind::UnknownEngineError,
            ErrorKind::RequestTooLarge,
            refused(ErrorCode::Overloaded),
        ];
        for kind in kinds.into_iter().chain(others) {
            assert_eq!(
                [true, false].map(|goes_elsewhere| retry_mode(kind, goes_elsewhere)),
                [RetryMode::No; 2],
                "{kind:?}"
            );
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
