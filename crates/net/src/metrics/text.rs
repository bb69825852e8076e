//! Writes metrics as OpenMetrics text, under the common prefix or the standard prefix of process metrics.

use std::fmt;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeCounterValue, EncodeGaugeValue, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::{Registry, Unit};

use super::histogram::HistogramSnapshot;
use crate::process::ProcessFigures;

const PREFIX: &str = "leafseal_";
/// Prometheus' prefix for metrics of any process.
const PROCESS_PREFIX: &str = "process_";

/// The name and help text of a metric.
#[derive(Clone, Copy, Debug)]
pub struct MetricName {
    prefix: &'static str,
    /// The name after the prefix, without unit and `_total`.
    pub name: &'static str,
    /// The unit, which ends the name.
    pub unit: Option<&'static Unit>,
    /// The help text, without a full stop.
    pub help: &'static str,
}

impl MetricName {
    /// A metric without a unit.
    pub const fn plain(name: &'static str, help: &'static str) -> Self {
        MetricName { prefix: PREFIX, name, unit: None, help }
    }

    /// A metric in bytes.
    pub const fn bytes(name: &'static str, help: &'static str) -> Self {
        MetricName { prefix: PREFIX, name, unit: Some(&Unit::Bytes), help }
    }

    /// A metric in seconds.
    pub const fn seconds(name: &'static str, help: &'static str) -> Self {
        MetricName { prefix: PREFIX, name, unit: Some(&Unit::Seconds), help }
    }

    /// The same under the prefix of process metrics.
    const fn of_process(self) -> Self {
        MetricName { prefix: PROCESS_PREFIX, ..self }
    }
}

/// Returns what `write` writes as OpenMetrics text.
pub fn openmetrics(write: impl Fn(&mut MetricsWriter<'_>) -> fmt::Result + Send + Sync + 'static) -> String {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(WrittenMetrics(write)));
    let mut out = String::new();
    prometheus_client::encoding::text::encode(&mut out, &registry).expect("a string takes everything");
    out
}

/// Metrics written by a function.
struct WrittenMetrics<F>(F);

impl<F> fmt::Debug for WrittenMetrics<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Written").finish_non_exhaustive()
    }
}

impl<F: Fn(&mut MetricsWriter<'_>) -> fmt::Result + Send + Sync + 'static> Collector for WrittenMetrics<F> {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        (self.0)(&mut MetricsWriter { encoder })
    }
}

/// Writes metrics. Each function fails only if the text cannot be written.
pub struct MetricsWriter<'a> {
    encoder: DescriptorEncoder<'a>,
}

impl MetricsWriter<'_> {
    /// Writes a gauge.
    pub fn gauge(&mut self, named: MetricName, value: impl EncodeGaugeValue) -> fmt::Result {
        self.begin(named, MetricType::Gauge, |mut metric| metric.encode_gauge(&value))
    }

    /// Writes a gauge for each row of label values.
    pub fn gauges<'l, const N: usize>(
        &mut self,
        named: MetricName,
        labels: [&'static str; N],
        rows: impl IntoIterator<Item = ([&'l str; N], impl EncodeGaugeValue)>,
    ) -> fmt::Result {
        self.begin(named, MetricType::Gauge, |mut metric| {
            rows.into_iter()
                .try_for_each(|(words, value)| metric.encode_family(&pairs(labels, words))?.encode_gauge(&value))
        })
    }

    /// Writes a counter.
    pub fn counter(&mut self, named: MetricName, value: impl EncodeCounterValue) -> fmt::Result {
        self.begin(named, MetricType::Counter, |mut metric| metric.encode_counter::<NoLabelSet, _, f64>(&value, None))
    }

    /// Writes a counter for each row of label values.
    pub fn counters<'l, const N: usize>(
        &mut self,
        named: MetricName,
        labels: [&'static str; N],
        rows: impl IntoIterator<Item = ([&'l str; N], impl EncodeCounterValue)>,
    ) -> fmt::Result {
        self.begin(named, MetricType::Counter, |mut metric| {
            rows.into_iter().try_for_each(|(words, value)| {
                metric.encode_family(&pairs(labels, words))?.encode_counter::<NoLabelSet, _, f64>(&value, None)
            })
        })
    }

    /// Writes a histogram.
    pub fn histogram(&mut self, named: MetricName, times: &HistogramSnapshot) -> fmt::Result {
        self.begin(named, MetricType::Histogram, |metric| encode_histogram(metric, times))
    }

    /// Writes a histogram for each row of label values.
    pub fn histograms<'l, const N: usize>(
        &mut self,
        named: MetricName,
        labels: [&'static str; N],
        rows: impl IntoIterator<Item = ([&'l str; N], HistogramSnapshot)>,
    ) -> fmt::Result {
        self.begin(named, MetricType::Histogram, |mut metric| {
            rows.into_iter()
                .try_for_each(|(words, times)| encode_histogram(metric.encode_family(&pairs(labels, words))?, &times))
        })
    }

    /// Writes an info metric with one label.
    pub fn info(&mut self, named: MetricName, label: &'static str, word: &'static str) -> fmt::Result {
        self.begin(named, MetricType::Info, |mut metric| metric.encode_info(&[(label, word)]))
    }

    /// Writes the process metrics under the names of Prometheus' client libraries; values that the system does not report are omitted.
    pub fn process(&mut self, process: &ProcessFigures) -> fmt::Result {
        const CPU: MetricName = MetricName::seconds("cpu", "User and system CPU time of the process").of_process();
        const MEMORY: MetricName = MetricName::bytes("resident_memory", "Resident memory of the process").of_process();
        const OPEN: MetricName = MetricName::plain("open_fds", "Open file descriptors of the process").of_process();
        const MAX: MetricName = MetricName::plain("max_fds", "Maximum number of open file descriptors").of_process();
        const BEGAN: MetricName =
            MetricName::seconds("start_time", "Start time of the process, in Unix time").of_process();
        let ProcessFigures { cpu, memory, descriptors, descriptors_max, began_unix_s } = *process;
        cpu.map_or(Ok(()), |time| self.counter(CPU, time.as_secs_f64()))?;
        memory.map_or(Ok(()), |bytes| self.gauge(MEMORY, bytes))?;
        descriptors.map_or(Ok(()), |count| self.gauge(OPEN, count))?;
        descriptors_max.map_or(Ok(()), |count| self.gauge(MAX, count))?;
        began_unix_s.map_or(Ok(()), |seconds| self.gauge(BEGAN, seconds))
    }

    fn begin(
        &mut self,
        named: MetricName,
        kind: MetricType,
        write: impl FnOnce(MetricEncoder<'_>) -> fmt::Result,
    ) -> fmt::Result {
        let name = format!("{}{}", named.prefix, named.name);
        write(self.encoder.encode_descriptor(&name, named.help, named.unit, kind)?)
    }
}

impl fmt::Debug for MetricsWriter<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Writer").finish_non_exhaustive()
    }
}

fn pairs<'l, const N: usize>(labels: [&'static str; N], words: [&'l str; N]) -> [(&'static str, &'l str); N] {
    std::array::from_fn(|at| (labels[at], words[at]))
}

fn encode_histogram(mut metric: MetricEncoder<'_>, times: &HistogramSnapshot) -> fmt::Result {
    metric.encode_histogram::<NoLabelSet>(times.sum, times.count, &times.buckets, None)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::metrics::Histogram;

    #[test]
    fn writes_each_kind_and_escapes_what_others_named() {
        let times = Histogram::default();
        times.observe(Duration::from_millis(1));
        let text = openmetrics(move |out| {
            out.gauges(MetricName::plain("open", "Open"), ["name"], [(["a \"b\"\n\\"], 7_u64)])?;
            out.counters(MetricName::bytes("moved", "Moved"), ["from", "to"], [(["a", "b"], 3_u64)])?;
            out.histograms(MetricName::seconds("wait", "Waited"), ["kind"], [(["x"], times.snapshot())])?;
            let (cpu, memory) = (Some(Duration::from_millis(1500)), Some(4096));
            out.process(&ProcessFigures { cpu, memory, ..ProcessFigures::default() })
        });
        for line in [
            "# TYPE leafseal_open gauge",
            "leafseal_open{name=\"a \\\"b\\\"\\n\\\\\"} 7",
            "# UNIT leafseal_moved_bytes bytes",
            "leafseal_moved_bytes_total{from=\"a\",to=\"b\"} 3",
            "leafseal_wait_seconds_bucket{le=\"0.0005\",kind=\"x\"} 0",
            "leafseal_wait_seconds_bucket{le=\"0.001\",kind=\"x\"} 1",
            "leafseal_wait_seconds_bucket{le=\"+Inf\",kind=\"x\"} 1",
            "leafseal_wait_seconds_sum{kind=\"x\"} 0.001",
            "process_cpu_seconds_total 1.5",
            "process_resident_memory_bytes 4096",
        ] {
            assert!(text.lines().any(|found| found == line), "{line} in:\n{text}");
        }
        assert!(text.ends_with("# EOF\n") && !text.contains("process_open_fds"), "{text}");
    }
}
