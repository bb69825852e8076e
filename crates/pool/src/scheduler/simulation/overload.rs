//! Ten times the load that the workers can process, with deadlines: almost all of the work that they do is finished in time.

use super::workers::Workers;
use super::*;

const DEADLINE_NS: u64 = 500_000_000;
/// The engine's default limit of jobs.
const JOBS_MAX: usize = 8_192;

struct Job {
    cancellation: Arc<Cancellation>,
    deadline_ns: u64,
    /// Its cost, and what is left of it.
    cost_ns: u64,
    left_ns: u64,
    /// A slice found that the job was stopped.
    is_stopped: bool,
}

/// Duration of half the workers' capacity at the start, in which the cost of jobs is learned.
const QUIET_NS: u64 = 500_000_000;
const SLICE_NS: u64 = 50_000;
const ENDING_NS: u64 = 3_000;
const INTERRUPTION_NS: u64 = 4_000_000;

/// The amount and the kind of load.
struct Plan {
    workers: usize,
    tenants: u64,
    clients: u64,
    connections: u64,
    /// The mean cost of a job; the costs of a tenant's jobs differ by `spread`.
    cost_ns: u64,
    spread: u64,
    /// The chance, in a thousand, that the system interrupts a slice.
    interrupted: u32,
    /// The duration, and the load as a multiple of the workers' capacity.
    time_ns: u64,
    load: u64,
}

impl Plan {
    fn random(rng: &mut StdRng) -> Plan {
        Plan {
            workers: rng.random_range(1..=4),
            tenants: rng.random_range(1..4),
            clients: rng.random_range(1..4),
            connections: [1, 8, 200][rng.random_range(0..3)],
            cost_ns: [300_000, 1_000_000, 4_000_000][rng.random_range(0..3)],
            spread: [1, 4, 30][rng.random_range(0..3)],
            interrupted: [0, 0, 10][rng.random_range(0..3)],
            time_ns: 4_000_000_000,
            load: 10,
        }
    }
}

impl Plan {
    /// Nanoseconds of work that the workers do per nanosecond.
    fn capacity(&self) -> f64 {
        let interruption = f64::from(self.interrupted) / 1000.0 * INTERRUPTION_NS as f64;
        self.workers as f64 * SLICE_NS as f64 / (SLICE_NS as f64 + interruption)
    }
}

struct Overload {
    rng: StdRng,
    plan: Plan,
    workers: Workers,
    jobs: Slab<Job>,
    next_ns: u64,
    in_time_ns: u64,
    refused: u64,
}

impl Overload {
    fn new(rng: StdRng, plan: Plan) -> Self {
        let workers = Workers::new(plan.workers, JOBS_MAX, true);
        Overload { rng, plan, workers, jobs: Slab::new(), next_ns: 0, in_time_ns: 0, refused: 0 }
    }

    fn arrive(&mut self) {
        let plan = &self.plan;
        let load = if self.next_ns < QUIET_NS { 0.5 } else { plan.load as f64 };
        let pause_ns = (plan.cost_ns as f64 / load / plan.capacity()) as u64;
        self.next_ns += self.rng.random_range(0..=2 * pause_ns);
        let tenant = self.rng.random_range(0..plan.tenants);
        // The cost per byte differs by tenant, and the number of bytes by job.
        let times = self.rng.random_range(1..=2 * plan.spread - 1);
        let cost_ns = plan.cost_ns * times / plan.spread;
        let bytes = cost_ns / 10 / (tenant + 1);
        let deadline_ns = self.workers.now_ns + DEADLINE_NS;
        let cancellation = Arc::new(Cancellation::new());
        cancellation.set_deadline(self.workers.at(deadline_ns));
        let admission = Admission {
            tenant,
            client: self.rng.random_range(0..plan.clients),
            connection: self.rng.random_range(0..plan.connections),
            bytes: usize::try_from(bytes).expect("few"),
            cancellation: Arc::clone(&cancellation),
        };
        let job = self.jobs.insert(Job { cancellation, deadline_ns, cost_ns, left_ns: cost_ns, is_stopped: false });
        let now = self.workers.now();
        if self.workers.scheduler.admit(job, admission, now).is_err() {
            self.refused += 1;
            self.jobs.remove(job);
        }
    }

    fn step(&mut self) {
        let now = self.workers.now();
        let Overload { rng, plan, workers, jobs, .. } = self;
        workers.hand_out(|job| {
            let job = &mut jobs[job];
            if job.cancellation.check(now).is_err() {
                job.is_stopped = true;
                return ENDING_NS;
            }
            let work_ns = job.left_ns.min(SLICE_NS);
            job.left_ns -= work_ns;
            let is_interrupted = rng.random_range(0..1000) < plan.interrupted;
            work_ns + if is_interrupted { INTERRUPTION_NS } else { 0 }
        });
        if self.workers.next_ns().is_none_or(|next| self.next_ns < next) {
            self.workers.now_ns = self.next_ns;
            return self.arrive();
        }
        let ended = self.workers.end_next();
        let job = &self.jobs[ended.job];
        if job.left_ns > 0 && !job.is_stopped {
            return self.workers.give_back(&ended, SliceOutcome::More);
        }
        if !job.is_stopped && self.workers.now_ns <= job.deadline_ns {
            self.in_time_ns += job.cost_ns;
        }
        self.jobs.remove(ended.job);
        self.workers.give_back(&ended, SliceOutcome::Done);
    }

    /// The work finished in time, as a share of the workers' capacity.
    fn run(mut self) -> f64 {
        while self.workers.now_ns < QUIET_NS {
            self.step();
        }
        assert_eq!(self.refused, 0, "there is time for all");
        self.in_time_ns = 0;
        while self.workers.now_ns < QUIET_NS + self.plan.time_ns {
            self.step();
        }
        assert!(self.refused > 0, "too much for all");
        self.in_time_ns as f64 / (self.plan.time_ns as f64 * self.plan.capacity())
    }
}

#[test]
fn at_ten_times_their_capacity_workers_finish_nine_tenths_of_it_in_time() {
    play(30, |mut rng| {
        let plan = Plan::random(&mut rng);
        let goodput = Overload::new(rng, plan).run();
        assert!(goodput > 0.9, "{goodput}");
    });
}

/// Jobs of one or two fields, one connection, one minute.
#[test]
fn a_minute_of_overload_changes_nothing() {
    play(1, |rng| {
        let plan = Plan {
            workers: 1,
            tenants: 1,
            clients: 1,
            connections: 50,
            cost_ns: 1_000_000,
            spread: 2,
            interrupted: 0,
            time_ns: 60_000_000_000,
            load: 10,
        };
        let goodput = Overload::new(rng, plan).run();
        assert!(goodput > 0.9, "{goodput}");
    });
}
