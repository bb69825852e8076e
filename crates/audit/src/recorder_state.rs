//! What the threads of a recorder share.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::figures::RecorderTally;
use crate::retention::PruningLog;
use crate::rings::{RecordRings, RecordTicket};
use crate::sleep::WakeReason;

/// Bounds and pace of a recorder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecorderRules {
    /// Bytes of records that wait to be written.
    pub waiting_bytes_max: usize,
    /// How long records gather that nobody waits for, so that the disk flushes many at once.
    pub gathering: Duration,
    /// How long a write may last until nobody waits for it any more.
    pub write_wait_max: Duration,
    /// Between two checkpoints, while there are new records.
    pub checkpoint_interval: Duration,
    /// Between two attempts while a disk refuses.
    pub retry_interval: Duration,
    /// How long records are kept; all without.
    pub retention: Option<Duration>,
}

impl Default for RecorderRules {
    fn default() -> Self {
        Self {
            waiting_bytes_max: 8 << 20,
            gathering: Duration::from_millis(20),
            write_wait_max: Duration::from_secs(5),
            checkpoint_interval: Duration::from_secs(1),
            retry_interval: Duration::from_millis(500),
            retention: None,
        }
    }
}

/// Unix time in microseconds.
pub type Clock = Box<dyn Fn() -> u64 + Send + Sync>;

pub(crate) struct RecorderShared {
    pub(crate) rules: RecorderRules,
    pub(crate) clock: Clock,
    pub(crate) rings: RecordRings,
    /// The index from which on records are kept, whatever their age.
    pub(crate) kept_from: Arc<AtomicU64>,
    pub(crate) state: Mutex<RecorderState>,
    pub(crate) ended: Condvar,
}

#[derive(Default)]
pub(crate) struct RecorderState {
    pub(crate) fault: Option<String>,
    /// Why no checkpoint can be written. Records are durable without.
    pub(crate) checkpoint_fault: Option<String>,
    pub(crate) tally: RecorderTally,
    pub(crate) is_closed: bool,
    /// The writing thread has ended.
    pub(crate) has_ended: bool,
    /// Everything that was taken has become durable.
    pub(crate) is_complete: bool,
    /// It is not waited for any more.
    pub(crate) is_abandoned: bool,
}

impl RecorderShared {
    pub(crate) fn lock(&self) -> MutexGuard<'_, RecorderState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn close(&self) {
        // First no ring takes any more: once the writer sees that the recorder is closed, it sees every record that was taken.
        self.rings.close();
        self.lock().is_closed = true;
        self.wake_writer();
    }

    /// Another thread has news for the writer.
    pub(crate) fn wake_writer(&self) {
        self.rings.writer.wake(WakeReason::Control);
    }
}

impl PruningLog for RecorderShared {
    type Ticket = RecordTicket;

    fn announce(&self, text: &str) -> Option<RecordTicket> {
        self.rings.put((self.clock)(), &text.as_bytes()[1..], true).ok()
    }

    fn is_durable(&self, ticket: RecordTicket) -> bool {
        self.rings.is_durable(ticket)
    }

    fn kept_from(&self) -> u64 {
        self.kept_from.load(Ordering::Relaxed)
    }
}
