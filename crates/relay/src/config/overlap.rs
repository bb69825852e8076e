//! Finds rules of one direction that encrypt the same value twice.

use super::{Action, Rule};

/// What two rules both encrypt; `None` if no value, or if the later rule leaves what the earlier one has encrypted.
pub(super) fn encrypted_twice(earlier: &Rule, later: &Rule) -> Option<&'static str> {
    if earlier.action != Action::Encrypt || later.action != Action::Encrypt {
        return None;
    }
    // An envelope of another role does not open for the later rule.
    if later.skip_sealed && (later.role.is_none() || later.role == earlier.role) {
        return None;
    }
    let json = match (&earlier.json, &later.json) {
        (Some(one), Some(other)) => one.selection.may_overlap(&other.selection),
        _ => false,
    };
    let parts = [
        ("JSON value", json),
        ("form field", earlier.form.may_overlap(&later.form)),
        ("query parameter", earlier.query.may_overlap(&later.query)),
        ("header field", earlier.headers.iter().any(|name| later.headers.contains(name))),
    ];
    parts.into_iter().find(|(_, overlaps)| *overlaps).map(|(part, _)| part)
}
