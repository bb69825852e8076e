//! The body types that rules read.

use hyper::header::{CONTENT_TYPE, HeaderMap};
use leafseal_document::form::MediaType;

use crate::config::{Actions, Mismatch, Rule};

/// The type of a body, for rules.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Json,
    Urlencoded,
    Multipart(String),
    Other,
}

/// Returns the types that [`kind`] accepts, for the refusal of another.
pub(super) fn accepted(actions: &Actions) -> String {
    let must_hide = actions.mismatch == Mismatch::Refuse && actions.rules.iter().any(Rule::hides_in_bodies);
    let readers = || actions.rules.iter().filter(move |rule| !must_hide || rule.hides_in_bodies());
    let (json, form) = (readers().any(|rule| rule.json.is_some()), readers().any(|rule| !rule.form.is_empty()));
    let types: &[&str] = match (json, form) {
        (true, false) => &["application/json"],
        (false, _) => &["application/x-www-form-urlencoded", "multipart/form-data"],
        (true, true) => &["application/json", "application/x-www-form-urlencoded", "multipart/form-data"],
    };
    let (last, others) = types.split_last().expect("each row has one");
    let or = if others.is_empty() { String::new() } else { format!("{} or ", others.join(", ")) };
    format!("its Content-Type must be {or}{last}, in UTF-8")
}

/// Returns the type of the body if a rule reads it; if a rule hides something, only types that a hiding rule reads. A rule that only
/// decrypts protects no values in the clear.
pub(super) fn kind(actions: &Actions, headers: &HeaderMap) -> Option<Kind> {
    let mut types = headers.get_all(CONTENT_TYPE).iter();
    let (Some(first), None) = (types.next(), types.next()) else { return None };
    let media = MediaType::parse(first.as_bytes())?;
    let kind = if media.is_json() {
        Kind::Json
    } else if media.is_urlencoded() {
        Kind::Urlencoded
    } else if media.is_multipart() {
        Kind::Multipart(media.boundary.clone()?)
    } else {
        Kind::Other
    };
    // In other encodings, rules would not find the values that they hide.
    let is_utf8 = media.is_utf8();
    let reads = |rule: &Rule| match kind {
        Kind::Json => rule.json.is_some(),
        Kind::Urlencoded | Kind::Multipart(_) => !rule.form.is_empty(),
        Kind::Other => false,
    };
    let rules = &actions.rules;
    let must_hide = actions.mismatch == Mismatch::Refuse && rules.iter().any(Rule::hides_in_bodies);
    let reads = |rule: &Rule| reads(rule) && (!must_hide || rule.hides_in_bodies());
    let is_guarded = actions.guard_forms() && !must_hide && matches!(kind, Kind::Urlencoded | Kind::Multipart(_));
    (is_utf8 && (is_guarded || rules.iter().any(reads))).then_some(kind)
}

/// Whether an upstream could take a body for a form: its type is that of one, or there is none (Rack reads such a body as a form), or none
/// that all read alike.
pub(super) fn may_be_form(headers: &HeaderMap) -> bool {
    let mut types = headers.get_all(CONTENT_TYPE).iter();
    match (types.next(), types.next()) {
        (Some(only), None) => MediaType::parse(only.as_bytes())
            .is_none_or(|media| media.is_urlencoded() || media.essence.starts_with("multipart/")),
        _ => true,
    }
}
