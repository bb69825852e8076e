//! Logs when the engine or an upstream becomes unreachable and when it recovers.

use std::collections::HashMap;
use std::fmt::Display;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Time without a failure after which a success counts as recovery. Limits the lines about a peer that fails intermittently.
const STABLE_AFTER: Duration = Duration::from_secs(1);
/// Time without a failure after which a peer that is not called any more is removed.
const FORGET_AFTER: Duration = Duration::from_secs(600);
/// Maximum number of unreachable peers; further ones are not logged.
const OUTAGES_MAX: usize = 256;

/// The peers of one kind that are unreachable now.
#[derive(Debug)]
pub(crate) struct Outages {
    /// The kind of peers, such as `engine`.
    kind: &'static str,
    /// Their number, so that a success locks nothing while it is zero.
    count: AtomicUsize,
    outages: Mutex<HashMap<String, Outage>>,
}

#[derive(Debug)]
struct Outage {
    since: Instant,
    failed_last: Instant,
    failures: u64,
}

impl Outages {
    pub(crate) fn new(kind: &'static str) -> Self {
        Outages { kind, count: AtomicUsize::new(0), outages: Mutex::default() }
    }

    /// Records that a peer could not be reached. The first failure is logged.
    pub(crate) fn failed(&self, peer: &str, error: &dyn Display) {
        if self.begin(peer, Instant::now()) {
            tracing::error!(peer, %error, "lost the {}", self.kind);
        }
    }

    /// Records that a peer was reached. Recovery is logged.
    pub(crate) fn succeeded(&self, peer: impl FnOnce() -> String) {
        if self.count.load(Ordering::Relaxed) == 0 {
            return;
        }
        let peer = peer();
        if let Some((time, failures)) = self.end(&peer, Instant::now()) {
            tracing::info!(peer, seconds = time.as_secs_f64(), failures, "the {} is back", self.kind);
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Outage>> {
        self.outages.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records a failure; returns whether the peer was reachable before.
    fn begin(&self, peer: &str, now: Instant) -> bool {
        let mut outages = self.lock();
        if let Some(known) = outages.get_mut(peer) {
            known.failed_last = now;
            known.failures += 1;
            return false;
        }
        if outages.len() >= OUTAGES_MAX {
            outages.retain(|_, it| now.saturating_duration_since(it.failed_last) < FORGET_AFTER);
        }
        let has_room = outages.len() < OUTAGES_MAX;
        if has_room {
            outages.insert(peer.to_owned(), Outage { since: now, failed_last: now, failures: 1 });
        }
        self.count.store(outages.len(), Ordering::Relaxed);
        has_room
    }

    /// Returns for how long a recovered peer was unreachable, and how often it failed.
    fn end(&self, peer: &str, now: Instant) -> Option<(Duration, u64)> {
        let mut outages = self.lock();
        let is_stable = |it: &Outage| now.saturating_duration_since(it.failed_last) >= STABLE_AFTER;
        outages.get(peer).filter(|it| is_stable(it))?;
        let recovered = outages.remove(peer)?;
        self.count.store(outages.len(), Ordering::Relaxed);
        Some((now.saturating_duration_since(recovered.since), recovered.failures))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_intermittent_failure_is_one_outage() {
        let (outages, start) = (Outages::new("engine"), Instant::now());
        let at = |milliseconds| start + Duration::from_millis(milliseconds);
        assert!(outages.begin("a", at(0)));
        for step in 1..100 {
            assert!(!outages.begin("a", at(step * 900)));
            assert_eq!(outages.end("a", at(step * 900 + 800)), None);
        }
        assert_eq!(outages.end("a", at(91_000)), Some((Duration::from_secs(91), 100)));
        assert_eq!(outages.end("a", at(92_000)), None);
        assert!(outages.begin("a", at(93_000)));
    }

    #[test]
    fn the_number_of_outages_is_limited() {
        let (outages, start) = (Outages::new("upstream"), Instant::now());
        let begun = (0..2 * OUTAGES_MAX).filter(|peer| outages.begin(&peer.to_string(), start)).count();
        assert_eq!((begun, outages.lock().len()), (OUTAGES_MAX, OUTAGES_MAX));
        // Entries expire.
        assert!(outages.begin("another", start + FORGET_AFTER));
        assert_eq!(outages.lock().len(), 1);
    }
}
