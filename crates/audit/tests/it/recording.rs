//! Many threads write one log.

use std::fs;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use leafseal_audit::{
    Clock, Durability, LogReader, LogRules, RECORD_SIZE_MAX, RecordRefusal, Recorder, RecorderFigures, RecorderRules,
    VerifyOptions, verify_log,
};
use serde_json::Value;

use crate::place::{Place, put_back};

/// A clock that the test moves.
fn clock(now_us: &Arc<AtomicU64>) -> Clock {
    let now_us = Arc::clone(now_us);
    Box::new(move || now_us.load(Ordering::Relaxed))
}

fn records(place: &Place) -> Vec<Value> {
    let mut records = Vec::new();
    let report = verify_log(&place.path(), &place.key(), &VerifyOptions::default(), |_, entry| {
        records.push(serde_json::from_slice(entry).expect("JSON"));
    });
    assert!(report.faults.is_empty(), "{:?}", report.faults);
    records
}

#[test]
fn records_of_many_threads_are_durable_and_in_the_order_of_their_times() {
    let place = Place::new();
    let now_us = Arc::new(AtomicU64::new(1_000_000));
    let rules = RecorderRules { checkpoint_interval: Duration::from_millis(1), ..RecorderRules::default() };
    let recorder = Recorder::start(place.open(LogRules::default()).0, rules, clock(&now_us));
    let woken = Arc::new(AtomicUsize::new(0));
    let mut tickets = Vec::new();
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4)
            .map(|thread| {
                let (recorder, now_us, woken) = (&recorder, &now_us, &woken);
                scope.spawn(move || {
                    let record = |number| {
                        now_us.fetch_add(7, Ordering::Relaxed);
                        let text = format!("{{\"thread\":{thread},\"number\":{number}}}");
                        let ticket = recorder.record(text.as_bytes()).expect("taken");
                        let woken = Arc::clone(woken);
                        recorder.when_durable(ticket, move |durability| {
                            assert_eq!(durability, Durability::Durable);
                            woken.fetch_add(1, Ordering::Relaxed);
                        });
                        (ticket, thread, number)
                    };
                    (0..500).map(record).collect::<Vec<_>>()
                })
            })
            .collect();
        tickets = threads.into_iter().flat_map(|thread| thread.join().expect("no panic")).collect();
    });
    let (sender, durable) = mpsc::channel();
    let last = recorder.record(b"{\"last\":true}").expect("taken");
    recorder.when_durable(last, move |durability| sender.send(durability).expect("heard"));
    assert_eq!(durable.recv(), Ok(Durability::Durable));
    assert!(recorder.is_durable(last));
    // Others of its group may be called after it.
    until(|| woken.load(Ordering::Relaxed) == tickets.len());
    drop(recorder);
    let found = records(&place);
    assert_eq!(found.len(), tickets.len() + 1);
    for thread in 0..4 {
        let numbers: Vec<_> =
            found.iter().filter(|record| record["thread"] == thread).map(|record| record["number"].as_u64()).collect();
        assert_eq!(numbers, (0..500).map(Some).collect::<Vec<_>>(), "each thread's records are in its order");
    }
    let times: Vec<_> = found.iter().map(|record| record["time"].as_str().expect("a time")).collect();
    assert!(times.is_sorted(), "{times:?}");
}

/// A disk that refuses for a while: up to the bound records wait, then they are refused and counted, and nothing that was taken is lost.
#[test]
fn a_disk_that_refuses_leaves_a_gap_that_the_log_names() {
    let place = Place::new();
    let now_us = Arc::new(AtomicU64::new(5_000_000));
    let rules =
        RecorderRules { waiting_bytes_max: 4000, retry_interval: Duration::from_millis(1), ..RecorderRules::default() };
    let log = place.open(LogRules { segment_bytes: 1, ..LogRules::default() }).0;
    let recorder = Recorder::start(log, rules, clock(&now_us));
    let durable = |ticket| {
        let (sender, heard) = mpsc::channel();
        recorder.when_durable(ticket, move |durability| sender.send(durability).expect("heard"));
        heard
    };
    assert_eq!(durable(recorder.record(b"{\"n\":0}").expect("taken")).recv(), Ok(Durability::Durable));
    let (journal, aside) = (place.path().join("journal"), place.path().join("aside"));
    fs::rename(&journal, &aside).expect("moved");
    fs::write(&journal, "in the way").expect("written");
    let (mut taken, mut last) = (0, None);
    let refused = loop {
        match recorder.record(b"{\"n\":1}") {
            Ok(ticket) => (taken, last) = (taken + 1, Some(ticket)),
            Err(refusal) => break refusal,
        }
    };
    assert_eq!(refused, RecordRefusal::Full);
    assert!((20..=30).contains(&taken), "{taken}");
    assert_eq!(recorder.record(b"{\"n\":2}"), Err(RecordRefusal::Full));
    let figures = recorder.figures();
    assert_eq!((figures.durable, figures.lost), (1, 2));
    assert!(
        figures.waiting_bytes <= 4000 && figures.waiting_bytes > 3800 && figures.lag > Duration::ZERO,
        "{figures:?}"
    );
    let last = last.expect("some were taken");
    assert_eq!(durable(last).recv(), Ok(Durability::Refused), "nobody is left waiting");
    assert!(recorder.fault().is_some() && !recorder.is_durable(last));
    assert_eq!(durable(last).recv(), Ok(Durability::Refused));
    now_us.store(9_000_000, Ordering::Relaxed);
    put_back(&aside, &journal);
    while !recorder.is_durable(last) {
        std::thread::yield_now();
    }
    assert_eq!(durable(recorder.record(b"{\"n\":3}").expect("taken")).recv(), Ok(Durability::Durable));
    assert_eq!(recorder.fault(), None);
    let figures = recorder.figures();
    drop(recorder);
    let found = records(&place);
    assert_eq!((figures.durable, figures.lost, figures.waiting_bytes), (found.len() as u64, 2, 0));
    assert_eq!(figures.lag, Duration::ZERO);
    let numbers: Vec<_> = found.iter().filter_map(|record| record["n"].as_u64()).collect();
    assert_eq!(numbers, [vec![0], vec![1; taken], vec![3]].concat());
    let gaps: Vec<_> = found.iter().filter(|record| record["kind"] == "gap").collect();
    let [gap] = gaps[..] else { panic!("{gaps:?}") };
    assert_eq!((&gap["records"], &gap["since"]), (&Value::from(2), &Value::from("1970-01-01T00:00:05.000000Z")));
}

/// A checkpoint that cannot be written, because the disk does not answer: records are durable as before, up to the bound of the journal.
/// Then they wait, and nothing is lost.
#[test]
fn records_are_durable_while_publishing_hangs() {
    let place = Place::new();
    let rules = RecorderRules {
        checkpoint_interval: Duration::from_millis(1),
        retry_interval: Duration::from_millis(1),
        ..RecorderRules::default()
    };
    let log = place.open(LogRules { pending_bytes_max: 40_000, ..LogRules::default() }).0;
    let file = place.path().join("tmp/file-0");
    let made = std::process::Command::new("mkfifo").arg(&file).status().expect("mkfifo");
    assert!(made.success());
    let recorder = Recorder::start(log, rules, Box::new(|| 7_000_000));
    // Each waits for its record. Far more than one checkpoint interval passes.
    for _ in 0..500 {
        let (sender, durable) = mpsc::channel();
        let ticket = recorder.record(b"{\"n\":0}").expect("taken");
        recorder.when_durable(ticket, move |durability| sender.send(durability).expect("heard"));
        assert_eq!(durable.recv(), Ok(Durability::Durable));
    }
    assert!(!place.path().join("checkpoint").exists());
    // The journal takes one more group, then its bound is reached.
    let text = format!("{{\"n\":\"{}\"}}", "x".repeat(20_000));
    let first = recorder.record(text.as_bytes()).expect("taken");
    while !recorder.is_durable(first) {
        std::thread::yield_now();
    }
    let second = recorder.record(text.as_bytes()).expect("taken");
    std::thread::sleep(Duration::from_millis(20));
    assert!(!recorder.is_durable(second) && recorder.fault().is_none());
    // Who reads lets the writer go on; a pipe cannot be flushed, and the next attempt makes a file.
    let reader = fs::File::open(&file).expect("opened");
    fs::remove_file(&file).expect("removed");
    while !recorder.is_durable(second) {
        std::thread::yield_now();
    }
    drop(reader);
    let log = recorder.close().expect("the log");
    assert_eq!((log.size(), log.published()), (502, 502));
    drop(log);
    assert_eq!(records(&place).len(), 502);
}

#[test]
fn times_do_not_go_back_within_an_era() {
    let place = Place::new();
    let now_us = Arc::new(AtomicU64::new(60_000_000));
    let recorder = Recorder::start(place.open(LogRules::default()).0, RecorderRules::default(), clock(&now_us));
    now_us.store(61_000_000, Ordering::Relaxed);
    recorder.record(b"{\"n\":0}").expect("taken");
    // A start goes on after the last record.
    let log = recorder.close().expect("the log");
    let recorder = Recorder::start(log, RecorderRules::default(), clock(&now_us));
    for next in [60_000_000, 62_000_000, 61_500_000, 10_000_000, 63_000_000, 900_000_000, 64_000_000, 65_000_000] {
        now_us.store(next, Ordering::Relaxed);
        recorder.record(b"{\"n\":0}").expect("taken");
    }
    // A start goes on in the era of the last record.
    let log = recorder.close().expect("the log");
    let recorder = Recorder::start(log, RecorderRules::default(), clock(&now_us));
    recorder.record(b"{\"n\":0}").expect("taken");
    now_us.store(1_000_000, Ordering::Relaxed);
    recorder.record(b"{\"n\":0}").expect("taken");
    drop(recorder.close().expect("the log"));
    let found = records(&place);
    let second = |text: &Value| text.as_str().map(|text| text[17..19].parse::<u32>().expect("seconds"));
    let times: Vec<_> = found
        .iter()
        .map(|record| {
            (second(&record["time"]), second(&record["clock"]), record["era"].as_u64(), second(&record["before"]))
        })
        .collect();
    let expected = [
        (Some(1), None, None, None),
        (Some(1), None, None, None),
        (Some(2), None, None, None),
        (Some(2), None, None, None),
        (Some(2), Some(10), None, None),
        (Some(3), None, None, None),
        (Some(0), None, None, None),
        (Some(4), None, Some(7), Some(0)),
        (Some(4), None, Some(7), None),
        (Some(5), None, Some(7), None),
        (Some(5), None, Some(7), None),
        (Some(1), None, Some(11), Some(5)),
        (Some(1), None, Some(11), None),
    ];
    assert_eq!(times, expected);
    assert_eq!((&found[7]["kind"], &found[11]["kind"]), (&Value::from("clock"), &Value::from("clock")));
}

/// A clock that goes back again and again, in a log of many bundles: each record is found by its time.
#[test]
fn times_are_found_in_each_era() {
    let place = Place::new();
    let now_us = Arc::new(AtomicU64::new(0));
    let recorder = Recorder::start(place.open(LogRules::default()).0, RecorderRules::default(), clock(&now_us));
    let starts = [1_000_000_000, 5_000_000_000, 90_000_000, 3_000_000_000, 2_000_000_000_u64];
    for start in starts {
        for number in 0..400 {
            now_us.store(start + number * 1_000_000, Ordering::Relaxed);
            recorder.record(b"{\"n\":0}").expect("taken");
        }
    }
    drop(recorder.close());
    let reader = LogReader::open(&place.path(), &place.key()).expect("a log");
    let eras = reader.eras().expect("read");
    let sizes: Vec<_> = eras.iter().map(|era| era.end - era.start).collect();
    // Going forward begins none; each other era has the record that says so.
    assert_eq!((sizes.as_slice(), eras[0].start, eras[2].end), (&[800, 801, 401][..], 0, 2002));
    let all = records(&place);
    let time = |record: &Value| record["time"].as_str().expect("a time").to_owned();
    for era in &eras {
        for index in [era.start, era.start + 1, era.start + 399, era.end - 1] {
            let wanted = time(&all[index as usize]);
            let text_of = |entry: &[u8]| time(&serde_json::from_slice(entry).expect("JSON"));
            let found = reader.partition_point(era, |entry| text_of(entry) < wanted).expect("read");
            let expected = (era.start..era.end).find(|index| time(&all[*index as usize]) >= wanted);
            assert_eq!(Some(found), expected);
        }
    }
}

#[test]
fn only_objects_within_their_bound_are_taken() {
    let place = Place::new();
    let recorder = Recorder::start(place.open(LogRules::default()).0, RecorderRules::default(), Box::new(|| 0));
    let of_size = |size: usize| format!("{{\"n\":\"{}\"}}", "x".repeat(size - 8));
    recorder.record(of_size(RECORD_SIZE_MAX).as_bytes()).expect("taken");
    for wrong in ["", "{", "{}", "[1]", "x", &of_size(RECORD_SIZE_MAX + 1)] {
        assert_eq!(recorder.record(wrong.as_bytes()), Err(RecordRefusal::Malformed), "{:.20}", wrong);
    }
    let log = recorder.close().expect("the log");
    assert_eq!(log.size(), log.published());
    drop(log);
    let lost: Vec<_> = records(&place).iter().filter_map(|record| record["records"].as_u64()).collect();
    assert_eq!(lost.iter().sum::<u64>(), 6, "{lost:?}");
}

/// Records that no checkpoint covers show as a lag, and no longer once one does; an idle log has none.
#[test]
fn figures_show_what_no_checkpoint_covers() {
    let place = Place::new();
    let start = |checkpoint_interval| {
        let rules = RecorderRules { checkpoint_interval, ..RecorderRules::default() };
        Recorder::start(place.open(LogRules::default()).0, rules, Box::new(|| 0))
    };
    let recorder = start(Duration::from_secs(3600));
    assert_eq!(recorder.figures(), RecorderFigures::default());
    let ticket = recorder.record(b"{\"n\":0}").expect("taken");
    until(|| recorder.is_durable(ticket));
    until(|| recorder.figures().checkpoint_lag > Duration::from_millis(1));
    let bytes = recorder.figures().durable_bytes;
    assert_eq!(bytes, 2 + b"{\"time\":\"1970-01-01T00:00:00.000000Z\",\"n\":0}".len() as u64);
    drop(recorder);
    let recorder = start(Duration::from_millis(1));
    let ticket = recorder.record(b"{\"n\":1}").expect("taken");
    until(|| recorder.is_durable(ticket) && recorder.figures().checkpoint_lag == Duration::ZERO);
    assert_eq!((recorder.figures().durable, recorder.figures().durable_bytes), (1, bytes));
}

fn until(mut is_so: impl FnMut() -> bool) {
    while !is_so() {
        std::thread::yield_now();
    }
}

#[test]
fn a_recorder_that_closes_keeps_what_it_took_and_counts_what_it_refused() {
    let place = Place::new();
    let now_us = Arc::new(AtomicU64::new(1_000_000));
    let recorder = Recorder::start(place.open(LogRules::default()).0, RecorderRules::default(), clock(&now_us));
    assert_eq!(recorder.record(b"{}"), Err(RecordRefusal::Malformed));
    let ticket = recorder.record(br#"{"kind":"last"}"#).expect("taken");
    let (sender, receiver) = mpsc::channel();
    recorder.when_durable(ticket, move |durability| sender.send(durability).expect("someone waits"));
    assert!(recorder.close_by(Instant::now() + Duration::from_secs(600)));
    assert_eq!(receiver.recv(), Ok(Durability::Durable));
    assert_eq!(recorder.record(br#"{"kind":"late"}"#), Err(RecordRefusal::Closed));
    drop(recorder);
    let kinds: Vec<_> = records(&place).iter().map(|record| record["kind"].clone()).collect();
    assert_eq!(kinds, ["last", "gap"]);
}

/// A disk that does not answer: from a time on nobody waits for it, and what was taken is durable once it answers.
#[test]
fn a_disk_that_hangs_holds_nobody_up() {
    let place = Place::new();
    let log = place.open(LogRules { segment_bytes: 1, ..LogRules::default() }).0;
    let rules = RecorderRules { retry_interval: Duration::from_millis(1), ..RecorderRules::default() };
    let recorder = Recorder::start(log, rules, Box::new(|| 0));
    let durable = |ticket| {
        let (sender, heard) = mpsc::channel();
        recorder.when_durable(ticket, move |durability| sender.send(durability).expect("heard"));
        heard
    };
    assert_eq!(durable(recorder.record(b"{\"n\":0}").expect("taken")).recv(), Ok(Durability::Durable));
    // The next segment is a pipe, which opens once somebody reads.
    let segment = place.path().join("journal").join(format!("{:020}", 1));
    assert!(std::process::Command::new("mkfifo").arg(&segment).status().expect("mkfifo").success());
    let ticket = recorder.record_awaited(b"{\"n\":1}").expect("taken");
    let waiting = durable(ticket);
    until(|| recorder.figures().lag > Duration::ZERO);
    recorder.watch(Instant::now());
    assert_eq!((waiting.try_recv(), recorder.fault()), (Err(mpsc::TryRecvError::Empty), None), "it may take a while");
    // The writer may not have begun.
    let later = Instant::now() + 2 * rules.write_wait_max;
    until(|| {
        recorder.watch(later);
        recorder.fault().is_some()
    });
    assert_eq!(waiting.recv(), Ok(Durability::Refused));
    let next = recorder.record_awaited(b"{\"n\":2}").expect("taken");
    assert_eq!(durable(next).recv(), Ok(Durability::Refused), "nobody begins to wait");
    // A pipe cannot be flushed; the next attempt makes a file.
    let reader = fs::File::open(&segment).expect("opened");
    fs::remove_file(&segment).expect("removed");
    until(|| recorder.is_durable(ticket) && recorder.is_durable(next) && recorder.fault().is_none());
    drop((reader, recorder));
    let numbers: Vec<_> = records(&place).iter().map(|record| record["n"].as_u64()).collect();
    assert_eq!(numbers, [Some(0), Some(1), Some(2)]);
}

/// Records that nobody waits for gather: until someone waits for one, or they take a quarter of the room, or the recorder ends.
#[test]
fn records_gather_until_someone_waits_or_they_are_many() {
    let place = Place::new();
    let rules =
        RecorderRules { gathering: Duration::from_secs(3600), waiting_bytes_max: 8000, ..RecorderRules::default() };
    let start = || Recorder::start(place.open(LogRules::default()).0, rules, Box::new(|| 0));
    let recorder = start();
    // Nothing was written before.
    let first = recorder.record(b"{\"n\":0}").expect("taken");
    until(|| recorder.is_durable(first));
    let gathered: Vec<_> = (0..3).map(|_| recorder.record(b"{\"n\":1}").expect("taken")).collect();
    let awaited = recorder.record_awaited(b"{\"n\":2}").expect("taken");
    until(|| recorder.is_durable(awaited));
    assert!(gathered.iter().all(|ticket| recorder.is_durable(*ticket)), "they are in its group");
    let many: Vec<_> = (0..20).map(|_| recorder.record(b"{\"n\":3}").expect("taken")).collect();
    until(|| recorder.is_durable(many[10]));
    recorder.record(b"{\"n\":4}").expect("taken");
    drop(recorder);
    assert_eq!(records(&place).len(), 1 + 3 + 1 + 20 + 1);
}
