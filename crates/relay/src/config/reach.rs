//! Finds routes and destinations that no request reaches, because an earlier one matches all their requests.

use hyper::Method;

use super::{Actions, Destination, OtherCase, Route};
use crate::rules::choice::Case;
use crate::rules::route::{HostPattern, PathPattern};

/// A route or destination, as the relay tries them in turn.
pub(super) struct Candidate<'c> {
    /// Its offset in the file.
    offset: usize,
    /// Empty means all, as for methods and paths.
    hosts: &'c [HostPattern],
    methods: &'c [Method],
    paths: &'c [PathPattern],
    request: &'c Actions,
    response: &'c Actions,
}

/// An unreachable route or destination.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Unreachable {
    pub offset: usize,
    /// The offset of the earlier one that matches all its requests.
    pub behind: usize,
    /// Whether the earlier one leaves values in the clear that this one would hide.
    pub reveals: bool,
}

impl<'c> Candidate<'c> {
    pub(super) fn of_route(offset: usize, route: &'c Route) -> Self {
        let Route { hosts, methods, path, request, response, .. } = route;
        Candidate { offset, hosts, methods, paths: std::slice::from_ref(path), request, response }
    }

    pub(super) fn of_destination(offset: usize, destination: &'c Destination) -> Self {
        let Destination { hosts, paths, request, response } = destination;
        Candidate { offset, hosts, methods: &[], paths, request, response }
    }

    /// Whether it matches every request that `later` matches.
    fn matches_all_of(&self, later: &Candidate<'_>, case: Case) -> bool {
        let is_method = |one: &Method, other: &Method| one.as_str().eq_ignore_ascii_case(other.as_str());
        covers(self.hosts, later.hosts, HostPattern::covers)
            && covers(self.methods, later.methods, is_method)
            && covers(self.paths, later.paths, |one, other| one.covers(other, case))
    }

    fn reveals_values_of(&self, later: &Candidate<'_>) -> bool {
        let reveals = |mine: &Actions, its: &Actions| its.hide() && !mine.hide();
        reveals(self.request, later.request) || reveals(self.response, later.response)
    }
}

/// Whether `wide` covers `narrow`, where empty means all.
fn covers<T>(wide: &[T], narrow: &[T], one_covers: impl Fn(&T, &T) -> bool) -> bool {
    let is_covered = |narrow: &T| wide.iter().any(|wide| one_covers(wide, narrow));
    wide.is_empty() || (!narrow.is_empty() && narrow.iter().all(is_covered))
}

/// Those behind an earlier one that matches all their requests.
pub(super) fn find_unreachable(candidates: &[Candidate<'_>], other_case: OtherCase) -> Vec<Unreachable> {
    let case = if other_case == OtherCase::Same { Case::Any } else { Case::AsWritten };
    let behind = |(at, later): (usize, &Candidate<'_>)| {
        let first = candidates[..at].iter().find(|first| first.matches_all_of(later, case))?;
        Some(Unreachable { offset: later.offset, behind: first.offset, reveals: first.reveals_values_of(later) })
    };
    candidates.iter().enumerate().filter_map(behind).collect()
}
