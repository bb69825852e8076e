//! Rolling restarts of two engines under load.

use leafseal_testkit::postgres::PostgresServer;
use serde_json::json;

use super::envoy::Envoy;
use super::traffic::Traffic;
use super::{Cluster, report, size};
use crate::common::until;
use crate::shared_store::Place;

/// As an orchestrator restarts them: SIGTERM, the end of the process, a new one, readiness, and only then the next.
#[test]
fn rolling_restarts_lose_no_request() {
    let (rounds, rate) = (size("RESTARTS", 1), size("RATE", 300));
    let server = PostgresServer::shared();
    // The delay is that of the defaults, for which Envoy's configuration is made.
    let settings = ["server.drain_delay=5s", "server.trusted_balancers=127.0.0.0/8"];
    let mut cluster = Cluster::start(Place::on(server).with_client(), 1, 2, &settings);
    let envoy = Envoy::start(&cluster.place.folder, &cluster.engines);
    let addresses = envoy.as_ref().map_or_else(|| cluster.addresses(), |envoy| vec![envoy.address()]);
    let traffic = Traffic::start(cluster.client_settings(addresses.clone()), rate);
    traffic.proceed(u64::from(rate));
    for _ in 0..rounds {
        for index in 0..cluster.engines.len() {
            cluster.engines[index].terminate();
            cluster.start_engine(index);
            traffic.proceed(u64::from(rate));
        }
    }
    let aim = u64::from(size("REQUESTS", 0));
    until("there were as many requests", || {
        traffic.proceed(u64::from(rate));
        traffic.sent() >= aim
    });
    let outcome = traffic.finish();
    report(
        "rolling restarts",
        json!({"through": if envoy.is_some() { "Envoy" } else { "two addresses" }, "restarts": rounds * 2, "rate": rate,
            "requests": outcome.requests, "lost": outcome.lost(), "wrong": outcome.wrong.len()}),
    );
    assert!(outcome.failures.is_empty() && outcome.wrong.is_empty(), "{:?} {:?}", outcome.failures, outcome.wrong);
    outcome.assert_all_open(cluster.client_settings(addresses));
}
