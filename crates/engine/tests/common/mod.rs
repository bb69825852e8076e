//! What the tests of the engine share: one over a real store with two apps, and a clock that tests move.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use fieldseal_engine::admin::{
    AppName, Environment, Keystore, Limits, LocalRootKey, NewKeys, OpenMode, SqliteKeystore, system_clock,
};
use fieldseal_engine::{Clock, DocumentWork, Engine, Error, Progress, Rewriter, Settings, system_random};

/// A clock that tests move.
#[derive(Clone, Default)]
pub struct Hands(Arc<AtomicU64>);

impl Hands {
    pub fn advance(&self, seconds: u64) {
        self.0.fetch_add(seconds, Ordering::Relaxed);
    }
}

impl Clock for Hands {
    fn now_unix_s(&self) -> u32 {
        1_700_000_000 + self.0.load(Ordering::Relaxed) as u32
    }

    fn monotonic(&self) -> Duration {
        Duration::from_secs(self.0.load(Ordering::Relaxed))
    }
}

pub struct Bench {
    pub engine: Engine,
    pub hands: Hands,
    pub folder: tempfile::TempDir,
}

pub fn app(name: &str) -> AppName {
    AppName::parse(name).expect("a name")
}

pub fn bench_with(settings: Settings) -> Bench {
    let folder = tempfile::tempdir().expect("a folder");
    let environment = Environment {
        root_key: Box::new(LocalRootKey::generate(&mut system_random())),
        clock: Box::new(system_clock),
        rng: Box::new(system_random()),
    };
    let path = folder.path().join("private").join("store.sqlite");
    let store = SqliteKeystore::open(&path, OpenMode::CreateIfMissing, environment, Limits::default()).expect("opens");
    for name in ["acme", "other"] {
        store.create_app(&app(name), NewKeys::generated()).expect("created");
    }
    let hands = Hands::default();
    let engine = Engine::with_clock(Box::new(store), settings, Box::new(hands.clone()));
    engine.maintain().expect("refreshed");
    Bench { engine, hands, folder }
}

pub fn bench() -> Bench {
    bench_with(Settings::default())
}

/// What a document comes to.
pub fn rewritten<R: Rewriter>(mut work: DocumentWork<R>, document: &str) -> Result<String, Error> {
    let mut out = Vec::new();
    while work.step(document.as_bytes(), &mut out)? == Progress::More {}
    Ok(String::from_utf8(out).expect("UTF-8"))
}
