//! Thousands of schedules of virtual workers in virtual time: random jobs arrive, spread over workers, are cancelled, are late, panic or
//! are refused; the scheduler's guarantees are checked after every event. A failing seed is printed; `LEAFSEAL_SEED=N` replays it.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::*;
use crate::cancellation::CancelReason;
use crate::flows::{IDLE_CONNECTIONS_MAX, IDLE_FLOWS_SPARE};
use crate::ledger::{Amount, ReachedLimit};

mod clients;
mod fairness;
mod hostile;
mod inline;
mod overload;
mod workers;
mod world;

use world::{Plan, Seen, World};

const SCHEDULES: u64 = 2_000;

/// Prints the seed when a schedule panics.
struct PrintSeedOnPanic(u64);

impl Drop for PrintSeedOnPanic {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("replay with LEAFSEAL_SEED={}", self.0);
        }
    }
}

/// Runs `schedule` for each of `count` seeds, or for the one that the environment names. Returns true if all ran.
fn play(count: u64, mut schedule: impl FnMut(StdRng)) -> bool {
    let named: Option<u64> =
        std::env::var("LEAFSEAL_SEED").ok().map(|seed| seed.parse().expect("LEAFSEAL_SEED is a number"));
    for seed in named.map_or(0..count, |seed| seed..seed + 1) {
        let _naming = PrintSeedOnPanic(seed);
        schedule(StdRng::seed_from_u64(seed));
    }
    named.is_none()
}

#[test]
fn every_schedule_keeps_the_promises() {
    let mut seen = Seen::default();
    let is_whole = play(SCHEDULES, |mut rng| {
        let plan = Plan::random(&mut rng);
        seen.add(World::new(rng, plan).run());
    });
    // Events that never occurred were not tested.
    assert!(!is_whole || seen.least() > 50, "{seen:?}");
}

#[test]
fn a_single_parallel_job_uses_all_workers() {
    for workers in 1..=8 {
        let plan = Plan::parallel(workers, 400);
        let (part, parts) = (plan.part_ns.start, 400);
        let mut world = World::new(StdRng::seed_from_u64(0), plan);
        world.run();
        let ideal = part * parts / workers as u64;
        assert!(world.now() < ideal + ideal / 20 + 3 * part, "{workers} workers: {} ns, ideal {ideal}", world.now());
    }
}
