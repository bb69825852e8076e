//! A database that is killed, restarted and failed over to its standby, under load and with rotations going on.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use leafseal_testkit::postgres::{Durability, PostgresServer};
use serde_json::json;

use super::traffic::Traffic;
use super::{Cluster, report, size, url, versions};
use crate::common::{CommandResult, finish};
use crate::shared_store::Place;

/// More would be a test of the search: a value without a known key is tried with each version.
const ROTATIONS_MAX: usize = 30;
const ROTATION_PAUSE: Duration = Duration::from_millis(300);

/// The version that a rotation confirmed. A rotation that failed may have taken effect, if the connection ended during the commit.
pub(super) fn confirmed(result: &CommandResult) -> Option<u64> {
    if result.code != 0 {
        assert!(!result.stderr.contains("panicked"), "{}", result.stderr);
        return None;
    }
    let made: serde_json::Value = serde_json::from_slice(&result.stdout).expect("JSON");
    Some(made["version"].as_u64().unwrap_or_else(|| panic!("no version: {made}")))
}

#[test]
fn a_database_that_is_killed_and_fails_over_loses_no_key() {
    let rate = size("RATE", 300);
    let requests = u64::from(rate) * u64::from(size("OUTAGE_SECONDS", 2));
    let primary = PostgresServer::start(Durability::Full, &[]);
    let standby = PostgresServer::standby_of(&primary, &[]);
    primary.sql("postgres", "ALTER SYSTEM SET synchronous_standby_names = '*'");
    primary.reload();
    primary.wait_until("SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'sync'", "1");
    let place = Place::on(&primary);
    place.configure_url(&url(&[&primary, &standby], &place.database), "");
    let cluster = Cluster::start(place.with_client(), 11, 2, &[]);

    let ends = Arc::new(AtomicBool::new(false));
    let rotations = {
        let ends = Arc::clone(&ends);
        let mut command = cluster.place.folder.command(&["keys", "rotate", "acme", "--json"]);
        std::thread::spawn(move || {
            let mut made = Vec::new();
            while !ends.load(Ordering::Relaxed) && made.iter().flatten().count() < ROTATIONS_MAX {
                made.push(confirmed(&finish(&mut command, b"")));
                std::thread::sleep(ROTATION_PAUSE);
            }
            made
        })
    };
    let traffic = Traffic::start(cluster.client_settings(cluster.addresses()), rate);
    let proceed = || traffic.proceed(requests);
    proceed();
    primary.kill();
    proceed();
    primary.start_again();
    proceed();
    primary.stop();
    primary.start_again();
    primary.wait_until("SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'sync'", "1");
    proceed();
    primary.kill();
    proceed();
    standby.sql("postgres", "SELECT pg_promote()");
    standby.sql("postgres", "ALTER SYSTEM SET synchronous_standby_names = ''");
    standby.reload();
    proceed();
    ends.store(true, Ordering::Relaxed);
    let rotations = rotations.join().expect("no panic");
    proceed();

    let outcome = traffic.finish();
    let stored = versions(&cluster.place, "acme");
    let confirmed: Vec<u64> = rotations.iter().flatten().copied().collect();
    report(
        "outages of the database",
        json!({"requests": outcome.requests, "rate": rate, "refused": outcome.failures, "wrong": outcome.wrong.len(),
            "rotations_confirmed": confirmed.len(), "rotations_failed": rotations.len() - confirmed.len()}),
    );
    assert_eq!(outcome.wrong, Vec::<String>::new());
    assert!(confirmed.iter().all(|version| stored.contains(version)), "{confirmed:?} of {stored:?}");
    // Fail closed: an engine may refuse what it cannot look up, and nothing else goes wrong.
    assert!(outcome.failures.keys().all(|failure| failure.contains("unavailable")), "{:?}", outcome.failures);
    assert!(cluster.place.run(&["store", "check"]).text().contains("every key was opened"));
    outcome.assert_all_open(cluster.client_settings(cluster.addresses()));
}
