//! The inbound relay: requests to an API, by the first route that takes them.

use std::sync::Arc;

use fieldseal_http::{Handler, Peer, RequestBody, ResponseBody};
use hyper::http::request::Parts;
use hyper::{Method, Request, Response, StatusCode};

use crate::access::{Record, host};
use crate::config::{Actions, Inbound, Mismatch, Origin, Route};
use crate::forward::{Answer, Errand, refuse};
use crate::hygiene::Source;
use crate::refusal::Refusal;
use crate::route::{RequestPath, without_port};
use crate::target;
use crate::worker::{Seat, Tools};

/// Answers the requests of one listener on one thread.
pub(crate) struct InboundHandler {
    pub(crate) seat: Seat,
}

static NOTHING: Actions = Actions { rules: Vec::new(), mismatch: Mismatch::Pass };

impl Handler for InboundHandler {
    async fn handle(self: Arc<Self>, request: Request<RequestBody>, peer: Arc<Peer>) -> Response<ResponseBody> {
        let tools = self.seat.tools();
        let listener = &tools.configuration.inbound[self.seat.index];
        let (head, body) = request.into_parts();
        let mut record = self.seat.record(&listener.name, &tools, &peer, &head);
        match pass_on(&tools, listener, head, body, &peer, &mut record).await {
            Ok(answer) => answer.finish(record),
            Err(refusal) => refuse(&refusal, record),
        }
    }
}

async fn pass_on(
    tools: &Tools,
    listener: &Inbound,
    mut head: Parts,
    body: RequestBody,
    peer: &Peer,
    record: &mut Record,
) -> Result<Answer, Refusal> {
    if head.method == Method::CONNECT {
        return Err(Refusal::new(StatusCode::METHOD_NOT_ALLOWED, "no-tunnel", "this is no proxy for CONNECT"));
    }
    target::settle(&mut head)?;
    let route = if listener.routes.is_empty() { None } else { find_route(listener, &head)? };
    let source = Source { how: listener.forwarded, peer, is_tls: listener.tls.is_some() };
    let errand = match route {
        Some(route) => {
            record.route = Some(Arc::clone(&route.name));
            let (request, response) = (&route.request, &route.response);
            Errand { tools, origin: &route.upstream, app: &route.app, request, response, source }
        }
        None => {
            let origin = otherwise(listener)?;
            Errand { tools, origin, app: "", request: &NOTHING, response: &NOTHING, source }
        }
    };
    errand.run(head, body, record).await
}

fn otherwise(listener: &Inbound) -> Result<&Arc<Origin>, Refusal> {
    let refusal = || Refusal::new(StatusCode::NOT_FOUND, "no-route", "no route of the relay takes this request");
    listener.otherwise.as_ref().ok_or_else(refusal)
}

/// The first route that takes the request.
fn find_route<'l>(listener: &'l Inbound, head: &Parts) -> Result<Option<&'l Route>, Refusal> {
    let path = RequestPath::parse(head.uri.path()).map_err(|error| Refusal::request("malformed", error.to_string()))?;
    let host = without_port(host(head));
    let takes = |route: &&Route| {
        (route.methods.is_empty() || route.methods.contains(&head.method))
            && (route.hosts.is_empty() || route.hosts.iter().any(|pattern| pattern.matches(host)))
            && route.path.matches(&path)
    };
    Ok(listener.routes.iter().find(takes))
}
