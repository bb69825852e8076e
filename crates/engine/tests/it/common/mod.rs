//! Shared by the engine's tests: an engine over a real store with two apps, and a clock that tests advance.
#![allow(dead_code, reason = "each test file uses a part")]

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use leafseal_engine::admin::{AcceptedSchemes, AppName, Apps, ClientName, NewClient, Operation, Roles};
use leafseal_engine::{Caller, DocumentWork, Engine, EngineClock, Error, PayloadDigest, Progress, Rewriter, Settings};
use leafseal_testkit::ScratchStore;

/// A clock that tests advance.
#[derive(Clone, Default)]
pub(crate) struct ManualClock(Arc<AtomicU64>);

impl ManualClock {
    pub(crate) fn advance(&self, seconds: u64) {
        self.0.fetch_add(seconds, Ordering::Relaxed);
    }
}

impl EngineClock for ManualClock {
    fn now_unix_s(&self) -> u32 {
        1_700_000_000 + self.0.load(Ordering::Relaxed) as u32
    }

    fn monotonic(&self) -> Duration {
        Duration::from_secs(self.0.load(Ordering::Relaxed))
    }
}

pub(crate) struct TestEngine {
    pub engine: Engine,
    pub clock: ManualClock,
    pub store: ScratchStore,
}

pub(crate) fn app(name: &str) -> AppName {
    AppName::parse(name).expect("a name")
}

pub(crate) fn test_engine_with(settings: Settings) -> TestEngine {
    let store = ScratchStore::new(&["acme", "other"]);
    let clock = ManualClock::default();
    let engine = Engine::with_clock(Box::new(store.open()), settings, Box::new(clock.clone()));
    engine.maintain().expect("refreshed");
    TestEngine { engine, clock, store }
}

pub(crate) fn test_engine() -> TestEngine {
    test_engine_with(Settings::default())
}

/// A client with these permissions for `acme`.
pub(crate) fn grant(engine: &Engine, name: &str, operations: &[Operation], roles: Roles) -> Caller {
    grant_accepting(engine, name, operations, roles, AcceptedSchemes::ALL)
}

/// The same, for which these envelopes are decrypted.
pub(crate) fn grant_accepting(
    engine: &Engine,
    name: &str,
    operations: &[Operation],
    roles: Roles,
    accept: AcceptedSchemes,
) -> Caller {
    let client = NewClient {
        name: ClientName::parse(name).expect("a name"),
        apps: Apps::Only(BTreeSet::from([app("acme")])),
        operations: operations.iter().copied().collect(),
        roles,
        accept,
        certificate_sha256: Some([7; 32]),
    };
    engine.store().put_client(&client).expect("stored");
    engine.maintain().expect("refreshed");
    engine.client(name, [7; 32]).expect("granted")
}

/// The result of rewriting a document.
pub(crate) fn rewritten<R: Rewriter>(mut work: DocumentWork<R>, document: &str) -> Result<String, Error> {
    let mut out = Vec::new();
    while work.step(document.as_bytes(), &mut out)? == Progress::More {}
    Ok(String::from_utf8(out).expect("UTF-8"))
}

/// The digest of a payload, for a token.
pub(crate) fn digest(engine: &Engine, payload: &str) -> PayloadDigest {
    let mut reading = engine.payload(payload.len()).expect("not too large");
    loop {
        if let Some(digest) = reading.step(payload.as_bytes()).expect("JSON") {
            return digest;
        }
    }
}
