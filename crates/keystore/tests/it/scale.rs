//! A large store: its migration, its first read, its check, its slots and a new root. `LEAFSEAL_STORE_APPS` says how large (`make store`:
//! 100,000); the times are printed, not judged.

use std::time::{Duration, Instant};

use leafseal_keystore::{Keystore, LocalRootKey, NewKeys, OpenMode, SqliteKeystore, StoreLimits, StoreScan};

use crate::common::{SlotChanges, app, environment, place, rng};

/// Apps in an ordinary run.
const APP_COUNT: u32 = 300;

/// Rows that a scan reads at most for an app with one version.
const SCAN_ROWS_PER_APP: u64 = 13;

fn timed<T>(what: &str, act: impl FnOnce() -> T) -> T {
    let start = Instant::now();
    let outcome = act();
    println!("{what}: {:.1} ms", start.elapsed().as_secs_f64() * 1e3);
    outcome
}

/// Opens the store and loads one app, as an engine does for its first request.
fn first_read(path: &std::path::Path, app_number: u32) -> Duration {
    let start = Instant::now();
    let store = SqliteKeystore::open(path, OpenMode::Existing, environment(), StoreLimits::default()).expect("opened");
    assert!(store.load_app(&app(&format!("app-{app_number}"))).expect("read").is_some());
    start.elapsed()
}

fn median_first_read(what: &str, path: &std::path::Path, app_count: u32) {
    let mut times: Vec<Duration> = (0..31).map(|number| first_read(path, number * 31 % app_count)).collect();
    times.sort_unstable();
    println!("{what}: {:.2} ms, median of {}", times[times.len() / 2].as_secs_f64() * 1e3, times.len());
}

#[test]
fn a_large_store_is_migrated_and_read() {
    let app_count = std::env::var("LEAFSEAL_STORE_APPS").map_or(APP_COUNT, |text| text.parse().expect("a number"));
    let (_folder, path) = place();
    let limits = StoreLimits { app_count_max: 10_000_000, ..StoreLimits::default() };
    let store = SqliteKeystore::open(&path, OpenMode::CreateOldIfMissing, environment(), limits).expect("made");
    timed("apps created", || {
        for number in 0..app_count {
            store.create_app(&app(&format!("app-{number}")), NewKeys::generated()).expect("made");
        }
    });
    median_first_read("open and first read, schema 2", &path, app_count);
    let size = || path.metadata().expect("there").len() >> 10;
    println!("size: {} KiB", size());
    timed("plan of the migration", || store.plan_migration().expect("planned"));
    let done = timed("migration", || store.migrate(&mut |_, _| ()).expect("migrated"));
    assert_eq!(done.entry_count as u32, 2 * app_count);
    println!("size: {} KiB", size());
    median_first_read("open and first read, schema 3", &path, app_count);
    let apps = timed("list of all apps", || store.list_apps().expect("read"));
    assert_eq!(apps.len() as u32, app_count);
    let report = timed("check", || store.check().expect("checked"));
    assert_eq!((report.app_count as u32, report.faults), (app_count, vec![]));
    let (mut scan, mut row_counts) = (StoreScan::default(), Vec::new());
    timed("scan", || {
        loop {
            let step = store.scan(&mut scan).expect("scanned");
            assert_eq!(step.edits, []);
            row_counts.push(step.row_count);
            if step.is_last {
                break;
            }
        }
    });
    let (total, most) = (row_counts.iter().sum::<u64>(), row_counts.iter().max());
    println!("scan: {} steps, {total} rows, at most {} in a step", row_counts.len(), most.unwrap_or(&0));
    // `engine.store_scan_rows_per_second` counts on it.
    assert!(total < u64::from(app_count) * SCAN_ROWS_PER_APP + 2_000, "{total} rows");
    let second = timed("a slot is added", || store.add_slot(&LocalRootKey::generate(&mut rng())).expect("added"));
    let slots = timed("list of slots", || store.slots().expect("read"));
    assert_eq!(slots.len(), 2);
    let rotated = timed("a new root", || store.rotate_root(None, &mut |_, _| ()).expect("rotated"));
    assert_eq!(rotated.sealed_count as u32, app_count + 1, "and the key of what was seen before the migration");
    timed("a slot is removed", || store.remove_untested(&second.id).expect("removed"));
    median_first_read("open and first read, new root", &path, app_count);
    timed("a new version", || store.rotate(&app("app-0")).expect("rotated"));
}
