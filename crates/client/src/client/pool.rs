//! The connections that calls may begin on, and the calls that wait for one: `begin` of `vectors/client/README.md`.

mod dials;

use std::collections::VecDeque;
use std::sync::atomic::{Ordering, fence};
use std::sync::{Arc, Mutex, MutexGuard, Weak};

use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, oneshot};
use tokio::time::Instant;

use super::dialler::Dialler;
use super::dialling::{DialPurpose, Dialling};
use crate::connection::Connection;
use crate::error::ClientError;
use crate::places::{DialTarget, DialTargets};
use crate::rule::AttemptEvent;
use crate::rules;
use crate::settings::ClientSettings;
use crate::shared::{ConnectionShared, Owner};
use crate::signals::PoolSignals;

pub(crate) struct PoolInner {
    pub(crate) settings: ClientSettings,
    pub(super) dialler: Dialler,
    pub(super) pool: Mutex<ConnectionPool>,
    pub(super) signals: Arc<PoolSignals>,
}

#[derive(Default)]
pub(super) struct ConnectionPool {
    /// Usable connections, oldest first.
    pub(super) connections: Vec<Arc<Connection>>,
    pub(super) places: DialTargets,
    pub(super) dialling: Dialling,
    /// In the order in which they began to wait. Bounded by the calls of this client.
    waiting: VecDeque<PoolWaiter>,
    /// How many of them do not wait any more.
    gone: usize,
}

struct PoolWaiter {
    refused_by: Option<RefusedBy>,
    /// Where the call runs: a dial for it runs there, too.
    runtime: Handle,
    turn: oneshot::Sender<Result<SendTurn, ClientError>>,
}

/// The connection on which a call has failed.
#[derive(Clone)]
pub(super) struct RefusedBy(Weak<Connection>);

/// The right to send one request on a connection.
pub(super) struct SendTurn {
    pub(super) connection: Arc<Connection>,
    pub(super) slot: OwnedSemaphorePermit,
    /// How many refusals were known when it was given.
    pub(super) refusals: u64,
}

enum PoolAttempt {
    Turn(SendTurn),
    Failed(ClientError),
    Waits,
}

impl RefusedBy {
    pub(super) fn of(connection: &Arc<Connection>) -> Self {
        RefusedBy(Arc::downgrade(connection))
    }

    fn is(&self, connection: &Arc<Connection>) -> bool {
        std::ptr::eq(self.0.as_ptr(), Arc::as_ptr(connection))
    }
}

impl PoolInner {
    pub(super) fn lock(&self) -> MutexGuard<'_, ConnectionPool> {
        self.pool.lock().expect("nothing panics while this is locked")
    }

    /// Waits for a connection and a slot on it.
    ///
    /// # Errors
    /// If no address could be reached.
    pub(super) async fn turn(self: &Arc<Self>, refused_by: Option<&RefusedBy>) -> Result<SendTurn, ClientError> {
        let receiver = {
            let mut pool = self.lock();
            match self.begin(&mut pool, refused_by, None) {
                PoolAttempt::Turn(turn) => return Ok(turn),
                PoolAttempt::Failed(error) => return Err(error),
                PoolAttempt::Waits => {}
            }
            let (turn, receiver) = oneshot::channel();
            pool.waiting.push_back(PoolWaiter { refused_by: refused_by.cloned(), runtime: Handle::current(), turn });
            self.signals.has_waiting.store(true, Ordering::Relaxed);
            fence(Ordering::SeqCst);
            self.pump_locked(&mut pool);
            receiver
        };
        let mut waiting = PoolWait { inner: self, receiver, has_ended: false };
        let turn = (&mut waiting.receiver).await;
        waiting.has_ended = true;
        turn.expect("a waiting call is answered before its sender is dropped")
    }

    fn begin(
        self: &Arc<Self>,
        pool: &mut ConnectionPool,
        refused_by: Option<&RefusedBy>,
        runtime: Option<&Handle>,
    ) -> PoolAttempt {
        let now = Instant::now();
        if pool.places.forget_expired(now) {
            self.signals.has_refusals.store(pool.places.has_refusals(), Ordering::Relaxed);
        }
        let ConnectionPool { connections, places, .. } = &*pool;
        let max = self.settings.requests_in_flight_max;
        let usable = connections.iter().filter(|connection| connection.shared.is_usable());
        let best = usable.min_by_key(|connection| {
            let load = connection.shared.load();
            let has_refused = refused_by.is_some_and(|refused| refused.is(connection));
            (places.is_avoided(connection.place), load >= max, has_refused, load)
        });
        let Some(best) = best.cloned() else {
            if let Some(error) = pool.dialling.error(now) {
                return PoolAttempt::Failed(error.clone());
            }
            self.start_dial(pool, DialPurpose::Any, runtime, now);
            return PoolAttempt::Waits;
        };
        if places.is_avoided(best.place) && pool.may_dial_elsewhere(self.settings.addresses.len(), now) {
            self.start_dial(pool, DialPurpose::Elsewhere, runtime, now);
            return PoolAttempt::Waits;
        }
        if best.shared.load() > 0 && pool.connections.len() < self.settings.connections_max {
            self.start_dial(pool, DialPurpose::Any, runtime, now);
        }
        match best.shared.take_slot() {
            Some(slot) => PoolAttempt::Turn(SendTurn { slot, refusals: pool.places.refusals(), connection: best }),
            None => PoolAttempt::Waits,
        }
    }

    /// Begins the calls that wait, in order. Whether one may begin depends on the pool alone, so the first that may not ends this.
    pub(super) fn pump_locked(self: &Arc<Self>, pool: &mut ConnectionPool) {
        while let Some(waiter) = pool.waiting.front() {
            let (refused_by, runtime) = (waiter.refused_by.clone(), waiter.runtime.clone());
            let turn = match waiter.turn.is_closed() {
                true => None,
                false => match self.begin(pool, refused_by.as_ref(), Some(&runtime)) {
                    PoolAttempt::Turn(turn) => Some(Ok(turn)),
                    PoolAttempt::Failed(error) => Some(Err(error)),
                    PoolAttempt::Waits => break,
                },
            };
            let waiter = pool.waiting.pop_front().expect("it was there a moment ago");
            match turn {
                // If the call has gone at this moment, its slot is free again for the next one.
                Some(turn) => drop(waiter.turn.send(turn)),
                None => pool.gone = pool.gone.saturating_sub(1),
            }
        }
        self.signals.has_waiting.store(!pool.waiting.is_empty(), Ordering::Relaxed);
    }

    /// A slot is free, or a call no longer waits.
    pub(super) fn pump(self: &Arc<Self>) {
        self.pump_locked(&mut self.lock());
    }

    /// Whether there is a connection to an engine that is not avoided.
    pub(super) fn is_ready(&self) -> bool {
        let mut pool = self.lock();
        pool.places.forget_expired(Instant::now());
        let ConnectionPool { connections, places, .. } = &*pool;
        connections.iter().any(|connection| connection.shared.is_usable() && !places.is_avoided(connection.place))
    }

    /// Whether a new connection may reach an engine that is not avoided.
    pub(super) fn may_dial_elsewhere(&self) -> bool {
        let (mut pool, now) = (self.lock(), Instant::now());
        pool.places.forget_expired(now);
        pool.may_dial_elsewhere(self.settings.addresses.len(), now)
    }
}

impl Owner for PoolInner {
    fn released(self: Arc<Self>) {
        self.pump();
    }

    fn became_unusable(self: Arc<Self>, connection: &ConnectionShared, has_answered: bool) {
        let mut pool = self.lock();
        pool.dialling.last_unusable = Some(has_answered);
        pool.connections.retain(|other| !std::ptr::eq(Arc::as_ptr(&other.shared), connection));
        self.pump_locked(&mut pool);
    }

    fn avoid_after(&self, place: DialTarget, event: AttemptEvent, code: &str) {
        let rule = rules::AVOID.iter().find(|rule| rule.event == event && rule.code == code);
        if let Some(rule) = rule {
            self.lock().places.avoid(place, rule.until_success, Instant::now());
            self.signals.has_refusals.store(true, Ordering::Relaxed);
        }
    }

    fn succeeded(&self, place: DialTarget, refusals: u64) {
        let mut pool = self.lock();
        pool.places.forgive_refusals(place, refusals);
        self.signals.has_refusals.store(pool.places.has_refusals(), Ordering::Relaxed);
    }
}

impl ConnectionPool {
    pub(super) fn new(next_address: usize) -> Self {
        ConnectionPool { dialling: Dialling::new(next_address), ..ConnectionPool::default() }
    }

    fn may_dial_elsewhere(&self, addresses: usize, now: Instant) -> bool {
        let is_some_fresh = (0..addresses).any(|address| !self.places.is_address_avoided(address));
        self.dialling.may_dial_elsewhere(is_some_fresh, now)
    }

    /// Drops connections to avoided engines that `opened` replaces: all older ones to the same place, and one more if there are more
    /// than `max`. Their calls in flight continue.
    pub(super) fn replace_avoided(&mut self, opened: &Arc<Connection>, max: usize) {
        let ConnectionPool { connections, places, .. } = self;
        if places.is_avoided(opened.place) {
            connections.retain(|other| {
                let stays = other.place != opened.place || Arc::ptr_eq(other, opened);
                stays || {
                    other.shared.note_replaced();
                    false
                }
            });
            places.forgive(opened.place);
        }
        if connections.len() > max {
            let avoided = connections.iter().enumerate().filter(|(_, other)| places.is_avoided(other.place));
            if let Some((index, _)) = avoided.min_by_key(|(_, other)| other.shared.load()) {
                connections.remove(index).shared.note_replaced();
            }
        }
    }
}

/// A call that waits. If it is dropped, its turn is for the next one.
struct PoolWait<'i> {
    inner: &'i Arc<PoolInner>,
    receiver: oneshot::Receiver<Result<SendTurn, ClientError>>,
    has_ended: bool,
}

impl Drop for PoolWait<'_> {
    fn drop(&mut self) {
        if self.has_ended {
            return;
        }
        self.receiver.close();
        let turn = self.receiver.try_recv();
        let mut pool = self.inner.lock();
        pool.gone += 1;
        if pool.gone * 2 > pool.waiting.len() {
            pool.waiting.retain(|waiter| !waiter.turn.is_closed());
            pool.gone = 0;
        }
        if turn.is_ok() {
            drop(turn);
            self.inner.pump_locked(&mut pool);
        }
    }
}
