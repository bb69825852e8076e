//! When connections are asked to close: at their maximum age, or while their server shuts down. Each has its own moment, so that clients do
//! not all reconnect at once.

use std::time::{Duration, Instant};

/// The phase of a server's shutdown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShutdownPhase {
    /// No shutdown.
    Serving,
    /// Everything is served; clients are asked to reconnect elsewhere.
    Notice,
    /// Requests in flight finish, new ones are refused.
    Draining,
    /// Connections are closed.
    Closing,
}

/// The period in which a server that shuts down still serves and asks its clients to reconnect elsewhere.
///
/// In its first half, load balancers notice that the server is not ready. In its second half, connections are asked to close, each at its
/// own moment; the last tenth is left for clients to do so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShutdownNotice {
    from: Instant,
    until: Instant,
    end: Instant,
}

impl ShutdownNotice {
    /// Starts the period now.
    pub fn new(now: Instant, delay: Duration) -> Self {
        ShutdownNotice { from: now + delay / 2, until: now + delay - delay / 10, end: now + delay }
    }

    /// When the connection with this number, opened at `opened`, is asked to close. One that is opened at the very end is kept until the
    /// end: otherwise its client, which found no other server, would reconnect repeatedly.
    pub fn moment(&self, opened: Instant, number: u64) -> Instant {
        if opened >= self.until {
            return self.end;
        }
        let from = self.from.max(opened);
        from + (self.until - from).mul_f64(share(number))
    }
}

/// When the connection with this number, opened at `opened`, reaches its age: after 80 to 100 % of `age_max`; never if that is zero.
pub fn age_reached(opened: Instant, age_max: Duration, number: u64) -> Option<Instant> {
    if age_max.is_zero() {
        return None;
    }
    opened.checked_add(age_max.mul_f64(0.8 + 0.2 * share(number)))
}

/// A share from 0 to 1. Consecutive numbers have distant shares, and many of them are evenly distributed (Fibonacci hashing). It is
/// deterministic, so that a simulation can be replayed; it need not be secret.
fn share(number: u64) -> f64 {
    const GOLDEN_RATIO: u64 = 0x9e37_79b9_7f4a_7c15;
    (number.wrapping_mul(GOLDEN_RATIO) >> 11) as f64 / (1_u64 << 53) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn moments_lie_evenly_in_the_second_half() {
        let now = Instant::now();
        let notice = ShutdownNotice::new(now, 10 * SECOND);
        let mut moments: Vec<Duration> = (0..1000).map(|number| notice.moment(now, number) - now).collect();
        moments.sort_unstable();
        assert!(moments[0] >= 5 * SECOND && moments[999] <= 9 * SECOND, "{:?}", (moments[0], moments[999]));
        assert!(moments.windows(2).all(|pair| pair[1] - pair[0] < SECOND / 50));
    }

    #[test]
    fn a_late_connection_has_the_rest_of_the_time() {
        let now = Instant::now();
        let notice = ShutdownNotice::new(now, 10 * SECOND);
        for number in 0..1000 {
            let opened = now + 8 * SECOND;
            let moment = notice.moment(opened, number);
            assert!(moment >= opened && moment <= now + 9 * SECOND);
            assert_eq!(notice.moment(now + 9 * SECOND, number), now + 10 * SECOND);
        }
        let at_once = ShutdownNotice::new(now, Duration::ZERO);
        assert_eq!(at_once.moment(now, 7), now);
    }

    #[test]
    fn ages_differ_and_none_is_none() {
        let now = Instant::now();
        assert_eq!(age_reached(now, Duration::ZERO, 1), None);
        let ages: Vec<Duration> =
            (0..100).filter_map(|number| Some(age_reached(now, 10 * SECOND, number)? - now)).collect();
        assert!(ages.iter().all(|age| (8 * SECOND..=10 * SECOND).contains(age)));
        assert!(ages.iter().max() > ages.iter().min());
    }
}
