//! What the network side asks of the service behind it, and what it promises in return.
//!
//! The service never sees a socket, and a network thread never computes: [`Service::request`] only wraps the frame, the work
//! is done by [`Request::step`] and [`Part::step`] on the workers of the pool, in slices.

use std::sync::Arc;
use std::time::Instant;

use fieldseal_engine::pool::Cancellation;
use fieldseal_protocol::{ErrorCode, ErrorObject};

/// Who a client is, by the certificate that the TLS handshake has verified.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PeerIdentity {
    /// NAME of the one URI `fieldseal://client/NAME` among the subject's alternative names; without one, the common name.
    /// It matches `[A-Za-z0-9][A-Za-z0-9._-]{0,63}`.
    pub name: String,
    /// SHA-256 of the certificate's DER form.
    pub certificate_sha256: [u8; 32],
}

/// The service does not know the caller. The connection ends with `forbidden`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Refused {
    /// One sentence, sent to the client and written to the log. Holds no secret.
    pub message: String,
}

/// Whom a request counts to where the server shares out its workers and the places of its queue. Who asks cannot choose it freely: else
/// a new name for each request would be a newcomer each time, before all that wait, and in no bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Tenant<'a> {
    /// An app that the service knows to be there, and the caller to have business with.
    App(&'a str),
    /// The client itself, by name.
    Client(&'a str),
    /// Whoever holds the engine itself.
    Owner,
    /// Whoever comes over HTTP without a key, and apps that are not known yet.
    Public,
}

/// The engine, as the server sees it.
pub trait Service: Send + Sync + 'static {
    /// What the service wants to know about a caller when its requests come: grants, limits.
    type Caller: Send + Sync + 'static;

    /// Called once a connection, after the handshake, on a thread that may wait: it may read a store. A bounded number
    /// of such calls run at a time, and a connection whose call is not done by the end of `handshake_timeout` is closed with
    /// `overloaded`; a call that has begun is not interrupted. A panic closes the connection with `internal`.
    ///
    /// # Errors
    /// When the certificate's name means nothing to the service.
    fn authenticate(&self, peer: &PeerIdentity) -> Result<Arc<Self::Caller>, Refused>;

    /// Whom a request of this caller counts to that names `app`; without one, whom the caller's connection counts to. Called on a
    /// network thread for each request before it is admitted: it answers from memory and does not wait, and where it does not know
    /// whether the app is the caller's it is the caller.
    fn tenant<'a>(&self, caller: &'a Self::Caller, app: Option<&'a str>) -> Tenant<'a>;

    /// Takes a request over. Called on a network thread: wraps what it is given and returns; reading the parameters is
    /// work for the first step.
    ///
    /// `frame` is one whole request message (`fieldseal_protocol::Message::parse` succeeds and gives a request with this
    /// `id`); `health` never comes here. `arrived` is when its last byte was read: deadlines count from there, and the
    /// first step that knows one sets it in `cancellation`. The server looks at the cancellation before each step and
    /// answers for it.
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

    /// Whether requests can be served now; asked by the operator port, on its own thread, so that it must not wait.
    ///
    /// # Errors
    /// Why not, in a few words. Holds no secret.
    fn readiness(&self) -> Result<(), String> {
        Ok(())
    }

    /// What the service has counted since it began, for metrics; asked by the operator port, on its own thread, so that it must not wait.
    fn counters(&self) -> fieldseal_engine::Counters {
        fieldseal_engine::Counters::default()
    }

    /// Called once a second on a thread of its own: refresh of keys, expiry of caches.
    fn maintain(&self) {}
}

/// A request in work. Dropped as soon as it is done, cancelled or late.
///
/// It begins alone: [`Request::step`] is called until it is done or spreads. One that spreads has parts, which several workers do at
/// the same time while one of them plans the next; the answer is what the steps wrote, then what each part wrote, in their order,
/// then what [`Request::finish`] adds. A panic anywhere is answered with `internal`.
pub trait Request: Send {
    /// Works for one step of some 50 µs, 200 at most. On [`Step::Done`] `out` holds exactly one whole response message with the
    /// request's id, on [`Step::Spread`] the beginning of one; until then what `out` holds is the request's own affair, and the same
    /// buffer comes back at the next step.
    ///
    /// # Errors
    /// The request's answer. What `out` holds is dropped.
    fn step(&mut self, out: &mut Vec<u8>) -> Result<Step, ErrorObject>;

    /// Plans the next part, which is behind all planned before. Called only after [`Step::Spread`], and no more after it gave the last
    /// part or an error. Takes much less time than a part, since others may wait for the next one.
    ///
    /// # Errors
    /// The request's answer, unless a part before this one has a fault of its own.
    fn next_part(&mut self) -> Result<Planned, ErrorObject> {
        Ok(Planned::None)
    }

    /// Does what would be the next part at once, or a step of it: for a worker whom no other would join, which saves what planning costs.
    /// Called only where [`Request::next_part`] may be, and in any order with it. What it appends to `out`, an empty buffer, stands behind
    /// all parts that were planned. None where the request does not work without a plan, now or ever; then nothing was done.
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

    /// Values that its own steps have encrypted, decrypted or rewrapped; asked when it ends, well or not.
    fn fields(&self) -> u64 {
        0
    }

    /// Bytes of memory that it holds for its work, beside its frame and its answer, and that can grow with what is asked of it. Asked
    /// after each of its own steps and each time that it has planned; they count to the memory for answers until it ends.
    fn memory(&self) -> usize {
        0
    }
}

/// A part of a request, which one worker does. What it needs it shares with the others or owns.
pub trait Part: Send {
    /// Works for one step, as [`Request::step`], and appends to `out`, which is this part's own.
    ///
    /// # Errors
    /// The request's answer, unless a part before this one has a fault of its own.
    fn step(&mut self, out: &mut Vec<u8>) -> Result<PartStep, ErrorObject>;

    /// Values that it has encrypted, decrypted or rewrapped; asked when it ends, well or not.
    fn fields(&self) -> u64 {
        0
    }
}

/// What the steps and parts of a request have written, all together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Written {
    /// Bytes.
    pub size: usize,
    /// Values encrypted, decrypted or rewrapped.
    pub fields: u64,
}

/// What a step left.
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

/// What a step of a part left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PartStep {
    /// There is more to do.
    More,
    /// The part is written.
    Done,
}

/// What planning came to.
pub enum Planned {
    /// A part, and there is more to plan behind it.
    Part(Box<dyn Part>),
    /// The last part.
    Last(Box<dyn Part>),
    /// No part yet: planning itself took a step.
    Nothing,
    /// No part any more.
    None,
}
