//! What metrics are made of: histograms, the text that Prometheus reads, CPU time by kind of thread.

mod histogram;
mod text;
mod threads;

pub use histogram::{Histogram, HistogramSnapshot};
pub use text::{Named, Writer, openmetrics};
pub use threads::ThreadTimes;
