//! Finds routes and destinations that no request reaches, because earlier ones match all their requests.

use hyper::Method;

use crate::policy::choice::Case;
use crate::policy::path::Steps;
use crate::policy::route::{HostPattern, PathPattern};
use crate::policy::router::{Entry, Router};
use crate::policy::{Actions, Destination, OtherCase, Route};

/// The steps of looking for those that cover one route; without a result within them it counts as reachable.
const STEPS_MAX: usize = 1 << 18;

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
    /// The offsets of the earlier ones that match all its requests, at least one.
    pub behind: Vec<usize>,
    /// Whether one of them leaves values in the clear that this one would hide.
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

    fn entry(&self) -> Entry<'c> {
        Entry { hosts: self.hosts, methods: self.methods, paths: self.paths, hides: false, reveals: false }
    }

    fn reveals_values_of(&self, later: &Candidate<'_>) -> bool {
        let reveals = |mine: &Actions, its: &Actions| its.hide() && !mine.hide();
        reveals(self.request, later.request) || reveals(self.response, later.response)
    }
}

/// Those behind earlier ones that match all their requests, found through an index of these.
pub(super) fn find_unreachable(candidates: &[Candidate<'_>], other_case: OtherCase) -> Vec<Unreachable> {
    let case = if other_case == OtherCase::Same { Case::Any } else { Case::AsWritten };
    let (mut earlier, mut unreachable) = (Router::default(), Vec::new());
    for later in candidates {
        let entry = later.entry();
        let covering = earlier.covering(&entry, case, &mut Steps::new(STEPS_MAX)).unwrap_or_default();
        if !covering.is_empty() {
            let behind = covering.iter().map(|&place| candidates[place].offset).collect();
            let reveals = covering.iter().any(|&place| candidates[place].reveals_values_of(later));
            unreachable.push(Unreachable { offset: later.offset, behind, reveals });
        }
        earlier.add(&entry);
    }
    unreachable
}
