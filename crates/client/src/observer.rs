//! Calls as they end, for metrics.

use std::sync::Arc;
use std::time::{Duration, Instant};

use fieldseal_protocol::Method;

use crate::error::ClientError;

/// How a call ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallOutcome<'e> {
    /// With its result.
    Ok,
    /// With an error: the engine's, or why there is no answer.
    Failed(&'e ClientError),
    /// Nobody waited for it any more.
    Abandoned,
}

/// Receives each call that ends, on the task that made it: it must not block.
pub trait CallObserver: Send + Sync + 'static {
    /// A call has ended `time` after it was made.
    fn ended(&self, method: Method, outcome: CallOutcome<'_>, time: Duration);

    /// A call is repeated, after this error.
    fn repeated(&self, _method: Method, _error: &ClientError) {}
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
        self.tell(outcome);
    }

    fn tell(&mut self, outcome: CallOutcome<'_>) {
        if let Some(observer) = self.observer.take() {
            observer.ended(self.method, outcome, self.began.elapsed());
        }
    }
}

impl Drop for Observed {
    fn drop(&mut self) {
        self.tell(CallOutcome::Abandoned);
    }
}
