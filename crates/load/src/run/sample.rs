//! Individually recorded requests: all of them up to a limit, above that a uniform random sample by seed.

use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt, SeedableRng};

/// A finished request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FinishedRequest {
    /// Its due time, in microseconds from the start.
    pub due_us: u64,
    /// Its latency from then, in nanoseconds.
    pub latency_ns: u64,
}

/// A reservoir sample (Vitter's algorithm R): each request has the same probability of being kept.
#[derive(Clone, Debug)]
pub struct ReservoirSample {
    kept: Vec<FinishedRequest>,
    max: usize,
    seen: u64,
    random: Xoshiro256PlusPlus,
}

impl ReservoirSample {
    /// Creates a sample of at most `max` requests.
    pub fn new(max: usize, seed: u64) -> Self {
        ReservoirSample { kept: Vec::new(), max, seen: 0, random: Xoshiro256PlusPlus::seed_from_u64(seed) }
    }

    /// Offers a request to the sample.
    pub fn add(&mut self, request: FinishedRequest) {
        self.seen += 1;
        if self.kept.len() < self.max {
            self.kept.push(request);
        } else if let Ok(place) = usize::try_from(self.random.random_range(0..self.seen))
            && let Some(kept) = self.kept.get_mut(place)
        {
            *kept = request;
        }
    }

    /// The number of requests in the sample.
    pub fn kept(&self) -> usize {
        self.kept.len()
    }

    /// Reduces the capacity by one. The rest is a uniform sample as before.
    pub fn shrink(&mut self) {
        self.max = self.max.saturating_sub(1);
        if self.kept.len() > self.max {
            let place = self.random.random_range(0..self.kept.len());
            self.kept.swap_remove(place);
        }
    }

    /// The number of requests that were offered.
    pub fn seen(&self) -> u64 {
        self.seen
    }

    /// Returns the sample in the order in which requests were due.
    pub fn into_sorted(mut self) -> Vec<FinishedRequest> {
        self.kept.sort_by_key(|request| (request.due_us, request.latency_ns));
        self.kept
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(max: usize, count: u64, seed: u64) -> Vec<u64> {
        let mut sample = ReservoirSample::new(max, seed);
        (0..count).for_each(|due_us| sample.add(FinishedRequest { due_us, latency_ns: 1 }));
        assert_eq!(sample.seen(), count);
        sample.into_sorted().iter().map(|request| request.due_us).collect()
    }

    #[test]
    fn all_are_kept_up_to_the_bound_and_a_fair_draw_beyond() {
        assert_eq!(sample(10, 10, 1), (0..10).collect::<Vec<_>>());
        let kept = sample(1000, 100_000, 2);
        assert_eq!((kept.len(), sample(1000, 100_000, 2) == kept), (1000, true));
        let early = kept.iter().filter(|&&due| due < 50_000).count();
        // Half are expected, with a standard deviation of 16.
        assert!(early.abs_diff(500) < 90, "{early} of the first half");
    }

    #[test]
    fn a_reduced_sample_is_uniform() {
        let mut sample = ReservoirSample::new(2000, 3);
        for due_us in 0..100_000 {
            sample.add(FinishedRequest { due_us, latency_ns: 1 });
            if due_us % 100 == 99 {
                sample.shrink();
            }
        }
        assert_eq!((sample.kept(), sample.seen()), (1000, 100_000));
        let kept = sample.into_sorted();
        let early = kept.iter().filter(|request| request.due_us < 50_000).count();
        assert!(early.abs_diff(500) < 90, "{early} of the first half");
        let mut none = ReservoirSample::new(0, 1);
        none.shrink();
        none.add(FinishedRequest { due_us: 1, latency_ns: 1 });
        assert_eq!((none.kept(), none.seen()), (0, 1));
    }
}
