//! The checks after each event of the simulation.

use super::*;

impl World {
    /// Checks which job a worker may take: none with precedence is skipped.
    pub(super) fn check_taken(&mut self, index: usize, is_first: bool, lane: ConnectionLane) {
        let taken = &self.jobs[index];
        assert_eq!(taken.end, None, "no slice returns");
        let (tenant, client, connection) = (taken.tenant, taken.client, taken.connection);
        self.check_passed(index, is_first, lane);
        self.check_ending(index, lane);
        if self.must_stop(&self.jobs[index]) {
            self.seen.ended_first += u64::from(lane == ConnectionLane::Ending);
            let taken = &mut self.jobs[index];
            taken.takes_after_stop += 1;
            assert!(taken.takes_after_stop <= taken.takes_after_stop_max, "the take that ends it is the last");
        }
        for job in self.jobs.iter_mut().filter(|job| job.tenant == tenant) {
            job.quiet = job.quiet.min(match (job.client == client, job.connection == connection) {
                (true, true) => Quiet::None,
                (true, false) => Quiet::Connection,
                (false, _) => Quiet::Client,
            });
        }
    }

    fn check_passed(&mut self, index: usize, is_first: bool, lane: ConnectionLane) {
        let taken = &self.jobs[index];
        for (_, entry) in &self.scheduler.entries {
            let ExclusiveTurn::Queued(EntryQueues::Fair(passed_lane)) = entry.turn else { continue };
            let passed = &self.jobs[entry.item];
            let is_same_client = (passed.tenant, passed.client) == (taken.tenant, taken.client);
            let is_ending = ConnectionLane::Ending == lane || ConnectionLane::Ending == passed_lane;
            if is_same_client && passed.connection == taken.connection && is_ending {
                // Those of a connection that must stop run first in their own order, and take turns with the others.
                continue;
            }
            let may_pass = match passed.quiet {
                Quiet::None => true,
                Quiet::Connection => !is_same_client,
                Quiet::Client => passed.tenant != taken.tenant,
                Quiet::Tenant => false,
            };
            let was_earlier = is_first && index < entry.item && (taken.quiet >= passed.quiet || taken.ties(passed));
            // A stopped one takes the turn of others of its connection.
            let was_earlier = was_earlier || (lane == ConnectionLane::Ending && taken.ties(passed));
            assert!(may_pass || was_earlier, "{} waits for more than the slices in hand: {index}", entry.item);
        }
        if taken.quiet == Quiet::Tenant && self.scheduler.running_slices() == self.plan.workers {
            self.seen.newcomers_waited += 1;
        }
    }

    /// Checks that jobs that must stop end within the fair share of their connection, client and tenant.
    fn check_ending(&mut self, index: usize, lane: ConnectionLane) {
        let (path, workers) = (self.jobs[index].path(), self.workers.len());
        // Each worker may have taken a slice for one flow and for the other that was not expected to be long.
        let lead_max_ns = (2 * workers as u64 + 1) * self.longest_ns();
        self.jobs[index].ending = None;
        for (_, entry) in &self.scheduler.entries {
            let job = &mut self.jobs[entry.item];
            if entry.turn != ExclusiveTurn::Queued(EntryQueues::Fair(ConnectionLane::Ending)) || entry.item == index {
                continue;
            }
            let waiting = job
                .ending
                .get_or_insert_with(|| WaitsToEnd { since: self.served.clone(), live_slices_max: 1 + workers });
            let passed = [job.tenant, job.client, job.connection];
            match (0..3).find(|&level| path[level] != passed[level]) {
                // A live job has its turn at most once per slice that ends a job.
                None if lane == ConnectionLane::Ending => waiting.live_slices_max += 1,
                None => {
                    let left = waiting.live_slices_max.checked_sub(1);
                    waiting.live_slices_max =
                        left.expect("a job that has to stop is passed by others of its connection");
                }
                Some(level) => {
                    let since = |path| got(&self.served, level, path) - got(&waiting.since, level, path);
                    let lead_ns = since(path).saturating_sub(since(passed));
                    assert!(lead_ns <= lead_max_ns, "{lead_ns} ns more than for {}, which has to stop", entry.item);
                }
            }
        }
    }

    /// The longest slice so far, including running ones.
    fn longest_ns(&self) -> u64 {
        let running_slices = self.workers.iter().flatten().map(|work| self.now_ns - work.taken_ns);
        running_slices.fold(self.longest_ns, u64::max)
    }

    /// Checks the properties that hold after every event.
    pub(super) fn check(&self) {
        let scheduler = &self.scheduler;
        let living = self.jobs.iter().filter(|job| job.end.is_none());
        let (jobs, bytes) = living.fold((0, 0), |(jobs, bytes), job| (jobs + 1, bytes + job.bytes));
        assert_eq!((scheduler.jobs(), scheduler.bytes()), (jobs, bytes));
        let working = self.workers[..self.plan.workers].iter().flatten().count();
        assert_eq!(scheduler.running_slices(), working);
        let queued =
            scheduler.entries.iter().filter(|(_, entry)| matches!(entry.turn, ExclusiveTurn::Queued(_))).count();
        assert_eq!(scheduler.waiting(), queued);
        let is_open = scheduler.phase() != SchedulerPhase::Stopped;
        assert!(!is_open || working == self.plan.workers || queued == 0, "no worker is idle while something waits");
        self.check_memory();
    }

    /// Memory is bounded by the jobs held.
    fn check_memory(&self) {
        let scheduler = &self.scheduler;
        let entries = scheduler.entries.len();
        assert!(scheduler.deadlines.len() <= entries);
        for (level, entries, children) in scheduler.flows.remembered() {
            let most = match (level, entries) {
                (0, _) => 2 * entries + IDLE_FLOWS_SPARE,
                (_, 0) => 1,
                (1, _) => 2 * entries + IDLE_FLOWS_SPARE,
                _ => entries + IDLE_CONNECTIONS_MAX + 1,
            };
            assert!(children <= most, "{children} at level {level} for {entries} jobs");
        }
    }

    pub(super) fn check_end(&self) {
        assert!(self.jobs.iter().all(|job| job.end.is_some()), "every job ends");
        let scheduler = &self.scheduler;
        assert_eq!(
            (scheduler.jobs(), scheduler.bytes(), scheduler.waiting(), scheduler.running_slices()),
            (0, 0, 0, 0)
        );
        assert!(scheduler.entries.is_empty() && scheduler.deadlines.is_empty());
        assert!(scheduler.flows.is_empty());
    }
}

/// The account at a level: 0 for the tenant, 1 for its client, 2 for that one's connection.
pub(super) fn account(level: usize, path: [u64; 3]) -> (usize, [u64; 3]) {
    let mut account = [0; 3];
    account[..=level].copy_from_slice(&path[..=level]);
    (level, account)
}

fn got(served: &Served, level: usize, path: [u64; 3]) -> u64 {
    served.get(&account(level, path)).copied().unwrap_or_default()
}
