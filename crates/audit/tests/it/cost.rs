//! What it takes to read some records of a log grows with their number, and with the logarithm of the log's length alone.

use leafseal_audit::{LogReader, LogRules};

use crate::place::Place;

/// Seconds whose records are read, one a second.
const SECONDS: u64 = 1000;
/// Bytes of each entry.
const ENTRY_SIZE: usize = 400;
/// Entries of a bundle, and bytes of one and of a full tile.
const BUNDLE: u64 = 256;
const BUNDLE_SIZE: u64 = BUNDLE * (2 + ENTRY_SIZE as u64);
const TILE_SIZE: u64 = 256 * 32;

fn time(second: u64) -> String {
    let (day, second) = (1 + second / 86_400, second % 86_400);
    format!("2026-01-{day:02}T{:02}:{:02}:{:02}.000000Z", second / 3600, second / 60 % 60, second % 60)
}

fn fill(place: &Place, entries: u64) {
    let mut log = place.open(LogRules::default()).0;
    let of_second = |second| format!("{{\"time\":\"{}\",\"pad\":\"{}\"}}", time(second), "x".repeat(ENTRY_SIZE - 47));
    let entries: Vec<_> = (0..entries).map(of_second).collect();
    assert!(entries.iter().all(|entry| entry.len() == ENTRY_SIZE), "{}", entries[0].len());
    log.append(entries.iter().map(String::as_bytes)).expect("appended");
    log.publish().expect("published");
}

/// Bytes that this thread has read with system calls.
fn bytes_read() -> u64 {
    let account = std::fs::read_to_string("/proc/thread-self/io").expect("Linux has it");
    let (_, rest) = account.split_once("rchar: ").expect("a count");
    rest.lines().next().and_then(|count| count.parse().ok()).expect("a number")
}

/// Reads the records of the seconds in the middle of a log, and returns how many bytes that took.
fn read(place: &Place, entries: u64) -> u64 {
    let before = bytes_read();
    let (from, to) = (time(entries / 2), time(entries / 2 + SECONDS));
    let reader = LogReader::open(&place.path(), &place.key()).expect("a log");
    let mut next = reader.first_since(&from).expect("found");
    let mut found = 0;
    'bundles: while next < reader.size() {
        let (start, bundle) = reader.bundle_of(next).expect("there");
        for entry in &bundle[(next - start) as usize..] {
            if String::from_utf8_lossy(entry).contains(&to) {
                break 'bundles;
            }
            found += 1;
        }
        next = start + bundle.len() as u64;
    }
    assert_eq!(found, SECONDS);
    bytes_read() - before
}

#[test]
fn reading_some_records_costs_hardly_more_in_a_longer_log() {
    let costs = [10_000_u64, 100_000].map(|entries| {
        let place = Place::new();
        fill(&place, entries);
        let cost = read(&place, entries);
        // The bundles of the records, one for each step of the bisection, and some more; with each, tiles up to the root.
        let bundles = SECONDS / BUNDLE + 2 + u64::from((entries / BUNDLE).ilog2()) + 3;
        let most = bundles * (BUNDLE_SIZE + 3 * TILE_SIZE);
        assert!(
            (SECONDS * ENTRY_SIZE as u64..most).contains(&cost),
            "{cost} bytes of {entries} entries: more than {most}"
        );
        cost
    });
    // Ten times as long: four more steps, and a last bundle that has more entries.
    let steps = 5 * (BUNDLE_SIZE + 3 * TILE_SIZE);
    assert!(costs[1] <= costs[0] + steps, "{costs:?}");
}
