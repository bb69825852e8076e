//! The interface between the network side and the service.
//!
//! The service never uses a socket, and a network thread never computes for long: [`Service::request`] only wraps the frame; the steps of
//! the request do the work on the workers of the pool, in slices, or at once where it is counted and small
//! ([`RequestStage::counted_work`]).

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use leafseal_engine::pool::Cancellation;
use leafseal_engine::{DecisionObserver, RequestAccount, RequestOrigin};
use leafseal_protocol::ErrorCode;

use crate::work::RequestStage;

/// The identity of a client, from the certificate that the TLS handshake has verified.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PeerIdentity {
    /// NAME of the one URI `leafseal://client/NAME` among the subject's alternative names; without one, the common name.
    /// It matches `[A-Za-z0-9][A-Za-z0-9._-]{0,63}`.
    pub name: String,
    /// SHA-256 of the certificate's DER form.
    pub certificate_sha256: [u8; 32],
}

/// The service refuses the caller. The connection ends with `code`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct RefusedCaller {
    /// `forbidden`; `unavailable` while the service cannot look callers up, `overloaded` if too many wait for it.
    pub code: ErrorCode,
    /// One sentence, sent to the client and written to the log. Contains no secret.
    pub message: String,
}

/// The tenant that a request is scheduled and limited under. Callers cannot choose it freely: a new name for each request would always be
/// scheduled first, outside every limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Tenant<'a> {
    /// An app that exists and that the caller may use.
    App(&'a str),
    /// The client itself, by name.
    Client(&'a str),
    /// The process that owns the engine.
    Owner,
    /// HTTP callers without a key, and unknown apps.
    Public,
}

/// The engine, as the server sees it.
pub trait Service: Send + Sync + 'static {
    /// The service's data about a caller: grants, limits.
    type Caller: Send + Sync + 'static;

    /// Authenticates a connection after the handshake, on a thread that may block, for example to read a store. The number of concurrent
    /// calls is limited; a connection whose call has not finished by the end of `handshake_timeout` is closed with `overloaded`; a call
    /// that has started is not interrupted. A panic closes the connection with `internal`.
    ///
    /// # Errors
    /// If the service does not know the certificate's name, or cannot look it up.
    fn authenticate(&self, peer: &PeerIdentity, origin: RequestOrigin) -> Result<Arc<Self::Caller>, RefusedCaller>;

    /// Reports that the network side has refused a peer because of its certificate, which identifies it as `peer` or as no one. The reason
    /// is one sentence without a secret.
    fn refuse_peer(&self, peer: Option<&PeerIdentity>, origin: RequestOrigin, reason: &str) {
        let _ = (peer, origin, reason);
    }

    /// Has every decision about callers reported to `observer`.
    fn observe_decisions(&self, observer: Arc<dyn DecisionObserver>) {
        drop(observer);
    }

    /// The caller of a connection, if memory alone suffices to authenticate it: without blocking. Otherwise [`Service::authenticate`] does.
    fn recognise(&self, peer: &PeerIdentity) -> Option<Arc<Self::Caller>> {
        let _ = peer;
        None
    }

    /// Starts the threads that wait for what the service needs, such as a store: from then on, no request waits on a worker. The server
    /// calls it before it serves requests.
    ///
    /// # Errors
    /// If the system cannot start a thread.
    fn start(&self) -> io::Result<()> {
        Ok(())
    }

    /// The tenant of a request of this caller that names `app`; without one, the tenant of the caller's connection. Called on a network
    /// thread for each request before admission: it must answer from memory without blocking, and returns the caller if it does not know
    /// whether the caller may use the app.
    fn tenant<'a>(&self, caller: &'a Self::Caller, app: Option<&'a str>) -> Tenant<'a>;

    /// Accepts a request. Called on a network thread: it only wraps its arguments; the first step reads the parameters.
    ///
    /// `frame` is one complete request message (`leafseal_protocol::Message::parse` succeeds and returns a request with this `id`), and
    /// never `health`. `arrived` is when its last byte was read: deadlines count from there, and the first step that parses one sets it in
    /// `cancellation`. The server checks the cancellation before each step and answers in its place. `account` receives what the request
    /// does, for its audit record.
    fn request(
        &self,
        caller: &Arc<Self::Caller>,
        frame: Vec<u8>,
        id: u32,
        arrived: Instant,
        cancellation: Arc<Cancellation>,
        account: Option<Arc<RequestAccount>>,
    ) -> RequestStage;

    /// The engine, for the HTTPS API; `None` disables the API.
    fn engine(&self) -> Option<&leafseal_engine::Engine> {
        None
    }

    /// Whether requests can be served now. The operator port calls it on its own thread, so it must not block.
    ///
    /// # Errors
    /// Why not, in a few words. Contains no secret.
    fn readiness(&self) -> Result<(), String> {
        Ok(())
    }

    /// The counters of the service since its start, for metrics. The operator port calls it on its own thread, so it must not
    /// block.
    fn counters(&self) -> leafseal_engine::EngineCounters {
        leafseal_engine::EngineCounters::default()
    }

    /// Called once a second on its own thread, to refresh keys and expire caches.
    fn maintain(&self) {}

    /// Makes a step of the scan for edits in the store, on its own thread, and returns how long to wait before the next one; `None`, which
    /// ends the thread, if the settings turn it off: a store that is not open yet is no reason.
    fn scan(&self) -> Option<Duration> {
        None
    }

    /// Rotates and deletes keys whose time has come, on its own thread, and returns how long to wait before the next time; `None` as for
    /// [`Service::scan`].
    fn upkeep(&self) -> Option<Duration> {
        None
    }

    /// Registers `due`, which the service calls when [`Service::maintain`] should run soon. It must not block.
    fn on_maintenance_due(&self, due: Box<dyn Fn() + Send + Sync>) {
        drop(due);
    }
}
