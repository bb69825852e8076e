//! How soon rotations and revocations apply to every engine.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use leafseal_client::{Client, ClientError, DecryptOptions, EncryptOptions, ErrorCode, ErrorKind, Value};
use leafseal_engine::admin::{AppName, ClientName, Keystore};
use leafseal_testkit::postgres::PostgresServer;
use serde_json::json;
use tokio::runtime::Runtime;

use super::{Cluster, open_keystore, report, size};
use crate::shared_store::Place;

/// Rotations of one app: a keystore keeps at most 256 versions.
const ROTATIONS_OF_ONE_APP: u32 = 250;
const PATIENCE: Duration = Duration::from_secs(60);

fn runtime() -> Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime")
}

fn client(cluster: &Cluster<'_>, index: usize) -> Client {
    let address = cluster.engines[index].address();
    Client::new(cluster.client_settings(vec![address])).expect("a client")
}

/// The version with which an engine encrypts.
pub(super) fn newest(cluster: &Cluster<'_>, index: usize) -> u64 {
    let client = client(cluster, index);
    runtime().block_on(async { client.public_keys("acme").await }).expect("public keys").version
}

/// Calls both engines until the answer of each is what a change makes it; returns how long the later one took.
async fn follow(clients: &[Client; 2], what: &str, is_there: impl AsyncFn(&Client) -> bool) -> Duration {
    let began = Instant::now();
    let one = async |client: &Client| {
        while !is_there(client).await {
            assert!(began.elapsed() < PATIENCE, "waited too long until {what}");
        }
        began.elapsed()
    };
    let (first, second) = tokio::join!(one(&clients[0]), one(&clients[1]));
    first.max(second)
}

async fn is_permitted(client: &Client) -> bool {
    let answer: Result<_, ClientError> = client.encrypt(&EncryptOptions::new("acme"), &["x".into()]).await;
    match answer {
        Ok(_) => true,
        Err(error) if error.kind == ErrorKind::Engine(ErrorCode::Forbidden) => false,
        Err(error) if error.kind == ErrorKind::ConnectionRefused(ErrorCode::Forbidden) => false,
        Err(error) => panic!("neither an answer nor `forbidden`: {error}"),
    }
}

/// Both engines are asked all the time from the moment at which the change is confirmed.
#[test]
fn rotations_and_revocations_reach_every_engine() {
    let changes = size("CHANGES", 30);
    let rounds = changes.div_ceil(3);
    let place = Place::on(PostgresServer::shared()).with_client();
    let apps: Vec<String> = (0..=rounds / ROTATIONS_OF_ONE_APP).map(|number| format!("acme{number}")).collect();
    apps.iter().for_each(|app| drop(place.run(&["keys", "create", app]).ok()));
    let of_apps = apps.iter().flat_map(|app| ["--app", app]);
    let grant = ["certs", "issue", "shop", "--allow", "encrypt,decrypt", "--app", "acme"];
    place.run(&grant.into_iter().chain(of_apps).collect::<Vec<_>>()).ok();
    // The key version of a new envelope is the newest that the engine knows.
    let cluster = Cluster::start(place, 31, 2, &["engine.key_version_delay=0s"]);
    let store = open_keystore(&cluster.place);
    let shop = ClientName::parse("shop").expect("a name");
    let clients = [client(&cluster, 0), client(&cluster, 1)];

    let mut rotations = Vec::new();
    let mut revocations = Vec::new();
    runtime().block_on(async {
        for round in 0..rounds {
            let app = &apps[usize::try_from(round / ROTATIONS_OF_ONE_APP).expect("small")];
            let made = store.rotate(&AppName::parse(app).expect("a name")).expect("rotated");
            let has_it = async |client: &Client| {
                client.public_keys(app).await.expect("public keys").version == u64::from(made.version)
            };
            rotations.push(follow(&clients, "the version is in use", has_it).await);
            store.disable_client(&shop).expect("revoked");
            let is_refused = async |client: &Client| !is_permitted(client).await;
            revocations.push(follow(&clients, "the client is refused", is_refused).await);
            store.enable_client(&shop).expect("permitted");
            rotations.push(follow(&clients, "the client is permitted", is_permitted).await);
        }
    });
    report("visibility of rotations and permissions", quantiles(rotations));
    report("visibility of revocations", quantiles(revocations));
}

/// What the workers of [`symmetric_versions_open_on_every_engine_at_once`] have seen.
#[derive(Default)]
struct Sealed {
    /// Values that one engine sealed and the other opened, by the key id that their envelope names.
    by_key: BTreeMap<String, u64>,
}

/// Seals on one engine and opens on the other, again and again. Any failure is a loss: no version may open later than it seals.
async fn seal_and_open(clients: [&Client; 2], app: &str, round: u64) -> String {
    let value = format!("value {round}");
    let sealed = clients[0].encrypt(&EncryptOptions::new(app), &[value.as_str().into()]).await.expect("sealed");
    let Value::Str(envelope) = &sealed[0] else { panic!("{sealed:?}") };
    let opened = clients[1].decrypt(&DecryptOptions::new(app), &[envelope.as_str().into()]).await;
    let opened = opened.unwrap_or_else(|error| panic!("{envelope} does not open on the other engine: {error}"));
    assert_eq!(opened, [Value::Str(value)]);
    envelope.split(':').nth(2).expect("a key id").to_owned()
}

/// While versions are made, both engines seal for each other. A new version seals as soon as an engine knows it, and opens on one that does
/// not.
#[test]
fn symmetric_versions_open_on_every_engine_at_once() {
    let rotations = size("CHANGES", 30);
    let place = Place::on(PostgresServer::shared()).with_client();
    let apps: Vec<String> = (0..=rotations / ROTATIONS_OF_ONE_APP).map(|number| format!("acme{number}")).collect();
    apps.iter().for_each(|app| drop(place.run(&["keys", "create", app]).ok()));
    let of_apps = apps.iter().flat_map(|app| ["--app", app]);
    let grant = ["certs", "issue", "shop", "--allow", "encrypt,decrypt", "--app", "acme"];
    place.run(&grant.into_iter().chain(of_apps).collect::<Vec<_>>()).ok();
    let cluster = Cluster::start(place, 33, 2, &["engine.scheme=symmetric"]);
    let store = open_keystore(&cluster.place);
    let clients = [client(&cluster, 0), client(&cluster, 1)];
    let mut sealed = [Sealed::default(), Sealed::default()];
    let mut times = Vec::new();
    runtime().block_on(async {
        for rotation in 0..rotations {
            let app = &apps[usize::try_from(rotation / ROTATIONS_OF_ONE_APP).expect("small")];
            let name = AppName::parse(app).expect("a name");
            let rotated = store.rotate(&name).expect("rotated");
            let newest = rotated.symmetric.expect("each version has one").0;
            let newest = STANDARD_NO_PAD.encode(newest);
            let began = Instant::now();
            let both = |one: usize| {
                let (clients, newest) = ([&clients[one], &clients[1 - one]], &newest);
                async move {
                    let mut seen = Vec::new();
                    loop {
                        let key = seal_and_open(clients, app, u64::from(rotation)).await;
                        let is_newest = key == *newest;
                        seen.push(key);
                        if is_newest {
                            return (seen, began.elapsed());
                        }
                        assert!(began.elapsed() < PATIENCE, "waited too long until the version seals");
                    }
                }
            };
            let (first, second) = tokio::join!(both(0), both(1));
            times.push(first.1.max(second.1));
            for (sealed, (seen, _)) in sealed.iter_mut().zip([first, second]) {
                seen.into_iter().for_each(|key| *sealed.by_key.entry(key).or_default() += 1);
            }
        }
    });
    let values: u64 = sealed.iter().flat_map(|sealed| sealed.by_key.values()).sum();
    let mut figures = quantiles(times);
    figures["values"] = values.into();
    report("symmetric versions in use", figures);
    assert!(sealed.iter().all(|sealed| sealed.by_key.len() >= rotations as usize), "each version sealed");
}

fn quantiles(mut times: Vec<Duration>) -> serde_json::Value {
    times.sort();
    let at = |share: f64| {
        let index = (times.len() as f64 * share) as usize;
        times[index.min(times.len() - 1)].as_secs_f64() * 1e3
    };
    json!({"changes": times.len(), "p50_ms": at(0.5), "p99_ms": at(0.99), "max_ms": at(1.0)})
}
