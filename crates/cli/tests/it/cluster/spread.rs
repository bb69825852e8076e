//! Connections after a third engine is added.

use std::time::{Duration, Instant};

use leafseal_client::Client;
use leafseal_testkit::postgres::PostgresServer;
use serde_json::json;

use super::envoy::Envoy;
use super::traffic::Traffic;
use super::{Cluster, Engine, report, size};
use crate::common::until;
use crate::shared_store::Place;

/// Clients with one connection each, as a service with many instances has.
const CLIENTS: usize = 60;

/// Through Envoy the age of connections spreads them; clients with several addresses are asked to reconnect in the same way.
#[test]
fn connections_spread_over_an_engine_that_is_added() {
    let seconds = size("SPREAD_SECONDS", 6);
    let age = format!("server.connection_age_max={}ms", seconds * 1000 / 2);
    let settings = [age.as_str(), "server.trusted_balancers=127.0.0.0/8"];
    let mut cluster = Cluster::start(Place::on(PostgresServer::shared()).with_client(), 41, 2, &settings);
    cluster.engines.push(Engine::new(43));
    let envoy = Envoy::start(&cluster.place.folder, &cluster.engines);
    let addresses = envoy.as_ref().map_or_else(|| cluster.addresses(), |envoy| vec![envoy.address()]);
    let client_settings = cluster.client_settings(addresses);
    let traffic = Traffic::start(client_settings.clone(), 50);
    let one_each = leafseal_client::ClientSettings { connections_max: 1, ..client_settings };
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("a runtime");
    for number in 0..CLIENTS {
        let client = Client::new(one_each.clone()).expect("a client");
        runtime.spawn(async move {
            tokio::time::sleep(Duration::from_millis(u64::try_from(number).expect("small") * 3)).await;
            loop {
                client.public_keys("acme").await.expect("no call fails");
                tokio::time::sleep(Duration::from_millis(250)).await;
            }
        });
    }
    let open = |engine: &Engine| engine.metric("leafseal_connections_open");
    until("all are connected", || cluster.engines[..2].iter().map(open).sum::<f64>() >= CLIENTS as f64);
    cluster.start_engine(2);
    let began = Instant::now();
    while began.elapsed() < Duration::from_secs(u64::from(seconds)) {
        traffic.proceed(10);
    }
    let counts: Vec<f64> = cluster.engines.iter().map(open).collect();
    drop(runtime);
    let outcome = traffic.finish();
    report(
        "connections after a third engine",
        json!({"through": if envoy.is_some() { "Envoy" } else { "three addresses" }, "seconds": seconds,
            "connections": counts, "requests": outcome.requests, "lost": outcome.lost()}),
    );
    assert!(outcome.failures.is_empty() && outcome.wrong.is_empty(), "{:?} {:?}", outcome.failures, outcome.wrong);
    assert!(counts.iter().all(|count| *count > 0.0), "every engine has connections: {counts:?}");
}
