//! Requests that ask for another method or path than their own, past the rules of a route.

use hyper::Version;

use crate::names::{FORM, JSON, LINES, PARTS, part, test_relay, test_relay_with};
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
            assert_eq!(outcome == "ambiguous_header", is_refused, "{method} {name}: {value}: {outcome}");
        }
        let fields = [("x-http-method-override", "POST"), ("x-http-method", "HEAD"), ("content-type", JSON)];
        let (outcome, _) = send(&mut client, ("POST", "/cards"), &fields, "{}").await;
        assert_eq!(outcome, "ambiguous_header", "two fields");
    }
}

/// A query of a safe request sets what JSON sets once a header field asks for another method.
#[tokio::test(flavor = "multi_thread")]
async fn a_safe_request_that_asks_for_another_method_sets_values() {
    let (_upstream, test_relay) = test_relay("{ action = \"redact\", json = [\"$.pin\"] }", "");
    let mut client = test_relay.client(Version::HTTP_11).await;
    for (name, code) in [("x-http-method-override", "ambiguous_name"), ("x-other", "/cards?pin=4242 ")] {
        let (outcome, _) = send(&mut client, ("GET", "/cards?pin=4242"), &[(name, "POST")], "").await;
        assert_eq!(outcome, code, "{name}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_form_or_query_or_document_asks_for_no_method_either() {
    let parts = part("\"_method\"");
    let long = format!("{{\"a\":\"{}\",\"_method\":\"put\"}}", "x".repeat((64 << 10) - 12));
    let cases = [
        ("/cards", FORM, "_method=patch&pin=4242", "unsupported_media_type"),
        ("/cards", FORM, "pin=4242&%5Fmethod=patch", "unsupported_media_type"),
        ("/cards", FORM, "_METHOD[]=patch", "unsupported_media_type"),
        ("/cards", FORM, "X-HTTP-Method-Override=PATCH", "unsupported_media_type"),
        ("/cards", FORM, "_HttpMethod=PATCH", "unsupported_media_type"),
        ("/cards", "application/x-www-form-urlencoded; charset=iso-8859-1", "_method=patch", "unsupported_media_type"),
        ("/cards", PARTS, &parts, "unsupported_media_type"),
        ("/cards", JSON, "{\"_method\":\"patch\"}", "unsupported_media_type"),
        ("/cards", JSON, "{\"\\u005fmethod\":\"patch\"}", "unsupported_media_type"),
        ("/cards", JSON, "{\"a\":1,\"_method\":[\"PUT\"]", "unsupported_media_type"),
        ("/cards", JSON, &long, "unsupported_media_type"),
        ("/cards", LINES, "{\"a\":1}\n{\"_method\":\"patch\"}\n", "unsupported_media_type"),
        ("/cards?_HttpMethod=PATCH", JSON, "{}", "ambiguous_name"),
        ("/cards?_method=patch", JSON, "{}", "ambiguous_name"),
        ("/cards?_metho%64=patch", JSON, "{}", "ambiguous_name"),
    ];
    let passing = [
        ("/cards?a=%20&method=1", FORM, "x=1&method=2"),
        ("/cards", JSON, "{\"a\":1}"),
        ("/cards", JSON, "{\"a\":{\"_method\":\"x\\n\"},\"_methods\":1}"),
        ("/cards", LINES, "{\"a\":\"_method\"}\n\n{\"a\":1}\n"),
        ("/cards", JSON, "{a: 1}"),
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
    assert_eq!(outcome, "unsupported_media_type", "Rack reads a body without a type as a form");
    let (outcome, _) = send(&mut client, ("POST", "/cards"), &[], "a=1&method=2").await;
    assert_eq!(outcome, "/cards a=1&method=2");
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

/// Bodies in which no framework finds a method pass as they arrive, also those that are larger than bodies that are read.
#[tokio::test(flavor = "multi_thread")]
async fn other_bodies_pass_beside_a_hiding_route() {
    let (_upstream, test_relay) = test_relay_with("[limits]\nbody_size_max = 4096", RULES, &routes(""));
    let mut client = test_relay.client(Version::HTTP_11).await;
    let large = "x".repeat(4097);
    for (content_type, body) in [
        ("multipart/related; boundary=B; type=\"application/xop+xml\"", "<a/>"),
        ("multipart/mixed; boundary=B", "--B\r\n\r\n_method=put\r\n--B--\r\n"),
        ("application/octet-stream", &large[..]),
        ("no type", &large[..]),
        ("application/x-www-form-urlencoded; charset=windows-1252", "%E9=%E9&a=1;2"),
    ] {
        let (outcome, _) = send(&mut client, ("POST", "/cards"), &[("content-type", content_type)], body).await;
        assert_eq!(outcome, format!("/cards {body}"), "{content_type}");
    }
    for (content_type, body, code) in [
        (FORM, &large[..], "too_large"),
        ("multipart/form-data; boundary=B", "--B\r\nx", "unsupported_media_type"),
        ("multipart/form-data", "a", "unsupported_media_type"),
        ("application/x-www-form-urlencoded, text/plain", "a=1", "unsupported_media_type"),
        ("text/plain; a=application/x-www-form-urlencoded", "a=1", "unsupported_media_type"),
        ("application/x-www-form-urlencoded; charset=ibm037", "a=1", "unsupported_media_type"),
        (JSON, "{\"_method\": x}", "unsupported_media_type"),
    ] {
        let (outcome, answer) = send(&mut client, ("POST", "/cards"), &[("content-type", content_type)], body).await;
        assert_eq!(outcome, code, "{content_type}");
        let detail = String::from_utf8_lossy(&answer.body);
        assert!(detail.contains("overrides = \\\"pass\\\""), "{content_type}: {detail}");
    }
    let fields = [("content-type", FORM), ("content-encoding", "compress")];
    let (outcome, _) = send(&mut client, ("POST", "/cards"), &fields, "a=1").await;
    assert_eq!(outcome, "unsupported_media_type");
    // Frameworks read the field in POST alone.
    let (outcome, _) = send(&mut client, ("HEAD", "/cards"), &[("content-type", FORM)], &large).await;
    assert_ne!(outcome, "too_large");
}

/// Rules that do not read a body leave it to the search for a method.
#[tokio::test(flavor = "multi_thread")]
async fn a_body_that_passes_rules_unread_asks_for_no_method() {
    let reads_json =
        "other_sources = \"pass\"\nrequest_mismatch = \"pass\"\nrequest = [{ action = \"redact\", json = [\"$.a\"] }]";
    let decrypts = "app = \"a\"\nrequest = [{ action = \"decrypt\", json = [\"$.a\"] }]";
    for rules in [reads_json, decrypts] {
        let route = format!("[[inbound.route]]\npath = \"/cards\"\nmethods = [\"POST\"]\n{rules}");
        let (_upstream, test_relay) = test_relay(RULES, &route);
        let mut client = test_relay.client(Version::HTTP_11).await;
        for (body, is_refused) in [("_method=patch", true), ("a=1", false)] {
            let (outcome, _) = send(&mut client, ("POST", "/cards"), &[("content-type", FORM)], body).await;
            assert_eq!(outcome == "unsupported_media_type", is_refused, "{rules} {body}: {outcome}");
        }
        let (outcome, _) =
            send(&mut client, ("POST", "/cards"), &[("content-type", JSON)], "{\"_method\":\"PUT\"}").await;
        assert_eq!(outcome, "unsupported_media_type", "{rules}");
    }
}

/// A method that the relay would refuse is not asked for in the header.
#[tokio::test(flavor = "multi_thread")]
async fn a_method_without_a_route_is_not_asked_for() {
    let listener = "unmatched = \"refuse\"\n[[inbound.route]]\npath = \"/a\"\nmethods = [\"GET\"]";
    let (_upstream, test_relay) = test_relay(RULES, listener);
    let mut client = test_relay.client(Version::HTTP_11).await;
    for (value, code) in [("DELETE", "ambiguous_header"), ("GET", "/a ")] {
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

/// The rules would open envelopes for, or of, another part of the upstream.
#[tokio::test(flavor = "multi_thread")]
async fn a_path_that_may_lead_away_from_a_decrypting_route_passes_without_its_rules() {
    let route =
        "]\n[[inbound.route]]\npath = \"/open/**\"\napp = \"a\"\nrequest = [{ action = \"decrypt\", json = [\"$.a\"] }";
    let (_upstream, test_relay) = test_relay(route, "");
    let mut client = test_relay.client(Version::HTTP_11).await;
    let (fields, body) = ([("content-type", JSON)], "{\"a\":\"ev:Tk9D:x:$\"}");
    for path in ["/open/..%2Fother", "/open/%2e%2e%2fother", "/open/a%2F..%2F..%2Fb", "/open/..%5Cb"] {
        let (outcome, _) = send(&mut client, ("POST", path), &fields, body).await;
        assert_eq!(outcome, format!("{path} {body}"));
    }
    // Nor does the rule open it for what another method leads to.
    let files = route.replacen("]\n", "]\n[[inbound.route]]\npath = \"/files/**\"\nmethods = [\"PUT\"]\n", 1);
    let (_upstream, with_files) = self::test_relay(&files.replace("/open/**", "/**"), "");
    let mut other = with_files.client(Version::HTTP_11).await;
    let asked = [("content-type", JSON), ("x-http-method-override", "PUT")];
    let in_body = "{\"_method\":\"PUT\",\"a\":\"ev:Tk9D:x:$\"}";
    for (fields, body, code) in
        [(&asked[..], body, "ambiguous_header"), (&fields[..], in_body, "unsupported_media_type")]
    {
        let (outcome, _) = send(&mut other, ("POST", "/open/..%2Ffiles%2Fb"), fields, body).await;
        assert_eq!(outcome, code, "{fields:?} {body}");
    }
    for path in ["/open/other", "/open/a%2Fb", "/open/50%25"] {
        let (outcome, answer) = send(&mut client, ("POST", path), &fields, body).await;
        assert_eq!(answer.status, 503, "the engine is asked, and there is none: {path}: {outcome}");
    }
}
