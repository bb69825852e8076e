//! Lines of the log about those who were not let in: a stranger writes as many of them as he likes, so they are bounded.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The time that the bound is for.
const WINDOW: Duration = Duration::from_secs(10);

/// Bounds lines in ten seconds, and counts those that were left out.
#[derive(Debug)]
pub(crate) struct RefusalLog {
    lines_max: usize,
    window: Mutex<Window>,
}

#[derive(Debug, Default)]
struct Window {
    began: Option<Instant>,
    lines: usize,
    left_out: u64,
}

/// What to write for one refusal.
#[derive(Debug, PartialEq, Eq)]
enum Decision {
    /// The line, after a word about so many that were left out.
    Write { left_out: u64 },
    /// Nothing.
    LeaveOut,
}

impl RefusalLog {
    pub(crate) fn new(lines_max: usize) -> Self {
        RefusalLog { lines_max, window: Mutex::default() }
    }

    /// Calls `write` if there is room for another line at the time `now`.
    pub(crate) fn line(&self, now: Instant, write: impl FnOnce()) {
        let Decision::Write { left_out } = self.decide(now) else { return };
        if left_out > 0 {
            tracing::warn!(left_out, "more connections were refused than the log has room for");
        }
        write();
    }

    fn decide(&self, now: Instant) -> Decision {
        let mut window = self.window.lock().unwrap_or_else(PoisonError::into_inner);
        if window.began.is_none_or(|began| now.saturating_duration_since(began) >= WINDOW) {
            window.began = Some(now);
            window.lines = 0;
        }
        if window.lines >= self.lines_max {
            window.left_out += 1;
            return Decision::LeaveOut;
        }
        window.lines += 1;
        Decision::Write { left_out: std::mem::take(&mut window.left_out) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_bounded_in_each_window_and_the_next_tells_what_was_left_out() {
        let log = RefusalLog::new(2);
        let start = Instant::now();
        let at = |seconds| log.decide(start + Duration::from_secs(seconds));
        assert_eq!([at(0), at(9)], [Decision::Write { left_out: 0 }, Decision::Write { left_out: 0 }]);
        assert_eq!([at(9), at(9)], [Decision::LeaveOut, Decision::LeaveOut]);
        assert_eq!([at(10), at(11)], [Decision::Write { left_out: 2 }, Decision::Write { left_out: 0 }]);
        assert_eq!([at(19), at(20)], [Decision::LeaveOut, Decision::Write { left_out: 1 }]);
    }

    #[test]
    fn none_at_all_can_be_asked_for() {
        assert_eq!(RefusalLog::new(0).decide(Instant::now()), Decision::LeaveOut);
    }
}
