//! When to try again for room that was not there, and when to give up.

use std::time::{Duration, Instant};

/// The pause before the first further attempt; doubled for each, up to the longest.
const PAUSE_MIN: Duration = Duration::from_millis(1);
const PAUSE_MAX: Duration = Duration::from_millis(50);

/// Attempts until a time.
pub(crate) struct Attempts {
    until: Instant,
    /// When the next is due, and the pause after that.
    next: Instant,
    pause: Duration,
}

impl Attempts {
    pub(crate) fn new(now: Instant, until: Instant) -> Self {
        Attempts { until, next: now, pause: PAUSE_MIN }
    }

    /// Notes one that failed; false when it was the last.
    pub(crate) fn go_on(&mut self, now: Instant) -> bool {
        if now >= self.next {
            self.next = now + self.pause;
            self.pause = (self.pause * 2).min(PAUSE_MAX);
        }
        now < self.until
    }

    /// When they end.
    pub(crate) fn until(&self) -> Instant {
        self.until
    }

    /// When the next is due.
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
        while attempts.go_on(now) {
            // One between does not put off the next.
            assert!(attempts.go_on(now));
            now = attempts.due();
            seen.push((now - start).as_millis());
        }
        assert_eq!(seen, [1, 3, 7, 15, 31, 63, 113, 163, 200]);
    }
}
