//! Metrics of calls to the engine, as the relay sees them: outcome, and duration including the network.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use leafseal_client::{CallObserver, CallOutcome, ClientError, ErrorCode, ErrorKind, Method};
use leafseal_net::metrics::{Histogram, MetricName, MetricsWriter};

use crate::outages::Outages;

/// The label for all engines of the configuration: a call may go to any of them.
const PEER: &str = "engine";

/// The methods that a relay calls, in the order of the metrics.
const METHODS: [Method; 8] = [
    Method::Encrypt,
    Method::Decrypt,
    Method::EncryptDocument,
    Method::DecryptDocument,
    Method::EncryptFile,
    Method::DecryptFile,
    Method::Authenticate,
    Method::Health,
];

/// The counters of one thread's calls.
#[derive(Debug)]
pub(crate) struct EngineMetrics {
    /// Logs loss and recovery of the engine; shared by all threads.
    outages: Arc<Outages>,
    methods: [MethodCounts; METHODS.len()],
}

#[derive(Debug, Default)]
struct MethodCounts {
    time: Histogram,
    /// By outcome.
    outcomes: Mutex<BTreeMap<&'static str, u64>>,
    repeated: AtomicU64,
}

impl EngineMetrics {
    pub(crate) fn new(outages: &Arc<Outages>) -> Self {
        EngineMetrics { outages: Arc::clone(outages), methods: Default::default() }
    }

    fn log_loss(&self, outcome: CallOutcome<'_>) {
        match outcome {
            CallOutcome::Abandoned => {}
            CallOutcome::Failed(error) if is_outage(error.kind) => self.outages.failed(PEER, error),
            // Any other error is an answer, or concerns only this call.
            CallOutcome::Ok | CallOutcome::Failed(_) => self.outages.succeeded(|| PEER.to_owned()),
        }
    }
}

/// Whether no engine accepted the call.
fn is_outage(kind: ErrorKind) -> bool {
    matches!(
        kind,
        ErrorKind::Connect
            | ErrorKind::Tls
            | ErrorKind::ConnectionRefused(_)
            | ErrorKind::ConnectionLost { .. }
            | ErrorKind::Timeout
            | ErrorKind::Engine(ErrorCode::Unavailable)
    )
}

impl CallObserver for EngineMetrics {
    fn ended(&self, method: Method, outcome: CallOutcome<'_>, time: Duration) {
        self.log_loss(outcome);
        let Some(at) = METHODS.iter().position(|&known| known == method) else { return };
        let of_method = &self.methods[at];
        of_method.time.observe(time);
        let mut outcomes = of_method.outcomes.lock().expect("nothing panics while this is locked");
        *outcomes.entry(word(outcome)).or_default() += 1;
    }

    fn retried(&self, method: Method, _: &ClientError) {
        if let Some(at) = METHODS.iter().position(|&known| known == method) {
            self.methods[at].repeated.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// The label of an outcome.
fn word(outcome: CallOutcome<'_>) -> &'static str {
    match outcome {
        CallOutcome::Ok => OK,
        CallOutcome::Abandoned => "abandoned",
        CallOutcome::Failed(error) => error.code().as_str(),
    }
}

const OK: &str = "ok";

/// Writes the calls of all threads.
pub(super) fn write(threads: &[Arc<EngineMetrics>], out: &mut MetricsWriter<'_>) -> fmt::Result {
    const CALLS: MetricName = MetricName::plain(
        "relay_engine_calls",
        "Calls to the engine, by method and outcome: ok, abandoned, or the error code",
    );
    const RETRIES: MetricName = MetricName::plain(
        "relay_engine_retries",
        "Retries of calls that the engine had not started, or had refused as unavailable or overloaded",
    );
    const TIME: MetricName = MetricName::seconds(
        "relay_engine_call",
        "Time from a call to the engine until its answer, or until the relay gave it up",
    );
    let methods = || {
        METHODS.iter().enumerate().map(|(at, method)| (method.as_str(), threads.iter().map(move |it| &it.methods[at])))
    };
    let calls = methods().flat_map(|(method, threads)| {
        outcomes(threads).into_iter().map(move |(outcome, count)| ([method, outcome], count))
    });
    out.counters(CALLS, ["method", "outcome"], calls)?;
    let retries = methods()
        .map(|(method, threads)| ([method], threads.map(|it| it.repeated.load(Ordering::Relaxed)).sum::<u64>()));
    out.counters(RETRIES, ["method"], retries)?;
    out.histograms(
        TIME,
        ["method"],
        methods().map(|(method, threads)| ([method], Histogram::sum(threads.map(|it| &it.time)))),
    )
}

/// The calls of one method by outcome; `ok` is always included.
fn outcomes<'m>(threads: impl Iterator<Item = &'m MethodCounts>) -> BTreeMap<&'static str, u64> {
    let mut counts = BTreeMap::from([(OK, 0)]);
    for thread in threads {
        let outcomes = thread.outcomes.lock().expect("nothing panics while this is locked");
        outcomes.iter().for_each(|(outcome, count)| *counts.entry(outcome).or_default() += count);
    }
    counts
}

#[cfg(test)]
mod tests {
    use leafseal_client::Retry;
    use leafseal_net::metrics::openmetrics;

    use super::*;

    fn failed(kind: ErrorKind) -> ClientError {
        let message = String::new();
        ClientError { kind, retry: Retry::Later, message, index: None, offset: None, retry_after: None }
    }

    #[test]
    fn adds_up_the_calls_of_all_threads_by_method_and_outcome() {
        let outages = Arc::new(Outages::new("engine"));
        let threads: [Arc<EngineMetrics>; 2] = std::array::from_fn(|_| Arc::new(EngineMetrics::new(&outages)));
        let (short, long) = (Duration::from_micros(100), Duration::from_secs(2));
        threads[0].ended(Method::Encrypt, CallOutcome::Ok, short);
        threads[1].ended(Method::Encrypt, CallOutcome::Ok, long);
        for kind in [ErrorKind::Engine(ErrorCode::Overloaded), ErrorKind::Timeout, ErrorKind::Connect] {
            threads[1].ended(Method::Encrypt, CallOutcome::Failed(&failed(kind)), long);
        }
        threads[0].ended(Method::Authenticate, CallOutcome::Abandoned, short);
        threads.iter().for_each(|thread| thread.retried(Method::Decrypt, &failed(ErrorKind::GoingAway)));
        let text = openmetrics(move |out| write(&threads, out));
        for line in [
            "leafseal_relay_engine_calls_total{method=\"encrypt\",outcome=\"ok\"} 2",
            "leafseal_relay_engine_calls_total{method=\"encrypt\",outcome=\"overloaded\"} 1",
            "leafseal_relay_engine_calls_total{method=\"encrypt\",outcome=\"deadline_exceeded\"} 1",
            "leafseal_relay_engine_calls_total{method=\"encrypt\",outcome=\"connect_failed\"} 1",
            "leafseal_relay_engine_calls_total{method=\"decrypt\",outcome=\"ok\"} 0",
            "leafseal_relay_engine_calls_total{method=\"authenticate\",outcome=\"abandoned\"} 1",
            "leafseal_relay_engine_retries_total{method=\"decrypt\"} 2",
            "leafseal_relay_engine_retries_total{method=\"encrypt\"} 0",
            "leafseal_relay_engine_call_seconds_bucket{le=\"0.0002\",method=\"encrypt\"} 1",
            "leafseal_relay_engine_call_seconds_bucket{le=\"+Inf\",method=\"encrypt\"} 5",
            "leafseal_relay_engine_call_seconds_count{method=\"encrypt\"} 5",
            "leafseal_relay_engine_call_seconds_sum{method=\"authenticate\"} 0.0001",
        ] {
            assert!(text.lines().any(|found| found == line), "{line} in:\n{text}");
        }
    }
}
