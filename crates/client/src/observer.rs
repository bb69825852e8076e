//! Observes calls, for metrics.

use std::sync::Arc;
use std::time::{Duration, Instant};

use leafseal_protocol::Method;

use crate::error::ClientError;

/// How a call ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallOutcome<'e> {
    /// Succeeded.
    Ok,
    /// Failed with an error: the engine's, or why there is no answer.
    Failed(&'e ClientError),
    /// The call was dropped.
    Abandoned,
}

/// Receives each call that ends, on the task that made it: it must not block.
pub trait CallObserver: Send + Sync + 'static {
    /// A call has ended `time` after it was made.
    fn ended(&self, method: Method, outcome: CallOutcome<'_>, time: Duration);

    /// A call is retried after this error.
    fn retried(&self, _method: Method, _error: &ClientError) {}
}

/// An observed call: it reports itself as abandoned if it is dropped before it has ended.
pub(crate) struct Observed {
    observer: Option<Arc<dyn CallObserver>>,
    method: Method,
    began: Instant,
}

impl Observed {
    pub(crate) fn begin(observer: Option<&Arc<dyn CallObserver>>, method: Method) -> Option<Self> {
        observer.map(|observer| Observed { observer: Some(Arc::clone(observer)), method, began: Instant::now() })
    }

    pub(crate) fn ended(mut self, outcome: CallOutcome<'_>) {
        self.report(outcome);
    }

    fn report(&mut self, outcome: CallOutcome<'_>) {
        if let Some(observer) = self.observer.take() {
            observer.ended(self.method, outcome, self.began.elapsed());
        }
    }
}

impl Drop for Observed {
    fn drop(&mut self) {
        self.report(CallOutcome::Abandoned);
    }
}
