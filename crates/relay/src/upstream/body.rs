//! Bodies on their way to upstreams and back.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use fieldseal_http::{BodyError, RequestBody};
use hyper::body::{Body, Bytes, Frame, Incoming, SizeHint};
use tokio::time::{Sleep, sleep};

use super::pool::Lease;

/// The body of a request to an upstream.
pub(crate) enum Sent {
    /// None.
    Empty,
    /// As the client sends it.
    Client(RequestBody),
    /// Whole.
    Whole(Option<Bytes>),
}

impl Sent {
    /// A copy, where that costs nothing: for another try.
    pub(crate) fn again(&self) -> Option<Sent> {
        match self {
            Sent::Empty => Some(Sent::Empty),
            Sent::Whole(bytes) => Some(Sent::Whole(bytes.clone())),
            Sent::Client(body) if body.is_end_stream() => Some(Sent::Empty),
            Sent::Client(_) => None,
        }
    }
}

impl Body for Sent {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        match self.get_mut() {
            Sent::Empty => Poll::Ready(None),
            Sent::Client(body) => Pin::new(body).poll_frame(cx),
            Sent::Whole(bytes) => Poll::Ready(bytes.take().map(|bytes| Ok(Frame::data(bytes)))),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Sent::Empty => true,
            Sent::Client(body) => body.is_end_stream(),
            Sent::Whole(bytes) => bytes.is_none(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Sent::Empty => SizeHint::with_exact(0),
            Sent::Client(body) => body.size_hint(),
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
