//! The clock of the network side. It is the runtime's, which a simulation can stop and set.

use std::time::Instant;

/// The current time.
pub(crate) fn now() -> Instant {
    tokio::time::Instant::now().into_std()
}
