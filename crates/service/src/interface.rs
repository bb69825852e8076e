//! The interface between the network side and the service.
//!
//! The service never sees a socket, and a network thread never computes: [`Service::request`] only wraps the frame, the work
//! is done by [`Request::step`] and [`Part::step`] on the workers of the pool, in slices.

use std::sync::Arc;
use std::time::Instant;

use fieldseal_engine::pool::Cancellation;
use fieldseal_protocol::{ErrorCode, ErrorObject};

/// The identity of a client, by the certificate that the TLS handshake has verified.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PeerIdentity {
    /// NAME of the one URI `fieldseal://client/NAME` among the subject's alternative names; without one, the common name.
    /// It matches `[A-Za-z0-9][A-Za-z0-9._-]{0,63}`.
    pub name: String,
    /// SHA-256 of the certificate's DER form.
    pub certificate_sha256: [u8; 32],
}

/// The service does not accept the caller. The connection ends with `forbidden`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Refused {
    /// One sentence, sent to the client and written to the log. Holds no secret.
    pub message: String,
}

/// The tenant that a request is scheduled and limited under. Callers cannot choose it freely: a new name for each request would
/// always go before all that wait, outside every limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Tenant<'a> {
    /// An app that exists and that the caller may use.
    App(&'a str),
    /// The client itself, by name.
    Client(&'a str),
    /// The process that owns the engine.
    Owner,
    /// Callers over HTTP without a key, and unknown apps.
    Public,
}

/// The engine, as the server sees it.
pub trait Service: Send + Sync + 'static {
    /// The service's data about a caller: grants, limits.
    type Caller: Send + Sync + 'static;

    /// Called once a connection, after the handshake, on a thread that may wait: it may read a store. A bounded number
    /// of such calls run at a time, and a connection whose call is not done by the end of `handshake_timeout` is closed with
    /// `overloaded`; a call that has begun is not interrupted. A panic closes the connection with `internal`.
    ///
    /// # Errors
    /// When the certificate's name means nothing to the service.
    fn authenticate(&self, peer: &PeerIdentity) -> Result<Arc<Self::Caller>, Refused>;

    /// The tenant of a request of this caller that names `app`; without one, the tenant of the caller's connection. Called on a
    /// network thread for each request before admission: it must answer from memory without blocking, and returns the caller if it
    /// does not know whether the caller may use the app.
    fn tenant<'a>(&self, caller: &'a Self::Caller, app: Option<&'a str>) -> Tenant<'a>;

    /// Takes a request over. Called on a network thread: wraps what it is given and returns; reading the parameters is
    /// work for the first step.
    ///
    /// `frame` is one whole request message (`fieldseal_protocol::Message::parse` succeeds and gives a request with this `id`);
    /// `health` never arrives here. `arrived` is when its last byte was read: deadlines count from there, and the first step that
    /// parses one sets it in `cancellation`. The server checks the cancellation before each step and answers for it.
    fn request(
        &self,
        caller: &Arc<Self::Caller>,
        frame: Vec<u8>,
        id: u32,
        arrived: Instant,
        cancellation: Arc<Cancellation>,
    ) -> Box<dyn Request>;

    /// The engine, for the HTTPS API; without one there is no API.
    fn engine(&self) -> Option<&fieldseal_engine::Engine> {
        None
    }

    /// Whether requests can be served now. The operator port calls it on its own thread, so it must not block.
    ///
    /// # Errors
    /// Why not, in a few words. Holds no secret.
    fn readiness(&self) -> Result<(), String> {
        Ok(())
    }

    /// The counters of the service since its start, for metrics. The operator port calls it on its own thread, so it must not
    /// block.
    fn counters(&self) -> fieldseal_engine::Counters {
        fieldseal_engine::Counters::default()
    }

    /// Called once a second on a thread of its own: refresh of keys, expiry of caches.
    fn maintain(&self) {}
}

/// A request in progress. Dropped as soon as it is done, cancelled or late.
///
/// It begins on one worker: [`Request::step`] is called until it is done or spreads. One that spreads has parts, which several
/// workers run at the same time while one of them plans the next; the answer is the output of the steps, then that of each part, in
/// their order, then that of [`Request::finish`]. A panic is answered with `internal`.
pub trait Request: Send {
    /// Works for one step of some 50 µs, 200 at most. On [`Step::Done`] `out` holds exactly one whole response message with the
    /// request's id, on [`Step::Spread`] the beginning of one; until then what `out` holds is the request's own affair, and the same
    /// buffer comes back at the next step.
    ///
    /// # Errors
    /// The request's answer. The content of `out` is dropped.
    fn step(&mut self, out: &mut Vec<u8>) -> Result<Step, ErrorObject>;

    /// Plans the next part, which follows all planned ones. Called only after [`Step::Spread`], and no more after it returned the
    /// last part or an error. It must take much less time than a part, because others may wait for the next one.
    ///
    /// # Errors
    /// The request's answer, unless a part before this one has a fault of its own.
    fn next_part(&mut self) -> Result<Planned, ErrorObject> {
        Ok(Planned::None)
    }

    /// Runs the next part, or a step of it, without planning: for a worker that no other would join, which saves the cost of
    /// planning. Called only where [`Request::next_part`] may be, and in any order with it. Its output in `out`, an empty buffer,
    /// follows all planned parts. Returns `None` if the request does not support this, now or ever; then nothing was done.
    ///
    /// # Errors
    /// As [`Part::step`].
    fn step_unplanned(&mut self, _out: &mut Vec<u8>) -> Option<Result<PartStep, ErrorObject>> {
        None
    }

    /// Ends an answer whose parts are all done: `head` is what the steps wrote, `written` what there is of all parts and steps; what is
    /// appended to `tail` ends the message.
    fn finish(&mut self, _head: &mut Vec<u8>, _written: Written, _tail: &mut Vec<u8>) {}

    /// The answer of a request that spread when its parts are more than it then allowed.
    fn too_large(&self) -> ErrorObject {
        ErrorObject::new(ErrorCode::TooLarge, "the answer is too large")
    }

    /// Number of values that its own steps have encrypted, decrypted or rewrapped; read when it ends, successful or not.
    fn fields(&self) -> u64 {
        0
    }

    /// Bytes of working memory, apart from its frame and its answer, that can grow with the request. Read after each of its own
    /// steps and each planning; they count towards the memory for answers until it ends.
    fn memory(&self) -> usize {
        0
    }
}

/// A part of a request, which one worker runs. It shares its inputs with the others or owns them.
pub trait Part: Send {
    /// Works for one step, as [`Request::step`], and appends to `out`, which is this part's own.
    ///
    /// # Errors
    /// The request's answer, unless a part before this one has a fault of its own.
    fn step(&mut self, out: &mut Vec<u8>) -> Result<PartStep, ErrorObject>;

    /// Number of values that it has encrypted, decrypted or rewrapped; read when it ends, successful or not.
    fn fields(&self) -> u64 {
        0
    }
}

/// The output of the steps and parts of a request together.
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
    /// There is more to do.
    More,
    /// The rest is done in parts.
    Spread {
        /// Most bytes that the answer may have.
        answer_size_max: usize,
    },
    /// The response is written.
    Done,
}

/// The result of a step of a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PartStep {
    /// There is more to do.
    More,
    /// The part is written.
    Done,
}

/// The result of planning.
pub enum Planned {
    /// A part; more remain to be planned.
    Part(Box<dyn Part>),
    /// The last part.
    Last(Box<dyn Part>),
    /// No part yet: planning itself took a step.
    Nothing,
    /// No part any more.
    None,
}
