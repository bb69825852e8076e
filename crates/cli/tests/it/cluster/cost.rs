//! The cost of a field on a shared database, beside another engine and with a store in a file; and what engines ask of PostgreSQL.

use std::time::{Duration, Instant};

use leafseal_client::{Client, EncryptOptions, Scalar};
use leafseal_testkit::postgres::PostgresServer;
use rustix::process::Pid;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
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

/// The work of all engines in a time.
struct Measured {
    fields_per_second: f64,
    /// Of their processor time.
    nanoseconds_per_field: f64,
}

/// Measures while these engines encrypt at the same time, each with a client on a core of its own: two engines then find on each core what
/// one finds on the one it has.
fn measure(cluster: &Cluster<'_>, engines: &[&Engine], seconds: u32) -> Measured {
    let cores = cores();
    let core_of = |index: usize| cores[index % cores.len()];
    for (index, engine) in engines.iter().enumerate() {
        threads(engine).for_each(|thread| keep(Some(thread), core_of(index)));
    }
    let processor_time = || engines.iter().map(|engine| processor_time(engine)).sum::<Duration>();
    let (began, before) = (Instant::now(), processor_time());
    let end = began + Duration::from_secs(u64::from(seconds));
    let fields: usize = std::thread::scope(|scope| {
        let clients = engines.iter().enumerate().map(|(index, engine)| {
            let settings = cluster.client_settings(vec![engine.address()]);
            scope.spawn(move || {
                keep(None, core_of(index));
                encrypt_until(&Client::new(settings).expect("a client"), end)
            })
        });
        clients.collect::<Vec<_>>().into_iter().map(|client| client.join().expect("no panic")).sum()
    });
    Measured {
        fields_per_second: fields as f64 / began.elapsed().as_secs_f64(),
        nanoseconds_per_field: (processor_time() - before).as_nanos() as f64 / fields as f64,
    }
}

/// The cores that this process may use.
fn cores() -> Vec<usize> {
    let allowed = sched_getaffinity(None).expect("the cores of this process");
    (0..CpuSet::MAX_CPU).filter(|core| allowed.is_set(*core)).collect()
}

/// Keeps a thread, this one without a number, on a core.
fn keep(thread: Option<Pid>, core: usize) {
    let mut cores = CpuSet::new();
    cores.set(core);
    sched_setaffinity(thread, &cores).expect("a core of this process");
}

/// The threads of an engine.
fn threads(engine: &Engine) -> impl Iterator<Item = Pid> {
    let folder = format!("/proc/{}/task", engine.running().child.id());
    std::fs::read_dir(folder).expect("it runs").map(|entry| {
        let number = entry.expect("a thread").file_name().into_string().expect("a number");
        Pid::from_raw(number.parse().expect("a number")).expect("not 0")
    })
}

/// Keeps some requests in flight until then; returns how many fields were encrypted.
fn encrypt_until(client: &Client, end: Instant) -> usize {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let requests = (0..IN_FLIGHT).map(|_| encrypt_one_after_the_other(client.clone(), end));
        requests.collect::<tokio::task::JoinSet<_>>().join_all().await.into_iter().sum()
    })
}

async fn encrypt_one_after_the_other(client: Client, end: Instant) -> usize {
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
        of_file.push(measure(&file, &[&file.engines[0]], seconds));
        of_one.push(measure(&shared, &[first], seconds));
        of_two.push(measure(&shared, &[first, second], seconds));
    }
    let cost = |of: &[Measured]| median(of.iter().map(|it| it.nanoseconds_per_field).collect());
    // Each with the measurement of its own round, so that a change of the machine's speed is in both.
    let ratios = of_two.iter().zip(&of_one).map(|(two, one)| two.fields_per_second / one.fields_per_second);
    let rate = |of: &[Measured]| median(of.iter().map(|it| it.fields_per_second).collect());
    report(
        "processor time of a field",
        json!({"rounds": rounds, "sqlite_ns": cost(&of_file), "postgres_ns": cost(&of_one), "two_engines_ns": cost(&of_two),
            "postgres_to_sqlite": cost(&of_one) / cost(&of_file), "one_engine_fields_per_second": rate(&of_one),
            "two_engines_fields_per_second": rate(&of_two), "two_engines_to_one": median(ratios.collect())}),
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
