//! Opening connections: at most one dial at a time, which goes on when the call that caused it ends. `Dialling` of
//! `vectors/client/README.md`.

use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::time::{Instant, sleep};

use super::pool::{Inner, Pool};
use crate::connection::Connection;
use crate::error::{ClientError, ErrorKind};
use crate::rules;

/// What a dial is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Any,
    /// To reach an engine that is not avoided.
    Elsewhere,
}

/// The next address, and the results of the last dials.
#[derive(Debug, Default)]
pub(super) struct Dialling {
    /// Alive while a dial runs.
    running: Weak<Kind>,
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
    /// Whether the last connection that left had answered; none if a dial has begun since then.
    pub(super) last_left: Option<bool>,
    /// Connections in a row that left without an answer.
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
    pub(super) fn may_seek(&self, is_some_fresh: bool, now: Instant) -> bool {
        if self.running.upgrade().is_some_and(|kind| *kind == Kind::Elsewhere) {
            return true;
        }
        let has_passed = |time: Option<Instant>| time.is_none_or(|time| now >= time);
        has_passed(self.stuck_until) && self.error(now).is_none() && (is_some_fresh || has_passed(self.renewed_until))
    }

    /// The pause before a dial: longer each time while engines end connections before they answer anything, for otherwise a client would
    /// reconnect to such an engine in a busy loop. The first one causes none: engines end idle connections, too.
    fn pause_before(&mut self, backoff: impl FnOnce(u32) -> Duration) -> Duration {
        match self.last_left.take() {
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
}

/// The addresses of a dial.
struct Plan {
    order: Vec<usize>,
    /// How many of them, at the beginning, are not avoided.
    fresh: usize,
}

impl Pool {
    fn plan(&mut self, kind: Kind, count: usize) -> Plan {
        let now = Instant::now();
        self.places.forget_expired(now);
        let next = self.dialling.next_address;
        let mut order: Vec<usize> = (0..count).map(|step| next.wrapping_add(step) % count).collect();
        order.sort_by_key(|address| self.places.is_address_avoided(*address));
        let fresh = order.iter().filter(|address| !self.places.is_address_avoided(**address)).count();
        match (fresh, kind) {
            (0, _) => self.dialling.renewed_until = Some(now + rules::AVOIDED),
            (_, Kind::Elsewhere) => order.truncate(fresh),
            (_, Kind::Any) => {}
        }
        Plan { order, fresh }
    }
}

impl Inner {
    /// Begins a dial, unless one runs or the pause after a failure has not passed.
    pub(super) fn start_dial(self: &Arc<Self>, pool: &mut Pool, kind: Kind, runtime: Option<&Handle>, now: Instant) {
        let dialling = &mut pool.dialling;
        if dialling.running.strong_count() > 0 || dialling.error(now).is_some() {
            return;
        }
        let token = Arc::new(kind);
        dialling.running = Arc::downgrade(&token);
        let pause = dialling.pause_before(|earlier| self.pause(earlier));
        let running = Running { inner: Arc::clone(self), token: Some(token) };
        let dial = running.dial(kind, pause);
        match runtime {
            Some(runtime) => drop(runtime.spawn(dial)),
            None => drop(tokio::spawn(dial)),
        }
    }
}

/// A dial that runs.
struct Running {
    inner: Arc<Inner>,
    token: Option<Arc<Kind>>,
}

impl Running {
    async fn dial(mut self, kind: Kind, pause: Duration) {
        if !pause.is_zero() {
            sleep(pause).await;
        }
        let inner = Arc::clone(&self.inner);
        let count = inner.settings.addresses.len();
        let plan = inner.lock().plan(kind, count);
        let mut error: Option<ClientError> = None;
        let mut opened = None;
        let mut tried = 0;
        for &address in &plan.order {
            inner.lock().dialling.next_address = address.wrapping_add(1);
            tried += 1;
            match inner.dial(address).await {
                Ok(connection) => {
                    opened = Some(connection);
                    break;
                }
                // What may pass counts before what may not.
                Err(new) if new.kind == ErrorKind::Connect => error = Some(new),
                Err(new) => error = Some(error.filter(|error| error.kind == ErrorKind::Connect).unwrap_or(new)),
            }
        }
        let is_fresh = opened.is_some() && tried <= plan.fresh;
        let mut pool = inner.lock();
        let pool = &mut *pool;
        self.token = None;
        inner.note_missed(pool, is_fresh, plan.fresh);
        match (opened, error) {
            (Some(opened), _) => inner.opened(pool, &opened),
            (None, Some(error)) if tried == count => inner.note_failed(pool, error),
            (None, _) => {}
        }
        inner.pump_locked(pool);
    }
}

impl Drop for Running {
    /// Only if the runtime of the dial has ended are calls still waiting for it.
    fn drop(&mut self) {
        if self.token.take().is_some()
            && let Ok(mut pool) = self.inner.pool.try_lock()
        {
            self.inner.pump_locked(&mut pool);
        }
    }
}

impl Inner {
    fn note_missed(&self, pool: &mut Pool, is_fresh: bool, fresh: usize) {
        let dialling = &mut pool.dialling;
        if is_fresh {
            (dialling.stuck_failures, dialling.stuck_until) = (0, None);
        } else if fresh > 0 {
            dialling.stuck_until = Some(Instant::now() + self.pause(dialling.stuck_failures));
            dialling.stuck_failures = dialling.stuck_failures.saturating_add(1);
        }
    }

    fn note_failed(&self, pool: &mut Pool, error: ClientError) {
        let dialling = &mut pool.dialling;
        dialling.failed = Some((Instant::now() + self.pause(dialling.failures), error));
        dialling.failures = dialling.failures.saturating_add(1);
    }

    fn opened(&self, pool: &mut Pool, opened: &Arc<Connection>) {
        (pool.dialling.failures, pool.dialling.failed) = (0, None);
        // It may have ended since.
        if opened.shared.is_usable() {
            pool.places.forget_expired(Instant::now());
            pool.connections.push(Arc::clone(opened));
            pool.replace_avoided(opened, self.settings.connections_max);
        }
    }
}
