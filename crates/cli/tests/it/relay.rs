//! Engine and relay as separate processes: a client that disconnects cancels its work.

use std::io::Write;
use std::net::TcpStream;
use std::process::Stdio;

use crate::common::{Running, TestFolder, until};

/// Values in a request that occupies one worker for seconds: a key agreement each.
const MANY: usize = 100_000;

/// A sample of the engine's metrics; 0 if it is missing.
fn metric(engine: &Running, sample: &str) -> u64 {
    let text = engine.probe("/metrics");
    let value = text.lines().find_map(|line| line.strip_prefix(sample)?.strip_prefix(' '));
    value.map_or(0, |value| value.parse().expect("a number"))
}

fn start_relay(test_folder: &TestFolder, engine: &Running) -> Running {
    test_folder.run(&["certs", "issue", "relay", "--app", "acme", "--allow", "encrypt"]).ok();
    let address = engine.address();
    let file = format!(
        "[relay]\nthreads = 1\noperator_address = \"127.0.0.1:0\"\n\
         [engine]\naddresses = [\"{address}\"]\nserver_name = \"localhost\"\nauthorities = \"certs/ca.pem\"\n\
         certificate = \"certs/relay.pem\"\nprivate_key = \"certs/relay.key\"\n\
         [[inbound]]\nname = \"api\"\naddress = \"127.0.0.1:0\"\nupstream = \"http://127.0.0.1:1\"\n\
         [[inbound.route]]\npath = \"/**\"\napp = \"acme\"\nrequest = [{{ action = \"encrypt\", json = [\"$[*]\"] }}]\n"
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
