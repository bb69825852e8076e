//! Whether entries take every request that a later one would take, found through the index.
//!
//! A pattern of a path is followed through the index as a path is, with its wildcards as characters that only wildcards match.

use super::{Entry, Group, Router, first, hosts};
use crate::policy::choice::Case;
use crate::policy::path::{PathError, Steps};
use crate::policy::route::{HostPattern, PathPattern, Segment};

impl Router {
    /// The entries that together take every request which `entry` would take behind them, in order; none if some request may reach it.
    /// Each of its combinations of a host, a method and a path must be taken by one entry, and segments are compared one by one, so
    /// some unreachable entries are not found: `/*/**` behind `/**/*`.
    ///
    /// # Errors
    /// If it takes too many steps.
    pub(crate) fn covering(&self, entry: &Entry<'_>, case: Case, steps: &mut Steps) -> Result<Vec<usize>, PathError> {
        let methods: Vec<String> = entry.methods.iter().map(|method| method.as_str().to_ascii_uppercase()).collect();
        let methods: Vec<Option<&str>> =
            if methods.is_empty() { vec![None] } else { methods.iter().map(|method| Some(&**method)).collect() };
        let everything = [PathPattern::everything()];
        let paths = if entry.paths.is_empty() { &everything[..] } else { entry.paths };
        let mut covering = Vec::new();
        for host in hosts(entry) {
            let groups = self.groups_for_all_of(host);
            for path in paths {
                for &method in &methods {
                    let Some(found) = first_for_all_of(&groups, path.segments(case), method, case, steps)? else {
                        return Ok(Vec::new());
                    };
                    covering.push(found);
                }
            }
        }
        covering.sort_unstable();
        covering.dedup();
        Ok(covering)
    }

    /// The groups whose pattern matches every host that this one matches.
    fn groups_for_all_of(&self, host: &HostPattern) -> Vec<&Group> {
        let narrow = match host {
            HostPattern::Any => return self.any.map(|place| &self.groups[place]).into_iter().collect(),
            HostPattern::Exactly(host) => return self.groups(host),
            HostPattern::Below(suffix) => suffix,
        };
        let ending = |length: &usize| narrow.get(narrow.len().checked_sub(*length)?..);
        let below = self.below_lengths.iter().filter_map(ending).filter_map(|suffix| self.below.get(suffix));
        self.any.into_iter().chain(below.copied()).map(|place| &self.groups[place]).collect()
    }
}

/// The first entry of these groups that takes every path of a pattern.
fn first_for_all_of(
    groups: &[&Group],
    pattern: &[Segment],
    method: Option<&str>,
    case: Case,
    steps: &mut Steps,
) -> Result<Option<usize>, PathError> {
    let mut found = None;
    for group in groups {
        let segments = pattern.iter().map(|segment| match segment {
            Segment::Any => None,
            Segment::Like(text) => Some(&**text),
        });
        found = first(found, group.trie(case).first(segments, method, found, steps)?);
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use hyper::Method;
    use proptest::prelude::*;

    use super::*;
    use crate::host::Host;
    use crate::policy::choice::OtherCase;
    use crate::policy::router::Asked;

    fn patterns(texts: &[&str]) -> Vec<PathPattern> {
        texts.iter().map(|text| PathPattern::parse(text).unwrap()).collect()
    }

    fn host_patterns(texts: &[&str]) -> Vec<HostPattern> {
        texts.iter().map(|text| HostPattern::parse(text).unwrap()).collect()
    }

    /// The entries with these paths that cover the last one, and the steps that it took.
    fn of_paths(paths: &[&str], case: Case) -> (Vec<usize>, usize) {
        let paths = patterns(paths);
        let entry =
            |path| Entry { hosts: &[], methods: &[], paths: std::slice::from_ref(path), hides: false, reveals: false };
        let (last, others) = paths.split_last().unwrap();
        let router = Router::new(others.iter().map(entry));
        let mut steps = Steps::new(1 << 20);
        (router.covering(&entry(last), case, &mut steps).unwrap(), steps.taken())
    }

    #[test]
    fn what_patterns_cover() {
        let path = |wide: &str, narrow: &str, case| of_paths(&[wide, narrow], case).0 == [0];
        for (wide, narrow) in [
            ("/a/**", "/a/b"),
            ("/a/**", "/a"),
            ("/**", "/**/a"),
            ("/*", "/a*b"),
            ("/*b", "/a*b"),
            ("/**/b/*", "/a/**/b/c*"),
        ] {
            assert!(path(wide, narrow, Case::AsWritten), "{wide} {narrow}");
            assert!(!path(narrow, wide, Case::AsWritten), "{narrow} {wide}");
        }
        assert!(path("/A", "/a", Case::Any) && !path("/A", "/a", Case::AsWritten));
        assert!(!path("/*", "/**", Case::AsWritten) && !path("/a/*", "/b/*", Case::AsWritten));
        assert!(path("/a*b*c", "/a*b*c", Case::AsWritten) && !path("/a*b*c", "/a*c", Case::AsWritten));
        let host = |wide: &str, narrow: &str| {
            let [wide, narrow] = [wide, narrow].map(|pattern| host_patterns(&[pattern]));
            let entry = |hosts| Entry { hosts, methods: &[], paths: &[], hides: false, reveals: false };
            let router = Router::new([entry(&wide)]);
            router.covering(&entry(&narrow), Case::AsWritten, &mut Steps::new(1 << 20)).unwrap() == [0]
        };
        for (wide, narrow) in [("*", "*.a.b"), ("*", "a"), ("*.b", "*.a.b"), ("*.b", "A.B")] {
            assert!(host(wide, narrow) && !host(narrow, wide), "{wide} {narrow}");
        }
        assert!(host("a.b", "A.b") && !host("*.b", "b") && !host("*.b", "*.ab"));
    }

    #[test]
    fn several_entries_cover_one_together() {
        let hosts = host_patterns(&["a", "*.b"]);
        let (one, other) = (patterns(&["/x/**"]), patterns(&["/y"]));
        let both = patterns(&["/x/1", "/y"]);
        let put = [Method::PUT];
        let entry = |hosts, methods, paths| Entry { hosts, methods, paths, hides: false, reveals: false };
        let mut router = Router::new([entry(&hosts[..1], &[], &one), entry(&[], &[], &other)]);
        let last = entry(&hosts, &put, &both);
        let covering = |router: &Router| router.covering(&last, Case::AsWritten, &mut Steps::new(1 << 20)).unwrap();
        assert!(covering(&router).is_empty(), "/x/1 of *.b is free");
        router.add(&entry(&hosts[1..], &put, &one));
        assert_eq!(covering(&router), [0, 1, 2]);
    }

    /// The work depends on the pattern, not on the number of entries.
    #[test]
    fn entries_are_not_compared_with_each_other() {
        let steps = [10, 10_000].map(|count| {
            let mut paths: Vec<String> = (0..count).map(|number| format!("/v1/route{number}/*")).collect();
            paths.push("/v1/route7/a".to_owned());
            let (covering, steps) = of_paths(&paths.iter().map(String::as_str).collect::<Vec<_>>(), Case::AsWritten);
            assert_eq!(covering, [7]);
            steps
        });
        assert_eq!(steps[0], steps[1]);
    }

    proptest! {
        #[test]
        fn an_entry_that_is_covered_is_never_chosen(
            texts in prop::collection::vec("(/(a|b|\\*|a\\*|\\*a|a\\*b|\\*\\*)){1,3}", 2..6), path in "(/(a|b|ab|ba|aba)){0,4}"
        ) {
            let paths = patterns(&texts.iter().map(String::as_str).collect::<Vec<_>>());
            let entry = |path| Entry { hosts: &[], methods: &[], paths: std::slice::from_ref(path), hides: false, reveals: false };
            let (last, others) = paths.split_last().unwrap();
            let mut router = Router::new(others.iter().map(entry));
            let mut steps = Steps::new(1 << 20);
            let covering = router.covering(&entry(last), Case::AsWritten, &mut steps).unwrap();
            router.add(&entry(last));
            let path = if path.is_empty() { "/" } else { &path };
            let asked = Asked { host: &Host::parse("x").unwrap(), method: &Method::GET, path, segments_max: 100 };
            let chosen = router.choose(&asked, OtherCase::Other, &mut steps).unwrap();
            prop_assert!(covering.is_empty() || chosen.is_none_or(|chosen| chosen.place != others.len()), "{texts:?} {path}");
            prop_assert!(!others.contains(last) || !covering.is_empty(), "{texts:?}");
        }
    }
}
