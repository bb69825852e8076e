//! The one place where "may this caller do this" is decided, and a request's permission to work with an app: checked when the request
//! begins, and again at the next step after any change of the store, so that revoking a grant or a key version ends the requests that
//! depend on it.
//!
//! An observer, see [`DecisionObserver`], receives every decision: once for each request, and again if a change of the store ends it.

use std::sync::Arc;

use leafseal_keystore::AppName;
use leafseal_pool::finish_step;

use crate::app::App;
use crate::decision::Decision;
use crate::engine::{Engine, app_name};
use crate::error::{Error, ErrorCode, Side};
use crate::permissions::{Caller, Operation, Rights};

impl Engine {
    /// Decides whether the caller may do all of these with the app, which it returns.
    pub(crate) fn authorised(
        &self,
        caller: &Caller,
        operations: &[Operation],
        app: &str,
    ) -> Result<(Rights, Arc<App>), Error> {
        self.observed(caller, operations, app, self.check(caller, operations, app))
    }

    fn check(&self, caller: &Caller, operations: &[Operation], app: &str) -> Result<(Rights, Arc<App>), Error> {
        let rights = self.rights(caller)?;
        let name = app_name(app)?;
        rights.check(operations, &name)?;
        let app = self.app(caller, &name)?;
        if operations.iter().any(|operation| *operation != Operation::Encrypt) {
            app.check_private()?;
        }
        Ok((rights, app))
    }

    /// Decides whether the caller may use the app at all, and returns it.
    pub(crate) fn authorised_any(&self, caller: &Caller, app: &str) -> Result<Arc<App>, Error> {
        let checked = app_name(app).and_then(|name| {
            self.rights(caller)?.check_any(&name)?;
            self.app(caller, &name)
        });
        self.observed(caller, &[], app, checked)
    }

    /// Refuses, without blocking, what the engine would refuse when the work begins. A grant is not reported: it is decided then.
    ///
    /// # Errors
    /// [`ErrorCode::Forbidden`].
    pub fn refuse_early(&self, caller: &Caller, operations: &[Operation], app: &AppName) -> Result<(), Error> {
        let Some(rights) = self.known_rights(caller) else { return Ok(()) };
        match rights.check(operations, app) {
            Ok(()) => Ok(()),
            refused => self.observed(caller, operations, app.as_str(), refused),
        }
    }

    /// Reports a decision. An error for which the caller's permissions are not the reason, such as a store that does not answer, is none.
    pub(crate) fn observed<T>(
        &self,
        caller: &Caller,
        operations: &[Operation],
        app: &str,
        decided: Result<T, Error>,
    ) -> Result<T, Error> {
        let refusal = decided.as_ref().err();
        if let Some(observer) = self.decision_observer()
            && refusal.is_none_or(|error| error.code.side() == Side::Permission)
        {
            observer.decided(&Decision { caller, operations, app, refusal });
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
    pub(crate) rights: Rights,
    pub(crate) app: Arc<App>,
    caller: Caller,
    operations: &'static [Operation],
    epoch: u64,
    pub(crate) knowledge: Knowledge,
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
        Ok(Self { engine: engine.clone(), rights, app, caller: caller.clone(), operations, epoch, knowledge })
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
            Err(error) => return self.engine.observed(&self.caller, self.operations, name, Err(error)),
            Ok(authorised) => authorised,
        };
        (self.rights, self.app, self.epoch) = (rights, app, epoch);
        Ok(Renewal::Renewed)
    }
}
