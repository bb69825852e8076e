//! Routes and destinations that no request ever reaches, because one before them takes all that they would take.

use hyper::Method;

use super::{Actions, Destination, OtherCase, Route};
use crate::rules::choice::Case;
use crate::rules::route::{HostPattern, PathPattern};

/// One of those that are asked in turn whether they take a request.
pub(super) struct Turn<'c> {
    /// Where it begins in the file.
    offset: usize,
    /// None means all, as of methods and paths.
    hosts: &'c [HostPattern],
    methods: &'c [Method],
    paths: &'c [PathPattern],
    request: &'c Actions,
    response: &'c Actions,
}

/// One that is never reached.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Unreached {
    pub offset: usize,
    /// Where the one before it begins that takes all its requests.
    pub behind: usize,
    /// Whether that one leaves messages as they are of which this one would hide something.
    pub is_open: bool,
}

impl<'c> Turn<'c> {
    pub(super) fn of_route(offset: usize, route: &'c Route) -> Self {
        let Route { hosts, methods, path, request, response, .. } = route;
        Turn { offset, hosts, methods, paths: std::slice::from_ref(path), request, response }
    }

    pub(super) fn of_destination(offset: usize, destination: &'c Destination) -> Self {
        let Destination { hosts, paths, request, response } = destination;
        Turn { offset, hosts, methods: &[], paths, request, response }
    }

    /// Whether it takes every request that `later` would take.
    fn takes_all_of(&self, later: &Turn<'_>, case: Case) -> bool {
        let is_method = |one: &Method, other: &Method| one.as_str().eq_ignore_ascii_case(other.as_str());
        covers(self.hosts, later.hosts, HostPattern::covers)
            && covers(self.methods, later.methods, is_method)
            && covers(self.paths, later.paths, |one, other| one.covers(other, case))
    }

    fn leaves_open_what(&self, later: &Turn<'_>) -> bool {
        let is_open = |mine: &Actions, its: &Actions| its.hide() && !mine.hide();
        is_open(self.request, later.request) || is_open(self.response, later.response)
    }
}

/// Whether `wide` has all of `narrow`, where none means all.
fn covers<T>(wide: &[T], narrow: &[T], one_covers: impl Fn(&T, &T) -> bool) -> bool {
    let is_covered = |narrow: &T| wide.iter().any(|wide| one_covers(wide, narrow));
    wide.is_empty() || (!narrow.is_empty() && narrow.iter().all(is_covered))
}

/// Those that stand behind one that takes all their requests.
pub(super) fn unreached(turns: &[Turn<'_>], other_case: OtherCase) -> Vec<Unreached> {
    let case = if other_case == OtherCase::Same { Case::Any } else { Case::AsWritten };
    let behind = |(at, later): (usize, &Turn<'_>)| {
        let first = turns[..at].iter().find(|first| first.takes_all_of(later, case))?;
        Some(Unreached { offset: later.offset, behind: first.offset, is_open: first.leaves_open_what(later) })
    };
    turns.iter().enumerate().filter_map(behind).collect()
}
