//! The content of `/metrics`: all counters and gauges at one moment, as OpenMetrics text.
//!
//! Values are plain atomics where they are counted; this module adds names, units and help texts, which `docs/metrics.md` repeats. The
//! values of labels are fixed sets: no caller can add one.

mod audit;
mod calls;
mod counters;
mod guarded;
mod record;
mod requests;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use leafseal_engine::admin::MemoryStatus;
use leafseal_engine::pool::PoolObserver;
use leafseal_engine::{self as engine, DecisionCounts, EntryPoint, GuardedMemory, LookupCounters, ScanCounters};
use leafseal_http::HttpCounters;
use leafseal_net::ProcessFigures;
use leafseal_net::metrics::{Histogram, HistogramSnapshot, MetricName, MetricsWriter, openmetrics};
use leafseal_net::tls::{GroupCounts, PrivateKeyFigures};

use crate::audit::AuditFigures;

pub(crate) use calls::{ApiCall, ApiCounters, ApiSnapshot, word_of};
pub(crate) use counters::LiveCounters;
pub use counters::ServerCounters;
pub(crate) use record::{ReportedRequest, RequestRecord};
pub(crate) use requests::{Arrival, Requests, RequestsSnapshot};
pub use requests::{OutcomeCounts, RequestOutcome};

/// Histograms of durations.
#[derive(Debug, Default)]
pub(crate) struct Times {
    /// Successful handshakes.
    pub(crate) handshake: Histogram,
    /// From a request's admission to its first slice.
    pub(crate) queue_wait: Histogram,
    /// Slices, in time of one worker.
    pub(crate) slice: Histogram,
}

impl PoolObserver for Times {
    fn waited(&self, time: Duration) {
        self.queue_wait.observe(time);
    }

    fn slice(&self, time: Duration) {
        self.slice.observe(time);
    }
}

/// [`Times`] at one moment.
#[derive(Debug)]
pub(crate) struct TimesSnapshot {
    handshake: HistogramSnapshot,
    queue_wait: HistogramSnapshot,
    slice: HistogramSnapshot,
}

impl Times {
    pub(crate) fn snapshot(&self) -> TimesSnapshot {
        TimesSnapshot {
            handshake: self.handshake.snapshot(),
            queue_wait: self.queue_wait.snapshot(),
            slice: self.slice.snapshot(),
        }
    }
}

/// All metrics at one moment.
#[derive(Debug)]
pub(crate) struct MetricsSnapshot {
    pub(crate) counters: ServerCounters,
    pub(crate) is_ready: bool,
    pub(crate) workers: usize,
    pub(crate) times: TimesSnapshot,
    pub(crate) requests: RequestsSnapshot,
    pub(crate) engine: engine::EngineCounters,
    /// The HTTPS API; all zero if it is disabled.
    pub(crate) api: ApiSnapshot,
    pub(crate) decisions: Arc<DecisionCounts>,
    pub(crate) audit: AuditFigures,
    pub(crate) process: ProcessFigures,
    pub(crate) guarded: GuardedMemory,
    /// Those of the RPC listener.
    pub(crate) key_exchanges: GroupCounts,
    pub(crate) private_keys: PrivateKeyFigures,
    /// When certificates expire, by usage and subject.
    pub(crate) certificates: Vec<([String; 2], u64)>,
    /// CPU time by kind of thread; empty if the system does not report it.
    pub(crate) cpu: Vec<(&'static str, Duration)>,
}

impl MetricsSnapshot {
    /// Formats the metrics as OpenMetrics text.
    pub(crate) fn into_text(self) -> String {
        openmetrics(move |out| self.write(out))
    }

    fn write(&self, out: &mut MetricsWriter<'_>) -> fmt::Result {
        self.write_state(out)?;
        self.write_connections(out)?;
        self.write_key_exchanges(out)?;
        self.private_keys.write(out)?;
        write_decisions(&self.decisions, out)?;
        self.write_requests(out)?;
        self.write_work(out)?;
        self.write_queue(out)?;
        self.write_values(out)?;
        self.write_caches(out)?;
        write_api(&self.api, out)?;
        audit::write(&self.audit, out)?;
        guarded::write(self.guarded, out)?;
        self.write_cpu(out)?;
        out.process(&self.process)
    }

    fn write_state(&self, out: &mut MetricsWriter<'_>) -> fmt::Result {
        let build = MetricName::plain("build", "The version of the engine");
        out.info(build, "version", env!("CARGO_PKG_VERSION"))?;
        let ready = MetricName::plain("ready", "1 while /readyz answers 200, else 0");
        out.gauge(ready, u64::from(self.is_ready))?;
        let expiry = MetricName::seconds(
            "certificate_expiry_timestamp",
            "Expiry of the certificates in use, in Unix time, by use (server, client-authorities, api) and common name",
        );
        let expiries =
            self.certificates.iter().map(|(words, not_after)| (words.each_ref().map(String::as_str), *not_after));
        out.gauges(expiry, ["use", "subject"], expiries)
    }

    fn write_key_exchanges(&self, out: &mut MetricsWriter<'_>) -> fmt::Result {
        const GROUPS: MetricName = MetricName::plain(
            "tls_key_exchanges",
            "Successful TLS handshakes, by listener (rpc, api) and group of the key exchange; X25519MLKEM768 is hybrid",
        );
        let listeners = [("rpc", &self.key_exchanges), ("api", &self.api.connections.key_exchanges)];
        let rows = listeners
            .into_iter()
            .flat_map(|(name, counts)| counts.rows().map(move |(group, count)| ([name, group], count)));
        out.counters(GROUPS, ["listener", "group"], rows)
    }

    fn write_connections(&self, out: &mut MetricsWriter<'_>) -> fmt::Result {
        const OPEN: MetricName =
            MetricName::plain("connections_open", "Open connections, not counting TLS handshakes in progress");
        const EVENTS: MetricName = MetricName::plain(
            "connections",
            "Connections by event: accepted by the operating system; refused at a limit; forbidden, the caller is unknown; faulted, the \
             server ended it with connection_error; going_away, the client was sent that message",
        );
        const HANDSHAKES_OPEN: MetricName = MetricName::plain("handshakes_open", "TLS handshakes in progress");
        const HANDSHAKES: MetricName = MetricName::plain(
            "handshakes",
            "TLS handshakes that have ended, by result: ok; resumed, with the session of an earlier connection; failed; displaced by a \
             newer one because too many were in progress",
        );
        const HANDSHAKE: MetricName = MetricName::seconds("handshake", "Duration of successful TLS handshakes");
        const RECEIVED: MetricName = MetricName::bytes("network_received", "Bytes read from sockets, including TLS");
        const SENT: MetricName = MetricName::bytes("network_sent", "Bytes written to sockets, including TLS");
        let counters = &self.counters;
        out.gauge(OPEN, counters.connections_open as u64)?;
        let events = [
            (["accepted"], counters.connections_accepted),
            (["refused"], counters.connections_refused),
            (["forbidden"], counters.connections_forbidden),
            (["faulted"], counters.connections_faulted),
            (["going_away"], counters.going_away_sent),
        ];
        out.counters(EVENTS, ["event"], events)?;
        out.gauge(HANDSHAKES_OPEN, counters.handshakes_open as u64)?;
        let failed = counters.handshakes_failed.saturating_sub(counters.handshakes_displaced);
        let results = [
            (["ok"], self.times.handshake.count.saturating_sub(counters.handshakes_resumed)),
            (["resumed"], counters.handshakes_resumed),
            (["failed"], failed),
            (["displaced"], counters.handshakes_displaced),
        ];
        out.counters(HANDSHAKES, ["result"], results)?;
        out.histogram(HANDSHAKE, &self.times.handshake)?;
        out.counter(RECEIVED, counters.network_bytes_received)?;
        out.counter(SENT, counters.network_bytes_sent)
    }

    fn write_requests(&self, out: &mut MetricsWriter<'_>) -> fmt::Result {
        const REQUESTS: MetricName = MetricName::plain(
            "requests",
            "Requests that have ended, by method (other: unknown method) and outcome: ok, the error code of the answer, or disconnected if \
             the client had left",
        );
        const FIELDS: MetricName = MetricName::plain(
            "fields",
            "Values encrypted, decrypted or rewrapped for these requests; wasted unless the outcome is ok",
        );
        const REQUEST_BYTES: MetricName =
            MetricName::bytes("request", "Bytes of the messages of these requests, excluding TLS");
        const ANSWER_BYTES: MetricName =
            MetricName::bytes("answer", "Bytes of the answers to these requests, excluding TLS");
        const WORK: MetricName = MetricName::seconds(
            "request_work",
            "Time that all workers together spent on these requests; wasted unless the outcome is ok",
        );
        const SERVICE: MetricName = MetricName::seconds(
            "service",
            "Time from the last byte of a request until its answer was ready to be sent",
        );
        const LABELS: [&str; 2] = ["method", "outcome"];
        let RequestsSnapshot { rows, service_time } = &self.requests;
        // The other families contain only what occurred, because most methods never have most outcomes.
        let seen = || rows.iter().filter(|row| row.requests > 0);
        out.counters(REQUESTS, LABELS, rows.iter().map(|row| (row.labels, row.requests)))?;
        out.counters(FIELDS, LABELS, seen().map(|row| (row.labels, row.fields)))?;
        out.counters(REQUEST_BYTES, LABELS, seen().map(|row| (row.labels, row.request_bytes)))?;
        out.counters(ANSWER_BYTES, LABELS, seen().map(|row| (row.labels, row.answer_bytes)))?;
        out.counters(WORK, LABELS, seen().map(|row| (row.labels, row.work.as_secs_f64())))?;
        out.histograms(SERVICE, ["method"], service_time.iter().map(|(method, times)| ([*method], times.clone())))
    }

    fn write_work(&self, out: &mut MetricsWriter<'_>) -> fmt::Result {
        const WORKERS: MetricName = MetricName::plain("workers", "Threads that process requests");
        const BUSY: MetricName = MetricName::plain("workers_busy", "Workers that are running a slice");
        const BUSY_TIME: MetricName = MetricName::seconds(
            "worker_busy",
            "Time that all workers together spent in slices; divide by elapsed time and workers for utilization",
        );
        const SLICE: MetricName =
            MetricName::seconds("slice", "Duration of slices: what a worker processes before it yields");
        const WAIT: MetricName =
            MetricName::seconds("queue_wait", "Time from the admission of a request to its first slice");
        let MetricsSnapshot { counters, times, workers, .. } = self;
        out.gauge(WORKERS, *workers as u64)?;
        out.gauge(BUSY, counters.pool.workers_busy as u64)?;
        out.counter(BUSY_TIME, times.slice.sum)?;
        out.histogram(SLICE, &times.slice)?;
        out.histogram(WAIT, &times.queue_wait)
    }

    fn write_queue(&self, out: &mut MetricsWriter<'_>) -> fmt::Result {
        const JOBS: MetricName = MetricName::plain("queue_jobs", "Requests queued or running");
        const WAITING: MetricName =
            MetricName::plain("queue_jobs_waiting", "Requests among them that are waiting for a worker");
        const PARKED: MetricName =
            MetricName::plain("queue_jobs_parked", "Requests among them that are waiting for the keystore");
        const BYTES: MetricName = MetricName::bytes("queue", "Bytes of the messages of requests queued or running");
        const BACKLOG: MetricName = MetricName::seconds(
            "queue_backlog",
            "Estimated time for the workers to finish all requests queued or running",
        );
        const REFUSED_EARLY: MetricName = MetricName::plain(
            "queue_refused_early",
            "Requests answered with overloaded on arrival because they would have missed their deadlines",
        );
        const INLINE: MetricName = MetricName::plain(
            "queue_inline",
            "Requests that a network thread has answered itself, without a worker; server.inline_work_max bounds them",
        );
        const INCOMING: MetricName =
            MetricName::bytes("incoming", "Bytes of buffers above 64 KiB for incomplete messages");
        const ANSWERS: MetricName = MetricName::bytes("answers", "Bytes of answers being made or waiting to be sent");
        let pool = &self.counters.pool;
        out.gauge(JOBS, pool.jobs_held as u64)?;
        out.gauge(WAITING, pool.jobs_waiting as u64)?;
        out.gauge(PARKED, pool.jobs_parked as u64)?;
        out.gauge(BYTES, pool.bytes_held as u64)?;
        out.gauge(BACKLOG, pool.backlog.as_secs_f64())?;
        out.counter(REFUSED_EARLY, pool.jobs_refused_early)?;
        out.counter(INLINE, pool.jobs_inline)?;
        out.gauge(INCOMING, self.counters.incoming_bytes as u64)?;
        out.gauge(ANSWERS, self.counters.answers_bytes as u64)
    }

    fn write_values(&self, out: &mut MetricsWriter<'_>) -> fmt::Result {
        const VALUES: MetricName = MetricName::plain(
            "values",
            "Values and files that were sealed, or opened, by action and scheme. Opened are also those that are rewrapped, and \
             envelopes that skip_sealed skips",
        );
        const AGREEMENTS: MetricName =
            MetricName::plain("opening_agreements", "Key agreements for decryption, which cached opening keys avoid");
        const TRIALS: MetricName = MetricName::plain(
            "opening_trials",
            "Key versions tried without success on values to decrypt, or on pieces of long ones: values of other apps or older versions",
        );
        const CANARIES: MetricName = MetricName::plain(
            "canary_decryptions",
            "How often canaries were opened: envelopes that nobody has a reason to decrypt (leafseal canaries)",
        );
        let engine::EngineCounters { sealed, opened, canaries, opening_agreements, opening_trials, .. } = self.engine;
        let values = [("sealed", sealed), ("opened", opened)].map(|(action, counts)| {
            [([action, "public-key"], counts.public_key), ([action, "symmetric"], counts.symmetric)]
        });
        out.counters(VALUES, ["action", "scheme"], values.as_flattened().iter().copied())?;
        out.counter(CANARIES, canaries)?;
        out.counter(AGREEMENTS, opening_agreements)?;
        out.counter(TRIALS, opening_trials)
    }

    fn write_caches(&self, out: &mut MetricsWriter<'_>) -> fmt::Result {
        const LOOKUPS: MetricName = MetricName::plain(
            "cache_lookups",
            "Cache lookups by result, hit or miss, and cache: apps with their keys, grants of clients and api_keys, which are read from \
             the store on a miss; sessions, their encryption keys; spare_keys, ephemeral keys generated for the next request; \
             opening_keys, decryption keys by ephemeral key, kept across requests",
        );
        const ENTRIES: MetricName = MetricName::plain("cache_entries", "Entries in each cache");
        const SILENCE: MetricName = MetricName::seconds(
            "keystore_silence",
            "Time since the keystore last responded, checked once a second. Beyond engine.store_silence_max the engine refuses requests",
        );
        const SEALED: MetricName = MetricName::plain(
            "keystore_sealed",
            "1 while someone must open the keystore with leafseal unseal: at the start, or because its root was replaced",
        );
        const RESYNCS: MetricName = MetricName::plain(
            "keystore_resyncs",
            "How often cached keys and grants were dropped: the keystore had changed, was connected again, or was silent for too long",
        );
        const PUT_OFF: MetricName = MetricName::plain(
            "keystore_deletions_put_off",
            "Deletions of apps that this engine has put off when their delay was over, because envelopes were opened after the request",
        );
        let engine::EngineCounters {
            apps,
            grants,
            api_keys,
            sessions,
            spare_keys,
            opening_keys,
            store_silence,
            store_is_sealed,
            store_resyncs,
            deletions_put_off,
            lookups: store_lookups,
            scan,
            memory,
            ..
        } = self.engine;
        let caches = [
            ("apps", apps),
            ("grants", grants),
            ("api_keys", api_keys),
            ("sessions", sessions),
            ("spare_keys", spare_keys),
            ("opening_keys", opening_keys),
        ];
        let lookups = caches
            .iter()
            .flat_map(|(cache, counters)| [([*cache, "hit"], counters.hits), ([*cache, "miss"], counters.misses)]);
        out.counters(LOOKUPS, ["cache", "result"], lookups)?;
        out.gauges(ENTRIES, ["cache"], caches.map(|(cache, counters)| ([cache], counters.entries as u64)))?;
        out.gauge(SILENCE, store_silence.as_secs_f64())?;
        out.gauge(SEALED, u64::from(store_is_sealed))?;
        out.counter(RESYNCS, store_resyncs)?;
        out.counter(PUT_OFF, deletions_put_off)?;
        write_lookups(store_lookups, out)?;
        write_scan(scan, out)?;
        write_memory(memory, out)
    }

    fn write_cpu(&self, out: &mut MetricsWriter<'_>) -> fmt::Result {
        const CPU: MetricName = MetricName::seconds(
            "cpu",
            "User and system CPU time by kind of thread: network (sockets, TLS and frames), workers, other. The last milliseconds of \
             running threads may be missing",
        );
        if self.cpu.is_empty() {
            return Ok(());
        }
        out.counters(CPU, ["threads"], self.cpu.iter().map(|&(part, time)| ([part], time.as_secs_f64())))
    }
}

fn write_lookups(lookups: LookupCounters, out: &mut MetricsWriter<'_>) -> fmt::Result {
    const LOOKUPS: MetricName = MetricName::plain(
        "keystore_lookups",
        "Look-ups of apps, grants and API keys: made in the keystore; remembered, answered without one because the keystore does not \
         have the name; refused as overloaded, because too many wait (engine.store_queue_max)",
    );
    const WAITING: MetricName =
        MetricName::plain("keystore_lookups_waiting", "Look-ups that wait for the keystore or are being made");
    const MISSES: MetricName = MetricName::bytes(
        "keystore_misses",
        "Memory of names that the keystore does not have, so that they are not looked up again: at most engine.miss_bytes_max",
    );
    let LookupCounters { made, refused, misses_remembered, waiting, misses: _, miss_bytes } = lookups;
    let results = [(["made"], made), (["remembered"], misses_remembered), (["refused"], refused)];
    out.counters(LOOKUPS, ["result"], results)?;
    out.gauge(WAITING, waiting as u64)?;
    out.gauge(MISSES, miss_bytes as u64)
}

fn write_scan(scan: ScanCounters, out: &mut MetricsWriter<'_>) -> fmt::Result {
    const EDITS: MetricName = MetricName::plain(
        "keystore_edits",
        "Parts of the keystore that something other than Leafseal has changed, added or removed, as the last whole scan found them, or the \
         present one if these are more. The log names them; what depends on them is refused",
    );
    const ROWS: MetricName = MetricName::plain("keystore_scan_rows", "Rows that the scan for edits has read");
    const PASSES: MetricName = MetricName::plain("keystore_scans", "Scans of the whole keystore for edits");
    const AGE: MetricName = MetricName::seconds(
        "keystore_scan_age",
        "Time since the last whole scan for edits ended, or since the start; 0 if engine.store_scan_rows_per_second is 0",
    );
    let ScanCounters { rows, passes, edits, age } = scan;
    out.gauge(EDITS, edits)?;
    out.counter(ROWS, rows)?;
    out.counter(PASSES, passes)?;
    out.gauge(AGE, age.as_secs_f64())
}

fn write_memory(memory: MemoryStatus, out: &mut MetricsWriter<'_>) -> fmt::Result {
    const GENERATION: MetricName = MetricName::plain(
        "keystore_generation",
        "The newest generation of the keystore that was seen: the number of its last change; 0 before schema 3",
    );
    const ROLLED_BACK: MetricName = MetricName::plain(
        "keystore_rolled_back",
        "1 while the keystore is older than what was seen of it, and is refused, else 0",
    );
    const KNOWN: MetricName = MetricName::plain(
        "keystore_memory_known",
        "1 if a state of the keystore was known before it was first read, from an earlier run or another engine; with 0 an older copy that \
         was put back before the start went unnoticed",
    );
    const SAVED: MetricName =
        MetricName::plain("keystore_memory_saved", "1 if the newest state is saved in keystore.memory_folder, else 0");
    let MemoryStatus { generation, is_from_before, is_saved, is_rolled_back } = memory;
    out.gauge(GENERATION, generation.unwrap_or_default())?;
    out.gauge(ROLLED_BACK, u64::from(is_rolled_back))?;
    out.gauge(KNOWN, u64::from(is_from_before))?;
    out.gauge(SAVED, u64::from(is_saved))
}

fn write_api(api: &ApiSnapshot, out: &mut MetricsWriter<'_>) -> fmt::Result {
    const CALLS: MetricName = MetricName::plain(
        "api_calls",
        "Calls of the HTTPS API that have ended, by call (other: unknown path) and status; disconnected if the caller left before its \
         answer",
    );
    const SERVICE: MetricName = MetricName::seconds(
        "api_service",
        "Time from the head of a call to the head of its answer, including the body of the call",
    );
    const OPEN: MetricName =
        MetricName::plain("api_connections_open", "Open connections to the API, including TLS handshakes in progress");
    const EVENTS: MetricName = MetricName::plain(
        "api_connections",
        "Connections to the API by event: accepted by the operating system; refused at a limit; displaced by a new connection; failed in \
         the TLS handshake; resumed, with the TLS session of an earlier connection; \
         cut, the peer sent or read too slowly; idle, closed after too long without a call",
    );
    let HttpCounters {
        connections_open,
        connections_accepted,
        connections_refused,
        connections_displaced,
        handshakes_failed,
        handshakes_resumed,
        key_exchanges: _,
        connections_cut,
        connections_idle,
    } = api.connections;
    out.counters(CALLS, ["call", "status"], api.calls.iter().copied())?;
    out.histograms(SERVICE, ["call"], api.times.iter().map(|(call, times)| ([*call], times.clone())))?;
    out.gauge(OPEN, connections_open as u64)?;
    let events = [
        (["accepted"], connections_accepted),
        (["refused"], connections_refused),
        (["displaced"], connections_displaced),
        (["failed"], handshakes_failed),
        (["resumed"], handshakes_resumed),
        (["cut"], connections_cut),
        (["idle"], connections_idle),
    ];
    out.counters(EVENTS, ["event"], events)
}

fn write_decisions(decisions: &DecisionCounts, out: &mut MetricsWriter<'_>) -> fmt::Result {
    const DECISIONS: MetricName = MetricName::plain(
        "decisions",
        "Decisions about callers by entry point (rpc, api) and outcome: granted, or the code of the refusal, whether of the identity, of a \
         permission or of the role of a value",
    );
    let entry_points = [EntryPoint::Rpc, EntryPoint::Api].into_iter();
    let rows = entry_points.flat_map(|entry_point| {
        decisions.of(entry_point).map(move |(outcome, count)| ([entry_point.as_str(), outcome], count))
    });
    out.counters(DECISIONS, ["entry_point", "outcome"], rows)
}
