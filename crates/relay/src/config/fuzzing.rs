//! Properties that hold for any bytes as a configuration: the fuzz target checks them, and an ordinary test replays its corpus.
//!
//! Not part of the crate's interface. Every function panics where a property does not hold.

use std::time::Duration;

use hyper::Method;

use super::{Configuration, Limits};
use crate::host::Host;
use crate::policy::path::{RequestPath, Steps};
use crate::policy::route::{HostPattern, PathPattern};
use crate::policy::router::Asked;
use crate::policy::{Action, Actions, Origin};

/// Treats any bytes as a configuration: it is valid, or refused with all its problems and their lines. Returns which.
pub fn check_configuration(bytes: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(bytes) else { return false };
    let configuration = match Configuration::parse(text) {
        Ok(configuration) => configuration,
        Err(problems) => {
            assert!(!problems.is_empty(), "a refusal says why");
            assert!(problems.is_sorted_by_key(|problem| problem.line));
            let lines = 1 + text.bytes().filter(|&byte| byte == b'\n').count();
            for problem in problems {
                assert!((1..=lines).contains(&problem.line), "{problem}");
                assert!(!problem.message.is_empty() && !problem.message.contains(char::is_control), "{problem:?}");
            }
            return false;
        }
    };
    check_limits(&configuration.limits);
    assert!(configuration.process.threads > 0 && configuration.process.drain_timeout > Duration::ZERO);
    assert!(!configuration.engine.addresses.is_empty() && configuration.engine.calls.connections_max > 0);
    assert!(!configuration.inbound.is_empty() || !configuration.outbound.is_empty(), "something to do");
    for listener in &configuration.inbound {
        listener.otherwise.iter().for_each(|origin| check_origin(origin));
        for route in &listener.routes {
            check_origin(&route.upstream);
            route.hosts.iter().for_each(check_host);
            check_path(&route.path);
            check_actions(&route.request);
            check_actions(&route.response);
            let needs_app = |actions: &Actions| actions.rules.iter().any(|rule| rule.action != Action::Redact);
            assert!(!route.app.is_empty() || !(needs_app(&route.request) || needs_app(&route.response)));
        }
    }
    for destination in configuration.outbound.iter().flat_map(|listener| &listener.destinations) {
        assert!(!destination.hosts.is_empty());
        destination.hosts.iter().for_each(check_host);
        destination.paths.iter().for_each(check_path);
        check_actions(&destination.request);
        check_actions(&destination.response);
    }
    true
}

/// The place of the first listener's route for a GET of `path`; `None` if there is none or the request is refused.
pub fn find_route(configuration: &Configuration, path: &str) -> Option<usize> {
    let (host, limits) = (Host::Name("a".into()), &configuration.limits);
    let asked = Asked { host: &host, method: &Method::GET, path, segments_max: limits.path_segments_max };
    let listener = configuration.inbound.first()?;
    let choice = listener.router.choose(&asked, listener.other_case, &mut Steps::new(limits.routing_steps_max)).ok()?;
    choice.map(|choice| choice.place)
}

fn check_limits(limits: &Limits) {
    assert!(limits.body_size_max > 0 && limits.bodies_size_max >= limits.body_size_max);
    assert!(limits.idle_timeout > Duration::ZERO);
}

/// Written as in a `Host` header, an origin parses as the same origin.
fn check_origin(origin: &Origin) {
    assert!(!origin.host.is_empty() && origin.port > 0);
    let scheme = if origin.is_tls { "https" } else { "http" };
    let url = format!("{scheme}://{}", origin.authority());
    assert_eq!(Origin::parse(&url).as_ref(), Some(origin), "{url}");
}

/// The text of a pattern parses as the same pattern, and the pattern matches its own name.
fn check_host(pattern: &HostPattern) {
    let text = pattern.to_string();
    assert_eq!(HostPattern::parse(&text).as_ref(), Ok(pattern), "{text}");
    let host = Host::parse(&text.replace('*', "a"));
    // A name below one of the maximum length is too long.
    assert!(host.is_err() && text.len() > 253 || host.is_ok_and(|host| pattern.matches(&host)), "{text}");
}

/// No path makes a pattern panic.
fn check_path(pattern: &PathPattern) {
    for path in ["/", "/a", "/a/b/c.json", "/a//b;x/", "/%61/b"] {
        let _ = pattern.matches(&RequestPath::own(path));
    }
}

/// Each rule selects something, and none changes a header that frames or routes the message.
fn check_actions(actions: &Actions) {
    for rule in &actions.rules {
        assert!(!rule.selectors.is_empty());
        assert!(rule.role.as_ref().is_none_or(|role| rule.action != Action::Redact && (1..=20).contains(&role.len())));
        assert!(!rule.selectors.change_framing(), "a rule that changes framing");
    }
}
