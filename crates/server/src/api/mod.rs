//! The HTTPS API: the calls of field-encryption SDKs, and of clients that have only HTTP.
//!
//! Network threads authenticate the caller before any of the body is read, and receive the body within limits. The work itself is a
//! request in the same pool as RPC requests, in the same order and under the same limits; it is cancelled when its caller
//! disconnects. Nothing passes through unprocessed: incomplete work is an error (`application/problem+json`), and only complete
//! results are returned.

mod body;
mod call;
mod credentials;
pub(crate) mod fuzzing;
mod problem;
mod query;
mod record;
mod report;
mod route;

use std::sync::Arc;
use std::time::Instant;

use hyper::header::{ALLOW, HeaderValue, WWW_AUTHENTICATE};
use hyper::http::request::Parts;
use hyper::{HeaderMap, Request, Response, StatusCode};
use leafseal_engine::admin::{AppName, Operation};
use leafseal_engine::{
    ApiCaller, Caller, Engine, EntryPoint, Error, ErrorCode, Principal, RequestOrigin, read_api_key,
};
use leafseal_http::{
    ConnectionPeer, Handler, HttpProblem, Listener, ListenerEvent, ListenerObserver, ListenerOptions, RequestBody,
};
use leafseal_http::{HttpSettings, ResponseBody};
use leafseal_net::tls::{Acceptor, ServerIdentity};
use leafseal_net::{FairPlaces, client_of, trace_id};
use leafseal_protocol::{Field, Method};
use serde_json::json;
use tokio::runtime::Runtime;
use tokio::sync::Semaphore;
use tokio::time::timeout;

use crate::clock;
use crate::metrics::ApiCall;
use crate::refusals::RefusalLine;
use crate::request_facts::RequestFacts;
use crate::server_state::ServerState;
use crate::settings::{ApiSettingsError, ServerSettings};
use crate::start_error::StartError;
use body::{RequestBodyForm, answer_json, answer_static};
use call::Submission;
use credentials::Credentials;
use leafseal_service::api::{self, CallInput, CallOptions, ReportSlot};
use leafseal_service::{FailureObserver, gather};
use problem::{invalid, not_found, overloaded};
use query::{SupportedOptions, read_options};
use record::ApiRecord;
use report::{REPORT, header};

/// The content of `GET /openapi.json`.
pub(crate) const OPEN_API: &str = include_str!("../../../../docs/openapi.json");

const APP_ID: &str = "x-evervault-app-id";
const DEBUG_MODE: &str = "x-evervault-inputs-debug-mode";
/// Response headers that pages may read.
const EXPOSED: &str = "x-evervault-inputs-debug-mode, leafseal-report";
const TRACEPARENT: &str = "traceparent";
const POLL_INTERVAL: &str = "x-poll-interval";
/// The challenge to clients without credentials (RFC 7617).
const CHALLENGE: &str = "Basic realm=\"leafseal\", charset=\"UTF-8\"";

/// Starts the listener, if an address is set.
pub(crate) fn start(
    server_state: &Arc<ServerState>,
    identity: Option<ServerIdentity>,
    engine: &Engine,
    runtime: &Runtime,
) -> Result<Option<Started>, StartError> {
    let settings = &server_state.settings.api;
    let Some(address) = settings.address else { return Ok(None) };
    settings.validate()?;
    server_state.settings.validate_api()?;
    let identity = identity.ok_or(ApiSettingsError::NoIdentity)?;
    let acceptor = Acceptor::new(&identity).map_err(StartError::ApiIdentity)?;
    drop(identity);
    // Otherwise the first token would wait for the store on a network thread.
    if let Err(error) = engine.prepare_tokens() {
        tracing::warn!(
            cause = error.cause().unwrap_or_default(),
            "client-side tokens are unavailable until the keystore responds"
        );
    }
    let ServerSettings { drain_timeout, ref trusted_balancers, .. } = server_state.settings;
    let trusted_balancers = trusted_balancers.clone();
    let http = HttpSettings { drain_timeout, trusted_balancers, ..settings.http.clone() };
    let observer = Arc::new(Log { server_state: Arc::clone(server_state) });
    let options = ListenerOptions { address, acceptor: Some(acceptor.clone()), settings: http, observer };
    let calls = Semaphore::new(settings.calls_max);
    let anonymous_calls = Arc::default();
    let api = Api { server_state: Arc::clone(server_state), engine: engine.clone(), calls, anonymous_calls };
    let _context = runtime.enter();
    let listener = Listener::start(options, Arc::new(api));
    let listener = listener.map_err(|error| StartError::Listen { setting: "api.address", address, error })?;
    server_state.api.watch(listener.counting());
    Ok(Some((listener, acceptor)))
}

/// The listener and its TLS acceptor.
type Started = (Listener<Api>, Acceptor);

/// The HTTP handler of the API.
pub(crate) struct Api {
    server_state: Arc<ServerState>,
    engine: Engine,
    calls: Semaphore,
    /// Places for calls that hold a place among `calls` although nothing proves who makes them: half as many, so that calls which wait for
    /// the keystore in the names of others leave room. Shared fairly among addresses.
    anonymous_calls: Arc<FairPlaces>,
}

/// The authenticated caller of a request.
enum CheckedCaller {
    Key(ApiCaller),
    Token { caller: Caller, app: AppName },
}

impl CheckedCaller {
    fn app(&self) -> &AppName {
        match self {
            CheckedCaller::Key(key) => key.app(),
            CheckedCaller::Token { app, .. } => app,
        }
    }

    fn into_caller(self) -> (Caller, String) {
        match self {
            CheckedCaller::Key(key) => (key.caller().clone(), key.app().to_string()),
            CheckedCaller::Token { caller, app } => (caller, app.to_string()),
        }
    }

    fn caller(&self) -> &Caller {
        match self {
            CheckedCaller::Key(key) => key.caller(),
            CheckedCaller::Token { caller, .. } => caller,
        }
    }
}

type ApiAnswer = Result<Response<ResponseBody>, HttpProblem>;

/// What is known of a call before its work.
fn facts_of(headers: &HeaderMap, peer: &ConnectionPeer) -> RequestFacts {
    let trace = headers.get(TRACEPARENT).and_then(|trace| trace_id(trace.as_bytes())).map(Box::from);
    let (account, address) = (Some(Arc::default()), Some(peer.address.ip()));
    RequestFacts { account, address, trace, ..RequestFacts::default() }
}

/// Whether a page of an allowed origin may read the answer. API keys do not belong in pages: answers to requests with one are not readable.
/// A preflight request carries no credentials; without the header in its answer, browsers do not send the request itself.
fn is_open_to_pages(call: ApiCall, method: &hyper::Method, headers: &HeaderMap) -> bool {
    let shows_token = || matches!(Credentials::read(headers), Ok(Credentials::Token(_)));
    let is_readable =
        || *method == hyper::Method::OPTIONS || headers.contains_key(hyper::header::ORIGIN) && shows_token();
    call.is_for_pages() && (call != ApiCall::Decrypt || is_readable())
}

impl Handler for Api {
    async fn handle(
        self: Arc<Self>,
        request: Request<RequestBody>,
        peer: Arc<ConnectionPeer>,
    ) -> Response<ResponseBody> {
        let began = clock::now();
        let (parts, body) = request.into_parts();
        let route = ApiCall::of_path(parts.uri.path());
        let call = route.map(|(call, _)| call);
        let facts = facts_of(&parts.headers, &peer);
        let mut record = ApiRecord::begin(Arc::clone(&self.server_state), call, (facts.clone(), began));
        let result = match route {
            Some((call, app)) => self.answer((call, app), &parts, body, (&peer, facts), began).await,
            None => Err(not_found("there is no such call: GET /openapi.json lists all calls")),
        };
        let mut response = result.unwrap_or_else(|problem| {
            record.failed(&problem, &peer);
            let mut response = problem.response();
            if problem.status == StatusCode::UNAUTHORIZED {
                response.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static(CHALLENGE));
            }
            if let (StatusCode::METHOD_NOT_ALLOWED, Some(call)) = (problem.status, call) {
                response.headers_mut().insert(ALLOW, HeaderValue::from_static(call.allowed()));
            }
            response
        });
        if call.is_some_and(|call| is_open_to_pages(call, &parts.method, &parts.headers)) {
            body::allow_origin(&self.server_state.settings.api, &parts.headers, response.headers_mut());
        }
        let response = if parts.method == hyper::Method::HEAD { body::head_of(response) } else { response };
        record.end(&response, &peer);
        response
    }
}

impl Api {
    async fn answer(
        &self,
        (call, app): (ApiCall, Option<&str>),
        parts: &Parts,
        body: RequestBody,
        (peer, facts): (&ConnectionPeer, RequestFacts),
        began: Instant,
    ) -> ApiAnswer {
        let settings = &self.server_state.settings.api;
        if parts.method == hyper::Method::OPTIONS && call.is_for_pages() && !settings.cors_origins.is_empty() {
            let allowed = body::preflight(settings, &parts.headers, &call.method());
            return allowed.map_err(|problem| self.refused_preflight(problem, peer));
        }
        let is_head = parts.method == hyper::Method::HEAD && call.method() == hyper::Method::GET;
        if parts.method != call.method() && !is_head {
            let detail = format!("this call supports {}", call.allowed());
            return Err(HttpProblem::new(ErrorCode::MethodNotAllowed, detail));
        }
        let pause = self.server_state.settings.retry_after;
        if !self.server_state.is_serving() {
            let problem = HttpProblem::new(ErrorCode::Unavailable, "the engine is shutting down");
            return Err(problem.retry_after(pause));
        }
        let place = self.calls.try_acquire();
        let _place = place.map_err(|_| overloaded("too many calls are going on", pause))?;
        let keys =
            |facts| Submission { bytes: 0, method: Some(Method::PublicKeys), began, peer, incoming: None, facts };
        match call {
            ApiCall::OpenApi => Ok(answer_static("application/json", OPEN_API.as_bytes())),
            ApiCall::Certificate => self.certificate(),
            ApiCall::RelayOutbound => self.relay_outbound(&parts.headers, peer).await,
            ApiCall::KeysByApp => {
                let app = parts.headers.get(APP_ID).and_then(|app| app.to_str().ok());
                let app = app.ok_or_else(|| invalid("the header `x-evervault-app-id` names the app"))?;
                let found = self.public_keys(Caller::Anonymous, app, keys(facts));
                self.anonymously(peer, found).await
            }
            ApiCall::AppOfTeam => {
                let app = app.expect("the path has one");
                let found = self.public_keys(Caller::Anonymous, app, keys(facts));
                let mut response = self.anonymously(peer, found).await?;
                response.headers_mut().insert(DEBUG_MODE, HeaderValue::from_static("false"));
                Ok(response)
            }
            ApiCall::KeysByApiKey => {
                let (caller, app) = self.authenticate_key(&parts.headers, peer).await?.into_caller();
                self.public_keys(caller, &app, keys(facts)).await
            }
            ApiCall::Encrypt | ApiCall::Decrypt | ApiCall::Inspect | ApiCall::ClientSideTokens => {
                self.work(call, parts, body, (peer, facts), began).await
            }
        }
    }

    /// Runs a call that has a body.
    async fn work(
        &self,
        call: ApiCall,
        parts: &Parts,
        body: RequestBody,
        (peer, facts): (&ConnectionPeer, RequestFacts),
        began: Instant,
    ) -> ApiAnswer {
        let settings = &self.server_state.settings.api;
        let authenticated = self.authenticated(&parts.headers, peer).await?;
        let engine = self.engine_of(peer);
        let permitted = engine.refuse_early(authenticated.caller(), operations(call), authenticated.app());
        permitted.map_err(|error| problem::problem(&leafseal_service::error_object(error)))?;
        let form = RequestBodyForm::of(&parts.headers)?;
        let is_file = form == RequestBodyForm::Bytes;
        // A token is for one JSON document.
        let is_supported = match (form, &authenticated) {
            (RequestBodyForm::Json, _) => true,
            (_, CheckedCaller::Token { .. }) => false,
            (RequestBodyForm::Lines(_), _) => call != ApiCall::ClientSideTokens,
            (RequestBodyForm::Bytes, _) => matches!(call, ApiCall::Encrypt | ApiCall::Decrypt),
        };
        if !is_supported {
            return Err(RequestBodyForm::wrong("this call requires application/json"));
        }
        let options = read_options(parts.uri.query(), supported(call, is_file)).map_err(invalid)?;
        if matches!(authenticated, CheckedCaller::Token { .. }) {
            refuse_places(&options)?;
        }
        let size_max = if call == ApiCall::Inspect { settings.inspect_size_max } else { settings.body_size_max };
        let deadline = began + settings.call_timeout;
        let memory = self.memory(&authenticated);
        let read = body::read(&parts.headers, body, size_max, memory.incoming_share(), deadline).await?;
        let (caller, app) = authenticated.into_caller();
        let (incoming, size) = (Some(read.share), read.pieces.size());
        let engine = engine.accounted(facts.account.clone());
        let submission = Submission { bytes: size, method: method(call, is_file), began, peer, incoming, facts };
        let accounts = self.accounts(&caller, &app, peer);
        let report = ReportSlot::default();
        // Only calls that continue after an envelope fails to decrypt have failures to log.
        let continues = options.given.iter().any(|(option, _)| option == Field::OnFailure);
        let logged = continues.then(|| (caller.clone(), app.clone()));
        let slot = Arc::clone(&report);
        let request = gather(read.pieces.into_vec(), size, move |body| {
            let is_lines = matches!(form, RequestBodyForm::Lines(_));
            let input = CallInput { engine, caller, app, options, body, is_lines, report: slot };
            match (call, is_file) {
                (ApiCall::Encrypt, false) => api::encrypt_document(input),
                (ApiCall::Encrypt, true) => api::encrypt_file(input),
                (ApiCall::Decrypt, false) => api::decrypt_document(input),
                (ApiCall::Decrypt, true) => api::decrypt_file(input),
                (ApiCall::Inspect, _) => api::inspect(input),
                _ => api::issue_token(input),
            }
        });
        let answered = self.run(request, submission, accounts, size, &memory).await;
        let mut response = answered.map(|answer| body::answer(form, answer))?;
        if let Some(reported) = report.get() {
            if let Some(value) = header(reported) {
                response.headers_mut().insert(REPORT, value);
            }
            if let Some((caller, app)) = logged {
                self.server_state.failures.ended(&caller, &app, &reported.report);
            }
        }
        Ok(response)
    }

    async fn public_keys(&self, caller: Caller, app: &str, submission: Submission<'_>) -> ApiAnswer {
        let accounts = self.accounts(&caller, app, submission.peer);
        let memory = self.server_state.memory_of(accounts.tenant);
        let team = self.server_state.settings.api.team.clone();
        let options = CallOptions::default();
        let engine = self.engine_of(submission.peer).accounted(submission.facts.account.clone());
        let (app, body, report) = (app.to_owned(), Vec::new(), ReportSlot::default());
        let input = CallInput { engine, caller, app, options, body, is_lines: false, report };
        let answered = self.run(api::public_keys(input, team), submission, accounts, 0, &memory).await;
        answered.map(|answer| body::answer(RequestBodyForm::Json, answer))
    }

    fn certificate(&self) -> ApiAnswer {
        let relay = self.server_state.settings.api.relay.get();
        match relay.and_then(|relay| relay.ca_pem.clone()) {
            Some(pem) => Ok(body::answer_bytes("application/x-pem-file", pem)),
            None => Err(not_found("no outbound relay is configured here, and so no authority of one")),
        }
    }

    async fn relay_outbound(&self, headers: &HeaderMap, peer: &ConnectionPeer) -> ApiAnswer {
        if let CheckedCaller::Key(key) = self.authenticate_key(headers, peer).await? {
            self.engine_of(peer).accept(&key);
        }
        let relay = self.server_state.settings.api.relay.get();
        let relay = relay.as_deref();
        let destinations = relay.map_or(&[][..], |relay| &relay.destinations).iter();
        let reported: serde_json::Map<String, serde_json::Value> = destinations
            .map(|destination| {
                let reported = json!({ "id": destination.id, "destinationDomain": destination.domain });
                (destination.id.clone(), reported)
            })
            .collect();
        let mut response = answer_json(&json!({ "outboundDestinations": reported }));
        if let Some(relay) = relay {
            let seconds = HeaderValue::from(relay.poll_interval.as_secs().max(1));
            response.headers_mut().insert(POLL_INTERVAL, seconds);
        }
        Ok(response)
    }

    /// The engine, for the requests of a peer.
    fn engine_of(&self, peer: &ConnectionPeer) -> Engine {
        self.engine.at(RequestOrigin { address: Some(peer.address.ip()), ..RequestOrigin::of(EntryPoint::Api) })
    }

    /// Reports credentials that are refused before the engine has seen them.
    fn unauthorized(&self, peer: &ConnectionPeer, principal: Principal<'_>, detail: &str) -> HttpProblem {
        let error = Error::new(ErrorCode::Unauthorized, detail);
        problem::problem(&leafseal_service::error_object(self.engine_of(peer).refuse(principal, error)))
    }

    /// Reports a page of an origin that may not make the call.
    fn refused_preflight(&self, problem: HttpProblem, peer: &ConnectionPeer) -> HttpProblem {
        if problem.code == ErrorCode::Forbidden {
            self.engine_of(peer).refuse(Principal::Anonymous, Error::new(problem.code, problem.detail.clone()));
        }
        problem
    }

    /// Authenticates the caller by an API key.
    async fn authenticate_key(&self, headers: &HeaderMap, peer: &ConnectionPeer) -> Result<CheckedCaller, HttpProblem> {
        match self.authenticated(headers, peer).await? {
            authenticated @ CheckedCaller::Key(_) => Ok(authenticated),
            CheckedCaller::Token { caller, .. } => {
                Err(self.unauthorized(peer, caller.principal(), "this call requires an API key"))
            }
        }
    }

    async fn authenticated(&self, headers: &HeaderMap, peer: &ConnectionPeer) -> Result<CheckedCaller, HttpProblem> {
        let credentials = Credentials::read(headers);
        match credentials.map_err(|none| self.unauthorized(peer, Principal::Anonymous, none.detail()))? {
            Credentials::Token(text) => {
                let engine = self.engine_of(peer);
                let token = self.look_up(engine.find_token(&text)).await?;
                Ok(CheckedCaller::Token { app: token.app().clone(), caller: Caller::Token(token) })
            }
            Credentials::ApiKey { app, key } => {
                let caller = self.api_caller(&key, peer).await?;
                if app.is_some_and(|app| app != caller.app().as_str()) {
                    let detail = "the API key is for another app than the one it was shown for";
                    return Err(self.unauthorized(peer, caller.caller().principal(), detail));
                }
                Ok(CheckedCaller::Key(caller))
            }
        }
    }

    /// Looks up the API key, without blocking the thread.
    async fn api_caller(&self, text: &str, peer: &ConnectionPeer) -> Result<ApiCaller, HttpProblem> {
        let detail = "the API key is not known to this engine, or was revoked";
        let (id, secret_sha256) =
            read_api_key(text).ok_or_else(|| self.unauthorized(peer, Principal::Anonymous, detail))?;
        if let Some(known) = self.engine.known_api_caller(&id, secret_sha256) {
            return Ok(known);
        }
        let source = self.server_state.number_of_client(("address", client_of(peer.address.ip())));
        let engine = self.engine_of(peer);
        self.anonymously(peer, self.look_up(engine.find_api_caller(&id, secret_sha256, source))).await
    }

    /// Waits for a look-up of the keystore.
    async fn look_up<T>(&self, found: impl Future<Output = Result<T, Error>>) -> Result<T, HttpProblem> {
        let limit = self.engine.settings().store_wait_max;
        let found = timeout(limit, found).await.unwrap_or_else(|_| Err(Error::silent_store()));
        found.map_err(|error| problem::problem(&leafseal_service::error_object(error)))
    }

    /// Makes a call of which nothing proves who makes it, in one of the places for such calls.
    async fn anonymously<T>(
        &self,
        peer: &ConnectionPeer,
        call: impl Future<Output = Result<T, HttpProblem>>,
    ) -> Result<T, HttpProblem> {
        let pause = self.server_state.settings.retry_after;
        let full = || overloaded("too many calls without known credentials are going on", pause);
        let calls_max = self.server_state.settings.api.calls_max.div_ceil(2);
        let place = self.anonymous_calls.take(peer.address.ip(), calls_max).ok_or_else(full)?;
        tokio::select! {
            answered = call => answered,
            () = place.displaced() => Err(full()),
        }
    }
}

/// The operations that the key must permit. Creating tokens includes decryption, because their creator could decrypt with them.
fn operations(call: ApiCall) -> &'static [Operation] {
    match call {
        ApiCall::Encrypt => &[Operation::Encrypt],
        ApiCall::Inspect => &[Operation::Inspect],
        ApiCall::ClientSideTokens => &[Operation::IssueTokens, Operation::Decrypt],
        _ => &[Operation::Decrypt],
    }
}

/// A token covers texts, and not what they are bound to: its holder, or who writes the names and numbers around them, would choose that.
fn refuse_places(options: &CallOptions) -> Result<(), HttpProblem> {
    let is_place = |field| matches!(field, Field::Context | Field::ContextSelect | Field::Bind);
    if options.given.iter().any(|(field, _)| is_place(field)) {
        return Err(invalid(
            "a client-side token opens no values that are bound to a context: decrypt them with an API key",
        ));
    }
    Ok(())
}

fn supported(call: ApiCall, is_file: bool) -> SupportedOptions {
    match (call, is_file) {
        (ApiCall::Encrypt, false) => SupportedOptions::Encryption,
        (ApiCall::Encrypt, true) => SupportedOptions::FileEncryption,
        (ApiCall::Decrypt, false) => SupportedOptions::Decryption,
        (ApiCall::Decrypt, true) => SupportedOptions::FileDecryption,
        (ApiCall::Inspect, _) => SupportedOptions::Inspection,
        _ => SupportedOptions::Nothing,
    }
}

/// The RPC method under which the workers' time is counted.
fn method(call: ApiCall, is_file: bool) -> Option<Method> {
    match (call, is_file) {
        (ApiCall::Encrypt, false) => Some(Method::EncryptDocument),
        (ApiCall::Encrypt, true) => Some(Method::EncryptFile),
        (ApiCall::Decrypt, false) => Some(Method::DecryptDocument),
        (ApiCall::Decrypt, true) => Some(Method::DecryptFile),
        (ApiCall::Inspect, _) => Some(Method::Inspect),
        _ => None,
    }
}

/// Logs events of the listener, rate-limited.
struct Log {
    server_state: Arc<ServerState>,
}

impl ListenerObserver for Log {
    fn observe(&self, event: &ListenerEvent<'_>) {
        match event {
            ListenerEvent::Broken(address, error) => {
                return tracing::debug!(%address, %error, "a connection to the API failed");
            }
            // Port probes must not displace meaningful lines.
            ListenerEvent::Left(address) => {
                return tracing::debug!(%address, "the client closed a connection to the API during the handshake");
            }
            _ => {}
        }
        if let (ListenerEvent::HandshakeFailed(address, _), Some(audit)) = (event, &self.server_state.audit) {
            audit.handshake_failed(address.ip());
        }
        let source = match event {
            ListenerEvent::Refused(address, _)
            | ListenerEvent::HandshakeFailed(address, _)
            | ListenerEvent::Cut(address, _) => Some(address),
            _ => None,
        };
        let source = source.map(|address| client_of(address.ip()));
        self.server_state.refusals.line(RefusalLine::Connection, clock::now(), &source, || match event {
            ListenerEvent::CannotAccept(error) => tracing::error!(%error, "the API cannot accept connections"),
            ListenerEvent::Refused(address, full) => {
                tracing::warn!(%address, reason = %full, "connection to the API rejected");
            }
            ListenerEvent::HandshakeFailed(address, reason) => {
                tracing::warn!(%address, reason, "handshake with the API failed")
            }
            ListenerEvent::Cut(address, reason) => tracing::warn!(%address, reason, "connection to the API closed"),
            ListenerEvent::Left(..) | ListenerEvent::Broken(..) => {}
        });
    }
}
