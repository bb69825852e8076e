//! How much work a filter has done, and how much it may do.

use crate::error::{DocumentError, DocumentErrorKind};

/// Bytes of text that comparing or matching passes in about the time of one step.
const BYTES_PER_STEP: usize = 16;
/// Bytes of escaped text, as they are written, that are decoded in about the time of one step.
const DECODED_PER_STEP: usize = 8;

/// The work done, its bound, and where to stop for now.
#[derive(Debug)]
pub(crate) struct Steps {
    taken: u64,
    max: u64,
    stop: u64,
}

impl Steps {
    pub(super) fn new(max: u64) -> Self {
        Steps { taken: 0, max, stop: 0 }
    }

    /// From now on `count` steps may be taken, at least one.
    pub(super) fn begin_run(&mut self, count: usize) {
        self.stop = self.taken.saturating_add(count.max(1) as u64);
    }

    /// Whether it is time to stop.
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

    /// Takes what passing so many bytes comes to.
    #[inline]
    pub(super) fn take_bytes(&mut self, count: usize) -> Result<(), DocumentError> {
        self.take((count / BYTES_PER_STEP) as u64)
    }

    /// Takes what decoding so many bytes comes to.
    #[inline]
    pub(super) fn take_decoded(&mut self, count: usize) -> Result<(), DocumentError> {
        self.take((count / DECODED_PER_STEP) as u64)
    }
}
