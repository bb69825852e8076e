//! A request that lacks an entry which is being looked up waits, on no worker, and repeats its step.

use super::*;

impl JobState {
    /// Leaves until what the last step lacked has been looked up, or ends the request if that takes too long. Others that run it find that
    /// out themselves.
    pub(super) fn park(&mut self, visit: &Visit<'_>, parking: Parking) -> WorkerTask {
        let since = *self.parked_since.get_or_insert(visit.now);
        if visit.now.saturating_duration_since(since) >= parking.limit {
            self.end_at(WHOLE, Ending::NotFoundInTime);
            return if self.is_complete() { self.free_or_end(visit) } else { self.leave() };
        }
        WorkerTask::Leave(if self.busy > 0 { Slice::Left } else { Slice::Park(since + parking.limit) })
    }

    pub(super) fn leave(&self) -> WorkerTask {
        WorkerTask::Leave(if self.has_more() { Slice::More } else { Slice::Left })
    }
}

impl<'a> Visit<'a> {
    /// Keeps a request whose step is to be repeated, without what it has written.
    pub(super) fn repeat(
        &mut self,
        request: RequestStage,
        mut head: Vec<u8>,
        before: usize,
        size: usize,
    ) -> MutexGuard<'a, JobState> {
        head.truncate(size);
        self.now = self.turn.now();
        let mut state = self.job.lock();
        state.busy -= 1;
        state.request = Some(request);
        state.charge(before, head.capacity());
        state.outputs.head = head;
        state
    }
}
