//! What the probe tells at its operator port.

use std::io;
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use fieldseal_net::Report;

use super::{Sample, Way};
use crate::metrics::Text;

/// All counts.
#[derive(Default)]
pub(super) struct ProbeMetrics(Mutex<Counts>);

#[derive(Clone, Default)]
struct Counts {
    ways: [WayCounts; 2],
    is_alarm: bool,
    alarms: u64,
    webhook_ok: u64,
    webhook_failed: u64,
}

#[derive(Clone, Default)]
struct WayCounts {
    last: Duration,
    sum: Duration,
    ok: u64,
    failed: u64,
}

impl ProbeMetrics {
    fn lock(&self) -> MutexGuard<'_, Counts> {
        self.0.lock().expect("nothing panics while this is locked")
    }

    pub(super) fn is_alarm(&self) -> bool {
        self.lock().is_alarm
    }

    /// A round is over.
    pub(super) fn count(&self, samples: &[Sample], is_alarm: bool) {
        let mut counts = self.lock();
        for sample in samples {
            let way = &mut counts.ways[sample.way as usize];
            way.last = sample.time;
            way.sum += sample.time;
            *(if sample.failure.is_some() { &mut way.failed } else { &mut way.ok }) += 1;
        }
        counts.alarms += u64::from(is_alarm && !counts.is_alarm);
        counts.is_alarm = is_alarm;
    }

    /// The webhook was told something, or it was given up.
    pub(super) fn webhook(&self, is_told: bool) {
        let mut counts = self.lock();
        *(if is_told { &mut counts.webhook_ok } else { &mut counts.webhook_failed }) += 1;
    }
}

impl Report for ProbeMetrics {
    async fn readiness(&self) -> Result<(), String> {
        if self.is_alarm() { Err("alarm".to_owned()) } else { Ok(()) }
    }

    async fn metrics(&self) -> String {
        let counts = self.lock().clone();
        let all = || [Way::Engine, Way::Relay].map(Way::as_str).into_iter().zip(&counts.ways);
        // A way that is not probed has no last request, and one that takes no time would be a lie.
        let ways = || all().filter(|(_, it)| it.ok + it.failed > 0);
        let mut text = Text::new();
        text.begin("fieldseal_probe_seconds", "gauge", "Time of the last request.");
        ways().for_each(|(way, it)| text.sample("", &[("way", way)], it.last.as_secs_f64()));
        text.begin("fieldseal_probe_requests", "counter", "Requests, by how they went.");
        for (way, it) in ways() {
            text.sample("_total", &[("way", way), ("outcome", "ok")], it.ok);
            text.sample("_total", &[("way", way), ("outcome", "failed")], it.failed);
        }
        text.begin("fieldseal_probe_request_seconds", "counter", "Time of all requests together.");
        ways().for_each(|(way, it)| text.sample("_total", &[("way", way)], it.sum.as_secs_f64()));
        text.begin("fieldseal_probe_alarm", "gauge", "1 while there is an alarm.");
        text.sample("", &[], u8::from(counts.is_alarm));
        text.begin("fieldseal_probe_alarms", "counter", "Alarms since the start.");
        text.sample("_total", &[], counts.alarms);
        text.begin(
            "fieldseal_probe_webhook",
            "counter",
            "Begins and ends of alarms, by whether the webhook took them.",
        );
        text.sample("_total", &[("outcome", "ok")], counts.webhook_ok);
        text.sample("_total", &[("outcome", "failed")], counts.webhook_failed);
        text.finish()
    }

    fn cannot_accept(&self, error: &io::Error) {
        tracing::error!(%error, "cannot accept connections at the operator port");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_way_that_is_not_probed_is_not_told_of() {
        let metrics = ProbeMetrics::default();
        let text = metrics.metrics().await;
        assert!(!text.contains("way=") && text.contains("fieldseal_probe_alarm 0\n"), "{text}");
        let failure = Some("no".to_owned());
        metrics.count(&[Sample { way: Way::Relay, time: Duration::from_millis(1500), failure }], true);
        let text = metrics.metrics().await;
        for line in [
            "fieldseal_probe_seconds{way=\"relay\"} 1.5",
            "fieldseal_probe_requests_total{way=\"relay\",outcome=\"ok\"} 0",
            "fieldseal_probe_requests_total{way=\"relay\",outcome=\"failed\"} 1",
            "fieldseal_probe_alarms_total 1",
        ] {
            assert!(text.lines().any(|found| found == line), "{line} in:\n{text}");
        }
        assert!(!text.contains("engine"), "{text}");
    }
}
