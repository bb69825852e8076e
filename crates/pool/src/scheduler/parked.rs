//! Entries that do not wait for their turn: parked ones, which wait for an event, and those that must end soon.

use super::*;

impl<T: Clone> Scheduler<T> {
    /// Parks an entry that no worker runs, if one of them has asked for it; one that was woken meanwhile or must stop is queued.
    pub(super) fn park_if_left(&mut self, index: usize, now: Instant) {
        let entry = &mut self.entries[index];
        if entry.turn != ExclusiveTurn::Released || entry.inside > 0 {
            return;
        }
        let Some(until) = entry.parking.take() else { return };
        if std::mem::take(&mut entry.is_woken) || entry.cancellation.check(now).is_err() {
            self.queue(index, FlowArrival::Returned, now);
            return;
        }
        let until = entry.cancellation.deadline().map_or(until, |deadline| deadline.min(until));
        entry.turn = ExclusiveTurn::Parked(until);
        // Its expected cost does not count against others while it waits.
        let (connection, before) = (entry.connection, std::mem::take(&mut entry.remaining));
        self.flows.expect(connection, before, 0);
        self.parked.insert((until, index));
    }

    /// Queues a parked entry.
    fn unpark(&mut self, index: usize, now: Instant) {
        let entry = &mut self.entries[index];
        let ExclusiveTurn::Parked(until) = entry.turn else { return };
        entry.turn = ExclusiveTurn::Released;
        entry.remaining = FIRST_SLICE_NS;
        let connection = entry.connection;
        self.parked.remove(&(until, index));
        self.flows.expect(connection, 0, FIRST_SLICE_NS);
        self.queue(index, FlowArrival::Returned, now);
    }

    /// Queues parked entries whose time is over: some at once, the others with the next slices.
    pub(super) fn unpark_due(&mut self, now: Instant) {
        for _ in 0..HURRIED_MAX {
            let Some(&(until, index)) = self.parked.first() else { break };
            if until > now {
                break;
            }
            self.unpark(index, now);
        }
    }

    /// Queues a parked entry; one that is not parked yet continues when it would be.
    pub(crate) fn wake(&mut self, ticket: JobTicket, now: Instant) {
        let Some(entry) = self.entries.get_mut(ticket.index).filter(|entry| entry.number == ticket.number) else {
            return;
        };
        match entry.turn {
            ExclusiveTurn::Parked(_) => self.unpark(ticket.index, now),
            ExclusiveTurn::Queued(_) | ExclusiveTurn::Running | ExclusiveTurn::Released => entry.is_woken = true,
        }
    }

    /// When the next parked entry has to be queued, if it is not woken.
    pub(crate) fn next_due(&self) -> Option<Instant> {
        self.parked.first().map(|&(until, _)| until)
    }

    /// Jobs that are parked.
    pub(crate) fn parked(&self) -> usize {
        self.parked.len()
    }

    /// Moves a waiting job to the front of its connection, once, and queues a parked one. Does nothing to a job that runs.
    pub(crate) fn hurry(&mut self, ticket: JobTicket, now: Instant) {
        let Some(entry) = self.entries.get(ticket.index).filter(|entry| entry.number == ticket.number) else {
            return;
        };
        match entry.turn {
            ExclusiveTurn::Queued(EntryQueues::Fair(ConnectionLane::Live)) if !entry.is_hurried => {
                self.put_first(ticket.index)
            }
            ExclusiveTurn::Parked(_) => self.unpark(ticket.index, now),
            _ => {}
        }
    }

    /// Moves some waiting entries whose deadlines have passed to the front of their connections: more than are taken meanwhile, but not so
    /// many that it takes long.
    pub(super) fn hurry_late(&mut self, now: Instant) {
        for _ in 0..HURRIED_MAX {
            let Some(&(deadline, index)) = self.deadlines.first() else { break };
            if deadline > now {
                break;
            }
            self.deadlines.pop_first();
            let entry = &self.entries[index];
            if entry.turn == ExclusiveTurn::Queued(EntryQueues::Fair(ConnectionLane::Live)) && !entry.is_hurried {
                self.put_first(index);
            }
        }
    }
}
