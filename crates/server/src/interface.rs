//! What the network side asks of the service behind it, and what it promises in return.
//!
//! The service never sees a socket, and a network thread never computes: [`Service::request`] only wraps the frame, the work
//! is done by [`Request::step`] on the workers of the pool, in slices.

use std::sync::Arc;
use std::time::Instant;

use fieldseal_engine::pool::Cancellation;

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

    /// Takes a request over. Called on a network thread: wraps what it is given and returns; reading the parameters is
    /// work for the first step.
    ///
    /// `frame` is one whole request message (`fieldseal_protocol::Message::parse` succeeds and gives a request with this
    /// `id`); `health` never comes here. `arrived` is when its last byte was read: deadlines count from there, and the
    /// first step that knows one sets it in `cancellation`. The server looks at the cancellation before each step and
    /// answers for it; a step that takes longer than a slice looks too, and then returns [`Step::Done`] with an error.
    fn request(
        &self,
        caller: &Arc<Self::Caller>,
        frame: Vec<u8>,
        id: u32,
        arrived: Instant,
        cancellation: Arc<Cancellation>,
    ) -> Box<dyn Request>;

    /// Whether requests can be served now; asked by the operator port, on its own thread, so that it must not wait.
    ///
    /// # Errors
    /// Why not, in a few words. Holds no secret.
    fn readiness(&self) -> Result<(), String> {
        Ok(())
    }

    /// Called once a second on a thread of its own: refresh of keys, expiry of caches.
    fn maintain(&self) {}
}

/// A request in work. Dropped as soon as it is done, cancelled or late.
pub trait Request: Send {
    /// Works for one slice. On [`Step::Done`] `out` holds exactly one whole response message with the request's id;
    /// until then what `out` holds is the request's own affair, and the same buffer comes back at the next step.
    ///
    /// A panic is answered with `internal`.
    fn step(&mut self, out: &mut Vec<u8>) -> Step;
}

/// What a step left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// There is more to do.
    More,
    /// The response is written.
    Done,
}
