//! How the server leaves a connection: it announces it, keeps reading for a while, and closes the connection when everything that was read
//! is answered.

use std::time::{Duration, Instant};

use leafseal_net::{Leaving, Phase, age_reached};
use leafseal_protocol::GoingAway;

use crate::settings::ServerSettings;

/// The state of leaving a connection.
#[derive(Debug)]
pub(crate) struct Departure {
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

impl Departure {
    pub(crate) fn new(settings: &ServerSettings, number: u64, now: Instant) -> Self {
        let age_reached = age_reached(now, settings.connection_age_max, number);
        Departure { number, opened: now, age_reached, announced: None }
    }

    /// Returns the announcement to send now: each reason at most once, and nothing after a shutdown was announced.
    pub(crate) fn announce(&mut self, phase: Phase, leaving: Option<Leaving>, now: Instant) -> Option<GoingAway> {
        let is_due = |moment: Option<Instant>| moment.is_some_and(|moment| moment <= now);
        let reason = match phase {
            Phase::Draining | Phase::Closing => GoingAway::Shutdown,
            _ if is_due(self.moment(leaving)) => GoingAway::Shutdown,
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

    fn moment(&self, leaving: Option<Leaving>) -> Option<Instant> {
        leaving.map(|leaving| leaving.moment(self.opened, self.number))
    }

    /// When reading ends because the connection has reached its maximum age and its peer had time to reconnect.
    fn retirement(&self, grace: Duration) -> Option<Instant> {
        let announced = self.announced?;
        (announced.at >= self.age_reached?).then(|| announced.at + grace)
    }

    /// Whether reading has ended.
    pub(crate) fn is_retired(&self, settings: &ServerSettings, now: Instant) -> bool {
        self.retirement(settings.connection_age_grace).is_some_and(|retirement| retirement <= now)
    }

    /// When to check again, if ever.
    pub(crate) fn due(&self, settings: &ServerSettings, leaving: Option<Leaving>) -> Option<Instant> {
        let moment = match self.announced {
            Some(Announcement { reason: GoingAway::Shutdown, .. }) => None,
            _ => self.moment(leaving),
        };
        let age = match self.announced {
            None => self.age_reached,
            Some(_) => self.retirement(settings.connection_age_grace),
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
    fn a_connection_announces_its_age_once_and_then_retires() {
        let (settings, now) = (settings(10 * SECOND), Instant::now());
        let mut departure = Departure::new(&settings, 0, now);
        let due = departure.due(&settings, None).unwrap();
        assert!((8 * SECOND..=10 * SECOND).contains(&(due - now)));
        assert_eq!(departure.announce(Phase::Serving, None, due - SECOND), None);
        assert_eq!(departure.announce(Phase::Serving, None, due), Some(GoingAway::Age));
        assert_eq!(departure.announce(Phase::Serving, None, due + SECOND), None);
        assert_eq!(departure.due(&settings, None), Some(due + 3 * SECOND));
        assert!(!departure.is_retired(&settings, due + 2 * SECOND));
        assert!(departure.is_retired(&settings, due + 3 * SECOND));
        assert_eq!(departure.announce(Phase::Draining, None, due + 4 * SECOND), Some(GoingAway::Shutdown));
        assert!(departure.is_retired(&settings, due + 4 * SECOND));
    }

    #[test]
    fn a_shutdown_is_announced_at_the_connections_moment_or_when_the_server_drains() {
        let (settings, now) = (settings(Duration::ZERO), Instant::now());
        let leaving = Some(Leaving::new(now, 10 * SECOND));
        let mut departure = Departure::new(&settings, 1, now);
        assert_eq!(departure.due(&settings, None), None);
        let due = departure.due(&settings, leaving).unwrap();
        assert_eq!(departure.announce(Phase::Leaving, leaving, due - SECOND / 100), None);
        assert_eq!(departure.announce(Phase::Leaving, leaving, due), Some(GoingAway::Shutdown));
        assert_eq!(departure.announce(Phase::Draining, leaving, due), None);
        assert_eq!(departure.due(&settings, leaving), None);
        assert!(!departure.is_retired(&settings, due + 3600 * SECOND));

        let mut departure = Departure::new(&settings, 1, now);
        assert_eq!(departure.announce(Phase::Draining, None, now), Some(GoingAway::Shutdown));
        assert_eq!(departure.announce(Phase::Closing, None, now), None);
    }
}
