//! Why a message is not forwarded, for the answer and the log. A refusal contains no value of the message.

use std::time::Duration;

use hyper::StatusCode;
use leafseal_client::{ClientError, ErrorKind};
use leafseal_document::form::{FormError, FormErrorKind};
use leafseal_document::{DocumentError, DocumentErrorKind};
use leafseal_errors::ErrorCode;
use leafseal_http::{BodyError, HttpProblem, status};

/// The delay before a retry if the engine returns none.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// The direction of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    Request,
    Response,
}

impl Direction {
    /// The name of a message of that direction.
    pub(crate) fn noun(self) -> &'static str {
        match self {
            Direction::Request => "request",
            Direction::Response => "upstream's answer",
        }
    }
}

/// The refusal of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    pub(crate) status: StatusCode,
    pub(crate) code: ErrorCode,
    pub(crate) detail: String,
    pub(crate) retry_after: Option<Duration>,
}

impl Refusal {
    pub(crate) fn new(code: ErrorCode, detail: impl Into<String>) -> Self {
        Refusal { status: status(code), code, detail: detail.into(), retry_after: None }
    }

    /// Refuses a message: the status blames the client's request, or the upstream's answer.
    pub(crate) fn of(direction: Direction, code: ErrorCode, detail: impl Into<String>) -> Self {
        let refusal = Refusal::new(code, detail);
        match direction {
            Direction::Request => refusal,
            Direction::Response => Refusal { status: StatusCode::BAD_GATEWAY, ..refusal },
        }
    }

    /// Refuses a header field that some software treats as another.
    pub(crate) fn ambiguous_header(direction: Direction, detail: impl Into<String>) -> Self {
        Refusal::of(direction, ErrorCode::AmbiguousHeader, detail)
    }

    /// A field or member that some parsers read as a selected one, by its name or by its position.
    pub(crate) fn ambiguous_name(direction: Direction, detail: impl std::fmt::Display) -> Self {
        let detail = format!("the {}: {detail}", direction.noun());
        Refusal::of(direction, ErrorCode::AmbiguousName, detail)
    }

    /// Refuses an unreadable document.
    pub(crate) fn of_document(direction: Direction, error: DocumentError) -> Self {
        match error.kind {
            DocumentErrorKind::PatchUnmatched | DocumentErrorKind::Unmatched(_) => Self::unmatched(direction, None),
            DocumentErrorKind::AmbiguousName
            | DocumentErrorKind::PathName
            | DocumentErrorKind::DuplicateName
            | DocumentErrorKind::AmbiguousOperand
            | DocumentErrorKind::CarriageReturn => Self::ambiguous_name(direction, error),
            _ => Self::unreadable(direction, error),
        }
    }

    /// Refuses an unreadable form or query.
    pub(crate) fn of_form(direction: Direction, error: FormError) -> Self {
        match error.kind {
            FormErrorKind::AmbiguousName => Self::ambiguous_name(direction, error),
            _ => Self::unreadable(direction, error),
        }
    }

    /// A body that cannot be parsed as its declared type.
    pub(crate) fn unreadable(direction: Direction, detail: impl std::fmt::Display) -> Self {
        let detail = format!("the {} cannot be read: {detail}", direction.noun());
        Refusal::of(direction, ErrorCode::InvalidDocument, detail)
    }

    /// Refuses a body in which a rule that requires it finds nothing; in JSON Lines, in the line of this number.
    pub(crate) fn unmatched(direction: Direction, line: Option<u64>) -> Self {
        let place = line.map_or(String::new(), |line| format!("line {line} of "));
        let detail = format!(
            "{place}the {} lacks a value that a rule with require_match must find: send it in the shape that the rule's selectors \
             expect",
            direction.noun()
        );
        Refusal::of(direction, ErrorCode::UnmatchedSelector, detail)
    }

    /// Refuses a body of a type or coding that no rule reads.
    pub(crate) fn mismatch(direction: Direction, detail: &str) -> Self {
        let detail = format!("the relay's rules cannot read the {}: {detail}", direction.noun());
        Refusal::of(direction, ErrorCode::UnsupportedMediaType, detail)
    }

    /// Refuses a body that did not arrive in time.
    pub(crate) fn late(direction: Direction, time_max: Duration) -> Self {
        Self::slow(direction, &format!("took longer than {time_max:?}"))
    }

    /// Why reading a body failed.
    pub(crate) fn of_body(direction: Direction, error: &BodyError) -> Self {
        match error {
            BodyError::Slow => Self::slow(direction, "comes too slowly"),
            error => Self::unreadable(direction, error),
        }
    }

    fn slow(direction: Direction, what: &str) -> Self {
        let detail = format!("the body of the {} {what}", direction.noun());
        match direction {
            Direction::Request => Refusal::new(ErrorCode::SlowBody, detail),
            Direction::Response => Refusal::new(ErrorCode::UpstreamTimeout, detail),
        }
    }

    /// Refuses a body that is too large to buffer.
    pub(crate) fn too_large(direction: Direction, size_max: usize) -> Self {
        let detail = format!("the {} has more than {size_max} bytes", direction.noun());
        Refusal::of(direction, ErrorCode::TooLarge, detail)
    }

    /// Refuses a body that is too large relative to its coded size.
    pub(crate) fn expands(direction: Direction, expansion_max: usize) -> Self {
        let detail = format!("the {} has more than {expansion_max} times its coded size", direction.noun());
        Refusal::of(direction, ErrorCode::TooLarge, detail)
    }

    /// Refuses a message for lack of resources or of an engine; a retry may succeed.
    pub(crate) fn unavailable(code: ErrorCode, detail: impl Into<String>, retry_after: Option<Duration>) -> Self {
        let retry_after = Some(retry_after.unwrap_or(RETRY_AFTER));
        Refusal { retry_after, ..Refusal::new(code, detail) }
    }

    /// The same after the upstream has answered: the request was processed, so the refusal must not ask for a retry.
    pub(crate) fn once_answered(self) -> Self {
        if self.status != StatusCode::SERVICE_UNAVAILABLE {
            return self;
        }
        let detail = format!("the upstream has answered, but its answer cannot be passed on: {}", self.detail);
        Refusal::new(ErrorCode::AnswerLost, detail)
    }

    /// The refusal for an error of the engine.
    pub(crate) fn of_engine(direction: Direction, error: &ClientError) -> Self {
        use ErrorCode as Code;
        match error.kind {
            ErrorKind::Engine(
                code @ (Code::InvalidDocument
                | Code::InvalidContext
                | Code::InvalidEnvelope
                | Code::DecryptFailed
                | Code::NumberOutOfRange),
            ) => {
                let detail = format!("the {}: {}", direction.noun(), error.message);
                Refusal::of(direction, code, detail)
            }
            ErrorKind::Engine(Code::UnmatchedSelector) => Refusal::unmatched(direction, line_in(&error.message)),
            ErrorKind::Engine(Code::AmbiguousName) => Refusal::ambiguous_name(direction, &error.message),
            // An index or a path means that the error concerns a value, not the relay's permissions.
            ErrorKind::Engine(Code::Forbidden) if error.index.is_some() || error.offset.is_some() => {
                let detail = format!("the {}: {}", direction.noun(), error.message);
                Refusal::of(direction, ErrorCode::WrongRole, detail)
            }
            ErrorKind::Engine(Code::TooLarge) | ErrorKind::RequestTooLarge => {
                let detail = format!("the {} is larger than the engine takes", direction.noun());
                Refusal::of(direction, ErrorCode::TooLarge, detail)
            }
            ErrorKind::Engine(Code::Forbidden | Code::UnknownApp | Code::AppDisabled) => Refusal::new(
                ErrorCode::NotGranted,
                "the engine does not let the relay do this: its log says what is missing",
            ),
            ErrorKind::Engine(Code::Overloaded) => {
                Refusal::unavailable(ErrorCode::Overloaded, "the engine is overloaded", error.retry_after)
            }
            ErrorKind::Engine(Code::AuditUnavailable) => {
                let detail = "the audit log of the engine takes no records: its /readyz has the reason";
                Refusal::unavailable(ErrorCode::AuditUnavailable, detail, error.retry_after)
            }
            ErrorKind::Engine(Code::InvalidParams | Code::InvalidSelector | Code::UnknownMethod)
            | ErrorKind::Settings => {
                Refusal::new(ErrorCode::Misconfigured, "the engine did not understand the relay: its log says why")
            }
            _ => {
                Refusal::unavailable(ErrorCode::Unavailable, "the engine cannot be reached in time", error.retry_after)
            }
        }
    }

    /// The response.
    pub(crate) fn problem(&self) -> HttpProblem {
        let problem = HttpProblem { status: self.status, ..HttpProblem::new(self.code, self.detail.clone()) };
        match self.retry_after {
            Some(pause) => problem.retry_after(pause),
            None => problem,
        }
    }
}

/// The number of the line that the engine's message about a line of JSON Lines names: `code: line N: …`.
fn line_in(message: &str) -> Option<u64> {
    let (number, _) = message.split_once("line ")?.1.split_once(':')?;
    number.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_answer_asks_to_retry_a_processed_request() {
        let before = Refusal::unavailable(ErrorCode::RelayOverloaded, "too many", None);
        assert_eq!((before.status, before.retry_after), (StatusCode::SERVICE_UNAVAILABLE, Some(RETRY_AFTER)));
        let after = before.once_answered();
        assert_eq!(
            (after.status, after.code, after.retry_after),
            (StatusCode::BAD_GATEWAY, ErrorCode::AnswerLost, None)
        );
        assert!(after.detail.ends_with("too many"));
        let unread = Refusal::unreadable(Direction::Response, "odd");
        assert_eq!(unread.clone().once_answered(), unread);
    }

    #[test]
    fn a_refusal_names_the_line_that_lacks_a_value() {
        let engine = |message: &str| ClientError {
            kind: ErrorKind::Engine(ErrorCode::UnmatchedSelector),
            retry: leafseal_client::Retry::Never,
            message: message.to_owned(),
            index: Some(0),
            offset: None,
            retry_after: None,
        };
        for (message, begin) in [
            ("unmatched_selector: line 12: selector 0 matched no value", "line 12 of the request lacks"),
            ("unmatched_selector: selector 0 matched no value", "the request lacks"),
        ] {
            let refusal = Refusal::of_engine(Direction::Request, &engine(message));
            assert_eq!((refusal.status.as_u16(), refusal.code), (422, ErrorCode::UnmatchedSelector));
            assert!(refusal.detail.starts_with(begin), "{refusal:?}");
        }
    }
}
