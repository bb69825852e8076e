//! The one clock of the network side: that of the runtime, which a simulation stops and sets as it likes.

use std::time::Instant;

/// The present.
pub(crate) fn now() -> Instant {
    tokio::time::Instant::now().into_std()
}
