//! Key versions come back from escrow whole, in their order and signed by a store that is trusted, or not at all.

use std::time::Duration;

use leafseal_keystore::{
    AcceptedSchemes, ESCROW_SIGNER, EscrowFault, EscrowImport, EscrowImported, KeyState, NewKeys, RECORD_KEY_SIZE,
    StoreError, StoreFault, SymmetricRoot, VersionSummary,
};
use leafseal_testkit::EscrowHolder;

use crate::common::{Place, Store, app, assert_sound, on_both_databases};

on_both_databases! {
    versions_come_back_in_their_order_with_what_their_app_accepts,
    an_app_that_is_there_keeps_what_it_accepts,
    an_import_is_made_whole_or_not_at_all,
    parts_of_several_exports_are_refused,
    a_signature_counts_by_whose_it_is,
    a_compromised_root_signs_for_nobody,
    a_version_without_a_symmetric_root_comes_back_without_one,
    a_symmetric_key_of_several_versions_is_reported,
}

const SYMMETRIC: AcceptedSchemes = AcceptedSchemes { public_key: false, ..AcceptedSchemes::ALL };

type SignerKey = Option<[u8; RECORD_KEY_SIZE]>;

fn import(store: &Store, to: &str, texts: &[&String], signer: SignerKey) -> Result<EscrowImported, StoreError> {
    import_from(store, "acme", to, texts, signer)
}

fn import_from(
    store: &Store,
    from: &str,
    to: &str,
    texts: &[&String],
    signer: SignerKey,
) -> Result<EscrowImported, StoreError> {
    let holder = EscrowHolder::default();
    let versions = texts.iter().map(|text| holder.read(text)).collect();
    store.import_escrow(&app(to), EscrowImport { versions, from: app(from), signer })
}

/// An empty store, with its place.
fn another(place: &Place) -> (Place, Store) {
    let other = Place::new(place.kind);
    let store = other.open();
    (other, store)
}

fn signer(store: &Store) -> SignerKey {
    store.record_key(ESCROW_SIGNER, None).expect("read").map(|key| key.public_key())
}

fn export(store: &Store, name: &str) -> Vec<String> {
    EscrowHolder::default().export(&**store, &app(name))
}

/// A store with three versions of `acme`, which accepts symmetric envelopes alone, and what it exports of them, newest first.
fn exported(place: &Place) -> (Store, Vec<String>) {
    let store = place.open();
    store.create_app(&app("acme"), NewKeys::generated()).expect("made");
    for _ in 0..2 {
        store.rotate(&app("acme")).expect("rotated");
    }
    store.set_accepted(&app("acme"), SYMMETRIC).expect("set");
    let texts = export(&store, "acme");
    (store, texts)
}

#[track_caller]
fn assert_fault<T: std::fmt::Debug>(outcome: Result<T, StoreError>, expected: EscrowFault) {
    assert!(matches!(&outcome, Err(StoreError::Escrow(fault)) if *fault == expected), "{outcome:?}, not {expected}");
}

fn unsigned(version: u32) -> EscrowFault {
    EscrowFault::Signature { app: app("acme"), version }
}

fn versions_come_back_in_their_order_with_what_their_app_accepts(place: &Place) {
    let (store, texts) = exported(place);
    let (_new, new) = another(place);
    // By the numbers of their statements, whatever their order.
    let given = [&texts[1], &texts[0], &texts[2]];
    let imported = import(&new, "acme", &given, signer(&store)).expect("imported");
    assert_eq!(imported.accept, SYMMETRIC);
    let numbers = imported.versions.iter().map(|(exported, version)| (exported.version, version.version));
    assert_eq!(numbers.collect::<Vec<_>>(), [(1, 1), (2, 2), (3, 3)]);
    let keys = |store: &Store| {
        let summary = store.app_summary(&app("acme")).expect("read").expect("there");
        let keys = |version: &VersionSummary| (version.r1, version.k1, version.symmetric);
        (summary.accept, summary.versions.iter().map(keys).collect::<Vec<_>>())
    };
    assert_eq!(keys(&new), keys(&store));
    let roots = |store: &Store| {
        let keys = store.load_app(&app("acme")).expect("read").expect("there");
        let root = |root: &Option<SymmetricRoot>| *root.as_ref().expect("a root").bytes();
        keys.versions.iter().map(|version| root(&version.symmetric)).collect::<Vec<_>>()
    };
    assert_eq!(roots(&new), roots(&store));
    assert_sound(&new);
    // What the new store exports is its own.
    assert_ne!(signer(&new), signer(&store));
    let again = export(&new, "acme");
    assert_fault(import(&store, "back", &[&again[0]], None), unsigned(3));
}

fn an_app_that_is_there_keeps_what_it_accepts(place: &Place) {
    let (store, texts) = exported(place);
    store.set_accepted(&app("acme"), AcceptedSchemes::ALL).expect("set");
    let newest = export(&store, "acme").swap_remove(0);
    let (_new, new) = another(place);
    let trusted = signer(&store);
    import_from(&new, "acme", "billing", &[&texts[2]], trusted).expect("imported");
    let imported = import_from(&new, "acme", "billing", &[&newest], trusted).expect("imported");
    assert_eq!((imported.versions[0].0.accept, imported.accept), (AcceptedSchemes::ALL, SYMMETRIC));
    // A new app accepts what the newest of them says.
    let (_third, third) = another(place);
    assert_eq!(import(&third, "acme", &[&newest, &texts[2]], trusted).expect("imported").accept, AcceptedSchemes::ALL);
}

fn an_import_is_made_whole_or_not_at_all(place: &Place) {
    let (store, texts) = exported(place);
    let (_new, new) = another(place);
    let trusted = signer(&store);
    import(&new, "taken", &[&texts[2]], trusted).expect("imported");
    let all: Vec<&String> = texts.iter().collect();
    assert!(matches!(import(&new, "acme", &all, trusted), Err(StoreError::KeyInUse { version: 1, .. })));
    assert!(matches!(import(&store, "acme", &all[..2], None), Err(StoreError::KeyInUse { version: 2, .. })));
    assert!(new.app_summary(&app("acme")).expect("read").is_none());
    import(&new, "acme", &all[..2], trusted).expect("imported");
    let refused = import(&new, "taken", &[], trusted).expect("nothing to do");
    assert!(refused.versions.is_empty());
    assert_eq!(new.app_summary(&app("taken")).expect("read").expect("there").versions.len(), 1);
    assert_sound(&new);
}

fn parts_of_several_exports_are_refused(place: &Place) {
    let (store, texts) = exported(place);
    store.create_app(&app("other"), NewKeys::generated()).expect("made");
    let of_other = export(&store, "other");
    let second_place = Place::new(place.kind);
    let (second, of_second) = exported(&second_place);
    let (_new, new) = another(place);
    let trusted = signer(&store);
    let wrong = |found: &str, wanted: &str| EscrowFault::App { found: app(found), wanted: app(wanted) };
    // Another app's line in the place of the one that is meant, also of the same store.
    assert_fault(import(&new, "acme", &[&of_other[0]], trusted), wrong("other", "acme"));
    assert_fault(import(&new, "acme", &[&texts[0], &of_other[0]], trusted), wrong("other", "acme"));
    assert_fault(import_from(&new, "billing", "billing", &[&texts[0]], trusted), wrong("acme", "billing"));
    assert_fault(import(&new, "acme", &[&texts[0], &texts[1], &texts[0]], trusted), EscrowFault::Repeated(3));
    assert_fault(import(&new, "acme", &[&texts[0], &of_second[1]], trusted), EscrowFault::SeveralStores);
    assert_fault(import(&new, "acme", &[&of_second[1]], trusted), unsigned(2));
    assert_fault(import(&new, "acme", &[&texts[1]], signer(&second)), unsigned(2));
    assert!(new.list_apps().expect("read").is_empty());
}

/// The text, with a statement that a store has signed for another.
fn signed_for(text: &str, store: &str, key: &leafseal_keystore::RecordKey) -> String {
    let (line, keys) = text.split_once('\n').expect("lines");
    let (signed, _) = line.split_once(" signature=").expect("signed");
    let (title, rest) = signed.split_once(" store=").expect("a store");
    let signed = format!("{title} store={store}{}", &rest[32..]);
    format!("{signed} signature={}\n{keys}", hex::encode(key.sign(signed.as_bytes())))
}

/// Makes room for the keys of version 1, which a store takes back.
fn trim_first(store: &Store) {
    store.disable_version(&app("acme"), 1).expect("disabled");
    store.trim_versions(&app("acme"), &[1].into()).expect("trimmed");
}

fn a_signature_counts_by_whose_it_is(place: &Place) {
    let (store, texts) = exported(place);
    let (_new, new) = another(place);
    let first = &texts[2];
    for wrong in [None, signer(&new), Some([0x0f; 32])] {
        assert_fault(import(&new, "acme", &[first], wrong), unsigned(1));
    }
    // The store's own, also under a later root, and under one to come.
    trim_first(&store);
    assert_fault(import(&store, "acme", &[&first.replace("epoch=1", "epoch=9")], None), unsigned(1));
    store.rotate_root(Some(Duration::from_secs(60)), &mut |_, _| ()).expect("replaced");
    assert_fault(import(&store, "acme", &[&first.replace("epoch=1", "epoch=2")], None), unsigned(1));
    let imported = import(&store, "acme", &[first], None).expect("imported");
    assert_eq!((imported.versions[0].1.version, imported.versions[0].1.state), (4, KeyState::Active));
    assert_sound(&store);
}

fn a_compromised_root_signs_for_nobody(place: &Place) {
    let (store, texts) = exported(place);
    let first = &texts[2];
    let stolen = store.record_key(ESCROW_SIGNER, None).expect("read").expect("a key");
    let theirs = Some(stolen.public_key());
    let forged = signed_for(first, &"09".repeat(16), &stolen);
    trim_first(&store);
    let compromised = EscrowFault::Compromised { app: app("acme"), version: 1 };
    store.rotate_root(None, &mut |_, _| ()).expect("replaced");
    let second = export(&store, "acme").swap_remove(0);
    for _ in 0..3 {
        for trusted in [None, theirs] {
            assert_fault(import(&store, "acme", &[first], trusted), compromised.clone());
            // Nor for another store, in the name of which someone who has the root may sign.
            assert_fault(import(&store, "acme", &[&forged], trusted), unsigned(1));
        }
        // It stays so under later roots.
        store.rotate_root(Some(Duration::from_secs(60)), &mut |_, _| ()).expect("replaced");
    }
    assert_fault(import(&place.open(), "acme", &[first], None), compromised);
    // Another store, whose operator trusts that signer for reasons of their own.
    let (_new, new) = another(place);
    import(&new, "acme", &[&forged], theirs).expect("imported");
    // The root after it signs.
    store.disable_version(&app("acme"), 3).expect("disabled");
    store.trim_versions(&app("acme"), &[3].into()).expect("trimmed");
    import(&store, "acme", &[&second], None).expect("imported");
    assert_sound(&store);
}

fn a_version_without_a_symmetric_root_comes_back_without_one(place: &Place) {
    let old = place.open_old();
    old.create_app(&app("acme"), NewKeys::generated()).expect("made");
    let texts = export(&old, "acme");
    assert!(texts[0].contains(" key_id=none ") && !texts[0].contains("root="));
    let (_new, new) = another(place);
    let imported = import(&new, "acme", &[&texts[0]], signer(&old)).expect("imported");
    let version = &imported.versions[0].1;
    assert!(version.symmetric.is_some(), "a fresh one: nothing was sealed under it");
    assert_eq!(version.r1, old.app_summary(&app("acme")).expect("read").expect("there").versions[0].r1);
    // A store of that schema cannot take a root, and takes what has none back.
    let of_new = export(&new, "acme");
    let signer_of_new = signer(&new);
    let other = Place::new(place.kind);
    assert!(matches!(
        import(&other.open_old(), "acme", &[&of_new[0]], signer_of_new),
        Err(StoreError::OldSchema { .. })
    ));
    import(&other.open_old(), "acme", &[&texts[0]], signer(&old)).expect("imported");
    // Migrated, the store still knows its signature.
    old.create_app(&app("spare"), NewKeys::generated()).expect("made");
    let spare = export(&old, "spare");
    old.migrate(&mut |_, _| ()).expect("migrated");
    old.rotate(&app("spare")).expect("rotated");
    old.disable_version(&app("spare"), 1).expect("disabled");
    old.trim_versions(&app("spare"), &[1].into()).expect("trimmed");
    import_from(&old, "spare", "spare", &[&spare[0]], None).expect("imported");
}

fn a_symmetric_key_of_several_versions_is_reported(place: &Place) {
    let store = place.open();
    for name in ["a", "b", "c"] {
        store.create_app(&app(name), NewKeys::generated()).expect("made");
    }
    place.without_rules("symmetric_key");
    let id = store.app_summary(&app("a")).expect("read").expect("there").versions[0].symmetric.expect("a root");
    place.tamper(&format!("UPDATE symmetric_key SET key_id = x'{id}' WHERE app = 'c'"));
    let faults = store.check().expect("checked").faults;
    let expected = StoreFault::SharedSymmetricKey { id, versions: vec![(app("a"), 1), (app("c"), 1)] };
    assert!(faults.contains(&expected), "{faults:?}");
    let text = format!(
        "an envelope must name one key, and the symmetric key id {id} is that of several: version 1 of app a, version 1 of app c"
    );
    assert_eq!(expected.to_string(), text);
}
