//! The engine's clock: a parameter, so that tests can advance it.

use std::time::{Duration, Instant, SystemTime};

/// A clock.
pub trait EngineClock: Send + Sync {
    /// Unix seconds, written into metadata.
    fn now_unix_s(&self) -> u32;

    /// Unix milliseconds, for the expiry of tokens.
    fn now_unix_ms(&self) -> u64 {
        u64::from(self.now_unix_s()) * 1000
    }

    /// Time since a fixed moment, for the age of keys; never decreases.
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

impl EngineClock for SystemClock {
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
