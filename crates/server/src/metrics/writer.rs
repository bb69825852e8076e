//! Writes metrics of each kind, under the common prefix or that of what every process has.

use std::fmt;

use prometheus_client::encoding::{DescriptorEncoder, EncodeCounterValue, EncodeGaugeValue, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Unit;

use super::histogram::HistogramSnapshot;

const PREFIX: &str = "fieldseal_";
/// Prometheus' own prefix for what every process has.
const PROCESS_PREFIX: &str = "process_";

/// Name and words of a metric.
#[derive(Clone, Copy)]
pub(super) struct Named {
    prefix: &'static str,
    /// Behind the prefix, without the unit and without `_total`.
    pub(super) name: &'static str,
    /// Ends the name, where there is one.
    pub(super) unit: Option<&'static Unit>,
    pub(super) help: &'static str,
}

impl Named {
    pub(super) const fn plain(name: &'static str, help: &'static str) -> Self {
        Named { prefix: PREFIX, name, unit: None, help }
    }

    pub(super) const fn bytes(name: &'static str, help: &'static str) -> Self {
        Named { prefix: PREFIX, name, unit: Some(&Unit::Bytes), help }
    }

    pub(super) const fn seconds(name: &'static str, help: &'static str) -> Self {
        Named { prefix: PREFIX, name, unit: Some(&Unit::Seconds), help }
    }

    /// The same, of the process.
    pub(super) const fn of_process(self) -> Self {
        Named { prefix: PROCESS_PREFIX, ..self }
    }
}

pub(super) struct Writer<'a> {
    encoder: DescriptorEncoder<'a>,
}

impl<'a> Writer<'a> {
    pub(super) fn new(encoder: DescriptorEncoder<'a>) -> Self {
        Writer { encoder }
    }

    pub(super) fn gauge(&mut self, named: Named, value: impl EncodeGaugeValue) -> fmt::Result {
        let name = full(named);
        self.encoder.encode_descriptor(&name, named.help, named.unit, MetricType::Gauge)?.encode_gauge(&value)
    }

    /// One gauge for each value of the label.
    pub(super) fn gauges(
        &mut self,
        named: Named,
        label: &'static str,
        values: impl IntoIterator<Item = (&'static str, u64)>,
    ) -> fmt::Result {
        let name = full(named);
        let mut metric = self.encoder.encode_descriptor(&name, named.help, named.unit, MetricType::Gauge)?;
        for (word, value) in values {
            metric.encode_family(&[(label, word)])?.encode_gauge(&value)?;
        }
        Ok(())
    }

    /// One gauge for each pair of values of two labels.
    pub(super) fn gauges_of_two(
        &mut self,
        named: Named,
        labels: [&'static str; 2],
        values: &[([String; 2], u64)],
    ) -> fmt::Result {
        let name = full(named);
        let mut metric = self.encoder.encode_descriptor(&name, named.help, named.unit, MetricType::Gauge)?;
        for (words, value) in values {
            let pairs = [(labels[0], words[0].as_str()), (labels[1], words[1].as_str())];
            metric.encode_family(&pairs)?.encode_gauge(value)?;
        }
        Ok(())
    }

    pub(super) fn counter(&mut self, named: Named, value: impl EncodeCounterValue) -> fmt::Result {
        let name = full(named);
        let mut metric = self.encoder.encode_descriptor(&name, named.help, named.unit, MetricType::Counter)?;
        metric.encode_counter::<NoLabelSet, _, f64>(&value, None)
    }

    /// One counter for each value of the labels.
    pub(super) fn counters<const N: usize>(
        &mut self,
        named: Named,
        labels: [&'static str; N],
        values: impl IntoIterator<Item = ([&'static str; N], impl EncodeCounterValue)>,
    ) -> fmt::Result {
        let name = full(named);
        let mut metric = self.encoder.encode_descriptor(&name, named.help, named.unit, MetricType::Counter)?;
        for (words, value) in values {
            let mut words = words.into_iter();
            let pairs = labels.map(|label| (label, words.next().expect("as many words as labels")));
            metric.encode_family(&pairs)?.encode_counter::<NoLabelSet, _, f64>(&value, None)?;
        }
        Ok(())
    }

    pub(super) fn histogram(&mut self, named: Named, times: &HistogramSnapshot) -> fmt::Result {
        let name = full(named);
        let mut metric = self.encoder.encode_descriptor(&name, named.help, named.unit, MetricType::Histogram)?;
        metric.encode_histogram::<NoLabelSet>(times.sum, times.count, &times.buckets, None)
    }

    /// One histogram for each value of the label.
    pub(super) fn histograms(
        &mut self,
        named: Named,
        label: &'static str,
        values: &[(&'static str, HistogramSnapshot)],
    ) -> fmt::Result {
        let name = full(named);
        let mut metric = self.encoder.encode_descriptor(&name, named.help, named.unit, MetricType::Histogram)?;
        for (word, times) in values {
            let pair = [(label, *word)];
            let mut one = metric.encode_family(&pair)?;
            one.encode_histogram::<NoLabelSet>(times.sum, times.count, &times.buckets, None)?;
        }
        Ok(())
    }

    pub(super) fn info(&mut self, named: Named, label: &'static str, word: &'static str) -> fmt::Result {
        let name = full(named);
        let mut metric = self.encoder.encode_descriptor(&name, named.help, named.unit, MetricType::Info)?;
        metric.encode_info(&[(label, word)])
    }
}

fn full(named: Named) -> String {
    format!("{}{}", named.prefix, named.name)
}
