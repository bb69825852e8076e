//! A client's connections: selecting one for a call, opening further ones, and the delay after failures.

use std::net::SocketAddr;

use leafseal_protocol::ErrorCode;

use super::places::{self, Place, Places, connect_any};
use super::*;
use crate::tls::ChainValidity;

pub(crate) struct Inner {
    pub(crate) settings: ClientSettings,
    pub(super) dialler: Dialler,
    pub(super) open: Mutex<Open>,
    /// Held while a connection is opened, so that only one is opened at a time.
    pub(super) dialling: Arc<tokio::sync::Mutex<Dialling>>,
    pub(crate) budget: RetryBudget,
}

/// A new connection over TLS.
pub(crate) struct Dialled {
    pub(crate) stream: tls::Stream,
    record: SocketAddr,
    /// The records of its address.
    records: usize,
    /// How long the engine's chain is valid from now.
    valid_for: Option<Duration>,
}

/// The connections that calls may begin on.
#[derive(Default)]
pub(super) struct Open {
    pub(super) connections: Vec<Arc<Connection>>,
    pub(super) places: Places,
    /// How the last connection ended, until another one is open.
    pub(super) ended: Option<Ended>,
}

/// Whether a connection that ended had received any answer.
#[derive(Clone, Copy, Debug)]
pub(super) enum Ended {
    Used,
    Unused,
}

impl Open {
    /// Removes the connections on which no new call may begin. Their calls in flight continue.
    pub(super) fn clean(&mut self) {
        let Open { connections, places, ended } = self;
        places.forget_expired();
        connections.retain(|connection| {
            if connection.shared.going_away() == Some(GoingAway::Shutdown) {
                places.avoid(connection.place);
            }
            let is_open = connection.shared.is_open();
            if !is_open {
                *ended = Some(if connection.shared.has_answered() { Ended::Used } else { Ended::Unused });
            }
            is_open
        });
    }

    /// Returns the indexes of `count` addresses, starting with `next`; avoided addresses come last.
    pub(super) fn order(&mut self, next: usize, count: usize) -> Vec<usize> {
        self.clean();
        let mut order: Vec<usize> = (0..count).map(|step| next.wrapping_add(step) % count).collect();
        order.sort_by_key(|address| self.places.is_address_avoided(*address));
        order
    }

    /// Whether a new connection may reach an engine that is not avoided: at another of the `count` addresses, or behind a balancer.
    fn may_leave(&self, count: usize) -> bool {
        let leads_elsewhere = (0..count).any(|address| !self.places.is_address_avoided(address));
        !self.places.is_stuck() && (leads_elsewhere || self.places.may_renew())
    }

    /// Returns the addresses for such a connection, starting with `next`.
    fn order_elsewhere(&mut self, next: usize, count: usize) -> Vec<usize> {
        let order = self.order(next, count);
        let elsewhere: Vec<usize> =
            order.iter().copied().filter(|address| !self.places.is_address_avoided(*address)).collect();
        if !elsewhere.is_empty() {
            return elsewhere;
        }
        self.places.note_renewal();
        order
    }

    /// Removes connections to avoided engines that `opened` replaces: all older ones to the same place, and one more if there are more
    /// than `max`. Their calls in flight continue.
    fn replace_avoided(&mut self, opened: &Arc<Connection>, max: usize) {
        let Open { connections, places, .. } = self;
        if places.is_avoided(opened.place) {
            connections.retain(|other| other.place != opened.place || Arc::ptr_eq(other, opened));
            places.forgive(opened.place);
        }
        if connections.len() > max {
            let avoided = connections.iter().enumerate().filter(|(_, other)| places.is_avoided(other.place));
            if let Some((index, _)) = avoided.min_by_key(|(_, other)| other.shared.load()) {
                connections.swap_remove(index);
            }
        }
    }
}

/// Opens connections.
pub(super) enum Dialler {
    Tls(SslConnector),
    #[cfg(feature = "simulation")]
    Simulated(Box<dyn Network>),
}

/// The next address, and the results of the last attempts.
#[derive(Debug, Default)]
pub(super) struct Dialling {
    /// Initially random: otherwise all clients would connect to the same engine first.
    pub(super) next_address: usize,
    pub(super) failures: u32,
    pub(super) failed: Option<(Instant, ClientError)>,
    /// The number of consecutive connections that ended before they had received an answer.
    pub(super) unused: u32,
    /// No connection is opened before this time because of them.
    pub(super) not_before: Option<Instant>,
}

impl Dialling {
    /// Records how the last connection ended; `pause` returns the pause after this many without an answer. The first one causes none:
    /// engines end idle connections, too.
    pub(super) fn note(&mut self, ended: Ended, pause: impl FnOnce(u32) -> Duration) {
        (self.unused, self.not_before) = match ended {
            Ended::Used => (0, None),
            Ended::Unused => {
                let before = self.unused.checked_sub(1);
                (self.unused.saturating_add(1), before.map(|before| Instant::now() + pause(before)))
            }
        };
    }
}

impl Inner {
    pub(super) async fn call(
        self: &Arc<Self>,
        deadline_ms: Option<u32>,
        memory: Option<Arc<dyn AnswerMemory>>,
        encode: impl Fn(u32, Option<u32>) -> Outgoing,
        retried: impl Fn(&ClientError),
    ) -> Result<Answer, ClientError> {
        let size_max = self.settings.limits.frame_size_max;
        let mut retries = Retries::new(self, deadline_ms);
        let mut avoided = None;
        loop {
            let left_ms = retries.deadline_left_ms();
            let encode = |id| {
                let message = encode(id, left_ms);
                check_request_size(message.size(), size_max).map(|()| message)
            };
            let error = match self.connection(avoided.as_ref()).await {
                Ok(connection) => match connection.shared.begin(memory.clone(), encode).await {
                    Ok(ticket) => match ticket.answer().await {
                        Ok(answer) => {
                            self.budget.earn();
                            return Ok(answer);
                        }
                        Err(error) => {
                            if is_unavailable(&error) {
                                self.lock().places.avoid(connection.place);
                            }
                            avoided = Some(connection);
                            error
                        }
                    },
                    Err(error) => error,
                },
                Err(error) => error,
            };
            let is_left = avoided.as_ref().is_some_and(|connection| connection.shared.going_away().is_some());
            let goes_elsewhere = is_left || is_unavailable(&error) && self.may_leave();
            retries.after(error, goes_elsewhere, &retried).await?;
        }
    }

    /// Returns the connection with the fewest calls, if possible other than `avoided`. While all are in use a further one is opened for
    /// later calls: this one does not wait for an address that may not respond. If all open connections lead to avoided engines, the
    /// call waits for another one.
    pub(super) async fn connection(
        self: &Arc<Self>,
        avoided: Option<&Arc<Connection>>,
    ) -> Result<Arc<Connection>, ClientError> {
        let (best, may_open) = self.choose(avoided);
        let Some(best) = best else {
            let mut dialling = self.dialling.lock().await;
            // Another call may have connected while this one waited.
            return match self.choose(avoided).0 {
                Some(connection) => Ok(connection),
                None => self.open(&mut dialling).await,
            };
        };
        if may_open == MayOpen::Elsewhere {
            let mut dialling = self.dialling.lock().await;
            return match self.choose(avoided) {
                (Some(_), MayOpen::Elsewhere) => Ok(self.open_elsewhere(&mut dialling).await.unwrap_or(best)),
                (chosen, _) => Ok(chosen.unwrap_or(best)),
            };
        }
        if may_open == MayOpen::Yes
            && let Ok(mut dialling) = Arc::clone(&self.dialling).try_lock_owned()
        {
            let inner = Arc::clone(self);
            tokio::spawn(async move { inner.open(&mut dialling).await.map(drop) });
        }
        Ok(best)
    }

    pub(super) fn choose(&self, avoided: Option<&Arc<Connection>>) -> (Option<Arc<Connection>>, MayOpen) {
        let mut open = self.lock();
        open.clean();
        let cost = |connection: &&Arc<Connection>| {
            let is_avoided = avoided.is_some_and(|avoided| Arc::ptr_eq(avoided, connection));
            (open.places.is_avoided(connection.place), is_avoided, connection.shared.load())
        };
        let best = open.connections.iter().min_by_key(cost).cloned();
        if best.as_ref().is_some_and(|best| open.places.is_avoided(best.place))
            && open.may_leave(self.settings.addresses.len())
        {
            return (best, MayOpen::Elsewhere);
        }
        let is_busy = best.as_ref().is_none_or(|best| best.shared.load() > 0);
        let has_room = open.connections.len() < self.settings.connections_max;
        (best, if is_busy && has_room { MayOpen::Yes } else { MayOpen::No })
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Open> {
        self.open.lock().expect("nothing panics while this is locked")
    }

    fn may_leave(&self) -> bool {
        let mut open = self.lock();
        open.places.forget_expired();
        open.may_leave(self.settings.addresses.len())
    }

    /// Opens a connection to the first address that can be reached, unless the delay after a failure has not passed.
    pub(super) async fn open(&self, dialling: &mut Dialling) -> Result<Arc<Connection>, ClientError> {
        let order = self.lock().order(dialling.next_address, self.settings.addresses.len());
        self.open_first(dialling, order).await
    }

    /// Opens a connection that may reach an engine that is not avoided.
    async fn open_elsewhere(&self, dialling: &mut Dialling) -> Option<Arc<Connection>> {
        let order = self.lock().order_elsewhere(dialling.next_address, self.settings.addresses.len());
        let opened = self.open_first(dialling, order).await.ok();
        let mut open = self.lock();
        match &opened {
            Some(opened) => open.replace_avoided(opened, self.settings.connections_max),
            None => open.places.note_stuck(dialling.failed.as_ref().map(|(until, _)| *until)),
        }
        drop(open);
        opened
    }

    /// Opens a connection to the first reachable address of `order`, which must not be empty.
    async fn open_first(&self, dialling: &mut Dialling, order: Vec<usize>) -> Result<Arc<Connection>, ClientError> {
        if let Some((until, error)) = &dialling.failed
            && Instant::now() < *until
        {
            return Err(error.clone());
        }
        self.wait_for_backoff(dialling).await;
        let mut failure = None;
        for place in order {
            dialling.next_address = place.wrapping_add(1);
            match self.dial(place).await {
                Ok(connection) => {
                    dialling.failures = 0;
                    dialling.failed = None;
                    self.lock().connections.push(Arc::clone(&connection));
                    return Ok(connection);
                }
                Err(error) => failure = Some(error),
            }
        }
        let error = failure.expect("there is at least one address");
        let pause = backoff(&self.settings, dialling.failures, self.dialler.chance());
        dialling.failures = dialling.failures.saturating_add(1);
        dialling.failed = Some((Instant::now() + pause, error.clone()));
        Err(error)
    }

    /// Waits longer each time while engines end connections before they answer anything: otherwise a client would reconnect to such an
    /// engine in a busy loop.
    pub(super) async fn wait_for_backoff(&self, dialling: &mut Dialling) {
        let ended = {
            let mut open = self.lock();
            open.clean();
            open.ended.take()
        };
        if let Some(ended) = ended {
            dialling.note(ended, |before| self.pause(before));
        }
        // A caller that stops waiting leaves the pause to the next one.
        if let Some(moment) = dialling.not_before {
            sleep_until(moment).await;
            dialling.not_before = None;
        }
    }

    /// The delay before a retry.
    pub(crate) fn pause(&self, retries: u32) -> Duration {
        backoff(&self.settings, retries, self.dialler.chance())
    }

    /// The time until a connection is tried again.
    pub(crate) async fn dialling_pause(&self) -> Duration {
        let dialling = self.dialling.lock().await;
        let until = dialling.failed.as_ref().map(|(until, _)| *until);
        until.map_or(Duration::ZERO, |until| until.saturating_duration_since(Instant::now()))
    }

    pub(super) async fn dial(&self, index: usize) -> Result<Arc<Connection>, ClientError> {
        let settings = &self.settings;
        let address = &*settings.addresses[index];
        let shared = Shared::new(settings.requests_in_flight_max, settings.abandoned_timeout);
        Ok(Arc::new(match &self.dialler {
            Dialler::Tls(connector) => {
                let start = self.dialler.chance();
                let is_avoided = |record| self.lock().places.is_avoided(Place { address: index, record: Some(record) });
                let dialled = dial(settings, connector, address, start, is_avoided).await?;
                self.lock().places.note_records(index, dialled.records);
                let place = Place { address: index, record: Some(dialled.record) };
                Connection::spawn(dialled.stream, place, shared, settings.limits, dialled.valid_for)
            }
            #[cfg(feature = "simulation")]
            Dialler::Simulated(network) => {
                let connecting = async { network.connect(address).await.map_err(|error| unreachable(address, &error)) };
                let stream = within_connect_timeout(settings, address, connecting).await?;
                let place = Place { address: index, record: None };
                Connection::spawn(tls::socket(stream), place, shared, settings.limits, None)
            }
        }))
    }
}

impl Dialler {
    /// A random number from 0 to 1.
    pub(super) fn chance(&self) -> f64 {
        match self {
            Dialler::Tls(_) => {
                let mut random = [0; 4];
                // Without random numbers pauses merely have no jitter.
                rand_bytes(&mut random).map_or(1.0, |()| f64::from(u32::from_be_bytes(random)) / f64::from(u32::MAX))
            }
            #[cfg(feature = "simulation")]
            Dialler::Simulated(network) => network.chance(),
        }
    }
}

/// Whether the engine refused the call with `unavailable`.
fn is_unavailable(error: &ClientError) -> bool {
    let (ErrorKind::Engine(code) | ErrorKind::ConnectionRefused(code)) = error.kind else { return false };
    code == ErrorCode::Unavailable
}

/// Opens a connection to a record of `address`, selected by [`connect_any`], within `connect_timeout`.
pub(crate) async fn dial(
    settings: &ClientSettings,
    connector: &SslConnector,
    address: &str,
    start: f64,
    is_avoided: impl Fn(SocketAddr) -> bool,
) -> Result<Dialled, ClientError> {
    within_connect_timeout(settings, address, dial_stream(settings, connector, address, start, is_avoided)).await
}

pub(super) async fn within_connect_timeout<S>(
    settings: &ClientSettings,
    address: &str,
    connecting: impl Future<Output = Result<S, ClientError>>,
) -> Result<S, ClientError> {
    let limit = settings.connect_timeout;
    match timeout(limit, connecting).await {
        Ok(stream) => stream,
        Err(_) => {
            let message = format!("{address}: no connection within {} ms", limit.as_millis());
            Err(ClientError::new(ErrorKind::Connect, Retry::Elsewhere, message))
        }
    }
}

pub(super) async fn dial_stream(
    settings: &ClientSettings,
    connector: &SslConnector,
    address: &str,
    start: f64,
    is_avoided: impl Fn(SocketAddr) -> bool,
) -> Result<Dialled, ClientError> {
    let name = match &settings.server_name {
        Some(name) => name.as_str(),
        None => host(address)?,
    };
    let failed = |error: io::Error| unreachable(address, &error);
    let mut records = places::records(address).await.map_err(failed)?;
    let socket = connect_any(&mut records, start, is_avoided, settings.connect_timeout).await.map_err(failed)?;
    socket.set_nodelay(true).map_err(failed)?;
    let record = socket.peer_addr().map_err(failed)?;
    let configuration = connector.configure();
    let mut configuration = configuration.map_err(|error| ClientError::settings(error.to_string()))?;
    let validity = ChainValidity::default();
    validity.watch(&mut configuration);
    match tokio_boring::connect(configuration, name, tls::socket(socket)).await {
        Ok(stream) => Ok(Dialled { stream, record, records: records.len(), valid_for: validity.get() }),
        Err(error) => {
            let error = tls::explain_handshake(&error);
            let message = format!("{address}: {}", error.message);
            Err(ClientError { message, ..error })
        }
    }
}

pub(super) fn unreachable(address: &str, error: &io::Error) -> ClientError {
    ClientError::new(ErrorKind::Connect, Retry::Elsewhere, format!("{address}: {error}"))
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum MayOpen {
    Yes,
    /// The call must wait for it: all open connections lead to avoided engines.
    Elsewhere,
    No,
}

/// The host of `HOST:PORT`, an IPv6 address without its brackets.
pub(super) fn host(address: &str) -> Result<&str, ClientError> {
    match address.rsplit_once(':') {
        Some((host, _)) if !host.is_empty() => {
            let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
            Ok(bare.unwrap_or(host))
        }
        _ => Err(ClientError::settings(format!("{address}: an address is HOST:PORT"))),
    }
}
