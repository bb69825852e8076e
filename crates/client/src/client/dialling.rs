//! When connections are opened, and to which addresses: at most one dial at a time, with pauses after failures. `Dialling` of
//! `vectors/client/README.md`.

use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::time::Instant;

use crate::error::ClientError;
use crate::places::DialTargets;
use crate::rules;

/// The purpose of a dial.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DialPurpose {
    Any,
    /// To reach an engine that is not avoided.
    Elsewhere,
}

/// The next address, and the results of the last dials.
#[derive(Debug, Default)]
pub(super) struct Dialling {
    /// Alive while a dial runs.
    running: Weak<DialPurpose>,
    /// Initially random: otherwise all clients would connect to the same engine first.
    next_address: usize,
    /// Dials in a row of which every address failed.
    failures: u32,
    failed: Option<(Instant, ClientError)>,
    /// Dials in a row that missed every address that was not avoided.
    stuck_failures: u32,
    stuck_until: Option<Instant>,
    /// Before this no connection to another place is sought while all are avoided: behind a balancer a new connection may reach another
    /// engine, but otherwise it only costs a handshake.
    renewed_until: Option<Instant>,
    /// Whether the last connection that became unusable had answered; none if a dial has begun since then.
    pub(super) last_unusable: Option<bool>,
    /// Connections in a row that became unusable without an answer.
    unused_in_a_row: u32,
}

impl Dialling {
    pub(super) fn new(next_address: usize) -> Self {
        Dialling { next_address, ..Dialling::default() }
    }

    /// The error of the last dial, before the next one may begin.
    pub(super) fn error(&self, now: Instant) -> Option<&ClientError> {
        self.failed.as_ref().filter(|(until, _)| now < *until).map(|(_, error)| error)
    }

    /// The time until the next dial may begin.
    pub(super) fn pause(&self, now: Instant) -> Duration {
        self.failed.as_ref().map_or(Duration::ZERO, |(until, _)| until.saturating_duration_since(now))
    }

    /// Whether a connection to an engine that is not avoided may be sought.
    pub(super) fn may_dial_elsewhere(&self, is_some_fresh: bool, now: Instant) -> bool {
        if self.running.upgrade().is_some_and(|kind| *kind == DialPurpose::Elsewhere) {
            return true;
        }
        let has_passed = |time: Option<Instant>| time.is_none_or(|time| now >= time);
        has_passed(self.stuck_until) && self.error(now).is_none() && (is_some_fresh || has_passed(self.renewed_until))
    }

    /// Begins a dial, unless one runs or the pause after a failure has not passed. The dial runs while the returned token is alive, and
    /// waits first. `backoff` returns the pause after that many earlier ones, `random_address` an address.
    ///
    /// After a connection has become unusable, the order begins at a random address: load that is uneven then evens out as connections
    /// age, where the next address in order would only hand it on.
    pub(super) fn start(
        &mut self,
        kind: DialPurpose,
        now: Instant,
        random_address: impl FnOnce() -> usize,
        backoff: impl FnOnce(u32) -> Duration,
    ) -> Option<(Arc<DialPurpose>, Duration)> {
        if self.running.strong_count() > 0 || self.error(now).is_some() {
            return None;
        }
        let token = Arc::new(kind);
        self.running = Arc::downgrade(&token);
        if self.last_unusable.is_some() {
            self.next_address = random_address();
        }
        Some((token, self.pause_before(backoff)))
    }

    /// The pause before a dial: longer each time while engines end connections before they answer anything, for otherwise a client would
    /// reconnect to such an engine in a busy loop. The first one causes none: engines end idle connections, too.
    fn pause_before(&mut self, backoff: impl FnOnce(u32) -> Duration) -> Duration {
        match self.last_unusable.take() {
            None => Duration::ZERO,
            Some(true) => {
                self.unused_in_a_row = 0;
                Duration::ZERO
            }
            Some(false) => {
                let earlier = self.unused_in_a_row.checked_sub(1);
                self.unused_in_a_row = self.unused_in_a_row.saturating_add(1);
                earlier.map_or(Duration::ZERO, backoff)
            }
        }
    }

    /// The addresses of a dial that begins: those that are not avoided first, and of these those with the fewest connections in `usable`,
    /// which has the number for each address.
    pub(super) fn plan(&mut self, places: &DialTargets, kind: DialPurpose, usable: &[usize], now: Instant) -> DialPlan {
        let (next, count) = (self.next_address, usable.len());
        let mut order: Vec<usize> = (0..count).map(|step| next.wrapping_add(step) % count).collect();
        order.sort_by_key(|address| (places.is_address_avoided(*address), usable[*address]));
        let fresh = order.iter().filter(|address| !places.is_address_avoided(**address)).count();
        match (fresh, kind) {
            (0, _) => self.renewed_until = Some(now + rules::AVOIDED),
            (_, DialPurpose::Elsewhere) => order.truncate(fresh),
            (_, DialPurpose::Any) => {}
        }
        DialPlan { order, fresh }
    }

    /// A dial connects to this address.
    pub(super) fn note_tried(&mut self, address: usize) {
        self.next_address = address.wrapping_add(1);
    }

    /// A dial has ended that planned `fresh` addresses which are not avoided; `is_fresh`: it has reached one of them.
    pub(super) fn note_missed(
        &mut self,
        is_fresh: bool,
        fresh: usize,
        now: Instant,
        backoff: impl FnOnce(u32) -> Duration,
    ) {
        if is_fresh {
            (self.stuck_failures, self.stuck_until) = (0, None);
        } else if fresh > 0 {
            self.stuck_until = Some(now + backoff(self.stuck_failures));
            self.stuck_failures = self.stuck_failures.saturating_add(1);
        }
    }

    /// A dial has failed at every address.
    pub(super) fn note_failed(&mut self, error: ClientError, now: Instant, backoff: impl FnOnce(u32) -> Duration) {
        self.failed = Some((now + backoff(self.failures), error));
        self.failures = self.failures.saturating_add(1);
    }

    /// A dial has opened a connection.
    pub(super) fn note_opened(&mut self) {
        (self.failures, self.failed) = (0, None);
    }
}

/// The addresses of a dial.
pub(super) struct DialPlan {
    pub(super) order: Vec<usize>,
    /// How many of them, at the beginning, are not avoided.
    pub(super) fresh: usize,
}
