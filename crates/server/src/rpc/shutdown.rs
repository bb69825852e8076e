//! The shutdown of one connection, because the server shuts down or the connection is old: the server announces it, keeps reading for a
//! while, and closes the connection when everything that was read is answered.

use std::time::{Duration, Instant};

use leafseal_net::{ShutdownNotice, ShutdownPhase, age_reached};
use leafseal_protocol::GoingAway;

use crate::settings::ServerSettings;

/// The progress of a connection's shutdown.
#[derive(Debug)]
pub(crate) struct ConnectionShutdown {
    number: u64,
    opened: Instant,
    age_reached: Option<Instant>,
    announced: Option<Announcement>,
}

/// The announcement to the peer, and its time.
#[derive(Clone, Copy, Debug)]
struct Announcement {
    reason: GoingAway,
    at: Instant,
}

impl ConnectionShutdown {
    pub(crate) fn new(settings: &ServerSettings, number: u64, now: Instant) -> Self {
        let age_reached = age_reached(now, settings.connection_age_max, number);
        ConnectionShutdown { number, opened: now, age_reached, announced: None }
    }

    /// Returns the announcement to send now: each reason at most once, and nothing after a shutdown was announced.
    pub(crate) fn announce(
        &mut self,
        phase: ShutdownPhase,
        notice: Option<ShutdownNotice>,
        now: Instant,
    ) -> Option<GoingAway> {
        let is_due = |moment: Option<Instant>| moment.is_some_and(|moment| moment <= now);
        let reason = match phase {
            ShutdownPhase::Draining | ShutdownPhase::Closing => GoingAway::Shutdown,
            _ if is_due(self.moment(notice)) => GoingAway::Shutdown,
            _ if is_due(self.age_reached) => GoingAway::Age,
            _ => return None,
        };
        match self.announced {
            Some(announced) if announced.reason == reason || announced.reason == GoingAway::Shutdown => None,
            before => {
                // The grace period begins with the first announcement.
                let at = before.map_or(now, |announced| announced.at);
                self.announced = Some(Announcement { reason, at });
                Some(reason)
            }
        }
    }

    fn moment(&self, notice: Option<ShutdownNotice>) -> Option<Instant> {
        notice.map(|notice| notice.moment(self.opened, self.number))
    }

    /// When reading ends because the connection has reached its maximum age and its peer had time to reconnect.
    fn reading_end(&self, grace: Duration) -> Option<Instant> {
        let announced = self.announced?;
        (announced.at >= self.age_reached?).then(|| announced.at + grace)
    }

    /// Whether reading has ended.
    pub(crate) fn has_ended_reading(&self, settings: &ServerSettings, now: Instant) -> bool {
        self.reading_end(settings.connection_age_grace).is_some_and(|reading_end| reading_end <= now)
    }

    /// When to check again, if ever.
    pub(crate) fn due(&self, settings: &ServerSettings, notice: Option<ShutdownNotice>) -> Option<Instant> {
        let moment = match self.announced {
            Some(Announcement { reason: GoingAway::Shutdown, .. }) => None,
            _ => self.moment(notice),
        };
        let age = match self.announced {
            None => self.age_reached,
            Some(_) => self.reading_end(settings.connection_age_grace),
        };
        moment.into_iter().chain(age).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn settings(age: Duration) -> ServerSettings {
        ServerSettings { connection_age_max: age, connection_age_grace: 3 * SECOND, ..ServerSettings::for_tests() }
    }

    #[test]
    fn a_connection_announces_its_age_once_and_then_reads_no_more() {
        let (settings, now) = (settings(10 * SECOND), Instant::now());
        let mut shutdown = ConnectionShutdown::new(&settings, 0, now);
        let due = shutdown.due(&settings, None).unwrap();
        assert!((8 * SECOND..=10 * SECOND).contains(&(due - now)));
        assert_eq!(shutdown.announce(ShutdownPhase::Serving, None, due - SECOND), None);
        assert_eq!(shutdown.announce(ShutdownPhase::Serving, None, due), Some(GoingAway::Age));
        assert_eq!(shutdown.announce(ShutdownPhase::Serving, None, due + SECOND), None);
        assert_eq!(shutdown.due(&settings, None), Some(due + 3 * SECOND));
        assert!(!shutdown.has_ended_reading(&settings, due + 2 * SECOND));
        assert!(shutdown.has_ended_reading(&settings, due + 3 * SECOND));
        assert_eq!(shutdown.announce(ShutdownPhase::Draining, None, due + 4 * SECOND), Some(GoingAway::Shutdown));
        assert!(shutdown.has_ended_reading(&settings, due + 4 * SECOND));
    }

    #[test]
    fn a_shutdown_is_announced_at_the_connections_moment_or_when_the_server_drains() {
        let (settings, now) = (settings(Duration::ZERO), Instant::now());
        let notice = Some(ShutdownNotice::new(now, 10 * SECOND));
        let mut shutdown = ConnectionShutdown::new(&settings, 1, now);
        assert_eq!(shutdown.due(&settings, None), None);
        let due = shutdown.due(&settings, notice).unwrap();
        assert_eq!(shutdown.announce(ShutdownPhase::Notice, notice, due - SECOND / 100), None);
        assert_eq!(shutdown.announce(ShutdownPhase::Notice, notice, due), Some(GoingAway::Shutdown));
        assert_eq!(shutdown.announce(ShutdownPhase::Draining, notice, due), None);
        assert_eq!(shutdown.due(&settings, notice), None);
        assert!(!shutdown.has_ended_reading(&settings, due + 3600 * SECOND));

        let mut shutdown = ConnectionShutdown::new(&settings, 1, now);
        assert_eq!(shutdown.announce(ShutdownPhase::Draining, None, now), Some(GoingAway::Shutdown));
        assert_eq!(shutdown.announce(ShutdownPhase::Closing, None, now), None);
    }
}
