//! Streamed messages whose envelopes no rule can read: a bounded search detects whether they contain one.
//!
//! A body without a content coding is searched while it passes. A coded one passes too, a copy is kept within the limit, and its last piece
//! waits until the copy has been decoded and searched. Trailers are searched as they are forwarded.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use hyper::body::{Body, Bytes, Frame, SizeHint};
use leafseal_http::BodyError;

use crate::body::buffer::{BodyBuffer, BudgetShare};
use crate::body::coding::{Coding, DecodeBounds, DecodeError, Decoding};
use crate::body::envelopes::{EnvelopeSearch, FoundEnvelope, WholeSearch};
use crate::body::offload::{Cost, Offload};
use crate::place::ExchangePart;
use crate::sealed::{SealedPlaces, is_in_fields};

type PolledFrame = Option<Result<Frame<Bytes>, BodyError>>;

/// A streamed body, and the search in it.
pub(crate) struct Watched<B> {
    body: B,
    watch: Option<Box<Watch>>,
}

/// The search in one streamed message, and where its results go.
pub(crate) struct Watch {
    search: WatchedSearch,
    /// The last frame, while it waits for the search.
    held: Option<PolledFrame>,
    /// The body's place.
    place: ExchangePart,
    /// The place of the trailers, if they are searched.
    trailers: Option<ExchangePart>,
    sealed: Arc<SealedPlaces>,
}

enum WatchedSearch {
    /// The body is searched as it is.
    Streamed(EnvelopeSearch),
    /// It is decoded first.
    Coded(Box<Copy>),
    /// The copy is being decoded.
    Decoding(Pin<Box<dyn Future<Output = FoundEnvelope> + Send>>),
    Done,
}

/// A copy of a coded body.
struct Copy {
    coding: Coding,
    bytes: BodyBuffer,
    offload: Offload,
    bounds: DecodeBounds,
}

/// The parameters of a search; the bounds limit the body, coded and decoded.
pub(crate) struct SearchTools {
    pub(crate) share: BudgetShare,
    pub(crate) offload: Offload,
    pub(crate) bounds: DecodeBounds,
}

impl Watch {
    /// Watches for trailers alone.
    pub(crate) fn new(place: ExchangePart, trailers: Option<ExchangePart>, sealed: Arc<SealedPlaces>) -> Box<Self> {
        Box::new(Watch { search: WatchedSearch::Done, held: None, place, trailers, sealed })
    }

    /// Watches a body of this coding, too; `None` means an unknown one, in which nothing can be found.
    pub(crate) fn body(mut self: Box<Self>, coding: Option<Coding>, tools: SearchTools) -> Box<Self> {
        let SearchTools { share, offload, bounds } = tools;
        self.search = match coding {
            None => WatchedSearch::Done,
            Some(Coding::Identity) => WatchedSearch::Streamed(EnvelopeSearch::new(bounds.size_max)),
            Some(coding) => {
                WatchedSearch::Coded(Box::new(Copy { coding, bytes: BodyBuffer::new(share), offload, bounds }))
            }
        };
        if coding.is_none() {
            self.end(FoundEnvelope::UnreadableCoding);
        }
        self
    }

    fn end(&mut self, found: FoundEnvelope) {
        self.search = WatchedSearch::Done;
        self.sealed.note(self.place, found);
    }

    fn read(&mut self, piece: &[u8]) {
        match &mut self.search {
            WatchedSearch::Streamed(search) => {
                search.read(piece);
                let found = search.found();
                if found != FoundEnvelope::Nothing {
                    self.end(found);
                }
            }
            WatchedSearch::Coded(copy) => {
                let fits = copy.bytes.len() + piece.len() <= copy.bounds.size_max;
                // The copy is not worth refusing a message for.
                if !fits || copy.bytes.extend(piece).is_err() {
                    self.end(FoundEnvelope::BeyondLimit);
                }
            }
            WatchedSearch::Decoding(_) | WatchedSearch::Done => {}
        }
    }

    /// Starts decoding at the end of a coded body; returns false if there is nothing to wait for.
    fn start_decoding(&mut self) -> bool {
        match std::mem::replace(&mut self.search, WatchedSearch::Done) {
            WatchedSearch::Coded(copy) => {
                self.search = WatchedSearch::Decoding(Box::pin(copy.search()));
                true
            }
            _ => false,
        }
    }
}

impl Copy {
    async fn search(self) -> FoundEnvelope {
        let Copy { coding, bytes, offload, bounds } = self;
        let Ok(decoding) = Decoding::new(coding, bytes, bounds) else { return FoundEnvelope::BeyondLimit };
        let plain = match offload.run_in_slices(Cost::UNKNOWN, decoding, Decoding::step).await {
            Ok(plain) => plain,
            Err(DecodeError::Malformed | DecodeError::Window) => return FoundEnvelope::UnreadableCoding,
            Err(_) => return FoundEnvelope::BeyondLimit,
        };
        let cost = Cost::of_copy(plain.len());
        match offload.run_in_slices(cost, WholeSearch::new(plain), WholeSearch::step).await {
            (_, true) => FoundEnvelope::Envelope,
            (_, false) => FoundEnvelope::Nothing,
        }
    }
}

impl<B> Watched<B> {
    pub(crate) fn new(body: B, watch: Option<Box<Watch>>) -> Self {
        Watched { body, watch }
    }
}

impl<B: Body<Data = Bytes, Error = BodyError> + Unpin> Body for Watched<B> {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<PolledFrame> {
        let Watched { body, watch } = &mut *self;
        let Some(watch) = watch else { return Pin::new(body).poll_frame(cx) };
        loop {
            if let WatchedSearch::Decoding(search) = &mut watch.search {
                let found = ready!(search.as_mut().poll(cx));
                watch.end(found);
            }
            if let Some(frame) = watch.held.take() {
                return Poll::Ready(frame);
            }
            let frame = ready!(Pin::new(&mut *body).poll_frame(cx));
            if let Some(Ok(frame)) = &frame {
                match (frame.data_ref(), frame.trailers_ref(), watch.trailers) {
                    (Some(piece), ..) => watch.read(piece),
                    (_, Some(fields), Some(place)) if is_in_fields(fields) => {
                        watch.sealed.note(place, FoundEnvelope::Envelope)
                    }
                    _ => {}
                }
            }
            let is_whole = match &frame {
                None => true,
                Some(Ok(frame)) => frame.is_trailers() || body.is_end_stream(),
                Some(Err(_)) => false,
            };
            if !(is_whole && watch.start_decoding()) {
                return Poll::Ready(frame);
            }
            watch.held = Some(frame);
        }
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream() && self.watch.as_ref().is_none_or(|watch| watch.held.is_none())
    }

    fn size_hint(&self) -> SizeHint {
        let mut hint = self.body.size_hint();
        let held = self.watch.as_ref().and_then(|watch| watch.held.as_ref()?.as_ref()?.as_ref().ok()?.data_ref());
        if let (Some(held), Some(exact)) = (held, hint.exact()) {
            hint.set_exact(exact + held.len() as u64);
        }
        hint
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use http_body_util::BodyExt;
    use hyper::header::{HeaderMap, HeaderName, HeaderValue};

    use super::*;
    use crate::body::buffer::BodyBudget;
    use crate::body::coding::fuzzing::encode;
    use crate::body::offload::OffloadThreads;
    use crate::config::Limits;

    /// A body of these frames.
    struct Frames(VecDeque<Frame<Bytes>>);

    impl Body for Frames {
        type Data = Bytes;
        type Error = BodyError;

        fn poll_frame(mut self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<PolledFrame> {
            Poll::Ready(self.0.pop_front().map(Ok))
        }
    }

    fn trailers(value: &'static str) -> Frame<Bytes> {
        let fields = [(HeaderName::from_static("x-card"), HeaderValue::from_static(value))];
        Frame::trailers(fields.into_iter().collect::<HeaderMap>())
    }

    /// Forwards a request; returns what was found in its body and its trailers, and the number of forwarded bytes.
    fn forward(
        coding: Option<Coding>,
        frames: Vec<Frame<Bytes>>,
        size_max: usize,
    ) -> ([Option<FoundEnvelope>; 2], usize) {
        let threads = OffloadThreads::new(1, leafseal_net::SchedulingClass::Normal).unwrap();
        let share = BodyBudget::new(&Limits::default()).share([127, 0, 0, 1].into());
        let bounds = DecodeBounds { size_max, expansion_max: 100, expansion_free: 1 << 20 };
        let tools = SearchTools { share, offload: threads.way(), bounds };
        let sealed = SealedPlaces::new(&Arc::default());
        let watch = Watch::new(ExchangePart::RequestBody, Some(ExchangePart::RequestTrailers), Arc::clone(&sealed));
        let body = Watched::new(Frames(frames.into()), Some(watch.body(coding, tools)));
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let whole = runtime.block_on(body.collect()).unwrap();
        (
            [ExchangePart::RequestBody, ExchangePart::RequestTrailers].map(|place| sealed.found(place)),
            whole.to_bytes().len(),
        )
    }

    fn data(bytes: &[u8]) -> Frame<Bytes> {
        Frame::data(Bytes::copy_from_slice(bytes))
    }

    #[test]
    fn envelopes_in_streamed_bodies_and_trailers_are_found() {
        let envelope = b"card: ev:Tk9D:x:$";
        let zipped = encode(Coding::Gzip, envelope);
        let (found, size) =
            forward(Some(Coding::Identity), vec![data(b"card: ev"), data(b":Tk9D:x"), trailers("1")], 99);
        assert_eq!((found, size), ([Some(FoundEnvelope::Envelope), None], 15));
        let (found, _) = forward(Some(Coding::Identity), vec![data(b"x"), trailers("ev:Tk9D:x:$")], 99);
        assert_eq!(found, [None, Some(FoundEnvelope::Envelope)]);
        let (found, _) = forward(Some(Coding::Identity), vec![data(b"0123456789"), data(envelope)], 12);
        assert_eq!(found, [Some(FoundEnvelope::BeyondLimit), None]);
        for (coding, bytes, size_max, expected) in [
            (Some(Coding::Gzip), &zipped[..], 99, Some(FoundEnvelope::Envelope)),
            (Some(Coding::Gzip), &encode(Coding::Gzip, b"nothing"), 99, None),
            (Some(Coding::Gzip), &zipped, 9, Some(FoundEnvelope::BeyondLimit)),
            (Some(Coding::Gzip), &encode(Coding::Gzip, &envelope.repeat(50)), 99, Some(FoundEnvelope::BeyondLimit)),
            (Some(Coding::Gzip), &zipped[..zipped.len() - 9], 99, Some(FoundEnvelope::UnreadableCoding)),
            (Some(Coding::Gzip), envelope, 99, Some(FoundEnvelope::UnreadableCoding)),
            (None, envelope, 99, Some(FoundEnvelope::UnreadableCoding)),
        ] {
            let (first, rest) = bytes.split_at(5);
            let (found, size) = forward(coding, vec![data(first), data(rest), trailers("ev:Tk9D:x:$")], size_max);
            assert_eq!(
                (found, size),
                ([expected, Some(FoundEnvelope::Envelope)], bytes.len()),
                "{coding:?} {size_max}"
            );
        }
    }
}
