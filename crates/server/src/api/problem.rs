//! Maps the engine's errors to HTTP answers.

use std::time::Duration;

use hyper::StatusCode;
use leafseal_http::HttpProblem;
use leafseal_protocol::{ErrorCode, ErrorObject};

/// The delay before a retry if the engine does not specify one.
const PAUSE: Duration = Duration::from_secs(1);

/// The HTTP answer for an error.
pub(super) fn problem(error: &ErrorObject) -> HttpProblem {
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
    let problem = HttpProblem::new(error.code, format!("{}{place}", error.message));
    match problem.status {
        StatusCode::SERVICE_UNAVAILABLE => {
            problem.retry_after(error.retry_after_ms.map_or(PAUSE, Duration::from_millis))
        }
        _ => problem,
    }
}

pub(super) fn forbidden(detail: impl Into<String>) -> HttpProblem {
    HttpProblem::new(ErrorCode::Forbidden, detail)
}

pub(super) fn invalid(detail: impl Into<String>) -> HttpProblem {
    HttpProblem::new(ErrorCode::InvalidParams, detail)
}

pub(super) fn not_found(detail: impl Into<String>) -> HttpProblem {
    HttpProblem::new(ErrorCode::NotFound, detail)
}

pub(super) fn too_large(limit: usize) -> HttpProblem {
    HttpProblem::new(ErrorCode::TooLarge, format!("the body has more than {limit} bytes: send less at a time"))
}

pub(super) fn overloaded(detail: impl Into<String>, pause: Duration) -> HttpProblem {
    HttpProblem::new(ErrorCode::Overloaded, detail).retry_after(pause)
}
