//! A store in one process: the life of apps, versions and grants, limits, refusals, and a property over random sequences of changes
//! against a model in memory.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use crate::common::{
    Kind, NOW, Place, Store, app, assert_sound, client, context, environment, grant, key, on_both_databases, rng,
    root_key,
};
use leafseal_crypto::{Curve, PrivateKey, PublicKey, Secret};
use leafseal_keystore::{
    AcceptedSchemes, Apps, Environment, KeyState, LimitedEntries, LocalRootKey, NewClient, NewKeys, OpenMode,
    Operation, RoleName, Roles, StoreError, StoreLimits, TrimmedVersion, VersionSummary,
};
use proptest::prelude::*;
use serde_json::Value;

mod model;

on_both_databases! {
    an_app_lives_through_rotation_and_reopening,
    unknown_and_doubled_names_are_refused,
    imports_bring_either_key_or_both,
    a_key_is_never_in_a_store_twice,
    the_sdk_test_keys_import_by_their_scalars,
    disabled_versions_and_apps_say_so,
    grants_are_kept_replaced_and_disabled,
    what_is_accepted_is_kept_and_replaced,
    a_renewed_certificate_keeps_its_grant_and_the_old_one_ends,
    bounds_hold_and_say_which,
    trimmed_versions_are_gone_and_make_room,
    each_change_shows_in_the_generation_that_others_read,
    another_root_key_is_named_and_refused,
    a_store_of_a_newer_schema_is_refused,
    threads_share_a_store,
}

fn an_app_lives_through_rotation_and_reopening(place: &Place) {
    let store = place.open();
    let made = store.create_app(&app("pay"), NewKeys::generated()).expect("made");
    assert_eq!((made.created_at, made.disabled, made.versions.len()), (NOW, false, 1));
    let second = store.rotate(&app("pay")).expect("rotated");
    assert_eq!((second.version, second.state), (2, KeyState::Active));
    assert_ne!(second.r1, made.versions[0].r1);
    assert_ne!(second.k1, made.versions[0].k1);
    drop(store);

    let store = place.open();
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

fn unknown_and_doubled_names_are_refused(place: &Place) {
    let store = place.open();
    store.create_app(&app("a"), NewKeys::generated()).expect("made");
    assert!(matches!(store.create_app(&app("a"), NewKeys::generated()), Err(StoreError::AppExists(_))));
    assert!(matches!(store.rotate(&app("b")), Err(StoreError::UnknownApp(_))));
    assert!(matches!(store.disable_app(&app("b")), Err(StoreError::UnknownApp(_))));
    assert!(matches!(store.disable_version(&app("b"), 1), Err(StoreError::UnknownApp(_))));
    assert!(matches!(store.enable_version(&app("a"), 2), Err(StoreError::UnknownVersion { version: 2, .. })));
    assert!(matches!(store.disable_version(&app("a"), 0), Err(StoreError::UnknownVersion { version: 0, .. })));
    assert!(matches!(store.disable_client(&client("c")), Err(StoreError::UnknownClient(_))));
    assert_eq!(store.app_summary(&app("b")).expect("read"), None);
    assert!(store.load_app(&app("b")).expect("read").is_none());
    assert_eq!(store.public_keys(&app("b")).expect("read"), None);
    assert_eq!(store.client(&client("c")).expect("read"), None);
    assert_eq!(store.list_apps().expect("read").len(), 1);
    assert_sound(&store);
}

fn imports_bring_either_key_or_both(place: &Place) {
    let store = place.open();
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

fn a_key_is_never_in_a_store_twice(place: &Place) {
    let store = place.open();
    store.create_app(&app("a"), NewKeys::generated().with(key(Curve::P256, 1))).expect("made");
    let generation = store.generation().expect("read");
    let twice = store.add_version(&app("a"), NewKeys::generated().with(key(Curve::P256, 1)));
    assert!(matches!(twice, Err(StoreError::KeyInUse { curve: Curve::P256, version: 1, .. })));
    let shared = store.create_app(&app("b"), NewKeys::generated().with(key(Curve::P256, 1)));
    assert_eq!(shared.expect_err("refused").to_string(), "this r1 key is already version 1 of app a");
    assert_eq!(store.app_summary(&app("b")).expect("read"), None, "nothing of the app is left");
    assert_eq!(store.generation().expect("read"), generation, "nothing changed");
    assert_sound(&store);
}

fn the_sdk_test_keys_import_by_their_scalars(place: &Place) {
    let vectors = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../vectors/ev-sdk/keys.json");
    let vectors: Value = serde_json::from_slice(&fs::read(vectors).expect("vectors")).expect("JSON");
    let mut keys = NewKeys::generated();
    for curve in Curve::ALL {
        let hex = vectors[curve.short_name()]["d"].as_str().expect("text").trim_start_matches("0x");
        let scalar = Secret::from_slice(&hex::decode(hex).expect("hex")).expect("32 bytes");
        keys = keys.with(PrivateKey::from_scalar(curve, scalar).expect("in range"));
    }
    let made = place.open().create_app(&app("app_8022cc5a3073"), keys).expect("made");
    for (name, public) in [("r1", made.versions[0].r1), ("k1", made.versions[0].k1)] {
        let base64 = vectors[name]["pubU"].as_str().expect("text");
        let expected = <base64ct::Base64 as base64ct::Encoding>::decode_vec(base64).expect("base64");
        assert_eq!(public.uncompressed().as_slice(), expected);
    }
}

fn disabled_versions_and_apps_say_so(place: &Place) {
    let store = place.open();
    store.create_app(&app("a"), NewKeys::generated()).expect("made");
    assert!(matches!(store.disable_version(&app("a"), 1), Err(StoreError::LastActiveVersion { version: 1, .. })));
    store.rotate(&app("a")).expect("rotated");
    store.rotate(&app("a")).expect("rotated");
    store.disable_version(&app("a"), 3).expect("disabled");
    store.disable_version(&app("a"), 3).expect("disabled again");
    store.disable_version(&app("a"), 1).expect("disabled");
    assert!(matches!(store.disable_version(&app("a"), 2), Err(StoreError::LastActiveVersion { version: 2, .. })));
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

fn grants_are_kept_replaced_and_disabled(place: &Place) {
    let store = place.open();
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
    let store = place.open();
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

    assert!(matches!(store.put_client(&grant("other", &["a", "none"])), Err(StoreError::UnknownApp(_))));
    let nothing = store.put_client(&grant("another", &[])).expect("put");
    assert_eq!(nothing.apps, Apps::Only(BTreeSet::new()));
    let names: Vec<_> = store.list_clients().expect("read").into_iter().map(|one| one.name).collect();
    assert_eq!(names, [client("another"), client("billing")]);
    assert_sound(&store);
}

fn what_is_accepted_is_kept_and_replaced(place: &Place) {
    let store = place.open();
    let engines_alone = AcceptedSchemes { public_key: false, symmetric: true, from_public_key: false };
    let none = AcceptedSchemes { symmetric: false, ..engines_alone };
    for name in ["a", "b"] {
        assert_eq!(store.create_app(&app(name), NewKeys::generated()).expect("made").accept, AcceptedSchemes::ALL);
    }
    let of = |store: &Store, name: &str| {
        let loaded = store.load_app(&app(name)).expect("read").expect("there").accept;
        assert_eq!(store.app_summary(&app(name)).expect("read").expect("there").accept, loaded);
        loaded
    };
    for accept in [engines_alone, none, AcceptedSchemes::ALL, engines_alone] {
        let before = store.generation().expect("read");
        store.set_accepted(&app("a"), accept).expect("set");
        assert_ne!(store.generation().expect("read"), before);
        assert_eq!((of(&store, "a"), of(&store, "b")), (accept, AcceptedSchemes::ALL));
    }
    assert!(matches!(store.set_accepted(&app("c"), engines_alone), Err(StoreError::UnknownApp(_))));
    store.disable_app(&app("a")).expect("disabled");
    store.enable_app(&app("a")).expect("enabled");
    store.rotate(&app("a")).expect("rotated");
    let pinned = NewClient { accept: engines_alone, certificate_sha256: Some([1; 32]), ..grant("c", &["a"]) };
    assert_eq!(store.put_client(&pinned).expect("put").accept, engines_alone);
    assert_eq!(store.renew_client(&client("c"), [2; 32], NOW + 10).expect("renewed").accept, engines_alone);
    assert_sound(&store);
    drop(store);
    let store = place.open();
    let accepted = || store.client(&client("c")).expect("read").expect("there").accept;
    assert_eq!((of(&store, "a"), accepted()), (engines_alone, engines_alone));
    assert_eq!(store.list_apps().expect("read")[0].accept, engines_alone);
    store.put_client(&grant("c", &["a"])).expect("put");
    assert_eq!(accepted(), AcceptedSchemes::ALL, "another grant has its own");
    assert_sound(&store);

    let older = Place::new(place.kind);
    let store = older.open_old();
    store.create_app(&app("a"), NewKeys::generated()).expect("made");
    let is_refused = |outcome: Result<(), StoreError>| matches!(outcome, Err(StoreError::OldSchema { .. }));
    assert!(
        is_refused(store.set_accepted(&app("a"), engines_alone)) && is_refused(store.put_client(&pinned).map(drop))
    );
    store.set_accepted(&app("a"), AcceptedSchemes::ALL).expect("as it is");
    store.migrate(&mut |_, _| ()).expect("migrated");
    store.set_accepted(&app("a"), engines_alone).expect("set");
    assert_eq!(of(&store, "a"), engines_alone);
    assert_sound(&store);
}

fn a_renewed_certificate_keeps_its_grant_and_the_old_one_ends(place: &Place) {
    let store = place.open();
    store.create_app(&app("a"), NewKeys::generated()).expect("made");
    let name = client("c");
    let renew = |sha256: u8, until: u64| store.renew_client(&name, [sha256; 32], until).expect("renewed");
    let accepted = |now: u64| {
        let grant = store.client(&name).expect("read").expect("there");
        (1..=9).filter(|sha256| grant.accepts(&[*sha256; 32], now)).collect::<Vec<u8>>()
    };
    assert!(matches!(store.renew_client(&name, [1; 32], NOW), Err(StoreError::UnknownClient(_))));

    store.put_client(&NewClient { certificate_sha256: Some([1; 32]), ..grant("c", &["a"]) }).expect("put");
    let renewed = renew(2, NOW + 10);
    assert_eq!((&renewed.apps, renewed.disabled), (&grant("c", &["a"]).apps, false));
    assert_eq!([NOW, NOW + 10, NOW + 11].map(accepted), [vec![1, 2], vec![1, 2], vec![2]]);
    // The same again is no other certificate, and one that ends at once is not kept.
    renew(2, NOW + 10);
    assert_eq!(accepted(NOW), [1, 2]);
    renew(3, NOW - 1);
    assert_eq!(accepted(NOW), [1, 3]);
    // None that is accepted is dropped for a newer one.
    (4..=6).for_each(|sha256| drop(renew(sha256, NOW + 10 + u64::from(sha256))));
    assert_eq!(accepted(NOW), [1, 3, 4, 5, 6]);
    let full = store.renew_client(&name, [7; 32], NOW + 20).expect_err("refused");
    assert!(matches!(full, StoreError::ReplacedCertificates(_)), "{full}");
    assert_eq!(accepted(NOW), [1, 3, 4, 5, 6]);

    // Another grant accepts its own certificate alone.
    store.put_client(&NewClient { certificate_sha256: Some([2; 32]), ..grant("c", &["a"]) }).expect("put");
    assert_eq!(accepted(NOW), [2]);
    store.put_client(&grant("c", &["a"])).expect("put");
    renew(3, NOW + 10);
    assert_eq!(accepted(NOW).len(), 9, "not pinned");
    assert_sound(&store);
}

fn bounds_hold_and_say_which(place: &Place) {
    let limits = StoreLimits {
        app_count_max: 2,
        version_count_max: 3,
        client_count_max: 1,
        grant_entry_count_max: 1,
        ..StoreLimits::default()
    };
    let store = place.open_with(limits);
    let count = |result: Result<(), StoreError>| match result {
        Err(StoreError::TooMany { what, limit }) => Some((what, limit)),
        _ => None,
    };
    store.create_app(&app("a"), NewKeys::generated()).expect("first");
    store.create_app(&app("b"), NewKeys::generated()).expect("last");
    let past = store.create_app(&app("c"), NewKeys::generated());
    assert_eq!(count(past.map(drop)), Some((LimitedEntries::Apps, 2)));
    store.rotate(&app("a")).expect("second");
    store.rotate(&app("a")).expect("last");
    assert_eq!(count(store.rotate(&app("a")).map(drop)), Some((LimitedEntries::Versions, 3)));
    store.rotate(&app("b")).expect("counted apart");
    store.put_client(&grant("c", &["a"])).expect("only");
    store.put_client(&grant("c", &["b"])).expect("replaced");
    assert_eq!(count(store.put_client(&grant("d", &[])).map(drop)), Some((LimitedEntries::Clients, 1)));
    let past = store.put_client(&grant("c", &["a", "b"]));
    assert_eq!(count(past.map(drop)), Some((LimitedEntries::GrantEntries, 1)));
    assert_sound(&store);
}

/// The way out of the bound on versions: the keys of disabled versions are deleted, and nothing else is.
fn trimmed_versions_are_gone_and_make_room(place: &Place) {
    let store = place.open_with(StoreLimits { version_count_max: 3, ..StoreLimits::default() });
    let first = store.create_app(&app("a"), NewKeys::generated().with(key(Curve::P256, 1))).expect("made");
    store.rotate(&app("a")).expect("second");
    store.rotate(&app("a")).expect("third");
    let trim = |versions: &[u32]| store.trim_versions(&app("a"), &versions.iter().copied().collect());
    assert!(matches!(trim(&[1]), Err(StoreError::ActiveVersion { version: 1, .. })));
    store.disable_version(&app("a"), 1).expect("disabled");
    assert!(store.rotate(&app("a")).is_err(), "a disabled version counts");
    let wrapped = || place.tamper(&place.as_hex("wrapped_private_key", "key_pair WHERE version = 1 AND curve = 'r1'"));
    let before = wrapped();
    assert!(matches!(trim(&[1, 2]), Err(StoreError::ActiveVersion { version: 2, .. })), "all or none");
    assert!(matches!(trim(&[1, 9]), Err(StoreError::UnknownVersion { version: 9, .. })));
    assert!(matches!(store.trim_versions(&app("b"), &BTreeSet::from([1])), Err(StoreError::UnknownApp(_))));
    assert_eq!(wrapped(), before, "nothing was changed");
    trim(&[]).expect("none");
    trim(&[1]).expect("trimmed");
    if place.kind == Kind::Sqlite {
        let file = hex::encode_upper(fs::read(place.path()).expect("read"));
        assert!(before.len() > 64 && !file.contains(&before), "overwritten");
    }
    assert!(matches!(trim(&[1]), Err(StoreError::TrimmedVersion { version: 1, .. })));
    assert!(matches!(store.enable_version(&app("a"), 1), Err(StoreError::TrimmedVersion { version: 1, .. })));
    store.disable_version(&app("a"), 1).expect("no change");
    assert_sound(&store);

    let fourth = store.rotate(&app("a")).expect("there is room");
    assert_eq!(fourth.version, 4, "numbers are not given again");
    assert!(store.rotate(&app("a")).is_err(), "and the bound holds");
    store.disable_version(&app("a"), 4).expect("disabled");
    trim(&[4]).expect("the newest as well");
    assert_eq!(store.rotate(&app("a")).expect("there is room").version, 5);
    let summary = store.app_summary(&app("a")).expect("read").expect("there");
    assert_eq!(summary.versions.iter().map(|version| version.version).collect::<Vec<_>>(), [5, 3, 2]);
    assert_eq!(summary.trimmed, [4, 1].map(|version| TrimmedVersion { version, created_at: first.created_at }));
    assert_eq!(store.list_apps().expect("read"), [summary]);
    let keys = store.load_app(&app("a")).expect("read").expect("there");
    assert_eq!(keys.versions.iter().map(|version| version.version).collect::<Vec<_>>(), [5, 3, 2]);
    assert!([5, 3, 2].iter().all(|version| keys.active_version(*version).is_some()));
    assert!([1, 4, 6].iter().all(|version| keys.active_version(*version).is_none()));
    let report = store.check().expect("checked");
    assert_eq!((report.version_count, report.faults), (3, vec![]));
    store.create_app(&app("b"), NewKeys::generated().with(key(Curve::P256, 1))).expect("the key is in no store now");
}

fn each_change_shows_in_the_generation_that_others_read(place: &Place) {
    let writer = place.open();
    let reader = place.open();
    let changes: [(&str, &dyn Fn()); 12] = [
        ("create", &|| drop(writer.create_app(&app("a"), NewKeys::generated()).expect("made"))),
        ("import", &|| {
            drop(writer.create_app(&app("b"), NewKeys::generated().with(key(Curve::P256, 1))).expect("made"))
        }),
        ("rotate", &|| assert!(writer.rotate(&app("a")).is_ok())),
        ("disable version", &|| writer.disable_version(&app("a"), 1).expect("disabled")),
        ("enable version", &|| writer.enable_version(&app("a"), 1).expect("enabled")),
        ("trim", &|| {
            writer.disable_version(&app("a"), 1).expect("disabled");
            writer.trim_versions(&app("a"), &BTreeSet::from([1])).expect("trimmed");
        }),
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

fn another_root_key_is_named_and_refused(place: &Place) {
    drop(place.open());
    let other = LocalRootKey::generate(&mut rng());
    let (given, right) = (other.id(), root_key().id());
    let environment = Environment { providers: vec![Box::new(other)], ..environment() };
    let refused = place.try_open(OpenMode::CreateIfMissing, environment, StoreLimits::default());
    assert_eq!(
        refused.err().expect("refused").to_string(),
        format!("this keystore is opened by root key {right}, but the given one is {given}")
    );
}

fn a_store_of_a_newer_schema_is_refused(place: &Place) {
    drop(place.open());
    // A newer schema may have dropped what this one uses.
    place.tamper("UPDATE store SET schema_version = 4; ALTER TABLE store DROP COLUMN root_key_id");
    let refused = place.try_open(OpenMode::Existing, environment(), StoreLimits::default());
    assert!(matches!(refused, Err(StoreError::NewerSchema { found: 4, supported: 3 })));
}

fn threads_share_a_store(place: &Place) {
    let store = place.open();
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
