//! Logs that remove what is old, and hosts that do.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use leafseal_audit::{LogFault, LogReader, LogRules, ReadError, Recorder, RecorderRules, VerifyOptions};

use crate::place::{Place, append, copy};

fn faults(place: &Place) -> Vec<String> {
    place.verify(&VerifyOptions::default()).faults.iter().map(ToString::to_string).collect()
}

/// The host removes old records and writes a minimum: without the log's key that is found, however it is written.
#[test]
fn only_the_log_prunes() {
    let place = Place::new();
    let mut log = place.filled(&[100, 2000]);
    let (early, whole) = (Place::new(), Place::new());
    log.prune(300).expect("pruned");
    copy(&place.path(), &early.path());
    let statement = fs::read_to_string(place.path().join("minimum")).expect("a statement");
    assert_eq!(faults(&place), [""; 0]);
    log.prune(1024).expect("pruned");
    let later = fs::read_to_string(place.path().join("minimum")).expect("a statement");
    assert_eq!(log.prune(1024).expect("pruned"), 0);
    assert_eq!(log.prune(700).expect("pruned"), 0, "it does not go back");
    drop(log);
    assert_eq!(faults(&place), [""; 0]);
    let report = place.verify(&VerifyOptions::default());
    assert_eq!((report.first, report.entries), (1024, 976));
    // The older statement, or none: what is gone is missing.
    for older in [Some(statement.as_str()), None] {
        match older {
            Some(text) => fs::write(place.path().join("minimum"), text).expect("written"),
            None => fs::remove_file(place.path().join("minimum")).expect("removed"),
        }
        let report = place.verify(&VerifyOptions::default());
        assert!(matches!(report.faults[0], LogFault::Read(ReadError::Missing(_))), "{:?}", report.faults);
    }
    // What the host writes itself.
    let other = Place::new();
    drop(other.filled(&[2000]));
    fs::remove_file(early.path().join("tile/entries/001")).expect("removed");
    let written = ["512\n".to_owned(), statement.replace("\n300\n", "\n512\n"), later.replace("\n1024\n", "\n512\n")];
    for text in written {
        fs::write(early.path().join("minimum"), &text).expect("written");
        let opened = LogReader::open(&early.path(), &early.key());
        assert!(matches!(opened, Err(ReadError::Minimum(_))), "{opened:?}");
        assert!(faults(&early)[0].starts_with("minimum: "), "{:?}", faults(&early));
    }
    // The statement of another log with the same key.
    let mut forged = whole.open(LogRules::default()).0;
    let forgeries: Vec<_> = (0..2000_u64).map(|number| format!("forged {number}")).collect();
    forged.append(forgeries.iter().map(String::as_bytes)).expect("appended");
    forged.publish().expect("published");
    forged.prune(512).expect("pruned");
    fs::copy(whole.path().join("minimum"), other.path().join("minimum")).expect("copied");
    assert!(faults(&other)[0].starts_with("minimum: "), "{:?}", faults(&other));
}

/// A pruning that ended midway leaves files that the next one removes, and that are no fault meanwhile.
#[test]
fn a_pruning_that_did_not_end_is_ended_by_the_next() {
    let place = Place::new();
    let mut log = place.filled(&[70_000]);
    let before = Place::new();
    copy(&place.path(), &before.path());
    log.prune(66_000).expect("pruned");
    // As if it had ended after some files.
    for name in ["tile/entries/255", "tile/entries/256", "tile/0/200", "tile/0/201"] {
        fs::copy(before.path().join(name), place.path().join(name)).expect("copied");
    }
    for number in 202..257 {
        let name = format!("tile/0/{number}");
        fs::copy(before.path().join(&name), place.path().join(&name)).expect("copied");
    }
    assert_eq!(faults(&place), [""; 0]);
    append(&mut log, 1000);
    log.publish().expect("published");
    log.prune(66_600).expect("pruned");
    assert_eq!(faults(&place), [""; 0]);
    let left = |folder: &str| {
        let mut names: Vec<_> = fs::read_dir(place.path().join(folder))
            .expect("a folder")
            .map(|file| file.expect("an entry").file_name().into_string().expect("text"))
            .collect();
        names.sort_unstable();
        names.first().cloned()
    };
    assert_eq!((left("tile/entries").as_deref(), left("tile/0").as_deref()), (Some("260"), Some("260")));
}

/// An engine that keeps records for a time removes bundles whose records are all older, and records that it does.
#[test]
fn records_are_kept_for_their_time() {
    let place = Place::new();
    let now_us = Arc::new(AtomicU64::new(1_000_000_000));
    let clock = Arc::clone(&now_us);
    let rules = RecorderRules {
        checkpoint_interval: Duration::from_millis(1),
        retention: Some(Duration::from_millis(500)),
        ..RecorderRules::default()
    };
    let recorder =
        Recorder::start(place.open(LogRules::default()).0, rules, Box::new(move || clock.load(Ordering::Relaxed)));
    for number in 0..1000_u64 {
        now_us.store(1_000_000_000 + number * 1000, Ordering::Relaxed);
        recorder.record(b"{\"n\":0}").expect("taken");
    }
    let minimum = || LogReader::open(&place.path(), &place.key()).map_or(0, |reader| reader.minimum());
    // Half a second before the last is record 499.
    while minimum() < 256 {
        std::thread::yield_now();
        recorder.record(b"{\"n\":1}").expect("taken");
    }
    drop(recorder.close());
    let mut pruned = Vec::new();
    let report = leafseal_audit::verify_log(&place.path(), &place.key(), &VerifyOptions::default(), |_, entry| {
        let record: serde_json::Value = serde_json::from_slice(entry).expect("JSON");
        pruned.extend((record["kind"] == "pruned").then(|| record["minimum"].as_u64()));
    });
    assert!(report.faults.is_empty(), "{:?}", report.faults);
    assert_eq!(report.first, 256);
    assert_eq!(pruned, [Some(256)]);
}
