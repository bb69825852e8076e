//! API keys and the secret of tokens at rest: their life, their bounds, and stores of the first schema.

use std::collections::BTreeSet;

use crate::common::{NOW, app, assert_sound, environment, open, open_with, place};
use fieldseal_keystore::{
    ApiKeyId, ApiOperation, Counted, Error, Fault, Keystore, Limits, NewApiKey, NewKeys, OpenMode, RoleName, Roles,
    SqliteKeystore,
};

fn new_key(of: &str) -> NewApiKey {
    NewApiKey {
        app: app(of),
        operations: BTreeSet::from([ApiOperation::Encrypt, ApiOperation::IssueTokens]),
        roles: Roles::Only(BTreeSet::from([RoleName::parse("pci").expect("valid")])),
        secret_sha256: [7; 32],
    }
}

/// A store with the app `pay`.
fn with_app() -> (tempfile::TempDir, std::path::PathBuf, SqliteKeystore) {
    let (folder, path) = place();
    let store = open(&path);
    store.create_app(&app("pay"), NewKeys::generated()).expect("made");
    (folder, path, store)
}

#[test]
fn a_key_has_its_permissions_and_stays_revoked() {
    let (_folder, path, store) = with_app();
    let made = store.create_api_key(&new_key("pay")).expect("made");
    let other = store.create_api_key(&NewApiKey { roles: Roles::Any, ..new_key("pay") }).expect("made");
    assert_ne!(made.id, other.id);
    assert_eq!((&made.app, made.secret_sha256, made.created_at, made.revoked_at), (&app("pay"), [7; 32], NOW, None));
    assert_eq!((&made.operations, &made.roles), (&new_key("pay").operations, &new_key("pay").roles));
    drop(store);
    let store = open(&path);
    assert_eq!(store.api_key(&made.id).expect("read"), Some(made.clone()));
    assert_eq!(store.list_api_keys().expect("read").len(), 2);
    let before = store.generation().expect("read");
    store.revoke_api_key(&made.id).expect("revoked");
    store.revoke_api_key(&made.id).expect("revoked once more");
    assert!(store.generation().expect("read") > before, "engines notice");
    assert_eq!(store.api_key(&made.id).expect("read").and_then(|key| key.revoked_at), Some(NOW));
    assert_eq!(store.api_key(&other.id).expect("read").and_then(|key| key.revoked_at), None);
    assert_sound(&store);
}

#[test]
fn unknown_apps_and_keys_are_refused_and_keys_are_bounded() {
    let (_folder, path, store) = with_app();
    assert!(matches!(store.create_api_key(&new_key("other")), Err(Error::UnknownApp(_))));
    let nobody = ApiKeyId::parse("0123456789abcdef").expect("an id");
    assert_eq!(store.api_key(&nobody).expect("read"), None);
    assert!(matches!(store.revoke_api_key(&nobody), Err(Error::UnknownApiKey(id)) if id == nobody));
    store.create_api_key(&new_key("pay")).expect("made");
    drop(store);
    let store = open_with(&path, Limits { api_key_count_max: 1, ..Limits::default() });
    let refused = store.create_api_key(&new_key("pay"));
    assert!(matches!(refused, Err(Error::TooMany { what: Counted::ApiKeys, limit: 1 })));
    let store = open_with(&path, Limits { grant_entry_count_max: 0, ..Limits::default() });
    let refused = store.create_api_key(&new_key("pay"));
    assert!(matches!(refused, Err(Error::TooMany { what: Counted::GrantEntries, limit: 0 })));
}

#[test]
fn the_secret_of_tokens_is_one_for_all_who_share_the_store() {
    let (_folder, path, store) = with_app();
    let secret = store.token_secret().expect("made");
    assert_eq!(open(&path).token_secret().expect("read").expose(), secret.expose());
    let (_other_folder, other_path) = place();
    assert_ne!(open(&other_path).token_secret().expect("made").expose(), &[0; 32]);
    let raw = rusqlite::Connection::open(&path).expect("opened");
    let wrapped: Vec<u8> = raw.query_row("SELECT wrapped FROM secret", [], |row| row.get(0)).expect("there");
    assert!(!wrapped.windows(32).any(|window| window == secret.expose()), "it lies there encrypted");
    raw.execute("UPDATE secret SET wrapped = ?1", [&wrapped[1..]]).expect("damaged");
    assert!(matches!(store.token_secret(), Err(Error::Inconsistent(_))));
    let faults = store.check().expect("checked").faults;
    assert!(matches!(&faults[..], [Fault::Unreadable(what)] if what.contains("secrets")), "{faults:?}");
}

#[test]
fn a_store_of_the_first_schema_is_brought_to_this_one() {
    let (_folder, path, store) = with_app();
    drop(store);
    let raw = rusqlite::Connection::open(&path).expect("opened");
    raw.execute_batch(
        "DROP TABLE api_key_role; DROP TABLE api_key; DROP TABLE secret; UPDATE store SET schema_version = 1",
    )
    .expect("made old");
    let old = raw.query_row("SELECT generation FROM store", [], |row| row.get::<_, i64>(0)).expect("read");
    let stores = [open(&path), open(&path)];
    stores[0].create_api_key(&new_key("pay")).expect("made");
    assert_eq!(stores[1].list_api_keys().expect("read").len(), 1);
    assert!(stores[1].load_app(&app("pay")).expect("read").is_some(), "what was there is still there");
    let now = raw.query_row("SELECT generation FROM store", [], |row| row.get::<_, i64>(0)).expect("read");
    assert_eq!(now, old + 2, "brought to this schema once, then one key");
    assert_sound(&stores[0]);
    drop(SqliteKeystore::open(&path, OpenMode::Existing, environment(), Limits::default()).expect("opens"));
}
