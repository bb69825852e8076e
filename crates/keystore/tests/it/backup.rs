//! Backups: whole and verified or refused, from each database to each, while others change the store.

use std::sync::atomic::{AtomicBool, Ordering};

use leafseal_crypto::rand_core::Rng;
use leafseal_keystore::{
    BackedUp, BackupFault, Environment, LocalRootKey, NewKeys, OpenMode, Restored, StoreAddress, StoreError,
    StoreLimits, back_up, restore,
};

use crate::common::{Kind, Place, app, environment, rng};
use crate::copy::{assert_equal, fill};

const KINDS: [Kind; 2] = [Kind::Sqlite, Kind::Postgres];

fn at<T>(place: &Place, run: impl FnOnce(&StoreAddress<'_>) -> T) -> T {
    match place.kind {
        Kind::Sqlite => run(&StoreAddress::File(place.path())),
        Kind::Postgres => run(&StoreAddress::Database(&place.settings())),
    }
}

fn backup(place: &Place) -> Result<(Vec<u8>, BackedUp), StoreError> {
    let mut bytes = Vec::new();
    let done = at(place, |address| back_up(address, environment(), StoreLimits::default(), &mut bytes))?;
    assert_eq!(done.size, bytes.len() as u64);
    Ok((bytes, done))
}

fn restore_to(place: &Place, backup: &[u8]) -> Result<Restored, StoreError> {
    restore_as(place, backup, || Ok(environment()))
}

fn restore_as(
    place: &Place,
    mut backup: &[u8],
    environment: impl Fn() -> Result<Environment, StoreError>,
) -> Result<Restored, StoreError> {
    at(place, |address| restore(&mut backup, address, environment, StoreLimits::default()))
}

fn is_empty(place: &Place) -> bool {
    let opened = place.try_open(OpenMode::Existing, environment(), StoreLimits::default());
    matches!(opened.err(), Some(StoreError::NoStore(_) | StoreError::NotAStore(_)))
}

#[test]
fn a_backup_restores_the_same_store_in_each_database() {
    for from in KINDS {
        let original = Place::new(from);
        fill(&original);
        let (bytes, done) = backup(&original).expect("backed up");
        for to in KINDS {
            let place = Place::new(to);
            let restored = restore_to(&place, &bytes).expect("restored");
            assert_eq!((restored.generation, restored.row_count), (done.generation, done.row_count), "{from:?} {to:?}");
            assert_eq!((restored.report.app_count, restored.report.version_count), (2, 4));
            assert_eq!(restored.report.faults, []);
            assert_equal(&original, &place);
            place.open().rotate(&app("a")).expect("it continues there");
        }
    }
}

#[test]
fn a_backup_of_the_older_schema_restores_it() {
    let (original, place) = (Place::new(Kind::Sqlite), Place::new(Kind::Sqlite));
    original.open_old().create_app(&app("a"), NewKeys::generated()).expect("made");
    let restored = restore_to(&place, &backup(&original).expect("backed up").0).expect("restored");
    assert_eq!(restored.report.schema_version, 2);
    place.open_old().migrate(&mut |_, _| ()).expect("it continues there");
}

/// More rows than a page has, in every table of apps.
#[test]
fn a_backup_has_every_page() {
    let (original, place) = (Place::new(Kind::Sqlite), Place::new(Kind::Sqlite));
    let store = original.open();
    store.create_app(&app("a"), NewKeys::generated()).expect("made");
    store.create_app(&app("b"), NewKeys::generated()).expect("made");
    drop(store);
    let limits = StoreLimits { version_count_max: 1000, ..StoreLimits::default() };
    let store = original.open_with(limits);
    for _ in 0..520 {
        store.rotate(&app("a")).expect("rotated");
    }
    drop(store);
    let restored = restore_to(&place, &backup(&original).expect("backed up").0).expect("restored");
    assert_eq!((restored.report.version_count, restored.report.faults), (522, vec![]));
}

#[test]
fn a_backup_that_was_changed_is_refused_and_leaves_nothing() {
    let original = Place::new(Kind::Sqlite);
    fill(&original);
    let (bytes, _) = backup(&original).expect("backed up");
    let place = Place::new(Kind::Sqlite);
    let refused = |bytes: &[u8]| restore_to(&place, bytes).expect_err("refused");
    let mut rng = rng();
    for _ in 0..200 {
        let mut changed = bytes.clone();
        let index = (rng.next_u64() % bytes.len() as u64) as usize;
        changed[index] ^= 1 << (rng.next_u64() % 8);
        refused(&changed);
        assert!(is_empty(&place), "a bit of byte {index}");
        assert!(matches!(refused(&bytes[..index]), StoreError::Backup(_)), "cut at {index}");
    }
    assert!(matches!(refused(&[&bytes, &b"x"[..]].concat()), StoreError::Backup(BackupFault::Damaged)));
    assert!(matches!(refused(b"SQLite format 3"), StoreError::Backup(BackupFault::NotABackup)));
    assert!(matches!(refused(b"leafseal-backup-2\n"), StoreError::Backup(BackupFault::NewerFormat)));
    let other = || {
        let root_key = LocalRootKey::generate(&mut crate::common::rng());
        Ok(Environment { providers: vec![Box::new(root_key)], ..environment() })
    };
    assert!(matches!(restore_as(&place, &bytes, other).err(), Some(StoreError::WrongRootKey { .. })));
    assert!(is_empty(&place));
    restore_to(&place, &bytes).expect("restored");
    assert!(matches!(refused(&bytes), StoreError::NotEmpty(_)), "never overwritten");
}

#[test]
fn a_store_that_something_else_has_changed_is_not_backed_up() {
    for kind in KINDS {
        let place = Place::new(kind);
        fill(&place);
        place.tamper("UPDATE app SET created_at = created_at + 1 WHERE name = 'b'");
        assert!(matches!(backup(&place), Err(StoreError::Edited(_))), "{kind:?}");
    }
}

/// Each backup is one state of the store, whatever is changed meanwhile.
#[test]
fn backups_during_changes_are_consistent() {
    for kind in KINDS {
        let place = Place::new(kind);
        place.open().create_app(&app("a"), NewKeys::generated()).expect("made");
        let is_done = AtomicBool::new(false);
        let backups: Vec<_> = std::thread::scope(|scope| {
            scope.spawn(|| {
                let store = place.open();
                while !is_done.load(Ordering::Acquire) {
                    store.rotate(&app("a")).expect("rotated");
                    let versions = store.app_summary(&app("a")).expect("read").expect("there").versions;
                    store.disable_version(&app("a"), versions[0].version - 1).expect("disabled");
                    if versions.len() > 100 {
                        break;
                    }
                }
            });
            let backups = (0..5).map(|_| backup(&place).expect("backed up").0).collect();
            is_done.store(true, Ordering::Release);
            backups
        });
        for bytes in backups {
            let restored = restore_to(&Place::new(Kind::Sqlite), &bytes).expect("restored");
            assert_eq!(restored.report.faults, [], "{kind:?}");
        }
    }
}
