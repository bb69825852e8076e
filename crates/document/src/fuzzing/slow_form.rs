//! Slow form parsers as references for the finder, written from the specifications independently of the rest.

use std::ops::Range;

/// Names and values of an urlencoded form: the names decoded, the values as ranges of the encoded form.
pub(super) fn urlencoded(body: &[u8]) -> Vec<(Vec<u8>, Range<usize>)> {
    let mut fields = Vec::new();
    let (mut start, mut equals) = (0, None);
    for at in 0..=body.len() {
        match body.get(at) {
            Some(b'=') if equals.is_none() => equals = Some(at),
            None | Some(b'&') => {
                if let Some(equals) = equals.take() {
                    fields.push((percent_decoded(&body[start..equals]), equals + 1..at));
                }
                start = at + 1;
            }
            _ => {}
        }
    }
    fields
}

/// WHATWG URL, section 1.3, with `+` for a space.
pub(super) fn percent_decoded(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut at = 0;
    while at < text.len() {
        let digits = text.get(at + 1..at + 3).and_then(|digits| std::str::from_utf8(digits).ok());
        let byte = digits.filter(|digits| digits.bytes().all(|byte| byte.is_ascii_hexdigit()));
        match (text[at], byte) {
            (b'%', Some(digits)) => {
                out.push(u8::from_str_radix(digits, 16).expect("two digits"));
                at += 2;
            }
            (b'+', _) => out.push(b' '),
            (other, _) => out.push(other),
        }
        at += 1;
    }
    out
}

/// The contents of all parts as a lenient parser splits them.
pub(super) fn lenient_contents(body: &[u8], boundary: &str) -> Vec<Range<usize>> {
    lenient_parts(body, boundary).into_iter().map(|(_, content)| content).collect()
}

/// Returns headers and contents of all parts as a lenient parser splits them: lines end in LF with or without CR, a line with only
/// the boundary separates, white space after it is ignored, and so is everything before the first and after the last.
pub(super) fn lenient_parts(body: &[u8], boundary: &str) -> Vec<(Range<usize>, Range<usize>)> {
    let cut = format!("--{boundary}").into_bytes();
    let end = format!("--{boundary}--").into_bytes();
    let mut parts = Vec::new();
    // The start of the current part, and the start of its content.
    let (mut part, mut content) = (None, None);
    let mut start = 0;
    while start < body.len() {
        let next = body[start..].iter().position(|&byte| byte == b'\n').map_or(body.len(), |at| start + at + 1);
        let line = body[start..next].trim_ascii_end();
        if line == cut || line == end {
            if let (Some(header), Some(content)) = (part, content) {
                let before = &body[content..start];
                let before = before.strip_suffix(b"\n").unwrap_or(before);
                let before = before.strip_suffix(b"\r").unwrap_or(before);
                parts.push((header..content, content..content + before.len()));
            }
            if line == end && line != cut {
                return parts;
            }
            (part, content) = (Some(next), None);
        } else if part.is_some() && content.is_none() && line.is_empty() {
            content = Some(next);
        }
        start = next;
    }
    parts
}
