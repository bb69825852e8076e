//! Tests of bodies that the tests over sockets do not cover.

use std::convert::Infallible;
use std::future::poll_fn;
use std::ops::ControlFlow;
use std::task::Poll;

use http_body_util::{BodyExt, Full};
use hyper::header::{CONTENT_TYPE, HeaderName, HeaderValue};
use leafseal_client::{ClientSettings, ClientTls};
use leafseal_document::{DocumentLimits, Selection};
use leafseal_errors::ErrorCode;

use super::headers::lookalike_header;
use super::*;
use crate::body::coding::fuzzing::encode;
use crate::body::offload::OffloadThreads;
use leafseal_net::SchedulingClass;

#[test]
fn a_header_that_many_take_for_a_hidden_one_is_found() {
    let rule = |action: &str, header: &str| format!("{{ action = \"{action}\", headers = [\"{header}\"] }}");
    let found = |rules: String, name: &'static str| {
        let headers = [(HeaderName::from_static(name), HeaderValue::from_static("4242"))].into_iter().collect();
        lookalike_header(&actions(&rules, ""), &headers).is_some()
    };
    assert!(found(rule("encrypt", "X-Own-Card"), "x_own_card"));
    assert!(found(rule("redact", "X-Own-Card"), "x-own_card"));
    assert!(found(rule("encrypt", "X_Card"), "x-card"));
    assert!(found(rule("encrypt", "X-Own-Card"), "x.own-card"));
    assert!(!found(rule("encrypt", "X-Card"), "x-card"));
    assert!(found("{ action = \"encrypt\", json = [\"$\"] }".to_owned(), "content_type"));
    assert!(!found(rule("encrypt", "X-Card"), "content_type"), "no body is read");
    assert!(!found(rule("decrypt", "X-Card"), "x_card"));
    assert!(!found(rule("encrypt", "X-Card") + ", " + &rule("encrypt", "X_Card"), "x_card"));
}

fn actions(rules: &str, mismatch: &str) -> Actions {
    let text = format!(
        "[engine]\naddresses = [\"a:1\"]\nauthorities = \"a\"\ncertificate = \"a\"\nprivate_key = \"a\"\n\
         [[inbound]]\naddress = \"127.0.0.1:0\"\nupstream = \"http://a\"\n\
         [[inbound.route]]\npath = \"/\"\napp = \"a\"\nrequest = [{rules}]\n{mismatch}\n"
    );
    let mut configuration = crate::Configuration::parse(&text).unwrap();
    configuration.inbound.remove(0).routes.remove(0).request
}

fn kind_under(rules: &str, mismatch: &str, media_type: &'static str) -> Option<BodyKind> {
    let headers = [(CONTENT_TYPE, HeaderValue::from_static(media_type))].into_iter().collect();
    let actions = actions(rules, mismatch);
    kind(&actions, &headers, actions.guard_forms())
}

#[test]
fn a_body_that_no_hiding_rule_reads_is_of_no_kind() {
    let (json, form) = ("application/json", "application/x-www-form-urlencoded");
    let hides_forms = "{ action = \"encrypt\", form = [\"card\"] }";
    let opens_json = "{ action = \"decrypt\", json = [\"$.a\"] }";
    let hides_json = "{ action = \"redact\", json = [\"$.a\"] }";
    let hides_headers = "{ action = \"encrypt\", headers = [\"X-Card\"] }";
    let pass = "request_mismatch = \"pass\"";
    for (rules, mismatch, media_type, expected) in [
        (format!("{hides_forms}, {opens_json}"), "", json, None),
        (format!("{hides_forms}, {opens_json}"), "", form, Some(BodyKind::Urlencoded)),
        (format!("{hides_forms}, {opens_json}"), pass, json, Some(BodyKind::Json)),
        (format!("{hides_forms}, {hides_json}"), "", json, Some(BodyKind::Json)),
        (format!("{hides_headers}, {opens_json}"), "", json, Some(BodyKind::Json)),
        (opens_json.to_owned(), "", json, Some(BodyKind::Json)),
        (opens_json.to_owned(), "", form, None),
        (hides_json.to_owned(), "", "application/json; charset=utf-16", None),
    ] {
        let accepted = accepted(&actions(&rules, mismatch));
        assert_eq!(accepted.contains(media_type), expected.is_some(), "{accepted}");
        assert_eq!(kind_under(&rules, mismatch, media_type), expected, "{rules} {mismatch} {media_type}");
    }
}

/// A client of an engine that is never called.
fn client() -> Client {
    use boring::{asn1::Asn1Time, ec, hash::MessageDigest, nid::Nid, pkey::PKey, x509::X509};
    let group = ec::EcGroup::from_curve_name(Nid::X9_62_PRIME256V1).unwrap();
    let key = PKey::from_ec_key(ec::EcKey::generate(&group).unwrap()).unwrap();
    let mut certificate = X509::builder().unwrap();
    certificate.set_version(2).unwrap();
    certificate.set_pubkey(&key).unwrap();
    certificate.set_not_before(&Asn1Time::days_from_now(0).unwrap()).unwrap();
    certificate.set_not_after(&Asn1Time::days_from_now(1).unwrap()).unwrap();
    certificate.sign(&key, MessageDigest::sha256()).unwrap();
    let certificate = certificate.build().to_pem().unwrap();
    let tls = ClientTls {
        authorities_pem: certificate.clone(),
        certificate_chain_pem: certificate,
        private_key_pem: key.private_key_to_pem_pkcs8().unwrap().into(),
        ..ClientTls::default()
    };
    Client::new(ClientSettings::new("localhost:1", tls)).unwrap()
}

/// Runs the rules on a body while both offload threads are busy. Returns whether the calling thread sufficed, and the result.
fn run_while_offload_is_taken(rules: &str, headers: &[(&'static str, &'static str)], body: Vec<u8>) -> (bool, String) {
    let threads = OffloadThreads::new(1, SchedulingClass::Normal).unwrap();
    let limits = Limits::default();
    let budget = BodyBudget::new(&limits);
    let transforms = TransformContext::new(client(), Arc::clone(&budget), threads.way(), 1000, &limits);
    let actions = actions(rules, "");
    let headers = headers.iter().map(|&(name, value)| (HeaderName::from_static(name), value.parse().unwrap()));
    let mut headers: HeaderMap = headers.collect();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let outcome = runtime.block_on(async {
        let (release, released) = std::sync::mpsc::channel::<()>();
        let released = Arc::new(std::sync::Mutex::new(released));
        let taken = [Cost::of_nanoseconds(100_000), Cost::UNKNOWN].map(|cost| {
            let (way, released) = (threads.way(), Arc::clone(&released));
            tokio::spawn(async move { way.run(cost, move || released.lock().unwrap().recv().is_ok()).await })
        });
        tokio::task::yield_now().await;
        let direction = Direction::Request;
        let client = IpAddr::from([127, 0, 0, 1]);
        let transforms = &transforms;
        let mut job = MessageRules::new(transforms, direction, &actions, "a", client);
        let body = Full::new(Bytes::from(body)).map_err(|never: Infallible| -> BodyError { match never {} });
        let mut uri = Uri::from_static("/");
        let mut running = std::pin::pin!(job.run(&mut uri, &mut headers, body));
        let mut done = None;
        for _ in 0..100 {
            if let Poll::Ready(outcome) = poll_fn(|cx| Poll::Ready(running.as_mut().poll(cx))).await {
                done = Some(outcome);
                break;
            }
            tokio::task::yield_now().await;
        }
        let is_inline = done.is_some();
        drop(release);
        let outcome = match done {
            Some(outcome) => outcome,
            None => running.await,
        };
        for taken in taken {
            taken.await.unwrap();
        }
        let outcome = match outcome {
            Ok(Outcome::Whole(bytes)) => String::from_utf8_lossy(&bytes).into_owned(),
            Ok(Outcome::Untouched(_)) => "untouched".to_owned(),
            Err(refusal) => refusal.code.to_string(),
        };
        (is_inline, outcome)
    });
    assert_eq!(budget.usage().held, 0, "the whole budget is free again");
    outcome
}

#[test]
fn work_on_bodies_leaves_the_threads_that_carry_traffic() {
    let rules = "{ action = \"redact\", json = [\"$.card\"], form = [\"card\"], replacement = \"x\" }";
    let filters = "{ action = \"redact\", json = [\"$[?@.card]\"], replacement = \"x\" }";
    let run = |rules, kind, body: &[u8]| run_while_offload_is_taken(rules, &[("content-type", kind)], body.to_vec());
    let (json, form) = ("application/json", "application/x-www-form-urlencoded");
    // Small bodies are processed on the calling thread.
    assert_eq!(run(rules, json, b"{\"card\":1}"), (true, "{\"card\":\"x\"}".to_owned()));
    assert_eq!(run(rules, form, b"a=1&card=2"), (true, "a=1&card=x".to_owned()));
    // Work that is slow for its size is not, nor is a body that is large once decompressed.
    assert!(!run(rules, form, &[b"a=", &b";".repeat(8 << 10)[..]].concat()).0);
    assert!(!run(rules, json, &b" ".repeat(64 << 10)).0);
    assert_eq!(run(filters, json, b"[{\"card\":1}]"), (false, "[{\"card\":\"x\"}]".to_owned()));
    let part = b"--B\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\n\r\n".repeat(100);
    let multipart = [&part[..], b"--B--\r\n"].concat();
    assert!(!run(rules, "multipart/form-data; boundary=B", &multipart).0);
    for (name, coding) in [("gzip", Coding::Gzip), ("br", Coding::Brotli), ("zstd", Coding::Zstd)] {
        let coded = |plain: &[u8]| {
            let headers = [("content-type", json), ("content-encoding", name)];
            run_while_offload_is_taken(rules, &headers, encode(coding, plain))
        };
        assert!(!coded(b"{\"a\":1}").0, "{name}: however short");
        assert_eq!(coded(&b"0".repeat(8 << 20)), (false, "too_large".to_owned()), "{name}");
    }
}

#[test]
fn redacted_documents_keep_all_other_bytes() {
    let selection = Selection::parse(&["$..card"], &DocumentLimits::default()).unwrap();
    let budget = BodyBudget::new(&Limits { bodies_size_max: 1 << 20, ..Limits::default() });
    let document = |bytes: &[u8]| {
        let mut buffer = BodyBuffer::new(budget.share(IpAddr::from([127, 0, 0, 1])));
        buffer.extend(bytes).unwrap();
        buffer
    };
    let whole = document(br#" {"card" : "4242","a":[1.50, {"card":{"x":1,"y":[true,null]}}]}"#);
    let redact_json = |document: BodyBuffer, replacement: &str| {
        let mut redaction = Redaction::new(document, &selection, replacement, (false, false))?;
        loop {
            match redaction.step() {
                ControlFlow::Continue(next) => redaction = next,
                ControlFlow::Break(redacted) => return redacted,
            }
        }
    };
    let (redacted, count) = redact_json(whole, "a\"b").unwrap();
    let redacted = redacted.into_parts().0;
    let expected = r#" {"card" : "a\"b","a":[1.50, {"card":{"x":"a\"b","y":["a\"b",null]}}]}"#;
    assert_eq!((String::from_utf8(redacted).unwrap().as_str(), count), (expected, 3));
    assert!(matches!(redact_json(document(b"{\"card\":1"), "x"), Err(RedactFault::Document(_))));
    // A replacement many times as long as the original uses no more memory than permitted.
    let cards = document(format!("[{}0]", "{\"card\":1},".repeat(1000)).as_bytes());
    let refused = redact_json(cards, &"x".repeat(2000));
    assert!(matches!(refused, Err(RedactFault::NoRoom(refusal)) if refusal.code == ErrorCode::RelayOverloaded));
}

/// Applies rules to a body; returns its bytes or the code of the refusal, and the header that goes with it.
fn run_on_body(rules: &str, mismatch: &str, fields: &[(&'static str, &str)], body: &[u8]) -> (Vec<u8>, HeaderMap) {
    let threads = OffloadThreads::new(1, SchedulingClass::Normal).unwrap();
    let (limits, actions) = (Limits::default(), actions(rules, mismatch));
    let transforms = TransformContext::new(client(), BodyBudget::new(&limits), threads.way(), 1000, &limits);
    let fields = fields.iter().map(|&(name, value)| (HeaderName::from_static(name), value.parse().unwrap()));
    let mut headers: HeaderMap = fields.collect();
    let mut job = MessageRules::new(&transforms, Direction::Response, &actions, "a", IpAddr::from([127, 0, 0, 1]));
    let body = Full::new(Bytes::copy_from_slice(body)).map_err(|never: Infallible| -> BodyError { match never {} });
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let bytes = match runtime.block_on(job.run_on_body(&mut headers, body)) {
        Ok(Outcome::Whole(bytes)) => bytes.to_vec(),
        Ok(Outcome::Untouched(_)) => b"untouched".to_vec(),
        Err(refusal) => refusal.code.as_str().as_bytes().to_vec(),
    };
    (bytes, headers)
}

#[test]
fn a_body_that_need_not_be_decrypted_passes_where_rules_only_decrypt() {
    const DECRYPTS: &str = "{ action = \"decrypt\", json = [\"$\"] }";
    let (refuse, pass) = ("request_mismatch = \"refuse\"", "request_mismatch = \"pass\"");
    let page = b"<html>preview: nothing sealed</html>";
    let sealed = b"<html>ev:Tk9D:x:$</html>";
    let fields = |coding: &'static str| {
        [("content-type", "text/html"), ("content-encoding", coding), ("etag", "\"v1\""), ("content-digest", "x")]
    };
    for coding in [Coding::Identity, Coding::Gzip, Coding::Brotli, Coding::Zstd] {
        let name = match coding {
            Coding::Identity => "identity",
            Coding::Gzip => "gzip",
            Coding::Brotli => "br",
            Coding::Zstd => "zstd",
        };
        let coded = encode(coding, page);
        let (passed, headers) = run_on_body(DECRYPTS, refuse, &fields(name), &coded);
        assert_eq!(passed, coded, "{name}");
        assert!(headers["etag"] == "\"v1\"" && headers["content-digest"] == "x", "{name}: {headers:?}");
        assert_eq!(headers["content-length"], coded.len().to_string().as_str());
        let (refused, _) = run_on_body(DECRYPTS, refuse, &fields(name), &encode(coding, sealed));
        assert_eq!(refused, b"unsupported_media_type", "{name}");
    }
    assert_eq!(
        run_on_body(DECRYPTS, refuse, &fields("deflate"), page).0,
        b"unsupported_media_type",
        "it cannot be searched"
    );
    assert_eq!(run_on_body(DECRYPTS, refuse, &fields("gzip"), page).0, b"invalid_document");
    assert_eq!(run_on_body(DECRYPTS, pass, &fields("identity"), sealed).0, b"untouched");
    let hides = "{ action = \"redact\", json = [\"$\"] }";
    assert_eq!(run_on_body(hides, refuse, &fields("identity"), page).0, b"unsupported_media_type");
    assert_eq!(run_on_body(hides, pass, &fields("identity"), page).0, b"untouched");
}

#[test]
fn a_body_that_no_rule_changed_keeps_its_bytes_and_validators() {
    let rule = "{ action = \"redact\", json = [\"$.card\"], form = [\"card\"] }";
    let marks =
        [("etag", "\"v1\""), ("content-digest", "a"), ("repr-digest", "b"), ("digest", "c"), ("content-md5", "d")];
    let fields = |kind: &'static str, coding: &'static str| {
        [&[("content-type", kind), ("content-encoding", coding), ("trailer", "x-sum")][..], &marks].concat()
    };
    let (json, form) = ("application/json", "application/x-www-form-urlencoded");
    // Written by another encoder, or at another level.
    let coded = {
        let mut coder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::new(0));
        std::io::Write::write_all(&mut coder, b"{\"other\":1}").unwrap();
        coder.finish().unwrap()
    };
    for (kind, coding, body) in
        [(json, "identity", &b" {\"other\" : 1}"[..]), (json, "gzip", &coded), (form, "identity", b"other=%31&x")]
    {
        let (bytes, headers) = run_on_body(rule, "", &fields(kind, coding), body);
        assert_eq!(bytes, body, "{kind} {coding}");
        for (name, value) in marks {
            assert_eq!(headers[name], value, "{kind} {coding} {name}");
        }
        assert!(!headers.contains_key("trailer"), "trailers are not forwarded");
    }
    for (kind, body) in [(json, &b"{\"card\":1}"[..]), (form, b"card=1")] {
        let (_, headers) = run_on_body(rule, "", &fields(kind, "identity"), body);
        assert!(marks.iter().all(|(name, _)| !headers.contains_key(*name)), "{headers:?}");
    }
}

#[test]
fn json_lines_are_read_line_by_line() {
    let rule = "{ action = \"redact\", json = [\"$.card\"], replacement = \"x\" }";
    let run = |kind: &'static str, body: &[u8]| {
        String::from_utf8(run_on_body(rule, "", &[("content-type", kind)], body).0).unwrap()
    };
    let lines = b"{\"card\":1}\r\n\n {\"a\":{\"card\":2}}\n{\"card\" : \"3\"}";
    let expected = "{\"card\":\"x\"}\r\n\n {\"a\":{\"card\":2}}\n{\"card\" : \"x\"}";
    for kind in ["application/x-ndjson", "application/jsonl; charset=utf-8"] {
        assert_eq!(run(kind, lines), expected);
        // Two documents on one line, and one on two lines, are not JSON Lines.
        for wrong in [&b"{\"a\":1}{\"card\":2}"[..], b"{\"card\":\n2}", b"1,2"] {
            assert_eq!(run(kind, wrong), "invalid_document");
        }
        for of_two_readings in [&b"{\"a\":1}\r{\"card\":2}"[..], b"{\"a\":\r{\"card\":2}\r}"] {
            assert_eq!(run(kind, of_two_readings), "ambiguous_name");
        }
    }
    assert_eq!(run("application/json", lines), "invalid_document");
}

#[test]
fn a_rule_that_requires_a_match_requires_it_in_each_line() {
    let rule = "{ action = \"redact\", json = [\"$.card\"], replacement = \"x\", require_match = true }";
    for kind in leafseal_http::JSON_LINES_TYPES {
        let run = |body: &[u8]| String::from_utf8(run_on_body(rule, "", &[("content-type", kind)], body).0).unwrap();
        assert_eq!(run(b"\n{\"card\":1}\r\n \n{\"card\":[2]}"), "\n{\"card\":\"x\"}\r\n \n{\"card\":[\"x\"]}");
        for other_shape in [
            &b"{\"card\":1}\n{\"cards\":[{\"card\":2}]}\n"[..],
            b"[{\"card\":2}]\n{\"card\":1}",
            b"{\"card\":1}\n4111",
            b"{}",
        ] {
            assert_eq!(run(other_shape), "unmatched_selector", "{kind}");
        }
        assert_eq!(run(b"\n\r\n"), "\n\r\n", "{kind}: there is no line");
    }
}

#[test]
fn lines_in_the_shape_of_a_patch_are_found_among_blank_ones() {
    let rule = "{ action = \"redact\", json = [\"$.card\"], replacement = \"x\" }";
    let run = |body: &[u8]| {
        let kind = [("content-type", "application/x-ndjson")];
        String::from_utf8_lossy(&run_on_body(rule, "", &kind, body).0).into_owned()
    };
    let (blank, patch) = ("\n".repeat(200 << 10), r#"{"op":"add","path":"/card","value":4111}"#);
    let other = format!("{{\"op\":\"{}\"}}", "y".repeat(100 << 10));
    assert_eq!(run(format!("{blank}{other}\n{blank}{patch}\n{blank}").as_bytes()), "unsupported_media_type");
    let passes = format!("{blank}{other}\n{blank}{{\"path\":1}}\n{blank}");
    assert!(run(passes.as_bytes()) == passes);
}
