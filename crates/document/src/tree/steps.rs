//! Counts the work of filters and limits it.

use crate::error::{DocumentError, DocumentErrorKind};

/// Bytes of text compared or matched in about the time of one step.
const BYTES_PER_STEP: usize = 16;
/// Bytes of escaped text decoded in about the time of one step.
const DECODED_PER_STEP: usize = 8;

/// The work done, its limit, and where to stop in this run.
#[derive(Debug)]
pub(crate) struct StepBudget {
    taken: u64,
    max: u64,
    stop: u64,
}

impl StepBudget {
    pub(super) fn new(max: u64) -> Self {
        StepBudget { taken: 0, max, stop: 0 }
    }

    /// Starts a run of `count` steps, at least one.
    pub(super) fn begin_run(&mut self, count: usize) {
        self.stop = self.taken.saturating_add(count.max(1) as u64);
    }

    /// All steps so far.
    pub(super) fn taken(&self) -> u64 {
        self.taken
    }

    /// Whether the run should stop.
    #[inline]
    pub(super) fn is_over(&self) -> bool {
        self.taken >= self.stop
    }

    #[inline]
    pub(super) fn take(&mut self, count: u64) -> Result<(), DocumentError> {
        self.taken = self.taken.saturating_add(count);
        match self.taken > self.max {
            true => Err(DocumentError::new(DocumentErrorKind::FilterTooCostly(self.max), 0)),
            false => Ok(()),
        }
    }

    /// Charges the comparison of this many bytes.
    #[inline]
    pub(super) fn take_bytes(&mut self, count: usize) -> Result<(), DocumentError> {
        self.take((count / BYTES_PER_STEP) as u64)
    }

    /// Charges the decoding of this many bytes.
    #[inline]
    pub(super) fn take_decoded(&mut self, count: usize) -> Result<(), DocumentError> {
        self.take((count / DECODED_PER_STEP) as u64)
    }
}
