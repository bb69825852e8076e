//! Answers requests that have ended.

use leafseal_engine::Error;

use super::*;
use crate::rpc::convert::error as error_object;

pub(super) fn answer(written: Rope, mut share: Share, effort: Effort, reply: Reply) {
    if !reply.takes(&written) {
        tracing::error!("the service wrote no answer");
        return reply.fail(ErrorCode::Internal, "the engine wrote no answer", effort);
    }
    match share.resize(written.capacity()) {
        Ok(()) => reply.send(written, share, effort),
        Err(Exhausted) => {
            drop((written, share));
            refuse(Ending::OutOfMemory, effort, reply);
        }
    }
}

pub(super) fn refuse(ending: Ending, effort: Effort, reply: Reply) {
    match ending {
        Ending::Fault(error) => reply.refuse(*error, effort),
        Ending::Stop(StopReason::Cancelled) => reply.fail(ErrorCode::Cancelled, "the request was cancelled", effort),
        Ending::Stop(StopReason::DeadlineExceeded) => {
            reply.fail(ErrorCode::DeadlineExceeded, "the deadline passed before the work was done", effort);
        }
        Ending::OutOfMemory => reply.fail(ErrorCode::Overloaded, "the engine holds too many bytes of answers", effort),
        Ending::NotFoundInTime => reply.refuse(error_object(Error::silent_store()), effort),
        Ending::TooLarge => unreachable!("the request has said it in its own words"),
    }
}

/// An answer may wait long for a slow reader, so it must not occupy much more than its own size.
pub(super) fn shrink(buffer: &mut Vec<u8>) {
    if buffer.capacity() / 2 > buffer.len() {
        buffer.shrink_to_fit();
    }
}
