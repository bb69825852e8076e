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
#[derive(Clone, Copy, Debug)]
pub struct Named {
    prefix: &'static str,
    /// Behind the prefix, without the unit and without `_total`.
    pub name: &'static str,
    /// Ends the name, where there is one.
    pub unit: Option<&'static Unit>,
    /// What it counts, for people.
    pub help: &'static str,
}

impl Named {
    /// Of Fieldseal's, without a unit.
    pub const fn plain(name: &'static str, help: &'static str) -> Self {
        Named { prefix: PREFIX, name, unit: None, help }
    }

    /// Of Fieldseal's, in bytes.
    pub const fn bytes(name: &'static str, help: &'static str) -> Self {
        Named { prefix: PREFIX, name, unit: Some(&Unit::Bytes), help }
    }

    /// Of Fieldseal's, in seconds.
    pub const fn seconds(name: &'static str, help: &'static str) -> Self {
        Named { prefix: PREFIX, name, unit: Some(&Unit::Seconds), help }
    }

    /// The same, of the process.
    pub const fn of_process(self) -> Self {
        Named { prefix: PROCESS_PREFIX, ..self }
    }
}

/// Writes one metric after the other. Each function fails only where the text does.
pub struct Writer<'a> {
    encoder: DescriptorEncoder<'a>,
}

impl<'a> Writer<'a> {
    /// A writer into what the registry is encoded to.
    pub fn new(encoder: DescriptorEncoder<'a>) -> Self {
        Writer { encoder }
    }

    /// A value that goes up and down.
    pub fn gauge(&mut self, named: Named, value: impl EncodeGaugeValue) -> fmt::Result {
        let name = full(named);
        self.encoder.encode_descriptor(&name, named.help, named.unit, MetricType::Gauge)?.encode_gauge(&value)
    }

    /// One gauge for each value of the label.
    pub fn gauges(
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
    pub fn gauges_of_two(
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

    /// A value that only goes up.
    pub fn counter(&mut self, named: Named, value: impl EncodeCounterValue) -> fmt::Result {
        let name = full(named);
        let mut metric = self.encoder.encode_descriptor(&name, named.help, named.unit, MetricType::Counter)?;
        metric.encode_counter::<NoLabelSet, _, f64>(&value, None)
    }

    /// One counter for each value of the labels.
    pub fn counters<const N: usize>(
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

    /// Lengths of time.
    pub fn histogram(&mut self, named: Named, times: &HistogramSnapshot) -> fmt::Result {
        let name = full(named);
        let mut metric = self.encoder.encode_descriptor(&name, named.help, named.unit, MetricType::Histogram)?;
        metric.encode_histogram::<NoLabelSet>(times.sum, times.count, &times.buckets, None)
    }

    /// One histogram for each value of the label.
    pub fn histograms(
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

    /// A fact, as a label.
    pub fn info(&mut self, named: Named, label: &'static str, word: &'static str) -> fmt::Result {
        let name = full(named);
        let mut metric = self.encoder.encode_descriptor(&name, named.help, named.unit, MetricType::Info)?;
        metric.encode_info(&[(label, word)])
    }
}

impl fmt::Debug for Writer<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Writer").finish_non_exhaustive()
    }
}

fn full(named: Named) -> String {
    format!("{}{}", named.prefix, named.name)
}
