//! The record of one request, which is written at its end, and the answer that waits for it.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use leafseal_engine::audit::{Durability, RecordText, RecordTicket};
use leafseal_engine::{AccountedCaller, RequestAccount};
use leafseal_protocol::{ErrorCode, ErrorObject, Method};

use super::ServerAudit;

/// How a request ended.
pub(crate) struct EndedRequest<'a> {
    pub(crate) method: Option<Method>,
    /// The outcome, in a word.
    pub(crate) outcome: &'static str,
    pub(crate) failed: Option<&'a ErrorObject>,
    pub(crate) bytes_in: usize,
    pub(crate) bytes_out: usize,
    pub(crate) took: Duration,
}

/// What becomes of an answer.
pub(crate) enum AnswerRelease {
    /// It is sent.
    Now,
    /// It is sent once its record is durable.
    Durable(HeldAnswer),
    /// This is sent in its place.
    Withheld(ErrorObject),
}

/// An answer that waits for its record.
pub(crate) struct HeldAnswer {
    audit: Arc<ServerAudit>,
    ticket: RecordTicket,
}

impl HeldAnswer {
    /// Calls `send` once the record is durable, or with what is to be sent instead.
    pub(crate) fn release(self, send: impl FnOnce(Result<(), ErrorObject>) + Send + 'static) {
        let audit = Arc::clone(&self.audit);
        let then = move |durability| match durability {
            Durability::Durable => send(Ok(())),
            Durability::Refused => {
                audit.tally.count_withheld();
                send(Err(unavailable()));
            }
        };
        match self.audit.recorder.get() {
            Some(recorder) => recorder.when_durable(self.ticket, then),
            None => then(Durability::Refused),
        }
    }
}

/// A request that is recorded at its end.
#[derive(Debug)]
pub(crate) struct AuditedRequest {
    audit: Arc<ServerAudit>,
    account: Arc<RequestAccount>,
    address: Option<IpAddr>,
    id: Option<u32>,
}

impl AuditedRequest {
    /// A request of a peer at this address, and its account.
    pub(crate) fn begin(audit: &Arc<ServerAudit>, address: Option<IpAddr>, id: Option<u32>) -> Self {
        Self { audit: Arc::clone(audit), account: Arc::default(), address, id }
    }

    pub(crate) fn account(&self) -> Arc<RequestAccount> {
        Arc::clone(&self.account)
    }

    /// Writes the record.
    pub(crate) fn end(self, ended: &EndedRequest<'_>) -> AnswerRelease {
        let Self { audit, account, address, id } = self;
        let Some(caller) = account.caller() else {
            // Nothing was decided: a health check, a list of methods, a request that is none.
            return AnswerRelease::Now;
        };
        if caller.is_anonymous() {
            audit.count_stranger(address, crate::clock::now());
            return AnswerRelease::Now;
        }
        let text = request_text(caller, &account, ended, address, id);
        let waits = audit.waits(caller, ended.failed.is_some());
        let recorded = audit.recorder.get().map(|recorder| recorder.record(&text.finish()));
        if recorded.is_none() {
            audit.tally.count_not_recorded();
        }
        match recorded {
            Some(Ok(ticket)) if waits => AnswerRelease::Durable(HeldAnswer { audit, ticket }),
            Some(Err(_)) | None if waits => {
                audit.tally.count_withheld();
                AnswerRelease::Withheld(unavailable())
            }
            _ => AnswerRelease::Now,
        }
    }
}

fn unavailable() -> ErrorObject {
    let message =
        "the audit log takes no records, and this answer must not leave without one: see /readyz of the engine";
    ErrorObject::new(ErrorCode::AuditUnavailable, message)
}

fn request_text(
    caller: &AccountedCaller,
    account: &RequestAccount,
    ended: &EndedRequest<'_>,
    address: Option<IpAddr>,
    id: Option<u32>,
) -> RecordText {
    let (sealed, opened, versions, roles) = (account.sealed(), account.opened(), account.versions(), account.roles());
    let text = caller_text(RecordText::new("request"), caller, address)
        .maybe("method", ended.method.map(Method::as_str))
        .maybe("app", caller.app.as_deref().filter(|_| caller.refusal.is_none()))
        .text("outcome", ended.outcome)
        .number("sealed", sealed.public_key + sealed.symmetric)
        .number("sealed_symmetric", sealed.symmetric)
        .number("opened", opened.public_key + opened.symmetric)
        .number("opened_symmetric", opened.symmetric)
        .numbers("versions", &versions.names)
        .texts("roles", roles.names.iter().map(String::as_str));
    let more = [("more_versions", versions.has_more), ("more_roles", roles.has_more)];
    let text = more.into_iter().fold(text, |text, (name, is_so)| text.number(name, u64::from(is_so)));
    text.number("bytes_in", ended.bytes_in as u64)
        .number("bytes_out", ended.bytes_out as u64)
        .number("duration_us", u64::try_from(ended.took.as_micros()).unwrap_or(u64::MAX))
        .number("request", id.map_or(0, u64::from))
}

pub(super) fn caller_text(text: RecordText, caller: &AccountedCaller, address: Option<IpAddr>) -> RecordText {
    text.text("entry_point", caller.entry_point)
        .text("caller", caller.kind)
        .maybe("client", caller.client.as_deref())
        .shown("certificate", caller.certificate_sha256.map(hex::encode))
        .maybe("key", caller.key.as_deref())
        .maybe("token", caller.token.as_deref())
        .shown("address", address.or(caller.address))
        .texts("operations", caller.operations.iter().map(|operation| operation.as_str()))
}
