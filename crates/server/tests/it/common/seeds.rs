//! Seeds of random tests: selects them, and reports which one failed.

use std::panic::resume_unwind;

use tokio::task::{JoinError, JoinSet};

/// Runs only this seed: `LEAFSEAL_SEED=17`.
const ONE: &str = "LEAFSEAL_SEED";
/// The number of seeds to run instead of the default: `LEAFSEAL_SEEDS=10000`.
const MANY: &str = "LEAFSEAL_SEEDS";

/// Returns the seeds to run: from 0 up to `count`, unless the environment overrides them.
pub(crate) fn seeds(count: u64) -> Vec<u64> {
    match (number(ONE), number(MANY)) {
        (Some(seed), _) => vec![seed],
        (None, many) => (0..many.unwrap_or(count)).collect(),
    }
}

fn number(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name} is a number, not {text:?}")))
}

/// Runs `run` for every seed, `at_a_time` of them concurrently. The first failure is reported with its seed and ends the run.
pub(crate) async fn side_by_side<F, T>(seeds: Vec<u64>, at_a_time: usize, run: impl Fn(u64) -> F) -> Vec<T>
where
    F: Future<Output = T> + Send + 'static,
    T: Send + 'static,
{
    let (mut running, mut outcomes) = (JoinSet::new(), Vec::new());
    for seed in seeds {
        if running.len() >= at_a_time {
            outcomes.extend(running.join_next().await.map(outcome));
        }
        let named = Named(seed);
        let task = run(seed);
        running.spawn(async move {
            let outcome = task.await;
            drop(named);
            outcome
        });
    }
    while let Some(joined) = running.join_next().await {
        outcomes.push(outcome(joined));
    }
    outcomes
}

fn outcome<T>(joined: Result<T, JoinError>) -> T {
    joined.unwrap_or_else(|error| resume_unwind(error.into_panic()))
}

/// Prints its seed if it is dropped by a panic.
pub(crate) struct Named(pub u64);

impl Drop for Named {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("seed {} failed; to run it alone: {ONE}={}", self.0, self.0);
        }
    }
}
