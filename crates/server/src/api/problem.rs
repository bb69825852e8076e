//! Maps the engine's errors to HTTP answers.

use std::time::Duration;

use hyper::StatusCode;
use leafseal_http::Problem;
use leafseal_protocol::{ErrorCode, ErrorObject};

/// The delay before a retry if the engine does not specify one.
const PAUSE: Duration = Duration::from_secs(1);

/// The HTTP answer for an error.
pub(super) fn problem(error: &ErrorObject) -> Problem {
    let (status, code) = status(error.code);
    let place = match (error.index, error.offset) {
        // Errors about a selector include its position.
        _ if matches!(error.code, ErrorCode::InvalidSelector | ErrorCode::UnmatchedSelector) => String::new(),
        (Some(index), _) => format!(" (value {index})"),
        // Errors about a document's form include their position.
        (None, Some(offset)) if !matches!(error.code, ErrorCode::InvalidDocument | ErrorCode::AmbiguousName) => {
            format!(" (at byte {offset})")
        }
        _ => String::new(),
    };
    let problem = Problem::new(status, code, format!("{}{place}", error.message));
    match status {
        StatusCode::SERVICE_UNAVAILABLE => {
            problem.retry_after(error.retry_after_ms.map_or(PAUSE, Duration::from_millis))
        }
        _ => problem,
    }
}

/// The status, and the stable error code.
fn status(code: ErrorCode) -> (StatusCode, &'static str) {
    match code {
        ErrorCode::InvalidParams | ErrorCode::InvalidSelector => (StatusCode::BAD_REQUEST, "invalid-request"),
        ErrorCode::InvalidDocument => (StatusCode::BAD_REQUEST, "invalid-json"),
        ErrorCode::UnmatchedSelector => (StatusCode::UNPROCESSABLE_ENTITY, "unmatched-selector"),
        ErrorCode::InvalidEnvelope => (StatusCode::UNPROCESSABLE_ENTITY, "invalid-envelope"),
        ErrorCode::DecryptFailed => (StatusCode::UNPROCESSABLE_ENTITY, "decrypt-failed"),
        ErrorCode::UnknownApp => (StatusCode::NOT_FOUND, "unknown-app"),
        ErrorCode::AppDisabled => (StatusCode::FORBIDDEN, "app-disabled"),
        ErrorCode::Forbidden => (StatusCode::FORBIDDEN, "forbidden"),
        ErrorCode::TooLarge => (StatusCode::PAYLOAD_TOO_LARGE, "too-large"),
        ErrorCode::Overloaded => (StatusCode::SERVICE_UNAVAILABLE, "overloaded"),
        ErrorCode::Unavailable => (StatusCode::SERVICE_UNAVAILABLE, "unavailable"),
        ErrorCode::DeadlineExceeded => (StatusCode::GATEWAY_TIMEOUT, "timeout"),
        // The others occur only over RPC; none is the caller's fault.
        _ => (StatusCode::INTERNAL_SERVER_ERROR, "internal"),
    }
}

/// Refusals of the API itself.
pub(super) fn unauthorized(detail: impl Into<String>) -> Problem {
    Problem::new(StatusCode::UNAUTHORIZED, "unauthorized", detail)
}

pub(super) fn forbidden(detail: impl Into<String>) -> Problem {
    Problem::new(StatusCode::FORBIDDEN, "forbidden", detail)
}

pub(super) fn invalid(detail: impl Into<String>) -> Problem {
    Problem::new(StatusCode::BAD_REQUEST, "invalid-request", detail)
}

pub(super) fn not_found(detail: impl Into<String>) -> Problem {
    Problem::new(StatusCode::NOT_FOUND, "not-found", detail)
}

pub(super) fn too_large(limit: usize) -> Problem {
    Problem::new(
        StatusCode::PAYLOAD_TOO_LARGE,
        "too-large",
        format!("the body has more than {limit} bytes: send less at a time"),
    )
}

pub(super) fn overloaded(detail: impl Into<String>, pause: Duration) -> Problem {
    Problem::new(StatusCode::SERVICE_UNAVAILABLE, "overloaded", detail).retry_after(pause)
}
