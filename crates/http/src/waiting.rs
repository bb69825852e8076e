//! Measures how slow a peer is: how long we have waited for it beyond what its bytes are worth. Neither occasional bytes nor a fast start
//! reset it.

use std::time::{Duration, Instant};

/// Bytes that are worth a second of waiting.
const BYTES_PER_SECOND: u64 = 16 << 10;
/// A peer that owes less than this (in microseconds) is not slow.
const DEBT_MIN: i64 = 1_000_000;
/// Maximum credit of a fast peer.
const CREDIT_MAX: i64 = 10_000_000;

/// How readily a connection is displaced by a new one; the greatest is displaced first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Displacement {
    /// Its peer is slow, and owes this much time.
    Slow(Duration),
    /// It has had no request for this long.
    Idle(Duration),
}

/// The measure for one direction of one request.
#[derive(Debug, Default)]
pub(crate) struct WaitMeasure {
    since: Option<Instant>,
    /// In microseconds, excluding the time since `since`.
    debt: i64,
}

impl WaitMeasure {
    /// Starts waiting for the peer.
    pub(crate) fn begin(&mut self, now: Instant) {
        self.since.get_or_insert(now);
    }

    /// The peer has moved `bytes`.
    pub(crate) fn progressed(&mut self, now: Instant, bytes: u64) {
        let waited = self.since.take().map_or(0, |since| microseconds(now.saturating_duration_since(since)));
        let worth = i64::try_from(bytes.saturating_mul(1_000_000) / BYTES_PER_SECOND).unwrap_or(i64::MAX);
        self.debt = self.debt.saturating_add(waited).saturating_sub(worth).max(-CREDIT_MAX);
    }

    /// The time that a peer owes, if we wait for it now and it is slow.
    pub(crate) fn debt(&self, now: Instant) -> Option<Duration> {
        let since = self.since?;
        let debt = self.debt.saturating_add(microseconds(now.saturating_duration_since(since)));
        (debt >= DEBT_MIN).then(|| Duration::from_micros(debt.unsigned_abs()))
    }
}

fn microseconds(time: Duration) -> i64 {
    i64::try_from(time.as_micros()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_now_and_then_and_a_fast_beginning_do_not_hide_slowness() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut dribbling = WaitMeasure::default();
        assert_eq!(dribbling.debt(at(9)), None, "no answer waits");
        for second in 0..20 {
            dribbling.begin(at(second));
            dribbling.progressed(at(second + 1), 500);
        }
        dribbling.begin(at(20));
        assert!(dribbling.debt(at(20)).unwrap() > Duration::from_secs(19));

        let mut fast = WaitMeasure::default();
        fast.begin(at(0));
        fast.progressed(at(1), 1 << 30);
        fast.begin(at(1));
        assert_eq!([fast.debt(at(11)), fast.debt(at(12))], [None, Some(Duration::from_secs(1))]);
    }

    #[test]
    fn a_steady_peer_owes_nothing() {
        let start = Instant::now();
        let mut steady = WaitMeasure::default();
        for second in 0..100 {
            let now = start + Duration::from_secs(second);
            steady.begin(now);
            assert_eq!(steady.debt(now + Duration::from_millis(999)), None, "second {second}");
            steady.progressed(now + Duration::from_secs(1), BYTES_PER_SECOND);
        }
    }

    #[test]
    fn idle_connections_are_displaced_first() {
        let of = Duration::from_secs;
        assert!(
            Displacement::Idle(of(0)) > Displacement::Slow(of(100))
                && Displacement::Slow(of(2)) > Displacement::Slow(of(1))
        );
    }
}
