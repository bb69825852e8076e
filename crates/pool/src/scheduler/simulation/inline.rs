//! Tenants whose small jobs run on the threads that submit them, as fast as these can, beside tenants that always have work waiting: the
//! time of the former is charged as that of the latter, so none gets more than its share.

use super::*;

const SCHEDULES: u64 = 300;
const SLICES: usize = 4_000;
/// Maximum duration of a worker's slice, and of an inline one.
const SLICE_MAX_NS: u64 = 200_000;
const INLINE_MAX_NS: u64 = 20_000;

struct Running {
    job: usize,
    hand: SliceHandle,
    began_ns: u64,
    until_ns: u64,
}

struct Floor {
    rng: StdRng,
    scheduler: Scheduler<usize>,
    start: Instant,
    now_ns: u64,
    workers: usize,
    /// Workers, then threads that submit the jobs of an eager tenant each.
    threads: Vec<Option<Running>>,
    /// Tenants that always have work: the first ones. The others are eager.
    busy: usize,
    slice_ns: Vec<u64>,
    /// Finished service by tenant.
    served_ns: Vec<u64>,
    /// The tenant of each job, and jobs of an eager tenant that wait.
    jobs: Vec<usize>,
    waiting: Vec<usize>,
    waiting_max: usize,
    inline: u64,
}

impl Floor {
    fn new(mut rng: StdRng) -> Floor {
        let most = Amount { jobs: usize::MAX, bytes: usize::MAX };
        let limits = LedgerLimits { total: most, tenant: most, connection: most };
        let (workers, busy, eager) = (rng.random_range(1..=4), rng.random_range(1..4), rng.random_range(1..3));
        let slice_ns = (0..busy).map(|_| [2_000, 50_000, SLICE_MAX_NS][rng.random_range(0..3)]).collect();
        let mut floor = Floor {
            scheduler: Scheduler::new(limits, Scheduling::Fair, workers, true),
            start: Instant::now(),
            now_ns: 0,
            workers,
            threads: (0..workers + eager).map(|_| None).collect(),
            busy,
            slice_ns,
            served_ns: vec![0; busy + eager],
            jobs: Vec::new(),
            waiting: vec![0; busy + eager],
            waiting_max: rng.random_range(1..4),
            inline: 0,
            rng,
        };
        for tenant in 0..busy {
            (0..=floor.threads.len()).for_each(|_| _ = floor.submit(tenant));
        }
        floor
    }

    fn instant(&self) -> Instant {
        self.start + Duration::from_nanos(self.now_ns)
    }

    fn submit(&mut self, tenant: usize) -> JobTicket {
        let (job, number) = (self.jobs.len(), tenant as u64);
        self.jobs.push(tenant);
        let cancellation = Arc::default();
        let admission = Admission { tenant: number, client: number, connection: number, bytes: 0, cancellation };
        self.scheduler.admit(job, admission, self.instant()).expect("there is room")
    }

    fn begin(&mut self, thread: usize, taken: TakenSlice<usize>) {
        let TakenSlice { item: job, hand, .. } = taken;
        let most = self.slice_ns.get(self.jobs[job]).copied().unwrap_or(INLINE_MAX_NS);
        let until_ns = self.now_ns + self.rng.random_range(1_000..=most);
        self.threads[thread] = Some(Running { job, hand, began_ns: self.now_ns, until_ns });
    }

    /// Gives every idle thread something to do: submitters submit until they run a job or enough of theirs wait.
    fn hand_out(&mut self) {
        for thread in self.workers..self.threads.len() {
            let tenant = self.busy + thread - self.workers;
            while self.threads[thread].is_none() && self.waiting[tenant] < self.waiting_max {
                let ticket = self.submit(tenant);
                match self.scheduler.take_inline(ticket, self.instant()) {
                    Some(taken) => {
                        self.inline += 1;
                        self.begin(thread, taken);
                    }
                    None => self.waiting[tenant] += 1,
                }
            }
        }
        for worker in 0..self.workers {
            if self.threads[worker].is_none() {
                let taken = self.scheduler.take(self.instant()).expect("something always waits");
                self.begin(worker, taken);
            }
        }
    }

    /// Ends the next slice. Every job has one slice; a busy tenant replaces it at once.
    fn step(&mut self) {
        self.hand_out();
        let until = |thread: &Option<Running>| thread.as_ref().map_or(u64::MAX, |running| running.until_ns);
        let thread = (0..self.threads.len()).min_by_key(|&thread| until(&self.threads[thread])).expect("threads");
        let Running { job, hand, began_ns, until_ns } = self.threads[thread].take().expect("it works");
        self.now_ns = until_ns;
        let (tenant, cost_ns) = (self.jobs[job], until_ns - began_ns);
        self.served_ns[tenant] += cost_ns;
        let cost = Duration::from_nanos(cost_ns);
        let ending = self.scheduler.give_back(hand, SliceOutcome::Done, cost, self.instant()).expect("it is done");
        self.scheduler.release(ending.receipt);
        if tenant < self.busy {
            self.submit(tenant);
        } else if thread < self.workers {
            self.waiting[tenant] -= 1;
        }
    }

    /// Service so far, including running slices.
    fn service(&self, tenant: usize) -> u64 {
        let running = self.threads.iter().flatten().filter(|running| self.jobs[running.job] == tenant);
        self.served_ns[tenant] + running.map(|running| self.now_ns - running.began_ns).sum::<u64>()
    }
}

#[test]
fn inline_work_is_charged_and_gains_nothing() {
    let mut inline = 0;
    let is_whole = play(SCHEDULES, |rng| {
        let mut floor = Floor::new(rng);
        // As between busy flows, with one worker more for each thread that submits.
        let most = SLICE_MAX_NS * (floor.threads.len() as u64 + 3) / 2;
        for _ in 0..SLICES {
            floor.step();
            let least = (0..floor.busy).map(|tenant| floor.service(tenant)).min().expect("tenants");
            for tenant in floor.busy..floor.served_ns.len() {
                let won = floor.service(tenant).saturating_sub(least);
                assert!(won <= most, "{won} ns more for a tenant whose jobs run inline");
            }
        }
        inline += floor.inline;
    });
    assert!(!is_whole || inline > 10_000, "{inline} slices ran inline");
}
