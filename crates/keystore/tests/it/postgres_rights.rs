//! What a role of PostgreSQL needs to be allowed, for engines that have no audit log and for those that have one.

use leafseal_keystore::{
    Keystore, NewKeys, OpenMode, PostgresKeystore, PostgresSettings, SCHEMA_VERSION, StoreError, StoreLimits, StoreScan,
};
use leafseal_testkit::postgres::PASSWORD;

use crate::common::{Kind, Place, app, environment};
use crate::postgres::url;

/// Has the statement for engines with an audit log.
const SHARED_STORE: &str = include_str!("../../../../docs/guides/shared-store.md");

#[test]
fn a_role_that_only_reads_is_enough_for_an_engine() {
    let place = Place::new(Kind::Postgres);
    let store = place.open_old();
    store.create_app(&app("a"), NewKeys::generated()).expect("made");
    let name = format!("reader_{}", place.database());
    place.server().sql(
        place.database(),
        &format!(
            "CREATE ROLE {name} LOGIN PASSWORD '{PASSWORD}'; GRANT USAGE ON SCHEMA leafseal TO {name};
             GRANT SELECT ON ALL TABLES IN SCHEMA leafseal TO {name}"
        ),
    );
    let settings = place.server().settings(place.database());
    let settings = PostgresSettings { url: url(place.server(), &name, "localhost", place.database()), ..settings };
    let reader =
        PostgresKeystore::open(&settings, OpenMode::Existing, environment(), StoreLimits::default()).expect("opened");
    assert!(reader.load_app(&app("a")).expect("read").is_some());
    reader.token_secret().expect("made with the store");
    assert_eq!(reader.generation().expect("read").changes, store.generation().expect("read").changes);
    assert!(matches!(reader.rotate(&app("a")), Err(StoreError::Storage(_))), "and for nothing else");
    assert!(reader.migrate(&mut |_, _| ()).is_err());
    assert_eq!(store.migrate(&mut |_, _| ()).expect("migrated").to, SCHEMA_VERSION);
    assert!(reader.load_app(&app("a")).expect("read").is_some(), "it may read the tables of the new schema");
    reader.token_secret().expect("read");
    // The scan for edits and the memory of the newest state read, too.
    let (memory, mut scan) = (tempfile::tempdir().expect("folder"), StoreScan::default());
    while !reader.scan(&mut scan).expect("scanned").is_last {}
    reader.remember(memory.path()).expect("the first look");
    assert!(reader.memory().is_saved);
    // An engine with an audit log registers it. The statement is that of docs/guides/shared-store.md.
    let history = reader.history().expect("has one");
    let refused = history.begin_engine_log("e", None);
    assert!(matches!(refused, Err(StoreError::Storage(_))), "{refused:?}");
    let (_, statement) = SHARED_STORE.split_once("```sql\n").expect("a statement");
    let (statement, _) = statement.split_once("```").expect("its end");
    place.server().sql(place.database(), &statement.replace("leafseal_engine", &name));
    let begun = history.begin_engine_log("e", None).expect("begun");
    assert_eq!(history.engine_log("e").expect("read"), Some(begun));
    assert!(matches!(reader.rotate(&app("a")), Err(StoreError::Storage(_))), "keys are made by others");
}
