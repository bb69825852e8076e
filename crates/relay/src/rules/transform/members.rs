//! Refuses documents with members that frameworks read as fields which rules hide in the query or in forms alone, or whose names are
//! paths to hidden values.

use std::ops::ControlFlow;

use leafseal_document::{DocumentError, DocumentLimits, DocumentWalk, Match, Purpose, Selection, WalkProgress};

use super::{BodyKind, MessageRules};
use crate::body::buffer::{BodyBuffer, BudgetShare};
use crate::body::offload::Cost;
use crate::policy::Hidden;
use crate::refusal::Refusal;

const MERGED: &str = "it has a member that a rule hides in forms or in the query alone, or whose name is the path to a hidden value, and \
                      many upstreams read both as one: select it with json too";

/// Bytes that one step walks: some ten microseconds.
const STEP_SIZE: usize = 16 << 10;
/// Matches of one step at most: those of the shortest values.
const MATCHES_MAX: usize = STEP_SIZE / 2;
/// The cost of a walk for each byte, as [`Cost::of_bytes`] counts it.
const WALK_FACTOR: u64 = 16;

/// A search for values that no rule selects, in steps.
pub(crate) struct MemberSearch {
    body: BodyBuffer,
    walk: DocumentWalk,
    batch: Vec<Match>,
    /// Where the values begin that were found, and whether a rule selects them.
    places: Vec<(usize, bool)>,
    /// Where the walk looks for what rules select: the next of these places. `None` while it finds them.
    next: Option<usize>,
    /// Covers the places.
    share: BudgetShare,
}

/// Why a search ended early.
#[derive(Debug)]
pub(crate) enum MemberFault {
    Document(DocumentError),
    NoRoom(Refusal),
}

impl MessageRules<'_> {
    /// Refuses a document, as the client sent it, with such a member that no rule selects with `json`.
    pub(super) async fn refuse_members(
        &self,
        kind: &BodyKind,
        body: BodyBuffer,
        hidden: &Hidden,
    ) -> Result<BodyBuffer, Refusal> {
        let (Some(members), BodyKind::Json | BodyKind::JsonLines) = (&hidden.in_json, kind) else { return Ok(body) };
        let is_lines = *kind == BodyKind::JsonLines;
        let of_fault = |fault| match fault {
            MemberFault::Document(error) => Refusal::of_document(self.direction, error),
            MemberFault::NoRoom(refusal) => refusal,
        };
        let cost = Cost::of_bytes(body.len(), WALK_FACTOR);
        let mut search = MemberSearch::new(body, members, is_lines).map_err(of_fault)?;
        search = self.offload().run_in_slices(cost, search, MemberSearch::step).await.map_err(of_fault)?;
        for selection in hidden.selections.iter() {
            if search.is_covered() {
                break;
            }
            // The cost of filters cannot be derived from the size.
            let cost = if selection.streams() { cost } else { Cost::UNKNOWN };
            search = search.compare(selection, is_lines).map_err(of_fault)?;
            search = self.offload().run_in_slices(cost, search, MemberSearch::step).await.map_err(of_fault)?;
        }
        match search.is_covered() {
            true => Ok(search.body),
            false => Err(Refusal::ambiguous_name(self.direction, MERGED)),
        }
    }
}

impl MemberSearch {
    /// # Errors
    /// If the document is too large, or there is no memory.
    pub(crate) fn new(body: BodyBuffer, members: &Selection, is_lines: bool) -> Result<Self, MemberFault> {
        let (walk, share) = (walk(&body, members, is_lines)?, body.share().another(0).map_err(MemberFault::NoRoom)?);
        Ok(MemberSearch { body, walk, batch: Vec::new(), places: Vec::new(), next: None, share })
    }

    /// The same values, to be compared with those that a rule selects.
    ///
    /// # Errors
    /// If the document is too large.
    pub(crate) fn compare(self, selection: &Selection, is_lines: bool) -> Result<Self, MemberFault> {
        Ok(MemberSearch { walk: walk(&self.body, selection, is_lines)?, next: Some(0), ..self })
    }

    /// Whether rules select everything that was found.
    pub(crate) fn is_covered(&self) -> bool {
        self.places.iter().all(|&(_, is_covered)| is_covered)
    }

    /// Runs one step; breaks at the end of the walk.
    pub(crate) fn step(mut self) -> ControlFlow<Result<Self, MemberFault>, Self> {
        let progress = self.walk.next_batch(self.body.as_ref(), &mut self.batch, MATCHES_MAX, STEP_SIZE);
        for found in self.batch.drain(..) {
            // A walk finds values in their order.
            let Some(next) = &mut self.next else {
                self.places.push((found.start, false));
                continue;
            };
            while self.places.get(*next).is_some_and(|&(start, _)| start < found.start) {
                *next += 1;
            }
            if let Some((_, is_covered)) = self.places.get_mut(*next).filter(|&&mut (start, _)| start == found.start) {
                *is_covered = true;
            }
        }
        if let Err(refusal) = self.share.resize(self.places.capacity() * size_of::<(usize, bool)>()) {
            return ControlFlow::Break(Err(MemberFault::NoRoom(refusal)));
        }
        match progress {
            Ok(WalkProgress::More) => ControlFlow::Continue(self),
            Ok(WalkProgress::Done) => ControlFlow::Break(Ok(self)),
            Err(error) => ControlFlow::Break(Err(MemberFault::Document(error))),
        }
    }
}

fn walk(body: &BodyBuffer, selection: &Selection, is_lines: bool) -> Result<DocumentWalk, MemberFault> {
    let walk = DocumentWalk::new(body.len(), selection, Purpose::Encrypt, &DocumentLimits::default());
    let walk = walk.map_err(MemberFault::Document)?;
    Ok(if is_lines { walk.lines() } else { walk })
}
