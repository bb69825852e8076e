//! The outbound relay: a proxy that SDKs and others call by `CONNECT`, and that looks into what goes to some destinations.
//!
//! Nothing is forwarded that did not come with an API key: on `CONNECT`, which then covers the tunnel, or on each request inside.

mod auth;
mod mint;

use std::sync::{Arc, OnceLock};

use boring::ssl::Ssl;
use fieldseal_client::ApiKeyFacts;
use fieldseal_http::{Door, Handler, Peer, Protocol, RequestBody, ResponseBody, empty};
use http_body_util::BodyExt;
use hyper::http::request::Parts;
use hyper::upgrade::OnUpgrade;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::time::timeout;
use tokio_boring::SslStreamBuilder;

use crate::access::{Record, Recorded, host};
use crate::config::{Actions, Destination, Mismatch, Origin, Unlisted};
use crate::forward::{Answer, Errand, refuse};
use crate::refusal::Refusal;
use crate::route::{RequestPath, without_port};
use crate::target;
use crate::tunnel;
use crate::upstream::UpstreamError;
use crate::worker::{Seat, Tools};

pub(crate) use auth::Remembered;
pub(crate) use mint::Mint;
pub use mint::MintError;

static NOTHING: Actions = Actions { rules: Vec::new(), mismatch: Mismatch::Pass };

/// Nobody answers here: a door without a handler.
pub(crate) struct Nobody;

/// Answers `CONNECT` at one listener on one thread.
pub(crate) struct OutboundHandler {
    seat: Seat,
    remembered: Arc<Remembered>,
    door: OnceLock<Door<Nobody>>,
}

/// The destination of a tunnel.
struct Tunnel {
    seat: Seat,
    remembered: Arc<Remembered>,
    origin: Arc<Origin>,
    /// Whose tunnel it is, where `CONNECT` said it.
    caller: Option<Arc<ApiKeyFacts>>,
}

/// Answers the requests inside a tunnel.
struct TunnelHandler {
    tunnel: Tunnel,
}

impl OutboundHandler {
    pub(crate) fn new(seat: Seat) -> Self {
        OutboundHandler { seat, remembered: Arc::default(), door: OnceLock::new() }
    }

    /// Lets tunnels be served among the connections of the listener.
    pub(crate) fn open(&self, door: &Door<Self>) {
        // Set once, right after the start.
        let _ = self.door.set(door.with_handler(Arc::new(Nobody)));
    }

    async fn connect(
        &self,
        tools: &Arc<Tools>,
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
        let listener = &tools.configuration.outbound[self.seat.index];
        let origin = Arc::new(destination(&request)?);
        let caller = caller(tools, &self.remembered, request.headers()).await?;
        record.app = caller.as_ref().map(|caller| caller.app.as_str().into());
        let is_listed = listener.destinations.iter().any(|it| is_host(it, &origin.host));
        let upgrade = hyper::upgrade::on(&mut request);
        if is_listed {
            let Some(door) = self.door.get().cloned() else {
                return Err(Refusal::unavailable("starting", "the relay is starting", None));
            };
            let context = tools.mints[self.seat.index].context(&origin.host);
            let context = context.map_err(|error| {
                Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, "no-certificate", error.to_string())
            })?;
            let (seat, remembered) = (self.seat.clone(), Arc::clone(&self.remembered));
            let tunnel = Tunnel { seat, remembered, origin, caller };
            tokio::spawn(tunnel.serve(upgrade, context, door, Peer::clone(peer)));
        } else {
            if listener.unlisted == Unlisted::Refuse {
                let detail = "this destination is not among those of the relay";
                return Err(Refusal::new(StatusCode::FORBIDDEN, "unlisted-destination", detail));
            }
            if caller.is_none() {
                return Err(auth::unauthorized(
                    "a tunnel to this destination takes an API key in Proxy-Authorization of CONNECT",
                ));
            }
            let socket = tools.pool.connector().socket(&origin).await;
            let socket = socket.map_err(|error| {
                let error = UpstreamError::Connect(error);
                Refusal::new(error.status(), error.code(), error.to_string())
            })?;
            let silence_max = tools.limits.tunnel_timeout;
            tokio::spawn(async move {
                let Ok(ours) = upgrade.await else { return };
                if let Err(error) = tunnel::join(TokioIo::new(ours), socket, silence_max).await {
                    tracing::debug!(%error, "a tunnel broke");
                }
            });
        }
        Ok(Response::new(empty()))
    }
}

impl Handler for OutboundHandler {
    async fn handle(self: Arc<Self>, request: Request<RequestBody>, peer: Arc<Peer>) -> Response<ResponseBody> {
        let tools = self.seat.tools();
        let listener = &tools.configuration.outbound[self.seat.index];
        let (head, body) = request.into_parts();
        let mut record = self.seat.record(&listener.name, &tools, &peer, &head);
        match self.connect(&tools, Request::from_parts(head, body), &peer, &mut record).await {
            Ok(response) => {
                record.status = response.status().as_u16();
                response.map(|body| Recorded::new(body, record).boxed_unsync())
            }
            Err(refusal) => refuse(&refusal, record),
        }
    }
}

/// Whose key a header shows.
async fn caller(
    tools: &Tools,
    remembered: &Remembered,
    headers: &hyper::HeaderMap,
) -> Result<Option<Arc<ApiKeyFacts>>, Refusal> {
    let limits = &tools.limits;
    remembered.caller(headers, &tools.workshop.client, limits.api_key_timeout, limits.api_keys_max).await
}

/// Where a tunnel is to go.
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

impl Tunnel {
    /// Ends TLS in the name of the destination and answers what comes.
    async fn serve(self, upgrade: OnUpgrade, context: boring::ssl::SslContext, door: Door<Nobody>, mut peer: Peer) {
        let Ok(stream) = upgrade.await else { return };
        let Ok(session) = Ssl::new(&context) else { return };
        let limit = door.settings().handshake_timeout;
        let shaken = timeout(limit, SslStreamBuilder::new(session, TokioIo::new(stream)).accept()).await;
        let stream = match shaken {
            Ok(Ok(stream)) => stream,
            Ok(Err(error)) => {
                tracing::info!(client = %peer.address, host = %self.origin.host, %error, "a TLS handshake in a tunnel failed");
                return;
            }
            Err(_) => return tracing::info!(client = %peer.address, "a TLS handshake in a tunnel took too long"),
        };
        let is_http2 = stream.ssl().selected_alpn_protocol() == Some(b"h2");
        peer.protocol = if is_http2 { Protocol::Http2 } else { Protocol::Http1 };
        door.with_handler(Arc::new(TunnelHandler { tunnel: self })).serve(stream, peer).await;
    }

    async fn pass_on(
        &self,
        tools: &Tools,
        mut head: Parts,
        body: RequestBody,
        record: &mut Record,
    ) -> Result<Answer, Refusal> {
        let caller = match &self.caller {
            Some(caller) => Some(Arc::clone(caller)),
            None => caller(tools, &self.remembered, &head.headers).await?,
        };
        let caller = caller.ok_or_else(|| auth::unauthorized("there is no API key in Proxy-Authorization"))?;
        record.app = Some(caller.app.as_str().into());
        head.headers.remove(hyper::header::PROXY_AUTHORIZATION);
        target::settle(&mut head)?;
        // A rule goes by the tunnel's host: another one in the request would reach what it does not name.
        let named = without_port(host(&head)).trim_start_matches('[').trim_end_matches(']');
        let named = named.strip_suffix('.').unwrap_or(named);
        if !named.eq_ignore_ascii_case(&self.origin.host) || head.method == Method::CONNECT {
            let detail = "the request is for another host than the tunnel";
            return Err(Refusal::new(StatusCode::MISDIRECTED_REQUEST, "misdirected", detail));
        }
        let path = RequestPath::parse(head.uri.path());
        let path = path.map_err(|error| Refusal::request("malformed", error.to_string()))?;
        let listener = &tools.configuration.outbound[self.seat.index];
        let takes = |it: &&Destination| {
            is_host(it, &self.origin.host)
                && (it.paths.is_empty() || it.paths.iter().any(|path_of| path_of.matches(&path)))
        };
        let found = listener.destinations.iter().find(takes);
        let (request, response) = found.map_or((&NOTHING, &NOTHING), |it| (&it.request, &it.response));
        auth::check(&caller, request, response)?;
        drop(path);
        let errand = Errand { tools, origin: &self.origin, app: &caller.app, request, response, source: None };
        errand.run(head, body, record).await
    }
}

impl Handler for TunnelHandler {
    async fn handle(self: Arc<Self>, request: Request<RequestBody>, peer: Arc<Peer>) -> Response<ResponseBody> {
        let tools = self.tunnel.seat.tools();
        let listener = &tools.configuration.outbound[self.tunnel.seat.index];
        let (head, body) = request.into_parts();
        let mut record = self.tunnel.seat.record(&listener.name, &tools, &peer, &head);
        match self.tunnel.pass_on(&tools, head, body, &mut record).await {
            Ok(answer) => answer.finish(record),
            Err(refusal) => refuse(&refusal, record),
        }
    }
}
