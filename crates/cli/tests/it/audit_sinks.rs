//! What follows an audit log: sinks get each record, whatever they do; witnesses cosign it.

use std::fs;
use std::io::{BufRead as _, BufReader, ErrorKind, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use leafseal_client::{Client, EncryptOptions, Scalar};
use serde_json::Value;

use crate::common::{Running, TestFolder, until};
use crate::reload::Log;

/// What a webhook has received.
pub(crate) struct WebhookMessage {
    headers: Vec<String>,
    pub(crate) body: String,
}

impl WebhookMessage {
    fn header(&self, name: &str) -> &str {
        let found = self.headers.iter().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
        found.unwrap_or_else(|| panic!("no {name} in {:?}", self.headers))
    }
}

/// A server of HTTP that answers with these statuses, then with 204.
pub(crate) fn webhook(statuses: &'static [u16]) -> (String, Receiver<WebhookMessage>) {
    let mut statuses = statuses.iter();
    webhook_that(move |_| statuses.next().copied().unwrap_or(204))
}

/// A server of HTTP that answers with a status for each body, and hands on what it takes.
fn webhook_that(answer: impl FnMut(&str) -> u16 + Send + 'static) -> (String, Receiver<WebhookMessage>) {
    webhook_at("127.0.0.1:0", answer)
}

fn webhook_at(
    address: &str,
    mut answer: impl FnMut(&str) -> u16 + Send + 'static,
) -> (String, Receiver<WebhookMessage>) {
    let listener = TcpListener::bind(address).expect("a port");
    let address = listener.local_addr().expect("an address").to_string();
    let (sender, received) = channel();
    std::thread::spawn(move || {
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
            let body = String::from_utf8(body).expect("text");
            let status = answer(&body);
            if status < 300 && sender.send(WebhookMessage { headers, body }).is_err() {
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
        texts.all(|text| text.lines().nth(3) == Some(&(last + 1).to_string()))
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

fn indexes_of(body: &str) -> Vec<u64> {
    let body: Value = serde_json::from_str(body).expect("JSON");
    let records = body["records"].as_array().expect("a list");
    records.iter().map(|record| record["index"].as_u64().expect("a number")).collect()
}

/// The indexes of records, up to one or later.
fn indexes_from(posts: &Receiver<WebhookMessage>, last: u64) -> Vec<u64> {
    let mut seen = Vec::new();
    while seen.last() < Some(&last) {
        seen.extend(indexes_of(&posts.recv_timeout(Duration::from_secs(60)).expect("a message").body));
    }
    seen.truncate(last as usize + 1);
    seen
}

/// A sink that refuses some records for what is in them gets all the others, and is not tried with them for ever.
#[test]
fn a_record_that_a_sink_refuses_holds_up_no_other() {
    let folder = TestFolder::with_app();
    let (address, posts) = webhook_that(|body| {
        let is_refused = indexes_of(body).iter().any(|index| [0, 7, 40].contains(index));
        if is_refused { 400 } else { 204 }
    });
    let engine =
        engine(&folder, "one", &[format!("audit.sinks=webhook+http://{address}/x"), "audit.wait=all".to_owned()]);
    encrypt(&engine, 100);
    let mut seen = std::collections::BTreeSet::new();
    let is_all = |seen: &std::collections::BTreeSet<u64>| {
        seen.last().is_some_and(|last| *last >= 100 && seen.len() as u64 == last + 1 - 3)
    };
    while !is_all(&seen) {
        seen.extend(indexes_of(&posts.recv_timeout(Duration::from_secs(60)).expect("a message").body));
    }
    assert!([0, 7, 40].iter().all(|index| !seen.contains(index)));
    until("the records are counted", || {
        let metrics = engine.probe("/metrics");
        let line = metrics.lines().find(|line| line.starts_with("leafseal_audit_sink_records_refused_total{"));
        line.is_some_and(|line| line.ends_with("\"} 3"))
    });
    // It goes on.
    encrypt(&engine, 1);
    let next = seen.last().map_or(0, |last| last + 1);
    while !seen.contains(&next) {
        seen.extend(indexes_of(&posts.recv_timeout(Duration::from_secs(60)).expect("a message").body));
    }
}

/// What may be secret in the address of a sink is in no log, no metric and no name of a file.
#[test]
fn secrets_in_addresses_are_shown_nowhere() {
    let folder = TestFolder::with_app();
    let (address, posts) = webhook(&[500]);
    let sink = format!("webhook+http://{address}/hunter2/x?token=hunter2");
    let settings = [format!("audit.sinks={sink}"), "log.level=trace".to_owned(), "log.format=json".to_owned()];
    let mut engine = engine(&folder, "one", &settings);
    let log = Log::of(&mut engine);
    log.wait_for("records of the audit log are not sent", 1);
    posts.recv_timeout(Duration::from_secs(60)).expect("a message");
    log.wait_for("records of the audit log are sent again", 1);
    let metrics = engine.probe("/metrics");
    assert!(metrics.contains("leafseal_audit_sink_records_waiting{sink=\"webhook-http-127.0.0.1-"), "{metrics}");
    let mut files = Vec::new();
    let mut open = vec![folder.path(".leafseal")];
    while let Some(path) = open.pop() {
        files.push(path.display().to_string());
        if path.is_dir() {
            open.extend(fs::read_dir(&path).expect("a folder").map(|entry| entry.expect("an entry").path()));
        }
    }
    for (what, shown) in [("metrics", metrics), ("log", log.lines()), ("files", files.join("\n"))] {
        assert!(!shown.contains("hunter2"), "{what}: {shown}");
    }
    // The same sink twice would be one: each record would go to one of them.
    drop(engine);
    let list = format!("audit.sinks={sink} {sink};secret=/x");
    let refused = folder.run(&["dev", "--port", "0", "--app", "acme", "--set", "audit.folder=audit", "--set", &list]);
    assert_ne!(refused.code, 0);
    assert!(refused.stderr.contains("sinks 1 and 2 of `audit.sinks`"), "{}", refused.stderr);
    assert!(!refused.stderr.contains("hunter2"), "{}", refused.stderr);
}

/// The file with the place of the only sink, once it is there.
fn cursor(folder: &TestFolder) -> PathBuf {
    let find = || {
        let cursors = fs::read_dir(folder.path(".leafseal/audit/cursors.state")).ok()?;
        let mut cursors: Vec<_> = cursors.map(|entry| entry.expect("an entry").path()).collect();
        cursors.retain(|cursor| cursor.extension().is_none_or(|extension| extension != "tmp"));
        assert!(cursors.len() <= 1, "{cursors:?}");
        cursors.pop()
    };
    until("the cursor is written", || find().is_some());
    find().expect("it was there")
}

/// A place that somebody else writes, to keep records from a sink, is noticed, and the sink gets all.
#[test]
fn a_forged_place_keeps_nothing_from_a_sink() {
    let folder = TestFolder::with_app();
    let (address, posts) = webhook(&[]);
    let settings = [format!("audit.sinks=webhook+http://{address}/x"), "audit.wait=all".to_owned()];
    let engine = engine(&folder, "one", &settings);
    encrypt(&engine, 3);
    let next = || fs::read_to_string(cursor(&folder)).ok()?.lines().nth(3)?.parse::<u64>().ok();
    until("the cursor is written", || next().is_some_and(|next| next >= 4));
    drop(engine);
    posts.try_iter().for_each(drop);
    let (file, known) = (cursor(&folder), next().expect("a number"));
    let text = fs::read_to_string(&file).expect("there");
    let forged = text.replace(&format!("\n{known}\n"), &format!("\n{}\n", known + 1));
    fs::write(&file, forged).expect("written");
    let mut engine = self::engine(&folder, "one", &[&settings[..], &["log.format=json".to_owned()]].concat());
    let log = Log::of(&mut engine);
    let again = indexes_from(&posts, known);
    assert_eq!(again, (0..=known).collect::<Vec<_>>());
    log.wait_for("a sink's place was changed by somebody else", 1);
    assert!(engine.probe("/metrics").contains("leafseal_audit_cursors_forged_total 1\n"));
}

/// The thread that sends hangs on a file that never answers: the engine ends all the same.
#[test]
fn a_sink_that_hangs_does_not_hold_up_the_end() {
    let folder = TestFolder::with_app();
    let (address, posts) = webhook(&[]);
    let settings = [format!("audit.sinks=webhook+http://{address}/x"), "server.drain_timeout=1s".to_owned()];
    let engine = engine(&folder, "one", &settings);
    posts.recv_timeout(Duration::from_secs(60)).expect("a message");
    until("the cursor is written", || {
        folder.path(".leafseal/audit/cursors.state").exists() && cursor(&folder).exists()
    });
    drop(engine);
    let file = cursor(&folder);
    fs::remove_file(&file).expect("removed");
    assert!(std::process::Command::new("mkfifo").arg(&file).status().expect("mkfifo").success());
    let mut engine = self::engine(&folder, "one", &settings);
    encrypt(&engine, 1);
    let pid = rustix::process::Pid::from_child(&engine.child);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).expect("sent");
    until("the engine has ended", || engine.child.try_wait().expect("waited").is_some());
}

/// The witness is open to strangers: who is slow is cut off, a connection has one request, and who holds many is displaced.
#[test]
fn strangers_cannot_keep_a_witness_from_others() {
    /// Less than the life of a connection that nobody ends; a passing test never waits for it.
    const PATIENCE: Duration = Duration::from_secs(15);
    let folder = TestFolder::with_app();
    let address = {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        listener.local_addr().expect("an address")
    };
    let _engine = engine(&folder, "one", &[format!("audit.witness_address={address}")]);
    let ask = |mut socket: TcpStream| {
        socket.set_read_timeout(Some(PATIENCE)).expect("set");
        socket.write_all(b"GET /add-checkpoint HTTP/1.1\r\nHost: x\r\n\r\n").expect("written");
        let mut answer = String::new();
        socket.read_to_string(&mut answer).expect("the answer, and the end of the connection");
        assert!(answer.starts_with("HTTP/1.1 405 "), "{answer}");
    };
    ask(TcpStream::connect(address).expect("connected"));
    let mut slow: Vec<_> = (0..80).map(|_| TcpStream::connect(address).expect("connected")).collect();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let other = runtime.block_on(async {
        let socket = tokio::net::TcpSocket::new_v4().expect("a socket");
        socket.bind("127.0.0.2:0".parse().expect("an address")).expect("bound");
        socket.connect(address).await.expect("connected").into_std().expect("a socket")
    });
    other.set_nonblocking(false).expect("set");
    ask(other);
    let mut first = slow.remove(0);
    first.set_read_timeout(Some(PATIENCE)).expect("set");
    let _ = first.write_all(b"POST /add-ch");
    let ended = first.read_to_end(&mut Vec::new()).map_err(|error| error.kind());
    assert!(!matches!(ended, Err(ErrorKind::WouldBlock | ErrorKind::TimedOut)), "a head that does not end is cut off");
}

/// An export that follows a log ends with an error if the log is cut off behind its back.
#[test]
fn a_follower_notices_that_the_log_was_cut_off() {
    let folder = TestFolder::with_app();
    let engine = engine(&folder, "one", &["audit.wait=all".to_owned()]);
    let shown = log(&folder, "one");
    let show = ["audit", "show", shown.to_str().expect("text")];
    until("the start is signed", || folder.run(&show).code == 0);
    let early = fs::read(shown.join("checkpoint")).expect("there");
    encrypt(&engine, 5);
    let count = || folder.run(&show).text().lines().count();
    until("all are signed", || count() >= 6);
    drop(engine);
    let all = count();
    let mut command =
        folder.command(&["audit", "export", shown.to_str().expect("text"), "--format", "json", "--follow"]);
    let mut follower = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("started");
    let mut lines = BufReader::new(follower.stdout.take().expect("piped")).lines();
    for _ in 0..all {
        lines.next().expect("a line").expect("text");
    }
    fs::write(shown.join("checkpoint"), early).expect("written");
    let mut message = String::new();
    follower.stderr.take().expect("piped").read_to_string(&mut message).expect("text");
    assert!(!follower.wait().expect("waited").success());
    assert!(message.contains("the newest were cut off"), "{message}");
}

/// An engine that ended before a sink had its records, and before they were signed: the next one, with another name, sends them first. It
/// leaves alone the log of an engine that runs.
#[test]
fn what_an_engine_has_left_is_sent_by_the_next() {
    let folder = TestFolder::with_app();
    let address = TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("an address").to_string();
    let sink = format!("audit.sinks=webhook+http://{address}/x");
    let unsigned = [sink.clone(), "audit.wait=all".to_owned(), "audit.checkpoint_interval=1h".to_owned()];
    let one = engine(&folder, "one", &unsigned);
    encrypt(&one, 5);
    // Ends without a word.
    drop(one);
    let running = engine(&folder, "running", &["audit.wait=all".to_owned()]);
    encrypt(&running, 1);
    let (_, posts) = webhook_at(&address, |_| 204);
    let two = engine(&folder, "two", &[sink, "audit.wait=all".to_owned()]);
    encrypt(&two, 2);
    let mut seen = Vec::<(String, u64)>::new();
    let has_all = |seen: &[(String, u64)], engine: &str, count: usize| {
        seen.iter().filter(|(origin, _)| origin.split('/').nth(2) == Some(engine)).count() >= count
    };
    while !has_all(&seen, "two", 3) {
        let post = posts.recv_timeout(Duration::from_secs(60)).expect("a message");
        let body: Value = serde_json::from_str(&post.body).expect("JSON");
        let origin = body["origin"].as_str().expect("text").to_owned();
        seen.extend(indexes_of(&post.body).into_iter().map(|index| (origin.clone(), index)));
    }
    assert!(has_all(&seen, "one", 6), "{seen:?}");
    let first_of_two = seen.iter().position(|(origin, _)| origin.split('/').nth(2) == Some("two")).expect("some");
    assert!(seen[first_of_two..].iter().all(|(origin, _)| origin.split('/').nth(2) == Some("two")), "{seen:?}");
    assert!(!has_all(&seen, "running", 1), "{seen:?}");
}
