//! API keys and the secret of tokens at rest: their life, their bounds, and stores of the first schema.

use std::collections::BTreeSet;

use crate::common::{NOW, Place, Store, app, assert_sound, environment, on_both_databases};
use leafseal_keystore::{
    AcceptedSchemes, ApiKeyId, LimitedEntries, NewApiKey, NewKeys, OpenMode, Operation, RoleName, Roles, StoreError,
    StoreFault, StoreLimits,
};

fn new_key(of: &str) -> NewApiKey {
    NewApiKey {
        app: app(of),
        operations: BTreeSet::from([Operation::Encrypt, Operation::IssueTokens]),
        roles: Roles::Only(BTreeSet::from([RoleName::parse("pci").expect("valid")])),
        accept: AcceptedSchemes::ALL,
        secret_sha256: [7; 32],
    }
}

on_both_databases! {
    a_key_has_its_permissions_and_stays_revoked,
    unknown_apps_and_keys_are_refused_and_keys_are_bounded,
    the_secret_of_tokens_is_one_for_all_who_share_the_store,
    a_store_of_the_first_schema_is_brought_to_this_one,
}

/// A store with the app `pay`.
fn with_app(place: &Place) -> Store {
    let store = place.open();
    store.create_app(&app("pay"), NewKeys::generated()).expect("made");
    store
}

fn a_key_has_its_permissions_and_stays_revoked(place: &Place) {
    let store = with_app(place);
    let made = store.create_api_key(&new_key("pay")).expect("made");
    let accept = AcceptedSchemes { public_key: false, ..AcceptedSchemes::ALL };
    let other = store.create_api_key(&NewApiKey { roles: Roles::Any, accept, ..new_key("pay") }).expect("made");
    assert_ne!(made.id, other.id);
    assert_eq!((made.accept, other.accept), (AcceptedSchemes::ALL, accept));
    assert_eq!((&made.app, made.secret_sha256, made.created_at, made.revoked_at), (&app("pay"), [7; 32], NOW, None));
    assert_eq!((&made.operations, &made.roles), (&new_key("pay").operations, &new_key("pay").roles));
    drop(store);
    let store = place.open();
    assert_eq!(store.api_key(&made.id).expect("read"), Some(made.clone()));
    assert_eq!(store.list_api_keys().expect("read").len(), 2);
    let before = store.generation().expect("read");
    store.revoke_api_key(&made.id).expect("revoked");
    store.revoke_api_key(&made.id).expect("revoked once more");
    assert!(store.generation().expect("read") > before, "engines notice");
    assert_eq!(store.api_key(&made.id).expect("read").and_then(|key| key.revoked_at), Some(NOW));
    store.revoke_api_key(&other.id).expect("revoked");
    assert_eq!(store.api_key(&other.id).expect("read").map(|key| key.accept), Some(accept));
    assert_sound(&store);
}

fn unknown_apps_and_keys_are_refused_and_keys_are_bounded(place: &Place) {
    let store = with_app(place);
    assert!(matches!(store.create_api_key(&new_key("other")), Err(StoreError::UnknownApp(_))));
    let nobody = ApiKeyId::parse("0123456789abcdef").expect("an id");
    assert_eq!(store.api_key(&nobody).expect("read"), None);
    assert!(matches!(store.revoke_api_key(&nobody), Err(StoreError::UnknownApiKey(id)) if id == nobody));
    store.create_api_key(&new_key("pay")).expect("made");
    drop(store);
    let store = place.open_with(StoreLimits { api_key_count_max: 1, ..StoreLimits::default() });
    let refused = store.create_api_key(&new_key("pay"));
    assert!(matches!(refused, Err(StoreError::TooMany { what: LimitedEntries::ApiKeys, limit: 1 })));
    let store = place.open_with(StoreLimits { grant_entry_count_max: 0, ..StoreLimits::default() });
    let refused = store.create_api_key(&new_key("pay"));
    assert!(matches!(refused, Err(StoreError::TooMany { what: LimitedEntries::GrantEntries, limit: 0 })));
}

fn the_secret_of_tokens_is_one_for_all_who_share_the_store(place: &Place) {
    let store = with_app(place);
    let secret = store.token_secret().expect("made");
    assert_eq!(place.open().token_secret().expect("read").expose(), secret.expose());
    assert_ne!(Place::new(place.kind).open().token_secret().expect("made").expose(), &[0; 32]);
    let wrapped = place.tamper(place.as_hex("wrapped", "secret").as_str()).to_lowercase();
    assert!(!wrapped.contains(&hex::encode(secret.expose())), "it lies there encrypted");
    place.tamper(&format!("UPDATE secret SET wrapped = x'{}'", &wrapped[2..]));
    assert!(matches!(store.token_secret(), Err(StoreError::Edited(_))));
    let faults = store.check().expect("checked").faults;
    assert!(
        matches!(&faults[..], [StoreFault::Unreadable(what), StoreFault::Edited(_)] if what.contains("secrets")),
        "{faults:?}"
    );
}

fn a_store_of_the_first_schema_is_brought_to_this_one(place: &Place) {
    let store = place.open_old();
    store.create_app(&app("pay"), NewKeys::generated()).expect("made");
    let accept = AcceptedSchemes { symmetric: false, ..AcceptedSchemes::ALL };
    let refused = store.create_api_key(&NewApiKey { accept, ..new_key("pay") });
    assert!(matches!(refused, Err(StoreError::OldSchema { .. })));
    drop(store);
    place.tamper("DROP TABLE api_key_role; DROP TABLE api_key; DROP TABLE secret; UPDATE store SET schema_version = 1");
    let generation =
        || -> i64 { place.tamper("SELECT CAST(generation AS TEXT) FROM store").parse().expect("a number") };
    let old = generation();
    let stores = [place.open(), place.open()];
    stores[0].create_api_key(&new_key("pay")).expect("made");
    assert_eq!(stores[1].list_api_keys().expect("read").len(), 1);
    assert!(stores[1].load_app(&app("pay")).expect("read").is_some(), "what was there is still there");
    assert_eq!(generation(), old + 2, "brought to this schema once, then one key");
    assert_sound(&stores[0]);
    drop(place.try_open(OpenMode::Existing, environment(), StoreLimits::default()).expect("opens"));
}
