//! The connection to PostgreSQL: one at a time, on a thread of its own, made again whenever it ends.
//!
//! Callers block on plain channels, so that no async code leaves this folder. After a connection is lost one attempt is awaited; once
//! that has failed, calls fail at once until the server is back, so that an outage never holds up the threads of an engine for longer
//! than one attempt. Further attempts are made with growing pauses.

use std::future::{Future, poll_fn};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use socket2::{SockRef, TcpKeepalive};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream, lookup_host};
use tokio::runtime::{Builder, Handle};
use tokio::sync::Notify;
use tokio::task::JoinHandle as Task;
use tokio::time::{sleep, timeout};
use tokio_postgres::error::Severity;
use tokio_postgres::{AsyncMessage, Client, Config, Connection, NoTls};
use zeroize::Zeroizing;

use super::explain::{CallError, connecting};
use super::settings::{PostgresSettings, ServerHost, SslMode};
use super::{durability, schema, tls};
use crate::StoreError;
use crate::error::Location;
use crate::files;
use crate::secret_path::SecretPath;

/// The pause after the first failed attempt to connect; it doubles.
const PAUSE_MIN: Duration = Duration::from_millis(50);
/// A pause that calls do not wait for.
const PAUSE_LONG: Duration = Duration::from_millis(400);
/// The longest pause.
const PAUSE_MAX: Duration = Duration::from_secs(5);
/// A connection that ends sooner does not count as success.
const SETTLED_AFTER: Duration = Duration::from_secs(1);
/// How much longer than the server's own limit a call waits for the server to report that it was passed.
const GRACE: Duration = Duration::from_secs(1);
/// How long the end of a connection waits for the farewell to be sent.
const FAREWELL: Duration = Duration::from_millis(200);
/// Longest password file in bytes.
const PASSWORD_FILE_SIZE_MAX: usize = 4096;
/// Silence after which the system probes a connection, so that a server that vanished is noticed even by a call without a limit.
const PROBE_AFTER: Duration = Duration::from_secs(10);

/// A connection.
pub(super) struct PostgresSession {
    pub(super) client: Client,
    /// Counts the connections of this store, from 1.
    pub(super) number: u64,
    /// Counts warnings that the server sent on this connection.
    pub(super) warnings: AtomicU64,
    /// Ends the connection. Its own, so that what was meant for one never ends the next.
    abandoned: Arc<Notify>,
}

enum LinkState {
    /// The first attempt since the last connection ended.
    Connecting,
    Up(Arc<PostgresSession>),
    /// The last attempt failed.
    Down(String),
}

type Hint = Box<dyn Fn() + Send + Sync>;

struct SharedLink {
    settings: PostgresSettings,
    state: Mutex<LinkState>,
    turned: Condvar,
    stopped: Notify,
    hint: Mutex<Option<Hint>>,
    /// The limits of the durability of changes, as of the last connect.
    limits: Mutex<Vec<String>>,
    is_first: AtomicBool,
}

/// See the module.
pub(super) struct Link {
    shared: Arc<SharedLink>,
    handle: Handle,
    thread: Option<JoinHandle<()>>,
}

impl Link {
    /// Starts the thread, which connects.
    pub(super) fn start(settings: &PostgresSettings) -> std::io::Result<Self> {
        let shared = Arc::new(SharedLink {
            settings: settings.clone(),
            state: Mutex::new(LinkState::Connecting),
            turned: Condvar::new(),
            stopped: Notify::new(),
            hint: Mutex::new(None),
            limits: Mutex::default(),
            is_first: AtomicBool::new(true),
        });
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let (handle, of_thread) = (runtime.handle().clone(), Arc::clone(&shared));
        let thread = std::thread::Builder::new().name("leafseal-store".to_owned()).spawn(move || {
            runtime.block_on(keep_connected(&of_thread));
            // Look-ups of names cannot be interrupted, and nothing waits for them any more.
            runtime.shutdown_background();
        })?;
        Ok(Self { shared, handle, thread: Some(thread) })
    }

    pub(super) fn location(&self) -> Location {
        self.shared.location()
    }

    pub(super) fn settings(&self) -> &PostgresSettings {
        &self.shared.settings
    }

    /// Calls `hint` whenever another process reports a change, from the thread of the connection.
    pub(super) fn on_hint(&self, hint: Hint) {
        *lock(&self.shared.hint) = Some(hint);
    }

    /// The limits of the durability of changes, as of the last connect.
    pub(super) fn durability_limits(&self) -> Vec<String> {
        lock(&self.shared.limits).clone()
    }

    /// The connection; waits for the first attempt since the last one ended.
    pub(super) fn session(&self) -> Result<Arc<PostgresSession>, StoreError> {
        let SharedLink { settings, state, turned, .. } = &*self.shared;
        let hosts = u32::try_from(settings.url.hosts.len()).unwrap_or(1);
        let deadline = Instant::now() + settings.connect_timeout.saturating_mul(hosts) + GRACE;
        let mut state = lock(state);
        loop {
            match &*state {
                LinkState::Up(session) if !session.client.is_closed() => return Ok(Arc::clone(session)),
                LinkState::Down(reason) => return Err(self.unreachable(reason.clone())),
                LinkState::Up(_) | LinkState::Connecting => {}
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(self.unreachable("it does not respond".to_owned()));
            }
            state = turned.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn unreachable(&self, reason: String) -> StoreError {
        StoreError::Unreachable { server: self.location(), reason }
    }

    /// Waits for a call on `session`, no longer than `limit` and a grace. A connection whose answer does not come is given up: what
    /// it would return later belongs to no call. So is one that the server ends: the next [`Link::session`] is another one.
    pub(super) fn call<T, F>(&self, session: &Arc<PostgresSession>, limit: Duration, make: F) -> Result<T, CallError>
    where
        T: Send + 'static,
        F: AsyncCall<T>,
    {
        let (sender, receiver) = sync_channel(1);
        let own = Arc::clone(session);
        let task = self.handle.spawn(async move {
            let _ = sender.send(make.call(&own.client).await);
        });
        let error = match receiver.recv_timeout(limit.saturating_add(GRACE)) {
            Ok(Ok(answer)) => return Ok(answer),
            Ok(Err(error)) => CallError::from(error),
            Err(RecvTimeoutError::Timeout) => {
                task.abort();
                CallError::TimedOut
            }
            Err(RecvTimeoutError::Disconnected) => CallError::Lost,
        };
        if error.is_lost() || matches!(error, CallError::TimedOut) {
            self.abandon(session);
        }
        Err(error)
    }

    /// Sends a command whose outcome does not matter; later calls are served after it.
    pub(super) fn send(&self, session: &Arc<PostgresSession>, command: &'static str) {
        let session = Arc::clone(session);
        self.handle.spawn(async move { session.client.batch_execute(command).await });
    }

    /// Gives a connection up and makes another.
    fn abandon(&self, session: &Arc<PostgresSession>) {
        let mut state = lock(&self.shared.state);
        if let LinkState::Up(current) = &*state
            && Arc::ptr_eq(current, session)
        {
            *state = LinkState::Connecting;
            session.abandoned.notify_one();
        }
    }
}

/// A call of the client. A trait, as a closure cannot return a future that borrows its argument and can be sent to a thread.
pub(super) trait AsyncCall<T>: Send + 'static {
    fn call(self, client: &Client) -> impl Future<Output = Result<T, tokio_postgres::Error>> + Send;
}

impl Drop for Link {
    fn drop(&mut self) {
        self.shared.stopped.notify_one();
        if let Some(thread) = self.thread.take() {
            // It has nothing to report, and a panic in it has been printed.
            let _ = thread.join();
        }
    }
}

impl SharedLink {
    fn location(&self) -> Location {
        Location::Database(self.settings.url.to_string())
    }

    fn turn(&self, state: LinkState) {
        *lock(&self.state) = state;
        self.turned.notify_all();
    }

    fn hint(&self) {
        if let Some(hint) = &*lock(&self.hint) {
            hint();
        }
    }

    fn note_limits(&self, limits: Vec<String>) {
        let mut known = lock(&self.limits);
        if *known != limits {
            for limit in &limits {
                tracing::warn!(server = %self.location(), "{limit}");
            }
            *known = limits;
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Every change under these locks is one assignment.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn keep_connected(shared: &Arc<SharedLink>) {
    let (mut pause, mut number) = (PAUSE_MIN, 0);
    loop {
        number += 1;
        let attempt = tokio::select! {
            () = shared.stopped.notified() => return,
            attempt = connect(shared, number) => attempt,
        };
        let reason = match attempt {
            Ok((session, task)) => {
                let (began, abandoned) = (Instant::now(), Arc::clone(&session.abandoned));
                shared.note_connected(number);
                shared.turn(LinkState::Up(session));
                if !serve(shared, &abandoned, task).await {
                    return;
                }
                shared.turn(LinkState::Connecting);
                if began.elapsed() >= SETTLED_AFTER {
                    pause = PAUSE_MIN;
                    continue;
                }
                // Once or twice may be a restart or a pooler, which calls wait out.
                (pause >= PAUSE_LONG).then(|| "the server closes every connection at once".to_owned())
            }
            Err(reason) => Some(reason),
        };
        if let Some(reason) = reason {
            tracing::debug!(server = %shared.location(), reason, "cannot connect to the keystore");
            shared.turn(LinkState::Down(reason));
        }
        tokio::select! {
            () = shared.stopped.notified() => return,
            () = sleep(jittered(pause)) => {}
        }
        pause = (pause * 2).min(PAUSE_MAX);
    }
}

impl SharedLink {
    fn note_connected(&self, number: u64) {
        if !self.is_first.swap(false, Ordering::Relaxed) {
            tracing::info!(server = %self.location(), connection = number, "connected to the keystore again");
        }
        // Something may have changed meanwhile: look now.
        self.hint();
    }
}

/// Waits for the end of the connection; false if the store is to be closed.
async fn serve(shared: &Arc<SharedLink>, abandoned: &Notify, mut task: Task<()>) -> bool {
    tokio::select! {
        _ = &mut task => true,
        () = abandoned.notified() => {
            task.abort();
            true
        }
        () = shared.stopped.notified() => {
            // Without the client the connection says goodbye and ends, if no call holds it.
            shared.turn(LinkState::Down("the store is closed".to_owned()));
            if timeout(FAREWELL, &mut task).await.is_err() {
                task.abort();
            }
            false
        }
    }
}

/// From a half to the whole of `pause`, so that engines that lost the same server do not come back all at once.
fn jittered(pause: Duration) -> Duration {
    use std::hash::{BuildHasher, RandomState};
    let random = RandomState::new().hash_one(0u8) % 1024;
    pause / 2 + pause.mul_f64(random as f64 / 2048.0)
}

/// Connects to the first server that is a primary.
async fn connect(shared: &Arc<SharedLink>, number: u64) -> Result<(Arc<PostgresSession>, Task<()>), String> {
    let hosts = &shared.settings.url.hosts;
    let mut reasons = Vec::new();
    for host in hosts {
        match connect_to_host(shared, host, number).await {
            Ok(connected) => return Ok(connected),
            Err(reason) if hosts.len() > 1 => reasons.push(format!("{host}: {reason}")),
            Err(reason) => reasons.push(reason),
        }
    }
    Err(reasons.join("; "))
}

/// Connects to the first record of a host's name that leads to a primary. Each has the whole time, so that one which does not respond hides
/// no other.
async fn connect_to_host(
    shared: &Arc<SharedLink>,
    host: &ServerHost,
    number: u64,
) -> Result<(Arc<PostgresSession>, Task<()>), String> {
    let limit = shared.settings.connect_timeout;
    let late = |_| "it does not respond".to_owned();
    let places = timeout(limit, places(host)).await.map_err(late)??;
    let mut reasons = Vec::new();
    for place in &places {
        let attempt = timeout(limit, connect_to(shared, host, place, number)).await.map_err(late);
        match attempt.and_then(|connected| connected) {
            Ok(connected) => return Ok(connected),
            Err(reason) => reasons.push(format!("{place}: {reason}")),
        }
    }
    Err(reasons.join("; "))
}

/// Where a server may be.
enum ServerAddress {
    Socket(PathBuf),
    Record(SocketAddr),
}

impl std::fmt::Display for ServerAddress {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Socket(path) => path.display().fmt(f),
            Self::Record(record) => record.fmt(f),
        }
    }
}

/// The socket of a host, or the records of its name, each once; at least one.
async fn places(host: &ServerHost) -> Result<Vec<ServerAddress>, String> {
    let (name, port) = match host {
        ServerHost::Socket(folder, port) => {
            return Ok(vec![ServerAddress::Socket(folder.join(format!(".s.PGSQL.{port}")))]);
        }
        ServerHost::Network(name, port) => (name, *port),
    };
    let found = lookup_host((name.as_str(), port)).await.map_err(|error| format!("cannot look up {name}: {error}"))?;
    let mut records = Vec::new();
    for record in found {
        if !records.contains(&record) {
            records.push(record);
        }
    }
    if records.is_empty() {
        return Err(format!("{name} has no address"));
    }
    Ok(records.into_iter().map(ServerAddress::Record).collect())
}

async fn connect_to(
    shared: &Arc<SharedLink>,
    host: &ServerHost,
    place: &ServerAddress,
    number: u64,
) -> Result<(Arc<PostgresSession>, Task<()>), String> {
    let settings = &shared.settings;
    let mut config = config(settings)?;
    let failed = |error: tokio_postgres::Error| connecting(&error);
    let (session, task) = match (place, host) {
        (ServerAddress::Socket(path), _) => {
            let stream = UnixStream::connect(path).await.map_err(|error| error.to_string())?;
            let (client, connection) = config.connect_raw(stream, NoTls).await.map_err(failed)?;
            run(shared, client, connection, number)
        }
        (ServerAddress::Record(record), ServerHost::Network(name, _)) if settings.sslmode != SslMode::Disable => {
            let handshake = tls::Handshake::prepare(settings, name)?;
            config.ssl_mode(tokio_postgres::config::SslMode::Require);
            let (client, connection) = config.connect_raw(reach(*record).await?, handshake).await.map_err(failed)?;
            run(shared, client, connection, number)
        }
        (ServerAddress::Record(record), _) => {
            let (client, connection) = config.connect_raw(reach(*record).await?, NoTls).await.map_err(failed)?;
            run(shared, client, connection, number)
        }
    };
    let mut unfinished = Unfinished(Some(task));
    shared.note_limits(prepare(&session.client).await?);
    let task = unfinished.0.take().expect("put there above");
    Ok((session, task))
}

/// Ends the task of a connection that is given up: while an answer is missing, it would wait for it forever, and hold its socket.
struct Unfinished(Option<Task<()>>);

impl Drop for Unfinished {
    fn drop(&mut self) {
        if let Some(task) = &self.0 {
            task.abort();
        }
    }
}

fn config(settings: &PostgresSettings) -> Result<Config, String> {
    let mut config = Config::new();
    config.user(&settings.url.user).dbname(&settings.url.database).application_name("leafseal");
    config.ssl_mode(tokio_postgres::config::SslMode::Disable);
    if let Some(path) = &settings.password_file {
        let file = files::open_private(SecretPath::PasswordFile, path).map_err(|error| error.to_string())?;
        let content = files::read_secret(file, path, PASSWORD_FILE_SIZE_MAX).map_err(|error| error.to_string())?;
        let content = content.ok_or_else(|| format!("{} is too large for a password file", path.display()))?;
        let password = first_line(&content);
        if password.is_empty() {
            return Err(format!("the first line of {} must be the password", path.display()));
        }
        config.password(password);
    }
    Ok(config)
}

fn first_line(content: &Zeroizing<Vec<u8>>) -> &[u8] {
    let line = content.split(|byte| *byte == b'\n').next().unwrap_or_default();
    line.strip_suffix(b"\r").unwrap_or(line)
}

/// Opens a connection.
async fn reach(record: SocketAddr) -> Result<TcpStream, String> {
    let stream = TcpStream::connect(record).await.map_err(|error| error.to_string())?;
    let keepalive = TcpKeepalive::new().with_time(PROBE_AFTER).with_interval(PROBE_AFTER);
    let socket = SockRef::from(&stream);
    // Without these everything works, only later.
    let _ = (socket.set_tcp_keepalive(&keepalive), stream.set_nodelay(true));
    Ok(stream)
}

/// Starts the task that carries a connection.
fn run<S, T>(
    shared: &Arc<SharedLink>,
    client: Client,
    mut connection: Connection<S, T>,
    number: u64,
) -> (Arc<PostgresSession>, Task<()>)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    T: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let session = Arc::new(PostgresSession { client, number, warnings: AtomicU64::new(0), abandoned: Arc::default() });
    // Weak: the connection ends with its last user.
    let (of_task, shared) = (Arc::downgrade(&session), Arc::clone(shared));
    let task = tokio::spawn(async move {
        while let Some(Ok(message)) = poll_fn(|context| connection.poll_message(context)).await {
            match message {
                AsyncMessage::Notification(_) => shared.hint(),
                AsyncMessage::Notice(notice) if notice.parsed_severity() == Some(Severity::Warning) => {
                    if let Some(session) = of_task.upgrade() {
                        session.warnings.fetch_add(1, Ordering::Release);
                    }
                }
                _ => {}
            }
        }
    });
    (session, task)
}

/// Checks that the server may be used, listens for changes, and returns what limits the durability of changes.
async fn prepare(client: &Client) -> Result<Vec<String>, String> {
    let limits = durability::examine(client).await?;
    let listen = format!("LISTEN {}", schema::SCHEMA);
    client.batch_execute(&listen).await.map_err(|error| connecting(&error))?;
    Ok(limits)
}
