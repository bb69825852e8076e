//! Loss and recovery of the engine and of upstreams, a line of the log each.

use std::collections::HashMap;
use std::fmt::Display;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Time without a failure after which a success counts as recovery. It bounds the lines about a peer that fails now and then.
const STABLE_AFTER: Duration = Duration::from_secs(1);
/// Time without a failure after which a peer that nobody calls any more is forgotten.
const FORGET_AFTER: Duration = Duration::from_secs(600);
/// Peers that are lost at a time; further ones are not logged.
const LOST_MAX: usize = 256;

/// The peers of one kind that cannot be reached now.
#[derive(Debug)]
pub(crate) struct Losses {
    /// What they are, as in `engine`.
    kind: &'static str,
    /// Their number, so that a success takes no lock while there are none.
    count: AtomicUsize,
    lost: Mutex<HashMap<String, Lost>>,
}

#[derive(Debug)]
struct Lost {
    since: Instant,
    failed_last: Instant,
    failures: u64,
}

impl Losses {
    pub(crate) fn new(kind: &'static str) -> Self {
        Losses { kind, count: AtomicUsize::new(0), lost: Mutex::default() }
    }

    /// A peer could not be reached. The first failure is logged.
    pub(crate) fn failed(&self, peer: &str, error: &dyn Display) {
        if self.lose(peer, Instant::now()) {
            tracing::error!(peer, %error, "lost the {}", self.kind);
        }
    }

    /// A peer was reached. Recovery is logged.
    pub(crate) fn succeeded(&self, peer: impl FnOnce() -> String) {
        if self.count.load(Ordering::Relaxed) == 0 {
            return;
        }
        let peer = peer();
        if let Some((time, failures)) = self.recover(&peer, Instant::now()) {
            tracing::info!(peer, seconds = time.as_secs_f64(), failures, "the {} is back", self.kind);
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Lost>> {
        self.lost.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the peer was not lost before.
    fn lose(&self, peer: &str, now: Instant) -> bool {
        let mut lost = self.lock();
        if let Some(known) = lost.get_mut(peer) {
            known.failed_last = now;
            known.failures += 1;
            return false;
        }
        if lost.len() >= LOST_MAX {
            lost.retain(|_, it| now.saturating_duration_since(it.failed_last) < FORGET_AFTER);
        }
        let has_room = lost.len() < LOST_MAX;
        if has_room {
            lost.insert(peer.to_owned(), Lost { since: now, failed_last: now, failures: 1 });
        }
        self.count.store(lost.len(), Ordering::Relaxed);
        has_room
    }

    /// For how long a peer was lost that is no longer, and how often it failed.
    fn recover(&self, peer: &str, now: Instant) -> Option<(Duration, u64)> {
        let mut lost = self.lock();
        let is_stable = |it: &Lost| now.saturating_duration_since(it.failed_last) >= STABLE_AFTER;
        lost.get(peer).filter(|it| is_stable(it))?;
        let recovered = lost.remove(peer)?;
        self.count.store(lost.len(), Ordering::Relaxed);
        Some((now.saturating_duration_since(recovered.since), recovered.failures))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peer_that_fails_now_and_then_is_lost_once() {
        let (losses, start) = (Losses::new("engine"), Instant::now());
        let at = |milliseconds| start + Duration::from_millis(milliseconds);
        assert!(losses.lose("a", at(0)));
        for step in 1..100 {
            assert!(!losses.lose("a", at(step * 900)));
            assert_eq!(losses.recover("a", at(step * 900 + 800)), None);
        }
        assert_eq!(losses.recover("a", at(91_000)), Some((Duration::from_secs(91), 100)));
        assert_eq!(losses.recover("a", at(92_000)), None);
        assert!(losses.lose("a", at(93_000)));
    }

    #[test]
    fn the_number_of_lost_peers_is_bounded() {
        let (losses, start) = (Losses::new("upstream"), Instant::now());
        let lost = (0..2 * LOST_MAX).filter(|peer| losses.lose(&peer.to_string(), start)).count();
        assert_eq!((lost, losses.lock().len()), (LOST_MAX, LOST_MAX));
        // Room comes back with time.
        assert!(losses.lose("another", start + FORGET_AFTER));
        assert_eq!(losses.lock().len(), 1);
    }
}
