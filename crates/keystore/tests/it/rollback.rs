//! An older copy of a whole store is put back, tree and all: programs that have seen a newer state refuse it, while they run and after a
//! restart, until an operator confirms its generation.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use leafseal_keystore::{
    Keystore, LateKeystore, MemoryFault, MemoryStatus, NewKeys, OpenMode, PeerSighting, PostgresKeystore, ReopenPauses,
    SqliteKeystore, StoreError, StoreLimits, new_challenge,
};

use crate::common::{Kind, Place, Store, app, assert_sound, client, environment, grant, on_both_databases, root_key};

on_both_databases! {
    an_older_copy_is_refused_by_those_who_have_seen_a_newer_state,
    other_content_under_the_same_number_is_refused,
    a_store_that_was_migrated_is_never_taken_for_an_older_one,
    engines_learn_from_each_other,
    a_sealed_store_is_compared_with_what_others_have_seen,
    a_replaced_root_does_not_forget,
    another_store_in_a_known_place_is_refused,
    an_expected_store_is_never_taken_for_an_older_one,
}

pub(crate) fn reopened(place: &Place) -> Store {
    place.try_open(OpenMode::Existing, environment(), StoreLimits::default()).expect("opened")
}

/// A copy of the whole store, as a backup has it.
pub(crate) enum Backup {
    File(Vec<u8>),
    Dump(String),
}

impl Backup {
    pub(crate) fn of(place: &Place) -> Self {
        match place.kind {
            Kind::Sqlite => Self::File(fs::read(place.path()).expect("read")),
            Kind::Postgres => Self::Dump(place.server().dump(place.database())),
        }
    }

    pub(crate) fn put_back(&self, place: &Place) {
        match self {
            Self::File(content) => {
                let draft = place.path().with_extension("new");
                fs::write(&draft, content).expect("written");
                fs::set_permissions(&draft, fs::Permissions::from_mode(0o600)).expect("private");
                fs::rename(&draft, place.path()).expect("renamed");
            }
            Self::Dump(dump) => {
                place.server().sql(place.database(), "DROP SCHEMA leafseal CASCADE");
                place.server().restore(place.database(), dump);
            }
        }
    }
}

#[track_caller]
fn assert_rolled_back<T: std::fmt::Debug>(outcome: Result<T, StoreError>, generations: (u64, u64)) {
    match outcome {
        Err(StoreError::RolledBack { found, newest }) => assert_eq!((found, newest), generations),
        other => panic!("{other:?}"),
    }
}

fn an_older_copy_is_refused_by_those_who_have_seen_a_newer_state(place: &Place) {
    let memory = tempfile::tempdir().expect("folder");
    let seen = memory.path().join("seen");
    let store = place.open();
    store.remember(&seen).expect("the first look");
    assert!(!store.memory().is_from_before && store.memory().is_saved);
    store.create_app(&app("a"), NewKeys::generated()).expect("made");
    store.put_client(&grant("one", &["a"])).expect("made");
    let older = store.generation().expect("read").changes;
    let backup = Backup::of(place);
    store.disable_client(&client("one")).expect("revoked");
    let newest = store.generation().expect("read").changes;
    assert_eq!(store.memory(), MemoryStatus { generation: Some(newest), is_saved: true, ..MemoryStatus::default() });
    backup.put_back(place);
    let both = (older, newest);
    assert_rolled_back(store.generation(), both);
    assert!(store.memory().is_rolled_back);
    assert_rolled_back(store.client(&client("one")), both);
    assert_rolled_back(store.load_app(&app("a")), both);
    assert_rolled_back(store.rotate(&app("a")), both);
    // Whoever has not seen it cannot know.
    assert!(!reopened(place).client(&client("one")).expect("read").expect("there").disabled);
    let restarted = reopened(place);
    assert_rolled_back(restarted.remember(&seen), both);
    assert_eq!(restarted.check().expect("checked").generation, older, "what to confirm");

    let confirm = |generation| reopened(place).accept_generation(generation, Some(&seen));
    assert!(matches!(confirm(newest), Err(StoreError::OtherGeneration { found, .. }) if found == older));
    let accepted = confirm(older).expect("confirmed");
    assert!(accepted > newest && accepted < 1 << 53, "{accepted}");
    // The engine that runs follows without a restart, and so does the next one.
    assert!(!store.client(&client("one")).expect("read").expect("there").disabled);
    store.disable_client(&client("one")).expect("revoked again");
    let restarted = reopened(place);
    restarted.remember(&seen).expect("the newest");
    assert!(restarted.memory().is_from_before);
    assert_sound(&restarted);
    // What was confirmed once is not confirmed for good.
    backup.put_back(place);
    assert_rolled_back(store.generation(), (older, accepted + 1));
    assert_rolled_back(reopened(place).remember(&seen), (older, accepted + 1));
    assert!(confirm(older).expect("again") > accepted + 1);
}

/// Programs that have not seen the newer state could write to the older copy until its number fits.
fn other_content_under_the_same_number_is_refused(place: &Place) {
    let store = place.open();
    store.create_app(&app("a"), NewKeys::generated()).expect("made");
    let backup = Backup::of(place);
    store.put_client(&grant("one", &["a"])).expect("made");
    let newest = store.generation().expect("read").changes;
    backup.put_back(place);
    reopened(place).rotate(&app("a")).expect("rotated");
    assert_rolled_back(store.generation(), (newest, newest));
    assert_rolled_back(store.load_app(&app("a")), (newest, newest));
}

/// The keys of a copy from before the migration are as valid as they were, and nothing of it is authenticated.
fn a_store_that_was_migrated_is_never_taken_for_an_older_one(place: &Place) {
    let memory = tempfile::tempdir().expect("folder");
    let store = place.open_old();
    store.create_app(&app("a"), NewKeys::generated()).expect("made");
    store.remember(memory.path()).expect("nothing to remember");
    assert_eq!(store.memory(), MemoryStatus::default());
    let backup = Backup::of(place);
    let older = reopened(place).check().expect("checked").generation;
    store.migrate(&mut |_, _| ()).expect("migrated");
    let newest = store.generation().expect("read").changes;
    assert!(store.memory().is_saved);
    backup.put_back(place);
    assert!(store.load_app(&app("a")).is_err() && store.generation().is_err());
    assert_rolled_back(reopened(place).remember(memory.path()), (older, newest));
    place.tamper("UPDATE store SET generation = generation + 1000");
    assert_rolled_back(reopened(place).remember(memory.path()), (older + 1000, newest));
    let accepted = reopened(place).accept_generation(older + 1000, Some(memory.path())).expect("confirmed");
    assert!(accepted > newest + 1000);
    // Its root does not come from the one that was seen: a program that runs is restarted.
    assert!(matches!(store.generation(), Err(StoreError::OtherDescent)));
    let restarted = reopened(place);
    restarted.remember(memory.path()).expect("the newest");
    assert!(restarted.load_app(&app("a")).expect("read").is_some(), "it was migrated again");
    assert_eq!(restarted.check().expect("checked").schema_version, 3);
}

fn engines_learn_from_each_other(place: &Place) {
    let memory = tempfile::tempdir().expect("folder");
    let one = place.open();
    one.create_app(&app("a"), NewKeys::generated()).expect("made");
    let backup = Backup::of(place);
    let older = one.generation().expect("read").changes;
    one.rotate(&app("a")).expect("rotated");
    let line = one.sighting(CHALLENGE).expect("authenticated");
    assert!(one.sighting(&new_challenge()).is_some_and(|other| other != line));
    assert_eq!((one.sighting("x"), one.sighting("")), (None, None));
    backup.put_back(place);
    let fresh = reopened(place);
    fresh.remember(memory.path()).expect("it cannot know");
    assert!(!fresh.memory().is_from_before);
    // What someone has kept from another question.
    let replayed = PeerSighting { challenge: "f".repeat(32), ..answer(&line) };
    assert_useless(fresh.learn(&replayed));
    let written = fs::read_to_string(seen_file(memory.path())).expect("read");
    assert_useless(fresh.learn(&answer(&written)));
    assert!(!fresh.memory().is_from_before);
    fresh.learn(&answer(&line)).expect("of this store");
    assert!(fresh.memory().is_from_before);
    assert_rolled_back(fresh.generation(), (older, older + 1));
    for forged in ["", "x", &line.replace("generation=", "generation=1"), &line.replace("schema=3", "schema=4")] {
        assert_useless(fresh.learn(&answer(forged)));
    }
    // It keeps what it has learnt.
    drop(fresh);
    let accepted = reopened(place).accept_generation(older, Some(memory.path())).expect("confirmed");
    one.learn(&answer(&reopened_line(place))).expect("of this store");
    assert_eq!(one.generation().expect("read").changes, accepted);
    one.learn(&answer(&line)).expect("an older one is of no interest");
    assert_eq!(one.memory().generation, Some(accepted));
}

/// The file is authenticated under the root of the store, which may be replaced while an engine is down.
fn a_replaced_root_does_not_forget(place: &Place) {
    let memory = tempfile::tempdir().expect("folder");
    let store = place.open();
    store.remember(memory.path()).expect("the first look");
    store.create_app(&app("a"), NewKeys::generated()).expect("made");
    let (backup, older) = (Backup::of(place), store.generation().expect("read").changes);
    reopened(place).rotate_root(None, &mut |_, _| ()).expect("replaced");
    let restarted = reopened(place);
    restarted.remember(memory.path()).expect("newer than what was seen");
    assert!(restarted.memory().is_from_before && restarted.memory().is_saved);
    backup.put_back(place);
    assert_rolled_back(reopened(place).remember(memory.path()), (older, older + 1));
    assert!(restarted.load_app(&app("a")).is_err() && restarted.generation().is_err());
}

/// Without its keys, and under the id of its slot's key, a store passes for one of the schema before the tree, of any id.
fn pass_off_as_older(place: &Place) {
    let key = place.tamper(match place.kind {
        Kind::Sqlite => "SELECT key_name FROM slot",
        Kind::Postgres => "SELECT 'id=' || key_name FROM slot",
    });
    let key = key.split("id=").last().expect("a name").split_whitespace().next().expect("a name").to_owned();
    let reopen = "DELETE FROM key_pair; DELETE FROM key_version; DELETE FROM app; DELETE FROM secret";
    place.tamper(&format!("{reopen}; DELETE FROM symmetric_key"));
    place.add_old_columns();
    place.tamper(&format!("UPDATE store SET schema_version = 2, root_key_id = x'{key}'"));
}

fn another_store_in_a_known_place_is_refused(place: &Place) {
    let memory = tempfile::tempdir().expect("folder");
    let store = place.open();
    store.remember(memory.path()).expect("the first look");
    let known = store.check().expect("checked").store;
    drop(store);
    pass_off_as_older(place);
    let same = reopened(place);
    assert!(matches!(same.remember(memory.path()), Err(StoreError::RolledBack { .. })));
    fs::remove_file(seen_file(memory.path())).expect("removed");
    assert!(matches!(same.remember(memory.path()), Err(StoreError::Downgraded { found: 2, newest: 3, .. })));
    drop(same);
    place.tamper(&format!("UPDATE store SET store_id = x'{}'", "0a".repeat(16)));
    let other = reopened(place);
    let id = other.check().expect("checked").store;
    let refused = other.remember(memory.path());
    assert!(
        matches!(refused, Err(StoreError::UnexpectedStore { found, expected, is_set: false }) if (found, expected) == (id, known)),
        "{refused:?}"
    );
    let generation = other.check().expect("checked").generation;
    let refused = other.accept_generation(generation, Some(memory.path()));
    assert!(matches!(refused, Err(StoreError::UnexpectedStore { .. })), "a generation names no store: {refused:?}");
    let named = other.accept_store(&known, memory.path());
    assert!(matches!(named, Err(StoreError::OtherStoreNamed { .. })), "{named:?}");
    other.accept_store(&id, memory.path()).expect("confirmed");
    other.remember(memory.path()).expect("confirmed by its name");
}

fn an_expected_store_is_never_taken_for_an_older_one(place: &Place) {
    let store = place.open();
    let id = store.check().expect("checked").store;
    store.expect_store(&id).expect("this one");
    drop(store);
    pass_off_as_older(place);
    let refused = reopened(place).expect_store(&id);
    assert!(matches!(refused, Err(StoreError::Downgraded { found: 2, newest: 3, is_set: true })), "{refused:?}");
    place.tamper(&format!("UPDATE store SET store_id = x'{}'", "0a".repeat(16)));
    let refused = reopened(place).expect_store(&id);
    assert!(matches!(refused, Err(StoreError::UnexpectedStore { is_set: true, .. })), "{refused:?}");
}

/// What the engines of these tests ask with.
pub(crate) const CHALLENGE: &str = "0123456789abcdef0123456789abcdef";

pub(crate) fn answer(line: &str) -> PeerSighting {
    PeerSighting { peer: "10.0.0.1:3444".to_owned(), challenge: CHALLENGE.to_owned(), line: line.to_owned() }
}

#[track_caller]
fn assert_useless(learnt: Result<(), StoreError>) {
    assert!(matches!(learnt, Err(StoreError::Sighting { fault: MemoryFault::Foreign, .. })), "{learnt:?}");
}

/// A store that persons open is compared with what others have seen before it is open.
fn a_sealed_store_is_compared_with_what_others_have_seen(place: &Place) {
    let one = place.open();
    one.create_app(&app("a"), NewKeys::generated()).expect("made");
    let backup = Backup::of(place);
    one.rotate(&app("a")).expect("rotated");
    let (line, genuine) = (one.sighting(CHALLENGE).expect("authenticated"), Backup::of(place));
    let other = Place::new(place.kind);
    let of_other = other.open().sighting(CHALLENGE).unwrap_or_else(|| reopened_line(&other));
    let opener = {
        let path = place.path().to_owned();
        let settings = (place.kind == Kind::Postgres).then(|| place.settings());
        move |providers| -> Result<Box<dyn Keystore>, StoreError> {
            let environment = leafseal_keystore::Environment { providers, ..environment() };
            let (mode, limits) = (OpenMode::Existing, StoreLimits::default());
            Ok(match &settings {
                None => Box::new(SqliteKeystore::open(&path, mode, environment, limits)?),
                Some(settings) => Box::new(PostgresKeystore::open(settings, mode, environment, limits)?),
            })
        }
    };
    backup.put_back(place);
    let pauses = ReopenPauses::default();
    let late = LateKeystore::start(Box::new(opener), Box::new(|| Ok(Vec::new())), pauses, false).expect("started");
    late.learn(&answer("leafseal")).expect("kept");
    late.learn(&answer(&line)).expect("kept");
    let refused = late.unseal(Box::new(root_key()));
    assert!(matches!(refused, Err(StoreError::RolledBack { .. })), "{refused:?}");
    assert!(late.is_sealed());
    genuine.put_back(place);
    late.learn(&PeerSighting { peer: "10.0.0.2:3444".to_owned(), ..answer(&of_other) }).expect("kept");
    let refused = late.unseal(Box::new(root_key())).expect_err("refused");
    assert!(matches!(refused, StoreError::Sighting { fault: MemoryFault::Store, .. }), "{refused:?}");
    assert!(late.is_sealed() && refused.to_string().contains("10.0.0.2:3444"), "{refused}");
    late.learn(&PeerSighting { peer: "10.0.0.2:3444".to_owned(), ..answer("") }).expect("kept");
    late.unseal(Box::new(root_key())).expect("the newest");
    assert!(!late.is_sealed() && late.memory().is_from_before);
}

fn reopened_line(place: &Place) -> String {
    let store = reopened(place);
    store.generation().expect("read");
    store.sighting(CHALLENGE).expect("authenticated")
}

/// The file with what was seen.
pub(crate) fn seen_file(folder: &Path) -> std::path::PathBuf {
    let is_seen = |path: &std::path::PathBuf| path.extension().is_some_and(|end| end == "seen");
    fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("there").path()).find(is_seen).expect("saved")
}

#[test]
fn a_file_of_another_store_is_refused() {
    let [place, other] = [(), ()].map(|()| Place::new(Kind::Sqlite));
    let [memory, of_other] = [(), ()].map(|()| tempfile::tempdir().expect("folder"));
    place.open().remember(memory.path()).expect("the first look");
    other.open().remember(of_other.path()).expect("the first look");
    let file = seen_file(of_other.path());
    for content in [fs::read(seen_file(memory.path())).expect("read"), b"sighting".to_vec(), vec![b'x'; 4096], vec![]] {
        fs::write(&file, content).expect("written");
        let refused = other.open().remember(of_other.path());
        let is_refused =
            matches!(refused, Err(StoreError::Memory { fault: MemoryFault::Foreign | MemoryFault::Store, .. }));
        assert!(is_refused, "{refused:?}");
    }
    let generation = other.open().check().expect("checked").generation;
    other.open().accept_generation(generation, Some(of_other.path())).expect("confirmed");
    // Each store has a file of its own, so that one folder serves several.
    place.open().remember(of_other.path()).expect("the first look");
    other.open().remember(of_other.path()).expect("the newest");
}

/// A full or read-only disk takes nothing from a running engine; it says that the next one will not know.
#[test]
fn a_folder_that_cannot_be_written_to_is_reported_and_tried_again() {
    let place = Place::new(Kind::Sqlite);
    let memory = tempfile::tempdir().expect("folder");
    let blocked = memory.path().join("blocked");
    fs::write(&blocked, "no folder").expect("written");
    let store = place.open();
    store.remember(&blocked).expect_err("what is there cannot be read");
    fs::remove_file(&blocked).expect("removed");
    std::os::unix::fs::symlink("/proc/leafseal", &blocked).expect("linked");
    store.remember(&blocked).expect("it goes on");
    store.create_app(&app("a"), NewKeys::generated()).expect("made");
    assert!(!store.memory().is_saved && store.memory().generation.is_some());
    fs::remove_file(&blocked).expect("removed");
    let newest = store.generation().expect("read").changes;
    assert_eq!(store.memory(), MemoryStatus { generation: Some(newest), is_saved: true, ..MemoryStatus::default() });
    place.open().remember(&blocked).expect("the newest");
}
