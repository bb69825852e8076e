//! The cost of the network without any work: client and server of one process on loopback, the service echoes.
//!
//! One call at a time, 64 at a time, and bulk. Both ends share the processors, so that the figures bound the server's part
//! from above.

#[path = "../tests/it/common/mod.rs"]
mod common;

use std::hint::black_box;
use std::time::Duration;

use common::TestServer;
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use leafseal_client::{Client, EncryptOptions};
use tokio::runtime::{Builder, Runtime};

const CALLS_AT_A_TIME: usize = 64;

async fn echo(client: &Client, document: &[u8]) {
    let answer = client.encrypt_document(&EncryptOptions::new("echo"), None, document).await;
    assert_eq!(black_box(answer).expect("an answer").json.len(), document.len());
}

fn network(criterion: &mut Criterion) {
    let runtime: Runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("a runtime");
    let test_server = TestServer::with(|settings| settings.workers = 1);
    let mut settings = test_server.client_settings();
    settings.connections_max = 1;
    let client = runtime.block_on(Client::connect(settings)).expect("a connection");

    let mut group = criterion.benchmark_group("network");
    group.measurement_time(Duration::from_secs(3)).sample_size(20);
    group.throughput(Throughput::Elements(1));
    group.bench_function("one call of 30 bytes", |bencher| {
        bencher.iter(|| runtime.block_on(echo(&client, &[b'x'; 30])));
    });
    group.throughput(Throughput::Elements(CALLS_AT_A_TIME as u64));
    group.bench_function("64 calls of 30 bytes at a time", |bencher| {
        bencher.iter(|| {
            let calls: Vec<_> = (0..CALLS_AT_A_TIME)
                .map(|_| {
                    let client = client.clone();
                    runtime.spawn(async move { echo(&client, &[b'x'; 30]).await })
                })
                .collect();
            for call in calls {
                runtime.block_on(call).expect("no panic");
            }
        });
    });
    for size in [100_000, 10_000_000] {
        let document = vec![b'x'; size];
        group.throughput(Throughput::Bytes(2 * size as u64));
        group.bench_function(format!("{size} bytes there and back"), |bencher| {
            bencher.iter(|| runtime.block_on(echo(&client, &document)));
        });
    }
    group.finish();
}

criterion_group!(benches, network);
criterion_main!(benches);
