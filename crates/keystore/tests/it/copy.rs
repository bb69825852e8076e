//! Copies between databases: everything is there afterwards, in both directions, and nothing is overwritten.

use std::cell::Cell;
use std::collections::BTreeSet;

use crate::common::{Kind, Place, app, client, environment, grant, key};
use leafseal_crypto::Curve;
use leafseal_keystore::{
    AcceptedSchemes, Apps, Copied, NewApiKey, NewClient, NewKeys, OpenMode, Operation, RoleName, Roles, StoreAddress,
    StoreError, StoreLimits, copy_store,
};

fn copy(from: &Place, to: &Place) -> Result<Copied, StoreError> {
    let settings = [from, to].map(|place| (place.kind == Kind::Postgres).then(|| place.settings()));
    let from = settings[0].as_ref().map_or(StoreAddress::File(from.path()), StoreAddress::Database);
    let to = settings[1].as_ref().map_or(StoreAddress::File(to.path()), StoreAddress::Database);
    copy_store(&from, &to, || Ok(environment()), StoreLimits::default())
}

/// A store with something in every table, and in every column that may be empty.
pub(crate) fn fill(place: &Place) {
    let store = place.open();
    for (name, number) in [("a", 1), ("b", 3)] {
        store.create_app(&app(name), NewKeys::generated().with(key(Curve::P256, number))).expect("made");
        store.add_version(&app(name), NewKeys::generated().with(key(Curve::Secp256k1, number))).expect("made");
    }
    store.disable_version(&app("a"), 1).expect("disabled");
    store.disable_app(&app("b")).expect("disabled");
    let roles = Roles::Only(BTreeSet::from(["pci", "pii"].map(|role| RoleName::parse(role).expect("valid"))));
    let accept = AcceptedSchemes { public_key: false, ..AcceptedSchemes::ALL };
    store.set_accepted(&app("a"), accept).expect("set");
    let pinned =
        NewClient { roles: roles.clone(), accept, certificate_sha256: Some([7; 32]), ..grant("c", &["a", "b"]) };
    store.put_client(&pinned).expect("granted");
    store.put_client(&NewClient { apps: Apps::All, ..grant("d", &[]) }).expect("granted");
    store.disable_client(&client("d")).expect("disabled");
    let api_key = NewApiKey {
        app: app("a"),
        operations: BTreeSet::from([Operation::Inspect]),
        roles,
        accept,
        secret_sha256: [9; 32],
    };
    let revoked = store.create_api_key(&api_key).expect("made");
    store.create_api_key(&NewApiKey { roles: Roles::Any, ..api_key }).expect("made");
    store.revoke_api_key(&revoked.id).expect("revoked");
    store.token_secret().expect("made");
}

pub(crate) fn assert_equal(left: &Place, right: &Place) {
    let [left, right] = [left, right].map(Place::open);
    assert_eq!(left.list_apps().expect("read"), right.list_apps().expect("read"));
    assert_eq!(left.list_clients().expect("read"), right.list_clients().expect("read"));
    assert_eq!(left.list_api_keys().expect("read"), right.list_api_keys().expect("read"));
    assert_eq!(left.token_secret().expect("read").expose(), right.token_secret().expect("read").expose());
    assert_eq!(left.generation().expect("read").changes, right.generation().expect("read").changes);
    let [left, right] = [left, right].map(|store| store.load_app(&app("a")).expect("read").expect("there").versions);
    assert_eq!((left.len(), right.len()), (1, 1));
    assert_eq!(left[0].k1.private().scalar(), right[0].k1.private().scalar());
    let roots = [&left, &right].map(|versions| versions[0].symmetric.as_ref().expect("there").bytes());
    assert_eq!(roots[0], roots[1]);
}

const ROWS_OF_TREE: &str = "SELECT CAST((SELECT count(*) FROM tree_root) + (SELECT count(*) FROM tree_node)
    + (SELECT count(*) FROM tree_leaf) AS TEXT)";

const ROWS_OF_HISTORY: &str =
    "SELECT CAST((SELECT count(*) FROM store_change) + (SELECT count(*) FROM change_count) AS TEXT)";

#[test]
fn a_store_moves_to_a_database_and_back() {
    let (file, database, back) = (Place::new(Kind::Sqlite), Place::new(Kind::Postgres), Place::new(Kind::Sqlite));
    fill(&file);
    let copied = copy(&file, &database).expect("copied");
    assert_eq!((copied.report.app_count, copied.report.version_count, copied.report.faults), (2, 4, vec![]));
    let of_tree: usize = file.tamper(ROWS_OF_TREE).parse().expect("a number");
    let of_history: usize = file.tamper(ROWS_OF_HISTORY).parse().expect("a number");
    assert_eq!(copied.row_count, 1 + 2 + 1 + 4 + 8 + 2 + 2 + 2 + 1 + 2 + 2 + 2 + 1 + 1 + 4 + of_tree + of_history);
    assert_equal(&file, &database);
    copy(&database, &back).expect("copied");
    assert_equal(&database, &back);
    database.open().rotate(&app("a")).expect("it continues there");
}

#[test]
fn nothing_is_overwritten_and_nothing_half_copied() {
    let (file, database) = (Place::new(Kind::Sqlite), Place::new(Kind::Postgres));
    let (kept, nothing) = (Place::new(Kind::Sqlite), Place::new(Kind::Sqlite));
    fill(&file);
    drop((database.open(), kept.open()));
    for to in [&database, &kept, &file] {
        assert!(matches!(copy(&file, to), Err(StoreError::NotEmpty(_))));
    }
    assert_eq!(database.open().list_apps().expect("read"), []);
    assert!(matches!(copy(&nothing, &Place::new(Kind::Postgres)), Err(StoreError::NoStore(_))));

    // A row that breaks a rule of the other database is refused with everything else.
    file.drop_checks();
    file.tamper("UPDATE key_version SET created_at = -1 WHERE app = 'b'");
    let empty = Place::new(Kind::Postgres);
    assert!(copy(&file, &empty).is_err());
    assert!(matches!(
        empty.try_open(OpenMode::Existing, environment(), StoreLimits::default()).err(),
        Some(StoreError::NoStore(_))
    ));
}

#[test]
fn an_original_that_is_changed_meanwhile_is_noticed() {
    let (file, database) = (Place::new(Kind::Sqlite), Place::new(Kind::Postgres));
    fill(&file);
    let settings = database.settings();
    let opened = Cell::new(0);
    let environment = || {
        opened.set(opened.get() + 1);
        if opened.get() == 3 {
            // The original has been read, and the copy is opened to be checked.
            file.open().rotate(&app("a")).expect("rotated");
        }
        Ok(environment())
    };
    let to = StoreAddress::Database(&settings);
    let copied = copy_store(&StoreAddress::File(file.path()), &to, environment, StoreLimits::default());
    assert!(matches!(copied, Err(StoreError::ChangedMeanwhile(_))), "{copied:?}");
}

/// The list of columns that are copied is complete: a column that it lacks would have its default in the copy.
#[test]
fn every_column_is_copied() {
    let place = Place::new(Kind::Postgres);
    fill(&place);
    let columns = place.tamper("SELECT count(*) FROM information_schema.columns WHERE table_schema = 'leafseal'");
    let file = Place::new(Kind::Sqlite);
    fill(&file);
    let of_file = file.tamper(
        "SELECT CAST(count(*) AS TEXT) FROM sqlite_schema AS s JOIN pragma_table_info(s.name) WHERE s.type = 'table'",
    );
    assert_eq!(
        (columns.as_str(), of_file.as_str()),
        ("116", "116"),
        "of both databases, and of the list in sql/table.rs"
    );
}
