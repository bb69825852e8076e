//! Requests that ask for another method or path than their own, past the rules of a route.

use hyper::Version;

use crate::names::{FORM, JSON, PARTS, part, test_relay};
use crate::sources::send;

/// `POST` has a route without rules, and `PUT` one of its own; all others have one that hides.
fn routes(setting: &str) -> String {
    format!(
        "{setting}\n[[inbound.route]]\npath = \"/cards\"\nmethods = [\"POST\", \"HEAD\"]\n\
         [[inbound.route]]\npath = \"/cards\"\nmethods = [\"PUT\", \"DELETE\"]\n\
         request = [{{ action = \"redact\", headers = [\"x-pin\"] }}]"
    )
}

const RULES: &str = "{ action = \"redact\", json = [\"$.pin\"], form = [\"pin\"] }";

#[tokio::test(flavor = "multi_thread")]
async fn a_method_that_leads_to_a_hiding_route_is_not_asked_for() {
    let (_upstream, test_relay) = test_relay(RULES, &routes(""));
    for version in [Version::HTTP_11, Version::HTTP_2] {
        let mut client = test_relay.client(version).await;
        for (method, name, value, is_refused) in [
            ("POST", "x-http-method-override", "PATCH", true),
            ("POST", "x-http-method-override", "patch", true),
            ("POST", "x_http_method_override", "PUT", true),
            ("POST", "x-method-override", "POST, PUT", true),
            ("POST", "x-http-method", "a b", true),
            ("POST", "x-rest-method", "PATCH", true),
            ("POST", "x-tunneled-method", "PATCH", true),
            // Upstreams take the first or the last.
            ("POST", "x-http-method-override", "POST, HEAD", true),
            ("POST", "x-http-method-override", ", PATCH", true),
            ("POST", "x-http-method-override", "", false),
            ("POST", "x-http-method-override", ",HEAD, ", false),
            ("POST", "x-http-method-override", "POST", false),
            ("POST", "x-http-method-override", "HEAD", false),
            ("PUT", "x-http-method-override", "DELETE", false),
            // The route that applies hides more than the other.
            ("PATCH", "x-http-method-override", "POST", false),
            ("POST", "x-other", "PATCH", false),
        ] {
            let fields = [(name, value), ("content-type", JSON)];
            let (outcome, _) = send(&mut client, (method, "/cards"), &fields, "{}").await;
            assert_eq!(outcome == "ambiguous-header", is_refused, "{method} {name}: {value}: {outcome}");
        }
        let fields = [("x-http-method-override", "POST"), ("x-http-method", "HEAD"), ("content-type", JSON)];
        let (outcome, _) = send(&mut client, ("POST", "/cards"), &fields, "{}").await;
        assert_eq!(outcome, "ambiguous-header", "two fields");
    }
}

/// A query of a safe request sets what JSON sets once a header field asks for another method.
#[tokio::test(flavor = "multi_thread")]
async fn a_safe_request_that_asks_for_another_method_sets_values() {
    let (_upstream, test_relay) = test_relay("{ action = \"redact\", json = [\"$.pin\"] }", "");
    let mut client = test_relay.client(Version::HTTP_11).await;
    for (name, code) in [("x-http-method-override", "ambiguous-name"), ("x-other", "/cards?pin=4242 ")] {
        let (outcome, _) = send(&mut client, ("GET", "/cards?pin=4242"), &[(name, "POST")], "").await;
        assert_eq!(outcome, code, "{name}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_form_or_query_asks_for_no_method_either() {
    let parts = part("\"_method\"");
    let cases = [
        ("/cards", FORM, "_method=patch&pin=4242", "unsupported-body"),
        ("/cards", FORM, "pin=4242&%5Fmethod=patch", "unsupported-body"),
        ("/cards", FORM, "_METHOD[]=patch", "unsupported-body"),
        ("/cards", FORM, "X-HTTP-Method-Override=PATCH", "unsupported-body"),
        ("/cards", FORM, "_HttpMethod=PATCH", "unsupported-body"),
        ("/cards", PARTS, &parts, "unsupported-body"),
        ("/cards?_method=patch", JSON, "{}", "ambiguous-name"),
        ("/cards?_metho%64=patch", JSON, "{}", "ambiguous-name"),
    ];
    let passing = [
        ("/cards?a=%20&method=1", FORM, "x=1&method=2"),
        ("/cards", JSON, "{\"a\":1}"),
        ("/cards", "text/plain", "_method=put"),
    ];
    let (_upstream, refusing) = test_relay(RULES, &routes(""));
    let (_other, permitting) = test_relay(RULES, &routes("overrides = \"pass\""));
    let mut client = refusing.client(Version::HTTP_11).await;
    for (target, content_type, body, code) in cases {
        let (outcome, _) = send(&mut client, ("POST", target), &[("content-type", content_type)], body).await;
        assert_eq!(outcome, code, "{target} {body}");
    }
    let (outcome, _) = send(&mut client, ("POST", "/cards"), &[], "_method=patch").await;
    assert_eq!(outcome, "unsupported-body", "Rack reads a body without a type as a form");
    for (target, content_type, body) in passing {
        let (outcome, _) = send(&mut client, ("POST", target), &[("content-type", content_type)], body).await;
        assert_eq!(outcome, format!("{target} {body}"));
    }
    let mut client = permitting.client(Version::HTTP_11).await;
    for (target, content_type, body, _) in cases {
        let (outcome, _) = send(&mut client, ("POST", target), &[("content-type", content_type)], body).await;
        assert_eq!(outcome, format!("{target} {body}"));
    }
    // With one route for all methods there is nothing to lead past.
    let (_one, single) = test_relay(RULES, "");
    let mut client = single.client(Version::HTTP_11).await;
    let fields = [("x-http-method-override", "PATCH"), ("content-type", FORM)];
    let (outcome, _) = send(&mut client, ("POST", "/cards"), &fields, "_method=patch").await;
    assert_eq!(outcome, "/cards _method=patch");
}

/// A method that the relay would refuse is not asked for in the header.
#[tokio::test(flavor = "multi_thread")]
async fn a_method_without_a_route_is_not_asked_for() {
    let listener = "unmatched = \"refuse\"\n[[inbound.route]]\npath = \"/a\"\nmethods = [\"GET\"]";
    let (_upstream, test_relay) = test_relay(RULES, listener);
    let mut client = test_relay.client(Version::HTTP_11).await;
    for (value, code) in [("DELETE", "ambiguous-header"), ("GET", "/a ")] {
        let (outcome, _) = send(&mut client, ("GET", "/a"), &[("x-http-method-override", value)], "").await;
        assert_eq!(outcome, code);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn fields_with_another_path_are_removed() {
    let fields = [
        ("x-original-url", "/cards"),
        ("x_rewrite_url", "/cards"),
        ("x-forwarded-prefix", "/cards"),
        ("script_name", "/cards"),
        ("x-kept", "1"),
    ];
    for (rules, setting, removed) in [
        (RULES, "forwarded = \"keep\"", true),
        (RULES, "forwarded = \"keep\"\noverrides = \"pass\"", false),
        ("", "forwarded = \"keep\"", false),
    ] {
        let (_upstream, test_relay) = test_relay(rules, setting);
        let mut client = test_relay.client(Version::HTTP_11).await;
        // Also where no route matches.
        let (_, answer) = send(&mut client, ("GET", "/other"), &fields, "").await;
        let names: Vec<&str> = answer.header("x-names").split(',').collect();
        for (name, _) in fields {
            assert_eq!(names.contains(&name), !removed || name == "x-kept", "{setting} {name}: {names:?}");
        }
    }
}
