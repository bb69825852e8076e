//! JavaScript errors: an `Error` whose `code` is one of a few stable words.

use leafseal_protocol::{ContentError, ErrorCode, FrameError, MessageError};
use napi::Status;

/// The values of `code`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Code {
    /// An argument is invalid.
    InvalidParams,
    /// A frame, a request or a count exceeds its limit.
    TooLarge,
    /// The received bytes are not MessagePack within the limits; the connection must be closed.
    InvalidFrame,
    /// A frame is not a message for a client; the connection must be closed.
    InvalidMessage,
    /// An answer does not have the requested content.
    InvalidAnswer,
    /// A call of Node failed, or this module has a defect.
    Internal,
}

impl AsRef<str> for Code {
    fn as_ref(&self) -> &str {
        match self {
            Code::InvalidParams => "invalid_params",
            Code::TooLarge => "too_large",
            Code::InvalidFrame => "invalid_frame",
            Code::InvalidMessage => "invalid_message",
            Code::InvalidAnswer => "invalid_answer",
            Code::Internal => "internal",
        }
    }
}

/// An error for JavaScript.
pub(crate) type JsFault = napi::Error<Code>;
/// The result of the module's functions.
pub(crate) type Result<T> = std::result::Result<T, JsFault>;

pub(crate) fn fault(code: Code, reason: impl Into<String>) -> JsFault {
    JsFault::new(code, reason.into())
}

pub(crate) fn invalid_params(reason: impl Into<String>) -> JsFault {
    fault(Code::InvalidParams, reason)
}

pub(crate) fn of_frame(error: &FrameError) -> JsFault {
    let code = if error.code() == ErrorCode::TooLarge { Code::TooLarge } else { Code::InvalidFrame };
    fault(code, error.to_string())
}

pub(crate) fn of_message(error: &MessageError) -> JsFault {
    fault(Code::InvalidMessage, error.to_string())
}

pub(crate) fn of_content(error: &ContentError) -> JsFault {
    fault(Code::InvalidAnswer, error.to_string())
}

/// Converts errors of Node itself, such as a pending exception or an allocation failure.
pub(crate) fn of_node(error: &napi::Error) -> JsFault {
    fault(Code::Internal, error.reason.clone())
}

/// The status of a call of Node's interface.
pub(crate) fn check(status: napi::sys::napi_status) -> Result<()> {
    match Status::from(status) {
        Status::Ok => Ok(()),
        other => Err(fault(Code::Internal, format!("Node refused a call: {other}"))),
    }
}
