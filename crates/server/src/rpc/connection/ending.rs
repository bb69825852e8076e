//! Ends connections: timeouts and the shutdown of the server.

use super::*;

impl<S: Service, W: Wire> RpcConnection<S, W> {
    /// Ends the connection if a timeout has passed or the server shuts down.
    pub(super) fn check_end(&mut self, cx: &mut Context<'_>) -> Result<(), ConnectionEnding> {
        let is_done = self.in_flight.is_empty() && self.outgoing.bytes() == 0 && self.is_flushed;
        if is_done && self.server_state.phase() == ShutdownPhase::Closing {
            return Err(ConnectionEnding::ShutDown);
        }
        if is_done && self.has_ended_reading {
            return Err(ConnectionEnding::AgeReached);
        }
        // The timer is reset only if something is due earlier: most turns leave it unchanged.
        loop {
            let due = self.due(is_done);
            if due < self.timer.deadline().into_std() {
                self.timer.as_mut().reset(due.into());
            }
            if self.timer.as_mut().poll(cx).is_pending() {
                return Ok(());
            }
            let now = clock::now();
            self.check_times(is_done, now)?;
            let due = self.due(is_done).max(now + Duration::from_millis(1));
            self.timer.as_mut().reset(due.into());
            if self.is_reading_nothing() {
                self.check_peer(cx)?;
            }
        }
    }

    /// When the timeouts must be checked next.
    pub(super) fn due(&self, is_done: bool) -> Instant {
        let settings = &self.server_state.settings;
        let frame = self.times.frame.as_ref().map(|frame| frame.due(settings));
        let write = self.is_writing().then(|| self.times.write_timeout.due(settings));
        let paused = self.is_reading_nothing().then(|| clock::now() + PAUSED_LOOK);
        let room = self.no_room.as_ref().map(Attempts::due);
        let idle = self.is_idle(is_done).then(|| self.times.active + settings.idle_timeout);
        // With only requests in flight nothing is due, but the timer needs a time.
        let later = clock::now() + settings.idle_timeout;
        let shutdown = self.shutdown.due(settings, self.server_state.notice());
        let shutdown = shutdown.filter(|_| !self.has_ended_reading);
        [frame, write, paused, room, idle, shutdown, self.in_flight.due()]
            .into_iter()
            .flatten()
            .fold(later.min(self.times.expires), Instant::min)
    }

    pub(super) fn check_times(&self, is_done: bool, now: Instant) -> Result<(), ConnectionEnding> {
        let settings = &self.server_state.settings;
        if now >= self.times.expires {
            let message = "the client's certificate, or that of an authority above it, has expired";
            return Err(ConnectionEnding::Fault(ErrorObject::new(ErrorCode::Forbidden, message)));
        }
        if self.times.frame.as_ref().is_some_and(|frame| now >= frame.due(settings)) {
            let (limit, paused) = (settings.frame_timeout.as_millis(), settings.paused_frame_timeout.as_millis());
            let message =
                format!("the frame did not arrive within {limit} ms, or {paused} ms with the server's pauses");
            return Err(ConnectionEnding::Fault(ErrorObject::new(ErrorCode::DeadlineExceeded, message)));
        }
        if self.is_writing() && now >= self.times.write_timeout.due(settings) {
            return Err(ConnectionEnding::SlowReader);
        }
        if self.is_idle(is_done) && now >= self.times.active + settings.idle_timeout {
            return Err(ConnectionEnding::Idle);
        }
        Ok(())
    }

    pub(super) fn is_writing(&self) -> bool {
        self.outgoing.bytes() > 0 || !self.is_flushed
    }

    pub(super) fn is_idle(&self, is_done: bool) -> bool {
        is_done && self.times.frame.is_none()
    }
}
