//! How far sinks and witnesses are: for metrics, and so that no record is removed that one of them still needs.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use leafseal_engine::audit::SinkTarget;

/// What is sent elsewhere, at one moment; counts are since the start.
#[derive(Debug, Clone, Default)]
pub(crate) struct ForwardingFigures {
    pub(crate) sinks: Vec<SinkFigures>,
    /// Whether there is something to send to, and nothing is sent.
    pub(crate) has_stopped: bool,
    /// Files with a sink's place that were not what this engine had written.
    pub(crate) forged_cursors: u64,
    /// Times that a log showed this witness another history than before.
    pub(crate) forks: u64,
}

/// A sink at one moment.
#[derive(Debug, Clone)]
pub(crate) struct SinkFigures {
    pub(crate) name: String,
    /// Signed records that it has not taken.
    pub(crate) waiting: u64,
    /// How long ago it had all.
    pub(crate) lag: Duration,
    /// Records that it has refused for good.
    pub(crate) refused: u64,
}

#[derive(Debug)]
struct SinkProgress {
    name: String,
    next: AtomicU64,
    waiting: AtomicU64,
    refused: AtomicU64,
    /// Since when it has not had all.
    behind_since: Mutex<Option<Instant>>,
}

/// How far all are. Relaxed ordering suffices: no other data depends on the numbers.
#[derive(Debug)]
pub(super) struct ForwardingProgress {
    sinks: Vec<SinkProgress>,
    /// Records that witnesses have cosigned, if any are asked.
    cosigned: Option<AtomicU64>,
    /// The first record that must not be removed.
    kept_from: Arc<AtomicU64>,
    forged_cursors: AtomicU64,
    forks: AtomicU64,
}

impl ForwardingProgress {
    pub(super) fn new(sinks: &[SinkTarget], asks_witnesses: bool, kept_from: Arc<AtomicU64>) -> Self {
        let sink = |target: &SinkTarget| SinkProgress {
            name: target.name(),
            next: AtomicU64::new(0),
            waiting: AtomicU64::new(0),
            refused: AtomicU64::new(0),
            behind_since: Mutex::new(None),
        };
        let (sinks, cosigned) = (sinks.iter().map(sink).collect(), asks_witnesses.then(|| AtomicU64::new(0)));
        let progress = Self { sinks, cosigned, kept_from, forged_cursors: AtomicU64::new(0), forks: AtomicU64::new(0) };
        progress.update_kept_from();
        progress
    }

    /// A sink has taken everything before `next`, of `size` signed records.
    pub(super) fn sent(&self, sink: usize, next: u64, size: u64) {
        let sink = &self.sinks[sink];
        sink.next.store(next, Ordering::Relaxed);
        sink.waiting.store(size.saturating_sub(next), Ordering::Relaxed);
        let mut behind_since = sink.behind_since.lock().unwrap_or_else(PoisonError::into_inner);
        *behind_since = (next < size).then(|| behind_since.unwrap_or_else(Instant::now));
        drop(behind_since);
        self.update_kept_from();
    }

    /// A sink lacks so many records of an older log, and it is not known yet what it lacks of the engine's own.
    pub(super) fn sends_older(&self, sink: usize, waiting: u64) {
        let sink = &self.sinks[sink];
        sink.waiting.store(waiting, Ordering::Relaxed);
        sink.behind_since.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert_with(Instant::now);
    }

    /// A sink has refused records for good.
    pub(super) fn refused(&self, sink: usize, records: u64) {
        self.sinks[sink].refused.fetch_add(records, Ordering::Relaxed);
    }

    /// Enough witnesses have cosigned so many records.
    pub(super) fn cosigned(&self, records: u64) {
        if let Some(cosigned) = &self.cosigned {
            cosigned.fetch_max(records, Ordering::Relaxed);
            self.update_kept_from();
        }
    }

    pub(super) fn count_forged_cursor(&self) {
        self.forged_cursors.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn count_fork(&self) {
        self.forks.fetch_add(1, Ordering::Relaxed);
    }

    fn update_kept_from(&self) {
        let needed = self.sinks.iter().map(|sink| &sink.next).chain(&self.cosigned);
        let first = needed.map(|next| next.load(Ordering::Relaxed)).min();
        self.kept_from.store(first.unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    pub(super) fn figures(&self) -> ForwardingFigures {
        let sink = |sink: &SinkProgress| {
            let since = *sink.behind_since.lock().unwrap_or_else(PoisonError::into_inner);
            SinkFigures {
                name: sink.name.clone(),
                waiting: sink.waiting.load(Ordering::Relaxed),
                lag: since.map_or(Duration::ZERO, |since| since.elapsed()),
                refused: sink.refused.load(Ordering::Relaxed),
            }
        };
        ForwardingFigures {
            sinks: self.sinks.iter().map(sink).collect(),
            has_stopped: false,
            forged_cursors: self.forged_cursors.load(Ordering::Relaxed),
            forks: self.forks.load(Ordering::Relaxed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_one_of_them_needs_is_kept() {
        let kept_from = Arc::new(AtomicU64::new(u64::MAX));
        let known = || kept_from.load(Ordering::Relaxed);
        let sinks = ["syslog+udp://a:1", "syslog+udp://b:1"].map(|text| SinkTarget::parse(text).expect("a sink"));
        let progress = ForwardingProgress::new(&sinks, true, Arc::clone(&kept_from));
        assert_eq!(known(), 0);
        progress.sent(0, 10, 10);
        progress.sent(1, 7, 10);
        assert_eq!(known(), 0);
        progress.cosigned(9);
        assert_eq!(known(), 7);
        progress.sent(1, 10, 10);
        progress.cosigned(4);
        assert_eq!(known(), 9);
        let figures = progress.figures();
        assert_eq!(
            figures.sinks.iter().map(|sink| (sink.waiting, sink.lag)).collect::<Vec<_>>(),
            [(0, Duration::ZERO); 2]
        );
        // Nobody needs any.
        ForwardingProgress::new(&[], false, Arc::clone(&kept_from));
        assert_eq!(known(), u64::MAX);
    }
}
