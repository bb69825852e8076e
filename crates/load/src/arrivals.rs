//! When requests are due: arrivals of an open loop, each as a time from the beginning, replayed exactly by their seed.

use std::time::Duration;

use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt, SeedableRng};

/// How the times between arrivals vary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Process {
    /// Not at all.
    Even,
    /// As for independent callers: exponentially distributed, with the mean of the rate.
    Poisson,
}

impl Process {
    /// The word for reports.
    pub fn as_str(self) -> &'static str {
        match self {
            Process::Even => "even",
            Process::Poisson => "poisson",
        }
    }
}

/// An endless sequence of arrivals, in order.
#[derive(Debug)]
pub struct Arrivals {
    process: Process,
    /// Mean seconds between arrivals.
    gap: f64,
    /// Seconds of the last arrival.
    last: f64,
    random: Xoshiro256PlusPlus,
}

impl Arrivals {
    /// `rate` arrivals a second, above 0.
    pub fn new(process: Process, rate: f64, seed: u64) -> Self {
        Arrivals::share(process, rate, seed, 0, 1)
    }

    /// What comes to caller `part` of `parts` equal ones, who together make `rate`. Even arrivals take turns; Poisson arrivals that are
    /// dealt out by chance are Poisson arrivals again, of a part of the rate.
    pub fn share(process: Process, rate: f64, seed: u64, part: usize, parts: usize) -> Self {
        let gap = parts as f64 / rate;
        let last = match process {
            Process::Even => part as f64 / rate - gap,
            Process::Poisson => 0.0,
        };
        let seed = seed ^ (part as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        Arrivals { process, gap, last, random: Xoshiro256PlusPlus::seed_from_u64(seed) }
    }
}

impl Iterator for Arrivals {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        self.last += match self.process {
            Process::Even => self.gap,
            // The inverse of the distribution function, at a number in [0, 1).
            Process::Poisson => -self.gap * (1.0 - self.random.random::<f64>()).ln(),
        };
        Some(Duration::from_secs_f64(self.last.max(0.0)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const COUNT: usize = 200_000;

    /// Mean and variance of the gaps, in seconds.
    fn gaps(arrivals: Arrivals) -> (f64, f64) {
        let times: Vec<f64> = arrivals.take(COUNT).map(|time| time.as_secs_f64()).collect();
        let gaps: Vec<f64> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        let variance = gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / gaps.len() as f64;
        (mean, variance)
    }

    #[test]
    fn even_arrivals_are_even_and_take_turns() {
        let times = |part, parts| -> Vec<u128> {
            Arrivals::share(Process::Even, 1000.0, 7, part, parts).take(4).map(|time| time.as_micros()).collect()
        };
        assert_eq!(times(0, 1), [0, 1000, 2000, 3000]);
        assert_eq!(times(1, 4), [1000, 5000, 9000, 13_000]);
    }

    #[test]
    fn poisson_gaps_have_the_mean_and_variance_of_their_rate() {
        for (seed, rate) in [(1, 100.0), (2, 100.0), (3, 50_000.0)] {
            let (mean, variance) = gaps(Arrivals::new(Process::Poisson, rate, seed));
            // The standard error of the mean is 0.22 %, that of the variance of exponential gaps 0.63 %.
            assert!((mean * rate - 1.0).abs() < 0.012, "seed {seed}: mean {mean}");
            assert!((variance * rate * rate - 1.0).abs() < 0.032, "seed {seed}: variance {variance}");
        }
    }

    #[test]
    fn shares_of_poisson_arrivals_add_up_to_the_rate() {
        let second = Duration::from_secs(1);
        let count =
            |part| Arrivals::share(Process::Poisson, 40_000.0, 11, part, 4).take_while(|&time| time < second).count();
        let counts: Vec<usize> = (0..4).map(count).collect();
        // Each of 10,000 expected, with a standard deviation of 100.
        assert!(counts.iter().all(|&count| count.abs_diff(10_000) < 500), "{counts:?}");
        assert!(counts.windows(2).all(|pair| pair[0] != pair[1]), "independent: {counts:?}");
    }

    #[test]
    fn a_seed_replays_exactly() {
        let times = |seed| Arrivals::new(Process::Poisson, 100.0, seed).take(1000).collect::<Vec<_>>();
        assert_eq!(times(5), times(5));
        assert_ne!(times(5), times(6));
    }
}
