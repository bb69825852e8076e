//! The dials of the pool, in tasks of their own: a dial continues when the call that caused it ends.

use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::time::{Instant, sleep};

use super::{ConnectionPool, PoolInner};
use crate::client::dialler::{self, Dialler};
use crate::client::dialling::{DialPlan, DialPurpose};
use crate::connection::Connection;
use crate::error::{ClientError, ErrorKind};
use crate::places::DialTarget;
use crate::shared::ConnectionShared;
#[cfg(feature = "simulation")]
use crate::tls;

impl PoolInner {
    /// A pause after this many earlier ones.
    pub(in crate::client) fn pause(&self, earlier: u32) -> Duration {
        crate::decisions::backoff(&self.settings, earlier, self.dialler.chance())
    }

    fn random_address(&self) -> usize {
        self.dialler.random_address(self.settings.addresses.len())
    }

    /// Begins a dial, unless one runs or the pause after a failure has not passed.
    pub(super) fn start_dial(
        self: &Arc<Self>,
        pool: &mut ConnectionPool,
        kind: DialPurpose,
        runtime: Option<&Handle>,
        now: Instant,
    ) {
        let dialling = &mut pool.dialling;
        let started = dialling.start(kind, now, || self.random_address(), |earlier| self.pause(earlier));
        let Some((token, pause)) = started else { return };
        let running = RunningDial { inner: Arc::clone(self), token: Some(token) };
        let dial = running.dial(kind, pause);
        match runtime {
            Some(runtime) => drop(runtime.spawn(dial)),
            None => drop(tokio::spawn(dial)),
        }
    }

    fn plan(&self, kind: DialPurpose, count: usize) -> DialPlan {
        let (mut pool, now) = (self.lock(), Instant::now());
        let ConnectionPool { connections, places, dialling, .. } = &mut *pool;
        places.forget_expired(now);
        let mut usable = vec![0; count];
        for connection in connections.iter().filter(|connection| connection.shared.is_usable()) {
            usable[connection.place.address] += 1;
        }
        dialling.plan(places, kind, &usable, now)
    }

    async fn dial(self: &Arc<Self>, index: usize) -> Result<Arc<Connection>, ClientError> {
        let settings = &self.settings;
        let address = &*settings.addresses[index];
        let shared =
            |place| ConnectionShared::new(settings, Arc::downgrade(self) as _, Arc::clone(&self.signals), place);
        Ok(Arc::new(match &self.dialler {
            Dialler::Tls(credentials) => {
                let connector = credentials.connector().await;
                let start = self.dialler.chance();
                let is_avoided =
                    |record| self.lock().places.is_avoided(DialTarget { address: index, record: Some(record) });
                let dialled = dialler::dial(settings, &connector, address, start, is_avoided).await?;
                self.lock().places.note_records(index, dialled.records);
                let place = DialTarget { address: index, record: Some(dialled.record) };
                Connection::spawn(dialled.stream, place, shared(place), settings.limits, dialled.valid_for)
            }
            #[cfg(feature = "simulation")]
            Dialler::Simulated(network) => {
                let stream = dialler::dial_simulated(settings, network.as_ref(), address).await?;
                let place = DialTarget { address: index, record: None };
                Connection::spawn(tls::socket(stream), place, shared(place), settings.limits, None)
            }
        }))
    }

    fn opened(&self, pool: &mut ConnectionPool, opened: &Arc<Connection>) {
        pool.dialling.note_opened();
        // It may have ended since.
        if opened.shared.is_usable() {
            pool.places.forget_expired(Instant::now());
            pool.connections.push(Arc::clone(opened));
            pool.replace_avoided(opened, self.settings.connections_max);
        }
    }
}

/// A dial that runs.
struct RunningDial {
    inner: Arc<PoolInner>,
    token: Option<Arc<DialPurpose>>,
}

impl RunningDial {
    async fn dial(mut self, kind: DialPurpose, pause: Duration) {
        if !pause.is_zero() {
            sleep(pause).await;
        }
        let inner = Arc::clone(&self.inner);
        let count = inner.settings.addresses.len();
        let plan = inner.plan(kind, count);
        let mut error: Option<ClientError> = None;
        let mut opened = None;
        let mut tried = 0;
        for &address in &plan.order {
            inner.lock().dialling.note_tried(address);
            tried += 1;
            match inner.dial(address).await {
                Ok(connection) => {
                    opened = Some(connection);
                    break;
                }
                // Errors that may pass count before those that may not.
                Err(new) if new.kind == ErrorKind::Connect => error = Some(new),
                Err(new) => error = Some(error.filter(|error| error.kind == ErrorKind::Connect).unwrap_or(new)),
            }
        }
        let is_fresh = opened.is_some() && tried <= plan.fresh;
        let mut pool = inner.lock();
        let pool = &mut *pool;
        self.token = None;
        let backoff = |earlier| inner.pause(earlier);
        pool.dialling.note_missed(is_fresh, plan.fresh, Instant::now(), backoff);
        match (opened, error) {
            (Some(opened), _) => inner.opened(pool, &opened),
            (None, Some(error)) if tried == count => pool.dialling.note_failed(error, Instant::now(), backoff),
            (None, _) => {}
        }
        inner.pump_locked(pool);
    }
}

impl Drop for RunningDial {
    /// Only if the runtime of the dial has ended are calls still waiting for it.
    fn drop(&mut self) {
        if self.token.take().is_some()
            && let Ok(mut pool) = self.inner.pool.try_lock()
        {
            self.inner.pump_locked(&mut pool);
        }
    }
}
