//! The relay's metrics: counted by each thread for itself, exposed as sums.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use leafseal_errors::{DecisionCounts, EntryPoint, ErrorCode};
use leafseal_http::HttpCounters;
use leafseal_net::ProcessFigures;
use leafseal_net::metrics::{Histogram, MetricName, MetricsWriter, openmetrics};
use leafseal_net::tls::{GroupCounts, PrivateKeyFigures};

use crate::body::buffer::Usage;
use crate::body::envelopes::FoundEnvelope;
use crate::key_exchanges::UPSTREAM_KEY_EXCHANGES;
use crate::place::ExchangePart;
use crate::policy::Action;

mod engine;

pub(crate) use engine::EngineMetrics;

/// Values as the engine's reports count them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ReportedValues {
    /// Envelopes that a rule encrypted again.
    pub(crate) resealed: u64,
    /// Envelopes that were left unchanged, as `skip_sealed` requires.
    pub(crate) skipped: u64,
    /// Envelopes to a public key that were resealed with a symmetric key.
    pub(crate) rewrapped: u64,
    /// Sealed, or opened, with a symmetric key.
    pub(crate) symmetric: u64,
}

/// The counters of one listener on one thread.
#[derive(Debug, Default)]
pub(crate) struct ListenerMetrics {
    /// By the first digit of the status; 0 if the client left before an answer.
    statuses: [AtomicU64; 6],
    duration: Histogram,
    received: AtomicU64,
    sent: AtomicU64,
    values: [AtomicU64; 3],
    unopened: AtomicU64,
    resealed: AtomicU64,
    skipped: AtomicU64,
    rewrapped: AtomicU64,
    symmetric: AtomicU64,
    /// Messages with an envelope, by its place.
    sealed_forwarded: [AtomicU64; ExchangePart::ALL.len()],
    /// Bodies in which there may be one, by place and reason.
    unsearched: [[AtomicU64; FoundEnvelope::UNSEARCHED.len()]; ExchangePart::ALL.len()],
    withheld: CountsByCode,
    refusals: CountsByCode,
}

/// Counts of messages by code.
#[derive(Debug, Default)]
struct CountsByCode(Mutex<BTreeMap<ErrorCode, u64>>);

impl CountsByCode {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<ErrorCode, u64>> {
        self.0.lock().expect("nothing panics while this is locked")
    }

    fn add(&self, code: ErrorCode) {
        *self.lock().entry(code).or_default() += 1;
    }
}

impl ListenerMetrics {
    /// Counts a finished request.
    pub(crate) fn ended(&self, status: u16, time: Duration, received: u64, sent: u64) {
        let class = usize::from(status / 100).min(5);
        self.statuses[class].fetch_add(1, Ordering::Relaxed);
        self.duration.observe(time);
        self.received.fetch_add(received, Ordering::Relaxed);
        self.sent.fetch_add(sent, Ordering::Relaxed);
    }

    /// Counts envelopes that failed to decrypt in messages that were forwarded.
    pub(crate) fn unopened(&self, count: u64) {
        self.unopened.fetch_add(count, Ordering::Relaxed);
    }

    /// Counts changed values.
    pub(crate) fn changed(&self, action: Action, count: u64) {
        self.values[action as usize].fetch_add(count, Ordering::Relaxed);
    }

    /// Counts a message that was not forwarded.
    pub(crate) fn refused(&self, code: ErrorCode) {
        self.refusals.add(code);
    }

    /// Counts an answer that was forwarded without its body.
    pub(crate) fn withheld(&self, code: ErrorCode) {
        self.withheld.add(code);
    }

    /// Counts values of the engine's reports.
    pub(crate) fn reported(&self, values: ReportedValues) {
        self.resealed.fetch_add(values.resealed, Ordering::Relaxed);
        self.skipped.fetch_add(values.skipped, Ordering::Relaxed);
        self.rewrapped.fetch_add(values.rewrapped, Ordering::Relaxed);
        self.symmetric.fetch_add(values.symmetric, Ordering::Relaxed);
    }

    /// Counts the result of a search for envelopes in what is forwarded.
    pub(crate) fn searched(&self, place: ExchangePart, found: FoundEnvelope) {
        let counter = match FoundEnvelope::UNSEARCHED.iter().position(|&reason| reason == found) {
            Some(reason) => &self.unsearched[place as usize][reason],
            None => &self.sealed_forwarded[place as usize],
        };
        counter.fetch_add(1, Ordering::Relaxed);
    }
}

/// All counters of one listener.
pub(crate) struct ListenerSnapshot {
    pub(crate) name: Arc<str>,
    pub(crate) metrics: Vec<Arc<ListenerMetrics>>,
    pub(crate) connections: Vec<HttpCounters>,
}

/// All metrics at one moment.
pub(crate) struct Snapshot {
    pub(crate) listeners: Vec<ListenerSnapshot>,
    /// By thread.
    pub(crate) engine: Vec<Arc<EngineMetrics>>,
    pub(crate) is_ready: bool,
    pub(crate) upstream_connections: usize,
    /// Memory of bodies that are buffered.
    pub(crate) bodies: Usage,
    pub(crate) log_lines_dropped: u64,
    pub(crate) reloads: u64,
    pub(crate) decisions: Arc<DecisionCounts>,
    pub(crate) process: ProcessFigures,
    pub(crate) private_keys: PrivateKeyFigures,
    /// When certificates expire, by usage and subject.
    pub(crate) certificates: Vec<([String; 2], u64)>,
}

impl Snapshot {
    /// Formats the metrics as OpenMetrics text.
    pub(crate) fn into_text(self) -> String {
        openmetrics(move |out| self.write(out))
    }

    fn write(&self, out: &mut MetricsWriter<'_>) -> fmt::Result {
        self.write_state(out)?;
        self.write_requests(out)?;
        self.write_decisions(out)?;
        self.write_messages(out)?;
        self.write_buffered_bodies(out)?;
        self.write_connections(out)?;
        self.private_keys.write(out)?;
        engine::write(&self.engine, out)?;
        self.write_rest(out)?;
        out.process(&self.process)
    }

    fn write_state(&self, out: &mut MetricsWriter<'_>) -> fmt::Result {
        const BUILD: MetricName = MetricName::plain("relay_build", "The version of the relay");
        const READY: MetricName = MetricName::plain("relay_ready", "1 while /readyz answers 200, else 0");
        const EXPIRY: MetricName = MetricName::seconds(
            "relay_certificate_expiry_timestamp",
            "Expiry of the certificates in use, in Unix time, by use (a listener, its authority, engine-client, engine-authorities or \
             upstream-authorities) and common name",
        );
        out.info(BUILD, "version", env!("CARGO_PKG_VERSION"))?;
        out.gauge(READY, u64::from(self.is_ready))?;
        let expiries =
            self.certificates.iter().map(|(words, not_after)| (words.each_ref().map(String::as_str), *not_after));
        out.gauges(EXPIRY, ["use", "subject"], expiries)
    }

    fn write_decisions(&self, out: &mut MetricsWriter<'_>) -> fmt::Result {
        const DECISIONS: MetricName = MetricName::plain(
            "relay_decisions",
            "Decisions of outbound listeners about holders of API keys by outcome: granted, or the code of the refusal",
        );
        out.counters(
            DECISIONS,
            ["outcome"],
            self.decisions.of(EntryPoint::Relay).map(|(outcome, count)| ([outcome], count)),
        )
    }

    fn write_requests(&self, out: &mut MetricsWriter<'_>) -> fmt::Result {
        const REQUESTS: MetricName = MetricName::plain(
            "relay_requests",
            "Requests by listener and status class; 0xx: the client left before an answer",
        );
        const TIME: MetricName =
            MetricName::seconds("relay_request", "Time from the head of a request to the end of its answer");
        let classes = |listener: &'_ ListenerSnapshot| {
            CLASSES
                .into_iter()
                .enumerate()
                .map(|(class, name)| (name, listener.sum(|it| &it.statuses[class])))
                .collect::<Vec<_>>()
        };
        let requests = self
            .listeners
            .iter()
            .flat_map(|listener| classes(listener).into_iter().map(|(class, count)| ([&*listener.name, class], count)));
        out.counters(REQUESTS, ["listener", "status"], requests)?;
        let times = self.listeners.iter().map(|listener| {
            ([&*listener.name], Histogram::sum(listener.metrics.iter().map(|metrics| &metrics.duration)))
        });
        out.histograms(TIME, ["listener"], times)
    }

    fn write_messages(&self, out: &mut MetricsWriter<'_>) -> fmt::Result {
        const VALUES: MetricName = MetricName::plain("relay_values", "Values that rules changed, by action");
        const UNOPENED: MetricName = MetricName::plain(
            "relay_unopened",
            "Envelopes that failed to decrypt and were left or emptied, as on_failure of their rules requires",
        );
        const SEALED: MetricName = MetricName::plain(
            "relay_sealed_before",
            "Values that were envelopes before a rule encrypted them, by outcome: resealed, encrypted again; skipped, left unchanged as \
             skip_sealed or reseal of the rule requires; rewrapped, made symmetric as reseal requires",
        );
        const SYMMETRIC: MetricName = MetricName::plain(
            "relay_symmetric_values",
            "Values that rules sealed, or opened, with a symmetric key; the others have envelopes to a public key",
        );
        const WITHHELD: MetricName =
            MetricName::plain("relay_withheld_bodies", "Answers that were forwarded without their bodies, by code");
        const REFUSALS: MetricName = MetricName::plain("relay_refusals", "Messages that were not forwarded, by code");
        const BODIES: MetricName =
            MetricName::bytes("relay_body", "Bytes of bodies, received from clients and sent to them");
        let listeners = || self.listeners.iter();
        let values = listeners().flat_map(|listener| {
            [Action::Encrypt, Action::Decrypt, Action::Redact]
                .map(|action| ([&*listener.name, action.as_str()], listener.sum(|it| &it.values[action as usize])))
        });
        out.counters(VALUES, ["listener", "action"], values)?;
        out.counters(UNOPENED, ["listener"], listeners().map(|it| ([&*it.name], it.sum(|it| &it.unopened))))?;
        let sealed = listeners().flat_map(|it| {
            [
                ("resealed", it.sum(|it| &it.resealed)),
                ("skipped", it.sum(|it| &it.skipped)),
                ("rewrapped", it.sum(|it| &it.rewrapped)),
            ]
            .map(|(outcome, count)| ([&*it.name, outcome], count))
        });
        out.counters(SEALED, ["listener", "outcome"], sealed)?;
        out.counters(SYMMETRIC, ["listener"], listeners().map(|it| ([&*it.name], it.sum(|it| &it.symmetric))))?;
        self.write_searches(out)?;
        out.counters(WITHHELD, ["listener", "code"], by_code(listeners(), |it| &it.withheld))?;
        out.counters(REFUSALS, ["listener", "code"], by_code(listeners(), |it| &it.refusals))?;
        let bodies = listeners().flat_map(|it| {
            [([&*it.name, "received"], it.sum(|it| &it.received)), ([&*it.name, "sent"], it.sum(|it| &it.sent))]
        });
        out.counters(BODIES, ["listener", "direction"], bodies)
    }

    fn write_searches(&self, out: &mut MetricsWriter<'_>) -> fmt::Result {
        const FORWARDED: MetricName = MetricName::plain(
            "relay_sealed_forwarded",
            "Messages that were forwarded with an envelope to third parties, or although rules of their direction decrypt bodies, by its \
             place",
        );
        const UNSEARCHED: MetricName = MetricName::plain(
            "relay_unsearched_bodies",
            "Bodies of such messages that were not searched to their end for envelopes, by reason: beyond-limit, more than \
             envelope_search_size_max bytes; unreadable-coding, a content coding that the relay does not read, or a damaged one",
        );
        let listeners = || self.listeners.iter();
        let forwarded = listeners().flat_map(|listener| {
            ExchangePart::ALL.map(|place| {
                ([&*listener.name, place.as_str()], listener.sum(|it| &it.sealed_forwarded[place as usize]))
            })
        });
        out.counters(FORWARDED, ["listener", "place"], forwarded)?;
        let unsearched = listeners().flat_map(|listener| {
            ExchangePart::BODIES.into_iter().flat_map(move |place| {
                FoundEnvelope::UNSEARCHED.into_iter().enumerate().map(move |(kind, reason)| {
                    let count = listener.sum(|it| &it.unsearched[place as usize][kind]);
                    ([&*listener.name, place.as_str(), reason.as_str()], count)
                })
            })
        });
        out.counters(UNSEARCHED, ["listener", "place", "reason"], unsearched)
    }

    fn write_buffered_bodies(&self, out: &mut MetricsWriter<'_>) -> fmt::Result {
        const HELD: MetricName = MetricName::bytes(
            "relay_buffered_bodies",
            "Memory of bodies that are read completely, with everything derived from them and the memory of decoders",
        );
        const PEAK: MetricName =
            MetricName::bytes("relay_buffered_bodies_peak", "The maximum of that memory since the start");
        const LIMIT: MetricName =
            MetricName::bytes("relay_buffered_bodies_limit", "The limit of that memory: bodies_size_max");
        out.gauge(HELD, self.bodies.held as u64)?;
        out.gauge(PEAK, self.bodies.most as u64)?;
        out.gauge(LIMIT, self.bodies.max as u64)
    }

    fn write_connections(&self, out: &mut MetricsWriter<'_>) -> fmt::Result {
        const OPEN: MetricName = MetricName::plain(
            "relay_connections_open",
            "Open connections of clients, including TLS handshakes in progress",
        );
        const EVENTS: MetricName = MetricName::plain(
            "relay_connections",
            "Connections of clients by event: accepted by the operating system; refused at a limit; displaced by a new connection; failed \
             in the TLS handshake; resumed, with the TLS session of an earlier connection; cut, the \
             peer sent or read too slowly; idle, closed after too long without a request",
        );
        const UPSTREAM: MetricName =
            MetricName::plain("relay_upstream_connections_open", "Open connections to upstreams");
        let open = self.listeners.iter().map(|listener| {
            let open: usize = listener.connections.iter().map(|it| it.connections_open).sum();
            ([&*listener.name], open as u64)
        });
        out.gauges(OPEN, ["listener"], open)?;
        let events = self.listeners.iter().flat_map(|listener| {
            let count = |of: fn(&HttpCounters) -> u64| listener.connections.iter().map(of).sum::<u64>();
            [
                ("accepted", count(|it| it.connections_accepted)),
                ("refused", count(|it| it.connections_refused)),
                ("displaced", count(|it| it.connections_displaced)),
                ("failed", count(|it| it.handshakes_failed)),
                ("resumed", count(|it| it.handshakes_resumed)),
                ("cut", count(|it| it.connections_cut)),
                ("idle", count(|it| it.connections_idle)),
            ]
            .map(|(event, count)| ([&*listener.name, event], count))
        });
        out.counters(EVENTS, ["listener", "event"], events)?;
        out.gauge(UPSTREAM, self.upstream_connections as u64)?;
        self.write_key_exchanges(out)
    }

    fn write_key_exchanges(&self, out: &mut MetricsWriter<'_>) -> fmt::Result {
        const CLIENTS: MetricName = MetricName::plain(
            "relay_tls_key_exchanges",
            "Successful TLS handshakes with clients, also inside tunnels, by group of the key exchange; X25519MLKEM768 is hybrid",
        );
        const UPSTREAMS: MetricName = MetricName::plain(
            "relay_upstream_tls_key_exchanges",
            "The same with upstreams; other is a key exchange of TLS 1.2 without a group of the list",
        );
        let clients = self.listeners.iter().flat_map(|listener| {
            let mut counts = GroupCounts::default();
            listener.connections.iter().for_each(|it| counts.add(&it.key_exchanges));
            counts.rows().map(|(group, count)| ([&*listener.name, group], count))
        });
        out.counters(CLIENTS, ["listener", "group"], clients)?;
        out.counters(UPSTREAMS, ["group"], UPSTREAM_KEY_EXCHANGES.get().rows().map(|(group, count)| ([group], count)))
    }

    fn write_rest(&self, out: &mut MetricsWriter<'_>) -> fmt::Result {
        const DROPPED: MetricName = MetricName::plain(
            "relay_access_log_lines_dropped",
            "Lines of the access log that were dropped: they came too fast, or could not be written to the file",
        );
        const RELOADS: MetricName = MetricName::plain("relay_reloads", "Configurations reloaded since the start");
        out.counter(DROPPED, self.log_lines_dropped)?;
        out.counter(RELOADS, self.reloads)
    }
}

/// Counts of all listeners by code.
fn by_code<'l>(
    listeners: impl Iterator<Item = &'l ListenerSnapshot>,
    of: fn(&ListenerMetrics) -> &CountsByCode,
) -> impl Iterator<Item = ([&'l str; 2], u64)> {
    listeners.flat_map(move |it| it.by_code(of).into_iter().map(|(code, count)| ([&*it.name, code.as_str()], count)))
}

/// Classes of statuses; the first stands for requests without an answer.
const CLASSES: [&str; 6] = ["0xx", "1xx", "2xx", "3xx", "4xx", "5xx"];

impl ListenerSnapshot {
    /// Sums a counter over all threads.
    fn sum(&self, of: impl Fn(&ListenerMetrics) -> &AtomicU64) -> u64 {
        self.metrics.iter().map(|metrics| of(metrics).load(Ordering::Relaxed)).sum()
    }

    /// Sums counts over all threads, by code.
    fn by_code(&self, of: impl Fn(&ListenerMetrics) -> &CountsByCode) -> BTreeMap<ErrorCode, u64> {
        let mut counts = BTreeMap::new();
        for metrics in &self.metrics {
            for (code, count) in &*of(metrics).lock() {
                *counts.entry(*code).or_default() += count;
            }
        }
        counts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn snapshot(metrics: Vec<Arc<ListenerMetrics>>) -> Snapshot {
        Snapshot {
            decisions: Arc::default(),
            listeners: vec![ListenerSnapshot {
                name: "api".into(),
                metrics,
                connections: vec![HttpCounters::default()],
            }],
            engine: vec![Arc::new(EngineMetrics::new(&Arc::new(crate::outages::Outages::new("engine"))))],
            is_ready: true,
            upstream_connections: 0,
            bodies: Usage { held: 4096, most: 65_536, max: 1 << 30 },
            log_lines_dropped: 3,
            certificates: vec![(["api".to_owned(), "localhost".to_owned()], 1_700_000_000)],
            reloads: 0,
            private_keys: PrivateKeyFigures::read(),
            process: ProcessFigures {
                cpu: Some(Duration::from_millis(1500)),
                memory: Some(4096),
                descriptors: Some(7),
                descriptors_max: Some(20),
                began_unix_s: Some(1_700_000_012.5),
            },
        }
    }

    #[test]
    fn adds_up_the_counts_of_all_threads() {
        let metrics: Vec<Arc<ListenerMetrics>> = (0..2).map(|_| Arc::default()).collect();
        metrics[0].ended(200, Duration::from_micros(250), 3, 5);
        metrics[1].ended(503, Duration::from_secs(60), 0, 7);
        metrics[1].refused(ErrorCode::Unavailable);
        metrics[0].changed(Action::Redact, 4);
        let text = Snapshot { upstream_connections: 9, reloads: 1, ..snapshot(metrics) }.into_text();
        for line in [
            "leafseal_relay_requests_total{listener=\"api\",status=\"2xx\"} 1",
            "leafseal_relay_requests_total{listener=\"api\",status=\"5xx\"} 1",
            "leafseal_relay_request_seconds_bucket{le=\"0.0005\",listener=\"api\"} 1",
            "leafseal_relay_request_seconds_bucket{le=\"50.0\",listener=\"api\"} 1",
            "leafseal_relay_request_seconds_bucket{le=\"+Inf\",listener=\"api\"} 2",
            "leafseal_relay_request_seconds_count{listener=\"api\"} 2",
            "leafseal_relay_values_total{listener=\"api\",action=\"redact\"} 4",
            "leafseal_relay_refusals_total{listener=\"api\",code=\"unavailable\"} 1",
            "leafseal_relay_body_bytes_total{listener=\"api\",direction=\"sent\"} 12",
            "leafseal_relay_buffered_bodies_bytes 4096",
            "leafseal_relay_buffered_bodies_peak_bytes 65536",
            "leafseal_relay_buffered_bodies_limit_bytes 1073741824",
            "leafseal_relay_upstream_connections_open 9",
            "leafseal_relay_reloads_total 1",
            "leafseal_relay_ready 1",
            "process_cpu_seconds_total 1.5",
            "process_resident_memory_bytes 4096",
            "process_open_fds 7",
            "process_max_fds 20",
            "process_start_time_seconds 1700000012.5",
            "leafseal_relay_access_log_lines_dropped_total 3",
            concat!("leafseal_relay_build_info{version=\"", env!("CARGO_PKG_VERSION"), "\"} 1"),
        ] {
            assert!(text.lines().any(|found| found == line), "{line} in:\n{text}");
        }
        assert!(text.ends_with("# EOF\n"));
    }

    /// `UPDATE=1 cargo test -p leafseal-relay --lib metrics` regenerates the table.
    #[test]
    fn the_documentation_has_every_metric() {
        let metrics: Vec<Arc<ListenerMetrics>> = vec![Arc::default()];
        metrics[0].refused(ErrorCode::InvalidRequest);
        metrics[0].withheld(ErrorCode::UnsupportedMediaType);
        let document = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/relay.md");
        leafseal_testkit::check_metrics_table(document, "## Monitoring", &snapshot(metrics).into_text());
    }
}
