//! Decisions about permissions, and their observer: the audit log, refusal records and metrics attach here.

use crate::error::Error;
use crate::permissions::{Caller, Operation};

/// A decision whether a caller may do something.
#[derive(Debug)]
pub struct Decision<'d> {
    /// Who asks.
    pub caller: &'d Caller,
    /// What it asks for: all of these. Empty for anything at all, which suffices to read public keys and to present API keys.
    pub operations: &'d [Operation],
    /// For which app, as the request names it.
    pub app: &'d str,
    /// Why it is refused; `None` if it is granted.
    pub refusal: Option<&'d Error>,
}

/// Receives the decisions of an engine.
pub trait DecisionObserver: Send + Sync {
    /// A decision was made. Called on the thread that works on the request, so it must not block.
    fn decided(&self, decision: &Decision<'_>);
}
