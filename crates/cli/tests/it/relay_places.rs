//! Rules of the relay that reseal what browsers and SDKs send, and that bind values to their places.

use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use crate::common::{Running, TestFolder};
use crate::relay::{answer, call, echoing_upstream, metric, start_relay_to};

const JSON: &str = "application/json";
const FORM: &str = "application/x-www-form-urlencoded";

fn vectors(name: &str) -> Value {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../vectors/ev-sdk").join(name);
    serde_json::from_slice(&std::fs::read(path).expect("vectors")).expect("JSON")
}

/// A private key as PEM (SEC1, RFC 5915), from its scalar and the object identifier of its curve.
fn pem(scalar: &str, curve: &[u8]) -> String {
    let digits = scalar.trim_start_matches("0x");
    let byte = |at| u8::from_str_radix(&digits[at..at + 2], 16).expect("hexadecimal");
    let scalar: Vec<u8> = (0..64).step_by(2).map(byte).collect();
    let size = 37 + 4 + curve.len() as u8;
    let head = [0x30, size, 2, 1, 1, 4, 32];
    let parameters = [0xa0, 2 + curve.len() as u8, 6, curve.len() as u8];
    let der = [&head[..], &scalar, &parameters, curve].concat();
    format!("-----BEGIN EC PRIVATE KEY-----\n{}\n-----END EC PRIVATE KEY-----\n", STANDARD.encode(der))
}

/// A route with one rule for requests.
fn route(path: &str, rule: &str) -> String {
    format!("path = \"{path}\"\napp = \"acme\"\nrequest = [{{ {rule} }}]\n")
}

fn relay_with(test_folder: &TestFolder, engine: &Running, routes: &[String]) -> Running {
    let routes: Vec<&str> = routes.iter().map(String::as_str).collect();
    start_relay_to(test_folder, engine, &echoing_upstream(), &routes)
}

/// What `inspect` reports, except the time and the ids.
fn facts(test_folder: &TestFolder, document: &str) -> Vec<Value> {
    let text = test_folder.run_with(&["inspect", "--app", "acme", "--json"], document.as_bytes()).text();
    let facts = text.lines().map(|line| {
        let mut facts: Value = serde_json::from_str(line).expect("JSON");
        facts.as_object_mut().expect("an object").remove("encrypted_at").expect("it has a time");
        facts
    });
    facts.collect()
}

/// An envelope that an SDK of the hosted service made arrives, and the upstream receives what rewrapping makes of it.
#[test]
fn envelopes_of_the_sdks_become_symmetric_on_their_way() {
    let test_folder = TestFolder::new();
    let keys = vectors("keys.json");
    let key = |name: &str| keys[name]["d"].as_str().expect("text");
    test_folder.write("r1.pem", pem(key("r1"), &[0x2a, 0x86, 0x48, 0xce, 0x3d, 3, 1, 7]));
    test_folder.write("k1.pem", pem(key("k1"), &[0x2b, 0x81, 4, 0, 10]));
    test_folder.run(&["keys", "import", "acme", "--r1", "r1.pem", "--k1", "k1.pem"]).ok();
    let engine = test_folder.engine(&["--no-relay"]);
    let reseal = "action = \"encrypt\", role = \"pci-data\", reseal = \"symmetric\"";
    let relay = relay_with(
        &test_folder,
        &engine,
        &[
            route("/in", &format!("json = [\"$.card\"], form = [\"card\"], {reseal}")),
            route("/own", "json = [\"$.card\"], action = \"decrypt\", accept = [\"symmetric\"]"),
            route("/marked", "json = [\"$.card\"], action = \"decrypt\", accept = [\"from-public-key\"]"),
            route("/text", "json = [\"$.card\"], action = \"decrypt\", role = \"pci-data\", accept = [\"symmetric\"]"),
        ],
    );
    let counted = |outcome: &str| {
        metric(&relay, &format!("leafseal_relay_sealed_before_total{{listener=\"api\",outcome=\"{outcome}\"}}"))
    };
    let document = |card: &Value| serde_json::to_string(&serde_json::json!({ "card": card })).expect("JSON");
    let mut resealed = 0;
    for sdk in ["node.json", "py.json"] {
        let made = vectors(sdk);
        for (case, out) in made["out"].as_object().expect("cases") {
            let Some((_, role)) = case.split_once('/').filter(|(curve, _)| *curve != "quirk") else { continue };
            for name in ["s", "i", "f0"] {
                let sent = document(&out["obj"][name]);
                let value = document(&made["data"][name]);
                let arrived = call(&relay, "/in", JSON, sent.as_bytes());
                assert!(arrived.starts_with("{\"card\":\"ev:WEFN:"), "{sdk} {case} {name}: {arrived}");
                if role == "-" {
                    // Not for this role: a text, which opens to the envelope and not to what is in it.
                    assert_eq!(call(&relay, "/text", JSON, arrived.as_bytes()), sent);
                    continue;
                }
                resealed += 1;
                assert_eq!(counted("rewrapped"), resealed);
                assert_eq!(call(&relay, "/marked", JSON, arrived.as_bytes()), value);
                assert_eq!(answer(&relay, "/own", JSON, arrived.as_bytes()).0, "422");
                let arguments = ["rewrap", "--app", "acme", "--scheme", "symmetric"];
                let oracle = test_folder.run_with(&arguments, sent.as_bytes()).text();
                assert_eq!(facts(&test_folder, &arrived), facts(&test_folder, &oracle));
                // What the client reads and sends back stays.
                assert_eq!(call(&relay, "/in", JSON, arrived.as_bytes()), arrived);
            }
        }
    }
    assert_eq!((resealed, counted("skipped"), counted("resealed")), (12, 12, 12));
    let made = vectors("node.json");
    let of_form = &made["out"]["prime256v1/pci-data"]["obj"]["s"].as_str().expect("text");
    let form = call(&relay, "/in", FORM, format!("card={}&x=1", of_form.replace('+', "%2B")).as_bytes());
    assert!(form.starts_with("card=ev%3AWEFN%3A") && form.ends_with("&x=1"), "{form}");
    assert_eq!(counted("rewrapped"), 13);
    // Damaged ones are text, and the answer is the same.
    let damaged = document(&Value::from(of_form.replacen(":QkTC:", ":QkTC:number:", 1)));
    let arrived = call(&relay, "/in", JSON, damaged.as_bytes());
    assert_eq!(call(&relay, "/text", JSON, arrived.as_bytes()), damaged);
    assert_eq!((counted("rewrapped"), counted("resealed")), (13, 13));
}

#[test]
fn values_are_bound_to_the_member_and_path_that_a_rule_names() {
    let test_folder = TestFolder::new();
    let engine = test_folder.engine(&["--no-relay"]);
    let rule = |path: &str, rest: &str| route(path, &format!("json = [\"$..card\", \"$..name\"], {rest}"));
    let (place, indexed) = ("context_select = \"id\", bind = \"path\"", "context = \"a\", bind = \"path+index\"");
    let relay = relay_with(
        &test_folder,
        &engine,
        &[
            rule("/public", "action = \"encrypt\", role = \"card\""),
            rule("/seal", &format!("action = \"encrypt\", scheme = \"symmetric\", {place}")),
            rule("/open", &format!("action = \"decrypt\", {place}")),
            rule(
                "/open-marked",
                &format!("action = \"decrypt\", accept = [\"from-public-key\", \"symmetric\"], {place}"),
            ),
            rule("/reseal", &format!("action = \"encrypt\", role = \"card\", reseal = \"symmetric\", {place}")),
            rule("/indexed", &format!("action = \"encrypt\", scheme = \"symmetric\", {indexed}")),
            rule("/open-indexed", &format!("action = \"decrypt\", {indexed}")),
        ],
    );
    let rows = "[{\"id\":1,\"card\":\"a\",\"name\":\"b\"},{\"id\":\"2\",\"card\":\"c\",\"name\":\"d\"}]";
    let public = call(&relay, "/public", JSON, rows.as_bytes());
    for (seal, open, sent) in [
        ("/seal", "/open", rows),
        ("/reseal", "/open", rows),
        ("/reseal", "/open-marked", &public),
        ("/indexed", "/open-indexed", rows),
    ] {
        let sealed = call(&relay, seal, JSON, sent.as_bytes());
        assert_eq!(call(&relay, open, JSON, sealed.as_bytes()), rows, "{seal}");
        if open == "/open-marked" {
            assert_eq!(answer(&relay, "/open", JSON, sealed.as_bytes()).0, "422", "the mark must be asked for");
        }
        let texts: Vec<&str> = sealed.split('"').filter(|text| text.starts_with("ev:")).collect();
        assert!(texts.len() == 4 && texts.iter().all(|text| text.starts_with("ev:WEF")), "{sealed}");
        // Into another row, and into another column.
        for (one, other) in [(0, 2), (0, 1), (1, 3)] {
            let moved = sealed
                .replace(texts[one], "-")
                .replace(texts[other], texts[one])
                .replace("\"-\"", &format!("\"{}\"", texts[other]));
            assert_eq!(answer(&relay, open, JSON, moved.as_bytes()).0, "422", "{seal}: {moved}");
        }
        // The rows may change places, unless they are bound to them.
        let mut parsed: Vec<Value> = serde_json::from_str(&sealed).expect("JSON");
        parsed.reverse();
        let reversed = serde_json::to_string(&parsed).expect("JSON");
        let status = answer(&relay, open, JSON, reversed.as_bytes()).0;
        assert_eq!(status, if seal == "/indexed" { "422" } else { "200" });
        assert_eq!(answer(&relay, "/open", JSON, public.as_bytes()).0, "422", "public keys bind nothing");
    }
    // Each line of JSON Lines is a document.
    let lines = "{\"id\":1,\"card\":\"a\"}\n{\"id\":2,\"card\":\"b\"}\n";
    let sealed = call(&relay, "/seal", "application/x-ndjson", lines.as_bytes());
    assert_eq!(call(&relay, "/open", "application/x-ndjson", sealed.as_bytes()), lines);
    for (body, code) in [
        ("{\"card\":\"a\"}", "invalid_context"),
        ("{\"id\":null,\"card\":\"a\"}", "invalid_context"),
        ("{\"id\":1.0,\"card\":\"a\"}", "invalid_context"),
        ("{\"id\":1,\"id\":1,\"card\":\"a\"}", "ambiguous_name"),
        ("{\"id\":1,\"card\":\"a\",\"ID\":2}", "ambiguous_name"),
        ("{\"id\":1,\"row\":{\"Id\":2,\"card\":\"a\"}}", "ambiguous_name"),
    ] {
        for path in ["/seal", "/reseal"] {
            let (status, text) = answer(&relay, path, JSON, body.as_bytes());
            assert!(status.starts_with('4') && text.contains(code), "{path} {body}: {status} {text}");
        }
    }
    // No other way leads to a place in a document.
    let patch = "[{\"op\":\"add\",\"path\":\"/card\",\"value\":\"a\"}]";
    assert_eq!(answer(&relay, "/seal", "application/json-patch+json", patch.as_bytes()).0, "415");
}
