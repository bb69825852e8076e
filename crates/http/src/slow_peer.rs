//! Whether a peer is too slow: it moves so many bytes in so long, counting only the time in which we wait for it.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::time::{Instant, Sleep, sleep_until};

/// The progress of one direction of one peer.
#[derive(Debug)]
pub(crate) struct PeerProgress {
    timeout: Duration,
    bytes_min: u64,
    /// In the current period: the time spent waiting, and the bytes moved.
    waited: Duration,
    bytes: u64,
    waiting_since: Option<Instant>,
    timer: Option<Pin<Box<Sleep>>>,
}

impl PeerProgress {
    pub(crate) fn new(timeout: Duration, bytes_min: u64) -> Self {
        PeerProgress { timeout, bytes_min, waited: Duration::ZERO, bytes: 0, waiting_since: None, timer: None }
    }

    /// Call it while waiting for the peer: completes when the peer is too slow.
    pub(crate) fn poll_overdue(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if self.waiting_since.is_none() {
            let now = Instant::now();
            self.waiting_since = Some(now);
            let deadline = now + self.timeout.saturating_sub(self.waited);
            match &mut self.timer {
                Some(timer) => timer.as_mut().reset(deadline),
                None => self.timer = Some(Box::pin(sleep_until(deadline))),
            }
        }
        self.timer.as_mut().map_or(Poll::Pending, |timer| timer.as_mut().poll(cx))
    }

    /// Call it when the peer has moved `bytes`.
    pub(crate) fn moved(&mut self, bytes: u64) {
        if let Some(since) = self.waiting_since.take() {
            self.waited += since.elapsed();
        }
        self.bytes += bytes;
        if self.bytes >= self.bytes_min {
            (self.bytes, self.waited) = (0, Duration::ZERO);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::poll_fn;
    use tokio::time::{advance, timeout};

    #[tokio::test(start_paused = true)]
    async fn only_waiting_counts_and_enough_bytes_restart_it() {
        let mut progress = PeerProgress::new(Duration::from_secs(10), 100);
        let wait = async |progress: &mut PeerProgress, millis| {
            timeout(Duration::from_millis(millis), poll_fn(|cx| progress.poll_overdue(cx))).await.is_ok()
        };
        assert!(!wait(&mut progress, 9_000).await);
        progress.moved(99);
        advance(Duration::from_secs(60)).await;
        assert!(!wait(&mut progress, 900).await, "the minute was ours");
        progress.moved(1);
        assert!(!wait(&mut progress, 9_900).await, "a hundred bytes are enough");
        progress.moved(99);
        assert!(wait(&mut progress, 200).await, "ten seconds for 99 bytes");
    }
}
