//! Bodies of requests to upstreams and of their answers.

use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll};
use std::time::Duration;

use hyper::body::{Body, Bytes, Frame, Incoming, SizeHint};
use leafseal_http::{BodyError, RequestBody};
use tokio::time::{Instant, Sleep, sleep};

use crate::stream::trailers::Guarded;
use crate::stream::watched::Watched;

/// Maximum bytes of a buffered body that are passed to a connection at once.
const PIECE_SIZE: usize = 64 << 10;

/// The body of a request to an upstream.
pub(crate) enum Sent {
    /// Streamed from the client.
    Client(Watched<Guarded<RequestBody>>, Option<Arc<SendClock>>),
    /// Buffered, or empty.
    Whole(Option<Bytes>, Option<Arc<SendClock>>),
}

/// Tracks which side must act next while a request is sent.
#[derive(Debug)]
pub(crate) struct SendClock(Mutex<SendingSide>);

#[derive(Clone, Copy, Debug)]
enum SendingSide {
    /// The upstream, since this time: it must read what was sent, or answer.
    Upstream(Instant),
    /// The client: it must send more.
    Client,
    /// Neither: the client's body ended prematurely.
    Failed(ClientFault),
}

/// Why a client's body is incomplete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ClientFault {
    /// It arrived too slowly.
    Slow,
    /// It broke off.
    Broke,
}

impl SendClock {
    fn new() -> Arc<Self> {
        Arc::new(SendClock(Mutex::new(SendingSide::Upstream(Instant::now()))))
    }

    /// The time by which the upstream must act; it moves while both wait for the client.
    pub(crate) fn deadline(&self, limit: Duration) -> Instant {
        match *self.lock() {
            SendingSide::Upstream(since) => since + limit,
            SendingSide::Client => Instant::now() + limit,
            SendingSide::Failed(_) => Instant::now(),
        }
    }

    /// Why the client's body is incomplete, if it is.
    pub(crate) fn fault(&self) -> Option<ClientFault> {
        match *self.lock() {
            SendingSide::Failed(fault) => Some(fault),
            _ => None,
        }
    }

    /// Records the result when a connection polls the body.
    fn polled(&self, frame: &Poll<Option<Result<Frame<Bytes>, BodyError>>>) {
        *self.lock() = match frame {
            Poll::Pending => SendingSide::Client,
            Poll::Ready(Some(Err(BodyError::Slow))) => SendingSide::Failed(ClientFault::Slow),
            Poll::Ready(Some(Err(_))) => SendingSide::Failed(ClientFault::Broke),
            Poll::Ready(_) => SendingSide::Upstream(Instant::now()),
        };
    }

    fn lock(&self) -> MutexGuard<'_, SendingSide> {
        self.0.lock().expect("nothing panics while this is locked")
    }
}

impl Sent {
    /// A buffered body of these bytes, which may be empty.
    pub(crate) fn whole(bytes: Bytes) -> Sent {
        Sent::Whole(Some(bytes).filter(|bytes| !bytes.is_empty()), None)
    }

    /// A cheap copy for a retry, if possible.
    pub(crate) fn try_clone(&self) -> Option<Sent> {
        match self {
            Sent::Whole(bytes, _) => Some(Sent::Whole(bytes.clone(), None)),
            Sent::Client(body, _) if body.is_end_stream() => Some(Sent::Whole(None, None)),
            Sent::Client(..) => None,
        }
    }

    /// Returns the clock of the body, unless it is sent at once.
    pub(crate) fn clock(&mut self) -> Option<Arc<SendClock>> {
        let clock = match self {
            Sent::Client(body, clock) if !body.is_end_stream() => clock,
            Sent::Whole(Some(bytes), clock) if bytes.len() > PIECE_SIZE => clock,
            _ => return None,
        };
        Some(Arc::clone(clock.get_or_insert_with(SendClock::new)))
    }
}

impl Body for Sent {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let (frame, clock) = match self.get_mut() {
            Sent::Client(body, clock) => (Pin::new(body).poll_frame(cx), clock),
            Sent::Whole(bytes, clock) => (Poll::Ready(piece(bytes).map(|piece| Ok(Frame::data(piece)))), clock),
        };
        if let Some(clock) = clock {
            clock.polled(&frame);
        }
        frame
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Sent::Client(body, _) => body.is_end_stream(),
            Sent::Whole(bytes, _) => bytes.is_none(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Sent::Client(body, _) => body.size_hint(),
            Sent::Whole(bytes, _) => SizeHint::with_exact(bytes.as_ref().map_or(0, |bytes| bytes.len() as u64)),
        }
    }
}

/// Takes the next piece of a buffered body.
fn piece(bytes: &mut Option<Bytes>) -> Option<Bytes> {
    match bytes {
        Some(bytes) if bytes.len() > PIECE_SIZE => Some(bytes.split_to(PIECE_SIZE)),
        _ => bytes.take(),
    }
}

/// The body of an upstream's answer, with the connection that it is read from; both are dropped together.
pub(crate) struct AnswerBody<L> {
    incoming: Incoming,
    timeout: Duration,
    /// The timeout for the next piece.
    waiting: Option<Pin<Box<Sleep>>>,
    _lease: L,
}

impl<L> AnswerBody<L> {
    pub(crate) fn new(incoming: Incoming, timeout: Duration, lease: L) -> Self {
        AnswerBody { incoming, timeout, waiting: None, _lease: lease }
    }
}

impl<L: Unpin> Body for AnswerBody<L> {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let this = &mut *self;
        match Pin::new(&mut this.incoming).poll_frame(cx) {
            Poll::Ready(frame) => {
                this.waiting = None;
                Poll::Ready(frame.map(|frame| frame.map_err(BodyError::Broken)))
            }
            Poll::Pending => {
                let timeout = this.timeout;
                let waiting = this.waiting.get_or_insert_with(|| Box::pin(sleep(timeout)));
                waiting.as_mut().poll(cx).map(|()| Some(Err(BodyError::Slow)))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.incoming.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.incoming.size_hint()
    }
}
