//! What a recorder has done and has yet to do, for metrics.

use std::time::{Duration, Instant};

/// Figures of a recorder at one moment; counts are since its start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RecorderFigures {
    /// Records that are durable, with those that the recorder added itself.
    pub durable: u64,
    /// Bytes of these records as the log has them, each with its length of two bytes.
    pub durable_bytes: u64,
    /// Records that were refused.
    pub lost: u64,
    /// Bytes that records which are not durable yet count for: their texts and 128 for each.
    pub waiting_bytes: usize,
    /// How long the oldest of them has waited.
    pub lag: Duration,
    /// How long durable records have waited for a checkpoint that covers them.
    pub checkpoint_lag: Duration,
}

/// Counts and times behind [`RecorderFigures`].
#[derive(Debug, Default)]
pub(crate) struct RecorderTally {
    durable: u64,
    durable_bytes: u64,
    lost: u64,
    /// When the first record of the group that is being written was taken.
    writing_since: Option<Instant>,
    /// Since when a record is durable that no checkpoint covers.
    uncovered_since: Option<Instant>,
}

impl RecorderTally {
    /// So many records were refused.
    pub(crate) fn lose(&mut self, records: u64) {
        self.lost += records;
    }

    /// A group is now being written, whose first record was taken then.
    pub(crate) fn begin_writing(&mut self, since: Option<Instant>) {
        self.writing_since = Some(since.unwrap_or_else(Instant::now));
    }

    /// As [`RecorderTally::begin_writing`] was called with, while the group is being written.
    pub(crate) fn writing_since(&self) -> Option<Instant> {
        self.writing_since
    }

    /// That group of so many records and bytes is durable.
    pub(crate) fn end_writing(&mut self, records: u64, bytes: usize) {
        self.durable += records;
        self.durable_bytes += bytes as u64;
        self.writing_since = None;
        self.await_checkpoint(Instant::now());
    }

    /// There are durable records that no checkpoint covers, since then or before.
    pub(crate) fn await_checkpoint(&mut self, since: Instant) {
        self.uncovered_since.get_or_insert(since);
    }

    /// A checkpoint covers everything that was durable at a moment; since then there are newer records, if there are any.
    pub(crate) fn cover(&mut self, newer_since: Option<Instant>) {
        self.uncovered_since = newer_since;
    }

    /// The figures, with those of the rings.
    pub(crate) fn figures(&self, open_since: Option<Instant>, waiting_bytes: usize, lost: u64) -> RecorderFigures {
        let since = |moment: Option<Instant>| moment.map_or(Duration::ZERO, |moment| moment.elapsed());
        RecorderFigures {
            durable: self.durable,
            durable_bytes: self.durable_bytes,
            lost: self.lost + lost,
            waiting_bytes,
            lag: since(self.writing_since.or(open_since)),
            checkpoint_lag: since(self.uncovered_since),
        }
    }
}
