//! Virtual workers, jobs and time around a scheduler, with checks after each event.

use std::collections::BTreeMap;
use std::ops::Range;

use super::*;

mod checks;
mod inline;

use checks::account;

/// The properties of arriving jobs.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub(super) workers: usize,
    jobs: u64,
    tenants: u64,
    clients: u64,
    connections: u64,
    limits: LedgerLimits,
    refuses_early: bool,
    /// Time between two arrivals.
    pause_ns: Range<u64>,
    parts: Range<u32>,
    pub(super) part_ns: Range<u64>,
    /// From the assignment of a slice to its start.
    latency_ns: Range<u64>,
    /// Chances of each event, in percent.
    shares: u32,
    cancelled: u32,
    deadline: u32,
    panics: u32,
    /// Jobs of a tenant or a connection that is new.
    newcomers: u32,
    /// Parts that are paused half-way.
    put_aside: u32,
    /// Jobs that their submitter would run itself.
    inline: u32,
    stops: u32,
}

/// Threads that submit jobs.
const SUBMITTERS: usize = 2;

impl Plan {
    pub(super) fn random(rng: &mut StdRng) -> Plan {
        let amount = |rng: &mut StdRng| Amount { jobs: rng.random_range(1..40), bytes: rng.random_range(50..2000) };
        let most = Amount { jobs: usize::MAX, bytes: usize::MAX };
        let limit = |rng: &mut StdRng| if rng.random_range(0..3) == 0 { amount(rng) } else { most };
        let limits = LedgerLimits { total: limit(rng), tenant: limit(rng), connection: limit(rng) };
        let part = [5_000, 50_000, 150_000][rng.random_range(0..3)];
        let workers = rng.random_range(1..=8);
        let parts = rng.random_range(2..30);
        // From far too much to little.
        let load_ns = part * u64::from(parts) / 4 / workers as u64;
        Plan {
            workers,
            jobs: rng.random_range(1..100),
            tenants: rng.random_range(1..5),
            clients: rng.random_range(1..4),
            connections: rng.random_range(1..5),
            limits,
            refuses_early: rng.random(),
            pause_ns: 0..load_ns * rng.random_range(1..20) / 4 + 2,
            parts: 1..parts,
            part_ns: 500..part,
            latency_ns: 0..[1, 3_000, 30_000][rng.random_range(0..3)],
            shares: rng.random_range(0..=100),
            cancelled: rng.random_range(0..40),
            deadline: rng.random_range(0..40),
            panics: rng.random_range(0..3),
            newcomers: rng.random_range(0..30),
            put_aside: rng.random_range(0..30),
            inline: rng.random_range(0..100),
            stops: 10,
        }
    }

    /// Plans a single job of equal parts that can be shared.
    pub(super) fn parallel(workers: usize, parts: u32) -> Plan {
        let most = Amount { jobs: 1, bytes: 1000 };
        Plan {
            workers,
            jobs: 1,
            tenants: 1,
            clients: 1,
            connections: 1,
            refuses_early: true,
            limits: LedgerLimits { total: most, tenant: most, connection: most },
            pause_ns: 0..1,
            parts: parts..parts + 1,
            part_ns: 50_000..50_001,
            latency_ns: 0..1,
            shares: 100,
            cancelled: 0,
            deadline: 0,
            panics: 0,
            newcomers: 0,
            put_aside: 0,
            inline: 0,
            stops: 0,
        }
    }
}

/// Counts of events.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Seen {
    done: u64,
    panicked: u64,
    shut_down: u64,
    refused: u64,
    refused_early: u64,
    ended_first: u64,
    shared: u64,
    entered_after_done: u64,
    newcomers_waited: u64,
    inline: u64,
}

impl Seen {
    pub(super) fn add(&mut self, other: Seen) {
        self.done += other.done;
        self.panicked += other.panicked;
        self.shut_down += other.shut_down;
        self.refused += other.refused;
        self.refused_early += other.refused_early;
        self.ended_first += other.ended_first;
        self.shared += other.shared;
        self.entered_after_done += other.entered_after_done;
        self.newcomers_waited += other.newcomers_waited;
        self.inline += other.inline;
    }

    /// The count of the rarest event.
    pub(super) fn least(&self) -> u64 {
        let Seen { done, panicked, shut_down, refused, refused_early, ended_first, .. } = *self;
        let Seen { shared, entered_after_done, newcomers_waited, inline, .. } = *self;
        let outcomes = [done, panicked, shut_down, refused, refused_early, ended_first];
        outcomes.into_iter().chain([shared, entered_after_done, newcomers_waited, inline]).min().expect("counts")
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Arrive,
    Cancel(usize),
    /// A worker begins the slice that it was assigned.
    Enter(usize),
    Share(usize),
    /// It has finished its part; the job determines what remains.
    Leave(usize),
    GiveBack(usize, SliceOutcome),
    Stop,
}

/// How quiet the origin of a waiting job was on arrival, and still is; it limits what may run before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Quiet {
    /// Other jobs of its connection are processed.
    None,
    /// No other job of its client may go before it.
    Connection,
    /// No other job of its tenant may.
    Client,
    /// No other job may.
    Tenant,
}

struct Job {
    ticket: Option<JobTicket>,
    tenant: u64,
    client: u64,
    bytes: usize,
    cancellation: Arc<Cancellation>,
    /// Set when its first slice begins.
    late_deadline: Option<Instant>,
    connection: u64,
    quiet: Quiet,
    /// Set while it must stop and waits for the slice that ends it.
    ending: Option<WaitsToEnd>,
    /// The service of its tenant, client and connection on its arrival.
    began_at: [u64; 3],
    shares: bool,
    /// A panic leaves the job's own count of workers unchanged, so that no other worker can know that it is the last.
    leaks_on_panic: bool,
    /// Parts that no worker has.
    parts: u32,
    /// Workers that run it, as the job counts them.
    inside: u32,
    said_done: bool,
    has_panicked: bool,
    /// Slices started after it had to stop.
    takes_after_stop: u32,
    /// The maximum: one, plus one for each worker that returned `More` before and returns later.
    takes_after_stop_max: u32,
    end: Option<EntryEnd>,
}

/// Service in nanoseconds by tenant, client and connection, each identified together with its parents.
type Served = BTreeMap<(usize, [u64; 3]), u64>;

/// A job that must stop and waits: others may not run before it for long.
#[derive(Clone, Debug)]
struct WaitsToEnd {
    /// The service of all accounts.
    since: Served,
    /// Slices of live jobs that may run in its connection.
    live_slices_max: usize,
}

impl Job {
    fn path(&self) -> [u64; 3] {
        [self.tenant, self.client, self.connection]
    }

    /// Whether it began with the same account as `other`, on the outermost level that they do not share.
    fn ties(&self, other: &Job) -> bool {
        let apart = (0..3).find(|&level| self.path()[level] != other.path()[level]);
        apart.is_some_and(|level| self.began_at[level] <= other.began_at[level])
    }
}

/// A worker's slice.
struct Work {
    job: usize,
    hand: SliceHandle,
    is_spread: bool,
    taken_ns: u64,
    has_entered: bool,
    has_part: bool,
}

pub(super) struct World {
    rng: StdRng,
    plan: Plan,
    scheduler: Scheduler<usize>,
    start: Instant,
    now_ns: u64,
    events: BinaryHeap<Reverse<(u64, u64, Event)>>,
    events_made: u64,
    /// Those of the plan, then the submitters.
    workers: Vec<Option<Work>>,
    jobs: Vec<Job>,
    arrived: u64,
    served: Served,
    longest_ns: u64,
    seen: Seen,
}

impl World {
    pub(super) fn new(rng: StdRng, plan: Plan) -> World {
        let mut world = World {
            rng,
            scheduler: Scheduler::new(plan.limits, Scheduling::Fair, plan.workers, plan.refuses_early),
            start: Instant::now(),
            now_ns: 0,
            events: BinaryHeap::new(),
            events_made: 0,
            workers: (0..plan.workers + SUBMITTERS).map(|_| None).collect(),
            jobs: Vec::new(),
            arrived: 0,
            served: Served::new(),
            longest_ns: 0,
            seen: Seen::default(),
            plan,
        };
        world.schedule(0, Event::Arrive);
        if world.chance(world.plan.stops) {
            let at = world.rng.random_range(0..=world.plan.jobs * world.plan.pause_ns.end);
            world.schedule(at, Event::Stop);
        }
        world
    }

    pub(super) fn now(&self) -> u64 {
        self.now_ns
    }

    /// Runs until no job is left.
    pub(super) fn run(&mut self) -> Seen {
        while let Some(Reverse((time, _, event))) = self.events.pop() {
            self.now_ns = time;
            self.happen(event);
            self.hand_out();
            self.check();
        }
        self.check_end();
        self.seen
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Arrive => self.arrive(),
            Event::Cancel(job) => self.cancel(job),
            Event::Enter(worker) => self.enter(worker),
            Event::Share(worker) => self.share(worker),
            Event::Leave(worker) => self.leave(worker),
            Event::GiveBack(worker, outcome) => self.give_back(worker, outcome),
            Event::Stop => self.stop(),
        }
    }

    fn instant(&self) -> Instant {
        self.start + Duration::from_nanos(self.now_ns)
    }

    fn schedule(&mut self, after_ns: u64, event: Event) {
        self.events.push(Reverse((self.now_ns + after_ns, self.events_made, event)));
        self.events_made += 1;
    }

    fn chance(&mut self, percent: u32) -> bool {
        self.rng.random_range(0..100) < percent
    }

    fn arrive(&mut self) {
        self.arrived += 1;
        if self.arrived < self.plan.jobs {
            let pause = self.rng.random_range(self.plan.pause_ns.clone());
            self.schedule(pause, Event::Arrive);
        }
        let (job, admission) = self.new_job();
        let index = self.jobs.len();
        let expected = self.expected_answer(&admission);
        let quiet = self.quiet(&job);
        let may_be_late = self.may_be_late(&admission);
        match self.scheduler.admit(index, admission, self.instant()) {
            Ok(ticket) => {
                assert_eq!(expected, Ok(()));
                let began_at = self.scheduler.flows.tags(self.scheduler.entries[ticket.index].connection);
                self.jobs.push(Job { ticket: Some(ticket), quiet, began_at, ..job });
                self.run_inline(ticket);
                if self.chance(self.plan.cancelled) {
                    let after = self.rng.random_range(0..self.plan.pause_ns.end * 4);
                    self.schedule(after, Event::Cancel(index));
                }
            }
            Err((item, _, Rejection::TooLate { .. })) => {
                assert_eq!(item, index);
                assert!(may_be_late, "only one of many that wait is refused early");
                self.seen.refused_early += 1;
            }
            Err((item, _, cause)) => {
                assert_eq!((item, Err(cause)), (index, expected));
                self.seen.refused += 1;
            }
        }
    }

    fn new_job(&mut self) -> (Job, Admission) {
        let (new, is_new) = (1000 + self.arrived, self.chance(self.plan.newcomers));
        let is_new_client = is_new && self.chance(60);
        let is_new_tenant = is_new_client && self.chance(60);
        let tenant = if is_new_tenant { new } else { self.rng.random_range(0..self.plan.tenants) };
        let client = if is_new_client { new } else { self.rng.random_range(0..self.plan.clients) };
        let connection = if is_new { new } else { self.rng.random_range(0..self.plan.connections) };
        let cancellation = Arc::new(Cancellation::new());
        let mut late_deadline = None;
        if self.chance(self.plan.deadline) {
            let deadline = self.instant() + Duration::from_nanos(self.rng.random_range(0..self.plan.pause_ns.end * 8));
            if self.chance(70) {
                cancellation.set_deadline(deadline);
            } else {
                late_deadline = Some(deadline);
            }
        }
        let bytes = self.rng.random_range(0..100);
        let job = Job {
            ticket: None,
            tenant,
            client,
            bytes,
            cancellation: Arc::clone(&cancellation),
            late_deadline,
            connection,
            quiet: Quiet::None,
            ending: None,
            began_at: [0; 3],
            shares: self.chance(self.plan.shares),
            leaks_on_panic: self.chance(50),
            parts: self.rng.random_range(self.plan.parts.clone()),
            inside: 0,
            said_done: false,
            has_panicked: false,
            takes_after_stop: 0,
            takes_after_stop_max: 1,
            end: None,
        };
        (job, Admission { tenant, client, connection, bytes, cancellation })
    }

    /// How quiet the origin of `job` is: it has no jobs, and past service does not count.
    fn quiet(&self, job: &Job) -> Quiet {
        match self.scheduler.flows.quiet_levels([job.tenant, job.client, job.connection]) {
            0 => Quiet::None,
            1 => Quiet::Connection,
            2 => Quiet::Client,
            _ => Quiet::Tenant,
        }
    }

    /// Whether a job may be refused for its deadline: others wait, including some of its tenant.
    fn may_be_late(&self, admission: &Admission) -> bool {
        let mut entries = self.scheduler.entries.iter();
        let is_waiting = self.scheduler.waiting() > 0;
        let has_others = entries.any(|(_, entry)| entry.receipt.tenant == admission.tenant);
        self.plan.refuses_early && is_waiting && has_others && admission.cancellation.deadline().is_some()
    }

    /// The result that the limits require, computed from the live jobs.
    fn expected_answer(&self, admission: &Admission) -> Result<(), Rejection> {
        use crate::ledger::{LimitScope, Measure};
        if self.scheduler.phase() != SchedulerPhase::Open {
            return Err(Rejection::ShuttingDown);
        }
        let entries = || self.scheduler.entries.iter().map(|(_, entry)| entry.receipt);
        let held = |is_counted: &dyn Fn(&Receipt) -> bool| {
            let counted: Vec<usize> = entries().filter(is_counted).map(|receipt| receipt.bytes).collect();
            Amount { jobs: counted.len(), bytes: counted.iter().sum() }
        };
        let limits = &self.plan.limits;
        let accounts = [
            (LimitScope::Connection, held(&|receipt| receipt.connection == admission.connection), limits.connection),
            (LimitScope::Tenant, held(&|receipt| receipt.tenant == admission.tenant), limits.tenant),
            (LimitScope::Total, held(&|_| true), limits.total),
        ];
        for (scope, held, max) in accounts {
            if held.jobs == max.jobs {
                return Err(Rejection::Overloaded(ReachedLimit { scope, measure: Measure::Jobs }));
            }
            if held.bytes + admission.bytes > max.bytes {
                return Err(Rejection::Overloaded(ReachedLimit { scope, measure: Measure::Bytes }));
            }
        }
        Ok(())
    }

    fn cancel(&mut self, index: usize) {
        let job = &self.jobs[index];
        job.cancellation.cancel(CancelReason::Cancelled);
        let now = self.instant();
        self.scheduler.hurry(job.ticket.expect("admitted"), now);
    }

    fn stop(&mut self) {
        self.scheduler.set_draining();
        for ending in self.scheduler.stop() {
            self.end(ending);
        }
    }

    /// Assigns waiting jobs to idle workers, as the pool does.
    fn hand_out(&mut self) {
        for worker in 0..self.plan.workers {
            if self.workers[worker].is_some() {
                continue;
            }
            let now = self.instant();
            let Some(taken) = self.scheduler.take(now) else { return };
            self.assign(worker, taken);
        }
    }

    fn assign(&mut self, worker: usize, taken: TakenSlice<usize>) {
        self.check_taken(taken.item, taken.submitted.is_some(), taken.hand.lane);
        self.workers[worker] = Some(Work {
            job: taken.item,
            hand: taken.hand,
            is_spread: taken.is_spread,
            taken_ns: self.now_ns,
            has_entered: false,
            has_part: false,
        });
        let latency = self.rng.random_range(self.plan.latency_ns.clone());
        self.schedule(latency, Event::Enter(worker));
    }

    fn must_stop(&self, job: &Job) -> bool {
        job.cancellation.check(self.instant()).is_err()
    }

    fn enter(&mut self, worker: usize) {
        let now = self.instant();
        let (plan_ns, part_ns) = (self.rng.random_range(200..3_000), self.rng.random_range(self.plan.part_ns.clone()));
        let work = self.workers[worker].as_mut().expect("works");
        let job = &mut self.jobs[work.job];
        if job.said_done {
            self.seen.entered_after_done += 1;
            return self.schedule(100, Event::Leave(worker));
        }
        work.has_entered = true;
        job.inside += 1;
        if let Some(deadline) = job.late_deadline.take() {
            job.cancellation.set_deadline(deadline);
        }
        if job.parts == 0 || job.cancellation.check(now).is_err() {
            return self.schedule(100, Event::Leave(worker));
        }
        job.parts -= 1;
        work.has_part = true;
        if job.shares && job.parts > 0 && worker < self.plan.workers {
            self.schedule(plan_ns, Event::Share(worker));
        }
        self.schedule(plan_ns + part_ns, Event::Leave(worker));
    }

    fn share(&mut self, worker: usize) {
        let now = self.instant();
        let work = self.workers[worker].as_mut().expect("works");
        let is_idle = self.plan.workers > self.scheduler.running_slices() + self.scheduler.waiting();
        if (is_idle || work.is_spread) && self.scheduler.share(&mut work.hand, now) {
            self.seen.shared += 1;
        }
    }

    fn leave(&mut self, worker: usize) {
        let work = self.workers[worker].as_ref().expect("works");
        let outcome = if work.has_entered {
            self.outcome(work.job, work.has_part)
        } else {
            // Once the job has returned `Done`, no other result matters.
            [SliceOutcome::Left, SliceOutcome::More, SliceOutcome::Panicked][self.rng.random_range(0..3)]
        };
        let latency = self.rng.random_range(self.plan.latency_ns.clone());
        self.schedule(latency, Event::GiveBack(worker, outcome));
    }

    fn give_back(&mut self, worker: usize, outcome: SliceOutcome) {
        let work = self.workers[worker].take().expect("works");
        if outcome == SliceOutcome::More && self.must_stop(&self.jobs[work.job]) {
            self.jobs[work.job].takes_after_stop_max += 1;
        }
        let cost_ns = self.now_ns - work.taken_ns;
        self.longest_ns = self.longest_ns.max(cost_ns);
        let path = self.jobs[work.job].path();
        for level in 0..3 {
            *self.served.entry(account(level, path)).or_default() += cost_ns;
        }
        let cost = Duration::from_nanos(cost_ns);
        if let Some(ending) = self.scheduler.give_back(work.hand, outcome, cost, self.instant()) {
            self.end(ending);
        }
    }

    /// The outcome that the job's own logic returns at the end of a slice.
    fn outcome(&mut self, job: usize, has_part: bool) -> SliceOutcome {
        let panics = self.chance(self.plan.panics);
        let is_put_aside = has_part && self.chance(self.plan.put_aside);
        let must_stop = self.must_stop(&self.jobs[job]);
        let job = &mut self.jobs[job];
        job.has_panicked |= panics;
        if panics && job.leaks_on_panic {
            return SliceOutcome::Panicked;
        }
        job.inside -= 1;
        if panics {
            return SliceOutcome::Panicked;
        }
        job.parts = if must_stop { 0 } else { job.parts + u32::from(is_put_aside) };
        if job.parts > 0 {
            SliceOutcome::More
        } else if job.inside > 0 {
            SliceOutcome::Left
        } else {
            job.said_done = true;
            SliceOutcome::Done
        }
    }

    fn end(&mut self, ending: EndedEntry<usize>) {
        let EndedEntry { item, end, receipt } = ending;
        self.scheduler.release(receipt);
        assert!(self.workers.iter().flatten().all(|work| work.job != item), "no worker is inside");
        let job = &mut self.jobs[item];
        assert_eq!(job.end.replace(end), None, "a job ends once");
        let is_stopped = self.scheduler.phase() == SchedulerPhase::Stopped;
        let expected = match (job.said_done, job.has_panicked) {
            (true, _) => EntryEnd::Done,
            (false, true) => EntryEnd::Panicked,
            (false, false) => EntryEnd::ShutDown,
        };
        assert!(end == expected || is_stopped && end == EntryEnd::ShutDown, "{end:?}, not {expected:?}");
        match end {
            EntryEnd::Done => self.seen.done += 1,
            EntryEnd::Panicked => self.seen.panicked += 1,
            EntryEnd::ShutDown => self.seen.shut_down += 1,
        }
    }
}
