//! Streamed bodies that no rule reads, although rules would decrypt envelopes in them: a bounded search finds out whether they hold one.
//!
//! A body without a content coding is searched while it passes. A coded one passes too, a copy is kept within the limit, and its last piece
//! waits until the copy has been decoded and searched.

use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, ready};

use hyper::body::{Body, Bytes, Frame, SizeHint};
use leafseal_http::BodyError;

use crate::access::Record;
use crate::body::buffer::{BudgetShare, Buffer};
use crate::body::coding::{Coding, DecodeBounds, Decoding};
use crate::body::envelopes::{EnvelopeSearch, Found, WholeSearch};
use crate::body::offload::{Cost, Offload};
use crate::metrics::ListenerMetrics;
use crate::refusal::Direction;

type PolledFrame = Option<Result<Frame<Bytes>, BodyError>>;

/// A streamed body, and the search in it.
pub(crate) struct Watched<B> {
    body: B,
    watch: Option<Box<Watch>>,
}

/// The search in one body, and where its result goes.
pub(crate) struct Watch {
    search: Search,
    /// The last frame, while it waits for the search.
    held: Option<PolledFrame>,
    direction: Direction,
    metrics: Arc<ListenerMetrics>,
    result: Arc<OnceLock<Found>>,
}

enum Search {
    /// The body is searched as it is.
    Streamed(EnvelopeSearch),
    /// It is decoded first.
    Coded(Box<Copy>),
    /// The copy is being decoded.
    Decoding(Pin<Box<dyn Future<Output = Found> + Send>>),
    Done,
}

/// A copy of a coded body.
struct Copy {
    coding: Coding,
    bytes: Buffer,
    offload: Offload,
    bounds: DecodeBounds,
}

/// What a search needs; the bounds limit the body, coded and decoded.
pub(crate) struct SearchTools {
    pub(crate) share: BudgetShare,
    pub(crate) offload: Offload,
    pub(crate) bounds: DecodeBounds,
}

impl Watch {
    /// Watches a body of this coding; `None` means an unknown one, in which nothing can be found.
    pub(crate) fn new(
        coding: Option<Coding>,
        direction: Direction,
        tools: SearchTools,
        record: &mut Record,
    ) -> Box<Self> {
        let SearchTools { share, offload, bounds } = tools;
        let search = match coding {
            None => Search::Done,
            Some(Coding::Identity) => Search::Streamed(EnvelopeSearch::new(bounds.size_max)),
            Some(coding) => Search::Coded(Box::new(Copy { coding, bytes: Buffer::new(share), offload, bounds })),
        };
        let (metrics, result) = (Arc::clone(&record.metrics), record.watch_unread(direction));
        let mut watch = Watch { search, held: None, direction, metrics, result };
        if coding.is_none() {
            watch.end(Found::Unknown);
        }
        Box::new(watch)
    }

    fn end(&mut self, found: Found) {
        self.search = Search::Done;
        if found != Found::Nothing && self.result.set(found).is_ok() {
            self.metrics.unread(self.direction, found);
        }
    }

    fn read(&mut self, piece: &[u8]) {
        match &mut self.search {
            Search::Streamed(search) => {
                search.read(piece);
                let found = search.found();
                if found != Found::Nothing {
                    self.end(found);
                }
            }
            Search::Coded(copy) => {
                let fits = copy.bytes.len() + piece.len() <= copy.bounds.size_max;
                // The copy is not worth refusing a message for.
                if !fits || copy.bytes.extend(piece).is_err() {
                    self.end(Found::Unknown);
                }
            }
            Search::Decoding(_) | Search::Done => {}
        }
    }

    /// Starts decoding at the end of a coded body; returns false if there is nothing to wait for.
    fn start_decoding(&mut self) -> bool {
        match std::mem::replace(&mut self.search, Search::Done) {
            Search::Coded(copy) => {
                self.search = Search::Decoding(Box::pin(copy.search()));
                true
            }
            _ => false,
        }
    }
}

impl Copy {
    async fn search(self) -> Found {
        let Copy { coding, bytes, offload, bounds } = self;
        let Ok(decoding) = Decoding::new(coding, bytes, bounds) else { return Found::Unknown };
        let Ok(plain) = offload.run_in_slices(Cost::UNKNOWN, decoding, Decoding::step).await else {
            return Found::Unknown;
        };
        let cost = Cost::of_copy(plain.len());
        match offload.run_in_slices(cost, WholeSearch::new(plain), WholeSearch::step).await {
            (_, true) => Found::Envelope,
            (_, false) => Found::Nothing,
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
            if let Search::Decoding(search) = &mut watch.search {
                let found = ready!(search.as_mut().poll(cx));
                watch.end(found);
            }
            if let Some(frame) = watch.held.take() {
                return Poll::Ready(frame);
            }
            let frame = ready!(Pin::new(&mut *body).poll_frame(cx));
            if let Some(Ok(frame)) = &frame
                && let Some(piece) = frame.data_ref()
            {
                watch.read(piece);
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
