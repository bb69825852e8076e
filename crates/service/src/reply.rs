//! The obligation to answer one request exactly once, for any receiver.

use std::fmt;
use std::time::Duration;

use leafseal_protocol::{ErrorCode, ErrorObject};

use crate::memory::Share;
use crate::rope::Rope;

/// The result of a request: its answer's bytes with their share of the memory for answers, or an error.
pub type Answered = Result<(Rope, Share), ErrorObject>;

/// The work that workers did for a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Effort {
    /// Values encrypted, decrypted or rewrapped.
    pub fields: u64,
    /// The sum of all workers' time.
    pub time: Duration,
}

/// Receives the answer of a request.
pub trait AnswerReceiver: Send {
    /// Whether these bytes are a valid answer.
    fn takes(&self, written: &Rope) -> bool;

    /// Receives the answer. Called on a worker's thread, so it must not block.
    fn receive(self: Box<Self>, answered: Answered, effort: Effort);
}

/// The obligation to answer. If it is dropped without an answer, it sends `internal`.
pub struct Reply {
    /// `None` once answered.
    receiver: Option<Box<dyn AnswerReceiver>>,
    /// The delay that `overloaded` requests.
    retry_after: Option<Duration>,
}

impl fmt::Debug for Reply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reply").field("is_sent", &self.receiver.is_none()).finish_non_exhaustive()
    }
}

impl Reply {
    /// The obligation to answer `receiver`.
    pub fn new(receiver: impl AnswerReceiver + 'static) -> Self {
        Reply { receiver: Some(Box::new(receiver)), retry_after: None }
    }

    /// The same, with this delay in an `overloaded` answer.
    pub fn with_retry_after(mut self, pause: Duration) -> Self {
        self.retry_after = Some(pause);
        self
    }

    /// Whether these bytes are a valid answer for the receiver.
    pub fn takes(&self, written: &Rope) -> bool {
        self.receiver.as_ref().is_some_and(|receiver| receiver.takes(written))
    }

    /// Sends the service's answer, with its share of the memory for answers.
    pub fn send(mut self, message: Rope, share: Share, effort: Effort) {
        self.send_once(Ok((message, share)), effort);
    }

    /// Sends an error of the service.
    pub fn refuse(mut self, error: ErrorObject, effort: Effort) {
        self.send_once(Err(error), effort);
    }

    /// Sends an error of the server itself.
    pub fn fail(mut self, code: ErrorCode, message: &str, effort: Effort) {
        self.fail_once(code, message, effort);
    }

    /// Sends `internal`; the log has the details.
    pub fn fail_internally(mut self, effort: Effort) {
        self.fail_once_internally(effort);
    }

    fn fail_once_internally(&mut self, effort: Effort) {
        self.fail_once(ErrorCode::Internal, "the engine failed at this request; its log has the details", effort);
    }

    fn fail_once(&mut self, code: ErrorCode, message: &str, effort: Effort) {
        let mut error = ErrorObject::new(code, message);
        if let (ErrorCode::Overloaded, Some(pause)) = (code, self.retry_after) {
            error = error.retry_after(pause);
        }
        self.send_once(Err(error), effort);
    }

    fn send_once(&mut self, answered: Answered, effort: Effort) {
        self.receiver.take().expect("a request is answered once").receive(answered, effort);
    }
}

impl Drop for Reply {
    fn drop(&mut self) {
        if self.receiver.is_some() {
            self.fail_once_internally(Effort::default());
        }
    }
}
