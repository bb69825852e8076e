//! The server without its network: takes frames and returns answers, with the same jobs on the same pool. For tests and benchmarks.

use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Wake, Waker};
use std::thread::Thread;
use std::time::{Duration, Instant};

use leafseal_engine::pool::{Abandoned, Admission, CancelReason, Cancellation, JobTicket, Pool};

use crate::metrics::{Arrival, RequestRecord, Requests, ServerCounters};
use crate::outbox::{ConnectionReceiver, Outbox};
use leafseal_service::Reply;
use leafseal_service::RequestJob;
use leafseal_service::Service;
use leafseal_service::Share;

/// A service with a pool.
#[derive(Debug)]
pub struct InProcess<S> {
    service: Arc<S>,
    pool: Arc<Pool>,
    pub(crate) requests: Arc<Requests>,
    answers: Mutex<Share>,
}

/// A submitted request.
#[derive(Debug)]
pub struct InFlight<'a> {
    pool: &'a Pool,
    outbox: Arc<Outbox>,
    cancellation: Arc<Cancellation>,
    ticket: Option<JobTicket>,
}

/// Unparks a thread when the answer arrives.
struct Parked(Thread);

impl Wake for Parked {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

impl<S: Service> InProcess<S> {
    /// Creates it; `answers_bytes_max` limits the memory of all answers.
    pub fn new(service: S, pool: Arc<Pool>, answers_bytes_max: usize) -> Self {
        let answers = Mutex::new(Share::alone(answers_bytes_max));
        InProcess { service: Arc::new(service), pool, requests: Arc::default(), answers }
    }

    /// The service.
    pub fn service(&self) -> &S {
        &self.service
    }

    /// The pool.
    pub fn pool(&self) -> &Pool {
        &self.pool
    }

    /// Bytes of answers that are being created or not yet taken.
    pub fn answers_bytes(&self) -> usize {
        self.answers().budget_used()
    }

    /// The counters, without those of the network.
    pub fn counters(&self) -> ServerCounters {
        ServerCounters {
            ended: self.requests.outcomes(),
            answers_bytes: self.answers_bytes(),
            pool: self.pool.counters(),
            ..ServerCounters::default()
        }
    }

    /// Submits a request's frame with its id.
    pub fn submit(&self, caller: &Arc<S::Caller>, frame: Vec<u8>, id: u32) -> InFlight<'_> {
        let (cancellation, outbox) = (Arc::new(Cancellation::new()), Arc::new(Outbox::default()));
        let bytes = frame.capacity();
        let arrival = Arrival { method: None, size: frame.len(), at: Instant::now() };
        let request = self.service.request(caller, frame, id, arrival.at, Arc::clone(&cancellation), None);
        let (requests, flag) = (Arc::clone(&self.requests), Arc::clone(&cancellation));
        let record = RequestRecord::new(requests, arrival, flag);
        let reply = Reply::new(ConnectionReceiver { outbox: Arc::clone(&outbox), id, record });
        let admission =
            Admission { tenant: 0, client: 0, connection: 0, bytes, cancellation: Arc::clone(&cancellation) };
        let share = self.answers().take();
        let job = Arc::new(RequestJob::new(request, Arc::clone(&cancellation), share, reply));
        let ticket = self.pool.submit(job, admission);
        let ticket = ticket.map_err(|rejected| rejected.job.abandoned(Abandoned::Rejected(rejected.cause))).ok();
        InFlight { pool: &self.pool, outbox, cancellation, ticket }
    }

    pub(crate) fn answers(&self) -> MutexGuard<'_, Share> {
        self.answers.lock().expect("nothing panics while this is locked")
    }
}

impl InFlight<'_> {
    /// Cancels the request.
    pub fn cancel(&self, reason: CancelReason) {
        self.cancellation.cancel(reason);
        if let Some(ticket) = &self.ticket {
            self.pool.hurry(ticket);
        }
    }

    /// Returns the answer in its buffers if it has arrived, and releases its memory.
    pub fn answer(&self) -> Option<Vec<Vec<u8>>> {
        let answers = self.outbox.take();
        (!answers.ids.is_empty()).then(|| answers.buffers.into_bytes())
    }

    /// Waits for the answer for up to `patience`.
    ///
    /// # Panics
    /// If it does not arrive.
    pub fn wait(&self, patience: Duration) -> Vec<Vec<u8>> {
        let deadline = Instant::now() + patience;
        self.outbox.register(&Waker::from(Arc::new(Parked(std::thread::current()))));
        loop {
            if let Some(answer) = self.answer() {
                return answer;
            }
            let left = deadline.saturating_duration_since(Instant::now());
            assert!(!left.is_zero(), "no answer within {patience:?}");
            std::thread::park_timeout(left);
        }
    }
}
