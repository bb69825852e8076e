//! Checks that a peer reads its answers fast enough: some bytes in each `write_timeout`, and everything that waits at one moment within
//! `outgoing_timeout`, however much that is. Without the second limit a peer could occupy all memory indefinitely by reading a few bytes at
//! a time.

use std::time::Instant;

use crate::settings::ServerSettings;

/// The progress of a peer in reading its answers.
pub(crate) struct WriteTimeout {
    /// Since when the socket has not accepted `write_progress_min` bytes, and how many it had accepted then.
    moved: Instant,
    moved_at: u64,
    /// When the current round began, and how many of the bytes that waited then still wait.
    round_began: Instant,
    round_left: usize,
}

impl WriteTimeout {
    pub(crate) fn new(now: Instant) -> Self {
        WriteTimeout { moved: now, moved_at: 0, round_began: now, round_left: 0 }
    }

    /// Starts the timeout when bytes begin to wait. The socket has accepted `socket_taken` bytes in total.
    pub(crate) fn begin(&mut self, now: Instant, socket_taken: u64) {
        (self.moved, self.moved_at) = (now, socket_taken);
    }

    /// Records that `written` bytes were written since the last call and `waiting` are left.
    pub(crate) fn note(
        &mut self,
        settings: &ServerSettings,
        now: Instant,
        socket_taken: u64,
        written: usize,
        waiting: usize,
    ) {
        if socket_taken - self.moved_at >= settings.write_progress_min {
            self.begin(now, socket_taken);
        }
        self.round_left = self.round_left.saturating_sub(written);
        if self.round_left == 0 {
            (self.round_began, self.round_left) = (now, waiting);
        }
    }

    /// When the peer counts as too slow, unless it reads before.
    pub(crate) fn due(&self, settings: &ServerSettings) -> Instant {
        let moved = self.moved + settings.write_timeout;
        if self.round_left == 0 {
            return moved;
        }
        moved.min(self.round_began + settings.outgoing_timeout)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn settings() -> ServerSettings {
        ServerSettings {
            write_timeout: Duration::from_secs(30),
            write_progress_min: 100,
            outgoing_timeout: Duration::from_secs(60),
            ..ServerSettings::for_tests()
        }
    }

    #[test]
    fn some_bytes_are_wanted_in_each_period() {
        let (settings, start) = (settings(), Instant::now());
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut timeout = WriteTimeout::new(start);
        timeout.begin(at(10), 1000);
        assert_eq!(timeout.due(&settings), at(40));
        timeout.note(&settings, at(20), 1099, 99, 0);
        assert_eq!(timeout.due(&settings), at(40));
        timeout.note(&settings, at(25), 1100, 1, 0);
        assert_eq!(timeout.due(&settings), at(55));
    }

    /// Each second it reads more than the minimum, but not enough for everything that waits.
    #[test]
    fn waiting_answers_share_a_deadline_and_later_ones_have_their_own() {
        let (settings, start) = (settings(), Instant::now());
        let at = |seconds: usize| start + Duration::from_secs(seconds as u64);
        let mut timeout = WriteTimeout::new(start);
        timeout.note(&settings, at(0), 0, 0, 100_000);
        for second in 1..60 {
            // More is added than is sent, which does not prolong the round.
            timeout.note(&settings, at(second), second as u64 * 1000, 1000, 100_000 + second);
            assert_eq!(timeout.due(&settings), at(second + 30).min(at(60)), "second {second}");
        }
        timeout.note(&settings, at(59), 100_000, 41_000, 50_000);
        assert_eq!(timeout.due(&settings), at(59 + 30));
        timeout.note(&settings, at(60), 149_999, 49_999, 1);
        timeout.note(&settings, at(61), 150_000, 1, 0);
        assert_eq!(timeout.due(&settings), at(60 + 30), "nothing waits");
    }
}
