//! The results of requests: a histogram of latencies, and counts of answers by result.

use std::collections::BTreeMap;
use std::time::Duration;

use hdrhistogram::Histogram;

/// Lowest latency that is distinguished, in nanoseconds.
const LATENCY_MIN: u64 = 100;
/// Latencies above an hour count as an hour, in nanoseconds.
const LATENCY_MAX: u64 = 3_600_000_000_000;
/// Significant digits of recorded latencies.
const DIGITS: u8 = 3;

/// A histogram of latencies with three significant digits. Its size does not grow with their number.
#[derive(Clone, Debug)]
pub struct Latencies(Histogram<u64>);

impl Default for Latencies {
    fn default() -> Self {
        Latencies(Histogram::new_with_bounds(LATENCY_MIN, LATENCY_MAX, DIGITS).expect("the bounds fit"))
    }
}

impl Latencies {
    /// Records a latency.
    pub fn record(&mut self, latency: Duration) {
        let nanoseconds = u64::try_from(latency.as_nanos()).unwrap_or(u64::MAX);
        self.0.saturating_record(nanoseconds.clamp(LATENCY_MIN, LATENCY_MAX));
    }

    /// Adds the latencies of `other`.
    pub fn add(&mut self, other: &Latencies) {
        self.0.add(&other.0).expect("the same bounds");
    }

    /// The number of latencies.
    pub fn count(&self) -> u64 {
        self.0.len()
    }

    /// Returns the quantile at `share`, from 0 to 1; zero if empty.
    pub fn quantile(&self, share: f64) -> Duration {
        if self.0.is_empty() { Duration::ZERO } else { Duration::from_nanos(self.0.value_at_quantile(share)) }
    }

    /// The recorded latencies in ascending order, each with its count.
    pub fn recorded(&self) -> impl Iterator<Item = (Duration, u64)> + '_ {
        let values = self.0.iter_recorded();
        values.map(|value| (Duration::from_nanos(value.value_iterated_to()), value.count_at_value()))
    }

    /// The longest latency.
    pub fn max(&self) -> Duration {
        Duration::from_nanos(self.0.max())
    }
}

/// The results of requests.
#[derive(Clone, Debug, Default)]
pub struct LatencyTally {
    /// Latencies of successful answers.
    pub latencies: Latencies,
    /// Error answers, by code.
    pub errors: BTreeMap<String, u64>,
    /// Requests that were sent. Each was answered exactly once; otherwise the measurement fails.
    pub sent: u64,
    /// Requests that were due but never sent because too many were in flight.
    pub unsent: u64,
}

impl LatencyTally {
    /// The number of successful answers.
    pub fn ok(&self) -> u64 {
        self.latencies.count()
    }

    /// The number of answers, successful or not.
    pub fn answered(&self) -> u64 {
        self.ok() + self.errors.values().sum::<u64>()
    }

    /// Adds the counts of `other`.
    pub fn add(&mut self, other: &LatencyTally) {
        self.latencies.add(&other.latencies);
        self.sent += other.sent;
        self.unsent += other.unsent;
        for (code, count) in &other.errors {
            *self.errors.entry(code.clone()).or_default() += count;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_keep_three_digits() {
        let mut latencies = Latencies::default();
        assert_eq!((latencies.quantile(0.5), latencies.max()), (Duration::ZERO, Duration::ZERO));
        (1..=100_000).for_each(|micros| latencies.record(Duration::from_micros(micros)));
        for (share, micros) in [(0.5, 50_000.0), (0.9, 90_000.0), (0.99, 99_000.0), (1.0, 100_000.0)] {
            let found = latencies.quantile(share).as_secs_f64() * 1e6;
            assert!((found / micros - 1.0).abs() < 0.001, "{share}: {found}");
        }
    }

    #[test]
    fn latencies_out_of_bounds_are_kept_at_them() {
        let mut latencies = Latencies::default();
        latencies.record(Duration::ZERO);
        latencies.record(Duration::MAX);
        assert_eq!(latencies.count(), 2);
        assert!(latencies.max() >= Duration::from_nanos(LATENCY_MAX));
        assert!(latencies.quantile(0.1) <= Duration::from_nanos(2 * LATENCY_MIN));
    }

    #[test]
    fn tallies_add_up() {
        let mut one = LatencyTally::default();
        one.latencies.record(Duration::from_millis(1));
        one.errors.insert("overloaded".into(), 2);
        let mut sum = one.clone();
        sum.add(&LatencyTally { sent: 3, unsent: 4, ..one });
        assert_eq!((sum.ok(), sum.answered(), sum.sent, sum.unsent), (2, 6, 3, 4));
    }
}
