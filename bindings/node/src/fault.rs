//! Errors as JavaScript sees them: an `Error` whose `code` is one of a few stable words.

use fieldseal_protocol::{ContentError, ErrorCode, FrameError, MessageError};
use napi::Status;

/// What `code` says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Code {
    /// The caller gave what the function does not take.
    InvalidArgument,
    /// A frame, a request or a count passes its bound.
    TooLarge,
    /// The engine's bytes are no MessagePack within the bounds; the connection has to end.
    InvalidFrame,
    /// A frame is no message that a client receives; the connection has to end.
    InvalidMessage,
    /// The content of an answer is not what was asked of it.
    InvalidAnswer,
    /// Node refused a call, or this module is at fault.
    Internal,
}

impl AsRef<str> for Code {
    fn as_ref(&self) -> &str {
        match self {
            Code::InvalidArgument => "invalid_argument",
            Code::TooLarge => "too_large",
            Code::InvalidFrame => "invalid_frame",
            Code::InvalidMessage => "invalid_message",
            Code::InvalidAnswer => "invalid_answer",
            Code::Internal => "internal",
        }
    }
}

/// An error for JavaScript.
pub type Fault = napi::Error<Code>;
/// What functions of the module give.
pub type Result<T> = std::result::Result<T, Fault>;

pub(crate) fn fault(code: Code, reason: impl Into<String>) -> Fault {
    Fault::new(code, reason.into())
}

pub(crate) fn invalid_argument(reason: impl Into<String>) -> Fault {
    fault(Code::InvalidArgument, reason)
}

pub(crate) fn of_frame(error: &FrameError) -> Fault {
    let code = if error.code() == ErrorCode::TooLarge { Code::TooLarge } else { Code::InvalidFrame };
    fault(code, error.to_string())
}

pub(crate) fn of_message(error: &MessageError) -> Fault {
    fault(Code::InvalidMessage, error.to_string())
}

pub(crate) fn of_content(error: &ContentError) -> Fault {
    fault(Code::InvalidAnswer, error.to_string())
}

/// For what Node itself refuses: an exception that is pending, memory that is not there.
pub(crate) fn of_node(error: &napi::Error) -> Fault {
    fault(Code::Internal, error.reason.clone())
}

/// The status of a call of Node's interface.
pub(crate) fn check(status: napi::sys::napi_status) -> Result<()> {
    match Status::from(status) {
        Status::Ok => Ok(()),
        other => Err(fault(Code::Internal, format!("Node refused a call: {other}"))),
    }
}
