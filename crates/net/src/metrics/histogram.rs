//! A histogram of durations: each observation is two additions without a lock, from any thread.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Inclusive upper bounds of the buckets in nanoseconds; one more bucket holds longer durations. From 1 µs, a small slice, to 50 s, a long
/// wait for an answer, in steps of 1, 2 and 5.
const BOUNDS_NS: [u64; 24] = [
    1_000,
    2_000,
    5_000,
    10_000,
    20_000,
    50_000,
    100_000,
    200_000,
    500_000,
    1_000_000,
    2_000_000,
    5_000_000,
    10_000_000,
    20_000_000,
    50_000_000,
    100_000_000,
    200_000_000,
    500_000_000,
    1_000_000_000,
    2_000_000_000,
    5_000_000_000,
    10_000_000_000,
    20_000_000_000,
    50_000_000_000,
];

const BUCKETS: usize = BOUNDS_NS.len() + 1;

/// Durations since the start.
#[derive(Debug)]
pub struct Histogram {
    buckets: [AtomicU64; BUCKETS],
    sum_ns: AtomicU64,
}

impl Default for Histogram {
    fn default() -> Self {
        Histogram { buckets: std::array::from_fn(|_| AtomicU64::new(0)), sum_ns: AtomicU64::new(0) }
    }
}

/// The state of a histogram at one moment.
#[derive(Clone, Debug, PartialEq)]
pub struct HistogramSnapshot {
    /// The upper bound in seconds and the count of each bucket.
    pub buckets: Vec<(f64, u64)>,
    /// The sum in seconds.
    pub sum: f64,
    /// The count in all buckets.
    pub count: u64,
}

impl Histogram {
    /// Counts a duration.
    pub fn observe(&self, time: Duration) {
        let nanoseconds = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        let bucket = BOUNDS_NS.partition_point(|bound| *bound < nanoseconds);
        self.buckets[bucket].fetch_add(1, Ordering::Relaxed);
        self.sum_ns.fetch_add(nanoseconds, Ordering::Relaxed);
    }

    /// The state of the histogram.
    pub fn snapshot(&self) -> HistogramSnapshot {
        Self::sum([self])
    }

    /// The sum of several histograms, such as those of all threads.
    pub fn sum<'h>(histograms: impl IntoIterator<Item = &'h Histogram>) -> HistogramSnapshot {
        let (mut counts, mut sum_ns) = ([0_u64; BUCKETS], 0_u64);
        for histogram in histograms {
            counts.iter_mut().zip(&histogram.buckets).for_each(|(count, it)| *count += it.load(Ordering::Relaxed));
            sum_ns = sum_ns.wrapping_add(histogram.sum_ns.load(Ordering::Relaxed));
        }
        let ends = BOUNDS_NS.iter().map(|bound| seconds(*bound)).chain([f64::INFINITY]);
        HistogramSnapshot { buckets: ends.zip(counts).collect(), sum: seconds(sum_ns), count: counts.iter().sum() }
    }
}

fn seconds(nanoseconds: u64) -> f64 {
    nanoseconds as f64 / 1e9
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_are_inclusive_and_nothing_is_too_long() {
        let histogram = Histogram::default();
        for nanoseconds in [0, 1_000, 1_001, 50_000_000_000, 50_000_000_001] {
            histogram.observe(Duration::from_nanos(nanoseconds));
        }
        let snapshot = histogram.snapshot();
        let filled: Vec<_> = snapshot.buckets.iter().filter(|(_, count)| *count > 0).copied().collect();
        assert_eq!(filled, [(1e-6, 2), (2e-6, 1), (50.0, 1), (f64::INFINITY, 1)]);
        assert_eq!((snapshot.count, snapshot.sum), (5, 100.000_002_002));
        histogram.observe(Duration::MAX);
        assert_eq!(histogram.snapshot().count, 6);
        let other = Histogram::default();
        other.observe(Duration::from_secs(2));
        let both = Histogram::sum([&other, &other]);
        assert_eq!((both.count, both.sum), (2, 4.0));
        assert_eq!(both.buckets.iter().find(|(_, count)| *count > 0), Some(&(2.0, 2)));
    }

    #[test]
    fn ends_rise() {
        assert!(BOUNDS_NS.windows(2).all(|pair| pair[0] < pair[1]));
    }
}
