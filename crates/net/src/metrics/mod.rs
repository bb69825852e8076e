//! The building blocks of metrics: histograms, the Prometheus text format, CPU time by kind of thread.

mod histogram;
mod text;
mod threads;

pub use histogram::{Histogram, HistogramSnapshot};
pub use text::{MetricName, MetricsWriter, openmetrics};
pub use threads::ThreadTimes;
