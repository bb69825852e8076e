//! Upkeep of a store by engines: uses are recorded, keys are rotated at their age, by one of two engines on a store.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::common::{ManualClock, app, rewritten};
use leafseal_engine::admin::{
    ChangeAuthor, Environment, KeyLife, LocalRootKey, NewKeys, OpenMode, SqliteKeystore, StoreLimits,
};
use leafseal_engine::{Caller, DecryptOptions, EncryptOptions, Engine, Settings, UpkeepNews, system_random};

const ROOT_KEY: &str = "leafseal-root-key-1:WlpaWlpaWlpaWlpaWlpaWlpaWlpaWlpaWlpaWlpaWlo=";
const NOW: u64 = 1_750_000_000;
const DAY: u64 = 86_400;
const DOCUMENT: &str = r#""4111111111111111""#;

/// An engine on the store at `path`, whose store has the time of `unix_s`.
fn engine(path: &Path, unix_s: &Arc<AtomicU64>, settings: Settings) -> (Engine, ManualClock) {
    let (clock, time) = (ManualClock::default(), Arc::clone(unix_s));
    let environment = Environment {
        providers: vec![Box::new(LocalRootKey::from_text(ROOT_KEY).expect("a root key"))],
        clock: Box::new(move || time.load(Ordering::SeqCst)),
        rng: Box::new(system_random()),
        author: ChangeAuthor::default(),
    };
    let store = SqliteKeystore::open(path, OpenMode::CreateIfMissing, environment, StoreLimits::default());
    (Engine::with_clock(Box::new(store.expect("opened")), settings, Box::new(clock.clone())), clock)
}

fn life(engine: &Engine) -> &dyn KeyLife {
    engine.store().life().expect("has one")
}

fn upkeep(engine: &Engine) -> UpkeepNews {
    let news = engine.upkeep_store().expect("is on");
    assert!(news.failure.is_none() && news.done.failed.is_empty(), "{news:?}");
    news
}

fn use_app(engine: &Engine, name: &str) {
    let options = EncryptOptions::new(name);
    let work = engine.encrypt_document(&Caller::Owner, &options, None, DOCUMENT.len()).expect("begins");
    let sealed = rewritten(work, DOCUMENT).expect("encrypts");
    let work = engine.decrypt_document(&Caller::Owner, &DecryptOptions::new(name), None, sealed.len());
    assert_eq!(rewritten(work.expect("begins"), &sealed).expect("decrypts"), DOCUMENT);
}

#[test]
fn apps_that_decrypt_are_recorded_once_in_an_interval() {
    let folder = tempfile::tempdir().expect("folder");
    let unix_s = Arc::new(AtomicU64::new(NOW));
    let (engine, clock) = engine(&folder.path().join("store.db"), &unix_s, Settings::default());
    for name in ["used", "idle"] {
        engine.store().create_app(&app(name), NewKeys::generated()).expect("made");
    }
    let used_at = |name: &str| life(&engine).lives().expect("read").get(&app(name)).and_then(|life| life.used_at);
    let changes = || engine.store().generation().expect("read").changes;
    use_app(&engine, "used");
    // The mark outlives the cache.
    engine.maintain().expect("refreshed");
    engine.store().rotate(&app("idle")).expect("rotated");
    engine.maintain().expect("refreshed");
    upkeep(&engine);
    assert_eq!((used_at("used"), used_at("idle")), (Some(NOW), None));
    let before = changes();
    for _ in 0..30 {
        use_app(&engine, "used");
        clock.advance(3_600);
        unix_s.fetch_add(3_600 / 2, Ordering::SeqCst);
        upkeep(&engine);
    }
    assert_eq!(changes(), before, "less than a day old");
    unix_s.fetch_add(DAY / 2, Ordering::SeqCst);
    clock.advance(3_600);
    use_app(&engine, "used");
    upkeep(&engine);
    assert_eq!((used_at("used"), changes()), (Some(unix_s.load(Ordering::SeqCst)), before + 1));
}

#[test]
fn one_of_two_engines_rotates_keys_at_their_age() {
    let folder = tempfile::tempdir().expect("folder");
    let (path, unix_s) = (folder.path().join("store.db"), Arc::new(AtomicU64::new(NOW)));
    let settings = Settings { rotate_after: Duration::from_secs(30 * DAY), ..Settings::default() };
    let [(first, _), (second, _)] = [(); 2].map(|()| engine(&path, &unix_s, settings.clone()));
    first.store().create_app(&app("acme"), NewKeys::generated()).expect("made");
    for version in 2..=6 {
        unix_s.fetch_add(30 * DAY, Ordering::SeqCst);
        let rotated: Vec<_> = std::thread::scope(|scope| {
            let runs = [&first, &second].map(|engine| scope.spawn(|| upkeep(engine).done.rotated));
            runs.into_iter().flat_map(|run| run.join().expect("no panic")).collect()
        });
        assert_eq!(rotated, [(app("acme"), version)]);
        for engine in [&first, &second] {
            engine.maintain().expect("refreshed");
            use_app(engine, "acme");
        }
    }
}

#[test]
fn upkeep_can_be_turned_off() {
    let folder = tempfile::tempdir().expect("folder");
    let settings = Settings { store_upkeep_interval: Duration::ZERO, ..Settings::default() };
    let (engine, _) = engine(&folder.path().join("store.db"), &Arc::default(), settings);
    assert!(engine.upkeep_store().is_none());
}
