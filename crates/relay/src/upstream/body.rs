//! Bodies on their way to upstreams and back.

use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll};
use std::time::Duration;

use fieldseal_http::{BodyError, RequestBody};
use hyper::body::{Body, Bytes, Frame, Incoming, SizeHint};
use tokio::time::{Instant, Sleep, sleep};

use super::pool::Lease;
use crate::trailers::Guarded;

/// The body of a request to an upstream.
pub(crate) enum Sent {
    /// As the client sends it.
    Client(Guarded<RequestBody>, Option<Arc<Clock>>),
    /// Whole, or none.
    Whole(Option<Bytes>),
}

/// Since when it has been the upstream's turn: to take what was sent, or to answer.
#[derive(Debug)]
pub(crate) struct Clock(Mutex<Option<Instant>>);

impl Clock {
    /// Until when it has to do its part; later, while the client keeps both waiting.
    pub(crate) fn deadline(&self, limit: Duration) -> Instant {
        self.lock().unwrap_or_else(Instant::now) + limit
    }

    fn lock(&self) -> MutexGuard<'_, Option<Instant>> {
        self.0.lock().expect("nothing panics while this is locked")
    }
}

impl Sent {
    /// A copy, where that costs nothing: for another try.
    pub(crate) fn again(&self) -> Option<Sent> {
        match self {
            Sent::Whole(bytes) => Some(Sent::Whole(bytes.clone())),
            Sent::Client(body, _) if body.is_end_stream() => Some(Sent::Whole(None)),
            Sent::Client(..) => None,
        }
    }

    /// Whose turn it is, where the body does not come at once.
    pub(crate) fn clock(&mut self) -> Option<Arc<Clock>> {
        match self {
            Sent::Client(body, clock) if !body.is_end_stream() => {
                Some(Arc::clone(clock.get_or_insert_with(|| Arc::new(Clock(Mutex::new(Some(Instant::now())))))))
            }
            _ => None,
        }
    }
}

impl Body for Sent {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        match self.get_mut() {
            Sent::Client(body, clock) => {
                let frame = Pin::new(body).poll_frame(cx);
                if let Some(clock) = clock {
                    *clock.lock() = frame.is_ready().then(Instant::now);
                }
                frame
            }
            Sent::Whole(bytes) => Poll::Ready(bytes.take().map(|bytes| Ok(Frame::data(bytes)))),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Sent::Client(body, _) => body.is_end_stream(),
            Sent::Whole(bytes) => bytes.is_none(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Sent::Client(body, _) => body.size_hint(),
            Sent::Whole(bytes) => SizeHint::with_exact(bytes.as_ref().map_or(0, |bytes| bytes.len() as u64)),
        }
    }
}

/// The body of an upstream's answer. Its connection goes back to the pool when it is dropped.
pub(crate) struct UpstreamAnswer {
    incoming: Incoming,
    timeout: Duration,
    /// Runs while a piece is waited for.
    waiting: Option<Pin<Box<Sleep>>>,
    _lease: Lease,
}

impl UpstreamAnswer {
    pub(crate) fn new(incoming: Incoming, timeout: Duration, lease: Lease) -> Self {
        UpstreamAnswer { incoming, timeout, waiting: None, _lease: lease }
    }
}

impl Body for UpstreamAnswer {
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
