//! Bodies of requests, limited in time and drained if the handler does not read them, and bodies of answers in pieces.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Empty};
use hyper::body::{Body, Bytes, Frame, Incoming, SizeHint};
use thiserror::Error;
use tokio::time::timeout;

use crate::activity::{ActiveRequest, Received};
use crate::settings::HttpSettings;
use crate::slow_peer::PeerProgress;

/// Maximum bytes passed to the connection at once: the memory of an answer is freed as the peer reads it.
const PIECE_SIZE: usize = 64 << 10;

/// The body of an answer.
pub type ResponseBody = UnsyncBoxBody<Bytes, BodyError>;

/// Why a body is incomplete.
#[derive(Debug, Error)]
pub enum BodyError {
    /// The peer brings too little.
    #[error("the body arrives too slowly")]
    Slow,
    /// The connection or stream broke, or the body's form is wrong.
    #[error("the body broke off: {0}")]
    Broken(#[from] hyper::Error),
    /// The producer of the body failed.
    #[error("{0}")]
    Source(Box<dyn std::error::Error + Send + Sync>),
}

/// The body of a request, as it arrives. When it is dropped, the rest is read and discarded within limits, so that a peer that
/// reads the answer only after it has sent everything receives it.
#[derive(Debug)]
pub struct RequestBody {
    /// `None` once it is being drained.
    incoming: Option<Incoming>,
    reading: PeerProgress,
    drain: Drain,
    exchange: Arc<ActiveRequest>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Drain {
    bytes_max: u64,
    timeout: Duration,
    /// The peer waits for permission to send, or was too slow: there is nothing to drain.
    is_vain: bool,
}

impl RequestBody {
    /// Creates a body; `waits`: the peer sends nothing before it receives permission (`Expect: 100-continue`).
    pub(crate) fn new(incoming: Incoming, exchange: Arc<ActiveRequest>, settings: &HttpSettings, waits: bool) -> Self {
        let (bytes_max, timeout) = (settings.refused_body_max, settings.refused_body_timeout);
        let reading = PeerProgress::new(settings.body_timeout, settings.body_progress_min);
        RequestBody { incoming: Some(incoming), reading, drain: Drain { bytes_max, timeout, is_vain: waits }, exchange }
    }

    /// Returns a counter of its received bytes, which outlives the body.
    pub fn received(&self) -> Received {
        Received::new(&self.exchange)
    }

    fn incoming(&self) -> &Incoming {
        self.incoming.as_ref().expect("only taken when dropped")
    }
}

impl Body for RequestBody {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let RequestBody { incoming, reading, drain, exchange } = &mut *self;
        drain.is_vain = false;
        let incoming = incoming.as_mut().expect("only taken when dropped");
        match Pin::new(incoming).poll_frame(cx) {
            Poll::Pending if reading.poll_overdue(cx).is_ready() => {
                drain.is_vain = true;
                Poll::Ready(Some(Err(BodyError::Slow)))
            }
            Poll::Pending => {
                exchange.waits();
                Poll::Pending
            }
            Poll::Ready(frame) => {
                let size = size_of(&frame);
                reading.moved(size);
                exchange.consumed(size);
                exchange.progressed(size);
                Poll::Ready(frame.map(|frame| frame.map_err(BodyError::Broken)))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.incoming().is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.incoming().size_hint()
    }
}

impl Drop for RequestBody {
    fn drop(&mut self) {
        let Some(incoming) = self.incoming.take() else { return };
        if incoming.is_end_stream() || self.drain.is_vain {
            return;
        }
        let (drain, exchange) = (self.drain, Arc::clone(&self.exchange));
        // Outside of a runtime the connection has ended too.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move {
                // The result does not matter: dropping the rest closes the stream.
                let _ = timeout(drain.timeout, discard(incoming, drain.bytes_max, &exchange)).await;
                drop(exchange);
            });
        }
    }
}

/// The size of a frame's data, if it has data.
fn size_of(frame: &Option<Result<Frame<Bytes>, hyper::Error>>) -> u64 {
    let data = frame.as_ref().and_then(|frame| frame.as_ref().ok()).and_then(Frame::data_ref);
    data.map_or(0, |data| data.len() as u64)
}

async fn discard(mut incoming: Incoming, bytes_max: u64, exchange: &ActiveRequest) {
    let mut bytes = 0;
    loop {
        let frame = poll_fn(|cx| {
            let polled = Pin::new(&mut incoming).poll_frame(cx);
            match &polled {
                Poll::Pending => exchange.waits(),
                Poll::Ready(frame) => exchange.progressed(size_of(frame)),
            }
            polled
        });
        let frame = frame.await;
        bytes += size_of(&frame);
        if bytes > bytes_max || !matches!(frame, Some(Ok(_))) {
            return;
        }
    }
}

/// A body with these bytes.
pub fn bytes(bytes: Bytes) -> ResponseBody {
    BufferedBody::new([bytes], ()).boxed_unsync()
}

/// An empty body.
pub fn empty() -> ResponseBody {
    Empty::new().map_err(|never| match never {}).boxed_unsync()
}

/// A body of buffers in order, returned in pieces of up to 64 KiB, together with an owner that is dropped with it.
#[derive(Debug)]
pub struct BufferedBody<H> {
    buffers: VecDeque<Bytes>,
    left: u64,
    _holds: H,
}

impl<H> BufferedBody<H> {
    /// A body with the bytes of `buffers`; `holds` lives as long as the body.
    pub fn new(buffers: impl IntoIterator<Item = Bytes>, holds: H) -> Self {
        let buffers: VecDeque<Bytes> = buffers.into_iter().filter(|buffer| !buffer.is_empty()).collect();
        let left = buffers.iter().map(|buffer| buffer.len() as u64).sum();
        BufferedBody { buffers, left, _holds: holds }
    }
}

impl<H: Unpin> Body for BufferedBody<H> {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let Some(first) = self.buffers.front_mut() else { return Poll::Ready(None) };
        let piece = first.split_to(first.len().min(PIECE_SIZE));
        if first.is_empty() {
            self.buffers.pop_front();
        }
        self.left -= piece.len() as u64;
        Poll::Ready(Some(Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.left == 0
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left)
    }
}

/// The body of an answer being sent; it records how long the peer leaves a piece unread.
#[derive(Debug)]
pub(crate) struct Sending {
    body: ResponseBody,
    exchange: Arc<ActiveRequest>,
    /// The time for a piece, and the number of bytes that it is for.
    timeout: Duration,
    progress_min: u64,
    /// Whether pieces are requested only when the peer can receive them; over HTTP/1.1 the socket shows that instead.
    is_timed: bool,
}

impl Sending {
    pub(crate) fn new(
        body: ResponseBody,
        exchange: Arc<ActiveRequest>,
        settings: &HttpSettings,
        is_timed: bool,
    ) -> Self {
        let (timeout, progress_min) = (settings.write_timeout, settings.write_progress_min);
        Sending { body, exchange, timeout, progress_min, is_timed }
    }

    fn handed(&self, size: usize) {
        let windows = u32::try_from((size as u64).div_ceil(self.progress_min).max(1)).unwrap_or(u32::MAX);
        if self.is_timed {
            self.exchange.handed(Instant::now() + self.timeout.saturating_mul(windows), size as u64);
        }
    }
}

impl Body for Sending {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        self.exchange.asked();
        let frame = ready!(Pin::new(&mut self.body).poll_frame(cx));
        if let Some(Ok(frame)) = &frame
            && !self.body.is_end_stream()
        {
            self.handed(frame.data_ref().map_or(0, Bytes::len));
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
