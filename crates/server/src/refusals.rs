//! Log lines about connections that are not served, and calls that fail. Peers can cause any number of them, so their rate is limited for
//! each kind separately, and suppressed lines are counted. Refused callers are logged by [`leafseal_net::DecisionLog`].

use std::hash::Hash;
use std::time::Instant;

use leafseal_net::LogLimit;
use leafseal_service::PeerIdentity;

/// The kind of a line.
#[derive(Clone, Copy, Debug)]
pub(crate) enum RefusalLine {
    /// A connection that was refused at a limit, or that the server ended.
    Connection,
    /// A call of the HTTPS API that the engine could not serve.
    Call,
}

impl RefusalLine {
    const ALL: [RefusalLine; 2] = [RefusalLine::Connection, RefusalLine::Call];

    /// The name in the log.
    fn as_str(self) -> &'static str {
        match self {
            RefusalLine::Connection => "connections",
            RefusalLine::Call => "calls",
        }
    }
}

/// The rate limits of one server's lines.
#[derive(Debug)]
pub(crate) struct ServerRefusalLog {
    limits: [LogLimit; RefusalLine::ALL.len()],
}

impl ServerRefusalLog {
    /// Allows at most `lines_max` lines in 10 s of each kind.
    pub(crate) fn new(lines_max: usize) -> Self {
        ServerRefusalLog { limits: RefusalLine::ALL.map(|_| LogLimit::new(lines_max)) }
    }

    /// Calls `write` if another line of `source` is within the limit. `source` is a client's name or address (see `client_of`).
    pub(crate) fn line(&self, kind: RefusalLine, now: Instant, source: &impl Hash, write: impl FnOnce()) {
        if let Some(suppressed) = self.limits[kind as usize].admit(now, source) {
            tell(kind, suppressed);
            write();
        }
    }

    /// Logs the counts of suppressed lines that no later line has reported.
    pub(crate) fn log_overdue(&self, now: Instant) {
        for kind in RefusalLine::ALL {
            tell(kind, self.limits[kind as usize].overdue(now).unwrap_or_default());
        }
    }
}

fn tell(kind: RefusalLine, suppressed: u64) {
    if suppressed > 0 {
        tracing::warn!(suppressed, kind = kind.as_str(), "refusals omitted from the log");
    }
}

/// The SHA-256 of the client's certificate, as `leafseal certs` prints it.
pub(crate) fn fingerprint(peer: &PeerIdentity) -> String {
    hex::encode(peer.certificate_sha256)
}
