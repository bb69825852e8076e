//! Properties that hold for any bytes presented as a key or a token, or as a request for a token: the fuzz target checks them, and an
//! ordinary test replays its corpus.
//!
//! Not part of the crate's interface. Every function panics where a property does not hold.

use leafseal_crypto::hash::sha256;
use leafseal_document::Selection;
use leafseal_document::fuzzing::slow::{self, SlowKind, SlowValue};
use leafseal_keystore::{AcceptedSchemes, AppName, RoleName, Roles};

use super::{OPTION_SIZE_MAX, PayloadReading, TokenRequest, TokenRequestReading};
use crate::api_key::{hex, read_api_key, unhex};
use crate::permissions::PayloadDigest;
use crate::settings::Settings;

/// Treats any bytes as the content of a token with a valid MAC, as the text of an API key, as a payload and as a request for a token.
pub fn check_token(bytes: &[u8]) {
    check_content(bytes);
    assert_eq!(unhex(&hex(bytes)).as_deref(), Some(bytes));
    if let Ok(text) = std::str::from_utf8(bytes) {
        check_api_key(text);
    }
    let whole = payload_digest(bytes, &Settings::default());
    assert_eq!(payload_digest(bytes, &in_pieces()), whole);
    let slow = slow::read(bytes, Settings::default().document.depth_max);
    assert_eq!(whole, slow.as_ref().and_then(|value| slow_digest([value])).map(|(digest, _)| digest));
    let asked = token_request(bytes, &Settings::default());
    assert_eq!(token_request(bytes, &in_pieces()), asked);
    assert_eq!(asked, slow.as_ref().and_then(|value| slow_request(bytes, value)));
}

/// Treats any text as an API key: parsed exactly if it has the form, to its id and hash.
pub fn check_api_key(text: &str) {
    let is_digits = |text: &str| text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    let parts: Vec<&str> = text.split('_').collect();
    let expected = match parts.as_slice() {
        ["lsk", id, secret] if id.len() == 16 && secret.len() == 64 && is_digits(id) && is_digits(secret) => {
            let byte = |at| u8::from_str_radix(&secret[at..at + 2], 16).expect("two digits");
            let bytes: Vec<u8> = (0..64).step_by(2).map(byte).collect();
            Some(((*id).to_owned(), sha256(&[&bytes])))
        }
        _ => None,
    };
    assert_eq!(read_api_key(text).map(|(id, hash)| (id.to_string(), hash)), expected);
}

/// The smallest steps.
fn in_pieces() -> Settings {
    Settings { step_values_max: 1, step_bytes_max: 1, ..Settings::default() }
}

fn check_content(content: &[u8]) {
    let slow = slow_content(content);
    let read =
        super::read(content).map(|(expires, token)| (expires, token.payload().0, token.rights(), token.app().clone()));
    assert_eq!(read.is_some(), slow.is_some());
    let (Some(read), Some((expires, payload, roles, kinds, app))) = (read, slow) else { return };
    assert_eq!((read.0, read.1.as_slice(), read.3), (expires, payload, app));
    let AcceptedSchemes { public_key, symmetric, from_public_key } = read.2.accepted();
    assert_eq!([public_key, symmetric, from_public_key], kinds);
    match (read.2.roles().cloned().expect("a token names them"), roles) {
        (Roles::Any, None) => {}
        (Roles::Only(read), Some(roles)) => assert_eq!(read, roles.into_iter().collect()),
        (read, roles) => panic!("{read:?} where {roles:?} stand"),
    }
}

type SlowContent<'c> = (u64, &'c [u8], Option<Vec<RoleName>>, [bool; 3], AppName);

fn slow_content(content: &[u8]) -> Option<SlowContent<'_>> {
    let text = |range| std::str::from_utf8(content.get(range)?).ok();
    if ![1, 2].contains(content.first()?) || content.len() < 58 {
        return None;
    }
    let expires = content[9..17].iter().fold(0, |number, byte| number << 8 | u64::from(*byte));
    let mut at = 58;
    let mut roles = Vec::new();
    for _ in 0..if content[57] == 0xff { 0 } else { content[57] } {
        let size = usize::from(*content.get(at)?);
        roles.push(RoleName::parse(text(at + 1..at + 1 + size)?).ok()?);
        at += 1 + size;
    }
    let kinds = match content[0] {
        1 => [true; 3],
        _ => {
            let byte = *content.get(at).filter(|byte| **byte < 8)?;
            at += 1;
            [byte % 2 == 1, byte / 2 % 2 == 1, byte / 4 == 1]
        }
    };
    let app = AppName::parse(text(at..content.len())?).ok()?;
    Some((expires, &content[17..49], (content[57] != 0xff).then_some(roles), kinds, app))
}

fn payload_digest(document: &[u8], settings: &Settings) -> Option<PayloadDigest> {
    let mut reading = PayloadReading::new(document.len(), &Selection::everything(), settings).ok()?;
    loop {
        if let Some(digest) = reading.step(document).ok()? {
            return Some(digest);
        }
    }
}

fn token_request(document: &[u8], settings: &Settings) -> Option<TokenRequest> {
    let mut reading = TokenRequestReading::new(document.len(), settings).ok()?;
    loop {
        if let Some(asked) = reading.step(document).ok()? {
            return Some(asked);
        }
    }
}

/// Digest and number of the strings in some values; `None` if one is not Unicode.
fn slow_digest<'v>(values: impl IntoIterator<Item = &'v SlowValue>) -> Option<(PayloadDigest, u64)> {
    let mut scalars = Vec::new();
    values.into_iter().for_each(|value| value.scalars(&mut scalars));
    let (mut digest, mut count) = ([0; 32], 0);
    for scalar in scalars {
        if let SlowKind::String(text) = &scalar.kind {
            digest = sha256(&[&digest, &sha256(&[text.as_ref()?.as_bytes()])]);
            count += 1;
        }
    }
    Some((PayloadDigest(digest), count))
}

fn slow_request(document: &[u8], value: &SlowValue) -> Option<TokenRequest> {
    let members = match &value.kind {
        SlowKind::Object(members) => members.as_slice(),
        _ => &[],
    };
    let named = |names: &'static [&str]| {
        let is_meant = move |name: &Option<String>| name.as_deref().is_some_and(|name| names.contains(&name));
        members.iter().filter(move |(name, _)| is_meant(name)).map(|(_, value)| value)
    };
    let (payload, strings) = slow_digest(named(&["payload"]))?;
    let mut asked = TokenRequest { payload, strings, action: None, expiry: None };
    let mut scalars = Vec::new();
    named(&["action", "expiry"]).for_each(|value| value.scalars(&mut scalars));
    for scalar in scalars.into_iter().filter(|scalar| scalar.range.len() <= OPTION_SIZE_MAX) {
        let (place, text) = match &scalar.kind {
            SlowKind::String(text) => (&mut asked.action, text.clone()?),
            SlowKind::Null => continue,
            _ => (&mut asked.expiry, String::from_utf8_lossy(&document[scalar.range.clone()]).into_owned()),
        };
        *place = Some(if place.is_some() { String::new() } else { text });
    }
    Some(asked)
}
