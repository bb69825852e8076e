//! Finds envelopes in text without a key: anywhere in it for `inspect`, as whole JSON strings for a rewrap by a running engine.
//!
//! The results look like envelopes; only the engine can verify them.

use std::borrow::Cow;
use std::io::{self, Read};
use std::ops::Range;

/// The first bytes of every envelope.
const START: &[u8] = b"ev:";

/// Bytes read at a time.
const READ_SIZE: usize = 256 << 10;

fn is_envelope_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b":+/=-_\\".contains(&byte)
}

/// The envelopes of a text that is read in pieces: every part from `ev:` to the next `$` with only characters of envelopes in between.
/// JSON's `\/` counts as `/`. A short text that begins with `ev:` and has no line break is one, however damaged.
pub(crate) struct EnvelopeReader<R> {
    reader: R,
    /// What was read, and the position in it up to which it is searched.
    text: Vec<u8>,
    position: usize,
    is_over: bool,
    is_begun: bool,
    /// Maximum length of an envelope.
    size_max: usize,
}

impl<R: Read> EnvelopeReader<R> {
    /// Reads from `reader`; an envelope of more than `size_max` bytes is an error.
    pub(crate) fn new(reader: R, size_max: usize) -> Self {
        Self { reader, text: Vec::new(), position: 0, is_over: false, is_begun: false, size_max }
    }

    /// The next envelope; `None` at the end.
    ///
    /// # Errors
    /// Reading fails; an envelope is too long.
    pub(crate) fn next(&mut self) -> io::Result<Option<Vec<u8>>> {
        if !std::mem::replace(&mut self.is_begun, true) {
            self.read()?;
            if self.is_over && self.text.starts_with(START) && !self.text.contains(&b'\n') {
                return Ok(Some(std::mem::take(&mut self.text)));
            }
        }
        let mut size = START.len();
        loop {
            let start = find(&self.text[self.position..], START);
            // The first bytes of the next `ev:` may be the last that were read.
            let passed = || (self.text.len() - self.position).saturating_sub(START.len() - 1);
            self.position += start.unwrap_or_else(passed);
            if start.is_some() {
                let text = &self.text[self.position..];
                size += text[size..].iter().take_while(|&&byte| is_envelope_byte(byte)).count();
                // A second `ev:` inside means a truncated envelope followed by another one; base64 has no colon.
                if let Some(&end) = text.get(size) {
                    let is_whole = end == b'$';
                    let found = is_whole.then(|| plain(&text[..=size]).into_owned());
                    self.position += size + usize::from(is_whole);
                    if found.is_some() {
                        return Ok(found);
                    }
                    size = START.len();
                    continue;
                }
                if size > self.size_max {
                    return Err(too_long(self.size_max));
                }
            }
            if self.is_over {
                return Ok(None);
            }
            self.text.drain(..std::mem::take(&mut self.position));
            self.read()?;
        }
    }

    fn read(&mut self) -> io::Result<()> {
        let before = self.text.len();
        (&mut self.reader).take(READ_SIZE as u64).read_to_end(&mut self.text)?;
        self.is_over = self.text.len() - before < READ_SIZE;
        Ok(())
    }
}

fn too_long(size_max: usize) -> io::Error {
    let advice = "raise document.document_size_max in the configuration or with --set";
    io::Error::other(format!("an envelope is longer than {size_max} bytes: {advice}"))
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

    fn found(text: &[u8], size_max: usize) -> Vec<String> {
        let mut reader = EnvelopeReader::new(text, size_max);
        let texts = std::iter::from_fn(|| reader.next().expect("none is too long"));
        texts.map(|text| String::from_utf8(text).expect("ASCII")).collect()
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
            // Envelopes across every border of what is read at a time.
            for before in [1, READ_SIZE - 9, READ_SIZE - 3, READ_SIZE - 2, READ_SIZE - 1, READ_SIZE, 2 * READ_SIZE - 2]
            {
                let text = [&vec![b'\n'; before], text.as_bytes()].concat();
                assert_eq!(found(&text, 20), expected, "{before}");
            }
        }
        let long = format!("\nev:{}:$\nev:a:$", "a".repeat(3 * READ_SIZE));
        assert_eq!(found(long.as_bytes(), 4 * READ_SIZE), [&long[1..3 * READ_SIZE + 6], "ev:a:$"]);
        let error = EnvelopeReader::new(long.as_bytes(), READ_SIZE).next().expect_err("it is too long");
        assert!(error.to_string().contains("raise document.document_size_max"), "{error}");
    }

    #[test]
    fn a_text_that_begins_like_an_envelope_and_has_one_line_is_one() {
        assert_eq!(found(b"ev:damaged !", 20), ["ev:damaged !"]);
        assert!(found(b"ev:damaged !\n", 20).is_empty());
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
