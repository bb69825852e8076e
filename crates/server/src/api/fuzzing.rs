//! Properties that hold for any head of a call and any body of `/inspect`: the fuzz target checks them, and an ordinary test replays its
//! corpus.
//!
//! Not part of the crate's interface. Every function panics where a property does not hold.

use hyper::HeaderMap;
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HeaderName, HeaderValue};
use leafseal_engine::fuzzing;
use leafseal_protocol::{OptionInfo, OptionKind, OptionValue};
use leafseal_service::api::{self, CallOptions};

use super::body::RequestBodyForm;
use super::credentials::{API_KEY, Credentials, NoCredentials};
use super::query::{SupportedOptions, read_options};
use super::route::PATHS;
use crate::metrics::ApiCall;

/// Parses any bytes as a call: a line with path and query, header lines, an empty line, the body.
pub fn check_call(bytes: &[u8]) {
    let end = bytes.windows(2).position(|pair| pair == b"\n\n");
    let (head, body) = end.map_or((bytes, &[][..]), |end| (&bytes[..end], &bytes[end + 2..]));
    let mut lines = head.split(|&byte| byte == b'\n');
    // Invalid UTF-8 is not a request target.
    if let Some(target) = lines.next().and_then(|target| std::str::from_utf8(target).ok()) {
        let (path, query) = target.split_once('?').map_or((target, None), |(path, query)| (path, Some(query)));
        check_path(path);
        [
            SupportedOptions::Encryption,
            SupportedOptions::FileEncryption,
            SupportedOptions::Decryption,
            SupportedOptions::FileDecryption,
            SupportedOptions::Inspection,
            SupportedOptions::Nothing,
            SupportedOptions::Anything,
        ]
        .into_iter()
        .for_each(|supported| check_query(query, supported));
    }
    let mut headers = HeaderMap::new();
    for line in lines {
        let Some(colon) = line.iter().position(|&byte| byte == b':') else { continue };
        let value = HeaderValue::from_bytes(line[colon + 1..].trim_ascii());
        if let (Ok(name), Ok(value)) = (HeaderName::from_bytes(&line[..colon]), value) {
            headers.append(name, value);
        }
    }
    check_credentials(&headers);
    check_form(&headers);
    check_inspected(body);
}

fn check_path(path: &str) {
    let found = ApiCall::of_path(path);
    let path = if path.starts_with("//") { &path[1..] } else { path };
    let segments: Vec<&str> = path.split('/').collect();
    let expected = match segments.as_slice() {
        ["", team, "apps", app] if !team.is_empty() && !app.is_empty() => Some((ApiCall::AppOfTeam, Some(*app))),
        _ => PATHS.iter().find(|(known, _)| *known == path).map(|(_, call)| (*call, None)),
    };
    assert_eq!(found, expected, "{path}");
}

fn check_query(query: Option<&str>, supported: SupportedOptions) {
    let found = read_options(query, supported);
    assert_eq!(found.as_ref().ok(), slow_options(query.unwrap_or_default(), supported).as_ref(), "{supported:?}");
    let Err(message) = found else { return };
    // It contains nothing else, and therefore no value.
    let known = ["the query is not percent-encoded UTF-8", "the query has an option twice"].contains(&message.as_str());
    let unsupported = "the query has an option that this call does not support: it supports ";
    let wrong = |option: &OptionInfo| match option.kind {
        OptionKind::Word(list) => {
            let words = list.joined("`", ", ", " or ");
            message == format!("the option `{}` must be {words}", option.field)
        }
        OptionKind::Words(list) => {
            let words = list.joined("`", ", ", " or ");
            message == format!("the option `{}` must be {words}, each at most once, separated by commas", option.field)
        }
        _ => message == format!("the option `{}` must be `true` or `false`", option.field),
    };
    let lists_names = |rest: &str| {
        let names = rest.split([',', ' ', '`']).filter(|word| !["", "and", "none", "select"].contains(word));
        names.eq(supported.options().map(|option| option.field.as_str()))
    };
    let unsupported = message.strip_prefix(unsupported).is_some_and(lists_names);
    assert!(known || unsupported || supported.options().any(wrong), "{message}");
}

/// A reference parser for options: each at most once, and only where the call supports it.
fn slow_options(query: &str, supported: SupportedOptions) -> Option<CallOptions> {
    let mut options = CallOptions::default();
    if supported == SupportedOptions::Anything {
        return Some(options);
    }
    let pairs: Vec<(&str, String)> = query
        .split('&')
        .filter(|pair| !pair.is_empty())
        .map(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            Some((name, percent_decoded(value)?))
        })
        .collect::<Option<_>>()?;
    for (at, (name, value)) in pairs.iter().enumerate() {
        if *name == "select" && supported.has_selectors() {
            options.select.push(value.clone());
            continue;
        }
        let option = supported.options().find(|option| option.field.as_str() == *name)?;
        let value = match (option.kind, value.as_str()) {
            (OptionKind::Flag, "true") => OptionValue::Flag(true),
            (OptionKind::Flag, "false") => OptionValue::Flag(false),
            (OptionKind::Text, text) => OptionValue::Text(text),
            (OptionKind::Word(list), word) if list.words.iter().any(|(known, _)| *known == word) => {
                OptionValue::Text(word)
            }
            (OptionKind::Words(list), set) => {
                let mut words: Vec<&str> = set.split(',').collect();
                let count = words.len();
                words.retain(|word| list.words.iter().any(|(known, _)| known == word));
                words.sort_unstable();
                words.dedup();
                if words.len() != count {
                    return None;
                }
                OptionValue::Text(set)
            }
            _ => return None,
        };
        let is_double = pairs[..at].iter().any(|(other, _)| other == name);
        if is_double || !options.given.insert(option.field, value) {
            return None;
        }
    }
    Some(options)
}

fn percent_decoded(text: &str) -> Option<String> {
    let text = text.replace('+', " ");
    let mut pieces = text.split('%');
    let mut bytes = pieces.next()?.as_bytes().to_vec();
    for piece in pieces {
        let digits = piece.get(..2).filter(|digits| digits.bytes().all(|byte| byte.is_ascii_hexdigit()))?;
        bytes.push(u8::from_str_radix(digits, 16).ok()?);
        bytes.extend_from_slice(&piece.as_bytes()[2..]);
    }
    String::from_utf8(bytes).ok()
}

fn check_credentials(headers: &HeaderMap) {
    let of = |name: HeaderName| headers.get_all(name).iter().collect::<Vec<_>>();
    let (authorizations, keys) = (of(AUTHORIZATION), of(API_KEY));
    let presented = match Credentials::read(headers) {
        Ok(presented) => presented,
        Err(NoCredentials::Missing) => return assert_eq!(authorizations.len() + keys.len(), 0),
        Err(NoCredentials::Several) => return assert!(authorizations.len() + keys.len() > 1),
        Err(NoCredentials::Unreadable) => {
            let basic = authorizations.first().and_then(|value| value.to_str().ok()?.strip_prefix("Basic "));
            let text = basic.and_then(base64_decoded).and_then(|decoded| String::from_utf8(decoded).ok());
            return assert!(text.is_none_or(|text| !text.contains(':') || text.len() > 4096), "it could be read");
        }
    };
    assert_eq!(authorizations.len() + keys.len(), 1);
    let text =
        |values: &[&HeaderValue]| String::from_utf8(values[0].as_bytes().to_vec()).expect("what was read is text");
    match presented {
        Credentials::ApiKey { app: None, key } => {
            assert_eq!(*key, text(&keys));
            fuzzing::check_api_key(&key);
        }
        Credentials::ApiKey { app: Some(app), key } => {
            let text = text(&authorizations);
            assert!(text.to_ascii_lowercase().starts_with("basic ") && !app.contains(':'));
            let decoded = base64_decoded(text[6..].trim_matches(' '));
            assert_eq!(decoded, Some(format!("{app}:{}", *key).into_bytes()), "base64");
            fuzzing::check_api_key(&key);
        }
        Credentials::Token(token) => {
            let text = text(&authorizations);
            assert!(text.to_ascii_lowercase().starts_with("token ") && text[6..].trim_matches(' ') == token);
            assert!(!token.is_empty());
            fuzzing::check_token(token.as_bytes());
        }
    }
}

/// Base64 with padding (RFC 4648, section 4).
fn base64_decoded(text: &str) -> Option<Vec<u8>> {
    const ALPHABET: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let digits = text.trim_end_matches('=');
    if !text.len().is_multiple_of(4) || text.len() - digits.len() > 2 {
        return None;
    }
    let bits: String =
        digits.chars().map(|c| ALPHABET.find(c).map(|digit| format!("{digit:06b}"))).collect::<Option<_>>()?;
    let bytes = bits.as_bytes().chunks_exact(8).map(|byte| std::str::from_utf8(byte).expect("digits"));
    bytes.map(|byte| u8::from_str_radix(byte, 2).ok()).collect()
}

fn check_form(headers: &HeaderMap) {
    let Ok(form) = RequestBodyForm::of(headers) else { return };
    let value = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).expect("a form has a type");
    let media_type = value.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    assert_eq!(media_type == "application/json", form == RequestBodyForm::Json);
    assert_eq!(media_type == "application/octet-stream", form == RequestBodyForm::Bytes);
}

/// The refusal of an envelope to inspect does not quote it, and an expiry is a number.
fn check_inspected(body: &[u8]) {
    let text = std::str::from_utf8(body).unwrap_or_default();
    match api::envelope_of(body) {
        Ok(envelope) => assert!(text.contains('"') && envelope.len() < text.len(), "it stands between quotation marks"),
        Err(error) => assert!(text.len() <= 16 || !error.message.contains(text), "{}", error.message),
    }
    assert_eq!(api::expiry(text).is_ok(), text.parse::<u64>().is_ok_and(|number| number >= 1000));
}
