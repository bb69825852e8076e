//! The interface between the network side and the service.
//!
//! The service never uses a socket, and a network thread never computes: [`Service::request`] only wraps the frame; [`Request::step`] and
//! [`Part::step`] do the work on the workers of the pool, in slices.

use std::io;
use std::sync::Arc;
use std::time::Instant;

use leafseal_engine::pool::Cancellation;
use leafseal_protocol::{ErrorCode, ErrorObject};

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
pub struct Refused {
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
    fn authenticate(&self, peer: &PeerIdentity) -> Result<Arc<Self::Caller>, Refused>;

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
    /// `cancellation`. The server checks the cancellation before each step and answers in its place.
    fn request(
        &self,
        caller: &Arc<Self::Caller>,
        frame: Vec<u8>,
        id: u32,
        arrived: Instant,
        cancellation: Arc<Cancellation>,
    ) -> Box<dyn Request>;

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
    fn counters(&self) -> leafseal_engine::Counters {
        leafseal_engine::Counters::default()
    }

    /// Called once a second on its own thread, to refresh keys and expire caches.
    fn maintain(&self) {}

    /// Registers `due`, which the service calls when [`Service::maintain`] should run soon. It must not block.
    fn on_maintenance_due(&self, due: Box<dyn Fn() + Send + Sync>) {
        drop(due);
    }
}

/// A request in progress. Dropped as soon as it is done, cancelled or late.
///
/// It starts on one worker: [`Request::step`] is called until it is done or spreads. A request that spreads has parts, which several
/// workers run at the same time while one of them plans the next; the answer is the output of the steps, then that of each part in order,
/// then that of [`Request::finish`]. A panic is answered with `internal`.
pub trait Request: Send {
    /// Runs one step of about 50 µs, at most 200. On [`Step::Done`], `out` contains exactly one complete response message with the
    /// request's id, on [`Step::Spread`] the beginning of one; until then the content of `out` is up to the request, and the same buffer is
    /// passed to the next step.
    ///
    /// A step that lacks something which is being looked up fails, after it has requested that its job is parked
    /// ([`park_job`](leafseal_engine::pool::park_job)): it must leave the request as it was, and is repeated.
    ///
    /// # Errors
    /// The request's answer. The content of `out` is dropped.
    fn step(&mut self, out: &mut Vec<u8>) -> Result<Step, ErrorObject>;

    /// Plans the next part, which follows all planned ones. Called only after [`Step::Spread`], and not after it has returned the last part
    /// or an error. It must take much less time than a part, because other workers may wait for the next one.
    ///
    /// # Errors
    /// The request's answer, unless an earlier part fails.
    fn next_part(&mut self) -> Result<Planned, ErrorObject> {
        Ok(Planned::None)
    }

    /// Runs the next part, or a step of it, without planning: for a worker that no other would join, which saves the cost of planning.
    /// Called only when [`Request::next_part`] may be, and in any order with it. Its output in `out`, an empty buffer, follows all planned
    /// parts. Returns `None` without doing anything if the request does not support this, now or ever.
    ///
    /// # Errors
    /// As [`Part::step`].
    fn step_unplanned(&mut self, _out: &mut Vec<u8>) -> Option<Result<PartStep, ErrorObject>> {
        None
    }

    /// Completes an answer whose parts are all done: `head` is what the steps wrote, `written` describes the output of all parts and steps;
    /// what is appended to `tail` ends the message.
    fn finish(&mut self, _head: &mut Vec<u8>, _written: Written, _tail: &mut Vec<u8>) {}

    /// The error of a request that spread, if its parts exceed the size that it then allowed.
    fn too_large(&self) -> ErrorObject {
        ErrorObject::new(ErrorCode::TooLarge, "the answer is too large")
    }

    /// The number of values that its own steps have encrypted, decrypted or rewrapped; read when it ends, successful or not.
    fn fields(&self) -> u64 {
        0
    }

    /// Bytes of working memory, besides its frame and its answer, that can grow with the request. Read after each of its own steps and each
    /// planning call; they count towards the memory for answers until it ends.
    fn memory(&self) -> usize {
        0
    }
}

/// A part of a request, which one worker runs. It owns its inputs or shares them with the others.
pub trait Part: Send {
    /// Runs one step, as [`Request::step`], and appends to `out`, which belongs to this part.
    ///
    /// # Errors
    /// The request's answer, unless an earlier part fails.
    fn step(&mut self, out: &mut Vec<u8>) -> Result<PartStep, ErrorObject>;

    /// The number of values that it has encrypted, decrypted or rewrapped; read when it ends, successful or not.
    fn fields(&self) -> u64 {
        0
    }
}

/// The combined output of a request's steps and parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Written {
    /// Bytes.
    pub size: usize,
    /// Values encrypted, decrypted or rewrapped.
    pub fields: u64,
}

/// The result of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// More steps follow.
    More,
    /// The rest is done in parts.
    Spread {
        /// Maximum size of the answer in bytes.
        answer_size_max: usize,
    },
    /// The response is complete.
    Done,
}

/// The result of a step of a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PartStep {
    /// More steps follow.
    More,
    /// The part is complete.
    Done,
}

/// The result of planning.
pub enum Planned {
    /// A part; more remain to be planned.
    Part(Box<dyn Part>),
    /// The last part.
    Last(Box<dyn Part>),
    /// No part yet: planning took a step by itself.
    Nothing,
    /// No more parts.
    None,
}
