//! A store in a file: who may reach it, what takes its place, what it does on a full disk or behind another process.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::time::{Duration, Instant};

use crate::common::client;
use crate::common::{app, assert_file_sound as assert_sound, environment, grant, key, open, open_with, place};
use leafseal_crypto::Curve;
use leafseal_keystore::{Keystore, NewKeys, OpenMode, SecretPath, SqliteKeystore, StoreError, StoreLimits};

#[test]
fn a_full_store_refuses_and_stays_as_it_was() {
    let (_folder, path) = place();
    let small = StoreLimits { store_size_max: 256 << 10, version_count_max: u32::MAX, ..StoreLimits::default() };
    let store = open_with(&path, small);
    store.create_app(&app("a"), NewKeys::generated()).expect("made");
    let (mut count, mut generation) = (1, store.generation().expect("read"));
    let error = loop {
        match store.rotate(&app("a")) {
            Ok(_) => (count, generation) = (count + 1, store.generation().expect("read")),
            Err(error) => break error,
        }
    };
    assert!(matches!(error, StoreError::Full), "{error}");
    assert_eq!(store.generation().expect("read"), generation);
    assert_eq!(store.load_app(&app("a")).expect("read").expect("there").versions.len(), count);
    assert_sound(&store);
    assert!(fs::metadata(&path).expect("there").len() <= 256 << 10);
    drop(store);
    open(&path).rotate(&app("a")).expect("room again");
}

/// Puts the file at `from` in the place of the one at `to`, as a backup is restored.
fn put_in_place(from: &Path, to: &Path) {
    let draft = to.with_extension("new");
    fs::copy(from, &draft).expect("copied");
    fs::rename(&draft, to).expect("renamed");
}

#[test]
fn a_copy_put_in_the_place_of_the_store_is_in_force_at_once() {
    let (folder, path) = place();
    let backup = folder.path().join("backup.db");
    let store = open(&path);
    store.create_app(&app("a"), NewKeys::generated()).expect("made");
    store.put_client(&grant("c", &["a"])).expect("granted");
    fs::copy(&path, &backup).expect("copied");
    let before = store.generation().expect("read");
    put_in_place(&backup, &path);
    let after = store.generation().expect("read");
    assert!(after != before && after.changes == before.changes, "the same content, and yet it must be looked at");
    assert_eq!(store.generation().expect("read"), after, "opened once");
    // Another process changes the file that is there now.
    open(&path).disable_client(&client("c")).expect("disabled");
    assert!(store.client(&client("c")).expect("read").expect("there").disabled);
    assert_eq!(store.generation().expect("read").changes, after.changes + 1);
    let newest = folder.path().join("newest.db");
    fs::copy(&path, &newest).expect("copied");
    put_in_place(&backup, &path);
    assert!(matches!(store.client(&client("c")), Err(StoreError::RolledBack { .. })), "older than what was seen");
    assert!(matches!(store.disable_app(&app("a")), Err(StoreError::RolledBack { .. })));
    put_in_place(&newest, &path);
    store.disable_app(&app("a")).expect("a change goes to the file that is there");
    assert!(open(&path).app_summary(&app("a")).expect("read").expect("there").disabled);
    assert_sound(&store);
}

#[test]
fn another_store_is_refused_in_its_place() {
    let (folder, path) = place();
    let (backup, other) = (folder.path().join("backup.db"), folder.path().join("other.db"));
    let store = open(&path);
    store.create_app(&app("a"), NewKeys::generated()).expect("made");
    fs::copy(&path, &backup).expect("copied");
    drop(open(&other));
    put_in_place(&other, &path);
    let refusal = store.generation().expect_err("another store");
    assert!(matches!(refusal, StoreError::OtherStore(_)) && refusal.to_string().contains("restart"), "{refusal}");
    assert!(matches!(store.rotate(&app("a")), Err(StoreError::OtherStore(_))));
    fs::write(&other, b"no store at all, however long it may be").expect("written");
    put_in_place(&other, &path);
    assert!(matches!(store.load_app(&app("a")), Err(StoreError::NotAStore(_))));
    fs::remove_file(&path).expect("removed");
    assert!(matches!(store.list_apps(), Err(StoreError::NoStore(_))));
    put_in_place(&backup, &path);
    assert!(store.load_app(&app("a")).expect("read").is_some(), "back again");
}

#[test]
fn a_store_is_created_only_on_request() {
    let folder = tempfile::tempdir().expect("folder");
    let path = folder.path().join("deep/er/store.db");
    let existing = || SqliteKeystore::open(&path, OpenMode::Existing, environment(), StoreLimits::default());
    assert!(matches!(existing(), Err(StoreError::NoStore(_))));
    assert!(!folder.path().join("deep").exists());
    fs::create_dir_all(path.parent().expect("folder")).expect("folder");
    assert!(matches!(existing(), Err(StoreError::NoStore(_))));
    fs::write(&path, b"").expect("written");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).expect("changed");
    assert!(matches!(existing(), Err(StoreError::NoStore(_))), "an empty file is what a kill leaves");
    open(&path).create_app(&app("a"), NewKeys::generated()).expect("made");
    assert_eq!(existing().expect("opened").list_apps().expect("read").len(), 1);
}

#[test]
fn files_are_private_and_open_ones_refused() {
    let folder = tempfile::tempdir().expect("folder");
    let (home, path) = (folder.path().join("home"), folder.path().join("home/store.db"));
    drop(open(&path));
    assert_eq!(fs::metadata(&home).expect("there").mode() & 0o7777, 0o700);
    assert_eq!(fs::metadata(&path).expect("there").mode() & 0o7777, 0o600);
    let reopen = || SqliteKeystore::open(&path, OpenMode::CreateIfMissing, environment(), StoreLimits::default());
    for (target, mode, refused) in [
        (&path, 0o640, Some(SecretPath::StoreFile)),
        (&path, 0o602, Some(SecretPath::StoreFile)),
        (&path, 0o600, None),
        (&home, 0o770, Some(SecretPath::StoreFolder)),
        (&home, 0o755, None),
    ] {
        fs::set_permissions(target, fs::Permissions::from_mode(mode)).expect("changed");
        let found = match reopen() {
            Ok(_) => None,
            Err(StoreError::Permissions { what, mode: found, .. }) => {
                assert_eq!(found, mode);
                Some(what)
            }
            Err(other) => panic!("{other}"),
        };
        assert_eq!(found, refused, "{mode:o}");
    }
}

#[test]
fn other_files_are_no_stores() {
    let (folder, path) = place();
    let open =
        |path: &Path| SqliteKeystore::open(path, OpenMode::CreateIfMissing, environment(), StoreLimits::default());
    fs::write(&path, "some text that is longer than the header of a database\n".repeat(100)).expect("written");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).expect("changed");
    assert!(matches!(open(&path), Err(StoreError::NotAStore(_))));
    let inner = folder.path().join("folder");
    fs::create_dir(&inner).expect("made");
    assert!(matches!(open(&inner), Err(StoreError::NotAStore(_))));
    fs::remove_file(&path).expect("removed");
    let foreign = rusqlite::Connection::open(&path).expect("made");
    foreign.execute_batch("CREATE TABLE other (x)").expect("made");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).expect("changed");
    assert!(matches!(open(&path), Err(StoreError::NotAStore(_))));
}

#[test]
fn a_locked_store_is_waited_for_and_then_reported_busy() {
    let (_folder, path) = place();
    let limits = StoreLimits { busy_timeout: Duration::from_millis(100), ..StoreLimits::default() };
    let store = open_with(&path, limits);
    store.create_app(&app("a"), NewKeys::generated()).expect("made");
    let mut raw = rusqlite::Connection::open(&path).expect("opened");
    let held = raw.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate).expect("held");
    let start = Instant::now();
    assert!(matches!(store.rotate(&app("a")), Err(StoreError::Busy)));
    assert!(start.elapsed() >= Duration::from_millis(90), "{:?}", start.elapsed());
    assert!(store.load_app(&app("a")).expect("readers go on").is_some());
    drop(held);
    store.rotate(&app("a")).expect("free again");
    let held = raw.transaction_with_behavior(rusqlite::TransactionBehavior::Exclusive).expect("held");
    assert!(matches!(store.generation(), Err(StoreError::Busy)));
    drop(held);
    assert_sound(&store);
}

#[test]
fn no_private_key_shows_in_the_file_or_in_debug_output() {
    let (_folder, path) = place();
    let store = open(&path);
    let secret = key(Curve::P256, 1);
    store.create_app(&app("a"), NewKeys::generated().with(secret.clone())).expect("made");
    let keys = store.load_app(&app("a")).expect("read").expect("there");
    let shown = format!("{keys:?} {store:?} {:?}", NewKeys::generated().with(secret.clone()));
    assert!(!shown.contains(&hex::encode(secret.scalar().expose())[..8]), "{shown}");
    let file = fs::read(&path).expect("there");
    let scalar = &secret.scalar().expose()[..8];
    assert!(!file.windows(scalar.len()).any(|window| window == scalar));
    assert_eq!(keys.versions[0].r1.private().scalar(), secret.scalar());
}
