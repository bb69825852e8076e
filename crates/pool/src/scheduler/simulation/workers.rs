//! Virtual workers, and threads that submit, which run slices of given lengths, for simulations of fairness and latency.

use super::*;

/// Jobs are numbered by their submitters.
pub(super) struct Workers {
    pub(super) scheduler: Scheduler<usize>,
    start: Instant,
    pub(super) now_ns: u64,
    /// Workers, then threads that submit.
    hands: Vec<Option<Work>>,
    workers: usize,
}

struct Work {
    job: usize,
    hand: SliceHandle,
    began_ns: u64,
    until_ns: u64,
}

/// A finished slice.
pub(super) struct Ended {
    pub(super) job: usize,
    pub(super) hand: SliceHandle,
    pub(super) cost_ns: u64,
}

impl Workers {
    pub(super) fn new(workers: usize, jobs_max: usize, refuses_early: bool) -> Self {
        let most = Amount { jobs: jobs_max, bytes: usize::MAX };
        let limits = LedgerLimits { total: most, tenant: most, connection: most };
        Workers {
            scheduler: Scheduler::new(limits, Scheduling::Fair, workers, refuses_early),
            start: Instant::now(),
            now_ns: 0,
            hands: (0..workers).map(|_| None).collect(),
            workers,
        }
    }

    /// With threads that submit jobs, and may run the first slice of each.
    pub(super) fn with_submitters(mut self, submitters: usize) -> Self {
        self.hands.extend((0..submitters).map(|_| None));
        self
    }

    pub(super) fn count(&self) -> usize {
        self.workers
    }

    /// Whether a thread that submits has nothing to run.
    pub(super) fn may_submit(&self) -> bool {
        self.hands[self.workers..].iter().any(Option::is_none)
    }

    /// Runs the first slice of a job, of this length, on a thread that submits, if one is idle and the scheduler permits it.
    pub(super) fn run_inline(&mut self, ticket: JobTicket, cost_ns: u64) -> bool {
        let now = self.now();
        let Some(place) = self.hands[self.workers..].iter_mut().find(|hand| hand.is_none()) else { return false };
        let Some(TakenSlice { item: job, hand, .. }) = self.scheduler.take_inline(ticket, now) else { return false };
        *place = Some(Work { job, hand, began_ns: self.now_ns, until_ns: self.now_ns + cost_ns });
        true
    }

    pub(super) fn now(&self) -> Instant {
        self.at(self.now_ns)
    }

    pub(super) fn at(&self, ns: u64) -> Instant {
        self.start + Duration::from_nanos(ns)
    }

    /// Assigns waiting jobs to idle workers; `cost_ns` returns the length of a job's next slice.
    pub(super) fn hand_out(&mut self, mut cost_ns: impl FnMut(usize) -> u64) {
        let now = self.now();
        for place in self.hands[..self.workers].iter_mut().filter(|hand| hand.is_none()) {
            let Some(TakenSlice { item: job, hand, .. }) = self.scheduler.take(now) else { return };
            let until_ns = self.now_ns + cost_ns(job);
            *place = Some(Work { job, hand, began_ns: self.now_ns, until_ns });
        }
    }

    /// When the next slice ends.
    pub(super) fn next_ns(&self) -> Option<u64> {
        self.hands.iter().flatten().map(|work| work.until_ns).min()
    }

    /// Advances to the end of the next slice.
    pub(super) fn end_next(&mut self) -> Ended {
        let next_ns = self.next_ns().expect("a worker works");
        let is_next = |hand: &&mut Option<Work>| hand.as_ref().is_some_and(|work| work.until_ns == next_ns);
        let work = self.hands.iter_mut().find(is_next).and_then(Option::take).expect("it works");
        self.now_ns = next_ns;
        Ended { job: work.job, hand: work.hand, cost_ns: next_ns - work.began_ns }
    }

    pub(super) fn give_back(&mut self, ended: &Ended, outcome: SliceOutcome) {
        let cost = Duration::from_nanos(ended.cost_ns);
        if let Some(ending) = self.scheduler.give_back(ended.hand, outcome, cost, self.now()) {
            self.scheduler.release(ending.receipt);
        }
    }
}
