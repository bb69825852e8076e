//! Estimates when a new job would be done, so that a job which cannot meet its deadline is refused before it waits.
//!
//! Three values are measured. The cost of jobs: the time of their slices per unit, by client, which yields the remaining service of all
//! jobs held. Demand: the service requested per second, by client. Capacity: the service that the workers deliver per second while more
//! jobs wait than they can take: as many seconds as there are workers, less if the system gives the cores to others as well. Single
//! outliers have little effect: their time counts up to a limit, and a measure changes by a bounded factor.
//!
//! Jobs take turns, so later ones delay earlier ones. If a client requests more than it gets, a job is therefore judged as if all flows
//! that it shares with always had work; if it requests less, the backlog ends.

use std::time::{Duration, Instant};

/// The initial cost of a job, in nanoseconds, before anything was measured.
const FIRST_COST_NS: u64 = 50_000;
/// Units of each job in addition to its bytes: the fixed work of a request takes about as long as this many bytes.
const UNITS_A_JOB: u64 = 4096;
/// Jobs after which older ones count half.
const JOBS_REMEMBERED: u32 = 32;
/// The period over which the workers' service is measured.
const WINDOW: Duration = Duration::from_millis(20);
/// Maximum age of a measure of the service.
const SPEED_AGE_MAX: Duration = Duration::from_secs(1);
/// Maximum factor by which one period changes the measure.
const SPEED_CHANGE_MAX: f64 = 4.0;
/// The weight of a new period in the measure.
const SPEED_WEIGHT: f64 = 0.5;
/// The part of the time until a deadline that the wait may take; the rest is for returning the answer, and for errors.
const DEADLINE_SHARE: f64 = 0.8;

/// A job is judged as if it cost at least this many times the average of the client's jobs; otherwise the queue would fill with small jobs
/// until no other could finish in time.
const MEANS: f64 = 4.0;
/// The measuring interval of demand.
const DEMAND_WINDOW: Duration = Duration::from_millis(100);
/// The weight of a job in the average.
const MEAN_WEIGHT: f64 = 1.0 / 32.0;

/// The jobs held on one level of a path.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct LevelLoad {
    /// Nanoseconds of service.
    pub(crate) backlog: f64,
    /// Number of flows that share it: children with jobs, or the jobs of a connection, including a new one.
    pub(crate) competitors: f64,
}

/// Cost and demand of the jobs of a client, or of all clients.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Costs {
    cost_ns: u64,
    units: u64,
    jobs: u32,
    /// The average cost of requested jobs, including refused ones.
    mean_ns: f64,
    /// Requested service per nanosecond, in nanoseconds.
    demand: f64,
    requested_ns: f64,
    demand_window: Option<DemandWindow>,
}

/// A period in which demand is measured.
#[derive(Clone, Copy, Debug)]
struct DemandWindow {
    since: Instant,
    until: Instant,
}

impl DemandWindow {
    fn since(now: Instant) -> DemandWindow {
        DemandWindow { since: now, until: now + DEMAND_WINDOW }
    }
}

impl Costs {
    /// Records a requested job.
    pub(crate) fn record_demand(&mut self, cost_ns: u64, now: Instant) {
        let cost_ns = cost_ns as f64;
        let weight = if self.demand_window.is_none() { 1.0 } else { MEAN_WEIGHT };
        self.mean_ns += (cost_ns - self.mean_ns) * weight;
        let DemandWindow { since, until } = *self.demand_window.get_or_insert_with(|| DemandWindow::since(now));
        self.requested_ns += cost_ns;
        if now >= until {
            let time = now.saturating_duration_since(since);
            self.demand += (self.requested_ns / time.as_nanos() as f64 - self.demand) * SPEED_WEIGHT;
            (self.requested_ns, self.demand_window) = (0.0, Some(DemandWindow::since(now)));
        }
    }

    /// Requested service per nanosecond, including the current interval.
    fn demand(self) -> f64 {
        self.demand.max(self.requested_ns / DEMAND_WINDOW.as_nanos() as f64)
    }

    fn per_unit(self) -> Option<f64> {
        (self.units > 0).then(|| self.cost_ns as f64 / self.units as f64)
    }

    fn learn(&mut self, bytes: usize, cost_ns: u64) {
        if self.jobs == JOBS_REMEMBERED {
            *self = Costs { cost_ns: self.cost_ns / 2, units: self.units / 2, jobs: JOBS_REMEMBERED / 2, ..*self };
        }
        self.cost_ns += cost_ns;
        self.units += units(bytes);
        self.jobs += 1;
    }
}

fn units(bytes: usize) -> u64 {
    bytes as u64 + UNITS_A_JOB
}

/// A period in which more jobs waited than the workers could take.
#[derive(Clone, Copy, Debug)]
struct WaitWindow {
    began: Instant,
    until: Instant,
    service_ns: u64,
}

impl WaitWindow {
    fn begun(now: Instant) -> WaitWindow {
        WaitWindow { began: now, until: now + WINDOW, service_ns: 0 }
    }
}

#[derive(Debug)]
pub(crate) struct Estimate {
    /// Over all tenants.
    costs: Costs,
    workers: f64,
    /// Nanoseconds of service per nanosecond of time.
    speed: f64,
    measured: Option<Instant>,
    window: Option<WaitWindow>,
}

impl Estimate {
    pub(crate) fn new(workers: usize) -> Self {
        let workers = workers as f64;
        Estimate { costs: Costs::default(), workers, speed: workers, measured: None, window: None }
    }

    /// Returns the cost of a job of `bytes`, in nanoseconds, if the jobs of its client cost `costs`.
    pub(crate) fn cost(&self, costs: Costs, bytes: usize) -> u64 {
        let per_unit = costs.per_unit().or(self.costs.per_unit());
        per_unit.map_or(FIRST_COST_NS, |per_unit| (per_unit * units(bytes) as f64) as u64)
    }

    /// Updates the cost of a client's jobs with a job that was completed.
    pub(crate) fn learn(&mut self, costs: &mut Costs, bytes: usize, cost_ns: u64) {
        costs.learn(bytes, cost_ns);
        self.costs.learn(bytes, cost_ns);
    }

    /// Records the service of a slice that ends at `now`, and whether jobs waited throughout.
    pub(crate) fn note(&mut self, cost_ns: u64, is_saturated: bool, now: Instant) {
        if !is_saturated {
            self.window = None;
            return;
        }
        let Some(window) = &mut self.window else {
            // The part of the slice before the period is not counted.
            self.window = Some(WaitWindow::begun(now));
            return;
        };
        window.service_ns += cost_ns;
        if now >= window.until {
            let time = now.saturating_duration_since(window.began);
            let measure = window.service_ns as f64 / time.as_nanos() as f64;
            self.window = Some(WaitWindow::begun(now));
            self.measure(measure, now);
        }
    }

    fn measure(&mut self, measure: f64, now: Instant) {
        let before = self.speed_at(now);
        let bounded = measure.clamp(before / SPEED_CHANGE_MAX, (before * SPEED_CHANGE_MAX).min(self.workers));
        self.speed = before + (bounded - before) * SPEED_WEIGHT;
        self.measured = Some(now);
    }

    /// The last measure of the workers' service; if there is none or it is too old, their undisturbed service.
    fn speed_at(&self, now: Instant) -> f64 {
        let is_known = self.measured.is_some_and(|measured| now.saturating_duration_since(measured) <= SPEED_AGE_MAX);
        if is_known { self.speed } else { self.workers }
    }

    /// The time that the workers need for this service.
    pub(crate) fn time_for(&self, service_ns: u64, now: Instant) -> Duration {
        Duration::from_nanos((service_ns as f64 / self.speed_at(now)) as u64)
    }

    /// The time until a job is done that costs `cost_ns` and finds these loads, from its connection outwards.
    ///
    /// Until the job is done, each flow with which its connection, client and tenant share gets as much as they do; so do the jobs of its
    /// connection, which take turns. A client that requests less than its share is finished when its backlog is done.
    pub(crate) fn wait(&self, cost_ns: u64, costs: Costs, loads: [LevelLoad; 4], now: Instant) -> Duration {
        let [connection, client, tenant, root] = loads;
        // A turn is at least a slice.
        let judged = (costs.mean_ns * MEANS).max(cost_ns as f64).max(FIRST_COST_NS as f64);
        let in_turns = judged * connection.competitors * client.competitors;
        let share = self.speed_at(now) / root.competitors / tenant.competitors;
        let idle = 1.0 - (costs.demand() / share).min(1.0);
        let backlog = client.backlog + cost_ns as f64;
        let needed = in_turns.min(backlog / idle);
        Duration::from_nanos((needed / share) as u64)
    }
}

/// Whether a job that takes `wait` from `now` is done well before its deadline.
pub(crate) fn is_in_time(wait: Duration, deadline: Instant, now: Instant) -> bool {
    wait <= deadline.saturating_duration_since(now).mul_f64(DEADLINE_SHARE)
}
