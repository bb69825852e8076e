//! The access log: one line for each request, without headers, bodies, queries and values.

use std::borrow::Cow;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Instant;

use hyper::body::{Body, Bytes, Frame, SizeHint};
use hyper::{Method, Version};
use leafseal_client::ApiKeyFacts;
use leafseal_errors::{EntryPoint, ErrorCode, Observers};
use leafseal_http::{BodyError, ConnectionPeer, Received};
use leafseal_net::{AccessRecord, LogFormat, LogLine, counted, trace_id};

use crate::cut::cut;
use crate::decisions::Claim;
use crate::hop_headers;
use crate::metrics::{ListenerMetrics, ReportedValues};
use crate::place::ExchangePart;
use crate::policy::Action;
use crate::refusal::Refusal;
use crate::refusal_log::RefusalLog;
use crate::sealed::SealedPlaces;

/// Maximum size of a text in other lines, if there is no access log.
const TEXT_SIZE_MAX: usize = 256;

/// Receives the lines of the access log. Called on the threads that carry traffic, so it must not block.
pub trait AccessLog: Send + Sync + 'static {
    /// The format of lines.
    fn format(&self) -> LogFormat;

    /// Writes a line; `line` has no line break at its end.
    fn write(&self, line: &str);

    /// Lines that were dropped since the start.
    fn dropped(&self) -> u64;
}

/// The record of one request. On drop it is counted and logged: when the answer is sent or the client is gone.
pub(crate) struct Record {
    pub(crate) listener: Arc<str>,
    pub(crate) metrics: Arc<ListenerMetrics>,
    pub(crate) refusals: Arc<RefusalLog>,
    observers: Arc<Observers>,
    log: Option<Arc<dyn AccessLog>>,
    /// Maximum size of a text in the line.
    text_size_max: usize,
    began: Instant,
    peer: Arc<ConnectionPeer>,
    method: Method,
    version: Version,
    host: String,
    path: String,
    pub(crate) route: Option<Arc<str>>,
    pub(crate) app: Option<Arc<str>>,
    /// The caller and its needs, for the decision.
    pub(crate) claim: Claim,
    pub(crate) status: u16,
    /// The group of the key exchange with the upstream, if it was over TLS.
    pub(crate) upstream_tls_group: Option<&'static str>,
    /// Counts the received bytes of the request's body; `None` if they are not counted.
    pub(crate) received: Option<Received>,
    sent: u64,
    changed: [u64; 3],
    /// Envelopes that failed to decrypt.
    unopened: u64,
    /// The trace that the request belongs to.
    trace: Option<Box<str>>,
    reported: ReportedValues,
    /// The findings of searches for envelopes, if there were any.
    sealed: Option<Arc<SealedPlaces>>,
    /// Why the body of the answer was withheld.
    withheld: Option<(ErrorCode, String)>,
    refusal: Option<(ErrorCode, String)>,
    is_whole: bool,
}

impl Record {
    pub(crate) fn new(
        listener: &Arc<str>,
        (metrics, refusals, observers): (&Arc<ListenerMetrics>, &Arc<RefusalLog>, &Arc<Observers>),
        log: Option<(&Arc<dyn AccessLog>, usize)>,
        peer: Arc<ConnectionPeer>,
        head: &hyper::http::request::Parts,
    ) -> Self {
        let text_size_max = log.map_or(TEXT_SIZE_MAX, |(_, text_size_max)| text_size_max);
        let logged = |text: &str| if log.is_some() { cut(text, text_size_max).into_owned() } else { String::new() };
        Record {
            listener: Arc::clone(listener),
            metrics: Arc::clone(metrics),
            refusals: Arc::clone(refusals),
            observers: Arc::clone(observers),
            log: log.map(|(log, _)| Arc::clone(log)),
            text_size_max,
            began: Instant::now(),
            peer,
            method: head.method.clone(),
            version: head.version,
            host: logged(host(head)),
            path: logged(head.uri.path()),
            route: None,
            app: None,
            claim: Claim::default(),
            status: 0,
            upstream_tls_group: None,
            received: None,
            sent: 0,
            changed: [0; 3],
            unopened: 0,
            trace: head.headers.get("traceparent").and_then(|trace| trace_id(trace.as_bytes())).map(Box::from),
            reported: ReportedValues::default(),
            sealed: None,
            withheld: None,
            refusal: None,
            is_whole: false,
        }
    }

    pub(crate) fn changed(&mut self, action: Action, count: u64) {
        self.changed[action as usize] += count;
        self.metrics.changed(action, count);
    }

    pub(crate) fn unopened(&mut self, count: u64) {
        self.unopened += count;
        self.metrics.unopened(count);
    }

    pub(crate) fn reported(&mut self, values: ReportedValues) {
        self.reported.resealed += values.resealed;
        self.reported.skipped += values.skipped;
        self.reported.rewrapped += values.rewrapped;
        self.reported.symmetric += values.symmetric;
        self.metrics.reported(values);
    }

    /// The place for what searches for envelopes find.
    pub(crate) fn sealed(&mut self) -> &Arc<SealedPlaces> {
        self.sealed.get_or_insert_with(|| SealedPlaces::new(&self.metrics))
    }

    /// Records that the body of the answer is not forwarded.
    pub(crate) fn withheld(&mut self, refusal: &Refusal) {
        self.metrics.withheld(refusal.code);
        self.withheld = Some((refusal.code, refusal.detail.clone()));
    }

    /// Sets the holder of the API key.
    pub(crate) fn belongs_to(&mut self, key: &ApiKeyFacts) {
        self.app = Some(key.app.as_str().into());
        (self.claim.key_id, self.claim.app) = (Some(key.key_id.clone()), Some(key.app.clone()));
    }

    /// Reports that the caller may do what it asks for.
    pub(crate) fn granted(&self) {
        self.claim.granted(&self.observers, self.peer.address.ip());
    }

    /// Counts the refusal of the request, and reports it if the caller is the reason.
    pub(crate) fn refused(&mut self, refusal: &Refusal) {
        self.claim.refused(&self.observers, self.peer.address.ip(), refusal);
        self.metrics.refused(refusal.code);
        self.refusal = Some((refusal.code, refusal.detail.clone()));
    }

    /// The address that the request came from.
    pub(crate) fn client(&self) -> SocketAddr {
        self.peer.address
    }

    fn received(&self) -> u64 {
        self.received.as_ref().map_or(0, Received::bytes)
    }

    fn cut<'t>(&self, text: &'t str) -> Cow<'t, str> {
        cut(text, self.text_size_max)
    }

    /// What is known of the request, with the field names that engines use.
    pub(crate) fn facts(&self) -> AccessRecord<'_> {
        let changed = |action: Action| counted(self.changed[action as usize]);
        let duration_us = u64::try_from(self.began.elapsed().as_micros()).unwrap_or(u64::MAX);
        let refusal = self.refusal.as_ref();
        AccessRecord {
            entry_point: Some(EntryPoint::Relay.as_str().into()),
            listener: Some((&*self.listener).into()),
            key: self.claim.key_id.as_deref().map(Cow::Borrowed),
            address: Some(self.peer.address.ip()),
            tls_group: self.peer.tls_group.map(Cow::Borrowed),
            operations: self.claim.operations.iter().map(|operation| operation.as_str().into()).collect(),
            method: Some(self.cut(self.method.as_str())),
            app: self.app.as_deref().map(Cow::Borrowed),
            outcome: Some(refusal.map_or("ok", |(code, _)| code.as_str()).into()),
            reason: refusal.map(|(_, detail)| self.cut(detail)),
            status: Some(self.status.into()),
            sealed: changed(Action::Encrypt),
            opened: changed(Action::Decrypt),
            failed: counted(self.unopened),
            bytes_in: Some(self.received()),
            bytes_out: Some(self.sent),
            duration_us: Some(duration_us),
            trace: self.trace.as_deref().map(Cow::Borrowed),
            ..AccessRecord::default()
        }
    }

    /// The same with a refusal, for a line of the log.
    pub(crate) fn refused_line<'r>(&'r self, refusal: &'r Refusal) -> AccessRecord<'r> {
        let (outcome, reason) = (Some(refusal.code.as_str().into()), Some(refusal.detail.as_str().into()));
        AccessRecord { outcome, reason, ..self.facts() }
    }

    fn line(&self, format: LogFormat) -> String {
        let mut line = LogLine::new(format, "info");
        line.text("message", "request");
        self.facts().write(&mut line);
        line.bare("port", self.peer.address.port());
        if let Some(group) = self.upstream_tls_group {
            line.text("upstream_tls_group", group);
        }
        line.text("http", hop_headers::version(self.version));
        line.text("host", &self.host);
        line.text("path", &self.path);
        if let Some(route) = &self.route {
            line.text("route", route);
        }
        for (name, count) in [
            ("redacted", self.changed[Action::Redact as usize]),
            ("resealed", self.reported.resealed),
            ("skipped", self.reported.skipped),
            ("rewrapped", self.reported.rewrapped),
            ("symmetric", self.reported.symmetric),
        ] {
            if count > 0 {
                line.bare(name, count);
            }
        }
        for place in ExchangePart::ALL {
            if let Some(found) = self.sealed.as_ref().and_then(|sealed| sealed.found(place)) {
                line.text(place.field(), found.as_str());
            }
        }
        if let Some((code, detail)) = &self.withheld {
            line.text("withheld", code.as_str());
            line.text("withheld_reason", &self.cut(detail));
        }
        line.bare("whole", self.is_whole);
        line.finish()
    }
}

/// The host of a request, as the client sent it.
fn host(head: &hyper::http::request::Parts) -> &str {
    match head.uri.authority() {
        Some(authority) => authority.as_str(),
        None => head.headers.get(hyper::header::HOST).and_then(|host| host.to_str().ok()).unwrap_or_default(),
    }
}

impl Drop for Record {
    fn drop(&mut self) {
        self.metrics.ended(self.status, self.began.elapsed(), self.received(), self.sent);
        if let Some(log) = &self.log {
            log.write(&self.line(log.format()));
        }
    }
}

/// The body of an answer, with the record of its request.
pub(crate) struct Recorded<B> {
    body: B,
    record: Record,
}

impl<B: Body> Recorded<B> {
    pub(crate) fn new(body: B, mut record: Record) -> Self {
        record.is_whole = body.is_end_stream();
        Recorded { body, record }
    }
}

impl<B: Body<Data = Bytes, Error = BodyError> + Unpin> Body for Recorded<B> {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(cx));
        let mut is_over = frame.is_none();
        match &frame {
            // No frame follows trailers, so nothing polls for one.
            Some(Ok(frame)) if frame.is_trailers() => is_over = true,
            Some(Ok(frame)) => self.record.sent += frame.data_ref().map_or(0, |data| data.len() as u64),
            Some(Err(error)) => {
                let reason = Some(error.to_string().into());
                let write = || AccessRecord { reason, ..self.record.facts() }.inform("an answer ended early");
                self.record.refusals.line(Some(self.record.client()), write);
                self.record.metrics.refused(ErrorCode::AnswerBroke);
            }
            None => {}
        }
        if is_over || self.body.is_end_stream() {
            self.record.is_whole = true;
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
