//! Many threads write one log.

use std::fs;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use leafseal_audit::{
    Clock, Durability, LogRules, RECORD_SIZE_MAX, RecordRefusal, Recorder, RecorderRules, VerifyOptions, verify_log,
};
use serde_json::Value;

use crate::place::Place;

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
fn records_of_many_threads_are_durable_and_in_the_order_of_their_tickets() {
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
    assert!(recorder.is_durable(last) && woken.load(Ordering::Relaxed) == tickets.len());
    drop(recorder);
    tickets.sort_unstable();
    let found = records(&place);
    assert_eq!(found.len(), tickets.len() + 1);
    for (record, (_, thread, number)) in found.iter().zip(&tickets) {
        assert_eq!((&record["thread"], &record["number"]), (&Value::from(*thread), &Value::from(*number)));
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
        RecorderRules { waiting_bytes_max: 2000, retry_interval: Duration::from_millis(1), ..RecorderRules::default() };
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
    assert!((20..=45).contains(&taken), "{taken}");
    assert_eq!(recorder.record(b"{\"n\":2}"), Err(RecordRefusal::Full));
    let last = last.expect("some were taken");
    assert_eq!(durable(last).recv(), Ok(Durability::Refused), "nobody is left waiting");
    assert!(recorder.fault().is_some() && !recorder.is_durable(last));
    assert_eq!(durable(last).recv(), Ok(Durability::Refused));
    now_us.store(9_000_000, Ordering::Relaxed);
    fs::remove_file(&journal).expect("removed");
    fs::rename(&aside, &journal).expect("moved");
    while !recorder.is_durable(last) {
        std::thread::yield_now();
    }
    assert_eq!(durable(recorder.record(b"{\"n\":3}").expect("taken")).recv(), Ok(Durability::Durable));
    assert_eq!(recorder.fault(), None);
    drop(recorder);
    let found = records(&place);
    let numbers: Vec<_> = found.iter().filter_map(|record| record["n"].as_u64()).collect();
    assert_eq!(numbers, [vec![0], vec![1; taken], vec![3]].concat());
    let gaps: Vec<_> = found.iter().filter(|record| record["kind"] == "gap").collect();
    let [gap] = gaps[..] else { panic!("{gaps:?}") };
    assert_eq!((&gap["records"], &gap["since"]), (&Value::from(2), &Value::from("1970-01-01T00:00:05.000000Z")));
}

#[test]
fn times_do_not_go_back() {
    let place = Place::new();
    let now_us = Arc::new(AtomicU64::new(60_000_000));
    let recorder = Recorder::start(place.open(LogRules::default()).0, RecorderRules::default(), clock(&now_us));
    now_us.store(61_000_000, Ordering::Relaxed);
    recorder.record(b"{\"n\":0}").expect("taken");
    // A start goes on after the last record.
    let log = recorder.close().expect("the log");
    let recorder = Recorder::start(log, RecorderRules::default(), clock(&now_us));
    for next in [60_000_000, 62_000_000, 61_500_000, 10_000_000, 63_000_000] {
        now_us.store(next, Ordering::Relaxed);
        recorder.record(b"{\"n\":0}").expect("taken");
    }
    drop(recorder.close().expect("the log"));
    let found = records(&place);
    let times: Vec<_> = found.iter().map(|record| (record["time"].as_str(), record["clock"].as_str())).collect();
    let expected = [
        (Some("1970-01-01T00:01:01.000000Z"), None),
        (Some("1970-01-01T00:01:01.000000Z"), None),
        (Some("1970-01-01T00:01:02.000000Z"), None),
        (Some("1970-01-01T00:01:02.000000Z"), None),
        (Some("1970-01-01T00:01:02.000000Z"), Some("1970-01-01T00:00:10.000000Z")),
        (Some("1970-01-01T00:01:03.000000Z"), None),
    ];
    assert_eq!(times, expected);
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
    assert_eq!((log.size(), log.published()), (1, 1));
}
