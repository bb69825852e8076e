//! Errors of a call, in a form that a program can act on.

use std::time::Duration;

use leafseal_protocol::{ContentError, ErrorCode, RemoteError, Retry};
use thiserror::Error;

/// A call that failed. Holds no secret and no value.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{message}")]
pub struct ClientError {
    /// The kind of error.
    pub kind: ErrorKind,
    /// Whether a retry may succeed. All calls can be retried without harm.
    pub retry: Retry,
    /// One sentence for a developer.
    pub message: String,
    /// Position in the list of the first value at fault, if known.
    pub index: Option<u64>,
    /// Byte position in the document or selector, if known.
    pub offset: Option<u64>,
    /// The delay before a retry, if the engine gives one.
    pub retry_after: Option<Duration>,
}

/// The kind of error of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorKind {
    /// The settings are unusable: an address, a certificate, a key.
    Settings,
    /// No connection could be made.
    Connect,
    /// TLS: one side did not accept the other's certificate, or they have no version or protocol in common.
    Tls,
    /// The answer did not arrive in time. The request was cancelled at the engine.
    Timeout,
    /// The connection ended before the answer came.
    ConnectionLost {
        /// Whether the engine may have seen the request.
        sent: RequestProgress,
    },
    /// The engine answered with this error.
    Engine(ErrorCode),
    /// The engine answered with an error of a newer version.
    UnknownEngineError,
    /// The engine closed the connection before it started the request.
    GoingAway,
    /// The engine ended the connection with this code.
    ConnectionRefused(ErrorCode),
    /// The answer violates the protocol.
    Protocol,
    /// The request is larger than the settings allow.
    RequestTooLarge,
    /// The memory of the call, see [`Client::send_within`](crate::Client::send_within), does not suffice for its answer.
    AnswerMemory,
}

/// How far a request had come when its connection ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestProgress {
    /// Not a byte of it was written.
    No,
    /// It was written in part or whole; the engine may have worked on it.
    Maybe,
}

impl ClientError {
    pub(crate) fn new(kind: ErrorKind, retry: Retry, message: impl Into<String>) -> Self {
        ClientError { kind, retry, message: message.into(), index: None, offset: None, retry_after: None }
    }

    /// The code of the error, as clients in other languages return it.
    pub fn code(&self) -> ErrorCode {
        match self.kind {
            ErrorKind::Settings => ErrorCode::InvalidSettings,
            ErrorKind::Connect => ErrorCode::ConnectFailed,
            ErrorKind::Tls => ErrorCode::TlsFailed,
            ErrorKind::Timeout => ErrorCode::DeadlineExceeded,
            ErrorKind::ConnectionLost { .. } => ErrorCode::ConnectionLost,
            ErrorKind::Engine(code) | ErrorKind::ConnectionRefused(code) => code,
            ErrorKind::UnknownEngineError => ErrorCode::UnknownError,
            ErrorKind::GoingAway => ErrorCode::GoingAway,
            ErrorKind::Protocol => ErrorCode::ProtocolError,
            ErrorKind::RequestTooLarge => ErrorCode::TooLarge,
            ErrorKind::AnswerMemory => ErrorCode::NoMemory,
        }
    }

    /// Whether the engine reported the error.
    pub fn is_of_engine(&self) -> bool {
        matches!(self.kind, ErrorKind::Engine(_) | ErrorKind::ConnectionRefused(_) | ErrorKind::UnknownEngineError)
    }

    pub(crate) fn settings(message: impl Into<String>) -> Self {
        ClientError::new(ErrorKind::Settings, Retry::Never, message)
    }

    pub(crate) fn protocol(message: impl Into<String>) -> Self {
        ClientError::new(ErrorKind::Protocol, Retry::Elsewhere, message)
    }

    pub(crate) fn no_memory(size: usize) -> Self {
        let message = format!("the answer has at least {size} bytes, more than the call's memory limit allows");
        ClientError::new(ErrorKind::AnswerMemory, Retry::Never, message)
    }

    pub(crate) fn timeout(message: impl Into<String>) -> Self {
        ClientError::new(ErrorKind::Timeout, Retry::Later, message)
    }

    pub(crate) fn lost(sent: RequestProgress, message: impl Into<String>) -> Self {
        ClientError::new(ErrorKind::ConnectionLost { sent }, Retry::Elsewhere, message)
    }

    pub(crate) fn going_away() -> Self {
        let message = "the engine closed the connection before it started the request";
        ClientError::new(ErrorKind::GoingAway, Retry::Elsewhere, message)
    }

    /// The error of a response.
    pub(crate) fn of_engine(error: &RemoteError<'_>) -> Self {
        let kind = error.known_code().map_or(ErrorKind::UnknownEngineError, ErrorKind::Engine);
        ClientError {
            kind,
            retry: error.retry,
            message: named(error),
            index: error.index,
            offset: error.offset,
            retry_after: error.retry_after_ms.map(Duration::from_millis),
        }
    }

    /// The error of the notification `connection_error`.
    pub(crate) fn of_connection(error: &RemoteError<'_>) -> Self {
        let kind = error.known_code().map_or(ErrorKind::UnknownEngineError, ErrorKind::ConnectionRefused);
        let message = format!("the engine ended the connection: {}", named(error));
        let retry_after = error.retry_after_ms.map(Duration::from_millis);
        ClientError { retry_after, ..ClientError::new(kind, error.retry, message) }
    }

    /// The same error for a call of which `sent` is known: only the loss of a connection depends on it.
    pub(crate) fn for_call(&self, sent: RequestProgress) -> Self {
        let kind = match self.kind {
            ErrorKind::ConnectionLost { .. } => ErrorKind::ConnectionLost { sent },
            kind => kind,
        };
        ClientError { kind, ..self.clone() }
    }
}

/// The code before the message, unless the message says the same in words.
fn named(error: &RemoteError<'_>) -> String {
    let words = error.code.replace('_', " ");
    match error.message.starts_with(&words) {
        true => error.message.to_string(),
        false => format!("{}: {}", error.code, error.message),
    }
}

impl From<ContentError> for ClientError {
    /// An answer that cannot be read.
    fn from(error: ContentError) -> Self {
        ClientError::protocol(format!("the engine's answer cannot be read: {error}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_is_not_repeated_before_a_message_that_begins_with_it() {
        let error = |code, message| RemoteError {
            code,
            message,
            retry: Retry::Never,
            index: None,
            offset: None,
            retry_after_ms: None,
        };
        for (code, message, expected) in [
            ("decrypt_failed", "decrypt failed", "decrypt failed"),
            ("forbidden", "no client of this name", "forbidden: no client of this name"),
        ] {
            assert_eq!(ClientError::of_engine(&error(code, message)).message, expected);
            let of_connection = ClientError::of_connection(&error(code, message)).message;
            assert_eq!(of_connection, format!("the engine ended the connection: {expected}"));
        }
    }
}
