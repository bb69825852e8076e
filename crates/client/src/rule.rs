//! The form of the rules in `rules.rs`.

/// How an attempt ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AttemptEvent {
    Answer,
    ConnectionError,
    GoingAway,
    ConnectionLost,
    ConnectFailed,
    TlsFailed,
    Timeout,
    ProtocolError,
}

/// The action of the call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AttemptAction {
    Fail,
    /// At once the first time, because other connections are not affected.
    RetryElsewhere,
    /// Not before the next dial may begin.
    RetryLater,
    /// After a pause, within the budget.
    RetryCharged,
}

/// A line of the table. The first one that fits decides; a condition that is absent, and the code `*`, fit everything.
#[derive(Debug)]
pub(crate) struct OutcomeRule {
    pub(crate) event: AttemptEvent,
    pub(crate) code: Option<&'static str>,
    pub(crate) sent: Option<bool>,
    pub(crate) elsewhere: Option<bool>,
    pub(crate) action: AttemptAction,
}

/// An event after which a place is avoided.
#[derive(Debug)]
pub(crate) struct AvoidRule {
    pub(crate) event: AttemptEvent,
    pub(crate) code: &'static str,
    /// A call that succeeds there ends the avoidance.
    pub(crate) until_success: bool,
}
