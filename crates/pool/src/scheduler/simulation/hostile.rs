//! A tenant that lets jobs expire or cancels them as fast as it can, from one connection or a thousand, also while the threads that submit
//! its jobs run them: how long the jobs of a quiet tenant take meanwhile, compared with the same load of jobs that are not cancelled.

use std::ops::Range;

use super::workers::Workers;
use super::*;

const SCHEDULES: u64 = 2_000;
const QUIET_JOBS: usize = 60;
/// Cost of ending a stopped job.
const ENDING_NS: Range<u64> = 1_000..6_000;
const QUIET: u64 = 0;
const HOSTILE: u64 = 1;
/// Cost of a slice on a thread that submits.
const INLINE_NS: Range<u64> = 1_000..20_000;
/// The first of other tenants that are always busy, of which there are up to two: without them a hostile job is often the next.
const BUSY_FIRST: u64 = 2;

/// The behaviour of the hostile tenant's jobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Behaviour {
    /// Nothing: the reference load.
    Waits,
    Expires,
    Cancels,
    /// Its jobs run on the threads that submit them wherever the scheduler permits it; all others are cancelled.
    CancelsInline,
}

struct Job {
    tenant: u64,
    cancellation: Arc<Cancellation>,
    submitted_ns: u64,
}

struct HostileSimulation {
    rng: StdRng,
    workers: Workers,
    behaviour: Behaviour,
    connections: u64,
    busy: Range<u64>,
    /// Jobs that the hostile tenant keeps in the queue.
    most: usize,
    slice_ns: u64,
    jobs: Vec<Job>,
    /// When the quiet tenant's next job arrives, while it has none.
    quiet_ns: Option<u64>,
    took_ns: Vec<u64>,
    inline: u64,
}

/// The durations of the quiet tenant's jobs, in order, and how many of the hostile tenant's ran on threads that submit.
struct HostileOutcome {
    took_ns: Vec<u64>,
    inline: u64,
}

impl HostileSimulation {
    fn new(mut rng: StdRng, behaviour: Behaviour) -> Self {
        let workers = Workers::new(rng.random_range(1..=4), usize::MAX, rng.random());
        let workers = workers.with_submitters(rng.random_range(1..=2));
        let connections = [1, 10, 1_000][rng.random_range(0..3)];
        let most = [1, 16, 256, 1_024][rng.random_range(0..4)];
        let slice_ns = [20_000, 50_000, 150_000][rng.random_range(0..3)];
        let busy = BUSY_FIRST..BUSY_FIRST + rng.random_range(0..=2);
        let jobs = Vec::new();
        let mut simulation = HostileSimulation {
            rng,
            workers,
            behaviour,
            connections,
            busy: busy.clone(),
            most,
            slice_ns,
            jobs,
            quiet_ns: Some(0),
            took_ns: Vec::new(),
            inline: 0,
        };
        for tenant in busy {
            (0..=simulation.workers.count()).for_each(|_| simulation.submit(tenant));
        }
        (0..most).for_each(|_| simulation.submit(HOSTILE));
        simulation
    }

    fn submit(&mut self, tenant: u64) {
        let cancellation = Arc::new(Cancellation::new());
        let is_hostile = tenant == HOSTILE;
        let is_inline = is_hostile && self.behaviour == Behaviour::CancelsInline;
        if is_inline && !self.workers.may_submit() {
            return;
        }
        if is_hostile && self.behaviour == Behaviour::Expires {
            // Many at the same moment.
            let deadline_ns = (self.workers.now_ns / 300_000 + 1) * 300_000;
            cancellation.set_deadline(self.workers.at(deadline_ns));
        }
        // Drawn for every behaviour, so that all have the same schedule.
        let connection = self.rng.random_range(0..self.connections);
        let connection = if is_hostile { connection } else { 0 };
        let job = self.jobs.len();
        self.jobs.push(Job { tenant, cancellation: Arc::clone(&cancellation), submitted_ns: self.workers.now_ns });
        let admission =
            Admission { tenant, client: tenant, connection, bytes: 100, cancellation: Arc::clone(&cancellation) };
        let now = self.workers.now();
        // A refusal ends a job too.
        let Ok(ticket) = self.workers.scheduler.admit(job, admission, now) else { return };
        if is_inline && self.workers.run_inline(ticket, self.rng.random_range(INLINE_NS)) {
            self.inline += 1;
            return;
        }
        if is_inline || is_hostile && self.behaviour == Behaviour::Cancels {
            cancellation.cancel(CancelReason::Cancelled);
            self.workers.scheduler.hurry(ticket, now);
        }
    }

    fn arrive(&mut self) {
        while self.quiet_ns.is_some_and(|at| at <= self.workers.now_ns) {
            self.quiet_ns = None;
            self.submit(QUIET);
        }
    }

    fn step(&mut self) {
        self.arrive();
        let now = self.workers.now();
        let HostileSimulation { rng, workers, jobs, slice_ns, .. } = self;
        workers.hand_out(|job| match jobs[job].cancellation.check(now) {
            Ok(()) => rng.random_range(1_000..*slice_ns),
            Err(_) => rng.random_range(ENDING_NS),
        });
        // The quiet tenant's job may arrive while all workers are busy.
        if let Some(at) = self.quiet_ns
            && self.workers.next_ns().is_none_or(|next| at < next)
        {
            self.workers.now_ns = at;
            return;
        }
        let ended = self.workers.end_next();
        let job = &self.jobs[ended.job];
        let (tenant, submitted_ns) = (job.tenant, job.submitted_ns);
        let is_busy = self.busy.contains(&tenant);
        self.workers.give_back(&ended, if is_busy { SliceOutcome::More } else { SliceOutcome::Done });
        if tenant == QUIET {
            self.took_ns.push(self.workers.now_ns - submitted_ns);
            self.quiet_ns = Some(self.workers.now_ns + self.rng.random_range(0..100_000));
        } else if tenant == HOSTILE {
            // As fast as it can: at once, and after a refusal with the next job that ends.
            let of_busy = self.busy.clone().count() * (self.workers.count() + 1);
            while self.workers.scheduler.jobs() < self.most + of_busy {
                let before = self.workers.scheduler.jobs();
                self.submit(HOSTILE);
                if self.workers.scheduler.jobs() == before {
                    break;
                }
            }
        }
    }

    fn run(mut self) -> HostileOutcome {
        while self.took_ns.len() < QUIET_JOBS {
            self.step();
        }
        self.took_ns.sort_unstable();
        HostileOutcome { took_ns: self.took_ns, inline: self.inline }
    }
}

fn p99(took_ns: &[u64]) -> u64 {
    took_ns[took_ns.len() * 99 / 100]
}

#[test]
fn jobs_cancelled_as_fast_as_possible_do_not_affect_a_quiet_tenant() {
    let (mut all, mut inline): ([Vec<u64>; 4], u64) = Default::default();
    let is_whole = play(SCHEDULES, |mut rng| {
        let seed = rng.random();
        let habits = [Behaviour::Waits, Behaviour::Expires, Behaviour::Cancels, Behaviour::CancelsInline];
        let outcomes = habits.map(|behaviour| HostileSimulation::new(StdRng::seed_from_u64(seed), behaviour).run());
        let [waits, given_up @ ..] = outcomes.each_ref().map(|outcome| p99(&outcome.took_ns));
        for (behaviour, p99) in habits[1..].iter().zip(given_up) {
            assert!(p99 <= 2 * waits, "{behaviour:?}: {p99} ns against {waits}");
        }
        inline += outcomes.iter().map(|outcome| outcome.inline).sum::<u64>();
        all.iter_mut().zip(outcomes).for_each(|(all, outcome)| all.extend(outcome.took_ns));
    });
    let [waits, given_up @ ..] = all.map(|mut took_ns| {
        took_ns.sort_unstable();
        p99(&took_ns)
    });
    assert!(given_up.iter().all(|p99| *p99 <= 2 * waits), "{given_up:?} ns, waits {waits}");
    assert!(!is_whole || inline > 10_000, "{inline} slices ran inline");
}
