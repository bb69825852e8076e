//! Engine and relay as separate processes: a client that disconnects cancels its work.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::Stdio;

use crate::common::{Running, TestFolder, until};

/// Values in a request that occupies one worker for seconds: a key agreement each.
const MANY: usize = 100_000;

/// A sample of the engine's metrics; 0 if it is missing.
pub(crate) fn metric(engine: &Running, sample: &str) -> u64 {
    let text = engine.probe("/metrics");
    let value = text.lines().find_map(|line| line.strip_prefix(sample)?.strip_prefix(' '));
    value.map_or(0, |value| value.parse().expect("a number"))
}

fn start_relay(test_folder: &TestFolder, engine: &Running) -> Running {
    let route = "path = \"/**\"\napp = \"acme\"\nrequest = [{ action = \"encrypt\", json = [\"$[*]\"] }]\n";
    start_relay_to(test_folder, engine, "http://127.0.0.1:1", &[route])
}

/// Starts a relay with these routes in front of an upstream.
pub(crate) fn start_relay_to(test_folder: &TestFolder, engine: &Running, upstream: &str, routes: &[&str]) -> Running {
    test_folder.run(&["certs", "issue", "relay", "--app", "acme", "--allow", "encrypt,decrypt"]).ok();
    let routes: String = routes.iter().map(|route| format!("[[inbound.route]]\n{route}\n")).collect();
    let address = engine.address();
    let file = format!(
        "[relay]\nthreads = 1\noperator_address = \"127.0.0.1:0\"\n\
         [engine]\naddresses = [\"{address}\"]\nserver_name = \"localhost\"\nauthorities = \"certs/ca.pem\"\n\
         certificate = \"certs/relay.pem\"\nprivate_key = \"certs/relay.key\"\n\
         [[inbound]]\nname = \"api\"\naddress = \"127.0.0.1:0\"\nupstream = \"{upstream}\"\n{routes}"
    );
    test_folder.write("relay.toml", file);
    let mut command = test_folder.command(&["relay", "--json", "--file", "relay.toml"]);
    Running::start(command.stderr(Stdio::piped()))
}

#[test]
fn a_disconnecting_client_cancels_the_engines_work() {
    const CANCELLED: &str = "leafseal_requests_total{method=\"encrypt_document\",outcome=\"cancelled\"}";
    let test_folder = TestFolder::new();
    let engine = test_folder.engine(&["--no-relay", "--set", "server.workers=1", "--set", "engine.keying=field"]);
    let relay = start_relay(&test_folder, &engine);
    let document = format!("[{}\"x\"]", "\"x\",".repeat(MANY - 1));
    let mut client = TcpStream::connect(relay.ready["api"].as_str().expect("an address")).expect("connected");
    let head = "POST / HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length:";
    write!(client, "{head} {}\r\n\r\n{document}", document.len()).expect("written");
    until("the engine works", || metric(&engine, "leafseal_queue_jobs") > 0);
    assert_eq!(metric(&engine, CANCELLED), 0);
    drop(client);
    until("the engine has cancelled", || metric(&engine, CANCELLED) == 1);
    until("nothing is in flight", || metric(&engine, "leafseal_queue_jobs") == 0);
}

/// Answers each request with its own body.
fn echo(listener: &TcpListener) {
    for mut socket in listener.incoming().flatten() {
        let mut bytes = Vec::new();
        loop {
            let mut piece = [0; 4096];
            match socket.read(&mut piece) {
                Ok(0) | Err(_) => break,
                Ok(size) => bytes.extend_from_slice(&piece[..size]),
            }
            let Some(at) = bytes.windows(4).position(|it| it == b"\r\n\r\n") else { continue };
            let head = String::from_utf8_lossy(&bytes[..at]).to_ascii_lowercase();
            let size = head.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse().ok()).unwrap_or(0);
            let body = &bytes[at + 4..];
            if body.len() >= size {
                let head = format!("HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: {size}\r\n\r\n");
                let _ = socket.write_all(&[head.as_bytes(), body].concat());
                break;
            }
        }
    }
}

pub(crate) fn call(relay: &Running, path: &str, media_type: &str, body: &[u8]) -> String {
    let (status, body) = answer(relay, path, media_type, body);
    assert_eq!(status, "200", "{body}");
    body
}

pub(crate) fn answer(relay: &Running, path: &str, media_type: &str, body: &[u8]) -> (String, String) {
    let mut client = TcpStream::connect(relay.ready["api"].as_str().expect("an address")).expect("connected");
    let head = format!(
        "PUT {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Type: {media_type}\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    client.write_all(&[head.as_bytes(), body].concat()).expect("written");
    let mut answer = Vec::new();
    client.read_to_end(&mut answer).expect("an answer");
    let answer = String::from_utf8_lossy(&answer);
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
    (head.split(' ').nth(1).expect("a status").to_owned(), body.to_owned())
}

/// The origin of an upstream that answers with what it receives.
pub(crate) fn echoing_upstream() -> String {
    let upstream = TcpListener::bind("127.0.0.1:0").expect("bound");
    let origin = format!("http://{}", upstream.local_addr().expect("an address"));
    std::thread::spawn(move || echo(&upstream));
    origin
}

#[test]
fn rules_seal_with_a_symmetric_key_in_a_context_and_open_nothing_else() {
    const JSON: &str = "application/json";
    let test_folder = TestFolder::new();
    let engine = test_folder.engine(&["--no-relay"]);
    let origin = echoing_upstream();
    let rule = |path: &str, rule: &str| {
        format!("path = \"{path}\"\napp = \"acme\"\nrequest = [{{ json = [\"$.card\"], form = [\"*\"], {rule} }}]\n")
    };
    let routes = [
        rule("/public", "action = \"encrypt\", scheme = \"public-key\""),
        rule("/seal", "action = \"encrypt\", scheme = \"symmetric\", context = \"cards\""),
        rule("/plain", "action = \"encrypt\", scheme = \"symmetric\""),
        rule("/open", "action = \"decrypt\", context = \"cards\""),
        rule("/other", "action = \"decrypt\", context = \"names\""),
        rule("/own", "action = \"decrypt\", accept = [\"symmetric\"]"),
        rule("/kept", "action = \"decrypt\", accept = [\"symmetric\"], on_failure = \"leave\""),
    ];
    let routes: Vec<&str> = routes.iter().map(String::as_str).collect();
    let relay = start_relay_to(&test_folder, &engine, &origin, &routes);
    let document = "{\"card\":\"4242\"}";
    let [public, sealed, plain] =
        ["/public", "/seal", "/plain"].map(|path| call(&relay, path, JSON, document.as_bytes()));
    assert!(public.starts_with("{\"card\":\"ev:Tk9D:"), "{public}");
    assert!([&sealed, &plain].iter().all(|text| text.starts_with("{\"card\":\"ev:WEFF:")), "{sealed} {plain}");
    assert_eq!(call(&relay, "/open", JSON, sealed.as_bytes()), document);
    assert_eq!(call(&relay, "/own", JSON, plain.as_bytes()), document);
    // What anyone can make, or was bound to something else, is refused as a damaged value is.
    let damaged = plain.replacen(":WEFF:", ":WEFF:number:", 1);
    let refusal = answer(&relay, "/own", JSON, damaged.as_bytes());
    assert_eq!(refusal.0, "422", "{refusal:?}");
    for (path, text) in
        [("/own", &public), ("/open", &public), ("/other", &sealed), ("/own", &sealed), ("/open", &plain)]
    {
        assert_eq!(answer(&relay, path, JSON, text.as_bytes()), refusal, "{path} {text}");
    }
    assert_eq!(call(&relay, "/kept", JSON, public.as_bytes()), public);
    let part = |content: &str| {
        format!("--B\r\nContent-Disposition: form-data; name=\"doc\"; filename=\"d\"\r\n\r\n{content}\r\n--B--\r\n")
    };
    const FORM: &str = "multipart/form-data; boundary=B";
    let file = call(&relay, "/seal", FORM, part("a file").as_bytes());
    assert!(file.contains("%EVENC\u{4}"), "{file}");
}

#[test]
fn a_stored_document_that_is_sent_back_is_counted_or_left() {
    const JSON: &str = "application/json";
    let test_folder = TestFolder::new();
    let engine = test_folder.engine(&["--no-relay"]);
    let origin = echoing_upstream();
    let rule = |path: &str, rest: &str| {
        format!(
            "path = \"{path}\"\napp = \"acme\"\nrequest = [{{ action = \"encrypt\", json = [\"$.card\"], form = [\"*\"]{rest} }}]\n"
        )
    };
    let routes = [rule("/again", ""), rule("/once", ", skip_sealed = true"), rule("/all", ", require_match = true")];
    let relay = start_relay_to(&test_folder, &engine, &origin, &[&routes[0], &routes[1], &routes[2]]);
    let sealed_before = |outcome: &str| {
        let sample = format!("leafseal_relay_sealed_before_total{{listener=\"api\",outcome=\"{outcome}\"}}");
        metric(&relay, &sample)
    };
    let stored = call(&relay, "/once", JSON, b"{\"card\":\"4242\"}");
    assert!(stored.starts_with("{\"card\":\"ev:"), "{stored}");
    assert_eq!((sealed_before("resealed"), sealed_before("skipped")), (0, 0));
    let twice = call(&relay, "/again", JSON, stored.as_bytes());
    assert!(twice.len() > stored.len() + 50, "{twice}");
    assert_eq!((sealed_before("resealed"), sealed_before("skipped")), (1, 0));
    assert_eq!(call(&relay, "/once", JSON, stored.as_bytes()), stored);
    assert_eq!((sealed_before("resealed"), sealed_before("skipped")), (1, 1));
    // Text that only looks like an envelope is encrypted.
    assert!(call(&relay, "/once", JSON, b"{\"card\":\"ev:Tk9D:x:$\"}").len() > 60);
    assert_eq!((sealed_before("resealed"), sealed_before("skipped")), (1, 1));
    let part = |content: &str| {
        format!("--B\r\nContent-Disposition: form-data; name=\"doc\"; filename=\"d\"\r\n\r\n{content}\r\n--B--\r\n")
    };
    let looks_sealed = part("%EVENC, but only at its start");
    call(&relay, "/once", "multipart/form-data; boundary=B", looks_sealed.as_bytes());
    assert_eq!((sealed_before("resealed"), sealed_before("skipped")), (2, 1));
    let lines = call(&relay, "/once", "application/x-ndjson", b"{\"card\":\"1\"}\n\n{\"card\":\"2\"}\n");
    assert_eq!(lines.lines().filter(|line| line.starts_with("{\"card\":\"ev:")).count(), 2, "{lines}");
    assert_eq!(call(&relay, "/once", "application/x-ndjson", lines.as_bytes()), lines);
    let mixed = b"{\"card\":\"1\"}\n\n[{\"card\":\"2\"}]\n";
    let (status, refused) = answer(&relay, "/all", "application/x-ndjson", mixed);
    assert!(
        status == "422" && refused.contains("unmatched_selector") && refused.contains("line 3 of the request"),
        "{refused}"
    );
    assert!(call(&relay, "/all", "application/x-ndjson", b"{\"card\":\"1\"}\n\n").starts_with("{\"card\":\"ev:"));
}
