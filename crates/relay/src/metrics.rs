//! What is counted, by each thread for itself, and how it is told.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use fieldseal_http::HttpCounters;

use crate::config::Action;

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
pub(crate) struct Told {
    pub(crate) name: Arc<str>,
    pub(crate) metrics: Vec<Arc<ListenerMetrics>>,
    pub(crate) connections: Vec<HttpCounters>,
}

/// All metrics as OpenMetrics text.
pub(crate) fn text(listeners: &[Told], upstream_connections: usize, reloads: u64) -> String {
    let mut out = String::new();
    let mut family = |name: &str, kind: &str, help: &str, samples: &dyn Fn(&mut String)| {
        let _ = writeln!(out, "# TYPE {name} {kind}\n# HELP {name} {help}");
        samples(&mut out);
    };
    let sum = |told: &Told, of: &dyn Fn(&ListenerMetrics) -> u64| told.metrics.iter().map(|it| of(it)).sum::<u64>();
    let get = |atomic: &AtomicU64| atomic.load(Ordering::Relaxed);
    family(
        "fieldseal_relay_requests",
        "counter",
        "Requests, by listener and class of status; 0xx: the client went away.",
        &|out| {
            for told in listeners {
                for class in 0..6 {
                    let count = sum(told, &|it| get(&it.statuses[class]));
                    let _ = writeln!(
                        out,
                        "fieldseal_relay_requests_total{{listener=\"{}\",status=\"{class}xx\"}} {count}",
                        told.name
                    );
                }
            }
        },
    );
    family(
        "fieldseal_relay_request_seconds",
        "histogram",
        "Time from a request's head to the end of its answer.",
        &|out| {
            for told in listeners {
                let mut below = 0;
                for at in 0..=BOUNDS.len() {
                    below += sum(told, &|it| get(&it.duration.buckets[at]));
                    let bound = BOUNDS.get(at).map_or("+Inf".to_owned(), |&bound| (bound as f64 / 1e6).to_string());
                    let _ = writeln!(
                        out,
                        "fieldseal_relay_request_seconds_bucket{{listener=\"{}\",le=\"{bound}\"}} {below}",
                        told.name
                    );
                }
                let seconds = sum(told, &|it| get(&it.duration.sum_microseconds)) as f64 / 1e6;
                let _ = writeln!(
                    out,
                    "fieldseal_relay_request_seconds_sum{{listener=\"{0}\"}} {seconds}\nfieldseal_relay_request_seconds_count{{listener=\"{0}\"}} {below}",
                    told.name
                );
            }
        },
    );
    family("fieldseal_relay_values", "counter", "Values that were changed, by what was done to them.", &|out| {
        for told in listeners {
            for action in [Action::Encrypt, Action::Decrypt, Action::Redact] {
                let count = sum(told, &|it| get(&it.values[action as usize]));
                let _ = writeln!(
                    out,
                    "fieldseal_relay_values_total{{listener=\"{}\",action=\"{}\"}} {count}",
                    told.name,
                    action.as_str()
                );
            }
        }
    });
    family("fieldseal_relay_refusals", "counter", "Messages that were not passed on, by why.", &|out| {
        for told in listeners {
            let mut counts = BTreeMap::<&str, u64>::new();
            for metrics in &told.metrics {
                for (code, count) in &*metrics.refusals.lock().expect("nothing panics while this is locked") {
                    *counts.entry(code).or_default() += count;
                }
            }
            for (code, count) in counts {
                let _ = writeln!(
                    out,
                    "fieldseal_relay_refusals_total{{listener=\"{}\",code=\"{code}\"}} {count}",
                    told.name
                );
            }
        }
    });
    family("fieldseal_relay_body_bytes", "counter", "Bytes of bodies, from clients and to them.", &|out| {
        for told in listeners {
            let (received, sent) = (sum(told, &|it| get(&it.received)), sum(told, &|it| get(&it.sent)));
            let _ = writeln!(
                out,
                "fieldseal_relay_body_bytes_total{{listener=\"{0}\",way=\"received\"}} {received}\nfieldseal_relay_body_bytes_total{{listener=\"{0}\",way=\"sent\"}} {sent}",
                told.name
            );
        }
    });
    family("fieldseal_relay_connections", "gauge", "Connections of clients that are open.", &|out| {
        for told in listeners {
            let open: usize = told.connections.iter().map(|it| it.connections_open).sum();
            let _ = writeln!(out, "fieldseal_relay_connections{{listener=\"{}\"}} {open}", told.name);
        }
    });
    family(
        "fieldseal_relay_connections_ended",
        "counter",
        "Connections of clients that were not let live, by why.",
        &|out| {
            for told in listeners {
                let count = |of: &dyn Fn(&HttpCounters) -> u64| told.connections.iter().map(of).sum::<u64>();
                for (why, count) in [
                    ("refused", count(&|it| it.connections_refused)),
                    ("displaced", count(&|it| it.connections_displaced)),
                    ("handshake", count(&|it| it.handshakes_failed)),
                    ("slow", count(&|it| it.connections_cut)),
                ] {
                    let _ = writeln!(
                        out,
                        "fieldseal_relay_connections_ended_total{{listener=\"{}\",why=\"{why}\"}} {count}",
                        told.name
                    );
                }
            }
        },
    );
    family("fieldseal_relay_upstream_connections", "gauge", "Connections to upstreams that are open.", &|out| {
        let _ = writeln!(out, "fieldseal_relay_upstream_connections {upstream_connections}");
    });
    family("fieldseal_relay_reloads", "counter", "Configurations that were taken up since the start.", &|out| {
        let _ = writeln!(out, "fieldseal_relay_reloads_total {reloads}");
    });
    out.push_str("# EOF\n");
    out
}
