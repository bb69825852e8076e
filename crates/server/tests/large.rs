//! A document of 100 MB in both directions, and the memory left afterwards. The test measures its process, and therefore runs alone in it.

#[path = "it/common/mod.rs"]
mod common;

use std::time::Instant;

use common::TestServer;
use leafseal_client::{Client, ClientSettings, EncryptOptions};

/// As in the program: the system's allocator keeps the pieces in which frames arrive.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

const DOCUMENT_SIZE: usize = 100_000_000;

/// Resident memory and its peak, in bytes.
fn memory() -> (usize, usize) {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let field = |name: &str| {
        let line = status.lines().find(|line| line.starts_with(name)).expect("a field of the kernel");
        let kilobytes = line.split_whitespace().nth(1).expect("its value");
        kilobytes.parse::<usize>().unwrap() * 1024
    };
    (field("VmRSS:"), field("VmHWM:"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_document_of_100_mb_goes_both_ways_and_its_memory_comes_back() {
    let test_server = TestServer::new();
    let settings = ClientSettings { request_timeout: common::PATIENCE, ..test_server.client_settings() };
    let client = Client::connect(settings).await.unwrap();
    let (before, _) = memory();
    let began = Instant::now();
    {
        let document: Vec<u8> = (0..DOCUMENT_SIZE).map(|i| b'a' + (i % 23) as u8).collect();
        let echoed = client.encrypt_document(&EncryptOptions::new("echo"), None, &document).await.unwrap();
        assert!(echoed.json == document);
    }
    // The last buffers are freed by other threads.
    common::until("the memory is given back", || memory().0 < before + DOCUMENT_SIZE / 2).await;
    let (after, highest) = memory();
    let megabytes = |bytes: usize| bytes / 1_000_000;
    println!(
        "there and back in {} ms; memory {} MB before, {} MB at most, {} MB afterwards",
        began.elapsed().as_millis(),
        megabytes(before),
        megabytes(highest),
        megabytes(after)
    );
    // At most: the caller's document, the request, its frame at the server in pieces and joined, the test service's copy, the answer, and
    // its frame at the client in pieces and joined. The allocator returns memory a second after it was freed, so all of these may be
    // resident.
    assert!(highest - before < 8 * DOCUMENT_SIZE, "{} MB", megabytes(highest - before));
    let counters = test_server.server.counters();
    assert_eq!((counters.incoming_bytes, counters.pool.bytes_held), (0, 0));
    assert_eq!(client.health().await.unwrap(), "ok");
}
