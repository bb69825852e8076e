//! Submits requests to the pool.

use super::*;
use crate::metrics::ReportedRequest;
use crate::request_facts::RequestFacts;
use crate::rpc::in_flight::WaitingRequest;
use leafseal_service::Tenant;

/// The facts about a request before it is parsed.
pub(super) struct RequestProperties {
    /// The number of its tenant.
    tenant: u64,
    deadline: Option<Instant>,
    /// Whether its caller's grant and its app are in memory, so that it needs no look-up in the store.
    is_known: bool,
    /// The app of a request that decrypts, for its line in the log if it fails, where no account has it.
    app: Option<Box<str>>,
}

impl<S: Service, W: Wire> RpcConnection<S, W> {
    /// Reads a request's properties without parsing all of it.
    pub(super) fn peek(&mut self, params: RawParams<'_>, method: Option<Method>, now: Instant) -> RequestProperties {
        let Peek { app, deadline_ms } = Peek::at(params);
        let deadline = deadline_ms.map(|milliseconds| now + Duration::from_millis(milliseconds.into()));
        let tenant = self.service.tenant(&self.caller, app);
        let is_known = matches!(tenant, Tenant::App(_));
        let is_logged = self.server_state.audit.is_none() && method.is_some_and(decrypts);
        let app = app.filter(|_| is_logged).map(Box::from);
        RequestProperties { tenant: self.server_state.number_of(tenant), deadline, is_known, app }
    }

    /// Submits a request. A small one may be answered here, within the budget.
    pub(super) fn admit(
        &mut self,
        frame: Frame,
        id: u32,
        known: RequestProperties,
        arrival: Arrival,
        budget: &mut TurnBudget,
    ) {
        let now = arrival.at;
        let bytes = frame.capacity();
        let cancellation = Arc::new(Cancellation::new());
        if let Some(deadline) = known.deadline {
            cancellation.set_deadline(deadline);
        }
        let (service, caller, of_request) =
            (Arc::clone(&self.service), Arc::clone(&self.caller), Arc::clone(&cancellation));
        let facts = self.facts(id, known.app);
        let account = facts.account.clone();
        let size = frame.size();
        let request = gather(frame.into_pieces(), size, move |frame| {
            service.request(&caller, frame, id, now, of_request, account)
        });
        let work_max = budget.inline_work(self.frames.partial_size() > 0);
        let is_small = request.counted_work().is_some_and(|work| work <= work_max);
        let inline_work = (known.is_known && is_small).then_some(work_max);
        let settings = &self.server_state.settings;
        let record = RequestRecord::new(Arc::clone(&self.server_state.requests), arrival, Arc::clone(&cancellation))
            .reported(self.reported(facts));
        let receiver = ConnectionReceiver { outbox: Arc::clone(&self.outbox), id, record };
        let reply = Reply::new(receiver).with_retry_after(settings.retry_after);
        let share = self.memory.answers_share();
        let job = Arc::new(RequestJob::new(request, Arc::clone(&cancellation), share, reply));
        let (tenant, client) = (known.tenant, self.client);
        let admission = Admission { tenant, client, connection: self.number, bytes, cancellation };
        let until = now + settings.admission_wait;
        let waiting = WaitingRequest::new(id, job, admission, Attempts::new(now, until));
        budget.take_work(self.in_flight.begin(&self.server_state.pool, waiting, inline_work, now));
    }

    /// What is known of a request.
    fn facts(&self, id: u32, app: Option<Box<str>>) -> RequestFacts {
        let account = self.server_state.audit.as_ref().map(|_| Arc::default());
        let (peer, address) = (Some(Arc::clone(&self.peer)), Some(self.address));
        RequestFacts { peer, account, app, address, id: Some(id), trace: None }
    }

    fn reported(&self, facts: RequestFacts) -> ReportedRequest {
        let ServerState { audit, failures, canaries, .. } = &*self.server_state;
        let (audit, failures, canaries) = (audit.clone(), failures.clone(), Arc::clone(canaries));
        ReportedRequest { facts, audit, failures, canaries }
    }
}

/// Whether a method opens envelopes.
fn decrypts(method: Method) -> bool {
    matches!(method, Method::Decrypt | Method::DecryptDocument | Method::DecryptFile | Method::Rewrap | Method::Inspect)
}
