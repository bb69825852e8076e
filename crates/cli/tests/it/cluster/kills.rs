//! Engines and commands that are killed in the middle of rotations.

use std::process::Stdio;
use std::time::Duration;

use leafseal_testkit::postgres::PostgresServer;
use serde_json::json;

use super::outages::confirmed;
use super::traffic::Traffic;
use super::{Cluster, report, size, versions};
use crate::common::{CommandResult, until};
use crate::shared_store::Place;

/// Delays before a kill cover a rotation from its start to its end, as the first ones take.
const STEPS: u32 = 16;

#[test]
fn a_version_is_whole_or_was_never_confirmed() {
    kill_during_rotations("kills during rotations", 21, &[]);
}

#[test]
fn a_symmetric_version_is_whole_or_was_never_confirmed() {
    kill_during_rotations("kills during rotations of symmetric keys", 23, &["engine.scheme=symmetric"]);
}

/// Kills, in turn, the command that rotates, an engine, and both.
fn kill_during_rotations(name: &str, first_engine: u8, settings: &[&str]) {
    let kills = size("KILLS", 12);
    let mut cluster = Cluster::start(Place::on(PostgresServer::shared()).with_client(), first_engine, 2, settings);
    let settings = cluster.client_settings(cluster.addresses());
    let traffic = Traffic::start(settings.clone(), size("RATE", 300).min(300));
    traffic.proceed(50);
    let began = std::time::Instant::now();
    cluster.place.run(&["keys", "rotate", "acme"]).ok();
    let step = began.elapsed() / STEPS;

    let mut made = Vec::new();
    for kill in 0..kills {
        let mut command = cluster.place.folder.command(&["keys", "rotate", "acme", "--json"]);
        let rotating = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut rotating = rotating.spawn().expect("started");
        std::thread::sleep(step * (kill * 7 % (STEPS + 2)) + Duration::from_micros(u64::from(kill)));
        let index = usize::try_from(kill % 2).expect("small");
        if kill % 3 != 1 {
            // It may have ended.
            let _ = rotating.kill();
        }
        if kill % 3 != 0 {
            cluster.engines[index].kill();
        }
        let output = rotating.wait_with_output().expect("it ends");
        // Lines that a killed command printed before count as well.
        let code = if output.stdout.ends_with(b"}\n") { 0 } else { output.status.code().unwrap_or(-1) };
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        made.extend(confirmed(&CommandResult { code, stdout: output.stdout, stderr, memory_max: 0 }));
        if kill % 3 != 0 {
            cluster.start_engine(index);
        }
        traffic.proceed(20);
    }
    let outcome = traffic.finish();
    let stored = versions(&cluster.place, "acme");
    report(
        name,
        json!({"kills": kills, "confirmed": made.len(), "versions": stored.len(), "requests": outcome.requests,
            "cut": outcome.lost(), "wrong": outcome.wrong.len()}),
    );
    assert_eq!(outcome.wrong, Vec::<String>::new());
    // A request that was with an engine when it was killed has no answer; nothing else fails.
    let is_expected = |failure: &String| failure.contains("connection") || failure.contains("connect");
    assert!(outcome.failures.keys().all(is_expected), "{:?}", outcome.failures);
    assert!(made.iter().all(|version| stored.contains(version)), "{made:?} of {stored:?}");
    let numbered: Vec<u64> = (1..).take(stored.len()).collect();
    assert_eq!(stored, numbered, "no version is missing");
    assert!(cluster.place.run(&["store", "check"]).text().contains("every key was opened"));
    outcome.assert_all_open(settings);
    // An engine that starts now encrypts with the newest.
    cluster.engines[0].kill();
    cluster.start_engine(0);
    let newest = *stored.last().expect("versions");
    until("both engines know the newest version", || {
        (0..2).all(|index| super::visibility::newest(&cluster, index) == newest)
    });
}
