//! A request whose first slice runs on the thread that has submitted it: only counted steps of its own.

use super::*;

impl JobState {
    /// Whether the next step of the request may run in this slice. On a worker any may.
    pub(super) fn allows_step(&self, visit: &Visit<'_>) -> bool {
        if !visit.turn.is_inline() {
            return true;
        }
        let work = self.request.as_ref().filter(|_| self.phase == Phase::Alone).and_then(RequestStage::counted_work);
        visit.turn.takes(work)
    }
}
