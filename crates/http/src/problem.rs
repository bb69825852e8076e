//! Error responses: `application/problem+json`, with a code for programs and a sentence for people.

use std::time::Duration;

use hyper::body::Bytes;
use hyper::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderValue, RETRY_AFTER};
use hyper::{Response, StatusCode};
use leafseal_errors::ErrorCode;

use crate::body::{self, ResponseBody};

/// The status that goes with a code.
pub fn status(code: ErrorCode) -> StatusCode {
    StatusCode::from_u16(code.status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
}

/// An error response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpProblem {
    /// The status, which also gives the title: that of the code, unless HTTP asks for another.
    pub status: StatusCode,
    /// The code, for programs.
    pub code: ErrorCode,
    /// One sentence for people; contains no secret.
    pub detail: String,
    /// How long to wait before a retry, if a retry may succeed.
    pub retry_after: Option<Duration>,
}

impl HttpProblem {
    /// Creates an error response.
    pub fn new(code: ErrorCode, detail: impl Into<String>) -> Self {
        HttpProblem { status: status(code), code, detail: detail.into(), retry_after: None }
    }

    /// Adds a delay before a retry.
    #[must_use]
    pub fn retry_after(self, pause: Duration) -> Self {
        HttpProblem { retry_after: Some(pause), ..self }
    }

    /// The HTTP response.
    pub fn response(&self) -> Response<ResponseBody> {
        let title = self.status.canonical_reason().unwrap_or("Error");
        let content = serde_json::json!({
            "code": self.code.as_str(),
            "title": title,
            "status": self.status.as_u16(),
            "detail": self.detail,
        });
        let mut response = Response::new(body::bytes(Bytes::from(content.to_string())));
        *response.status_mut() = self.status;
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        if let Some(pause) = self.retry_after {
            // The header supports only whole seconds: rounded up, so that no client retries too early.
            let seconds = pause.as_secs() + u64::from(pause.subsec_nanos() > 0);
            headers.insert(RETRY_AFTER, HeaderValue::from(seconds));
        }
        response
    }
}
