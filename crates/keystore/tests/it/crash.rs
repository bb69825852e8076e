//! Kill −9 at random moments, and several processes at once: afterwards the store is as before the change or as after it.
//!
//! The test binary starts itself again as the process to be killed; [`child`] is that process's part. It reports each change once
//! it is done, so that the parent knows the two permitted states. The effect of a power failure depends on the journal and the disk
//! (`docs/decisions/0005-keystore.md`), and is not tested here.

use std::fs;
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::common::{
    Kind, Place, SlotChanges, app, assert_file_sound, assert_sound, context, environment, key, open_with, place, rng,
    root_key,
};
use base64ct::{Base64, Encoding};
use leafseal_crypto::Curve;
use leafseal_crypto::random::system_random;
use leafseal_keystore::{
    AppName, Environment, Keystore, LocalRootKey, NewKeys, OpenMode, PostgresKeystore, PostgresSettings, PostgresUrl,
    SqliteKeystore, StoreError, StoreLimits,
};
use rand::RngExt;

/// Tells the child what to do; unset in an ordinary test run.
const TASK: &str = "LEAFSEAL_KEYSTORE_TEST_TASK";
/// Tells the child where.
const FOLDER: &str = "LEAFSEAL_KEYSTORE_TEST_FOLDER";
/// Starts a line that reports a change; the child writes it after the change returned.
const DONE: &str = "change done";
/// Rounds of each kind. A round takes some 20 ms.
const ROUND_COUNT: u32 = 40;

fn limits() -> StoreLimits {
    StoreLimits { version_count_max: 1_000_000, busy_timeout: Duration::from_secs(30), ..StoreLimits::default() }
}

/// A change of the store. Changes have a fixed order, so that their number alone determines the content of the store.
enum Change {
    /// The app `a`, which is there from the start, gets this version.
    Version(u32),
    /// An app is created; the first one has number 0.
    App(u32),
}

impl Change {
    /// The change at `place` in the order, counted from 0: versions and apps in turn, a version first.
    fn at(place: u32) -> Self {
        if place.is_multiple_of(2) { Self::Version(place / 2 + 2) } else { Self::App(place / 2) }
    }

    fn make(&self, store: &dyn Keystore) {
        match *self {
            Self::Version(version) => {
                assert_eq!(store.add_version(&app("a"), keys_of(version)).expect("made").version, version);
            }
            Self::App(number) => {
                store.create_app(&app_made(number), keys_imported(number)).expect("made");
            }
        }
    }
}

/// The keys of `version` of `a`: generated for odd ones, imported and known for even ones.
fn keys_of(version: u32) -> NewKeys {
    if version.is_multiple_of(2) { NewKeys::generated().with(key(Curve::P256, version)) } else { NewKeys::generated() }
}

/// Number of a key of an app that was made: beyond every version, as no key may be in a store twice.
fn key_number(number: u32) -> u32 {
    limits().version_count_max + number
}

fn app_made(number: u32) -> AppName {
    app(&format!("made-{number}"))
}

fn keys_imported(number: u32) -> NewKeys {
    let keys = Curve::ALL.map(|curve| key(curve, key_number(number)));
    keys.into_iter().fold(NewKeys::generated(), NewKeys::with)
}

/// How many changes `store` has seen. Panics where they are not the first ones of the order.
fn changes(store: &dyn Keystore) -> u32 {
    let apps = store.list_apps().expect("read");
    let versions = apps.iter().find(|one| one.name == app("a")).expect("there").versions.len() - 1;
    let made = apps.len() - 1;
    assert_recorded(store, versions + made);
    assert!(versions == made || versions == made + 1, "{versions} versions and {made} apps were made in turn");
    u32::try_from(versions + made).expect("few")
}

/// Asserts that each change has its row, in order: both are there, or neither. The first app came before, and some others between.
fn assert_recorded(store: &dyn Keystore, count: usize) {
    let others = ["create-store", "make-token-secret", "disable-app", "enable-app"];
    let recorded = crate::history::changes(store).into_iter().filter(|change| !others.contains(&change.kind.as_str()));
    let recorded: Vec<String> = recorded.map(|change| change.kind).collect();
    let expected = (0..count).map(|place| if place.is_multiple_of(2) { "add-version" } else { "create-app" });
    assert_eq!(recorded, std::iter::once("create-app").chain(expected).collect::<Vec<_>>());
}

/// Not a test of its own: what the other tests run in another process.
#[test]
fn child() {
    let (Ok(task), Ok(folder)) = (std::env::var(TASK), std::env::var(FOLDER)) else {
        return;
    };
    let folder = PathBuf::from(folder);
    // The harness has begun a line of its own.
    println!();
    match task.as_str() {
        "change" => change_for_ever(&open_with(&folder.join("store.db"), limits())),
        "change and remember" => {
            let store = open_with(&folder.join("store.db"), limits());
            store.remember(&folder.join("seen")).expect("not older than what was seen");
            change_for_ever(&store);
        }
        "change in a database" => change_for_ever(&*child_database(&folder)),
        "rotate 20 in a database" => rotate_20(&*child_database(&folder)),
        "root keys" => make_root_keys_for_ever(&folder),
        "stores" => make_stores_for_ever(&folder),
        "migrations" => migrate_all(&folder),
        "slots" => change_slots_for_ever(&open_with(&folder.join("store.db"), limits())),
        "slots in a database" => change_slots_for_ever(&*child_database(&folder)),
        "rotate 20" => rotate_20(&open_with(&folder.join("store.db"), limits())),
        other => panic!("no task {other}"),
    }
}

/// The database whose URL is in a file of the folder, with what it takes to get there.
fn child_database(folder: &Path) -> Box<dyn Keystore> {
    let url = fs::read_to_string(folder.join("url")).expect("a URL");
    let settings = PostgresSettings {
        authorities: Some(folder.join("ca.pem")),
        password_file: Some(folder.join("password")),
        ..PostgresSettings::new(PostgresUrl::parse(&url).expect("a URL"))
    };
    Box::new(PostgresKeystore::open(&settings, OpenMode::Existing, environment(), limits()).expect("opened"))
}

fn rotate_20(store: &dyn Keystore) {
    for _ in 0..20 {
        store.rotate(&app("a")).expect("rotated");
        println!("{DONE}");
    }
}

fn change_for_ever(store: &dyn Keystore) {
    for place in changes(store).. {
        Change::at(place).make(store);
        println!("{DONE}");
    }
}

fn make_root_keys_for_ever(folder: &Path) {
    for number in 0.. {
        LocalRootKey::create_file(&folder.join(format!("{number}.key")), &mut rng()).expect("made");
        println!("{DONE}");
    }
}

fn make_stores_for_ever(folder: &Path) {
    for number in 0.. {
        open_with(&folder.join(format!("{number}/store.db")), limits());
        println!("{DONE}");
    }
}

/// New roots, with and without links, and slots that come, change and go. The first slot stays.
fn change_slots_for_ever(store: &dyn Keystore) {
    let first = root_key().id().to_string();
    let other = || store.slots().expect("read").into_iter().find(|slot| slot.key_name != first).expect("there").id;
    for number in 0_u32.. {
        match number % 5 {
            0 => store.add_slot(&slot_key(number)).map(drop),
            1 => store.rotate_root(Some(Duration::from_secs(60)), &mut |_, _| ()).map(drop),
            2 => store.replace_slot(&other(), &slot_key(number)).map(drop),
            3 => store.rotate_root(None, &mut |_, _| ()).map(drop),
            _ => store.remove_untested(&other()),
        }
        .expect("changed");
        println!("{DONE}");
    }
}

/// The root key of a slot, by its number.
fn slot_key(number: u32) -> LocalRootKey {
    let text = Base64::encode_string(&[&number.to_be_bytes()[..], &[0x77; 28]].concat());
    LocalRootKey::from_text(&format!("leafseal-root-key-1:{text}")).expect("valid")
}

/// Stores that a migration is cut in, in one round.
const STORES_TO_MIGRATE: u32 = 12;

fn migrate_all(folder: &Path) {
    for number in 0..STORES_TO_MIGRATE {
        open_with(&folder.join(format!("{number}.db")), limits()).migrate(&mut |_, _| ()).expect("migrated");
        println!("{DONE}");
    }
    std::thread::sleep(Duration::from_secs(60));
}

fn start(task: &str, folder: &Path) -> Child {
    Command::new(std::env::current_exe().expect("known"))
        .args(["crash::child", "--exact", "--nocapture", "--test-threads=1"])
        .env(TASK, task)
        .env(FOLDER, folder)
        .stdout(Stdio::piped())
        .spawn()
        .expect("started")
}

/// Waits for the first report, then for a random moment, kills the child and counts all its reports.
fn kill_at_random(mut child: Child) -> u32 {
    let mut output = child.stdout.take().expect("piped");
    let mut text = Vec::new();
    let mut buffer = [0; 256];
    while !String::from_utf8_lossy(&text).contains(DONE) {
        let size = output.read(&mut buffer).expect("read");
        assert_ne!(size, 0, "the child ended: {}", String::from_utf8_lossy(&text));
        text.extend_from_slice(&buffer[..size]);
    }
    std::thread::sleep(Duration::from_micros(system_random().random_range(0..15_000)));
    child.kill().expect("killed");
    let status = child.wait().expect("ended");
    assert!(!status.success());
    output.read_to_end(&mut text).expect("read");
    let count = String::from_utf8_lossy(&text).matches(DONE).count();
    u32::try_from(count).expect("few")
}

#[test]
fn a_kill_during_rotations_and_imports_leaves_before_or_after() {
    let (folder, path) = place();
    open_with(&path, limits()).create_app(&app("a"), NewKeys::generated()).expect("made");
    let journal = folder.path().join("store.db-journal");
    let (mut count, mut unreported) = (0, 0);
    // Changes that were undone, by their kind.
    let (mut versions_cut, mut apps_cut) = (0, 0);
    for round in 0..ROUND_COUNT {
        let reported = kill_at_random(start("change", folder.path()));
        let was_cut = journal.metadata().is_ok_and(|metadata| {
            assert_eq!(metadata.mode() & 0o7777, 0o600, "the journal is as private as the store");
            true
        });
        let store = SqliteKeystore::open(&path, OpenMode::Existing, environment(), limits()).expect("opened");
        assert_file_sound(&store);
        let before = count;
        count = changes(&store);
        let after = before + reported;
        assert!(
            count == after || count == after + 1,
            "round {round}: {count} changes, {before} and {reported} reported"
        );
        unreported += count - after;
        match Change::at(count) {
            Change::Version(_) => versions_cut += u32::from(was_cut),
            Change::App(_) => apps_cut += u32::from(was_cut),
        }
        (before..count).for_each(|place| assert_made(&store, &Change::at(place)));
    }
    println!("{ROUND_COUNT} kills: {count} changes, {unreported} of them came before a report");
    println!("undone: {versions_cut} versions, {apps_cut} apps");
    assert!(versions_cut > 0 && apps_cut > 0, "no kill met a change of each kind");
}

/// The file is whole at every moment, and never newer than the store, which would be refused.
#[test]
fn a_kill_while_the_newest_state_is_saved_leaves_a_state() {
    let (folder, path) = place();
    open_with(&path, limits()).create_app(&app("a"), NewKeys::generated()).expect("made");
    for _ in 0..ROUND_COUNT / 4 {
        kill_at_random(start("change and remember", folder.path()));
        let store = open_with(&path, limits());
        store.remember(&folder.path().join("seen")).expect("not older than what was seen");
        assert!(store.memory().is_from_before && store.memory().is_saved);
    }
    let files = fs::read_dir(folder.path().join("seen")).expect("a folder").count();
    assert_eq!(files, 3, "the file, that of the place, and a lock");
}

/// The parameters of [`child_database`], in a folder of its own.
fn folder_for_child(place: &Place) -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("folder");
    let settings = place.server().settings(place.database());
    fs::write(folder.path().join("url"), settings.url.to_string()).expect("written");
    for name in ["ca.pem", "password"] {
        fs::copy(place.server().file(name), folder.path().join(name)).expect("copied");
    }
    folder
}

/// The number of kills of processes that change a database; `LEAFSEAL_KILLS` sets another.
fn database_rounds() -> u32 {
    std::env::var("LEAFSEAL_KILLS").map_or(12, |count| count.parse().expect("a number"))
}

#[test]
fn a_kill_during_changes_of_a_database_leaves_before_or_after() {
    let place = &Place::new(Kind::Postgres);
    let store = place.open_with(limits());
    store.create_app(&app("a"), NewKeys::generated()).expect("made");
    let folder = folder_for_child(place);
    let (mut count, mut unreported) = (0, 0);
    for round in 0..database_rounds() {
        let reported = kill_at_random(start("change in a database", folder.path()));
        // Statements that the killed process had sent are still carried out; the lock of the row is free once it is.
        store.disable_app(&app("a")).expect("after it");
        store.enable_app(&app("a")).expect("after it");
        assert_sound(&store);
        let (before, after) = (count, count + reported);
        count = changes(&*store);
        assert!(
            count == after || count == after + 1,
            "round {round}: {count} changes, {before} and {reported} reported"
        );
        unreported += count - after;
        (before..count).for_each(|place| assert_made(&*store, &Change::at(place)));
    }
    println!("{} kills: {count} changes, {unreported} of them came before a report", database_rounds());
}

#[test]
fn two_processes_change_a_database_at_once_and_none_is_lost() {
    let place = &Place::new(Kind::Postgres);
    let store = place.open_with(limits());
    store.create_app(&app("a"), NewKeys::generated()).expect("made");
    let folder = folder_for_child(place);
    let children = [0, 1].map(|_| start("rotate 20 in a database", folder.path()));
    for _ in 0..10 {
        store.rotate(&app("a")).expect("rotated");
    }
    for child in children {
        let output = child.wait_with_output().expect("ended");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
        assert_eq!(String::from_utf8_lossy(&output.stdout).matches(DONE).count(), 20);
    }
    assert_eq!(store.load_app(&app("a")).expect("read").expect("there").versions.len(), 51);
    assert_sound(&store);
}

/// Asserts that a change is there as a whole, with the keys that were imported.
fn assert_made(store: &dyn Keystore, change: &Change) {
    let load = |name| store.load_app(&name).expect("read").expect("there");
    let public = |curve, number| context().public_key(&key(curve, number));
    match *change {
        Change::Version(version) => {
            let keys = load(app("a"));
            let made = keys.versions.iter().find(|one| one.version == version).expect("there");
            let is_imported = made.r1.public() == &public(Curve::P256, version);
            assert_eq!(is_imported, version.is_multiple_of(2));
        }
        Change::App(number) => {
            let keys = load(app_made(number));
            assert_eq!(keys.versions.len(), 1);
            for curve in Curve::ALL {
                assert_eq!(keys.versions[0].pair(curve).public(), &public(curve, key_number(number)));
            }
        }
    }
}

#[test]
fn a_kill_while_root_keys_are_created_leaves_whole_ones() {
    for _ in 0..ROUND_COUNT / 4 {
        let folder = tempfile::tempdir().expect("folder");
        let reported = kill_at_random(start("root keys", folder.path()));
        let mut count = 0;
        while let Ok(metadata) = folder.path().join(format!("{count}.key")).metadata() {
            assert_eq!(metadata.mode() & 0o7777, 0o600);
            LocalRootKey::read_file(&folder.path().join(format!("{count}.key"))).expect("whole");
            count += 1;
        }
        assert!(count == reported || count == reported + 1, "{count} keys, {reported} reported");
    }
}

#[test]
fn a_kill_while_stores_are_created_leaves_none_or_an_empty_one() {
    for _ in 0..ROUND_COUNT / 4 {
        let folder = tempfile::tempdir().expect("folder");
        let reported = kill_at_random(start("stores", folder.path()));
        for number in 0..=reported {
            let path = folder.path().join(format!("{number}/store.db"));
            match SqliteKeystore::open(&path, OpenMode::Existing, environment(), limits()) {
                Ok(_) => {}
                Err(StoreError::NoStore(_)) if number == reported => {}
                Err(error) => panic!("store {number} of {reported}: {error}"),
            }
            let store = open_with(&path, limits());
            store.create_app(&app("a"), NewKeys::generated()).expect("made");
            assert_file_sound(&store);
        }
    }
}

#[test]
fn a_kill_while_slots_and_roots_change_leaves_a_store_that_opens() {
    for kind in [Kind::Sqlite, Kind::Postgres] {
        let place = Place::new(kind);
        let of_database = (kind == Kind::Postgres).then(|| folder_for_child(&place));
        let (folder, task) = match &of_database {
            None => (place.path().parent().expect("a folder"), "slots"),
            Some(folder) => (folder.path(), "slots in a database"),
        };
        let store = place.open_with(limits());
        for number in 0..5 {
            store.create_app(&app_made(number), keys_imported(number)).expect("made");
        }
        let (mut reported, first) = (0, store.slots().expect("read").remove(0));
        drop(store);
        for _ in 0..database_rounds() {
            reported += kill_at_random(start(task, folder));
            // By the slot that stays, and by whichever others the kill has left.
            let store = place.open_with(limits());
            // Waits for what the killed process had sent to a database.
            store.remove_root_links().expect("changed");
            let mut slots = store.slots().expect("read");
            assert!(slots.contains(&first) && slots.len() <= 2, "{slots:?}");
            (0..5).for_each(|app| assert_made(&*store, &Change::App(app)));
            assert_eq!(store.check().expect("checked").faults, []);
            slots.retain(|slot| *slot != first);
            for slot in slots {
                let key = (0..5000).map(slot_key).find(|key| key.id().to_string() == slot.key_name);
                let environment = Environment { providers: vec![Box::new(key.expect("known"))], ..environment() };
                let by_slot = place.try_open(OpenMode::Existing, environment, limits()).expect("opened");
                (0..5).for_each(|app| assert_made(&*by_slot, &Change::App(app)));
                // As the child expects it.
                store.remove_untested(&slot.id).expect("removed");
            }
        }
        println!("{kind:?}: {} kills, {reported} changes were reported", database_rounds());
    }
}

/// The number of kills of processes that migrate stores; `LEAFSEAL_KILLS` sets another.
#[test]
fn a_kill_during_a_migration_leaves_the_old_store_or_the_new_one() {
    let (old_folder, old) = place();
    let store = SqliteKeystore::open(&old, OpenMode::CreateOldIfMissing, environment(), limits()).expect("made");
    for number in 0..10 {
        store.create_app(&app_made(number), keys_imported(number)).expect("made");
    }
    let (mut cut, mut migrated) = (0, 0);
    for _ in 0..database_rounds() {
        let folder = tempfile::tempdir_in(old_folder.path()).expect("folder");
        for number in 0..STORES_TO_MIGRATE {
            fs::copy(&old, folder.path().join(format!("{number}.db"))).expect("copied");
        }
        let reported = kill_at_random(start("migrations", folder.path()));
        cut += u32::from(folder.path().join(format!("{reported}.db-journal")).exists());
        for number in 0..STORES_TO_MIGRATE {
            let store = open_with(&folder.path().join(format!("{number}.db")), limits());
            let report = store.check().expect("checked");
            let permitted = match number {
                _ if number < reported => &[3][..],
                _ if number == reported => &[2, 3],
                _ => &[2],
            };
            assert!(permitted.contains(&report.schema_version), "{number} of {reported}: {report:?}");
            assert_eq!(report.faults, []);
            (0..10).for_each(|app| assert_made(&store, &Change::App(app)));
            assert_eq!(store.migrate(&mut |_, _| ()).expect("migrated").to, 3);
            migrated += 1;
        }
    }
    println!("{} kills: {cut} cut a migration, {migrated} stores are whole", database_rounds());
}

#[test]
fn two_processes_write_at_once_and_none_is_lost() {
    let (folder, path) = place();
    let store = open_with(&path, limits());
    store.create_app(&app("a"), NewKeys::generated()).expect("made");
    let children = [start("rotate 20", folder.path()), start("rotate 20", folder.path())];
    for _ in 0..10 {
        store.rotate(&app("a")).expect("rotated");
    }
    for child in children {
        let output = child.wait_with_output().expect("ended");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
        assert_eq!(String::from_utf8_lossy(&output.stdout).matches(DONE).count(), 20);
    }
    assert_eq!(store.load_app(&app("a")).expect("read").expect("there").versions.len(), 51);
    assert_file_sound(&store);
    assert_eq!(fs::read_dir(folder.path()).expect("folder").count(), 1, "no journal is left");
}
