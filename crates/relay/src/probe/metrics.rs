//! The probe's metrics, at its operator port.

use std::io;
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use leafseal_net::OperatorReport;
use leafseal_net::metrics::{Histogram, HistogramSnapshot, MetricName, openmetrics};

use super::{ProbeTarget, Sample};
use crate::key_exchanges::UPSTREAM_KEY_EXCHANGES;

/// The probe's counters.
#[derive(Default)]
pub(super) struct ProbeMetrics {
    counts: Mutex<Counts>,
    /// By target.
    times: [Histogram; 2],
}

#[derive(Clone, Default)]
struct Counts {
    targets: [TargetCounts; 2],
    is_alarm: bool,
    alarms: u64,
    webhook_ok: u64,
    webhook_failed: u64,
}

#[derive(Clone, Default)]
struct TargetCounts {
    last: Duration,
    ok: u64,
    failed: u64,
}

impl ProbeMetrics {
    fn lock(&self) -> MutexGuard<'_, Counts> {
        self.counts.lock().expect("nothing panics while this is locked")
    }

    pub(super) fn is_alarm(&self) -> bool {
        self.lock().is_alarm
    }

    /// Counts a round.
    pub(super) fn count(&self, samples: &[Sample], is_alarm: bool) {
        let mut counts = self.lock();
        for sample in samples {
            let target = &mut counts.targets[sample.target as usize];
            target.last = sample.time;
            self.times[sample.target as usize].observe(sample.time);
            *(if sample.failure.is_some() { &mut target.failed } else { &mut target.ok }) += 1;
        }
        counts.alarms += u64::from(is_alarm && !counts.is_alarm);
        counts.is_alarm = is_alarm;
    }

    /// Counts a message to the webhook as delivered or dropped.
    pub(super) fn webhook(&self, is_delivered: bool) {
        let mut counts = self.lock();
        *(if is_delivered { &mut counts.webhook_ok } else { &mut counts.webhook_failed }) += 1;
    }
}

impl OperatorReport for ProbeMetrics {
    async fn readiness(&self) -> Result<(), String> {
        if self.is_alarm() { Err("alarm".to_owned()) } else { Ok(()) }
    }

    async fn metrics(&self) -> String {
        const LAST: MetricName = MetricName::seconds(
            "probe_last_request",
            "Time of the last request, to the engine or through the relay; a way that is not probed has no samples",
        );
        const REQUESTS: MetricName =
            MetricName::plain("probe_requests", "Requests by outcome, ok or failed; too slow is failed");
        const TIME: MetricName =
            MetricName::seconds("probe_request", "Time of requests, up to their failure where they failed");
        const ALARM: MetricName = MetricName::plain("probe_alarm", "1 while there is an alarm, else 0");
        const ALARMS: MetricName = MetricName::plain("probe_alarms", "Alarms since the start");
        const WEBHOOK: MetricName = MetricName::plain(
            "probe_webhook",
            "Starts and ends of alarms, by whether the webhook took them: ok or failed",
        );
        const GROUPS: MetricName = MetricName::plain(
            "probe_tls_key_exchanges",
            "TLS handshakes with the relay by group of the key exchange; X25519MLKEM768 is hybrid",
        );
        let counts = self.lock().clone();
        let times = self.times.each_ref().map(Histogram::snapshot);
        openmetrics(move |out| {
            let Counts { targets, is_alarm, alarms, webhook_ok, webhook_failed } = &counts;
            let all = || {
                [ProbeTarget::Engine, ProbeTarget::Relay]
                    .map(ProbeTarget::as_str)
                    .into_iter()
                    .zip(targets.iter().zip(&times))
            };
            // A target that is not probed has no last request; exporting a duration of zero would be wrong.
            let targets = || all().filter(|(_, (it, _))| it.ok + it.failed > 0);
            out.gauges(LAST, ["way"], targets().map(|(target, (it, _))| ([target], it.last.as_secs_f64())))?;
            let requests =
                targets().flat_map(|(target, (it, _))| [([target, "ok"], it.ok), ([target, "failed"], it.failed)]);
            out.counters(REQUESTS, ["way", "outcome"], requests)?;
            let times = targets().map(|(target, (_, times)): (_, (_, &HistogramSnapshot))| ([target], times.clone()));
            out.histograms(TIME, ["way"], times)?;
            out.counters(
                GROUPS,
                ["group"],
                UPSTREAM_KEY_EXCHANGES.get().rows().map(|(group, count)| ([group], count)),
            )?;
            out.gauge(ALARM, u64::from(*is_alarm))?;
            out.counter(ALARMS, *alarms)?;
            out.counters(WEBHOOK, ["outcome"], [(["ok"], *webhook_ok), (["failed"], *webhook_failed)])
        })
    }

    fn cannot_accept(&self, error: &io::Error) {
        tracing::error!(%error, "cannot accept connections at the operator port");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_target_that_is_not_probed_has_no_samples() {
        let metrics = ProbeMetrics::default();
        let text = metrics.metrics().await;
        assert!(!text.contains("way=") && text.contains("leafseal_probe_alarm 0\n"), "{text}");
        let failure = Some("no".to_owned());
        metrics.count(&[Sample { target: ProbeTarget::Relay, time: Duration::from_millis(1500), failure }], true);
        let text = metrics.metrics().await;
        for line in [
            "leafseal_probe_last_request_seconds{way=\"relay\"} 1.5",
            "leafseal_probe_request_seconds_sum{way=\"relay\"} 1.5",
            "leafseal_probe_requests_total{way=\"relay\",outcome=\"ok\"} 0",
            "leafseal_probe_requests_total{way=\"relay\",outcome=\"failed\"} 1",
            "leafseal_probe_alarms_total 1",
        ] {
            assert!(text.lines().any(|found| found == line), "{line} in:\n{text}");
        }
        assert!(!text.contains("way=\"engine\""), "{text}");
    }

    /// `UPDATE=1 cargo test -p leafseal-relay --lib metrics` regenerates the table.
    #[tokio::test]
    async fn the_documentation_has_every_metric() {
        let metrics = ProbeMetrics::default();
        metrics.count(&[Sample { target: ProbeTarget::Relay, time: Duration::from_millis(1), failure: None }], false);
        let document = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/probe.md");
        leafseal_testkit::check_metrics_table(document, "## Metrics", &metrics.metrics().await);
    }
}
