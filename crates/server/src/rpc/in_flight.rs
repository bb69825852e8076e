//! The requests in flight of a connection, and the one request that waits for room in the queue.
//!
//! While one waits the connection reads no further: its peer is slowed down by TCP before anything is refused.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use fieldseal_engine::pool::{Abandoned, Admission, Cancellation, Job, Pool, Reason, Rejection, Stop, Ticket};

use crate::attempts::Attempts;
use crate::settings::ServerSettings;
use fieldseal_service::RequestJob;

/// The requests of one connection that are not answered.
#[derive(Default)]
pub(crate) struct InFlight {
    /// In the order of their ids, so that a simulation can be replayed.
    requests: BTreeMap<u32, Entry>,
    /// Bytes of their frames.
    bytes: usize,
    waiting: Option<Waiting>,
}

struct Entry {
    cancellation: Arc<Cancellation>,
    /// Not there while it waits for room.
    ticket: Option<Ticket>,
    bytes: usize,
}

/// A request for which there was no room.
struct Waiting {
    id: u32,
    job: Arc<RequestJob>,
    admission: Admission,
    /// At the end of which it is refused.
    attempts: Attempts,
}

impl InFlight {
    /// Whether another request may be read.
    pub(crate) fn has_room(&self, settings: &ServerSettings) -> bool {
        self.waiting.is_none()
            && self.requests.len() < settings.requests_in_flight_max
            && self.bytes < settings.connection_bytes_max
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.requests.is_empty()
    }

    pub(crate) fn contains(&self, id: u32) -> bool {
        self.requests.contains_key(&id)
    }

    /// Takes a new request in: into the queue, or to wait for room there until `until`.
    pub(crate) fn begin(
        &mut self,
        pool: &Pool,
        id: u32,
        job: Arc<RequestJob>,
        admission: Admission,
        now: Instant,
        until: Instant,
    ) {
        let entry = Entry { cancellation: Arc::clone(&admission.cancellation), ticket: None, bytes: admission.bytes };
        self.bytes += entry.bytes;
        self.requests.insert(id, entry);
        self.submit(pool, Waiting { id, job, admission, attempts: Attempts::new(now, until) }, now);
    }

    /// Looks for room again, if a request waits for it.
    pub(crate) fn retry(&mut self, pool: &Pool, now: Instant) {
        if let Some(waiting) = self.waiting.take() {
            self.submit(pool, waiting, now);
        }
    }

    fn submit(&mut self, pool: &Pool, mut waiting: Waiting, now: Instant) {
        if let Err(stop) = waiting.admission.cancellation.check(now) {
            return waiting.job.stop(stop);
        }
        let job: Arc<dyn Job> = Arc::<RequestJob>::clone(&waiting.job);
        match pool.submit(job, waiting.admission) {
            Ok(ticket) => {
                let entry = self.requests.get_mut(&waiting.id).expect("it is not answered");
                entry.ticket = Some(ticket);
            }
            Err(rejected) if matches!(rejected.cause, Rejection::Overloaded(_)) && waiting.attempts.go_on(now) => {
                waiting.admission = rejected.admission;
                self.waiting = Some(waiting);
            }
            Err(rejected) => waiting.job.abandoned(Abandoned::Rejected(rejected.cause)),
        }
    }

    /// When [`InFlight::retry`] is due, if a request waits.
    pub(crate) fn due(&self) -> Option<Instant> {
        let waiting = self.waiting.as_ref()?;
        let deadline = waiting.admission.cancellation.deadline().unwrap_or(waiting.attempts.until());
        Some(waiting.attempts.due().min(deadline))
    }

    /// A request is answered: its id is free.
    pub(crate) fn end(&mut self, id: u32) {
        let entry = self.requests.remove(&id).expect("only requests in flight are answered");
        self.bytes -= entry.bytes;
    }

    /// Stops a request, if it is in flight; one that only waits in the queue is removed at once.
    pub(crate) fn cancel(&self, pool: &Pool, id: u32) {
        if let Some(entry) = self.requests.get(&id) {
            entry.cancel(pool, Reason::Cancelled);
        }
    }

    /// Stops everything, for the connection is gone.
    pub(crate) fn disconnect(&mut self, pool: &Pool) {
        let InFlight { requests, waiting, .. } = std::mem::take(self);
        requests.values().for_each(|entry| entry.cancel(pool, Reason::Disconnected));
        if let Some(Waiting { job, .. }) = waiting {
            job.stop(Stop::Cancelled);
        }
    }
}

impl Entry {
    fn cancel(&self, pool: &Pool, reason: Reason) {
        self.cancellation.cancel(reason);
        if let Some(ticket) = &self.ticket {
            pool.hurry(ticket);
        }
    }
}
