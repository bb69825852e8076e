//! Finds bodies of which software that ignores `Content-Type` makes something else: an upstream that does so (PHP's `json_decode` or
//! `parse_str` of the input, Flask's `force`, Express' `type: "*/*"`) must not find in the clear what rules hide.

use std::ops::ControlFlow;
use std::sync::Arc;

use leafseal_document::form::{FieldNames, FieldReader, FormLimits, PartReader, WantedFields};
use leafseal_document::{WalkProgress, is_number};

use super::{BodyKind, MessageRules};
use crate::body::buffer::BodyBuffer;
use crate::policy::Hidden;
use crate::refusal::Refusal;
use crate::rules::forms;

const AS_JSON: &str = "its type is that of a form, and its bytes can be read as JSON";
const AS_PARTS: &str = "its type is that of a form, and its bytes can be read as parts";
const AS_URLENCODED: &str = "software that takes it for an urlencoded form finds a field in it that a rule hides";
const MERGED: &str = "it has a field that a rule hides in the query or in JSON alone, and many upstreams read both as one: select it \
                      with form too";

/// Bytes at the start of a body that show what it may be read as. No client writes so much white space before a document, or so long a
/// first line.
const HEAD_SIZE: usize = 64 << 10;

impl MessageRules<'_> {
    /// Refuses a form, as the client sent it, in which software that takes it for another kind finds what the rules hide there.
    pub(super) fn refuse_as_sent(&self, kind: &BodyKind, body: &BodyBuffer, hidden: &Hidden) -> Result<(), Refusal> {
        let head = &body.as_ref()[..body.len().min(HEAD_SIZE)];
        let what = match kind {
            BodyKind::Urlencoded if hidden.json && may_be_json(head, hidden.json_root) => AS_JSON,
            BodyKind::Urlencoded if may_be_multipart(head) => AS_PARTS,
            _ => return Ok(()),
        };
        Err(Refusal::mismatch(self.direction, what))
    }

    /// Refuses a body, as the rules leave it, in which software that takes it for an urlencoded form, or its fields for parameters of the
    /// query, finds what the rules hide there. Fields that are hidden by `*` alone have no names to be found by in other bodies.
    pub(super) async fn refuse_other_readings(&self, kind: &BodyKind, body: BodyBuffer) -> Result<BodyBuffer, Refusal> {
        let Some(hidden) = self.actions.hidden.clone() else { return Ok(body) };
        let (names, what) = match kind {
            BodyKind::Urlencoded => (&hidden.in_forms, MERGED),
            BodyKind::Json | BodyKind::JsonLines | BodyKind::Patch | BodyKind::Multipart(_) => {
                (&hidden.in_bodies, AS_URLENCODED)
            }
            BodyKind::Other => return Ok(body),
        };
        let body = self.refuse_fields(body, names, what).await?;
        match kind {
            BodyKind::Multipart(boundary) if !hidden.in_forms.is_empty() => {
                self.refuse_parts(body, boundary, &hidden.in_forms, MERGED).await
            }
            _ => Ok(body),
        }
    }

    async fn refuse_fields(
        &self,
        body: BodyBuffer,
        names: &Arc<FieldNames>,
        what: &str,
    ) -> Result<BodyBuffer, Refusal> {
        if names.is_empty() {
            return Ok(body);
        }
        let cost = forms::cost(body.len(), true);
        let search = ReadingSearch::new(body, Arc::clone(names), self.transforms.form.clone());
        match self.offload().run_in_slices(cost, search, ReadingSearch::step).await {
            (_, true) => Err(Refusal::mismatch(self.direction, what)),
            (body, false) => Ok(body),
        }
    }

    async fn refuse_parts(
        &self,
        body: BodyBuffer,
        boundary: &str,
        names: &Arc<FieldNames>,
        what: &str,
    ) -> Result<BodyBuffer, Refusal> {
        let refusal = || Refusal::mismatch(self.direction, what);
        let cost = forms::cost(body.len(), true);
        let reader = PartReader::new(boundary, Arc::clone(names), self.transforms.form.clone(), WantedFields::Selected);
        let reader = reader.map_err(|_| refusal())?;
        let step = |(body, mut reader): (BodyBuffer, PartReader)| match reader.read(body.as_ref()) {
            Ok(WalkProgress::More) => ControlFlow::Continue((body, reader)),
            Ok(WalkProgress::Done) => ControlFlow::Break((body, !reader.into_parts().is_empty())),
            // One that is malformed has been refused where a rule reads forms.
            Err(_) => ControlFlow::Break((body, true)),
        };
        match self.offload().run_in_slices(cost, (body, reader), step).await {
            (_, true) => Err(refusal()),
            (body, false) => Ok(body),
        }
    }
}

/// A search for fields in any text, in steps.
pub(crate) struct ReadingSearch<B> {
    text: B,
    reader: FieldReader,
}

impl<B: AsRef<[u8]>> ReadingSearch<B> {
    pub(crate) fn new(text: B, names: Arc<FieldNames>, limits: FormLimits) -> Self {
        ReadingSearch { text, reader: FieldReader::new(names, limits, WantedFields::Any) }
    }

    /// Breaks with the text, and whether some reader finds one of the fields in it.
    pub(crate) fn step(mut self) -> ControlFlow<(B, bool), Self> {
        match self.reader.read(self.text.as_ref()) {
            Ok(WalkProgress::More) => ControlFlow::Continue(self),
            _ => ControlFlow::Break((self.text, self.reader.has_found())),
        }
    }
}

/// Whether a reader, lenient ones included, could take the bytes for a JSON text: with a byte order mark, in UTF-16 or UTF-32, behind
/// white space (of Unicode too), a comment or a prefix against inclusion (`)]}'`, which Gson skips). No form that a client encodes begins
/// like one, unless its first name is a number; that counts where `hides_root`, because Go's decoder reads the number of `4111&a=b` and
/// looks no further.
fn may_be_json(body: &[u8], hides_root: bool) -> bool {
    let is_wide =
        body.iter().take(4).any(|&byte| byte == 0) || body.starts_with(b"\xff\xfe") || body.starts_with(b"\xfe\xff");
    let text = without_leading_space(body);
    if text.is_empty() && body.len() >= HEAD_SIZE {
        return true;
    }
    let is_space = |byte: &u8| *byte <= b' ';
    // Some readers stop after the first value, and look at nothing behind it.
    let word = text.split(is_space).next().unwrap_or_default();
    let is_scalar = || matches!(word, b"true" | b"false") || is_number(word);
    let begins_as_number = || word.strip_prefix(b"-").unwrap_or(word).first().is_some_and(u8::is_ascii_digit);
    is_wide
        || matches!(text.first(), Some(b'{' | b'[' | b'"' | b'\'' | b'/' | b'#' | b'(' | b')'))
        || is_scalar()
        || hides_root && begins_as_number()
}

/// The text behind what readers skip before it: controls, white space of Unicode, byte order marks.
fn without_leading_space(mut text: &[u8]) -> &[u8] {
    loop {
        let ascii = text.iter().position(|byte| *byte > b' ').unwrap_or(text.len());
        text = &text[ascii..];
        let head = &text[..text.len().min(4)];
        let first = head.utf8_chunks().next().and_then(|chunk| chunk.valid().chars().next());
        match first.filter(|&first| first.is_whitespace() || matches!(first, '\u{feff}' | '\u{180e}' | '\u{200b}')) {
            Some(space) => text = &text[space.len_utf8()..],
            None => return text,
        }
    }
}

/// Whether a reader that takes the boundary from a body's first line finds parts.
fn may_be_multipart(body: &[u8]) -> bool {
    let start = body.iter().position(|&byte| byte > b' ').unwrap_or(body.len());
    if start >= HEAD_SIZE {
        return true;
    }
    body[start..].starts_with(b"--") && memchr::memchr2(b'\r', b'\n', &body[start..]).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_that_some_read_as_json() {
        for body in [
            &b"{\"card\":{\"number\":\"4242\"}}"[..],
            b" \r\n\t{\"a\":\"=&\"}",
            b"\xef\xbb\xbf[1]",
            b"\xef\xbb\xbf {}",
            b"4111111111111111 &a=b",
            b"true\n&a=b",
            b"{\0\"\0",
            b"\0{\0\"",
            b"\0\0\0{",
            b"\xff\xfe{\0",
            b"\xfe\xff\0{",
            b"\"4242\"",
            b"'4242'",
            b"// a comment\n{}",
            b"/* a comment */{}",
            b"# a comment\n{}",
            b"\x0b{}",
            b"4242424242424242",
            b" -1.5e3\n",
            b"true",
            b"{\"card\":1}=",
            b")]}'\n{\"card\":1}",
            b"\xc2\xa0{\"card\":1}",
            b" \xe3\x80\x80\xef\xbb\xbf\xc2\x85\n[1]",
        ] {
            assert!(may_be_json(body, false), "{}", String::from_utf8_lossy(body));
        }
        for body in [&b"4242=1"[..], b"4111&a=b", b" -1x=2", b"4242x"] {
            assert!(may_be_json(body, true) && !may_be_json(body, false), "{}", String::from_utf8_lossy(body));
        }
        for body in
            [&b"a=1&b=2"[..], b"4242=1", b"true=1", b"", b" ", b"a={\"b\":1}", b"%7B%22a%22%3A1%7D=", b"4242x", b"null"]
        {
            assert!(!may_be_json(body, false), "{}", String::from_utf8_lossy(body));
        }
        assert!(!may_be_json("\u{e9}=1".as_bytes(), false) && !may_be_json(b"\xc2", false));
    }

    #[test]
    fn bytes_that_some_read_as_parts() {
        assert!(may_be_multipart(b"--B\r\nContent-Disposition: form-data; name=card\r\n\r\n1\r\n--B--"));
        assert!(may_be_multipart(b"\r\n--B\nx"));
        assert!(!may_be_multipart(b"--a=1&b=2") && !may_be_multipart(b"a=1\r\n--b"));
    }
}
