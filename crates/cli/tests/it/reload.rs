//! Engine and relay from an operator's point of view: the effect of SIGHUP and of changed files, and the log.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::Stdio;
use std::sync::{Arc, Mutex};

use crate::common::{Running, TestFolder, until};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

/// The log of a program, one JSON object per line, as it arrives.
pub(crate) struct Log(Arc<Mutex<Vec<Value>>>);

impl Log {
    pub(crate) fn of(running: &mut Running) -> Self {
        let lines = Arc::<Mutex<Vec<Value>>>::default();
        let (kept, stderr) = (Arc::clone(&lines), running.child.stderr.take().expect("piped"));
        std::thread::spawn(move || {
            for line in BufReader::new(stderr).lines().map_while(Result::ok) {
                kept.lock().unwrap().push(serde_json::from_str(&line).unwrap_or(Value::String(line)));
            }
        });
        Self(lines)
    }

    /// Lines whose message contains `words`.
    pub(crate) fn about(&self, words: &str) -> Vec<Value> {
        let has = |line: &&Value| line["message"].as_str().is_some_and(|message| message.contains(words));
        self.0.lock().unwrap().iter().filter(has).cloned().collect()
    }

    /// All lines.
    pub(crate) fn text(&self) -> String {
        format!("{:?}", self.0.lock().unwrap())
    }

    /// All lines, as they were written.
    pub(crate) fn lines(&self) -> String {
        let line = |line: &Value| line.as_str().map_or_else(|| line.to_string(), str::to_owned);
        self.0.lock().unwrap().iter().map(line).collect::<Vec<_>>().join("\n")
    }

    /// Lines that are not JSON.
    pub(crate) fn others(&self) -> Vec<Value> {
        self.0.lock().unwrap().iter().filter(|line| line.is_string()).cloned().collect()
    }

    pub(crate) fn wait_for(&self, words: &str, count: usize) -> Value {
        until(&format!("the log has {words:?}"), || self.about(words).len() >= count);
        self.about(words).pop().expect("it is there")
    }
}

fn serve(test_folder: &TestFolder, more: &[&str]) -> (Running, Log) {
    let at = ["serve", "--json", "--address", "127.0.0.1:0", "--api", "127.0.0.1:0", "--set", "server.drain_delay=0s"];
    let arguments = [&at[..], more].concat();
    let mut engine = Running::start(test_folder.command(&arguments).stderr(Stdio::piped()));
    let log = Log::of(&mut engine);
    (engine, log)
}

pub(crate) fn signal(running: &Running, signal: Signal) {
    kill_process(Pid::from_child(&running.child), signal).expect("it runs");
}

/// The time at which the engine's own certificate expires, from its metrics.
fn expiry(running: &Running, family: &str) -> Vec<String> {
    let text = running.probe("/metrics");
    text.lines().filter(|line| line.starts_with(&format!("{family}{{"))).map(str::to_owned).collect()
}

#[test]
fn what_killed_creations_of_keys_left_is_gone_after_the_start() {
    let workplace = TestFolder::with_app();
    workplace.run(&["certs", "init"]).ok();
    let left = ["server.key.new-0123456789abcdef", "ca.key.new-0123456789abcdef", "shop.key.new-0123456789abcdef"];
    left.iter()
        .for_each(|name| drop(workplace.write(&format!(".leafseal/certs/{name}"), "-----BEGIN PRIVATE KEY-----")));
    let kept = workplace.write(".leafseal/certs/notes.new-0123456789abcdef", "another's");
    let (engine, _) = serve(&workplace, &[]);
    for name in left {
        assert!(!workplace.path(&format!(".leafseal/certs/{name}")).exists(), "{name}");
    }
    assert!(kept.exists());
    drop(engine);
}

#[test]
fn an_engine_reloads_on_sighup_all_or_nothing() {
    let test_folder = TestFolder::with_app();
    test_folder.run(&["certs", "init"]).ok();
    test_folder.run(&["certs", "issue", "billing", "--app", "acme", "--allow", "encrypt"]).ok();
    let (mut engine, log) = serve(&test_folder, &[]);
    let started = log.wait_for("engine started", 1);
    assert_eq!((&started["level"], &started["address"]), (&"info".into(), &engine.ready["address"]));
    let family = "leafseal_certificate_expiry_timestamp_seconds";
    let before = expiry(&engine, family);
    assert_eq!(before.len(), 3, "server, api and client-authorities: {before:?}");

    // A renewed certificate is in use and warned about: it is valid for a week.
    test_folder.run(&["certs", "init", "--days", "6"]).ok();
    test_folder.write(".leafseal/leafseal.toml", "[log]\nlevel = \"debug\"\n[server]\nworkers = 3\n");
    signal(&engine, Signal::HUP);
    log.wait_for("engine reloaded", 1);
    assert_ne!(expiry(&engine, family), before);
    let warning = log.wait_for("a certificate expires in ", 2);
    assert_eq!(warning["level"], "warn");
    assert!(warning["file"].as_str().is_some_and(|file| file.ends_with("certs/server.pem")), "{warning}");
    assert!(warning["usage"] == "server" || warning["usage"] == "api", "{warning}");
    assert_eq!(log.wait_for("requires a restart", 1)["keys"], "server.workers");
    let connect = ["info", "--connect", engine.address(), "--client", "billing"];
    test_folder.run(&connect).ok();
    // The new level applies.
    log.wait_for("connected", 1);

    // Nothing changes if a key does not match.
    let now = expiry(&engine, family);
    test_folder.write(".leafseal/certs/server.key", "no key");
    signal(&engine, Signal::HUP);
    let refused = log.wait_for("engine not reloaded", 1);
    assert!(refused["failure"].as_str().is_some_and(|failure| failure.contains("private key")), "{refused}");
    assert_eq!(expiry(&engine, family), now);
    test_folder.run(&connect).ok();

    signal(&engine, Signal::TERM);
    assert!(engine.child.wait().expect("ended").success());
    log.wait_for("engine stopping", 1);
    assert_eq!(log.wait_for("engine stopped", 1)["requests_abandoned"], 0);
}

#[test]
fn session_ticket_keys_are_reloaded_and_a_file_without_keys_changes_nothing() {
    let test_folder = TestFolder::with_app();
    test_folder.run(&["certs", "init"]).ok();
    test_folder.write(".leafseal/tickets.keys", "0f".repeat(32));
    test_folder.write(".leafseal/leafseal.toml", "[server]\nsession_ticket_keys = \"tickets.keys\"\n");
    let (engine, log) = serve(&test_folder, &["--set", "log.format=json"]);
    log.wait_for("engine started", 1);

    test_folder.write(".leafseal/tickets.keys", "secret");
    signal(&engine, Signal::HUP);
    let refused = log.wait_for("engine not reloaded", 1);
    let failure = refused["failure"].as_str().expect("text");
    assert!(failure.contains("tickets.keys: session ticket keys: line 1") && !failure.contains("secret"), "{failure}");

    test_folder.write(".leafseal/tickets.keys", format!("{}\n{}\n", "0f".repeat(32), "a0".repeat(32)));
    test_folder.write(
        ".leafseal/leafseal.toml",
        "[server]\nsession_ticket_keys = \"tickets.keys\"\nsession_lifetime = \"10m\"\n",
    );
    signal(&engine, Signal::HUP);
    log.wait_for("engine reloaded", 1);
    assert!(log.about("requires a restart").is_empty());
    drop(engine);
}

#[test]
fn an_engine_reloads_changed_files_if_configured() {
    let test_folder = TestFolder::with_app();
    test_folder.run(&["certs", "init"]).ok();
    let (engine, log) = serve(&test_folder, &["--set", "server.reload_check=20ms", "--set", "log.format=json"]);
    log.wait_for("engine started", 1);
    test_folder.run(&["certs", "init", "--days", "20"]).ok();
    log.wait_for("a certificate expires in ", 1);
    log.wait_for("engine reloaded", 1);
    drop(engine);
}

/// Sends a request and returns the answer.
fn call(relay: &Running, path: &str) -> String {
    let mut client = TcpStream::connect(relay.ready["api"].as_str().expect("an address")).expect("connected");
    write!(client, "GET {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").expect("written");
    let mut answer = String::new();
    client.read_to_string(&mut answer).expect("text");
    answer
}

#[test]
fn a_relay_reopens_its_access_log_on_sighup_and_logs_what_it_loses() {
    let test_folder = TestFolder::new();
    let engine = test_folder.engine(&["--no-relay"]);
    test_folder.run(&["certs", "issue", "relay", "--app", "acme", "--allow", "encrypt", "--days", "5"]).ok();
    // A port at which nothing listens at first.
    let upstream = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let origin = upstream.local_addr().expect("bound");
    drop(upstream);
    let address = engine.address();
    let file = format!(
        "[relay]\nthreads = 1\noperator_address = \"127.0.0.1:0\"\ndrain_delay = \"0s\"\n\
         [engine]\naddresses = [\"{address}\"]\nserver_name = \"localhost\"\nauthorities = \"certs/ca.pem\"\n\
         certificate = \"certs/relay.pem\"\nprivate_key = \"certs/relay.key\"\n\
         [[inbound]]\nname = \"api\"\naddress = \"127.0.0.1:0\"\nupstream = \"http://{origin}\"\nunmatched = \"pass\"\n"
    );
    test_folder.write("relay.toml", file);
    let arguments =
        ["relay", "--json", "--file", "relay.toml", "--access-log", "access.log", "--set", "log.format=json"];
    let mut relay = Running::start(test_folder.command(&arguments).stderr(Stdio::piped()));
    let log = Log::of(&mut relay);
    log.wait_for("relay started", 1);
    log.wait_for("a certificate expires in ", 1);
    assert!(!expiry(&relay, "leafseal_relay_certificate_expiry_timestamp_seconds").is_empty());

    assert!(call(&relay, "/first").starts_with("HTTP/1.1 502 "));
    assert!(call(&relay, "/second").starts_with("HTTP/1.1 502 "));
    let lost = log.wait_for("lost the upstream", 1);
    assert_eq!((&lost["level"], &lost["peer"]), (&"error".into(), &origin.to_string().into()));
    let access = |name: &str| String::from_utf8(test_folder.read(name)).expect("text");
    until("both requests are logged", || access("access.log").lines().count() == 2);
    std::fs::rename(test_folder.path("access.log"), test_folder.path("access.log.1")).expect("renamed");
    signal(&relay, Signal::HUP);
    log.wait_for("relay reloaded", 1);
    log.wait_for("the access log was reopened", 1);

    // A peer that answers has recovered once it has not failed for a second.
    let upstream = std::net::TcpListener::bind(origin).expect("the same port");
    std::thread::spawn(move || {
        for socket in upstream.incoming().map_while(Result::ok) {
            let mut socket = BufReader::new(socket);
            let mut line = String::new();
            while line != "\r\n" {
                line.clear();
                if socket.read_line(&mut line).unwrap_or(0) == 0 {
                    break;
                }
            }
            let _ = socket.get_mut().write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
        }
    });
    until("the upstream is back", || {
        assert!(call(&relay, "/third").starts_with("HTTP/1.1 200 "));
        !log.about("the upstream is back").is_empty()
    });
    assert_eq!(log.about("lost the upstream").len(), 1);
    until("the new file has lines", || !access("access.log").is_empty());
    let first = access("access.log.1").lines().map(str::to_owned).collect::<Vec<_>>();
    assert!(first.iter().all(|line| !line.contains("/third")) && !access("access.log").contains("/first"), "{first:?}");
    let line: Value = serde_json::from_str(&first[0]).expect("JSON");
    assert_eq!(
        (&line["level"], &line["message"], &line["path"]),
        (&"info".into(), &"request".into(), &"/first".into())
    );

    // Every line has the configured format, in both logs.
    signal(&relay, Signal::TERM);
    assert!(relay.child.wait().expect("ended").success());
    log.wait_for("relay stopped", 1);
    assert!(log.0.lock().unwrap().iter().all(Value::is_object));
}

#[test]
fn both_logs_are_logfmt_if_configured() {
    let test_folder = TestFolder::with_app();
    test_folder.run(&["certs", "init"]).ok();
    let settings = ["--set", "log.format=logfmt", "--set", "server.drain_delay=0s"];
    let arguments = [&["serve", "--json", "--address", "127.0.0.1:0"], &settings[..]].concat();
    let mut engine = Running::start(test_folder.command(&arguments).stderr(Stdio::piped()));
    signal(&engine, Signal::TERM);
    let mut text = String::new();
    engine.child.stderr.take().expect("piped").read_to_string(&mut text).expect("text");
    let line = text.lines().next().expect("a line");
    assert!(
        line.starts_with("time=20") && line.contains(" level=info message=\"engine started\" address=127.0.0.1:"),
        "{text}"
    );
}
