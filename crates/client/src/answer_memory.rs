//! Memory of answers while they arrive, for callers that bound it.

/// Decides how much memory the answer to one call may take.
///
/// A client with many calls limits the memory of all answers with it: the size of an answer is unknown before it has arrived, and
/// may be many times that of its request.
pub trait AnswerMemory: Send + Sync {
    /// The answer is about to take `size` bytes in all. `false` refuses: the call fails with
    /// [`ErrorKind::AnswerMemory`](crate::ErrorKind::AnswerMemory), what has arrived is dropped at once, and the rest as it comes.
    ///
    /// Called by the connection's task for answers of more than 16 KiB, once for each read, and from the start again where the call is
    /// repeated. An answer that nobody waits for any more is dropped as well.
    fn resize(&self, size: usize) -> bool;
}
