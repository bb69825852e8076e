//! A request's permission to work with an app: checked when the request begins, and again at the next step after any change of the store,
//! so that revoking a grant or a key version ends the requests that depend on it.

use std::sync::Arc;

use crate::apps::App;
use crate::engine::{Engine, silent_store};
use crate::error::{Error, ErrorKind};
use crate::permissions::{Act, Caller, Rights};

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
    operations: &'static [Act],
    epoch: u64,
    /// Whether no engine encrypts with a key version that is unknown here.
    knows_all_versions: bool,
}

impl Permit {
    pub(crate) fn new(engine: &Engine, caller: &Caller, operations: &'static [Act], app: &str) -> Result<Self, Error> {
        let (epoch, knows_all_versions) = (engine.epoch(), engine.knows_all_versions());
        let (rights, app) = engine.authorised(caller, operations, app)?;
        Ok(Self { engine: engine.clone(), rights, app, caller: caller.clone(), operations, epoch, knows_all_versions })
    }

    /// Bytes of one value per step.
    pub(crate) fn step_bytes_max(&self) -> usize {
        self.engine.settings().step_bytes_max.max(1)
    }

    /// The error of a value that no key opened, for the request. While the store is silent, another engine may have encrypted it with a
    /// version that this one does not know: whoever is told that it cannot be decrypted might delete it.
    pub(crate) fn judge(&self, error: Error) -> Error {
        if self.is_final(&error) { error } else { silent_store() }
    }

    /// Whether an error is the same if the value is tried again.
    pub(crate) fn is_final(&self, error: &Error) -> bool {
        self.knows_all_versions || error.kind != ErrorKind::DecryptFailed
    }

    /// Call it at the beginning of each step.
    pub(crate) fn renew(&mut self) -> Result<Renewal, Error> {
        let epoch = self.engine.epoch();
        if epoch == self.epoch {
            return Ok(Renewal::Unchanged);
        }
        self.knows_all_versions = self.engine.knows_all_versions();
        let (rights, app) = self.engine.authorised(&self.caller, self.operations, self.app.name.as_str())?;
        (self.rights, self.app, self.epoch) = (rights, app, epoch);
        Ok(Renewal::Renewed)
    }
}
