//! Rows that no program of ours writes: keys without a value or of another type, twice the same, in tables that were made again without
//! their rules. A scan gets to its end, and names them and every other edit.

use std::collections::BTreeSet;

use leafseal_keystore::{EditedPart, NewKeys, StoreEdit, StoreScan};

use crate::common::{Kind, Place, Store, app, client, grant, on_both_databases};

on_both_databases! {
    a_scan_passes_keys_that_have_no_order,
    a_scan_passes_more_certificates_than_a_page,
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
