//! The phases of a script as one sequence of arrivals, reproducible by its seed.

use std::time::Duration;

use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt, SeedableRng};

use crate::arrivals::{ArrivalProcess, Arrivals};
use crate::scenario::{PhaseLoad, Scenario, ScenarioPhase};

/// Separates the random stream that draws scenarios from those of arrival times.
const SCENARIO_SALT: u64 = 0x5ce9_a110_5eed_0001;

/// The arrival of a user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UserArrival {
    /// Its time from the start of the run.
    pub due: Duration,
    /// The index of its phase.
    pub phase: usize,
    /// The index of its scenario.
    pub scenario: usize,
}

/// Draws scenarios by their weights.
#[derive(Clone, Debug)]
pub struct Draw {
    /// Cumulative weights.
    sums: Vec<u64>,
    random: Xoshiro256PlusPlus,
}

impl Draw {
    /// At least one scenario must have a weight above 0.
    pub fn new(scenarios: &[Scenario], seed: u64) -> Self {
        let sums = scenarios.iter().scan(0, |sum, scenario| {
            *sum += u64::from(scenario.weight);
            Some(*sum)
        });
        Draw { sums: sums.collect(), random: Xoshiro256PlusPlus::seed_from_u64(seed ^ SCENARIO_SALT) }
    }

    /// Draws the next scenario.
    pub fn draw(&mut self) -> usize {
        let total = *self.sums.last().expect("at least one scenario");
        let drawn = self.random.random_range(0..total);
        self.sums.partition_point(|&sum| sum <= drawn)
    }
}

/// A phase on the time axis.
#[derive(Clone, Debug)]
pub struct TimedPhase {
    /// Its start.
    pub begin: Duration,
    /// Its end.
    pub end: Duration,
    /// Its arrivals.
    pub load: PhaseLoad,
}

/// Places the phases on the time axis, one after another.
pub fn stretches(phases: &[ScenarioPhase]) -> Vec<TimedPhase> {
    let mut begin = Duration::ZERO;
    let stretch = |phase: &ScenarioPhase| {
        let end = begin + phase.duration;
        TimedPhase { begin: std::mem::replace(&mut begin, end), end, load: phase.load }
    };
    phases.iter().map(stretch).collect()
}

/// The arrivals of all open phases.
#[derive(Clone, Debug)]
pub struct Schedule {
    stretches: Vec<TimedPhase>,
    seed: u64,
    /// Overrides the script's process.
    process: Option<ArrivalProcess>,
    draw: Draw,
    phase: usize,
    arrivals: Option<Arrivals>,
    /// The next arrival of the phases, once computed.
    next: Option<UserArrival>,
    /// Scenarios with users at fixed intervals: the next arrival, the interval, and the scenario's index.
    clocks: Vec<(Duration, Duration, usize)>,
}

impl Schedule {
    /// `process`, if set, overrides the script.
    pub fn new(phases: &[ScenarioPhase], scenarios: &[Scenario], process: Option<ArrivalProcess>, seed: u64) -> Self {
        let draw = Draw::new(scenarios, seed);
        let clock = |(index, scenario): (usize, &Scenario)| scenario.every.map(|every| (every, every, index));
        let clocks = scenarios.iter().enumerate().filter_map(clock).collect();
        Schedule { stretches: stretches(phases), seed, process, draw, phase: 0, arrivals: None, next: None, clocks }
    }

    fn arrivals(&self, stretch: &TimedPhase) -> Option<Arrivals> {
        let PhaseLoad::Open { from, to, process, .. } = stretch.load else { return None };
        let process = self.process.unwrap_or(process);
        let seed = self.seed.wrapping_add(self.phase as u64);
        Some(Arrivals::ramp(process, (from, to), stretch.end - stretch.begin, seed))
    }
}

impl Iterator for Schedule {
    type Item = UserArrival;

    fn next(&mut self) -> Option<UserArrival> {
        self.next = self.next.or_else(|| self.next_of_phases());
        let limit = self.next.map(|arrival| arrival.due);
        match self.next_by_the_clock(limit) {
            Some(arrival) => Some(arrival),
            None => self.next.take(),
        }
    }
}

impl Schedule {
    /// Returns the next arrival at a fixed interval, if it is not after `limit`.
    fn next_by_the_clock(&mut self, limit: Option<Duration>) -> Option<UserArrival> {
        let (due, every, scenario) = self.clocks.iter_mut().min()?;
        let moment = *due;
        let phase = self.stretches.iter().position(|stretch| moment < stretch.end)?;
        if limit.is_some_and(|limit| limit < moment) {
            return None;
        }
        *due += *every;
        Some(UserArrival { due: moment, phase, scenario: *scenario })
    }

    fn next_of_phases(&mut self) -> Option<UserArrival> {
        loop {
            let stretch = self.stretches.get(self.phase)?;
            if self.arrivals.is_none() {
                self.arrivals = self.arrivals(stretch);
            }
            let due = self.arrivals.as_mut().and_then(Iterator::next).map(|time| stretch.begin + time);
            match due.filter(|&due| due < stretch.end) {
                Some(due) => return Some(UserArrival { due, phase: self.phase, scenario: self.draw.draw() }),
                None => {
                    self.arrivals = None;
                    self.phase += 1;
                }
            }
        }
    }
}

/// The arrivals of one of several connections, which take turns. Each connection iterates over the whole schedule and skips the arrivals
/// of the others.
#[derive(Clone, Debug)]
pub(super) struct ArrivalTurns {
    schedule: Schedule,
    /// Its next arrival.
    next: Option<UserArrival>,
    /// Number of arrivals of other connections between two of its own.
    others: usize,
}

impl ArrivalTurns {
    /// The arrivals of connection `place`, counted from 0, of `places`.
    pub(super) fn new(mut schedule: Schedule, place: usize, places: usize) -> Self {
        let next = schedule.nth(place);
        ArrivalTurns { schedule, next, others: places - 1 }
    }

    /// Returns the next arrival without advancing.
    pub(super) fn peek(&self) -> Option<UserArrival> {
        self.next
    }

    /// Returns the next arrival and advances, if it is due.
    pub(super) fn take_due(&mut self, now: Duration) -> Option<UserArrival> {
        let arrival = self.next.filter(|arrival| arrival.due <= now)?;
        self.next = self.schedule.nth(self.others);
        Some(arrival)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::Script;

    fn schedule(phases: &str, process: Option<ArrivalProcess>, seed: u64) -> Vec<UserArrival> {
        of_phases(phases, process, seed).collect()
    }

    fn of_phases(phases: &str, process: Option<ArrivalProcess>, seed: u64) -> Schedule {
        let text = format!(
            "config: {{ target: h, e3: {{ key: k, cert: c }}, phases: {phases} }}\nscenarios:\n\
             - {{ engine: e3, weight: 80, flow: [ {{ think: 1 }} ] }}\n- {{ engine: e3, weight: 0, flow: [ {{ think: 1 }} ] }}\n\
             - {{ engine: e3, weight: 20, flow: [ {{ think: 1 }} ] }}\n"
        );
        let script = Script::read(&text).unwrap();
        Schedule::new(&script.phases, &script.scenarios, process, seed)
    }

    #[test]
    fn phases_follow_each_other() {
        let all = schedule(
            "[{duration: 2, arrivalRate: 2}, {pause: 3}, {duration: 1, arrivalCount: 2}, {duration: 5, connections: 2}]",
            None,
            1,
        );
        let times: Vec<(u128, usize)> = all.iter().map(|arrival| (arrival.due.as_millis(), arrival.phase)).collect();
        assert_eq!(times, [(0, 0), (500, 0), (1000, 0), (1500, 0), (5000, 2), (5500, 2)]);
    }

    #[test]
    fn the_printed_phase_has_180_users_whatever_the_seed_and_four_in_five_do_the_first() {
        for seed in 0..20 {
            assert_eq!(schedule("[{duration: 90, arrivalRate: 2}]", None, seed).len(), 180);
        }
        let all = schedule("[{duration: 100, arrivalRate: 1000}]", Some(ArrivalProcess::Poisson), 3);
        let of = |scenario| all.iter().filter(|arrival| arrival.scenario == scenario).count() as f64 / all.len() as f64;
        // The standard error of about 100,000 draws is 0.0013.
        assert!((of(0) - 0.8).abs() < 0.006 && of(1) == 0.0, "{} {}", of(0), of(1));
        assert!((all.len() as f64 / 100_000.0 - 1.0).abs() < 0.02, "{}", all.len());
    }

    #[test]
    fn users_arrive_at_intervals_besides_those_of_phases() {
        let text = "config: { target: h, e3: { key: k, cert: c }, phases: [ { duration: 2, arrivalRate: 1 }, { pause: 2 } ] }\n\
                    scenarios: [ { engine: e3, flow: [ { think: 1 } ] }, { engine: e3, every: 1.5s, flow: [ { think: 1 } ] } ]\n";
        let script = Script::read(text).unwrap();
        let all = Schedule::new(&script.phases, &script.scenarios, None, 1);
        let all: Vec<_> = all.map(|arrival| (arrival.due.as_millis(), arrival.phase, arrival.scenario)).collect();
        assert_eq!(all, [(0, 0, 0), (1000, 0, 0), (1500, 0, 1), (3000, 1, 1)]);
    }

    #[test]
    fn a_seed_replays_exactly() {
        let of = |seed| schedule("[{duration: 10, arrivalRate: 50, rampTo: 9, mode: poisson}]", None, seed);
        assert_eq!(of(5), of(5));
        assert_ne!(of(5), of(6));
    }

    #[test]
    fn connections_take_the_arrivals_in_turn() {
        let whole = of_phases("[{duration: 10, arrivalRate: 5, rampTo: 20, mode: poisson}]", None, 7);
        let expected: Vec<UserArrival> = whole.clone().collect();
        for places in 1..5 {
            let mut turns: Vec<ArrivalTurns> =
                (0..places).map(|place| ArrivalTurns::new(whole.clone(), place, places)).collect();
            for (index, arrival) in expected.iter().enumerate() {
                let turn = &mut turns[index % places];
                assert_eq!(turn.take_due(arrival.due - Duration::from_nanos(1)), None);
                assert_eq!((turn.peek(), turn.take_due(arrival.due)), (Some(*arrival), Some(*arrival)));
            }
            assert!(turns.iter().all(|turn| turn.peek().is_none()));
        }
    }
}
