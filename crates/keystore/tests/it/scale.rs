//! A large store: its migration, its first read, its check, its slots and a new root. `LEAFSEAL_STORE_APPS` says how large (`make store`:
//! 100,000); the times are printed, not judged.

use std::time::{Duration, Instant};

use leafseal_keystore::{LocalRootKey, NewKeys, OpenMode, StoreLimits, StoreScan};

use crate::common::{Kind, Place, SlotChanges, app, environment, rng};

/// Apps in an ordinary run.
const APP_COUNT: u32 = 300;

/// Rows that a scan reads at most for an app with one version.
const SCAN_ROWS_PER_APP: u64 = 13;

fn timed<T>(place: &Place, what: &str, act: impl FnOnce() -> T) -> T {
    let start = Instant::now();
    let outcome = act();
    println!("{:?}, {what}: {:.1} ms", place.kind, start.elapsed().as_secs_f64() * 1e3);
    outcome
}

/// Opens the store and loads one app, as an engine does for its first request.
fn first_read(place: &Place, app_number: u32) -> Duration {
    let start = Instant::now();
    let store = place.try_open(OpenMode::Existing, environment(), StoreLimits::default()).expect("opened");
    assert!(store.load_app(&app(&format!("app-{app_number}"))).expect("read").is_some());
    start.elapsed()
}

fn median_first_read(what: &str, place: &Place, app_count: u32) {
    let mut times: Vec<Duration> = (0..31).map(|number| first_read(place, number * 31 % app_count)).collect();
    times.sort_unstable();
    println!(
        "{:?}, {what}: {:.2} ms, median of {}",
        place.kind,
        times[times.len() / 2].as_secs_f64() * 1e3,
        times.len()
    );
}

/// Prints the size of a file.
fn print_size(place: &Place) {
    if place.kind == Kind::Sqlite {
        println!("{:?}, size: {} KiB", place.kind, place.path().metadata().expect("there").len() >> 10);
    }
}

#[test]
fn a_large_file_is_migrated_and_read() {
    migrate_and_read(&Place::new(Kind::Sqlite));
}

#[test]
fn a_large_database_is_migrated_and_read() {
    migrate_and_read(&Place::new(Kind::Postgres));
}

fn migrate_and_read(place: &Place) {
    let app_count = std::env::var("LEAFSEAL_STORE_APPS").map_or(APP_COUNT, |text| text.parse().expect("a number"));
    let limits = StoreLimits { app_count_max: 10_000_000, ..StoreLimits::default() };
    let store = place.try_open(OpenMode::CreateOldIfMissing, environment(), limits).expect("made");
    timed(place, "apps created", || {
        for number in 0..app_count {
            store.create_app(&app(&format!("app-{number}")), NewKeys::generated()).expect("made");
        }
    });
    median_first_read("open and first read, schema 2", place, app_count);
    print_size(place);
    timed(place, "plan of the migration", || store.plan_migration().expect("planned"));
    let done = timed(place, "migration", || store.migrate(&mut |_, _| ()).expect("migrated"));
    // A database has the secret for tokens from the start.
    let secret_count = u32::from(place.kind == Kind::Postgres);
    assert_eq!(done.entry_count as u32, 2 * app_count + secret_count);
    print_size(place);
    median_first_read("open and first read, schema 3", place, app_count);
    let apps = timed(place, "list of all apps", || store.list_apps().expect("read"));
    assert_eq!(apps.len() as u32, app_count);
    let report = timed(place, "check", || store.check().expect("checked"));
    assert_eq!((report.app_count as u32, report.faults), (app_count, vec![]));
    let (mut scan, mut row_counts) = (StoreScan::default(), Vec::new());
    timed(place, "scan", || {
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
    println!(
        "{:?}, scan: {} steps, {total} rows, at most {} in a step",
        place.kind,
        row_counts.len(),
        most.unwrap_or(&0)
    );
    // `engine.store_scan_rows_per_second` counts on it.
    assert!(total < u64::from(app_count) * SCAN_ROWS_PER_APP + 2_000, "{total} rows");
    let second =
        timed(place, "a slot is added", || store.add_slot(&LocalRootKey::generate(&mut rng())).expect("added"));
    let slots = timed(place, "list of slots", || store.slots().expect("read"));
    assert_eq!(slots.len(), 2);
    let rotated = timed(place, "a new root", || store.rotate_root(None, &mut |_, _| ()).expect("rotated"));
    let sealed_count = app_count + secret_count + 1;
    assert_eq!(rotated.sealed_count as u32, sealed_count, "and the key of what was seen before the migration");
    timed(place, "a slot is removed", || store.remove_untested(&second.id).expect("removed"));
    median_first_read("open and first read, new root", place, app_count);
    timed(place, "a new version", || store.rotate(&app("app-0")).expect("rotated"));
}
