//! The record of one request, which is written at its end, and the answer that waits for it.

use std::sync::Arc;

use leafseal_engine::audit::{Durability, RecordTicket};
use leafseal_protocol::{ErrorCode, ErrorObject};

use super::ServerAudit;
use super::strangers::StrangerSource;
use super::text::text_of;
use crate::request_facts::{EndedRequest, RequestFacts};

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

impl ServerAudit {
    /// Writes the record of a request that ends.
    pub(crate) fn end(self: &Arc<Self>, facts: &RequestFacts, ended: &EndedRequest) -> AnswerRelease {
        let Some(caller) = facts.account.as_ref().and_then(|account| account.caller()) else {
            // Nothing was decided: a health check, a list of methods, a request that is none.
            return AnswerRelease::Now;
        };
        if caller.is_stranger() {
            let source = StrangerSource::caller(facts.address, caller.kind, caller.client.as_deref());
            self.count_stranger(source);
            return AnswerRelease::Now;
        }
        let waits = self.waits(caller, ended.has_failed);
        let text = text_of("request", &facts.record(ended)).finish();
        let recorded = self.recorder.get().map(|recorder| match waits {
            true => recorder.record_awaited(&text),
            false => recorder.record(&text),
        });
        if recorded.is_none() {
            self.tally.count_not_recorded();
        }
        match recorded {
            Some(Ok(ticket)) if waits => AnswerRelease::Durable(HeldAnswer { audit: Arc::clone(self), ticket }),
            Some(Err(_)) | None if waits => {
                self.tally.count_withheld();
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
