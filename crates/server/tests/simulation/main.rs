//! Clients, server and pool in one thread, all of them real except for sockets, TLS and time. Seeds determine how the network delays,
//! splits, drops, cuts and replays, which task is woken first, when a worker takes its next slice, what happens during one, and when
//! callers give up, clients disconnect and the server shuts down.
//!
//! Some schedules have two engines that are restarted one after the other: no call is lost then, and none is executed twice.
//!
//! In every schedule each call ends once, with its own answer or an error that matches the faults injected into it; a request that is
//! cancelled, cut off or late runs no further step and leaves before the others of its connection, which gets its fair share of the
//! workers; at the end the server holds no resources. `LEAFSEAL_SEED=17` runs one seed, which is deterministic, `LEAFSEAL_SEEDS=10000`
//! runs that many.

mod calls;
#[path = "../it/common/mod.rs"]
mod common;
mod executor;
mod journal;
mod lane;
mod material;
mod network;
mod service;
mod shares;
mod watch;
mod world;

use std::ops::AddAssign;
use std::panic::resume_unwind;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use common::script::NetworkQuality;
use common::seeds::{Named, seeds};
use leafseal_client::{Client, ClientSettings, ClientTls, ErrorCode};
use leafseal_server::ServerCounters;
use rand::RngExt;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use calls::Call;
use material::{Material, SEALED};
use network::{ClientNetwork, address_of};
use world::World;

const SCHEDULES: u64 = 300;
/// Simulated time, which passes without waiting.
const PATIENCE: Duration = Duration::from_secs(600);
/// The time in which the server's timeouts end every connection that leads nowhere.
const LAST_CONNECTION: Duration = Duration::from_secs(90);
/// The same during a shutdown.
const CLOSING: Duration = Duration::from_secs(10);

static MATERIAL: LazyLock<Material> = LazyLock::new(Material::new);

/// Counts of events, over all schedules.
#[derive(Clone, Debug, Default)]
struct Sum {
    schedules: u64,
    slices: u64,
    restarts: u64,
    drained: u64,
    abandoned: u64,
    shared: u64,
    server: watch::Seen,
    clients: journal::Seen,
}

/// One client of a schedule: the calls of its callers, and when it disconnects.
struct ClientPlan {
    callers: Vec<Vec<Call>>,
    settings: ClientSettings,
    goes_after: Option<Duration>,
}

#[test]
fn every_schedule_keeps_the_promises() {
    let (mut sum, mut digests, seeds) = (Sum::default(), 0, seeds(SCHEDULES));
    for &seed in &seeds {
        let _named = Named(seed);
        let (reported, digest) = play(seed);
        sum += reported;
        digests ^= digest;
    }
    println!("{sum:#?}, the same each time: {digests:x}");
    if seeds.len() as u64 >= SCHEDULES {
        assert_much_happened(&sum);
    }
}

#[test]
fn a_schedule_is_the_same_each_time() {
    for seed in 0..20 {
        let _named = Named(seed);
        assert_eq!(play(seed).1, play(seed).1);
    }
}

/// Checks that every kind of event occurred; others would be untested.
fn assert_much_happened(sum: &Sum) {
    let Sum { server, clients, .. } = sum;
    let counts = [
        sum.restarts,
        sum.drained,
        sum.abandoned,
        sum.shared,
        server.nested,
        server.cancelled,
        server.late,
        server.in_hand,
        server.again,
        clients.draining,
        clients.again,
        clients.answered,
        clients.given_up,
        clients.cancels_due,
        clients.harms,
        clients.repeated,
    ];
    let kinds = ["Connect", "Timeout", "ConnectionLost", "DeadlineExceeded", "Unavailable", "Overloaded"];
    let failed =
        |kind: &str| clients.failed.iter().filter(|(name, _)| name.contains(kind)).map(|(_, count)| count).sum();
    let least = counts.into_iter().chain(kinds.map(failed)).min();
    assert!(least > Some(10), "{sum:?}");
}

/// Runs a schedule in its own runtime; returns its events, and a digest of them.
fn play(seed: u64) -> (Sum, u64) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    runtime.block_on(tokio::task::unconstrained(schedule(seed)))
}

async fn schedule(seed: u64) -> (Sum, u64) {
    let world = World::new(&MATERIAL, seed);
    let is_alone = world.addresses() == 1;
    let drains_after = (is_alone && world.below(3) == 0).then(|| Duration::from_millis(world.below(60)));
    let drain_timeout = Duration::from_millis(if world.below(2) == 0 { world.below(3) } else { 5_000 });
    let abandoned = world.play(timeout(PATIENCE, script(&world, drains_after, drain_timeout))).await;
    let abandoned = abandoned.expect("the schedule does not end");
    world.watch.assert_sound();
    world.watch.assert_empty();
    // A restarted engine may have closed a connection before it could announce that.
    world.journal.assert_complete(world.is_closing() || world.addresses() > 1);
    assert_no_memory_is_used(&world);
    let pools: Vec<_> = world.engines().iter().map(|engine| engine.counters().pool).collect();
    let sum = Sum {
        schedules: 1,
        slices: pools.iter().map(|pool| pool.slices).sum(),
        restarts: pools.len() as u64 - world.addresses() as u64,
        drained: u64::from(drains_after.is_some()),
        abandoned: abandoned as u64,
        shared: pools.iter().map(|pool| pool.turns_shared).sum(),
        server: world.watch.seen(),
        clients: world.journal.seen(),
    };
    (sum, world.digest())
}

/// The work of all clients, then the end of the server's connections; returns how many requests were abandoned.
async fn script(world: &Arc<World>, drains_after: Option<Duration>, drain_timeout: Duration) -> usize {
    let mut lives = JoinSet::new();
    for (index, plan) in client_plans(world).into_iter().enumerate() {
        lives.spawn(live(Arc::clone(world), index, plan));
    }
    let shutdown = async {
        match drains_after {
            Some(time) => {
                sleep(time).await;
                shut_down(world, 0, drain_timeout).await
            }
            None => restart_all(world, drain_timeout).await,
        }
    };
    let (survivors, abandoned) = tokio::join!(join_all(&mut lives), shutdown);
    if drains_after.is_none() {
        world.heal();
        for (index, client) in survivors.iter().flatten().enumerate() {
            works_again(client, index).await;
        }
    }
    drop(survivors);
    no_connection_is_left(world, LAST_CONNECTION).await;
    abandoned
}

async fn join_all<T: 'static>(tasks: &mut JoinSet<T>) -> Vec<T> {
    let mut results = Vec::new();
    while let Some(joined) = tasks.join_next().await {
        results.push(joined.unwrap_or_else(|error| resume_unwind(error.into_panic())));
    }
    results
}

fn client_plans(world: &World) -> Vec<ClientPlan> {
    let mut random = world.fork();
    let mut numbers = 0..SEALED;
    let mut plan = || {
        let callers = (0..random.random_range(1..5)).map(|_| {
            let calls = numbers.by_ref().take(random.random_range(1..7));
            calls.map(|number| Call::random(number, &mut random)).collect()
        });
        let callers = callers.collect();
        let first = random.random_range(0..world.addresses());
        let addresses = (0..world.addresses()).map(|step| address_of((first + step) % world.addresses()));
        let settings = ClientSettings {
            addresses: addresses.collect(),
            // If another engine serves, a few attempts must suffice.
            retries_max: if world.addresses() > 1 { 4 } else { random.random_range(0..4) },
            connections_max: random.random_range(1..4),
            requests_in_flight_max: random.random_range(1..20),
            connect_timeout: Duration::from_secs(1),
            request_timeout: world.request_timeout(),
            abandoned_timeout: Duration::from_secs(1),
            backoff_min: Duration::from_millis(1),
            backoff_max: world.retry_pause_max(),
            ..ClientSettings::new("", nobody())
        };
        let goes_after = random.random_bool(0.2).then(|| Duration::from_millis(random.random_range(0..60)));
        ClientPlan { callers, settings, goes_after }
    };
    (0..1 + world.below(5)).map(|_| plan()).collect()
}

fn nobody() -> ClientTls {
    ClientTls::default()
}

/// Runs a client; returns it unless it disconnects early.
async fn live(world: Arc<World>, index: usize, plan: ClientPlan) -> Option<Client> {
    let client = Client::simulated(plan.settings, ClientNetwork { world: Arc::clone(&world), client: index });
    let mut callers = JoinSet::new();
    for calls in plan.callers {
        let (world, client) = (Arc::clone(&world), client.clone());
        callers.spawn(async move {
            for call in calls {
                sleep(call.pause).await;
                call.make(&world, index, &client).await;
            }
        });
    }
    let all = join_all(&mut callers);
    match plan.goes_after {
        None => drop(all.await),
        Some(time) => {
            if timeout(time, all).await.is_err() {
                callers.shutdown().await;
                return None;
            }
        }
    }
    Some(client)
}

/// A client with dead connections detects and replaces them.
async fn works_again(client: &Client, index: usize) {
    for _ in 0..100 {
        if client.health().await.is_ok() {
            return;
        }
        sleep(Duration::from_millis(50)).await;
    }
    panic!("client {index} does not recover");
}

/// Restarts the engines one after the other, if there are several; returns how many requests were abandoned.
async fn restart_all(world: &Arc<World>, drain_timeout: Duration) -> usize {
    let mut abandoned = 0;
    for host in (0..world.addresses()).filter(|_| world.addresses() > 1) {
        sleep(Duration::from_millis(world.below(30))).await;
        abandoned += shut_down(world, host, drain_timeout).await;
        world.restart(host);
    }
    abandoned
}

/// Shuts down like a server: first it serves and sends `going_away`; then requests in flight finish and new ones are refused; then
/// connections end.
async fn shut_down(world: &World, host: usize, drain_timeout: Duration) -> usize {
    let engine = world.engine_at(host);
    let delay = Duration::from_millis(world.below(3) * world.below(30));
    if !delay.is_zero() {
        world.begin_shutdown(host, delay);
        sleep(delay).await;
    }
    world.begin_draining(host);
    let is_drained = async {
        while engine.counters().pool.jobs_held > 0 {
            sleep(Duration::from_millis(1)).await;
        }
    };
    let is_in_time = timeout(drain_timeout, is_drained).await.is_ok();
    let abandoned = world.begin_closing(host);
    assert!(!is_in_time || abandoned == 0, "{abandoned} requests were abandoned though all were finished");
    let gone = async {
        while engine.counters().connections_open > 0 {
            sleep(Duration::from_millis(1)).await;
        }
    };
    timeout(CLOSING, gone).await.expect("connections that do not end");
    abandoned
}

async fn no_connection_is_left(world: &World, patience: Duration) {
    let gone = async {
        while world.has_connections() {
            sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(patience, gone).await.expect("connections that do not end");
}

fn assert_no_memory_is_used(world: &World) {
    world.engines().iter().for_each(|engine| assert_no_memory_is_used_by(&engine.counters()));
    assert!(world.quality == NetworkQuality::Lossy || world.journal.seen().harms == 0);
}

fn assert_no_memory_is_used_by(counters: &ServerCounters) {
    let pool = counters.pool;
    assert_eq!((counters.connections_open, counters.incoming_bytes, counters.answers_bytes), (0, 0, 0));
    assert_eq!((pool.jobs_held, pool.bytes_held, pool.jobs_waiting, pool.workers_busy), (0, 0, 0, 0));
    let ended = counters.ended;
    let faults = [ErrorCode::Internal, ErrorCode::InvalidRequest].map(|code| ended.of(code));
    assert_eq!((pool.jobs_panicked, faults), (0, [0, 0]));
    assert_eq!(counters.requests, ended.total(), "{counters:?}");
}

impl AddAssign for Sum {
    fn add_assign(&mut self, other: Sum) {
        self.schedules += other.schedules;
        self.slices += other.slices;
        self.restarts += other.restarts;
        self.drained += other.drained;
        self.abandoned += other.abandoned;
        self.shared += other.shared;
        self.server += other.server;
        self.clients += other.clients;
    }
}
