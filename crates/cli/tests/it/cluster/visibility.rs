//! How soon rotations and revocations apply to every engine.

use std::time::{Duration, Instant};

use leafseal_client::{Client, ClientError, EncryptOptions, ErrorCode, ErrorKind};
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

fn quantiles(mut times: Vec<Duration>) -> serde_json::Value {
    times.sort();
    let at = |share: f64| {
        let index = (times.len() as f64 * share) as usize;
        times[index.min(times.len() - 1)].as_secs_f64() * 1e3
    };
    json!({"changes": times.len(), "p50_ms": at(0.5), "p99_ms": at(0.99), "max_ms": at(1.0)})
}
