//! Between client and server is a proxy that delays, splits, throttles, cuts, half-closes, drops, stalls, corrupts and replays, by a seeded
//! script. The engine and its store are real, and the content of every call identifies it.
//!
//! Each call ends in time with its own answer or a clear error; afterwards the same client works again, and the server holds no resources.
//! The seed determines the script and the calls, not the scheduling of threads: to reproduce a failure, run its seed more than once.
//! `LEAFSEAL_SEED=17` runs one seed, `LEAFSEAL_SEEDS=1000` runs that many.

#[path = "../it/common/mod.rs"]
mod common;
mod proxy;
mod work;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use common::script::NetworkQuality;
use common::seeds::{seeds, side_by_side};
use common::{PATIENCE, Pki, until};
use leafseal_client::{Client, ClientSettings, ErrorKind};
use leafseal_engine::Settings;
use leafseal_protocol::FrameLimits;
use leafseal_server::{Server, ServerSettings, ShutdownReport};
use leafseal_service::EngineService;
use leafseal_testkit::{EngineFixture, engine};
use proxy::{Proxy, Seen};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use tokio::task::JoinSet;
use work::{Call, Outcome, round_trip};

/// Most of a seed's time is spent waiting.
const SEEDS_AT_A_TIME: usize = 8;
const ROUNDS: usize = 3;
const CALLS_A_ROUND: usize = 8;
/// The timeout of a call over a bad network, and the server's idle timeout.
const SHORT: Duration = Duration::from_millis(800);

/// State shared by all seeds.
struct World {
    pki: Pki,
    engine: EngineFixture,
}

impl World {
    fn new() -> Arc<World> {
        Arc::new(World { pki: Pki::new(), engine: engine(Settings::default(), "shop", None) })
    }

    fn server(&self, quality: NetworkQuality) -> Server {
        let mut settings = ServerSettings {
            address: SocketAddr::from(([127, 0, 0, 1], 0)),
            network_threads: 1,
            workers: 2,
            close_timeout: Duration::from_millis(300),
            ..ServerSettings::new(self.pki.server_tls())
        };
        if quality == NetworkQuality::Corrupting {
            let times = [
                &mut settings.handshake_timeout,
                &mut settings.idle_timeout,
                &mut settings.frame_timeout,
                &mut settings.write_timeout,
            ];
            times.into_iter().for_each(|time| *time = 2 * SHORT);
        }
        let service = EngineService::new(self.engine.engine.clone(), FrameLimits::default(), 1 << 30);
        Server::start(settings, Arc::new(service)).unwrap()
    }

    fn client(&self, address: SocketAddr) -> ClientSettings {
        let tls = self.pki.client_tls(self.pki.client("shop"));
        ClientSettings {
            backoff_min: Duration::from_millis(1),
            retries_max: 1,
            ..ClientSettings::new(address.to_string(), tls)
        }
    }

    fn hasty_client(&self, address: SocketAddr, random: &mut StdRng) -> ClientSettings {
        ClientSettings {
            connections_max: random.random_range(1..4),
            requests_in_flight_max: random.random_range(1..20),
            connect_timeout: SHORT,
            request_timeout: SHORT,
            abandoned_timeout: SHORT / 4,
            backoff_max: Duration::from_millis(20),
            ..self.client(address)
        }
    }
}

/// The result of one seed.
struct SeedResult {
    outcomes: Vec<Outcome>,
    seen: Seen,
    connections: u64,
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn broken_connections_misroute_no_answer_and_lose_none_silently() {
    let world = World::new();
    let results =
        side_by_side(seeds(48), SEEDS_AT_A_TIME, |seed| run(Arc::clone(&world), seed, NetworkQuality::Corrupting))
            .await;
    sum_up(&results);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn when_the_network_is_only_slow_every_call_is_answered() {
    let world = World::new();
    let results =
        side_by_side(seeds(16), SEEDS_AT_A_TIME, |seed| run(Arc::clone(&world), seed, NetworkQuality::Slow)).await;
    assert!(
        results
            .iter()
            .all(|results| results.seen.harm == 0 && results.outcomes.iter().all(|o| *o == Outcome::Answered))
    );
    sum_up(&results);
}

async fn run(world: Arc<World>, seed: u64, quality: NetworkQuality) -> SeedResult {
    let mut random = StdRng::seed_from_u64(seed);
    let server = world.server(quality);
    let control = Client::new(world.client(server.local_addr())).unwrap();
    let mut proxy = Proxy::start(server.local_addr(), seed, quality).await;
    let settings = match quality {
        NetworkQuality::Slow => world.client(proxy.address),
        NetworkQuality::Lossy | NetworkQuality::Corrupting => world.hasty_client(proxy.address, &mut random),
    };
    let client = Client::new(settings).unwrap();
    let mut outcomes = Vec::new();
    for round in 0..ROUNDS {
        let mut calls = JoinSet::new();
        for number in round * CALLS_A_ROUND..(round + 1) * CALLS_A_ROUND {
            let name = format!("seed {seed} call {number}");
            let call = Call::new(number, &mut random, &name, quality == NetworkQuality::Corrupting, &control).await;
            let (client, control) = (client.clone(), control.clone());
            calls.spawn(async move {
                let made = tokio::time::timeout(3 * PATIENCE, call.make(&client, &control)).await;
                made.unwrap_or_else(|_| panic!("call {number} does not end"))
            });
        }
        outcomes.extend(calls.join_all().await);
    }
    let seen = proxy.seen();
    let is_refused = outcomes.contains(&Outcome::Failed(ErrorKind::Tls));
    assert!(!is_refused || seen.forgeries > 0, "TLS refuses only what was forged: {outcomes:?}");

    proxy.heal();
    works_again(&client).await;
    drop((client, control));
    let results = SeedResult { outcomes, seen: proxy.seen(), connections: proxy.connections() };
    holds_nothing(server, &proxy).await;
    proxy.assert_sound();
    results
}

/// Checks that the same client works once new connections do.
async fn works_again(client: &Client) {
    let (began, mut successes) = (Instant::now(), 0);
    while successes < 5 {
        assert!(began.elapsed() < PATIENCE, "the client does not recover");
        match round_trip(client, &format!("after all {successes}")).await {
            Ok(()) => successes += 1,
            Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
        }
    }
}

/// Checks that all connections end, although the proxy still holds those that lead nowhere, that every request was answered once, and that
/// no memory is held.
async fn holds_nothing(server: Server, proxy: &Proxy) {
    until("all repeated connections are refused", || proxy.seen().replays == proxy.seen().replays_ended).await;
    until("all connections are gone", || {
        let counters = server.counters();
        counters.connections_open + counters.handshakes_open == 0
    })
    .await;
    until("nothing is in flight", || server.counters().pool.jobs_held == 0).await;
    let counters = server.counters();
    assert_eq!((counters.incoming_bytes, counters.answers_bytes, counters.pool.bytes_held), (0, 0, 0));
    assert_eq!(counters.requests, counters.ended.total(), "{counters:?}");
    assert!(counters.handshakes_failed >= proxy.seen().replays, "{counters:?}");
    let report = tokio::task::spawn_blocking(|| server.shutdown()).await.unwrap();
    assert_eq!(report, ShutdownReport { requests_abandoned: 0, connections_cut: 0 });
}

fn sum_up(results: &[SeedResult]) {
    let mut outcomes: BTreeMap<String, usize> = BTreeMap::new();
    for outcome in results.iter().flat_map(|results| &results.outcomes) {
        *outcomes.entry(format!("{outcome:?}")).or_default() += 1;
    }
    let sum = |of: fn(&SeedResult) -> u64| results.iter().map(of).sum::<u64>();
    println!(
        "{} seeds, {} connections, {} faults ({} harmful, {} forgeries), {} connections repeated; calls: {outcomes:?}",
        results.len(),
        sum(|results| results.connections),
        sum(|results| results.seen.faults),
        sum(|results| results.seen.harm),
        sum(|results| results.seen.forgeries),
        sum(|results| results.seen.replays),
    );
}
