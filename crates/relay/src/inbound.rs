//! The inbound relay: forwards requests to an API by the first route that matches.

use std::sync::Arc;

use hyper::http::request::Parts;
use hyper::{Method, Request, Response, StatusCode};
use leafseal_http::{Handler, Peer, RequestBody, ResponseBody};

use crate::access::Record;
use crate::config::{Actions, Inbound, Limits, Origin, Overrides, Route};
use crate::context::{ListenerContext, WorkerContext};
use crate::forward::{ForwardingPlan, Message, refuse};
use crate::hop_headers::Source;
use crate::host::Host;
use crate::refusal::{Direction, Refusal};
use crate::rules::overrides::{self, OverrideChecks};
use crate::rules::path::Steps;
use crate::rules::router::Asked;
use crate::target;

/// Answers the requests of one listener on one thread.
pub(crate) struct InboundHandler {
    pub(crate) context: ListenerContext,
}

static NOTHING: Actions = Actions::NONE;

impl Handler for InboundHandler {
    fn handle(
        self: Arc<Self>,
        request: Request<RequestBody>,
        peer: Arc<Peer>,
    ) -> impl Future<Output = Response<ResponseBody>> + Send {
        let mut message = Message::new(request);
        async move {
            let worker = self.context.worker();
            let listener = &worker.configuration.inbound[self.context.index];
            let mut record = self.context.record(&listener.name, &worker, &peer, &message.head);
            let answer = match plan(&worker, listener, &mut message.head, &peer, &mut record) {
                Ok(plan) => plan.run(message, &mut record).await,
                Err(refusal) => Err(refusal),
            };
            match answer {
                Ok(answer) => answer.finish(record),
                Err(refusal) => refuse(&refusal, record),
            }
        }
    }
}

/// The route and rules of a request.
fn plan<'t>(
    worker: &'t WorkerContext,
    listener: &'t Inbound,
    head: &mut Parts,
    peer: &'t Peer,
    record: &mut Record,
) -> Result<ForwardingPlan<'t>, Refusal> {
    if head.method == Method::CONNECT {
        return Err(Refusal::new(StatusCode::METHOD_NOT_ALLOWED, "no-tunnel", "this is no proxy for CONNECT"));
    }
    let (host, _) = target::normalize(head)?;
    let limits = &worker.configuration.limits;
    let route = find_route(listener, (&head.method, head.uri.path()), &host, limits)?;
    let checks = check_overrides(listener, head, &host, limits, route)?;
    let source = Source { how: listener.forwarded, peer, is_tls: listener.tls.is_some() };
    let has_rules = listener.has_rules;
    Ok(match route {
        Some(route) => {
            record.route = Some(Arc::clone(&route.name));
            let (request, response) = (&route.request, &route.response);
            ForwardingPlan {
                worker,
                origin: &route.upstream,
                app: &route.app,
                key_id: None,
                request,
                response,
                source,
                is_outbound: false,
                has_rules,
                checks,
            }
        }
        None => {
            let origin = otherwise(listener)?;
            ForwardingPlan {
                worker,
                origin,
                app: "",
                key_id: None,
                request: &NOTHING,
                response: &NOTHING,
                source,
                is_outbound: false,
                has_rules,
                checks,
            }
        }
    })
}

fn otherwise(listener: &Inbound) -> Result<&Arc<Origin>, Refusal> {
    let refusal = || Refusal::new(StatusCode::NOT_FOUND, "no-route", "no route of the relay takes this request");
    listener.otherwise.as_ref().ok_or_else(refusal)
}

/// Refuses a request with a method in its header that leads past the rules of a route. Returns what else is to be checked.
fn check_overrides(
    listener: &Inbound,
    head: &Parts,
    host: &Host,
    limits: &Limits,
    found: Option<&Route>,
) -> Result<OverrideChecks, Refusal> {
    let mut checks = OverrideChecks::default();
    if listener.overrides == Overrides::Pass {
        return Ok(checks);
    }
    checks.removes_paths = listener.hides();
    if listener.methods.is_empty() {
        return Ok(checks);
    }
    let other = |method: &Method| find_route(listener, (method, head.uri.path()), host, limits);
    let hides_otherwise = |method: &Method| other(method).map_or(true, |other| hides_otherwise(found, other));
    for method in overrides::methods_in(&head.headers) {
        let is_refused = |method: &Method| {
            let has_no_route = listener.otherwise.is_none() && matches!(other(method), Ok(None));
            !method.as_str().eq_ignore_ascii_case(head.method.as_str()) && (has_no_route || hides_otherwise(method))
        };
        if method.as_ref().is_none_or(is_refused) {
            let detail = "a header field asks for another method, with which the request would have another route: send that method, or \
                          set overrides = \"pass\" if the upstream reads no such field";
            return Err(Refusal::ambiguous_header(Direction::Request, detail));
        }
    }
    // Frameworks take a method from a form in POST alone.
    let may_name_method = head.method == Method::POST || head.uri.query().is_some_and(overrides::may_name_method);
    checks.guards_method = may_name_method && listener.methods.iter().any(hides_otherwise);
    Ok(checks)
}

/// Whether a request that has this route, and for the upstream another one, passes a rule by.
fn hides_otherwise(found: Option<&Route>, other: Option<&Route>) -> bool {
    let is_same = match (found, other) {
        (Some(found), Some(other)) => std::ptr::eq(found, other),
        (found, other) => found.is_none() && other.is_none(),
    };
    !is_same && (other.is_some_and(Route::hides) || found.is_some_and(Route::reveals))
}

/// The first route that takes a request with this method and path.
fn find_route<'l>(
    listener: &'l Inbound,
    (method, path): (&Method, &str),
    host: &Host,
    limits: &Limits,
) -> Result<Option<&'l Route>, Refusal> {
    let Limits { path_segments_max: segments_max, routing_steps_max, .. } = *limits;
    let asked = Asked { host, method, path, segments_max };
    let found = listener.router.choose(&asked, listener.other_case, &mut Steps::new(routing_steps_max))?;
    Ok(found.map(|place| &listener.routes[place]))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Chooses a route for a request: returns its name, `None`, or a refusal.
    fn taken(other_case: &str, method: &str, path: &str) -> Result<Option<String>, &'static str> {
        let hides = "request = [{ action = \"encrypt\", json = [\"$\"] }]";
        let opens = "request = [{ action = \"decrypt\", json = [\"$\"] }]";
        let route = |name: &str, path: &str, rest: &str| {
            format!("[[inbound.route]]\nname = \"{name}\"\npath = \"{path}\"\napp = \"a\"\n{rest}\n")
        };
        let text = format!(
            "[engine]\naddresses = [\"a:1\"]\nauthorities = \"a\"\ncertificate = \"a\"\nprivate_key = \"a\"\n\
             [[inbound]]\naddress = \"127.0.0.1:0\"\nupstream = \"http://a\"\n{other_case}\n{}{}{}{}{}{}{}{}",
            route("first", "/First/**", ""),
            route("hides", "/cards/*.json", &format!("methods = [\"PUT\"]\n{hides}")),
            route("opens", "/open/**", opens),
            route("rest", "/cards/**", ""),
            route("search", "/people/search", ""),
            route("people", "/people/*", hides),
            route("lists", "/lists/*", ""),
            route("items", "/lists/*/*", hides),
        );
        let configuration = crate::Configuration::parse(&text).unwrap();
        let request = Request::builder().method(method).uri(path).header("host", "a").body(()).unwrap();
        let limits = Limits { path_segments_max: 16, ..Limits::default() };
        let host = Host::parse("a").unwrap();
        let found = find_route(&configuration.inbound[0], (request.method(), request.uri().path()), &host, &limits);
        found.map(|route| route.map(|route| route.name.to_string())).map_err(|refusal| refusal.code)
    }

    #[test]
    fn a_path_that_some_servers_read_as_that_of_a_rule_does_not_pass_it_by() {
        let some = |name: &str| Ok(Some(name.to_owned()));
        for (path, expected) in [
            ("/people/search", some("search")),
            ("/people/search/", some("search")),
            ("/people/1;x", some("people")),
            ("/people/search;x", Err("ambiguous-path")),
            ("/people/search%3Bx", Err("ambiguous-path")),
            ("/people//search", some("search")),
            ("/lists/1", some("lists")),
            ("/lists//1", Err("ambiguous-path")),
            ("/lists/1/2;x", some("items")),
            ("/Lists/1/2;x", Err("ambiguous-path")),
        ] {
            assert_eq!(taken("", "GET", path), expected, "{path}");
        }
    }

    #[test]
    fn a_path_in_another_case_does_not_pass_a_rule_by() {
        let some = |name: &str| Ok(Some(name.to_owned()));
        let (refuse, same, other) = ("", "other_case = \"same\"", "other_case = \"other\"");
        for (setting, method, path, expected) in [
            (refuse, "PUT", "/cards/1.json", some("hides")),
            (refuse, "put", "/cards/1.json", some("hides")),
            (refuse, "PUT", "/Cards/1.json", Err("ambiguous-path")),
            (refuse, "PUT", "/cards/1.JSON", Err("ambiguous-path")),
            (refuse, "PUT", "/%43ards/1.json", Err("ambiguous-path")),
            (refuse, "GET", "/Cards/1.json", Ok(None)),
            (refuse, "GET", "/OPEN/1", Ok(None)),
            (refuse, "GET", "/First/1", some("first")),
            (same, "PUT", "/CARDS/1.Json", some("hides")),
            (same, "GET", "/CARDS/1.Json", some("rest")),
            (same, "GET", "/open/1", some("opens")),
            (other, "PUT", "/Cards/1.json", Ok(None)),
            (other, "PUT", "/cards/1.JSON", some("rest")),
        ] {
            assert_eq!(taken(setting, method, path), expected, "{setting} {method} {path}");
        }
    }
}
