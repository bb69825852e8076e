//! A store in one process: the life of apps, versions and grants, limits, refusals, and a property over random sequences of changes
//! against a model in memory.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::time::{Duration, Instant};

use crate::common::{NOW, app, assert_sound, context, environment, key, open, open_with, place, rng};
use fieldseal_crypto::{Curve, PrivateKey, PublicKey, Secret};
use fieldseal_keystore::{
    Apps, ClientName, Counted, Environment, Error, KeyState, Keystore, Limits, LocalRootKey, NewClient, NewKeys,
    OpenMode, Operation, RoleName, Roles, RootKey, SecretPath, SqliteKeystore, VersionSummary,
};
use proptest::prelude::*;
use serde_json::Value;

mod model;

fn client(name: &str) -> ClientName {
    ClientName::parse(name).expect("valid")
}

fn grant(name: &str, apps: &[&str]) -> NewClient {
    NewClient {
        name: client(name),
        apps: Apps::Only(apps.iter().map(|name| app(name)).collect()),
        operations: BTreeSet::from([Operation::Encrypt]),
        roles: Roles::Any,
        certificate_sha256: None,
    }
}

#[test]
fn an_app_lives_through_rotation_and_reopening() {
    let (_folder, path) = place();
    let store = open(&path);
    let made = store.create_app(&app("pay"), NewKeys::generated()).expect("made");
    assert_eq!((made.created_at, made.disabled, made.versions.len()), (NOW, false, 1));
    let second = store.rotate(&app("pay")).expect("rotated");
    assert_eq!((second.version, second.state), (2, KeyState::Active));
    assert_ne!(second.r1, made.versions[0].r1);
    assert_ne!(second.k1, made.versions[0].k1);
    drop(store);

    let store = open(&path);
    let summary = store.app_summary(&app("pay")).expect("read").expect("there");
    assert_eq!(summary.versions, [second.clone(), made.versions[0].clone()], "newest first");
    let keys = store.load_app(&app("pay")).expect("read").expect("there");
    assert_eq!(keys.newest_active().expect("active").version, 2);
    for (loaded, stored) in keys.versions.iter().zip(&summary.versions) {
        assert_eq!((loaded.version, loaded.created_at), (stored.version, stored.created_at));
        for (curve, public) in [(Curve::P256, stored.r1), (Curve::Secp256k1, stored.k1)] {
            assert_eq!(loaded.pair(curve).public(), &public);
            assert_eq!(context().public_key(loaded.pair(curve).private()), public);
        }
    }
    let public = store.public_keys(&app("pay")).expect("read").expect("there");
    assert_eq!((public.version, public.r1, public.k1), (2, second.r1, second.k1));
    assert_sound(&store);
}

#[test]
fn unknown_and_doubled_names_are_refused() {
    let (_folder, path) = place();
    let store = open(&path);
    store.create_app(&app("a"), NewKeys::generated()).expect("made");
    assert!(matches!(store.create_app(&app("a"), NewKeys::generated()), Err(Error::AppExists(_))));
    assert!(matches!(store.rotate(&app("b")), Err(Error::UnknownApp(_))));
    assert!(matches!(store.disable_app(&app("b")), Err(Error::UnknownApp(_))));
    assert!(matches!(store.disable_version(&app("b"), 1), Err(Error::UnknownApp(_))));
    assert!(matches!(store.enable_version(&app("a"), 2), Err(Error::UnknownVersion { version: 2, .. })));
    assert!(matches!(store.disable_version(&app("a"), 0), Err(Error::UnknownVersion { version: 0, .. })));
    assert!(matches!(store.disable_client(&client("c")), Err(Error::UnknownClient(_))));
    assert_eq!(store.app_summary(&app("b")).expect("read"), None);
    assert!(store.load_app(&app("b")).expect("read").is_none());
    assert_eq!(store.public_keys(&app("b")).expect("read"), None);
    assert_eq!(store.client(&client("c")).expect("read"), None);
    assert_eq!(store.list_apps().expect("read").len(), 1);
    assert_sound(&store);
}

#[test]
fn imports_bring_either_key_or_both() {
    let (_folder, path) = place();
    let store = open(&path);
    let public = |curve, number| context().public_key(&key(curve, number));
    let one = store.create_app(&app("a"), NewKeys::generated().with(key(Curve::P256, 1))).expect("made");
    assert_eq!(one.versions[0].r1, public(Curve::P256, 1));
    let two = store.add_version(&app("a"), NewKeys::generated().with(key(Curve::Secp256k1, 2))).expect("made");
    assert_eq!(two.k1, public(Curve::Secp256k1, 2));
    let both = NewKeys::generated().with(key(Curve::P256, 3)).with(key(Curve::Secp256k1, 3));
    let three = store.add_version(&app("a"), both).expect("made");
    assert_eq!((three.r1, three.k1), (public(Curve::P256, 3), public(Curve::Secp256k1, 3)));
    assert_sound(&store);
}

#[test]
fn a_key_is_never_in_a_store_twice() {
    let (_folder, path) = place();
    let store = open(&path);
    store.create_app(&app("a"), NewKeys::generated().with(key(Curve::P256, 1))).expect("made");
    let generation = store.generation().expect("read");
    let twice = store.add_version(&app("a"), NewKeys::generated().with(key(Curve::P256, 1)));
    assert!(matches!(twice, Err(Error::KeyInUse { curve: Curve::P256, version: 1, .. })));
    let shared = store.create_app(&app("b"), NewKeys::generated().with(key(Curve::P256, 1)));
    assert_eq!(shared.expect_err("refused").to_string(), "this r1 key is already version 1 of app a");
    assert_eq!(store.app_summary(&app("b")).expect("read"), None, "nothing of the app is left");
    assert_eq!(store.generation().expect("read"), generation, "nothing changed");
    assert_sound(&store);
}

#[test]
fn the_sdk_test_keys_import_by_their_scalars() {
    let vectors = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../vectors/ev-sdk/keys.json");
    let vectors: Value = serde_json::from_slice(&fs::read(vectors).expect("vectors")).expect("JSON");
    let mut keys = NewKeys::generated();
    for curve in Curve::ALL {
        let hex = vectors[curve.short_name()]["d"].as_str().expect("text").trim_start_matches("0x");
        let scalar = Secret::from_slice(&hex::decode(hex).expect("hex")).expect("32 bytes");
        keys = keys.with(PrivateKey::from_scalar(curve, scalar).expect("in range"));
    }
    let (_folder, path) = place();
    let made = open(&path).create_app(&app("app_8022cc5a3073"), keys).expect("made");
    for (name, public) in [("r1", made.versions[0].r1), ("k1", made.versions[0].k1)] {
        let base64 = vectors[name]["pubU"].as_str().expect("text");
        let expected = <base64ct::Base64 as base64ct::Encoding>::decode_vec(base64).expect("base64");
        assert_eq!(public.uncompressed().as_slice(), expected);
    }
}

#[test]
fn disabled_versions_and_apps_say_so() {
    let (_folder, path) = place();
    let store = open(&path);
    store.create_app(&app("a"), NewKeys::generated()).expect("made");
    assert!(matches!(store.disable_version(&app("a"), 1), Err(Error::LastActiveVersion { version: 1, .. })));
    store.rotate(&app("a")).expect("rotated");
    store.rotate(&app("a")).expect("rotated");
    store.disable_version(&app("a"), 3).expect("disabled");
    store.disable_version(&app("a"), 3).expect("disabled again");
    store.disable_version(&app("a"), 1).expect("disabled");
    assert!(matches!(store.disable_version(&app("a"), 2), Err(Error::LastActiveVersion { version: 2, .. })));
    let keys = store.load_app(&app("a")).expect("read").expect("there");
    assert_eq!(keys.versions.len(), 1, "disabled versions stay encrypted");
    assert_eq!(keys.active_versions().map(|version| version.version).collect::<Vec<_>>(), [2]);
    assert_eq!(store.public_keys(&app("a")).expect("read").expect("there").version, 2);
    store.enable_version(&app("a"), 3).expect("enabled");
    let newest = store.load_app(&app("a")).expect("read").expect("there");
    assert_eq!(newest.newest_active().map(|version| version.version), Some(3));

    store.disable_app(&app("a")).expect("disabled");
    assert!(store.load_app(&app("a")).expect("read").expect("there").disabled);
    assert!(store.app_summary(&app("a")).expect("read").expect("there").disabled);
    store.enable_app(&app("a")).expect("enabled");
    assert!(!store.load_app(&app("a")).expect("read").expect("there").disabled);
    assert_sound(&store);
}

#[test]
fn grants_are_kept_replaced_and_disabled() {
    let (_folder, path) = place();
    let store = open(&path);
    store.create_app(&app("a"), NewKeys::generated()).expect("made");
    store.create_app(&app("b"), NewKeys::generated()).expect("made");
    let narrow = NewClient {
        roles: Roles::Only(BTreeSet::from([RoleName::parse("pci").expect("valid")])),
        operations: BTreeSet::from([Operation::Encrypt, Operation::Decrypt]),
        certificate_sha256: Some([7; 32]),
        ..grant("billing", &["a", "b"])
    };
    let kept = store.put_client(&narrow).expect("put");
    assert_eq!((kept.created_at, kept.disabled), (NOW, false));
    assert_eq!((&kept.apps, &kept.roles), (&narrow.apps, &narrow.roles));
    assert_eq!((&kept.operations, kept.certificate_sha256), (&narrow.operations, Some([7; 32])));
    assert!(kept.allows(Operation::Decrypt, &app("a")) && !kept.allows(Operation::Decrypt, &app("c")));
    drop(store);
    let store = open(&path);
    assert_eq!(store.client(&client("billing")).expect("read"), Some(kept));

    store.disable_client(&client("billing")).expect("disabled");
    let wide = NewClient { apps: Apps::All, roles: Roles::Any, ..grant("billing", &[]) };
    let replaced = store.put_client(&wide).expect("put");
    assert!(replaced.disabled, "a new grant does not enable");
    assert!(!replaced.allows(Operation::Encrypt, &app("a")));
    assert_eq!((&replaced.apps, &replaced.roles), (&Apps::All, &Roles::Any));
    assert_eq!(replaced.certificate_sha256, None);
    store.enable_client(&client("billing")).expect("enabled");
    let enabled = store.client(&client("billing")).expect("read").expect("there");
    assert!(enabled.allows(Operation::Encrypt, &app("later")) && !enabled.allows(Operation::Decrypt, &app("a")));

    assert!(matches!(store.put_client(&grant("other", &["a", "none"])), Err(Error::UnknownApp(_))));
    let nothing = store.put_client(&grant("another", &[])).expect("put");
    assert_eq!(nothing.apps, Apps::Only(BTreeSet::new()));
    let names: Vec<_> = store.list_clients().expect("read").into_iter().map(|one| one.name).collect();
    assert_eq!(names, [client("another"), client("billing")]);
    assert_sound(&store);
}

#[test]
fn bounds_hold_and_say_which() {
    let (_folder, path) = place();
    let limits = Limits {
        app_count_max: 2,
        version_count_max: 3,
        client_count_max: 1,
        grant_entry_count_max: 1,
        ..Limits::default()
    };
    let store = open_with(&path, limits);
    let count = |result: Result<(), Error>| match result {
        Err(Error::TooMany { what, limit }) => Some((what, limit)),
        _ => None,
    };
    store.create_app(&app("a"), NewKeys::generated()).expect("first");
    store.create_app(&app("b"), NewKeys::generated()).expect("last");
    let past = store.create_app(&app("c"), NewKeys::generated());
    assert_eq!(count(past.map(drop)), Some((Counted::Apps, 2)));
    store.rotate(&app("a")).expect("second");
    store.rotate(&app("a")).expect("last");
    assert_eq!(count(store.rotate(&app("a")).map(drop)), Some((Counted::Versions, 3)));
    store.rotate(&app("b")).expect("counted apart");
    store.put_client(&grant("c", &["a"])).expect("only");
    store.put_client(&grant("c", &["b"])).expect("replaced");
    assert_eq!(count(store.put_client(&grant("d", &[])).map(drop)), Some((Counted::Clients, 1)));
    let past = store.put_client(&grant("c", &["a", "b"]));
    assert_eq!(count(past.map(drop)), Some((Counted::GrantEntries, 1)));
    assert_sound(&store);
}

#[test]
fn a_full_store_refuses_and_stays_as_it_was() {
    let (_folder, path) = place();
    let small = Limits { store_size_max: 128 << 10, version_count_max: u32::MAX, ..Limits::default() };
    let store = open_with(&path, small);
    store.create_app(&app("a"), NewKeys::generated()).expect("made");
    let (mut count, mut generation) = (1, store.generation().expect("read"));
    let error = loop {
        match store.rotate(&app("a")) {
            Ok(_) => (count, generation) = (count + 1, store.generation().expect("read")),
            Err(error) => break error,
        }
    };
    assert!(matches!(error, Error::Full), "{error}");
    assert_eq!(store.generation().expect("read"), generation);
    assert_eq!(store.load_app(&app("a")).expect("read").expect("there").versions.len(), count);
    assert_sound(&store);
    assert!(fs::metadata(&path).expect("there").len() <= 128 << 10);
    drop(store);
    open(&path).rotate(&app("a")).expect("room again");
}

#[test]
fn each_change_shows_in_the_generation_that_others_read() {
    let (_folder, path) = place();
    let writer = open(&path);
    let reader = open(&path);
    let changes: [(&str, &dyn Fn()); 11] = [
        ("create", &|| drop(writer.create_app(&app("a"), NewKeys::generated()).expect("made"))),
        ("import", &|| {
            drop(writer.create_app(&app("b"), NewKeys::generated().with(key(Curve::P256, 1))).expect("made"))
        }),
        ("rotate", &|| assert!(writer.rotate(&app("a")).is_ok())),
        ("disable version", &|| writer.disable_version(&app("a"), 1).expect("disabled")),
        ("enable version", &|| writer.enable_version(&app("a"), 1).expect("enabled")),
        ("disable app", &|| writer.disable_app(&app("a")).expect("disabled")),
        ("enable app", &|| writer.enable_app(&app("a")).expect("enabled")),
        ("put client", &|| assert!(writer.put_client(&grant("c", &["a"])).is_ok())),
        ("replace client", &|| assert!(writer.put_client(&grant("c", &["b"])).is_ok())),
        ("disable client", &|| writer.disable_client(&client("c")).expect("disabled")),
        ("enable client", &|| writer.enable_client(&client("c")).expect("enabled")),
    ];
    for (name, change) in changes {
        let before = reader.generation().expect("read");
        reader.load_app(&app("a")).expect("read");
        assert_eq!(reader.generation().expect("read"), before, "reading is no change");
        change();
        assert_ne!(reader.generation().expect("read"), before, "{name}");
    }
    let before = reader.generation().expect("read");
    assert!(writer.rotate(&app("none")).is_err());
    assert_eq!(reader.generation().expect("read"), before, "a refused change is none");
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
    put_in_place(&backup, &path);
    assert!(!store.client(&client("c")).expect("read").expect("there").disabled, "as in the copy");
    put_in_place(&backup, &path);
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
    assert!(matches!(refusal, Error::OtherStore(_)) && refusal.to_string().contains("restart"), "{refusal}");
    assert!(matches!(store.rotate(&app("a")), Err(Error::OtherStore(_))));
    fs::write(&other, b"no store at all, however long it may be").expect("written");
    put_in_place(&other, &path);
    assert!(matches!(store.load_app(&app("a")), Err(Error::NotAStore(_))));
    fs::remove_file(&path).expect("removed");
    assert!(matches!(store.list_apps(), Err(Error::NoStore(_))));
    put_in_place(&backup, &path);
    assert!(store.load_app(&app("a")).expect("read").is_some(), "back again");
}

#[test]
fn a_store_is_created_only_on_request() {
    let folder = tempfile::tempdir().expect("folder");
    let path = folder.path().join("deep/er/store.db");
    let existing = || SqliteKeystore::open(&path, OpenMode::Existing, environment(), Limits::default());
    assert!(matches!(existing(), Err(Error::NoStore(_))));
    assert!(!folder.path().join("deep").exists());
    fs::create_dir_all(path.parent().expect("folder")).expect("folder");
    assert!(matches!(existing(), Err(Error::NoStore(_))));
    fs::write(&path, b"").expect("written");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).expect("changed");
    assert!(matches!(existing(), Err(Error::NoStore(_))), "an empty file is what a kill leaves");
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
    let reopen = || SqliteKeystore::open(&path, OpenMode::CreateIfMissing, environment(), Limits::default());
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
            Err(Error::Permissions { what, mode: found, .. }) => {
                assert_eq!(found, mode);
                Some(what)
            }
            Err(other) => panic!("{other}"),
        };
        assert_eq!(found, refused, "{mode:o}");
    }
}

#[test]
fn another_root_key_is_named_and_refused() {
    let (_folder, path) = place();
    drop(open(&path));
    let other = LocalRootKey::generate(&mut rng());
    let (given, right) = (other.id(), environment().root_key.id());
    let environment = Environment { root_key: Box::new(other), ..environment() };
    let refused = SqliteKeystore::open(&path, OpenMode::CreateIfMissing, environment, Limits::default());
    assert_eq!(
        refused.expect_err("refused").to_string(),
        format!("this store was made with root key {right}, the one given is {given}")
    );
}

#[test]
fn other_files_are_no_stores() {
    let (folder, path) = place();
    let open = |path: &Path| SqliteKeystore::open(path, OpenMode::CreateIfMissing, environment(), Limits::default());
    fs::write(&path, "some text that is longer than the header of a database\n".repeat(100)).expect("written");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).expect("changed");
    assert!(matches!(open(&path), Err(Error::NotAStore(_))));
    let inner = folder.path().join("folder");
    fs::create_dir(&inner).expect("made");
    assert!(matches!(open(&inner), Err(Error::NotAStore(_))));
    fs::remove_file(&path).expect("removed");
    let foreign = rusqlite::Connection::open(&path).expect("made");
    foreign.execute_batch("CREATE TABLE other (x)").expect("made");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).expect("changed");
    assert!(matches!(open(&path), Err(Error::NotAStore(_))));
}

#[test]
fn a_store_of_a_newer_schema_is_refused() {
    let (_folder, path) = place();
    drop(open(&path));
    let raw = rusqlite::Connection::open(&path).expect("opened");
    raw.execute("UPDATE store SET schema_version = 3", []).expect("changed");
    // A newer schema may have dropped what this one uses.
    raw.execute_batch("ALTER TABLE store DROP COLUMN store_id").expect("changed");
    let refused = SqliteKeystore::open(&path, OpenMode::Existing, environment(), Limits::default());
    assert!(matches!(refused, Err(Error::NewerSchema { found: 3, supported: 2 })));
}

#[test]
fn a_locked_store_is_waited_for_and_then_reported_busy() {
    let (_folder, path) = place();
    let limits = Limits { busy_timeout: Duration::from_millis(100), ..Limits::default() };
    let store = open_with(&path, limits);
    store.create_app(&app("a"), NewKeys::generated()).expect("made");
    let mut raw = rusqlite::Connection::open(&path).expect("opened");
    let held = raw.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate).expect("held");
    let start = Instant::now();
    assert!(matches!(store.rotate(&app("a")), Err(Error::Busy)));
    assert!(start.elapsed() >= Duration::from_millis(90), "{:?}", start.elapsed());
    assert!(store.load_app(&app("a")).expect("readers go on").is_some());
    drop(held);
    store.rotate(&app("a")).expect("free again");
    let held = raw.transaction_with_behavior(rusqlite::TransactionBehavior::Exclusive).expect("held");
    assert!(matches!(store.generation(), Err(Error::Busy)));
    drop(held);
    assert_sound(&store);
}

#[test]
fn threads_share_a_store() {
    let (_folder, path) = place();
    let store = open(&path);
    store.create_app(&app("a"), NewKeys::generated()).expect("made");
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..5 {
                    store.rotate(&app("a")).expect("rotated");
                    store.load_app(&app("a")).expect("read").expect("there");
                }
            });
        }
    });
    assert_eq!(store.load_app(&app("a")).expect("read").expect("there").versions.len(), 21);
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
