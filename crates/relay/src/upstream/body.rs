//! Bodies on their way to upstreams and back.

use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll};
use std::time::Duration;

use fieldseal_http::{BodyError, RequestBody};
use hyper::body::{Body, Bytes, Frame, Incoming, SizeHint};
use tokio::time::{Instant, Sleep, sleep};

use crate::body::trailers::Guarded;

/// Bytes of a complete body passed to a connection at once: the next are passed as the upstream accepts these.
const PIECE_SIZE: usize = 64 << 10;

/// The body of a request to an upstream.
pub(crate) enum Sent {
    /// As the client sends it.
    Client(Guarded<RequestBody>, Option<Arc<Clock>>),
    /// Whole, or none.
    Whole(Option<Bytes>, Option<Arc<Clock>>),
}

/// Which side is to act while a request is sent.
#[derive(Debug)]
pub(crate) struct Clock(Mutex<Turn>);

#[derive(Clone, Copy, Debug)]
enum Turn {
    /// The upstream's, since then: to take what was sent, or to answer.
    Upstream(Instant),
    /// The client's: to bring more.
    Client,
    /// Nobody's: the client's body has ended before its end.
    Failed(ClientFault),
}

/// Why a client's body is not whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ClientFault {
    /// It came too slowly.
    Slow,
    /// It broke off.
    Broke,
}

impl Clock {
    fn new() -> Arc<Self> {
        Arc::new(Clock(Mutex::new(Turn::Upstream(Instant::now()))))
    }

    /// Until when the upstream has to do its part; later, while the client keeps both waiting.
    pub(crate) fn deadline(&self, limit: Duration) -> Instant {
        match *self.lock() {
            Turn::Upstream(since) => since + limit,
            Turn::Client => Instant::now() + limit,
            Turn::Failed(_) => Instant::now(),
        }
    }

    /// Why the client's body is not whole, if so.
    pub(crate) fn fault(&self) -> Option<ClientFault> {
        match *self.lock() {
            Turn::Failed(fault) => Some(fault),
            _ => None,
        }
    }

    /// A connection has asked for more of the body, with this result.
    fn polled(&self, frame: &Poll<Option<Result<Frame<Bytes>, BodyError>>>) {
        *self.lock() = match frame {
            Poll::Pending => Turn::Client,
            Poll::Ready(Some(Err(BodyError::Slow))) => Turn::Failed(ClientFault::Slow),
            Poll::Ready(Some(Err(_))) => Turn::Failed(ClientFault::Broke),
            Poll::Ready(_) => Turn::Upstream(Instant::now()),
        };
    }

    fn lock(&self) -> MutexGuard<'_, Turn> {
        self.0.lock().expect("nothing panics while this is locked")
    }
}

impl Sent {
    /// These bytes, or none.
    pub(crate) fn whole(bytes: Bytes) -> Sent {
        Sent::Whole(Some(bytes).filter(|bytes| !bytes.is_empty()), None)
    }

    /// A copy, where that costs nothing: for another try.
    pub(crate) fn again(&self) -> Option<Sent> {
        match self {
            Sent::Whole(bytes, _) => Some(Sent::Whole(bytes.clone(), None)),
            Sent::Client(body, _) if body.is_end_stream() => Some(Sent::Whole(None, None)),
            Sent::Client(..) => None,
        }
    }

    /// Returns which side is to act, if the body is not sent at once.
    pub(crate) fn clock(&mut self) -> Option<Arc<Clock>> {
        let clock = match self {
            Sent::Client(body, clock) if !body.is_end_stream() => clock,
            Sent::Whole(Some(bytes), clock) if bytes.len() > PIECE_SIZE => clock,
            _ => return None,
        };
        Some(Arc::clone(clock.get_or_insert_with(Clock::new)))
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

/// The next piece of a whole body; what is left of it stays.
fn piece(bytes: &mut Option<Bytes>) -> Option<Bytes> {
    match bytes {
        Some(bytes) if bytes.len() > PIECE_SIZE => Some(bytes.split_to(PIECE_SIZE)),
        _ => bytes.take(),
    }
}

/// The body of an upstream's answer, together with its connection, which is dropped with it.
pub(crate) struct AnswerBody<L> {
    incoming: Incoming,
    timeout: Duration,
    /// Runs while a piece is waited for.
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
