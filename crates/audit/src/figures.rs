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
    /// Bytes of records that are not durable yet.
    pub waiting_bytes: usize,
    /// How long the oldest of them has waited.
    pub lag: Duration,
    /// How long durable records have waited for a checkpoint that covers them.
    pub checkpoint_lag: Duration,
}

/// Counts and times behind [`RecorderFigures`].
#[derive(Debug, Default)]
pub(crate) struct RecorderTally {
    durable_bytes: u64,
    lost: u64,
    /// When the first record of the open group was taken, and of the group that is being written.
    open_since: Option<Instant>,
    writing_since: Option<Instant>,
    /// Since when a record is durable that no checkpoint covers.
    uncovered_since: Option<Instant>,
}

impl RecorderTally {
    /// A record has joined the open group.
    pub(crate) fn take(&mut self) {
        self.open_since.get_or_insert_with(Instant::now);
    }

    /// A record was refused.
    pub(crate) fn lose(&mut self) {
        self.lost += 1;
    }

    /// The open group is now being written, and an empty one is open.
    pub(crate) fn begin_writing(&mut self) {
        self.writing_since = self.open_since.take();
    }

    /// That group of so many bytes is durable.
    pub(crate) fn end_writing(&mut self, bytes: usize) {
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

    /// The figures, with what the recorder knows.
    pub(crate) fn figures(&self, durable: u64, waiting_bytes: usize) -> RecorderFigures {
        let since = |moment: Option<Instant>| moment.map_or(Duration::ZERO, |moment| moment.elapsed());
        RecorderFigures {
            durable,
            durable_bytes: self.durable_bytes,
            lost: self.lost,
            waiting_bytes,
            lag: since(self.writing_since.or(self.open_since)),
            checkpoint_lag: since(self.uncovered_since),
        }
    }
}
