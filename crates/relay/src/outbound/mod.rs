//! The outbound relay: a proxy that SDKs and other clients call with `CONNECT`, and that inspects requests to some destinations.
//!
//! It forwards nothing without an API key: on `CONNECT`, for the whole tunnel, or on each request inside it.

mod auth;
mod dial;
pub(crate) mod leaf_issuer;

use std::io;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use http_body_util::BodyExt;
use hyper::header::{CONNECTION, HeaderValue};
use hyper::upgrade::OnUpgrade;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use leafseal_client::ApiKeyFacts;
use leafseal_http::{Handler, Hold, Peer, Protocol, RequestBody, ResponseBody, StreamServer, empty, protocol_of};
use tokio::net::TcpStream;
use tokio::time::sleep;

use crate::access::{Record, Recorded, host};
use crate::config::{Actions, Destination, Forwarded, Origin, Unlisted};
use crate::context::{ListenerContext, WorkerContext};
use crate::forward::{Answer, ForwardingPlan, Message, of_upstream, refuse};
use crate::hop_headers::Source;
use crate::refusal::Refusal;
use crate::rules::choice::choose_in_all_readings;
use crate::rules::route::{RequestPath, without_port};
use crate::target;
use crate::tunnel;
use crate::upstream::Socket;

pub(crate) use auth::{ApiKeyCache, Key};
pub use leaf_issuer::LeafIssuerError;

use dial::Dialer;

/// The code for a destination that the configuration does not list.
const UNLISTED: &str = "unlisted-destination";
/// Minimum time between two checks whether a tunnel is still permitted.
const LOOK_PERIOD: Duration = Duration::from_secs(1);

static NOTHING: Actions = Actions::NONE;

/// A handler that never answers.
pub(crate) struct NoHandler;

/// Answers `CONNECT` at one listener on one thread.
pub(crate) struct OutboundHandler {
    context: ListenerContext,
    api_keys: Arc<ApiKeyCache>,
    stream_server: OnceLock<StreamServer<NoHandler>>,
    dialer: Dialer,
}

/// The tunnel that a request arrived through.
struct Tunnel {
    context: ListenerContext,
    api_keys: Arc<ApiKeyCache>,
    origin: Arc<Origin>,
    /// The key of `CONNECT`, verified again for each request.
    key: Option<Key>,
}

/// A tunnel to an unlisted destination, which is not inspected.
struct RawTunnel {
    context: ListenerContext,
    api_keys: Arc<ApiKeyCache>,
    host: Box<str>,
    key: Key,
    /// Counts the socket to the destination.
    _socket: Socket,
    /// Keeps the connection of `CONNECT` counted as in use while the tunnel is open.
    _hold: Option<Hold>,
}

/// Answers the requests inside a tunnel.
struct TunnelHandler {
    tunnel: Tunnel,
}

impl OutboundHandler {
    pub(crate) fn new(context: ListenerContext) -> Self {
        OutboundHandler { context, api_keys: Arc::default(), stream_server: OnceLock::new(), dialer: Dialer::new() }
    }

    /// Lets the listener serve tunnels among its connections.
    pub(crate) fn open(&self, stream_server: &StreamServer<Self>) {
        // Set once, at the start.
        let _ = self.stream_server.set(stream_server.with_handler(Arc::new(NoHandler)));
    }

    async fn connect(
        &self,
        worker: &Arc<WorkerContext>,
        mut request: Request<RequestBody>,
        peer: &Arc<Peer>,
        record: &mut Record,
    ) -> Result<Response<ResponseBody>, Refusal> {
        if request.method() != Method::CONNECT {
            return Err(Refusal::new(
                StatusCode::METHOD_NOT_ALLOWED,
                "connect-first",
                "this is a proxy: begin with CONNECT",
            ));
        }
        let listener = &worker.configuration.outbound[self.context.index];
        let origin = Arc::new(destination(&request)?);
        let key = Key::from_headers(request.headers())?;
        if let Some(key) = &key {
            record.app = Some(owner(worker, &self.api_keys, key).await?.app.as_str().into());
        }
        let upgrade = hyper::upgrade::on(&mut request);
        let hold = request.extensions_mut().remove::<Hold>();
        let (context, api_keys) = (self.context.clone(), Arc::clone(&self.api_keys));
        if is_listed(&listener.destinations, &origin.host) {
            let Some(stream_server) = self.stream_server.get().cloned() else {
                return Err(Refusal::unavailable("starting", "the relay is starting", None));
            };
            let tls = worker.leaf_issuers[self.context.index].context(&origin.host, key.is_some());
            let tls = tls.map_err(|error| {
                Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, "no-certificate", error.to_string())
            })?;
            let tunnel = Tunnel { context, api_keys, origin, key };
            let serving = tunnel.serve(upgrade, tls, stream_server, Peer::clone(peer));
            tokio::spawn(async move {
                serving.await;
                drop(hold);
            });
        } else {
            if listener.unlisted == Unlisted::Refuse {
                return Err(unlisted());
            }
            let Some(key) = key else {
                return Err(auth::unauthorized(
                    "a tunnel to this destination takes an API key in Proxy-Authorization of CONNECT",
                ));
            };
            let time_max = worker.configuration.upstream.connect_timeout;
            let counted = worker.pool.socket().map_err(of_upstream)?;
            let socket = self.dialer.dial(&origin, time_max, listener.unlisted_internal).await?;
            let host = origin.host.clone();
            let tunnel = RawTunnel { context, api_keys, host, key, _socket: counted, _hold: hold };
            tokio::spawn(tunnel.carry(upgrade, socket, worker.limits.tunnel_timeout));
        }
        Ok(Response::new(empty()))
    }
}

impl Handler for OutboundHandler {
    async fn handle(self: Arc<Self>, request: Request<RequestBody>, peer: Arc<Peer>) -> Response<ResponseBody> {
        let worker = self.context.worker();
        let listener = &worker.configuration.outbound[self.context.index];
        let (head, body) = request.into_parts();
        let mut record = self.context.record(&listener.name, &worker, &peer, &head);
        match self.connect(&worker, Request::from_parts(head, body), &peer, &mut record).await {
            Ok(response) => {
                record.status = response.status().as_u16();
                response.map(|body| Recorded::new(body, record).boxed_unsync())
            }
            Err(refusal) => refuse(&refusal, record),
        }
    }
}

/// Looks up the current owner of the key.
async fn owner(worker: &WorkerContext, api_keys: &ApiKeyCache, key: &Key) -> Result<Arc<ApiKeyFacts>, Refusal> {
    let limits = &worker.limits;
    api_keys.owner(key, &worker.transforms.client, limits.api_key_timeout, limits.api_keys_max).await
}

fn unlisted() -> Refusal {
    let detail = "this destination is not among those of the relay";
    Refusal::new(StatusCode::FORBIDDEN, UNLISTED, detail)
}

/// The destination of a tunnel.
fn destination(request: &Request<RequestBody>) -> Result<Origin, Refusal> {
    let malformed = || Refusal::request("malformed", "CONNECT takes HOST:PORT");
    let authority = request.uri().authority().ok_or_else(malformed)?;
    let port = authority.port_u16().filter(|&port| port > 0).ok_or_else(malformed)?;
    let host = authority.host().trim_start_matches('[').trim_end_matches(']').to_ascii_lowercase();
    if host.is_empty() || authority.as_str().contains('@') {
        return Err(malformed());
    }
    let host = host.strip_suffix('.').unwrap_or(&host);
    Ok(Origin { is_tls: true, host: host.into(), port })
}

fn is_host(destination: &Destination, host: &str) -> bool {
    destination.hosts.iter().any(|pattern| pattern.matches(host))
}

fn is_listed(destinations: &[Destination], host: &str) -> bool {
    destinations.iter().any(|it| is_host(it, host))
}

impl Tunnel {
    /// Terminates TLS under the destination's name and answers requests.
    async fn serve(
        self,
        upgrade: OnUpgrade,
        context: boring::ssl::SslContext,
        stream_server: StreamServer<NoHandler>,
        mut peer: Peer,
    ) {
        let Ok(stream) = upgrade.await else { return };
        let stream = match stream_server.tls_handshake(TokioIo::new(stream), &context).await {
            Ok(stream) => stream,
            Err(reason) => {
                let reason = reason.as_deref().unwrap_or("the client closed the connection");
                let (client, host) = (peer.address, &self.origin.host);
                return tracing::debug!(%client, %host, reason, "a TLS handshake in a tunnel failed");
            }
        };
        peer.protocol = protocol_of(&stream);
        stream_server.with_handler(Arc::new(TunnelHandler { tunnel: self })).serve(stream, peer).await;
    }

    async fn pass_on(
        &self,
        worker: &WorkerContext,
        mut message: Box<Message>,
        peer: &Peer,
        record: &mut Record,
    ) -> Result<Answer, Refusal> {
        let head = &mut message.head;
        let key = match &self.key {
            Some(key) => Some(key.clone()),
            None => Key::from_headers(&head.headers)?,
        };
        let key = key.ok_or_else(|| auth::unauthorized("there is no API key in Proxy-Authorization"))?;
        let caller = owner(worker, &self.api_keys, &key).await?;
        record.app = Some(caller.app.as_str().into());
        head.headers.remove(hyper::header::PROXY_AUTHORIZATION);
        target::normalize(head)?;
        // Rules apply to the tunnel's host: a request for another host would bypass them.
        let named = without_port(host(head)).trim_start_matches('[').trim_end_matches(']');
        let named = named.strip_suffix('.').unwrap_or(named);
        if !named.eq_ignore_ascii_case(&self.origin.host) || head.method == Method::CONNECT {
            let detail = "the request is for another host than the tunnel";
            return Err(Refusal::new(StatusCode::MISDIRECTED_REQUEST, "misdirected", detail));
        }
        let paths = RequestPath::readings(head.uri.path(), worker.configuration.limits.path_segments_max);
        let paths = paths.map_err(|error| Refusal::request("malformed", error.to_string()))?;
        let listener = &worker.configuration.outbound[self.context.index];
        let takes = |it: &Destination, case, path: &RequestPath<'_>| {
            is_host(it, &self.origin.host)
                && (it.paths.is_empty() || it.paths.iter().any(|pattern| pattern.matches_in(case, path)))
        };
        let destinations = &listener.destinations;
        let found = choose_in_all_readings(destinations, &paths, listener.other_case, takes, Destination::hides)?;
        // It existed when the tunnel was opened. TLS still ends here, so that the tunnel does not continue uninspected.
        if found.is_none() && !is_listed(&listener.destinations, &self.origin.host) {
            return Err(unlisted());
        }
        let (request, response) = found.map_or((&NOTHING, &NOTHING), |it| (&it.request, &it.response));
        auth::check(&caller, request, response)?;
        drop(paths);
        // Third parties do not learn the client's address.
        let source = Source { how: Forwarded::Keep, peer, is_tls: true };
        let key_id = caller.roles.as_ref().map(|_| caller.id.as_str());
        let plan = ForwardingPlan { worker, origin: &self.origin, app: &caller.app, key_id, request, response, source };
        plan.run(message, record).await
    }
}

impl RawTunnel {
    /// Joins client and destination while the tunnel is permitted and neither side is silent for too long.
    async fn carry(self, upgrade: OnUpgrade, socket: TcpStream, silence_max: Duration) {
        let Ok(ours) = upgrade.await else { return };
        let ended = tokio::select! {
            joined = tunnel::join(TokioIo::new(ours), socket, silence_max) => joined.map(|_| ()),
            () = self.is_refused() => Err(io::ErrorKind::PermissionDenied.into()),
        };
        if let Err(error) = ended {
            tracing::debug!(%error, "a tunnel failed");
        }
    }

    /// Completes when a new tunnel like this would be refused. An unresponsive engine ends no tunnel.
    async fn is_refused(&self) {
        loop {
            let worker = self.context.worker();
            let listener = &worker.configuration.outbound[self.context.index];
            if listener.unlisted == Unlisted::Refuse || is_listed(&listener.destinations, &self.host) {
                return;
            }
            let owner = owner(&worker, &self.api_keys, &self.key).await;
            if owner.is_err_and(|refusal| refusal.status == StatusCode::PROXY_AUTHENTICATION_REQUIRED) {
                return;
            }
            sleep(worker.limits.api_key_timeout.max(LOOK_PERIOD)).await;
        }
    }
}

impl Handler for TunnelHandler {
    async fn handle(self: Arc<Self>, request: Request<RequestBody>, peer: Arc<Peer>) -> Response<ResponseBody> {
        let worker = self.tunnel.context.worker();
        let listener = &worker.configuration.outbound[self.tunnel.context.index];
        let message = Message::new(request);
        let mut record = self.tunnel.context.record(&listener.name, &worker, &peer, &message.head);
        match self.tunnel.pass_on(&worker, message, &peer, &mut record).await {
            Ok(answer) => answer.finish(record),
            Err(refusal) => {
                let is_over = refusal.code == UNLISTED && peer.protocol == Protocol::Http1;
                let mut answer = refuse(&refusal, record);
                if is_over {
                    // A new tunnel follows the configuration as it is now.
                    answer.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
                }
                answer
            }
        }
    }
}
