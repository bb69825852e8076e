//! Slices that run on the thread that submits their job.

use super::*;

impl<T: Clone> Scheduler<T> {
    /// The slice of a job that has just been admitted, if it is the next one and nothing else of its tenant waits: it overtakes none. It
    /// does not count as running on a worker, but is charged as any other. None where jobs are served in the order of arrival.
    pub(crate) fn take_inline(&mut self, ticket: JobTicket, now: Instant) -> Option<TakenSlice<T>> {
        if self.scheduling == Scheduling::FirstComeFirstServed || self.phase == SchedulerPhase::Stopped {
            return None;
        }
        self.unpark_due(now);
        self.hurry_late(now);
        let is_next = self.flows.first() == Some(ticket.index);
        let is_alone = self.flows.waits_alone(self.entries[ticket.index].connection);
        (is_next && is_alone).then(|| self.begin_slice(ticket.index, true))
    }
}
