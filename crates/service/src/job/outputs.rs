//! The buffers of a request.

use std::collections::{BTreeMap, VecDeque};

use super::RunningPart;
use crate::rope::{FREED_BUFFERS_MAX, Rope};

/// The data of a request's job.
#[derive(Default)]
pub(super) struct JobOutputs {
    /// The output of the request's own steps; empty while one runs.
    pub(super) head: Vec<u8>,
    /// The contiguous output from the beginning, once the request has spread or is done.
    pub(super) written: Rope,
    /// The output after it: that of each part, once it is done.
    pub(super) parts: VecDeque<Option<Vec<u8>>>,
    /// Paused parts, by number.
    pub(super) paused: BTreeMap<u64, RunningPart>,
}

impl JobOutputs {
    /// Values processed by paused parts.
    pub(super) fn paused_fields(&self) -> u64 {
        self.paused.values().map(|running| running.part.fields()).sum()
    }

    /// The number of buffers, written and reserved.
    pub(super) fn count(&self) -> usize {
        self.written.count() + self.parts.len()
    }

    /// Takes as many buffers as are freed in one step.
    pub(super) fn take_some(&mut self) -> Vec<Vec<u8>> {
        let JobOutputs { written, parts, .. } = self;
        let last = std::iter::from_fn(|| parts.pop_back().or_else(|| written.pop().map(Some)));
        last.take(FREED_BUFFERS_MAX).flatten().collect()
    }
}
