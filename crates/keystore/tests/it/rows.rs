//! Rows that no program of ours writes: keys without a value or of another type, twice the same, in tables that were made again without
//! their rules. A scan gets to its end, and names them and every other edit.

use std::collections::BTreeSet;

use leafseal_keystore::{EditedPart, NewKeys, RotationRule, StoreEdit, StoreError, StoreFault, StoreScan};

use crate::common::{Kind, Place, Store, app, client, grant, on_both_databases};

on_both_databases! {
    a_scan_passes_keys_that_have_no_order,
    a_scan_passes_more_certificates_than_a_page,
    a_scan_goes_on_behind_a_table_that_does_not_read,
    a_check_names_what_no_program_writes,
    what_is_too_long_is_an_edit_of_its_entry,
    a_check_names_what_differs_in_the_schema,
}

/// What a whole scan finds.
fn scan(store: &Store) -> BTreeSet<StoreEdit> {
    let (mut scan, mut edits) = (StoreScan::default(), BTreeSet::new());
    for _ in 0..1_000 {
        let step = store.scan(&mut scan).expect("scanned");
        edits.extend(step.edits);
        if step.is_last {
            return edits;
        }
    }
    panic!("the scan does not end: {scan:?}");
}

fn parts(edits: &BTreeSet<StoreEdit>) -> BTreeSet<EditedPart> {
    edits.iter().map(|edit| edit.part.clone()).collect()
}

/// A store with an app, two clients and an edit in a table that a scan gets to late.
fn edited(place: &Place) -> (Store, EditedPart) {
    let store = place.open();
    store.create_app(&app("a"), NewKeys::generated()).expect("made");
    for name in ["one", "two"] {
        store.put_client(&grant(name, &["a"])).expect("made");
    }
    store.token_secret().expect("made");
    store.life().expect("has one").set_rotation(&app("a"), RotationRule::Never).expect("set");
    assert_eq!(scan(&store), BTreeSet::new());
    place.tamper("INSERT INTO secret VALUES ('planted', x'00')");
    (store, EditedPart::Secret("planted".to_owned()))
}

fn a_scan_passes_keys_that_have_no_order(place: &Place) {
    for table in ["client_app", "key_pair", "app_life", "client"] {
        let place = &Place::new(place.kind);
        let (store, planted) = edited(place);
        place.without_rules(table);
        let (columns, nothing) = match table {
            "client_app" => ("client, app", "'one', NULL"),
            "key_pair" => ("app, version, curve", "'a', NULL, 'r1'"),
            "app_life" => ("app", "NULL"),
            _ => ("name", "NULL"),
        };
        let mut rows = vec![format!("({nothing})"); 900];
        if place.kind == Kind::Sqlite {
            for other in ["5", "x'00'", "CAST(x'ff' AS TEXT)", "1.5"] {
                rows.extend(vec![format!("({})", nothing.replace("NULL", other)); 450]);
            }
        }
        place.tamper(&format!("INSERT INTO {table} ({columns}) VALUES {}", rows.join(", ")));
        let found = parts(&scan(&store));
        assert!(found.contains(&planted), "{table}: {found:?}");
        let is_named = |part: &EditedPart| matches!(part, EditedPart::Row { table: named } if *named == table);
        assert!(found.iter().any(is_named), "{table}: {found:?}");
        assert_eq!(parts(&scan(&store)), found, "{table}: the next pass");
    }
}

fn a_scan_passes_more_certificates_than_a_page(place: &Place) {
    let store = place.open();
    for number in 0..110 {
        let name = format!("c-{number}");
        let pinned = |byte: u8| {
            let mut bytes = [byte; 32];
            bytes[0] = number;
            bytes
        };
        store
            .put_client(&leafseal_keystore::NewClient { certificate_sha256: Some(pinned(1)), ..grant(&name, &[]) })
            .expect("made");
        for byte in 2..6 {
            store.renew_client(&client(&name), pinned(byte), u64::MAX >> 1).expect("renewed");
        }
    }
    assert_eq!(scan(&store), BTreeSet::new());
    place.tamper("INSERT INTO client_certificate SELECT 'zoe', sha256, 1 FROM client_certificate LIMIT 1");
    assert!(scan(&store).iter().any(|edit| edit.part == EditedPart::Client("zoe".to_owned())));
}

/// What a check names as edited; it gets to its end.
fn checked(store: &Store) -> BTreeSet<EditedPart> {
    let faults = store.check().expect("checked").faults;
    let part = |fault| if let StoreFault::Edited(edit) = fault { Some(edit.part) } else { None };
    faults.into_iter().filter_map(part).collect()
}

fn a_scan_goes_on_behind_a_table_that_does_not_read(place: &Place) {
    for (table, column) in
        [("key_pair", "curve"), ("app_life", "used_at"), ("tree_leaf", "active"), ("client", "disabled")]
    {
        let place = &Place::new(place.kind);
        let (store, planted) = edited(place);
        place.without_rules(table);
        place.tamper(&format!("ALTER TABLE {table} RENAME COLUMN {column} TO other"));
        for found in [parts(&scan(&store)), checked(&store)] {
            assert!(found.contains(&EditedPart::Table(table)), "{table}: {found:?}");
            // Without leaves there is nothing to compare with.
            assert!(found.contains(&planted) || table == "tree_leaf", "{table}: {found:?}");
        }
    }
}

fn a_check_names_what_no_program_writes(place: &Place) {
    let (store, planted) = edited(place);
    let columns = [
        ("key_pair", "app, version, curve", "'a', 1, NULL"),
        ("symmetric_key", "app, version", "'a', NULL"),
        ("secret", "purpose", "NULL"),
        ("slot", "id", "NULL"),
        ("app_life", "app", "NULL"),
        ("client_role", "client, role", "NULL, 'pci'"),
        ("app_accept", "app", "NULL"),
        ("client_accept", "client", "NULL"),
        ("api_key_accept", "api_key", "NULL"),
        ("app", "name", "NULL"),
    ];
    let mut expected = BTreeSet::from([planted]);
    for (table, names, values) in columns {
        place.without_rules(table);
        place.tamper(&format!("INSERT INTO {table} ({names}) VALUES ({values})"));
        expected.insert(EditedPart::Row { table });
    }
    place.tamper("INSERT INTO api_key_role VALUES ('0123456789abcdef', 'pci')");
    expected.insert(EditedPart::ApiKey("0123456789abcdef".to_owned()));
    place.tamper("INSERT INTO root_link VALUES (x'0102030405060708', 7, 7, x'00')");
    expected.insert(EditedPart::Row { table: "root_link" });
    place.without_rules("tree_leaf");
    place.tamper("INSERT INTO tree_leaf (bucket, name) VALUES (NULL, 'x')");
    expected.insert(EditedPart::Bucket(32_768));
    place.without_rules("tree_node");
    place.tamper("INSERT INTO tree_node SELECT * FROM tree_node WHERE level = 0");
    expected.insert(EditedPart::Node { level: 0, position: 0 });
    for found in [parts(&scan(&store)), checked(&store)] {
        let missing: Vec<_> = expected.difference(&found).collect();
        assert!(missing.is_empty(), "{missing:?} of {found:?}");
    }
}

fn what_is_too_long_is_an_edit_of_its_entry(place: &Place) {
    let (store, planted) = edited(place);
    store.create_app(&app("b"), NewKeys::generated()).expect("made");
    let bytes = match place.kind {
        Kind::Sqlite => "zeroblob(20000000)",
        Kind::Postgres => "decode(repeat('00', 20000000), 'hex')",
    };
    place.tamper(&format!("UPDATE key_pair SET wrapped_private_key = {bytes} WHERE app = 'a'"));
    place.without_rules("client");
    place.tamper(&format!("UPDATE client SET certificate_sha256 = {bytes} WHERE name = 'one'"));
    assert!(matches!(store.load_app(&app("a")), Err(StoreError::Edited(_))));
    assert!(matches!(store.client(&client("one")), Err(StoreError::Edited(_))));
    assert!(
        store.load_app(&app("b")).expect("read").is_some() && store.client(&client("two")).expect("read").is_some()
    );
    let version = EditedPart::KeyVersion { app: "a".to_owned(), version: 1 };
    let expected = BTreeSet::from([version, EditedPart::Client("one".to_owned()), planted]);
    assert_eq!((parts(&scan(&store)), checked(&store)), (expected.clone(), expected));
}

#[test]
fn an_edit_of_the_row_of_the_store_is_named() {
    for kind in [Kind::Sqlite, Kind::Postgres] {
        let place = Place::new(kind);
        let store = place.open();
        store.create_app(&app("a"), NewKeys::generated()).expect("made");
        let root = place.tamper(&format!("{} LIMIT 1", place.as_hex("root_key_id", "store")));
        place.without_rules("store");
        for edit in
            ["root_key_id = x'0000000000000000'".to_owned(), format!("only_row = 2, root_key_id = x'{}'", root.trim())]
        {
            place.tamper(&format!("UPDATE store SET {edit}"));
            assert_eq!(checked(&store), BTreeSet::from([EditedPart::Root]), "{edit}");
            assert_eq!(parts(&scan(&store)), BTreeSet::from([EditedPart::Root]), "{edit}");
        }
        place.tamper("UPDATE store SET only_row = 1");
        assert_eq!(parts(&scan(&store)), BTreeSet::new());
    }
}

fn a_check_names_what_differs_in_the_schema(place: &Place) {
    let old = Place::new(place.kind);
    assert_eq!(old.open_old().check().expect("checked").faults, [], "of an older store");
    old.open_old().migrate(&mut |_, _| ()).expect("migrated");
    for store in [old.open(), place.open()] {
        assert_eq!(store.check().expect("checked").faults, []);
    }
    place.tamper(match place.kind {
        Kind::Sqlite => {
            "CREATE TRIGGER planted AFTER INSERT ON app BEGIN SELECT 1; END; CREATE VIEW shown AS SELECT * FROM app;
             CREATE INDEX found ON client (disabled); ALTER TABLE slot ADD COLUMN more TEXT; CREATE TABLE other (a)"
        }
        Kind::Postgres => {
            "CREATE FUNCTION planted() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NEW; END $$;
             CREATE TRIGGER planted BEFORE INSERT ON app FOR EACH ROW EXECUTE FUNCTION planted();
             CREATE VIEW shown AS SELECT * FROM app; CREATE RULE ruled AS ON DELETE TO app DO INSTEAD NOTHING;
             ALTER TABLE slot ADD COLUMN more TEXT; CREATE TABLE other (a TEXT); ALTER TABLE app ALTER created_at DROP NOT NULL"
        }
    });
    let faults: Vec<String> = place.open().check().expect("checked").faults.iter().map(ToString::to_string).collect();
    let named: &[&str] = match place.kind {
        Kind::Sqlite => &[
            "trigger planted was added",
            "view shown was",
            "index found was",
            "table slot was changed",
            "table other was",
        ],
        Kind::Postgres => &[
            "trigger planted of app was",
            "table shown v",
            "rewrite rule ruled of app",
            "slot.more",
            "table other r",
            "app.created_at",
        ],
    };
    for name in named {
        assert!(faults.iter().any(|fault| fault.contains(name)), "{name}: {faults:?}");
    }
}

/// What PostgreSQL says of a new store, and of an older one, is what a check expects; `UPDATE=1` writes it.
#[test]
fn the_described_schema_is_the_one_that_is_made() {
    let describe = include_str!("../../src/postgres/describe.sql");
    let lines = |place: &Place| -> BTreeSet<String> { place.tamper(describe).lines().map(str::to_owned).collect() };
    let [older, newer] = [Place::new(Kind::Postgres), Place::new(Kind::Postgres)];
    drop((older.open_old(), newer.open()));
    let (older, newer) = (lines(&older), lines(&newer));
    let schemas = |line: &String| (if older.contains(line) { 2 } else { 3 }, if newer.contains(line) { 3 } else { 2 });
    let with_schemas = |line| {
        let (first, last) = schemas(line);
        format!("{first}-{last} {line}\n")
    };
    let text: String = older.union(&newer).map(with_schemas).collect();
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/src/postgres/schema.txt");
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(path, &text).expect("written");
    }
    assert_eq!(std::fs::read_to_string(path).expect("read"), text, "run it with UPDATE=1");
}
