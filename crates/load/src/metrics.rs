//! Reads the engine's metrics from its operator port: OpenMetrics text over HTTP. Only the metrics that reports need are parsed.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::accounting::Cpu;
use crate::error::LoadError;
use crate::statistics::quantile;

/// Maximum bytes of a response.
const SIZE_MAX: u64 = 4 << 20;
/// Timeout of a request.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Histogram of the time that requests waited for a worker.
pub const QUEUE_WAIT: &str = "leafseal_queue_wait_seconds";
/// Total busy time of all workers, in seconds.
pub const WORKERS_BUSY: &str = "leafseal_worker_busy_seconds_total";

/// CPU time of the engine's threads, in seconds, by kind. Missing in older engines, and on systems without per-thread CPU time.
const CPU: &str = "leafseal_cpu_seconds_total";

/// Fetches `/metrics` from the first address that accepts the connection.
///
/// # Errors
/// Fails if there is no response or it is not OpenMetrics text.
pub async fn fetch(operator: &[SocketAddr]) -> Result<String, LoadError> {
    let place = || operator.iter().map(SocketAddr::to_string).collect::<Vec<_>>().join(", ");
    let answer = timeout(TIMEOUT, get(operator)).await.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()));
    let answer = answer.map_err(|error| LoadError::system(format!("metrics at {}", place()), error))?;
    let text = String::from_utf8(answer).unwrap_or_default();
    match text.split_once("\r\n\r\n") {
        Some((head, body)) if head.split(' ').nth(1) == Some("200") => Ok(body.to_owned()),
        _ => Err(LoadError::NoEngine(format!("no metrics at {}", place()))),
    }
}

async fn get(operator: &[SocketAddr]) -> io::Result<Vec<u8>> {
    let mut stream = TcpStream::connect(operator).await?;
    let address = stream.peer_addr()?;
    // HTTP 1.0: the response is not chunked and ends when the connection closes.
    stream.write_all(format!("GET /metrics HTTP/1.0\r\nHost: {address}\r\n\r\n").as_bytes()).await?;
    let mut answer = Vec::new();
    stream.take(SIZE_MAX).read_to_end(&mut answer).await?;
    Ok(answer)
}

/// Returns the sample whose name and labels are `name`, if the metrics contain it.
pub fn number(text: &str, name: &str) -> Option<f64> {
    let values = text.lines().filter_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.split(' ').next());
    values.filter_map(|value| value.parse().ok()).next()
}

/// Returns the CPU time of the engine, if the metrics contain it.
pub fn cpu(text: &str) -> Option<Cpu> {
    let of = |threads: &str| {
        let seconds = number(text, &format!("{CPU}{{threads=\"{threads}\"}}"))?;
        Duration::try_from_secs_f64(seconds).ok()
    };
    Some(Cpu { network: of("network")?, workers: of("workers")?, other: of("other")? })
}

/// A histogram without labels: upper bounds of buckets in seconds, each with its count.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Buckets(Vec<(f64, u64)>);

impl Buckets {
    /// Returns the histogram `name`, if the metrics contain it.
    pub fn read(text: &str, name: &str) -> Option<Self> {
        let mut buckets = Vec::new();
        let mut before = 0;
        for line in text.lines() {
            let Some(rest) = line.strip_prefix(name).and_then(|rest| rest.strip_prefix("_bucket{le=\"")) else {
                continue;
            };
            let (end, count) = rest.split_once("\"} ")?;
            let end = if end == "+Inf" { f64::INFINITY } else { end.parse().ok()? };
            // An exemplar may follow.
            let count: u64 = count.split(' ').next()?.parse().ok()?;
            buckets.push((end, count.saturating_sub(before)));
            before = count;
        }
        (!buckets.is_empty()).then_some(Buckets(buckets))
    }

    /// Returns the counts since `earlier`, an earlier reading of the same histogram.
    pub fn since(&self, earlier: &Buckets) -> Buckets {
        let pairs = self.0.iter().zip(&earlier.0);
        Buckets(pairs.map(|(now, before)| (now.0, now.1.saturating_sub(before.1))).collect())
    }

    /// Adds the counts of `other`, another period of the same histogram.
    pub fn add(&mut self, other: &Buckets) {
        if self.0.is_empty() {
            self.0.clone_from(&other.0);
        } else {
            self.0.iter_mut().zip(&other.0).for_each(|(own, other)| own.1 += other.1);
        }
    }

    /// The number of samples.
    pub fn count(&self) -> u64 {
        self.0.iter().map(|(_, count)| count).sum()
    }

    /// Returns the upper bound, in seconds, of the bucket that contains the quantile at `share`; 0 if empty.
    pub fn quantile(&self, share: f64) -> f64 {
        quantile(&self.0, share).unwrap_or(0.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
# TYPE leafseal_queue_wait_seconds histogram
leafseal_queue_wait_seconds_sum 0.5
leafseal_queue_wait_seconds_count 10
leafseal_queue_wait_seconds_bucket{le=\"1e-06\"} 2
leafseal_queue_wait_seconds_bucket{le=\"0.001\"} 9 # {} 0.0007
leafseal_queue_wait_seconds_bucket{le=\"+Inf\"} 10
leafseal_queue_wait_seconds_other_bucket{le=\"1.0\"} 99
";

    #[test]
    fn histograms_are_read() {
        let buckets = Buckets::read(TEXT, QUEUE_WAIT).unwrap();
        assert_eq!(buckets, Buckets(vec![(1e-6, 2), (0.001, 7), (f64::INFINITY, 1)]));
        assert_eq!((buckets.count(), buckets.quantile(0.2), buckets.quantile(0.5)), (10, 1e-6, 0.001));
        assert_eq!(buckets.quantile(1.0), f64::INFINITY);
        assert_eq!(Buckets::read(TEXT, "leafseal_other"), None);
    }

    #[test]
    fn numbers_are_read() {
        assert_eq!(number(TEXT, "leafseal_queue_wait_seconds_count"), Some(10.0));
        assert_eq!(number(TEXT, "leafseal_queue_wait_seconds_sum"), Some(0.5));
        assert_eq!(number(TEXT, "leafseal_queue_wait_seconds"), None);
    }

    #[test]
    fn cpu_time_is_read_whole_or_not_at_all() {
        let text = "\
# TYPE leafseal_cpu_seconds counter
leafseal_cpu_seconds_total{threads=\"network\"} 1.5
leafseal_cpu_seconds_total{threads=\"workers\"} 20.000000001
leafseal_cpu_seconds_total{threads=\"other\"} 0
";
        let ms = Duration::from_millis;
        let workers = ms(20_000) + Duration::from_nanos(1);
        assert_eq!(cpu(text), Some(Cpu { network: ms(1500), workers, other: Duration::ZERO }));
        for (from, to) in [("\"other\"", "\"others\""), ("1.5", "-1.5"), ("1.5", "NaN"), ("1.5", "1e300"), ("1.5", "x")]
        {
            assert_eq!(cpu(&text.replace(from, to)), None, "{to}");
        }
        assert_eq!(cpu(TEXT), None);
    }

    #[test]
    fn stretches_are_separated_and_joined() {
        let later = Buckets(vec![(1.0, 5), (2.0, 3)]);
        let stretch = later.since(&Buckets(vec![(1.0, 4), (2.0, 0)]));
        assert_eq!(stretch, Buckets(vec![(1.0, 1), (2.0, 3)]));
        let mut sum = Buckets::default();
        assert_eq!((sum.count(), sum.quantile(0.5)), (0, 0.0));
        sum.add(&stretch);
        sum.add(&stretch);
        assert_eq!(sum, Buckets(vec![(1.0, 2), (2.0, 6)]));
    }
}
