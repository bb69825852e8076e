//! The relay's own decisions: whether the holder of an API key may use a destination. Operations on values are decided by the
//! engine.

use std::net::IpAddr;

use leafseal_errors::{
    Decision, Denial, EntryPoint, ErrorCode, Observers, Operation, Principal, Question, RequestOrigin, Side,
};

use crate::policy::{Action, Actions};
use crate::refusal::Refusal;

/// The caller of a request, and what the request needs, as far as they are known.
#[derive(Clone, Debug, Default)]
pub(crate) struct Claim {
    /// The id of its API key, once the engine has confirmed it.
    pub(crate) key_id: Option<String>,
    pub(crate) app: Option<String>,
    pub(crate) operations: Vec<Operation>,
}

impl Claim {
    /// Reports that the request is granted.
    pub(crate) fn granted(&self, observers: &Observers, address: IpAddr) {
        self.decided(observers, address, Question::Permission, None);
    }

    /// Reports a refusal, if the caller's identity or permissions are its reason.
    pub(crate) fn refused(&self, observers: &Observers, address: IpAddr, refusal: &Refusal) {
        if refusal.code.side() != Side::Permission {
            return;
        }
        let is_identity = refusal.code == ErrorCode::Unauthorized;
        let question = if is_identity { Question::Identity } else { Question::Permission };
        self.decided(observers, address, question, Some(Denial { code: refusal.code, reason: &refusal.detail }));
    }

    fn decided(&self, observers: &Observers, address: IpAddr, question: Question, refusal: Option<Denial<'_>>) {
        let origin = RequestOrigin { address: Some(address), ..RequestOrigin::of(EntryPoint::Relay) };
        let principal = self.key_id.as_deref().map_or(Principal::Anonymous, |id| Principal::ApiKey { id });
        let (operations, app) = (self.operations.as_slice(), self.app.as_deref());
        observers.decided(&Decision { origin, principal, question, operations, app, refusal, is_accounted: false });
    }
}

/// The operations of the rules of a request and its answer on the app, in the order of the operations.
pub(crate) fn operations_of(request: &Actions, response: &Actions) -> Vec<Operation> {
    let rules = || request.rules.iter().chain(&response.rules);
    let encrypts = rules().any(|rule| rule.action == Action::Encrypt);
    // Unchanged values show which envelopes the engine can decrypt.
    let decrypts = rules().any(|rule| rule.action == Action::Decrypt || rule.probes());
    let needed = [(encrypts, Operation::Encrypt), (decrypts, Operation::Decrypt)];
    needed.into_iter().filter_map(|(is_needed, operation)| is_needed.then_some(operation)).collect()
}
