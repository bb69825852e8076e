//! The body types that rules read.

use hyper::header::{CONTENT_ENCODING, CONTENT_TYPE, HeaderMap, HeaderValue};
use leafseal_document::form::MediaType;
use leafseal_http::JSON_LINES_TYPES;

use crate::body::coding::Coding;
use crate::policy::types::{self, MediaTypes, TypeKind};
use crate::policy::{Actions, Mismatch, Patches, Rule};

/// The type of a body, for rules.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum BodyKind {
    Json,
    /// A JSON document on each line.
    JsonLines,
    Urlencoded,
    Multipart(String),
    /// A JSON Patch, whose operations are read.
    Patch,
    Other,
}

/// Returns the types that [`kind`] accepts, for the refusal of another.
pub(super) fn accepted(actions: &Actions) -> String {
    let must_hide = actions.mismatch == Mismatch::Refuse && actions.rules.iter().any(Rule::hides_in_bodies);
    let readers = || actions.rules.iter().filter(move |rule| !must_hide || rule.hides_in_bodies());
    let reads = |kind| readers().any(|rule| rule.selectors.read(kind));
    let (json, form) = (reads(TypeKind::Json), reads(TypeKind::Urlencoded));
    let (listed, patches): (Vec<&str>, bool) = (actions.types.iter().collect(), actions.patches != Patches::Refuse);
    let [json_type, lines_type] = ["application/json", JSON_LINES_TYPES[0]];
    let types = match (listed.is_empty(), json, form) {
        (false, ..) => listed,
        (true, true, false) if patches => vec![json_type, lines_type, types::PATCH_TYPE],
        (true, true, false) => vec![json_type, lines_type],
        (true, false, _) => vec![types::URLENCODED_TYPE, types::MULTIPART_TYPE],
        (true, true, true) => vec![json_type, lines_type, types::URLENCODED_TYPE, types::MULTIPART_TYPE],
    };
    let (last, others) = types.split_last().expect("each row has one");
    let or = if others.is_empty() { String::new() } else { format!("{} or ", others.join(", ")) };
    let hint = if json && !actions.types.is_listed() { "; list other types of JSON documents in `types`" } else { "" };
    format!("its Content-Type must be {or}{last}, in UTF-8{hint}")
}

/// Returns the type of the body if a rule reads it; if a rule hides something, only types that a hiding rule reads. A rule that only
/// decrypts protects no values in the clear. `guards`: whether forms, or documents, are read although no rule does.
pub(super) fn kind(actions: &Actions, headers: &HeaderMap, guards: bool) -> Option<BodyKind> {
    let media = media_type(headers)?;
    let type_kind = actions.types.kind(&media);
    let kind = match type_kind {
        Some(TypeKind::Json) => BodyKind::Json,
        Some(TypeKind::JsonLines) => BodyKind::JsonLines,
        Some(TypeKind::Urlencoded) => BodyKind::Urlencoded,
        Some(TypeKind::Multipart) => BodyKind::Multipart(media.boundary.clone()?),
        None => BodyKind::Other,
    };
    // In other encodings, rules would not find the values that they hide.
    let is_utf8 = media.is_utf8();
    let rules = &actions.rules;
    let must_hide = actions.mismatch == Mismatch::Refuse && rules.iter().any(Rule::hides_in_bodies);
    let is_taken = actions.types.take(&media, must_hide, actions.patches);
    let reads = |rule: &Rule| {
        let reads = type_kind.is_some_and(|kind| rule.selectors.read(kind));
        reads && is_taken && (!must_hide || rule.hides_in_bodies())
    };
    let is_guarded = guards
        && !must_hide
        && match kind {
            BodyKind::Urlencoded | BodyKind::Multipart(_) => true,
            BodyKind::Json | BodyKind::JsonLines => actions.guard_json(),
            BodyKind::Patch | BodyKind::Other => false,
        };
    (is_utf8 && (is_guarded || rules.iter().any(reads))).then_some(kind)
}

/// The type of a body that every reader takes from its header: there is one such field, and it is well-formed.
fn media_type(headers: &HeaderMap) -> Option<MediaType> {
    let mut types = headers.get_all(CONTENT_TYPE).iter();
    let (Some(only), None) = (types.next(), types.next()) else { return None };
    MediaType::parse(only.as_bytes())
}

/// Whether the type is that of a JSON Patch.
pub(super) fn is_patch(headers: &HeaderMap) -> bool {
    media_type(headers).is_some_and(|media| media.essence == types::PATCH_TYPE)
}

/// Writes the type and coding of a body that was read, as it was read: what else the fields say would be read by others alone.
pub(super) fn write_canonical(headers: &mut HeaderMap, coding: Coding) {
    if let Some(canonical) = media_type(headers).as_ref().and_then(types::canonical) {
        headers.insert(CONTENT_TYPE, canonical);
    }
    match coding.name() {
        Some(name) => headers.insert(CONTENT_ENCODING, HeaderValue::from_static(name)),
        None => headers.remove(CONTENT_ENCODING),
    };
}

/// Whether a body that the relay cannot read for its charset, coding or boundary has a type in which a rule hides something: upstreams that
/// can read it find the values.
pub(super) fn is_unreadable(actions: &Actions, headers: &HeaderMap) -> bool {
    let Some(media) = media_type(headers) else { return false };
    let kind = actions.types.kind(&media);
    let reads = |rule: &Rule| kind.is_some_and(|kind| rule.selectors.read(kind));
    let is_hidden = actions.rules.iter().any(|rule| rule.hides() && reads(rule));
    is_hidden && actions.types.take(&media, false, actions.patches)
}

/// Whether a body that no rule reads has a type that some readers take for that of another body, in which the rules hide something: they
/// search the header for a word.
pub(super) fn is_misleading(actions: &Actions, headers: &HeaderMap) -> bool {
    let reads = |rule: &Rule| rule.selectors.read(TypeKind::Json) || rule.selectors.select_fields();
    let hides = actions.rules.iter().any(|rule| rule.hides() && reads(rule));
    let mut values = headers.get_all(CONTENT_TYPE).iter();
    let count = headers.get_all(CONTENT_TYPE).iter().count();
    hides
        && (count > 1
            || values.any(|value| {
                let kind = MediaType::parse(value.as_bytes()).and_then(|media| actions.types.kind(&media));
                types::is_misleading(value.as_bytes(), kind)
            }))
}

/// Whether an upstream could take a body for a form: its type is that of one, or there is none (Rack reads such a body as a form), or none
/// that all read alike.
pub(super) fn may_be_form(headers: &HeaderMap) -> bool {
    let mut types = headers.get_all(CONTENT_TYPE).iter();
    match (types.next(), types.next()) {
        (Some(only), None) => {
            MediaType::parse(only.as_bytes())
                .is_none_or(|media| media.is_urlencoded() || media.essence.starts_with("multipart/"))
                || types::is_misleading(only.as_bytes(), Some(TypeKind::Json))
        }
        _ => true,
    }
}

/// A type that servers could take for different ones.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct UnclearType;

/// How a body is searched for another method; `None` for a type in which frameworks find none. They read forms in any charset that has
/// the letters of ASCII, and Rack reads a body without a type as a form.
///
/// # Errors
/// If some could take the type for another that is searched, or if the charset or boundary is not known.
pub(super) fn searched_for_method(headers: &HeaderMap) -> Result<Option<BodyKind>, UnclearType> {
    let mut types = headers.get_all(CONTENT_TYPE).iter();
    let names = |words: &[&str]| {
        let is_named = |text: &[u8]| words.iter().any(|word| memchr::memmem::find(text, word.as_bytes()).is_some());
        headers.get_all(CONTENT_TYPE).iter().any(|value| is_named(&value.as_bytes().to_ascii_lowercase()))
    };
    let media = match (types.next(), types.next()) {
        (None, _) => return Ok(Some(BodyKind::Urlencoded)),
        (Some(only), None) if only.as_bytes().trim_ascii().is_empty() => return Ok(Some(BodyKind::Urlencoded)),
        (Some(only), None) => MediaType::parse(only.as_bytes()),
        (Some(_), Some(_)) => None,
    };
    let Some(media) = media else {
        return if names(&["urlencoded", "form-data", "json"]) { Err(UnclearType) } else { Ok(None) };
    };
    let kind = match MediaTypes::NONE.kind(&media) {
        Some(TypeKind::Json) => BodyKind::Json,
        Some(TypeKind::JsonLines) => BodyKind::JsonLines,
        Some(TypeKind::Urlencoded) => BodyKind::Urlencoded,
        Some(TypeKind::Multipart) => BodyKind::Multipart(media.boundary.clone().ok_or(UnclearType)?),
        None if names(&["urlencoded", "form-data"]) => return Err(UnclearType),
        None => return Ok(None),
    };
    let has_ascii = |charset: &str| {
        ["iso-8859-", "iso_8859-", "latin", "windows-125", "cp125"].iter().any(|prefix| charset.starts_with(prefix))
    };
    let is_known = media.is_utf8() || media.charset.as_deref().is_some_and(has_ascii);
    if is_known { Ok(Some(kind)) } else { Err(UnclearType) }
}

/// Whether an upstream could take a body for JSON, by its type: some search it for the word.
pub(super) fn may_be_json(headers: &HeaderMap) -> bool {
    headers.get_all(CONTENT_TYPE).iter().any(|value| types::names_json(value.as_bytes()))
}
