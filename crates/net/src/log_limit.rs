//! Limits the log lines that peers can cause, and counts suppressed ones.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hash, RandomState};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The period of the limit.
const WINDOW: Duration = Duration::from_secs(10);

/// Admits a limited number of lines per 10 s, at most half of them from one source, so that a peer that is refused repeatedly does not hide
/// the refusals of others.
#[derive(Debug)]
pub struct LogLimit {
    lines_max: usize,
    source_lines_max: usize,
    hasher: RandomState,
    window: Mutex<LogWindow>,
}

#[derive(Debug, Default)]
struct LogWindow {
    began: Option<Instant>,
    lines: usize,
    /// Lines by source. Contains only sources with a line, so it is limited too.
    sources: HashMap<u64, usize>,
    suppressed: u64,
}

impl LogLimit {
    /// Admits at most `lines_max` lines in 10 s; none if it is 0.
    pub fn new(lines_max: usize) -> Self {
        let (hasher, window) = (RandomState::new(), Mutex::default());
        LogLimit { lines_max, source_lines_max: lines_max.div_ceil(2), hasher, window }
    }

    /// Admits a line that `source` causes at `now`: returns the number of lines suppressed since it was last returned, or `None` if this
    /// line is suppressed too.
    pub fn admit(&self, now: Instant, source: &impl Hash) -> Option<u64> {
        let source = self.hasher.hash_one(source);
        let mut window = self.window.lock().unwrap_or_else(PoisonError::into_inner);
        let window = &mut *window;
        if window.is_over(now) {
            *window = LogWindow { began: Some(now), suppressed: window.suppressed, ..LogWindow::default() };
        }
        let of_source = window.sources.get(&source).copied().unwrap_or_default();
        if window.lines >= self.lines_max || of_source >= self.source_lines_max {
            window.suppressed += 1;
            return None;
        }
        window.lines += 1;
        window.sources.insert(source, of_source + 1);
        Some(std::mem::take(&mut window.suppressed))
    }

    /// Returns the number of suppressed lines once their 10 s are over, if no later line has reported it. Call it periodically, so that the
    /// end of a flood is logged too.
    pub fn overdue(&self, now: Instant) -> Option<u64> {
        let mut window = self.window.lock().unwrap_or_else(PoisonError::into_inner);
        let is_due = window.suppressed > 0 && window.is_over(now);
        is_due.then(|| std::mem::take(&mut window.suppressed))
    }
}

impl LogWindow {
    fn is_over(&self, now: Instant) -> bool {
        self.began.is_none_or(|began| now.saturating_duration_since(began) >= WINDOW)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_bounded_in_each_window_and_the_next_line_carries_the_count() {
        let (log, start) = (LogLimit::new(4), Instant::now());
        let at = |seconds, source: &str| log.admit(start + Duration::from_secs(seconds), &source);
        assert_eq!([at(0, "a"), at(9, "b"), at(9, "c"), at(9, "d")], [Some(0); 4]);
        assert_eq!([at(9, "e"), at(9, "f")], [None, None]);
        assert_eq!([at(10, "a"), at(11, "b")], [Some(2), Some(0)]);
    }

    #[test]
    fn one_source_leaves_half_of_the_lines_to_others() {
        let (log, now) = (LogLimit::new(4), Instant::now());
        let admitted = (0..10).filter(|_| log.admit(now, &"flood").is_some()).count();
        assert_eq!((admitted, log.admit(now, &"other")), (2, Some(8)));
    }

    #[test]
    fn the_count_is_returned_once_when_nothing_follows_the_flood() {
        let (log, start) = (LogLimit::new(1), Instant::now());
        let later = start + WINDOW;
        assert_eq!([log.admit(start, &1), log.admit(start, &2), log.admit(start, &3)], [Some(0), None, None]);
        assert_eq!([log.overdue(start), log.overdue(later), log.overdue(later)], [None, Some(2), None]);
        assert_eq!(log.admit(later, &1), Some(0));
    }

    #[test]
    fn no_line_at_all_can_be_configured() {
        assert_eq!(LogLimit::new(0).admit(Instant::now(), &1), None);
    }
}
