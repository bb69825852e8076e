//! Trailers of streamed bodies: fields that rules hide in headers do not pass as trailers.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use hyper::body::{Body, Bytes, Frame, SizeHint};
use hyper::header::{HeaderMap, HeaderName};
use leafseal_errors::ErrorCode;
use leafseal_http::BodyError;

use crate::access::Record;
use crate::hop_headers::folded;
use crate::metrics::ListenerMetrics;
use crate::policy::Actions;
use crate::refusal::Direction;

/// A streamed body without the trailers that rules hide.
pub(crate) struct Guarded<B> {
    body: B,
    guard: Option<Box<Guard>>,
}

/// The names that a direction's rules hide, and the record of removals.
struct Guard {
    hidden: Vec<HeaderName>,
    direction: Direction,
    listener: Arc<str>,
    metrics: Arc<ListenerMetrics>,
}

/// Whether software that treats `_` as `-` (CGI, WSGI), or any punctuation as `-` (PHP's `.`, lighttpd), treats the two names as equal.
pub(crate) fn is_taken_for(one: &HeaderName, other: &HeaderName) -> bool {
    folded(one).eq(folded(other))
}

impl<B> Guarded<B> {
    /// Wraps a body for which no rule hides anything.
    pub(crate) fn open(body: B) -> Self {
        Guarded { body, guard: None }
    }

    pub(crate) fn new(body: B, direction: Direction, actions: &Actions, record: &Record) -> Self {
        let hidden: Vec<HeaderName> = actions.hidden_headers().cloned().collect();
        let guard = (!hidden.is_empty()).then(|| {
            let (listener, metrics) = (Arc::clone(&record.listener), Arc::clone(&record.metrics));
            Box::new(Guard { hidden, direction, listener, metrics })
        });
        Guarded { body, guard }
    }
}

impl Guard {
    /// Removes hidden fields from trailers. The head was sent long ago, so the message cannot be refused any more. Returns `None` if
    /// nothing remains.
    fn cleared(&self, mut trailers: HeaderMap) -> Option<Frame<Bytes>> {
        let is_hidden = |name: &&HeaderName| self.hidden.iter().any(|hidden| is_taken_for(hidden, name));
        let taken_out: Vec<HeaderName> = trailers.keys().filter(is_hidden).cloned().collect();
        for name in taken_out {
            trailers.remove(&name);
            self.metrics.refused(ErrorCode::HiddenTrailer);
            let (listener, message) = (&*self.listener, self.direction.noun());
            tracing::info!(listener, %name, "removed a trailer of the {message} that a rule hides");
        }
        (!trailers.is_empty()).then(|| Frame::trailers(trailers))
    }
}

impl<B: Body<Data = Bytes, Error = BodyError> + Unpin> Body for Guarded<B> {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(cx));
        let Some(guard) = &self.guard else { return Poll::Ready(frame) };
        Poll::Ready(match frame {
            Some(Ok(frame)) => match frame.into_trailers() {
                Ok(trailers) => guard.cleared(trailers).map(Ok),
                Err(frame) => Some(Ok(frame)),
            },
            broken_or_over => broken_or_over,
        })
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
