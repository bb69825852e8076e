//! The audit log of an engine: each request leaves a record, no answer leaves without, and nothing of a value is in it.

use std::cell::Cell;
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use leafseal_client::{Client, DecryptOptions, EncryptOptions, ErrorCode, ErrorKind, Scalar};
use serde_json::{Value, json};

use crate::common::{Running, TestFolder, until};

/// Kills in an ordinary run; `LEAFSEAL_AUDIT_KILLS` says another number.
const KILLS: u32 = 3;
/// Seconds of a flood in an ordinary run; `LEAFSEAL_FLOOD_SECONDS` says another number.
const FLOOD_SECONDS: u64 = 3;

struct Place {
    folder: TestFolder,
    starts: Cell<usize>,
}

impl Place {
    fn new() -> Self {
        Self { folder: TestFolder::with_app(), starts: Cell::new(0) }
    }

    fn engine(&self, more: &[&str]) -> Running {
        self.starts.set(self.starts.get() + 1);
        let fixed =
            ["--set", "audit.folder=audit", "--set", "server.name=one", "--set", "audit.checkpoint_interval=10ms"];
        self.folder.engine(&[&fixed, more].concat())
    }

    /// An engine that has just started, and signed all records up to that.
    fn signed(&self) -> Running {
        let engine = self.engine(&[]);
        let log = self.log();
        let show = ["audit", "show", log.to_str().expect("text")];
        let starts = || self.folder.run(&show).stdout;
        let count = |text: Vec<u8>| String::from_utf8_lossy(&text).matches("\"kind\":\"start\"").count();
        until("the last start is in a checkpoint", || count(starts()) == self.starts.get());
        engine
    }

    fn log(&self) -> PathBuf {
        let logs = fs::read_dir(self.folder.path(".leafseal/audit")).expect("a folder");
        let logs: Vec<_> = logs.map(|log| log.expect("an entry").path()).collect();
        let [log] = &logs[..] else { panic!("{logs:?}") };
        log.clone()
    }

    /// All records of requests and starts, after one more start, which signs what no checkpoint covers, and after the log was verified.
    fn records(&self) -> Vec<Value> {
        let mut records = self.all_records();
        records.retain(|record| record["kind"] != "change");
        records
    }

    /// The same with the changes of the keystore.
    fn all_records(&self) -> Vec<Value> {
        drop(self.signed());
        let log = self.log();
        let log = log.to_str().expect("text");
        let verified = self.folder.run(&["audit", "verify", log]);
        assert_eq!(verified.code, 0, "{}", String::from_utf8_lossy(&verified.stdout));
        let shown = self.folder.run(&["audit", "show", log]).text();
        shown.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
    }
}

/// Files below a folder that have a text.
fn files_with(folder: &std::path::Path, text: &str, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            files_with(&path, text, found);
        } else if String::from_utf8_lossy(&fs::read(&path).expect("a file")).contains(text) {
            found.push(path);
        }
    }
}

#[test]
fn each_request_leaves_one_record_without_values() {
    let place = Place::new();
    let engine = place.engine(&["--set", "audit.wait=all"]);
    let folder = &place.folder;
    let flags = engine.flags();
    let run = |arguments: &[&str], input: &str| folder.run_with(&[arguments, &flags].concat(), input.as_bytes());
    let document = r#"{"id":"canary-context","canary-name":"canary-value"}"#;
    let bound = ["--scheme", "symmetric", "--role", "pci", "--context-select", "id"];
    let encrypt = [&["encrypt", "--app", "acme", "--select", "$['canary-name']"], &bound[..]].concat();
    let sealed = run(&encrypt, document).text();
    let decrypt = ["decrypt", "--app", "acme", "--context-select", "id", "--select", "$['canary-name']"];
    assert_eq!(run(&decrypt, &sealed).text(), document);
    // Another row: nothing opens.
    run(&decrypt, &sealed.replace("canary-context", "canary-elsewhere")).fails(1);
    run(&["decrypt", "--app", "canary-app"], &sealed).fails(1);
    drop(engine);
    let records = place.records();
    let of = |name: &str| records.iter().map(|record| record[name].clone()).collect::<Vec<_>>();
    assert_eq!(of("kind"), ["start", "request", "request", "request", "request", "start"].map(Value::from));
    assert_eq!(of("outcome")[1..5], ["ok", "ok", "decrypt_failed", "forbidden"].map(Value::from));
    assert_eq!(of("method")[1..3], ["encrypt_document", "decrypt_document"].map(Value::from));
    assert_eq!(of("app")[..5], [Value::Null, json!("acme"), json!("acme"), json!("acme"), Value::Null]);
    assert_eq!(of("sealed_symmetric")[..5], [Value::Null, json!(1), Value::Null, Value::Null, Value::Null]);
    assert_eq!(of("opened_symmetric")[..5], [Value::Null, Value::Null, json!(1), Value::Null, Value::Null]);
    assert_eq!(of("versions")[1..3], [json!([1]), json!([1])]);
    assert_eq!(of("roles")[1..3], [json!(["pci"]), json!(["pci"])]);
    for record in &records[1..5] {
        assert_eq!((&record["client"], &record["address"]), (&json!("dev"), &json!("127.0.0.1")));
        assert_eq!(record["certificate"].as_str().map(str::len), Some(64));
        assert!(record["duration_us"].is_u64() && record["bytes_in"].is_u64(), "{record}");
    }
    let mut found = Vec::new();
    files_with(&place.log(), "canary", &mut found);
    assert_eq!(found, Vec::<PathBuf>::new());
}

/// A kill at any moment: what was answered is on record, and the log goes on and verifies.
#[test]
fn no_answered_decryption_is_without_its_record() {
    let place = Place::new();
    let kills = std::env::var("LEAFSEAL_AUDIT_KILLS").map_or(KILLS, |kills| kills.parse().expect("a number"));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let (mut answered, mut recorded) = (0, 0);
    for number in 0..kills {
        let mut engine = place.engine(&[]);
        let client = Client::new(engine.client_settings()).expect("a client");
        let options = EncryptOptions::new("acme");
        let sealed = runtime.block_on(client.encrypt(&options, &[Scalar::from("x")])).expect("encrypted");
        let sealed: Vec<_> = sealed.iter().map(|value| value.as_scalar()).collect();
        let counted = runtime.block_on(async {
            let decrypt = async |_| {
                let mut answers = 0;
                while client.decrypt(&DecryptOptions::new("acme"), &sealed).await.is_ok() {
                    answers += 1;
                }
                answers
            };
            let killed = async {
                tokio::time::sleep(Duration::from_millis(u64::from(50 + 37 * (number % 7)))).await;
                engine.child.kill().expect("killed");
                0
            };
            let (a, b, c, _) = tokio::join!(decrypt(0), decrypt(1), decrypt(2), killed);
            a + b + c
        });
        engine.child.wait().expect("ended");
        answered += counted;
    }
    for record in place.records() {
        recorded += u32::from(record["method"] == "decrypt" && record["outcome"] == "ok");
    }
    assert!(answered > 0 && recorded >= answered, "{recorded} records of {answered} answers");
}

/// The error of an attempt to decrypt what the same client has encrypted.
fn code_of_a_decryption(engine: &Running) -> Option<ErrorKind> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let client = Client::new(engine.client_settings()).expect("a client");
    let call = async {
        let sealed = client.encrypt(&EncryptOptions::new("acme"), &[Scalar::from("x")]).await.expect("encrypted");
        let sealed: Vec<_> = sealed.iter().map(|value| value.as_scalar()).collect();
        client.decrypt(&DecryptOptions::new("acme"), &sealed).await.err().map(|error| error.kind)
    };
    runtime.block_on(call)
}

/// While the log's disk refuses, decryption is refused and encryption goes on; afterwards both go on, and the log verifies.
#[test]
fn nothing_is_decrypted_while_the_log_takes_no_records() {
    let place = Place::new();
    let engine = place.engine(&["--set", "audit.segment_bytes=1"]);
    let flags = engine.flags();
    let folder = &place.folder;
    let encrypt = [&["encrypt", "--app", "acme", "--select", "$.a"], &flags[..]].concat();
    let sealed = folder.run_with(&encrypt, br#"{"a":"x"}"#).ok();
    let decrypt = [&["decrypt", "--app", "acme"], &flags[..]].concat();
    folder.run_with(&decrypt, &sealed).ok();
    let (journal, aside) = (place.log().join("journal"), place.log().join("aside"));
    fs::rename(&journal, &aside).expect("moved");
    fs::write(&journal, "in the way").expect("written");
    let refused = folder.run_with(&decrypt, &sealed).fails(3);
    assert!(refused.contains("the audit log takes no records"), "{refused}");
    assert!(engine.probe("/readyz").contains("the audit log takes no records"));
    assert_eq!(code_of_a_decryption(&engine), Some(ErrorKind::Engine(ErrorCode::AuditUnavailable)));
    let metrics = engine.probe("/metrics");
    for shown in ["refuses 1\n", "enabled 1\n", "records_total{result=\"lost\"} 0\n"] {
        assert!(metrics.contains(&format!("leafseal_audit_{shown}")), "{shown}: {metrics}");
    }
    // The client has tried more than once.
    assert!(!metrics.contains("leafseal_audit_answers_withheld_total 0\n"), "{metrics}");
    folder.run_with(&encrypt, br#"{"a":"x"}"#).ok();
    fs::remove_file(&journal).expect("removed");
    fs::rename(&aside, &journal).expect("moved");
    until("the engine decrypts again", || folder.run_with(&decrypt, &sealed).code == 0);
    assert!(engine.probe("/readyz").starts_with("HTTP/1.1 200 "));
    let metrics = engine.probe("/metrics");
    assert!(metrics.contains("leafseal_audit_refuses 0\n"), "{metrics}");
    until("all records are durable", || engine.probe("/metrics").contains("leafseal_audit_waiting_bytes 0\n"));
    drop(engine);
    let records = place.records();
    assert!(records.len() >= 6, "{records:?}");
}

/// A log that was changed while the engine was down.
#[test]
fn a_changed_log_stops_the_start_and_is_named() {
    let place = Place::new();
    drop(place.signed());
    let log = place.log();
    let checkpoint = log.join("checkpoint");
    let text = fs::read_to_string(&checkpoint).expect("text");
    let size = text.lines().nth(1).expect("a size").to_owned();
    let bundle = log.join("tile/entries/000.p").join(&size);
    let content = fs::read(&bundle).expect("there");
    fs::write(&bundle, [&content[..], b"\0\0"].concat()).expect("written");
    let shown = log.to_str().expect("text");
    let fault = place.folder.run(&["audit", "verify", shown, "--json"]);
    assert_eq!(fault.code, 1);
    let report: Value = serde_json::from_slice(&fault.stdout).expect("JSON");
    assert!(report["faults"].as_array().is_some_and(|faults| !faults.is_empty()), "{report}");
    fs::write(&checkpoint, text.replacen(&format!("\n{size}\n"), "\n0\n", 1)).expect("written");
    let arguments = ["dev", "--port", "0", "--app", "acme", "--set", "audit.folder=audit", "--set", "server.name=one"];
    let refused = place.folder.run(&arguments).fails(1);
    assert!(refused.contains("was changed") && refused.contains("name another folder"), "{refused}");
}

/// The keystore has the keys of all its engines' logs: one that lies in the folder of another is not taken for that.
#[test]
fn a_log_of_another_engine_is_not_taken_for_this_ones() {
    let place = Place::new();
    drop(place.signed());
    let (folder, own) = (&place.folder, place.log());
    drop(place.engine(&["--set", "server.name=two"]));
    drop(place.engine(&["--set", "server.name=two"]));
    let logs = fs::read_dir(own.parent().expect("a folder")).expect("a folder");
    let other = logs.map(|log| log.expect("an entry").path());
    let other = other.into_iter().find(|log| log.join("checkpoint").exists() && *log != own).expect("of the other");
    let shown = own.to_str().expect("text");
    let key_of = |log: &PathBuf| fs::read_to_string(log.join("key")).expect("a key").trim_end().to_owned();
    let (key, key_of_other) = (key_of(&own), key_of(&other));
    let (origin, origin_of_other) = (key.split('+').next(), key_of_other.split('+').next());
    let (origin, origin_of_other) = (origin.expect("a name"), origin_of_other.expect("a name"));
    let text = folder.run(&["audit", "verify", shown]).text();
    assert!(text.contains(&format!("origin {origin}; checkpoint of ")), "{text}");
    assert!(text.contains(" records, the newest of 20"), "{text}");
    let said = folder.run(&["audit", "show", shown]).stderr;
    assert!(said.contains(&format!("origin {origin}; checkpoint of ")), "{said}");
    for command in ["verify", "show", "export"] {
        let more: &[&str] = if command == "export" { &["--format", "json"] } else { &[] };
        let run = |more_still: &[&str]| folder.run(&[&["audit", command, shown], more, more_still].concat());
        run(&[]).ok();
        run(&["--origin", origin]).ok();
        run(&["--origin", origin, "--key", &key]).ok();
        let aside = own.with_file_name("aside");
        fs::rename(&own, &aside).expect("moved");
        fs::rename(&other, &own).expect("moved");
        assert!(run(&[]).fails(1).contains("another log lies here than the name says"));
        assert!(run(&["--origin", origin]).fails(1).contains(&format!("not of {origin}")));
        assert_eq!(run(&["--key", &key]).code, 1);
        run(&["--origin", origin_of_other]).ok();
        fs::rename(&own, &other).expect("moved");
        fs::rename(&aside, &own).expect("moved");
    }
}

/// Old records are removed with a signed statement, by a command while the engine is down; a host that writes one itself is found.
#[test]
fn a_log_is_pruned_with_its_key_alone() {
    let place = Place::new();
    let engine = place.signed();
    let (folder, log) = (&place.folder, place.log());
    let shown = log.to_str().expect("text");
    let prune = ["audit", "prune", shown, "--keep", "10"];
    let refused = folder.run(&prune).fails(1);
    assert!(refused.contains("another process writes"), "{refused}");
    let client = Client::new(engine.client_settings()).expect("a client");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        for _ in 0..600 {
            client.encrypt(&EncryptOptions::new("acme"), &[Scalar::from("x")]).await.expect("encrypted");
        }
    });
    drop(engine);
    drop(place.signed());
    let text = folder.run(&prune).text();
    assert!(text.contains("records before 512 were removed"), "{text}");
    assert!(folder.run(&prune).text().contains("nothing to remove: records from 512 on are there"));
    let verified = folder.run(&["audit", "verify", shown]).text();
    assert!(verified.contains("from number 512") && verified.contains("pruned 1"), "{verified}");
    assert_eq!(folder.run(&["audit", "verify", shown, "--minimum", "511"]).code, 1);
    assert!(!log.join("tile/entries/001").exists());
    // A start goes on.
    drop(place.engine(&[]));
    fs::write(log.join("minimum"), "600\n").expect("written");
    let refused = folder.run(&["audit", "show", shown]).fails(1);
    assert!(refused.contains("minimum: "), "{refused}");
    assert_eq!(folder.run(&["audit", "verify", shown]).code, 1);
}

/// A record goes to others with its number, and is proved from what they have, without the log and the keystore.
#[test]
fn records_are_exported_and_proved() {
    let place = Place::new();
    drop(place.signed());
    let engine = place.signed();
    let (folder, log) = (&place.folder, place.log());
    let shown = log.to_str().expect("text");
    let lines = |format: &str, more: &[&str]| -> Vec<Value> {
        let text = folder.run(&[&["audit", "export", shown, "--format", format], more].concat()).text();
        text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
    };
    let plain = lines("json", &["--kind", "start"]);
    assert_eq!((plain.len(), &plain[1]["record"]["kind"]), (2, &json!("start")));
    let (origin, index) = (plain[1]["origin"].as_str().expect("text"), plain[1]["index"].to_string());
    let place_of = |index: &str| index.parse::<usize>().expect("a number");
    assert_eq!(lines("ocsf", &[])[place_of(&index)]["metadata"]["uid"], format!("{origin}/{index}"));
    assert_eq!(lines("ecs", &[])[place_of(&index)]["event"]["id"], format!("{origin}/{index}"));
    let (file, key) = (log.join("../record.tlog-proof"), fs::read_to_string(log.join("key")).expect("a key"));
    let proof = folder.run(&["audit", "prove", shown, &index]).text();
    fs::write(&file, &proof).expect("written");
    let check = ["audit", "check", file.to_str().expect("text"), "--key", key.trim_end()];
    let record: Value = serde_json::from_str(&folder.run(&check).text()).expect("JSON");
    assert_eq!(record, plain[1]["record"]);
    fs::write(&file, proof.replacen(&format!("index {index}"), "index 0", 1)).expect("written");
    assert!(folder.run(&check).fails(1).contains("the record is not in the log"));
    folder.run(&["audit", "prove", shown, "1000000"]).fails(1);
    drop(engine);
}

/// Peers that prove nothing, as many as the listeners accept: all are counted, and the log grows by no more than their share.
#[test]
fn strangers_cannot_fill_the_log() {
    const SHARE: usize = 16 << 10;
    let seconds = std::env::var("LEAFSEAL_FLOOD_SECONDS").map_or(FLOOD_SECONDS, |time| time.parse().expect("a number"));
    let place = Place::new();
    let mut engine = place.engine(&["--no-relay"]);
    let addresses = [engine.address().to_owned(), engine.ready["api"].as_str().expect("an API").to_owned()];
    let until = Instant::now() + Duration::from_secs(seconds);
    let attempts: u64 = std::thread::scope(|scope| {
        let flood = move |address: &str| {
            let mut attempts = 0;
            while Instant::now() < until {
                let Ok(mut socket) = TcpStream::connect(address) else { continue };
                let _ = socket.write_all(b"GET / HTTP/1.1\r\n\r\n").and_then(|()| socket.read_to_end(&mut Vec::new()));
                attempts += 1;
            }
            attempts
        };
        let threads: Vec<_> =
            addresses.iter().cycle().take(4).map(|address| scope.spawn(move || flood(address))).collect();
        threads.into_iter().map(|thread| thread.join().expect("no panic")).sum()
    });
    let pid = rustix::process::Pid::from_child(&engine.child);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).expect("sent");
    engine.child.wait().expect("ended");
    let records = place.records();
    let strangers: Vec<_> = records.iter().filter(|record| record["kind"] == "strangers").collect();
    let counted: u64 = strangers.iter().map(|record| record["requests"].as_u64().expect("a number")).sum();
    let bytes: usize = strangers.iter().map(|record| record.to_string().len()).sum();
    println!("{attempts} attempts in {seconds} s, {counted} counted in {} records of {bytes} bytes", strangers.len());
    assert!(counted > 0 && counted <= attempts, "{counted} of {attempts}");
    let windows = usize::try_from(seconds / 60 + 1).expect("few");
    assert!(bytes <= windows * SHARE, "{bytes} bytes in {windows} windows");
    assert!(records.len() <= windows * 64 + 2 * place.starts.get(), "{} records", records.len());
}

/// Each engine's log has every change of the keystore, once and in order, whatever was running when it was made.
#[test]
fn changes_of_the_keystore_are_in_the_log_of_each_engine() {
    let place = Place::new();
    let folder = &place.folder;
    let numbers = |records: &[Value]| -> Vec<u64> {
        let changes = records.iter().filter(|record| record["kind"] == "change");
        changes.map(|change| change["number"].as_u64().expect("a number")).collect()
    };
    let engine = place.engine(&[]);
    let other = folder.engine(&["--set", "audit.folder=other", "--set", "server.name=two"]);
    folder.run(&["keys", "rotate", "acme"]).ok();
    let shown = |log: &str| {
        let logs = fs::read_dir(folder.path(".leafseal").join(log)).expect("a folder");
        let logs: Vec<_> = logs.map(|log| log.expect("an entry").path()).collect();
        let shown = folder.run(&["audit", "show", logs[0].to_str().expect("text")]);
        String::from_utf8(shown.stdout).expect("text")
    };
    until("the other engine has it", || shown("other").contains("keys rotate"));
    let theirs: Vec<Value> = shown("other").lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    drop((engine, other));
    folder.run(&["keys", "rotate", "acme"]).ok();
    let engine = place.engine(&[]);
    folder.run(&["api-keys", "create", "acme", "--allow", "encrypt"]).ok();
    drop(engine);
    // What a kill leaves unknown is found again, and not recorded again.
    let carried = place.log().join("carried");
    assert!(fs::read_to_string(&carried).expect("there").split(' ').count() == 4);
    fs::remove_file(&carried).expect("removed");
    let records = place.all_records();
    let ours = numbers(&records);
    assert_eq!(ours, (1..=ours.len() as u64).collect::<Vec<_>>(), "{records:?}");
    let theirs = numbers(&theirs);
    assert_eq!(theirs, (1..=theirs.len() as u64).collect::<Vec<_>>());
    let rotations: Vec<_> = records.iter().filter(|record| record["command"] == "keys rotate").collect();
    assert_eq!(rotations.len(), 2, "{records:?}");
    for (rotation, version) in rotations.into_iter().zip(2..) {
        assert_eq!((&rotation["change"], &rotation["app"]), (&json!("add-version"), &json!("acme")));
        assert_eq!(rotation["version"], version);
        assert!(rotation["uid"].is_string() && rotation["host"].is_string(), "{rotation}");
    }
}

/// A folder that is lost, and a second engine of the name: each log has a key of its own, and says what it is instead of.
#[test]
fn no_two_logs_have_one_key() {
    let place = Place::new();
    drop(place.signed());
    let first = place.log();
    let key = |log: &std::path::Path| fs::read_to_string(log.join("key")).expect("there");
    // Under its own name, which its origin has.
    let kept = place.folder.path("kept").join(first.file_name().expect("a name"));
    fs::create_dir(place.folder.path("kept")).expect("a folder");
    fs::rename(&first, &kept).expect("moved");
    drop(place.engine(&[]));
    let second = place.log();
    assert_ne!(key(&second), key(&kept));
    // The old one still verifies, by the key that its store has for it.
    for log in [&kept, &second] {
        place.folder.run(&["audit", "verify", log.to_str().expect("text")]).ok();
    }
    let show = |log: &std::path::Path| -> Vec<Value> {
        let shown = place.folder.run(&["audit", "show", log.to_str().expect("text")]).text();
        shown.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
    };
    let id = |log: &str| log.rsplit('-').next().expect("an id").to_owned();
    let name = |log: &std::path::Path| log.file_name().expect("a name").to_str().expect("text").to_owned();
    let starts = |records: Vec<Value>| records.into_iter().find(|record| record["kind"] == "start").expect("one");
    assert_eq!(starts(show(&second))["instead_of"], id(&name(&first)));
    // Another engine of the name, with another folder, while one runs.
    let engine = place.engine(&[]);
    let namesake = place.folder.engine(&["--set", "audit.folder=elsewhere", "--set", "server.name=one"]);
    until("the first engine notices", || show(&second).iter().any(|record| record["kind"] == "namesake"));
    let shows = |log: &std::path::Path| place.folder.run(&["audit", "show", log.to_str().expect("text")]).code == 0;
    let others = || fs::read_dir(place.folder.path(".leafseal/elsewhere")).expect("a folder");
    until("the other log has a checkpoint", || others().all(|log| shows(&log.expect("an entry").path())));
    drop((engine, namesake));
    let others = fs::read_dir(place.folder.path(".leafseal/elsewhere")).expect("a folder");
    let others: Vec<_> = others.map(|log| log.expect("an entry").path()).collect();
    assert_eq!(others.len(), 1);
    assert_ne!(key(&others[0]), key(&second));
    assert_eq!(starts(show(&others[0]))["instead_of"], id(&name(&second)));
}
