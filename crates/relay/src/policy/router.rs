//! Finds the first route or destination that takes a request, without comparing the request with each of them.
//!
//! Entries are indexed by host, then by the segments of their path, then by method. A path is followed through the index segment by
//! segment; at each, the index holds the patterns that the segments so far match. Where patterns differ in literal segments, prefixes or
//! suffixes, the work does not depend on their number. It does only for patterns with text between two `*` of a segment, and for
//! patterns that match the same beginning of a path in different ways; `Steps` bounds both.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;

use hyper::Method;
use leafseal_errors::ErrorCode;

use crate::host::Host;
use crate::policy::choice::{Case, OtherCase};
use crate::policy::path::{PathError, RequestPath, Steps};
use crate::policy::route::{HostPattern, PathPattern};
use crate::refusal::Refusal;

mod cover;
pub(crate) mod fuzzing;
mod trie;

use trie::Trie;

/// An entry to be indexed. Empty hosts, methods or paths mean all.
pub(crate) struct Entry<'e> {
    pub(crate) hosts: &'e [HostPattern],
    pub(crate) methods: &'e [Method],
    pub(crate) paths: &'e [PathPattern],
    /// Whether its rules hide something.
    pub(crate) hides: bool,
    /// Whether its rules reveal something.
    pub(crate) reveals: bool,
}

/// The request to find an entry for.
pub(crate) struct Asked<'a> {
    pub(crate) host: &'a Host,
    pub(crate) method: &'a Method,
    /// The path of its target.
    pub(crate) path: &'a str,
    /// `limits.path_segments_max`.
    pub(crate) segments_max: usize,
}

/// Why no entry is chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RouteError {
    /// The path cannot be compared with the entries.
    Path(PathError),
    /// It is the path of an entry that hides something only when case is ignored.
    OtherCase,
    /// Some servers read it as that of another entry, and one of the two hides something.
    OtherReading,
}

impl From<PathError> for RouteError {
    fn from(error: PathError) -> Self {
        RouteError::Path(error)
    }
}

impl From<RouteError> for Refusal {
    fn from(error: RouteError) -> Self {
        let detail = match error {
            RouteError::Path(error @ PathError::TooManySegments(_)) => {
                return Refusal::new(ErrorCode::InvalidRequest, error.to_string());
            }
            RouteError::Path(error @ PathError::TooManySteps(_)) => {
                return Refusal::new(ErrorCode::PathTooLong, error.to_string());
            }
            RouteError::OtherCase => "the path matches a route whose rules hide something only when case is ignored",
            RouteError::OtherReading => {
                "some servers read the path as that of another route, and rules of one of the two hide or reveal something: send it \
                 without \";\", empty or dot segments, backslashes, and escaped slashes, percent signs or control characters"
            }
        };
        Refusal::new(ErrorCode::AmbiguousPath, detail)
    }
}

/// The index of a listener's routes or destinations. An entry is named by its place in their order.
#[derive(Default)]
pub(crate) struct Router {
    groups: Vec<Group>,
    /// The groups of hosts, as places in `groups`.
    exact: HashMap<Host, usize>,
    /// Those of the names below one, by its suffix, and the lengths of these suffixes.
    below: HashMap<Box<str>, usize>,
    below_lengths: Vec<usize>,
    any: Option<usize>,
    hides: Vec<bool>,
    reveals: Vec<bool>,
}

/// The entries of one host pattern.
#[derive(Default)]
struct Group {
    /// The first entry for every path, and the first for some.
    every_path: FirstOf,
    some_paths: FirstOf,
    /// Whether an entry hides or reveals something.
    is_sensitive: bool,
    as_written: Trie,
    folded: Trie,
}

/// The first entry for each method.
#[derive(Default)]
struct FirstOf {
    of_all: Option<usize>,
    /// By method in upper case, sorted.
    of_one: Vec<(Box<str>, usize)>,
}

impl FirstOf {
    /// Adds an entry; those before it have been added.
    fn add(&mut self, methods: &[Method], entry: usize) {
        if methods.is_empty() {
            self.of_all.get_or_insert(entry);
        }
        for method in methods {
            let method = method.as_str().to_ascii_uppercase();
            if let Err(place) = self.of_one.binary_search_by(|(known, _)| (**known).cmp(&*method)) {
                self.of_one.insert(place, (method.into(), entry));
            }
        }
    }

    /// The first entry for a method in upper case, or for every method.
    fn get(&self, method: Option<&str>) -> Option<usize> {
        let place = method.and_then(|method| self.of_one.binary_search_by(|(known, _)| (**known).cmp(method)).ok());
        first(self.of_all, place.map(|place| self.of_one[place].1))
    }
}

/// The lower of two places.
fn first(one: Option<usize>, other: Option<usize>) -> Option<usize> {
    one.into_iter().chain(other).min()
}

/// The entry that takes a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Choice {
    /// Its place.
    pub(crate) place: usize,
    /// Whether no server reads the path as that of another entry, if this one reveals something and hides nothing. Otherwise its rules must
    /// not be applied: they would reveal it to another part of the upstream.
    pub(crate) is_certain: bool,
}

impl Router {
    /// Indexes entries in the order in which they apply.
    pub(crate) fn new<'e>(entries: impl IntoIterator<Item = Entry<'e>>) -> Self {
        let mut router = Router::default();
        entries.into_iter().for_each(|entry| router.add(&entry));
        router
    }

    /// Adds an entry behind all others.
    pub(crate) fn add(&mut self, entry: &Entry<'_>) {
        let place = self.hides.len();
        self.hides.push(entry.hides);
        self.reveals.push(entry.reveals);
        for host in hosts(entry) {
            self.group_of(host).add(place, entry);
        }
    }

    fn group_of(&mut self, host: &HostPattern) -> &mut Group {
        let next = self.groups.len();
        let place = match host {
            HostPattern::Any => *self.any.get_or_insert(next),
            HostPattern::Exactly(host) => *self.exact.entry(host.clone()).or_insert(next),
            HostPattern::Below(suffix) => {
                if let Err(place) = self.below_lengths.binary_search(&suffix.len()) {
                    self.below_lengths.insert(place, suffix.len());
                }
                *self.below.entry(suffix.clone()).or_insert(next)
            }
        };
        if place == next {
            self.groups.push(Group::default());
        }
        &mut self.groups[place]
    }

    /// The groups whose pattern matches the host.
    fn groups(&self, host: &Host) -> Vec<&Group> {
        let mut places: Vec<usize> = self.any.into_iter().chain(self.exact.get(host).copied()).collect();
        if let Host::Name(name) = host {
            let ending = |length: &usize| name.get(name.len().checked_sub(*length).filter(|&at| at > 0)?..);
            places.extend(self.below_lengths.iter().filter_map(ending).filter_map(|suffix| self.below.get(suffix)));
        }
        places.into_iter().map(|place| &self.groups[place]).collect()
    }

    /// Whether an entry is for this host.
    pub(crate) fn has_host(&self, host: &Host) -> bool {
        !self.groups(host).is_empty()
    }

    /// The first entry that takes the request.
    ///
    /// The path is read only as far as the answer depends on it: not at all if the first entry for the host and method takes every path,
    /// and in the relay's own way if no entry for the host hides or reveals something.
    ///
    /// # Errors
    /// A path that leads some servers to another entry that hides something is refused, and one that leads them away from an entry that
    /// hides and reveals something. So is a path that would take too long.
    pub(crate) fn choose(
        &self,
        asked: &Asked<'_>,
        other_case: OtherCase,
        steps: &mut Steps,
    ) -> Result<Option<Choice>, RouteError> {
        let certain = |place| Choice { place, is_certain: true };
        let groups = self.groups(asked.host);
        let method = upper_case(asked.method);
        let first_of =
            |of: fn(&Group) -> &FirstOf| groups.iter().filter_map(|group| of(group).get(Some(&method))).min();
        let (every, some) = (first_of(|group| &group.every_path), first_of(|group| &group.some_paths));
        if some.is_none_or(|some| every.is_some_and(|every| every < some)) {
            return Ok(every.map(certain));
        }
        let search = RouteSearch { groups: &groups, method: &method };
        let own = RequestPath::parse(asked.path, asked.segments_max, steps)?;
        if !groups.iter().any(|group| group.is_sensitive) {
            let case = if other_case == OtherCase::Same { Case::Any } else { Case::AsWritten };
            return Ok(search.first(case, &own, steps)?.map(certain));
        }
        let mut is_certain = true;
        let found = self.choose_as_read(&search, &own, other_case, steps)?;
        for reading in RequestPath::other_readings(asked.path, asked.segments_max, steps)? {
            let other = self.choose_as_read(&search, &reading.path, other_case, steps)?;
            if other == found {
                continue;
            }
            let is_of = |entry: Option<usize>, these: &[bool]| entry.is_some_and(|place| these[place]);
            let leads_away = reading.is_unusual && is_of(found, &self.reveals);
            if is_of(other, &self.hides) || leads_away && is_of(found, &self.hides) {
                return Err(RouteError::OtherReading);
            }
            is_certain &= !leads_away;
        }
        Ok(found.map(|place| Choice { place, is_certain }))
    }

    /// The first entry that takes the path as one server reads it.
    fn choose_as_read(
        &self,
        search: &RouteSearch<'_>,
        path: &RequestPath,
        other_case: OtherCase,
        steps: &mut Steps,
    ) -> Result<Option<usize>, RouteError> {
        let like = match other_case {
            OtherCase::Other => None,
            OtherCase::Same => return Ok(search.first(Case::Any, path, steps)?),
            OtherCase::Refuse => search.first(Case::Any, path, steps)?,
        };
        let found = search.first(Case::AsWritten, path, steps)?;
        match like {
            Some(like) if Some(like) != found && self.hides[like] => Err(RouteError::OtherCase),
            _ => Ok(found),
        }
    }
}

/// Its size: the order in a hash map is no content.
impl fmt::Debug for Router {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Router").field("entries", &self.hides.len()).finish_non_exhaustive()
    }
}

/// The host patterns of an entry.
fn hosts<'e>(entry: &Entry<'e>) -> &'e [HostPattern] {
    if entry.hosts.is_empty() { &[HostPattern::Any] } else { entry.hosts }
}

impl Group {
    fn trie(&self, case: Case) -> &Trie {
        match case {
            Case::AsWritten => &self.as_written,
            Case::Any => &self.folded,
        }
    }

    fn add(&mut self, place: usize, entry: &Entry<'_>) {
        self.is_sensitive |= entry.hides || entry.reveals;
        if entry.paths.is_empty() || entry.paths.iter().any(PathPattern::is_everything) {
            self.every_path.add(entry.methods, place);
        } else {
            self.some_paths.add(entry.methods, place);
        }
        let everything = [PathPattern::everything()];
        let paths = if entry.paths.is_empty() { &everything[..] } else { entry.paths };
        for path in paths {
            self.as_written.add(path.segments(Case::AsWritten), entry.methods, place);
            self.folded.add(path.segments(Case::Any), entry.methods, place);
        }
    }
}

/// What is compared beside the path.
struct RouteSearch<'s> {
    groups: &'s [&'s Group],
    /// In upper case: some upstreams ignore the case of methods.
    method: &'s str,
}

impl RouteSearch<'_> {
    fn first(&self, case: Case, path: &RequestPath, steps: &mut Steps) -> Result<Option<usize>, PathError> {
        let path = path.in_case(case);
        let mut found = None;
        for group in self.groups {
            found = group.trie(case).first(path.segments().map(Some), Some(self.method), found, steps)?;
        }
        Ok(found)
    }
}

fn upper_case(method: &Method) -> Cow<'_, str> {
    let method = method.as_str();
    match method.bytes().any(|byte| byte.is_ascii_lowercase()) {
        true => Cow::Owned(method.to_ascii_uppercase()),
        false => Cow::Borrowed(method),
    }
}

#[cfg(test)]
mod tests;
