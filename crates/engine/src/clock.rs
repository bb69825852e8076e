//! Time as the engine sees it: a parameter, so that tests move it.

use std::time::{Duration, Instant, SystemTime};

/// Tells the time.
pub trait Clock: Send + Sync {
    /// Unix seconds, written into metadata.
    fn now_unix_s(&self) -> u32;

    /// Unix milliseconds, by which tokens expire.
    fn now_unix_ms(&self) -> u64 {
        u64::from(self.now_unix_s()) * 1000
    }

    /// Time since some fixed moment; never goes back. Ages of keys are measured by it.
    fn monotonic(&self) -> Duration;
}

/// The operating system's clocks.
pub struct SystemClock {
    start: Instant,
}

impl Default for SystemClock {
    fn default() -> Self {
        Self { start: Instant::now() }
    }
}

impl Clock for SystemClock {
    fn now_unix_s(&self) -> u32 {
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        u32::try_from(since.as_secs()).unwrap_or(u32::MAX)
    }

    fn now_unix_ms(&self) -> u64 {
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
    }

    fn monotonic(&self) -> Duration {
        self.start.elapsed()
    }
}
