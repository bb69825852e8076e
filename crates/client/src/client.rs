//! The calls, and the pool of connections under them.

mod retries;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;
use std::{fmt, io};

use boring::rand::rand_bytes;
use boring::ssl::SslConnector;
use fieldseal_protocol::{
    DecryptFileOptions, DecryptOptions, EncryptFileOptions, EncryptOptions, GoingAway, Method, Retry, RewrapOptions,
    Scalar, request,
};
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep_until, timeout};

use crate::answer::{Answer, ApiKeyFacts, Document, Inspection, PublicKeySet, Rewrapped, Value, Values};
use crate::connection::Connection;
use crate::error::{ClientError, ErrorKind};
use crate::observer::{CallObserver, CallOutcome, Observed};
use crate::outgoing::Outgoing;
use crate::prepared::Prepared;
use crate::settings::ClientSettings;
use crate::shared::Shared;
#[cfg(feature = "simulation")]
use crate::simulation::Network;
use crate::tls;
use retries::{Retries, RetryBudget};

/// How long the address of an engine that said that it shuts down is tried after all others.
const SHUTDOWN_AVOIDED: Duration = Duration::from_secs(10);

/// A client of one engine, or of several that serve the same apps. Clones share the connections.
#[derive(Clone)]
pub struct Client {
    inner: Arc<Inner>,
    observer: Option<Arc<dyn CallObserver>>,
}

pub(crate) struct Inner {
    pub(crate) settings: ClientSettings,
    dialler: Dialler,
    open: Mutex<Open>,
    /// Held while a connection is made: one at a time.
    dialling: Arc<tokio::sync::Mutex<Dialling>>,
    pub(crate) budget: RetryBudget,
}

/// The connections that calls may begin on.
#[derive(Default)]
struct Open {
    connections: Vec<Arc<Connection>>,
    /// When engines last said that they shut down, by the places of their addresses.
    shutdowns: BTreeMap<usize, Instant>,
    /// How the last connection ended, until another one is made.
    ended: Option<Ended>,
}

/// Whether a connection that has ended had answered anything.
#[derive(Clone, Copy, Debug)]
enum Ended {
    Used,
    Unused,
}

impl Open {
    /// Removes the connections on which nothing begins any more. What is in flight there goes on.
    fn clean(&mut self) {
        let Open { connections, shutdowns, ended } = self;
        connections.retain(|connection| {
            if connection.shared.going_away() == Some(GoingAway::Shutdown) {
                shutdowns.insert(connection.address, Instant::now());
            }
            let is_open = connection.shared.is_open();
            if !is_open {
                *ended = Some(if connection.shared.has_answered() { Ended::Used } else { Ended::Unused });
            }
            is_open
        });
    }

    /// The places of `count` addresses in turn from `next`; those whose engines shut down come last for a while.
    fn order(&mut self, next: usize, count: usize) -> Vec<usize> {
        self.clean();
        let now = Instant::now();
        self.shutdowns.retain(|_, since| now.saturating_duration_since(*since) < SHUTDOWN_AVOIDED);
        let mut order: Vec<usize> = (0..count).map(|step| next.wrapping_add(step) % count).collect();
        order.sort_by_key(|place| self.shutdowns.contains_key(place));
        order
    }
}

/// How connections are made.
enum Dialler {
    Tls(SslConnector),
    #[cfg(feature = "simulation")]
    Simulated(Box<dyn Network>),
}

/// Which address is next, and how the last attempts went.
#[derive(Debug, Default)]
struct Dialling {
    next_address: usize,
    failures: u32,
    failed: Option<(Instant, ClientError)>,
    /// Connections one after the other that ended before they had answered anything.
    unused: u32,
    /// Before this none is made, because of them.
    not_before: Option<Instant>,
}

impl Dialling {
    /// Notes how the last connection ended; `pause` gives the pause after so many that answered nothing. The first one has none: engines
    /// end idle connections, too.
    fn note(&mut self, ended: Ended, pause: impl FnOnce(u32) -> Duration) {
        (self.unused, self.not_before) = match ended {
            Ended::Used => (0, None),
            Ended::Unused => {
                let before = self.unused.checked_sub(1);
                (self.unused.saturating_add(1), before.map(|before| Instant::now() + pause(before)))
            }
        };
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("addresses", &self.inner.settings.addresses).finish_non_exhaustive()
    }
}

impl Client {
    /// Connects and asks for `health`, so that a wrong address, certificate or key shows here. An engine that drains is
    /// connected to all the same.
    ///
    /// # Errors
    /// Unusable settings; no engine reached; certificates refused on either side.
    pub async fn connect(settings: ClientSettings) -> Result<Client, ClientError> {
        let client = Client::new(settings)?;
        client.health().await?;
        Ok(client)
    }

    /// As [`Client::connect`], but the first call connects.
    ///
    /// # Errors
    /// Unusable settings.
    pub fn new(settings: ClientSettings) -> Result<Client, ClientError> {
        settings.validate()?;
        let dialler = Dialler::Tls(tls::connector(&settings.tls)?);
        Ok(Client::with(settings, dialler))
    }

    /// A client in the network of a simulation, without TLS.
    #[cfg(feature = "simulation")]
    #[doc(hidden)]
    pub fn simulated(settings: ClientSettings, network: impl Network) -> Client {
        Client::with(settings, Dialler::Simulated(Box::new(network)))
    }

    fn with(settings: ClientSettings, dialler: Dialler) -> Client {
        let inner = Inner {
            settings,
            dialler,
            open: Mutex::default(),
            dialling: Arc::default(),
            budget: RetryBudget::default(),
        };
        Client { inner: Arc::new(inner), observer: None }
    }

    /// The same client, on the same connections; `observer` is told of the calls that are made through it and its clones, those by
    /// [`Client::call_raw`] excepted.
    pub fn observed_by(self, observer: Arc<dyn CallObserver>) -> Client {
        Client { observer: Some(observer), ..self }
    }

    /// Native values to envelopes; nil stays nil.
    ///
    /// # Errors
    /// As every call: the engine's error, or why there is no answer.
    pub async fn encrypt(
        &self,
        options: &EncryptOptions<'_>,
        values: &[Scalar<'_>],
    ) -> Result<Vec<Value>, ClientError> {
        self.call(
            Method::Encrypt,
            options.deadline_ms,
            |id, deadline_ms, out| {
                let options = EncryptOptions { deadline_ms, ..*options };
                request::encrypt(id, &options, values.iter().copied(), out);
            },
            Answer::into_values,
        )
        .await
    }

    /// Envelopes to native values; other values stay as they are.
    ///
    /// # Errors
    /// As every call: the engine's error, or why there is no answer.
    pub async fn decrypt(
        &self,
        options: &DecryptOptions<'_>,
        values: &[Scalar<'_>],
    ) -> Result<Vec<Value>, ClientError> {
        self.call(
            Method::Decrypt,
            options.deadline_ms,
            |id, deadline_ms, out| {
                let options = DecryptOptions { deadline_ms, ..*options };
                request::decrypt(id, &options, values.iter().copied(), out);
            },
            Answer::into_values,
        )
        .await
    }

    /// As [`Client::encrypt`], with what the engine reports besides: how many of the values were envelopes already.
    ///
    /// # Errors
    /// As every call: the engine's error, or why there is no answer.
    pub async fn encrypt_reported(
        &self,
        options: &EncryptOptions<'_>,
        values: &[Scalar<'_>],
    ) -> Result<Values, ClientError> {
        self.call(
            Method::Encrypt,
            options.deadline_ms,
            |id, deadline_ms, out| {
                let options = EncryptOptions { deadline_ms, ..*options };
                request::encrypt(id, &options, values.iter().copied(), out);
            },
            Answer::into_reported_values,
        )
        .await
    }

    /// As [`Client::decrypt`], with what the engine reports besides: which envelopes did not open, where the options say that the call
    /// then goes on.
    ///
    /// # Errors
    /// As every call: the engine's error, or why there is no answer.
    pub async fn decrypt_reported(
        &self,
        options: &DecryptOptions<'_>,
        values: &[Scalar<'_>],
    ) -> Result<Values, ClientError> {
        self.call(
            Method::Decrypt,
            options.deadline_ms,
            |id, deadline_ms, out| {
                let options = DecryptOptions { deadline_ms, ..*options };
                request::decrypt(id, &options, values.iter().copied(), out);
            },
            Answer::into_reported_values,
        )
        .await
    }

    /// Encrypts the values of a JSON text that the JSONPath selectors choose; without selectors all.
    ///
    /// # Errors
    /// As every call: the engine's error, or why there is no answer.
    pub async fn encrypt_document(
        &self,
        options: &EncryptOptions<'_>,
        select: Option<&[&str]>,
        json: &[u8],
    ) -> Result<Document, ClientError> {
        self.call(
            Method::EncryptDocument,
            options.deadline_ms,
            |id, deadline_ms, out| {
                let options = EncryptOptions { deadline_ms, ..*options };
                request::encrypt_document(id, &options, select, json, out);
            },
            Answer::into_document,
        )
        .await
    }

    /// Decrypts the envelopes of a JSON text that the JSONPath selectors choose; without selectors all.
    ///
    /// # Errors
    /// As every call: the engine's error, or why there is no answer.
    pub async fn decrypt_document(
        &self,
        options: &DecryptOptions<'_>,
        select: Option<&[&str]>,
        json: &[u8],
    ) -> Result<Document, ClientError> {
        self.call(
            Method::DecryptDocument,
            options.deadline_ms,
            |id, deadline_ms, out| {
                let options = DecryptOptions { deadline_ms, ..*options };
                request::decrypt_document(id, &options, select, json, out);
            },
            Answer::into_document,
        )
        .await
    }

    /// Bytes to an encrypted file.
    ///
    /// # Errors
    /// As every call: the engine's error, or why there is no answer.
    pub async fn encrypt_file(&self, options: &EncryptFileOptions<'_>, data: &[u8]) -> Result<Vec<u8>, ClientError> {
        self.call(
            Method::EncryptFile,
            options.deadline_ms,
            |id, deadline_ms, out| {
                let options = EncryptFileOptions { deadline_ms, ..*options };
                request::encrypt_file(id, &options, data, out);
            },
            Answer::into_file,
        )
        .await
    }

    /// An encrypted file to its bytes.
    ///
    /// # Errors
    /// As every call: the engine's error, or why there is no answer.
    pub async fn decrypt_file(&self, options: &DecryptFileOptions<'_>, data: &[u8]) -> Result<Vec<u8>, ClientError> {
        self.call(
            Method::DecryptFile,
            options.deadline_ms,
            |id, deadline_ms, out| {
                let options = DecryptFileOptions { deadline_ms, ..*options };
                request::decrypt_file(id, &options, data, out);
            },
            Answer::into_file,
        )
        .await
    }

    /// Brings envelopes to the app's newest key version.
    ///
    /// # Errors
    /// As every call: the engine's error, or why there is no answer.
    pub async fn rewrap(&self, options: &RewrapOptions<'_>, envelopes: &[&str]) -> Result<Rewrapped, ClientError> {
        self.call(
            Method::Rewrap,
            options.deadline_ms,
            |id, deadline_ms, out| {
                let options = RewrapOptions { deadline_ms, ..*options };
                request::rewrap(id, &options, envelopes.iter().copied(), out);
            },
            |answer| answer.rewrapped(),
        )
        .await
    }

    /// What envelopes say about themselves; with an app also what only their inside tells.
    ///
    /// # Errors
    /// As every call: the engine's error, or why there is no answer.
    pub async fn inspect(&self, app: Option<&str>, envelopes: &[&str]) -> Result<Vec<Inspection>, ClientError> {
        self.call(
            Method::Inspect,
            None,
            |id, _, out| request::inspect(id, app, envelopes.iter().copied(), out),
            |answer| answer.inspections(),
        )
        .await
    }

    /// The newest public keys of an app.
    ///
    /// # Errors
    /// As every call: the engine's error, or why there is no answer.
    pub async fn public_keys(&self, app: &str) -> Result<PublicKeySet, ClientError> {
        self.call(
            Method::PublicKeys,
            None,
            |id, _, out| request::public_keys(id, app, out),
            |answer| answer.public_keys(),
        )
        .await
    }

    /// Whose API key this is and what it is good for: for whoever takes API keys from others, such as a relay. The engine answers only
    /// clients that may use the key's app.
    ///
    /// # Errors
    /// As every call; `forbidden` where the key is not good, or is for an app that this client may not use.
    pub async fn authenticate(&self, api_key: &str) -> Result<ApiKeyFacts, ClientError> {
        self.call(
            Method::Authenticate,
            None,
            |id, _, out| request::authenticate(id, api_key, out),
            |answer| answer.api_key(),
        )
        .await
    }

    /// `ok`, `draining`, or another word that means not ready.
    ///
    /// # Errors
    /// As every call: the engine's error, or why there is no answer.
    pub async fn health(&self) -> Result<String, ClientError> {
        self.call(Method::Health, None, |id, _, out| request::health(id, out), |answer| answer.status()).await
    }

    /// Facts about the engine by name, in its order.
    ///
    /// # Errors
    /// As every call: the engine's error, or why there is no answer.
    pub async fn info(&self) -> Result<Vec<(String, String)>, ClientError> {
        self.call(Method::Info, None, |id, _, out| request::info(id, out), |answer| answer.facts()).await
    }

    /// A call whose answer `read` makes a result of.
    async fn call<T>(
        &self,
        method: Method,
        deadline_ms: Option<u32>,
        encode: impl Fn(u32, Option<u32>, &mut Vec<u8>),
        read: impl FnOnce(Answer) -> Result<T, ClientError>,
    ) -> Result<T, ClientError> {
        let encode = |id, deadline_ms| Outgoing::new(|out| encode(id, deadline_ms, out));
        self.observe(method, deadline_ms, encode, read).await
    }

    /// Sends a request that was written before and waits for its answer. The engine counts a deadline that is written into it from each
    /// time that it reads the request; repetitions begin before the deadline is over.
    ///
    /// Dropping the future cancels the request.
    ///
    /// # Errors
    /// As every call: the engine's error, or why there is no answer.
    pub async fn send(&self, prepared: Prepared) -> Result<Answer, ClientError> {
        self.observe(prepared.method, prepared.deadline_ms, |id, _| prepared.outgoing(id), Ok).await
    }

    async fn observe<T>(
        &self,
        method: Method,
        deadline_ms: Option<u32>,
        encode: impl Fn(u32, Option<u32>) -> Outgoing,
        read: impl FnOnce(Answer) -> Result<T, ClientError>,
    ) -> Result<T, ClientError> {
        let observed = Observed::begin(self.observer.as_ref(), method);
        let repeated = |error: &ClientError| {
            if let Some(observer) = &self.observer {
                observer.repeated(method, error);
            }
        };
        let outcome = self.call_within_time(deadline_ms, encode, repeated).await.and_then(read);
        if let Some(observed) = observed {
            observed.ended(outcome.as_ref().map_or_else(CallOutcome::Failed, |_| CallOutcome::Ok));
        }
        outcome
    }

    /// Waits for a connection to the engine: not at all where one is open, which asks nobody. For whoever is about to do what cannot be
    /// undone, and will need the engine after that.
    ///
    /// # Errors
    /// No engine was reached.
    pub async fn ready(&self) -> Result<(), ClientError> {
        let inner = &self.inner;
        let limit = inner.settings.request_timeout;
        let connecting = async {
            let mut retries = Retries::new(inner, None);
            loop {
                match inner.connection(None).await {
                    Ok(_) => return Ok(()),
                    Err(error) => retries.after(error, false, |_| {}).await?,
                }
            }
        };
        match timeout(limit, connecting).await {
            Ok(outcome) => outcome,
            Err(_) => Err(ClientError::timeout(format!("no connection within {} ms", limit.as_millis()))),
        }
    }

    /// Sends the one request that `encode` appends, with the id and the deadline that it is given, and waits for its answer.
    /// `deadline_ms` is the request's deadline, if it has one: where the request is repeated, what is left of it is given.
    ///
    /// Dropping the future cancels the request.
    ///
    /// # Errors
    /// As every call: the engine's error, or why there is no answer.
    pub async fn call_raw(
        &self,
        deadline_ms: Option<u32>,
        encode: impl Fn(u32, Option<u32>, &mut Vec<u8>),
    ) -> Result<Answer, ClientError> {
        let encode = |id, deadline_ms| Outgoing::new(|out| encode(id, deadline_ms, out));
        self.call_within_time(deadline_ms, encode, |_| {}).await
    }

    async fn call_within_time(
        &self,
        deadline_ms: Option<u32>,
        encode: impl Fn(u32, Option<u32>) -> Outgoing,
        repeated: impl Fn(&ClientError),
    ) -> Result<Answer, ClientError> {
        let limit = self.inner.settings.request_timeout;
        match timeout(limit, self.inner.call(deadline_ms, encode, repeated)).await {
            Ok(outcome) => outcome.map_err(|error| tls::name_own(error, &self.inner.settings.tls)),
            Err(_) => Err(ClientError::timeout(format!("no answer within {} ms", limit.as_millis()))),
        }
    }
}

impl Inner {
    async fn call(
        self: &Arc<Self>,
        deadline_ms: Option<u32>,
        encode: impl Fn(u32, Option<u32>) -> Outgoing,
        repeated: impl Fn(&ClientError),
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
                Ok(connection) => match connection.shared.begin(encode).await {
                    Ok(ticket) => match ticket.answer().await {
                        Ok(answer) => {
                            self.budget.earn();
                            return Ok(answer);
                        }
                        Err(error) => {
                            avoided = Some(connection);
                            error
                        }
                    },
                    Err(error) => error,
                },
                Err(error) => error,
            };
            let is_left = avoided.as_ref().is_some_and(|connection| connection.shared.going_away().is_some());
            retries.after(error, is_left, &repeated).await?;
        }
    }

    /// The connection with the fewest calls, another than `avoided` where there is one. While all have some a further one is made for
    /// calls to come: this one does not wait for an address that may not answer.
    async fn connection(self: &Arc<Self>, avoided: Option<&Arc<Connection>>) -> Result<Arc<Connection>, ClientError> {
        let (best, may_open) = self.choose(avoided);
        let Some(best) = best else {
            let mut dialling = self.dialling.lock().await;
            // Another call may have connected while this one waited.
            return match self.choose(avoided).0 {
                Some(connection) => Ok(connection),
                None => self.open(&mut dialling).await,
            };
        };
        if may_open == MayOpen::Yes
            && let Ok(mut dialling) = Arc::clone(&self.dialling).try_lock_owned()
        {
            let inner = Arc::clone(self);
            tokio::spawn(async move { inner.open(&mut dialling).await.map(drop) });
        }
        Ok(best)
    }

    fn choose(&self, avoided: Option<&Arc<Connection>>) -> (Option<Arc<Connection>>, MayOpen) {
        let mut open = self.lock();
        open.clean();
        let cost = |connection: &&Arc<Connection>| {
            let is_avoided = avoided.is_some_and(|avoided| Arc::ptr_eq(avoided, connection));
            (is_avoided, connection.shared.load())
        };
        let best = open.connections.iter().min_by_key(cost).cloned();
        let is_busy = best.as_ref().is_none_or(|best| best.shared.load() > 0);
        let has_room = open.connections.len() < self.settings.connections_max;
        (best, if is_busy && has_room { MayOpen::Yes } else { MayOpen::No })
    }

    fn lock(&self) -> MutexGuard<'_, Open> {
        self.open.lock().expect("nothing panics while this is locked")
    }

    /// Makes a connection to the first address that can be reached, unless the last failure is too fresh.
    async fn open(&self, dialling: &mut Dialling) -> Result<Arc<Connection>, ClientError> {
        if let Some((until, error)) = &dialling.failed
            && Instant::now() < *until
        {
            return Err(error.clone());
        }
        self.pace(dialling).await;
        let addresses = &self.settings.addresses;
        let mut failure = None;
        let order = self.lock().order(dialling.next_address, addresses.len());
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

    /// Waits longer each time while engines end connections before they answer anything: else a client would connect to such an engine as
    /// fast as it can.
    async fn pace(&self, dialling: &mut Dialling) {
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

    /// The pause before a call is made again.
    pub(crate) fn pause(&self, retries: u32) -> Duration {
        backoff(&self.settings, retries, self.dialler.chance())
    }

    /// How long no connection is tried yet.
    pub(crate) async fn dialling_pause(&self) -> Duration {
        let dialling = self.dialling.lock().await;
        let until = dialling.failed.as_ref().map(|(until, _)| *until);
        until.map_or(Duration::ZERO, |until| until.saturating_duration_since(Instant::now()))
    }

    async fn dial(&self, place: usize) -> Result<Arc<Connection>, ClientError> {
        let settings = &self.settings;
        let address = &*settings.addresses[place];
        let shared = Shared::new(settings.requests_in_flight_max, settings.abandoned_timeout);
        Ok(Arc::new(match &self.dialler {
            Dialler::Tls(connector) => {
                let stream = dial(settings, connector, address).await?;
                Connection::spawn(stream, place, shared, settings.limits)
            }
            #[cfg(feature = "simulation")]
            Dialler::Simulated(network) => {
                let connecting = async { network.connect(address).await.map_err(|error| unreachable(address, &error)) };
                let stream = within_connect_timeout(settings, address, connecting).await?;
                Connection::spawn(tls::socket(stream), place, shared, settings.limits)
            }
        }))
    }
}

impl Dialler {
    /// A number from 0 to 1 that nobody can foresee.
    fn chance(&self) -> f64 {
        match self {
            Dialler::Tls(_) => {
                let mut random = [0; 4];
                // Without chance pauses are merely the full ones.
                rand_bytes(&mut random).map_or(1.0, |()| f64::from(u32::from_be_bytes(random)) / f64::from(u32::MAX))
            }
            #[cfg(feature = "simulation")]
            Dialler::Simulated(network) => network.chance(),
        }
    }
}

/// Makes a connection to `address`, within the settings' time for it.
pub(crate) async fn dial(
    settings: &ClientSettings,
    connector: &SslConnector,
    address: &str,
) -> Result<tls::Stream, ClientError> {
    within_connect_timeout(settings, address, dial_stream(settings, connector, address)).await
}

async fn within_connect_timeout<S>(
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

async fn dial_stream(
    settings: &ClientSettings,
    connector: &SslConnector,
    address: &str,
) -> Result<tls::Stream, ClientError> {
    let name = match &settings.server_name {
        Some(name) => name.as_str(),
        None => host(address)?,
    };
    let socket = TcpStream::connect(address).await.map_err(|error| unreachable(address, &error))?;
    socket.set_nodelay(true).map_err(|error| unreachable(address, &error))?;
    let configuration = connector.configure();
    let configuration = configuration.map_err(|error| ClientError::settings(error.to_string()))?;
    match tokio_boring::connect(configuration, name, tls::socket(socket)).await {
        Ok(stream) => Ok(stream),
        Err(error) => {
            let error = tls::explain_handshake(&error);
            let message = format!("{address}: {}", error.message);
            Err(ClientError { message, ..error })
        }
    }
}

fn unreachable(address: &str, error: &io::Error) -> ClientError {
    ClientError::new(ErrorKind::Connect, Retry::Elsewhere, format!("{address}: {error}"))
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum MayOpen {
    Yes,
    No,
}

/// The host of `HOST:PORT`, an IPv6 address without its brackets.
fn host(address: &str) -> Result<&str, ClientError> {
    match address.rsplit_once(':') {
        Some((host, _)) if !host.is_empty() => {
            let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
            Ok(bare.unwrap_or(host))
        }
        _ => Err(ClientError::settings(format!("{address}: an address is HOST:PORT"))),
    }
}

fn check_request_size(size: usize, size_max: usize) -> Result<(), ClientError> {
    if size <= size_max {
        return Ok(());
    }
    let message = format!("the request of {size} bytes passes the limit of {size_max}: send less at a time");
    Err(ClientError::new(ErrorKind::RequestTooLarge, Retry::Never, message))
}

/// Doubles with each failure up to the longest pause; then, as `chance` from 0 to 1 says, somewhere in the upper half of it, so that
/// clients of an engine that comes back do not come all at once.
fn backoff(settings: &ClientSettings, failures: u32, chance: f64) -> Duration {
    let doubled = settings.backoff_min.saturating_mul(2_u32.saturating_pow(failures));
    let pause = doubled.min(settings.backoff_max);
    pause.mul_f64(0.5 + chance / 2.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::identity::{ClientTls, TlsPart};
    use zeroize::Zeroizing;

    fn settings() -> ClientSettings {
        let tls = ClientTls {
            authorities_pem: Vec::new(),
            certificate_chain_pem: Vec::new(),
            private_key_pem: Zeroizing::new(b"not to be shown".to_vec()),
        };
        ClientSettings::new("localhost:3443", tls)
    }

    #[test]
    fn hosts_are_cut_from_addresses() {
        assert_eq!(host("engine.example.com:3443").unwrap(), "engine.example.com");
        assert_eq!(host("[::1]:3443").unwrap(), "::1");
        assert_eq!(host("127.0.0.1:1").unwrap(), "127.0.0.1");
        for address in ["localhost", ":3443", ""] {
            assert_eq!(host(address).unwrap_err().kind, ErrorKind::Settings, "{address}");
        }
    }

    #[test]
    fn pauses_double_up_to_their_bound() {
        let settings = settings();
        for (failures, millis) in [(0, 50), (1, 100), (6, 3200), (7, 5000), (u32::MAX, 5000)] {
            let longest = Duration::from_millis(millis);
            assert_eq!([0.0, 1.0].map(|chance| backoff(&settings, failures, chance)), [longest / 2, longest]);
        }
    }

    #[test]
    fn settings_that_cannot_work_are_refused_and_keys_not_shown() {
        let unreadable = Client::new(settings()).unwrap_err();
        assert_eq!(unreadable.kind, ErrorKind::Settings);
        assert!(unreadable.message.contains("authorities"), "{unreadable}");
        let parts: Vec<TlsPart> = settings().tls.problems().iter().map(|problem| problem.part).collect();
        assert_eq!(parts, [TlsPart::Authorities, TlsPart::CertificateChain, TlsPart::PrivateKey]);
        let nowhere = ClientSettings { addresses: Vec::new(), ..settings() };
        assert_eq!(Client::new(nowhere).unwrap_err().message, "no address to connect to");
        assert!(!format!("{:?}", settings()).contains("110, 111"));
    }

    #[test]
    fn requests_are_bounded_at_the_byte() {
        assert_eq!(check_request_size(10, 10), Ok(()));
        assert_eq!(check_request_size(11, 10).unwrap_err().kind, ErrorKind::RequestTooLarge);
    }
}
