//! The action of a call after its attempt has ended: looked up in the table of `rules.rs`.

use std::time::Duration;

use crate::error::{ClientError, ErrorKind, RequestProgress};
use crate::rule::{AttemptAction, AttemptEvent, OutcomeRule};
use crate::rules;
use crate::settings::ClientSettings;

/// The event and code of an error; none for errors of this side, which are not retried.
pub(crate) fn event_of(error: &ClientError) -> Option<(AttemptEvent, &'static str)> {
    Some(match error.kind {
        ErrorKind::Engine(code) => (AttemptEvent::Answer, code.as_str()),
        ErrorKind::ConnectionRefused(code) => (AttemptEvent::ConnectionError, code.as_str()),
        ErrorKind::UnknownEngineError => (AttemptEvent::Answer, ""),
        ErrorKind::GoingAway => (AttemptEvent::GoingAway, ""),
        ErrorKind::ConnectionLost { .. } => (AttemptEvent::ConnectionLost, ""),
        ErrorKind::Connect => (AttemptEvent::ConnectFailed, ""),
        ErrorKind::Tls => (AttemptEvent::TlsFailed, ""),
        ErrorKind::Timeout => (AttemptEvent::Timeout, ""),
        ErrorKind::Protocol => (AttemptEvent::ProtocolError, ""),
        ErrorKind::Settings | ErrorKind::RequestTooLarge | ErrorKind::AnswerMemory => return None,
    })
}

/// `is_unusable`: the connection of the answer takes no further calls. `may_dial_elsewhere`: whether a new connection may reach an
/// engine that is not avoided; called only if that matters.
pub(crate) fn decide(
    error: &ClientError,
    is_unusable: bool,
    may_dial_elsewhere: impl FnOnce() -> bool,
) -> AttemptAction {
    let Some((event, code)) = event_of(error) else { return AttemptAction::Fail };
    let sent = error.kind != ErrorKind::ConnectionLost { sent: RequestProgress::No };
    let is_refusal = matches!(code, "unavailable" | "audit_unavailable");
    let elsewhere = (event == AttemptEvent::Answer && is_unusable) || (is_refusal && may_dial_elsewhere());
    let fits = |rule: &&OutcomeRule| {
        rule.event == event
            && rule.code.is_none_or(|expected| expected == "*" || expected == code)
            && rule.sent.is_none_or(|expected| expected == sent)
            && rule.elsewhere.is_none_or(|expected| expected == elsewhere)
    };
    rules::OUTCOMES.iter().find(fits).map_or(AttemptAction::Fail, |rule| rule.action)
}

/// Grows with each failure up to the longest pause; then `chance`, from 0 to 1, selects a point in its upper part, so that clients of a
/// recovering engine do not all reconnect at once.
pub(crate) fn backoff(settings: &ClientSettings, earlier: u32, chance: f64) -> Duration {
    let grown = settings.backoff_min.saturating_mul(rules::BACKOFF_FACTOR.saturating_pow(earlier));
    let jitter = rules::JITTER_FROM + (rules::JITTER_TO - rules::JITTER_FROM) * chance;
    grown.min(settings.backoff_max).mul_f64(jitter)
}

#[cfg(test)]
mod tests {
    use super::*;
    use leafseal_protocol::{ErrorCode, Retry};

    fn decision(kind: ErrorKind, may_dial_elsewhere: bool) -> AttemptAction {
        decide(&ClientError::new(kind, Retry::Never, ""), false, || may_dial_elsewhere)
    }

    #[test]
    fn a_request_that_was_not_sent_is_retried() {
        assert_eq!(
            decision(ErrorKind::ConnectionLost { sent: RequestProgress::No }, false),
            AttemptAction::RetryElsewhere
        );
        assert_eq!(decision(ErrorKind::ConnectionLost { sent: RequestProgress::Maybe }, true), AttemptAction::Fail);
    }

    #[test]
    fn errors_of_this_side_and_of_later_versions_are_not_retried() {
        let kinds = [
            ErrorKind::Settings,
            ErrorKind::RequestTooLarge,
            ErrorKind::AnswerMemory,
            ErrorKind::UnknownEngineError,
            ErrorKind::Protocol,
            ErrorKind::Timeout,
        ];
        for kind in kinds {
            assert_eq!(
                [true, false].map(|may_dial_elsewhere| decision(kind, may_dial_elsewhere)),
                [AttemptAction::Fail; 2],
                "{kind:?}"
            );
        }
    }

    #[test]
    fn an_answer_on_a_connection_that_was_left_is_retried_elsewhere() {
        let error = ClientError::new(ErrorKind::Engine(ErrorCode::Unavailable), Retry::Never, "");
        assert_eq!(decide(&error, true, || false), AttemptAction::RetryElsewhere);
        assert_eq!(decide(&error, false, || false), AttemptAction::RetryCharged);
    }

    #[test]
    fn pauses_double_up_to_their_bound() {
        let settings = crate::client::tests::settings();
        for (failures, millis) in [(0, 50), (1, 100), (6, 3200), (7, 5000), (u32::MAX, 5000)] {
            let longest = Duration::from_millis(millis);
            assert_eq!([0.0, 1.0].map(|chance| backoff(&settings, failures, chance)), [longest / 2, longest]);
        }
    }
}
