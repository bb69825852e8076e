//! The engine while it is under load, as far as it shows itself: its metrics, and what the system says of its process.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use crate::accounting::{Cpu, Process};
use crate::error::LoadError;
use crate::metrics::{self, Buckets};

/// What of the engine can be looked at.
#[derive(Clone, Debug, Default)]
pub struct Observed {
    /// Where it tells its metrics.
    pub metrics: Option<SocketAddr>,
    /// Its process, where that is on this machine.
    pub process: Option<Process>,
}

/// What was seen in a stretch of time.
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
    /// Whether there is anything to look at.
    pub fn is_any(&self) -> bool {
        self.metrics.is_some() || self.process.is_some()
    }

    async fn look(&self) -> Result<Look, LoadError> {
        let mut look = Look::default();
        if let Some(operator) = self.metrics {
            let text = metrics::fetch(operator).await?;
            look.busy = metrics::number(&text, metrics::WORKERS_BUSY);
            look.waits = Buckets::read(&text, metrics::QUEUE_WAIT);
        }
        if let Some(process) = &self.process {
            look.cpu = Some(process.cpu().map_err(|error| LoadError::system("the engine's CPU time", error))?);
        }
        Ok(look)
    }

    /// Looks once in each period, for ever; what was seen is in `points`.
    pub(super) async fn watch(
        &self,
        began: Instant,
        period: Duration,
        points: &mut Vec<ServerPoint>,
    ) -> Result<(), LoadError> {
        let mut before = (began.elapsed(), self.look().await?);
        for number in 1.. {
            tokio::time::sleep_until((began + period * number).into()).await;
            // An engine that does not answer for a while leaves a gap, and the run goes on.
            let Ok(look) = self.look().await else { continue };
            let now = began.elapsed();
            points.push(between(&before, (now, &look)));
            before = (now, look);
        }
        Ok(())
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
