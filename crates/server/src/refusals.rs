//! Lines of the log about what was refused: connections, requests and calls. Peers can cause as many as they like, so that they are
//! bounded for each kind apart, and what is left out is counted.

use std::hash::Hash;
use std::sync::Arc;
use std::time::Instant;

use fieldseal_engine::admin::AppName;
use fieldseal_net::LogLimit;
use fieldseal_protocol::{ErrorCode, ErrorObject, Method};

use fieldseal_service::PeerIdentity;

/// The subject of a line.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Refused {
    /// A connection that is not admitted, or that the server ends.
    Connection,
    /// A request on a connection.
    Request,
    /// A call of the HTTPS API.
    Call,
}

impl Refused {
    const ALL: [Refused; 3] = [Refused::Connection, Refused::Request, Refused::Call];

    /// The word in the log.
    fn as_str(self) -> &'static str {
        match self {
            Refused::Connection => "connections",
            Refused::Request => "requests",
            Refused::Call => "calls",
        }
    }
}

/// The bounded lines of one server.
#[derive(Debug)]
pub(crate) struct RefusalLog {
    limits: [LogLimit; Refused::ALL.len()],
}

impl RefusalLog {
    /// At most `lines_max` lines in 10 s, of each kind.
    pub(crate) fn new(lines_max: usize) -> Self {
        RefusalLog { limits: Refused::ALL.map(|_| LogLimit::new(lines_max)) }
    }

    /// Calls `write` if there is room for another line that `source` causes: a client's name, or its address (see `client_of`).
    pub(crate) fn line(&self, kind: Refused, now: Instant, source: &impl Hash, write: impl FnOnce()) {
        if let Some(suppressed) = self.limits[kind as usize].admit(now, source) {
            tell(kind, suppressed);
            write();
        }
    }

    /// Writes the counts of suppressed lines that no later line has carried.
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

/// The sender and the app of a request over a connection, for the log line if policy refuses it.
#[derive(Debug)]
pub(crate) struct Asker {
    pub(crate) log: Arc<RefusalLog>,
    pub(crate) peer: Arc<PeerIdentity>,
    /// As the request names it, right or wrong.
    pub(crate) app: Option<Arc<str>>,
}

impl Asker {
    /// Logs the refusal if `error` is one of policy.
    pub(crate) fn refused(&self, now: Instant, method: Option<Method>, error: &ErrorObject) {
        if !matches!(error.code, ErrorCode::Forbidden | ErrorCode::UnknownApp | ErrorCode::AppDisabled) {
            return;
        }
        let client = self.peer.name.as_str();
        // Invalid names could be anything, line ends included.
        let app = self.app.as_deref().map_or("", |app| if AppName::parse(app).is_ok() { app } else { "(no app name)" });
        self.log.line(Refused::Request, now, &client, || {
            let (fingerprint, code) = (fingerprint(&self.peer), error.code.as_str());
            let method = method.map_or("unknown", |method| method.as_str());
            tracing::warn!(client, %fingerprint, method, app, code, reason = %error.message, "request refused");
        });
    }
}

/// The SHA-256 of the client's certificate, as `fieldseal certs` prints it.
pub(crate) fn fingerprint(peer: &PeerIdentity) -> String {
    hex::encode(peer.certificate_sha256)
}
