//! Bodies that say one thing of themselves and can be read as another: an upstream that does not go by `Content-Type` (PHP's
//! `json_decode` or `parse_str` of the input, Flask's `force`, Express' `type: "*/*"`) must not find in the clear what rules hide.

use std::sync::Arc;

use fieldseal_document::form::holds_field;
use fieldseal_document::is_number;

use super::{Job, Kind};
use crate::body::buffer::Buffer;
use crate::refusal::Refusal;
use crate::rules::forms;

impl Job<'_> {
    /// Refuses a body, as the rules leave it, in which software that takes it for another kind finds what the rules hide in that kind.
    /// Fields that are hidden by `*` alone have no names to be found by.
    pub(super) async fn refuse_other_readings(&self, kind: &Kind, body: Buffer) -> Result<Buffer, Refusal> {
        let Some(hidden) = &self.actions.hidden else { return Ok(body) };
        match kind {
            Kind::Urlencoded if hidden.json && may_be_json(body.as_ref(), hidden.json_root) => {
                Err(Refusal::mismatch(self.direction, "its type is that of a form, and its bytes can be read as JSON"))
            }
            Kind::Urlencoded if may_be_multipart(body.as_ref()) => {
                Err(Refusal::mismatch(self.direction, "its type is that of a form, and its bytes can be read as parts"))
            }
            Kind::Json | Kind::Multipart(_) if !hidden.in_bodies.is_empty() => {
                let (hidden, cost) = (Arc::clone(hidden), forms::cost(body.len(), hidden.in_bodies.comparisons()));
                let look = move || (holds_field(body.as_ref(), &hidden.in_bodies), body);
                let (holds, body) = self.transforms.offload.run(cost, look).await;
                let what = "software that takes it for an urlencoded form finds a field in it that a rule hides";
                if holds { Err(Refusal::mismatch(self.direction, what)) } else { Ok(body) }
            }
            _ => Ok(body),
        }
    }
}

/// Whether a reader, lenient ones included, could take the bytes for a JSON text: with a byte order mark, in UTF-16 or UTF-32, behind
/// white space or a comment. No form that a client encodes begins like one, unless its first name is a number; that counts where
/// `hides_root`, because Go's decoder reads the number of `4111&a=b` and looks no further.
fn may_be_json(body: &[u8], hides_root: bool) -> bool {
    let is_wide =
        body.iter().take(4).any(|&byte| byte == 0) || body.starts_with(b"\xff\xfe") || body.starts_with(b"\xfe\xff");
    let text = body.strip_prefix(b"\xef\xbb\xbf").unwrap_or(body);
    let is_space = |byte: &u8| *byte <= b' ';
    let start = text.iter().position(|byte| !is_space(byte)).unwrap_or(text.len());
    let text = &text[start..];
    // Some readers stop after the first value, and look at nothing behind it.
    let word = text.split(is_space).next().unwrap_or_default();
    let is_scalar = || matches!(word, b"true" | b"false") || is_number(word);
    let begins_as_number = || word.strip_prefix(b"-").unwrap_or(word).first().is_some_and(u8::is_ascii_digit);
    is_wide
        || matches!(text.first(), Some(b'{' | b'[' | b'"' | b'\'' | b'/' | b'#'))
        || is_scalar()
        || hides_root && begins_as_number()
}

/// Whether a reader that takes the boundary from a body's first line finds parts.
fn may_be_multipart(body: &[u8]) -> bool {
    let start = body.iter().position(|&byte| byte > b' ').unwrap_or(body.len());
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
    }

    #[test]
    fn bytes_that_some_read_as_parts() {
        assert!(may_be_multipart(b"--B\r\nContent-Disposition: form-data; name=card\r\n\r\n1\r\n--B--"));
        assert!(may_be_multipart(b"\r\n--B\nx"));
        assert!(!may_be_multipart(b"--a=1&b=2") && !may_be_multipart(b"a=1\r\n--b"));
    }
}
