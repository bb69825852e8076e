//! Host and path patterns that select the rules of a request.
//!
//! Paths are compared segment by segment after decoding; `path.rs` has how servers read them. This module compares one pattern with one
//! path; `router.rs` finds the first of many.

use std::fmt;

use leafseal_document::folded;
use thiserror::Error;

use crate::host::{Host, HostError};
use crate::policy::choice::Case;
use crate::policy::path::RequestPath;

/// A host pattern: `api.example.com`, `*.example.com` for all names below it, or `*`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HostPattern {
    /// Every host.
    Any,
    /// One host.
    Exactly(Host),
    /// All names that end in this suffix, which begins with a dot.
    Below(Box<str>),
}

/// Why a pattern is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum PatternError {
    /// Not a host pattern.
    #[error("not a host pattern: write a host without a port, \"*.\" and a name, or \"*\" ({0})")]
    Host(HostError),
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
        let Some(name) = text.strip_prefix("*.") else {
            return Host::parse(text).map(HostPattern::Exactly).map_err(PatternError::Host);
        };
        match Host::parse(name) {
            Ok(Host::Name(name)) => Ok(HostPattern::Below(format!(".{name}").into())),
            Ok(Host::Address(_)) => Err(PatternError::Host(HostError::Name)),
            Err(error) => Err(PatternError::Host(error)),
        }
    }

    /// Whether it matches the host.
    pub fn matches(&self, host: &Host) -> bool {
        match (self, host) {
            (HostPattern::Any, _) => true,
            (HostPattern::Exactly(own), host) => own == host,
            (HostPattern::Below(suffix), Host::Name(name)) => name.len() > suffix.len() && name.ends_with(&**suffix),
            (HostPattern::Below(_), Host::Address(_)) => false,
        }
    }
}

impl fmt::Display for HostPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            HostPattern::Any => f.write_str("*"),
            HostPattern::Exactly(host) => host.fmt(f),
            HostPattern::Below(ending) => write!(f, "*{ending}"),
        }
    }
}

/// A path pattern: literal segments, `*` for any characters within a segment, `**` for any number of segments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathPattern {
    segments: Vec<Segment>,
    /// The same without the case of their letters.
    folded: Vec<Segment>,
}

/// One segment of a pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Segment {
    /// `**`.
    Any,
    /// Bytes, of which `*` matches any number of any.
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

    /// The pattern `/**`.
    pub(crate) fn everything() -> Self {
        PathPattern { segments: vec![Segment::Any], folded: vec![Segment::Any] }
    }

    /// Whether it matches the path.
    pub fn matches(&self, path: &RequestPath) -> bool {
        self.matches_in(Case::AsWritten, path)
    }

    /// Whether it matches the path under this comparison.
    pub(crate) fn matches_in(&self, case: Case, path: &RequestPath) -> bool {
        let path = path.in_case(case);
        matches_segments(self.segments(case), &path.segments().collect::<Vec<_>>())
    }

    /// Its segments for this comparison.
    pub(crate) fn segments(&self, case: Case) -> &[Segment] {
        match case {
            Case::AsWritten => &self.segments,
            Case::Any => &self.folded,
        }
    }

    /// Whether it matches every path.
    pub(crate) fn is_everything(&self) -> bool {
        matches!(&*self.segments, [Segment::Any])
    }
}

fn matches_segments(pattern: &[Segment], path: &[&[u8]]) -> bool {
    let is_any = |segment: &Segment| matches!(segment, Segment::Any);
    let is_like = |segment: &Segment, text: &&[u8]| match segment {
        Segment::Any => false,
        Segment::Like(pattern) => matches_glob(pattern, &|byte| *byte == b'*', text, &|a, b| a == b),
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn matches(pattern: &str, path: &str) -> bool {
        PathPattern::parse(pattern).unwrap().matches(&RequestPath::own(path))
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
    }

    #[test]
    fn ways_to_write_a_path_do_not_pass_a_rule_by() {
        let same = ["/v1/cards", "/v1/cards//", "/v1//cards", "/%76%31/cards", "/v1;a=b/cards;x", "/v1/c%61rds%3bx"];
        let empty = ["/v1/;x/cards", "/;/v1/cards", "/v1/cards/;a=b", "/v1/%3Bx//;/cards/;"];
        for path in same.into_iter().chain(empty) {
            assert!(matches("/v1/cards", path), "{path}");
        }
    }

    #[test]
    fn letters_that_servers_take_for_one_another_are_the_same_in_any_case() {
        let pattern = PathPattern::parse("/v1/tokens/*.json").unwrap();
        for path in ["/v1/TOKENS/a.JSON", "/v1/to%E2%84%AAens/a.json", "/v1/token%C5%BF/\u{e9}.json"] {
            let path = RequestPath::own(path);
            assert!(pattern.matches_in(Case::Any, &path) && !pattern.matches(&path), "{path:?}");
        }
        assert!(!pattern.matches_in(Case::Any, &RequestPath::own("/v1/toens/a.json")));
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
        for host in ["", "a b", "*.", "a:80", ".a", "**", "*.127.0.0.1", "a.*", "127.1", "[fe80::1%25eth0]"] {
            assert!(matches!(HostPattern::parse(host), Err(PatternError::Host(_))), "{host}");
        }
    }

    #[test]
    fn hosts() {
        let matches = |pattern: &str, host| HostPattern::parse(pattern).unwrap().matches(&Host::parse(host).unwrap());
        assert!(matches("API.example.com", "api.Example.com."));
        assert!(matches("*.example.com", "a.b.example.COM"));
        assert!(!matches("*.example.com", "example.com"));
        assert!(!matches("*.example.com", "badexample.com"));
        assert!(matches("*", "x") && matches("*", "192.0.2.1") && !matches("*.example.com", "192.0.2.1"));
        for pattern in ["[2001:db8::1]", "2001:db8::1", "[2001:0DB8:0:0:0:0:0:1]"] {
            assert!(matches(pattern, "[2001:db8::1]") && matches(pattern, "[2001:db8:0::0.0.0.1]"), "{pattern}");
            assert_eq!(HostPattern::parse(pattern).unwrap().to_string(), "[2001:db8::1]");
        }
        for text in ["*", "a.b", "*.a.b"] {
            assert_eq!(HostPattern::parse(text).unwrap().to_string(), text);
        }
    }
}
