//! Host and path patterns that select the rules of a request.
//!
//! Paths are compared segment by segment after decoding, so that no spelling of a path bypasses a rule. Paths that an upstream could read
//! differently are refused: dot segments, encoded slashes, backslashes.

use std::borrow::Cow;
use std::fmt;

use leafseal_document::folded;
use thiserror::Error;

use crate::rules::choice::Case;

pub(crate) mod fuzzing;

/// A host pattern: `api.example.com`, `*.example.com` for all names below it, or `*`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HostPattern {
    /// Every host.
    Any,
    /// One name, in lower case.
    Exactly(Box<str>),
    /// All names that end in this suffix, which begins with a dot.
    Below(Box<str>),
}

/// Why a pattern is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum PatternError {
    /// Not a host pattern.
    #[error("not a host pattern: write a name in ASCII without a port, \"*.\" and a name, or \"*\"")]
    Host,
    /// No leading slash.
    #[error("a path pattern must begin with \"/\"")]
    NoSlash,
    /// An empty segment.
    #[error("a path pattern must have no empty segment, and no \".\" or \"..\"")]
    EmptySegment,
    /// `**` beside other characters.
    #[error("\"**\" must be a whole segment")]
    PartOfSegment,
    /// A character that is compared in its decoded form, or that ends a path.
    #[error("a path pattern must not contain \"%\", \"?\", \"#\", \";\", \"\\\" or control characters")]
    Character,
}

impl HostPattern {
    /// Parses a pattern.
    ///
    /// # Errors
    /// If it is invalid.
    pub fn parse(text: &str) -> Result<Self, PatternError> {
        if text == "*" {
            return Ok(HostPattern::Any);
        }
        let (name, is_below) = match text.strip_prefix("*.") {
            Some(name) => (name, true),
            None => (text, false),
        };
        let is_host =
            |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'[' | b']' | b':');
        let is_address = name.starts_with('[');
        if name.is_empty() || !name.bytes().all(is_host) || (!is_address && name.contains(':')) || name.starts_with('.')
        {
            return Err(PatternError::Host);
        }
        let name = name.to_ascii_lowercase();
        Ok(if is_below { HostPattern::Below(format!(".{name}").into()) } else { HostPattern::Exactly(name.into()) })
    }

    /// Whether it matches every host that `other` matches.
    pub fn covers(&self, other: &HostPattern) -> bool {
        match (self, other) {
            (HostPattern::Any, _) => true,
            (_, HostPattern::Any) | (HostPattern::Exactly(_), HostPattern::Below(_)) => false,
            (_, HostPattern::Exactly(name)) => self.matches(name),
            (HostPattern::Below(wide), HostPattern::Below(narrow)) => narrow.ends_with(&**wide),
        }
    }

    /// Whether it matches `host`, which has no port.
    pub fn matches(&self, host: &str) -> bool {
        let host = host.strip_suffix('.').unwrap_or(host);
        match self {
            HostPattern::Any => true,
            HostPattern::Exactly(name) => host.eq_ignore_ascii_case(name),
            HostPattern::Below(ending) => {
                let at = host.len().checked_sub(ending.len()).filter(|&at| at > 0);
                at.and_then(|at| host.get(at..)).is_some_and(|tail| tail.eq_ignore_ascii_case(ending))
            }
        }
    }
}

impl fmt::Display for HostPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            HostPattern::Any => f.write_str("*"),
            HostPattern::Exactly(name) => f.write_str(name),
            HostPattern::Below(ending) => write!(f, "*{ending}"),
        }
    }
}

/// The host of `host:port`, including the brackets of an IPv6 address.
pub fn without_port(authority: &str) -> &str {
    match authority.rfind(':') {
        Some(at) if !authority[at..].contains(']') => &authority[..at],
        _ => authority,
    }
}

/// A path pattern: literal segments, `*` for any characters within a segment, `**` for any number of segments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathPattern {
    segments: Vec<Segment>,
    /// The same without the case of their letters.
    folded: Vec<Segment>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Segment {
    Any,
    Like(Box<[u8]>),
}

impl PathPattern {
    /// Parses a pattern. A trailing slash is ignored.
    ///
    /// # Errors
    /// If it is invalid.
    pub fn parse(text: &str) -> Result<Self, PatternError> {
        let rest = text.strip_prefix('/').ok_or(PatternError::NoSlash)?;
        if rest.chars().any(|c| c.is_control() || "%?#;\\".contains(c)) {
            return Err(PatternError::Character);
        }
        let rest = rest.strip_suffix('/').unwrap_or(rest);
        if rest.is_empty() {
            return Ok(PathPattern { segments: Vec::new(), folded: Vec::new() });
        }
        let segment = |text: &str| match text {
            "**" => Ok(Segment::Any),
            "" | "." | ".." => Err(PatternError::EmptySegment),
            text if text.contains("**") => Err(PatternError::PartOfSegment),
            text => Ok(Segment::Like(text.as_bytes().into())),
        };
        let segments = |text: &str| text.split('/').map(segment).collect::<Result<Vec<Segment>, PatternError>>();
        Ok(PathPattern { segments: segments(rest)?, folded: segments(&folded(rest))? })
    }

    /// Whether it matches the path.
    pub fn matches(&self, path: &RequestPath<'_>) -> bool {
        matches_segments(&self.segments, &path.segments, &|a, b| a == b)
    }

    /// Whether the path is meant where the case of letters does not count.
    pub fn matches_in_any_case(&self, path: &RequestPath<'_>) -> bool {
        if path.segments.iter().all(|segment| segment.is_ascii()) {
            return matches_segments(&self.folded, &path.segments, &|a, b| *a == b.to_ascii_lowercase());
        }
        let fold = |segment: &Cow<'_, [u8]>| folded(&String::from_utf8_lossy(segment)).into_bytes();
        let segments: Vec<Vec<u8>> = path.segments.iter().map(fold).collect();
        matches_segments(&self.folded, &segments, &|a, b| a == b)
    }

    /// Whether it matches the path under this comparison.
    pub(crate) fn matches_in(&self, case: Case, path: &RequestPath<'_>) -> bool {
        match case {
            Case::AsWritten => self.matches(path),
            Case::Any => self.matches_in_any_case(path),
        }
    }

    /// Whether it matches every path that `other` matches. Segments are compared one by one, so false negatives exist: `/*/**` and `/**/*`.
    pub(crate) fn covers(&self, other: &PathPattern, case: Case) -> bool {
        let is_any = |segment: &Segment| matches!(segment, Segment::Any);
        let [wide, narrow] = [self, other].map(|pattern| match case {
            Case::AsWritten => &pattern.segments,
            Case::Any => &pattern.folded,
        });
        // A wildcard that matches any number of items there can only be matched by the same here.
        let is_like = |wide: &Segment, narrow: &Segment| match (wide, narrow) {
            (Segment::Like(wide), Segment::Like(narrow)) => {
                matches_glob(wide, &|byte| *byte == b'*', narrow, &|one, other| one == other)
            }
            _ => false,
        };
        matches_glob(wide, &is_any, narrow, &is_like)
    }
}

fn matches_segments(pattern: &[Segment], path: &[impl AsRef<[u8]>], is_same: &impl Fn(&u8, &u8) -> bool) -> bool {
    let is_any = |segment: &Segment| matches!(segment, Segment::Any);
    let is_like = |segment: &Segment, text: &_| match segment {
        Segment::Any => false,
        Segment::Like(pattern) => matches_glob(pattern, &|byte| *byte == b'*', AsRef::<[u8]>::as_ref(text), is_same),
    };
    matches_glob(pattern, &is_any, path, &is_like)
}

/// Whether `text` matches `pattern`, in which `is_star` items match any number of items. Backtracks only to the last star, which
/// suffices: an earlier one could not match more.
fn matches_glob<P, T>(
    pattern: &[P],
    is_star: &impl Fn(&P) -> bool,
    text: &[T],
    is_like: &impl Fn(&P, &T) -> bool,
) -> bool {
    let (mut at, mut read) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    while read < text.len() {
        if at < pattern.len() && is_star(&pattern[at]) {
            star = Some((at, read));
            at += 1;
        } else if at < pattern.len() && is_like(&pattern[at], &text[read]) {
            (at, read) = (at + 1, read + 1);
        } else if let Some((place, taken)) = star {
            (at, read) = (place + 1, taken + 1);
            star = Some((place, taken + 1));
        } else {
            return false;
        }
    }
    pattern[at..].iter().all(is_star)
}

/// Why a path is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum PathError {
    /// `.` or `..`, plain or encoded.
    #[error("the path has a dot segment")]
    DotSegment,
    /// `%2F`, `%5C` or a backslash.
    #[error("the path has an encoded slash or a backslash")]
    EncodedSlash,
    /// Two leading slashes.
    #[error("the path must not begin with two slashes, where some parsers read a host")]
    Authority,
    /// `%` without two hexadecimal digits, or an encoded control character.
    #[error("the path has a malformed escape")]
    Escape,
    /// So many that to compare them with every route would take long.
    #[error("the path has more than {0} segments (path_segments_max)")]
    TooManySegments(usize),
}

/// What a server makes of `;` in a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Parameters {
    /// It drops what follows, after decoding.
    Dropped,
    /// It drops what follows, before decoding: `%3B` is part of the name.
    DroppedUnlessEncoded,
    /// They are part of the name.
    Kept,
}

/// How servers read a path: what they make of `;`, and whether they keep empty segments. The first is the relay's own.
const READINGS: [(Parameters, bool); 6] = [
    (Parameters::Dropped, false),
    (Parameters::Dropped, true),
    (Parameters::DroppedUnlessEncoded, false),
    (Parameters::DroppedUnlessEncoded, true),
    (Parameters::Kept, false),
    (Parameters::Kept, true),
];

/// The path of a request, decoded and split into segments, as one server reads it.
#[derive(Debug, PartialEq, Eq)]
pub struct RequestPath<'a> {
    segments: Vec<Cow<'a, [u8]>>,
}

impl<'a> RequestPath<'a> {
    /// Reads the path of a request target, without its query, as the relay does: the text after `;` in a segment is dropped, and then
    /// every empty segment.
    ///
    /// # Errors
    /// A path of more than `segments_max` segments, or one that two readers could take for different ones.
    pub fn parse(path: &'a str, segments_max: usize) -> Result<Self, PathError> {
        if path.contains('\\') {
            return Err(PathError::EncodedSlash);
        }
        if path.starts_with("//") {
            return Err(PathError::Authority);
        }
        if 1 + memchr::memchr_iter(b'/', without_leading_slash(path).as_bytes()).count() > segments_max {
            return Err(PathError::TooManySegments(segments_max));
        }
        Self::read(path, READINGS[0])
    }

    /// The path as servers read it, the relay's own reading first. They differ where `;` ends a segment for some only, and where some
    /// drop empty segments.
    ///
    /// # Errors
    /// As [`RequestPath::parse`].
    pub fn readings(path: &'a str, segments_max: usize) -> Result<Vec<Self>, PathError> {
        let mut readings = vec![Self::parse(path, segments_max)?];
        if path.contains("//") || memchr::memchr2(b';', b'%', path.as_bytes()).is_some() {
            for reading in &READINGS[1..] {
                let read = Self::read(path, *reading)?;
                if !readings.contains(&read) {
                    readings.push(read);
                }
            }
        }
        Ok(readings)
    }

    fn read(path: &'a str, (parameters, keeps_empty): (Parameters, bool)) -> Result<Self, PathError> {
        let mut segments = Vec::with_capacity(8);
        for segment in without_leading_slash(path).split('/') {
            let read = match parameters {
                Parameters::Dropped => without_parameters(decode(segment.as_bytes())?),
                Parameters::DroppedUnlessEncoded => decode(before_semicolon(segment.as_bytes()))?,
                Parameters::Kept => decode(segment.as_bytes())?,
            };
            if matches!(&*read, b"." | b"..") {
                return Err(PathError::DotSegment);
            }
            // Servers drop the parameters of a segment first: what they leave empty is no segment any more.
            if keeps_empty || !read.is_empty() {
                segments.push(read);
            }
        }
        // One slash at the end is none of a segment more.
        if keeps_empty && segments.last().is_some_and(|last| last.is_empty()) {
            segments.pop();
        }
        Ok(RequestPath { segments })
    }
}

fn without_leading_slash(path: &str) -> &str {
    path.strip_prefix('/').unwrap_or(path)
}

fn before_semicolon(segment: &[u8]) -> &[u8] {
    &segment[..memchr::memchr(b';', segment).unwrap_or(segment.len())]
}

fn without_parameters(segment: Cow<'_, [u8]>) -> Cow<'_, [u8]> {
    match segment {
        Cow::Borrowed(text) => Cow::Borrowed(before_semicolon(text)),
        Cow::Owned(mut text) => {
            text.truncate(before_semicolon(&text).len());
            Cow::Owned(text)
        }
    }
}

fn decode(segment: &[u8]) -> Result<Cow<'_, [u8]>, PathError> {
    let Some(first) = memchr::memchr(b'%', segment) else {
        return Ok(Cow::Borrowed(segment));
    };
    let mut out = segment[..first].to_vec();
    let mut rest = &segment[first..];
    while let Some((&byte, tail)) = rest.split_first() {
        rest = tail;
        if byte != b'%' {
            out.push(byte);
            continue;
        }
        let digit = |at: usize| tail.get(at).and_then(|&byte| char::from(byte).to_digit(16));
        let (Some(high), Some(low)) = (digit(0), digit(1)) else {
            return Err(PathError::Escape);
        };
        match (high << 4 | low) as u8 {
            b'/' | b'\\' => return Err(PathError::EncodedSlash),
            // Decoding twice would yield another path.
            b'%' | 0x7f | ..0x20 => return Err(PathError::Escape),
            decoded => out.push(decoded),
        }
        rest = &tail[2..];
    }
    Ok(Cow::Owned(out))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SEGMENTS_MAX: usize = 16;

    fn matches(pattern: &str, path: &str) -> bool {
        PathPattern::parse(pattern).unwrap().matches(&RequestPath::parse(path, SEGMENTS_MAX).unwrap())
    }

    /// A reference implementation: tries every length for a star.
    fn slow<P: PartialEq, T>(pattern: &[P], star: &P, text: &[T], is_like: &dyn Fn(&P, &T) -> bool) -> bool {
        match (pattern.split_first(), text.split_first()) {
            (None, None) => true,
            (None, Some(_)) => false,
            (Some((first, rest)), _) if first == star => {
                (0..=text.len()).any(|taken| slow(rest, star, &text[taken..], is_like))
            }
            (Some(_), None) => false,
            (Some((first, rest)), Some((next, after))) => is_like(first, next) && slow(rest, star, after, is_like),
        }
    }

    proptest! {
        #[test]
        fn patterns_match_as_in_exhaustive_search(
            pattern in "(/(a|b|\\*|a\\*|\\*b\\*a|\\*\\*)){0,5}", path in "(/(a|b|ab|ba|aba)){0,6}"
        ) {
            let pattern = if pattern.is_empty() { "/".to_owned() } else { pattern };
            let segments = |text: &str| -> Vec<String> {
                text.split('/').filter(|segment| !segment.is_empty()).map(str::to_owned).collect()
            };
            let is_like = |pattern: &String, text: &String| {
                let (pattern, text): (Vec<char>, Vec<char>) = (pattern.chars().collect(), text.chars().collect());
                slow(&pattern, &'*', &text, &|a, b| a == b)
            };
            let expected = slow(&segments(&pattern), &"**".to_owned(), &segments(&path), &is_like);
            prop_assert_eq!(matches(&pattern, &path), expected, "{} {}", pattern, path);
        }

        #[test]
        fn a_pattern_matches_what_it_covers(
            wide in "(/(a|b|\\*|a\\*|\\*a|\\*\\*)){1,3}", narrow in "(/(a|b|\\*|a\\*|aba|\\*\\*)){1,3}",
            path in "(/(a|b|ab|ba|aba)){0,4}"
        ) {
            let [wide, narrow] = [&wide, &narrow].map(|pattern| PathPattern::parse(pattern).unwrap());
            let path = RequestPath::parse(&path, SEGMENTS_MAX).unwrap();
            if wide.covers(&narrow, Case::AsWritten) && narrow.matches(&path) {
                prop_assert!(wide.matches(&path));
            }
            prop_assert!(wide.covers(&wide, Case::AsWritten));
        }

        #[test]
        fn any_path_is_read_or_refused(path in "/[a%2fF5cC./;\\\\e]{0,24}") {
            if let Ok(read) = RequestPath::parse(&path, SEGMENTS_MAX) {
                let has = |part: &str| path.to_ascii_lowercase().contains(part);
                prop_assert!(!has("%2f") && !has("%5c") && !has("\\"));
                prop_assert!(!read.segments.iter().any(|segment| matches!(&**segment, b"" | b"." | b"..")));
            }
        }
    }

    #[test]
    fn ways_to_write_a_path_do_not_pass_a_rule_by() {
        let same = ["/v1/cards", "/v1/cards//", "/v1//cards", "/%76%31/cards", "/v1;a=b/cards;x", "/v1/c%61rds%3bx"];
        let empty = ["/v1/;x/cards", "/;/v1/cards", "/v1/cards/;a=b", "/v1/%3Bx//;/cards/;"];
        for path in same.into_iter().chain(empty) {
            assert!(matches("/v1/cards", path), "{path}");
        }
        for (path, error) in [
            ("//v1/cards", PathError::Authority),
            ("//a.test/v1/cards", PathError::Authority),
            ("/v1/./cards", PathError::DotSegment),
            ("/v1/%2e%2E/cards", PathError::DotSegment),
            ("/v1/..;x/cards", PathError::DotSegment),
            ("/v1%2fcards", PathError::EncodedSlash),
            ("/v1%5Ccards", PathError::EncodedSlash),
            ("/v1\\cards", PathError::EncodedSlash),
            ("/v1/%c", PathError::Escape),
            ("/v1/c%00", PathError::Escape),
            ("/v1/%2561", PathError::Escape),
        ] {
            assert_eq!(RequestPath::parse(path, SEGMENTS_MAX), Err(error), "{path}");
        }
    }

    #[test]
    fn a_path_has_a_reading_for_each_way_to_treat_semicolons_and_empty_segments() {
        let readings = |path| {
            let readings = RequestPath::readings(path, SEGMENTS_MAX).unwrap();
            let text = |read: &RequestPath<'_>| String::from_utf8(read.segments.join(&b'/')).unwrap();
            readings.iter().map(text).collect::<Vec<_>>()
        };
        for path in ["/a/b", "/a/b/", "/%61/b"] {
            assert_eq!(readings(path), ["a/b"], "{path}");
        }
        for (path, expected) in [
            ("/a/b;x", &["a/b", "a/b;x"][..]),
            ("/a/b%3Bx", &["a/b", "a/b;x"]),
            ("/a;x%3By/b", &["a/b", "a;x;y/b"]),
            ("/a%3bx;y/b", &["a/b", "a;x/b", "a;x;y/b"]),
            ("/a//b", &["a/b", "a//b"]),
            ("/;x/a", &["a", "/a", ";x/a"]),
        ] {
            assert_eq!(readings(path), expected, "{path}");
        }
    }

    #[test]
    fn a_path_of_many_segments_is_refused() {
        let path = |count| "/a".repeat(count);
        assert!(RequestPath::parse(&path(SEGMENTS_MAX), SEGMENTS_MAX).is_ok());
        let relative = path(SEGMENTS_MAX + 1)[1..].to_owned();
        assert!(RequestPath::parse(&relative, SEGMENTS_MAX).is_err(), "the first slash ends no segment");
        let error = RequestPath::parse(&path(SEGMENTS_MAX + 1), SEGMENTS_MAX).unwrap_err();
        assert_eq!(error, PathError::TooManySegments(SEGMENTS_MAX));
    }

    #[test]
    fn letters_that_servers_take_for_one_another_are_the_same_in_any_case() {
        let pattern = PathPattern::parse("/v1/tokens/*.json").unwrap();
        for path in ["/v1/TOKENS/a.JSON", "/v1/to%E2%84%AAens/a.json", "/v1/token%C5%BF/\u{e9}.json"] {
            let path = RequestPath::parse(path, SEGMENTS_MAX).unwrap();
            assert!(pattern.matches_in_any_case(&path) && !pattern.matches(&path), "{path:?}");
        }
        assert!(!pattern.matches_in_any_case(&RequestPath::parse("/v1/toens/a.json", SEGMENTS_MAX).unwrap()));
    }

    #[test]
    fn what_patterns_cover() {
        let path = |wide: &str, narrow: &str, case| {
            let [wide, narrow] = [wide, narrow].map(|pattern| PathPattern::parse(pattern).unwrap());
            wide.covers(&narrow, case)
        };
        for (wide, narrow) in [("/a/**", "/a/b"), ("/a/**", "/a"), ("/**", "/**/a"), ("/*", "/a*b"), ("/*b", "/a*b")] {
            assert!(path(wide, narrow, Case::AsWritten), "{wide} {narrow}");
            assert!(!path(narrow, wide, Case::AsWritten), "{narrow} {wide}");
        }
        assert!(path("/A", "/a", Case::Any) && !path("/A", "/a", Case::AsWritten));
        assert!(!path("/*", "/**", Case::AsWritten) && !path("/a/*", "/b/*", Case::AsWritten));
        let host = |wide: &str, narrow: &str| {
            let [wide, narrow] = [wide, narrow].map(|pattern| HostPattern::parse(pattern).unwrap());
            wide.covers(&narrow)
        };
        for (wide, narrow) in [("*", "*.a.b"), ("*", "a"), ("*.b", "*.a.b"), ("*.b", "A.B")] {
            assert!(host(wide, narrow) && !host(narrow, wide), "{wide} {narrow}");
        }
        assert!(host("a.b", "A.b") && !host("*.b", "b") && !host("*.b", "*.ab"));
    }

    #[test]
    fn invalid_patterns_are_refused() {
        for (pattern, error) in [
            ("v1", PatternError::NoSlash),
            ("/a//b", PatternError::EmptySegment),
            ("/a/..", PatternError::EmptySegment),
            ("/a**", PatternError::PartOfSegment),
            ("/a%20", PatternError::Character),
            ("/a?b", PatternError::Character),
        ] {
            assert_eq!(PathPattern::parse(pattern), Err(error), "{pattern}");
        }
        for host in ["", "a b", "*.", "a:80", ".a", "**"] {
            assert_eq!(HostPattern::parse(host), Err(PatternError::Host), "{host}");
        }
    }

    #[test]
    fn hosts() {
        let matches = |pattern: &str, host| HostPattern::parse(pattern).unwrap().matches(host);
        assert!(matches("API.example.com", "api.Example.com."));
        assert!(matches("*.example.com", "a.b.example.COM"));
        assert!(!matches("*.example.com", "example.com"));
        assert!(!matches("*.example.com", "badexample.com"));
        assert!(matches("*", "x") && matches("[::1]", "[::1]"));
        for text in ["*", "a.b", "*.a.b"] {
            assert_eq!(HostPattern::parse(text).unwrap().to_string(), text);
        }
        for (authority, host) in [("a:80", "a"), ("a", "a"), ("[::1]:80", "[::1]"), ("[::1]", "[::1]")] {
            assert_eq!(without_port(authority), host);
        }
    }
}
