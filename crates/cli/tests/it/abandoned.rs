//! The running program when nobody waits for a large request any more: its workers stop before the work is done, and are idle then.

use std::time::{Duration, Instant};

use crate::common::{Running, Workplace};
use fieldseal_client::{
    Client, ClientError, ClientSettings, Curve, EncryptOptions, ErrorCode, ErrorKind, Keying, Scalar,
};
use fieldseal_load::accounting::Process;
use tokio::runtime::Runtime;
use tokio::task::JoinHandle;

/// Long enough for a slow machine; no test waits for it when all is well.
const PATIENCE: Duration = Duration::from_secs(60);
/// A key agreement each: seconds of work, so that a client on a busy machine can cancel it long before its end.
const FIELDS: usize = 500_000;
/// CPU time that has been spent on it when the client gives it up.
const BEGUN: Duration = Duration::from_millis(200);

struct Stage {
    runtime: Runtime,
    client: Client,
    process: Process,
    engine: Running,
    _workplace: Workplace,
}

impl Stage {
    fn new() -> Self {
        let workplace = Workplace::new();
        let engine = workplace.engine(&["--set", "server.workers=2"]);
        let settings = ClientSettings { request_timeout: 4 * PATIENCE, connections_max: 1, ..engine.client_settings() };
        let client = Client::new(settings).expect("a client");
        let process = Process::new(engine.child.id());
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
        Self { runtime: runtime.expect("a thread"), client, process, engine, _workplace: workplace }
    }

    /// Begins a large request, and waits until its workers are at it.
    fn begin(&self, deadline_ms: Option<u32>) -> JoinHandle<Result<usize, ClientError>> {
        let (client, before) = (self.client.clone(), self.workers());
        let call = self.runtime.spawn(async move {
            let (curve, keying) = (Some(Curve::K1), Some(Keying::Field));
            let options = EncryptOptions { curve, keying, deadline_ms, ..EncryptOptions::new("acme") };
            client.encrypt(&options, &vec![Scalar::from("x"); FIELDS]).await.map(|values| values.len())
        });
        self.wait_until(|stage| stage.workers() >= before + BEGUN || call.is_finished());
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

    /// The request ends with `outcome` before its work is done, and no worker is busy any more.
    fn assert_free(&self, outcome: &str) {
        let labels = format!("{{method=\"encrypt\",outcome=\"{outcome}\"}}");
        let sample = |metrics: &str, name: &str| -> Option<f64> {
            metrics.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.parse().ok())
        };
        self.wait_until(|stage| {
            let metrics = stage.engine.probe("/metrics");
            let ended = sample(&metrics, &format!("fieldseal_requests_total{labels}")) == Some(1.0);
            let is_idle = |name| sample(&metrics, name) == Some(0.0);
            ended && is_idle("fieldseal_queue_jobs") && is_idle("fieldseal_workers_busy")
        });
        let metrics = self.engine.probe("/metrics");
        let done = sample(&metrics, &format!("fieldseal_fields_total{labels}")).unwrap_or(0.0);
        assert!(done < FIELDS as f64, "all {done} values were encrypted");
    }
}

#[test]
fn the_workers_are_free_after_a_cancel() {
    let stage = Stage::new();
    let call = stage.begin(None);
    call.abort();
    stage.assert_free("cancelled");
    // The connection is the same, and its next call has all workers.
    assert_eq!(stage.runtime.block_on(stage.client.health()).expect("an answer"), "ok");
}

#[test]
fn the_workers_are_free_after_the_socket_is_closed() {
    let mut stage = Stage::new();
    let call = stage.begin(None);
    assert!(!call.is_finished());
    // Its tasks end at once: the socket is closed without any message.
    let runtime = std::mem::replace(&mut stage.runtime, Runtime::new().expect("threads"));
    runtime.shutdown_background();
    stage.assert_free("disconnected");
}

#[test]
fn the_workers_are_free_after_the_deadline() {
    let stage = Stage::new();
    let began = Instant::now();
    let call = stage.begin(Some(400));
    let error = stage.runtime.block_on(call).expect("no panic").expect_err("it takes far too long");
    assert_eq!(error.kind, ErrorKind::Engine(ErrorCode::DeadlineExceeded), "{error}");
    assert!(began.elapsed() >= Duration::from_millis(400));
    stage.assert_free("deadline_exceeded");
}
