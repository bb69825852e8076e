//! Forwards a request of either relay once its destination and rules are known.

use std::sync::Arc;
use std::time::Duration;

use http_body_util::BodyExt;
use hyper::body::Body;
use hyper::body::Bytes;
use hyper::header::{self, HeaderMap, HeaderName, HeaderValue};
use hyper::http::{request, response};
use hyper::upgrade::OnUpgrade;
use hyper::{Method, Request, Response, StatusCode, Version};
use hyper_util::rt::TokioIo;
use leafseal_errors::ErrorCode;
use leafseal_http::{BufferedBody, RequestBody, ResponseBody};

use crate::access::{Record, Recorded};
use crate::body::coding::Coding;
use crate::body::envelopes::FoundEnvelope;
use crate::context::WorkerContext;
use crate::hop_headers::{self, Source};
use crate::place::ExchangePart;
use crate::policy::{Action, Actions, Origin};
use crate::refusal::{Direction, Refusal};
use crate::rules::overrides::{self, OverrideChecks};
use crate::rules::transform::{MessageRules, Outcome};
use crate::sealed;
use crate::stream::trailers::Guarded;
use crate::stream::watched::{Watch, Watched};
use crate::tunnel;
use crate::upstream::{Sent, UpstreamAnswer, UpstreamError, UpstreamTls};
use crate::validators::{self, KnownTags, Tags};

/// The field of an answer whose body is withheld; its value is the code of the refusal.
const WITHHELD: HeaderName = HeaderName::from_static("leafseal-withheld");

/// The destination of a request, and the rules for it and its answer.
pub(crate) struct ForwardingPlan<'a> {
    pub(crate) worker: &'a WorkerContext,
    pub(crate) origin: &'a Arc<Origin>,
    pub(crate) app: &'a str,
    /// The API key of the request, if it is restricted to data roles.
    pub(crate) key_id: Option<&'a str>,
    pub(crate) request: &'a Actions,
    pub(crate) response: &'a Actions,
    /// The rules of request and answer that decide where envelopes are searched, whether they are applied or not.
    pub(crate) searched: [&'a Actions; 2],
    /// The client, and how it is reported upstream.
    pub(crate) source: Source<'a>,
    /// Whether the upstream is a third party.
    pub(crate) is_outbound: bool,
    /// Whether clients of the listener may have weak tags that the relay made.
    pub(crate) has_rules: bool,
    /// The action for fields by which the request asks for another method or path.
    pub(crate) checks: OverrideChecks,
}

/// The inputs of the answer besides the upstream.
struct Asked {
    method: Method,
    /// The tags of bodies that the client has.
    known: KnownTags,
    /// Whether the upstream received another body than the client sent.
    has_new_body: bool,
}

impl Asked {
    fn of(head: &request::Parts) -> Self {
        Asked { method: head.method.clone(), known: KnownTags::of(&head.headers), has_new_body: false }
    }
}

/// A request as it arrived. Boxed: the futures of all its steps hold it, and are moved.
pub(crate) struct ArrivedRequest {
    pub(crate) head: request::Parts,
    pub(crate) body: RequestBody,
}

impl ArrivedRequest {
    pub(crate) fn new(request: Request<RequestBody>) -> Box<Self> {
        let (head, body) = request.into_parts();
        Box::new(ArrivedRequest { head, body })
    }
}

/// An answer before its record is closed.
pub(crate) enum UnrecordedAnswer {
    /// Streamed from the upstream.
    Streamed(Response<Watched<Guarded<UpstreamAnswer>>>),
    /// Created or buffered here.
    Whole(Response<Bytes>),
}

impl UnrecordedAnswer {
    /// Returns the response; its record ends when the response is sent.
    pub(crate) fn finish(self, mut record: Record) -> Response<ResponseBody> {
        record.status = match &self {
            UnrecordedAnswer::Streamed(answer) => answer.status().as_u16(),
            UnrecordedAnswer::Whole(answer) => answer.status().as_u16(),
        };
        match self {
            UnrecordedAnswer::Streamed(answer) => answer.map(|body| Recorded::new(body, record).boxed_unsync()),
            UnrecordedAnswer::Whole(answer) => {
                answer.map(|bytes| Recorded::new(BufferedBody::new([bytes], ()), record).boxed_unsync())
            }
        }
    }
}

/// Returns the response to a message that is not forwarded.
pub(crate) fn refuse(refusal: &Refusal, mut record: Record) -> Response<ResponseBody> {
    record.refused(refusal);
    record.status = refusal.status.as_u16();
    if refusal.status.is_server_error() {
        record.refusals.line(Some(record.client()), || record.refused_line(refusal).warn("request refused", 0));
    }
    refusal.problem().response().map(|body| Recorded::new(body, record).boxed_unsync())
}

impl ForwardingPlan<'_> {
    /// Forwards the request and returns the answer.
    pub(crate) async fn run(
        &self,
        mut message: Box<ArrivedRequest>,
        record: &mut Record,
    ) -> Result<UnrecordedAnswer, Refusal> {
        let mut asked = Asked::of(&message.head);
        let upgrade = self.prepare(&mut message.head)?;
        record.received = Some(message.body.received());
        // Rarely used futures are boxed too.
        let request = match self.request.is_empty() && !self.checks.guards_method {
            true => self.untouched(*message, record),
            false => Box::pin(self.rewrite_request(message, &mut asked, record)).await?,
        };
        if self.response.need_the_engine() {
            // Without an engine the answer could not be processed, although the upstream had executed the request.
            let ready = Box::pin(self.worker.transforms.client.ready()).await;
            ready.map_err(|error| Refusal::of_engine(Direction::Request, &error))?;
        }
        let mut answer = self.worker.pool.send(self.origin, request).await.map_err(of_upstream)?;
        record.upstream_tls_group = answer.extensions().get::<UpstreamTls>().and_then(|tls| tls.group);
        if answer.status() == StatusCode::SWITCHING_PROTOCOLS {
            let theirs = hyper::upgrade::on(&mut answer);
            let (mut head, _) = answer.into_parts();
            let ours = upgrade.ok_or_else(|| broke("it changed the protocol unasked"))?;
            let protocol = hop_headers::upgrade(&head.headers).ok_or_else(|| broke("it changed to no protocol"))?;
            hop_headers::strip_hop(&mut head.headers).map_err(|_| broke("its header is malformed"))?;
            head.headers.insert(header::CONNECTION, HeaderValue::from_static("upgrade"));
            head.headers.insert(header::UPGRADE, protocol);
            tokio::spawn(join(ours, theirs, self.worker.limits.tunnel_timeout));
            return Ok(UnrecordedAnswer::Whole(response(head, Bytes::new())));
        }
        let (mut head, body) = answer.into_parts();
        hop_headers::strip_hop(&mut head.headers).map_err(|_| broke("its header is malformed"))?;
        head.extensions.clear();
        head.version = Version::HTTP_11;
        if self.request.hide() || self.response.hide() {
            // A client that follows it avoids the relay.
            head.headers.remove(header::ALT_SVC);
        }
        if asked.has_new_body {
            // The upstream's tag stands for a representation that the client has not sent.
            validators::weaken_tag(&mut head.headers);
        }
        match self.response.is_empty() {
            true => Ok(UnrecordedAnswer::Streamed(Response::from_parts(head, Watched::new(Guarded::open(body), None)))),
            false => {
                let rewritten = Box::pin(self.rewrite_response(head, body, &asked, record)).await;
                rewritten.map_err(Refusal::once_answered)
            }
        }
    }

    /// Prepares the client's header for the upstream. Returns the client's side of an upgrade, if it requests one that is permitted.
    fn prepare(&self, head: &mut request::Parts) -> Result<Option<OnUpgrade>, Refusal> {
        // Rules cannot be applied to another protocol's content.
        let may_change = head.version == Version::HTTP_11 && self.request.is_empty() && self.response.is_empty();
        let protocol = hop_headers::upgrade(&head.headers).filter(|_| may_change);
        let upgrade = protocol.as_ref().and_then(|_| head.extensions.remove::<OnUpgrade>());
        if head.version == Version::HTTP_2 {
            hop_headers::join_cookies(&mut head.headers);
        }
        hop_headers::prepare_request(&mut head.headers)?;
        if self.checks.removes_paths {
            overrides::remove_paths(&mut head.headers);
        }
        self.source.write(&mut head.headers);
        if let (Some(protocol), Some(_)) = (protocol, &upgrade) {
            head.headers.insert(header::CONNECTION, HeaderValue::from_static("upgrade"));
            head.headers.insert(header::UPGRADE, protocol);
        }
        if self.has_rules {
            validators::restore_conditions(&mut head.headers);
        }
        if self.response.read_bodies() {
            hop_headers::prepare_for_reading(&mut head.headers);
        }
        let writes = matches!(head.method, Method::PUT | Method::POST | Method::PATCH | Method::DELETE);
        if self.response.tags() == Tags::Remove && !writes {
            validators::remove_conditions(&mut head.headers);
        }
        head.extensions.clear();
        Ok(upgrade)
    }

    async fn rewrite_request(
        &self,
        message: Box<ArrivedRequest>,
        asked: &mut Asked,
        record: &mut Record,
    ) -> Result<Box<Request<Sent>>, Refusal> {
        let ArrivedRequest { mut head, body } = *message;
        let mut job = self.job(Direction::Request, self.request);
        job.guards_method = self.checks.guards_method;
        job.guards_method_in_body = self.checks.guards_method && overrides::is_post(&head.method);
        let is_safe = head.method.is_safe() && !overrides::has_method_header(&head.headers);
        job.may_set = !is_safe || !body.is_end_stream();
        let outcome = job.run(&mut head.uri, &mut head.headers, body).await;
        note(record, &job);
        asked.has_new_body = job.has_new_body;
        let outcome = outcome?;
        if job.is_sealed {
            record.sealed().note(ExchangePart::RequestBody, FoundEnvelope::Envelope);
        }
        self.search_head(&head, record);
        let body = match outcome {
            Outcome::Untouched(body) => {
                let watch = self.watch(Direction::Request, &head.headers, &body, record);
                Sent::Client(Watched::new(Guarded::new(body, Direction::Request, self.request, record), watch), None)
            }
            Outcome::Whole(bytes) => Sent::whole(bytes),
        };
        Ok(Box::new(Request::from_parts(head, body)))
    }

    async fn rewrite_response(
        &self,
        mut head: response::Parts,
        body: UpstreamAnswer,
        asked: &Asked,
        record: &mut Record,
    ) -> Result<UnrecordedAnswer, Refusal> {
        let (reads, tags) = (self.response.read_bodies(), self.response.tags());
        if reads && head.status == StatusCode::PARTIAL_CONTENT {
            return Err(Refusal::mismatch(Direction::Response, "it is a part of a document"));
        }
        let mut job = self.job(Direction::Response, self.response);
        let outcome = job.headers(&mut head.headers).await;
        note(record, &job);
        outcome?;
        let guard = |body, watch, record: &Record| {
            Watched::new(Guarded::new(body, Direction::Response, self.response, record), watch)
        };
        if asked.method == Method::HEAD || hop_headers::has_no_body(head.status) {
            if reads && job.may_change(&head.headers) {
                validators::update_for_absent_body(&mut head.headers, &asked.known, tags);
            }
            return Ok(UnrecordedAnswer::Streamed(Response::from_parts(head, guard(body, None, record))));
        }
        let is_content = is_content(&asked.method, head.status);
        if reads && body.is_end_stream() && !is_content {
            validators::update_for_absent_body(&mut head.headers, &asked.known, tags);
        }
        if tags == Tags::Remove && !is_content {
            validators::remove_resource_digests(&mut head.headers);
        }
        let mut job = self.job(Direction::Response, self.response);
        let outcome = job.run_on_body(&mut head.headers, body).await;
        note(record, &job);
        let outcome = match outcome {
            Err(refusal) if has_meaning_without_body(head.status) => {
                return Ok(withhold(head, &refusal.once_answered(), record));
            }
            outcome => outcome?,
        };
        if job.is_sealed {
            record.sealed().note(ExchangePart::ResponseBody, FoundEnvelope::Envelope);
        }
        Ok(match outcome {
            Outcome::Untouched(body) => {
                let watch = self.watch(Direction::Response, &head.headers, &body, record);
                UnrecordedAnswer::Streamed(Response::from_parts(head, guard(body, watch, record)))
            }
            Outcome::Whole(bytes) => UnrecordedAnswer::Whole(response(head, bytes)),
        })
    }

    /// Forwards a request to which no rule applies.
    fn untouched(&self, message: ArrivedRequest, record: &mut Record) -> Box<Request<Sent>> {
        let ArrivedRequest { head, body } = message;
        self.search_head(&head, record);
        let watch = self.watch(Direction::Request, &head.headers, &body, record);
        let body = Sent::Client(Watched::new(Guarded::open(body), watch), None);
        Box::new(Request::from_parts(head, body))
    }

    /// Searches the head of a request for envelopes, as it is forwarded.
    fn search_head(&self, head: &request::Parts, record: &mut Record) {
        if self.searches(ExchangePart::RequestHead) && sealed::is_in_head(&head.uri, &head.headers) {
            record.sealed().note(ExchangePart::RequestHead, FoundEnvelope::Envelope);
        }
    }

    /// The search for envelopes in a message that is streamed, if there is one to search.
    fn watch(
        &self,
        direction: Direction,
        headers: &HeaderMap,
        body: &impl Body,
        record: &mut Record,
    ) -> Option<Box<Watch>> {
        let place = ExchangePart::body_of(direction);
        let has_trailers = direction == Direction::Request && self.searches(ExchangePart::RequestTrailers);
        let searches = self.searches(place);
        if body.is_end_stream() || !(searches || has_trailers) {
            return None;
        }
        let trailers = has_trailers.then_some(ExchangePart::RequestTrailers);
        let watch = Watch::new(place, trailers, Arc::clone(record.sealed()));
        let tools = || self.worker.transforms.search_tools(self.source.peer.address.ip());
        Some(if searches { watch.body(Coding::of(headers), tools()) } else { watch })
    }

    fn searches(&self, place: ExchangePart) -> bool {
        let [request, response] = self.searched;
        let actions = if place == ExchangePart::ResponseBody { response } else { request };
        place.is_searched(self.is_outbound, actions)
    }

    fn job<'a>(&'a self, direction: Direction, actions: &'a Actions) -> MessageRules<'a> {
        let client = self.source.peer.address.ip();
        let job = MessageRules::new(&self.worker.transforms, direction, actions, self.app, client);
        MessageRules { key_id: self.key_id, searches: self.searches(ExchangePart::body_of(direction)), ..job }
    }
}

/// Whether an entity tag in the answer is that of its own content, even if that is empty.
fn is_content(method: &Method, status: StatusCode) -> bool {
    method == Method::GET && matches!(status, StatusCode::OK | StatusCode::NON_AUTHORITATIVE_INFORMATION)
}

/// Whether an answer states the outcome without its body: errors, redirections, and what else is complete with its header. Any other
/// success would appear to be an empty document.
fn has_meaning_without_body(status: StatusCode) -> bool {
    !status.is_success() || matches!(status, StatusCode::CREATED | StatusCode::ACCEPTED | StatusCode::RESET_CONTENT)
}

/// Returns the answer without its body, to which the rules cannot be applied.
fn withhold(mut head: response::Parts, refusal: &Refusal, record: &mut Record) -> UnrecordedAnswer {
    validators::update_for_withheld_body(&mut head.headers);
    head.headers.insert(WITHHELD, HeaderValue::from_static(refusal.code.as_str()));
    record.withheld(refusal);
    record.status = head.status.as_u16();
    record
        .refusals
        .line(Some(record.client()), || record.refused_line(refusal).inform("withheld the body of an answer"));
    UnrecordedAnswer::Whole(response(head, Bytes::new()))
}

fn response(head: response::Parts, bytes: Bytes) -> Response<Bytes> {
    Response::from_parts(head, bytes)
}

fn note(record: &mut Record, job: &MessageRules<'_>) {
    for action in [Action::Encrypt, Action::Decrypt, Action::Redact] {
        let count = job.changed[action as usize];
        if count > 0 {
            record.changed(action, count);
        }
    }
    if job.unopened.count > 0 {
        record.unopened(job.unopened.count);
    }
    record.reported(job.reported);
}

fn broke(what: &str) -> Refusal {
    Refusal::new(ErrorCode::UpstreamBroke, format!("the upstream broke off: {what}"))
}

/// Returns the refusal of a request that the upstream did not answer.
pub(crate) fn of_upstream(error: UpstreamError) -> Refusal {
    match error.code() {
        code @ ErrorCode::RelayOverloaded => Refusal::unavailable(code, error.to_string(), None),
        code => Refusal::new(code, error.to_string()),
    }
}

/// Joins client and upstream after an upgrade to another protocol.
async fn join(ours: OnUpgrade, theirs: OnUpgrade, silence_max: Duration) {
    let (Ok(ours), Ok(theirs)) = tokio::join!(ours, theirs) else { return };
    if let Err(error) = tunnel::join(TokioIo::new(ours), TokioIo::new(theirs), silence_max).await {
        tracing::debug!(%error, "a tunnel failed");
    }
}
