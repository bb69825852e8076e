//! Observes the engine under load: its metrics, and the operating system's accounting of its process.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use crate::accounting::{Cpu, ProcessAccount};
use crate::error::LoadError;
use crate::metrics::{self, Buckets};

/// The observable sources of an engine.
#[derive(Clone, Debug, Default)]
pub struct ObservedEngine {
    /// The addresses of its operator port; the first one that responds is used. Empty if unknown.
    pub metrics: Vec<SocketAddr>,
    /// Its process, if it runs on this machine. CPU time is then read from the process and not from the metrics.
    pub process: Option<ProcessAccount>,
}

/// The figures of an interval.
#[derive(Clone, Debug)]
pub struct ServerPoint {
    /// Its end, from the start of the run.
    pub at: Duration,
    /// Its length.
    pub length: Duration,
    /// Average number of busy workers.
    pub workers_busy: Option<f64>,
    /// How long requests waited for a worker.
    pub queue_waits: Option<Buckets>,
    /// CPU time of the process.
    pub cpu: Option<Cpu>,
}

/// Cumulative figures at a moment.
#[derive(Clone, Debug, Default)]
struct EngineReading {
    busy: Option<f64>,
    waits: Option<Buckets>,
    cpu: Option<Cpu>,
}

impl ObservedEngine {
    fn is_any(&self) -> bool {
        !self.metrics.is_empty() || self.process.is_some()
    }

    async fn read(&self) -> Result<EngineReading, LoadError> {
        let mut reading = EngineReading::default();
        if !self.metrics.is_empty() {
            let text = metrics::fetch(&self.metrics).await?;
            reading.busy = metrics::number(&text, metrics::WORKERS_BUSY);
            reading.waits = Buckets::read(&text, metrics::QUEUE_WAIT);
            reading.cpu = metrics::cpu(&text);
        }
        // If a process is given, CPU time is read from the operating system.
        if let Some(process) = &self.process {
            reading.cpu = Some(process.cpu().map_err(|error| LoadError::system(process.to_string(), error))?);
        }
        Ok(reading)
    }

    /// Takes the first reading and verifies that the sources belong to an engine, which has answered requests by then.
    async fn first_reading(&self) -> Result<EngineReading, LoadError> {
        if let Some(process) = &self.process {
            let cpu = process.cpu().map_err(|error| LoadError::NoEngine(format!("{process}: {}", plain(&error))))?;
            if cpu.workers.is_zero() {
                return Err(LoadError::NoEngine(format!(
                    "{process} is not an engine: none of its workers has done any work"
                )));
            }
        }
        let reading = self.read().await?;
        if !self.metrics.is_empty() && reading.busy.is_none() {
            return Err(LoadError::NoEngine("--metrics does not return an engine's metrics".to_owned()));
        }
        Ok(reading)
    }
}

/// Returns the system's error, reworded if it would mention a file of `/proc`.
fn plain(error: &std::io::Error) -> String {
    match error.kind() {
        std::io::ErrorKind::NotFound => "there is none".to_owned(),
        _ => error.to_string(),
    }
}

/// Collects the readings of a run.
#[derive(Debug)]
pub(super) struct EngineWatcher<'a> {
    observed: &'a ObservedEngine,
    first: EngineReading,
    /// The last reading and its time.
    last: (Duration, EngineReading),
    points: Vec<ServerPoint>,
}

impl<'a> EngineWatcher<'a> {
    /// Takes the first reading, just before the start.
    ///
    /// # Errors
    /// Fails if a source is missing or does not belong to an engine.
    pub(super) async fn new(observed: &'a ObservedEngine) -> Result<Self, LoadError> {
        let first = observed.first_reading().await?;
        Ok(EngineWatcher { observed, last: (Duration::ZERO, first.clone()), first, points: Vec::new() })
    }

    /// Takes a reading in each period, forever.
    pub(super) async fn watch(&mut self, began: Instant, period: Duration) {
        if !self.observed.is_any() {
            return std::future::pending().await;
        }
        for number in 1.. {
            tokio::time::sleep_until((began + period * number).into()).await;
            // An engine that does not respond for a while leaves a gap, and the run continues.
            if let Ok(reading) = self.observed.read().await {
                self.record(began.elapsed(), reading);
            }
        }
    }

    /// Takes the last reading. Returns the figures over time, and the CPU time since the first reading.
    pub(super) async fn finish(mut self, began: Instant, period: Duration) -> (Vec<ServerPoint>, Option<Cpu>) {
        let Ok(reading) = self.observed.read().await else { return (self.points, None) };
        let cpu = reading.cpu.zip(self.first.cpu).map(|(now, before)| now.since(&before));
        let now = began.elapsed();
        // In a short last interval the granularity of the accounting would look like a peak.
        if self.observed.is_any() && now.saturating_sub(self.last.0) >= period / 2 {
            self.record(now, reading);
        }
        (self.points, cpu)
    }

    fn record(&mut self, now: Duration, reading: EngineReading) {
        self.points.push(between(&self.last, (now, &reading)));
        self.last = (now, reading);
    }
}

fn between((then, before): &(Duration, EngineReading), (now, reading): (Duration, &EngineReading)) -> ServerPoint {
    let length = now.saturating_sub(*then);
    ServerPoint {
        at: now,
        length,
        workers_busy: reading
            .busy
            .zip(before.busy)
            .map(|(now, before)| ((now - before) / length.as_secs_f64().max(1e-9)).max(0.0)),
        queue_waits: reading.waits.as_ref().zip(before.waits.as_ref()).map(|(now, before)| now.since(before)),
        cpu: reading.cpu.zip(before.cpu).map(|(now, before)| now.since(&before)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reading(busy: f64, workers_ms: u64) -> EngineReading {
        let workers = Duration::from_millis(workers_ms);
        EngineReading { busy: Some(busy), waits: None, cpu: Some(Cpu { workers, ..Cpu::default() }) }
    }

    #[test]
    fn a_gap_is_read_by_its_length() {
        let point =
            between(&(Duration::from_secs(2), reading(1.0, 500)), (Duration::from_secs(4), &reading(4.0, 1500)));
        assert_eq!((point.at, point.length), (Duration::from_secs(4), Duration::from_secs(2)));
        assert_eq!((point.workers_busy, point.cpu), (Some(1.5), Some(reading(0.0, 1000).cpu.unwrap())));
        assert!(point.queue_waits.is_none());
        // A restarted engine counts from zero.
        let restarted = between(&(Duration::ZERO, reading(9.0, 900)), (Duration::from_secs(1), &reading(1.0, 100)));
        assert_eq!((restarted.workers_busy, restarted.cpu), (Some(0.0), Some(Cpu::default())));
    }

    /// Sources must exist before the run starts. The check that they belong to an engine is tested with the program: other tests in this
    /// process have threads named like an engine's.
    #[tokio::test]
    async fn a_process_that_is_not_there_is_refused() {
        let observed = ObservedEngine { metrics: Vec::new(), process: Some(ProcessAccount::new(u32::MAX)) };
        match EngineWatcher::new(&observed).await {
            Err(error @ LoadError::NoEngine(_)) => {
                assert_eq!(error.to_string(), format!("process {}: there is none", u32::MAX));
            }
            other => panic!("{other:?}"),
        }
    }
}
