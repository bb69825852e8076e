//! A store without an authenticated tree that someone else changed: moved keys, substituted public keys, missing rows, flipped bits. A key
//! that loads must be the key that was stored.

use std::fs;
use std::path::Path;

use crate::common::{Kind, Place, Store, app, assert_sound, context, environment, key, on_both_databases};
use leafseal_crypto::Curve;
use leafseal_keystore::{
    AppKeys, KeyFault, Keystore, NewKeys, OpenMode, SqliteKeystore, StoreError, StoreFault, StoreLimits,
};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

on_both_databases! {
    moved_private_keys_do_not_open,
    whole_pairs_moved_between_apps_or_versions_do_not_open,
    a_pair_from_another_store_under_the_same_root_key_does_not_open,
    a_public_key_that_was_slipped_in_is_never_handed_out,
    missing_rows_are_found,
    rows_that_break_a_rule_are_refused,
    damage_to_a_disabled_version_harms_no_other_but_is_found,
    a_check_continues_after_an_unreadable_row,
}

/// Two apps with two versions each, all keys known.
fn filled(place: &Place) -> Store {
    let store = place.open_old();
    for (name, first) in [("a", 1), ("b", 3)] {
        let keys = |number| NewKeys::generated().with(key(Curve::P256, number)).with(key(Curve::Secp256k1, number));
        store.create_app(&app(name), keys(first)).expect("made");
        store.add_version(&app(name), keys(first + 1)).expect("made");
    }
    store
}

/// App, version and curve of a row of `key_pair`.
type Row = (&'static str, u32, &'static str);

fn matching(row: Row) -> String {
    format!("app = '{}' AND version = {} AND curve = '{}'", row.0, row.1, row.2)
}

/// Public and wrapped key.
fn pair(place: &Place, row: Row) -> (Vec<u8>, Vec<u8>) {
    let column = |name| {
        let select = place.as_hex(name, "key_pair");
        hex::decode(place.tamper(&format!("{select} WHERE {}", matching(row)))).expect("digits")
    };
    (column("public_key"), column("wrapped_private_key"))
}

fn set_pair(place: &Place, row: Row, public: &[u8], wrapped: &[u8]) {
    let (public, wrapped) = (hex::encode(public), hex::encode(wrapped));
    let columns = format!("public_key = x'{public}', wrapped_private_key = x'{wrapped}'");
    place.tamper(&format!("UPDATE key_pair SET {columns} WHERE {}", matching(row)));
}

/// What a check finds, without the rules that [`Place::drop_checks`] took away.
fn faults(store: &Store) -> Vec<StoreFault> {
    let mut faults = store.check().expect("checked").faults;
    faults.retain(|fault| !matches!(fault, StoreFault::Schema(_)));
    faults
}

fn key_faults(store: &Store) -> Vec<(String, u32, Curve, KeyFault)> {
    faults(store)
        .into_iter()
        .map(|fault| match fault {
            StoreFault::Key { app, version, curve, fault } => (app.to_string(), version, curve, fault),
            other => panic!("{other}"),
        })
        .collect()
}

/// Asserts that app a does not load for the sake of an r1 key, with the reason `expected`.
fn assert_damaged(store: &Store, expected: KeyFault) {
    match store.load_app(&app("a")) {
        Err(StoreError::DamagedKey { app: found, curve: Curve::P256, fault, .. }) => {
            assert_eq!((found, fault), (app("a"), expected));
        }
        other => panic!("{other:?}"),
    }
    assert!(store.public_keys(&app("a")).is_err());
}

fn moved_private_keys_do_not_open(place: &Place) {
    const LEFT: Row = ("a", 1, "r1");
    for right in [("b", 1, "r1"), ("a", 2, "r1"), ("a", 1, "k1")] {
        let place = &Place::new(place.kind);
        let store = filled(place);
        let (left_pair, right_pair) = (pair(place, LEFT), pair(place, right));
        set_pair(place, LEFT, &left_pair.0, &right_pair.1);
        set_pair(place, right, &right_pair.0, &left_pair.1);
        assert_damaged(&store, KeyFault::Unopenable);
        let faults = key_faults(&store);
        assert_eq!(faults.len(), 2, "{right:?}: {faults:?}");
        assert!(faults.iter().all(|fault| fault.3 == KeyFault::Unopenable));
    }
}

fn whole_pairs_moved_between_apps_or_versions_do_not_open(place: &Place) {
    const LEFT: Row = ("a", 1, "r1");
    for right in [("b", 1, "r1"), ("a", 2, "r1")] {
        let place = &Place::new(place.kind);
        let store = filled(place);
        let (left_pair, right_pair) = (pair(place, LEFT), pair(place, right));
        set_pair(place, right, &[0], &[0]);
        set_pair(place, LEFT, &right_pair.0, &right_pair.1);
        set_pair(place, right, &left_pair.0, &left_pair.1);
        assert_damaged(&store, KeyFault::Unopenable);
        assert_eq!(key_faults(&store).len(), 2, "{right:?}");
    }
}

fn a_pair_from_another_store_under_the_same_root_key_does_not_open(place: &Place) {
    const ROW: Row = ("a", 1, "r1");
    let other = &Place::new(place.kind);
    let store = filled(place);
    let other_store = other.open_old();
    other_store.create_app(&app("a"), NewKeys::generated()).expect("made");
    let moved = pair(other, ROW);
    set_pair(place, ROW, &moved.0, &moved.1);
    assert_damaged(&store, KeyFault::Unopenable);
    assert_sound(&other_store);
}

fn a_public_key_that_was_slipped_in_is_never_handed_out(place: &Place) {
    const ROW: Row = ("a", 1, "r1");
    let store = filled(place);
    let original = pair(place, ROW);
    let foreign = context().public_key(&key(Curve::P256, 99));
    set_pair(place, ROW, foreign.uncompressed(), &original.1);
    assert_damaged(&store, KeyFault::Unopenable);
    let mut off_curve = *foreign.uncompressed();
    off_curve[64] ^= 1;
    for public in [off_curve.as_slice(), &[], &[0], &original.0[..64]] {
        set_pair(place, ROW, public, &original.1);
        assert_damaged(&store, KeyFault::PublicKey);
        assert!(matches!(store.list_apps(), Err(StoreError::DamagedKey { .. })));
    }
    set_pair(place, ROW, &original.0, &original.1);
    assert_sound(&store);
}

fn missing_rows_are_found(place: &Place) {
    let store = filled(place);
    place.tamper("DELETE FROM key_pair WHERE app = 'a' AND version = 1 AND curve = 'r1'");
    assert_damaged(&store, KeyFault::Missing);
    assert_eq!(key_faults(&store), [("a".to_owned(), 1, Curve::P256, KeyFault::Missing)]);
    assert!(store.load_app(&app("b")).expect("read").is_some(), "the other app is well");

    place.tamper(
        "DELETE FROM key_pair WHERE app = 'a' AND version = 1; DELETE FROM key_version WHERE app = 'a' AND version = 1",
    );
    assert_eq!(store.check().expect("checked").faults, [StoreFault::Versions(app("a"))]);
    place.tamper("DELETE FROM app WHERE name = 'b'");
    assert!(matches!(store.check().expect("checked").faults[..], [StoreFault::Reference { .. }, ..]));
}

fn rows_that_break_a_rule_are_refused(place: &Place) {
    let cases = [
        "UPDATE app SET name = 'A b' WHERE name = 'b'",
        "UPDATE app SET created_at = -1 WHERE name = 'a'",
        "UPDATE key_version SET disabled = TRUE WHERE app = 'a'",
    ];
    for sql in cases {
        let place = &Place::new(place.kind);
        let store = filled(place);
        if place.kind == Kind::Postgres {
            place.drop_checks();
        }
        place.tamper(sql);
        assert!(!store.check().expect("checked").faults.is_empty(), "{sql}");
        assert!(store.public_keys(&app("a")).is_err() || store.list_apps().is_err(), "{sql}");
    }
    drop(filled(place));
    place.tamper("DELETE FROM store");
    let refused = place.try_open(OpenMode::Existing, environment(), StoreLimits::default());
    assert!(matches!(refused, Err(StoreError::Inconsistent(_))));
}

fn damage_to_a_disabled_version_harms_no_other_but_is_found(place: &Place) {
    let damages: [(&str, Result<KeyFault, &str>); 4] = [
        ("UPDATE key_pair SET wrapped_private_key = x'00' WHERE {row}", Ok(KeyFault::Unopenable)),
        ("UPDATE key_pair SET public_key = x'04' WHERE {row}", Ok(KeyFault::PublicKey)),
        ("DELETE FROM key_pair WHERE {row}", Ok(KeyFault::Missing)),
        ("UPDATE key_version SET created_at = -1 WHERE app = 'a' AND version = 1", Err("a date lies before 1970")),
    ];
    for (sql, expected) in damages {
        let place = &Place::new(place.kind);
        drop(filled(place));
        place.drop_checks();
        let store = place.open();
        store.disable_version(&app("a"), 1).expect("disabled");
        let row = "app = 'a' AND version = 1 AND curve = 'r1'";
        place.tamper(&sql.replace("{row}", row));
        let keys = store.load_app(&app("a")).expect(sql).expect("there");
        assert_eq!(keys.versions.iter().map(|version| version.version).collect::<Vec<_>>(), [2], "{sql}");
        assert_only_right_keys(&keys, 1);
        assert_eq!(store.public_keys(&app("a")).expect(sql).expect("there").version, 2);
        match expected {
            Ok(fault) => assert_eq!(key_faults(&store), [("a".to_owned(), 1, Curve::P256, fault)]),
            Err(what) => assert_eq!(
                faults(&store),
                [StoreFault::Unreadable(format!("the versions of app a cannot be read: {what}"))]
            ),
        }
        match (store.enable_version(&app("a"), 1).expect_err(sql), expected) {
            (StoreError::DamagedKey { version, curve, fault, .. }, Ok(expected)) => {
                assert_eq!((version, curve, fault), (1, Curve::P256, expected));
            }
            (StoreError::Inconsistent(what), Err(expected)) => assert_eq!(what, expected),
            (other, _) => panic!("{sql}: {other}"),
        }
        assert_eq!(store.public_keys(&app("a")).expect(sql).expect("there").version, 2, "as it was");
    }
}

fn a_check_continues_after_an_unreadable_row(place: &Place) {
    const RANGE: &str = "a value is of another type or range than its column";
    let cases = [
        ("UPDATE key_version SET created_at = -1 WHERE app = 'a'", "the versions of app a", "a date lies before 1970"),
        (
            "UPDATE key_version SET version = 4294967296 WHERE app = 'a' AND version = 2;
          UPDATE key_pair SET version = 4294967296 WHERE app = 'a' AND version = 2",
            "the versions of app a",
            RANGE,
        ),
        (
            "INSERT INTO client VALUES (CAST(x'ff' AS TEXT), 0, FALSE, TRUE, TRUE, TRUE, TRUE, NULL)",
            "the clients",
            RANGE,
        ),
        (
            "INSERT INTO client VALUES ('a/b', 0, FALSE, TRUE, TRUE, TRUE, TRUE, NULL)",
            "the clients",
            "a client has a name that is none",
        ),
        ("INSERT INTO app VALUES (CAST(x'ff' AS TEXT), 0, FALSE)", "the apps", RANGE),
    ];
    for (sql, unreadable, what) in cases {
        // PostgreSQL itself refuses text that is not UTF-8.
        if place.kind == Kind::Postgres && sql.contains("x'ff'") {
            continue;
        }
        let place = &Place::new(place.kind);
        drop(filled(place));
        place.drop_checks();
        place.tamper(sql);
        place.tamper("UPDATE key_pair SET wrapped_private_key = x'00' WHERE app = 'b' AND version = 1");
        let faults = place.open().check().expect("checked").faults;
        let expected = StoreFault::Unreadable(format!("{unreadable} cannot be read: {what}"));
        assert!(faults.contains(&expected), "{sql}: {faults:?}");
        let of_b = faults.iter().filter(|fault| matches!(fault, StoreFault::Key { version: 1, .. })).count();
        assert_eq!(of_b, 2, "{sql}: {faults:?}");
    }
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
    let Ok(store) = SqliteKeystore::open(path, OpenMode::Existing, environment(), StoreLimits::default()) else {
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
    let place = &Place::new(Kind::Sqlite);
    let path = place.path();
    drop(filled(place));
    let whole = fs::read(path).expect("there");
    let mut rng = StdRng::seed_from_u64(5);
    for _ in 0..300 {
        let mut changed = whole.clone();
        let index = rng.random_range(0..changed.len());
        changed[index] ^= 1 << rng.random_range(0..8);
        fs::write(path, &changed).expect("written");
        look(path);
    }
    for pages in 0..whole.len() / 4096 {
        for size in [pages * 4096, pages * 4096 + 1, pages * 4096 + 2048] {
            fs::write(path, &whole[..size]).expect("written");
            look(path);
        }
    }
    fs::write(path, &whole).expect("written");
    assert_sound(&place.open());
}
