//! A running engine that is stopped with a request in flight.

use std::net::TcpStream;
use std::time::{Duration, Instant};

use crate::common::{Running, TestFolder};
use leafseal_client::raw::{EncodedRequest, Message, RawConnection, RawConnector, request};
use leafseal_client::{Client, ClientError, ClientSettings, EncryptOptions, ErrorKind, Keying, Scalar, Value};
use rustix::process::{Pid, Signal, kill_process};
use tokio::task::JoinHandle;

/// Long enough for a slow machine; a passing test never waits for it.
const PATIENCE: Duration = Duration::from_secs(60);

struct TestEngine {
    engine: Running,
    client: Client,
    _workplace: TestFolder,
}

impl TestEngine {
    fn new(settings: &[&str]) -> Self {
        let test_folder = TestFolder::new();
        // With many workers the request would be done too early.
        let engine = test_folder.engine(&[&["--set", "server.workers=1"], settings].concat());
        let settings = engine.client_settings();
        let settings = ClientSettings { request_timeout: 4 * PATIENCE, connections_max: 1, ..settings };
        let client = Client::new(settings).expect("a client");
        Self { engine, client, _workplace: test_folder }
    }

    /// Sends a request with this many key agreements, and waits until it runs.
    async fn begin(&self, values: usize) -> JoinHandle<Result<Vec<Value>, ClientError>> {
        let client = self.client.clone();
        let running = tokio::spawn(async move {
            let options = EncryptOptions { keying: Some(Keying::Field), ..EncryptOptions::new("acme") };
            client.encrypt(&options, &vec![Scalar::from("x"); values]).await
        });
        self.wait_until(|test_engine| test_engine.engine.probe("/metrics").contains("\nleafseal_queue_jobs 1\n")).await;
        running
    }

    async fn wait_until(&self, condition: impl Fn(&Self) -> bool) {
        let began = Instant::now();
        while !condition(self) {
            assert!(began.elapsed() < PATIENCE, "waited too long");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    fn is_ready(&self) -> bool {
        self.engine.probe("/readyz").starts_with("HTTP/1.1 200 ")
    }

    fn terminate(&self) {
        kill_process(Pid::from_child(&self.engine.child), Signal::TERM).expect("it runs");
    }

    async fn exit_code(&mut self) -> Option<i32> {
        let began = Instant::now();
        loop {
            if let Some(status) = self.engine.child.try_wait().expect("waited") {
                return status.code();
            }
            assert!(began.elapsed() < PATIENCE, "it does not end");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

/// Sends what `encode` appends over a client that ignores `going_away`; returns the error's code, or `None`.
async fn ask(connection: &mut RawConnection, encode: impl FnOnce(u32, &mut Vec<u8>)) -> Option<String> {
    connection.send(0, &EncodedRequest::new(encode));
    let frame = connection.next().await.expect("an answer");
    match Message::parse(frame).expect("a message") {
        Message::Response { result, .. } => result.err().map(|error| error.error().expect("an error").code.to_owned()),
        other => panic!("no response: {other:?}"),
    }
}

#[tokio::test]
async fn everything_is_served_for_the_drain_delay_while_the_engine_is_not_ready() {
    let mut test_engine = TestEngine::new(&["--set", "server.drain_delay=1h"]);
    assert!(test_engine.is_ready());
    let in_flight = test_engine.begin(20_000).await;
    test_engine.terminate();
    test_engine.wait_until(|test_engine| !test_engine.is_ready()).await;
    assert_eq!(test_engine.client.health().await.expect("an open connection is served"), "ok");
    let fresh = Client::connect(test_engine.engine.client_settings()).await.expect("a new connection is served");
    fresh.encrypt(&EncryptOptions::new("acme"), &[Scalar::from("x")]).await.expect("a new request is served");
    assert_eq!(in_flight.await.expect("no panic").expect("an answer").len(), 20_000);
    // The test need not wait for the hour.
    test_engine.terminate();
    assert_eq!(test_engine.exit_code().await, Some(0));
}

/// A user at the keyboard does not wait.
#[tokio::test]
async fn an_interrupt_skips_the_drain_delay() {
    let mut test_engine = TestEngine::new(&["--set", "server.drain_delay=1h"]);
    kill_process(Pid::from_child(&test_engine.engine.child), Signal::INT).expect("it runs");
    assert_eq!(test_engine.exit_code().await, Some(0));
}

#[tokio::test]
async fn requests_in_flight_finish_and_new_ones_are_refused() {
    let mut test_engine = TestEngine::new(&["--set", "server.drain_delay=0s", "--set", "server.drain_timeout=1h"]);
    assert!(test_engine.is_ready());
    let connector = RawConnector::new(test_engine.engine.client_settings()).expect("settings");
    let mut old = connector.connect().await.expect("a connection");
    let in_flight = test_engine.begin(60_000).await;
    assert_eq!(ask(&mut old, request::info).await, None);
    test_engine.terminate();
    test_engine.wait_until(|test_engine| !test_engine.is_ready()).await;
    let began = Instant::now();
    while ask(&mut old, request::info).await.as_deref() != Some("unavailable") {
        assert!(began.elapsed() < PATIENCE, "it does not drain");
    }
    assert_eq!(ask(&mut old, request::health).await, None, "health says so");
    assert!(old.is_draining());
    drop(old);
    assert!(TcpStream::connect(test_engine.engine.address()).is_err(), "there is no listener any more");
    assert!(test_engine.engine.probe("/livez").starts_with("HTTP/1.1 200 ") && !in_flight.is_finished());
    assert_eq!(in_flight.await.expect("no panic").expect("an answer").len(), 60_000);
    assert_eq!(test_engine.exit_code().await, Some(0));
}

#[tokio::test]
async fn unfinished_requests_are_answered_at_the_timeout() {
    let mut test_engine = TestEngine::new(&["--set", "server.drain_delay=0s", "--set", "server.drain_timeout=50ms"]);
    let in_flight = test_engine.begin(1_000_000).await;
    test_engine.terminate();
    // It received the announcement, and found no other engine.
    let error = in_flight.await.expect("no panic").expect_err("it takes far too long");
    assert_eq!(error.kind, ErrorKind::Connect, "{error}");
    assert_eq!(test_engine.exit_code().await, Some(1));
}

#[tokio::test]
async fn a_further_signal_leaves_at_once() {
    let mut test_engine = TestEngine::new(&["--set", "server.drain_delay=0s", "--set", "server.drain_timeout=1h"]);
    let in_flight = test_engine.begin(1_000_000).await;
    test_engine.terminate();
    test_engine.wait_until(|test_engine| !test_engine.is_ready()).await;
    test_engine.terminate();
    assert_eq!(test_engine.exit_code().await, Some(1));
    let error = in_flight.await.expect("no panic").expect_err("there is no engine to answer");
    assert!(matches!(error.kind, ErrorKind::ConnectionLost { .. }), "{error}");
}
