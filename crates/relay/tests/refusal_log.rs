//! The number of log lines that clients and upstreams can cause is limited, and the lines name the client. The test has a process of its
//! own because it collects the process's log.

#[path = "it/common/mod.rs"]
mod common;

use std::io::{self, Write};
use std::net::SocketAddr;
use std::sync::Mutex;

use common::{Identity, Pieces, TestRelay};
use hyper::{StatusCode, Version};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpSocket;

static LOG: Mutex<Vec<u8>> = Mutex::new(Vec::new());

struct Collector;

impl Write for Collector {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        LOG.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The lines that contain these words.
fn lines(words: &str) -> Vec<String> {
    let log = String::from_utf8(LOG.lock().unwrap().clone()).unwrap();
    log.lines().filter(|line| line.contains(words)).map(str::to_owned).collect()
}

/// An upstream that is down turns each request into a 502, and an attacker can send any number of them.
#[tokio::test(flavor = "multi_thread")]
async fn a_flood_of_refusals_leaves_few_lines_and_a_count() {
    const SENT: usize = 400;
    tracing_subscriber::fmt().with_ansi(false).with_writer(|| Collector).init();
    let test_relay = TestRelay::new("http://127.0.0.1:1", &Identity::new(), "", "");
    let mut client = test_relay.client(Version::HTTP_11).await;
    for _ in 0..SENT {
        assert_eq!(client.send("GET", "/", Pieces::of([])).await.status, StatusCode::BAD_GATEWAY);
    }
    let refused = lines("outcome=\"upstream_unreachable\"");
    // In windows of 10 s, half of 100 lines each.
    assert!(!refused.is_empty() && refused.len() < SENT && refused.len().is_multiple_of(50), "{} lines", refused.len());
    assert!(refused[0].contains(" WARN ") && refused[0].contains("address=\"127.0.0.1\""), "{}", refused[0]);
    assert!(refused[0].contains("status=502") && refused[0].contains("listener=\"inbound-0\""), "{}", refused[0]);
    drop(client);

    // Another client still gets a line, and that line carries the count of suppressed ones.
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind(SocketAddr::from(([127, 0, 0, 2], 0))).unwrap();
    let mut other = socket.connect(test_relay.address(false)).await.unwrap();
    other.write_all(b"GET / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n").await.unwrap();
    let mut answer = String::new();
    other.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 502 "), "{answer}");
    assert_eq!(lines("address=\"127.0.0.2\"").len(), 1);
    let counts = lines("suppressed=");
    let suppressed = counts.iter().map(|line| {
        let count = line.split("suppressed=").nth(1).unwrap();
        count.split(' ').next().unwrap().parse::<usize>().unwrap()
    });
    assert_eq!(suppressed.sum::<usize>() + refused.len(), SENT);
}
