//! A store whose file was changed by someone else: moved keys, substituted public keys, missing rows, flipped bits. A key that
//! loads must be the key that was stored.

use std::fs;
use std::path::Path;

use crate::common::{app, assert_sound, context, environment, key, open, place};
use fieldseal_crypto::Curve;
use fieldseal_keystore::{AppKeys, Error, Fault, KeyFault, Keystore, Limits, NewKeys, OpenMode, SqliteKeystore};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

/// Two apps with two versions each, all keys known.
fn filled(path: &Path) -> SqliteKeystore {
    let store = open(path);
    for (name, first) in [("a", 1), ("b", 3)] {
        let keys = |number| NewKeys::generated().with(key(Curve::P256, number)).with(key(Curve::Secp256k1, number));
        store.create_app(&app(name), keys(first)).expect("made");
        store.add_version(&app(name), keys(first + 1)).expect("made");
    }
    store
}

fn raw(path: &Path) -> rusqlite::Connection {
    let raw = rusqlite::Connection::open(path).expect("opened");
    raw.execute_batch("PRAGMA foreign_keys = OFF; PRAGMA ignore_check_constraints = ON").expect("set");
    raw
}

/// App, version and curve of a row of `key_pair`.
type Row = (&'static str, u32, &'static str);

fn pair(raw: &rusqlite::Connection, row: Row) -> (Vec<u8>, Vec<u8>) {
    let select = "SELECT public_key, wrapped_private_key FROM key_pair WHERE app = ?1 AND version = ?2 AND curve = ?3";
    raw.query_row(select, row, |row| Ok((row.get(0)?, row.get(1)?))).expect("there")
}

fn set_pair(raw: &rusqlite::Connection, row: Row, public: &[u8], wrapped: &[u8]) {
    let update = "UPDATE key_pair SET public_key = ?4, wrapped_private_key = ?5
                  WHERE app = ?1 AND version = ?2 AND curve = ?3";
    let changed = raw.execute(update, (row.0, row.1, row.2, public, wrapped)).expect("changed");
    assert_eq!(changed, 1);
}

fn key_faults(store: &SqliteKeystore) -> Vec<(String, u32, Curve, KeyFault)> {
    let faults = store.check().expect("checked").faults;
    faults
        .into_iter()
        .map(|fault| match fault {
            Fault::Key { app, version, curve, fault } => (app.to_string(), version, curve, fault),
            other => panic!("{other}"),
        })
        .collect()
}

/// Asserts that app a does not load for the sake of an r1 key, with the reason `expected`.
fn assert_damaged(store: &SqliteKeystore, expected: KeyFault) {
    match store.load_app(&app("a")) {
        Err(Error::DamagedKey { app: found, curve: Curve::P256, fault, .. }) => {
            assert_eq!((found, fault), (app("a"), expected));
        }
        other => panic!("{other:?}"),
    }
    assert!(store.public_keys(&app("a")).is_err());
}

#[test]
fn moved_private_keys_do_not_open() {
    const LEFT: Row = ("a", 1, "r1");
    for right in [("b", 1, "r1"), ("a", 2, "r1"), ("a", 1, "k1")] {
        let (_folder, path) = place();
        let store = filled(&path);
        let raw = raw(&path);
        let (left_pair, right_pair) = (pair(&raw, LEFT), pair(&raw, right));
        set_pair(&raw, LEFT, &left_pair.0, &right_pair.1);
        set_pair(&raw, right, &right_pair.0, &left_pair.1);
        assert_damaged(&store, KeyFault::Unopenable);
        let faults = key_faults(&store);
        assert_eq!(faults.len(), 2, "{right:?}: {faults:?}");
        assert!(faults.iter().all(|fault| fault.3 == KeyFault::Unopenable));
    }
}

#[test]
fn whole_pairs_moved_between_apps_or_versions_do_not_open() {
    const LEFT: Row = ("a", 1, "r1");
    for right in [("b", 1, "r1"), ("a", 2, "r1")] {
        let (_folder, path) = place();
        let store = filled(&path);
        let raw = raw(&path);
        let (left_pair, right_pair) = (pair(&raw, LEFT), pair(&raw, right));
        set_pair(&raw, right, &[0], &[0]);
        set_pair(&raw, LEFT, &right_pair.0, &right_pair.1);
        set_pair(&raw, right, &left_pair.0, &left_pair.1);
        assert_damaged(&store, KeyFault::Unopenable);
        assert_eq!(key_faults(&store).len(), 2, "{right:?}");
    }
}

#[test]
fn a_pair_from_another_store_under_the_same_root_key_does_not_open() {
    const ROW: Row = ("a", 1, "r1");
    let ((_folder, path), (_other_folder, other)) = (place(), place());
    let store = filled(&path);
    let other_store = open(&other);
    other_store.create_app(&app("a"), NewKeys::generated()).expect("made");
    let moved = pair(&raw(&other), ROW);
    set_pair(&raw(&path), ROW, &moved.0, &moved.1);
    assert_damaged(&store, KeyFault::Unopenable);
    assert_sound(&other_store);
}

#[test]
fn a_public_key_that_was_slipped_in_is_never_handed_out() {
    const ROW: Row = ("a", 1, "r1");
    let (_folder, path) = place();
    let store = filled(&path);
    let raw = raw(&path);
    let original = pair(&raw, ROW);
    let foreign = context().public_key(&key(Curve::P256, 99));
    set_pair(&raw, ROW, foreign.uncompressed(), &original.1);
    assert_damaged(&store, KeyFault::Unopenable);
    let mut off_curve = *foreign.uncompressed();
    off_curve[64] ^= 1;
    for public in [off_curve.as_slice(), &[], &[0], &original.0[..64]] {
        set_pair(&raw, ROW, public, &original.1);
        assert_damaged(&store, KeyFault::PublicKey);
        assert!(matches!(store.list_apps(), Err(Error::DamagedKey { .. })));
    }
    set_pair(&raw, ROW, &original.0, &original.1);
    assert_sound(&store);
}

#[test]
fn missing_rows_are_found() {
    let (_folder, path) = place();
    let store = filled(&path);
    raw(&path).execute_batch("DELETE FROM key_pair WHERE app = 'a' AND version = 1 AND curve = 'r1'").expect("removed");
    assert_damaged(&store, KeyFault::Missing);
    assert_eq!(key_faults(&store), [("a".to_owned(), 1, Curve::P256, KeyFault::Missing)]);
    assert!(store.load_app(&app("b")).expect("read").is_some(), "the other app is well");

    raw(&path)
        .execute_batch("DELETE FROM key_pair WHERE app = 'a' AND version = 1; DELETE FROM key_version WHERE app = 'a' AND version = 1")
        .expect("removed");
    assert_eq!(store.check().expect("checked").faults, [Fault::Versions(app("a"))]);
    raw(&path).execute_batch("DELETE FROM app WHERE name = 'b'").expect("removed");
    assert!(matches!(store.check().expect("checked").faults[..], [Fault::Database(_), ..]));
}

#[test]
fn rows_that_break_a_rule_are_refused() {
    let cases = [
        "UPDATE app SET name = 'A b' WHERE name = 'b'",
        "UPDATE app SET created_at = -1 WHERE name = 'a'",
        "UPDATE key_version SET disabled = 1 WHERE app = 'a'",
    ];
    for sql in cases {
        let (_folder, path) = place();
        let store = filled(&path);
        raw(&path).execute_batch(sql).expect("changed");
        assert!(!store.check().expect("checked").faults.is_empty(), "{sql}");
        assert!(store.public_keys(&app("a")).is_err() || store.list_apps().is_err(), "{sql}");
    }
    let (_folder, path) = place();
    drop(filled(&path));
    raw(&path).execute_batch("DELETE FROM store").expect("changed");
    let refused = SqliteKeystore::open(&path, OpenMode::Existing, environment(), Limits::default());
    assert!(matches!(refused, Err(Error::Inconsistent(_))));
}

#[test]
fn damage_to_a_disabled_version_harms_no_other_but_is_found() {
    let damages: [(&str, Result<KeyFault, &str>); 4] = [
        ("UPDATE key_pair SET wrapped_private_key = x'00' WHERE {row}", Ok(KeyFault::Unopenable)),
        ("UPDATE key_pair SET public_key = x'04' WHERE {row}", Ok(KeyFault::PublicKey)),
        ("DELETE FROM key_pair WHERE {row}", Ok(KeyFault::Missing)),
        ("UPDATE key_version SET created_at = -1 WHERE app = 'a' AND version = 1", Err("a date lies before 1970")),
    ];
    for (sql, expected) in damages {
        let (_folder, path) = place();
        drop(filled(&path));
        drop_checks(&path);
        let store = open(&path);
        store.disable_version(&app("a"), 1).expect("disabled");
        let row = "app = 'a' AND version = 1 AND curve = 'r1'";
        raw(&path).execute_batch(&sql.replace("{row}", row)).expect("changed");
        let keys = store.load_app(&app("a")).expect(sql).expect("there");
        assert_eq!(keys.versions.iter().map(|version| version.version).collect::<Vec<_>>(), [2], "{sql}");
        assert_only_right_keys(&keys, 1);
        assert_eq!(store.public_keys(&app("a")).expect(sql).expect("there").version, 2);
        match expected {
            Ok(fault) => assert_eq!(key_faults(&store), [("a".to_owned(), 1, Curve::P256, fault)]),
            Err(what) => assert_eq!(
                store.check().expect("checked").faults,
                [Fault::Unreadable(format!("the versions of app a cannot be read: {what}"))]
            ),
        }
        match (store.enable_version(&app("a"), 1).expect_err(sql), expected) {
            (Error::DamagedKey { version, curve, fault, .. }, Ok(expected)) => {
                assert_eq!((version, curve, fault), (1, Curve::P256, expected));
            }
            (Error::Inconsistent(what), Err(expected)) => assert_eq!(what, expected),
            (other, _) => panic!("{sql}: {other}"),
        }
        assert_eq!(store.public_keys(&app("a")).expect(sql).expect("there").version, 2, "as it was");
    }
}

#[test]
fn a_check_continues_after_an_unreadable_row() {
    const RANGE: &str = "a value is of another type or range than its column";
    let cases = [
        ("UPDATE key_version SET created_at = -1 WHERE app = 'a'", "the versions of app a", "a date lies before 1970"),
        (
            "UPDATE key_version SET version = 4294967296 WHERE app = 'a' AND version = 2;
          UPDATE key_pair SET version = 4294967296 WHERE app = 'a' AND version = 2",
            "the versions of app a",
            RANGE,
        ),
        ("INSERT INTO client VALUES (CAST(x'ff' AS TEXT), 0, 0, 1, 1, 1, 1, NULL)", "the clients", RANGE),
        (
            "INSERT INTO client VALUES ('a/b', 0, 0, 1, 1, 1, 1, NULL)",
            "the clients",
            "a client has a name that is none",
        ),
        ("INSERT INTO app VALUES (CAST(x'ff' AS TEXT), 0, 0)", "the apps", RANGE),
    ];
    for (sql, unreadable, what) in cases {
        let (_folder, path) = place();
        drop(filled(&path));
        drop_checks(&path);
        raw(&path).execute_batch(sql).expect("changed");
        raw(&path)
            .execute_batch("UPDATE key_pair SET wrapped_private_key = x'00' WHERE app = 'b' AND version = 1")
            .expect("changed");
        let faults = open(&path).check().expect("checked").faults;
        let expected = Fault::Unreadable(format!("{unreadable} cannot be read: {what}"));
        assert!(faults.contains(&expected), "{sql}: {faults:?}");
        let of_b = faults.iter().filter(|fault| matches!(fault, Fault::Key { version: 1, .. })).count();
        // Without the apps there are no keys to check.
        assert_eq!(of_b, if unreadable == "the apps" { 0 } else { 2 }, "{sql}: {faults:?}");
    }
}

/// Takes the rules of the columns out of the schema, so that the database finds nothing wrong with what breaks them.
fn drop_checks(path: &Path) {
    let raw = raw(path);
    raw.execute_batch(
        "PRAGMA writable_schema = ON;
         UPDATE sqlite_schema SET sql = replace(replace(sql, 'CHECK (created_at >= 0)', ''),
             'CHECK (version BETWEEN 1 AND 4294967295)', '');",
    )
    .expect("changed");
}

/// Whether every key that loads is one of those that [`filled`] stored, in its place.
fn assert_only_right_keys(keys: &AppKeys, first: u32) {
    for version in &keys.versions {
        for curve in Curve::ALL {
            let expected = key(curve, first + version.version - 1);
            assert_eq!(version.pair(curve).private().scalar(), expected.scalar());
        }
    }
}

/// Opens the file as it is and reads everything: errors are fine, wrong keys and panics are not.
fn look(path: &Path) {
    let Ok(store) = SqliteKeystore::open(path, OpenMode::Existing, environment(), Limits::default()) else {
        return;
    };
    for (name, first) in [("a", 1), ("b", 3)] {
        if let Ok(Some(keys)) = store.load_app(&app(name)) {
            assert_only_right_keys(&keys, first);
        }
    }
    let _ = store.check().map(|report| report.faults.len());
}

#[test]
fn flipped_bits_and_cut_files_never_give_a_wrong_key() {
    let (_folder, path) = place();
    drop(filled(&path));
    let whole = fs::read(&path).expect("there");
    let mut rng = StdRng::seed_from_u64(5);
    for _ in 0..300 {
        let mut changed = whole.clone();
        let index = rng.random_range(0..changed.len());
        changed[index] ^= 1 << rng.random_range(0..8);
        fs::write(&path, &changed).expect("written");
        look(&path);
    }
    for pages in 0..whole.len() / 4096 {
        for size in [pages * 4096, pages * 4096 + 1, pages * 4096 + 2048] {
            fs::write(&path, &whole[..size]).expect("written");
            look(&path);
        }
    }
    fs::write(&path, &whole).expect("written");
    assert_sound(&open(&path));
}
