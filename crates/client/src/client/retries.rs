//! Which failed calls are retried, when, and how often.
//!
//! Only calls that no engine is executing any more: the engine never read the request, or has answered it. A call whose connection broke is
//! not retried, because the engine may still be executing it.

use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::pool::PoolInner;
use crate::decisions::decide;
use crate::error::ClientError;
use crate::rule::AttemptAction;

/// The retries of one call.
pub(crate) struct Retries<'i> {
    inner: &'i PoolInner,
    began: Instant,
    deadline: Option<Duration>,
    done: u32,
}

impl<'i> Retries<'i> {
    /// Creates the state of a call; `deadline_ms` is the request's deadline.
    pub(crate) fn new(inner: &'i PoolInner, deadline_ms: Option<u32>) -> Self {
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

    /// Waits until the call may be retried; `is_unusable` as for [`decide`].
    ///
    /// # Errors
    /// The error of the call, if it must not be retried, or not in time.
    pub(crate) async fn after(
        &mut self,
        error: ClientError,
        is_unusable: bool,
        retried: impl Fn(&ClientError),
    ) -> Result<(), ClientError> {
        let settings = &self.inner.settings;
        let action = decide(&error, is_unusable, || self.inner.may_dial_elsewhere());
        if action == AttemptAction::Fail || self.done >= settings.retries_max {
            return Err(error);
        }
        let pause = self.pause(action, &error);
        let limit = self.deadline.map_or(settings.request_timeout, |deadline| deadline.min(settings.request_timeout));
        let is_late = self.began.elapsed() + pause >= limit;
        if is_late || (action == AttemptAction::RetryCharged && !self.inner.signals.budget.spend()) {
            return Err(error);
        }
        retried(&error);
        self.done += 1;
        if !pause.is_zero() {
            sleep(pause).await;
        }
        Ok(())
    }

    fn pause(&self, action: AttemptAction, error: &ClientError) -> Duration {
        let backoff = || self.inner.pause(self.done);
        match action {
            AttemptAction::RetryElsewhere if self.done == 0 => Duration::ZERO,
            // Before the next dial the call would only get the same error.
            AttemptAction::RetryLater => backoff().max(self.inner.lock().dialling.pause(Instant::now())),
            _ => backoff().max(error.retry_after.unwrap_or_default()),
        }
    }
}
