//! What is counted, by each thread for itself, and how it is exposed.

use std::collections::BTreeMap;
use std::fmt::{Display, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use fieldseal_http::HttpCounters;
use fieldseal_net::{ProcessFigures, ProcessSample, ProcessValue};

use crate::config::Action;

mod engine;

pub(crate) use engine::EngineMetrics;

/// Upper bounds of the histograms, in microseconds.
const BOUNDS: [u64; 14] =
    [250, 500, 1000, 2500, 5000, 10_000, 25_000, 50_000, 100_000, 250_000, 500_000, 1_000_000, 5_000_000, 30_000_000];

#[derive(Debug, Default)]
struct Histogram {
    buckets: [AtomicU64; BOUNDS.len() + 1],
    sum_microseconds: AtomicU64,
}

impl Histogram {
    fn observe(&self, time: Duration) {
        let microseconds = u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        let at = BOUNDS.iter().position(|&bound| microseconds <= bound).unwrap_or(BOUNDS.len());
        self.buckets[at].fetch_add(1, Ordering::Relaxed);
        self.sum_microseconds.fetch_add(microseconds, Ordering::Relaxed);
    }
}

/// The counts of one listener on one thread.
#[derive(Debug, Default)]
pub(crate) struct ListenerMetrics {
    /// By the first digit of the status; 0 where the client went away before one.
    statuses: [AtomicU64; 6],
    duration: Histogram,
    received: AtomicU64,
    sent: AtomicU64,
    values: [AtomicU64; 3],
    unopened: AtomicU64,
    refusals: Mutex<BTreeMap<&'static str, u64>>,
}

impl ListenerMetrics {
    /// A request is over.
    pub(crate) fn ended(&self, status: u16, time: Duration, received: u64, sent: u64) {
        let class = usize::from(status / 100).min(5);
        self.statuses[class].fetch_add(1, Ordering::Relaxed);
        self.duration.observe(time);
        self.received.fetch_add(received, Ordering::Relaxed);
        self.sent.fetch_add(sent, Ordering::Relaxed);
    }

    /// Envelopes did not open, and their messages went on.
    pub(crate) fn unopened(&self, count: u64) {
        self.unopened.fetch_add(count, Ordering::Relaxed);
    }

    /// Values were changed.
    pub(crate) fn changed(&self, action: Action, count: u64) {
        self.values[action as usize].fetch_add(count, Ordering::Relaxed);
    }

    /// A message was not passed on.
    pub(crate) fn refused(&self, code: &'static str) {
        *self.refusals.lock().expect("nothing panics while this is locked").entry(code).or_default() += 1;
    }
}

/// All counts of one listener.
pub(crate) struct ListenerSnapshot {
    pub(crate) name: Arc<str>,
    pub(crate) metrics: Vec<Arc<ListenerMetrics>>,
    pub(crate) connections: Vec<HttpCounters>,
}

/// All figures of one moment.
pub(crate) struct Snapshot {
    pub(crate) listeners: Vec<ListenerSnapshot>,
    /// By thread.
    pub(crate) engine: Vec<Arc<EngineMetrics>>,
    pub(crate) is_ready: bool,
    pub(crate) upstream_connections: usize,
    pub(crate) log_lines_dropped: u64,
    pub(crate) reloads: u64,
    pub(crate) process: ProcessFigures,
    /// When certificates expire, by usage and subject.
    pub(crate) certificates: Vec<([String; 2], u64)>,
}

impl Snapshot {
    /// As OpenMetrics text.
    pub(crate) fn text(&self) -> String {
        let Snapshot {
            listeners,
            engine,
            is_ready,
            upstream_connections,
            log_lines_dropped,
            reloads,
            process,
            certificates,
        } = self;
        let mut text = Text::new();
        text.begin("fieldseal_relay_build", "info", "The version of the relay.");
        text.sample("_info", &[("version", env!("CARGO_PKG_VERSION"))], 1);
        text.begin("fieldseal_relay_ready", "gauge", "1 while /readyz answers 200, else 0.");
        text.sample("", &[], u8::from(*is_ready));
        text.requests(listeners);
        text.messages(listeners);
        text.connections(listeners);
        text.begin("fieldseal_relay_upstream_connections", "gauge", "Open connections to upstreams.");
        text.sample("", &[], upstream_connections);
        text.engine(engine);
        let help =
            "Lines of the access log that were dropped: they came too fast, or could not be written to the file.";
        text.begin("fieldseal_relay_access_log_lines_dropped", "counter", help);
        text.sample("_total", &[], log_lines_dropped);
        text.begin("fieldseal_relay_reloads", "counter", "Configurations reloaded since the start.");
        text.sample("_total", &[], reloads);
        let help = "Expiry of the certificates in use, in Unix time, by use (a listener, its authority, engine-client, engine-authorities \
                    or upstream-authorities) and common name.";
        text.begin("fieldseal_relay_certificate_expiry_timestamp_seconds", "gauge", help);
        for ([usage, subject], not_after) in certificates {
            text.sample("", &[("use", usage), ("subject", subject)], not_after);
        }
        text.process(process);
        text.finish()
    }
}

fn get(atomic: &AtomicU64) -> u64 {
    atomic.load(Ordering::Relaxed)
}

impl ListenerSnapshot {
    fn sum(&self, of: impl Fn(&ListenerMetrics) -> u64) -> u64 {
        self.metrics.iter().map(|it| of(it)).sum()
    }
}

/// What is written, and the family that is being written.
pub(crate) struct Text {
    out: String,
    family: String,
}

impl Text {
    pub(crate) fn new() -> Self {
        Text { out: String::new(), family: String::new() }
    }

    /// The whole text.
    pub(crate) fn finish(mut self) -> String {
        self.out.push_str("# EOF\n");
        self.out
    }

    /// A family begins.
    pub(crate) fn begin(&mut self, family: &str, kind: &str, help: &str) {
        family.clone_into(&mut self.family);
        let _ = writeln!(self.out, "# TYPE {family} {kind}\n# HELP {family} {help}");
    }

    /// A sample of it.
    pub(crate) fn sample(&mut self, ending: &str, labels: &[(&str, &str)], value: impl Display) {
        let _ = write!(self.out, "{}{ending}", self.family);
        for (at, (name, label)) in labels.iter().enumerate() {
            let _ = write!(self.out, "{}{name}=\"{label}\"", if at == 0 { "{" } else { "," });
        }
        let _ = writeln!(self.out, "{} {value}", if labels.is_empty() { "" } else { "}" });
    }

    /// The process under Prometheus' own names; what the system does not tell is left out.
    fn process(&mut self, process: &ProcessFigures) {
        for ProcessSample { name, help, is_counter, value } in process.samples() {
            let (unit, value): (_, &dyn Display) = match &value {
                ProcessValue::Seconds(seconds) => ("_seconds", seconds),
                ProcessValue::Bytes(bytes) => ("_bytes", bytes),
                ProcessValue::Count(count) => ("", count),
            };
            let (kind, ending) = if is_counter { ("counter", "_total") } else { ("gauge", "") };
            self.begin(&format!("process_{name}{unit}"), kind, &format!("{help}."));
            self.sample(ending, &[], value);
        }
    }

    fn requests(&mut self, listeners: &[ListenerSnapshot]) {
        let help = "Requests by listener and status class; 0xx: the client left before an answer.";
        self.begin("fieldseal_relay_requests", "counter", help);
        for listener in listeners {
            for (class, name) in ["0xx", "1xx", "2xx", "3xx", "4xx", "5xx"].into_iter().enumerate() {
                let count = listener.sum(|it| get(&it.statuses[class]));
                self.sample("_total", &[("listener", &listener.name), ("status", name)], count);
            }
        }
        let help = "Time from a request's head to the end of its answer.";
        self.begin("fieldseal_relay_request_seconds", "histogram", help);
        for listener in listeners {
            self.histogram(("listener", &listener.name), listener.metrics.iter().map(|it| &it.duration));
        }
    }

    /// The histograms of all threads as one.
    fn histogram<'h>(&mut self, label: (&str, &str), threads: impl Iterator<Item = &'h Histogram> + Clone) {
        let mut below = 0;
        for at in 0..=BOUNDS.len() {
            below += threads.clone().map(|it| get(&it.buckets[at])).sum::<u64>();
            let bound = BOUNDS.get(at).map_or("+Inf".to_owned(), |&bound| (bound as f64 / 1e6).to_string());
            self.sample("_bucket", &[label, ("le", &bound)], below);
        }
        let microseconds: u64 = threads.map(|it| get(&it.sum_microseconds)).sum();
        self.sample("_sum", &[label], microseconds as f64 / 1e6);
        self.sample("_count", &[label], below);
    }

    fn messages(&mut self, listeners: &[ListenerSnapshot]) {
        self.begin("fieldseal_relay_values", "counter", "Values that rules changed, by action.");
        for listener in listeners {
            for action in [Action::Encrypt, Action::Decrypt, Action::Redact] {
                let count = listener.sum(|it| get(&it.values[action as usize]));
                self.sample("_total", &[("listener", &listener.name), ("action", action.as_str())], count);
            }
        }
        self.begin(
            "fieldseal_relay_unopened",
            "counter",
            "Envelopes that failed to decrypt and were left or emptied, as on_failure of their rules requires.",
        );
        for listener in listeners {
            let count = listener.sum(|it| get(&it.unopened));
            self.sample("_total", &[("listener", &listener.name)], count);
        }
        self.begin("fieldseal_relay_refusals", "counter", "Messages that were not forwarded, by code.");
        for listener in listeners {
            let mut counts = BTreeMap::<&str, u64>::new();
            for metrics in &listener.metrics {
                for (code, count) in &*metrics.refusals.lock().expect("nothing panics while this is locked") {
                    *counts.entry(code).or_default() += count;
                }
            }
            for (code, count) in counts {
                self.sample("_total", &[("listener", &listener.name), ("code", code)], count);
            }
        }
        self.begin("fieldseal_relay_body_bytes", "counter", "Bytes of bodies, received from clients and sent to them.");
        for listener in listeners {
            let (received, sent) = (listener.sum(|it| get(&it.received)), listener.sum(|it| get(&it.sent)));
            self.sample("_total", &[("listener", &listener.name), ("way", "received")], received);
            self.sample("_total", &[("listener", &listener.name), ("way", "sent")], sent);
        }
    }

    fn connections(&mut self, listeners: &[ListenerSnapshot]) {
        self.begin("fieldseal_relay_connections", "gauge", "Open connections of clients.");
        for listener in listeners {
            let open: usize = listener.connections.iter().map(|it| it.connections_open).sum();
            self.sample("", &[("listener", &listener.name)], open);
        }
        let help = "Connections of clients that the relay refused or closed, by reason.";
        self.begin("fieldseal_relay_connections_ended", "counter", help);
        for listener in listeners {
            let count = |of: fn(&HttpCounters) -> u64| listener.connections.iter().map(of).sum::<u64>();
            for (why, count) in [
                ("refused", count(|it| it.connections_refused)),
                ("displaced", count(|it| it.connections_displaced)),
                ("handshake", count(|it| it.handshakes_failed)),
                ("slow", count(|it| it.connections_cut)),
                ("idle", count(|it| it.connections_idle)),
            ] {
                self.sample("_total", &[("listener", &listener.name), ("why", why)], count);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn snapshot(metrics: Vec<Arc<ListenerMetrics>>) -> Snapshot {
        Snapshot {
            listeners: vec![ListenerSnapshot {
                name: "api".into(),
                metrics,
                connections: vec![HttpCounters::default()],
            }],
            engine: vec![Arc::new(EngineMetrics::new(&Arc::new(crate::losses::Losses::new("engine"))))],
            is_ready: true,
            upstream_connections: 0,
            log_lines_dropped: 3,
            certificates: vec![(["api".to_owned(), "localhost".to_owned()], 1_700_000_000)],
            reloads: 0,
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
    fn counts_of_all_threads_are_told_together() {
        let metrics: Vec<Arc<ListenerMetrics>> = (0..2).map(|_| Arc::default()).collect();
        metrics[0].ended(200, Duration::from_micros(250), 3, 5);
        metrics[1].ended(503, Duration::from_secs(60), 0, 7);
        metrics[1].refused("engine-unavailable");
        metrics[0].changed(Action::Redact, 4);
        let text = Snapshot { upstream_connections: 9, reloads: 1, ..snapshot(metrics) }.text();
        for line in [
            "fieldseal_relay_requests_total{listener=\"api\",status=\"2xx\"} 1",
            "fieldseal_relay_requests_total{listener=\"api\",status=\"5xx\"} 1",
            "fieldseal_relay_request_seconds_bucket{listener=\"api\",le=\"0.00025\"} 1",
            "fieldseal_relay_request_seconds_bucket{listener=\"api\",le=\"30\"} 1",
            "fieldseal_relay_request_seconds_bucket{listener=\"api\",le=\"+Inf\"} 2",
            "fieldseal_relay_request_seconds_count{listener=\"api\"} 2",
            "fieldseal_relay_values_total{listener=\"api\",action=\"redact\"} 4",
            "fieldseal_relay_refusals_total{listener=\"api\",code=\"engine-unavailable\"} 1",
            "fieldseal_relay_body_bytes_total{listener=\"api\",way=\"sent\"} 12",
            "fieldseal_relay_upstream_connections 9",
            "fieldseal_relay_reloads_total 1",
            "fieldseal_relay_ready 1",
            "process_cpu_seconds_total 1.5",
            "process_resident_memory_bytes 4096",
            "process_open_fds 7",
            "process_max_fds 20",
            "process_start_time_seconds 1700000012.5",
            "fieldseal_relay_access_log_lines_dropped_total 3",
            concat!("fieldseal_relay_build_info{version=\"", env!("CARGO_PKG_VERSION"), "\"} 1"),
        ] {
            assert!(text.lines().any(|found| found == line), "{line} in:\n{text}");
        }
        assert!(text.ends_with("# EOF\n"));
    }

    #[test]
    fn the_documentation_has_every_metric() {
        let docs = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/relay.md")).unwrap();
        let metrics: Vec<Arc<ListenerMetrics>> = vec![Arc::default()];
        metrics[0].refused("malformed");
        let text = snapshot(metrics).text();
        let mut count = 0;
        for (family, help) in text.lines().filter_map(|line| line.strip_prefix("# HELP ")?.split_once(' ')) {
            count += 1;
            let endings = ["{", " ", "_total", "_bucket", "_sum", "_count", "_info"];
            let is_of_family = |line: &&str| {
                line.strip_prefix(family).is_some_and(|rest| endings.iter().any(|it| rest.starts_with(it)))
            };
            let samples = text.lines().filter(is_of_family);
            let mut labels: Vec<&str> = Vec::new();
            for name in samples.flat_map(|line| line.split(['{', ',']).skip(1)).filter_map(|it| it.split_once('=')) {
                if !labels.contains(&name.0) {
                    labels.push(name.0);
                }
            }
            let labels: Vec<String> = labels.into_iter().map(|label| format!("`{label}`")).collect();
            let row = match labels.join(", ").as_str() {
                "" => format!("| `{family}` | | {help} |"),
                labels => format!("| `{family}` | {labels} | {help} |"),
            };
            assert!(docs.lines().any(|line| line == row), "{row} in docs/relay.md");
        }
        assert_eq!(docs.matches("| `fieldseal_relay_").count() + docs.matches("| `process_").count(), count);
    }
}
