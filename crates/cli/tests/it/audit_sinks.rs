//! What follows an audit log: sinks get each record, whatever they do; witnesses cosign it.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use leafseal_client::{Client, EncryptOptions, Scalar};
use serde_json::Value;

use crate::common::{Running, TestFolder, until};

/// What a webhook has received.
struct WebhookMessage {
    headers: Vec<String>,
    body: String,
}

impl WebhookMessage {
    fn header(&self, name: &str) -> &str {
        let found = self.headers.iter().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
        found.unwrap_or_else(|| panic!("no {name} in {:?}", self.headers))
    }
}

/// A server of HTTP that answers with these statuses, then with 204.
fn webhook(statuses: &'static [u16]) -> (String, Receiver<WebhookMessage>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address").to_string();
    let (sender, received) = channel();
    std::thread::spawn(move || {
        let mut statuses = statuses.iter();
        for socket in listener.incoming() {
            let mut reader = BufReader::new(socket.expect("a connection"));
            let mut headers = Vec::new();
            loop {
                let mut line = String::new();
                reader.read_line(&mut line).expect("a line");
                match line.trim_end() {
                    "" => break,
                    line => headers.push(line.to_owned()),
                }
            }
            let size = headers.iter().find_map(|line| line.strip_prefix("content-length: ")?.parse().ok());
            let mut body = vec![0; size.expect("a size")];
            reader.read_exact(&mut body).expect("a body");
            let status = statuses.next().copied().unwrap_or(204);
            if status < 300
                && sender.send(WebhookMessage { headers, body: String::from_utf8(body).expect("text") }).is_err()
            {
                return;
            }
            let answer = format!("HTTP/1.1 {status} x\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
            reader.get_mut().write_all(answer.as_bytes()).expect("written");
        }
    });
    (address, received)
}

/// Accepts and never reads.
fn black_hole() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address").to_string();
    std::thread::spawn(move || {
        let _kept: Vec<TcpStream> = listener.incoming().map_while(Result::ok).collect();
    });
    address
}

fn engine(folder: &TestFolder, name: &str, more: &[String]) -> Running {
    let name = format!("server.name={name}");
    let mut arguments = vec!["--set", "audit.folder=audit", "--set", &name, "--set", "audit.checkpoint_interval=10ms"];
    more.iter().for_each(|setting| arguments.extend(["--set", setting.as_str()]));
    folder.engine(&arguments)
}

fn log(folder: &TestFolder, name: &str) -> PathBuf {
    let logs = fs::read_dir(folder.path(".leafseal/audit")).expect("a folder");
    let is_of_engine = |path: &PathBuf| {
        let found = path.file_name().and_then(|found| found.to_str()).unwrap_or_default();
        found.starts_with(&format!("{name}-1-")) && path.join("key").exists()
    };
    logs.map(|entry| entry.expect("an entry").path()).find(is_of_engine).expect("a log")
}

fn encrypt(engine: &Running, count: usize) {
    let client = Client::new(engine.client_settings()).expect("a client");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        for _ in 0..count {
            client.encrypt(&EncryptOptions::new("acme"), &[Scalar::from("x")]).await.expect("encrypted");
        }
    });
}

/// How many changes of the keystore an engine that starts carries into its log.
fn changes(folder: &TestFolder) -> u64 {
    folder.run(&["store", "history", "--last", "1000", "--json"]).text().lines().count() as u64
}

/// The indexes of records, up to one.
fn indexes(posts: &Receiver<WebhookMessage>, last: u64) -> Vec<u64> {
    let mut seen = Vec::new();
    while seen.last() != Some(&last) {
        let post = posts.recv_timeout(Duration::from_secs(60)).expect("a message");
        let body: Value = serde_json::from_str(&post.body).expect("JSON");
        assert!(body["checkpoint"].as_str().expect("text").starts_with(body["origin"].as_str().expect("text")));
        assert!(post.header("idempotency-key").starts_with(body["origin"].as_str().expect("text")));
        assert!(post.header("leafseal-signature").starts_with("t="));
        seen.extend(
            body["records"]
                .as_array()
                .expect("a list")
                .iter()
                .map(|record| record["index"].as_u64().expect("a number")),
        );
    }
    seen
}

/// A sink that answers with errors, two that take nothing, and one whose address nobody has: requests and the other sinks are not delayed,
/// and after a start no record is missing or sent twice.
#[test]
fn sinks_get_each_record_and_delay_nothing() {
    let folder = TestFolder::with_app();
    let secret = folder.write("secret", "hunter2\n");
    let (address, posts) = webhook(&[500, 429]);
    let (starts_address, starts) = webhook(&[]);
    let list = [
        format!("webhook+http://{address}/audit;secret={}", secret.display()),
        format!("webhook+http://{starts_address}/x;kinds=start;format=ocsf"),
        format!("syslog+tcp://{}", black_hole()),
        format!("otlp+http://{}/v1/logs", black_hole()),
        "syslog+udp://127.0.0.1:9".to_owned(),
    ];
    let settings = [format!("audit.sinks={}", list.join(" ")), "audit.wait=all".to_owned()];
    let engine = engine(&folder, "one", &settings);
    encrypt(&engine, 300);
    // The start, changes of the keystore, and 300 requests.
    let last = 300 + changes(&folder);
    assert_eq!(indexes(&posts, last), (0..=last).collect::<Vec<_>>());
    // What was received is known to the engine, too.
    until("the cursors are written", || {
        let files = fs::read_dir(folder.path(".leafseal/audit/cursors.state")).expect("a folder");
        let files = files
            .map(|file| file.expect("an entry"))
            .filter(|file| file.file_name().to_string_lossy().starts_with("webhook"));
        let mut texts = files.map(|file| fs::read_to_string(file.path()).unwrap_or_default());
        texts.all(|text| text.ends_with(&format!("\n{}\n", last + 1)))
    });
    drop(engine);
    let engine = self::engine(&folder, "one", &settings);
    encrypt(&engine, 10);
    let again = indexes(&posts, last + 11);
    assert_eq!(again, (last + 1..=last + 11).collect::<Vec<_>>());
    for expected in [0, last + 1] {
        let post = starts.recv_timeout(Duration::from_secs(60)).expect("a message");
        let body: Value = serde_json::from_str(&post.body).expect("JSON");
        assert_eq!(
            (body["records"][0]["metadata"]["sequence"].as_u64(), body["records"].as_array().map(Vec::len)),
            (Some(expected), Some(1))
        );
        assert_eq!(body["records"][0]["class_uid"], 6002);
    }
}

/// Syslog over TCP: octets are counted, and each record comes once while the connection lasts.
#[test]
fn syslog_gets_records_with_their_sizes() {
    let folder = TestFolder::with_app();
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    let engine = engine(&folder, "one", &[format!("audit.sinks=syslog+tcp://{address};kinds=request")]);
    encrypt(&engine, 20);
    let mut stream = BufReader::new(listener.accept().expect("a connection").0);
    // Records of other kinds are before the first of a request.
    let mut first = None;
    for count in 0..20 {
        let mut size = Vec::new();
        stream.read_until(b' ', &mut size).expect("a size");
        let size: usize = String::from_utf8(size).expect("text").trim_end().parse().expect("a number");
        let mut message = vec![0; size];
        stream.read_exact(&mut message).expect("a message");
        let message = String::from_utf8(message).expect("text");
        let index = message.split_once(" index=\"").and_then(|(_, rest)| rest.split_once("\"] {"));
        let index: u64 = index.and_then(|(index, _)| index.parse().ok()).unwrap_or_else(|| panic!("{message}"));
        assert!(message.starts_with("<110>1 20"), "{message}");
        assert_eq!(index, *first.get_or_insert(index) + count, "{message}");
    }
}

/// Two engines of two stores are witnesses of each other.
#[test]
fn engines_cosign_each_others_logs() {
    let (one, two) = (TestFolder::with_app(), TestFolder::with_app());
    let port = || {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        listener.local_addr().expect("an address").to_string()
    };
    let addresses = [port(), port()];
    // Keys follow from name and store.
    let key = |folder: &TestFolder, address: &str| {
        drop(engine(folder, "one", &[format!("audit.witness_address={address}")]));
        let read = |path: PathBuf| fs::read_to_string(path).expect("a key").trim_end().to_owned();
        (read(log(folder, "one").join("key")), read(folder.path(".leafseal/audit/witness-one-1.state/key")))
    };
    let keys = [key(&one, &addresses[0]), key(&two, &addresses[1])];
    let settings = |own: usize, other: usize| {
        [
            format!("audit.witness_address={}", addresses[own]),
            format!("audit.witness_logs={}", keys[other].0),
            format!("audit.witnesses=http://{};{}", addresses[other], keys[other].1),
            "audit.witnesses_interval=20ms".to_owned(),
        ]
    };
    let engines = [engine(&one, "one", &settings(0, 1)), engine(&two, "one", &settings(1, 0))];
    engines.iter().for_each(|engine| encrypt(engine, 5));
    for (folder, other) in [(&one, 1), (&two, 0)] {
        let shown = log(folder, "one");
        let verify = ["audit", "verify", shown.to_str().expect("text"), "--json", "--witness", &keys[other].1];
        until("the witness has cosigned the newest checkpoint", || {
            let report: Value = serde_json::from_slice(&folder.run(&verify).stdout).expect("JSON");
            report["witnesses"] == 1 && report["witnessed"] == report["size"] && report["size"].as_u64() >= Some(6)
        });
        folder.run(&verify).ok();
        let own = ["audit", "verify", shown.to_str().expect("text"), "--witness", &keys[1 - other].1];
        assert_eq!(folder.run(&own).code, 1);
    }
}
