//! A running engine whose client abandons a large request: its workers stop before the work is done, and are idle then.

use std::time::{Duration, Instant};

use crate::common::{Running, TestFolder};
use leafseal_client::{
    Client, ClientError, ClientSettings, Curve, EncryptOptions, ErrorCode, ErrorKind, Keying, Scalar,
};
use leafseal_load::accounting::ProcessAccount;
use tokio::runtime::Runtime;
use tokio::task::JoinHandle;

/// Long enough for a slow machine; a passing test never waits for it.
const PATIENCE: Duration = Duration::from_secs(60);
/// A key agreement each: seconds of work, so that a client on a busy machine can cancel it long before its end.
const FIELDS: usize = 500_000;
/// CPU time that has been spent on it when the client abandons it.
const BEGUN: Duration = Duration::from_millis(200);

struct TestEngine {
    runtime: Runtime,
    client: Client,
    process: ProcessAccount,
    engine: Running,
    _workplace: TestFolder,
}

impl TestEngine {
    fn new() -> Self {
        let test_folder = TestFolder::new();
        let engine = test_folder.engine(&["--set", "server.workers=2"]);
        let settings = ClientSettings { request_timeout: 4 * PATIENCE, connections_max: 1, ..engine.client_settings() };
        let client = Client::new(settings).expect("a client");
        let process = ProcessAccount::new(engine.child.id());
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
        Self { runtime: runtime.expect("a thread"), client, process, engine, _workplace: test_folder }
    }

    /// Begins a large request, and waits until workers process it.
    fn begin(&self, deadline_ms: Option<u32>) -> JoinHandle<Result<usize, ClientError>> {
        let (client, before) = (self.client.clone(), self.workers());
        let call = self.runtime.spawn(async move {
            let (curve, keying) = (Some(Curve::K1), Some(Keying::Field));
            let options = EncryptOptions { curve, keying, deadline_ms, ..EncryptOptions::new("acme") };
            client.encrypt(&options, &vec![Scalar::from("x"); FIELDS]).await.map(|values| values.len())
        });
        self.wait_until(|test_engine| test_engine.workers() >= before + BEGUN || call.is_finished());
        call
    }

    /// CPU time of the workers.
    fn workers(&self) -> Duration {
        self.process.cpu().expect("it runs").workers
    }

    fn wait_until(&self, condition: impl Fn(&Self) -> bool) {
        let began = Instant::now();
        while !condition(self) {
            assert!(began.elapsed() < PATIENCE, "waited too long");
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// Checks that the request ends with `outcome` before its work is done, and that no worker is busy then.
    fn assert_free(&self, outcome: &str) {
        let labels = format!("{{method=\"encrypt\",outcome=\"{outcome}\"}}");
        let sample = |metrics: &str, name: &str| -> Option<f64> {
            metrics.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.parse().ok())
        };
        self.wait_until(|test_engine| {
            let metrics = test_engine.engine.probe("/metrics");
            let ended = sample(&metrics, &format!("leafseal_requests_total{labels}")) == Some(1.0);
            let is_idle = |name| sample(&metrics, name) == Some(0.0);
            ended && is_idle("leafseal_queue_jobs") && is_idle("leafseal_workers_busy")
        });
        let metrics = self.engine.probe("/metrics");
        let done = sample(&metrics, &format!("leafseal_fields_total{labels}")).unwrap_or(0.0);
        assert!(done < FIELDS as f64, "all {done} values were encrypted");
    }
}

#[test]
fn the_workers_are_free_after_a_cancel() {
    let test_engine = TestEngine::new();
    let call = test_engine.begin(None);
    call.abort();
    test_engine.assert_free("cancelled");
    // On the same connection, the next call is answered.
    assert_eq!(test_engine.runtime.block_on(test_engine.client.health()).expect("an answer"), "ok");
}

#[test]
fn the_workers_are_free_after_the_socket_is_closed() {
    let mut test_engine = TestEngine::new();
    let call = test_engine.begin(None);
    assert!(!call.is_finished());
    // Its tasks end at once: the socket is closed without any message.
    let runtime = std::mem::replace(&mut test_engine.runtime, Runtime::new().expect("threads"));
    runtime.shutdown_background();
    test_engine.assert_free("disconnected");
}

#[test]
fn the_workers_are_free_after_the_deadline() {
    let test_engine = TestEngine::new();
    let began = Instant::now();
    let call = test_engine.begin(Some(400));
    let error = test_engine.runtime.block_on(call).expect("no panic").expect_err("it takes far too long");
    assert_eq!(error.kind, ErrorKind::Engine(ErrorCode::DeadlineExceeded), "{error}");
    assert!(began.elapsed() >= Duration::from_millis(400));
    test_engine.assert_free("deadline_exceeded");
}
