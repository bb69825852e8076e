//! Records in a log, as the engine wrote them and otherwise.

use std::net::IpAddr;

use leafseal_engine::admin::{Keystore, Operation};
use leafseal_engine::{Denial, EntryPoint, ErrorCode, Question, RequestOrigin};
use leafseal_testkit::ScratchStore;

use super::*;

const UNSEALER: [u8; 32] = [7; 32];

fn record(bytes_max: usize) -> SealedRecord {
    let record = SealedRecord::new(RecordRules { engine: "engine-0".to_owned(), bytes_max }, vec![UNSEALER]);
    record.begin();
    record
}

fn client(name: &str, certificate: u8) -> Principal<'_> {
    Principal::Client { name, certificate_sha256: [certificate; 32] }
}

fn sealed(record: &SealedRecord, principal: Principal<'_>) {
    let address = Some(IpAddr::from([192, 0, 2, 1]));
    record.sealed(&Decision {
        origin: RequestOrigin { address, ..RequestOrigin::of(EntryPoint::Rpc) },
        principal,
        question: Question::Permission,
        operations: &[Operation::Encrypt],
        app: Some("acme"),
        refusal: Some(Denial { code: ErrorCode::Unavailable, reason: "the keystore is sealed" }),
        is_accounted: false,
    });
}

fn outcome(status: &str) -> Result<UnsealResult, ErrorObject> {
    Ok(UnsealResult { status: status.to_owned(), missing: 0 })
}

fn ended(record: &SealedRecord, store: &dyn Keystore) -> Vec<SignedLine> {
    record.end(|signer| store.record_key(signer, None)).expect("signed")
}

/// As the engine's log has them, in either form.
fn log_line(line: &SignedLine, is_json: bool) -> String {
    let SignedLine { record, public_key, signature } = line;
    match is_json {
        true => {
            json!({ "time": "now", "record": record, "public_key": public_key, "signature": signature }).to_string()
        }
        false => format!("time=now record={} public_key={public_key} signature={signature}", json!(record)),
    }
}

fn verified(lines: &[String], store: &dyn Keystore) -> RecordReport {
    verify_records(lines.join("\n").as_bytes(), store).expect("read")
}

/// Lines of a record with `count` refusals, which has several.
fn long_record(record: &SealedRecord, store: &dyn Keystore, count: usize) -> Vec<String> {
    record.begin();
    (0..count).for_each(|number| sealed(record, client("bob", number as u8)));
    record.attempted(client("alice", 7), &outcome(UnsealResult::UNSEALED));
    let lines = ended(record, store);
    assert!(lines.len() > 2 && lines.iter().all(|line| line.record.len() <= 8 << 10), "{}", lines.len());
    lines.iter().enumerate().map(|(index, line)| log_line(line, index % 2 == 0)).collect()
}

#[test]
fn what_happened_is_read_back_from_a_log_by_the_store_alone() {
    let (scratch, record) = (ScratchStore::new(&["acme"]), record(64 << 10));
    let store = scratch.open();
    sealed(&record, client("bob", 1));
    sealed(&record, Principal::Anonymous);
    let error = ErrorObject::new(ErrorCode::InvalidParams, "no passphrase");
    record.attempted(client("alice", 7), &Err(error));
    record.attempted(client("alice", 7), &outcome(UnsealResult::UNSEALED));
    let lines = ended(&record, &store);
    sealed(&record, client("bob", 1));
    assert!(ended(&record, &store).is_empty(), "the store is open");
    // Another process verifies it, also after the root was replaced.
    let other = scratch.open();
    other.rotate_root(None, &mut |_, _| ()).expect("rotated");
    for is_json in [true, false] {
        let log = ["something else".to_owned(), format!("engine[1]: {}", log_line(&lines[0], is_json))];
        let RecordReport { records, faults } = verified(&log, &other);
        assert_eq!((records.len(), faults), (1, Vec::new()));
        let facts = &records[0].facts;
        assert_eq!((&facts["engine"], &facts["opened_by"]["client"]), (&json!("engine-0"), &json!("alice")));
        let events = &records[0].events;
        assert_eq!(
            events.iter().map(|event| event["event"].as_str().unwrap_or("")).collect::<Vec<_>>(),
            ["sealed", "sealed", "unseal", "unseal"]
        );
        assert_eq!(events[0]["certificate_sha256"], json!(hex::encode([1; 32])));
        assert_eq!((&events[0]["operations"], &events[1]["address"]), (&json!(["encrypt"]), &json!("192.0.2.1")));
        assert_eq!((&events[2]["outcome"], &events[3]["outcome"]), (&json!("refused"), &json!("unsealed")));
    }
}

#[test]
fn a_line_that_was_changed_removed_repeated_or_signed_elsewhere_is_found() {
    let (scratch, record) = (ScratchStore::new(&["acme"]), record(64 << 10));
    let store = scratch.open();
    let mut lines = long_record(&record, &store, 100);
    lines.extend(long_record(&record, &store, 100));
    let report = verified(&lines, &store);
    assert_eq!((report.records.len(), report.faults), (2, Vec::new()));
    assert_eq!(report.records[1].events.len(), 101);
    assert_eq!(
        verified(&lines[..lines.len() - 1], &store).faults,
        [RecordFault::Cut { engine: "engine-0".to_owned(), missing: 1 }]
    );
    for at in 0..lines.len() - 1 {
        let mut cut = lines.clone();
        cut.remove(at);
        assert!(matches!(&verified(&cut, &store).faults[..], [RecordFault::Gap { .. }]), "line {at}");
        let mut changed = lines.clone();
        changed[at] = changed[at].replacen("bob", "bab", 1);
        let faults = verified(&changed, &store).faults;
        assert!(
            matches!(&faults[..], [RecordFault::Signature(number, _), RecordFault::Gap { .. }] if *number == at as u64 + 1),
            "{faults:?}"
        );
        let mut repeated = lines.clone();
        repeated.insert(at, lines[at].clone());
        assert!(!verified(&repeated, &store).faults.is_empty(), "line {at}");
    }
    let mut torn = lines.clone();
    torn[0].truncate(1000);
    assert_eq!(verified(&torn, &store).faults[0], RecordFault::Unreadable(1));
    // By the holder of another store of the same name, or of another engine's key.
    let other = ScratchStore::new(&["acme"]);
    assert!(verified(&lines, &other.open()).faults.iter().all(|fault| matches!(fault, RecordFault::OtherStore(_))));
    let renamed: Vec<String> = lines.iter().map(|line| line.replace("engine-0", "engine-1")).collect();
    assert!(verified(&renamed, &store).faults.iter().all(|fault| matches!(fault, RecordFault::Signature(..))));
    let future: Vec<String> = lines.iter().map(|line| line.replace("epoch\\\":1", "epoch\\\":9")).collect();
    assert!(
        verified(&future, &store).faults.iter().all(|fault| matches!(fault, RecordFault::OtherRoot { epoch: 9, .. }))
    );
}

#[test]
fn strangers_fill_half_of_the_room_and_the_rest_is_counted() {
    let (scratch, record) = (ScratchStore::new(&["acme"]), record(4096));
    let store = scratch.open();
    (0..1000).for_each(|_| sealed(&record, Principal::Anonymous));
    sealed(&record, client("alice", 7));
    record.attempted(client("alice", 7), &outcome(UnsealResult::SEALED));
    (0..100).for_each(|_| sealed(&record, client("alice", 7)));
    let lines: Vec<String> = ended(&record, &store).iter().map(|line| log_line(line, true)).collect();
    let RecordReport { records, faults } = verified(&lines, &store);
    assert!(faults.is_empty());
    let events = &records[0].events;
    let of = |caller: &str| events.iter().filter(|event| event["caller"] == caller).count() as u64;
    assert!(events.iter().map(|event| event.to_string().len()).sum::<usize>() <= 4096);
    assert!(events.iter().any(|event| event["event"] == "unseal"));
    assert_eq!(
        records[0].facts["omitted"],
        json!({ "refusals": 1000 - of("anonymous"), "unsealing": 102 - of("client") })
    );
    assert!(of("anonymous") > 5 && of("client") > 5);
    // Nothing is kept where nothing shall be.
    let off = self::record(0);
    sealed(&off, Principal::Anonymous);
    assert!(ended(&off, &store).is_empty());
}

#[test]
fn a_record_is_kept_while_it_cannot_be_signed() {
    let (scratch, record) = (ScratchStore::new(&["acme"]), record(4096));
    sealed(&record, Principal::Anonymous);
    assert_eq!(record.end(|_| Err("no disk")), Err("no disk"));
    assert_eq!(ended(&record, &scratch.open()).len(), 1);
}
