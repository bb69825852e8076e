//! Values that rules hide in JSON, sent where frameworks merge them with it: in the query, in a cookie, in a form.

use hyper::Version;
use hyper::body::{Bytes, Frame};
use hyper::header::{HeaderName, HeaderValue};

use crate::common::{Answer, Client, Pieces};
use crate::names::{FORM, JSON, outcome, part, test_relay};

/// Sends a request with these header fields; returns the code of its refusal, or what the upstream received.
pub(crate) async fn send(
    client: &mut Client,
    (method, target): (&str, &str),
    fields: &[(&str, &str)],
    body: &str,
) -> (String, Answer) {
    let pieces = if body.is_empty() { vec![] } else { vec![Frame::data(Bytes::from(body.to_owned()))] };
    let mut request = client.request(method, target, Pieces::of(pieces));
    let headers = request.headers_mut();
    headers.remove("trailer");
    for (name, value) in fields {
        headers.append(HeaderName::from_bytes(name.as_bytes()).unwrap(), HeaderValue::from_str(value).unwrap());
    }
    let answer = Answer::whole(client.begin(request).await).await;
    (outcome(&answer), answer)
}

const RULES: &str = "{ action = \"redact\", json = [\"$.card.number\", \"$.pin\", \"$.cards[*].cvc\", \"$..key\"] }";

#[tokio::test(flavor = "multi_thread")]
async fn a_value_hidden_in_json_comes_from_no_other_source() {
    let (_upstream, test_relay) = test_relay(RULES, "");
    for version in [Version::HTTP_11, Version::HTTP_2] {
        let mut client = test_relay.client(version).await;
        for query in [
            "card[number]=4242",
            "card%5Bnumber%5D=4242",
            "card.number=4242",
            "x=1&card[number][]=4242",
            "card[number(1i)]=4242",
            "pin=4242",
            "p%69n=4242",
            "PIN=4242",
            "pin[]=4242",
            "pin(1)=4242",
            "cards[][cvc]=4242",
            "cards[0][cvc]=4242",
            "cards[a][cvc]=4242",
            "key=4242",
            "a[b][key]=4242",
            "a.key=4242",
        ] {
            for body in ["{\"x\":1}", ""] {
                let (outcome, _) =
                    send(&mut client, ("POST", &format!("/cards?{query}")), &[("content-type", JSON)], body).await;
                assert_eq!(outcome, "ambiguous_name", "{query}");
            }
        }
        for query in
            ["number=1", "card=1", "card_number=1", "card[name]=1", "cvc=1", "cards=1", "keys=1&x[keyed]=2", "pin"]
        {
            let target = format!("/cards?{query}");
            let (outcome, _) = send(&mut client, ("POST", &target), &[("content-type", JSON)], "{\"pin\":4242}").await;
            assert!(outcome.ends_with(&format!("{target} {{\"pin\":\"[redacted]\"}}")), "{query}: {outcome}");
        }
        for (cookie, is_refused) in [("a=1; pin=4242", true), ("card[number]=4242", true), ("number=1; card=2", false)]
        {
            let fields = [("content-type", JSON), ("cookie", cookie)];
            let (outcome, _) = send(&mut client, ("POST", "/cards"), &fields, "{}").await;
            assert_eq!(outcome == "ambiguous_name", is_refused, "{cookie}: {outcome}");
        }
        // A search for a value sets none.
        let (outcome, _) = send(&mut client, ("GET", "/cards?pin=1"), &[("cookie", "pin=1")], "").await;
        assert!(outcome.ends_with("/cards?pin=1 "), "{outcome}");
        let (outcome, _) =
            send(&mut client, ("GET", "/cards?pin=4242"), &[("content-type", JSON), ("content-length", "2")], "{}")
                .await;
        assert_eq!(outcome, "ambiguous_name", "with a body it may");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn another_source_passes_where_a_rule_hides_it_or_the_setting_permits_it() {
    let rules = RULES.replace(" }", ", query = [\"pin\", \"card[number]\"] }");
    let (_upstream, hidden) = test_relay(&rules, "");
    let mut client = hidden.client(Version::HTTP_11).await;
    let target = "/cards?pin=4242&card[number]=4242";
    let (outcome, _) = send(&mut client, ("POST", target), &[("content-type", JSON)], "{}").await;
    assert_eq!(outcome, "/cards?pin=%5Bredacted%5D&card%5Bnumber%5D=%5Bredacted%5D {}");
    let (_upstream, permitted) = test_relay(&format!("{RULES}]\nother_sources = \"pass\"\nresponse = ["), "");
    let mut client = permitted.client(Version::HTTP_11).await;
    let fields = [("content-type", JSON), ("cookie", "pin=1")];
    let (outcome, _) = send(&mut client, ("POST", "/cards?pin=1"), &fields, "{}").await;
    assert_eq!(outcome, "/cards?pin=1 {}");
}

/// Where bodies of other types pass, forms with such a field do not.
#[tokio::test(flavor = "multi_thread")]
async fn a_form_does_not_set_what_is_hidden_in_json() {
    let passing = format!("{RULES}]\nrequest_mismatch = \"pass\"\nresponse = [");
    let with_form = RULES.replace(" }", ", form = [\"card_number\"] }");
    for rules in [&passing, &with_form] {
        let (_upstream, test_relay) = test_relay(rules, "");
        let mut client = test_relay.client(Version::HTTP_11).await;
        for (content_type, body, is_refused) in [
            (FORM, "card[number]=4242".to_owned(), true),
            (FORM, "x=1&pin(1i)=4242".to_owned(), true),
            ("multipart/form-data; boundary=B", part("\"card[number]\""), true),
            (FORM, "number=1&card=2".to_owned(), false),
        ] {
            let (outcome, _) = send(&mut client, ("POST", "/cards"), &[("content-type", content_type)], &body).await;
            assert_eq!(outcome == "unsupported_media_type", is_refused, "{body}: {outcome}");
        }
    }
}

/// An answer has one source.
#[tokio::test(flavor = "multi_thread")]
async fn names_hidden_in_answers_are_none_of_requests() {
    let rules = "]\nresponse_mismatch = \"pass\"\nresponse = [{ action = \"redact\", json = [\"$.pin\"] }";
    let (_upstream, test_relay) = test_relay(rules, "");
    let mut client = test_relay.client(Version::HTTP_11).await;
    for fields in [&[("content-type", FORM)][..], &[]] {
        let (outcome, _) = send(&mut client, ("POST", "/cards?pin=1"), fields, "pin=1").await;
        assert_eq!(outcome, "/cards?pin=1 pin=1");
    }
}

/// Rails' `params` and Laravel's `input` read a member as the field of that name.
#[tokio::test(flavor = "multi_thread")]
async fn a_value_hidden_in_forms_or_the_query_is_no_member_in_the_clear() {
    let rules = "{ action = \"redact\", json = [\"$.card.number\", \"$.cards[?@.hide].pin\"], \
                 form = [\"card_number\", \"card[cvc]\", \"cards[][pin]\"], query = [\"token\"] }";
    let lines = "application/x-ndjson";
    let (_upstream, test_relay) = test_relay(rules, "");
    for version in [Version::HTTP_11, Version::HTTP_2] {
        let mut client = test_relay.client(version).await;
        for (content_type, body) in [
            (JSON, "{\"card\":{\"number\":\"4242\"},\"card_number\":\"4242\"}"),
            (JSON, "{\"CARD_NUMBER\":4242}"),
            (JSON, "{\"card_n\\u0075mber\":[{\"a\":4242}]}"),
            (JSON, "{\"card\":{\"cvc\":\"4242\"}}"),
            (JSON, "{\"card[cvc]\":\"4242\"}"),
            (JSON, "{\"cards\":[{\"hide\":1,\"pin\":1},{\"pin\":4242}]}"),
            (JSON, "{\"cards\":{\"0\":{\"pin\":4242}}}"),
            (JSON, "{\"token\":true}"),
            (lines, "{}\n{\"token\":\"4242\"}\n"),
        ] {
            let (outcome, _) = send(&mut client, ("POST", "/cards"), &[("content-type", content_type)], body).await;
            assert_eq!(outcome, "ambiguous_name", "{body}");
        }
        let (outcome, _) =
            send(&mut client, ("POST", "/cards"), &[("content-type", JSON)], "{\"x\":\"{\\\"token\\\":4242}\"}").await;
        assert_eq!(outcome, "unsupported_media_type", "in a text");
        for (content_type, body, expected) in [
            (
                JSON,
                "{\"card\":{\"number\":1,\"x\":\"token\"}}",
                "{\"card\":{\"number\":\"[redacted]\",\"x\":\"token\"}}",
            ),
            (JSON, "{\"cards\":[{\"hide\":1,\"pin\":1}]}", "{\"cards\":[{\"hide\":1,\"pin\":\"[redacted]\"}]}"),
            (lines, "{\"cvc\":1}\n{\"x\":{\"token\":1}}", "{\"cvc\":1}\n{\"x\":{\"token\":1}}"),
        ] {
            let (outcome, _) = send(&mut client, ("POST", "/cards"), &[("content-type", content_type)], body).await;
            assert_eq!(outcome, format!("/cards {expected}"), "{body}");
        }
    }
}

/// lodash's `get`, Laravel and unflattening packages read a name as a path, Rails a part of a date as the attribute.
#[tokio::test(flavor = "multi_thread")]
async fn a_value_hidden_in_json_is_no_member_named_by_its_path() {
    let lines = "application/x-ndjson";
    let (_upstream, test_relay) = test_relay(RULES, "");
    let mut client = test_relay.client(Version::HTTP_2).await;
    for (content_type, body) in [
        (JSON, "{\"card.number\":4242}"),
        (JSON, "{\"card\":{\"number\":1},\"card[number]\":4242}"),
        (JSON, "{\"card\":{\"number\":\"1\",\"number(1i)\":\"4242\"}}"),
        (JSON, "{\"CARD\\u002Enumber\":4242}"),
        (JSON, "{\"pin(1i)\":4242}"),
        (JSON, "{\"cards[0].cvc\":4242}"),
        (JSON, "{\"a\":[{\"b.key\":4242}]}"),
        (lines, "{}\n{\"card.number\":4242}\n"),
    ] {
        let (outcome, _) = send(&mut client, ("POST", "/cards"), &[("content-type", content_type)], body).await;
        assert_eq!(outcome, "ambiguous_name", "{body}");
    }
    let body = "{\"card.holder\":\"card.number\",\"x\":{\"pin(1i)\":1,\"card.number\":[1.5]}}";
    let (outcome, _) = send(&mut client, ("POST", "/cards"), &[("content-type", JSON)], body).await;
    assert_eq!(outcome, format!("/cards {body}"));
    // The name is selected itself.
    let rules =
        "{ action = \"redact\", json = [\"$.card.number\"] }, { action = \"redact\", json = [\"$['card.number']\"] }";
    let body = "{\"card.number\":\"4242\"}";
    for (rules, expected) in [
        (rules.to_owned(), "{\"card.number\":\"[redacted]\"}"),
        (RULES.to_owned() + "]\nother_sources = \"pass\"\nresponse = [", body),
    ] {
        let (_upstream, test_relay) = self::test_relay(&rules, "");
        let mut client = test_relay.client(Version::HTTP_11).await;
        let (outcome, _) = send(&mut client, ("POST", "/cards"), &[("content-type", JSON)], body).await;
        assert_eq!(outcome, format!("/cards {expected}"));
    }
}

/// A document that no rule reads sets no field that a rule hides either.
#[tokio::test(flavor = "multi_thread")]
async fn a_document_that_no_rule_reads_has_no_hidden_field() {
    let body = "{\"pin\":\"4242\"}";
    let passing = "{ action = \"redact\", form = [\"pin\"] }]\nrequest_mismatch = \"pass\"\nresponse = [";
    for rules in ["{ action = \"redact\", query = [\"pin\"] }", passing] {
        let (_upstream, guarded) = test_relay(rules, "");
        let mut client = guarded.client(Version::HTTP_11).await;
        for content_type in [JSON, "application/vnd.api+json", "application/x-ndjson"] {
            let fields = [("content-type", content_type)];
            let (outcome, _) = send(&mut client, ("POST", "/cards"), &fields, body).await;
            assert_eq!(outcome, "ambiguous_name", "{content_type}");
            let (outcome, _) = send(&mut client, ("POST", "/cards"), &fields, "{\"pins\":1}").await;
            assert_eq!(outcome, "/cards {\"pins\":1}", "{content_type}");
        }
        let fields = [("content-type", JSON), ("content-encoding", "deflate")];
        let (outcome, _) = send(&mut client, ("POST", "/cards"), &fields, "x").await;
        assert_eq!(outcome, "unsupported_media_type", "a coding that is not read");
        let (outcome, _) = send(&mut client, ("POST", "/cards"), &[("content-type", "text/plain")], body).await;
        assert_eq!(outcome, format!("/cards {body}"), "no JSON");
    }
    let permitted =
        "{ action = \"redact\", query = [\"pin\"], json = [\"$.card\"] }]\nother_sources = \"pass\"\nresponse = [";
    let (_upstream, permitted) = test_relay(permitted, "");
    let mut client = permitted.client(Version::HTTP_11).await;
    let (outcome, _) = send(&mut client, ("POST", "/cards"), &[("content-type", JSON)], body).await;
    assert_eq!(outcome, format!("/cards {body}"));
}

/// The variables of GraphQL may stand in the query, and Express makes objects of cookies that begin with `j:`.
#[tokio::test(flavor = "multi_thread")]
async fn no_json_text_in_the_query_or_a_cookie_holds_a_hidden_value() {
    let encoded = "%7B%22card%22:%7B%22number%22:%224242%22%7D%7D";
    let rules = "{ action = \"redact\", json = [\"$.card.number\"] }";
    let (_upstream, test_relay) = test_relay(rules, "");
    let post = ("POST", "/cards");
    for version in [Version::HTTP_11, Version::HTTP_2] {
        let mut client = test_relay.client(version).await;
        for target in [format!("/cards?variables={encoded}"), format!("/cards?a&x=1&variables={encoded}&y")] {
            let (outcome, _) = send(&mut client, ("POST", &target), &[("content-type", JSON)], "{}").await;
            assert_eq!(outcome, "unsupported_media_type", "{target}");
        }
        let many = format!("/cards?{}variables={encoded}", "a&".repeat(10_000));
        let (outcome, _) = send(&mut client, ("POST", &many), &[("content-type", JSON)], "{}").await;
        assert_ne!(outcome, format!("{many} {{}}"), "more fields than are searched");
        for cookie in [
            format!("a=1; card={encoded}"),
            format!("card=j%3A{encoded}"),
            format!("card=s%3Aj%3A{encoded}.signature"),
            "card={\"card\":{\"a\":1,\"number\":\"4242\"}}".to_owned(),
            "card=j:{\"number\":\"4242\"}".to_owned(),
            "card=\"{\\\"number\\\":\\\"4242\\\"}\"".to_owned(),
            "card=\"{\\\"a\\\":1\\054\\\"number\\\":\\\"4242\\\"}\"".to_owned(),
            "card={\"a\":\"&\",\"number\":\"4242\"}".to_owned(),
        ] {
            let (outcome, _) = send(&mut client, post, &[("content-type", JSON), ("cookie", &cookie)], "{}").await;
            assert_eq!(outcome, "unsupported_media_type", "{cookie}");
        }
        let fields = [("content-type", JSON), ("cookie", "number=1; card={\"name\":\"number\"}; a=j:[1]")];
        let (outcome, _) = send(&mut client, ("POST", "/cards?variables={%22a%22:1}"), &fields, "{}").await;
        assert_eq!(outcome, "/cards?variables={%22a%22:1} {}");
        // A search for a value sets none.
        let target = format!("/cards?filter={encoded}");
        let cookie = format!("card={encoded}");
        let (outcome, _) = send(&mut client, ("GET", &target), &[("cookie", &cookie)], "").await;
        assert_eq!(outcome, format!("{target} "));
    }
}

/// Upstreams that read more charsets and codings than the relay would find the values.
#[tokio::test(flavor = "multi_thread")]
async fn an_unreadable_body_of_a_hiding_rules_type_does_not_pass_unread() {
    let ending = "]\nrequest_mismatch = \"pass\"\nother_sources = \"pass\"\nresponse = [";
    let json = format!("{{ action = \"redact\", json = [\"$.pin\"] }}{ending}");
    let form = format!("{{ action = \"redact\", form = [\"pin\"] }}{ending}");
    let (plain, charset) = (None, "application/json; charset=utf-16be");
    for (rules, content_type, fields, body, is_refused) in [
        (&json, charset, plain, "x", true),
        (&json, "application/json; charset=latin1", plain, "{\"pin\":\"4242\"}", true),
        (&json, JSON, Some(("content-encoding", "deflate")), "x", true),
        (&json, "application/x-ndjson; charset=utf-16", plain, "x", true),
        (&json, "application/x-www-form-urlencoded; charset=latin1", plain, "pin=1", false),
        (&json, "text/plain; charset=latin1", Some(("content-encoding", "deflate")), "x", false),
        (&json, "application/vnd.x", plain, "x", false),
        (&form, "application/x-www-form-urlencoded; charset=utf-7", plain, "pin=1", true),
        (&form, "multipart/form-data", plain, "--B", true),
        (&form, "multipart/form-data; boundary=B", Some(("content-encoding", "compress")), "--B", true),
        (&form, charset, plain, "x", false),
    ] {
        let (_upstream, test_relay) = test_relay(rules, "");
        let mut client = test_relay.client(Version::HTTP_11).await;
        let fields: Vec<_> = fields.into_iter().chain([("content-type", content_type)]).collect();
        let (code, _) = send(&mut client, ("POST", "/cards"), &fields, body).await;
        assert_eq!(code == "unsupported_media_type", is_refused, "{rules} {content_type} {fields:?}: {code}");
    }
}
