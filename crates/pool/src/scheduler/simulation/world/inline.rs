//! Jobs whose submitters run the first slice.

use super::*;

impl World {
    /// Runs the first slice of a job on a thread that submits, if one is idle and it may.
    pub(super) fn run_inline(&mut self, ticket: JobTicket) {
        let idle = (self.plan.workers..self.workers.len()).find(|&thread| self.workers[thread].is_none());
        let Some(thread) = idle.filter(|_| self.chance(self.plan.inline)) else { return };
        let now = self.instant();
        if let Some(taken) = self.scheduler.take_inline(ticket, now) {
            let own = &self.jobs[taken.item];
            let waits = |entry: &QueueEntry<usize>| matches!(entry.turn, ExclusiveTurn::Queued(_));
            let mut others = self.scheduler.entries.iter().filter(|(_, entry)| waits(entry));
            assert!(others.all(|(_, entry)| self.jobs[entry.item].tenant != own.tenant), "another job of it waits");
            self.seen.inline += 1;
            self.assign(thread, taken);
        }
    }
}
