//! A store proves that it comes from what was seen: an older copy whose root was replaced again and again, by someone who has what opened
//! it then, is refused by every machine that has seen the genuine root after theirs.

use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use leafseal_keystore::{
    Argon2Cost, Environment, Keystore, MemoryFault, NewKeys, OpenMode, Passphrase, StoreError, StoreLimits,
};

use crate::common::{NOW, Place, SlotChanges, app, assert_sound, client, environment, grant, on_both_databases};
use crate::rollback::{Backup, CHALLENGE, answer, reopened, seen_file};

on_both_databases! {
    an_older_copy_whose_root_was_replaced_again_is_refused,
    a_state_that_another_program_has_seen_is_remembered_while_running,
    a_line_that_cannot_be_verified_raises_nothing,
    a_generation_is_compared_in_the_change_that_accepts_it,
    a_compromised_root_is_not_trusted_again,
    an_edited_root_id_stops_nothing_for_good,
    a_compromised_root_ends_its_token_secret,
}

fn passphrase() -> Passphrase {
    let cost = Argon2Cost { memory_kib: 64, passes: 1, lanes: 1 };
    Passphrase::new("correct horse battery staple").and_then(|it| it.with_cost(cost)).expect("in bounds")
}

/// An engine that a person has opened.
fn opened_by_hand(place: &Place) -> crate::common::Store {
    let environment = Environment { providers: vec![Box::new(passphrase())], ..environment() };
    place.try_open(OpenMode::Existing, environment, StoreLimits::default()).expect("opened")
}

fn rotate(store: &dyn Keystore, link: Option<u64>) {
    store.rotate_root(link.map(Duration::from_secs), &mut |_, _| ()).expect("replaced");
}

fn an_older_copy_whose_root_was_replaced_again_is_refused(place: &Place) {
    let memory = tempfile::tempdir().expect("folder");
    let store = place.open();
    store.create_app(&app("a"), NewKeys::generated()).expect("made");
    store.put_client(&grant("thief", &["a"])).expect("made");
    let stolen = Backup::of(place);
    store.disable_client(&client("thief")).expect("revoked");
    store.remember(memory.path()).expect("the first look");
    rotate(&*reopened(place), None);
    store.generation().expect("it follows");
    let (genuine, line) = (Backup::of(place), store.sighting(CHALLENGE).expect("authenticated"));
    let seen = fs::read(seen_file(memory.path())).expect("read");

    stolen.put_back(place);
    let theirs = reopened(place);
    for _ in 0..3 {
        rotate(&*theirs, None);
    }
    let generation = theirs.check().expect("checked").generation;
    theirs.accept_generation(generation, None).expect("confirmed");
    drop(theirs);
    let refused = store.generation().expect_err("refused");
    assert!(matches!(refused, StoreError::OtherDescent), "{refused:?}");
    assert!(store.load_app(&app("a")).is_err() && store.client(&client("thief")).is_err());
    assert_eq!(fs::read(seen_file(memory.path())).expect("read"), seen);
    let refused = reopened(place).remember(memory.path());
    assert!(matches!(refused, Err(StoreError::Memory { fault: MemoryFault::Root, .. })), "{refused:?}");
    let refused = reopened(place).learn(&answer(&line));
    assert!(matches!(refused, Err(StoreError::Sighting { fault: MemoryFault::Root, .. })), "{refused:?}");

    genuine.put_back(place);
    store.generation().expect("the genuine one");
    assert!(store.client(&client("thief")).expect("read").expect("there").disabled);
    // Whoever was away for several roots follows, and takes over from the file.
    (0..3).for_each(|_| rotate(&*reopened(place), None));
    let restarted = reopened(place);
    restarted.remember(memory.path()).expect("it comes from what was seen");
    assert!(restarted.memory().is_from_before && restarted.memory().is_saved);
    restarted.learn(&answer(&line)).expect("it comes from what was seen");
    store.generation().expect("it follows");
    assert_sound(&store);
}

fn a_state_that_another_program_has_seen_is_remembered_while_running(place: &Place) {
    let memory = tempfile::tempdir().expect("folder");
    let engine = place.open();
    engine.create_app(&app("a"), NewKeys::generated()).expect("made");
    engine.put_client(&grant("shop", &["a"])).expect("made");
    engine.remember(memory.path()).expect("the first look");
    engine.generation().expect("read");
    let older = Backup::of(place);
    let command = reopened(place);
    command.remember(memory.path()).expect("the newest");
    command.disable_client(&client("shop")).expect("revoked");
    drop(command);
    older.put_back(place);
    let refused = engine.generation();
    assert!(matches!(refused, Err(StoreError::RolledBack { .. })), "{refused:?}");
    assert!(engine.client(&client("shop")).is_err() && engine.memory().is_rolled_back);
}

/// Whoever can write to the file can only have the store refused.
fn a_line_that_cannot_be_verified_raises_nothing(place: &Place) {
    let memory = tempfile::tempdir().expect("folder");
    let engine = place.open();
    engine.remember(memory.path()).expect("the first look");
    let file = seen_file(memory.path());
    let line = fs::read_to_string(&file).expect("read");
    let generation = engine.generation().expect("read").changes;
    let huge = line
        .replace(&format!("generation={generation} "), "generation=9223372036854775806 ")
        .replace("epoch=1 ", "epoch=9 ");
    assert_ne!(huge, line);
    fs::write(&file, &huge).expect("written");
    let refused = engine.generation();
    assert!(matches!(refused, Err(StoreError::RolledBack { .. })), "{refused:?}");
    assert!(engine.list_apps().is_err());
    let refused = reopened(place).remember(memory.path());
    assert!(matches!(refused, Err(StoreError::RolledBack { .. })), "{refused:?}");
    let accepted = reopened(place).accept_generation(generation, Some(memory.path())).expect("confirmed");
    assert!(accepted < 1 << 53, "{accepted}");
    engine.generation().expect("the file is right again");
    engine.create_app(&app("a"), NewKeys::generated()).expect("made");
}

fn a_generation_is_compared_in_the_change_that_accepts_it(place: &Place) {
    let store = place.open();
    let generation = store.generation().expect("read").changes;
    let changed = std::sync::Arc::new(AtomicBool::new(false));
    // The command reads the clock between its first look and its change.
    let clock = {
        let (changed, other) = (std::sync::Arc::clone(&changed), std::sync::Mutex::new(store));
        move || {
            if !changed.swap(true, Ordering::Relaxed) {
                let other = other.lock().expect("no panic");
                other.create_app(&app("a"), NewKeys::generated()).expect("made");
            }
            NOW
        }
    };
    let environment = Environment { clock: Box::new(clock), ..environment() };
    let command = place.try_open(OpenMode::Existing, environment, StoreLimits::default()).expect("opened");
    changed.store(false, Ordering::Relaxed);
    let refused = command.accept_generation(generation, None);
    assert!(changed.load(Ordering::Relaxed));
    assert!(matches!(refused, Err(StoreError::OtherGeneration { named, .. }) if named == generation), "{refused:?}");
}

fn a_compromised_root_is_not_trusted_again(place: &Place) {
    let store = place.open();
    store.create_app(&app("a"), NewKeys::generated()).expect("made");
    store.add_slot(&passphrase()).expect("added");
    let by_hand = opened_by_hand(place);
    let before = Backup::of(place);
    rotate(&*store, None);
    let after = Backup::of(place);
    assert!(matches!(by_hand.generation(), Err(StoreError::RootReplaced)));
    before.put_back(place);
    // Also with what someone who has the root makes of it: a newer state, and a link.
    for _ in 0..2 {
        assert!(matches!(by_hand.generation(), Err(StoreError::RootReplaced)));
        assert!(matches!(by_hand.load_app(&app("a")), Err(StoreError::RootReplaced)));
        rotate(&*reopened(place), Some(3600));
    }
    after.put_back(place);
    by_hand.unseal(Box::new(passphrase())).expect("opened again");
    assert!(by_hand.load_app(&app("a")).expect("read").is_some());
    assert_sound(&by_hand);
}

/// Whoever can only write to the database cannot make an engine give up its root.
fn an_edited_root_id_stops_nothing_for_good(place: &Place) {
    let store = place.open();
    store.create_app(&app("a"), NewKeys::generated()).expect("made");
    store.add_slot(&passphrase()).expect("added");
    let by_hand = opened_by_hand(place);
    by_hand.generation().expect("read");
    let backup = Backup::of(place);
    place
        .tamper("UPDATE store SET root_key_id = x'0102030405060708'; UPDATE tree_root SET generation = generation + 1");
    assert!(by_hand.generation().is_err());
    backup.put_back(place);
    by_hand.generation().expect("the store is right again");
    assert!(by_hand.load_app(&app("a")).expect("read").is_some());
}

fn a_compromised_root_ends_its_token_secret(place: &Place) {
    let store = place.open();
    let secret = store.token_secret().expect("made");
    rotate(&*store, Some(60));
    assert_eq!(store.token_secret().expect("read"), secret);
    rotate(&*store, None);
    assert_ne!(store.token_secret().expect("read"), secret);
}
