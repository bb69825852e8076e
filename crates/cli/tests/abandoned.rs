//! The running program when nobody waits for a large request any more: its workers stop. What counts is the CPU time of their threads,
//! not how long anything takes.
#![cfg(target_os = "linux")]

mod common;

use std::time::{Duration, Instant};

use common::{Running, Workplace};
use fieldseal_client::{
    Client, ClientError, ClientSettings, Curve, EncryptOptions, ErrorCode, ErrorKind, Keying, Scalar,
};
use fieldseal_load::accounting::Process;
use tokio::runtime::Runtime;
use tokio::task::JoinHandle;

/// Long enough for a slow machine; no test waits for it when all is well.
const PATIENCE: Duration = Duration::from_secs(60);
/// Each a key agreement, which takes no machine less than 20 µs: 4 s of work.
const FIELDS: usize = 200_000;
/// What has been done of it when it is given up.
const BEGUN: Duration = Duration::from_millis(200);
/// What may be done until the server learns of it, on a machine that is busy with other things.
const TOLD: Duration = Duration::from_secs(1);
/// How long the workers are watched afterwards, and what they may do in that time.
const WATCHED: Duration = Duration::from_millis(500);
const IDLE: Duration = Duration::from_millis(10);

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

    /// From now on the workers do next to nothing; `told` is what they had used when the request was given up.
    fn assert_free(&self, told: Duration) {
        self.wait_until(|stage| stage.engine.probe("/metrics").contains("\nfieldseal_queue_jobs 0\n"));
        let ended = self.workers();
        std::thread::sleep(WATCHED);
        let (until_end, afterwards) = (ended.saturating_sub(told), self.workers() - ended);
        println!("until it ended {until_end:?}, in {WATCHED:?} afterwards {afterwards:?}");
        assert!(until_end < TOLD && afterwards < IDLE, "until it ended {until_end:?}, afterwards {afterwards:?}");
    }
}

#[test]
fn the_workers_are_free_after_a_cancel() {
    let stage = Stage::new();
    let call = stage.begin(None);
    let told = stage.workers();
    call.abort();
    stage.assert_free(told);
    // The connection is the same, and its next call has all workers.
    assert_eq!(stage.runtime.block_on(stage.client.health()).expect("an answer"), "ok");
}

#[test]
fn the_workers_are_free_after_the_socket_is_closed() {
    let mut stage = Stage::new();
    let call = stage.begin(None);
    assert!(!call.is_finished());
    let told = stage.workers();
    // Its tasks end where they are: the socket is closed, and nobody has said a word.
    let runtime = std::mem::replace(&mut stage.runtime, Runtime::new().expect("threads"));
    runtime.shutdown_background();
    stage.assert_free(told);
}

#[test]
fn the_workers_are_free_after_the_deadline() {
    let stage = Stage::new();
    let (before, began) = (stage.workers(), Instant::now());
    let call = stage.begin(Some(400));
    let error = stage.runtime.block_on(call).expect("no panic").expect_err("it takes far too long");
    assert_eq!(error.kind, ErrorKind::Engine(ErrorCode::DeadlineExceeded), "{error}");
    assert!(began.elapsed() >= Duration::from_millis(400) && stage.workers() > before);
    stage.assert_free(before + 2 * Duration::from_millis(400));
}
