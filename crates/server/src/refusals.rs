//! Log lines about refused connections, requests and calls. Peers can cause any number of them, so their rate is limited for each kind
//! separately, and suppressed lines are counted.

use std::hash::Hash;
use std::sync::Arc;
use std::time::Instant;

use leafseal_engine::admin::AppName;
use leafseal_net::LogLimit;
use leafseal_protocol::{ErrorCode, ErrorObject, Method};

use leafseal_service::PeerIdentity;

/// The kind of a line.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Refused {
    /// A connection that was refused, or that the server ended.
    Connection,
    /// A request on a connection.
    Request,
    /// A call of the HTTPS API.
    Call,
}

impl Refused {
    const ALL: [Refused; 3] = [Refused::Connection, Refused::Request, Refused::Call];

    /// The name in the log.
    fn as_str(self) -> &'static str {
        match self {
            Refused::Connection => "connections",
            Refused::Request => "requests",
            Refused::Call => "calls",
        }
    }
}

/// The rate limits of one server's lines.
#[derive(Debug)]
pub(crate) struct RefusalLog {
    limits: [LogLimit; Refused::ALL.len()],
}

impl RefusalLog {
    /// Allows at most `lines_max` lines in 10 s of each kind.
    pub(crate) fn new(lines_max: usize) -> Self {
        RefusalLog { limits: Refused::ALL.map(|_| LogLimit::new(lines_max)) }
    }

    /// Calls `write` if another line of `source` is within the limit. `source` is a client's name or address (see `client_of`).
    pub(crate) fn line(&self, kind: Refused, now: Instant, source: &impl Hash, write: impl FnOnce()) {
        if let Some(suppressed) = self.limits[kind as usize].admit(now, source) {
            tell(kind, suppressed);
            write();
        }
    }

    /// Logs the counts of suppressed lines that no later line has reported.
    pub(crate) fn log_overdue(&self, now: Instant) {
        for kind in Refused::ALL {
            tell(kind, self.limits[kind as usize].overdue(now).unwrap_or_default());
        }
    }
}

fn tell(kind: Refused, suppressed: u64) {
    if suppressed > 0 {
        tracing::warn!(suppressed, kind = kind.as_str(), "refusals omitted from the log");
    }
}

/// The sender and the app of a request, for the log line if a permission is missing.
#[derive(Debug)]
pub(crate) struct RequestSource {
    pub(crate) log: Arc<RefusalLog>,
    pub(crate) peer: Arc<PeerIdentity>,
    /// The app as the request names it, valid or not.
    pub(crate) app: Option<Arc<str>>,
}

impl RequestSource {
    /// Logs the refusal if `error` is about permissions.
    pub(crate) fn refused(&self, now: Instant, method: Option<Method>, error: &ErrorObject) {
        if !matches!(error.code, ErrorCode::Forbidden | ErrorCode::UnknownApp | ErrorCode::AppDisabled) {
            return;
        }
        let client = self.peer.name.as_str();
        // Invalid names may contain anything, line breaks included.
        let app = self.app.as_deref().map_or("", |app| if AppName::parse(app).is_ok() { app } else { "(no app name)" });
        self.log.line(Refused::Request, now, &client, || {
            let (fingerprint, code) = (fingerprint(&self.peer), error.code.as_str());
            let method = method.map_or("unknown", |method| method.as_str());
            tracing::warn!(client, %fingerprint, method, app, code, reason = %error.message, "request refused");
        });
    }
}

/// The SHA-256 of the client's certificate, as `leafseal certs` prints it.
pub(crate) fn fingerprint(peer: &PeerIdentity) -> String {
    hex::encode(peer.certificate_sha256)
}
