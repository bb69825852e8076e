//! Limits the time in which a frame must arrive. Pauses in which the server does not read are excluded, but limited too: a peer that causes
//! them by not reading answers occupies the frame's memory meanwhile.

use std::time::{Duration, Instant};

use crate::settings::ServerSettings;

/// The timeout of an incomplete frame.
pub(crate) struct FrameTimeout {
    /// When its first byte arrived.
    began: Instant,
    /// How long reading has been paused since then, and since when it is paused now.
    paused: Duration,
    pause_began: Option<Instant>,
}

impl FrameTimeout {
    pub(crate) fn new(now: Instant) -> Self {
        FrameTimeout { began: now, paused: Duration::ZERO, pause_began: None }
    }

    /// The server pauses reading.
    pub(crate) fn pause(&mut self, now: Instant) {
        self.pause_began.get_or_insert(now);
    }

    /// The server resumes reading, if it was paused.
    pub(crate) fn resume(&mut self, now: Instant) {
        if let Some(began) = self.pause_began.take() {
            self.paused += now - began;
        }
    }

    /// When the timeout expires.
    pub(crate) fn due(&self, settings: &ServerSettings) -> Instant {
        let at_last = self.began + settings.paused_frame_timeout;
        if self.pause_began.is_some() {
            at_last
        } else {
            at_last.min(self.began + settings.frame_timeout + self.paused)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings() -> ServerSettings {
        ServerSettings {
            frame_timeout: Duration::from_secs(10),
            paused_frame_timeout: Duration::from_secs(80),
            ..ServerSettings::for_tests()
        }
    }

    #[test]
    fn pauses_do_not_count_but_end() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let settings = settings();
        let mut frame = FrameTimeout::new(start);
        assert_eq!(frame.due(&settings), at(10));
        frame.pause(at(4));
        frame.pause(at(5));
        assert_eq!(frame.due(&settings), at(80));
        frame.resume(at(24));
        frame.resume(at(25));
        assert_eq!(frame.due(&settings), at(30));
        frame.pause(at(29));
        frame.resume(at(79));
        assert_eq!(frame.due(&settings), at(80), "20 and 50 s of pauses");
        frame.pause(at(79));
        frame.resume(at(100));
        assert_eq!(frame.due(&settings), at(80));
    }
}
