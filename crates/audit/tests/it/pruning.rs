//! Logs that remove what is old, and hosts that do.

use std::fs;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use leafseal_audit::{LogFault, LogReader, LogRules, ReadError, Recorder, RecorderRules, VerifyOptions};

use crate::place::{Place, append, copy, put_back};

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

/// Checkpoints from before a pruning: those that can be compared still are, and of the others it is said that they cannot.
#[test]
fn a_checkpoint_older_than_the_minimum_is_no_fault() {
    let place = Place::new();
    let mut log = place.open(LogRules::default()).0;
    let mut kept = Vec::new();
    for more in [100, 412, 88, 1400] {
        append(&mut log, more);
        log.publish().expect("published");
        kept.push(fs::read(place.path().join("checkpoint")).expect("there"));
    }
    fs::write(place.path().join("checkpoint.cosigned"), &kept[0]).expect("written");
    log.prune(512).expect("pruned");
    let options = VerifyOptions { kept: kept.clone(), ..VerifyOptions::default() };
    let report = place.verify(&options);
    assert!(report.faults.is_empty(), "{:?}", report.faults);
    let too_old: Vec<_> = report.too_old.iter().map(|old| (old.kept, old.size, old.minimum)).collect();
    assert_eq!(too_old, [(Some(0), 100, 512), (None, 100, 512)]);
    assert!(report.too_old[0].to_string().contains("kept checkpoint 0 covers 100 records"), "{}", report.too_old[0]);
    // What can be compared is: that of another log with the key, with the same size.
    let other = Place::new();
    let mut forged = other.open(LogRules::default()).0;
    let forgeries: Vec<_> = (0..600_u64).map(|number| format!("forged {number}")).collect();
    forged.append(forgeries.iter().map(String::as_bytes)).expect("appended");
    forged.publish().expect("published");
    let foreign = fs::read(other.path().join("checkpoint")).expect("there");
    let report = place.verify(&VerifyOptions { kept: vec![foreign], ..VerifyOptions::default() });
    assert!(matches!(report.faults[..], [LogFault::Replaced { size: 600, .. }]), "{:?}", report.faults);
    // A tile that is needed, and that the minimum keeps, is missing: that is a fault.
    fs::remove_file(place.path().join("tile/0/002")).expect("removed");
    let report = place.verify(&VerifyOptions { kept: vec![kept[2].clone()], ..VerifyOptions::default() });
    assert!(report.faults.iter().all(|fault| matches!(fault, LogFault::Read(_))) && !report.faults.is_empty());
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
        press(&recorder);
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

/// Takes one more record, so that there is something to publish, and gives the threads of the log some time.
fn press(recorder: &Recorder) {
    let _ = recorder.record_awaited(b"{\"n\":1}");
    std::thread::sleep(Duration::from_micros(500));
}

/// Rules of an engine that looks for old records all the time.
fn retaining(retention: Duration) -> RecorderRules {
    RecorderRules {
        checkpoint_interval: Duration::from_millis(1),
        retry_interval: Duration::from_millis(1),
        retention: Some(retention),
        ..RecorderRules::default()
    }
}

/// A log of 1000 records with a millisecond between them, from the second 1000 on.
fn timed() -> Place {
    let place = Place::new();
    let now_us = Arc::new(AtomicU64::new(0));
    let clock = Arc::clone(&now_us);
    let clock = Box::new(move || clock.load(Ordering::Relaxed));
    let recorder = Recorder::start(place.open(LogRules::default()).0, RecorderRules::default(), clock);
    for number in 0..1000_u64 {
        now_us.store(1_000_000_000 + number * 1000, Ordering::Relaxed);
        recorder.record(b"{\"n\":0}").expect("taken");
    }
    drop(recorder.close());
    place
}

fn minimum(place: &Place) -> u64 {
    loop {
        // Tiles may go while they are read.
        if let Ok(reader) = LogReader::open(&place.path(), &place.key()) {
            return reader.minimum();
        }
    }
}

/// The disk refuses right when records are to be removed: they stay until the log has the record that they go.
#[test]
fn nothing_is_removed_before_its_record_is_durable() {
    let place = timed();
    let (journal, aside) = (place.path().join("journal"), place.folder.path().join("aside"));
    let (sprung, kept_from) = (Arc::new(AtomicBool::new(false)), Arc::new(OnceLock::<Arc<AtomicU64>>::new()));
    let trap = (Arc::clone(&sprung), Arc::clone(&kept_from), journal.clone(), aside.clone(), Instant::now());
    // The thread that removes asks for the time just before. By then, two seconds of records may go for each second.
    let clock = move || {
        let (sprung, kept_from, journal, aside, start) = &trap;
        if std::thread::current().name() == Some("leafseal-tiles")
            && start.elapsed() > Duration::from_millis(600)
            && let Some(kept_from) = kept_from.get()
            && !sprung.swap(true, Ordering::Relaxed)
        {
            fs::rename(journal, aside).expect("moved");
            fs::write(journal, "in the way").expect("written");
            kept_from.store(u64::MAX, Ordering::Relaxed);
        }
        1_003_000_000
    };
    let log = place.open(LogRules { segment_bytes: 1, ..LogRules::default() }).0;
    let recorder = Recorder::start(log, retaining(Duration::from_millis(1)), Box::new(clock));
    recorder.kept_from().store(0, Ordering::Relaxed);
    kept_from.set(recorder.kept_from()).expect("not set yet");
    while !sprung.load(Ordering::Relaxed) || recorder.fault().is_none() {
        press(&recorder);
    }
    // For who would remove them.
    std::thread::sleep(Duration::from_millis(50));
    assert_eq!(minimum(&place), 0);
    put_back(&aside, &journal);
    while minimum(&place) == 0 {
        press(&recorder);
    }
    drop(recorder.close());
    let mut first = None;
    let report = leafseal_audit::verify_log(&place.path(), &place.key(), &VerifyOptions::default(), |_, entry| {
        let record: serde_json::Value = serde_json::from_slice(entry).expect("JSON");
        first = first.or(record["minimum"].as_u64());
    });
    assert!(report.faults.is_empty(), "{:?}", report.faults);
    assert!(first.is_some_and(|first| first > 0 && first <= report.first), "{first:?}");
}

/// A clock that jumps ahead by years removes no records.
#[test]
fn a_clock_far_ahead_removes_no_records() {
    const YEAR_US: u64 = 365 * 86_400_000_000;
    let place = timed();
    let (now_us, steps) = (Arc::new(AtomicU64::new(1_001_000_000)), Arc::new(AtomicU64::new(0)));
    let clock = (Arc::clone(&now_us), Arc::clone(&steps));
    let clock = move || {
        if std::thread::current().name() == Some("leafseal-tiles") {
            clock.1.fetch_add(1, Ordering::Relaxed);
        }
        clock.0.load(Ordering::Relaxed)
    };
    let log = place.open(LogRules::default()).0;
    let recorder = Recorder::start(log, retaining(Duration::from_millis(1)), Box::new(clock));
    let pass = |count: u64| {
        let end = steps.load(Ordering::Relaxed) + count;
        while steps.load(Ordering::Relaxed) < end {
            press(&recorder);
        }
    };
    recorder.kept_from().store(0, Ordering::Relaxed);
    pass(2);
    now_us.fetch_add(10 * YEAR_US, Ordering::Relaxed);
    recorder.kept_from().store(u64::MAX, Ordering::Relaxed);
    while recorder.checkpoint_fault().is_none() {
        pass(1);
    }
    let fault = recorder.checkpoint_fault().expect("it was there");
    assert!(fault.contains("jumped ahead"), "{fault}");
    pass(20);
    assert_eq!(minimum(&place), 0);
    drop(recorder.close());
}

/// What sinks have not sent stays, however old it is.
#[test]
fn records_that_others_need_stay() {
    let place = timed();
    let steps = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&steps);
    let clock = move || {
        counted.fetch_add(u64::from(std::thread::current().name() == Some("leafseal-tiles")), Ordering::Relaxed);
        1_100_000_000
    };
    let recorder =
        Recorder::start(place.open(LogRules::default()).0, retaining(Duration::from_millis(1)), Box::new(clock));
    let kept_from = recorder.kept_from();
    for sent in [0, 300, 600] {
        kept_from.store(sent, Ordering::Relaxed);
        let (start, end) = (Instant::now(), steps.load(Ordering::Relaxed) + 50);
        // Two seconds of records may go for each second.
        while steps.load(Ordering::Relaxed) < end || start.elapsed() < Duration::from_millis(600) {
            press(&recorder);
        }
        assert_eq!(minimum(&place), sent / 256 * 256);
    }
    drop(recorder.close());
}
