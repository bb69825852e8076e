//! Programs of before schema 3 that still run while a store is migrated: whatever they write or poll fails in the database, and they read
//! the version, so that they refuse the store.
//!
//! The statements are those of the last program before schema 3, word for word.

use std::time::Duration;

use leafseal_keystore::{NewKeys, StoreLimits};

use crate::common::{Kind, Place, app, assert_sound, environment, on_both_databases};

on_both_databases! {
    older_programs_change_nothing_after_a_migration,
}

/// What an older program begins a change with.
fn change(kind: Kind) -> &'static str {
    match kind {
        Kind::Sqlite => "BEGIN IMMEDIATE; UPDATE store SET generation = generation + 1; COMMIT",
        Kind::Postgres => {
            "BEGIN; SET LOCAL search_path = leafseal, pg_temp;
             UPDATE store SET generation = generation + 1, mark = 7 RETURNING store_id; COMMIT"
        }
    }
}

/// And how it looks for changes.
fn poll(kind: Kind) -> &'static str {
    match kind {
        Kind::Sqlite => "SELECT generation FROM store",
        Kind::Postgres => "SELECT store_id, generation, mark FROM leafseal.store",
    }
}

/// Runs a statement of an older program; returns why it failed.
fn run(place: &Place, sql: &str) -> Option<String> {
    match place.kind {
        Kind::Sqlite => {
            let connection = rusqlite::Connection::open(place.path()).expect("opened");
            connection.execute_batch(sql).err().map(|error| error.to_string())
        }
        Kind::Postgres => {
            let output = place.server().try_sql(place.database(), sql);
            (!output.status.success()).then(|| String::from_utf8_lossy(&output.stderr).into_owned())
        }
    }
}

fn older_programs_change_nothing_after_a_migration(place: &Place) {
    let store = place.open_old();
    store.create_app(&app("a"), NewKeys::generated()).expect("made");
    assert_eq!((run(place, change(place.kind)), run(place, poll(place.kind))), (None, None), "as it did before");
    store.migrate(&mut |_, _| ()).expect("migrated");
    let before = store.generation().expect("read");
    for sql in [change(place.kind), poll(place.kind)] {
        let refused = run(place, sql).expect("refused");
        assert!(refused.contains("generation"), "{refused}");
    }
    assert_eq!(run(place, "SELECT schema_version FROM store").filter(|_| place.kind == Kind::Sqlite), None);
    assert_eq!(store.generation().expect("read"), before);
    store.rotate(&app("a")).expect("rotated");
    assert_sound(&store);
}

/// One that waits for the lock of the migration gets it when the column is gone. The migration waits for those that came before, and they
/// not for it.
#[test]
fn an_older_writer_that_waits_for_a_migration_fails() {
    let place = Place::new(Kind::Postgres);
    let store = place.open_old();
    store.create_app(&app("a"), NewKeys::generated()).expect("made");
    let limits = StoreLimits { busy_timeout: Duration::from_secs(60), ..StoreLimits::default() };
    let migrating = place.try_open(leafseal_keystore::OpenMode::Existing, environment(), limits).expect("opened");
    let (server, database) = (place.server(), place.database());
    let waiting = |count: &str| {
        let locks =
            format!("SELECT count(*) FROM pg_stat_activity WHERE datname = '{database}' AND wait_event_type = 'Lock'");
        server.wait_until(&locks, count);
    };
    std::thread::scope(|scope| {
        let hold = "BEGIN; UPDATE leafseal.store SET mark = 1; SELECT pg_sleep(61); COMMIT";
        scope.spawn(|| assert!(!server.try_sql(database, hold).status.success()));
        server.wait_until(
            "SELECT count(*) FROM pg_stat_activity WHERE query LIKE '%pg_sleep(61)%' AND wait_event = 'PgSleep'
             AND pid <> pg_backend_pid()",
            "1",
        );
        let earlier = scope.spawn(|| run(&place, change(place.kind)));
        waiting("1");
        let migrated = scope.spawn(|| migrating.migrate(&mut |_, _| ()));
        waiting("2");
        let later = scope.spawn(|| run(&place, change(place.kind)));
        waiting("3");
        server.sql(
            "postgres",
            &format!(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
                 WHERE datname = '{database}' AND query LIKE '%pg_sleep(61)%' AND pid <> pg_backend_pid()"
            ),
        );
        assert_eq!(earlier.join().expect("no panic"), None);
        migrated.join().expect("no panic").expect("migrated");
        assert!(later.join().expect("no panic").is_some_and(|refused| refused.contains("generation")));
    });
    assert_sound(&migrating);
    store.generation().expect("it follows");
    store.rotate(&app("a")).expect("rotated");
    assert_sound(&store);
}
