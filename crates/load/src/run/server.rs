//! The engine under load, as far as it is observable: its metrics, and the system's accounting of its process.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use crate::accounting::{Cpu, Process};
use crate::error::LoadError;
use crate::metrics::{self, Buckets};

/// The observable sources of an engine.
#[derive(Clone, Debug, Default)]
pub struct Observed {
    /// The addresses of its operator port, of which the first that responds is used. Empty if unknown.
    pub metrics: Vec<SocketAddr>,
    /// Its process, where that is on this machine: CPU time comes from there then, not from its metrics.
    pub process: Option<Process>,
}

/// The figures of an interval.
#[derive(Clone, Debug)]
pub struct ServerPoint {
    /// Its end, from the beginning.
    pub at: Duration,
    /// How long it was.
    pub length: Duration,
    /// Workers that were busy, in the mean.
    pub workers_busy: Option<f64>,
    /// How long requests waited for a worker.
    pub queue_waits: Option<Buckets>,
    /// CPU time of the process.
    pub cpu: Option<Cpu>,
}

/// One look.
#[derive(Clone, Debug, Default)]
struct Look {
    busy: Option<f64>,
    waits: Option<Buckets>,
    cpu: Option<Cpu>,
}

impl Observed {
    fn is_any(&self) -> bool {
        !self.metrics.is_empty() || self.process.is_some()
    }

    async fn look(&self) -> Result<Look, LoadError> {
        let mut look = Look::default();
        if !self.metrics.is_empty() {
            let text = metrics::fetch(&self.metrics).await?;
            look.busy = metrics::number(&text, metrics::WORKERS_BUSY);
            look.waits = Buckets::read(&text, metrics::QUEUE_WAIT);
            look.cpu = metrics::cpu(&text);
        }
        // A named process is read through the operating system.
        if let Some(process) = &self.process {
            look.cpu = Some(process.cpu().map_err(|error| LoadError::system(process.to_string(), error))?);
        }
        Ok(look)
    }

    /// The first reading, which verifies that the sources are an engine's. The engine has answered requests by then.
    async fn first_look(&self) -> Result<Look, LoadError> {
        if let Some(process) = &self.process {
            let cpu = process.cpu().map_err(|error| LoadError::NoEngine(format!("{process}: {}", plain(&error))))?;
            if cpu.workers.is_zero() {
                return Err(LoadError::NoEngine(format!(
                    "{process} is not an engine: none of its workers has done any work"
                )));
            }
        }
        let look = self.look().await?;
        if !self.metrics.is_empty() && look.busy.is_none() {
            return Err(LoadError::NoEngine("--metrics does not return an engine's metrics".to_owned()));
        }
        Ok(look)
    }
}

/// The system's error, reworded where it would mention a file.
fn plain(error: &std::io::Error) -> String {
    match error.kind() {
        std::io::ErrorKind::NotFound => "there is none".to_owned(),
        _ => error.to_string(),
    }
}

/// The looks of a run.
#[derive(Debug)]
pub(super) struct Watcher<'a> {
    observed: &'a Observed,
    first: Look,
    /// The last one, and when.
    last: (Duration, Look),
    points: Vec<ServerPoint>,
}

impl<'a> Watcher<'a> {
    /// Looks for the first time, just before the beginning.
    ///
    /// # Errors
    /// If a source is missing, or is not an engine's.
    pub(super) async fn new(observed: &'a Observed) -> Result<Self, LoadError> {
        let first = observed.first_look().await?;
        Ok(Watcher { observed, last: (Duration::ZERO, first.clone()), first, points: Vec::new() })
    }

    /// Looks once in each period, for ever.
    pub(super) async fn watch(&mut self, began: Instant, period: Duration) {
        if !self.observed.is_any() {
            return std::future::pending().await;
        }
        for number in 1.. {
            tokio::time::sleep_until((began + period * number).into()).await;
            // An engine that does not respond for a while leaves a gap, and the run continues.
            if let Ok(look) = self.observed.look().await {
                self.note(began.elapsed(), look);
            }
        }
    }

    /// Looks for the last time: what was seen over time, and CPU time from the first look to this one.
    pub(super) async fn finish(mut self, began: Instant, period: Duration) -> (Vec<ServerPoint>, Option<Cpu>) {
        let Ok(look) = self.observed.look().await else { return (self.points, None) };
        let cpu = look.cpu.zip(self.first.cpu).map(|(now, before)| now.since(&before));
        let now = began.elapsed();
        // In a short rest the steps of the system's accounting would look like peaks.
        if self.observed.is_any() && now.saturating_sub(self.last.0) >= period / 2 {
            self.note(now, look);
        }
        (self.points, cpu)
    }

    fn note(&mut self, now: Duration, look: Look) {
        self.points.push(between(&self.last, (now, &look)));
        self.last = (now, look);
    }
}

fn between((then, before): &(Duration, Look), (now, look): (Duration, &Look)) -> ServerPoint {
    let length = now.saturating_sub(*then);
    ServerPoint {
        at: now,
        length,
        workers_busy: look
            .busy
            .zip(before.busy)
            .map(|(now, before)| ((now - before) / length.as_secs_f64().max(1e-9)).max(0.0)),
        queue_waits: look.waits.as_ref().zip(before.waits.as_ref()).map(|(now, before)| now.since(before)),
        cpu: look.cpu.zip(before.cpu).map(|(now, before)| now.since(&before)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn look(busy: f64, workers_ms: u64) -> Look {
        let workers = Duration::from_millis(workers_ms);
        Look { busy: Some(busy), waits: None, cpu: Some(Cpu { workers, ..Cpu::default() }) }
    }

    #[test]
    fn a_gap_is_read_by_its_length() {
        let point = between(&(Duration::from_secs(2), look(1.0, 500)), (Duration::from_secs(4), &look(4.0, 1500)));
        assert_eq!((point.at, point.length), (Duration::from_secs(4), Duration::from_secs(2)));
        assert_eq!((point.workers_busy, point.cpu), (Some(1.5), Some(look(0.0, 1000).cpu.unwrap())));
        assert!(point.queue_waits.is_none());
        // A restarted engine counts from zero.
        let restarted = between(&(Duration::ZERO, look(9.0, 900)), (Duration::from_secs(1), &look(1.0, 100)));
        assert_eq!((restarted.workers_busy, restarted.cpu), (Some(0.0), Some(Cpu::default())));
    }

    /// Sources must exist before the run starts. That they must be an engine's is tested with the program: in this process other
    /// tests have threads named like an engine's.
    #[tokio::test]
    async fn a_process_that_is_not_there_is_refused() {
        let observed = Observed { metrics: Vec::new(), process: Some(Process::new(u32::MAX)) };
        match Watcher::new(&observed).await {
            Err(error @ LoadError::NoEngine(_)) => {
                assert_eq!(error.to_string(), format!("process {}: there is none", u32::MAX));
            }
            other => panic!("{other:?}"),
        }
    }
}
