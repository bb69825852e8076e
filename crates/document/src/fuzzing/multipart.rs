//! Multipart forms: parts are where lenient parsers find them, and a part that such a parser reads as a selected one is found, or the form
//! is refused.

use super::{form::check_multipart, slow_form};
use crate::CaseFold;
use crate::form::{FieldNames, FormLimits, find_parts};

/// The boundary on the first line, a name on the second, then a body.
pub fn check_multipart_form(bytes: &[u8]) {
    let mut lines = bytes.splitn(3, |&byte| byte == b'\n');
    let (Some(boundary), Some(name), Some(body)) = (lines.next(), lines.next(), lines.next()) else { return };
    let (Ok(boundary), Ok(name)) = (std::str::from_utf8(boundary), std::str::from_utf8(name)) else { return };
    check_multipart(body, boundary, &[name]);
    let is_word =
        |name: &str| !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    if !is_word(name) {
        return;
    }
    let guarded = FieldNames::new([name]).guarded(CaseFold::Refuse, &FieldNames::default());
    let limits = FormLimits { fields_max: 64, part_header_size_max: 512, ..FormLimits::default() };
    let Ok(found) = find_parts(body, boundary, &guarded, &limits) else { return };
    for (header, content) in slow_form::lenient_parts(body, boundary) {
        let head = String::from_utf8_lossy(&body[header]);
        let php = disposition(&head).and_then(|disposition| php_name(&disposition));
        for (reader, read) in [("PHP", php), ("Rack", rack_name(&head))] {
            let is_selected = read.is_some_and(|read| read == name);
            let is_found = found.iter().any(|part| part.content == content);
            assert!(!is_selected || is_found, "{reader} reads {name} in {head}");
        }
    }
}

/// The value of the first such field.
fn disposition(head: &str) -> Option<String> {
    let mut lines = head.lines().filter_map(|line| line.split_once(':'));
    let field = lines.find(|(name, _)| name.trim().eq_ignore_ascii_case("content-disposition"));
    field.map(|(_, value)| value.trim().to_owned())
}

/// PHP's `main/rfc1867.c`: `'` quotes like `"`, and the name is then converted to a variable's name.
fn php_name(disposition: &str) -> Option<String> {
    let mut rest: &str = disposition;
    let mut name = None;
    while !rest.is_empty() {
        let (pair, tail) = php_word(rest, ';');
        rest = tail;
        let (key, value) = php_word(pair.trim_start(), '=');
        if key.eq_ignore_ascii_case("name") {
            name = Some(php_value(value));
        }
    }
    name.map(|name| php_variable(&name))
}

/// `php_ap_getword`: the text up to `stop` outside of quoted strings, and the rest.
fn php_word(text: &str, stop: char) -> (&str, &str) {
    let mut quote = None;
    let mut is_escaped = false;
    for (at, character) in text.char_indices() {
        match quote {
            _ if is_escaped => is_escaped = false,
            Some(_) if character == '\\' => is_escaped = true,
            Some(open) if character == open => quote = None,
            Some(_) => {}
            None if character == stop => return (&text[..at], text[at..].trim_start_matches(stop)),
            None if matches!(character, '"' | '\'') => quote = Some(character),
            None => {}
        }
    }
    (text, "")
}

/// `php_ap_getword_conf`: a quoted value, or one up to white space.
fn php_value(text: &str) -> String {
    let text = text.trim_start();
    let Some(quote) = text.chars().next().filter(|first| matches!(first, '"' | '\'')) else {
        return text.split_ascii_whitespace().next().unwrap_or_default().to_owned();
    };
    let mut value = String::new();
    let mut characters = text[1..].chars();
    while let Some(character) = characters.next() {
        match character {
            '\\' => match characters.next() {
                Some(next) if next == quote || next == '\\' => value.push(next),
                Some(next) => value.extend(['\\', next]),
                None => value.push('\\'),
            },
            character if character == quote => break,
            character => value.push(character),
        }
    }
    value
}

/// `php_register_variable_ex`: up to the first index, with `_` for characters that a variable's name cannot contain.
fn php_variable(name: &str) -> String {
    let name = name.split('\0').next().unwrap_or_default().trim_start_matches(' ');
    let root = match name.split_once('[') {
        Some((root, index)) if index.contains(']') => root.to_owned(),
        _ => name.replacen('[', "_", 1),
    };
    root.replace([' ', '.'], "_")
}

/// Rack 2: what its expressions find anywhere in the head of a part, and then the text between its brackets.
fn rack_name(head: &str) -> Option<String> {
    let line = |text: &str| text.split("\r\n").next().unwrap_or_default().trim_start().to_owned();
    let named = after_each(head, "content-disposition:").into_iter().find_map(rack_value);
    let identified = || after_each(head, "content-id:").first().map(|text| line(text));
    let file = || after_each(head, "filename=").first().map(|text| line(text).trim_matches('"').to_owned());
    let media_type = || after_each(head, "content-type: ").first().map(|text| line(text));
    let name = named.or_else(identified).filter(|name| !name.is_empty()).or_else(file).or_else(media_type)?;
    name.trim_start_matches(['[', ']']).split(['[', ']']).next().map(str::to_owned)
}

/// The text after each occurrence of `word`, in any case.
fn after_each<'t>(text: &'t str, word: &str) -> Vec<&'t str> {
    let lower = text.to_ascii_lowercase();
    lower.match_indices(word).map(|(at, _)| &text[at + word.len()..]).collect()
}

/// The value of the last `name=` behind a semicolon and before a colon, quoted or a token.
fn rack_value(text: &str) -> Option<String> {
    let before_colon = &text[..text.find(':').unwrap_or(text.len())];
    let lower = before_colon.to_ascii_lowercase();
    let mut places = lower.rmatch_indices("name=").filter(|(at, _)| lower[..*at].trim_end().ends_with(';'));
    places.find_map(|(at, word)| {
        let value = &text[at + word.len()..];
        if let Some(quoted) = value.strip_prefix('"') {
            return quoted.find('"').map(|end| quoted[..end].to_owned());
        }
        let end = value.find(|c: char| c.is_whitespace() || "()<>,;:\\\"/[]?=".contains(c)).unwrap_or(value.len());
        (end > 0).then(|| value[..end].to_owned())
    })
}
