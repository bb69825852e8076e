//! The history of a store: each change leaves one row, in its own transaction, and none can be changed or removed unnoticed.

use std::collections::BTreeSet;
use std::time::Duration;

use leafseal_keystore::{
    AcceptedSchemes, ChangePage, DeletionPlan, EditKind, EditedPart, HistoryEntry, Keystore, LocalRootKey, NewApiKey,
    NewKeys, Operation, Roles, RotationRule, StoreChange, StoreEdit, StoreError, StoreFault, StoreLimits,
};

use crate::common::{Kind, Place, SlotChanges, app, assert_sound, author, client, grant, on_both_databases, rng};

on_both_databases! {
    each_change_leaves_one_row,
    rows_are_bounded,
    an_edited_row_is_found_and_hides_no_other,
    a_migration_begins_the_history,
}

fn page(store: &dyn Keystore, after: u64) -> ChangePage {
    store.history().expect("has one").changes(after, 1_000).expect("read")
}

/// All changes, none of which is edited.
pub(crate) fn changes(store: &dyn Keystore) -> Vec<StoreChange> {
    let whole = |entry| match entry {
        HistoryEntry::Change(change) => *change,
        HistoryEntry::Edited(generation) => panic!("the change to {generation} is edited"),
    };
    let (mut changes, mut after) = (Vec::new(), 0);
    loop {
        let page = page(store, after);
        after = page.up_to;
        if page.entries.is_empty() {
            return changes;
        }
        changes.extend(page.entries.into_iter().map(whole));
    }
}

fn each_change_leaves_one_row(place: &Place) {
    let store = place.open();
    let one = |name: &str, change: &dyn Fn()| {
        let before = changes(&*store);
        change();
        let after = changes(&*store);
        assert_eq!(after.len(), before.len() + 1, "{name}");
        let made = after.last().expect("one").clone();
        assert_eq!(made.kind, name);
        made
    };
    let life = store.life().expect("has one");
    let key = |secret| NewApiKey {
        app: app("a"),
        operations: BTreeSet::from([Operation::Encrypt]),
        roles: Roles::Any,
        accept: AcceptedSchemes::ALL,
        secret_sha256: [secret; 32],
    };
    let made = one("create-app", &|| _ = store.create_app(&app("a"), NewKeys::generated()).expect("made"));
    assert_eq!((made.app.as_deref(), made.version), (Some("a"), Some(1)));
    assert_eq!((made.at, &made.author), (crate::common::NOW, &author()));
    let made = one("add-version", &|| _ = store.rotate(&app("a")).expect("rotated"));
    assert_eq!((made.app.as_deref(), made.version), (Some("a"), Some(2)));
    one("disable-version", &|| store.disable_version(&app("a"), 1).expect("disabled"));
    one("enable-version", &|| store.enable_version(&app("a"), 1).expect("enabled"));
    store.disable_version(&app("a"), 1).expect("disabled");
    let made = one("trim-versions", &|| store.trim_versions(&app("a"), &BTreeSet::from([1])).expect("trimmed"));
    assert_eq!(made.detail.as_deref(), Some("1"));
    one("set-accepted", &|| {
        store.set_accepted(&app("a"), AcceptedSchemes { public_key: false, ..AcceptedSchemes::ALL }).expect("set")
    });
    let made = one("put-client", &|| _ = store.put_client(&grant("c", &["a"])).expect("made"));
    assert_eq!(made.client.as_deref(), Some("c"));
    one("disable-client", &|| store.disable_client(&client("c")).expect("disabled"));
    one("enable-client", &|| store.enable_client(&client("c")).expect("enabled"));
    let made = one("create-api-key", &|| _ = store.create_api_key(&key(1)).expect("made"));
    let id = store.list_api_keys().expect("read")[0].id.clone();
    assert_eq!(made.detail.as_deref(), Some(id.as_str()));
    one("revoke-api-key", &|| store.revoke_api_key(&id).expect("revoked"));
    if place.kind == Kind::Sqlite {
        // A database has it from the start.
        one("make-token-secret", &|| _ = store.token_secret().expect("made"));
    }
    one("set-rotation", &|| life.set_rotation(&app("a"), RotationRule::Never).expect("set"));
    one("disable-app", &|| store.disable_app(&app("a")).expect("disabled"));
    one("enable-app", &|| store.enable_app(&app("a")).expect("enabled"));
    one("rotate-root", &|| _ = store.rotate_root(Some(Duration::from_secs(60)), &mut |_, _| ()).expect("rotated"));
    one("remove-root-links", &|| store.remove_root_links().expect("removed"));
    one("add-slot", &|| _ = store.add_slot(&LocalRootKey::generate(&mut rng())).expect("added"));
    one("rotate-root", &|| _ = store.rotate_root(None, &mut |_, _| ()).expect("rotated"));
    let history = store.history().expect("has one");
    let begun = std::cell::RefCell::new(None);
    one("begin-log", &|| _ = begun.replace(Some(history.begin_engine_log("e", None).expect("begun"))));
    let begun = begun.into_inner().expect("begun");
    assert_eq!(history.engine_log("e").expect("read").as_ref(), Some(&begun));
    assert!(matches!(history.begin_engine_log("e", None), Err(StoreError::Busy)), "it has one by now");
    let next = history.begin_engine_log("e", Some(&begun.id)).expect("begun");
    assert!(next.id != begun.id && next.id.len() == 16);
    let canaries = store.canaries().expect("has some");
    let canary = std::cell::RefCell::new(None);
    one("add-canary", &|| {
        drop(canary.replace(Some(canaries.add_canary(&app("a"), b"one", "symmetric").expect("added"))))
    });
    let canary = canary.into_inner().expect("added");
    assert_eq!(canaries.canaries(&app("a")).expect("read"), std::slice::from_ref(&canary));
    let has = |identity: &[u8]| {
        store.load_app(&app("a")).expect("read").expect("there").canaries.is_some_and(|set| set.has(identity))
    };
    assert!(has(b"one") && !has(b"two"));
    one("rotate-root", &|| {
        let _ = store.rotate_root(None, &mut |_, _| ()).expect("rotated");
    });
    assert!(has(b"one"), "under another root");
    one("remove-canary", &|| assert!(canaries.remove_canary(&app("a"), &canary.id).expect("removed")));
    assert!(!has(b"one") && !canaries.remove_canary(&app("a"), &canary.id).expect("nothing"));
    one("open-canary", &|| history.record_canary(&app("a")).expect("recorded"));
    one("export", &|| store.history().expect("has one").record_export(&app("a"), &[2]).expect("recorded"));
    let plan = DeletionPlan { delay: Duration::ZERO, unused_for: Duration::ZERO };
    one("schedule-deletion", &|| _ = life.schedule_deletion(&app("a"), plan).expect("planned"));
    one("cancel-deletion", &|| life.cancel_deletion(&app("a")).expect("cancelled"));
    life.schedule_deletion(&app("a"), plan).expect("planned");
    one("delete", &|| assert_eq!(life.upkeep(None, Duration::ZERO).expect("done").deleted, [app("a")]));
    // What is refused, changes nothing, or is no act of anybody leaves none.
    let before = changes(&*store).len();
    assert!(matches!(store.rotate(&app("none")), Err(StoreError::UnknownApp(_))));
    store.token_secret().expect("there");
    store.disable_client(&client("c")).expect("disabled");
    store.disable_client(&client("c")).expect("no change");
    store.create_app(&app("b"), NewKeys::generated()).expect("made");
    life.record_use(&[app("b")], Duration::from_secs(60)).expect("recorded");
    let all = changes(&*store);
    assert_eq!(all.len(), before + 2);
    let numbers: Vec<u64> = all.iter().map(|change| change.number).collect();
    assert_eq!(numbers, (1..=all.len() as u64).collect::<Vec<_>>());
    assert!(all.is_sorted_by_key(|change| change.generation));
    // Another program goes on where the last one was.
    let third = all[2].generation;
    let rest = page(&*place.open(), third);
    assert_eq!((rest.entries.len(), rest.newest_number), (all.len() - 3, all.len() as u64));
    assert_sound(&store);
}

fn rows_are_bounded(place: &Place) {
    let numbers = |store: &dyn Keystore| changes(store).iter().map(|change| change.number).collect::<Vec<_>>();
    let store = place.open_with(StoreLimits { change_count_max: 5, ..StoreLimits::default() });
    let before = page(&*store, 0).newest_number;
    for number in 0..12 {
        store.create_app(&app(&format!("a{number}")), NewKeys::generated()).expect("made");
    }
    assert_eq!(numbers(&*store), (before + 8..=before + 12).collect::<Vec<_>>());
    // A bound that was lowered.
    drop(store);
    let store = place.open_with(StoreLimits { change_count_max: 2, ..StoreLimits::default() });
    store.rotate(&app("a0")).expect("rotated");
    assert_eq!(numbers(&*store), [before + 12, before + 13]);
    assert_sound(&store);
}

fn an_edited_row_is_found_and_hides_no_other(place: &Place) {
    let store = place.open();
    for name in ["a", "b", "c"] {
        store.create_app(&app(name), NewKeys::generated()).expect("made");
    }
    let all = changes(&*store);
    let [edited, removed, last] = [3, 2, 1].map(|back: usize| &all[all.len() - back]);
    let tamper = |statement: &str, of: &StoreChange| {
        place.tamper(&format!("{statement} WHERE number = {}", of.number));
    };
    tamper("UPDATE store_change SET os_user = 'mallory'", edited);
    tamper("DELETE FROM store_change", removed);
    let found = page(&*store, edited.generation - 1);
    let [HistoryEntry::Edited(generation), HistoryEntry::Change(after)] = &found.entries[..] else {
        panic!("{found:?}")
    };
    assert_eq!((*generation, after.number), (edited.generation, edited.number + 2), "a gap shows");
    let faults = store.check().expect("checked").faults;
    for (change, kind) in [(edited, EditKind::Changed), (removed, EditKind::Removed)] {
        let part = EditedPart::Change(format!("{:020}", change.generation));
        let edit = StoreFault::Edited(StoreEdit { part, kind });
        assert!(faults.contains(&edit), "{faults:?}");
    }
    // Whoever has taken the newest rows away is seen by the number of all.
    tamper("DELETE FROM store_change", last);
    let found = page(&*store, edited.generation);
    assert_eq!((found.entries, found.newest_number), (Vec::new(), last.number));
    // And changes go on.
    store.rotate(&app("a")).expect("rotated");
    assert_eq!(page(&*store, 0).newest_number, last.number + 1);
}

fn a_migration_begins_the_history(place: &Place) {
    let store = place.open_old();
    store.create_app(&app("a"), NewKeys::generated()).expect("made");
    assert_eq!(page(&*store, 0).entries, []);
    store.migrate(&mut |_, _| ()).expect("migrated");
    store.rotate(&app("a")).expect("rotated");
    let mut kinds: Vec<String> = changes(&*store).into_iter().map(|change| change.kind).collect();
    kinds.retain(|kind| kind != "make-token-secret");
    assert_eq!(kinds, ["migrate", "add-version"]);
    assert_sound(&store);
}
