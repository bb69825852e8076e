//! Engines and commands that reach PostgreSQL through PgBouncer, which gives a client another connection for each transaction, or one
//! for as long as the client stays.

use std::time::Instant;

use leafseal_testkit::pgbouncer::{PgBouncer, PoolMode};
use leafseal_testkit::postgres::{PostgresServer, ROLE};
use serde_json::{Value, json};

use crate::common::{Running, until};
use crate::shared_store::Place;

/// Waits for a change to apply, and returns how long it took in milliseconds.
fn time_until(what: &str, condition: impl FnMut() -> bool) -> u128 {
    let began = Instant::now();
    until(what, condition);
    began.elapsed().as_millis()
}

/// Rotates the key and revokes the client; prints how soon the engine follows. Both are undone afterwards.
fn assert_follows(place: &Place<'_>, engine: &Running, mode: PoolMode, when: &str) {
    place.folder.write("old.json", place.encrypt(engine).ok());
    place.run(&["keys", "rotate", "acme"]).ok();
    let newest = newest_version(place);
    let old = (newest - 1).to_string();
    place.run(&["keys", "disable", "acme", "--version", &old]).ok();
    let rotation = time_until("the engine refuses the disabled version", || !place.decrypts(engine, "old.json"));
    place.folder.write("new.json", place.encrypt(engine).ok());
    assert!(place.decrypts(engine, "new.json"), "the new version is known");
    place.run(&["keys", "enable", "acme", "--version", &old]).ok();
    until("the engine decrypts with the enabled version", || place.decrypts(engine, "old.json"));

    place.run(&["certs", "revoke", "shop"]).ok();
    let revocation = time_until("the engine refuses the client", || place.encrypt(engine).code != 0);
    place.run(&["certs", "issue", "shop", "--app", "acme", "--allow", "encrypt,decrypt"]).ok();
    until("the engine serves the client", || place.encrypt(engine).code == 0);
    let figures =
        json!({"mode": format!("{mode:?}"), "when": when, "rotation_ms": rotation, "revocation_ms": revocation});
    println!("pooler: {figures}");
}

fn newest_version(place: &Place<'_>) -> u64 {
    let listed: Value = serde_json::from_slice(&place.run(&["keys", "list", "--json"]).ok()).expect("JSON");
    let versions = listed[0]["versions"].as_array().expect("a list").iter();
    versions.filter_map(|version| version["version"].as_u64()).max().expect("a version")
}

fn assert_works_through_a_pooler(mode: PoolMode, pool_size: u32) {
    let server = PostgresServer::shared();
    let pooler = PgBouncer::start(server, mode, pool_size);
    let place = Place::on(server);
    place.configure_url(&format!("postgres://{ROLE}@localhost:{}/{}", pooler.port(), place.database), "");
    let place = place.with_client();
    // The key version of a new envelope is the newest that the engine knows.
    let engine = place.serve(&["--set", "engine.key_version_delay=0s"]);
    assert_follows(&place, &engine, mode, "at first");
    // The pooler's connections are replaced while the engine keeps its own connection, or loses it.
    server.end_connections(&place.database);
    assert_follows(&place, &engine, mode, "after the pooler's connections ended");
    pooler.stop();
    place.encrypt(&engine).ok();
    pooler.start_again();
    assert_follows(&place, &engine, mode, "after a restart of the pooler");
}

#[test]
fn an_engine_follows_changes_through_a_pooler_of_transactions() {
    // One connection for the engine and all commands: none may keep it.
    assert_works_through_a_pooler(PoolMode::Transaction, 1);
}

#[test]
fn an_engine_follows_changes_through_a_pooler_of_sessions() {
    // The engine keeps one, a command needs another.
    assert_works_through_a_pooler(PoolMode::Session, 2);
}
