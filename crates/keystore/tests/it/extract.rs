//! Extracts: the keys of some apps in a store of its own, and nothing else of the original.

use std::collections::BTreeSet;

use crate::common::{Kind, NOW, Place, app, author, environment, grant, key, rng};
use leafseal_crypto::Curve;
use leafseal_keystore::{
    AcceptedSchemes, AppKeys, EditKind, EditedPart, Environment, Extracted, KeyFault, KeyState, Keystore, LocalRootKey,
    NewApiKey, NewKeys, OpenMode, Operation, Roles, SqliteKeystore, StoreAddress, StoreEdit, StoreError, StoreFault,
    StoreLimits, extract_apps,
};

/// The root key of every extract. It protects nothing.
const ROOT_KEY: &str = "leafseal-root-key-1:pqampqampqampqampqampqampqampqampqampqampqY=";

fn environment_of_extract() -> Environment {
    let root_key = LocalRootKey::from_text(ROOT_KEY).expect("valid");
    Environment {
        providers: vec![Box::new(root_key)],
        clock: Box::new(|| NOW + 1),
        rng: Box::new(rng()),
        author: author(),
    }
}

fn extract(from: &Place, to: &Place, apps: &[&str]) -> Result<Extracted, StoreError> {
    let apps = apps.iter().map(|name| app(name)).collect();
    let settings = (from.kind == Kind::Postgres).then(|| from.settings());
    let from = settings.as_ref().map_or(StoreAddress::File(from.path()), StoreAddress::Database);
    extract_apps(&from, environment(), to.path(), &apps, || Ok(environment_of_extract()), StoreLimits::default())
}

fn open(extract: &Place) -> SqliteKeystore {
    SqliteKeystore::open(extract.path(), OpenMode::Existing, environment_of_extract(), StoreLimits::default())
        .expect("opened")
}

fn scalars(keys: &AppKeys) -> Vec<(u32, u64, Vec<u8>, Vec<u8>)> {
    let scalar =
        |curve, version: &leafseal_keystore::KeyVersion| version.pair(curve).private().scalar().expose().to_vec();
    keys.versions
        .iter()
        .map(|it| (it.version, it.created_at, scalar(Curve::P256, it), scalar(Curve::Secp256k1, it)))
        .collect()
}

/// Three versions of `a`, of which the second is disabled, one of `b`, and something in every other table.
fn fill(place: &Place) {
    let store = place.open();
    for name in ["a", "b"] {
        store.create_app(&app(name), NewKeys::generated()).expect("made");
    }
    store.add_version(&app("a"), NewKeys::generated().with(key(Curve::P256, 7))).expect("made");
    store.rotate(&app("a")).expect("made");
    store.disable_version(&app("a"), 2).expect("disabled");
    store.set_accepted(&app("a"), AcceptedSchemes { public_key: false, ..AcceptedSchemes::ALL }).expect("set");
    store.put_client(&grant("c", &["a", "b"])).expect("granted");
    let operations = BTreeSet::from_iter(Operation::ALL.iter().copied());
    let api_key = NewApiKey {
        app: app("a"),
        operations,
        roles: Roles::Any,
        accept: AcceptedSchemes::ALL,
        secret_sha256: [9; 32],
    };
    store.create_api_key(&api_key).expect("made");
    store.token_secret().expect("made");
}

#[test]
fn an_extract_has_the_active_keys_of_its_apps_and_nothing_else() {
    for kind in [Kind::Sqlite, Kind::Postgres] {
        let (place, to) = (Place::new(kind), Place::new(Kind::Sqlite));
        fill(&place);
        let original = place.open();
        let Extracted { left_out_count, report } = extract(&place, &to, &["a"]).expect("extracted");
        assert_eq!((left_out_count, report.app_count, report.version_count, report.faults), (1, 1, 3, vec![]));
        assert_eq!((report.client_count, report.api_key_count), (0, 0));
        let extract = open(&to);
        let [there, here] =
            [&*original, &extract as &dyn Keystore].map(|it| it.load_app(&app("a")).expect("read").expect("there"));
        assert_eq!(scalars(&there), scalars(&here));
        assert_eq!(scalars(&here).iter().map(|it| it.0).collect::<Vec<_>>(), [3, 1]);
        assert_eq!(original.app_summary(&app("a")).expect("read"), extract.app_summary(&app("a")).expect("read"));
        assert!(there.accept == here.accept && !here.accept.public_key);
        assert_eq!(extract.load_app(&app("b")).expect("read").map(|it| it.name), None);
        let (own, of_original) = (extract.token_secret().expect("made"), original.token_secret().expect("read"));
        assert_ne!(own.expose(), of_original.expose());
    }
}

#[test]
fn nothing_of_the_original_opens_with_the_extract() {
    let (place, to) = (Place::new(Kind::Sqlite), Place::new(Kind::Sqlite));
    fill(&place);
    extract(&place, &to, &["a", "b"]).expect("extracted");
    let wrong = |place: &Place, environment| {
        SqliteKeystore::open(place.path(), OpenMode::Existing, environment, StoreLimits::default())
    };
    assert!(matches!(wrong(&to, environment()), Err(StoreError::WrongRootKey { .. })));
    assert!(matches!(wrong(&place, environment_of_extract()), Err(StoreError::WrongRootKey { .. })));
    let id = "SELECT hex(store_id) FROM store";
    assert_ne!(place.tamper(id), to.tamper(id));
    // No private key of the original is in the file, not even encrypted: neither those of active versions nor that of the disabled one.
    let wrapped = "SELECT group_concat(hex(wrapped_private_key)) FROM key_pair WHERE app = 'a'";
    let (of_original, of_extract) = (place.tamper(wrapped), to.tamper(wrapped));
    assert!(of_original.split(',').all(|it| !of_extract.contains(it)));
}

#[test]
fn a_version_that_was_left_out_stays_disabled() {
    let (place, to) = (Place::new(Kind::Sqlite), Place::new(Kind::Sqlite));
    fill(&place);
    extract(&place, &to, &["a"]).expect("extracted");
    let extract = open(&to);
    let refused = extract.enable_version(&app("a"), 2);
    assert!(matches!(refused, Err(StoreError::DamagedKey { version: 2, fault: KeyFault::LeftOut, .. })), "{refused:?}");
    // Of an active version its absence is a fault, and only an edit can make the version one.
    to.tamper("UPDATE key_version SET disabled = 0 WHERE version = 2");
    let version_2 = EditedPart::KeyVersion { app: "a".to_owned(), version: 2 };
    let edit = StoreFault::Edited(StoreEdit { part: version_2, kind: EditKind::Changed });
    let faults = extract.check().expect("checked").faults;
    assert!(faults.len() == 4 && faults.contains(&edit), "{faults:?}");
    let loaded = extract.load_app(&app("a")).expect("read").expect("there");
    assert!(loaded.versions.iter().all(|it| it.version != 2), "it stays disabled");
    // In the original, a key that is lost is one, whatever the state of its version.
    place.tamper("UPDATE key_pair SET wrapped_private_key = x'' WHERE app = 'a' AND version = 2");
    let faults = place.open().check().expect("checked").faults;
    assert!(faults.len() == 3 && faults.contains(&edit), "{faults:?}");
}

#[test]
fn a_version_that_is_enabled_again_is_in_the_next_extract() {
    let (place, to) = (Place::new(Kind::Sqlite), Place::new(Kind::Sqlite));
    fill(&place);
    let original = place.open();
    original.enable_version(&app("a"), 2).expect("enabled");
    original.disable_version(&app("a"), 3).expect("disabled");
    assert_eq!(extract(&place, &to, &["a"]).expect("extracted").left_out_count, 1);
    let summary = open(&to).app_summary(&app("a")).expect("read").expect("there");
    let states: Vec<_> = summary.versions.iter().map(|it| it.state).collect();
    assert_eq!(states, [KeyState::Disabled, KeyState::Active, KeyState::Active]);
}

#[test]
fn a_trimmed_version_keeps_its_number_in_an_extract() {
    let (place, to) = (Place::new(Kind::Sqlite), Place::new(Kind::Sqlite));
    fill(&place);
    let original = place.open();
    original.trim_versions(&app("a"), &BTreeSet::from([2])).expect("trimmed");
    let extracted = extract(&place, &to, &["a"]).expect("extracted");
    assert_eq!((extracted.left_out_count, extracted.report.faults), (0, vec![]));
    let of = |store: &dyn Keystore| store.app_summary(&app("a")).expect("read").expect("there").trimmed;
    assert_eq!(of(&open(&to)), of(&*original));
    assert_eq!(of(&*original).iter().map(|version| version.version).collect::<Vec<_>>(), [2]);
}

#[test]
fn what_cannot_be_extracted_leaves_no_store() {
    let place = Place::new(Kind::Sqlite);
    fill(&place);
    let original = place.open();
    original.disable_app(&app("b")).expect("disabled");
    let to = Place::new(Kind::Sqlite);
    assert!(matches!(extract(&place, &to, &["a", "nobody"]), Err(StoreError::UnknownApp(_))));
    assert!(matches!(extract(&place, &to, &["a", "b"]), Err(StoreError::DisabledApp(_))));
    let nothing = SqliteKeystore::open(to.path(), OpenMode::Existing, environment_of_extract(), StoreLimits::default());
    assert!(matches!(nothing, Err(StoreError::NoStore(_))));
    // Nor is one overwritten, the original least of all.
    assert!(matches!(extract(&place, &place, &["a"]), Err(StoreError::NotEmpty(_))));
    extract(&place, &to, &["a"]).expect("extracted");
    assert!(matches!(extract(&place, &to, &["a"]), Err(StoreError::NotEmpty(_))));
}

#[test]
fn a_later_extract_takes_the_place_of_one_that_is_open() {
    let (place, to, next) = (Place::new(Kind::Sqlite), Place::new(Kind::Sqlite), Place::new(Kind::Sqlite));
    fill(&place);
    extract(&place, &to, &["a"]).expect("extracted");
    let (open, original) = (open(&to), place.open());
    let generation = open.generation().expect("read");
    original.rotate(&app("a")).expect("rotated");
    original.disable_version(&app("a"), 1).expect("disabled");
    extract(&place, &next, &["a", "b"]).expect("extracted");
    std::fs::rename(next.path(), to.path()).expect("replaced");
    assert_ne!(open.generation().expect("read"), generation);
    let keys = open.load_app(&app("a")).expect("read").expect("there");
    assert_eq!(keys.versions.iter().map(|it| it.version).collect::<Vec<_>>(), [4, 3]);
    assert!(open.load_app(&app("b")).expect("read").is_some());
    // One of another store under the same root key does not.
    let (other, next) = (Place::new(Kind::Sqlite), Place::new(Kind::Sqlite));
    fill(&other);
    extract(&other, &next, &["a"]).expect("extracted");
    std::fs::rename(next.path(), to.path()).expect("replaced");
    assert!(matches!(open.load_app(&app("a")), Err(StoreError::OtherStore(_))));
}
