//! The requests in flight of a connection, and the one request that waits for room in the queue.
//!
//! While one waits the connection stops reading, so that TCP slows its peer down before a request is refused.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use leafseal_engine::pool::{
    Abandoned, Admission, CancelReason, Cancellation, Job, JobTicket, Pool, Rejection, StopReason, Submitted,
};

use super::inline_trials::InlineTrials;
use crate::attempts::Attempts;
use crate::settings::ServerSettings;
use leafseal_service::RequestJob;

/// The unanswered requests of one connection.
#[derive(Default)]
pub(crate) struct InFlight {
    /// Ordered by id, so that a simulation can be replayed.
    requests: BTreeMap<u32, RequestEntry>,
    /// The size of their frames in bytes.
    bytes: usize,
    waiting: Option<WaitingRequest>,
    trials: InlineTrials,
}

struct RequestEntry {
    cancellation: Arc<Cancellation>,
    /// `None` while it waits for room.
    ticket: Option<JobTicket>,
    bytes: usize,
}

/// A request that waits for room in the queue.
pub(crate) struct WaitingRequest {
    id: u32,
    job: Arc<RequestJob>,
    admission: Admission,
    /// At the end of these the request is refused.
    attempts: Attempts,
}

impl WaitingRequest {
    pub(crate) fn new(id: u32, job: Arc<RequestJob>, admission: Admission, attempts: Attempts) -> Self {
        WaitingRequest { id, job, admission, attempts }
    }
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

    /// Adds a request: it is queued, or waits for room in the queue. If `inline_work` is set, it may run on this thread for that much work;
    /// returns how much it did.
    pub(crate) fn begin(
        &mut self,
        pool: &Pool,
        request: WaitingRequest,
        inline_work: Option<Duration>,
        now: Instant,
    ) -> Duration {
        let Admission { cancellation, bytes, .. } = &request.admission;
        let entry = RequestEntry { cancellation: Arc::clone(cancellation), ticket: None, bytes: *bytes };
        self.bytes += entry.bytes;
        self.requests.insert(request.id, entry);
        let inline_work = inline_work.filter(|_| self.trials.is_due());
        self.submit(pool, request, inline_work, now)
    }

    /// Retries a request that waits for room, if there is one.
    pub(crate) fn retry(&mut self, pool: &Pool, now: Instant) {
        if let Some(waiting) = self.waiting.take() {
            self.submit(pool, waiting, None, now);
        }
    }

    fn submit(
        &mut self,
        pool: &Pool,
        mut waiting: WaitingRequest,
        inline_work: Option<Duration>,
        now: Instant,
    ) -> Duration {
        if let Err(stop) = waiting.admission.cancellation.check(now) {
            waiting.job.stop(stop);
            return Duration::ZERO;
        }
        let job: Arc<dyn Job> = Arc::<RequestJob>::clone(&waiting.job);
        let submitted = match inline_work {
            Some(work_max) => pool.submit_inline(job, waiting.admission, work_max),
            None => pool.submit(job, waiting.admission).map(Submitted::queued),
        };
        match submitted {
            Ok(Submitted { ticket, inline_work, is_left }) => {
                // It stays here until the connection takes its answer.
                let entry = self.requests.get_mut(&waiting.id).expect("its answer is not taken");
                entry.ticket = Some(ticket);
                self.trials.note(inline_work, is_left);
                return inline_work;
            }
            Err(rejected)
                if matches!(rejected.cause, Rejection::Overloaded(_)) && waiting.attempts.record_failure(now) =>
            {
                waiting.admission = rejected.admission;
                self.waiting = Some(waiting);
            }
            Err(rejected) => waiting.job.abandoned(Abandoned::Rejected(rejected.cause)),
        }
        Duration::ZERO
    }

    /// When [`InFlight::retry`] is due, if a request waits.
    pub(crate) fn due(&self) -> Option<Instant> {
        let waiting = self.waiting.as_ref()?;
        let deadline = waiting.admission.cancellation.deadline().unwrap_or(waiting.attempts.until());
        Some(waiting.attempts.due().min(deadline))
    }

    /// Removes an answered request, whose id may be used again.
    pub(crate) fn end(&mut self, id: u32) {
        let entry = self.requests.remove(&id).expect("only requests in flight are answered");
        self.bytes -= entry.bytes;
    }

    /// Cancels a request if it is in flight; if it is queued, it is removed at once.
    pub(crate) fn cancel(&self, pool: &Pool, id: u32) {
        if let Some(entry) = self.requests.get(&id) {
            entry.cancel(pool, CancelReason::Cancelled);
        }
    }

    /// Cancels all requests, because the connection is closed.
    pub(crate) fn disconnect(&mut self, pool: &Pool) {
        let InFlight { requests, waiting, .. } = std::mem::take(self);
        requests.values().for_each(|entry| entry.cancel(pool, CancelReason::Disconnected));
        if let Some(WaitingRequest { job, .. }) = waiting {
            job.stop(StopReason::Cancelled);
        }
    }
}

impl RequestEntry {
    fn cancel(&self, pool: &Pool, reason: CancelReason) {
        self.cancellation.cancel(reason);
        if let Some(ticket) = &self.ticket {
            pool.hurry(ticket);
        }
    }
}
