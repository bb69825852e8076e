//! Canaries: their decryption is answered as any other, and raises an alarm, by RPC, API, relay and commands.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD_NO_PAD as STANDARD_NO_PAD;
use leafseal_client::{Client, DecryptFileOptions, DecryptOptions, Scalar};
use serde_json::Value;

use crate::audit_sinks::webhook;
use crate::common::{Running, TestFolder, until};
use crate::relay::echoing_upstream;

const METRIC: &str = "leafseal_canary_decryptions_total ";

fn count(engine: &Running) -> u64 {
    let metrics = engine.probe("/metrics");
    let line = metrics.lines().find_map(|line| line.strip_prefix(METRIC)).expect("the metric");
    line.trim().parse().expect("a number")
}

fn log(folder: &TestFolder) -> PathBuf {
    let mut logs = fs::read_dir(folder.path(".leafseal/audit")).expect("a folder");
    logs.next().expect("one").expect("an entry").path()
}

fn records(folder: &TestFolder) -> Vec<Value> {
    let shown = folder.run(&["audit", "show", log(folder).to_str().expect("text")]).stdout;
    let shown = String::from_utf8(shown).expect("text");
    shown.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

#[test]
fn each_door_raises_an_alarm_and_answers_as_always() {
    let folder = TestFolder::with_app();
    let settings = ["audit.folder=audit", "audit.checkpoint_interval=10ms", "server.name=one"];
    let settings: Vec<&str> = settings.iter().flat_map(|it| ["--set", it]).collect();
    let engine = folder.engine(&settings);
    let flags = engine.flags();
    let run = |arguments: &[&str], input: &str| folder.run_with(&[arguments, &flags].concat(), input.as_bytes());
    let mut expected = 0;
    for scheme in ["public-key", "symmetric"] {
        let other = run(&["encrypt", "--app", "acme", "--scheme", scheme], "\"x\"").text();
        let made = folder.run(&["canaries", "add", "acme", "--scheme", scheme, "--text", "4111111111111111", "--json"]);
        let made: Value = serde_json::from_slice(&made.ok()).expect("JSON");
        assert_eq!(made["scheme"], scheme);
        let envelope = made["envelope"].as_str().expect("text");
        let quoted = format!("\"{envelope}\"");
        // Engines notice the change within a second.
        until("the engine knows it", || {
            assert_eq!(run(&["decrypt", "--app", "acme"], &quoted).text().trim(), "\"4111111111111111\"");
            count(&engine) > expected
        });
        expected = count(&engine);
        // A value of another.
        run(&["decrypt", "--app", "acme"], &other).ok();
        assert_eq!(count(&engine), expected);
        // Among others, in a document, to rewrap it, and to see its metadata.
        let list = format!("[{},{quoted},{}]", other.trim(), other.trim());
        assert_eq!(run(&["decrypt", "--app", "acme"], &list).text().trim(), "[\"x\",\"4111111111111111\",\"x\"]");
        run(&["rewrap", "--app", "acme"], &quoted).ok();
        let document = format!("{{\"a\":{quoted}}}");
        run(&["decrypt", "--app", "acme", "--select", "$.a"], &document).ok();
        assert_eq!(count(&engine), expected + 3);
        expected += 3;
        // What does not open raises none.
        for place in [envelope.len() / 2, envelope.len() - 8] {
            let mut changed = envelope.as_bytes().to_vec();
            changed[place] = if changed[place] == b'A' { b'B' } else { b'A' };
            run(&["decrypt", "--app", "acme"], &format!("\"{}\"", String::from_utf8(changed).expect("ASCII"))).fails(1);
        }
        assert_eq!(count(&engine), expected);
        // It is one like others once it is forgotten.
        let id = made["id"].as_str().expect("text");
        let listed: Value =
            serde_json::from_slice(&folder.run(&["canaries", "list", "acme", "--json"]).ok()).expect("JSON");
        assert_eq!(listed[0]["id"], id);
        folder.run(&["canaries", "remove", "acme", id]).ok();
        folder.run(&["canaries", "remove", "acme", id]).fails(1);
        until("the engine has forgotten it", || {
            let before = count(&engine);
            run(&["decrypt", "--app", "acme"], &quoted).ok();
            count(&engine) == before
        });
        expected = count(&engine);
    }
    let is_alarm = |record: &&Value| record["kind"] == "canary";
    until("the alarms are in a checkpoint", || records(&folder).iter().filter(is_alarm).count() >= 8);
    let records = records(&folder);
    let marked = records.iter().filter(|record| record["kind"] == "request" && record["canary"].is_u64()).count();
    let alarms: Vec<&Value> = records.iter().filter(is_alarm).collect();
    assert_eq!(alarms.len(), marked, "one for each request");
    for alarm in alarms {
        assert_eq!((&alarm["app"], &alarm["client"]), (&"acme".into(), &"dev".into()), "{alarm}");
        assert!(!alarm.to_string().contains("4111"), "{alarm}");
    }
    folder.run(&["store", "check"]).ok();
}

/// A relay with a route that decrypts, and one in front of the engine's API.
fn start_relay(folder: &TestFolder, engine: &Running) -> Running {
    folder.run(&["certs", "issue", "relay", "--app", "acme", "--allow", "decrypt"]).ok();
    let port =
        engine.ready["api"].as_str().and_then(|api| api.rsplit(':').next()).expect("a port").trim_end_matches('/');
    let file = format!(
        "[relay]\nthreads = 1\noperator_address = \"127.0.0.1:0\"\n\
         [engine]\naddresses = [\"{}\"]\nserver_name = \"localhost\"\nauthorities = \"certs/ca.pem\"\n\
         certificate = \"certs/relay.pem\"\nprivate_key = \"certs/relay.key\"\n\
         [upstream]\nauthorities = \"certs/ca.pem\"\n\
         [[inbound]]\nname = \"calls\"\naddress = \"127.0.0.1:0\"\nupstream = \"https://127.0.0.1:{port}\"\n\
         [[inbound]]\nname = \"echo\"\naddress = \"127.0.0.1:0\"\nupstream = \"{}\"\n\
         [[inbound.route]]\npath = \"/open\"\napp = \"acme\"\n\
         request = [{{ action = \"decrypt\", json = [\"$.card\"] }}]\n",
        engine.address(),
        echoing_upstream(),
    );
    folder.write("relay.toml", file);
    Running::start(folder.command(&["relay", "--json", "--file", "relay.toml"]).stderr(Stdio::null()))
}

fn post(relay: &Running, inbound: &str, head: &str, body: &str) -> String {
    let mut client = TcpStream::connect(relay.ready[inbound].as_str().expect("an address")).expect("connected");
    let size = body.len();
    let request = format!(
        "POST {head}\r\nHost: a\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: {size}\r\n\r\n{body}"
    );
    client.write_all(request.as_bytes()).expect("written");
    let mut answer = String::new();
    client.read_to_string(&mut answer).expect("an answer");
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    answer.split_once("\r\n\r\n").expect("a head").1.to_owned()
}

#[test]
fn a_canary_outlives_restarts_and_is_noticed_through_the_api_the_relay_and_commands() {
    let folder = TestFolder::with_app();
    let made = folder.run(&["canaries", "add", "acme", "--text", "4242"]).text();
    let (address, posts) = webhook(&[]);
    let sinks = format!("audit.sinks=webhook+http://{address}/x;kinds=canary");
    let start = || {
        let fixed = ["dev", "--json", "--port", "0", "--app", "acme", "--no-relay", "--set", &sinks];
        let settings = ["audit.folder=audit", "audit.checkpoint_interval=10ms", "server.name=one"];
        let set = settings.iter().flat_map(|setting| ["--set", setting]);
        let arguments: Vec<&str> = fixed.into_iter().chain(set).collect();
        let log = fs::OpenOptions::new().create(true).append(true).open(folder.path("engine.log")).expect("a file");
        Running::start(folder.command(&arguments).stderr(log))
    };
    drop(start());
    let engine = start();
    assert_eq!(count(&engine), 0);
    let (sealed, opened) = (format!("{{\"card\":\"{}\"}}", made.trim()), "{\"card\":\"4242\"}");
    // The engine knows it from the first request on.
    let decrypt = [&["decrypt", "--app", "acme"][..], &engine.flags()].concat();
    assert_eq!(folder.run_with(&decrypt, sealed.as_bytes()).text().trim(), opened);
    assert_eq!(count(&engine), 1);
    let relay = start_relay(&folder, &engine);
    assert!(post(&relay, "echo", "/open HTTP/1.1", &sealed).contains(opened));
    assert_eq!(count(&engine), 2);
    let key = folder.run(&["api-keys", "create", "acme", "--allow", "decrypt"]).text();
    let head = format!("/decrypt HTTP/1.1\r\nApi-Key: {}", key.trim());
    assert!(post(&relay, "calls", &head, &sealed).contains(opened));
    assert_eq!(count(&engine), 3);
    // On the keystore itself: no engine counts it, and the history has it.
    assert_eq!(folder.run_with(&["decrypt", "--app", "acme"], sealed.as_bytes()).text().trim(), opened);
    folder.run_with(&["inspect", "--app", "acme", made.trim()], b"").ok();
    let mut alarms = Vec::new();
    while alarms.len() < 5 {
        let message = posts.recv_timeout(Duration::from_secs(60)).expect("a message");
        let body: Value = serde_json::from_str(&message.body).expect("JSON");
        let records = body["records"].as_array().expect("a list").iter().map(|record| record["record"].clone());
        alarms.extend(records);
    }
    assert_eq!(count(&engine), 3);
    for (member, value) in
        [("client", "dev"), ("client", "relay"), ("entry_point", "api"), ("command", "decrypt"), ("command", "inspect")]
    {
        let found = alarms.iter().filter(|alarm| alarm[member] == value).count();
        assert_eq!(found, 1, "{member} {value}: {alarms:?}");
    }
    assert!(alarms.iter().all(|alarm| alarm["kind"] == "canary" && alarm["app"] == "acme"), "{alarms:?}");
    until("the warnings are in the log", || {
        let log = String::from_utf8_lossy(&folder.read("engine.log")).into_owned();
        let lines = |what: &str| log.lines().filter(|line| line.contains(what)).count();
        lines("a canary was decrypted by a command") == 2 && lines("a canary was decrypted") == 5
    });
}

/// CRC-32 as at the end of a file (docs/format.md, rule 12).
fn crc32(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc: u32, _| (crc >> 1) ^ (0xedb8_8320 & (crc & 1).wrapping_neg()))
    })
}

/// What else opens: the content as a file, and secp256k1 without associated data with the other point of the same X coordinate.
#[test]
fn a_canary_in_another_form_is_one() {
    let folder = TestFolder::with_app();
    let add = |curve: &str| {
        let setting = format!("engine.curve={curve}");
        folder.run(&["canaries", "add", "acme", "--text", "4242", "--set", &setting]).text().trim().to_owned()
    };
    let canaries = [(add("r1"), 3), (add("k1"), 2)];
    let engine = folder.engine(&[]);
    let client = Client::new(engine.client_settings()).expect("a client");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let mut expected = 0;
    for (envelope, version) in canaries {
        let parts: Vec<&str> = envelope.split(':').collect();
        let [iv, ephemeral, content] = [2, 3, 4].map(|part| STANDARD_NO_PAD.decode(parts[part]).expect("Base64"));
        let mut file = [b"%EVENC", &[version, 55, 0][..], &ephemeral, &iv, &[0], &content].concat();
        file.extend(crc32(&file).to_le_bytes());
        let opened = runtime.block_on(client.decrypt_file(&DecryptFileOptions::new("acme"), &file));
        assert_eq!(opened.expect("opened"), b"4242", "{envelope}");
        expected += 1;
        assert_eq!(count(&engine), expected, "{envelope}");
        let mut other = ephemeral.clone();
        other[0] ^= 1;
        let other = envelope.replace(parts[3], &STANDARD_NO_PAD.encode(other));
        let opened = runtime.block_on(client.decrypt(&DecryptOptions::new("acme"), &[Scalar::from(other.as_str())]));
        assert_eq!(opened.is_ok(), version == 2, "{other}: {opened:?}");
        expected += u64::from(opened.is_ok());
        assert_eq!(count(&engine), expected, "{other}");
    }
    assert_eq!(expected, 3);
}
