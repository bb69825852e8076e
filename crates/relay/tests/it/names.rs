//! Requests that name a hidden value in a way that some upstream treats as the rule's name: its value is redacted, or the request refused.

use std::sync::Arc;

use crate::common::{Answer, Client, Identity, Pieces, TestRelay};
use http_body_util::BodyExt;
use hyper::body::{Bytes, Frame};
use hyper::header::HeaderValue;
use hyper::{Request, Response, Version};
use leafseal_http::{
    ConnectionPeer, Handler, HttpSettings, Listener, ListenerEvent, ListenerObserver, ListenerOptions, RequestBody,
    ResponseBody, bytes,
};

pub(crate) const FORM: &str = "application/x-www-form-urlencoded";
pub(crate) const JSON: &str = "application/json";
pub(crate) const LINES: &str = "application/x-ndjson";
pub(crate) const PARTS: &str = "multipart/form-data; boundary=B";

/// The value that an upstream would read.
const SECRET: &str = "4242";

/// Responds with the request's target and body, and the names of its header fields.
pub(crate) struct Echo;

impl Handler for Echo {
    async fn handle(self: Arc<Self>, request: Request<RequestBody>, _: Arc<ConnectionPeer>) -> Response<ResponseBody> {
        let (head, body) = request.into_parts();
        let body = body.collect().await.map(|body| body.to_bytes()).unwrap_or_default();
        let mut response = Response::new(bytes(body));
        if let Some(content_type) = head.headers.get("content-type") {
            response.headers_mut().insert("content-type", content_type.clone());
        }
        let names: Vec<&str> = head.headers.keys().map(|name| name.as_str()).collect();
        response.headers_mut().insert("x-names", HeaderValue::from_str(&names.join(",")).unwrap());
        response.headers_mut().insert("x-path", HeaderValue::from_str(&head.uri.to_string()).unwrap());
        response
    }
}

struct Silent;

impl ListenerObserver for Silent {
    fn observe(&self, _: &ListenerEvent<'_>) {}
}

/// A plain HTTP upstream, and a relay in front of it with a route for `/cards`.
pub(crate) fn test_relay(rules: &str, listener: &str) -> (Listener<Echo>, TestRelay) {
    test_relay_with("", rules, listener)
}

/// The same with more sections of the configuration.
pub(crate) fn test_relay_with(sections: &str, rules: &str, listener: &str) -> (Listener<Echo>, TestRelay) {
    let settings = HttpSettings::default();
    let address = ([127, 0, 0, 1], 0).into();
    let options = ListenerOptions { address, acceptor: None, settings, observer: Arc::new(Silent) };
    let upstream = Listener::start(options, Arc::new(Echo)).unwrap();
    let routes = format!("{listener}\n[[inbound.route]]\npath = \"/cards\"\nrequest = [{rules}]\n");
    let origin = format!("http://{}", upstream.local_addr());
    (upstream, TestRelay::new(&origin, &Identity::new(), sections, &routes))
}

pub(crate) async fn post(
    client: &mut Client,
    target: &str,
    content_type: Option<&str>,
    body: impl Into<Bytes>,
) -> Answer {
    let body: Bytes = body.into();
    let pieces = if body.is_empty() { vec![] } else { vec![Frame::data(body)] };
    let mut request = client.request("POST", target, Pieces::of(pieces));
    request.headers_mut().remove("trailer");
    if let Some(content_type) = content_type {
        request.headers_mut().insert("content-type", HeaderValue::from_str(content_type).unwrap());
    }
    Answer::whole(client.begin(request).await).await
}

/// The code of a refusal, or the target and body that the upstream received.
pub(crate) fn outcome(answer: &Answer) -> String {
    match answer.status.as_u16() {
        200 => format!("{} {}", answer.header("x-path"), String::from_utf8_lossy(&answer.body)),
        _ => {
            let problem: serde_json::Value = serde_json::from_slice(&answer.body).expect("a problem");
            problem["code"].as_str().expect("a code").to_owned()
        }
    }
}

pub(crate) fn part(name: &str) -> String {
    format!("--B\r\nContent-Disposition: form-data; name={name}\r\n\r\n{SECRET}\r\n--B--\r\n")
}

#[tokio::test(flavor = "multi_thread")]
async fn no_body_passes_in_which_an_upstream_finds_hidden_values() {
    let rules = "{ action = \"redact\", json = [\"$.card.number\"], form = [\"card_number\"] }";
    let (_upstream, test_relay) = test_relay(rules, "");
    let utf16 = |text: &str| -> Vec<u8> { text.encode_utf16().flat_map(u16::to_le_bytes).collect() };
    let json = "{\"card\":{\"number\":\"4242\"}}";
    let refused: Vec<(Option<&str>, Vec<u8>, &str)> = vec![
        (Some(FORM), b"card.number=4242".to_vec(), "ambiguous_name"),
        (Some(FORM), b"card+number=4242".to_vec(), "ambiguous_name"),
        (Some(FORM), b"card[number=4242".to_vec(), "ambiguous_name"),
        (Some(FORM), b"%5Bcard_number%5D=4242".to_vec(), "ambiguous_name"),
        (Some(FORM), b"CARD_NUMBER=4242".to_vec(), "ambiguous_name"),
        (Some(PARTS), part("\"card.number\"").into_bytes(), "ambiguous_name"),
        (Some(PARTS), part("\"card\\.number\"").into_bytes(), "ambiguous_name"),
        (Some(PARTS), part("'card_number'").into_bytes(), "invalid_document"),
        (Some(FORM), json.into(), "unsupported_media_type"),
        (Some(FORM), format!(" \n{json}").into(), "unsupported_media_type"),
        (Some(FORM), format!("\u{feff}{json}").into(), "unsupported_media_type"),
        (Some(FORM), utf16(json), "unsupported_media_type"),
        (Some(FORM), part("\"card_number\"").into_bytes(), "unsupported_media_type"),
        (Some(JSON), b"{\"x\":\"&card_number=4242&\"}".to_vec(), "unsupported_media_type"),
        (Some(JSON), b"{\"x\":\";card.number=4242\"}".to_vec(), "unsupported_media_type"),
        (Some(JSON), b"card_number=4242".to_vec(), "invalid_document"),
        (Some(JSON), utf16(json), "invalid_document"),
        (Some(JSON), format!("\u{feff}\u{feff}{json}").into(), "invalid_document"),
        (Some("text/plain"), json.into(), "unsupported_media_type"),
        (None, json.into(), "unsupported_media_type"),
        (Some("application/x-json"), json.into(), "unsupported_media_type"),
        (Some("application/vnd.cards+json"), json.into(), "unsupported_media_type"),
        (Some(PARTS), part("\"x\"").replace(SECRET, "&card_number=4242").into_bytes(), "unsupported_media_type"),
    ];
    for version in [Version::HTTP_11, Version::HTTP_2] {
        let mut client = test_relay.client(version).await;
        for (content_type, body, code) in &refused {
            let answer = post(&mut client, "/cards", *content_type, body.clone()).await;
            assert_eq!(outcome(&answer), *code, "{content_type:?} {}", String::from_utf8_lossy(body));
            assert!(!String::from_utf8_lossy(&answer.body).contains(SECRET), "{answer:?}");
        }
        for (content_type, body, expected) in [
            (FORM, "card_number=4242&x=1".to_owned(), "/cards card_number=%5Bredacted%5D&x=1".to_owned()),
            (FORM, "number=1&card=2".to_owned(), "/cards number=1&card=2".to_owned()),
            (JSON, json.to_owned(), "/cards {\"card\":{\"number\":\"[redacted]\"}}".to_owned()),
            (
                "application/merge-patch+json",
                json.to_owned(),
                "/cards {\"card\":{\"number\":\"[redacted]\"}}".to_owned(),
            ),
            (JSON, format!("\u{feff}{json}"), "/cards \u{feff}{\"card\":{\"number\":\"[redacted]\"}}".to_owned()),
            // Another parser does not find a value that is hidden in the document.
            (
                JSON,
                "{\"card\":{\"number\":\"&card_number=4242\"}}".to_owned(),
                "/cards {\"card\":{\"number\":\"[redacted]\"}}".to_owned(),
            ),
            (PARTS, part("card_number"), format!("/cards {}", part("\"card_number\"").replace(SECRET, "[redacted]"))),
        ] {
            let answer = post(&mut client, "/cards", Some(content_type), body.clone()).await;
            assert!(outcome(&answer).ends_with(&expected), "{content_type} {body}: {answer:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn parameters_of_the_query_are_hidden_by_name() {
    let rules = "{ action = \"redact\", query = [\"card_number\", \"pin\"], form = [\"pin\"] }, \
                 { action = \"redact\", form = [\"cvc\"] }";
    let (_upstream, test_relay) = test_relay(rules, "");
    for version in [Version::HTTP_11, Version::HTTP_2] {
        let mut client = test_relay.client(version).await;
        for (target, expected) in [
            ("/cards?card_number=4242&x=%20+a", "/cards?card_number=%5Bredacted%5D&x=%20+a "),
            ("/cards?x&card%5Fnumber=42%34%32&pin=4242", "/cards?x&card_number=%5Bredacted%5D&pin=%5Bredacted%5D "),
            ("/cards?", "/cards"),
            ("/cards?x=1?card_numbers=2", "/cards?x=1?card_numbers=2 "),
            ("/cards?card.number=4242", "ambiguous_name"),
            ("/cards?[card_number]=4242", "ambiguous_name"),
            ("/cards?card%20number=4242", "ambiguous_name"),
            ("/cards?Card_Number=4242", "ambiguous_name"),
            ("/cards??card_number=4242", "ambiguous_name"),
            ("/cards?pin[]=4242", "ambiguous_name"),
            ("/cards?x=1;pin=4242", "invalid_document"),
            ("/cards?cvc=4242", "ambiguous_name"),
            ("/cards?CVC=4242", "ambiguous_name"),
        ] {
            let answer = post(&mut client, target, None, "").await;
            let outcome = outcome(&answer);
            assert!(outcome.contains(expected), "{target}: {outcome}");
            assert!(!outcome.contains(SECRET), "{target}: {outcome}");
        }
    }
    let line = test_relay.log.about("/cards").await;
    assert!(!line.to_string().contains("card_number") && !line.to_string().contains(SECRET), "{line}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_case_of_names_is_ignored_or_counts_as_configured() {
    let rules = "{ action = \"redact\", form = [\"pin\"] }";
    for (setting, expected) in [("same", "Pin=%5Bredacted%5D"), ("other", "Pin=1"), ("refuse", "ambiguous_name")] {
        let (_upstream, test_relay) = test_relay(rules, &format!("other_case_names = \"{setting}\""));
        let mut client = test_relay.client(Version::HTTP_11).await;
        let answer = post(&mut client, "/cards", Some(FORM), "Pin=1").await;
        assert!(outcome(&answer).ends_with(expected), "{setting}: {answer:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn members_in_another_case_do_not_pass_a_rule_by() {
    let rules = "{ action = \"redact\", json = [\"$.card.number\", \"$..key\"] }";
    let refused = [
        r#"{"card":{"number":"x","Number":"4242"}}"#,
        r#"{"Card":{"number":"4242"}}"#,
        r#"{"a":[{"b":{"KEY":"4242"}}]}"#,
        r#"{"\u212aey":"4242"}"#,
    ];
    for (setting, is_refused) in [("refuse", true), ("same", false)] {
        let (_upstream, test_relay) = test_relay(rules, &format!("other_case_names = \"{setting}\""));
        let mut client = test_relay.client(Version::HTTP_11).await;
        for body in refused {
            let answer = post(&mut client, "/cards", Some(JSON), body).await;
            let outcome = outcome(&answer);
            // Where case is ignored, the first has one name twice.
            let is_refused = is_refused || body == refused[0];
            assert_eq!(outcome == "ambiguous_name", is_refused, "{setting} {body}: {outcome}");
            assert!(!String::from_utf8_lossy(&answer.body).contains(SECRET), "{setting} {body}: {outcome}");
        }
    }
    let (_upstream, test_relay) = test_relay(rules, "other_case_names = \"other\"");
    let mut client = test_relay.client(Version::HTTP_11).await;
    let answer = post(&mut client, "/cards", Some(JSON), refused[0]).await;
    assert!(outcome(&answer).ends_with(r#"{"card":{"number":"[redacted]","Number":"4242"}}"#), "{answer:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_with_a_member_in_another_case_is_not_shown() {
    let rules = "]\nresponse = [{ action = \"redact\", json = [\"$.pin\"] }";
    let (_upstream, test_relay) = test_relay(rules, "");
    let mut client = test_relay.client(Version::HTTP_11).await;
    for (body, code) in [(r#"{"PIN":"4242"}"#, "ambiguous_name"), (r#"{"pin":"4242"}"#, "[redacted]")] {
        let answer = post(&mut client, "/cards", Some(JSON), body).await;
        assert!(outcome(&answer).contains(code) && !outcome(&answer).contains(SECRET), "{body}: {answer:?}");
    }
}

/// Frameworks search the header for words: `formidable` for `json`, and Laravel for `/json`.
#[tokio::test(flavor = "multi_thread")]
async fn the_type_of_a_body_is_written_as_it_was_read() {
    let forms = "{ action = \"redact\", form = [\"card_number\"] }";
    let both = "{ action = \"redact\", json = [\"$.pin\"], form = [\"card_number\"] }";
    let (form, parts) = ("card_number=4242", part("\"card_number\""));
    for (rules, content_type, body, expected) in [
        (forms, "application/x-www-form-urlencoded; a=\"json\"", form, Some(FORM)),
        (forms, "application/x-www-form-urlencoded; json=1", form, Some(FORM)),
        (forms, "Application/X-WWW-Form-Urlencoded ;a=\"/json\"", form, Some(FORM)),
        (forms, "multipart/form-data; a=json; boundary=\"B\"", &*parts, Some("multipart/form-data; boundary=B")),
        (both, "application/JSON; a=urlencoded; charset=utf-8", "{\"pin\":\"4242\"}", Some(JSON)),
        (both, "text/json;x=\"multipart\"", "{\"pin\":\"4242\"}", Some("text/json")),
        (forms, "application/x-www-form-urlencoded, application/json", form, None),
        (forms, "application/x-www-form-urlencoded+json", form, None),
    ] {
        let (_upstream, test_relay) = test_relay(rules, "");
        let mut client = test_relay.client(Version::HTTP_11).await;
        let answer = post(&mut client, "/cards", Some(content_type), body.to_owned()).await;
        assert!(!String::from_utf8_lossy(&answer.body).contains(SECRET), "{content_type}: {answer:?}");
        match expected {
            Some(expected) => assert_eq!(answer.header("content-type"), expected, "{content_type}: {answer:?}"),
            None => assert_eq!(outcome(&answer), "unsupported_media_type", "{content_type}"),
        }
    }
}

/// Even where other bodies pass unread, none passes whose type some software takes for one in which the rules hide something.
#[tokio::test(flavor = "multi_thread")]
async fn a_misleading_type_does_not_pass_unread() {
    let rules = "{ action = \"redact\", form = [\"card_number\"] }]\nrequest_mismatch = \"pass\"\nresponse = [";
    let query = "{ action = \"redact\", query = [\"card_number\"] }";
    for rules in [rules, query] {
        let (_upstream, test_relay) = test_relay(rules, "");
        let mut client = test_relay.client(Version::HTTP_11).await;
        for (content_type, code) in [
            ("text/plain; a=\"urlencoded\"", "unsupported_media_type"),
            ("application/json; x=multipart", "invalid_document"), // It is read, and has the type that was read.
            ("text/urlencoded", "unsupported_media_type"),
        ] {
            let answer = post(&mut client, "/cards", Some(content_type), "card_number=4242").await;
            assert_eq!(outcome(&answer), code, "{rules} {content_type}");
        }
        let answer = post(&mut client, "/cards", Some("text/plain; charset=utf-8"), "x").await;
        assert_eq!(
            (outcome(&answer), answer.header("content-type")),
            ("/cards x".to_owned(), "text/plain; charset=utf-8")
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn only_the_listed_types_are_taken() {
    let rules = "{ action = \"redact\", json = [\"$.pin\"] }]\ntypes = [\"application/vnd.cards+json\", \"application/x-json\"]\n\
                 response = [";
    let (_upstream, test_relay) = test_relay(rules, "");
    let mut client = test_relay.client(Version::HTTP_11).await;
    for (content_type, expected) in [
        ("application/vnd.cards+json", "/cards {\"pin\":\"[redacted]\"}"),
        ("Application/X-JSON; a=1", "/cards {\"pin\":\"[redacted]\"}"),
        (JSON, "unsupported_media_type"),
        ("application/vnd.other+json", "unsupported_media_type"),
    ] {
        let answer = post(&mut client, "/cards", Some(content_type), "{\"pin\":\"4242\"}").await;
        assert_eq!(outcome(&answer), expected, "{content_type}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn no_patch_passes_the_selectors_by() {
    let patch = r#"[{"op":"add","path":"/card/number","value":"4242"}]"#;
    let scim = r#"{"Operations":[{"op":"add","value":{"card":{"number":"4242"}}}]}"#;
    let rule = "{ action = \"redact\", json = [\"$.card.number\"] }";
    let types = [JSON, "application/json-patch+json", "application/scim+json"];
    let with = |patches: &str| format!("{rule}]\npatches = \"{patches}\"\nresponse = [");
    for (rules, expected) in [(rule.to_owned(), "unsupported_media_type"), (with("operations"), "[redacted]")] {
        let (_upstream, test_relay) = test_relay(&rules, "");
        let mut client = test_relay.client(Version::HTTP_11).await;
        for content_type in types {
            for body in [patch, scim] {
                let answer = post(&mut client, "/cards", Some(content_type), body).await;
                assert!(!String::from_utf8_lossy(&answer.body).contains(SECRET), "{content_type} {body}: {answer:?}");
            }
        }
        for content_type in &types[..2] {
            let answer = post(&mut client, "/cards", Some(content_type), patch).await;
            assert!(outcome(&answer).contains(expected), "{content_type}: {answer:?}");
        }
        let plain = post(&mut client, "/cards", Some(JSON), r#"{"card":{"number":"4242"},"op":1}"#).await;
        assert_eq!(outcome(&plain), r#"/cards {"card":{"number":"[redacted]"},"op":1}"#);
    }
    let inner = [
        r#"{"patch":[{"op":"add","path":"/card/number","value":"4242"}]}"#,
        r#"{"a":[{"b":{"Value":"4242","OP":"Add","Path":"/card/number"}}]}"#,
        r#"[[{"op":"add","path":"/card/number","value":"4242"}]]"#,
        r#"[{"op":"add","path":"/patch","value":[{"op":"add","path":"/card/number","value":"4242"}]}]"#,
        r#"[{"op":"add","path":"/card//number","value":"4242"}]"#,
        r#"[{"op":"add","path":"//number","value":"4242"}]"#,
        r#"[{"op":"0","path":["card","number"],"value":"4242"}]"#,
        r#"{"patch":{"Operations":[{"op":"replace","value":{"card.number":"4242"}}]}}"#,
    ];
    let lines = [JSON, "application/json-patch+json", "application/x-ndjson"];
    for rules in [rule.to_owned(), with("operations")] {
        let (_upstream, test_relay) = test_relay(&rules, "");
        let mut client = test_relay.client(Version::HTTP_11).await;
        for (content_type, body) in lines.iter().flat_map(|kind| inner.map(|body| (kind, body))) {
            let answer = post(&mut client, "/cards", Some(content_type), body).await;
            assert!(answer.status.is_client_error(), "{content_type} {body}: {answer:?}");
        }
        for body in [r#"{"changes":[{"op":"eq","path":"/x"}],"path":"/y"}"#, r#"{"op":"sum","path":"/x"}"#] {
            assert_eq!(outcome(&post(&mut client, "/cards", Some(JSON), body).await), format!("/cards {body}"));
        }
    }
    let (_upstream, of_operations) = test_relay(&with("operations"), "");
    let mut client = of_operations.client(Version::HTTP_11).await;
    let moved = r#"[{"op":"add","path":"/x","value":"4242"},{"op":"move","from":"/x","path":"/card/number"}]"#;
    assert_eq!(outcome(&post(&mut client, "/cards", Some(JSON), moved).await), "invalid_document");
    let (_upstream, of_documents) = test_relay(&with("document"), "");
    let mut client = of_documents.client(Version::HTTP_11).await;
    let log = r#"[{"op":"add","path":"/x"}]"#;
    assert_eq!(outcome(&post(&mut client, "/cards", Some(JSON), log).await), format!("/cards {log}"));
}

#[tokio::test(flavor = "multi_thread")]
async fn members_that_occur_twice_do_not_pass_a_rule_by() {
    let rules = "{ action = \"redact\", json = [\"$.payments[?@.kind == 'card'].number\", \"$.pin\"] }";
    for setting in ["refuse", "same", "other"] {
        let (_upstream, test_relay) = test_relay(rules, &format!("other_case_names = \"{setting}\""));
        let mut client = test_relay.client(Version::HTTP_11).await;
        for body in [
            r#"{"payments":[{"kind":"card","kind":"bank","number":"4242"}]}"#,
            r#"{"payments":[{"kind":"bank","kind":"card","number":"4242"}]}"#,
            r#"{"pin":"4242","pin":"1"}"#,
        ] {
            let answer = post(&mut client, "/cards", Some(JSON), body).await;
            assert_eq!(outcome(&answer), "ambiguous_name", "{setting} {body}");
        }
    }
}

/// The request with a cookie; the outcome.
async fn with_cookie(client: &mut Client, target: &str, body: &str, cookie: &str) -> String {
    let pieces = if body.is_empty() { vec![] } else { vec![Frame::data(Bytes::from(body.to_owned()))] };
    let mut request = client.request("POST", target, Pieces::of(pieces));
    let headers = request.headers_mut();
    headers.remove("trailer");
    headers.insert("content-type", HeaderValue::from_static(FORM));
    headers.insert("cookie", HeaderValue::from_str(cookie).unwrap());
    outcome(&Answer::whole(client.begin(request).await).await)
}

#[tokio::test(flavor = "multi_thread")]
async fn forms_are_forwarded_as_the_relay_read_them() {
    let (_upstream, test_relay) = test_relay("{ action = \"redact\", form = [\"card\"] }", "");
    let head =
        |name: &str, more: &str| format!("--B\r\nContent-Disposition: form-data; name={name}{more}\r\n\r\n1\r\n");
    let end = "--B--\r\n";
    for version in [Version::HTTP_11, Version::HTTP_2] {
        let mut client = test_relay.client(version).await;
        for (content_type, body, expected) in [
            (FORM, "c%61rd=1&x%5f[%5d=%32;&y".to_owned(), "card=%5Bredacted%5D&x_%5B%5D=%32%3B&y".to_owned()),
            (FORM, "+card%00x=1&%zz=%zz".to_owned(), "card=%5Bredacted%5D&%25zz=%zz".to_owned()),
            (PARTS, head("card", "\r\nX-Own: 1\r\nContent-Length: 1") + end, {
                head("\"card\"", "").replace("\r\n1\r\n", "\r\n[redacted]\r\n") + end
            }),
            (
                PARTS,
                head(
                    "x",
                    "; y=1; filename=\"C:\\dir\\a \\\"b.txt\"\r\nContent-Type: Text/CSV; charset=latin1; a=\"json\"",
                ) + end,
                head("\"x\"", "; filename=\"a %22b.txt\"\r\nContent-Type: text/csv") + end,
            ),
            (PARTS, head("x", "; filename*=utf-8''%c3%a9.txt") + end, head("\"x\"", "; filename=\"\u{e9}.txt\"") + end),
        ] {
            let answer = post(&mut client, "/cards", Some(content_type), body.clone()).await;
            assert_eq!(outcome(&answer), format!("/cards {expected}"), "{body}");
        }
        for (content_type, body, code) in [
            (FORM, "a%e9=1".to_owned(), "ambiguous_name"),
            (FORM, "a%0ab=1".to_owned(), "ambiguous_name"),
            (FORM, format!("{}=1", "a".repeat(4097)), "invalid_document"),
            (PARTS, head("\"a\\b\"", "") + end, "ambiguous_name"),
            (PARTS, head("\"a;b\"", "") + end, "ambiguous_name"),
            (PARTS, head("\"a%22b\"", "") + end, "ambiguous_name"),
            (PARTS, head("a", "\r\nContent-Transfer-Encoding: base64") + end, "invalid_document"),
            (PARTS, head("a", "\r\nContent-Type: text/plain; charset=utf-7") + end, "invalid_document"),
            (PARTS, head("a", "\r\nContent-Type: text/plain\r\nContent-Type: text/csv") + end, "invalid_document"),
            (PARTS, head("a", "; a=1; b=2; c=3; d=4; e=5; f=6; g=7; h=8") + end, "invalid_document"),
        ] {
            let answer = post(&mut client, "/cards", Some(content_type), body.clone()).await;
            assert_eq!(outcome(&answer), code, "{body}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rule_that_requires_a_match_refuses_other_shapes() {
    let rules = "{ action = \"redact\", json = [\"$.cards[*].number\"], form = [\"card\"], require_match = true }";
    let (_upstream, test_relay) = test_relay(rules, "");
    let mut client = test_relay.client(Version::HTTP_11).await;
    for (content_type, body) in [
        (JSON, r#"{"cards":{"number":"4242"}}"#.to_owned()),
        (JSON, r#"[{"cards":[{"number":"4242"}]}]"#.to_owned()),
        (JSON, r#"{"Order":{"cards":[{"number":"4242"}]}}"#.to_owned()),
        (JSON, r#"{"cards":[]}"#.to_owned()),
        (LINES, "{\"cards\":[{\"number\":\"4242\"}]}\n{\"cards\":{\"number\":\"4242\"}}".to_owned()),
        (FORM, "x=4242".to_owned()),
        (PARTS, part("x")),
    ] {
        let answer = post(&mut client, "/cards", Some(content_type), body.clone()).await;
        assert_eq!((answer.status.as_u16(), &*outcome(&answer)), (422, "unmatched_selector"), "{body}");
    }
    for (content_type, body) in [
        (JSON, r#"{"cards":[{"number":"4242"},{}]}"#.to_owned()),
        (LINES, "{\"cards\":[{\"number\":\"4242\"}]}\n\n".to_owned()),
        (FORM, "card=4242".to_owned()),
        (PARTS, part("card")),
    ] {
        let answer = post(&mut client, "/cards", Some(content_type), body).await;
        assert!(outcome(&answer).contains("redacted"), "{answer:?}");
    }
    assert_eq!(post(&mut client, "/cards", None, "").await.status.as_u16(), 200, "there is no body");
}

#[tokio::test(flavor = "multi_thread")]
async fn no_json_text_in_a_string_passes_the_selectors_by() {
    let rules = "{ action = \"redact\", json = [\"$.card.number\"] }";
    let card = r#"{"card":{"number":"4242"}}"#;
    let quoted = |text: &str| serde_json::to_string(text).unwrap();
    let held = [
        format!("{{\"Message\":{}}}", quoted(card)),
        format!("[\"\\n \\u007b{}\"]", &quoted(card)[2..quoted(card).len() - 1]),
        format!("{{\"a\":{}}}", quoted(&format!("[{}]", quoted(card)))),
        format!("{{\"a\":{}}}", quoted(r#"{"Card":{"number":"4242"}}"#)),
        format!("{{\"card\":{}}}", quoted(r#"{"n\u0075mber":"4242"}"#)),
        format!("{{\"a\":{}}}", quoted(r#"{"x":[{"NUMBER":"4242"}],"y":NaN}"#)),
        format!("{{\"a\":{}}}", quoted("\u{feff}// a\n{'number':4242}")),
        format!("{{\"a\":{}}}", quoted(&quoted(&quoted(card)))),
        r#"{"a":"{\"b\":\"\ud800\",\"number\":4242}"}"#.to_owned(),
    ];
    for (setting, is_refused) in [("refuse", true), ("pass", false)] {
        let rules = format!("{rules}]\nembedded_json = \"{setting}\"\nresponse = [");
        let (_upstream, test_relay) = test_relay(&rules, "");
        let mut client = test_relay.client(Version::HTTP_11).await;
        for body in &held {
            let answer = post(&mut client, "/cards", Some(JSON), body.clone()).await;
            assert_eq!(outcome(&answer) == "unsupported_media_type", is_refused, "{setting} {body}: {answer:?}");
            assert!(!is_refused || !String::from_utf8_lossy(&answer.body).contains(SECRET), "{answer:?}");
        }
        for body in [
            format!("{{\"a\":{},\"b\":\"[1]\",\"c\":\"{{x}}\"}}", quoted(r#"{"card":"4242"}"#)),
            format!("{{\"a\":{}}}", quoted("{name}, your number: {number}")),
            format!("{{\"a\":{}}}", quoted(r#"{"a":"number","b":["number"],"numbers":1}"#)),
            format!("{{\"card\":{{\"number\":{}}}}}", quoted(card)),
            format!("[{}]", quoted("[ it is no document")),
        ] {
            let answer = post(&mut client, "/cards", Some(JSON), body.clone()).await;
            assert_eq!(answer.status.as_u16(), 200, "{body}: {answer:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hidden_field_comes_from_one_source() {
    let rules =
        "{ action = \"redact\", form = [\"card\"] }, { action = \"redact\", form = [\"pin\"], query = [\"pin\"] }";
    let (_by_name, by_name) = test_relay(rules, "");
    let mut client = by_name.client(Version::HTTP_11).await;
    for (target, body, cookie, expected) in [
        ("/cards", "card=1", "session=card; x=y", "/cards card=%5Bredacted%5D"),
        ("/cards", "card=1", "session=1; card=4242", "ambiguous_name"),
        ("/cards", "x=1", "card=4242", "ambiguous_name"),
        ("/cards", "x=1", "a=1,%63ard=4242", "ambiguous_name"),
        ("/cards", "x=1", "a=1&card=2", "/cards x=1"),
        ("/cards", "x=1", "Card[x]=4242", "ambiguous_name"),
        ("/cards?pin=1", "x=1", "s=1", "/cards?pin=%5Bredacted%5D x=1"),
        ("/cards?pin=1", "pin=1", "s=1", "ambiguous_name"),
        ("/cards?pin=1", "p%69n=1", "s=1", "ambiguous_name"),
    ] {
        let outcome = with_cookie(&mut client, target, body, cookie).await;
        assert!(outcome.ends_with(expected), "{target} {body} {cookie}: {outcome}");
        assert!(!outcome.contains(SECRET), "{outcome}");
    }
    let (_of_forms, of_forms) = test_relay("{ action = \"redact\", form = [\"*\"] }", "");
    let mut client = of_forms.client(Version::HTTP_11).await;
    for (target, body, cookie, expected) in [
        ("/cards", "a=1&b[c]=2", "s=1", "/cards a=%5Bredacted%5D&b%5Bc%5D=%5Bredacted%5D"),
        ("/cards?flag", "a=1", "s=1", "/cards?flag a=%5Bredacted%5D"),
        ("/cards?card_number=4242", "a=1", "s=1", "ambiguous_name"),
        ("/cards?x;y=4242", "a=1", "s=1", "ambiguous_name"),
        ("/cards", "a=1", "a=4242", "ambiguous_name"),
        ("/cards", "a.b=1", "a_b=4242", "ambiguous_name"),
    ] {
        let outcome = with_cookie(&mut client, target, body, cookie).await;
        assert!(outcome.ends_with(expected), "{target} {body} {cookie}: {outcome}");
    }
    let (_of_queries, of_queries) = test_relay("{ action = \"redact\", query = [\"*\"] }", "");
    let mut client = of_queries.client(Version::HTTP_11).await;
    for (target, body, cookie, expected) in [
        ("/cards?a=1", "", "s=1", "/cards?a=%5Bredacted%5D"),
        ("/cards?a=1", "card=4242", "s=1", "unsupported_media_type"),
        ("/cards?a=1", "", "a=4242", "ambiguous_name"),
    ] {
        let outcome = with_cookie(&mut client, target, body, cookie).await;
        assert!(outcome.trim_end().ends_with(expected), "{target} {body} {cookie}: {outcome}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn json_in_a_field_does_not_pass_rules_for_json() {
    let rules = "{ action = \"redact\", json = [\"$.card\"], form = [\"sealed\"] }";
    let (_upstream, test_relay) = test_relay(rules, "");
    let mut client = test_relay.client(Version::HTTP_11).await;
    let part = |name: &str, more: &str, content: &str| {
        format!("--B\r\nContent-Disposition: form-data; name=\"{name}\"{more}\r\n\r\n{content}\r\n--B--\r\n")
    };
    let typed = "\r\nContent-Type: application/json";
    for (content_type, body, is_refused) in [
        (FORM, "payload=%7B%22card%22:4242%7D".to_owned(), true),
        (FORM, "payload=+%0a[%7B%22card%22:4242%7D]".to_owned(), true),
        (FORM, "payload=%ef%bb%bf{\"a\":[{\"CARD\":4242}]}".to_owned(), true),
        (FORM, "a=1&payload=\"{\\\"card\\\":4242}\"&b=1".to_owned(), true),
        (FORM, format!("payload={{\"a\":\"{}\",\"card\":4242}}", "x".repeat(70_000)), true),
        (FORM, "payload={}&tags=[\"card\"]&x={card}&y=\"card\":1".to_owned(), false),
        (FORM, "sealed=%7B%22card%22:4242%7D".to_owned(), false),
        (FORM, "note=[urgent]+call&n=42".to_owned(), false),
        (PARTS, part("payload", "", "{\"card\":4242}"), true),
        (PARTS, part("payload", typed, "4242"), true),
        (PARTS, part("payload", &format!("; filename=\"a\"{typed}"), "{\"card\":4242}"), true),
        (PARTS, part("payload", "; filename=\"a\"", "{\"card\":4242}"), true),
        (PARTS, part("payload", "; filename=\"a.txt\"", "\"{\\\"c\\u0061rd\\\":4242}\""), true),
        (PARTS, part("payload", "", &format!("{{'a':'{}','card':4242}}", "x".repeat(70_000))), true),
        (PARTS, part("payload", "; filename=\"a\"", "{\0\"\0c\0a\0r\0d\0\"\0:\0[\0]\0}\0"), true),
        (PARTS, part("sealed", typed, "{\"card\":4242}"), false),
        (PARTS, part("payload", "; filename=\"a.txt\"", "{braces} in a text file"), false),
    ] {
        let answer = post(&mut client, "/cards", Some(content_type), body.clone()).await;
        let outcome = outcome(&answer);
        assert!((outcome == "unsupported_media_type") == is_refused && !outcome.contains(SECRET), "{body}: {outcome}");
    }
    let query = "/cards?payload=%7B%22c%5Cu0061rd%22:4242%7D";
    assert_eq!(outcome(&post(&mut client, query, Some(FORM), "a=1").await), "unsupported_media_type");
    assert!(outcome(&post(&mut client, "/cards?p=%7B%22a%22:1%7D", Some(FORM), "a=1").await).ends_with("a=1"));
}
