//! Engines that start before anything opens their keystore, and the people who open it.

use std::collections::BTreeSet;
use std::process::Stdio;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use leafseal_client::{Client, ClientSettings, ClientTls};
use leafseal_engine::admin::{KeyShare, ShamirKey};
use leafseal_engine::system_random;
use leafseal_net::tls::inspect;
use serde_json::Value;

use crate::common::{CommandResult, Running, TestFolder, until, with};
use crate::memory::{Secrets, core_of, found, tls_key, writes_files};
use crate::reload::Log;

const PASSPHRASE: &str = "correct horse battery staple";
/// `leafseal unseal` with a file.
const UNSEAL: [&str; 4] = ["unseal", "--json", "--file", "given.txt"];

/// A store with slots for the root key, a passphrase and two of three shares; the clients alice, bob and carol.
struct Sealed {
    folder: TestFolder,
    shares: Vec<String>,
}

impl Sealed {
    fn new() -> Self {
        let folder = TestFolder::with_app();
        folder.run(&["certs", "init", "--name", "localhost", "--ip", "127.0.0.1"]).ok();
        for client in ["alice", "bob", "carol"] {
            folder.run(&["certs", "issue", client, "--app", "acme", "--allow", "encrypt"]).ok();
        }
        folder.run_with(&["slot", "add", "--passphrase", "-", "--argon2-memory", "1"], PASSPHRASE.as_bytes()).ok();
        let shares = shares(&folder);
        let sealed = Self { folder, shares };
        sealed.take_root_key();
        sealed
    }

    fn take_root_key(&self) {
        std::fs::rename(self.folder.path(".leafseal/root.key"), self.folder.path("kept.key")).expect("moved");
    }

    fn give_root_key(&self) {
        std::fs::rename(self.folder.path("kept.key"), self.folder.path(".leafseal/root.key")).expect("moved");
    }

    /// The fingerprint of a client's certificate.
    fn fingerprint(&self, client: &str) -> String {
        let pem = self.folder.read(&format!(".leafseal/certs/{client}.pem"));
        hex::encode(inspect(&pem).expect("a certificate")[0].sha256)
    }

    /// Starts a sealed engine that alice and carol may unseal.
    fn engine(&self, more: &[&str]) -> (Running, Log) {
        self.engine_with_dumps(more, "without-keys")
    }

    fn engine_with_dumps(&self, more: &[&str], dumps: &str) -> (Running, Log) {
        let unsealers = format!("server.unsealers={} {}", self.fingerprint("alice"), self.fingerprint("carol"));
        let arguments = ["serve", "--sealed", "--json", "--address", "127.0.0.1:0", "--set", "server.drain_delay=0s"];
        let settings = ["--set", "log.format=json", "--set", &unsealers];
        let arguments = [&arguments[..], &settings, more].concat();
        let mut command = self.folder.command(&arguments);
        let mut engine = Running::start(command.env("LEAFSEAL_CORE_DUMPS", dumps).stderr(Stdio::piped()));
        let log = Log::of(&mut engine);
        (engine, log)
    }

    fn unseal(&self, engine: &Running, client: &str, secret: &str) -> CommandResult {
        self.folder.write("given.txt", secret);
        self.folder.run(&with(&UNSEAL, &["--connect", engine.address(), "--client", client]))
    }

    fn encrypt(&self, engine: &Running, client: &str) -> CommandResult {
        let arguments = ["encrypt", "--app", "acme", "--connect", engine.address(), "--client", client];
        self.folder.run_with(&arguments, b"{\"a\": 1}")
    }
}

/// Adds a slot of which two of three shares are needed, and returns these.
fn shares(folder: &TestFolder) -> Vec<String> {
    let added = folder.run(&["slot", "add", "--shares", "2/3", "--json"]).ok();
    let added: Value = serde_json::from_slice(&added).expect("JSON");
    added["shares"].as_array().expect("shares").iter().map(|share| share.as_str().expect("text").to_owned()).collect()
}

/// The status that `unseal` printed, and how many shares are missing.
fn status(result: CommandResult) -> (String, u64) {
    let answer: Value = serde_json::from_slice(&result.ok()).expect("JSON");
    (answer["status"].as_str().expect("a word").to_owned(), answer["missing"].as_u64().expect("a number"))
}

fn is_sealed(engine: &Running) -> bool {
    engine.probe("/metrics").contains("\nleafseal_keystore_sealed 1\n")
}

fn is_ready(engine: &Running) -> bool {
    engine.probe("/readyz").starts_with("HTTP/1.1 200")
}

/// The address of a witness is in use when the keystore opens: that is said, and the engine listens there as soon as it can.
#[test]
fn a_witness_that_cannot_listen_is_tried_again() {
    let sealed = Sealed::new();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = taken.local_addr().expect("an address");
    let witness = format!("audit.witness_address={address}");
    let (engine, log) = sealed.engine(&["--set", "audit.folder=audit", "--set", &witness]);
    assert_eq!(status(sealed.unseal(&engine, "carol", PASSPHRASE)), ("unsealed".to_owned(), 0));
    log.wait_for("no log is cosigned; it is tried again", 1);
    assert!(is_ready(&engine) && engine.probe("/metrics").contains("leafseal_audit_forwarding_stopped 1\n"));
    drop(taken);
    log.wait_for("witness started", 1);
    assert!(engine.probe("/metrics").contains("leafseal_audit_forwarding_stopped 0\n"));
    std::net::TcpStream::connect(address).expect("connected");
    assert_eq!(log.about("no log is cosigned").len(), 1);
}

#[test]
fn a_passphrase_opens_the_keystore_and_nothing_else_does() {
    let sealed = Sealed::new();
    let other_share = shares(&TestFolder::with_app()).remove(0);
    assert!(sealed.folder.run(&["serve"]).fails(3).contains("no root key"));
    let (engine, log) = sealed.engine(&["--set", "server.unseal_attempts_max=3"]);

    let ready = engine.probe("/readyz");
    assert!(
        ready.starts_with("HTTP/1.1 503") && ready.contains("the keystore is sealed: run leafseal unseal"),
        "{ready}"
    );
    assert!(is_sealed(&engine) && engine.probe("/metrics").contains("\nleafseal_ready 0\n"));
    let mut answers = Vec::new();
    for client in ["alice", "bob"] {
        answers.push(sealed.encrypt(&engine, client).fails(3));
    }
    answers.push(sealed.unseal(&engine, "bob", PASSPHRASE).fails(3));
    assert!(answers.iter().all(|answer| answer.contains("the keystore is sealed: run leafseal unseal")), "{answers:?}");

    let wrong = "incorrect horse battery staple";
    answers.push(sealed.unseal(&engine, "alice", wrong).fails(1));
    assert!(answers[3].contains("forbidden") && answers[3].contains("does not open the slot"), "{answers:?}");
    answers.push(sealed.unseal(&engine, "alice", &other_share).fails(1));
    assert!(answers[4].contains("which this keystore does not have"), "{answers:?}");
    answers.push(sealed.unseal(&engine, "alice", "too short").fails(2));
    answers.push(sealed.unseal(&engine, "alice", PASSPHRASE).fails(1));
    assert!(answers[6].contains("too many attempts"), "{answers:?}");
    assert!(is_sealed(&engine) && !is_ready(&engine));

    assert_eq!(status(sealed.unseal(&engine, "carol", PASSPHRASE)), ("unsealed".to_owned(), 0));
    until("the engine is ready", || is_ready(&engine));
    assert!(!is_sealed(&engine));
    until("requests pass", || sealed.encrypt(&engine, "bob").code == 0);
    sealed.encrypt(&engine, "alice").ok();
    assert_eq!(status(sealed.unseal(&engine, "carol", PASSPHRASE)), ("open".to_owned(), 0));
    answers.push(sealed.unseal(&engine, "bob", PASSPHRASE).fails(1));
    assert!(answers[7].contains("server.unsealers does not name"), "{answers:?}");

    log.wait_for("a client brought what opens the keystore", 1);
    let output = format!("{answers:?} {} {}", log.text(), engine.probe("/metrics"));
    for secret in [PASSPHRASE, wrong, &other_share] {
        assert!(!output.contains(secret), "{output}");
    }
}

#[test]
fn two_people_bring_a_share_each_and_a_restart_is_sealed_again() {
    let sealed = Sealed::new();
    let (engine, _log) = sealed.engine(&[]);
    let [first, second, _] = &sealed.shares[..] else { panic!("three shares") };
    assert_eq!(status(sealed.unseal(&engine, "alice", first)), ("sealed".to_owned(), 1));
    assert_eq!(status(sealed.unseal(&engine, "carol", first)), ("sealed".to_owned(), 1), "the same one again");
    assert!(is_sealed(&engine));
    assert_eq!(status(sealed.unseal(&engine, "carol", second)), ("unsealed".to_owned(), 0));
    until("requests pass", || sealed.encrypt(&engine, "bob").code == 0);
    drop(engine);

    let (engine, log) = sealed.engine(&["--set", "server.unseal_shares_age_max=1ms"]);
    assert!(is_sealed(&engine));
    assert_eq!(status(sealed.unseal(&engine, "alice", first)), ("sealed".to_owned(), 1));
    log.wait_for("forgot the shares", 1);
    assert_eq!(status(sealed.unseal(&engine, "carol", second)), ("sealed".to_owned(), 1));
    assert_eq!(status(sealed.unseal(&engine, "carol", &format!("{first}\n{second}\n"))), ("unsealed".to_owned(), 0));
}

#[test]
fn an_engine_whose_root_was_replaced_is_unsealed_again() {
    let sealed = Sealed::new();
    let (engine, _log) = sealed.engine(&[]);
    assert_eq!(status(sealed.unseal(&engine, "alice", PASSPHRASE)), ("unsealed".to_owned(), 0));
    until("the engine is ready", || is_ready(&engine));
    sealed.give_root_key();
    sealed.folder.run(&["slot", "rotate-root", "--compromised"]).ok();
    until("the engine is sealed", || is_sealed(&engine) && !is_ready(&engine));
    assert_eq!(status(sealed.unseal(&engine, "alice", PASSPHRASE)), ("unsealed".to_owned(), 0));
    until("the engine is ready again", || is_ready(&engine) && sealed.encrypt(&engine, "bob").code == 0);
}

#[test]
fn a_root_key_that_fits_needs_nobody() {
    let sealed = Sealed::new();
    sealed.give_root_key();
    let (engine, _log) = sealed.engine(&[]);
    assert!(is_ready(&engine) && !is_sealed(&engine));
}

/// What a core of an engine contains after clients have brought these secrets.
fn found_after(dumps: &str, brought: impl Fn(&Sealed) -> Vec<(&'static str, String)>) -> BTreeSet<String> {
    let sealed = Sealed::new();
    let (mut engine, _log) = sealed.engine_with_dumps(&[], dumps);
    for (client, secret) in brought(&sealed) {
        status(sealed.unseal(&engine, client, &secret));
    }
    let base64 = sealed.shares[0].split_once(':').expect("base64").1;
    let share = STANDARD.decode(base64).expect("base64");
    let halves = |text: &[u8]| text.chunks_exact(text.len() / 2).map(<[u8]>::to_vec).collect::<Vec<_>>();
    let secrets = Secrets::from([
        ("passphrase".to_owned(), halves(PASSPHRASE.as_bytes())),
        // Its values are between the slot, which is public, and the checksum.
        ("share".to_owned(), [halves(&base64.as_bytes()[16..]), halves(&share[10..42])].concat()),
        ("server.key".to_owned(), tls_key(&sealed.folder, "server.key")),
    ]);
    found(&core_of(&mut engine, &sealed.folder), &secrets)
}

#[test]
fn a_core_of_an_unsealed_engine_contains_nothing_that_was_brought() {
    if writes_files() {
        let both = |sealed: &Sealed| vec![("alice", sealed.shares[0].clone()), ("carol", PASSPHRASE.to_owned())];
        assert_eq!(found_after("without-keys", both), BTreeSet::new());
    }
}

#[test]
fn a_core_of_an_engine_that_waits_for_a_share_does_not_contain_the_other() {
    if writes_files() {
        let one = |sealed: &Sealed| vec![("alice", sealed.shares[0].clone())];
        assert_eq!(found_after("without-keys", one), BTreeSet::new());
        // The search finds what is in ordinary memory.
        assert_eq!(found_after("whole", one), BTreeSet::from(["server.key".to_owned(), "share".to_owned()]));
    }
}

/// The method `health`, as a client of an engine calls it.
fn health(sealed: &Sealed, engine: &Running, client: &str) -> String {
    let file = |name: &str| sealed.folder.path(&format!(".leafseal/certs/{name}"));
    let own = |ending: &str| file(&format!("{client}.{ending}"));
    let tls = ClientTls::from_files(&file("ca.pem"), &own("pem"), &own("key")).expect("readable");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let settings = ClientSettings::new(engine.address(), tls);
        Client::connect(settings).await.expect("connected").health().await.expect("answered")
    })
}

#[test]
fn health_says_that_the_engine_is_sealed() {
    let sealed = Sealed::new();
    let (engine, _log) = sealed.engine(&[]);
    assert_eq!(health(&sealed, &engine, "alice"), "sealed");
    assert_eq!(status(sealed.unseal(&engine, "alice", PASSPHRASE)), ("unsealed".to_owned(), 0));
    until("the engine is ready", || is_ready(&engine));
    assert_eq!(health(&sealed, &engine, "alice"), "ok");
}

/// The threads over the store wait while it is not open, however long that is, and work afterwards.
#[test]
fn after_a_sealed_start_keys_are_deleted_rotated_and_scanned() {
    let sealed = Sealed::new();
    sealed.give_root_key();
    for app in ["old", "aged"] {
        sealed.folder.run(&["keys", "create", app]).ok();
    }
    sealed.folder.run(&["keys", "rotate-after", "aged", "1s"]).ok();
    sealed.folder.run(&["keys", "delete", "old", "--delay", "1s", "--confirm", "old"]).ok();
    sealed.take_root_key();
    let (engine, log) = sealed.engine(&["--set", "engine.store_upkeep_interval=100ms"]);
    // Their first steps come a second after the start.
    std::thread::sleep(std::time::Duration::from_millis(2_500));
    assert_eq!(status(sealed.unseal(&engine, "alice", PASSPHRASE)), ("unsealed".to_owned(), 0));
    log.wait_for("deleted an app with its keys", 1);
    log.wait_for("rotated the keys of an app", 1);
    until("the store is scanned", || !engine.probe("/metrics").contains("\nleafseal_keystore_scans_total 0\n"));
}

/// What opens the keystore without a person comes later: as a service that was down when the engine started.
#[test]
fn an_engine_opens_by_itself_once_it_can() {
    let sealed = Sealed::new();
    let (engine, _log) = sealed.engine(&[]);
    assert!(is_sealed(&engine));
    sealed.give_root_key();
    until("the engine is ready", || is_ready(&engine) && !is_sealed(&engine));
}

/// A client that may unseal and brings shares that it has made up is in nobody's way, and the log names it.
#[test]
fn made_up_shares_keep_nobody_from_opening_the_keystore() {
    let sealed = Sealed::new();
    let (engine, log) = sealed.engine(&[]);
    let [first, second, _] = &sealed.shares[..] else { panic!("three shares") };
    let slot = KeyShare::from_text(first).expect("a share").slot().clone();
    let made_up = |sizes| {
        let key = ShamirKey::generate(sizes, &mut system_random()).expect("in bounds");
        key.shares(&slot, sizes, &mut system_random()).remove(0).to_text()
    };
    let refused = sealed.unseal(&engine, "carol", &made_up((64, 64))).fails(2);
    assert!(refused.contains("as the keystore has it"), "{refused}");
    assert_eq!(status(sealed.unseal(&engine, "carol", &made_up((2, 3)))), ("sealed".to_owned(), 1));
    assert_eq!(status(sealed.unseal(&engine, "alice", first)), ("sealed".to_owned(), 1), "both have the number 1");
    assert_eq!(status(sealed.unseal(&engine, "alice", second)), ("unsealed".to_owned(), 0));
    log.wait_for("do not fit those that opened the keystore", 1);
    until("the engine is ready", || is_ready(&engine));
}

/// The store and the log are all that it takes: no engine runs when the record is verified.
#[test]
fn what_happened_while_the_keystore_was_sealed_is_signed_and_verified_from_the_log() {
    let sealed = Sealed::new();
    for format in ["json", "logfmt"] {
        let (mut engine, log) =
            sealed.engine(&["--set", &format!("log.format={format}"), "--set", "server.name=engine-0"]);
        sealed.encrypt(&engine, "bob").fails(3);
        sealed.unseal(&engine, "alice", "incorrect horse battery staple").fails(1);
        let [first, second, _] = &sealed.shares[..] else { panic!("three shares") };
        assert_eq!(status(sealed.unseal(&engine, "alice", first)), ("sealed".to_owned(), 1));
        assert_eq!(status(sealed.unseal(&engine, "carol", second)), ("unsealed".to_owned(), 0));
        until("the record is logged", || log.lines().contains("what happened while the keystore was sealed"));
        engine.child.kill().expect("killed");
        let text = log.lines();
        sealed.give_root_key();
        let check = |text: &str| {
            sealed.folder.write("engine.log", text);
            sealed.folder.run(&["store", "check", "--verify-record", "engine.log", "--json"])
        };
        let report: Value = serde_json::from_slice(&check(&text).ok()).expect("JSON");
        let [record] = &report["records"]["verified"].as_array().expect("a list")[..] else { panic!("{report}") };
        assert_eq!(
            (&record["engine"], &record["opened_by"]["client"]),
            (&"engine-0".into(), &"carol".into()),
            "{report}"
        );
        assert_eq!(record["opened_by"]["certificate_sha256"], sealed.fingerprint("carol"));
        let events: Vec<[&str; 3]> = record["events"]
            .as_array()
            .expect("a list")
            .iter()
            .map(|event| ["event", "client", "outcome"].map(|name| event[name].as_str().unwrap_or_default()))
            .collect();
        assert_eq!(events[0], ["sealed", "bob", ""], "{events:?}");
        let rest = [["refused", "alice", ""], ["unseal", "alice", "sealed"], ["unseal", "carol", "unsealed"]];
        assert_eq!(events[events.len() - 3..], rest, "{events:?}");
        let plain = sealed.folder.run(&["store", "check", "--verify-record", "engine.log"]).ok();
        assert!(String::from_utf8_lossy(&plain).contains("by carol"), "{plain:?}");
        for secret in [PASSPHRASE, first, second] {
            assert!(!text.contains(secret));
        }
        for (log, fault) in [
            (text.replace("bob", "dan"), "changed after the engine engine-0 has signed it"),
            ("nothing".to_owned(), "the log contains no record"),
        ] {
            let refused = check(&log);
            assert_eq!(refused.code, 1);
            assert!(refused.stderr.contains(fault), "{}", refused.stderr);
        }
        sealed.take_root_key();
    }
}
