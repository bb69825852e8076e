//! A store whose rows were edited, added, removed, swapped or put back from an older copy by someone who may write to its database: no
//! edit takes effect, each is named, and whatever it does not touch goes on.
//!
//! The edits are random statements; `LEAFSEAL_STORE_EDITS` says how many (`make store` runs 100,000).

mod generator;
mod truth;

use std::collections::BTreeSet;
use std::path::Path;

use leafseal_keystore::{
    AcceptedSchemes, ApiKeyId, Apps, EditKind, EditedPart, NewApiKey, NewClient, NewKeys, OpenMode, Operation,
    RoleName, Roles, StoreAddress, StoreEdit, StoreError, StoreFault, StoreLimits, StoreScan, copy_store,
};
use rand::SeedableRng;
use rand::rngs::StdRng;

use crate::common::{Kind, Place, Store, app, client, environment, grant, on_both_databases, root_key};
use generator::{dump, random_edit};
use truth::{Truth, View, assert_scan_names, entity_of_part, history, scan, view};

/// Edits of a file in an ordinary run.
const EDIT_COUNT: usize = 150;
/// Edits of a database, where each is some 40 times slower.
const DATABASE_EDIT_COUNT: usize = 20;

/// Names that only edits add.
const ADDED: [&str; 2] = ["mallory", "zoe"];

on_both_databases! {
    what_is_accepted_cannot_be_widened,
    an_edit_is_not_laundered_by_a_later_change,
    a_store_cannot_be_passed_off_as_an_older_one,
    a_trigger_cannot_change_what_is_authenticated,
    an_unreadable_row_hides_no_edit,
    stray_nodes_are_refused_and_named,
    a_scan_reads_each_row_once_in_small_steps,
    a_scan_passes_changes_made_meanwhile,
    an_older_store_is_migrated_whole,
    a_damaged_older_store_is_not_migrated,
}

/// A store with every kind of row; what it was before its last changes is written to `older`.
fn filled(place: &Place, older: &Path) -> Store {
    let store = place.open();
    for name in ["a", "b", "c", "d"] {
        store.create_app(&app(name), NewKeys::generated()).expect("made");
    }
    store.rotate(&app("a")).expect("rotated");
    store.rotate(&app("b")).expect("rotated");
    store.disable_version(&app("b"), 1).expect("disabled");
    store.disable_app(&app("d")).expect("disabled");
    for (name, apps) in [("one", &["a", "b"][..]), ("two", &["c"])] {
        store.put_client(&grant(name, apps)).expect("made");
    }
    for (secret, accept) in [(1, AcceptedSchemes::ALL), (2, ENGINES_ALONE)] {
        store.create_api_key(&NewApiKey { roles: roles(), accept, ..new_key("a", secret) }).expect("made");
    }
    let pinned = Some([6; 32]);
    store
        .put_client(&NewClient {
            roles: roles(),
            accept: ENGINES_ALONE,
            certificate_sha256: pinned,
            ..grant("two", &["c"])
        })
        .expect("replaced");
    store.renew_client(&client("two"), [7; 32], u64::MAX >> 1).expect("renewed");
    store.token_secret().expect("made");
    store.history().expect("has one").begin_engine_log("e", None).expect("begun");
    for name in ["a", "c", "d"] {
        store.set_accepted(&app(name), ENGINES_ALONE).expect("set");
    }
    for name in ["a", "c"] {
        store.canaries().expect("has some").add_canary(&app(name), b"one", "symmetric").expect("added");
    }
    std::fs::copy(place.path(), older).expect("copied");
    store.canaries().expect("has some").add_canary(&app("a"), b"two", "symmetric").expect("added");
    store.rotate(&app("c")).expect("rotated");
    store.disable_version(&app("a"), 1).expect("disabled");
    store.trim_versions(&app("b"), &BTreeSet::from([1])).expect("trimmed");
    store.disable_client(&client("two")).expect("disabled");
    store.set_accepted(&app("d"), AcceptedSchemes::ALL).expect("set");
    store.set_accepted(&app("a"), AcceptedSchemes { from_public_key: true, ..ENGINES_ALONE }).expect("set");
    store.put_client(&grant("one", &["a"])).expect("made");
    let operations = BTreeSet::from([Operation::Decrypt]);
    let three = NewClient { operations, apps: Apps::All, roles: roles(), ..grant("three", &[]) };
    store.put_client(&three).expect("made");
    let revoked = store.list_api_keys().expect("read")[0].id.clone();
    store.revoke_api_key(&revoked).expect("revoked");
    store
}

/// What only an engine has made.
const ENGINES_ALONE: AcceptedSchemes = AcceptedSchemes { public_key: false, symmetric: true, from_public_key: false };

fn roles() -> Roles {
    Roles::Only(["pci", "pii"].map(|name| RoleName::parse(name).expect("valid")).into())
}

fn new_key(name: &str, secret: u8) -> NewApiKey {
    let operations = BTreeSet::from([Operation::Encrypt]);
    let accept = AcceptedSchemes::ALL;
    NewApiKey { app: app(name), operations, roles: Roles::Any, accept, secret_sha256: [secret; 32] }
}

fn edit_count(ordinary: usize) -> usize {
    std::env::var("LEAFSEAL_STORE_EDITS").map_or(ordinary, |text| text.parse().expect("a number"))
}

#[test]
fn no_edit_of_a_file_takes_effect() {
    let place = Place::new(Kind::Sqlite);
    let truth = Truth::of(&place);
    let pristine = std::fs::read(place.path()).expect("read");
    let mut rng = StdRng::seed_from_u64(42);
    for _ in 0..edit_count(EDIT_COUNT) {
        std::fs::write(place.path(), &pristine).expect("written");
        let edit = random_edit(&mut rng, &truth.dump, &truth.older);
        place.tamper(&edit.join(";"));
        let edited = dump(place.path());
        // The whole database put back is what the generation that engines remember is for.
        if edited != truth.older {
            truth.assert_refused(&place, &edited, &edit);
        }
    }
}

#[test]
fn no_edit_of_a_database_takes_effect() {
    let (file, scratch) = (Place::new(Kind::Sqlite), Place::new(Kind::Sqlite));
    let mut truth = Truth::of(&file);
    let mut rng = StdRng::seed_from_u64(43);
    for _ in 0..edit_count(DATABASE_EDIT_COUNT).div_ceil(50).max(DATABASE_EDIT_COUNT) {
        let place = Place::new(Kind::Postgres);
        let (from, settings) = (StoreAddress::File(file.path()), place.settings());
        copy_store(&from, &StoreAddress::Database(&settings), || Ok(environment()), StoreLimits::default())
            .expect("copied");
        // The history of both has the copy.
        (truth.dump, truth.history) = (dump(file.path()), history(&file.open()));
        place.drop_checks();
        let edit = random_edit(&mut rng, &truth.dump, &truth.older);
        place.tamper(&edit.join(";"));
        // The same on a file shows what the edit did.
        std::fs::copy(file.path(), scratch.path()).expect("copied");
        scratch.tamper(&edit.join(";"));
        let edited = dump(scratch.path());
        if edited != truth.older {
            truth.assert_refused(&place, &edited, &edit);
        }
    }
}

/// Without its row an app, a client or an API key would accept everything.
fn what_is_accepted_cannot_be_widened(place: &Place) {
    let store = place.open();
    for name in ["a", "b", "c"] {
        store.create_app(&app(name), NewKeys::generated()).expect("made");
        store.put_client(&NewClient { accept: ENGINES_ALONE, ..grant(name, &[]) }).expect("made");
    }
    for name in ["a", "b"] {
        store.set_accepted(&app(name), ENGINES_ALONE).expect("set");
    }
    let key = |secret| NewApiKey { accept: ENGINES_ALONE, ..new_key("a", secret) };
    let ids = [1, 2].map(|secret| store.create_api_key(&key(secret)).expect("made").id);
    let [widened, bare] = &ids;
    place.tamper(&format!(
        "UPDATE api_key_accept SET accepts_public_key = TRUE WHERE api_key = '{widened}';
         DELETE FROM api_key_accept WHERE api_key = '{bare}';
         DELETE FROM app_accept WHERE app = 'a'; UPDATE app_accept SET accepts_public_key = TRUE WHERE app = 'b';
         INSERT INTO app_accept VALUES ('c', TRUE, FALSE, TRUE); DELETE FROM client_accept WHERE client = 'a';
         UPDATE client_accept SET accepts_from_public_key = TRUE WHERE client = 'b';
         UPDATE client_accept SET client = 'zoe' WHERE client = 'c'"
    ));
    assert!(ids.iter().all(|id| matches!(store.api_key(id), Err(StoreError::Edited(_)))));
    for name in ["a", "b", "c"] {
        assert!(matches!(store.load_app(&app(name)), Err(StoreError::Edited(_))), "{name}");
        assert!(matches!(store.app_summary(&app(name)), Err(StoreError::Edited(_))), "{name}");
        assert!(matches!(store.client(&client(name)), Err(StoreError::Edited(_))), "{name}");
        assert!(matches!(store.set_accepted(&app(name), ENGINES_ALONE), Err(StoreError::Edited(_))), "{name}");
    }
    let named: BTreeSet<String> = scan(&store).0.iter().filter_map(|edit| entity_of_part(&edit.part)).collect();
    let expected = ["app a", "app b", "app c", "client a", "client b", "client c", "client zoe"];
    let keys = ids.map(|id| format!("API key {id}"));
    assert_eq!(named, expected.map(str::to_owned).into_iter().chain(keys).collect());
}

/// A change of an entry that was edited would authenticate the edit with it.
fn an_edit_is_not_laundered_by_a_later_change(place: &Place) {
    let store = place.open();
    store.create_app(&app("a"), NewKeys::generated()).expect("made");
    store.put_client(&grant("one", &[])).expect("made");
    let id = store.create_api_key(&new_key("a", 1)).expect("made").id;
    place.tamper(
        "UPDATE client SET may_decrypt = TRUE, all_apps = TRUE; UPDATE app SET created_at = 1;
         UPDATE key_version SET created_at = 1; UPDATE api_key SET may_decrypt = TRUE",
    );
    let edited =
        |outcome: Result<(), StoreError>| assert!(matches!(outcome, Err(StoreError::Edited(_))), "{outcome:?}");
    edited(store.disable_client(&client("one")));
    edited(store.enable_client(&client("one")));
    edited(store.put_client(&grant("one", &["a"])).map(drop));
    edited(store.disable_app(&app("a")));
    edited(store.rotate(&app("a")).map(drop));
    edited(store.revoke_api_key(&id));
    edited(store.client(&client("one")).map(drop));
    // Others can still be made and used.
    store.create_app(&app("b"), NewKeys::generated()).expect("made");
    store.put_client(&grant("two", &["b"])).expect("made");
    assert!(store.client(&client("two")).expect("read").is_some());
    edited(store.client(&client("one")).map(drop));
}

/// Without a tree nothing would be verified.
fn a_store_cannot_be_passed_off_as_an_older_one(place: &Place) {
    let store = place.open();
    store.create_app(&app("a"), NewKeys::generated()).expect("made");
    store.token_secret().expect("made");
    place.add_old_columns();
    place.tamper(
        "UPDATE store SET schema_version = 2; DELETE FROM tree_root; DELETE FROM tree_node; DELETE FROM tree_leaf",
    );
    assert!(matches!(store.load_app(&app("a")), Err(StoreError::Edited(_))), "one that is open knows better");
    let reopen = || place.try_open(OpenMode::Existing, environment(), StoreLimits::default());
    assert!(matches!(reopen(), Err(StoreError::WrongRootKey { .. })), "its root is not the root key");
    place.tamper(&format!("UPDATE store SET root_key_id = x'{}'", root_key().id()));
    assert!(matches!(reopen(), Err(StoreError::Edited(_))), "its keys are those of a newer one");
}

fn a_trigger_cannot_change_what_is_authenticated(place: &Place) {
    let store = place.open();
    place.tamper(match place.kind {
        Kind::Sqlite => "CREATE TRIGGER widen AFTER INSERT ON client BEGIN UPDATE client SET may_decrypt = 1; END",
        Kind::Postgres => {
            "CREATE FUNCTION widen() RETURNS trigger LANGUAGE plpgsql AS
             $$ BEGIN NEW.may_decrypt = TRUE; RETURN NEW; END $$;
             CREATE TRIGGER widen BEFORE INSERT ON client FOR EACH ROW EXECUTE FUNCTION widen()"
        }
    });
    let faults = store.check().expect("checked").faults;
    assert!(matches!(&faults[..], [StoreFault::Schema(what)] if what.contains("trigger widen")), "{faults:?}");
    store.put_client(&grant("one", &[])).expect("made");
    match store.client(&client("one")) {
        Ok(found) => assert!(!found.expect("there").operations.contains(&Operation::Decrypt)),
        Err(error) => assert!(matches!(error, StoreError::Edited(_)), "{error}"),
    }
}

/// A trigger that turns the generation back would otherwise have a change authenticated under the number of the state before, and engines
/// that compare numbers would not notice that a client was disabled.
#[test]
fn a_change_shows_whatever_the_database_does_to_its_number() {
    let place = Place::new(Kind::Postgres);
    let store = place.open();
    store.put_client(&grant("one", &[])).expect("made");
    let before = store.generation().expect("read");
    place.tamper(
        "CREATE FUNCTION leafseal.hold() RETURNS trigger LANGUAGE plpgsql AS
         $$ BEGIN UPDATE leafseal.tree_root SET generation = generation - 1; RETURN NULL; END $$;
         CREATE TRIGGER hold AFTER INSERT ON tree_root FOR EACH STATEMENT EXECUTE FUNCTION leafseal.hold()",
    );
    store.disable_client(&client("one")).expect("no newer state is known");
    assert!(
        matches!(store.generation(), Err(StoreError::Edited(_))),
        "the number is not the one that was authenticated"
    );
    place.tamper("UPDATE tree_root SET generation = generation + 1");
    assert_ne!(store.generation().expect("read"), before);
}

/// Decoys could have one statement read another row of the store than the next.
#[test]
fn a_second_row_of_the_store_is_refused() {
    let place = Place::new(Kind::Sqlite);
    let store = place.open();
    store.create_app(&app("a"), NewKeys::generated()).expect("made");
    place.tamper("INSERT INTO store SELECT 2, schema_version, store_id, root_key_id FROM store");
    let refused = |error: Option<StoreError>| assert!(matches!(error, Some(StoreError::Edited(_))), "{error:?}");
    refused(store.generation().err());
    refused(store.load_app(&app("a")).err());
    refused(store.rotate(&app("a")).err());
    assert!(!store.check().expect("checked").faults.is_empty());
}

fn an_unreadable_row_hides_no_edit(place: &Place) {
    let store = place.open();
    store.create_app(&app("a"), NewKeys::generated()).expect("made");
    for name in ["one", "two"] {
        store.put_client(&grant(name, &[])).expect("made");
    }
    let junk = match place.kind {
        Kind::Sqlite => {
            "INSERT INTO client VALUES (CAST(x'ff' AS TEXT), 0, 0, 0, 0, 0, 0, NULL);
             INSERT INTO tree_leaf VALUES (0, 9, CAST(x'ff' AS TEXT), 0, 0, zeroblob(32));
             UPDATE key_version SET created_at = -1;"
        }
        Kind::Postgres => {
            place.drop_checks();
            "INSERT INTO client VALUES ('A/b', 0, FALSE, FALSE, FALSE, FALSE, FALSE, NULL);
             INSERT INTO tree_leaf VALUES (0, 9, 'x', 0, FALSE, x'00'); UPDATE key_version SET created_at = -1;"
        }
    };
    place.tamper(&format!("{junk} UPDATE client SET may_decrypt = TRUE WHERE name = 'one'"));
    let faults = store.check().expect("checked").faults;
    let (scanned, _) = scan(&store);
    assert!(
        scanned.iter().any(|edit| edit.part == EditedPart::Row { table: "client" }) || place.kind == Kind::Postgres
    );
    let version_1 = EditedPart::KeyVersion { app: "a".to_owned(), version: 1 };
    for part in [EditedPart::Client("one".to_owned()), version_1, EditedPart::Bucket(0)] {
        let is_named = |fault: &StoreFault| matches!(fault, StoreFault::Edited(edit) if edit.part == part);
        assert!(faults.iter().any(is_named), "{part}: {faults:?}");
        assert!(scanned.iter().any(|edit| edit.part == part), "{part}: {scanned:?}");
    }
    assert!(store.client(&client("two")).expect("read").is_some());
    assert!(matches!(store.client(&client("one")), Err(StoreError::Edited(_))));
}

fn stray_nodes_are_refused_and_named(place: &Place) {
    let store = place.open();
    store.create_app(&app("a"), NewKeys::generated()).expect("made");
    let level_1 = (0..32).map(|position| format!("(1, {position}, x'')"));
    let level_2 = (0..1024).map(|position| format!("(2, {position}, x'00')"));
    let nodes: Vec<String> = level_1.chain(level_2).collect();
    place.tamper(&format!("INSERT INTO tree_node VALUES {} ON CONFLICT DO NOTHING", nodes.join(", ")));
    assert!(store.load_app(&app("a")).expect("read").is_some(), "what was there is in order");
    for number in 0..20 {
        let made = store.create_app(&app(&format!("b-{number}")), NewKeys::generated());
        assert!(made.is_ok() || matches!(made, Err(StoreError::Edited(_))), "{made:?}");
    }
    let faults = store.check().expect("checked").faults;
    let is_node =
        |fault: &&StoreFault| matches!(fault, StoreFault::Edited(edit) if matches!(edit.part, EditedPart::Node { .. }));
    assert!(faults.iter().filter(is_node).count() > 20, "{faults:?}");
    assert_scan_names(&store, &faults, &[]);
}

/// The pace of a scan counts rows, so a step must not read many, and a pass not more than it needs.
fn a_scan_reads_each_row_once_in_small_steps(place: &Place) {
    const APP_COUNT: u64 = 60;
    let store = place.open();
    assert_eq!(scan(&store).0, BTreeSet::new());
    for number in 0..APP_COUNT {
        store.create_app(&app(&format!("a-{number}")), NewKeys::generated()).expect("made");
    }
    let (edits, row_counts) = scan(&store);
    assert_eq!(edits, BTreeSet::new());
    // Three leaves, an app, a version, two keys and the row of the history, which the tables show once more; and the nodes.
    let total: u64 = row_counts.iter().sum();
    let expected = APP_COUNT * (3 + 5 + 5);
    assert!((expected..expected + 6 * APP_COUNT + 100).contains(&total), "{total} rows");
    assert!(row_counts.len() < 60 && row_counts.iter().all(|count| *count < 2_500), "{row_counts:?}");
    place.tamper(
        "DELETE FROM key_pair WHERE app = 'a-7'; DELETE FROM key_version WHERE app = 'a-7'; UPDATE app SET name = 'b-8' WHERE
         name = 'a-8'; INSERT INTO client_role VALUES ('nobody', 'pci')",
    );
    let app = |name: &str, kind| StoreEdit { part: EditedPart::App(name.to_owned()), kind };
    let version =
        |app: &str, kind| StoreEdit { part: EditedPart::KeyVersion { app: app.to_owned(), version: 1 }, kind };
    let nobody = StoreEdit { part: EditedPart::Client("nobody".to_owned()), kind: EditKind::Added };
    let edits = [app("a-8", EditKind::Removed), app("b-8", EditKind::Added), version("a-7", EditKind::Removed), nobody];
    assert_eq!(scan(&store).0, edits.into());
}

fn a_scan_passes_changes_made_meanwhile(place: &Place) {
    let store = place.open();
    let mut position = StoreScan::default();
    for number in 0..30 {
        store.create_app(&app(&format!("a-{number}")), NewKeys::generated()).expect("made");
        store.put_client(&grant("one", &[&format!("a-{number}")])).expect("made");
        assert_eq!(store.scan(&mut position).expect("scanned").edits, []);
    }
    // What was edited before a pass began is found by it, wherever the one before it was.
    place.tamper("UPDATE client SET may_decrypt = TRUE");
    while !store.scan(&mut position).expect("scanned").is_last {}
    let changed = StoreEdit { part: EditedPart::Client("one".to_owned()), kind: EditKind::Changed };
    assert_eq!(scan(&store).0, [changed].into());
}

/// The text of an answer without ids of symmetric roots, which a migration makes.
fn without_symmetric_ids(answer: &str) -> String {
    let mut parts = answer.split("symmetric: ");
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        text += part.split_once('}').map_or("", |(_, rest)| rest);
    }
    text
}

fn an_older_store_is_migrated_whole(place: &Place) {
    let store = place.open_old();
    for name in ["a", "b"] {
        store.create_app(&app(name), NewKeys::generated()).expect("made");
    }
    store.rotate(&app("a")).expect("rotated");
    store.disable_version(&app("a"), 1).expect("disabled");
    store.put_client(&grant("one", &["a", "b"])).expect("made");
    store.create_api_key(&new_key("a", 1)).expect("made");
    let secret = store.token_secret().expect("made");
    let other = place.open();
    let ids: Vec<ApiKeyId> = store.list_api_keys().expect("read").into_iter().map(|key| key.id).collect();
    let plain = |view: View| view.into_iter().map(|(name, answer)| (name, answer.expect("read"))).collect::<Vec<_>>();
    let before = plain(view_of_few(&store, &ids));
    let plan = store.plan_migration().expect("planned");
    assert_eq!((plan.from, plan.to, plan.entry_count), (2, 3, 2 + 3 + 1 + 1 + 1));
    assert_eq!(store.check().expect("checked").schema_version, 2, "a plan changes nothing");
    let mut steps = Vec::new();
    assert_eq!(store.migrate(&mut |done, of| steps.push((done, of))).expect("migrated"), plan);
    // Three versions, and the token secret.
    assert_eq!(steps, (1..=4).map(|done| (done, 4)).collect::<Vec<_>>());
    // Two versions encrypt: each got a symmetric root.
    let without_ids = |view: Vec<(String, String)>| {
        view.into_iter().map(|(name, answer)| (name, without_symmetric_ids(&answer))).collect::<Vec<_>>()
    };
    for store in [&store, &other, &place.open()] {
        assert_eq!(without_ids(plain(view_of_few(store, &ids))), without_ids(before.clone()));
        let report = store.check().expect("checked");
        assert_eq!((report.schema_version, report.faults), (3, vec![]));
        assert_eq!(store.token_secret().expect("read").expose(), secret.expose());
    }
    assert_eq!(store.migrate(&mut |_, _| ()).expect("nothing to do").entry_count, 0);
    other.rotate(&app("b")).expect("rotated");
    place.tamper("UPDATE client SET may_decrypt = TRUE");
    assert!(matches!(other.client(&client("one")), Err(StoreError::Edited(_))));
}

fn view_of_few(store: &Store, ids: &[ApiKeyId]) -> View {
    let added = |name: &str| name == "all apps" || ["app a", "app b", "client one", "secret"].contains(&name);
    view(store, ids).into_iter().filter(|(name, _)| added(name) || name.starts_with("API key")).collect()
}

fn a_damaged_older_store_is_not_migrated(place: &Place) {
    let store = place.open_old();
    store.create_app(&app("a"), NewKeys::generated()).expect("made");
    place.tamper("UPDATE key_pair SET wrapped_private_key = x'00' WHERE curve = 'r1'");
    assert!(matches!(store.plan_migration(), Err(StoreError::DamagedKey { .. })));
    assert!(matches!(store.migrate(&mut |_, _| ()), Err(StoreError::DamagedKey { .. })));
    assert_eq!(store.check().expect("checked").schema_version, 2);
    store.create_app(&app("b"), NewKeys::generated()).expect("it goes on as it was");
}

/// The generator makes edits of each kind, or the tests above would show little.
#[test]
fn edits_reach_every_table() {
    let place = Place::new(Kind::Sqlite);
    let truth = Truth::of(&place);
    let mut rng = StdRng::seed_from_u64(44);
    let edits: String = (0..400).flat_map(|_| random_edit(&mut rng, &truth.dump, &truth.older)).collect();
    for table in generator::TABLES {
        assert!(edits.contains(&format!("UPDATE {} ", table.name)), "{}", table.name);
        assert!(edits.contains(&format!("DELETE FROM {} ", table.name)), "{}", table.name);
    }
}
