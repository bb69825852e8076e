//! Limits the memory of answers while they arrive.

/// Decides how much memory the answer to one call may take.
///
/// A client with many calls limits the memory of all answers with it: the size of an answer is unknown before it has arrived, and
/// may be many times that of its request.
pub trait AnswerMemory: Send + Sync {
    /// Called before the answer grows to `size` bytes. `false` refuses: the call fails with
    /// [`ErrorKind::AnswerMemory`](crate::ErrorKind::AnswerMemory), what has arrived is dropped at once, and the rest as it arrives.
    ///
    /// Called by the connection's task for answers of more than 16 KiB, once per read, and from the start again if the call is retried. An
    /// answer whose call was dropped is discarded as well.
    fn resize(&self, size: usize) -> bool;
}
