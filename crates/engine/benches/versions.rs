//! The cost of finding the key version of values: of an old version among many, and of values that no version opens. Each value has an
//! ephemeral key of its own unless the row says otherwise; the engine keeps no keys across requests.
//!
//! Prints a table: milliseconds of CPU time of one request, and its key agreements.

use std::collections::BTreeSet;

use leafseal_engine::admin::{AcceptedSchemes, AppName, ClientName, NewClient, Operation, RoleName, Roles};
use leafseal_engine::{Caller, DecryptOptions, EncryptOptions, Engine, Keying, OnFailure, Progress, Scheme, Settings};
use leafseal_testkit::ScratchStore;
use rustix::time::{ClockId, clock_gettime};

const VERSION_COUNTS: [usize; 3] = [1, 30, 256];
const VALUES: usize = 500;
const COPIES: usize = 2_000;
/// Versions whose values come in turn in one row.
const IN_TURN: usize = 9;
/// Runs of each row, of which the fastest counts.
const RUNS: usize = 5;

/// Documents to decrypt, encrypted while the app had one version.
struct Documents {
    own: String,
    foreign: String,
    foreign_copies: String,
    forbidden_copies: String,
    symmetric: String,
    symmetric_foreign: String,
    symmetric_damaged: String,
}

fn encrypted(engine: &Engine, options: &EncryptOptions<'_>, document: &str) -> String {
    let mut work = engine.encrypt_document(&Caller::Owner, options, None, document.len()).expect("begins");
    let mut out = Vec::new();
    while work.step(document.as_bytes(), &mut out).expect("encrypts") == Progress::More {}
    String::from_utf8(out).expect("UTF-8")
}

fn documents(engine: &Engine) -> Documents {
    let list = |value: &str, count| format!("[{}]", vec![value; count].join(","));
    let field = |app| EncryptOptions { keying: Some(Keying::Field), ..EncryptOptions::new(app) };
    let copies = |options: &EncryptOptions<'_>| {
        let one = encrypted(engine, options, "\"4111111111111111\"");
        list(&one, COPIES)
    };
    let symmetric = |app| EncryptOptions {
        scheme: Some(Scheme::Symmetric),
        keying: Some(Keying::Field),
        ..EncryptOptions::new(app)
    };
    let sealed = |app| encrypted(engine, &symmetric(app), &list("\"4111111111111111\"", VALUES));
    let forbidden = EncryptOptions { role: Some("pci"), ..EncryptOptions::new("acme") };
    Documents {
        own: encrypted(engine, &field("acme"), &list("\"4111111111111111\"", VALUES)),
        foreign: encrypted(engine, &field("other"), &list("\"4111111111111111\"", VALUES)),
        foreign_copies: copies(&EncryptOptions::new("other")),
        forbidden_copies: copies(&forbidden),
        symmetric: sealed("acme"),
        symmetric_foreign: sealed("other"),
        symmetric_damaged: damaged(&sealed("acme")),
    }
}

/// The same envelopes, each with another last character of its tag.
fn damaged(list: &str) -> String {
    let swap = |envelope: &str| {
        let (body, end) = envelope.split_at(envelope.rfind(":$").expect("an envelope") - 2);
        format!("{body}{}{}", if end.starts_with('A') { 'B' } else { 'A' }, &end[1..])
    };
    list.split_inclusive(',').map(swap).collect()
}

/// Gives the app `versions` versions, and encrypts values of the first [`IN_TURN`] of them, or of all if there are fewer, in turn.
fn in_turn(engine: &Engine, app: &AppName, versions: usize) -> String {
    let options = EncryptOptions { keying: Some(Keying::Field), ..EncryptOptions::new("acme") };
    let count = versions.min(IN_TURN);
    let mut values = Vec::new();
    for version in 1..=versions {
        if version <= count {
            let document = format!("[{}]", vec!["\"4111111111111111\""; VALUES.div_ceil(count)].join(","));
            let list = encrypted(engine, &options, &document);
            values.push(list.trim_matches(['[', ']']).split(',').map(str::to_owned).collect::<Vec<_>>());
        }
        if version < versions {
            engine.store().rotate(app).expect("rotated");
            engine.maintain().expect("refreshed");
        }
    }
    let turn: Vec<&str> = (0..VALUES).map(|i| values[i % count][i / count].as_str()).collect();
    format!("[{}]", turn.join(","))
}

/// A client that may decrypt values of another role only.
fn reader(engine: &Engine) -> Caller {
    let client = NewClient {
        name: ClientName::parse("reader").expect("a name"),
        apps: leafseal_engine::admin::Apps::All,
        operations: BTreeSet::from([Operation::Decrypt]),
        roles: Roles::Only(BTreeSet::from([RoleName::parse("health").expect("a role")])),
        accept: AcceptedSchemes::ALL,
        certificate_sha256: None,
    };
    engine.store().put_client(&client).expect("stored");
    engine.maintain().expect("refreshed");
    engine.client("reader", [0; 32]).expect("granted")
}

/// Nanoseconds that this thread has run.
fn thread_time() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 * 1e9 + time.tv_nsec as f64
}

/// Milliseconds and key agreements of a request.
fn decrypted(engine: &Engine, caller: &Caller, document: &str) -> (f64, u64) {
    let options = DecryptOptions { on_failure: OnFailure::Leave, ..DecryptOptions::new("acme") };
    let before = engine.counters().opening_agreements;
    let start = thread_time();
    let mut work = engine.decrypt_document(caller, &options, None, document.len()).expect("begins");
    let mut out = Vec::new();
    while work.step(document.as_bytes(), &mut out).expect("decrypts") == Progress::More {}
    ((thread_time() - start) / 1e6, engine.counters().opening_agreements - before)
}

fn row(name: &str, versions: usize, run: impl Fn() -> (f64, u64)) {
    let (time, agreements) = (0..RUNS).map(|_| run()).min_by(|a, b| a.0.total_cmp(&b.0)).expect("some");
    println!("{versions:>8}  {name:<44}  {time:>9.2} ms  {agreements:>7} agreements");
}

fn main() {
    let versions_max = if std::env::args().any(|argument| argument == "--bench") { usize::MAX } else { 1 };
    println!("versions  request");
    for versions in VERSION_COUNTS.into_iter().filter(|count| *count <= versions_max) {
        let store = ScratchStore::new(&["acme", "other"]);
        let settings = Settings { opening_keys_max: 0, ..Settings::default() };
        let writer = Engine::new(Box::new(store.open()), settings.clone());
        writer.prepare();
        let documents = documents(&writer);
        let acme = AppName::parse("acme").expect("a name");
        let in_turn = in_turn(&writer, &acme, versions);
        let reader = reader(&writer);
        // The first request of an engine, which knows no version that fitted.
        row(&format!("{VALUES} values of version 1, the first request"), versions, || {
            decrypted(&Engine::new(Box::new(store.open()), settings.clone()), &Caller::Owner, &documents.own)
        });
        let engine = Engine::new(Box::new(store.open()), settings.clone());
        row(&format!("{VALUES} values of version 1"), versions, || decrypted(&engine, &Caller::Owner, &documents.own));
        row(&format!("{VALUES} values of {IN_TURN} versions in turn"), versions, || {
            decrypted(&engine, &Caller::Owner, &in_turn)
        });
        row(&format!("{VALUES} values of another app"), versions, || decrypted(&engine, &reader, &documents.foreign));
        row(&format!("{COPIES} copies of one value of another app"), versions, || {
            decrypted(&engine, &reader, &documents.foreign_copies)
        });
        row(&format!("{COPIES} copies of one value of a forbidden role"), versions, || {
            decrypted(&engine, &reader, &documents.forbidden_copies)
        });
        for (name, document) in [
            ("symmetric values of version 1", &documents.symmetric),
            ("symmetric values of another app", &documents.symmetric_foreign),
            ("symmetric values that are damaged", &documents.symmetric_damaged),
        ] {
            row(&format!("{VALUES} {name}"), versions, || decrypted(&engine, &Caller::Owner, document));
        }
    }
}
