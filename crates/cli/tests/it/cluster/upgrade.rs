//! The upgrade of a running cluster: engines of the older program, one after the other of the newer, then the migration of their keystore,
//! a further slot and a new root, all under load.

use std::path::PathBuf;

use leafseal_engine::admin::{Keystore, LocalRootKey, OpenMode};
use leafseal_engine::system_random;
use leafseal_testkit::postgres::PostgresServer;
use serde_json::{Value, json};

use super::traffic::Traffic;
use super::{Cluster, open_keystore, open_keystore_in, report, size};
use crate::common::until;
use crate::shared_store::Place;

/// The older program is that of `OLD_PROGRAM`; without it this one, on a keystore of the older schema.
#[test]
fn an_upgrade_under_load_loses_no_request() {
    let rate = size("RATE", 300);
    let place = Place::on(PostgresServer::shared());
    LocalRootKey::create_file(&place.folder.path(".leafseal/root.key"), &mut system_random()).expect("made");
    open_keystore_in(&place, OpenMode::CreateOldIfMissing).token_secret().expect("made");
    let (place, older) = (place.with_client(), std::env::var_os("OLD_PROGRAM").map(PathBuf::from));
    let is_other = older.is_some();
    let mut cluster = Cluster::start_of(older, place, (51, 2), &["server.drain_delay=5s"]);
    let traffic = Traffic::start(cluster.client_settings(cluster.addresses()), rate);
    let proceed = || traffic.proceed(u64::from(rate));
    proceed();
    for index in 0..cluster.engines.len() {
        cluster.engines[index].terminate();
        cluster.engines[index].program = None;
        cluster.start_engine(index);
        proceed();
    }
    let command = |arguments: &[&str]| -> Value {
        let answer = cluster.place.run(&[arguments, &["--json"]].concat()).ok();
        proceed();
        serde_json::from_slice(&answer).expect("JSON")
    };
    assert_eq!(command(&["store", "migrate", "--dry-run"])["from"], 2);
    assert_eq!(command(&["store", "migrate"])["to"], 3);
    let slot = command(&["slot", "add", "--root-key-file", "second.key"]);
    command(&["slot", "rotate-root", "--link-seconds", "5"]);
    command(&["slot", "rotate-root", "--compromised"]);
    command(&["keys", "rotate", "acme"]);
    cluster.place.run(&["slot", "remove", slot["id"].as_str().expect("an id")]).ok();
    let aim = u64::from(size("REQUESTS", 0));
    until("there were as many requests", || {
        proceed();
        traffic.sent() >= aim
    });
    let outcome = traffic.finish();
    report(
        "upgrade",
        json!({"from": if is_other { "an older program" } else { "an older schema" }, "rate": rate, "requests": outcome.requests,
            "lost": outcome.lost(), "wrong": outcome.wrong.len()}),
    );
    assert!(outcome.failures.is_empty() && outcome.wrong.is_empty(), "{:?} {:?}", outcome.failures, outcome.wrong);
    assert_eq!(open_keystore(&cluster.place).check().expect("checked").faults, []);
    outcome.assert_all_open(cluster.client_settings(cluster.addresses()));
}
