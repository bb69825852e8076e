//! Finds envelopes in text without a key: anywhere in it for `inspect`, as whole JSON strings for a rewrap by a running engine.
//!
//! The results look like envelopes; only the engine can verify them.

use std::borrow::Cow;
use std::ops::Range;

/// The first bytes of every envelope.
const START: &[u8] = b"ev:";

/// Maximum length of a possible envelope in bytes: that of the largest document.
const LENGTH_MAX: usize = u32::MAX as usize;

fn is_envelope_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b":+/=-_\\".contains(&byte)
}

/// Every part of `text` from `ev:` to the next `$` with only characters of envelopes in between. JSON's `\/` counts as `/`.
pub(crate) fn anywhere(text: &[u8]) -> impl Iterator<Item = Cow<'_, [u8]>> {
    let mut position = 0;
    std::iter::from_fn(move || {
        loop {
            let start = position + find(&text[position..], START)?;
            let body = &text[start..text.len().min(start.saturating_add(LENGTH_MAX))];
            let size = body.iter().position(|&byte| !is_envelope_byte(byte)).unwrap_or(body.len());
            position = start + size.max(START.len());
            // A second `ev:` inside means a truncated envelope followed by another one; base64 has no colon.
            if body.get(size) == Some(&b'$') {
                position += 1;
                return Some(plain(&text[start..start + size + 1]));
            }
        }
    })
}

/// The content of every JSON string in `json`, a valid document, that looks like an envelope and is not a member name: its range
/// without quotation marks, and its text.
pub(crate) fn in_json(json: &[u8]) -> Vec<(Range<usize>, Cow<'_, [u8]>)> {
    let mut found = Vec::new();
    let mut position = 0;
    while let Some(quote) = json[position..].iter().position(|&byte| byte == b'"') {
        let start = position + quote + 1;
        let end = start + string_size(&json[start..]);
        position = json.len().min(end + 1);
        let content = &json[start..end];
        let is_name = json[position..].iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b':');
        if content.starts_with(START) && content.ends_with(b"$") && !is_name {
            found.push((start..end, plain(content)));
        }
    }
    found
}

/// Bytes up to the closing quotation mark.
fn string_size(text: &[u8]) -> usize {
    let mut size = 0;
    while size < text.len() && text[size] != b'"' {
        size += if text[size] == b'\\' { 2 } else { 1 };
    }
    size.min(text.len())
}

fn plain(text: &[u8]) -> Cow<'_, [u8]> {
    if !text.contains(&b'\\') {
        return Cow::Borrowed(text);
    }
    let is_kept = |&(i, byte): &(usize, &u8)| !(*byte == b'\\' && text.get(i + 1) == Some(&b'/'));
    Cow::Owned(text.iter().enumerate().filter(is_kept).map(|(_, &byte)| byte).collect())
}

fn find(text: &[u8], pattern: &[u8]) -> Option<usize> {
    text.windows(pattern.len()).position(|window| window == pattern)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts<'t>(found: impl Iterator<Item = Cow<'t, [u8]>>) -> Vec<String> {
        found.map(|text| String::from_utf8(text.into_owned()).expect("ASCII")).collect()
    }

    #[test]
    fn envelopes_are_found_in_any_text() {
        let cases: [(&str, &[&str]); 8] = [
            ("", &[]),
            ("ev:", &[]),
            ("ev:a:b:$", &["ev:a:b:$"]),
            ("x=ev:a:b:$, y=ev:c:$", &["ev:a:b:$", "ev:c:$"]),
            ("{\"ev:n:$\":\"ev:debug:a\\/b+=:$\"}", &["ev:n:$", "ev:debug:a/b+=:$"]),
            ("ev:cut off ev:a:$", &["ev:a:$"]),
            ("ev:cut\nev:a:$", &["ev:a:$"]),
            ("lev:a:$$", &["ev:a:$"]),
        ];
        for (text, expected) in cases {
            assert_eq!(texts(anywhere(text.as_bytes())), expected, "{text}");
        }
    }

    #[test]
    fn only_whole_strings_that_are_values_are_found_in_json() {
        let json = r#"{"ev:n:$" : "ev:a:$", "b": ["ev:b\/c:$", "x ev:c:$", "\"ev:d:$\"", "ev:e:$ "], "\\": "ev:f:$"}"#;
        let found = in_json(json.as_bytes());
        assert_eq!(texts(found.iter().map(|(_, text)| text.clone())), ["ev:a:$", "ev:b/c:$", "ev:f:$"]);
        for (range, _) in &found {
            assert_eq!((&json[range.start - 1..range.start], &json[range.end..=range.end]), ("\"", "\""));
        }
        for broken in ["\"", "\"\\", "\"ev:a:$", "\"ev:\\"] {
            let _ = in_json(broken.as_bytes());
        }
    }
}
