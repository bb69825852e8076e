//! The outbound relay: a proxy that SDKs and other clients call with `CONNECT`, and that inspects requests to some destinations.
//!
//! It forwards nothing without an API key: on `CONNECT`, for the whole tunnel, or on each request inside it.

mod auth;
mod dial;

use std::fmt;
use std::io;
use std::net::IpAddr;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use http_body_util::BodyExt;
use hyper::header::{CONNECTION, HeaderValue};
use hyper::upgrade::OnUpgrade;
use hyper::{Method, Request, Response, StatusCode, Version};
use hyper_util::rt::TokioIo;
use leafseal_client::ApiKeyFacts;
use leafseal_errors::ErrorCode;
use leafseal_http::{
    ConnectionPeer, Handler, Hold, Protocol, RequestBody, ResponseBody, StreamServer, empty, protocol_of,
};
use leafseal_net::tls::negotiated_group;
use tokio::net::TcpStream;
use tokio::time::sleep;

use crate::access::{Record, Recorded};
use crate::config::{Forwarded, KeylessConnect, Outbound, Unlisted};
use crate::context::{ListenerContext, WorkerContext};
use crate::decisions::{Claim, operations_of};
use crate::forward::{ArrivedRequest, ForwardingPlan, UnrecordedAnswer, of_upstream, refuse};
use crate::hop_headers::{self, Source};
use crate::host::Host;
use crate::policy::path::Steps;
use crate::policy::router::Asked;
use crate::policy::{Actions, Origin};
use crate::refusal::Refusal;
use crate::rules::overrides::OverrideChecks;
use crate::target;
use crate::tunnel;
use crate::upstream::Socket;

pub(crate) use auth::{ApiKeyCache, Key};

use dial::Dialer;

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
    host: Host,
    origin: Arc<Origin>,
    /// The key of `CONNECT`, verified again for each request.
    key: Option<Key>,
}

/// A tunnel to an unlisted destination, which is not inspected.
struct RawTunnel {
    context: ListenerContext,
    api_keys: Arc<ApiKeyCache>,
    host: Host,
    key: Key,
    claim: Claim,
    /// The address that `CONNECT` came from.
    client: IpAddr,
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
        peer: &Arc<ConnectionPeer>,
        record: &mut Record,
    ) -> Result<Response<ResponseBody>, Refusal> {
        if request.method() != Method::CONNECT {
            return Err(Refusal::new(ErrorCode::ConnectFirst, "this is a proxy: begin with CONNECT"));
        }
        let listener = &worker.configuration.outbound[self.context.index];
        let (host, port) = destination(&request)?;
        let origin = Arc::new(Origin { is_tls: true, host: host.without_brackets(), port });
        let key = Key::from_headers(request.headers())?;
        if let Some(key) = &key {
            record.belongs_to(&*owner(worker, &self.api_keys, key, peer.address.ip()).await?);
        }
        let is_listed = listener.router.has_host(&host);
        if key.is_none() && (!is_listed || challenges(listener, &request)) {
            return Err(if is_listed || listener.unlisted == Unlisted::Tunnel { no_key() } else { unlisted() });
        }
        let upgrade = hyper::upgrade::on(&mut request);
        let hold = request.extensions_mut().remove::<Hold>();
        let (context, api_keys) = (self.context.clone(), Arc::clone(&self.api_keys));
        if is_listed {
            let Some(stream_server) = self.stream_server.get().cloned() else {
                return Err(Refusal::unavailable(ErrorCode::Starting, "the relay is starting", None));
            };
            let tls = worker.leaf_issuers[self.context.index].context(&host, key.is_some());
            let tls = tls.map_err(|error| Refusal::new(ErrorCode::NoCertificate, error.to_string()))?;
            let tunnel = Tunnel { context, api_keys, host, origin, key };
            let serving = tunnel.serve(upgrade, tls, stream_server, ConnectionPeer::clone(peer));
            tokio::spawn(async move {
                serving.await;
                drop(hold);
            });
        } else {
            if listener.unlisted == Unlisted::Refuse {
                return Err(unlisted());
            }
            let key = key.ok_or_else(no_key)?;
            let time_max = worker.configuration.upstream.connect_timeout;
            let counted = worker.pool.socket().map_err(of_upstream)?;
            let socket = self.dialer.dial(&origin, time_max, listener.unlisted_internal).await?;
            // Requests in a tunnel to a listed destination are decided each, those in this one are not seen.
            record.granted();
            let (claim, client) = (record.claim.clone(), peer.address.ip());
            let tunnel = RawTunnel { context, api_keys, host, key, claim, client, _socket: counted, _hold: hold };
            tokio::spawn(tunnel.carry(upgrade, socket, worker.limits.tunnel_timeout));
        }
        Ok(Response::new(empty()))
    }
}

impl Handler for OutboundHandler {
    async fn handle(
        self: Arc<Self>,
        request: Request<RequestBody>,
        peer: Arc<ConnectionPeer>,
    ) -> Response<ResponseBody> {
        let worker = self.context.worker();
        let listener = &worker.configuration.outbound[self.context.index];
        let (head, body) = request.into_parts();
        let mut record = self.context.record(&listener.name, &worker, &peer, &head);
        match self.connect(&worker, Request::from_parts(head, body), &peer, &mut record).await {
            Ok(response) => {
                record.status = response.status().as_u16();
                response.map(|body| Recorded::new(body, record).boxed_unsync())
            }
            Err(refusal) => refuse_with_challenge(&refusal, record),
        }
    }
}

/// Returns the response to a request that is not forwarded.
fn refuse_with_challenge(refusal: &Refusal, record: Record) -> Response<ResponseBody> {
    let mut response = refuse(refusal, record);
    auth::challenge(&mut response);
    response
}

/// Looks up the current owner of the key.
async fn owner(
    worker: &WorkerContext,
    api_keys: &ApiKeyCache,
    key: &Key,
    client: IpAddr,
) -> Result<Arc<ApiKeyFacts>, Refusal> {
    api_keys.owner(key, client, &worker.transforms.client, &worker.limits).await
}

fn no_key() -> Refusal {
    auth::unauthorized("a tunnel to this destination takes an API key in Proxy-Authorization of CONNECT")
}

fn unlisted() -> Refusal {
    let detail = "this destination is not among those of the relay";
    Refusal::new(ErrorCode::UnlistedDestination, detail)
}

/// The destination of a tunnel.
fn destination(request: &Request<RequestBody>) -> Result<(Host, u16), Refusal> {
    let malformed =
        |what: &dyn fmt::Display| Refusal::new(ErrorCode::InvalidRequest, format!("CONNECT takes HOST:PORT: {what}"));
    let authority = request.uri().authority().ok_or_else(|| malformed(&"there is none"))?;
    let (host, port) = Host::parse_authority(authority.as_str()).map_err(|error| malformed(&error))?;
    Ok((host, port.ok_or_else(|| malformed(&"there is no port"))?))
}

/// Whether `CONNECT` without a key is answered with 407. Clients that cannot answer that, or announce that they will not, authenticate each
/// request inside.
fn challenges(listener: &Outbound, request: &Request<RequestBody>) -> bool {
    match listener.keyless_connect {
        KeylessConnect::Challenge => true,
        KeylessConnect::Tunnel => false,
        KeylessConnect::Auto => request.version() > Version::HTTP_10 && !hop_headers::closes(request.headers()),
    }
}

impl Tunnel {
    /// Terminates TLS under the destination's name and answers requests.
    async fn serve(
        self,
        upgrade: OnUpgrade,
        context: boring::ssl::SslContext,
        stream_server: StreamServer<NoHandler>,
        mut peer: ConnectionPeer,
    ) {
        let Ok(stream) = upgrade.await else { return };
        let stream = match stream_server.tls_handshake(TokioIo::new(stream), &context).await {
            Ok(stream) => stream,
            Err(reason) => {
                let reason = reason.as_deref().unwrap_or("the client closed the connection");
                let (client, host) = (peer.address, &self.host);
                return tracing::debug!(%client, %host, reason, "a TLS handshake in a tunnel failed");
            }
        };
        peer.protocol = protocol_of(&stream);
        peer.tls_group = Some(negotiated_group(stream.ssl()));
        stream_server.with_handler(Arc::new(TunnelHandler { tunnel: self })).serve(stream, peer).await;
    }

    async fn pass_on(
        &self,
        worker: &WorkerContext,
        mut message: Box<ArrivedRequest>,
        peer: &ConnectionPeer,
        record: &mut Record,
    ) -> Result<UnrecordedAnswer, Refusal> {
        let head = &mut message.head;
        let key = match &self.key {
            Some(key) => Some(key.clone()),
            None => Key::from_headers(&head.headers)?,
        };
        let key = key.ok_or_else(|| auth::unauthorized("there is no API key in Proxy-Authorization"))?;
        let caller = owner(worker, &self.api_keys, &key, peer.address.ip()).await?;
        record.belongs_to(&caller);
        head.headers.remove(hyper::header::PROXY_AUTHORIZATION);
        let (host, port) = target::normalize(head)?;
        // Rules apply to the tunnel's host: a request for another host would bypass them, and one for another port may be for another
        // service at the destination.
        let is_same = host == self.host && port.is_none_or(|port| port == self.origin.port);
        if !is_same || head.method == Method::CONNECT {
            let detail = "the request is for another host or port than the tunnel";
            return Err(Refusal::new(ErrorCode::Misdirected, detail));
        }
        let configuration = &worker.configuration;
        let listener = &configuration.outbound[self.context.index];
        let (path, segments_max) = (head.uri.path(), configuration.limits.path_segments_max);
        let asked = Asked { host: &self.host, method: &head.method, path, segments_max };
        let mut steps = Steps::new(configuration.limits.routing_steps_max);
        let found = listener.router.choose(&asked, listener.other_case, &mut steps)?;
        // It existed when the tunnel was opened. TLS still ends here, so that the tunnel does not continue uninspected.
        if found.is_none() && !listener.router.has_host(&self.host) {
            return Err(unlisted());
        }
        let found = found.filter(|choice| choice.is_certain).map(|choice| &listener.destinations[choice.place]);
        let (request, response) = found.map_or((&NOTHING, &NOTHING), |it| (&it.request, &it.response));
        record.claim.operations = operations_of(request, response);
        auth::check(&caller, &record.claim.operations, request, response)?;
        record.granted();
        // Third parties do not learn the client's address.
        let source = Source { how: Forwarded::Keep, peer, is_tls: true };
        let key_id = caller.roles.as_ref().map(|_| caller.key_id.as_str());
        let plan = ForwardingPlan {
            worker,
            origin: &self.origin,
            app: &caller.app,
            key_id,
            request,
            response,
            searched: [request, response],
            source,
            is_outbound: true,
            has_rules: listener.has_rules,
            // Destinations have no methods.
            checks: OverrideChecks { removes_paths: listener.hides, guards_method: false },
        };
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
            if listener.unlisted == Unlisted::Refuse {
                return self.claim.refused(&self.context.observers, self.client, &unlisted());
            }
            if listener.router.has_host(&self.host) {
                return;
            }
            let owner = owner(&worker, &self.api_keys, &self.key, self.client).await;
            if let Err(refusal) = owner
                && refusal.status == StatusCode::PROXY_AUTHENTICATION_REQUIRED
            {
                return self.claim.refused(&self.context.observers, self.client, &refusal);
            }
            sleep(worker.limits.api_key_timeout.max(LOOK_PERIOD)).await;
        }
    }
}

impl Handler for TunnelHandler {
    async fn handle(
        self: Arc<Self>,
        request: Request<RequestBody>,
        peer: Arc<ConnectionPeer>,
    ) -> Response<ResponseBody> {
        let worker = self.tunnel.context.worker();
        let listener = &worker.configuration.outbound[self.tunnel.context.index];
        let message = ArrivedRequest::new(request);
        let mut record = self.tunnel.context.record(&listener.name, &worker, &peer, &message.head);
        match self.tunnel.pass_on(&worker, message, &peer, &mut record).await {
            Ok(answer) => answer.finish(record),
            Err(refusal) => {
                let is_over = refusal.code == ErrorCode::UnlistedDestination && peer.protocol == Protocol::Http1;
                let mut answer = refuse_with_challenge(&refusal, record);
                if is_over {
                    // A new tunnel follows the configuration as it is now.
                    answer.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
                }
                answer
            }
        }
    }
}
