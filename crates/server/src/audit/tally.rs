//! What the audit log of a server has done, for metrics.

use std::sync::atomic::{AtomicU64, Ordering};

use leafseal_engine::audit::RecorderFigures;

use super::ForwardingFigures;

/// Figures of the audit log at one moment; counts are since the start.
#[derive(Debug, Clone, Default)]
pub(crate) struct AuditFigures {
    /// Whether there is one.
    pub(crate) is_on: bool,
    /// Whether it takes no records.
    pub(crate) refuses: bool,
    /// Records of requests while it was not open.
    pub(crate) not_recorded: u64,
    /// Answers that were not sent because their records were not durable.
    pub(crate) withheld: u64,
    /// Refusals of callers who have shown no certificate and no key.
    pub(crate) strangers: u64,
    pub(crate) recorder: RecorderFigures,
    pub(crate) forwarding: ForwardingFigures,
}

/// Counts since the start. Relaxed ordering suffices: no other data depends on them.
#[derive(Debug, Default)]
pub(super) struct AuditTally {
    not_recorded: AtomicU64,
    withheld: AtomicU64,
    strangers: AtomicU64,
}

impl AuditTally {
    pub(super) fn count_not_recorded(&self) {
        self.not_recorded.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn count_withheld(&self) {
        self.withheld.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn count_stranger(&self) {
        self.strangers.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn figures(
        &self,
        refuses: bool,
        recorder: RecorderFigures,
        forwarding: ForwardingFigures,
    ) -> AuditFigures {
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let (not_recorded, withheld) = (read(&self.not_recorded), read(&self.withheld));
        AuditFigures {
            is_on: true,
            refuses,
            not_recorded,
            withheld,
            strangers: read(&self.strangers),
            recorder,
            forwarding,
        }
    }
}
