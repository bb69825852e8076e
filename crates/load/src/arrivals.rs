//! Arrival times of an open loop, relative to the start and reproducible by their seed.

use std::time::Duration;

use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt, SeedableRng};

/// Distribution of the intervals between arrivals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArrivalProcess {
    /// Constant intervals.
    Even,
    /// Exponentially distributed intervals, as for independent callers.
    Poisson,
}

impl ArrivalProcess {
    /// Returns its name in reports.
    pub fn as_str(self) -> &'static str {
        match self {
            ArrivalProcess::Even => "even",
            ArrivalProcess::Poisson => "poisson",
        }
    }
}

/// An arrival rate that changes linearly.
#[derive(Clone, Copy, Debug)]
struct Rate {
    /// Arrivals per second at the start.
    from: f64,
    /// Half of the rate's change per second.
    slope: f64,
}

impl Rate {
    /// Returns the seconds after which `count` arrivals are expected; infinite if the rate falls to zero before.
    fn when(self, count: f64) -> f64 {
        let discriminant = self.from * self.from + 4.0 * self.slope * count;
        // This form of the quadratic formula also holds, exactly, for a slope of zero.
        if discriminant < 0.0 { f64::INFINITY } else { 2.0 * count / (self.from + discriminant.sqrt()) }
    }
}

/// A sequence of arrivals, in order: endless unless its rate falls to zero.
///
/// Arrivals are evenly or exponentially spaced on an axis of counts, which the rate maps to times. A ramp is therefore as regular, or
/// as random, as a constant rate.
#[derive(Clone, Debug)]
pub struct Arrivals {
    process: ArrivalProcess,
    rate: Rate,
    /// Mean distance between arrivals on the axis of counts.
    gap: f64,
    /// The last arrival on that axis.
    last: f64,
    random: Xoshiro256PlusPlus,
}

impl Arrivals {
    /// `rate` arrivals per second; `rate` must be above 0.
    pub fn new(process: ArrivalProcess, rate: f64, seed: u64) -> Self {
        Arrivals::share(process, rate, seed, 0, 1)
    }

    /// A rate that changes linearly from `from` to `to` arrivals per second within `duration`, and continues to change after it. One of
    /// the two must be above 0.
    pub fn ramp(process: ArrivalProcess, (from, to): (f64, f64), duration: Duration, seed: u64) -> Self {
        let slope = (to - from) / duration.as_secs_f64() / 2.0;
        Arrivals { rate: Rate { from, slope }, ..Arrivals::new(process, from.max(to), seed) }
    }

    /// The arrivals of caller `part` of `parts` equal callers, which together have `rate`. Even arrivals alternate between callers;
    /// a random split of a Poisson process is again Poisson, at a fraction of the rate.
    pub fn share(process: ArrivalProcess, rate: f64, seed: u64, part: usize, parts: usize) -> Self {
        let gap = parts as f64;
        let last = match process {
            ArrivalProcess::Even => part as f64 - gap,
            ArrivalProcess::Poisson => 0.0,
        };
        let seed = seed ^ (part as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let rate = Rate { from: rate, slope: 0.0 };
        Arrivals { process, rate, gap, last, random: Xoshiro256PlusPlus::seed_from_u64(seed) }
    }
}

impl Iterator for Arrivals {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        self.last += match self.process {
            ArrivalProcess::Even => self.gap,
            // The inverse of the distribution function, at a number in [0, 1).
            ArrivalProcess::Poisson => -self.gap * (1.0 - self.random.random::<f64>()).ln(),
        };
        // A ramp from zero has its first arrival immediately.
        let seconds = if self.last > 0.0 { self.rate.when(self.last) } else { 0.0 };
        Duration::try_from_secs_f64(seconds).ok()
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
            Arrivals::share(ArrivalProcess::Even, 1000.0, 7, part, parts).take(4).map(|time| time.as_micros()).collect()
        };
        assert_eq!(times(0, 1), [0, 1000, 2000, 3000]);
        assert_eq!(times(1, 4), [1000, 5000, 9000, 13_000]);
    }

    #[test]
    fn poisson_gaps_have_the_mean_and_variance_of_their_rate() {
        for (seed, rate) in [(1, 100.0), (2, 100.0), (3, 50_000.0)] {
            let (mean, variance) = gaps(Arrivals::new(ArrivalProcess::Poisson, rate, seed));
            // The standard error of the mean is 0.22 %, that of the variance of exponential gaps 0.63 %.
            assert!((mean * rate - 1.0).abs() < 0.012, "seed {seed}: mean {mean}");
            assert!((variance * rate * rate - 1.0).abs() < 0.032, "seed {seed}: variance {variance}");
        }
    }

    #[test]
    fn shares_of_poisson_arrivals_add_up_to_the_rate() {
        let second = Duration::from_secs(1);
        let count = |part| {
            Arrivals::share(ArrivalProcess::Poisson, 40_000.0, 11, part, 4).take_while(|&time| time < second).count()
        };
        let counts: Vec<usize> = (0..4).map(count).collect();
        // Each count is expected to be 10,000, with a standard deviation of 100.
        assert!(counts.iter().all(|&count| count.abs_diff(10_000) < 500), "{counts:?}");
        assert!(counts.windows(2).all(|pair| pair[0] != pair[1]), "independent: {counts:?}");
    }

    #[test]
    fn ramps_are_lines() {
        let second = Duration::from_secs(1);
        for (process, allowed) in [(ArrivalProcess::Even, 1), (ArrivalProcess::Poisson, 1300)] {
            for (from, to, expected) in [(0.0, 40_000.0, [10_000, 30_000]), (30_000.0, 10_000.0, [25_000, 15_000])] {
                let times: Vec<Duration> =
                    Arrivals::ramp(process, (from, to), 2 * second, 5).take_while(|&time| time < 2 * second).collect();
                let first = times.iter().filter(|&&time| time < second).count();
                let found = [first, times.len() - first];
                // Poisson counts of at most 30,000 have a standard deviation of at most 173.
                let is_near = found
                    .iter()
                    .zip(&expected)
                    .all(|(&found, &expected): (&usize, _)| found.abs_diff(expected) <= allowed);
                assert!(is_near, "{process:?} from {from} to {to}: {found:?}");
            }
        }
        // After its end the rate is zero.
        let sinking = Arrivals::ramp(ArrivalProcess::Even, (10.0, 0.0), second, 1);
        assert_eq!(sinking.count(), 6);
    }

    #[test]
    fn a_seed_replays_exactly() {
        let times = |seed| Arrivals::new(ArrivalProcess::Poisson, 100.0, seed).take(1000).collect::<Vec<_>>();
        assert_eq!(times(5), times(5));
        assert_ne!(times(5), times(6));
    }
}
