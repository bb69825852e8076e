//! Properties that hold for any bytes as a path: the fuzz target checks them, and an ordinary test replays its corpus.
//!
//! Not part of the crate's interface. Every function panics where a property does not hold.

use super::{PathPattern, RequestPath};

const SEGMENTS_MAX: usize = 64;

/// A pattern on the first line, the path of a request on the second. A path that is accepted is, to each of the usual readers, a path
/// that the pattern judges in the same way. Returns whether pattern and path were accepted.
pub fn check_path(bytes: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(bytes) else { return false };
    let Some((pattern, path)) = text.split_once('\n') else { return false };
    // A request target has no query, fragment or white space left when its path is parsed.
    if path.contains(|c: char| c.is_control() || "?# ".contains(c)) {
        return false;
    }
    let Ok(pattern) = PathPattern::parse(pattern) else { return false };
    let Ok(read) = RequestPath::parse(path, SEGMENTS_MAX) else { return false };
    let is_matched = pattern.matches(&read);
    assert!(!is_matched || pattern.matches_in_any_case(&read), "a pattern that matches does so in any case");
    for (reader, normalized) in readers(path) {
        // Written as the reader has it, the path is the same.
        let again = RequestPath::parse(&normalized, SEGMENTS_MAX)
            .unwrap_or_else(|error| panic!("{reader}: {normalized}: {error}"));
        assert_eq!(again, read, "{reader} reads {normalized}");
        assert_eq!(pattern.matches(&again), is_matched, "{reader} reads {normalized}");
    }
    true
}

/// The path as common servers parse it, written with every byte escaped that need not be plain.
fn readers(path: &str) -> [(&'static str, String); 4] {
    [
        ("a servlet container", servlet(path)),
        ("a server that cleans paths", cleaned(&decoded(path.split(';').next().unwrap_or_default()), path)),
        ("a server that decodes first", decoded_first(path)),
        ("a server that merges slashes", merged(path)),
    ]
}

/// Removes parameters from each segment, then decodes escapes, then resolves empty and dot segments (RFC 3986, section 5.2.4).
fn servlet(path: &str) -> String {
    let without_parameters: Vec<&str> =
        path.split('/').map(|segment| segment.split(';').next().unwrap_or_default()).collect();
    written(&resolved(&decoded(&without_parameters.join("/"))))
}

/// Go's `path.Clean`, which has no parameters: it agrees only on paths without them.
fn cleaned(decoded_path: &[u8], path: &str) -> String {
    if path.contains(';') || path.to_ascii_lowercase().contains("%3b") {
        return path.to_owned();
    }
    written(&resolved(decoded_path))
}

/// Decodes escapes before parameters are removed.
fn decoded_first(path: &str) -> String {
    let decoded = decoded(path);
    let segments = decoded.split(|&byte| byte == b'/');
    let cut: Vec<&[u8]> =
        segments.map(|segment| segment.split(|&byte| byte == b';').next().unwrap_or_default()).collect();
    written(&resolved(&cut.join(&b'/')))
}

fn merged(path: &str) -> String {
    let mut merged = path.to_owned();
    while merged.contains("//") {
        merged = merged.replace("//", "/");
    }
    merged
}

/// Decodes escapes repeatedly, like a parser that decodes twice.
fn decoded(path: &str) -> Vec<u8> {
    let mut bytes = path.as_bytes().to_vec();
    loop {
        let once = decoded_once(&bytes);
        if once == bytes {
            return once;
        }
        bytes = once;
    }
}

fn decoded_once(bytes: &[u8]) -> Vec<u8> {
    let (mut out, mut at) = (Vec::new(), 0);
    while at < bytes.len() {
        let digits = bytes.get(at + 1..at + 3).and_then(|digits| std::str::from_utf8(digits).ok());
        let escaped = digits.filter(|digits| digits.bytes().all(|byte| byte.is_ascii_hexdigit()));
        match escaped.filter(|_| bytes[at] == b'%') {
            Some(digits) => {
                out.push(u8::from_str_radix(digits, 16).expect("two digits"));
                at += 3;
            }
            None => {
                out.push(bytes[at]);
                at += 1;
            }
        }
    }
    out
}

/// Removes empty segments and `.`, and resolves `..`; a backslash counts as a slash.
fn resolved(path: &[u8]) -> Vec<Vec<u8>> {
    let mut segments: Vec<Vec<u8>> = Vec::new();
    for segment in path.split(|byte| b"/\\".contains(byte)) {
        match segment {
            b"" | b"." => {}
            b".." => {
                segments.pop();
            }
            segment => segments.push(segment.to_vec()),
        }
    }
    segments
}

fn written(segments: &[Vec<u8>]) -> String {
    let escape = |byte: &u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' => char::from(*byte).to_string(),
        byte => format!("%{byte:02X}"),
    };
    let segments: Vec<String> = segments.iter().map(|segment| segment.iter().map(escape).collect()).collect();
    format!("/{}", segments.join("/"))
}
