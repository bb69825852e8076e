//! Lines of the log that clients and upstreams can cause: refused requests, connections that were not admitted or were cut. They are
//! bounded over all threads of the relay, and what is left out is counted.

use std::net::SocketAddr;
use std::time::Instant;

use fieldseal_net::{LogLimit, client_of};

/// The bounded lines of one relay.
#[derive(Debug)]
pub(crate) struct RefusalLog(LogLimit);

impl RefusalLog {
    /// At most `lines_max` lines in 10 s.
    pub(crate) fn new(lines_max: usize) -> Self {
        RefusalLog(LogLimit::new(lines_max))
    }

    /// Calls `write` if there is room for another line that `client` causes; nothing where it is nobody's doing.
    pub(crate) fn line(&self, client: Option<SocketAddr>, write: impl FnOnce()) {
        let source = client.map(|client| client_of(client.ip()));
        if let Some(suppressed) = self.0.admit(Instant::now(), &source) {
            tell(suppressed);
            write();
        }
    }

    /// Writes the count of suppressed lines that no later line has carried.
    pub(crate) fn tell_overdue(&self) {
        tell(self.0.overdue(Instant::now()).unwrap_or_default());
    }
}

fn tell(suppressed: u64) {
    if suppressed > 0 {
        tracing::warn!(suppressed, "refusals omitted from the log");
    }
}
