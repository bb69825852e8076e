//! When to retry after a lack of room, and when to give up.

use std::time::{Duration, Instant};

/// The pause before the first retry; it doubles with each, up to the longest.
const PAUSE_MIN: Duration = Duration::from_millis(1);
const PAUSE_MAX: Duration = Duration::from_millis(50);

/// Retries until a time.
pub(crate) struct Attempts {
    until: Instant,
    /// When the next retry is due, and the pause after it.
    next: Instant,
    pause: Duration,
}

impl Attempts {
    pub(crate) fn new(now: Instant, until: Instant) -> Self {
        Attempts { until, next: now, pause: PAUSE_MIN }
    }

    /// Records a failed attempt; returns false if it was the last.
    pub(crate) fn record_failure(&mut self, now: Instant) -> bool {
        if now >= self.next {
            self.next = now + self.pause;
            self.pause = (self.pause * 2).min(PAUSE_MAX);
        }
        now < self.until
    }

    /// When retries end.
    pub(crate) fn until(&self) -> Instant {
        self.until
    }

    /// When the next retry is due.
    pub(crate) fn due(&self) -> Instant {
        self.next.min(self.until)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn they_become_rarer_and_end() {
        let start = Instant::now();
        let at = |milliseconds| start + Duration::from_millis(milliseconds);
        let mut attempts = Attempts::new(start, at(200));
        let mut seen = Vec::new();
        let mut now = start;
        while attempts.record_failure(now) {
            // An attempt in between does not postpone the next.
            assert!(attempts.record_failure(now));
            now = attempts.due();
            seen.push((now - start).as_millis());
        }
        assert_eq!(seen, [1, 3, 7, 15, 31, 63, 113, 163, 200]);
    }
}
