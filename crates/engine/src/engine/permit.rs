//! The one place where "may this caller do this" is decided, and a request's permission to work with an app: checked when the request
//! begins, and again at the next step after any change of the store, so that revoking a grant or a key version ends the requests that
//! depend on it.
//!
//! Observers receive every decision ([`leafseal_errors::Observers`]): once for each request, and again if a change of the store ends it or
//! it opens a value with a role that the caller may not read. An app is returned to a permit alone, so that nothing is encrypted or
//! decrypted without a decision.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use leafseal_envelope::{OpenedMetadata, Role};
use leafseal_errors::{Decision, Denial, Principal, Question};
use leafseal_keystore::{AcceptedSchemes, AppName};
use leafseal_pool::finish_step;

use crate::app::App;
use crate::canaries::OpenedEnvelope;
use crate::engine::{Engine, app_name};
use crate::error::{Error, ErrorCode, Side};
use crate::permissions::{Caller, Operation, PayloadDigest, Rights};

impl Engine {
    /// Decides whether the caller may do all of these with the app, which it returns.
    pub(crate) fn authorised(
        &self,
        caller: &Caller,
        operations: &[Operation],
        app: &str,
    ) -> Result<(Rights, Arc<App>), Error> {
        let checked = self.check(caller, operations, app);
        self.observed(caller.principal(), Question::Permission, operations, Some(app), checked)
    }

    fn check(&self, caller: &Caller, operations: &[Operation], app: &str) -> Result<(Rights, Arc<App>), Error> {
        let rights = self.current_rights(caller)?;
        let name = app_name(app)?;
        rights.check(operations, &name)?;
        caller.check_payload()?;
        let app = self.app(caller, &name)?;
        if operations.iter().any(|operation| *operation != Operation::Encrypt) {
            app.check_private()?;
        }
        Ok((rights, app))
    }

    /// Decides whether a caller may decrypt the payload with this digest: a token is for one alone. Returns the caller to decrypt it as.
    ///
    /// # Errors
    /// [`ErrorCode::Forbidden`].
    pub fn show_payload(&self, caller: &Caller, read: &PayloadDigest) -> Result<Caller, Error> {
        let Caller::Token(token) = caller else { return Ok(caller.clone()) };
        match token.shown(read) {
            Ok(shown) => Ok(Caller::Token(shown)),
            Err(refusal) => {
                let (principal, app) = (caller.principal(), Some(token.app().as_str()));
                self.observed(principal, Question::Permission, &[Operation::Decrypt], app, Err(refusal))
            }
        }
    }

    /// Decides whether the caller may use the app at all, and returns it.
    pub(crate) fn authorised_any(&self, caller: &Caller, app: &str) -> Result<Arc<App>, Error> {
        let checked = app_name(app).and_then(|name| {
            self.current_rights(caller)?.check_any(&name)?;
            self.app(caller, &name)
        });
        self.observed(caller.principal(), Question::Permission, &[], Some(app), checked)
    }

    /// Refuses, without blocking, what the engine would refuse when the work begins. A grant is not reported: it is decided then.
    ///
    /// # Errors
    /// [`ErrorCode::Forbidden`].
    pub fn refuse_early(&self, caller: &Caller, operations: &[Operation], app: &AppName) -> Result<(), Error> {
        let Some(rights) = self.known_rights(caller) else { return Ok(()) };
        match rights.check(operations, app) {
            Ok(()) => Ok(()),
            refused => self.observed(caller.principal(), Question::Permission, operations, Some(app.as_str()), refused),
        }
    }

    /// Reports a decision. An error for which the caller's permissions are not the reason, such as a store that does not answer, is none;
    /// that the store is sealed is reported as such.
    pub(crate) fn observed<T>(
        &self,
        principal: Principal<'_>,
        question: Question,
        operations: &[Operation],
        app: Option<&str>,
        decided: Result<T, Error>,
    ) -> Result<T, Error> {
        let refusal = decided.as_ref().err();
        let is_sealed = refusal.is_some_and(|error| error.is_sealed);
        let is_decided = refusal.is_none_or(|error| error.code.side() == Side::Permission);
        let is_observed = !self.observers().is_empty() || self.account().is_some();
        if is_observed && (is_decided || is_sealed) {
            let refusal = refusal.map(|error| Denial { code: error.code, reason: &error.message });
            // Other text may contain anything, such as line breaks.
            let app = app.filter(|app| AppName::parse(app).is_ok());
            let is_accounted = self.account().is_some();
            let decision =
                Decision { origin: self.origin(), principal, question, operations, app, refusal, is_accounted };
            if let Some(account) = self.account() {
                account.decided(&decision);
            }
            match is_sealed {
                true => self.observers().sealed(&decision),
                false => self.observers().decided(&decision),
            }
        }
        decided
    }
}

/// Whether anything changed since the permit was last checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Renewal {
    /// Nothing has changed.
    Unchanged,
    /// Permissions and keys were read again: keys derived from the old ones must be dropped.
    Renewed,
}

/// Each worker of a request has its own copy, and detects changes itself.
#[derive(Clone)]
pub(crate) struct Permit {
    pub(crate) engine: Engine,
    pub(crate) app: Arc<App>,
    rights: Rights,
    caller: Caller,
    operations: &'static [Operation],
    epoch: u64,
    pub(crate) knowledge: Knowledge,
    reported: Arc<ReportedRefusals>,
    /// Whether values are opened only to see whether they open.
    is_probe: bool,
}

/// The refusals that the copies of a permit have reported besides the first decision: each refusal once, however many values and workers
/// meet it.
#[derive(Default)]
struct ReportedRefusals {
    end: AtomicBool,
    role: AtomicBool,
}

/// Which key versions an engine knew when a request read the app's keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Knowledge {
    /// All with which any engine on the store encrypts.
    Complete,
    /// Perhaps not all, because the store has been silent.
    Dated,
}

impl Knowledge {
    fn of(engine: &Engine) -> Self {
        if engine.knows_all_versions() { Self::Complete } else { Self::Dated }
    }

    /// Whether an error is the same if the value is tried again.
    pub(crate) fn is_final(self, error: &Error) -> bool {
        self == Self::Complete || error.code != ErrorCode::DecryptFailed
    }

    /// Returns the error for a value that no key opened. While the store is silent, another engine may have encrypted the value with a
    /// version that is missing here, so the error is `Unavailable`: after `decrypt failed` a caller might delete the value.
    pub(crate) fn judge(self, error: Error) -> Error {
        if self.is_final(&error) { error } else { Error::silent_store() }
    }
}

impl Permit {
    pub(crate) fn new(
        engine: &Engine,
        caller: &Caller,
        operations: &'static [Operation],
        app: &str,
    ) -> Result<Self, Error> {
        let (epoch, knowledge) = (engine.epoch(), Knowledge::of(engine));
        let (rights, app) = engine.authorised(caller, operations, app)?;
        let (engine, caller, reported) = (engine.clone(), caller.clone(), Arc::default());
        Ok(Self { engine, rights, app, caller, operations, epoch, knowledge, reported, is_probe: false })
    }

    /// The same permit, for the search for values that open: a value without the role that the search is for is not refused to anyone.
    pub(crate) fn probe(&self) -> Self {
        Self { is_probe: true, ..self.clone() }
    }

    /// The envelopes that both the app and the caller's permissions accept.
    pub(crate) fn accepted(&self) -> AcceptedSchemes {
        self.app.accepted().and(self.rights.accepted())
    }

    /// Checks that the caller may read the role of a value, and that it equals the requested role. Every value that is opened passes here;
    /// if it is a canary, that is noted, whether the caller may read it or not.
    #[inline]
    pub(crate) fn check_role(
        &self,
        opened: OpenedEnvelope<'_>,
        wanted: Option<&Role>,
        metadata: Option<OpenedMetadata<'_>>,
    ) -> Result<(), Error> {
        if let Some(is_canary) = self.app.is_canary(opened) {
            self.engine.count_canaries(u64::from(is_canary));
        }
        let carried = metadata.and_then(|metadata| metadata.role);
        if let Some(role) = carried {
            self.rights.check_role(role).map_err(|refusal| self.role_refused(carried, refusal))?;
            self.engine.note_role(role);
        }
        match wanted {
            Some(wanted) if carried != Some(wanted.as_str()) => {
                let error = Error::new(ErrorCode::Forbidden, "a value does not carry the role that was asked for");
                Err(if self.is_probe { error } else { self.role_refused(carried, error) })
            }
            _ => Ok(()),
        }
    }

    #[cold]
    fn role_refused(&self, role: Option<&str>, refusal: Error) -> Error {
        self.engine.note_refused(role, &refusal);
        self.observed_once(&self.reported.role, Question::Role, refusal)
    }

    fn observed_once(&self, reported: &AtomicBool, question: Question, refusal: Error) -> Error {
        if refusal.code.side() == Side::Permission && reported.swap(true, Ordering::Relaxed) {
            return refusal;
        }
        let (principal, app) = (self.caller.principal(), Some(self.app.name.as_str()));
        let observed = self.engine.observed(principal, question, self.operations, app, Err::<(), _>(refusal));
        observed.expect_err("it is a refusal")
    }

    /// Bytes of one value per step.
    pub(crate) fn step_bytes_max(&self) -> usize {
        self.engine.settings().step_bytes_max.max(1)
    }

    /// Call it at the beginning of each step. Never waits for the store: while a look-up is under way, the step is the last one before its
    /// job waits.
    pub(crate) fn renew(&mut self) -> Result<Renewal, Error> {
        let epoch = self.engine.epoch();
        if epoch == self.epoch {
            return Ok(Renewal::Unchanged);
        }
        self.knowledge = Knowledge::of(&self.engine);
        let name = Arc::clone(&self.app);
        let name = name.name.as_str();
        let authorised = self.engine.check(&self.caller, self.operations, name);
        let (rights, app) = match authorised {
            // The step may have changed its request already, so it is not repeated. It ends under the permission with which the step
            // before it ended; the job then waits for the store, and the next step checks again.
            Err(error) if error.awaits_store => {
                finish_step();
                return Ok(Renewal::Unchanged);
            }
            Err(error) => return Err(self.observed_once(&self.reported.end, Question::Permission, error)),
            Ok(authorised) => authorised,
        };
        (self.rights, self.app, self.epoch) = (rights, app, epoch);
        Ok(Renewal::Renewed)
    }
}
