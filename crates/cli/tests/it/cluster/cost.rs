//! What a field costs on a shared database, beside another engine and with a store in a file; and what engines ask of PostgreSQL.

use std::time::{Duration, Instant};

use fieldseal_client::{Client, EncryptOptions, Scalar};
use fieldseal_testkit::postgres::PostgresServer;
use serde_json::json;

use super::{Cluster, Engine, report, size};
use crate::shared_store::Place;

const VALUES: usize = 2_000;
/// The unit of times in /proc, on every architecture that matters.
const TICK: Duration = Duration::from_millis(10);
/// Requests in flight to one engine.
const IN_FLIGHT: usize = 4;

/// Processor time of an engine so far.
fn processor_time(engine: &Engine) -> Duration {
    let path = format!("/proc/{}/stat", engine.running().child.id());
    let text = std::fs::read_to_string(path).expect("it runs");
    // The name of the program, in brackets, may contain spaces.
    let fields: Vec<&str> = text.rsplit_once(')').expect("a name").1.split_whitespace().collect();
    let ticks: u32 = fields[11..13].iter().map(|field| field.parse::<u32>().expect("a number")).sum();
    TICK * ticks
}

/// Nanoseconds of processor time per field while these engines encrypt at the same time.
fn cost(cluster: &Cluster<'_>, engines: &[&Engine], seconds: u32) -> f64 {
    let before: Duration = engines.iter().map(|engine| processor_time(engine)).sum();
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("a runtime");
    let end = Instant::now() + Duration::from_secs(u64::from(seconds));
    let mut running = tokio::task::JoinSet::new();
    for engine in engines {
        let client = Client::new(cluster.client_settings(vec![engine.address()])).expect("a client");
        for _ in 0..IN_FLIGHT {
            running.spawn_on(encrypt_until(client.clone(), end), runtime.handle());
        }
    }
    let fields: usize = runtime.block_on(running.join_all()).into_iter().sum();
    let after: Duration = engines.iter().map(|engine| processor_time(engine)).sum();
    (after - before).as_nanos() as f64 / fields as f64
}

async fn encrypt_until(client: Client, end: Instant) -> usize {
    let values = vec![Scalar::from("4111111111111111"); VALUES];
    let mut fields = 0;
    while Instant::now() < end {
        fields += client.encrypt(&EncryptOptions::new("acme"), &values).await.expect("encrypted").len();
    }
    fields
}

fn median(mut of: Vec<f64>) -> f64 {
    of.sort_by(f64::total_cmp);
    of[of.len() / 2]
}

#[test]
fn a_field_costs_the_same_whatever_the_store() {
    let (rounds, seconds) = (size("ROUNDS", 1), size("COST_SECONDS", 1));
    let one_worker = ["server.workers=1", "server.network_threads=1"];
    let shared = Cluster::start(Place::on(PostgresServer::shared()).with_client(), 51, 2, &one_worker);
    let mut file = Place::on(PostgresServer::shared());
    file.use_file();
    let file = Cluster::start(file.with_client(), 53, 1, &one_worker);
    let [first, second] = &shared.engines[..] else { unreachable!("two") };
    let (mut of_file, mut of_one, mut of_two) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..rounds {
        of_file.push(cost(&file, &[&file.engines[0]], seconds));
        of_one.push(cost(&shared, &[first], seconds));
        of_two.push(cost(&shared, &[first, second], seconds));
    }
    let (of_file, of_one, of_two) = (median(of_file), median(of_one), median(of_two));
    report(
        "processor time of a field",
        json!({"rounds": rounds, "sqlite_ns": of_file, "postgres_ns": of_one, "two_engines_ns": of_two,
            "postgres_to_sqlite": of_one / of_file, "two_engines_to_one": 2.0 * of_one / of_two}),
    );
}

/// Counts PostgreSQL's transactions and connections while engines serve requests and after a rotation.
#[test]
fn engines_ask_little_of_the_database() {
    let (count, seconds) = (size("ENGINES", 2), size("IDLE_SECONDS", 2));
    let server = PostgresServer::shared();
    let count_of_engines = u8::try_from(count).expect("at most 100 engines");
    let cluster = Cluster::start(Place::on(server).with_client(), 101, count_of_engines, &["server.workers=1"]);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let clients: Vec<Client> = cluster
        .addresses()
        .into_iter()
        .map(|address| Client::new(cluster.client_settings(vec![address])).expect("a client"))
        .collect();
    let encrypt_with_all = || {
        runtime.block_on(async {
            for client in &clients {
                client.encrypt(&EncryptOptions::new("acme"), &["x".into()]).await.expect("encrypted");
            }
        });
    };
    encrypt_with_all();
    let database = &cluster.place.database;
    // Statistics arrive within a second of what they count, or when a session ends.
    let settled = || std::thread::sleep(Duration::from_secs(2));
    let transactions = || {
        let select = format!("SELECT xact_commit + xact_rollback FROM pg_stat_database WHERE datname = '{database}'");
        server.sql("postgres", &select).parse::<f64>().expect("a number")
    };
    settled();
    let (before, began) = (transactions(), Instant::now());
    while began.elapsed() < Duration::from_secs(u64::from(seconds)) {
        encrypt_with_all();
        std::thread::sleep(Duration::from_millis(50));
    }
    let rate = (transactions() - before) / began.elapsed().as_secs_f64();
    let (before, began) = (transactions(), Instant::now());
    cluster.place.run(&["keys", "rotate", "acme"]).ok();
    encrypt_with_all();
    settled();
    let for_a_change = transactions() - before - rate * began.elapsed().as_secs_f64();
    let select = format!("SELECT count(*) FROM pg_stat_activity WHERE datname = '{database}'");
    let connections: u32 = server.sql("postgres", &select).parse().expect("a number");
    let of_one = |all: f64| (all / f64::from(count) * 100.0).round() / 100.0;
    report(
        "what PostgreSQL sees",
        json!({"engines": count, "seconds": seconds, "connections_per_engine": of_one(f64::from(connections)),
            "transactions_per_second_and_engine": of_one(rate), "transactions_per_change_and_engine": of_one(for_a_change)}),
    );
    assert_eq!(connections, count, "an engine has one connection");
}
