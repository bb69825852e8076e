//! Log lines that clients and upstreams can cause: refused requests, and connections that were refused or cut. Their rate is limited over
//! all threads of the relay; suppressed lines are counted.

use std::net::SocketAddr;
use std::time::Instant;

use leafseal_net::{LogLimit, client_of};

/// The rate limit of one relay's lines.
#[derive(Debug)]
pub(crate) struct RefusalLog(LogLimit);

impl RefusalLog {
    /// Allows at most `lines_max` lines in 10 s.
    pub(crate) fn new(lines_max: usize) -> Self {
        RefusalLog(LogLimit::new(lines_max))
    }

    /// Calls `write` if another line that `client` causes is within the limit; `None` if no client causes it.
    pub(crate) fn line(&self, client: Option<SocketAddr>, write: impl FnOnce()) {
        let source = client.map(|client| client_of(client.ip()));
        if let Some(suppressed) = self.0.admit(Instant::now(), &source) {
            log_suppressed(suppressed);
            write();
        }
    }

    /// Logs the count of suppressed lines if no later line has reported it.
    pub(crate) fn log_overdue(&self) {
        log_suppressed(self.0.overdue(Instant::now()).unwrap_or_default());
    }
}

fn log_suppressed(suppressed: u64) {
    if suppressed > 0 {
        tracing::warn!(suppressed, "refusals omitted from the log");
    }
}
