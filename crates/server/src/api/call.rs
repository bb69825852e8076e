//! Runs a call in the worker pool: admits or refuses it, waits for it, and cancels it when its caller disconnects.

use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, LazyLock};
use std::time::Instant;

use leafseal_engine::Caller;
use leafseal_engine::pool::{Abandoned, Admission, CancelReason, Cancellation, Job, JobTicket, Rejection};
use leafseal_http::{ConnectionPeer, HttpProblem};
use leafseal_net::client_of;
use leafseal_protocol::{ErrorCode, ErrorObject, Method};
use tokio::sync::oneshot;
use tokio::time::sleep_until;

use super::problem::problem;
use super::{Api, CheckedCaller};
use crate::attempts::Attempts;
use crate::audit::AnswerRelease;
use crate::clock;
use crate::metrics::{Arrival, ReportedRequest, RequestRecord};
use crate::request_facts::RequestFacts;
use crate::server_state::{ConnectionMemory, ServerState};
use leafseal_service::RequestJob;
use leafseal_service::Rope;
use leafseal_service::Share;
use leafseal_service::{AnswerReceiver, Answered, Effort, Reply};
use leafseal_service::{RequestStage, Tenant};

/// The parameters of a call that is to be submitted.
pub(super) struct Submission<'a> {
    /// The size of its body in bytes.
    pub(super) bytes: usize,
    /// The method under which the workers' time is counted.
    pub(super) method: Option<Method>,
    pub(super) began: Instant,
    pub(super) peer: &'a ConnectionPeer,
    /// The body's share of the memory for incoming data, until the queue takes it over.
    pub(super) incoming: Option<Share>,
    /// For its record.
    pub(super) facts: RequestFacts,
}

/// The numbers that identify tenant and client in the pool.
#[derive(Clone, Copy)]
pub(super) struct Accounts {
    pub(super) tenant: u64,
    client: u64,
}

/// A submitted call whose caller waits. It is cancelled if dropped before its end.
struct PendingCall<'a> {
    server_state: &'a ServerState,
    cancellation: Arc<Cancellation>,
    ticket: Option<JobTicket>,
}

impl Drop for PendingCall<'_> {
    fn drop(&mut self) {
        self.cancellation.cancel(CancelReason::Disconnected);
        if let Some(ticket) = &self.ticket {
            self.server_state.pool.hurry(ticket);
        }
    }
}

/// Receives the answer of a call: any bytes, or none for an empty file.
struct CallReceiver {
    sender: oneshot::Sender<Answered>,
    record: RequestRecord,
}

impl AnswerReceiver for CallReceiver {
    fn takes(&self, _: &Rope) -> bool {
        true
    }

    fn receive(self: Box<Self>, answered: Answered, effort: Effort) {
        let CallReceiver { sender, record } = *self;
        let release = record.end(answered.as_ref().map(|(bytes, _)| bytes.size()).map_err(|error| (error, 0)), effort);
        // The caller may have disconnected.
        match release {
            AnswerRelease::Now => drop(sender.send(answered)),
            AnswerRelease::Durable(held) => held.release(move |released| drop(sender.send(released.and(answered)))),
            AnswerRelease::Withheld(error) => drop(sender.send(Err(error))),
        }
    }
}

impl Api {
    /// The tenant and client of the call: the app, once the caller is known to be permitted to use it; within it the API key, all tokens
    /// together, or the address of a caller without credentials.
    pub(super) fn accounts(&self, caller: &Caller, app: &str, peer: &ConnectionPeer) -> Accounts {
        let is_public = matches!(caller, Caller::Anonymous) || !self.engine.is_known_to_use(caller, app);
        let tenant = self.server_state.number_of(if is_public { Tenant::Public } else { Tenant::App(app) });
        let client = match caller {
            Caller::ApiKey { id, .. } => self.server_state.number_of_client(("key", id)),
            Caller::Token(_) => self.server_state.number_of_client("tokens"),
            Caller::Client { .. } | Caller::OnBehalf { .. } | Caller::Owner | Caller::Anonymous => {
                self.server_state.number_of_client(("address", client_of(peer.address.ip())))
            }
        };
        Accounts { tenant, client }
    }

    /// The memory that the call is charged to.
    pub(super) fn memory(&self, authenticated: &CheckedCaller) -> ConnectionMemory {
        self.server_state.memory(Tenant::App(authenticated.app().as_str()))
    }

    /// Submits a call, once there is room in the queue, and waits for its answer.
    pub(super) async fn run(
        &self,
        request: RequestStage,
        submission: Submission<'_>,
        accounts: Accounts,
        bytes: usize,
        memory: &ConnectionMemory,
    ) -> Result<(Rope, Share), HttpProblem> {
        let server_state = &*self.server_state;
        let now = clock::now();
        let cancellation = Arc::new(Cancellation::new());
        cancellation.set_deadline(submission.began + server_state.settings.api.call_timeout);
        let (sender, receiver) = oneshot::channel();
        let arrival = Arrival { method: submission.method, size: submission.bytes, at: now };
        let ServerState { audit, failures, canaries, .. } = server_state;
        let (audit, failures, canaries) = (audit.clone(), failures.clone(), Arc::clone(canaries));
        let reported = ReportedRequest { facts: submission.facts, audit, failures, canaries };
        let record = RequestRecord::new(Arc::clone(&server_state.requests), arrival, Arc::clone(&cancellation));
        let record = record.reported(reported);
        let reply = Reply::new(CallReceiver { sender, record }).with_retry_after(server_state.settings.retry_after);
        let job = Arc::new(RequestJob::new(request, Arc::clone(&cancellation), memory.answers_share(), reply));
        // Dropped before the job, so that a call that ends early counts as cancelled.
        let mut pending = PendingCall { server_state, cancellation: Arc::clone(&cancellation), ticket: None };
        let connection = connection_number(submission.peer);
        let Accounts { tenant, client } = accounts;
        let mut admission = Admission { tenant, client, connection, bytes, cancellation };
        let mut attempts = Attempts::new(now, now + server_state.settings.admission_wait);
        loop {
            let submitted: Arc<dyn Job> = Arc::<RequestJob>::clone(&job);
            let rejected = match server_state.pool.submit(submitted, admission) {
                Ok(ticket) => {
                    pending.ticket = Some(ticket);
                    break;
                }
                Err(rejected) => rejected,
            };
            let now = clock::now();
            if matches!(rejected.cause, Rejection::Overloaded(_)) && attempts.record_failure(now) {
                admission = rejected.admission;
                sleep_until(attempts.due().into()).await;
                continue;
            }
            job.abandoned(Abandoned::Rejected(rejected.cause));
            break;
        }
        drop((job, submission.incoming));
        let answered = receiver.await.unwrap_or_else(|_| {
            let message = "the engine failed at this request; its log has the details";
            Err(ErrorObject::new(ErrorCode::Internal, message))
        });
        answered.map_err(|error| problem(&error))
    }
}

/// A number per connection, so that connections share an app's workers fairly; callers cannot choose it.
fn connection_number(peer: &ConnectionPeer) -> u64 {
    static KEY: LazyLock<RandomState> = LazyLock::new(RandomState::new);
    KEY.hash_one(peer.address)
}
