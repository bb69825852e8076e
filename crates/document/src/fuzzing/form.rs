//! Forms: the same fields are found as by slow parsers, and the same parts as by a lenient parser.

use super::{media_type::check_written, slow_form};
use crate::CaseFold;
use crate::form::{
    BOUNDARY_SIZE_MAX, FieldNames, FormErrorKind, FormLimits, MediaType, MultipartPart, Syntax, decode_field,
    find_fields, find_parts, holds_field, is_field_name,
};

fn limits() -> FormLimits {
    FormLimits { fields_max: 64, part_header_size_max: 512, ..FormLimits::default() }
}

/// Treats any bytes as a form: the first line is the value of `Content-Type`, the second names the fields, separated by `,`, the rest is
/// the body.
pub fn check_form(bytes: &[u8]) {
    let mut lines = bytes.splitn(3, |&byte| byte == b'\n');
    let (Some(media), Some(names), Some(body)) = (lines.next(), lines.next(), lines.next()) else { return };
    let Ok(names) = std::str::from_utf8(names) else { return };
    let names: Vec<&str> = names.split(',').collect();
    // A configuration with another name is refused.
    if names.iter().all(|name| is_field_name(name)) {
        check_urlencoded(body, &names);
    }
    let Some(media) = MediaType::parse(media) else { return };
    check_written(&media);
    if media.is_multipart() {
        check_multipart(body, media.boundary.as_deref().unwrap_or_default(), &names);
    }
}

fn check_urlencoded(body: &[u8], names: &[&str]) {
    let count = body.iter().filter(|&&byte| byte == b'&').count() + 1;
    let chosen = FieldNames::new(names);
    let guarded = find_fields(body, &chosen.clone().guarded(CaseFold::Refuse, &FieldNames::default()), &limits());
    let found = match find_fields(body, &chosen, &limits()) {
        Ok(found) => found,
        Err(error) => {
            use FormErrorKind::{ForeignCharset, Semicolon, TooManyFields};
            assert!(matches!(error.kind, TooManyFields(64) | ForeignCharset | Semicolon), "{error}");
            return assert!(error.offset <= body.len() && guarded.is_err());
        }
    };
    assert!(count <= 64);
    match guarded {
        Ok(guarded) => assert_eq!(guarded, found, "a guard refuses, and selects nothing else"),
        Err(error) => {
            assert!(matches!(error.kind, FormErrorKind::AmbiguousName | FormErrorKind::Semicolon), "{error}");
            assert!(holds_field(body, &chosen.guarded(CaseFold::Refuse, &FieldNames::default()), &limits()));
        }
    }
    let cut = |name: &[u8]| name.split(|&byte| byte == 0).next().unwrap_or_default().trim_ascii().to_vec();
    let is_meant =
        |name: &[u8]| names.iter().any(|chosen| *chosen == "*" || cut(name) == chosen.trim_ascii().as_bytes());
    let slow = slow_form::urlencoded(body).into_iter().filter(|(name, _)| is_meant(name)).map(|(_, value)| value);
    assert_eq!(found, slow.collect::<Vec<_>>());
    for value in found {
        let decoded = slow_form::percent_decoded(&body[value.clone()]);
        let text = decode_field(&body[value]).ok();
        assert_eq!(text, String::from_utf8(decoded).ok());
        let Some(text) = text else { continue };
        let mut written = Vec::new();
        Syntax::Form.encode(text.as_bytes(), &mut written);
        assert_eq!(decode_field(&written), Ok(text));
    }
}

pub(super) fn check_multipart(body: &[u8], boundary: &str, names: &[&str]) {
    let everything = find_parts(body, boundary, &FieldNames::new(["*"]), &limits());
    let chosen = find_parts(body, boundary, &FieldNames::new(names), &limits());
    match (&everything, &chosen) {
        (Ok(all), Ok(chosen)) => {
            assert!(chosen.iter().all(|part| all.contains(part)), "what is chosen is among all");
            if names.contains(&"*") {
                assert_eq!(all, chosen);
            }
            check_parts(body, boundary, all);
        }
        (Err(error), Ok(_)) => assert_eq!(error.kind, FormErrorKind::EncodedPart, "what is chosen alone"),
        (_, Err(error)) => {
            assert!(error.offset <= body.len() && !error.to_string().is_empty());
            assert!(everything.is_err(), "{error}");
        }
    }
    if body.len() < 4096 && chosen.is_ok() {
        check_mends(body, boundary);
    }
}

/// The parts are in order, contain no boundary, and a lenient parser splits them the same way.
fn check_parts(body: &[u8], boundary: &str, parts: &[MultipartPart]) {
    assert!(!boundary.is_empty() && boundary.len() <= BOUNDARY_SIZE_MAX);
    let cut = format!("--{boundary}").into_bytes();
    let mut before = cut.len();
    for part in parts {
        assert!(before < part.content.start && part.content.end <= body.len());
        assert!(memchr::memmem::find(&body[part.content.clone()], &cut).is_none(), "a boundary within a part");
        assert!(body[..part.content.start].ends_with(b"\r\n\r\n"), "a header's end before the content");
        assert!(body[part.content.end..].starts_with(&[b"\r\n", &cut[..]].concat()), "a boundary behind it");
        if let Some(line) = &part.length_line {
            assert!(before < line.start && line.end <= part.content.start && body[..line.end].ends_with(b"\r\n"));
            assert!(body[line.clone()].to_ascii_lowercase().starts_with(b"content-length:"));
        }
        before = part.content.end;
    }
    let contents: Vec<_> = parts.iter().map(|part| part.content.clone()).collect();
    assert_eq!(contents, slow_form::lenient_contents(body, boundary), "a lenient reader");
}

/// A valid form becomes invalid with bytes before it or after it, or without its end.
fn check_mends(body: &[u8], boundary: &str) {
    let all = FieldNames::default();
    let of = |body: &[u8]| find_parts(body, boundary, &all, &limits());
    assert!(of(&[b"x", body].concat()).is_err() && of(&[b"\r\n", body].concat()).is_err());
    assert!(of(&[body, b"x"].concat()).is_err() && of(&[body, b"\r\n\r\n"].concat()).is_err());
    let whole = body.strip_suffix(b"\r\n").unwrap_or(body);
    assert!(of(&whole[..whole.len() - 1]).is_err());
}
