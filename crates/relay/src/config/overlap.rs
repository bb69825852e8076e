//! Finds rules of one direction that select the same value, where the later one repeats or undoes what the earlier one has done.

use crate::policy::{Action, Rule, RuleSealing};

/// A value that two rules select.
pub(super) struct Overlap {
    /// The kind of the value.
    pub part: &'static str,
    pub effect: Effect,
}

/// What becomes of it.
pub(super) enum Effect {
    /// It is encrypted twice.
    Twice,
    /// Its message is refused: the case of its name differs between the rules, and some upstreams would read both as one.
    Refused,
    /// It is encrypted, and then decrypted again.
    Undone,
}

/// What two rules both select to the detriment of one of them; `None` if there is no such value.
pub(super) fn find_overlap(earlier: &Rule, later: &Rule) -> Option<Overlap> {
    // An envelope of another role or context, or of a kind that is not accepted, does not open for the later rule.
    let binding = |rule: &Rule| {
        let RuleSealing { context, context_select, bind, .. } = rule.sealing.clone();
        (context, context_select, bind)
    };
    let is_left = later.probes()
        && (later.role.is_none() || later.role == earlier.role)
        && binding(later) == binding(earlier)
        && later.sealing.accept.is_none()
        // What it has resealed is marked, and a rule that binds values opens what is marked only if it says so.
        && (earlier.sealing.reseal.is_none() || later.sealing.reseal.is_some() || !later.sealing.is_bound());
    let effect = match (earlier.action, later.action) {
        (Action::Encrypt, Action::Decrypt) => Effect::Undone,
        (Action::Encrypt, Action::Encrypt) if !is_left => Effect::Twice,
        _ => return None,
    };
    let (one, other) = (&earlier.selectors, &later.selectors);
    if let Some(part) = one.may_overlap(other) {
        return Some(Overlap { part, effect });
    }
    one.may_be_confused_with(other).then_some(Overlap { part: "JSON value", effect: Effect::Refused })
}
