//! Properties that hold for any bytes as a path: the fuzz target checks them, and an ordinary test replays its corpus.
//!
//! Not part of the crate's interface. Every function panics where a property does not hold.

use hyper::Method;

use crate::host::Host;
use crate::policy::choice::{Case, OtherCase};
use crate::policy::path::{RequestPath, Steps};
use crate::policy::route::PathPattern;
use crate::policy::router::{Asked, Entry, Router};

const STEPS_MAX: usize = 100_000;

/// A pattern on the first line, the path of a request on the second. Each of the usual readers reads the path as one of its readings, so
/// the pattern judges it as the reader's router would; and the index finds the pattern exactly if it matches. Returns whether the pattern
/// was accepted.
pub fn check_path(bytes: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(bytes) else { return false };
    let Some((pattern, path)) = text.split_once('\n') else { return false };
    // A request target has no query, fragment or white space left when its path is parsed.
    if !path.starts_with('/') || path.contains(|c: char| c.is_control() || "?# ".contains(c)) {
        return false;
    }
    let Ok(pattern) = PathPattern::parse(pattern) else { return false };
    let own = RequestPath::own(path);
    let is_matched = pattern.matches(&own);
    assert!(!is_matched || pattern.matches_in(Case::Any, &own), "a pattern that matches does so in any case");
    check_router(&pattern, path, is_matched);
    let mut steps = Steps::new(STEPS_MAX);
    let Ok(others) = RequestPath::other_readings(path, usize::MAX, &mut steps) else { return true };
    for (reader, segments) in readers(path) {
        let is_same = |read: &RequestPath| read.segments().eq(segments.iter().map(Vec::as_slice));
        let is_known = is_same(&own) || others.iter().any(|other| is_same(&other.path));
        assert!(is_known, "{reader} reads {segments:?}");
    }
    true
}

/// The index of one pattern without rules finds it exactly if it matches.
fn check_router(pattern: &PathPattern, path: &str, is_matched: bool) {
    let paths = std::slice::from_ref(pattern);
    let router = Router::new([Entry { hosts: &[], methods: &[], paths, hides: false, reveals: false }]);
    let host = Host::parse("a").expect("a host");
    let asked = Asked { host: &host, method: &Method::GET, path, segments_max: usize::MAX };
    // Where the bound is exceeded the request is refused.
    if let Ok(found) = router.choose(&asked, OtherCase::Other, &mut Steps::new(STEPS_MAX)) {
        assert_eq!(found.is_some(), is_matched, "{path}");
    }
}

/// The path as common servers parse it.
fn readers(path: &str) -> [(&'static str, Vec<Vec<u8>>); 5] {
    let decoded = decoded(path);
    let c_string = decoded.split(|&byte| byte == 0).next().unwrap_or_default();
    [
        ("a servlet container", servlet(path)),
        ("a server that cleans paths, as Go does", resolved(&decoded)),
        ("a server that decodes first", decoded_first(&decoded)),
        ("a server that ends paths at a zero byte", decoded_first(c_string)),
        ("a server that merges slashes", merged(path)),
    ]
}

/// Removes parameters from each segment, then decodes escapes, then resolves empty and dot segments (RFC 3986, section 5.2.4).
fn servlet(path: &str) -> Vec<Vec<u8>> {
    let without_parameters: Vec<&str> =
        path.split('/').map(|segment| segment.split(';').next().unwrap_or_default()).collect();
    resolved(&decoded(&without_parameters.join("/")))
}

/// Removes parameters from a decoded path.
fn decoded_first(decoded: &[u8]) -> Vec<Vec<u8>> {
    let segments = decoded.split(|&byte| byte == b'/');
    let cut: Vec<&[u8]> =
        segments.map(|segment| segment.split(|&byte| byte == b';').next().unwrap_or_default()).collect();
    resolved(&cut.join(&b'/'))
}

/// Merges slashes before anything else.
fn merged(path: &str) -> Vec<Vec<u8>> {
    let mut merged = path.to_owned();
    while merged.contains("//") {
        merged = merged.replace("//", "/");
    }
    RequestPath::own(&merged).segments().map(<[u8]>::to_vec).collect()
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
    let number = |from: usize, to: usize| {
        let digits = bytes.get(from..to).and_then(|digits| std::str::from_utf8(digits).ok());
        let digits = digits.filter(|digits| digits.bytes().all(|byte| byte.is_ascii_hexdigit()))?;
        u32::from_str_radix(digits, 16).ok()
    };
    let (mut out, mut at) = (Vec::new(), 0);
    while at < bytes.len() {
        let is_escape = bytes[at] == b'%';
        let is_long = is_escape && bytes.get(at + 1).is_some_and(|byte| byte.eq_ignore_ascii_case(&b'u'));
        if let Some(character) = number(at + 2, at + 6).filter(|_| is_long).and_then(char::from_u32) {
            out.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
            at += 6;
        } else if let Some(byte) = number(at + 1, at + 3).filter(|_| is_escape) {
            out.push(byte as u8);
            at += 3;
        } else {
            out.push(bytes[at]);
            at += 1;
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
