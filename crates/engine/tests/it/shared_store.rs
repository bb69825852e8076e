//! Engines that share a store on PostgreSQL: a change reaches all, and one whose store is away continues for as long as it may.

use std::process::Command;
use std::sync::mpsc;
use std::time::Duration;

use crate::common::{ManualClock, app, grant, rewritten};
use leafseal_engine::admin::{
    ChangeAuthor, ClientName, Environment, Keystore, LocalRootKey, NewKeys, OpenMode, Operation, PostgresKeystore,
    PostgresSettings, Roles, StoreLimits, system_clock,
};
use leafseal_engine::{
    Caller, DecryptOptions, EncryptOptions, Engine, Error, ErrorCode, OnFailure, Settings, system_random,
};
use leafseal_testkit::postgres::{Durability, PostgresServer};

const ROOT_KEY: &str = "leafseal-root-key-1:WlpaWlpaWlpaWlpaWlpaWlpaWlpaWlpaWlpaWlpaWlo=";

/// An engine on the store, with a clock of its own.
fn engine(settings: &PostgresSettings) -> (Engine, ManualClock) {
    engine_with(settings, Settings::default())
}

fn engine_with(settings: &PostgresSettings, engine: Settings) -> (Engine, ManualClock) {
    let clock = ManualClock::default();
    (Engine::with_clock(Box::new(store(settings, system_clock)), engine, Box::new(clock.clone())), clock)
}

fn store(settings: &PostgresSettings, clock: fn() -> u64) -> PostgresKeystore {
    let environment = Environment {
        providers: vec![Box::new(LocalRootKey::from_text(ROOT_KEY).expect("a root key"))],
        clock: Box::new(clock),
        rng: Box::new(system_random()),
        author: ChangeAuthor::default(),
    };
    PostgresKeystore::open(settings, OpenMode::CreateIfMissing, environment, StoreLimits::default()).expect("opened")
}

const DOCUMENT: &str = r#""4111111111111111""#;

fn sealed(engine: &Engine) -> String {
    let options = EncryptOptions::new("acme");
    let work = engine.encrypt_document(&Caller::Owner, &options, None, DOCUMENT.len()).expect("begins");
    rewritten(work, DOCUMENT).expect("encrypts")
}

fn opened(engine: &Engine, document: &str, on_failure: OnFailure) -> Result<String, Error> {
    let options = DecryptOptions { on_failure, ..DecryptOptions::new("acme") };
    rewritten(engine.decrypt_document(&Caller::Owner, &options, None, document.len())?, document)
}

fn encrypting(engine: &Engine) -> u32 {
    engine.public_keys(&Caller::Owner, "acme").expect("public keys").version
}

/// Envelopes of one engine must open on another, even one that has not noticed a change yet.
#[test]
fn a_new_version_encrypts_when_every_engine_knows_it() {
    let server = PostgresServer::shared();
    let settings = server.settings(&server.database());
    let [(first, clock), (second, _)] = [engine(&settings), engine(&settings)];
    first.store().create_app(&app("acme"), NewKeys::generated()).expect("made");
    for engine in [&first, &second] {
        engine.maintain().expect("refreshed");
        assert_eq!(encrypting(engine), 1);
    }
    clock.advance(2);
    first.maintain().expect("refreshed");
    first.store().rotate(&app("acme")).expect("rotated");
    assert_eq!(encrypting(&first), 1, "it has not noticed");
    first.maintain().expect("refreshed");
    assert_eq!(encrypting(&first), 1, "the others may not have noticed");
    assert_eq!(opened(&second, &sealed(&first), OnFailure::Fail).expect("opens"), DOCUMENT);
    clock.advance(1);
    first.maintain().expect("refreshed");
    assert_eq!(encrypting(&first), 1, "1 s is not enough");
    // One that starts now finds two versions, and does not know for how long.
    let (third, _) = engine(&settings);
    third.maintain().expect("refreshed");
    assert_eq!(encrypting(&third), 1);
    clock.advance(1);
    second.maintain().expect("refreshed");
    first.maintain().expect("refreshed");
    assert_eq!(encrypting(&first), 2);
    for engine in [&first, &second, &third] {
        assert_eq!(opened(engine, &sealed(&first), OnFailure::Fail).expect("opens"), DOCUMENT);
    }
    // A version must not be used any more: the other one is, at once.
    first.store().rotate(&app("acme")).expect("rotated");
    first.store().disable_version(&app("acme"), 1).expect("disabled");
    first.store().disable_version(&app("acme"), 2).expect("disabled");
    first.maintain().expect("refreshed");
    assert_eq!(encrypting(&first), 3);
}

/// Its time of creation says nothing about when others learn of it.
#[test]
fn a_version_that_is_enabled_again_encrypts_when_every_engine_knows_it() {
    let server = PostgresServer::shared();
    let settings = server.settings(&server.database());
    let [(first, clock), (second, other_clock)] = [engine(&settings), engine(&settings)];
    first.store().create_app(&app("acme"), NewKeys::generated()).expect("made");
    first.store().rotate(&app("acme")).expect("rotated");
    let settle = || {
        for (engine, clock) in [(&first, &clock), (&second, &other_clock)] {
            engine.maintain().expect("refreshed");
            clock.advance(1_000);
            engine.maintain().expect("refreshed");
        }
    };
    settle();
    assert_eq!(encrypting(&first), 2);
    let change = |state: fn(&dyn Keystore)| {
        state(first.store());
        first.maintain().expect("refreshed");
        encrypting(&first)
    };
    let disable = |store: &dyn Keystore| store.disable_version(&app("acme"), 2).expect("disabled");
    let enable = |store: &dyn Keystore| store.enable_version(&app("acme"), 2).expect("enabled");
    assert_eq!(change(disable), 1);
    settle();
    assert_eq!([encrypting(&first), encrypting(&second)], [1, 1]);
    assert_eq!(change(enable), 1, "the second has not noticed");
    assert_eq!(opened(&second, &sealed(&first), OnFailure::Fail).expect("opens"), DOCUMENT);
    // Nor does it in the midst of other changes.
    assert_eq!([change(disable), change(enable)], [1, 1]);
    settle();
    assert_eq!([encrypting(&first), encrypting(&second)], [2, 2]);
    assert_eq!(change(disable), 1);
    assert_eq!(change(enable), 1);
}

/// A commit may wait for a standby, and the clock of the machine that rotates may be slow.
#[test]
fn a_version_that_looks_old_does_not_encrypt_at_once() {
    let server = PostgresServer::shared();
    let settings = server.settings(&server.database());
    let (engine, clock) = engine(&settings);
    engine.store().create_app(&app("acme"), NewKeys::generated()).expect("made");
    engine.maintain().expect("refreshed");
    clock.advance(2);
    engine.maintain().expect("refreshed");
    assert_eq!(encrypting(&engine), 1);
    store(&settings, || system_clock() - 1_000).rotate(&app("acme")).expect("rotated");
    engine.maintain().expect("refreshed");
    assert_eq!(encrypting(&engine), 1, "the others may not have noticed");
    clock.advance(2);
    engine.maintain().expect("refreshed");
    assert_eq!(encrypting(&engine), 2);
}

/// The store has one more version than an engine that is cut off from it knows.
#[test]
fn a_value_of_an_unknown_version_is_unavailable_while_the_store_is() {
    let server = PostgresServer::start(Durability::Fast, &[]);
    let settings = server.settings(&server.database());
    let (engine, clock) = engine(&settings);
    let (other, _) = engine_with(&settings, Settings { key_version_delay: Duration::ZERO, ..Settings::default() });
    engine.store().create_app(&app("acme"), NewKeys::generated()).expect("made");
    engine.maintain().expect("refreshed");
    let old = sealed(&engine);
    other.store().rotate(&app("acme")).expect("rotated");
    let new = sealed(&other);
    server.kill();
    let fails = |document: &str, on_failure| opened(&engine, document, on_failure).expect_err("not opened").code;
    // As no engine uses a version so early, it is not one of theirs.
    assert_eq!(fails(&new, OnFailure::Fail), ErrorCode::DecryptFailed);
    clock.advance(3);
    assert!(engine.maintain().is_err());
    let tampered = format!("{}AAAA:$\"", &old[..old.len() - 7]);
    for document in [&new, &tampered] {
        for on_failure in [OnFailure::Fail, OnFailure::Leave, OnFailure::Null] {
            assert_eq!(fails(document, on_failure), ErrorCode::Unavailable, "{document} {on_failure:?}");
        }
    }
    assert_eq!(opened(&engine, &old, OnFailure::Fail).expect("its key is known"), DOCUMENT);
    server.start_again();
    while engine.maintain().is_err() {
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(opened(&engine, &new, OnFailure::Fail).expect("opens"), DOCUMENT);
    assert_eq!(fails(&tampered, OnFailure::Fail), ErrorCode::DecryptFailed);
}

#[test]
fn a_revocation_reaches_every_engine() {
    let server = PostgresServer::shared();
    let settings = server.settings(&server.database());
    let engines = [engine(&settings).0, engine(&settings).0];
    engines[0].store().create_app(&app("acme"), NewKeys::generated()).expect("made");
    let caller = grant(&engines[0], "shop", &[Operation::Encrypt], Roles::Any);
    let (sender, hints) = mpsc::channel();
    engines[1].on_store_change(Box::new(move || {
        // The listener ends with the test.
        let _ = sender.send(());
    }));
    for engine in &engines {
        engine.maintain().expect("refreshed");
        engine.admit(&caller).expect("granted");
    }
    engines[0].store().disable_client(&ClientName::parse("shop").expect("a name")).expect("revoked");
    // Until the hint comes, as on a pooler that drops it, the poll finds the change.
    let _ = hints.recv_timeout(Duration::from_secs(1));
    for engine in &engines {
        engine.maintain().expect("refreshed");
        assert_eq!(engine.admit(&caller).expect_err("revoked").code, ErrorCode::Forbidden);
    }
}

#[test]
fn an_engine_without_its_store_goes_on_and_then_fails_closed() {
    let server = PostgresServer::start(Durability::Fast, &[]);
    let (engine, clock) = engine(&server.settings(&server.database()));
    engine.store().create_app(&app("acme"), NewKeys::generated()).expect("made");
    let caller = grant(&engine, "shop", &[Operation::Encrypt], Roles::Any);
    let stranger = ClientName::parse("stranger").expect("a name");
    engine.admit(&caller).expect("granted");
    // Entries that were read before the first check for changes stay in use after it.
    engine.maintain().expect("refreshed");
    server.kill();
    clock.advance(59);
    assert_eq!(engine.maintain().expect_err("away").code, ErrorCode::Unavailable);
    engine.admit(&caller).expect("what is known stays in use");
    engine.readiness().expect("and the engine ready");
    let unknown = engine.client(stranger.as_str(), [7; 32]).expect_err("what is not known is not");
    assert_eq!(unknown.code, ErrorCode::Unavailable);
    assert!(
        unknown.cause().expect("a cause").contains("cannot use the keystore") && !unknown.message.contains("postgres")
    );
    assert_eq!(engine.counters().store_silence, Duration::from_secs(59));
    clock.advance(1);
    assert!(engine.maintain().is_err() && engine.readiness().is_err());
    assert_eq!(engine.admit(&caller).expect_err("60 s are over").code, ErrorCode::Unavailable);
    let resyncs = engine.counters().store_resyncs;
    server.start_again();
    while engine.maintain().is_err() {
        std::thread::sleep(Duration::from_millis(20));
    }
    engine.admit(&caller).expect("back");
    engine.readiness().expect("back");
    assert!(engine.counters().store_resyncs > resyncs, "changes made meanwhile are unknown");
}

#[test]
fn an_engine_whose_store_hangs_fails_closed_too() {
    let server = PostgresServer::shared();
    let database = server.database();
    let (engine, clock) = engine(&server.settings(&database));
    engine.store().create_app(&app("acme"), NewKeys::generated()).expect("made");
    let caller = grant(&engine, "shop", &[Operation::Encrypt], Roles::Any);
    engine.maintain().expect("refreshed");
    engine.admit(&caller).expect("granted");
    let of_store =
        format!("SELECT pid FROM pg_stat_activity WHERE datname = '{database}' AND application_name = 'leafseal'");
    let pid = server.sql("postgres", &of_store);
    let signal = |name: &str| assert!(Command::new("kill").args([name, &pid]).status().expect("kill runs").success());
    signal("-STOP");
    std::thread::scope(|scope| {
        // It waits for as long as the statement timeout, which is longer than grants may stay in use.
        let maintained = scope.spawn(|| engine.maintain());
        clock.advance(69);
        let in_time = engine.admit(&caller);
        clock.advance(1);
        let late = [engine.admit(&caller), engine.readiness()];
        signal("-CONT");
        in_time.expect("60 s and 10 s are not over");
        for refused in late {
            assert_eq!(refused.expect_err("70 s are over").code, ErrorCode::Unavailable);
        }
        maintained.join().expect("no panic").expect("it responds");
    });
    engine.maintain().expect("it responds");
    engine.admit(&caller).expect("back");
}
