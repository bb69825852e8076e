//! Kill −9 at random moments, and several processes at once: afterwards the store is as before the change or as after it.
//!
//! The test binary starts itself again as the process to be killed; [`child`] is that process's part. It reports each change
//! once it is done, so that the parent knows the two states that are allowed. What a power cut does is up to the journal and
//! the disk (`docs/decisions/0005-keystore.md`), and is not tested here.

mod common;

use std::fs;
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use common::{app, assert_sound, context, environment, key, open_with, place, rng};
use fieldseal_crypto::Curve;
use fieldseal_keystore::{Error, Keystore, Limits, LocalRootKey, NewKeys, OpenMode, SqliteKeystore};
use rand::RngExt;

/// Tells the child what to do; unset in an ordinary test run.
const TASK: &str = "FIELDSEAL_KEYSTORE_TEST_TASK";
/// Tells the child where.
const FOLDER: &str = "FIELDSEAL_KEYSTORE_TEST_FOLDER";
/// Starts a line that reports a change; the child writes it after the change returned.
const DONE: &str = "change done";
/// Rounds of each kind. A round takes some 20 ms.
const ROUND_COUNT: u32 = 40;

fn limits() -> Limits {
    Limits { version_count_max: 1_000_000, busy_timeout: Duration::from_secs(30), ..Limits::default() }
}

/// The keys of `version` in the store that is being changed: generated for odd ones, imported and known for even ones.
fn keys_of(version: u32) -> NewKeys {
    if version.is_multiple_of(2) { NewKeys::generated().with(key(Curve::P256, version)) } else { NewKeys::generated() }
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
        "change" => change_for_ever(&folder.join("store.db")),
        "root keys" => make_root_keys_for_ever(&folder),
        "stores" => make_stores_for_ever(&folder),
        "rotate 20" => {
            let store = open_with(&folder.join("store.db"), limits());
            for _ in 0..20 {
                store.rotate(&app("a")).expect("rotated");
                println!("{DONE}");
            }
        }
        other => panic!("no task {other}"),
    }
}

fn change_for_ever(path: &Path) {
    let store = open_with(path, limits());
    let mut version = store.list_apps().expect("read")[0].versions[0].version;
    loop {
        version += 1;
        let made = store.add_version(&app("a"), keys_of(version)).expect("made");
        assert_eq!(made.version, version);
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

fn start(task: &str, folder: &Path) -> Child {
    Command::new(std::env::current_exe().expect("known"))
        .args(["child", "--exact", "--nocapture", "--test-threads=1"])
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
    std::thread::sleep(Duration::from_micros(rand::rng().random_range(0..15_000)));
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
    let mut count = 1;
    let (mut cut_short, mut unreported) = (0, 0);
    for round in 0..ROUND_COUNT {
        let reported = kill_at_random(start("change", folder.path()));
        if let Ok(metadata) = journal.metadata() {
            cut_short += 1;
            assert_eq!(metadata.mode() & 0o7777, 0o600, "the journal is as private as the store");
        }
        let store = SqliteKeystore::open(&path, OpenMode::Existing, environment(), limits()).expect("opened");
        assert_sound(&store);
        let keys = store.load_app(&app("a")).expect("read").expect("there");
        let before = count + reported;
        count = u32::try_from(keys.versions.len()).expect("few");
        assert!(count == before || count == before + 1, "round {round}: {count} versions, {before} reported");
        unreported += count - before;
        for version in keys.versions.iter().filter(|version| version.version.is_multiple_of(2)) {
            let imported = context().public_key(&key(Curve::P256, version.version));
            assert_eq!(version.r1.public(), &imported);
        }
    }
    println!("{ROUND_COUNT} kills: {count} versions, {cut_short} left a journal, {unreported} came before a report");
    assert!(cut_short > 0, "no kill met a change");
}

#[test]
fn a_kill_while_root_keys_are_made_leaves_whole_ones() {
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
fn a_kill_while_stores_are_made_leaves_none_or_an_empty_one() {
    for _ in 0..ROUND_COUNT / 4 {
        let folder = tempfile::tempdir().expect("folder");
        let reported = kill_at_random(start("stores", folder.path()));
        for number in 0..=reported {
            let path = folder.path().join(format!("{number}/store.db"));
            match SqliteKeystore::open(&path, OpenMode::Existing, environment(), limits()) {
                Ok(_) => {}
                Err(Error::NoStore(_)) if number == reported => {}
                Err(error) => panic!("store {number} of {reported}: {error}"),
            }
            let store = open_with(&path, limits());
            store.create_app(&app("a"), NewKeys::generated()).expect("made");
            assert_sound(&store);
        }
    }
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
    assert_sound(&store);
    assert_eq!(fs::read_dir(folder.path()).expect("folder").count(), 1, "no journal is left");
}
