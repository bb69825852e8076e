//! Key slots: any one opens the store, a new root reaches all of them and running engines, and what somebody else put into the database
//! opens nothing.

use std::time::Duration;

use crate::common::{NOW, Place, SlotChanges, app, assert_sound, environment, on_both_databases, rng, root_key};
use leafseal_crypto::CryptoRng;
use leafseal_keystore::{
    Argon2Cost, EditedPart, Environment, Keystore, LocalRootKey, NewKeys, OpenMode, Passphrase, ProviderError,
    RemainingSlots, ShamirKey, SlotId, SlotKind, SlotPlace, SlotProvider, StoreError, StoreFault, StoreLimits,
};
use zeroize::Zeroizing;

on_both_databases! {
    each_slot_opens_the_store_alone,
    slots_are_removed_and_replaced_but_the_last_stays,
    a_slot_is_removed_if_another_opens_or_a_person_answers_for_it,
    a_made_slot_is_stored_later_and_only_under_its_root,
    a_new_root_opens_by_every_slot_and_running_engines_follow,
    without_a_link_only_engines_with_a_provider_follow,
    links_that_have_ended_are_removed_by_upkeep_and_commands,
    planted_names_and_rows_are_neither_shown_nor_tried_without_bound,
    a_root_of_somebody_else_opens_nothing,
    edited_slots_are_named_and_rows_of_other_slots_do_not_open,
    a_store_of_schema_2_gets_slots_by_migration,
    running_engines_follow_a_migration,
    a_provider_that_cannot_open_what_it_wraps_is_refused,
    slots_are_bounded,
    symmetric_roots_live_with_their_versions,
}

const TEXT: &str = "correct horse battery staple";

fn passphrase(text: &str) -> Passphrase {
    let cost = Argon2Cost { memory_kib: 64, passes: 1, lanes: 1 };
    Passphrase::new(text).and_then(|passphrase| passphrase.with_cost(cost)).expect("in bounds")
}

fn with(provider: impl SlotProvider + 'static) -> Environment {
    Environment { providers: vec![Box::new(provider)], ..environment() }
}

fn open(place: &Place, provider: impl SlotProvider + 'static) -> Result<crate::common::Store, StoreError> {
    place.try_open(OpenMode::Existing, with(provider), StoreLimits::default())
}

fn refusal(place: &Place, provider: impl SlotProvider + 'static) -> String {
    open(place, provider).map(drop).expect_err("refused").to_string()
}

/// The pay app's newest private key, to compare.
fn scalar(store: &dyn Keystore) -> Vec<u8> {
    let keys = store.load_app(&app("pay")).expect("read").expect("there");
    keys.newest_active().expect("active").r1.private().scalar().expose().to_vec()
}

fn each_slot_opens_the_store_alone(place: &Place) {
    let store = place.open();
    store.create_app(&app("pay"), NewKeys::generated()).expect("made");
    store.token_secret().expect("made");
    let expected = scalar(&*store);
    let other = LocalRootKey::generate(&mut rng());
    let second = store.add_slot(&other).expect("added");
    assert_eq!((second.kind, second.key_name.as_str()), (SlotKind::File, other.id().to_string().as_str()));
    store.add_slot(&passphrase(TEXT)).expect("added");
    let sizes = (2, 3);
    let shamir = ShamirKey::generate(sizes, &mut rng()).expect("in bounds");
    let slot = store.add_slot(&shamir).expect("added");
    assert_eq!(slot.key_name, "2 of 3");
    let shares = shamir.shares(&slot.id, sizes, &mut rng());
    let kinds: Vec<SlotKind> = store.slots().expect("read").iter().map(|slot| slot.kind).collect();
    assert_eq!(kinds.len(), 4);
    assert_sound(&store);
    drop(store);

    let by_shares = ShamirKey::from_shares(&shares[1..]).expect("enough");
    for store in [open(place, other), open(place, passphrase(TEXT)), open(place, by_shares)] {
        let store = store.expect("opened");
        assert_eq!(scalar(&*store), expected);
        assert_sound(&store);
    }
    assert!(refusal(place, passphrase("correct horse battery")).contains("it does not open the slot"));
    let wrong = ShamirKey::generate(sizes, &mut rng()).expect("in bounds");
    let wrong = ShamirKey::from_shares(&wrong.shares(&slot.id, sizes, &mut rng())).expect("enough");
    assert!(refusal(place, wrong).starts_with("the keystore is sealed: "));
    assert!(refusal(place, LocalRootKey::generate(&mut rng())).starts_with("the keystore is sealed: "));
}

fn slots_are_removed_and_replaced_but_the_last_stays(place: &Place) {
    let store = place.open();
    store.create_app(&app("pay"), NewKeys::generated()).expect("made");
    let first = store.slots().expect("read").remove(0);
    let last = store.remove_untested(&first.id).expect_err("refused");
    assert!(matches!(&last, StoreError::LastSlot(id) if *id == first.id), "{last}");
    let unknown = SlotId::parse("0000000000000000").expect("an id");
    assert!(matches!(store.remove_untested(&unknown), Err(StoreError::UnknownSlot(_))));
    assert!(matches!(store.replace_slot(&unknown, &passphrase(TEXT)), Err(StoreError::UnknownSlot(_))));
    assert_eq!(store.slots().expect("read"), std::slice::from_ref(&first), "nothing of it is left");

    let second = store.replace_slot(&first.id, &passphrase(TEXT)).expect("replaced");
    assert_eq!(store.slots().expect("read"), [second]);
    assert_sound(&store);
    // The engine that has the store open goes on.
    scalar(&*store);
    assert!(open(place, root_key()).is_err());
    let store = open(place, passphrase(TEXT)).expect("opened");
    scalar(&*store);
}

fn a_slot_is_removed_if_another_opens_or_a_person_answers_for_it(place: &Place) {
    let store = place.open();
    let first = store.slots().expect("read").remove(0).id;
    let second = store.add_slot(&passphrase(TEXT)).expect("added").id;
    let dead = store.add_slot(&passphrase("what nobody remembers")).expect("added").id;
    let with = |provider: Box<dyn SlotProvider>| vec![provider];
    let (file, words) = (with(Box::new(root_key())), with(Box::new(passphrase(TEXT))));
    for (slot, providers) in [(&first, &file), (&first, &with(Box::new(passphrase("other words entirely"))))] {
        let refused = store.remove_slot(slot, RemainingSlots::OpenWith(providers)).expect_err("refused");
        assert!(matches!(&refused, StoreError::UntestedSlots(id) if id == slot), "{refused}");
    }
    let unknown = SlotId::parse("0000000000000000").expect("an id");
    let refused = store.remove_slot(&unknown, RemainingSlots::OpenWith(&file));
    assert!(matches!(refused, Err(StoreError::UnknownSlot(_))));
    store.remove_slot(&first, RemainingSlots::OpenWith(&words)).expect("the passphrase opens the second");
    let refused = store.remove_slot(&second, RemainingSlots::OpenWith(&words)).expect_err("refused");
    assert!(matches!(refused, StoreError::UntestedSlots(_)), "{refused}");
    store.remove_slot(&dead, RemainingSlots::OpenWith(&words)).expect("removed");
    let last = store.remove_slot(&second, RemainingSlots::OpenWith(&words)).expect_err("refused");
    assert!(matches!(last, StoreError::LastSlot(_)), "{last}");
    assert_sound(&store);
}

fn a_made_slot_is_stored_later_and_only_under_its_root(place: &Place) {
    let store = place.open();
    let made = store.make_slot(&passphrase(TEXT)).expect("made");
    assert_eq!(store.slots().expect("read").len(), 1);
    assert!(open(place, passphrase(TEXT)).is_err());
    store.rotate_root(None, &mut |_, _| ()).expect("rotated");
    assert!(matches!(store.put_slot(&made, None), Err(StoreError::Busy)));
    let made = store.make_slot(&passphrase(TEXT)).expect("made");
    store.put_slot(&made, None).expect("stored");
    assert!(store.slots().expect("read").contains(made.summary()));
    open(place, passphrase(TEXT)).expect("opened");
}

fn a_new_root_opens_by_every_slot_and_running_engines_follow(place: &Place) {
    let store = place.open();
    store.create_app(&app("pay"), NewKeys::generated()).expect("made");
    store.add_slot(&passphrase(TEXT)).expect("added");
    let token_secret = store.token_secret().expect("made");
    let expected = scalar(&*store);
    let before = place.as_hex("root_key_id", "store");
    let root = place.tamper(&before);
    // What is typed in does not stay: only the link leads this one to the new root.
    let running = open(place, passphrase(TEXT)).expect("opened");
    let generation = running.generation().expect("read");

    let mut steps = Vec::new();
    let link = Some(Duration::from_secs(60));
    for epoch in 2..4 {
        let rotated = store.rotate_root(link, &mut |done, of| steps.push((done, of))).expect("rotated");
        let count = epoch as usize;
        assert_eq!((rotated.epoch, rotated.sealed_count), (epoch, count), "a version, a secret, keys of former roots");
    }
    assert_eq!(steps, [(1, 2), (2, 2), (1, 3), (2, 3), (3, 3)]);
    assert_ne!(place.tamper(&before), root);

    assert_ne!(running.generation().expect("followed"), generation);
    for store in [running, store, open(place, passphrase(TEXT)).expect("opened"), place.open()] {
        assert_eq!(scalar(&*store), expected);
        assert_eq!(store.token_secret().expect("read"), token_secret);
        store
            .rotate(&app("pay"))
            .and_then(|version| store.disable_version(&app("pay"), version.version))
            .expect("changed");
        assert_sound(&store);
    }
}

fn without_a_link_only_engines_with_a_provider_follow(place: &Place) {
    let store = place.open();
    store.create_app(&app("pay"), NewKeys::generated()).expect("made");
    store.add_slot(&passphrase(TEXT)).expect("added");
    let (by_file, by_hand) = (place.open(), open(place, passphrase(TEXT)).expect("opened"));
    store.rotate_root(Some(Duration::from_secs(60)), &mut |_, _| ()).expect("rotated");
    store.rotate_root(None, &mut |_, _| ()).expect("rotated");
    let refused = by_hand.load_app(&app("pay")).map(drop).expect_err("refused");
    assert!(matches!(refused, StoreError::RootReplaced), "{refused}");
    assert!(matches!(by_hand.generation(), Err(StoreError::RootReplaced)));
    assert!(matches!(by_hand.create_app(&app("new"), NewKeys::generated()), Err(StoreError::RootReplaced)));
    // A call asks the provider, once, before it fails.
    scalar(&*by_file);
    store.rotate_root(None, &mut |_, _| ()).expect("rotated");
    by_file.create_app(&app("new"), NewKeys::generated()).expect("made");
    store.rotate_root(None, &mut |_, _| ()).expect("rotated");
    by_file.generation().expect("followed");
    assert_sound(&by_file);

    // An expired link leads nowhere.
    let by_hand = open(place, passphrase(TEXT)).expect("opened");
    store.rotate_root(Some(Duration::from_secs(60)), &mut |_, _| ()).expect("rotated");
    let changed = format!("UPDATE root_link SET expires_at = {}", NOW - 1);
    place.tamper(&changed);
    assert!(matches!(by_hand.generation(), Err(StoreError::RootReplaced)));
    place.tamper(&format!("UPDATE root_link SET expires_at = {}", NOW + 3600));
    assert!(matches!(by_hand.generation(), Err(StoreError::RootReplaced)), "a link that somebody prolonged");
}

/// As a `rotate-root` that is killed while it waits leaves them.
fn links_that_have_ended_are_removed_by_upkeep_and_commands(place: &Place) {
    type Removal = fn(&dyn Keystore);
    let removals: [Removal; 2] = [
        |store| drop(store.life().expect("has one").upkeep(None, Duration::from_secs(60)).expect("done")),
        |store| store.remove_ended_root_links().expect("removed"),
    ];
    let store = place.open();
    for remove in removals {
        store.rotate_root(Some(Duration::from_secs(60)), &mut |_, _| ()).expect("rotated");
        remove(&*store);
        assert_eq!(
            place.tamper("SELECT CAST(count(*) AS TEXT) FROM root_link WHERE expires_at < 9223372036854775807").trim(),
            "1",
            "engines still follow"
        );
        let later = Environment { clock: Box::new(|| NOW + 61), ..environment() };
        let later = place.try_open(OpenMode::Existing, later, StoreLimits::default()).expect("opened");
        remove(&*later);
        assert_eq!(
            place.tamper("SELECT CAST(count(*) AS TEXT) FROM root_link WHERE expires_at < 9223372036854775807").trim(),
            "0"
        );
        let generation = later.generation().expect("read");
        remove(&*later);
        assert_eq!(later.generation().expect("read"), generation, "nothing to do");
        assert_sound(&later);
    }
}

/// Rows that somebody has added to the database.
fn planted_names_and_rows_are_neither_shown_nor_tried_without_bound(place: &Place) {
    let store = place.open();
    let slot = store.add_slot(&passphrase(TEXT)).expect("added");
    drop(store);
    let columns = "created_at, public_key, wrapped_secrets, wrapped_mac_key, epoch, sealed_root, root_mac";
    let long = "k".repeat(50_000);
    for (number, name) in [long.as_str(), "\u{1b}[2Jgive the passphrase here", "a\u{202e}b"].into_iter().enumerate() {
        place.tamper(&format!(
            "INSERT INTO slot (id, kind, key_name, {columns}) SELECT '{number:016}', 'transit', '{name}', {columns} \
             FROM slot WHERE id = '{}'",
            slot.id
        ));
    }
    let refused = refusal(place, passphrase("incorrect horse battery"));
    assert!(refused.len() < 1_000 && refused.chars().all(|letter| !letter.is_control()), "{refused}");
    assert!(refused.contains(&slot.id.to_string()) && !refused.contains("0000000000000001"), "{refused}");
    open(place, passphrase(TEXT)).expect("opened");
}

/// Who can write to the database, but has no root, makes a store of their own with the same id and seals its root to the slot's public
/// key: were that enough, an engine would take their keys and grants.
fn a_root_of_somebody_else_opens_nothing(place: &Place) {
    let store = place.open();
    store.create_app(&app("pay"), NewKeys::generated()).expect("made");
    drop(store);
    let theirs = Place::new(place.kind);
    let evil = LocalRootKey::generate(&mut rng());
    let store = theirs.try_open(OpenMode::CreateIfMissing, with(evil.clone()), StoreLimits::default()).expect("made");
    drop(store);
    let row = |of: &Place, columns: &[&str]| {
        let set = |column: &&str| match *column {
            "id" => format!("id = '{}'", of.tamper("SELECT id FROM slot").trim()),
            column => format!("{column} = x'{}'", of.tamper(&of.as_hex(column, "slot")).trim()),
        };
        format!("UPDATE slot SET {}", columns.iter().map(set).collect::<Vec<_>>().join(", "))
    };
    // All of their slot; all but what the provider wrapped; the root alone.
    for columns in [
        &["id", "public_key", "wrapped_secrets", "wrapped_mac_key", "sealed_root", "root_mac"][..],
        &["public_key", "wrapped_mac_key", "sealed_root", "root_mac"],
        &["sealed_root", "root_mac"],
        &["sealed_root"],
    ] {
        let ours = row(place, columns);
        place.tamper(&row(&theirs, columns));
        let refused = place.try_open(OpenMode::Existing, environment(), StoreLimits::default());
        assert!(matches!(refused.map(drop), Err(StoreError::Sealed { .. })), "{columns:?}");
        place.tamper(&ours);
        scalar(&*place.open());
    }
}

fn edited_slots_are_named_and_rows_of_other_slots_do_not_open(place: &Place) {
    let store = place.open();
    store.create_app(&app("pay"), NewKeys::generated()).expect("made");
    let added = store.add_slot(&passphrase(TEXT)).expect("added");
    place.tamper(&format!("UPDATE slot SET created_at = 1 WHERE id = '{}'", added.id));
    let faults = store.check().expect("read").faults;
    let is_slot = |fault: &StoreFault| matches!(fault, StoreFault::Edited(edit) if edit.part == EditedPart::Slot(added.id.to_string()));
    assert!(faults.len() == 1 && faults.iter().all(is_slot), "{faults:?}");
    scalar(&*store);
    // The other slot still opens the store, and so does this one, whose secrets are intact.
    for store in [place.open(), open(place, passphrase(TEXT)).expect("opened")] {
        scalar(&*store);
    }
    place.tamper(&format!("DELETE FROM slot WHERE id = '{}'", added.id));
    assert!(store.check().expect("read").faults.iter().any(is_slot));
}

fn a_store_of_schema_2_gets_slots_by_migration(place: &Place) {
    let store = place.open_old();
    store.create_app(&app("pay"), NewKeys::generated()).expect("made");
    let expected = scalar(&*store);
    assert_eq!(store.slots().expect("read"), []);
    assert!(matches!(store.add_slot(&passphrase(TEXT)), Err(StoreError::NoSlots)));
    assert!(matches!(store.rotate_root(None, &mut |_, _| ()), Err(StoreError::NoSlots)));
    store.migrate(&mut |_, _| ()).expect("migrated");
    assert_eq!(store.slots().expect("read").len(), 1);
    store.add_slot(&passphrase(TEXT)).expect("added");
    store.rotate_root(None, &mut |_, _| ()).expect("rotated");
    for store in [place.open(), open(place, passphrase(TEXT)).expect("opened")] {
        assert_eq!(scalar(&*store), expected);
        assert_sound(&store);
    }
    let wrong = refusal(place, LocalRootKey::generate(&mut rng()));
    assert!(wrong.starts_with("the keystore is sealed"), "{wrong}");
}

fn running_engines_follow_a_migration(place: &Place) {
    let store = place.open_old();
    store.create_app(&app("pay"), NewKeys::generated()).expect("made");
    let running = place.open_old();
    let expected = scalar(&*running);
    store.migrate(&mut |_, _| ()).expect("migrated");
    running.generation().expect("followed");
    assert_eq!(scalar(&*running), expected);
    assert_sound(&running);
}

/// Opens nothing that it wraps, as SoftHSM does whose key is gone.
struct Broken;

impl SlotProvider for Broken {
    fn kind(&self) -> SlotKind {
        SlotKind::File
    }

    fn wrap(&self, _: &SlotPlace, secret: &[u8], _: &mut dyn CryptoRng) -> Result<Vec<u8>, ProviderError> {
        Ok(vec![0; secret.len()])
    }

    fn unwrap(&self, _: &SlotPlace, wrapped: &[u8]) -> Result<Zeroizing<Vec<u8>>, ProviderError> {
        Ok(Zeroizing::new(wrapped.to_vec()))
    }
}

fn a_provider_that_cannot_open_what_it_wraps_is_refused(place: &Place) {
    let store = place.open();
    let refused = store.add_slot(&Broken).expect_err("refused").to_string();
    assert_eq!(refused, "the file slot cannot be made: it does not open the slot");
    assert_eq!(store.slots().expect("read").len(), 1);
}

fn slots_are_bounded(place: &Place) {
    let store = place.open_with(StoreLimits { slot_count_max: 2, ..StoreLimits::default() });
    let second = store.add_slot(&passphrase(TEXT)).expect("added");
    let refused = store.add_slot(&passphrase(TEXT)).expect_err("refused").to_string();
    assert_eq!(refused, "too many key slots of the store: at most 2");
    store.replace_slot(&second.id, &passphrase(TEXT)).expect("replaced");
}

/// Each new version has a symmetric root, and a migration makes one for the version that encrypts.
fn symmetric_roots_live_with_their_versions(place: &Place) {
    let store = place.open_old();
    store.create_app(&app("pay"), NewKeys::generated()).expect("made");
    store.rotate(&app("pay")).expect("rotated");
    store.rotate(&app("pay")).and_then(|version| store.disable_version(&app("pay"), version.version)).expect("changed");
    let ids = |store: &dyn Keystore| {
        let summary = store.app_summary(&app("pay")).expect("read").expect("there");
        let ids: Vec<_> = summary.versions.iter().map(|version| version.symmetric).collect();
        // Those that are loaded are those that are listed.
        for version in store.load_app(&app("pay")).expect("read").expect("there").versions {
            let listed = summary.versions.iter().find(|known| known.version == version.version).expect("listed");
            assert_eq!(version.symmetric.map(|root| root.key_id()), listed.symmetric);
        }
        ids
    };
    assert_eq!(ids(&*store), [None, None, None]);
    store.migrate(&mut |_, _| ()).expect("migrated");
    let migrated = ids(&*store);
    assert!(matches!(migrated[..], [None, Some(_), None]), "{migrated:?}");
    store.rotate(&app("pay")).expect("rotated");
    let before = ids(&*store);
    assert!(before[0].is_some() && before[0] != migrated[1] && before[1..] == migrated[..]);
    store.rotate_root(None, &mut |_, _| ()).expect("rotated");
    assert_eq!(ids(&*store), before);
    assert_sound(&store);

    // A root of another version does not open here, and only this app suffers.
    store.create_app(&app("other"), NewKeys::generated()).expect("made");
    place.tamper(
        "UPDATE symmetric_key SET wrapped_root = (SELECT wrapped_root FROM symmetric_key WHERE version = 4) WHERE version = 2",
    );
    let faults = store.check().expect("read").faults;
    let is_symmetric = |fault: &StoreFault| matches!(fault, StoreFault::SymmetricKey { version: 2, .. });
    assert!(faults.len() == 2 && faults.iter().any(is_symmetric), "{faults:?}");
    assert!(matches!(store.load_app(&app("pay")), Err(StoreError::Edited(_))));
    assert!(store.load_app(&app("other")).expect("read").is_some());
}
