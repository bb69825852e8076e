//! The inbound relay: forwards requests to an API by the first route that matches.

use std::sync::Arc;

use hyper::http::request::Parts;
use hyper::{Method, Request, Response};
use leafseal_errors::ErrorCode;
use leafseal_http::{ConnectionPeer, Handler, RequestBody, ResponseBody};

use crate::access::Record;
use crate::config::{Inbound, Limits};
use crate::context::{ListenerContext, WorkerContext};
use crate::forward::{ArrivedRequest, ForwardingPlan, refuse};
use crate::hop_headers::Source;
use crate::host::Host;
use crate::policy::path::Steps;
use crate::policy::router::{Asked, Choice, RouteError};
use crate::policy::{Actions, Origin, Overrides, Route};
use crate::refusal::{Direction, Refusal};
use crate::rules::overrides::{self, OverrideChecks};
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
        peer: Arc<ConnectionPeer>,
    ) -> impl Future<Output = Response<ResponseBody>> + Send {
        let mut message = ArrivedRequest::new(request);
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
    peer: &'t ConnectionPeer,
    record: &mut Record,
) -> Result<ForwardingPlan<'t>, Refusal> {
    if head.method == Method::CONNECT {
        return Err(Refusal::new(ErrorCode::NoTunnel, "this is no proxy for CONNECT"));
    }
    let (host, _) = target::normalize(head)?;
    let mut finder = RouteFinder::new(listener, &host, head.uri.path(), &worker.configuration.limits);
    let choice = finder.choice(&head.method)?;
    let route = choice.map(|choice| &listener.routes[choice.place]);
    let checks = check_overrides(&mut finder, head, route)?;
    let source = Source { how: listener.forwarded, peer, is_tls: listener.tls.is_some() };
    let has_rules = listener.has_rules;
    Ok(match route {
        Some(route) => {
            record.route = Some(Arc::clone(&route.name));
            let is_certain = choice.is_some_and(|choice| choice.is_certain);
            let (request, response) = if is_certain { (&route.request, &route.response) } else { (&NOTHING, &NOTHING) };
            ForwardingPlan {
                worker,
                origin: &route.upstream,
                app: &route.app,
                key_id: None,
                request,
                response,
                searched: [&route.request, &route.response],
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
                searched: [&NOTHING; 2],
                source,
                is_outbound: false,
                has_rules,
                checks,
            }
        }
    })
}

fn otherwise(listener: &Inbound) -> Result<&Arc<Origin>, Refusal> {
    let refusal = || Refusal::new(ErrorCode::NoRoute, "no route of the relay takes this request");
    listener.otherwise.as_ref().ok_or_else(refusal)
}

/// Refuses a request with a method in its header that leads past the rules of a route. Returns what else is to be checked.
fn check_overrides(
    finder: &mut RouteFinder<'_, '_>,
    head: &Parts,
    found: Option<&Route>,
) -> Result<OverrideChecks, Refusal> {
    let (listener, mut checks) = (finder.listener, OverrideChecks::default());
    if listener.overrides == Overrides::Pass {
        return Ok(checks);
    }
    checks.removes_paths = listener.hides();
    if listener.methods.is_empty() {
        return Ok(checks);
    }
    let asked = overrides::asked_method(&head.headers)?;
    if let Some(asked) = asked.filter(|asked| !asked.as_str().eq_ignore_ascii_case(head.method.as_str())) {
        let is_refused = match finder.route(&asked) {
            Err(error @ RouteError::Path(_)) => return Err(error.into()),
            Err(RouteError::OtherCase | RouteError::OtherReading) => true,
            Ok(other) => other.is_none() && listener.otherwise.is_none() || hides_otherwise(found, other),
        };
        if is_refused {
            return Err(Refusal::ambiguous_header(Direction::Request, overrides::HEADER_ASKS_FOR_METHOD));
        }
    }
    // Frameworks take a method from a body in POST alone.
    let may_name_method = overrides::is_post(&head.method) || head.uri.query().is_some_and(overrides::may_name_method);
    // A path whose routes take too many steps to find may have one that hides.
    let mut may_hide = |method: &Method| finder.route(method).map_or(true, |other| hides_otherwise(found, other));
    checks.guards_method = may_name_method && listener.methods.iter().any(&mut may_hide);
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

/// Finds the routes of one request for its own method and others. All of them together take at most `limits.routing_steps_max` steps.
struct RouteFinder<'l, 'r> {
    listener: &'l Inbound,
    host: &'r Host,
    path: &'r str,
    segments_max: usize,
    steps: Steps,
}

impl<'l, 'r> RouteFinder<'l, 'r> {
    fn new(listener: &'l Inbound, host: &'r Host, path: &'r str, limits: &Limits) -> Self {
        let Limits { path_segments_max: segments_max, routing_steps_max, .. } = *limits;
        RouteFinder { listener, host, path, segments_max, steps: Steps::new(routing_steps_max) }
    }

    /// The first route that takes the request with this method, if no server reads the path as that of another one.
    fn route(&mut self, method: &Method) -> Result<Option<&'l Route>, RouteError> {
        match self.choice(method)? {
            Some(Choice { is_certain: false, .. }) => Err(RouteError::OtherReading),
            choice => Ok(choice.map(|choice| &self.listener.routes[choice.place])),
        }
    }

    /// The place of that route, and whether its rules are applied.
    fn choice(&mut self, method: &Method) -> Result<Option<Choice>, RouteError> {
        let RouteFinder { listener, host, path, segments_max, ref mut steps } = *self;
        let asked = Asked { host, method, path, segments_max };
        listener.router.choose(&asked, listener.other_case, steps)
    }
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
        let mut finder = RouteFinder::new(&configuration.inbound[0], &host, request.uri().path(), &limits);
        let found = finder.route(request.method());
        found.map(|route| route.map(|route| route.name.to_string())).map_err(|error| Refusal::from(error).code.as_str())
    }

    #[test]
    fn a_path_that_some_servers_read_as_that_of_a_rule_does_not_pass_it_by() {
        let some = |name: &str| Ok(Some(name.to_owned()));
        for (path, expected) in [
            ("/people/search", some("search")),
            ("/people/search/", some("search")),
            ("/people/1;x", some("people")),
            ("/people/search;x", Err("ambiguous_path")),
            ("/people/search%3Bx", Err("ambiguous_path")),
            ("/people//search", some("search")),
            ("/lists/1", some("lists")),
            ("/lists//1", Err("ambiguous_path")),
            ("/lists/1/2;x", some("items")),
            ("/Lists/1/2;x", Err("ambiguous_path")),
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
            (refuse, "PUT", "/Cards/1.json", Err("ambiguous_path")),
            (refuse, "PUT", "/cards/1.JSON", Err("ambiguous_path")),
            (refuse, "PUT", "/%43ards/1.json", Err("ambiguous_path")),
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

    /// Checks the overrides of a `POST` request with these fields; returns the code of its refusal and the steps taken, also those for its
    /// own route alone.
    fn checked(path: &str, methods: &[&str], steps_max: usize) -> (Option<&'static str>, usize, usize) {
        let hides = "request = [{ action = \"redact\", headers = [\"x-pin\"] }]";
        let text = format!(
            "[engine]\naddresses = [\"a:1\"]\nauthorities = \"a\"\ncertificate = \"a\"\nprivate_key = \"a\"\n\
             [[inbound]]\naddress = \"127.0.0.1:0\"\nupstream = \"http://a\"\n\
             [[inbound.route]]\npath = \"/cards/**\"\nmethods = [\"POST\", \"PUT\"]\n\
             [[inbound.route]]\npath = \"/cards/**\"\n{hides}\n"
        );
        let configuration = crate::Configuration::parse(&text).unwrap();
        let mut request = Request::builder().method("POST").uri(path);
        for method in methods {
            request = request.header("x-http-method-override", *method);
        }
        let (head, ()) = request.body(()).unwrap().into_parts();
        let limits = Limits { routing_steps_max: steps_max, ..Limits::default() };
        let host = Host::parse("a").unwrap();
        let mut finder = RouteFinder::new(&configuration.inbound[0], &host, head.uri.path(), &limits);
        let found = finder.route(&head.method).unwrap();
        let own = finder.steps.taken();
        let checks = check_overrides(&mut finder, &head, found);
        assert!(checks.as_ref().is_err() || checks.as_ref().is_ok_and(|checks| checks.guards_method));
        (checks.err().map(|refusal| refusal.code.as_str()), own, finder.steps.taken())
    }

    #[test]
    fn routes_of_all_methods_together_take_the_steps_of_one_request() {
        let steps_max = Limits::default().routing_steps_max;
        let path = format!("/cards/{}", "%C3%89%2F;".repeat(16));
        let many = (0..8000).map(|number| format!("M{number}")).collect::<Vec<_>>();
        for methods in [&many.join(",")[..], "PUT, PUT", ",PUT,,DELETE"] {
            let (code, own, taken) = checked(&path, &[methods], steps_max);
            assert_eq!((code, taken), (Some("ambiguous_header"), own), "no route is searched for one of many methods");
        }
        let lines: Vec<&str> = many.iter().map(String::as_str).collect();
        let (code, own, taken) = checked(&path, &lines, steps_max);
        assert_eq!((code, taken), (Some("ambiguous_header"), own));
        // One other method has a route within the steps, and the search ends where they do.
        let (code, _, taken) = checked(&path, &["PUT"], steps_max);
        assert!(code.is_none() && taken >= 2 * own && taken <= steps_max, "{code:?} {taken}");
        assert_eq!(checked(&path, &["PUT"], 2 * own - 1).0, Some("path_too_long"));
        assert!(checked(&path, &[], own).0.is_none(), "without steps for other methods a form is searched");
    }
}
