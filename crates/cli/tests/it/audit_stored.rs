//! The audit log of an engine without a disk that outlives it: its records are durable in the keystore's PostgreSQL.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use leafseal_client::{
    Client, ClientSettings, ClientTls, DecryptOptions, EncryptOptions, ErrorCode, ErrorKind, Scalar,
};
use leafseal_testkit::postgres::{Durability, PostgresServer};
use serde_json::Value;

use crate::common::{Running, until};
use crate::shared_store::Place;

/// Kills in an ordinary run; `LEAFSEAL_AUDIT_KILLS` says another number.
const KILLS: u32 = 3;

const SETTINGS: [&str; 10] = [
    "--set",
    "audit.folder=audit",
    "--set",
    "audit.durable=keystore",
    "--set",
    "server.name=one",
    "--set",
    "audit.checkpoint_interval=10ms",
    "--set",
    "audit.waiting_bytes_max=64KiB",
];

fn folder(place: &Place<'_>) -> PathBuf {
    place.folder.path(".leafseal/audit")
}

fn log(place: &Place<'_>) -> PathBuf {
    let logs = fs::read_dir(folder(place)).expect("a folder");
    let mut logs = logs.map(|log| log.expect("an entry").path()).filter(|path| path.join("checkpoint").exists());
    let log = logs.next().expect("a log");
    assert_eq!(logs.next(), None);
    log
}

fn records(place: &Place<'_>, more: &[&str]) -> Vec<Value> {
    let log = log(place);
    let log = log.to_str().expect("text");
    let verified = place.run(&[&["audit", "verify", log], more].concat());
    assert_eq!(verified.code, 0, "{}", String::from_utf8_lossy(&verified.stdout));
    let shown = place.run(&["audit", "show", log]).text();
    shown.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

fn client(place: &Place<'_>, engine: &Running) -> Client {
    let path = |name: &str| place.folder.path(&format!(".leafseal/certs/{name}"));
    let tls = ClientTls::from_files(&path("ca.pem"), &path("shop.pem"), &path("shop.key")).expect("files");
    Client::new(ClientSettings::new(engine.address(), tls)).expect("a client")
}

/// A kill at any moment, and all that was on the machine is gone: what was answered is on record, in the log of before.
#[test]
fn a_machine_that_is_lost_loses_no_record() {
    let place = Place::new().with_client();
    let kills = std::env::var("LEAFSEAL_AUDIT_KILLS").map_or(KILLS, |kills| kills.parse().expect("a number"));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let mut answered = 0;
    for number in 0..kills {
        let mut engine = place.serve(&SETTINGS);
        let client = client(&place, &engine);
        let sealed = runtime.block_on(client.encrypt(&EncryptOptions::new("acme"), &[Scalar::from("x")]));
        let sealed = sealed.expect("encrypted");
        let sealed: Vec<_> = sealed.iter().map(|value| value.as_scalar()).collect();
        let counted = runtime.block_on(async {
            let decrypt = async || {
                let mut answers = 0;
                while client.decrypt(&DecryptOptions::new("acme"), &sealed).await.is_ok() {
                    answers += 1;
                }
                answers
            };
            let killed = async {
                tokio::time::sleep(Duration::from_millis(u64::from(200 + 67 * (number % 7)))).await;
                engine.child.kill().expect("killed");
                0
            };
            let (a, b, c, _) = tokio::join!(decrypt(), decrypt(), decrypt(), killed);
            a + b + c
        });
        engine.child.wait().expect("ended");
        answered += counted;
        let kept = place.folder.path("kept");
        fs::copy(log(&place).join("checkpoint"), &kept).expect("copied");
        fs::remove_dir_all(folder(&place)).expect("removed");
        let engine = place.serve(&SETTINGS);
        // While it runs: an end at any moment may leave tiles of a checkpoint that is not there yet, which the next start writes.
        let records = records(&place, &["--kept", kept.to_str().expect("text")]);
        drop(engine);
        let recorded = records.iter().filter(|record| record["method"] == "decrypt" && record["outcome"] == "ok");
        let recorded = recorded.count();
        assert!(answered > 0 && recorded >= answered, "{recorded} records of {answered} answers");
    }
}

/// While the database is away, decryption is refused and encryption goes on; what does not fit meanwhile is counted in a gap record.
#[test]
fn a_database_that_is_away_refuses_decryption_alone() {
    let server = PostgresServer::start(Durability::Fast, &[]);
    let place = Place::on(&server).with_client();
    let engine = place.serve(&[&SETTINGS[..], &["--set", "engine.store_silence_max=1h"]].concat());
    let client = client(&place, &engine);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let seal = || runtime.block_on(client.encrypt(&EncryptOptions::new("acme"), &[Scalar::from("x")])).expect("sealed");
    let open = || {
        let sealed = seal();
        let sealed: Vec<_> = sealed.iter().map(|value| value.as_scalar()).collect();
        runtime.block_on(client.decrypt(&DecryptOptions::new("acme"), &sealed)).err().map(|error| error.kind)
    };
    assert_eq!(open(), None);
    server.kill();
    until("the log takes no records", || open() == Some(ErrorKind::Engine(ErrorCode::AuditUnavailable)));
    assert!(engine.probe("/readyz").contains("the audit log takes no records"));
    // More than may wait.
    (0..400).for_each(|_| drop(seal()));
    assert!(!engine.probe("/metrics").contains("leafseal_audit_records_total{result=\"lost\"} 0\n"));
    server.start_again();
    until("the engine decrypts again", || open().is_none());
    drop(engine);
    fs::remove_dir_all(folder(&place)).expect("removed");
    drop(place.serve(&SETTINGS));
    let records = records(&place, &[]);
    let gaps: Vec<_> = records.iter().filter(|record| record["kind"] == "gap").collect();
    assert!(!gaps.is_empty() && gaps.iter().all(|gap| gap["records"].as_u64() > Some(0)), "{gaps:?}");
}

/// A database that does not answer holds an answer no longer than its limits.
#[test]
fn a_database_that_hangs_refuses_decryption_alone() {
    let place = Place::new().with_client();
    let engine = place.serve(&[&SETTINGS[..], &["--set", "keystore.busy_timeout=200ms"]].concat());
    let client = client(&place, &engine);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let open = || {
        runtime.block_on(async {
            let sealed = client.encrypt(&EncryptOptions::new("acme"), &[Scalar::from("x")]).await.expect("sealed");
            let sealed: Vec<_> = sealed.iter().map(|value| value.as_scalar()).collect();
            client.decrypt(&DecryptOptions::new("acme"), &sealed).await.err().map(|error| error.kind)
        })
    };
    assert_eq!(open(), None);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let held = "BEGIN; LOCK TABLE leafseal_audit.frame IN ACCESS EXCLUSIVE MODE; SELECT pg_sleep(600); COMMIT";
            place.server.try_sql(&place.database, held)
        });
        until("the log takes no records", || open() == Some(ErrorKind::Engine(ErrorCode::AuditUnavailable)));
        place.server.end_connections(&place.database);
    });
    until("the engine decrypts again", || open().is_none());
}

/// The older of two engines with one name writes no more, and one with a keystore in a file cannot keep records there.
#[test]
fn one_engine_writes_a_log() {
    let mut place = Place::new().with_client();
    let first = place.serve(&SETTINGS);
    let client = client(&place, &first);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let open = || {
        runtime.block_on(async {
            let sealed = client.encrypt(&EncryptOptions::new("acme"), &[Scalar::from("x")]).await.expect("sealed");
            let sealed: Vec<_> = sealed.iter().map(|value| value.as_scalar()).collect();
            client.decrypt(&DecryptOptions::new("acme"), &sealed).await.err().map(|error| error.kind)
        })
    };
    assert_eq!(open(), None);
    // On another machine.
    let elsewhere = SETTINGS.map(|setting| setting.replace("=audit", "=elsewhere"));
    let elsewhere = elsewhere.each_ref().map(String::as_str);
    let second = place.serve(&elsewhere);
    until("the older one writes no more", || open() == Some(ErrorKind::Engine(ErrorCode::AuditUnavailable)));
    assert!(first.probe("/readyz").contains("another engine has taken over the audit log"));
    assert!(second.probe("/readyz").starts_with("HTTP/1.1 200 "));
    drop((first, second));
    place.use_file();
    place.run(&["keys", "create", "acme"]).ok();
    let refused = place.run(&[&["serve", "--address", "127.0.0.1:0"][..], &SETTINGS].concat()).fails(1);
    assert!(refused.contains("audit.durable keystore needs a keystore on PostgreSQL"), "{refused}");
}
